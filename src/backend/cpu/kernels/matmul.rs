//! Matrix products of float32: what a matmul or gemm computes, and in which ways.

mod batched;
mod few_rows;
mod packed;

pub use batched::{BATCHED, BF16_BATCHED};
pub use few_rows::FEW_ROWS;
pub use packed::{BF16, CONV_BF16_GEMM, GEMV_BF16, PACKED, POINTWISE_BF16_GEMM};

use super::{Problem, Reject, Target, TensorDesc, require};
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::shape::strides;
use crate::graph::{Op, OperandId};
use crate::memory;
use smallvec::SmallVec;

/// One product: `rows` × `depth` times `depth` × `columns`, and how the operands lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    pub left_strides: [usize; 2],
    pub right_strides: [usize; 2],
}

impl Shape {
    /// Work in multiplications.
    fn work(&self) -> usize {
        self.rows * self.depth * self.columns
    }
}

/// What a matmul or gemm computes: a stack of products of the same shape.
pub struct Product<'a> {
    pub shape: Shape,
    pub left: OperandId,
    pub right: OperandId,
    /// Where each product finds its operands and puts its output; nothing for a single product of whole operands.
    stack: Option<Vec<[usize; 3]>>,
    /// Elements from one row of the output to the next.
    stride: usize,
    /// A constant row that is added to each row: which operand, and its elements.
    pub bias: Option<(usize, &'a [f32])>,
}

impl<'a> Product<'a> {
    pub fn of(problem: &Problem<'a>, target: &Target) -> Result<Product<'a>, Reject> {
        match problem.op {
            Op::Matmul(op) => Product::of_matmul(op, problem, target.tuning.gemm_multiplications),
            Op::Gemm(op) => Product::of_gemm(op, problem, target.tuning.gemm_multiplications),
            _ => Err(Reject("not a matmul or gemm")),
        }
    }

    /// A single product, worth the packing.
    fn one(
        shape: Shape,
        [left, right]: [OperandId; 2],
        bias: Option<(usize, &'a [f32])>,
        least: usize,
    ) -> Result<Product<'a>, Reject> {
        require(shape.work() >= least, "few multiplications")?;
        Ok(Product { shape, left, right, stack: None, stride: shape.columns, bias })
    }

    fn of_matmul(op: &Matmul, problem: &Problem<'a>, least: usize) -> Result<Product<'a>, Reject> {
        const RANK: Reject = Reject("operands of fewer than 2 dimensions");
        let (a, b) = (problem.input(op.a), problem.input(op.b));
        let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().ok_or(RANK)?;
        let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().ok_or(RANK)?;
        let (left_strides, right_strides) = ([depth, 1], [columns, 1]);
        let count = |shape: &[usize]| shape.iter().product::<usize>();
        let is_ordered = a.order.is_some() || b.order.is_some() || problem.output.order.is_some();
        if !is_ordered {
            let batches = &problem.output.shape[..problem.output.shape.len() - 2];
            if count(batches_b) == 1 && count(batches_a) == count(batches) {
                // A stack times one matrix is a taller matrix times it.
                let shape = Shape { rows: rows * count(batches), depth, columns, left_strides, right_strides };
                return Product::one(shape, [op.a, op.b], None, least);
            }
            require(columns == 1 || rows * depth * columns >= least, "few multiplications")?;
        }
        let (shape, output_strides) = problem.output.layout();
        let (strides_a, strides_b) = (distances(a), distances(b));
        let last = |strides: &[usize]| [strides[strides.len() - 2], strides[strides.len() - 1]];
        let (left_strides, right_strides) = (last(&strides_a), last(&strides_b));
        let [stride, 1] = last(&output_strides) else { return Err(Reject("an output whose rows do not lie together")) };
        let batches = &shape[..shape.len() - 2];
        // Where each matrix lies, and the lists that this is made of.
        let bytes = 2 * count(batches) * size_of::<[usize; 3]>();
        memory::require(bytes).map_err(|_| Reject("no memory for where so many matrices lie"))?;
        let of = |shape: &[usize], strides: &[usize]| places(&shape[..shape.len() - 2], strides, batches);
        let (from_a, from_b) = (of(a.shape, &strides_a), of(b.shape, &strides_b));
        let to = places(batches, &output_strides, batches);
        let stack = from_a.into_iter().zip(from_b).zip(to).map(|((a, b), to)| [a, b, to]).collect();
        let shape = Shape { rows, depth, columns, left_strides, right_strides };
        Ok(Product { shape, left: op.a, right: op.b, stack: Some(stack), stride, bias: None })
    }

    fn of_gemm(op: &Gemm, problem: &Problem<'a>, least: usize) -> Result<Product<'a>, Reject> {
        let &[rows, columns] = problem.output.shape else { return Err(Reject("not a matrix")) };
        let depth = problem.input(op.a).shape[if op.a_transpose { 0 } else { 1 }];
        // Factors, and a c that is not one constant row, are left to the reference kernel.
        require(op.alpha == 1.0, "a factor")?;
        let bias = match op.c {
            None => None,
            Some(id) => {
                let c = problem.input(id);
                require(op.beta == 1.0, "a factor of c")?;
                let is_row = c.shape.last() == Some(&columns) && c.element_count() == columns;
                require(is_row, "a c that is not one row")?;
                Some((id.0 as usize, c.constant_elements()?))
            }
        };
        let left_strides = if op.a_transpose { [1, rows] } else { [depth, 1] };
        let right_strides = if op.b_transpose { [1, depth] } else { [columns, 1] };
        Product::one(Shape { rows, depth, columns, left_strides, right_strides }, [op.a, op.b], bias, least)
    }

    /// Whether it is one product of whole operands.
    pub fn is_one(&self) -> bool {
        self.stack.is_none()
    }
}

/// The operand that is added, which the epilogue has, by position.
fn bias_of(product: &Product<'_>) -> SmallVec<[usize; 2]> {
    product.bias.iter().map(|(position, _)| *position).collect()
}

/// The distances between elements of an operand whose dimensions may lie in another order.
pub fn distances(known: TensorDesc<'_>) -> Vec<usize> {
    let Some(order) = known.order else { return strides(known.shape) };
    let mut shape = vec![0; order.len()];
    order.iter().zip(known.shape).for_each(|(&dimension, &size)| shape[dimension as usize] = size);
    let strides = strides(&shape);
    order.iter().map(|&dimension| strides[dimension as usize]).collect()
}

/// The first element of each matrix of a stack that is broadcast to other dimensions.
pub fn places(from: &[usize], strides: &[usize], to: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    let missing = to.len() - from.len();
    for (axis, &size) in to.iter().enumerate() {
        let stride = if axis < missing || from[axis - missing] == 1 { 0 } else { strides[axis - missing] };
        places = places.iter().flat_map(|&place| (0..size).map(move |i| place + i * stride)).collect();
    }
    places
}
