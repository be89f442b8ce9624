//! What kernels run on, made once for each context and handed down: nothing below asks the machine or the environment.

use super::Switches;
use super::tuning::{self, Tuning};
use crate::backend::cpu::kernels::{Caches, Isa};
use crate::graph::FpMath;

/// Instruction set, caches and threads.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub isa: &'static Isa,
    pub caches: Caches,
    /// Threads that share a run.
    pub threads: usize,
    /// What the graph may do.
    pub fp_math: FpMath,
    pub tuning: &'static Tuning,
    /// Which implementations may be chosen.
    pub switches: &'static Switches,
}

impl Target {
    /// That of this machine for so many threads, as the environment wants it: `WEBNN_CPU` names an instruction set
    /// (`portable`, `neon`, `avx2`, `avx512`) or `reference`, which leaves all work to the reference kernels; `WEBNN_IMPL`
    /// switches implementations.
    pub fn of_this_machine(threads: usize) -> Target {
        Target {
            isa: Isa::of_this_machine(),
            caches: Caches::of_this_machine(),
            threads,
            fp_math: FpMath::Strict,
            tuning: &tuning::MEASURED,
            switches: Switches::of_environment(),
        }
    }

    /// A certain instruction set and caches of the usual size, without thresholds.
    #[cfg(test)]
    pub fn with(isa: &'static Isa, threads: usize) -> Target {
        Target {
            isa,
            caches: Caches::USUAL,
            threads,
            fp_math: FpMath::Strict,
            tuning: &tuning::ANY_SIZE,
            switches: Switches::all_on(),
        }
    }

    /// The measured thresholds, and caches of the usual size, for a target that need not be this machine.
    #[cfg(test)]
    pub fn described(isa: &'static Isa, threads: usize) -> Target {
        Target { tuning: &tuning::MEASURED, ..Target::with(isa, threads) }
    }

    /// Whether there are fast kernels at all.
    pub fn has_kernels(&self) -> bool {
        !self.switches.only_reference()
    }
}
