//! Graphs for a device that somebody else has: they become [`GpuProgram`]s as on a device of ours, and whoever has the device runs
//! those. Shaders keep to standard WGSL ([`Features`](super::target::Features) without what only wgpu has).

use super::capabilities::GpuCapabilities;
use super::gpu_program::GpuProgram;
use super::lower::lower;
use super::target::Target;
use crate::compiler::{Capabilities, compile_within};
use crate::error::Result;
use crate::graph::{Graph, Limits};
use crate::memory::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is known of the device.
#[derive(Clone)]
pub struct Foreign(Arc<ForeignContext>);

struct ForeignContext {
    target: Target,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    /// Computes nodes whose operands are constants.
    capabilities: GpuCapabilities,
}

/// What a graph becomes.
#[derive(Debug)]
pub struct Lowered {
    pub program: GpuProgram,
    /// What a run takes beside the constants.
    pub run_bytes: usize,
    /// Of a model that may have several graphs.
    pub common: Option<Common>,
}

/// What tells the constants of a program from others of the same model: graphs of one model need them once.
#[derive(Debug)]
pub struct Common {
    /// A number that no other model of the process has.
    pub model: u64,
    /// By constant.
    pub identities: Vec<u128>,
}

/// The number of a model.
struct Model(u64);

impl Default for Model {
    fn default() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Model(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Foreign {
    pub fn new(target: Target) -> Self {
        let limits = Arc::new(target.limits());
        Foreign(Arc::new(ForeignContext { target, limits, usage: Arc::default(), capabilities: GpuCapabilities::new() }))
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.0.limits
    }

    /// Where constants are counted until they are on the device.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.0.usage
    }

    /// The program of a graph that takes so many bytes at most. May take long.
    ///
    /// # Errors
    /// `OperationError` when the device cannot run the graph, or it takes more.
    pub fn program(&self, graph: Graph, most: usize) -> Result<Lowered> {
        let capabilities = &self.0.capabilities;
        let schedule = compile_within(most, graph, capabilities)?;
        let run_bytes = schedule.demand().of_run();
        let program = lower(&schedule, &self.0.target, &|| capabilities.check())?;
        let shared = &schedule.shared;
        let common = shared.is_of_several().then(|| Common {
            model: shared.of::<Model>().0,
            identities: program.constants.iter().map(|constant| constant.identity()).collect(),
        });
        Ok(Lowered { program, run_bytes, common })
    }

    /// Whether programs are still to be made.
    pub fn is_wanted(&self) -> bool {
        self.0.capabilities.check().is_ok()
    }

    /// Programs that are being made may be left.
    pub fn cancel(&self) {
        self.0.capabilities.cancel();
    }
}
