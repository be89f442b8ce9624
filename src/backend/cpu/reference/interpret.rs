//! Runs a graph node by node with the reference kernels, without the compiler: the oracle of the tests.

use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::{Graph, OperandId, Source};
use std::collections::HashMap;

/// Computes the outputs of a graph, in its order, from the bytes of its inputs, in its order.
///
/// # Panics
/// When the number of inputs or of their bytes is not that of the graph.
pub fn interpret(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    assert_eq!(inputs.len(), graph.inputs.len());
    let shapes: Vec<Vec<usize>> =
        graph.operands.iter().map(|operand| operand.descriptor.shape.iter().map(|&size| size as usize).collect()).collect();
    // Eight bytes apart, so that every data type is aligned.
    let mut values: HashMap<OperandId, Vec<u64>> = HashMap::new();
    let words = |bytes: &[u8]| {
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<_, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        words
    };
    for ((_, id), bytes) in graph.inputs.iter().zip(inputs) {
        assert_eq!(bytes.len(), graph.descriptor(*id).byte_length());
        values.insert(*id, words(bytes));
    }
    for (position, operand) in graph.operands.iter().enumerate() {
        if let Source::Constant(bytes) = &operand.source {
            values.insert(OperandId(position as u32), words(bytes.as_slice()));
        }
    }
    let length = |id: OperandId| graph.descriptor(id).byte_length();
    for node in &graph.nodes {
        let mut op = node.op.clone();
        let mut operands = Vec::new();
        op.visit_mut(&mut |id| {
            operands.push(*id);
            *id = OperandId(operands.len() as u32 - 1);
        });
        let mut results: Vec<Vec<u64>> = node.outputs.iter().map(|&id| vec![0; length(id).div_ceil(8)]).collect();
        let views: Vec<View<'_>> = operands
            .iter()
            .map(|id| {
                let bytes = &bytemuck::cast_slice(&values[id])[..length(*id)];
                View::new(graph.descriptor(*id).data_type, &shapes[id.0 as usize], bytes)
            })
            .collect();
        let mut outputs: Vec<ViewMut<'_>> = node
            .outputs
            .iter()
            .zip(&mut results)
            .map(|(id, words)| ViewMut {
                data_type: graph.descriptor(*id).data_type,
                shape: &shapes[id.0 as usize],
                bytes: &mut bytemuck::cast_slice_mut(words)[..length(*id)],
            })
            .collect();
        super::execute(&op, &mut Arguments::new(&views, &mut outputs));
        drop((views, outputs));
        values.extend(node.outputs.iter().copied().zip(results));
    }
    graph.outputs.iter().map(|(_, id)| bytemuck::cast_slice(&values[id])[..length(*id)].to_vec()).collect()
}
