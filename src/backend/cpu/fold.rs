//! Computes constant nodes for the compiler, with the reference kernels.

use super::cancel::Cancel;
use super::dispatch::Patterns;
use super::view::{Arguments, View, ViewMut};
use super::{kernels, reference};
use crate::compiler::{Evaluate, Pattern};
use crate::error::Result;
use crate::graph::{ConstantBytes, DataType, Descriptor, Op, OperandId};
use crate::memory::{self, Bytes};
use std::sync::Arc;

/// Computes until the context ends, whose builds would otherwise keep others waiting.
#[derive(Clone, Debug)]
pub struct Evaluator {
    pub cancel: Cancel,
    pub patterns: Patterns,
}

impl Evaluate for Evaluator {
    fn accepts(&self, pattern: &Pattern<'_>) -> bool {
        self.patterns.accepts(pattern)
    }

    fn is_quick(&self, op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
        kernels::is_quick(op, number)
    }

    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        self.cancel.check()?;
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
        self.cancel.during(|| reference::execute(op, &mut Arguments::new(&inputs, &mut views)));
        self.cancel.check()?;
        drop(views);
        Ok(results.into_iter().map(ConstantBytes::new).collect())
    }

    fn later(&self) -> Option<Arc<dyn Evaluate + Send + Sync>> {
        Some(Arc::new(self.clone()))
    }

    fn check(&self) -> Result<()> {
        memory::check()?;
        self.cancel.check()
    }
}

/// Bytes of a constant as kernels need them: at an address that suits every element type.
pub enum Aligned<'a> {
    AsTheyAre(&'a [u8]),
    Copied(Bytes),
}

impl std::ops::Deref for Aligned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Aligned::AsTheyAre(bytes) => bytes,
            Aligned::Copied(bytes) => bytes,
        }
    }
}

/// For elements of every type.
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(8)
}

/// For elements of this type.
pub fn is_aligned_for(data_type: DataType, bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(data_type.bits().div_ceil(8))
}

/// The same bytes, copied if they must be.
pub fn aligned(bytes: &[u8]) -> Result<Aligned<'_>> {
    Ok(if is_aligned(bytes) { Aligned::AsTheyAre(bytes) } else { Aligned::Copied(Bytes::copy_of(bytes)?) })
}
