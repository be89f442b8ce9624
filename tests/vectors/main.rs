//! Conformance cases against runners.
//!
//! The cases are the JSON files in the folder that `WEBNN_VECTORS` names, one per operator; their format is described in
//! that folder. Without the variable nothing is tested. `WEBNN_OPERATORS=add,sub` tests only these files.
//!
//! A case knows nothing of runners, and a runner is a function: another backend needs no new cases.

mod build;
mod case;
mod compare;
#[path = "../runners/timeline.rs"]
mod timeline;

use case::Case;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use webnn_node::error::Kind;
use webnn_node::graph::Graph;

/// Computes the outputs of a graph from the bytes of its inputs, both in the graph's order.
pub type Runner = fn(&Graph, &[&[u8]]) -> Vec<Vec<u8>>;

#[test]
fn reference() {
    run_all("reference", webnn_node::backend::cpu::reference::interpret, usize::MAX);
}

/// Through the compiler, the CPU backend and a timeline, as `node/` runs it.
#[test]
fn cpu() {
    run_all("cpu", timeline::cpu, usize::MAX);
}

/// The same on a GPU, if only one in software.
#[test]
fn wgpu() {
    if let Some(runner) = timeline::wgpu() {
        run_all("wgpu", runner, timeline::largest_on_wgpu());
    }
}

/// What became of a case.
enum Verdict {
    Passed,
    /// It uses this operator, which the table does not have.
    Absent(String),
    Failed(String),
    /// One of its tensors is larger than the device takes.
    TooLarge,
}

/// Runs the cases whose tensors all have at most `largest` bytes.
fn run_all(name: &str, runner: Runner, largest: usize) {
    let Some(folder) = std::env::var_os("WEBNN_VECTORS") else {
        println!("WEBNN_VECTORS names no folder of vectors: nothing is tested.");
        return;
    };
    let only = std::env::var("WEBNN_OPERATORS").ok();
    let only: Option<Vec<&str>> = only.as_deref().map(|list| list.split(',').map(str::trim).collect());
    let (mut passed, mut too_large, mut failures) = (0, 0, Vec::new());
    let mut absent = std::collections::BTreeMap::<String, usize>::new();
    for (file, cases) in case::load(folder.as_ref()) {
        if only.as_ref().is_some_and(|only| !only.contains(&file.as_str())) {
            continue;
        }
        for case in &cases {
            match judge(case, runner, largest) {
                Verdict::Passed => passed += 1,
                Verdict::TooLarge => too_large += 1,
                Verdict::Absent(operator) => *absent.entry(operator).or_default() += 1,
                Verdict::Failed(reason) => failures.push(format!("{file}: {}: {reason}", case.name)),
            }
        }
    }
    println!("{name}: {passed} cases passed, {} failed", failures.len());
    if too_large > 0 {
        println!("{too_large} cases have tensors of more than {largest} bytes, which the device does not take");
    }
    if !absent.is_empty() {
        println!("{} cases use operators that the table lacks: {absent:?}", absent.values().sum::<usize>());
    }
    assert!(passed + failures.len() + absent.len() > 0, "no case in {}", folder.display());
    if !failures.is_empty() {
        let list = failures.iter().fold(String::new(), |mut list, failure| {
            writeln!(list, "  {failure}").expect("a string takes everything");
            list
        });
        panic!("{name}: {} cases failed:\n{list}", failures.len());
    }
}

fn judge(case: &Case, runner: Runner, largest: usize) -> Verdict {
    let inputs = case.inputs.values().map(|input| &input.tensor);
    if inputs.chain(case.expected_outputs.values()).any(|tensor| tensor.descriptor.byte_length() > largest) {
        return Verdict::TooLarge;
    }
    if let Some(operator) = case.operators.iter().find(|operator| operator.row().is_none()) {
        return Verdict::Absent(operator.name.clone());
    }
    // A panic fails its case and not the others.
    let result = catch_unwind(AssertUnwindSafe(|| check(case, runner)));
    match result {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(reason)) => Verdict::Failed(reason),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Verdict::Failed(format!("panicked: {message}"))
        }
    }
}

fn check(case: &Case, runner: Runner) -> Result<(), String> {
    let built = build::graph(case)?;
    if case.contradicts {
        return match built {
            Err(error) if error.kind() == Kind::Type => Ok(()),
            Err(error) => Err(format!("refused with {error}, not with a TypeError")),
            Ok(_) => Err("built, but the specification refuses it with a TypeError".to_owned()),
        };
    }
    let graph = built.map_err(|error| error.to_string())?;
    let inputs: Vec<Vec<u8>> = graph.inputs.iter().map(|(name, _)| case.inputs[name].tensor.bytes()).collect();
    let outputs = runner(&graph, &inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for ((name, id), bytes) in graph.outputs.iter().zip(&outputs) {
        let expected = &case.expected_outputs[name];
        let found = graph.descriptor(*id);
        if *found != expected.descriptor {
            return Err(format!("{name} is {found}, not {}", expected.descriptor));
        }
        compare::outputs(&case.tolerance, expected, bytes).map_err(|difference| format!("{name}{difference}"))?;
    }
    Ok(())
}
