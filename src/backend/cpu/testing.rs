//! What tests of the backend share: graphs as it runs them, and what the reference kernels make of them, node by node.

use super::kernels::Isa;
use super::kernels::tests::numbers;
use super::{Cpu, HostStorage, reference};
use crate::backend::{Backend, Bindings, Place, RunOptions};
use crate::compiler::{Schedule, compile};
use crate::done::Done;
use crate::graph::{Graph, OperandId};
use crate::memory::Bytes;
use std::sync::Arc;
use std::sync::mpsc::channel;

#[path = "../../../tests/runners/amx.rs"]
mod amx;

/// All instruction sets that this CPU has, and AMX where it is emulated.
pub fn instruction_sets() -> &'static [&'static Isa] {
    amx::is_emulated();
    Isa::available()
}

/// As the backend compiles a graph.
pub fn scheduled(graph: &Graph, cpu: &Cpu) -> Schedule {
    compile(graph.clone(), cpu.capabilities()).unwrap()
}

/// The outputs of a graph whose inputs are float32, and those that it should have.
pub fn both(graph: &Graph) -> [Vec<Vec<u8>>; 2] {
    let inputs: Vec<Vec<f32>> =
        graph.inputs.iter().zip(1..).map(|((_, id), seed)| numbers(graph.descriptor(*id).byte_length() / 4, seed)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
    [run(graph, &inputs), reference::interpret(graph, &inputs)]
}

/// The outputs of a graph as the backend runs it.
pub fn run(graph: &Graph, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let cpu = Cpu::new(1);
    run_scheduled(&cpu, graph, scheduled(graph, &cpu), inputs)
}

/// The outputs of a graph that is compiled to these steps.
pub fn run_scheduled(cpu: &Cpu, graph: &Graph, schedule: Schedule, inputs: &[&[u8]]) -> Vec<Vec<u8>> {
    let tensor = |id: OperandId| Arc::new(cpu.allocate(graph.descriptor(id)).unwrap());
    let tensors: Vec<Arc<HostStorage>> = graph.inputs.iter().map(|(_, id)| tensor(*id)).collect();
    for (tensor, bytes) in tensors.iter().zip(inputs) {
        cpu.write(tensor, Bytes::copy_of(bytes).unwrap(), Done::ignored());
    }
    let outputs: Vec<Arc<HostStorage>> = graph.outputs.iter().map(|(_, id)| tensor(*id)).collect();
    let executable = Arc::new(cpu.compile(schedule).unwrap());
    let bindings = Bindings { inputs: tensors.into_iter().collect(), outputs: outputs.iter().cloned().map(Some).collect() };
    let (sender, end) = channel();
    cpu.execute(
        &executable,
        bindings,
        RunOptions { number: 0, place: Place::Alone, watch: Default::default(), priority: Default::default() },
        Done::new(move |result: crate::error::Result<()>| sender.send(result).unwrap()),
    );
    end.recv().unwrap().unwrap();
    outputs.iter().map(|output| output.read().unwrap().to_vec()).collect()
}
