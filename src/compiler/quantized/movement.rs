//! Moves integers where numbers were moved: the reshape (or, of a constant, the transposition) of what is dequantized becomes
//! what is dequantized of the reshape, so that products find their operands dequantized right before them.

use super::products::{constants, dequantized};
use crate::compiler::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::ops::movement::{Reshape, Transpose};
use crate::graph::{Graph, Op, OperandId};

pub fn movement(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    if !graph.nodes.iter().any(|node| matches!(node.op, Op::DequantizeLinear(_))) {
        return Ok(());
    }
    let (constant, weighed) = (constants(graph), weighed(graph));
    graph.rewrite(compilation, |graph, mut node| {
        let output = node.outputs[0];
        let (input, is_reshape) = match &node.op {
            Op::Reshape(op) => (op.input, true),
            Op::Transpose(op) => (op.input, false),
            _ => return Ok(node),
        };
        let is_known = constant.get(input.0 as usize).is_some_and(|&known| known);
        let is_wanted = weighed[output.0 as usize] && (is_known || is_reshape);
        if is_wanted && let Some(op) = moved(graph, &node.op, input, output) {
            node.op = op.into();
        }
        Ok(node)
    })
}

/// By operand: whether a product with a constant has it as an operand, as it is or moved.
fn weighed(graph: &Graph) -> Vec<bool> {
    let constant = constants(graph);
    let mut weighed = vec![false; graph.operands.len()];
    for node in graph.nodes.iter().rev() {
        let operands = match &node.op {
            Op::Matmul(op) => [op.a, op.b],
            Op::Gemm(op) => [op.a, op.b],
            Op::Conv2d(op) => [op.input, op.filter],
            Op::Reshape(Reshape { input, .. }) | Op::Transpose(Transpose { input, .. }) => {
                weighed[input.0 as usize] |= weighed[node.outputs[0].0 as usize];
                continue;
            }
            _ => continue,
        };
        if constant[operands[1].0 as usize] {
            operands.iter().for_each(|id| weighed[id.0 as usize] = true);
        }
    }
    weighed
}

/// What dequantizes the moved integers, with nodes for moving them.
fn moved(graph: &mut Graph, op: &Op, input: OperandId, output: OperandId) -> Option<DequantizeLinear> {
    let &DequantizeLinear { input: integers, scale, zero_point } = dequantized(graph, input)?.1;
    let shape = graph.descriptor(output).shape.clone();
    let before = graph.descriptor(input).shape.clone();
    let blocks = graph.descriptor(scale).shape.clone();
    if blocks.len() != before.len() {
        return None;
    }
    let of_blocks: Op = match op {
        _ if graph.is_single(scale) => Reshape { input: scale, new_shape: vec![1; shape.len()] }.into(),
        Op::Transpose(op) => Transpose { input: scale, permutation: op.permutation.clone() }.into(),
        _ => Reshape { input: scale, new_shape: along(&blocks, &before, &shape)? }.into(),
    };
    let shape_of_blocks: Vec<u32> = match &of_blocks {
        Op::Reshape(op) => op.new_shape.clone(),
        _ => {
            let Op::Transpose(op) = op else { return None };
            let rank = blocks.len();
            (0..rank).map(|i| blocks[op.permutation.as_ref().map_or(rank - 1 - i, |order| order[i] as usize)]).collect()
        }
    };
    let mut push_moved = |op: &Op, of: OperandId, shape: &[u32]| {
        let mut op = op.clone();
        op.visit_mut(&mut |id| *id = of);
        graph.insert_shaped(op, of, shape)
    };
    let input = push_moved(op, integers, &shape);
    let scale = push_moved(&of_blocks, scale, &shape_of_blocks);
    let zero_point = push_moved(&of_blocks, zero_point, &shape_of_blocks);
    Some(DequantizeLinear { input, scale, zero_point })
}

/// The shape of scales along one axis, when a reshape leaves that axis alone.
fn along(blocks: &[u32], before: &[u32], after: &[u32]) -> Option<Vec<u32>> {
    let mut axes = (0..blocks.len()).filter(|&i| blocks[i] != 1);
    let (axis, None) = (axes.next()?, axes.next()) else { return None };
    let size = before[axis];
    let ahead: u64 = before[..axis].iter().map(|&size| u64::from(size)).product();
    let mut so_far = 1u64;
    for (i, &candidate) in after.iter().enumerate() {
        if so_far == ahead && candidate == size && blocks[axis] == size {
            let mut shape = vec![1; after.len()];
            shape[i] = size;
            return Some(shape);
        }
        so_far *= u64::from(candidate);
    }
    None
}
