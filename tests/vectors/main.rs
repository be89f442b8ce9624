//! Conformance cases against runners.
//!
//! The cases are the JSON files in the folder that `WEBNN_VECTORS` names, one per operator; their format is described in
//! that folder. Without the variable nothing is tested. `WEBNN_OPERATORS=add,sub` tests only these files.
//!
//! A case knows nothing of runners, and a runner is a function: another backend needs no new cases.

mod build;
mod case;
mod compare;
mod rounding;
#[path = "../runners/timeline.rs"]
mod timeline;

use case::Case;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use webnn_node::error::Kind;
use webnn_node::graph::Graph;

/// Computes the outputs of a graph from the bytes of its inputs, both in the graph's order.
pub type Runner = fn(&Graph, &[&[u8]]) -> Vec<Vec<u8>>;

/// Tells which operator of a graph a device lacks.
type Lacking = fn(&Graph) -> Option<&'static str>;

/// What is known of a device.
#[derive(Clone, Copy)]
struct Device {
    /// Bytes of the largest tensor that it takes.
    largest: usize,
    lacking: Lacking,
    /// Whether it rounds the operands of products.
    rounds: bool,
}

/// A device that lacks nothing.
const EVERYTHING: Device = Device { largest: usize::MAX, lacking: |_| None, rounds: false };

#[test]
fn reference() {
    run_all("reference", webnn_node::backend::cpu::reference::interpret, EVERYTHING);
}

/// Through the compiler, the CPU backend and a timeline, as `node/` runs it.
#[test]
fn cpu() {
    run_all("cpu", timeline::cpu, EVERYTHING);
}

/// The same where the operands of products may be rounded to bfloat16, and are, whatever their size. Results may be further from the
/// expected ones by what that rounding is worth ([`rounding`]); those of other operators may not, of which one case of eight runs, and all
/// with `WEBNN_SWEEP=all`.
#[test]
fn bf16() {
    run_all("bf16", timeline::bf16, Device { rounds: true, ..EVERYTHING });
}

/// The same on a GPU, if only one in software.
#[test]
fn wgpu() {
    if let Some(runner) = timeline::wgpu() {
        let (largest, lacking) = (timeline::largest_on_wgpu(), timeline::lacking_on_wgpu as Lacking);
        run_all("wgpu", runner, Device { largest, lacking, ..EVERYTHING });
    }
}

/// Of the cases that rounding changes nothing of, one of so many runs.
const SAMPLE: usize = 8;

/// What became of a case.
enum Verdict {
    Passed,
    /// It uses this operator, which the table does not have.
    Absent(String),
    Failed(String),
    /// The device does not take one of its tensors, or has not one of its operators.
    Beyond,
}

/// Runs the cases whose tensors all have at most so many bytes, and of whose operators none is lacking.
fn run_all(name: &str, runner: Runner, device: Device) {
    let largest = device.largest;
    let Some(folder) = std::env::var_os("WEBNN_VECTORS") else {
        println!("WEBNN_VECTORS names no folder of vectors: nothing is tested.");
        return;
    };
    let only = std::env::var("WEBNN_OPERATORS").ok();
    let sweeps = std::env::var("WEBNN_SWEEP").is_ok_and(|sweep| sweep == "all");
    let only: Option<Vec<&str>> = only.as_deref().map(|list| list.split(',').map(str::trim).collect());
    let (mut passed, mut beyond, mut failures) = (0, 0, Vec::new());
    let mut absent = std::collections::BTreeMap::<String, usize>::new();
    for (file, cases) in case::load(folder.as_ref()) {
        if only.as_ref().is_some_and(|only| !only.contains(&file.as_str())) {
            continue;
        }
        for (number, case) in cases.iter().enumerate() {
            let is_left_out = device.rounds && !sweeps && number % SAMPLE > 0 && !rounding::has_products(case);
            if is_left_out {
                continue;
            }
            match judge(case, runner, device) {
                Verdict::Passed => passed += 1,
                Verdict::Beyond => beyond += 1,
                Verdict::Absent(operator) => *absent.entry(operator).or_default() += 1,
                Verdict::Failed(reason) => failures.push(format!("{file}: {}: {reason}", case.name)),
            }
        }
    }
    println!("{name}: {passed} cases passed, {} failed", failures.len());
    if beyond > 0 {
        println!("{beyond} cases have operators that the device has not, or tensors of more than {largest} bytes");
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

fn judge(case: &Case, runner: Runner, device: Device) -> Verdict {
    let inputs = case.inputs.values().map(|input| &input.tensor);
    if inputs.chain(case.expected_outputs.values()).any(|tensor| tensor.descriptor.byte_length() > device.largest) {
        return Verdict::Beyond;
    }
    if let Some(operator) = case.operators.iter().find(|operator| operator.row().is_none()) {
        return Verdict::Absent(operator.name.clone());
    }
    // A panic fails its case and not the others.
    let result = catch_unwind(AssertUnwindSafe(|| check(case, runner, device)));
    match result {
        Ok(Ok(true)) => Verdict::Passed,
        Ok(Ok(false)) => Verdict::Beyond,
        Ok(Err(reason)) => Verdict::Failed(reason),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Verdict::Failed(format!("panicked: {message}"))
        }
    }
}

/// Whether the case passes; it does not when the device lacks one of its operators.
fn check(case: &Case, runner: Runner, device: Device) -> Result<bool, String> {
    let built = build::graph(case)?;
    if case.contradicts {
        return match built {
            Err(error) if error.kind() == Kind::Type => Ok(true),
            Err(error) => Err(format!("refused with {error}, not with a TypeError")),
            Ok(_) => Err("built, but the specification refuses it with a TypeError".to_owned()),
        };
    }
    let graph = built.map_err(|error| error.to_string())?;
    if (device.lacking)(&graph).is_some() {
        return Ok(false);
    }
    let inputs: Vec<Vec<u8>> = graph.inputs.iter().map(|(name, _)| case.inputs[name].tensor.bytes()).collect();
    let outputs = runner(&graph, &inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for ((name, id), bytes) in graph.outputs.iter().zip(&outputs) {
        let expected = &case.expected_outputs[name];
        let found = graph.descriptor(*id);
        if *found != expected.descriptor {
            return Err(format!("{name} is {found}, not {}", expected.descriptor));
        }
        let rounding = if device.rounds { rounding::of(case, name)? } else { Vec::new() };
        compare::outputs(&case.tolerance, &rounding, expected, bytes).map_err(|difference| format!("{name}{difference}"))?;
    }
    Ok(true)
}
