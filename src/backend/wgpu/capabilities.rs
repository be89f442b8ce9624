//! What GPUs answer the compiler, whoever runs their programs.

use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::compiler::{Capabilities, Fusing, Preferences};
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Op};
use std::sync::Arc;

/// A chain of element-wise operators is one shader. Constants are computed on the CPU.
#[derive(Debug)]
pub struct GpuCapabilities {
    folding: Cpu,
}

impl GpuCapabilities {
    pub fn new() -> GpuCapabilities {
        GpuCapabilities { folding: Cpu::new(1) }
    }

    /// Programs that are being made may be left.
    pub fn cancel(&self) {
        self.folding.cancel();
    }
}

impl Capabilities for GpuCapabilities {
    fn preferences(&self) -> Preferences {
        Preferences { fusing: Fusing::Chains, ..Preferences::default() }
    }

    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        self.folding.capabilities().evaluate(op, operands, outputs)
    }

    fn later(&self) -> Option<Arc<dyn Capabilities + Send + Sync>> {
        self.folding.capabilities().later()
    }

    fn check(&self) -> Result<()> {
        self.folding.capabilities().check()
    }
}
