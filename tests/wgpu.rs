//! What becomes of a GPU's failures, on whatever adapter is to be had; where there is none, nothing is tested, and that is
//! said.

#[path = "runners/tasks.rs"]
mod tasks;

use crossbeam_channel::Receiver;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use webnn_node::backend::Backend;
use webnn_node::backend::wgpu::{AdapterRequest, Gpu, Work};
use webnn_node::compiler::compile;
use webnn_node::error::{Kind, Result};
use webnn_node::graph::attribute::Value;
use webnn_node::graph::ops::operator;
use webnn_node::graph::{DataType, Descriptor, Graph, GraphBuilder, Limits, Shared};
use webnn_node::memory::UsageNumbers;
use webnn_node::onnx::{Bounds, Fixed, Loaded, Model, Place, Source, import_part};
use webnn_node::program::Weights;
use webnn_node::timeline::{GraphId, Task, TensorId, Timeline};

const GRAPH: GraphId = GraphId(100);
const X: TensorId = TensorId(1);
const Y: TensorId = TensorId(2);
const COUNT: u32 = 5;

/// One test loses the device, which all contexts share.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Harness {
    gpu: Gpu,
    timeline: Timeline,
    lost: Receiver<String>,
}

fn gpu() -> Option<Gpu> {
    let found = Gpu::new(AdapterRequest { software: true, ..AdapterRequest::default() });
    found.inspect_err(|error| println!("not tested: {}", error.message())).ok()
}

/// A graph that adds 1.
fn graph() -> Graph {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let x = builder.input("x", descriptor()).unwrap();
    let one = builder.scalar(DataType::Float32, webnn_node::graph::Number::Double(1.0)).unwrap();
    let sum = builder.apply(operator("add").unwrap(), [Value::Operand(x), Value::Operand(one)], "").unwrap()[0];
    builder.build(vec![("y".into(), sum)]).unwrap()
}

fn descriptor() -> Descriptor {
    Descriptor::new(DataType::Float32, [COUNT])
}

impl Harness {
    fn new() -> Option<Harness> {
        let gpu = gpu()?;
        let (timeline, lost) = tasks::start(gpu.clone());
        for tensor in [X, Y] {
            tasks::create(&timeline, tensor, descriptor(), "").unwrap();
        }
        tasks::build(&timeline, GRAPH, graph()).unwrap();
        Some(Harness { gpu, timeline, lost })
    }

    fn write(&self, tensor: TensorId, value: f32) {
        let bytes: Vec<u8> = (0..COUNT).flat_map(|_| value.to_le_bytes()).collect();
        tasks::write(&self.timeline, tensor, &bytes, "");
    }

    fn dispatch(&self, from: TensorId, to: TensorId) {
        tasks::dispatch(&self.timeline, GRAPH, &[from, to], "");
    }

    fn read(&self, tensor: TensorId) -> Result<f32> {
        let bytes = tasks::read(&self.timeline, tensor, descriptor().byte_length())?;
        Ok(f32::from_le_bytes(bytes[bytes.len() - 4..].try_into().unwrap()))
    }
}

#[test]
fn chained_dispatches_wait_for_nobody_and_keep_their_order() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    harness.write(X, 0.0);
    for _ in 0..100 {
        harness.dispatch(X, Y);
        harness.dispatch(Y, X);
    }
    assert_eq!(harness.read(X).unwrap(), 200.0);
    harness.write(X, 7.0);
    assert_eq!(harness.read(X).unwrap(), 7.0);
}

#[test]
fn a_lost_device_loses_its_contexts_and_a_new_context_works() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    harness.write(X, 1.0);
    assert_eq!(harness.read(X).unwrap(), 1.0);
    harness.gpu.lose();
    assert!(harness.lost.recv().unwrap().contains("lost"));
    // Nothing is left pending, and nothing ends the process.
    harness.dispatch(X, Y);
    assert!(harness.read(Y).is_err());
    let again = Harness::new().unwrap();
    again.write(X, 1.0);
    again.dispatch(X, Y);
    assert_eq!(again.read(Y).unwrap(), 2.0);
}

