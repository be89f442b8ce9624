//! Operands and outputs that may lie in memory as bfloat16: kernels compute with float32, which is widened and rounded a line or some at
//! a time, in the first-level cache.

use super::with_scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::ViewMut;
use crate::looks;
use webnn_kernels::bf16::narrow::{Stored, round_line};
use webnn_kernels::isa::Isa;

/// Numbers that are computed before they are rounded, at least one unit of them.
const COMPUTED_NUMBERS: usize = 2048;

/// As [`for_each_piece`] for an output of float32; if it lies as bfloat16 the pieces are computed elsewhere and rounded.
pub fn for_each_stored_piece(
    isa: &Isa,
    output: &mut ViewMut<'_>,
    unit: usize,
    cost: usize,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    if !output.is_narrow() {
        return for_each_piece(output.elements::<f32>(), unit, cost, body);
    }
    let unit = unit.max(1);
    let units = (COMPUTED_NUMBERS / unit).max(1);
    for_each_piece(output.halves(), unit, cost, |first, piece| {
        with_scratch(piece.len().min(units * unit), |scratch| {
            for (number, part) in piece.chunks_mut(units * unit).enumerate() {
                let numbers = &mut scratch[..part.len()];
                body(first + number * units, numbers);
                for range in looks::parts(part.len()) {
                    round_line(isa, &numbers[range.clone()], &mut part[range]);
                }
            }
        });
    });
}

/// Calls `body` with all of some numbers as float32.
pub fn with_numbers<R>(isa: &Isa, stored: Stored<'_>, body: impl FnOnce(&[f32]) -> R) -> R {
    match stored {
        Stored::Float32(numbers) => body(numbers),
        Stored::Bf16(bits) => with_scratch(bits.len(), |scratch| {
            for range in looks::parts(scratch.len()) {
                stored.part(range.clone()).copy_to(isa, &mut scratch[range]);
            }
            body(scratch)
        }),
    }
}
