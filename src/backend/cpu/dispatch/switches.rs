//! Implementations that are switched off by `WEBNN_IMPL`, to measure what one of them is worth or to find which one is at fault.
//!
//! The variable is a list of patterns with commas between: `-conv.winograd*` switches off what the pattern matches, `+conv.winograd_f2`
//! switches it on again; the last one that matches decides. `*` stands for any characters.

use super::registry::implementations;
use crate::backend::cpu::kernels::Isa;
use std::sync::OnceLock;

#[derive(Debug, Default)]
pub struct Switches {
    only_reference: bool,
    /// Patterns, and whether they switch on.
    patterns: Vec<(String, bool)>,
}

impl Switches {
    /// Those that `WEBNN_CPU=reference` and `WEBNN_IMPL` ask for. What no implementation matches, and an instruction set that is not there,
    /// are said on stderr, once.
    pub fn of_environment() -> &'static Switches {
        static SWITCHES: OnceLock<Switches> = OnceLock::new();
        SWITCHES.get_or_init(|| {
            let cpu = std::env::var("WEBNN_CPU").unwrap_or_default();
            let only_reference = cpu == "reference";
            if let Some(complaint) = unknown_cpu(&cpu) {
                eprintln!("webnn-node: WEBNN_CPU: {complaint}");
            }
            let list = std::env::var("WEBNN_IMPL").unwrap_or_default();
            let (patterns, complaints) = parse(&list);
            complaints.iter().for_each(|complaint| eprintln!("webnn-node: WEBNN_IMPL: {complaint}"));
            Switches { only_reference, patterns }
        })
    }

    #[cfg(test)]
    pub fn all_on() -> &'static Switches {
        static SWITCHES: Switches = Switches { only_reference: false, patterns: Vec::new() };
        &SWITCHES
    }

    pub fn only_reference(&self) -> bool {
        self.only_reference
    }

    /// Whether an implementation may be chosen.
    pub fn is_on(&self, name: &str) -> bool {
        self.patterns.iter().rev().find(|(pattern, _)| matches(pattern, name)).is_none_or(|(_, on)| *on)
    }
}

/// What is wrong with a value of `WEBNN_CPU`. The portable kernels run then.
fn unknown_cpu(name: &str) -> Option<String> {
    if name == "reference" || Isa::named(name).is_some() {
        return None;
    }
    let names: Vec<&str> = Isa::available().iter().map(|isa| isa.name).collect();
    Some(format!(
        "'{name}' is no instruction set of this CPU, so the portable kernels run; there are {} and reference",
        names.join(", ")
    ))
}

/// The patterns of a list, and what is wrong with others.
fn parse(list: &str) -> (Vec<(String, bool)>, Vec<String>) {
    let (mut patterns, mut complaints) = (Vec::new(), Vec::new());
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (pattern, on) = match (item.strip_prefix('-'), item.strip_prefix('+')) {
            (Some(pattern), _) => (pattern, false),
            (_, Some(pattern)) => (pattern, true),
            _ => {
                complaints.push(format!("'{item}' begins with neither - (off) nor + (on)"));
                continue;
            }
        };
        if !implementations().any(|implementation| matches(pattern, implementation.name)) {
            let names: Vec<&str> = implementations().map(|implementation| implementation.name).collect();
            complaints.push(format!("'{pattern}' matches no implementation; there are {}", names.join(", ")));
        }
        patterns.push((pattern.to_owned(), on));
    }
    (patterns, complaints)
}

/// Whether a name is of a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(name) = name.strip_prefix(start) else { return false };
            (0..=name.len()).any(|skipped| name.get(skipped..).is_some_and(|name| matches(rest, name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_that_matches_decides() {
        let (patterns, complaints) = parse("-conv.*, +conv.winograd_f2,-*_f4");
        assert!(complaints.is_empty(), "{complaints:?}");
        let switches = Switches { only_reference: false, patterns };
        assert!(!switches.is_on("conv.depthwise") && switches.is_on("conv.winograd_f2"));
        assert!(!switches.is_on("conv.winograd_f4") && switches.is_on("gemm.packed"));
        assert!(Switches::all_on().is_on("conv.depthwise"));
    }

    #[test]
    fn what_matches_nothing_is_named() {
        let (patterns, complaints) = parse("-convolution.*,conv.depthwise,,+gemm.*");
        assert_eq!(patterns.len(), 2);
        assert!(complaints[0].starts_with("'convolution.*' matches no implementation; there are "), "{complaints:?}");
        assert_eq!(complaints[1], "'conv.depthwise' begins with neither - (off) nor + (on)");
        assert_eq!(complaints.len(), 2);
    }

    #[test]
    fn an_instruction_set_that_is_not_there_is_named() {
        let known = Isa::available().iter().map(|isa| isa.name).chain(["", "reference"]);
        known.for_each(|name| assert_eq!(unknown_cpu(name), None, "'{name}'"));
        let complaint = unknown_cpu("avx-512").unwrap();
        assert!(
            complaint.starts_with("'avx-512' is no instruction set of this CPU") && complaint.contains("portable"),
            "{complaint}"
        );
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, expected) in [
            ("*", "gemm.packed", true),
            ("gemm.*", "gemm.packed", true),
            ("*.packed", "gemm.packed", true),
            ("g*.p*d", "gemm.packed", true),
            ("gemm", "gemm.packed", false),
            ("*.pack", "gemm.packed", false),
            ("", "gemm.packed", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
