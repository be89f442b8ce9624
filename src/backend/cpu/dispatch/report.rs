//! What was chosen for the steps of graphs, and why the implementations before it were not: with `WEBNN_VERBOSE=dispatch` in the
//! environment each step says so on stderr, in one line, when its graph is built; and so does each step that the compiler has proposed and
//! no implementation takes ([`Patterns`](super::Patterns)), before the steps that there are instead.

use super::{Reject, Target};
use std::fmt::Write;
use std::sync::OnceLock;

/// What computes a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The name of the implementation; `reference` where none accepts.
    pub name: &'static str,
    /// Those that were asked before, and what they said; empty unless somebody wants to know.
    pub rejected: Vec<(&'static str, &'static str)>,
}

impl Choice {
    pub fn reference() -> Choice {
        Choice { name: "reference", rejected: Vec::new() }
    }

    /// Notes that an implementation does not take the problem.
    pub fn reject(&mut self, name: &'static str, Reject(reason): Reject) {
        self.rejected.push((name, reason));
    }

    /// Says it on stderr if that is wanted; `describe` is of the step.
    pub fn say(&self, target: &Target, describe: impl FnOnce() -> String) {
        say(|| self.line(self.name, target, &describe()));
    }

    /// The same of a step that was proposed and is none, since no implementation takes it.
    pub fn say_refused(&self, target: &Target, describe: impl FnOnce() -> String) {
        say(|| self.line("refused", target, &describe()));
    }

    fn line(&self, what: &str, target: &Target, step: &str) -> String {
        let mut text = format!("webnn-node: dispatch: {step}: {what} ({}, {} threads)", target.isa.name, target.threads);
        for (name, reason) in &self.rejected {
            let _ = write!(text, "; not {name}: {reason}");
        }
        text.push('\n');
        text
    }
}

fn say(text: impl FnOnce() -> String) {
    if is_wanted() {
        // Somebody may have closed it.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text().as_bytes());
    }
}

fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let is_asked = || {
        let list = std::env::var("WEBNN_VERBOSE").unwrap_or_default();
        let mut unknown = list.split(',').map(str::trim).filter(|topic| !topic.is_empty() && *topic != "dispatch").peekable();
        if unknown.peek().is_some() {
            let unknown: Vec<&str> = unknown.collect();
            eprintln!("webnn-node: WEBNN_VERBOSE: '{}' is not known; there is 'dispatch'", unknown.join("', '"));
        }
        list.split(',').any(|topic| topic.trim() == "dispatch")
    };
    *WANTED.get_or_init(is_asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::Isa;

    #[test]
    fn names_what_was_rejected_in_order() {
        let mut choice = Choice { name: "conv.indirect", rejected: Vec::new() };
        choice.reject("conv.depthwise", Reject("not one input channel for each group"));
        choice.reject("conv.winograd_f2", Reject("no workspace"));
        let portable = Isa::available().last().unwrap();
        assert_eq!(
            choice.line(choice.name, &Target::with(portable, 2), "conv2d [1,8,8,3]"),
            "webnn-node: dispatch: conv2d [1,8,8,3]: conv.indirect (portable, 2 threads); not conv.depthwise: not one input \
             channel for each group; not conv.winograd_f2: no workspace\n"
        );
    }
}
