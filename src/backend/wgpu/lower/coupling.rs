//! Probabilities of classes from those of pairs: each thread finds those of a row.

use super::kernel::Kernel;
use super::kernel::{WORKGROUP, grid};
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader::size;
use crate::error::Result;
use crate::graph::ops::coupling::PairwiseCoupling;

pub fn pairwise_coupling(lowering: &mut Lowering<'_>, op: &PairwiseCoupling, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let (rows, classes) = (input.shape[0], op.classes as usize);
    let (row, size_of_grid) = grid(lowering, rows.div_ceil(WORKGROUP));
    let text = format!(
        "// How likely class a is beside class b.\n\
         fn beside(row: u32, a: u32, b: u32) -> f32 {{\n\
         let first = min(a, b);\n\
         let pair = input(row * {pairs}u + first * (2u * {classes}u - first - 1u) / 2u + max(a, b) - first - 1u);\n\
         return select(1.0f - pair, pair, a < b);\n}}\n\
         fn entry(row: u32, a: u32, b: u32, diagonal: f32) -> f32 {{\n\
         if a == b {{ return diagonal; }}\n\
         return -beside(row, a, b) * beside(row, b, a);\n}}\n\
         @compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let row = id.y * {row}u + id.x;\n\
         if row >= {rows}u {{ return; }}\n\
         var p: array<f32, {classes}>;\n\
         var qp: array<f32, {classes}>;\n\
         var diagonal: array<f32, {classes}>;\n\
         for (var a = 0u; a < {classes}u; a += 1u) {{\n\
         p[a] = 1.0f / {classes}.0f;\n\
         var sum = 0.0f;\n\
         for (var b = 0u; b < {classes}u; b += 1u) {{\n\
         if a != b {{ let against = beside(row, b, a); sum += against * against; }}\n}}\n\
         diagonal[a] = sum;\n}}\n\
         for (var step = 0u; step < {steps}u; step += 1u) {{\n\
         var form = 0.0f;\n\
         for (var a = 0u; a < {classes}u; a += 1u) {{\n\
         var sum = 0.0f;\n\
         for (var b = 0u; b < {classes}u; b += 1u) {{ sum += entry(row, a, b, diagonal[a]) * p[b]; }}\n\
         qp[a] = sum;\n\
         form += sum * p[a];\n}}\n\
         var is_done = true;\n\
         for (var a = 0u; a < {classes}u; a += 1u) {{ is_done = is_done && abs(qp[a] - form) < {error}f; }}\n\
         if is_done {{ break; }}\n\
         for (var t = 0u; t < {classes}u; t += 1u) {{\n\
         let change = (form - qp[t]) / diagonal[t];\n\
         p[t] += change;\n\
         let scale = 1.0f / (1.0f + change);\n\
         form = (form + change * (change * diagonal[t] + 2.0f * qp[t])) * scale * scale;\n\
         for (var b = 0u; b < {classes}u; b += 1u) {{\n\
         qp[b] = (qp[b] + change * entry(row, t, b, diagonal[t])) * scale;\n\
         p[b] *= scale;\n}}\n}}\n}}\n\
         for (var a = 0u; a < {classes}u; a += 1u) {{ store_probabilities(row * {classes}u + a, p[a]); }}\n}}\n",
        pairs = input.shape[1],
        row = size(row * WORKGROUP),
        rows = size(rows),
        steps = classes.max(100),
        error = 0.005 / classes as f32,
    );
    let kernel = Kernel::new("pairwiseCoupling").reads(lowering, "input", input).writes(lowering, "probabilities", output);
    kernel.declare(&text).run(lowering, size_of_grid)
}
