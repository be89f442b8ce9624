//! What computes each step of some networks, for each instruction set of the architecture and for one and two threads, is
//! written down in files beside this one. Whoever changes a list, a condition or a threshold sees in the difference what became
//! of real networks: `WEBNN_UPDATE=1 cargo test --lib snapshots` writes the files anew. Nothing is built or run, so that any machine of
//! the architecture makes the same files.

mod networks;

use super::Target;
use crate::backend::cpu::capabilities::CpuCapabilities;
use crate::backend::cpu::executable::choices;
use crate::backend::cpu::kernels::Isa;
use crate::cancel::Cancel;
use crate::compiler::compile;
use crate::graph::Graph;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// The steps of a network that are the same on some targets, with what computes them.
fn snapshot(graph: &Graph) -> String {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for isa in Isa::of_architecture() {
        for threads in [1, 2] {
            let target = Target::described(isa, threads);
            let capabilities = CpuCapabilities { cancel: Cancel::default(), target, is_of_build: true };
            let schedule = compile(graph.clone(), &capabilities).expect("memory");
            let mut text = String::new();
            for (step, name) in choices(schedule, &target) {
                let _ = writeln!(text, "{name:28} {step}");
            }
            texts.entry(text).or_default().push(format!("{} with {threads}", isa.name));
        }
    }
    let mut sections: Vec<(String, String)> = texts.into_iter().map(|(text, targets)| (targets.join(", "), text)).collect();
    sections.sort();
    sections.iter().map(|(targets, text)| format!("# {targets} threads\n{text}")).collect::<Vec<_>>().join("\n")
}

#[test]
fn networks_are_computed_as_written_down() {
    if std::env::var("WEBNN_CPU").is_ok_and(|name| name == "reference") || std::env::var_os("WEBNN_IMPL").is_some() {
        eprintln!("skipped: implementations are switched off in the environment");
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/backend/cpu/dispatch/snapshots");
    for (name, graph) in networks::all() {
        let found = snapshot(&graph);
        let file = folder.join(format!("{name}.{}.txt", std::env::consts::ARCH));
        if std::env::var_os("WEBNN_UPDATE").is_some() {
            std::fs::write(&file, &found).expect("a file that can be written");
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        let change = written.lines().zip(found.lines()).find(|(written, found)| written != found);
        assert!(written == found, "{name}: {change:?} and maybe more; WEBNN_UPDATE=1 writes {} anew", file.display());
    }
}
