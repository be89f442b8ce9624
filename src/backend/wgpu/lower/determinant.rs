//! Determinants: each thread eliminates in a matrix of its own.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::error::{Error, Kind, Result};
use crate::graph::ops::determinant::Determinant;

/// Larger matrices need more memory than a thread has.
const MOST_ROWS: usize = 32;

pub fn determinant(lowering: &mut Lowering<'_>, op: &Determinant, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let &[.., size] = &input.shape[..] else { unreachable!("the input's rank is at least 2") };
    if size > MOST_ROWS {
        let message = format!("determinant: found matrices of {size} rows, a GPU takes at most {MOST_ROWS}");
        return Err(Error::new(Kind::NotSupported, message));
    }
    if size == 1 {
        let kernel = Kernel::new("determinant").reads(lowering, "input", input);
        return kernel.each(lowering, operands.output(), "return input(i);");
    }
    let body = format!(
        "var m: array<f32, {count}>;\n\
         var is_finite = true;\n\
         for (var k = 0u; k < {count}u; k += 1u) {{\n\
         m[k] = input(i * {count}u + k);\n\
         is_finite = is_finite && !is_nan(m[k]) && !is_infinite(m[k]);\n}}\n\
         // The exponents of the pivots are added up apart, since their product may leave the range on the way.\n\
         var product = 1.0f;\n\
         var exponent = 0;\n\
         for (var step = 0u; step < {size}u; step += 1u) {{\n\
         var pivot = step;\n\
         for (var row = step + 1u; row < {size}u; row += 1u) {{\n\
         if abs(m[row * {size}u + step]) > abs(m[pivot * {size}u + step]) {{ pivot = row; }}\n}}\n\
         if pivot != step {{\n\
         for (var column = step; column < {size}u; column += 1u) {{\n\
         let other = m[pivot * {size}u + column];\n\
         m[pivot * {size}u + column] = m[step * {size}u + column];\n\
         m[step * {size}u + column] = other;\n}}\n\
         product = -product;\n}}\n\
         let head = m[step * {size}u + step];\n\
         if head == 0.0f {{ product *= head; break; }}\n\
         let parts = frexp(product * frexp(head).fract);\n\
         product = parts.fract;\n\
         exponent += parts.exp + frexp(head).exp;\n\
         for (var row = step + 1u; row < {size}u; row += 1u) {{\n\
         let factor = m[row * {size}u + step] / head;\n\
         for (var column = step + 1u; column < {size}u; column += 1u) {{\n\
         m[row * {size}u + column] -= factor * m[step * {size}u + column];\n}}\n}}\n}}\n\
         if !is_finite {{ return nan(); }}\n\
         return ldexp(ldexp(product, clamp(exponent / 2, -140, 128)), clamp(exponent - exponent / 2, -140, 128));",
        count = size * size,
    );
    Kernel::new("determinant").reads(lowering, "input", input).each(lowering, operands.output(), &body)
}
