//! What the tests of kernels share.

use super::interpret;
use crate::backend::cpu::element::Element;
use crate::graph::attribute::Value;
use crate::graph::ops::operator;
use crate::graph::{Descriptor, GraphBuilder, Limits};
use std::sync::Arc;

/// A tensor that owns its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub descriptor: Descriptor,
    pub bytes: Vec<u8>,
}

impl Tensor {
    pub fn of<T: Element>(shape: &[u32], elements: impl IntoIterator<Item = T>) -> Tensor {
        let elements: Vec<T> = elements.into_iter().collect();
        let descriptor = Descriptor::new(T::DATA_TYPE, shape.iter().copied());
        assert_eq!(descriptor.element_count(), elements.len());
        Tensor { descriptor, bytes: bytemuck::cast_slice(&elements).to_vec() }
    }

    pub fn elements<T: Element>(&self) -> Vec<T> {
        assert_eq!(T::DATA_TYPE, self.descriptor.data_type);
        self.bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
    }
}

/// The outputs of an operator, applied to inputs that values name by their positions. The values are in the order of the
/// operator's row; trailing ones may be left out.
pub fn run(name: &str, inputs: &[Tensor], values: Vec<Value>) -> Vec<Tensor> {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    for (i, input) in inputs.iter().enumerate() {
        builder.input(&format!("input {i}"), input.descriptor.clone()).unwrap();
    }
    let row = operator(name).expect("the operator is in the table");
    let outputs = builder.apply(row, values, "").unwrap().to_vec();
    let named = outputs.iter().enumerate().map(|(i, &id)| (format!("output {i}"), id)).collect();
    let graph = builder.build(named).unwrap();
    // What the operator does not read is no input of the graph.
    let bytes: Vec<&[u8]> = graph
        .inputs
        .iter()
        .map(|(name, _)| {
            let position: usize = name["input ".len()..].parse().unwrap();
            &inputs[position].bytes[..]
        })
        .collect();
    let results = interpret(&graph, &bytes);
    let descriptors = graph.outputs.iter().map(|(_, id)| graph.descriptor(*id).clone());
    descriptors.zip(results).map(|(descriptor, bytes)| Tensor { descriptor, bytes }).collect()
}
