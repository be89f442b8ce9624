//! Products with so few rows that packing is not worth its while.
#![allow(unsafe_code)]

use super::batched::Stack;
use super::{Product, Shape, bias_of};
use crate::backend::cpu::kernels::{
    Accepted, Built, Implementation, Kernel, Problem, Subnormals, Target, gemv, require, with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::looks;
use webnn_kernels::epilogue::post_ops::Origin;
use webnn_kernels::output::{BlockEpilogue, Output};

/// One product, or a stack of them.
pub static FEW_ROWS: Implementation = Implementation { name: "gemm.few_rows", accept: accept_few_rows };

fn accept_few_rows<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let product = Product::of(problem, target)?;
    let mut consumed = bias_of(&product);
    let mut stack = Stack::of(product, target.isa.gemm, target)?;
    require(FewRows::suits(&stack.shape), "many rows, or a right operand without elements that lie side by side")?;
    let problem = *problem;
    Ok(Box::new(move || {
        let fuses = stack.epilogue.fuse(&problem, &mut consumed);
        Ok(Built { kernel: Box::new(FewRows::new(stack)), consumed, fuses })
    }))
}

/// The same with so few rows that packing is not worth its while, and a right operand that lies so that it is not needed.
#[derive(Debug)]
struct FewRows {
    of: Stack,
    /// Columns of a job, and jobs of one product.
    width: usize,
    jobs: usize,
}

/// Columns that a job computes, at least.
const FEWEST_COLUMNS: usize = 128;

impl FewRows {
    fn suits(shape: &Shape) -> bool {
        shape.rows <= gemv::MOST && shape.right_strides.contains(&1)
    }

    fn new(of: Stack) -> FewRows {
        let wanted = if of.threads == 1 { 1 } else { (4 * of.threads).div_ceil(of.positions.len()) };
        let width = of.shape.columns.div_ceil(wanted).next_multiple_of(FEWEST_COLUMNS);
        FewRows { width, jobs: of.shape.columns.div_ceil(width), of }
    }
}

impl Kernel for FewRows {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let Stack { gemm, shape, left, right, ref positions, stride, ref epilogue, .. } = self.of;
        let (a, b) = (arguments.input(left).elements::<f32>(), arguments.input(right).elements::<f32>());
        let tensors = epilogue.tensors(arguments);
        let output = Output::new(arguments.output().elements::<f32>(), stride);
        let Shape { rows, depth, columns, left_strides, right_strides } = shape;
        for_each_job(positions.len() * self.jobs, positions.len() * shape.work() / 8, |job| {
            let [left, right, place] = positions[job / self.jobs];
            let first = job % self.jobs * self.width;
            let columns = first..columns.min(first + self.width);
            // SAFETY: products have different positions, which were made so that their outputs do not overlap, and jobs of one
            // product have different columns.
            let mut block = unsafe { output.from(place).block(0..rows, columns.clone()) };
            with_scratch(depth, |row_of_left| {
                let pauses = looks::pauses(depth.saturating_mul(columns.len()));
                for row in 0..rows {
                    for part in looks::parts(depth) {
                        let elements =
                            a[left + row * left_strides[0] + part.start * left_strides[1]..].iter().step_by(left_strides[1]);
                        row_of_left[part].iter_mut().zip(elements).for_each(|(to, from)| *to = *from);
                    }
                    let right = &b[right + columns.start * right_strides[1]..];
                    let result = block.row(row, columns.clone());
                    gemv::multiply_row(gemm.isa, row_of_left, right, right_strides, result, pauses);
                }
            });
            if let Some(finish) = epilogue.post_ops().on_block(gemm.isa, Origin { place, stride }, &tensors) {
                finish.apply(&mut block, 0..rows, columns);
            }
        });
    }

    fn bytes(&self) -> usize {
        self.of.bytes()
    }
}
