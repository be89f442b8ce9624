//! Runs a graph on a timeline, over the CPU backend or on a GPU.

#[path = "amx.rs"]
pub mod amx;
#[path = "tasks.rs"]
mod tasks;

use std::sync::LazyLock;
use webnn_node::backend::cpu::Cpu;
use webnn_node::backend::wgpu::{AdapterRequest, Gpu};
use webnn_node::graph::{Descriptor, FpMath, Graph, Shared};
use webnn_node::timeline::{GraphId, Task, TensorId, Timeline};

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

fn run_on(timeline: &Timeline, graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let id = GraphId(0);
    tasks::build(timeline, id, graph.clone()).unwrap();
    let operands = graph.inputs.iter().chain(&graph.outputs);
    let tensors: Vec<(TensorId, &Descriptor)> =
        operands.zip(0..).map(|((_, operand), number)| (TensorId(number), graph.descriptor(*operand))).collect();
    for (tensor, descriptor) in &tensors {
        tasks::create(timeline, *tensor, (*descriptor).clone(), "").unwrap();
    }
    for ((tensor, _), bytes) in tensors.iter().zip(inputs) {
        tasks::write(timeline, *tensor, bytes, "");
    }
    let ids: Vec<TensorId> = tensors.iter().map(|(tensor, _)| *tensor).collect();
    tasks::dispatch(timeline, id, &ids, "");
    let outputs = &tensors[graph.inputs.len()..];
    let results =
        outputs.iter().map(|(tensor, descriptor)| tasks::read(timeline, *tensor, descriptor.byte_length()).unwrap()).collect();
    ids.into_iter().for_each(|tensor| timeline.send(Task::DestroyTensor { tensor }).unwrap());
    timeline.send(Task::DestroyGraph { graph: id }).unwrap();
    results
}
