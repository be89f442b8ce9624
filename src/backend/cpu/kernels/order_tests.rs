//! Attention with its transpositions, which products do themselves, against the same graph where they are steps.

use super::tests::numbers;
use crate::backend::cpu::{Cpu, Storage};
use crate::backend::{Backend, Bindings};
use crate::compiler::{Fusing, Preferences, compile};
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::Transpose;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, Descriptor, Graph, GraphBuilder, Limits, Number, OperandId};
use crate::memory::Bytes;
use crate::timeline::Done;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// softmax(q kᵀ / 2) v for heads that lie between queries and their elements.
fn attention(queries: u32, keys: u32) -> Graph {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut input = |name: &str, shape: [u32; 4]| builder.input(name, Descriptor::new(DataType::Float32, shape)).unwrap();
    let (q, k) = (input("q", [2, queries, 3, 8]), input("k", [2, keys, 3, 8]));
    // One head's values serve all.
    let v = input("v", [2, keys, 1, 5]);
    let transpose = |builder: &mut GraphBuilder, input: OperandId, permutation: [u32; 4]| {
        builder.push_op(Transpose { input, permutation: Some(permutation.to_vec()) }, "").unwrap()[0]
    };
    let q = transpose(&mut builder, q, [0, 2, 1, 3]);
    let k = transpose(&mut builder, k, [0, 2, 3, 1]);
    let v = transpose(&mut builder, v, [0, 2, 1, 3]);
    let scores = builder.push_op(Matmul { a: q, b: k }, "").unwrap()[0];
    let half = builder.scalar(DataType::Float32, Number::Double(0.5)).unwrap();
    let scores = builder.push_op(Binary { kind: BinaryKind::Mul, a: scores, b: half }, "").unwrap()[0];
    let weights = builder.push_op(Softmax { input: scores, axis: 3 }, "").unwrap()[0];
    let sums = builder.push_op(Matmul { a: weights, b: v }, "").unwrap()[0];
    let output = transpose(&mut builder, sums, [0, 2, 1, 3]);
    builder.build(vec![("y".into(), output)]).unwrap()
}

fn run(graph: Graph, fusing: Fusing, threads: usize) -> Vec<f32> {
    let cpu = Cpu::new(threads);
    let descriptors: Vec<Descriptor> =
        graph.inputs.iter().chain(&graph.outputs).map(|(_, id)| graph.descriptor(*id).clone()).collect();
    let tensors: Vec<Arc<Storage>> = descriptors.iter().map(|descriptor| Arc::new(cpu.allocate(descriptor).unwrap())).collect();
    for (i, (tensor, descriptor)) in tensors.iter().zip(&descriptors).enumerate() {
        let data = numbers(descriptor.byte_length() / 4, i as u64 + 1);
        cpu.write(tensor, Bytes::copy_of(bytemuck::cast_slice(&data)).unwrap(), Done::ignored());
    }
    let plan = compile(graph, cpu.evaluator(), fusing, Preferences::default()).unwrap();
    let transposes = plan.steps.iter().filter(|step| step.op.row().name == "transpose").count();
    assert_eq!(transposes, if fusing == Fusing::Quick { 0 } else { 4 });
    let executable = Arc::new(cpu.compile(plan).unwrap());
    let (inputs, outputs) = tensors.split_at(3);
    let bindings = Bindings { inputs: inputs.iter().cloned().collect(), outputs: outputs.iter().cloned().map(Some).collect() };
    let (sender, end) = channel();
    cpu.execute(&executable, bindings, true, Done::new(move |result: crate::error::Result<()>| sender.send(result).unwrap()));
    end.recv().unwrap().unwrap();
    let mut bytes = vec![0u8; descriptors[3].byte_length()];
    let (buffer, address) = crate::host_memory::leaked(bytes.len());
    cpu.read(&tensors[3], buffer, Done::ignored());
    bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte = crate::host_memory::peek(address + i));
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn products_transpose_what_they_read_and_write() {
    for (queries, keys) in [(1, 20), (13, 13), (40, 33)] {
        let expected = run(attention(queries, keys), Fusing::Products, 1);
        for threads in [1, 2] {
            let found = run(attention(queries, keys), Fusing::Quick, threads);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((found - expected).abs() < 1e-5, "{queries} x {keys} at {i}: {found}, not {expected}");
            }
        }
    }
}
