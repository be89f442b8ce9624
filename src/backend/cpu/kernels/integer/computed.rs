//! Stacks of products of 8-bit integers whose right ones are packed in each run: both are computed, or there are several right ones.

use super::multiply::{Division, Factors, Multiplication};
use super::rows::Rows;
use super::{Factor, UNFUSED, require_one_zero_point, whole_numbers};
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::matmul::places;
use crate::backend::cpu::kernels::quantize::{Quantized, integer};
use crate::backend::cpu::kernels::{
    Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, require, with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType::{Int8, Uint8};
use crate::graph::shape::strides;
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::SmallVec;
use webnn_kernels::int8::microkernels::Tiles;
use webnn_kernels::int8::panels::{self, PanelsView};
use webnn_kernels::isa::Isa;

#[derive(Debug)]
struct Stack {
    isa: &'static Isa,
    tiles: &'static Tiles,
    left: Factor,
    right: Factor,
    /// Of one product.
    rows: Rows,
    depth: usize,
    columns: usize,
    /// Where each product finds its operands.
    positions: Vec<[usize; 2]>,
    /// int32 rows or numbers that are added to the sums.
    added: Vec<OperandId>,
    /// Whether the sums themselves are wanted.
    is_whole: bool,
    epilogue: Epilogue,
    quantize: Option<Quantized>,
    division: Division,
}

impl Kernel for Stack {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let [left, right] = [&self.left, &self.right].map(|factor| arguments.input(factor.input));
        let [scale_a, scale_b] = [&self.left, &self.right].map(|factor| factor.scale(arguments));
        // The left bytes have no sign, the right ones do.
        let zero_a = self.left.zero(arguments) + if left.data_type == Int8 { 128 } else { 0 };
        let (flip, down) = if right.data_type == Uint8 { (128, 128) } else { (0, 0) };
        let zeros_b = self.right.zero_point.map_or(&[0][..], |zero_point| arguments.input(zero_point).bytes());
        let zero_b = |j: usize| integer(right.data_type, zeros_b[if zeros_b.len() == 1 { 0 } else { j }]) - down;
        let has_zeros = (0..zeros_b.len()).any(|j| zero_b(j) != 0);
        let added: SmallVec<[&[i32]; 2]> = self.added.iter().map(|id| arguments.input(*id).elements()).collect();
        let steps = self.quantize.as_ref().map(|quantize| quantize.steps(arguments));
        let tensors = self.epilogue.tensors(arguments);
        let output = SharedOutput::new(&mut *arguments.output().bytes);
        let (count, depth, columns) = (self.rows.count(), self.depth, self.columns);
        let length = panels::bytes(self.tiles, 1, depth, columns);
        let one = |number: usize| {
            let [from_left, from_right] = self.positions[number];
            let right = &right.bytes()[from_right..][..depth * columns];
            // Column sums, zero points, factors; the weights; the rows if they must be copied.
            let padded = columns.next_multiple_of(self.tiles.lanes);
            with_scratch(3 * padded + length.div_ceil(4) + self.rows.copied().div_ceil(4), |scratch| {
                let (start, scratch) = scratch.split_at_mut(padded);
                let (zeros, scratch) = scratch.split_at_mut(padded);
                let (factors, scratch) = scratch.split_at_mut(padded);
                let (packed, copy) = scratch.split_at_mut(length.div_ceil(4));
                let packed = &mut bytemuck::cast_slice_mut::<_, u8>(packed)[..length];
                let (start, zeros): (&mut [i32], &mut [i32]) = (bytemuck::cast_slice_mut(start), bytemuck::cast_slice_mut(zeros));
                let pauses = looks::pauses(length);
                panels::PackMatrix { tiles: self.tiles, columns, bytes: right, flip, packed, sums: start, pauses }
                    .compute(self.isa);
                zeros[columns..].fill(0);
                for (j, (sum, zero)) in start.iter_mut().zip(&mut zeros[..columns]).enumerate() {
                    *zero = zero_b(j);
                    // Less the zero point times what is left of the column's sum without its own.
                    *sum = zero_a.wrapping_mul((depth as i32).wrapping_mul(*zero).wrapping_sub(*sum));
                    for numbers in &added {
                        *sum = sum.wrapping_add(numbers[if numbers.len() == 1 { 0 } else { j }]);
                    }
                }
                let factor = scale_a * scale_b;
                factors.fill(if factor.is_normal() { factor } else { scale_b });
                let factors = match factor.is_normal() {
                    _ if self.is_whole => Factors::None,
                    true => Factors::Numbers(factors),
                    false => Factors::Apart(scale_a, factors),
                };
                let left = &left.bytes()[from_left..][..count * depth];
                Multiplication {
                    isa: self.isa,
                    tiles: self.tiles,
                    rows: &self.rows,
                    bytes: self.rows.copy(left, zero_a as u8, bytemuck::cast_slice_mut(copy)),
                    panels: PanelsView::new(self.tiles, columns, packed),
                    start,
                    factors,
                    zeros: if has_zeros { zeros } else { &[] },
                    epilogue: &self.epilogue,
                    tensors: &tensors,
                    steps,
                    output: &output,
                    first_row: number * count,
                    division: self.division,
                }
                .run();
            });
        };
        match self.positions.len() {
            1 => one(0),
            // Several products are divided among the threads as they are.
            products => for_each_job(products, products.saturating_mul(count * depth * columns / 128), one),
        }
    }
}

