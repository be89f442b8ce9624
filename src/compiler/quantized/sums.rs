//! Convolutions of integers that were divided along their channels, since float32 adds integers up exactly only to 2²⁴, become whole
//! again where they are computed with integers.

use super::products::{Values, is_unit};
use crate::compiler::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{BinaryKind, Cast};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::movement::Slice;
use crate::graph::{DataType, Graph, Node, Op, OperandId};

/// A sum of int32 casts of convolutions of parts: these, in order.
type Parts = Vec<usize>;
/// float32 sums 258 products of bytes exactly, and 32 bits hold the sum of [`DEEPEST`](super::products::DEEPEST): of parts with half of
/// that or more, as they are when they are not made smaller than they must be, there are 256 at most.
const MOST_PARTS: usize = 256;

pub fn sums(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let Some(least) = compilation.preferences.integers.filter(|_| graph.nodes.iter().any(|node| is_sum(graph, node))) else {
        return Ok(());
    };
    let counts = counts(graph, compilation)?;
    // The last sum comes first: it has all parts.
    for position in compilation.each((0..graph.nodes.len()).rev()) {
        let position = position?;
        let node = &graph.nodes[position];
        if counts[position] == 0 {
            continue;
        }
        let parts = collect(graph, node, compilation);
        let Some(whole) = whole(graph, &parts) else { continue };
        let last = *parts.last().expect("a sum has parts");
        let node = Node { op: whole.clone().into(), ..graph.nodes[last].clone() };
        let found = Values::new(graph, least).product(&node);
        if found.is_some_and(|both| both.iter().all(|&node| is_unit(graph, node))) {
            let input = graph.nodes[last].outputs[0];
            graph.nodes[last].op = whole.into();
            graph.nodes[position].op = Cast { input, data_type: DataType::Int32 }.into();
        }
    }
    Ok(())
}

fn is_sum(graph: &Graph, node: &Node) -> bool {
    let Op::Binary(op) = &node.op else { return false };
    op.kind == BinaryKind::Add && graph.descriptor(op.a).data_type == DataType::Int32
}

/// The convolution that is cast to a part of a sum.
fn part(graph: &Graph, id: OperandId) -> Option<(usize, OperandId)> {
    let (_, Node { op: Op::Cast(cast), .. }) = graph.maker(id)? else { return None };
    let (number, Node { op: Op::Conv2d(_), .. }) = graph.maker(cast.input)? else { return None };
    (cast.data_type == DataType::Int32).then_some((number, cast.input))
}

/// By node: of how many convolutions it is the sum, if there is nothing else in it and nobody else needs them; otherwise 0.
fn counts(graph: &Graph, compilation: &Compilation<'_>) -> Result<Vec<usize>> {
    let uses = graph.uses();
    let is_own = |id: OperandId| uses[id.0 as usize] == 1;
    let mut counts = vec![0; graph.nodes.len()];
    for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        let Op::Binary(op) = &node.op else { continue };
        if !is_sum(graph, node) {
            continue;
        }
        let [a, b] = [op.a, op.b].map(|id| match part(graph, id) {
            _ if !is_own(id) => 0,
            Some((_, product)) => usize::from(is_own(product)),
            None => graph.maker(id).map_or(0, |(node, _)| counts[node]),
        });
        if a > 0 && b > 0 && a + b <= MOST_PARTS {
            counts[position] = a + b;
        }
    }
    Ok(counts)
}

/// The convolutions of such a sum.
fn collect(graph: &Graph, sum: &Node, compilation: &Compilation<'_>) -> Parts {
    let (mut parts, mut pending) = (Parts::new(), vec![sum]);
    while let Some(node) = pending.pop() {
        compilation.count();
        match &node.op {
            Op::Binary(op) => pending.extend([op.b, op.a].iter().filter_map(|&id| graph.maker(id)).map(|(_, node)| node)),
            _ => parts.extend(part(graph, node.outputs[0]).map(|(number, _)| number)),
        }
    }
    parts
}

/// The convolution whose parts along the channels, one after the other, these are.
fn whole(graph: &Graph, parts: &[usize]) -> Option<Conv2d> {
    let mut found: Option<Conv2d> = None;
    let mut channels = 0;
    for &part in parts {
        let Op::Conv2d(op) = &graph.nodes[part].op else { return None };
        let is_usual = op.input_layout == InputOperandLayout::Nchw && op.filter_layout == Conv2dFilterOperandLayout::Oihw;
        if !is_usual || op.groups != 1 || op.bias.is_some() {
            return None;
        }
        let (input, filter) = (part_of(graph, op.input, 1, channels)?, part_of(graph, op.filter, 1, channels)?);
        let own = Conv2d { input, filter, ..op.clone() };
        if *found.get_or_insert_with(|| own.clone()) != own {
            return None;
        }
        channels += graph.descriptor(op.filter).shape[1];
    }
    let found = found?;
    (graph.descriptor(found.filter).shape[1] == channels).then_some(found)
}

/// What an operand is a part of, from there on along an axis.
fn part_of(graph: &Graph, id: OperandId, axis: usize, start: u32) -> Option<OperandId> {
    let (_, Node { op: Op::Slice(Slice { input, starts, sizes, strides }), .. }) = graph.maker(id)? else { return None };
    let shape = &graph.descriptor(*input).shape;
    let is_whole = |i: usize| i == axis || starts[i] == 0 && sizes[i] == shape[i];
    let steps = strides.as_ref().is_none_or(|strides| strides.iter().all(|&stride| stride == 1));
    ((0..shape.len()).all(is_whole) && starts[axis] == start && steps).then_some(*input)
}
