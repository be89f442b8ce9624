//! Products of many rows with a constant matrix of a few columns. To a convolution the rows are pixels, and its tiles are as narrow
//! and higher.

use super::matmul::{Product, Shape};
use super::{Accepted, Built, Implementation, Problem, Reject, Target, TensorDesc, conv, require};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{Op, OperandId};

/// Columns of the narrowest tiles.
const MOST_COLUMNS: usize = 8;

/// A product with a constant matrix of a few columns.
pub static TALL_AND_SKINNY: Implementation = Implementation { name: "gemm.tall_and_skinny", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let product = Product::of(problem, target)?;
    let Shape { rows, depth, columns, left_strides, right_strides } = product.shape;
    require(product.is_one(), "several matrices")?;
    require((2..=MOST_COLUMNS).contains(&columns), "not 2 to 8 columns")?;
    require(rows >= target.tuning.tall_rows, "few rows")?;
    require(left_strides == [depth, 1], "rows whose elements do not lie side by side")?;
    let matrix = problem.input(product.right);
    matrix.constant_numbers()?;
    let (filter, filter_layout) = match right_strides[1] != 1 {
        true => ([columns, 1, 1, depth], Conv2dFilterOperandLayout::Ohwi),
        false => ([1, 1, depth, columns], Conv2dFilterOperandLayout::Hwio),
    };
    let bias = product.bias.map(|(position, _)| OperandId(position as u32));
    let (image, output) = ([1, rows, 1, depth], [1, rows, 1, columns]);
    let op = Conv2d { bias, ..Conv2d::new(product.left, product.right, InputOperandLayout::Nhwc, filter_layout) };
    let seen = AsConv { op: Op::from(op), image, filter, output };
    let fuses = seen.with(problem, |problem| conv::desc(problem, target).map(|desc| desc.fuses()))??;
    require(fuses, "something is done to the output that no stage of a convolution knows")?;
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || {
        let (kernel, consumed) = seen.with(&problem, |problem| Ok::<_, Reject>(conv::desc(problem, &target)?.build()))??;
        Ok(Built { fuses: kernel.fuses(), kernel: Box::new(kernel), consumed })
    }))
}

/// The product as a convolution of single pixels.
struct AsConv {
    op: Op,
    image: [usize; 4],
    filter: [usize; 4],
    output: [usize; 4],
}

impl AsConv {
    /// Calls back with each operand as the convolution sees it: what is done to the products has their shape, or a number for each
    /// column, or one.
    fn with<T>(&self, problem: &Problem<'_>, done: impl FnOnce(&Problem<'_>) -> T) -> Result<T, Reject> {
        let Op::Conv2d(op) = &self.op else { unreachable!("made as one") };
        let columns = self.output[3];
        let shape = |(position, known): (usize, &TensorDesc<'_>)| {
            let id = OperandId(position as u32);
            let count = known.element_count();
            match id {
                _ if id == op.input => Some(self.image.as_slice()),
                _ if id == op.filter => Some(self.filter.as_slice()),
                _ if known.shape == problem.output.shape => Some(self.output.as_slice()),
                _ if count == 1 => Some([1].as_slice()),
                _ if count == columns && known.shape.last() == Some(&columns) => Some(&self.output[3..]),
                _ => None,
            }
        };
        let shapes: Option<Vec<&[usize]>> = problem.inputs.iter().enumerate().map(shape).collect();
        let shapes = shapes.ok_or(Reject("an operand that is neither of the output's shape nor a row nor a number"))?;
        let inputs: Vec<TensorDesc<'_>> =
            problem.inputs.iter().zip(shapes).map(|(known, shape)| TensorDesc { shape, ..*known }).collect();
        let output = TensorDesc { shape: &self.output, ..problem.output };
        Ok(done(&Problem { op: &self.op, inputs: &inputs, output, ..*problem }))
    }
}
