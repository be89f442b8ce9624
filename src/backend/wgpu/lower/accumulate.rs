//! Operators that combine updates with the elements at places which other operands name.
//!
//! Each element of the output looks through the updates that may be its own, in their order, which floating-point sums depend
//! on: those along the axis, or all coordinates. That takes elements times updates comparisons.

use super::gather::{index, place};
use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd, Accumulation};
use crate::graph::shape::strides;

pub fn accumulate_elements(lowering: &mut Lowering<'_>, op: &AccumulateElements, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let axis = op.axis as usize;
    let targets = targets(lowering, indices, indices.count(), &index(indices, "i", size(input.shape[axis])))?;
    let (distances, steps) = (strides(&input.shape), strides(&indices.shape));
    // Where the updates of an element begin, if it is within what the indices cover.
    let (mut first, mut outside) = ("0u".to_owned(), String::new());
    for d in (0..input.shape.len()).filter(|&d| d != axis) {
        let at = format!("(i / {}u % {}u)", size(distances[d]), size(input.shape[d]));
        if indices.shape[d] < input.shape[d] {
            outside.push_str(&format!("if {at} >= {}u {{ return input(i); }}\n", size(indices.shape[d])));
        }
        first.push_str(&format!(" + {at} * {}u", size(steps[d])));
    }
    let own = format!("i / {}u % {}u", size(distances[axis]), size(input.shape[axis]));
    let body = format!("{outside}let first = {first};\nlet own = {own};");
    let at = format!("(first + k * {}u)", size(steps[axis]));
    accumulate(
        lowering,
        operands,
        [input, &targets, operands.input(op.updates)],
        op.reduction,
        &body,
        (indices.shape[axis], &at, &at),
    )
}

pub fn accumulate_nd(lowering: &mut Lowering<'_>, op: &AccumulateNd, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let (coordinates, depth) = indices.shape.split_at(indices.shape.len() - 1);
    let (dimensions, slice) = input.shape.split_at(depth[0]);
    let (count, run): (usize, _) = (coordinates.iter().product(), size(slice.iter().product()));
    let targets = targets(lowering, indices, count, &place(indices, "i", dimensions))?;
    let body = format!("let own = i / {run}u;");
    let update = format!("(k * {run}u + i % {run}u)");
    accumulate(lowering, operands, [input, &targets, operands.input(op.updates)], op.reduction, &body, (count, "k", &update))
}

/// Where each update goes, as a number.
fn targets(lowering: &mut Lowering<'_>, indices: &Tensor, count: usize, target: &str) -> Result<Tensor> {
    let targets = lowering.temporary(DataType::Uint32, &[count])?;
    Kernel::new("accumulate, places").reads(lowering, "indices", indices).each(
        lowering,
        &targets,
        &format!("return {target};"),
    )?;
    Ok(targets)
}

/// Of `count` updates, number `k` at `update` goes where `targets`, at `target`, is the element's `own` number.
fn accumulate(
    lowering: &mut Lowering<'_>,
    operands: &Operands,
    [input, targets, updates]: [&Tensor; 3],
    reduction: Accumulation,
    body: &str,
    (count, target, update): (usize, &str, &str),
) -> Result<()> {
    let scalar: Scalar = input.scalar();
    let (count, update) = (size(count), format!("updates({update})"));
    let total = match reduction {
        Accumulation::Add => scalar.add("total", &update),
        Accumulation::Mul => scalar.mul("total", &update),
        Accumulation::Max => scalar.call("max", &["total", &update]),
        Accumulation::Min => scalar.call("min", &["total", &update]),
    };
    let body = format!(
        "{body}\n\
         var total = input(i);\n\
         for (var k = 0u; k < {count}u; k += 1u) {{ if targets({target}) == own {{ total = {total}; }} }}\n\
         return total;"
    );
    let kernel = Kernel::new("accumulate").reads(lowering, "input", input).reads(lowering, "targets", targets);
    kernel.reads(lowering, "updates", updates).each(lowering, operands.output(), &body)
}
