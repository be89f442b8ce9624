//! Where graphs are compiled: on a few threads of the process's own, so that a long build holds up no dispatch.

use crate::error::{Error, Escaped, Kind};
use crate::thread::Pool;
use std::time::Duration;

/// Builds that run at the same time in the whole process; others wait their turn.
const AT_ONCE: usize = 4;
/// A thread without work ends after so long.
const KEPT: Duration = Duration::from_secs(10);

pub static BUILDS: Pool = Pool::new("webnn build", AT_ONCE, KEPT);

/// For graphs that nobody waits for.
static BUILDS_AHEAD: Pool = Pool::that_yields("webnn ahead", 1, KEPT);

/// Whether somebody waits for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    Wanted,
    /// It may be wanted later.
    Ahead,
}

impl Urgency {
    /// The threads that compile it.
    pub fn pool(self) -> &'static Pool {
        match self {
            Urgency::Wanted => &BUILDS,
            Urgency::Ahead => &BUILDS_AHEAD,
        }
    }
}

pub fn failed_build(error: &Error, label: &str) -> Error {
    let label = if label.is_empty() { String::new() } else { format!(" [{}]", Escaped(label)) };
    // A limit of script's is told as what it is.
    let kind = if error.kind() == Kind::QuotaExceeded { Kind::QuotaExceeded } else { Kind::Operation };
    Error::new(kind, format!("build{label}: {}", error.message()))
}
