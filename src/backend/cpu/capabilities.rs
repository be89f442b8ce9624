//! What the CPU answers the compiler. Constants are computed with the reference kernels.

use super::aligned::aligned;
use super::dispatch::{Patterns, Target};
use super::view::{Arguments, View, ViewMut};
use super::{kernels, reference};
use crate::cancel::Cancel;
use crate::compiler::{Capabilities, Filter, Fusing, Pattern, Preferences};
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Op, OperandId};
use crate::memory::{self, Bytes};
use crate::watch::Watch;
use std::sync::Arc;

/// Answers for a target, until the context ends, whose builds would otherwise keep others waiting.
#[derive(Clone, Debug)]
pub struct CpuCapabilities {
    pub cancel: Cancel,
    pub target: Target,
    /// What is asked is for the build that the calling thread works for, and not wanted longer than that.
    pub is_of_build: bool,
}

impl CpuCapabilities {
    fn cancel(&self) -> Cancel {
        if self.is_of_build { self.cancel.of_run(Watch::current()) } else { self.cancel.clone() }
    }
}

impl Capabilities for CpuCapabilities {
    fn preferences(&self) -> Preferences {
        if !self.target.has_kernels() {
            return Preferences::default();
        }
        Preferences {
            fusing: Fusing::Quick,
            patterns: true,
            orders: true,
            channels_last: true,
            widens: true,
            integers: Some(self.target.tuning.integer_multiplications),
            transposed_outputs: kernels::conv_transpose::LEAST_OUTPUTS as u32,
            ..Preferences::default()
        }
    }

    fn accepts(&self, pattern: &Pattern<'_>) -> bool {
        Patterns(self.target).accepts(pattern)
    }

    fn is_quick(&self, op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
        kernels::is_quick(op, number)
    }

    fn is_always_fused(&self, op: &Op) -> bool {
        kernels::is_always_fused(op)
    }

    fn is_fast_convolution(&self, op: &Op, filter: Filter<'_>) -> bool {
        match op {
            // Fast kernels pack the filter when the graph is built.
            _ if !filter.is_constant => false,
            Op::ConvTranspose2d(op) => {
                let [_, outputs, ..] = op.filter_layout.to_iohw(&filter.descriptor.shape);
                op.groups == 1 || outputs as usize >= kernels::conv_transpose::LEAST_OUTPUTS
            }
            _ => true,
        }
    }

    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        let cancel = self.cancel();
        cancel.check()?;
        let shapes = |descriptors: &mut dyn Iterator<Item = &Descriptor>| -> Vec<Vec<usize>> {
            descriptors.map(|descriptor| descriptor.shape.iter().map(|&size| size as usize).collect()).collect()
        };
        let input_shapes = shapes(&mut operands.iter().map(|(descriptor, _)| *descriptor));
        let output_shapes = shapes(&mut outputs.iter().copied());
        let aligned = operands.iter().map(|(_, bytes)| aligned(bytes)).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<View<'_>> = operands
            .iter()
            .zip(&input_shapes)
            .zip(&aligned)
            .map(|(((descriptor, _), shape), bytes)| View::new(descriptor.data_type, shape, bytes))
            .collect();
        let mut results =
            outputs.iter().map(|descriptor| Bytes::zeroed(descriptor.byte_length())).collect::<Result<Vec<Bytes>>>()?;
        let mut views: Vec<ViewMut<'_>> = outputs
            .iter()
            .zip(&output_shapes)
            .zip(&mut results)
            .map(|((descriptor, shape), bytes)| ViewMut { data_type: descriptor.data_type, shape, bytes })
            .collect();
        cancel.during(|| reference::execute(op, &mut Arguments::new(&inputs, &mut views)));
        cancel.check()?;
        drop(views);
        Ok(results.into_iter().map(ConstantBytes::new).collect())
    }

    fn later(&self) -> Option<Arc<dyn Capabilities + Send + Sync>> {
        Some(Arc::new(CpuCapabilities { is_of_build: false, ..self.clone() }))
    }

    fn check(&self) -> Result<()> {
        memory::check()?;
        self.cancel().check()
    }
}
