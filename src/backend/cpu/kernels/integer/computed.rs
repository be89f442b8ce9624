//! Stacks of products of 8-bit integers that are both computed: the right ones are packed in each run.

use super::multiply::{Division, Factors, Multiplication};
use super::rows::Rows;
use super::{NOT_DEQUANTIZED, UNFUSED};
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::matmul::places;
use crate::backend::cpu::kernels::quantize::{Quantized, byte};
use crate::backend::cpu::kernels::{
    Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, require, with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType::{Int8, Uint8};
use crate::graph::Op;
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::shape::strides;
use smallvec::SmallVec;
use webnn_kernels::int8::microkernels::Tiles;
use webnn_kernels::int8::panels::{self, PanelsView};
use webnn_kernels::isa::Isa;

#[derive(Debug)]
struct Stack {
    isa: &'static Isa,
    tiles: &'static Tiles,
    left: DequantizeLinear,
    right: DequantizeLinear,
    /// Of one product.
    rows: Rows,
    depth: usize,
    columns: usize,
    /// Where each product finds its operands.
    positions: Vec<[usize; 2]>,
    epilogue: Epilogue,
    quantize: Option<Quantized>,
    division: Division,
}

impl Kernel for Stack {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let [(left, scale_a, zero_a), (right, scale_b, zero_b)] = [&self.left, &self.right].map(|op| {
            let number = arguments.input(op.scale).elements::<f32>()[0];
            (arguments.input(op.input), number, byte(arguments.input(op.zero_point)))
        });
        // The left bytes have no sign, the right ones do.
        let zero_a = zero_a + if left.data_type == Int8 { 128 } else { 0 };
        let (zero_b, flip) = if right.data_type == Uint8 { (zero_b - 128, 128) } else { (zero_b, 0) };
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
                panels::PackMatrix { tiles: self.tiles, columns, bytes: right, flip, packed, sums: start }.compute(self.isa);
                let both = (depth as i32).wrapping_mul(zero_a).wrapping_mul(zero_b);
                start.iter_mut().for_each(|sum| *sum = both.wrapping_sub(zero_a.wrapping_mul(*sum)));
                zeros.fill(zero_b);
                let factor = scale_a * scale_b;
                factors.fill(if factor.is_normal() { factor } else { scale_b });
                let factors = if factor.is_normal() { Factors::Numbers(factors) } else { Factors::Apart(scale_a, factors) };
                let left = &left.bytes()[from_left..][..count * depth];
                Multiplication {
                    isa: self.isa,
                    tiles: self.tiles,
                    rows: &self.rows,
                    bytes: self.rows.copy(left, zero_a as u8, bytemuck::cast_slice_mut(copy)),
                    panels: PanelsView::new(self.tiles, columns, packed),
                    start,
                    factors,
                    zeros: if zero_b == 0 { &[] } else { zeros },
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

/// Products of which neither operand is constant.
pub static BATCHED: Implementation = Implementation { name: "int8.batched", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let rows = if let [.., rows, _] = problem.output.shape { *rows } else { 1 };
    accept_with(problem, target, Tiles::of(target.isa, rows))
}

pub fn accept_with<'a>(problem: &Problem<'a>, target: &Target, tiles: &'static Tiles) -> Accepted<'a> {
    let [Op::DequantizeLinear(left), Op::DequantizeLinear(right)] = problem.dequantized else { return Err(NOT_DEQUANTIZED) };
    require(matches!(problem.op, Op::Matmul(_)), "not a matmul")?;
    let (a, b) = (problem.input(left.input), problem.input(right.input));
    require(b.constant.is_none(), "a constant operand")?;
    let ([batches_a @ .., rows, depth], [batches_b @ .., _, columns]) = (a.shape, b.shape) else {
        return Err(Reject("operands of fewer than 2 dimensions"));
    };
    let [batches @ .., _, _] = problem.output.shape else { return Err(Reject("an output of fewer than 2 dimensions")) };
    let (fused, quantize) = Quantized::split(problem);
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
        let (left, right, depth, columns) = (left.clone(), right.clone(), *depth, *columns);
        let kernel = Stack { isa, tiles, left, right, rows, depth, columns, positions, epilogue, quantize, division };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: true })
    }))
}
