//! Operators that read elements at places which other operands name. An index out of range is clamped, so that it never
//! leads out of the tensor.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::{Size, size};
use crate::error::Result;
use crate::graph::ops::gather::{Gather, GatherElements, GatherNd};

/// Index number `at` of the operand that a kernel reads as `indices`, made one into a dimension of that size.
pub fn index(indices: &Tensor, at: &str, size: Size) -> String {
    indices.scalar().call("index", &[&format!("indices({at})"), &format!("{size}u")])
}

/// The number of the place that the coordinate `at` names in the first dimensions of a shape.
pub fn place(indices: &Tensor, at: &str, dimensions: &[usize]) -> String {
    dimensions.iter().enumerate().fold("0u".to_owned(), |place, (d, &along)| {
        let size = size(along);
        let index = index(indices, &format!("{at} * {}u + {d}u", dimensions.len()), size);
        format!("({place} * {size}u + {index})")
    })
}

/// Where an element `at` of a tensor of indices leads in a tensor that differs from it in the size of the axis.
pub fn place_on_axis(tensor: &Tensor, indices: &Tensor, at: &str, number: u32) -> String {
    let (own, other) = (Axis::new(&tensor.shape, number), Axis::new(&indices.shape, number));
    let (block, size, run) = (size(other.size * own.run), size(own.size), size(own.run));
    let index = index(indices, at, size);
    format!("((({at}) / {block}u) * {size}u + {index}) * {run}u + ({at}) % {run}u")
}

pub fn gather(lowering: &mut Lowering<'_>, op: &Gather, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let axis = Axis::new(&input.shape, op.axis);
    let (block, count) = (size(indices.count() * axis.run), size(indices.count()));
    let (size, run) = (size(axis.size), size(axis.run));
    let body = format!(
        "let outer = i / {block}u;\nlet index = {};\nreturn input((outer * {size}u + index) * {run}u + i % {run}u);",
        index(indices, &format!("i / {run}u % {count}u"), size)
    );
    kernel(lowering, input, indices).each(lowering, operands.output(), &body)
}

pub fn gather_elements(lowering: &mut Lowering<'_>, op: &GatherElements, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let body = format!("return input({});", place_on_axis(input, indices, "i", op.axis));
    kernel(lowering, input, indices).each(lowering, operands.output(), &body)
}

pub fn gather_nd(lowering: &mut Lowering<'_>, op: &GatherNd, operands: &Operands) -> Result<()> {
    let (input, indices) = (operands.input(op.input), operands.input(op.indices));
    let (dimensions, slice) = input.shape.split_at(indices.shape[indices.shape.len() - 1]);
    let run = size(slice.iter().product());
    let place = place(indices, &format!("(i / {run}u)"), dimensions);
    kernel(lowering, input, indices).each(lowering, operands.output(), &format!("return input({place} * {run}u + i % {run}u);"))
}

fn kernel(lowering: &Lowering<'_>, input: &Tensor, indices: &Tensor) -> Kernel {
    Kernel::new("gather").reads(lowering, "input", input).reads(lowering, "indices", indices)
}
