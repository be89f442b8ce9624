//! What becomes of failures on purpose: `cargo test --features faults --test faults`.
#![cfg(feature = "faults")]

#[path = "runners/tasks.rs"]
mod tasks;

use crossbeam_channel::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};
use webnn_node::backend::cpu::Cpu;
use webnn_node::error::{Error, Kind, Result};
use webnn_node::faults::{Failure, Place, inject};
use webnn_node::graph::attribute::Value;
use webnn_node::graph::ops::operator;
use webnn_node::graph::{DataType, Descriptor, GraphBuilder};
use webnn_node::host_memory::HostBuffer;
use webnn_node::timeline::{Compute, GraphId, Operand, Task, TensorId, Timeline};

/// The plan is the process's, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Harness {
    timeline: Timeline,
    lost: Receiver<String>,
}

const GRAPH: GraphId = GraphId(100);
const A: TensorId = TensorId(1);
const B: TensorId = TensorId(2);
const C: TensorId = TensorId(3);

impl Harness {
    /// A context with three tensors and a graph of three steps, none of which the compiler does as part of another.
    fn new() -> Harness {
        let (timeline, lost) = tasks::start(Cpu::new(2));
        let harness = Harness { timeline, lost };
        for tensor in [A, B, C] {
            harness.create(tensor).unwrap();
        }
        let mut builder = GraphBuilder::new(harness.timeline.limits().clone());
        let mut operand = builder.input("x", descriptor()).unwrap();
        for (name, label) in [("softmax", "one"), ("cumulativeSum", "two"), ("softmax", "three")] {
            let values = [Value::Operand(operand), Value::Unsigned(0)];
            operand = builder.apply(operator(name).unwrap(), values, label).unwrap()[0];
        }
        let description = builder.build(vec![("y".into(), operand)]).unwrap();
        tasks::build(&harness.timeline, GRAPH, description).unwrap();
        harness
    }

    fn create(&self, tensor: TensorId) -> Result<()> {
        tasks::create(&self.timeline, tensor, descriptor(), "made")
    }

    fn write(&self, tensor: TensorId, label: &str) {
        tasks::write(&self.timeline, tensor, &[0; 4], label);
    }

    fn dispatch(&self, from: TensorId, to: TensorId, label: &str) {
        tasks::dispatch(&self.timeline, GRAPH, &[from, to], label);
    }

    fn read(&self, tensor: TensorId) -> Result<()> {
        tasks::read(&self.timeline, tensor, descriptor().byte_length()).map(|_| ())
    }

    fn compute(&self) -> Result<()> {
        let (inputs, outputs) = Operand::on_host(vec![memory()], vec![Some(memory())]);
        tasks::ask(&self.timeline, |done| {
            Task::Compute(Compute {
                graph: GRAPH,
                inputs,
                outputs,
                method: "compute",
                label: "computed".into(),
                watch: Default::default(),
                done,
            })
        })
        .recv()
        .unwrap()
    }
}

fn descriptor() -> Descriptor {
    Descriptor::new(DataType::Float32, [1])
}

fn memory() -> HostBuffer {
    let memory = Box::leak(Box::new(0f32));
    // SAFETY: the memory is leaked, and nobody else has it.
    unsafe { HostBuffer::new(std::ptr::from_mut(memory).cast(), 4) }
}

fn messages(error: &Error) -> Vec<&str> {
    error.chain().map(Error::message).collect()
}

