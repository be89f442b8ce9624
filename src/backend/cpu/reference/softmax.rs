//! The softmax function.

use crate::backend::cpu::element::{Float, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::Axis;
use crate::graph::ops::softmax::Softmax;
use crate::looks::{self, Looking};

/// Nanoseconds for an element.
const COST: usize = 10;

pub fn softmax(op: &Softmax, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let axis = Axis::new(input.shape, op.axis);
    with_float!(input.data_type, T => typed::<T>(input.elements(), axis, output.elements()));
}

fn typed<T: Float>(input: &[T], axis: Axis, output: &mut [T]) {
    let block = axis.size * axis.run;
    for_each_piece(output, block, block * COST, |first, piece| {
        let mut exponentials = scratch::zeroed(block);
        let mut greatest = scratch::zeroed(axis.run);
        let mut sums = scratch::zeroed(axis.run);
        for (output, input) in piece.chunks_exact_mut(block).zip(input[first * block..].chunks_exact(block)) {
            greatest.fill(f64::NEG_INFINITY);
            input.chunks_exact(axis.run).looking_if_long(axis.run).for_each(|row| {
                greatest.iter_mut().zip(row).looking_if_long(1).for_each(|(greatest, x)| *greatest = greatest.max(x.to_f64()));
            });
            // Differences to the greatest value do not overflow. What is not a number stays it here and spoils the sum.
            sums.fill(0.0);
            let rows = input.chunks_exact(axis.run).zip(exponentials.chunks_exact_mut(axis.run));
            rows.looking_if_long(axis.run * COST).for_each(|(row, exponentials)| {
                looks::parts(axis.run).flatten().for_each(|i| {
                    exponentials[i] = (row[i].to_f64() - greatest[i]).exp();
                    sums[i] += exponentials[i];
                });
            });
            let rows = output.chunks_exact_mut(axis.run).zip(exponentials.chunks_exact(axis.run));
            rows.looking_if_long(axis.run).for_each(|(row, exponentials)| {
                looks::parts(axis.run).flatten().for_each(|i| {
                    row[i] = T::from_f64(exponentials[i] / sums[i]);
                });
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    #[test]
    fn along_any_axis() {
        let softmax = |shape: &[u32], values: &[f32], axis| {
            let values = Tensor::of(shape, values.iter().copied());
            run("softmax", &[values], vec![Value::Operand(OperandId(0)), Value::Unsigned(axis)])[0].elements::<f32>()
        };
        let (ln_3, huge) = (3f32.ln(), 1e38);
        assert_eq!(softmax(&[2, 2], &[0.0, ln_3, huge, huge], 1), [0.25, 0.75, 0.5, 0.5]);
        assert_eq!(softmax(&[2, 2], &[0.0, huge, ln_3, huge], 0), [0.25, 0.5, 0.75, 0.5]);
        assert_eq!(softmax(&[1, 3, 1], &[f32::NEG_INFINITY, 0.0, 0.0], 1), [0.0, 0.5, 0.5]);
        assert!(softmax(&[2], &[0.0, f32::NAN], 0).iter().all(|x| x.is_nan()));
    }
}