#[test]
fn a_device_that_takes_too_long_loses_its_contexts_and_a_new_context_works() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    harness.write(X, 1.0);
    assert_eq!(harness.read(X).unwrap(), 1.0);
    // Nothing is finished in no time, though any number may be before anybody has looked.
    harness.gpu.wait_at_most(Some(Duration::ZERO));
    while harness.read(Y).is_ok() {
        harness.dispatch(X, Y);
        harness.dispatch(Y, X);
    }
    assert_eq!(harness.lost.recv().unwrap(), "the device was lost: a dispatch took longer than 0 s (WEBNN_GPU_TIMEOUT)");
    let again = Harness::new().unwrap();
    again.write(X, 1.0);
    again.dispatch(X, Y);
    assert_eq!(again.read(Y).unwrap(), 2.0);
}

#[test]
fn a_read_under_way_hears_that_the_device_takes_too_long() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    harness.gpu.wait_at_most(Some(Duration::ZERO));
    // Nothing else was submitted, so it is a read that takes too long; any number may be done before anybody has looked.
    while harness.read(X).is_ok() {}
    assert!(harness.lost.recv().unwrap().contains("took longer than 0 s"));
}

#[test]
fn tensors_that_the_device_does_not_take_are_refused_with_the_limit() {
    let _alone = alone();
    let Some(gpu) = gpu() else { return };
    let most = gpu.limits().max_tensor_byte_length;
    assert!((most + 1).is_power_of_two());
    let count = u32::try_from(most / 4 + 1).unwrap_or(u32::MAX);
    let too_large = Descriptor::new(DataType::Float32, [count]);
    if too_large.check("x").is_err() {
        return;
    }
    let mut builder = GraphBuilder::new(gpu.limits().clone());
    let error = builder.input("x", too_large).unwrap_err();
    assert_eq!(error.kind(), Kind::Type);
    assert!(error.message().contains(&format!("at most {most} bytes on this device")), "{error}");
}

#[test]
fn steps_that_need_more_bindings_than_there_are_are_refused_with_the_limits() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    let most = harness.gpu.limits().max_tensor_byte_length;
    let mut builder = GraphBuilder::new(harness.gpu.limits().clone());
    // Nothing of this is ever allocated.
    let large = Descriptor::new(DataType::Float32, [u32::try_from(most / 4).unwrap()]);
    let inputs = ["a", "b", "c"].map(|name| builder.input(name, large.clone()).unwrap());
    let condition = builder.input("d", Descriptor::new(DataType::Uint8, [u32::try_from(most / 4).unwrap()])).unwrap();
    let [a, b, c] = inputs.map(Value::Operand);
    let sum = builder.apply(operator("where").unwrap(), [Value::Operand(condition), a, b], "").unwrap()[0];
    let sum = builder.apply(operator("add").unwrap(), [Value::Operand(sum), c], "").unwrap()[0];
    let description = builder.build(vec![("y".into(), sum)]).unwrap();
    let built = tasks::build(&harness.timeline, GraphId(7), description);
    // A device that binds as much as it likes takes it.
    if let Err(error) = built {
        assert_eq!(error.kind(), Kind::Operation, "{error}");
        for limit in ["where: its tensors are", "maxStorageBufferBindingSize", "maxStorageBuffersPerShaderStage"] {
            assert!(error.message().contains(limit), "{error}");
        }
    }
}