#[test]
fn whatever_happens_in_whichever_step_shows_in_the_outputs_and_is_cleared() {
    let _alone = alone();
    let harness = Harness::new();
    for (failure, said) in
        [(Failure::Error, "failed on purpose"), (Failure::Panic, "panicked on purpose"), (Failure::Scratch, "cannot allocate")]
    {
        for (spared, step) in ["softmax [one]", "cumulativeSum [two]", "softmax [three]"].iter().enumerate() {
            inject(Place::Step, failure, spared as u32);
            harness.dispatch(A, B, "first");
            harness.dispatch(B, C, "second");
            let error = harness.read(C).unwrap_err();
            assert_eq!(error.kind(), Kind::Operation);
            let [read, second, first] = messages(&error)[..] else { panic!("{error:?}") };
            for part in ["dispatch [second]", "dispatch [first]", step, said] {
                assert!(read.contains(part), "{part} in {read}");
            }
            assert!(second.starts_with("dispatch [second]") && first.starts_with("dispatch [first]"), "{second} {first}");
            harness.dispatch(A, B, "");
            harness.read(B).unwrap();
            harness.read(C).unwrap_err();
            harness.write(C, "");
            harness.read(C).unwrap();
        }
    }
}

#[test]
fn a_graph_without_memory_can_never_run_again() {
    let _alone = alone();
    let harness = Harness::new();
    inject(Place::Step, Failure::Memory, 0);
    harness.dispatch(A, B, "first");
    assert!(harness.read(B).unwrap_err().message().contains("cannot allocate"));
    harness.dispatch(A, C, "second");
    let error = harness.read(C).unwrap_err();
    for part in ["dispatch [second]", "the graph can never run again", "cannot allocate"] {
        assert!(error.message().contains(part), "{error}");
    }
    let error = harness.compute().unwrap_err();
    assert!(error.message().contains("compute [computed]: the graph can never run again"), "{error}");
    assert_eq!(error.kind(), Kind::Operation);
    // The context goes on.
    harness.write(B, "");
    harness.read(B).unwrap();
}

#[test]
fn a_write_that_fails_names_its_label() {
    let _alone = alone();
    let harness = Harness::new();
    for failure in [Failure::Error, Failure::Panic] {
        inject(Place::Write, failure, 1);
        harness.write(A, "good");
        harness.write(A, "bad");
        let error = harness.read(A).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert!(error.message().contains("writeTensor [bad]"), "{error}");
        harness.write(A, "");
        harness.read(A).unwrap();
    }
}

#[test]
fn a_read_that_fails_disturbs_nothing() {
    let _alone = alone();
    let harness = Harness::new();
    for failure in [Failure::Error, Failure::Panic, Failure::Memory] {
        inject(Place::Read, failure, 0);
        assert_eq!(harness.read(A).unwrap_err().kind(), Kind::Unknown);
        harness.read(A).unwrap();
    }
}

#[test]
fn a_tensor_that_cannot_be_made_names_its_label() {
    let _alone = alone();
    let harness = Harness::new();
    for (failure, kind) in [(Failure::Memory, Kind::Unknown), (Failure::Panic, Kind::Operation)] {
        inject(Place::Allocate, failure, 0);
        let error = harness.create(TensorId(7)).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.message().starts_with("createTensor [made]: "), "{error}");
    }
    harness.create(TensorId(8)).unwrap();
}

#[test]
fn a_compute_that_fails_reports_and_the_next_does_not() {
    let _alone = alone();
    let harness = Harness::new();
    for failure in [Failure::Error, Failure::Panic, Failure::Scratch] {
        inject(Place::Step, failure, 1);
        let error = harness.compute().unwrap_err();
        assert!(error.message().starts_with("compute [computed]: cumulativeSum [two]: "), "{error}");
        assert_eq!(error.kind(), Kind::Operation);
        harness.compute().unwrap();
    }
}

#[test]
fn a_timeline_that_breaks_loses_the_context_and_reports_all() {
    let _alone = alone();
    let harness = Harness::new();
    inject(Place::Timeline, Failure::Panic, 0);
    harness.dispatch(A, B, "");
    assert!(harness.read(B).is_err());
    assert!(harness.lost.recv().unwrap().contains("panicked on purpose"));
    assert!(harness.compute().is_err());
    assert_eq!(harness.timeline.usage().tensors, 0);
}
