//! For tests of what a backend makes of schedules.

pub use super::capabilities::EVERYTHING;
use super::capabilities::{Capabilities, Filter, Fusing, Preferences};
use super::pattern::Pattern;
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Op, OperandId};
use std::sync::Arc;

/// A backend that prefers something else.
pub struct Preferring<'a> {
    pub of: &'a dyn Capabilities,
    pub preferences: Preferences,
}

/// The CPU, as if it had kernels for everything.
pub fn everything_of(cpu: &Cpu) -> Preferring<'_> {
    Preferring { of: cpu.capabilities(), preferences: EVERYTHING }
}

/// The CPU, as if it fused chains as GPUs do.
pub fn chains_of(cpu: &Cpu) -> Preferring<'_> {
    Preferring { of: cpu.capabilities(), preferences: Preferences { fusing: Fusing::Chains, ..Preferences::default() } }
}

impl Capabilities for Preferring<'_> {
    fn preferences(&self) -> Preferences {
        self.preferences
    }

    fn accepts(&self, pattern: &Pattern<'_>) -> bool {
        self.of.accepts(pattern)
    }

    fn is_quick(&self, op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
        self.of.is_quick(op, number)
    }

    fn is_always_fused(&self, op: &Op) -> bool {
        self.of.is_always_fused(op)
    }

    fn is_fast_convolution(&self, op: &Op, filter: Filter<'_>) -> bool {
        self.of.is_fast_convolution(op, filter)
    }

    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        self.of.evaluate(op, operands, outputs)
    }

    fn later(&self) -> Option<Arc<dyn Capabilities + Send + Sync>> {
        self.of.later()
    }

    fn check(&self) -> Result<()> {
        self.of.check()
    }
}