/// Products whose right operands are no one matrix that is known.
pub static BATCHED: Implementation = Implementation { name: "int8.batched", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let rows = if let [.., rows, _] = problem.output.shape { *rows } else { 1 };
    accept_with(problem, target, Tiles::of(target.isa, rows))
}

pub fn accept_with<'a>(problem: &Problem<'a>, target: &Target, tiles: &'static Tiles) -> Accepted<'a> {
    let [left, right] = Factor::of(problem)?;
    require(matches!(problem.op, Op::Matmul(_) | Op::QuantizedMatmul(_)), "not a matmul")?;
    require_one_zero_point(problem, &left)?;
    let (a, b) = (problem.input(left.input), problem.input(right.input));
    let ([batches_a @ .., rows, depth], [batches_b @ .., _, columns]) = (a.shape, b.shape) else {
        return Err(Reject("operands of fewer than 2 dimensions"));
    };
    let [batches @ .., _, _] = problem.output.shape else { return Err(Reject("an output of fewer than 2 dimensions")) };
    if let Some(zero_point) = right.zero_point {
        let zero_point = problem.input(zero_point);
        let count = zero_point.element_count();
        require(count == 1 || zero_point.shape.last() == Some(&count), "zero points for each matrix")?;
    }
    if let Some(scale) = right.scale {
        require(problem.input(scale).element_count() == 1, "several scales")?;
    }
    let (fused, quantize) = Quantized::split(problem);
    let (added, is_whole, fused) = whole_numbers(problem, fused);
    let (mut epilogue, mut consumed) = (Epilogue::default(), SmallVec::new());
    require(epilogue.fuse(&Problem { fused, ..*problem }, &mut consumed), UNFUSED)?;
    let Target { isa, threads, .. } = *target;
    Ok(Box::new(move || {
        let to_a = places(batches_a, &strides(a.shape), batches);
        let to_b = places(batches_b, &strides(b.shape), batches);
        let positions: Vec<[usize; 2]> = to_a.into_iter().zip(to_b).map(|(a, b)| [a, b]).collect();
        let rows = Rows::matrix(*rows, *depth, a.data_type == Int8);
        let threads = if positions.len() > 1 { 1 } else { threads };
        let division = Division::new(tiles, &rows, panels::count(tiles, *columns), threads);
        let (depth, columns) = (*depth, *columns);
        let kernel =
            Stack { isa, tiles, left, right, rows, depth, columns, positions, added, is_whole, epilogue, quantize, division };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: true })
    }))
}
