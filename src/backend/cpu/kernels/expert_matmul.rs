//! Products of rows with matrices of a few bits that are chosen. Pieces of the columns of all matrices are handed out to threads; those of a
//! matrix that no row has chosen are not looked at.

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::Op;
use crate::graph::ops::expert_matmul::{ExpertMatmul, Sizes};
use crate::looks;
use smallvec::{SmallVec, smallvec};
use webnn_kernels::expert_matmul::Columns;
use webnn_kernels::isa::Isa;

/// Weights of a piece: enough that handing it out costs nothing beside it.
const PIECE: usize = 128 << 10;

#[derive(Debug)]
struct Experts {
    isa: &'static Isa,
    op: ExpertMatmul,
    sizes: Sizes,
}

impl Kernel for Experts {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let Sizes { rows, depth, experts, columns, blocks, block, bytes } = self.sizes;
        let floats = |id| arguments.input(id).elements::<f32>();
        let (a, scales, zero_points) = (floats(self.op.a), floats(self.op.scales), self.op.zero_points.map(floats));
        let weights = arguments.input(self.op.weights).elements::<u8>();
        let chosen = arguments.input(self.op.experts).elements::<i32>();
        let mut order: SmallVec<[(usize, usize); 64]> =
            chosen.iter().enumerate().map(|(row, &expert)| ((expert.max(0) as usize).min(experts - 1), row)).collect();
        order.sort_unstable();
        let rows_of: SmallVec<[usize; 64]> = order.iter().map(|&(_, row)| row).collect();
        // Of each matrix that was chosen its number and rows.
        let mut groups: SmallVec<[(usize, std::ops::Range<usize>); 16]> = SmallVec::new();
        for (place, &(expert, _)) in order.iter().enumerate() {
            match groups.last_mut() {
                Some((last, range)) if *last == expert => range.end = place + 1,
                _ => groups.push((expert, place..place + 1)),
            }
        }
        let output = SharedOutput::new(arguments.output().elements::<f32>());
        let together = (PIECE / depth).clamp(1, columns);
        let pieces = columns.div_ceil(together);
        let cost = (rows + groups.len()) * columns * depth / 8;
        for_each_job(groups.len() * pieces, cost, |job| {
            let (expert, range) = &groups[job / pieces];
            let first = job % pieces * together;
            let of_blocks = |numbers| &<[f32]>::as_ref(numbers)[expert * columns * blocks..][..columns * blocks];
            let products = together.saturating_mul(1 + range.len()).saturating_mul(depth);
            with_scratch(depth, |scratch| {
                let piece = Columns {
                    columns: first..columns.min(first + together),
                    depth,
                    bits: self.op.bits,
                    block,
                    weights: &weights[expert * columns * bytes..][..columns * bytes],
                    bytes,
                    scales: of_blocks(scales),
                    zero_points: zero_points.map(of_blocks),
                    a,
                    rows: &rows_of[range.clone()],
                    scratch,
                    output: &output,
                    distance: columns,
                    pauses: looks::pauses(products),
                };
                piece.compute(self.isa);
            });
        });
    }
}

pub static CHOSEN: Implementation = Implementation { name: "expert_matmul.chosen", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::ExpertMatmul(op) = problem.op else { return Err(Reject("not a product with experts")) };
    require(problem.fused.is_empty(), "fused operators")?;
    let sizes = op.sizes(|id| problem.input(id).shape.to_vec());
    let kernel = Experts { isa: target.isa, op: op.clone(), sizes };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_outputs, numbers};
    use super::*;
    use crate::backend::cpu::view::View;
    use crate::graph::{DataType, FpMath, OperandId};

    fn check(bits: u32, [rows, depth, experts, columns, blocks]: [usize; 5], has_points: bool) {
        let bytes = (depth * bits as usize).div_ceil(8);
        let op = ExpertMatmul {
            a: OperandId(0),
            weights: OperandId(1),
            scales: OperandId(2),
            experts: OperandId(3),
            bits,
            zero_points: has_points.then_some(OperandId(4)),
        };
        let shapes = [vec![rows, depth], vec![experts, columns, bytes], vec![experts, columns, blocks], vec![rows]];
        let points_shape = shapes[2].clone();
        let (a, scales, points) =
            (numbers(rows * depth, 1), numbers(experts * columns * blocks, 2), numbers(experts * columns * blocks, 3));
        let weights: Vec<u8> = (0..experts * columns * bytes).map(|i| (i * 37 + i / 11) as u8).collect();
        // Also out of range.
        let chosen: Vec<i32> = (0..rows as i32).map(|row| row * 5 % (experts as i32 + 2) - 1).collect();
        let mut views = vec![
            View::new(DataType::Float32, &shapes[0], bytemuck::cast_slice(&a)),
            View::new(DataType::Uint8, &shapes[1], &weights),
            View::new(DataType::Float32, &shapes[2], bytemuck::cast_slice(&scales)),
            View::new(DataType::Int32, &shapes[3], bytemuck::cast_slice(&chosen)),
        ];
        views.extend(has_points.then(|| View::new(DataType::Float32, &points_shape, bytemuck::cast_slice(&points))));
        let allowed = |_| 2e-4 * f32::from(1u16 << bits.min(8)) * depth as f32 / 16.0;
        check_outputs(op, &views, |_| false, &[vec![rows, columns]], &[(FpMath::Strict, &allowed)]);
    }

    #[test]
    fn rows_have_their_own_matrices() {
        for bits in [2, 3, 4, 8] {
            for sizes in [[5, 32, 3, 7, 2], [1, 64, 4, 9, 4], [9, 11, 2, 3, 1], [4, 400, 3, 700, 25]] {
                for has_points in [false, true] {
                    check(bits, sizes, has_points);
                }
            }
        }
    }
}