#[test]
fn a_graph_larger_than_the_device_is_refused_and_its_context_lives() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    let limits = harness.gpu.limits();
    // Nothing of this is ever allocated: what a run needs between its steps, 128 GiB, has no place in one buffer, or not in the memory.
    let large = Descriptor::new(DataType::Float32, [1 << 26]);
    let mut builder = GraphBuilder::new(limits.clone());
    let x = builder.input("x", large).unwrap();
    let sums: Vec<_> = (0..512)
        .map(|i| {
            let values = [Value::Operand(x), Value::Unsigned(0), Value::Boolean(i % 2 == 0), Value::Boolean(i % 3 == 0)];
            builder.apply(operator("cumulativeSum").unwrap(), values, "").unwrap()[0]
        })
        .collect();
    let add = |sum, one| builder.apply(operator("add").unwrap(), [Value::Operand(sum), Value::Operand(one)], "").unwrap()[0];
    let sum = sums.into_iter().reduce(add).unwrap();
    let description = builder.build(vec![("y".into(), sum)]).unwrap();
    let built = tasks::build(&harness.timeline, GraphId(7), description);
    let error = built.unwrap_err();
    assert!(matches!(error.kind(), Kind::Unknown | Kind::Operation), "{error}");
    assert!(["cannot allocate", "memory is used up"].iter().any(|part| error.message().contains(part)), "{error}");
    assert!(harness.lost.is_empty());
    harness.write(X, 1.0);
    harness.dispatch(X, Y);
    assert_eq!(harness.read(Y).unwrap(), 2.0);
}

/// A device that nothing else uses, whose work can be counted.
fn fresh() -> Option<Harness> {
    gpu()?.lose();
    Harness::new()
}

#[test]
fn runs_on_tensors_of_earlier_ones_are_one_submission_each_and_make_nothing() {
    let _alone = alone();
    let Some(harness) = fresh() else { return };
    let round = |value: f32| {
        harness.write(X, value);
        harness.dispatch(X, Y);
        harness.dispatch(Y, X);
        assert_eq!(harness.read(X).unwrap(), value + 2.0);
    };
    round(0.0);
    let before = harness.gpu.work();
    for i in 0..10 {
        round(i as f32);
    }
    let Work { submissions, buffers, bind_groups } = harness.gpu.work() - before;
    // What is written goes with the first run; what is read is copied by a submission of its own.
    assert_eq!((submissions, bind_groups), (30, 0));
    // The next read may begin before the last one has given its buffer back, so there may be two of them.
    assert!(buffers <= 1, "{buffers}");
}

#[test]
fn tensors_in_the_place_of_others_are_bound_anew() {
    let _alone = alone();
    let Some(harness) = fresh() else { return };
    let all: Vec<TensorId> = (10..14).map(TensorId).collect();
    for (&tensor, value) in all.iter().zip(0u8..) {
        tasks::create(&harness.timeline, tensor, descriptor(), "").unwrap();
        harness.write(tensor, value.into());
    }
    // More pairs than are remembered, each again after the others.
    for _ in 0..2 {
        for (from, &tensor) in all.iter().enumerate() {
            harness.dispatch(tensor, Y);
            assert_eq!(harness.read(Y).unwrap(), from as f32 + 1.0);
        }
    }
}

#[test]
fn writes_that_nothing_follows_are_submitted_when_they_are_many() {
    let _alone = alone();
    let Some(harness) = fresh() else { return };
    harness.read(X).unwrap();
    let before = harness.gpu.work();
    for i in 0..130 {
        harness.write(X, i as f32);
    }
    assert_eq!(harness.read(X).unwrap(), 129.0);
    // Two times 64 of them, and the rest with the read.
    assert_eq!((harness.gpu.work() - before).submissions, 3);
}

#[test]
fn the_memory_of_a_tensor_goes_while_a_graph_that_used_it_is_there() {
    let _alone = alone();
    let Some(harness) = fresh() else { return };
    let large = Descriptor::new(DataType::Float32, [1 << 22]);
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let x = builder.input("x", large.clone()).unwrap();
    let y = builder.apply(operator("neg").unwrap(), [Value::Operand(x)], "").unwrap()[0];
    let graph = GraphId(7);
    tasks::build(&harness.timeline, graph, builder.build(vec![("y".into(), y)]).unwrap()).unwrap();
    harness.read(X).unwrap();
    let Some(before) = harness.gpu.allocated_bytes() else {
        println!("not tested: the driver's interface does not tell how much memory is in use");
        return;
    };
    let tensors = [TensorId(20), TensorId(21)];
    for tensor in tensors {
        tasks::create(&harness.timeline, tensor, large.clone(), "").unwrap();
    }
    tasks::dispatch(&harness.timeline, graph, &tensors, "");
    harness.read(X).unwrap();
    let length = large.byte_length() as u64;
    assert!(harness.gpu.allocated_bytes().unwrap() >= before + 2 * length);
    for tensor in tensors {
        harness.timeline.send(Task::DestroyTensor { tensor }).unwrap();
    }
    // It goes when the device has finished what comes next.
    let is_gone = || {
        harness.read(X).unwrap();
        harness.gpu.allocated_bytes().unwrap() < before + length
    };
    assert!((0..1000).any(|_| is_gone()), "{} bytes, before {before}", harness.gpu.allocated_bytes().unwrap());
}

