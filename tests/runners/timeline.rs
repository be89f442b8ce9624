//! Runs a graph on a timeline, over the CPU backend or on a GPU.

#[path = "amx.rs"]
pub mod amx;

use std::sync::LazyLock;
use std::sync::mpsc::channel;
use webnn_node::backend::cpu::Cpu;
use webnn_node::backend::wgpu::{AdapterRequest, Gpu};
use webnn_node::error::Result;
use webnn_node::graph::{Descriptor, FpMath, Graph, OperandId, Shared};
use webnn_node::host_memory::HostBuffer;
use webnn_node::memory::Bytes;
use webnn_node::timeline::{Done, GraphId, Task, TensorId, Timeline, Watch};

pub fn cpu(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    // One timeline serves all cases of a thread.
    thread_local!(static TIMELINE: Timeline = {
        amx::is_emulated();
        Timeline::start(Cpu::new(2), |message| panic!("{message}")).unwrap()
    });
    TIMELINE.with(|timeline| run_on(timeline, graph, inputs))
}

/// The same where products may be computed by way of bfloat16, and are, whatever their size.
#[allow(dead_code, reason = "not every suite runs it")]
pub fn bf16(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    thread_local!(static TIMELINE: Timeline = {
        amx::is_emulated();
        Timeline::start(Cpu::of_any_size(2), |message| panic!("{message}")).unwrap()
    });
    let graph = Graph { fp_math: FpMath::Bf16, ..graph.clone() };
    TIMELINE.with(|timeline| run_on(timeline, &graph, inputs))
}

/// The adapter that is to be had, if only one in software; nothing where there is none, which is said once.
static ADAPTER: LazyLock<Option<Gpu>> =
    LazyLock::new(|| Gpu::new(ANY).inspect_err(|error| println!("wgpu: not tested: {}", error.message())).ok());

const ANY: AdapterRequest = AdapterRequest { software: true, low_power: false };

/// What runs graphs on a GPU, where there is one.
pub fn wgpu() -> Option<crate::Runner> {
    fn run(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
        thread_local!(static TIMELINE: Timeline = {
            // The device is the same, but each context ends for itself.
            Timeline::start(Gpu::new(ANY).unwrap(), |message| panic!("{message}")).unwrap()
        });
        TIMELINE.with(|timeline| run_on(timeline, &opened(graph), inputs))
    }
    ADAPTER.as_ref().map(|_| run as _)
}

/// A half of all graphs, by their inputs, as those of a model whose inputs change their shapes: on GPUs, shaders read sizes then.
pub fn opened(graph: &Graph) -> Graph {
    let graph = Graph { shared: Shared::default(), ..graph.clone() };
    let sizes = graph.inputs.iter().flat_map(|(_, id)| &graph.descriptor(*id).shape);
    if sizes.fold(0, |parity, size| parity ^ size) % 2 == 1 {
        graph.shared.expects_several();
    }
    graph
}

/// An operator of a graph that the GPU lacks.
pub fn lacking_on_wgpu(graph: &Graph) -> Option<&'static str> {
    use webnn_node::backend::Backend;
    let limits = ADAPTER.as_ref()?.limits();
    graph.nodes.iter().map(|node| node.op.row().name).find(|name| !limits.has(name))
}

/// Bytes of the largest tensor that the GPU takes.
#[allow(dead_code, reason = "not every suite has tensors so large")]
pub fn largest_on_wgpu() -> usize {
    use webnn_node::backend::Backend;
    ADAPTER.as_ref().map_or(0, |gpu| gpu.limits().max_tensor_byte_length)
}

/// Sends a task and waits for what it reports.
fn wait<T: Send + 'static>(timeline: &Timeline, make: impl FnOnce(Done<T>) -> Task) -> T {
    let (sender, receiver) = channel();
    timeline.send(make(Done::new(move |result: Result<T>| sender.send(result).unwrap()))).unwrap();
    receiver.recv().unwrap().unwrap()
}

fn run_on(timeline: &Timeline, graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let wait = |make: &dyn Fn(Done<()>) -> Task| wait(timeline, make);
    let id = GraphId(0);
    self::wait(timeline, |done| Task::build(id, graph.clone(), usize::MAX, done));
    let tensors: Vec<(TensorId, Descriptor)> = graph
        .inputs
        .iter()
        .chain(&graph.outputs)
        .enumerate()
        .map(|(number, (_, operand)): (usize, &(String, OperandId))| {
            (TensorId(number as u64), graph.descriptor(*operand).clone())
        })
        .collect();
    for (tensor, descriptor) in &tensors {
        wait(&|done| Task::CreateTensor { tensor: *tensor, descriptor: descriptor.clone(), label: String::new(), done });
    }
    for ((tensor, _), bytes) in tensors.iter().zip(inputs) {
        timeline
            .send(Task::Write { tensor: *tensor, bytes: Bytes::copy_of(bytes).unwrap(), label: String::new(), charge: None })
            .unwrap();
    }
    let ids = tensors.iter().map(|(tensor, _)| *tensor).collect();
    timeline
        .send(Task::Dispatch { graph: id, tensors: ids, label: String::new(), watch: Watch::default(), done: Done::ignored() })
        .unwrap();
    let mut results = Vec::new();
    for (tensor, descriptor) in &tensors[graph.inputs.len()..] {
        let mut bytes = vec![0u8; descriptor.byte_length()];
        let (start, length) = (bytes.as_mut_ptr(), bytes.len());
        wait(&|done| {
            // SAFETY: `bytes` is not touched until the read has reported, which `wait` waits for.
            let into = unsafe { HostBuffer::new(start, length) };
            Task::Read { tensor: *tensor, into, watch: Watch::default(), done }
        });
        results.push(bytes);
    }
    tensors.iter().for_each(|(tensor, _)| drop(timeline.send(Task::DestroyTensor { tensor: *tensor })));
    timeline.send(Task::DestroyGraph { graph: id }).unwrap();
    results
}
