//! Graphs for a device that somebody else has: they become [`Program`]s as on a device of ours, and whoever has the device runs
//! those. Shaders keep to standard WGSL ([`Features`](super::target::Features) without what only wgpu has).

use super::lower::lower;
use super::program::Program;
use super::target::Target;
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::compiler::{Fusing, Preferences, compile_within};
use crate::error::Result;
use crate::graph::{Graph, Limits};
use crate::memory::Usage;
use std::sync::Arc;

/// What is known of the device.
#[derive(Clone)]
pub struct Foreign(Arc<Shared>);

struct Shared {
    target: Target,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    /// Computes nodes whose operands are constants.
    folding: Cpu,
}

impl Foreign {
    pub fn new(target: Target) -> Self {
        let limits = Arc::new(target.limits());
        Foreign(Arc::new(Shared { target, limits, usage: Arc::default(), folding: Cpu::new(1) }))
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.0.limits
    }

    /// Where constants are counted until they are on the device.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.0.usage
    }

    /// The program of a graph that takes so many bytes at most, and what a run takes beside the constants. May take long.
    ///
    /// # Errors
    /// `OperationError` when the device cannot run the graph, or it takes more.
    pub fn program(&self, graph: Graph, most: usize) -> Result<(Program, usize)> {
        let evaluator = self.0.folding.evaluator();
        let plan = compile_within(most, graph, evaluator, Fusing::Chains, Preferences::default())?;
        let bytes = plan.demand().of_run();
        Ok((lower(&plan, &self.0.target, &|| evaluator.check())?, bytes))
    }

    /// Whether programs are still to be made.
    pub fn is_wanted(&self) -> bool {
        self.0.folding.evaluator().check().is_ok()
    }

    /// Programs that are being made may be left.
    pub fn cancel(&self) {
        self.0.folding.cancel();
    }
}
