//! Which runs wait for which.

use super::testing::scheduled;
use super::*;
use crate::graph::ops::operator;
use crate::graph::{DataType, GraphBuilder, attribute::Value};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

/// A graph of one operator, all of whose inputs have this shape.
fn graph(cpu: &Cpu, name: &str, inputs: usize, shape: [u32; 2]) -> Arc<Executable> {
    let mut builder = GraphBuilder::new(cpu.limits().clone());
    let descriptor = Descriptor::new(DataType::Float32, shape);
    let inputs: Vec<_> =
        (0..inputs).map(|i| Value::Operand(builder.input(&format!("input {i}"), descriptor.clone()).unwrap())).collect();
    let output = builder.apply(operator(name).unwrap(), inputs, "").unwrap()[0];
    Arc::new(cpu.compile(scheduled(&builder.build(vec![("output".into(), output)]).unwrap(), cpu)).unwrap())
}

fn execute(cpu: &Cpu, graph: &Arc<Executable>, inputs: usize, shape: [u32; 2], number: u64, ends: &Sender<u64>) {
    let tensor = || Arc::new(cpu.allocate(&Descriptor::new(DataType::Float32, shape)).unwrap());
    let bindings = Bindings { inputs: (0..inputs).map(|_| tensor()).collect(), outputs: [Some(tensor())].into_iter().collect() };
    let ends = ends.clone();
    let done = Done::new(move |result: Result<()>| ends.send(result.map_or(u64::MAX, |()| number)).unwrap());
    cpu.execute(
        graph,
        bindings,
        RunOptions { number, place: Place::InTurn, watch: Default::default(), priority: Default::default() },
        done,
    );
}

const LARGE: [u32; 2] = [512, 512];
const SMALL: [u32; 2] = [512, 512];

/// Has all threads until it is let go on.
fn hold(cpu: &Cpu) -> (Receiver<()>, Sender<()>) {
    let ((begun, begins), (go, goes)) = (bounded(1), bounded(1));
    cpu.0.long.push(0, Default::default(), &Default::default(), move |_, _| {
        begun.send(()).unwrap();
        goes.recv().unwrap();
    });
    (begins, go)
}

#[test]
fn short_runs_never_wait_for_long_ones() {
    for threads in [1, 2] {
        let cpu = Cpu::new(threads);
        let (long, short, brief) =
            (graph(&cpu, "matmul", 2, LARGE), graph(&cpu, "relu", 1, SMALL), graph(&cpu, "relu", 1, [2, 2]));
        assert!(long.estimate() >= LIGHT && (BRIEF..LIGHT).contains(&short.estimate()) && brief.estimate() < BRIEF);
        let (begins, go) = hold(&cpu);
        begins.recv().unwrap();
        let (ends, ended) = unbounded();
        execute(&cpu, &long, 2, LARGE, 1, &ends);
        execute(&cpu, &short, 1, SMALL, 2, &ends);
        assert_eq!(ended.recv().unwrap(), 2);
        execute(&cpu, &brief, 1, [2, 2], 3, &ends);
        assert_eq!(ended.recv().unwrap(), 3);
        go.send(()).unwrap();
        assert_eq!(ended.recv().unwrap(), 1);
    }
}

#[test]
fn long_runs_start_as_they_were_asked_for() {
    let cpu = Cpu::new(1);
    let long = graph(&cpu, "matmul", 2, LARGE);
    let (begins, go) = hold(&cpu);
    begins.recv().unwrap();
    let (ends, ended) = unbounded();
    for number in [3, 1, 2] {
        execute(&cpu, &long, 2, LARGE, number, &ends);
    }
    go.send(()).unwrap();
    drop(ends);
    assert!(ended.iter().eq(1..=3));
}
