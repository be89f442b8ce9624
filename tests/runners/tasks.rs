//! Sends tasks to a timeline, and waits for what they report.
#![allow(dead_code, reason = "not every suite sends all of them")]

use crossbeam_channel::{Receiver, bounded};
use webnn_node::backend::Backend;
use webnn_node::error::Result;
use webnn_node::graph::{Descriptor, Graph};
use webnn_node::host_memory::HostBuffer;
use webnn_node::memory::Bytes;
use webnn_node::timeline::{Done, GraphId, Task, TensorId, Timeline, Watch};

/// A timeline, and why its context is lost, once it is.
pub fn start(backend: impl Backend) -> (Timeline, Receiver<String>) {
    let (sender, lost) = bounded(1);
    // A device may be lost after all that a test looks at.
    (Timeline::start(backend, move |message| drop(sender.send(message))).unwrap(), lost)
}

/// Sends a task that reports. The result comes out of the channel.
pub fn ask<T: Send + 'static>(timeline: &Timeline, task: impl FnOnce(Done<T>) -> Task) -> Receiver<Result<T>> {
    let (sender, receiver) = bounded(1);
    timeline.send(task(Done::new(move |result| sender.send(result).unwrap()))).unwrap();
    receiver
}

pub fn create(timeline: &Timeline, tensor: TensorId, descriptor: Descriptor, label: &str) -> Result<()> {
    ask(timeline, |done| Task::CreateTensor { tensor, descriptor, label: label.into(), done }).recv().unwrap()
}

pub fn build(timeline: &Timeline, graph: GraphId, description: Graph) -> Result<()> {
    ask(timeline, |done| Task::build(graph, description, usize::MAX, done)).recv().unwrap().map(|_| ())
}

pub fn write(timeline: &Timeline, tensor: TensorId, bytes: &[u8], label: &str) {
    let bytes = Bytes::copy_of(bytes).unwrap();
    timeline.send(Task::Write { tensor, bytes, label: label.into(), charge: None }).unwrap();
}

/// Runs a graph on its inputs and outputs, one after the other.
pub fn dispatch(timeline: &Timeline, graph: GraphId, tensors: &[TensorId], label: &str) {
    let tensors = tensors.iter().copied().collect();
    timeline
        .send(Task::Dispatch { graph, tensors, label: label.into(), watch: Watch::default(), done: Done::ignored() })
        .unwrap();
}

/// The bytes of a tensor, which has so many.
pub fn read(timeline: &Timeline, tensor: TensorId, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; length];
    let start = bytes.as_mut_ptr();
    let read = ask(timeline, |done| {
        // SAFETY: `bytes` is not touched until the read has reported, which is waited for.
        let into = unsafe { HostBuffer::new(start, length) };
        Task::Read { tensor, into, watch: Watch::default(), done }
    });
    read.recv().unwrap().map(|()| bytes)
}