#[test]
fn all_memory_goes() {
    let _alone = alone();
    let Some(harness) = Harness::new() else { return };
    harness.dispatch(X, Y);
    harness.read(Y).unwrap();
    assert!(harness.timeline.usage().tensors > 0);
    for tensor in [X, Y] {
        harness.timeline.send(Task::DestroyTensor { tensor }).unwrap();
    }
    harness.timeline.send(Task::DestroyGraph { graph: GRAPH }).unwrap();
    assert!(matches!(harness.timeline.usage(), UsageNumbers { tensors: 0, packed: 0, constants: 0, scratch: 0, .. }));
}

#[test]
fn two_contexts_share_a_device_and_not_their_end() {
    let _alone = alone();
    let (Some(first), Some(second)) = (Harness::new(), Harness::new()) else { return };
    first.write(X, 1.0);
    first.timeline.stop();
    first.timeline.join();
    second.write(X, 2.0);
    second.dispatch(X, Y);
    assert_eq!(second.read(Y).unwrap(), 3.0);
}

/// How many pipelines a model's graphs for inputs of these shapes make, one after the other.
fn pipelines(gpu: &Gpu, file: &str, shapes: impl Iterator<Item = Vec<Vec<u32>>>) -> Vec<usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx/exported").join(file);
    let loaded = Loaded::new(Model::open(&path).unwrap(), Fixed::default(), &Bounds::default()).unwrap();
    let (shared, weights) = (Shared::default(), Weights::new(gpu.usage().clone()));
    let mut kept = Vec::new();
    let made = shapes.map(|shapes| {
        let (source, given) = (Source::of(&loaded).unwrap(), loaded.given(&shapes).unwrap());
        let part = import_part(&source, gpu.limits(), &Bounds::default(), &given, Place::First);
        let mut graph = part.unwrap_or_else(|error| panic!("{error:?}")).graph.expect("there is something to compute");
        graph.shared = shared.clone();
        weights.settle(&mut graph, &loaded, &shared);
        let schedule = compile(graph, gpu.capabilities()).unwrap();
        let before = gpu.pipelines();
        kept.push(gpu.compile(schedule).unwrap());
        gpu.pipelines() - before
    });
    made.collect()
}

#[test]
fn a_new_length_makes_no_pipeline() {
    let _alone = alone();
    let Some(gpu) = gpu() else { return };
    // Of those up to 32 sums are computed otherwise.
    let lengths = || (0..20).map(|i| 33 + (i * 7) % 31);
    let images = || lengths().map(|n| 2 * n);
    let models: [(&str, Vec<Vec<Vec<u32>>>); 4] = [
        ("torchscript_encoder_17.onnx", lengths().map(|n| vec![vec![1, n]; 2]).collect()),
        ("torchscript_tagger_14.onnx", lengths().map(|n| vec![vec![2, n]]).collect()),
        ("torchscript_pyramid_17.onnx", images().map(|n| vec![vec![1, 3, n, n + 2]]).collect()),
        ("tensorflow_conv.onnx", images().map(|n| vec![vec![1, n, n, 3]]).collect()),
    ];
    for (file, shapes) in models {
        let made = pipelines(&gpu, file, shapes.into_iter());
        assert!(made[0] > 5, "{file}: {made:?}");
        assert!(made[1..].iter().all(|count| *count == 0), "{file}: {made:?}");
    }
}
