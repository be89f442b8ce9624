//! Runs that want some of the outputs only: which steps they need.

use super::Executable;
use super::step::Memory;
use crate::backend::cpu::storage::HostStorage;
use std::collections::HashSet;
use std::sync::Arc;

/// What a run with fewer outputs computes.
pub struct Needed {
    pub steps: Vec<bool>,
    /// Outputs that a needed step touches.
    pub outputs: Vec<bool>,
}

impl Executable {
    /// The steps that the wanted outputs need; nothing when all outputs are wanted.
    pub fn needed(&self, outputs: &[Option<Arc<HostStorage>>]) -> Option<Needed> {
        if outputs.iter().all(Option::is_some) {
            return None;
        }
        let mut needed = Needed { steps: vec![false; self.steps.len()], outputs: outputs.iter().map(Option::is_some).collect() };
        // What later steps read, by region and offset: an exact match, since a value is written and read as a whole.
        let mut read: HashSet<(usize, usize)> = HashSet::new();
        for (number, step) in self.steps.iter().enumerate().rev() {
            let mut wanted = false;
            for output in &step.outputs {
                let Memory::Written { region, offset } = output.memory else { unreachable!("asserted in `new`") };
                // Written here: what stood there before is another value.
                wanted |= read.remove(&(region, offset)) || (region > 0 && outputs[region - 1].is_some());
            }
            if wanted {
                needed.steps[number] = true;
                for operand in step.inputs.iter().chain(&step.outputs) {
                    if let Memory::Written { region, .. } = operand.memory
                        && region > 0
                    {
                        needed.outputs[region - 1] = true;
                    }
                }
                for operand in &step.inputs {
                    if let Memory::Written { region, offset } = operand.memory {
                        read.insert((region, offset));
                    }
                }
            }
        }
        Some(needed)
    }
}
