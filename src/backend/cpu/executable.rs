//! A compiled graph: steps whose operands have been resolved to regions of memory, so that a run looks nothing up.
//!
//! What is compiled never changes, and several contexts may have it ([`Compiled`]). An [`Executable`] is that with the memory of one model.

use super::packings::Packed;
use super::profile::Profile;
use super::run_time::RunTime;
use crate::graph::{ConstantBytes, Shared};
use crate::host_memory::{Placement, Placements};
use crate::memory::{Charge, Lending, Usage};
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
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
mod side_by_side;
mod sources;
mod step;
mod tables;

use arenas::Arenas;
use build::OfModel;
use side_by_side::Group;
use step::Step;

#[cfg(test)]
pub use build::choices;

/// A graph that can be run, by several dispatches at once.
#[derive(Debug)]
pub struct Executable {
    compiled: Arc<Compiled>,
    /// Arenas that no run uses at the moment.
    arenas: Arc<Arenas>,
    usage: Arc<Usage>,
    time_alone: RunTime,
    profile: Option<Profile>,
    /// For what others count.
    _lent: Vec<Arc<Charge>>,
}

/// What was compiled: it stays as it is.
#[derive(Debug)]
pub struct Compiled {
    steps: Vec<Step>,
    /// Of steps that run side by side, in order.
    groups: Vec<Group>,
    constants: Vec<ConstantBytes>,
    /// Those that [`tables`] are.
    is_table: Vec<bool>,
    input_lengths: Vec<usize>,
    output_lengths: Vec<usize>,
    placements: Placements,
    arena_length: usize,
    estimate: usize,
    /// Of kernels, beside what graphs of a model share.
    own_bytes: usize,
    /// See [`sources::of`], where a run was watched.
    sources: OnceLock<Vec<Vec<usize>>>,
    counted: Counted,
}

/// What counts the memory of a compiled graph, with the model that had it first.
#[derive(Debug)]
struct Counted {
    /// For what describes its steps.
    plan: Lending,
    constants: Lending,
    /// For constants that other graphs may have, too.
    shared_constants: Vec<Arc<Lending>>,
    packings: Vec<Weak<Packed>>,
}

impl Counted {
    /// Counts it as shared for a model that has it from another one.
    fn lend(&self, usage: &Arc<Usage>) -> Vec<Arc<Charge>> {
        let own = [&self.plan, &self.constants].into_iter().chain(self.shared_constants.iter().map(|lending| &**lending));
        let of_packings = self.packings.iter().filter_map(Weak::upgrade).flat_map(|packed| packed.lend(usage));
        own.flat_map(|lending| lending.lend(usage)).chain(of_packings).collect()
    }
}

impl Deref for Executable {
    type Target = Compiled;

    fn deref(&self) -> &Compiled {
        &self.compiled
    }
}

impl Executable {
    /// A graph of what was compiled, of a model that shares that, on a context whose memory is counted there.
    pub fn of_compiled(compiled: Arc<Compiled>, shared: &Shared, of_context: &Arc<Usage>) -> Executable {
        let of_model = shared.of::<OfModel>();
        of_model.has_kernels();
        let usage = shared.usage().unwrap_or(of_context).clone();
        let profile = Profile::is_wanted().then(|| Profile::of(compiled.steps.iter().map(Step::profiled).collect()));
        let (time_alone, lent) = (RunTime::estimated(compiled.estimate), compiled.counted.lend(&usage));
        Executable { arenas: of_model.arenas.clone(), usage, time_alone, profile, _lent: lent, compiled }
    }

    /// What others may have, too.
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }

    /// What a run takes on one thread, by those that there were.
    pub fn time_alone(&self) -> Duration {
        self.time_alone.get()
    }

    /// A run of all outputs has taken so long on so many threads.
    pub fn took(&self, time: Duration, threads: usize) {
        self.time_alone.took(time, threads);
    }
}

impl Compiled {
    /// Where inputs may lie from the beginning.
    pub fn placements(&self) -> &[Option<Placement>] {
        &self.placements
    }

    /// How many nanoseconds a run takes on one thread, or so.
    pub fn estimate(&self) -> usize {
        self.estimate
    }

    /// The bytes that it keeps beside weights, about: what stands behind pointers of kernels is not looked at, unless they count it.
    pub fn plan_bytes(&self) -> usize {
        self.own_bytes + self.steps.iter().map(Step::plan_bytes).sum::<usize>()
    }
}
