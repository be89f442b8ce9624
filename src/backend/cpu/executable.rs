//! A compiled graph: steps whose operands have been resolved to regions of memory, so that a run looks nothing up.

use super::profile::Profile;
use super::run_time::RunTime;
use crate::graph::ConstantBytes;
use crate::host_memory::{Placement, Placements};
use crate::memory::{Charge, Usage};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

mod arenas;
mod build;
mod compute;
mod followers;
mod hiding;
mod narrowing;
mod needed;
mod overwriting;
mod placements;
mod regions;
mod resident;
mod run;
mod sources;
mod step;
mod tables;

use arenas::Arenas;
use step::Step;

#[cfg(test)]
pub use build::choices;

/// A graph that can be run, by several dispatches at once.
#[derive(Debug)]
pub struct Executable {
    steps: Vec<Step>,
    constants: Vec<ConstantBytes>,
    /// Those that [`tables`] are.
    is_table: Vec<bool>,
    input_lengths: Vec<usize>,
    output_lengths: Vec<usize>,
    placements: Placements,
    arena_length: usize,
    /// Arenas that no run uses at the moment.
    arenas: Arc<Arenas>,
    usage: Arc<Usage>,
    estimate: usize,
    time_alone: RunTime,
    /// Of kernels, beside what graphs of a model share.
    own_bytes: usize,
    profile: Option<Profile>,
    /// See [`sources::of`], where a run was watched.
    sources: OnceLock<Vec<Vec<usize>>>,
    /// For what describes its steps.
    _charge_of_plan: Charge,
    _constants_charge: Charge,
    _shared_charges: Vec<resident::Counted>,
    /// For what other models have packed.
    _lent: Vec<Arc<Charge>>,
}

impl Executable {
    /// Where inputs may lie from the beginning.
    pub fn placements(&self) -> &[Option<Placement>] {
        &self.placements
    }

    /// How many nanoseconds a run takes on one thread, or so.
    pub fn estimate(&self) -> usize {
        self.estimate
    }

    /// What a run takes on one thread, by those that there were.
    pub fn time_alone(&self) -> Duration {
        self.time_alone.get()
    }

    /// A run of all outputs has taken so long on so many threads.
    pub fn took(&self, time: Duration, threads: usize) {
        self.time_alone.took(time, threads);
    }

    /// The bytes that it keeps beside weights, about: what stands behind pointers of kernels is not looked at, unless they count it.
    pub fn plan_bytes(&self) -> usize {
        self.own_bytes + self.steps.iter().map(Step::plan_bytes).sum::<usize>()
    }
}
