//! What computes a step: its kernel, or the reference kernels, operator by operator.

use super::followers::{follow, follow_from};
use super::step::Step;
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::cancel::Cancel;
use crate::error::Result;
use crate::graph::{DataType, Op};
use crate::looks;
use crate::memory::Bytes;
use smallvec::SmallVec;

impl Step {
    /// Computes it. Whether the indices are within, where it [checks them itself](Step::checks_itself).
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for a value in between, `InvalidStateError` when the context ends meanwhile.
    pub fn compute<'a>(&self, views: &[View<'a>], written: &mut [ViewMut<'a>], cancel: &Cancel) -> Result<bool> {
        #[cfg(feature = "faults")]
        crate::faults::at(crate::faults::Place::Step)?;
        let mut are_within = true;
        match &self.kernel {
            Some(kernel) => kernel.compute(&mut Arguments::new(views, written).overwriting(self.overwritten)),
            None if !self.dequantized.is_empty() => return dequantized_product(self, views, written, cancel).map(|()| true),
            None if matches!(self.op, Op::QuantizedMatmul(_)) && !self.followers.is_empty() => {
                return quantized_product(self, views, written, cancel).map(|()| true);
            }
            None if self.checks_itself() => {
                are_within = reference::gather_checked(&self.op, &mut Arguments::new(views, written));
            }
            None => reference::execute(&self.op, &mut Arguments::new(views, written)),
        }
        follow(&self.followers, views, written, cancel)?;
        Ok(are_within)
    }
}

/// A product of dequantized operands, operator by operator with the reference kernels.
fn dequantized_product(step: &Step, views: &[View<'_>], written: &mut [ViewMut<'_>], cancel: &Cancel) -> Result<()> {
    let mut numbers: Vec<(usize, Bytes)> = Vec::new();
    for op in &step.dequantized {
        let Op::DequantizeLinear(dequantize) = op else { unreachable!("the compiler puts nothing else there") };
        let input = dequantize.input.0 as usize;
        let shape = views[input].shape;
        let mut bytes = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<f32>())?;
        let mut outputs = [ViewMut { data_type: DataType::Float32, shape, bytes: &mut bytes }];
        reference::execute(op, &mut Arguments::new(views, &mut outputs));
        numbers.push((input, bytes));
    }
    let mut of_numbers: SmallVec<[View<'_>; 6]> = views.iter().copied().collect();
    for (position, bytes) in &numbers {
        of_numbers[*position] = View::new(DataType::Float32, views[*position].shape, bytes);
    }
    let shape = written[0].shape;
    let mut result = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<f32>())?;
    let mut outputs = [ViewMut { data_type: DataType::Float32, shape, bytes: &mut result }];
    reference::execute(&step.op, &mut Arguments::new(&of_numbers, &mut outputs));
    if step.followers.is_empty() {
        looks::copy(&result, written[0].bytes);
        return Ok(());
    }
    follow_from(result, DataType::Float32, &step.followers, views, &mut written[0], cancel)
}

/// A product of bytes, and what is done to the sums, operator by operator with the reference kernels: they are int32 first.
fn quantized_product(step: &Step, views: &[View<'_>], written: &mut [ViewMut<'_>], cancel: &Cancel) -> Result<()> {
    let shape = written[0].shape;
    let mut result = Bytes::zeroed(shape.iter().product::<usize>() * size_of::<i32>())?;
    let mut outputs = [ViewMut { data_type: DataType::Int32, shape, bytes: &mut result }];
    reference::execute(&step.op, &mut Arguments::new(views, &mut outputs));
    follow_from(result, DataType::Int32, &step.followers, views, &mut written[0], cancel)
}
