//! Products of integers that were divided along their depth, since float32 adds integers up exactly only to 2²⁴, become whole
//! again where they are computed with integers.

use super::{Values, is_unit, maker};
use crate::graph::ops::elementwise::{BinaryKind, Cast};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::Slice;
use crate::graph::{DataType, Graph, Node, Op, OperandId};

/// A sum of int32 casts of products of parts: the products, in order.
type Parts = Vec<usize>;

pub fn sums(graph: &mut Graph) {
    if !graph.nodes.iter().any(|node| is_sum(graph, node)) {
        return;
    }
    let uses = graph.uses();
    // The last sum comes first: it has all parts.
    for position in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[position];
        if !is_sum(graph, node) {
            continue;
        }
        let mut parts = Parts::new();
        let Some(()) = collect(graph, &uses, node, &mut parts) else { continue };
        let Some(whole) = whole(graph, &parts) else { continue };
        let last = *parts.last().expect("a sum has parts");
        let node = Node { op: whole.clone().into(), ..graph.nodes[last].clone() };
        let found = Values::new(graph).product(&node);
        if found.is_some_and(|both| both.iter().all(|&node| is_unit(graph, node))) {
            let input = graph.nodes[last].outputs[0];
            graph.nodes[last].op = whole.into();
            graph.nodes[position].op = Cast { input, data_type: DataType::Int32 }.into();
        }
    }
}

fn is_sum(graph: &Graph, node: &Node) -> bool {
    let Op::Binary(op) = &node.op else { return false };
    op.kind == BinaryKind::Add && graph.descriptor(op.a).data_type == DataType::Int32
}

/// Finds the products of a sum, if there is nothing else in it and nobody else needs them.
fn collect(graph: &Graph, uses: &[usize], sum: &Node, parts: &mut Parts) -> Option<()> {
    let Op::Binary(op) = &sum.op else { return None };
    for id in [op.a, op.b] {
        let (_, node) = maker(graph, id).filter(|_| uses[id.0 as usize] == 1)?;
        match &node.op {
            Op::Cast(cast) if cast.data_type == DataType::Int32 && uses[cast.input.0 as usize] == 1 => {
                let (number, Node { op: Op::Matmul(_), .. }) = maker(graph, cast.input)? else { return None };
                parts.push(number);
            }
            _ if is_sum(graph, node) => collect(graph, uses, node, parts)?,
            _ => return None,
        }
    }
    Some(())
}

/// The product whose parts along the depth, one after the other, these are.
fn whole(graph: &Graph, parts: &[usize]) -> Option<Matmul> {
    let mut found: Option<Matmul> = None;
    let mut depth = 0;
    for &part in parts {
        let Op::Matmul(op) = &graph.nodes[part].op else { return None };
        let rank = |id: OperandId| graph.descriptor(id).shape.len();
        let (a, b) = (part_of(graph, op.a, rank(op.a) - 1, depth)?, part_of(graph, op.b, rank(op.b) - 2, depth)?);
        let both = found.get_or_insert(Matmul { a, b });
        if both.a != a || both.b != b {
            return None;
        }
        depth += graph.descriptor(op.a).shape.last()?;
    }
    let found = found?;
    (graph.descriptor(found.a).shape.last() == Some(&depth)).then_some(found)
}

/// What an operand is a part of, from there on along an axis.
fn part_of(graph: &Graph, id: OperandId, axis: usize, start: u32) -> Option<OperandId> {
    let (_, Node { op: Op::Slice(Slice { input, starts, sizes, strides }), .. }) = maker(graph, id)? else { return None };
    let shape = &graph.descriptor(*input).shape;
    let is_whole = |i: usize| i == axis || starts[i] == 0 && sizes[i] == shape[i];
    let steps = strides.as_ref().is_none_or(|strides| strides.iter().all(|&stride| stride == 1));
    ((0..shape.len()).all(is_whole) && starts[axis] == start && steps).then_some(*input)
}
