//! Determinants and inverses: each thread eliminates in a matrix of its own.

use super::kernel::{Kernel, WORKGROUP, grid};
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader;
use crate::error::{Error, Kind, Result};
use crate::graph::ops::determinant::{Determinant, Inverse};

fn check_size(name: &str, size: usize) -> Result<()> {
    if size > MOST_ROWS {
        let message = format!("{name}: found matrices of {size} rows, a GPU takes at most {MOST_ROWS}");
        return Err(Error::new(Kind::NotSupported, message));
    }
    Ok(())
}

/// WGSL that brings a matrix `m` into the form of a triangle, by the largest pivots, and what else is done where two rows are
/// exchanged, with each pivot (`head`), and where a row (times `factor`) is subtracted from another.
fn eliminate(size: usize, exchanged: &str, with_pivot: &str, subtracted: &str) -> String {
    format!(
        "for (var step = 0u; step < {size}u; step += 1u) {{\n\
         var pivot = step;\n\
         for (var row = step + 1u; row < {size}u; row += 1u) {{\n\
         if abs(m[row * {size}u + step]) > abs(m[pivot * {size}u + step]) {{ pivot = row; }}\n}}\n\
         if pivot != step {{\n\
         for (var column = step; column < {size}u; column += 1u) {{\n\
         let other = m[pivot * {size}u + column];\n\
         m[pivot * {size}u + column] = m[step * {size}u + column];\n\
         m[step * {size}u + column] = other;\n}}\n\
         {exchanged}}}\n\
         let head = m[step * {size}u + step];\n\
         {with_pivot}\
         for (var row = step + 1u; row < {size}u; row += 1u) {{\n\
         let factor = m[row * {size}u + step] / head;\n\
         for (var column = step + 1u; column < {size}u; column += 1u) {{\n\
         m[row * {size}u + column] -= factor * m[step * {size}u + column];\n}}\n\
         {subtracted}}}\n}}\n"
    )
}

/// A thread computes a column of an inverse.
pub fn inverse(lowering: &mut Lowering<'_>, op: &Inverse, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let &[.., size] = &input.shape[..] else { unreachable!("the input's rank is at least 2") };
    check_size("inverse", size)?;
    let total = input.count() / size;
    let (row, size_of_grid) = grid(lowering, total.div_ceil(WORKGROUP));
    let exchange = "let other = x[pivot];\nx[pivot] = x[step];\nx[step] = other;\n";
    let text = format!(
        "@compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.y * {row}u + id.x;\n\
         if i >= {total}u {{ return; }}\n\
         let first = i / {size}u * {count}u;\n\
         var m: array<f32, {count}>;\n\
         var x: array<f32, {size}>;\n\
         for (var k = 0u; k < {count}u; k += 1u) {{ m[k] = input(first + k); }}\n\
         x[i % {size}u] = 1.0f;\n\
         {elimination}\
         for (var step = {size}u; step > 0u; step -= 1u) {{\n\
         let row = step - 1u;\n\
         var sum = x[row];\n\
         for (var column = step; column < {size}u; column += 1u) {{ sum -= m[row * {size}u + column] * x[column]; }}\n\
         x[row] = sum / m[row * {size}u + row];\n\
         store_output(first + row * {size}u + i % {size}u, x[row]);\n}}\n}}\n",
        row = shader::size(row * WORKGROUP),
        total = shader::size(total),
        count = size * size,
        elimination = eliminate(size, exchange, "", "x[row] -= factor * x[step];\n"),
    );
    let kernel = Kernel::new("inverse").reads(lowering, "input", input).writes(lowering, "output", operands.output());
    kernel.declare(&text).run(lowering, size_of_grid)
}

/// Larger matrices need more memory than a thread has.
const MOST_ROWS: usize = 32;

pub fn determinant(lowering: &mut Lowering<'_>, op: &Determinant, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let &[.., size] = &input.shape[..] else { unreachable!("the input's rank is at least 2") };
    check_size("determinant", size)?;
    if size == 1 {
        let kernel = Kernel::new("determinant").reads(lowering, "input", input);
        return kernel.each(lowering, operands.output(), "return input(i);");
    }
    let multiply = "if head == 0.0f { product *= head; break; }\n\
         let parts = frexp(product * frexp(head).fract);\n\
         product = parts.fract;\n\
         exponent += parts.exp + frexp(head).exp;\n";
    let body = format!(
        "var m: array<f32, {count}>;\n\
         var is_finite = true;\n\
         for (var k = 0u; k < {count}u; k += 1u) {{\n\
         m[k] = input(i * {count}u + k);\n\
         is_finite = is_finite && !is_nan(m[k]) && !is_infinite(m[k]);\n}}\n\
         // The exponents of the pivots are added up apart, since their product may leave the range on the way.\n\
         var product = 1.0f;\n\
         var exponent = 0;\n\
         {elimination}\
         if !is_finite {{ return nan(); }}\n\
         return ldexp(ldexp(product, clamp(exponent / 2, -140, 128)), clamp(exponent - exponent / 2, -140, 128));",
        count = size * size,
        elimination = eliminate(size, "product = -product;\n", multiply, ""),
    );
    Kernel::new("determinant").reads(lowering, "input", input).each(lowering, operands.output(), &body)
}
