//! Operators that replace elements at places which other operands name. Where two name the same place the later one holds:
//! first the last update of each place is found, then the output is made of these and the input.

use super::gather::{place, place_on_axis};
use super::kernel::Kernel;
use super::kernel::{WORKGROUP, grid};
use super::lowering::{Lowering, Operands, Tensor};
use crate::backend::wgpu::shader::size;
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::scatter::{ScatterElements, ScatterNd};

pub fn scatter_elements(lowering: &mut Lowering<'_>, op: &ScatterElements, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let to = place_on_axis(input, indices, "i", op.axis);
    scatter(lowering, [input, indices, operands.input(op.updates)], operands.output(), 1, &to)
}

pub fn scatter_nd(lowering: &mut Lowering<'_>, op: &ScatterNd, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let (dimensions, slice) = input.shape.split_at(indices.shape[indices.shape.len() - 1]);
    let to = place(indices, "i", dimensions);
    let updates = operands.input(op.updates);
    scatter(lowering, [input, indices, updates], operands.output(), slice.iter().product(), &to)
}

/// Replaces runs: number `i` of the updates goes to the output's run number `to`.
fn scatter(
    lowering: &mut Lowering<'_>,
    [input, indices, updates]: [&Tensor; 3],
    output: &Tensor,
    run: usize,
    to: &str,
) -> Result<()> {
    // For each run of the output the number of its last update, counted from 1.
    let last = lowering.temporary(DataType::Uint32, &[output.count() / run])?;
    Kernel::new("scatter, none").each(lowering, &last, "return 0u;")?;
    let count = updates.count() / run;
    let (row, size_of_grid) = grid(lowering, count.div_ceil(WORKGROUP));
    let main = format!(
        "@compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.y * {}u + id.x;\n\
         if i < {}u {{ raise_last({to}, i + 1u); }}\n}}",
        size(row * WORKGROUP),
        size(count)
    );
    let kernel = Kernel::new("scatter, last").reads(lowering, "indices", indices);
    kernel.raises(lowering, "last", &last).declare(&main).run(lowering, size_of_grid)?;
    let run = size(run);
    let body = format!(
        "let update = last(i / {run}u);\n\
         if update > 0u {{ return updates((update - 1u) * {run}u + i % {run}u); }}\n\
         return input(i);"
    );
    let kernel = Kernel::new("scatter").reads(lowering, "input", input).reads(lowering, "updates", updates);
    kernel.reads(lowering, "last", &last).each(lowering, output, &body)
}
