//! Indices that must lie within sizes: after what makes them, and before what reads them, dispatches look at them and leave the first that
//! is outside. The run goes on, since kernels clamp; whoever reads a result hears of it.

use super::kernel::{Kernel, WORKGROUP, grid};
use super::lowering::{Lowering, Tensor, tensor};
use crate::backend::wgpu::shader::{Scalar, size};
use crate::compiler::{Check, Schedule, Step};
use crate::error::Result;
use std::fmt::Write;

/// Looks at what a step reads.
pub fn look(lowering: &mut Lowering<'_>, schedule: &Schedule, step: &Step) -> Result<()> {
    for check in &step.checks {
        let id = step.inputs[check.input];
        let indices = tensor(&schedule.values[id.0]);
        if indices.count() == 0 {
            continue;
        }
        if let Some(found) = lowering.finding(id, indices.data_type, check) {
            find(lowering, check, &indices, &found)?;
            name(lowering, &indices, &found)?;
        }
    }
    Ok(())
}

/// Leaves the least position: the greatest number that is raised.
fn find(lowering: &mut Lowering<'_>, check: &Check, indices: &Tensor, found: &Tensor) -> Result<()> {
    let (row, grid) = grid(lowering, indices.count().div_ceil(WORKGROUP));
    let (first, others) = check.op.sizes.split_first().expect("a check has a size");
    let mut sizes = format!("var along = {}u;\n", size(*first as usize));
    for (number, &other) in others.iter().enumerate() {
        let _ = writeln!(sizes, "if i % {}u == {}u {{ along = {}u; }}", others.len() + 1, number + 1, size(other as usize));
    }
    let within = indices.scalar().call("is_within", &["indices(i)", "along", &check.op.from_end.to_string()]);
    let main = format!(
        "@compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.y * {row}u + id.x;\n\
         if i >= {count}u {{ return; }}\n\
         {sizes}\
         if !{within} {{ raise_found(0u, 0xffffffffu - i); }}\n\
         }}",
        row = size(row * WORKGROUP),
        count = size(indices.count()),
    );
    lowering.looks_at(indices);
    let kernel = Kernel::new("find_outside").reads(lowering, "indices", indices).raises(lowering, "found", found);
    kernel.declare(&main).run(lowering, grid)
}

/// Leaves the index that was found, while it is there.
fn name(lowering: &mut Lowering<'_>, indices: &Tensor, found: &Tensor) -> Result<()> {
    let (low, high) = match indices.scalar() {
        Scalar::I64 | Scalar::U64 => ("x.x", "x.y"),
        Scalar::I32 | Scalar::U32 => ("bitcast<u32>(x)", "0u"),
        Scalar::F32 => unreachable!("indices are integers"),
    };
    let main = format!(
        "@compute @workgroup_size(1) fn main() {{\n\
         let first = found(0u);\n\
         if first == 0u {{ return; }}\n\
         let x = indices(0xffffffffu - first);\n\
         store_found(1u, {low});\n\
         store_found(2u, {high});\n\
         }}"
    );
    lowering.looks_at(indices);
    let kernel = Kernel::new("name_outside").reads(lowering, "indices", indices).writes(lowering, "found", found);
    kernel.reads(lowering, "found", found).declare(&main).run(lowering, [1, 1, 1])
}
