//! Operators that combine updates with the elements at places which other operands name.
//!
//! Each element of the output combines its updates in their order, which floating-point sums depend on. Where updates and elements are
//! many, updates are sorted by their targets first, in time linear in both; otherwise each element looks through all that may be its own:
//! those along the axis, or all coordinates.

use super::gather::{index, place, place_on_axis};
use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use super::sort::{bits_below, is_worth_sorting, order};
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd, Accumulation};
use crate::graph::shape::strides;

pub fn accumulate_elements(lowering: &mut Lowering<'_>, op: &AccumulateElements, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let axis = op.axis as usize;
    if is_worth_sorting(input.count(), indices.shape[axis]) {
        let places = targets(lowering, indices, indices.count(), &place_on_axis(input, indices, "i", op.axis))?;
        return sorted(lowering, operands, [input, &places, operands.input(op.updates)], op.reduction, 1);
    }
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
    if is_worth_sorting(input.count(), count) {
        let run = slice.iter().product();
        return sorted(lowering, operands, [input, &targets, operands.input(op.updates)], op.reduction, run);
    }
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

/// Of runs of elements: run number `k` of the updates goes to the run of the output that element `k` of the targets says.
fn sorted(
    lowering: &mut Lowering<'_>,
    operands: &Operands,
    [input, targets, updates]: [&Tensor; 3],
    reduction: Accumulation,
    run: usize,
) -> Result<()> {
    let (runs, count) = (input.count() / run, size(targets.count()));
    let order = order(lowering, targets, bits_below(runs), None)?;
    // How many updates go to the runs before each.
    let starts = lowering.temporary(DataType::Uint32, &[runs])?;
    let body = format!(
        "var first = 0u;\n\
         var end = {count}u;\n\
         while first < end {{\n\
         let middle = first + (end - first) / 2u;\n\
         if targets(order(middle)) < i {{ first = middle + 1u; }} else {{ end = middle; }}\n}}\n\
         return first;"
    );
    let bind =
        |lowering: &Lowering<'_>, label| Kernel::new(label).reads(lowering, "targets", targets).reads(lowering, "order", &order);
    bind(lowering, "accumulate, first updates").each(lowering, &starts, &body)?;
    let run = size(run);
    let total = combined(input.scalar(), reduction, &format!("updates(update * {run}u + i % {run}u)"));
    let body = format!(
        "let own = i / {run}u;\n\
         var total = input(i);\n\
         for (var k = starts(own); k < {count}u; k += 1u) {{\n\
         let update = order(k);\n\
         if targets(update) != own {{ break; }}\n\
         total = {total};\n}}\n\
         return total;"
    );
    let kernel = bind(lowering, "accumulate, sorted").reads(lowering, "starts", &starts).reads(lowering, "input", input);
    kernel.reads(lowering, "updates", updates).each(lowering, operands.output(), &body)
}

/// The value `total`, combined with an update.
fn combined(scalar: Scalar, reduction: Accumulation, update: &str) -> String {
    match reduction {
        Accumulation::Add => scalar.add("total", update),
        Accumulation::Mul => scalar.mul("total", update),
        Accumulation::Max => scalar.call("max", &["total", update]),
        Accumulation::Min => scalar.call("min", &["total", update]),
    }
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
    let (count, total) = (size(count), combined(input.scalar(), reduction, &format!("updates({update})")));
    let body = format!(
        "{body}\n\
         var total = input(i);\n\
         for (var k = 0u; k < {count}u; k += 1u) {{ if targets({target}) == own {{ total = {total}; }} }}\n\
         return total;"
    );
    let kernel = Kernel::new("accumulate").reads(lowering, "input", input).reads(lowering, "targets", targets);
    kernel.reads(lowering, "updates", updates).each(lowering, operands.output(), &body)
}
