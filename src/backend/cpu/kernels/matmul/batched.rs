//! A stack of products of which neither operand is constant: right operands are packed in each run.
#![allow(unsafe_code)]

use super::{Product, Shape, bias_of};
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::product::{Grid, RightView, multiply, pack_panel, with_left};
use crate::backend::cpu::kernels::{
    Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, bf16, gemv, require, with_scratch,
};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use webnn_kernels::epilogue::post_ops::Origin;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::output::{BlockEpilogue, Output};

/// A stack of products by way of bfloat16.
pub static BF16_BATCHED: Implementation = Implementation { name: "gemm.bf16_batched", accept: accept_bf16_batched };
/// A stack of products, whose right operands are packed in each run.
pub static BATCHED: Implementation = Implementation { name: "gemm.batched", accept: accept_batched };

fn accept_batched<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    batched(Product::of(problem, target)?, target.isa.gemm, problem, target)
}

fn accept_bf16_batched<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let gemm = bf16::for_products(target)?;
    let product = Product::of(problem, target)?;
    bf16::require_columns(product.shape.columns, target)?;
    require(product.shape.rows >= target.tuning.bf16_rows, "few rows for the rounding of the right operand")?;
    batched(product, gemm, problem, target)
}

fn batched<'a>(product: Product<'a>, gemm: &'static Microkernels, problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let mut consumed = bias_of(&product);
    let mut stack = Stack::of(product, gemm, target)?;
    let problem = *problem;
    Ok(Box::new(move || {
        let fuses = stack.epilogue.fuse(&problem, &mut consumed);
        Ok(Built { kernel: Box::new(stack), consumed, fuses })
    }))
}

/// A stack of products of which neither operand is constant.
#[derive(Debug)]
pub struct Stack {
    pub gemm: &'static Microkernels,
    pub shape: Shape,
    pub left: OperandId,
    pub right: OperandId,
    /// Where each product finds its operands and puts its output.
    pub positions: Vec<[usize; 3]>,
    /// Elements from one row of the output to the next.
    pub stride: usize,
    pub epilogue: Epilogue,
    pub threads: usize,
}

impl Stack {
    /// As one of a stack, of which neither operand is packed at build time.
    pub fn of(product: Product<'_>, gemm: &'static Microkernels, target: &Target) -> Result<Stack, Reject> {
        let is_single = product.is_one();
        let Product { shape, left, right, stack, stride, bias } = product;
        let column_bias = match bias {
            Some((_, bias)) if is_single && shape.columns == 1 => Some(bias[0]),
            Some(_) => return Err(Reject("a row that is added to a product of computed operands")),
            None => None,
        };
        let gemm = gemm.for_product(shape.rows, shape.columns, target.caches);
        let epilogue = Epilogue::of_column(column_bias);
        let positions = stack.unwrap_or_else(|| vec![[0, 0, 0]]);
        Ok(Stack { gemm, shape, left, right, positions, stride, epilogue, threads: target.threads }.with_column_left())
    }

    /// A matrix times a column that lies as a row does is the column times the transposed matrix.
    fn with_column_left(self) -> Stack {
        let Shape { rows, depth, columns, left_strides, right_strides } = self.shape;
        if columns > 1 || self.stride > 1 || rows <= gemv::MOST {
            return self;
        }
        let transposed = |[row, column]: [usize; 2]| [column, row];
        let (left_strides, right_strides) = (transposed(right_strides), transposed(left_strides));
        let shape = Shape { rows: 1, depth, columns: rows, left_strides, right_strides };
        let positions = self.positions.into_iter().map(|[left, right, place]| [right, left, place]).collect();
        Stack { shape, left: self.right, right: self.left, positions, stride: rows, ..self }
    }
}

impl Kernel for Stack {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let (a, b) = (arguments.input(self.left).elements::<f32>(), arguments.input(self.right).elements::<f32>());
        let tensors = self.epilogue.tensors(arguments);
        let output = Output::new(arguments.output().elements::<f32>(), self.stride);
        let Shape { rows, depth, columns, .. } = self.shape;
        let gemm = self.gemm;
        let (bias, post_ops) = self.epilogue.split_bias();
        let padded = columns.next_multiple_of(gemm.columns);
        let steps = gemm.steps(depth);
        let one = |number: usize, threads: usize| {
            let [left, right, place] = self.positions[number];
            // SAFETY: products have different positions, which were made so that their outputs do not overlap.
            let output = unsafe { output.from(place) };
            let origin = Origin { place, stride: self.stride };
            let finish = post_ops.on_block(gemm.isa, origin, &tensors);
            let finish = finish.as_ref().map(|finish| finish as &dyn BlockEpilogue);
            with_scratch(steps * padded, |right_panels| {
                let unit = gemm.columns * steps;
                for_each_piece(right_panels, unit, unit / 8, |first, piece| {
                    for (i, panel) in piece.chunks_mut(unit).enumerate() {
                        let first = (first + i) * gemm.columns;
                        let place = first..columns.min(first + gemm.columns);
                        pack_panel(gemm, place, depth, &b[right..], self.shape.right_strides, panel);
                    }
                });
                let right_panels = &*right_panels;
                let grid = Grid::new(gemm, rows, steps, columns, threads);
                with_left(gemm, [rows, depth], columns, a[left..].into(), self.shape.left_strides, |left| {
                    for_each_job(grid.count(), self.shape.work() / 32, |number| {
                        let (rows, columns) = grid.block(number);
                        let first = columns.start / gemm.columns * unit;
                        let right = RightView { columns: columns.len(), panels: &right_panels[first..] };
                        // SAFETY: the blocks of a grid do not overlap.
                        let mut block = unsafe { output.block(rows, columns) };
                        multiply(gemm, left, right, &mut block, bias, finish);
                    });
                });
            });
        };
        match self.positions.len() {
            1 => one(0, self.threads),
            // Several products are divided among the threads as they are.
            count => for_each_job(count, count.saturating_mul(self.shape.work() / 32), |number| one(number, 1)),
        }
    }

    fn speed(&self) -> usize {
        bf16::speed_of(self.gemm)
    }
}
