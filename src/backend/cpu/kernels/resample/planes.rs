//! Resampling of float32 images with the channels first: vectors lie along the rows. A row of the input is spread to the
//! output's columns once and then mixed with its neighbour for each row of the output that is between them. What the numbers
//! of a vector are made of stands so near in the input that one vector of it has them all, unless the image shrinks.

use super::super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require, with_scratch};
use super::{places, subnormals};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::resample::InterpolationMode;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::resample::Place;
use webnn_kernels::resample::nchw::{Block, Planes, Rows, blocks};
use webnn_kernels::simd::MOST_LANES;

/// Narrower images leave the vectors empty.
const LEAST_COLUMNS: usize = 8;

#[derive(Debug)]
struct ResamplePlanes {
    isa: &'static Isa,
    input: OperandId,
    mode: InterpolationMode,
    /// For each row of the output, those of the input that it is made of.
    rows: Vec<Place>,
    blocks: Vec<Block>,
    /// Columns of the output.
    columns: usize,
    /// Rows and columns of the input.
    from: [usize; 2],
}

/// Images of which rows and columns are the last dimensions.
pub static NCHW: Implementation = Implementation { name: "resample.nchw", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Resample2d(op) = problem.op else { return Err(Reject("not a resample2d")) };
    let input = problem.input(op.input);
    let (&[.., height, width], &[_, _, to_height, to_width]) = (input.shape, problem.output.shape) else {
        return Err(Reject("not an image"));
    };
    require(matches!(op.axes, [2, 3] | [3, 2]), "rows and columns are not the last dimensions")?;
    require(to_width >= LEAST_COLUMNS, "too few columns for vectors")?;
    require(width <= i32::MAX as usize, "too many columns")?;
    require(input.order.is_none() && problem.output.order.is_none(), "dimensions in another order")?;
    let (isa, fuses) = (target.isa, problem.fused.is_empty());
    Ok(Box::new(move || {
        let kernel = ResamplePlanes {
            isa,
            input: op.input,
            mode: op.mode,
            rows: places(op.mode, height, to_height),
            blocks: blocks(&places(op.mode, width, to_width), isa.lanes(), width),
            columns: to_width,
            from: [height, width],
        };
        Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })
    }))
}

impl Kernel for ResamplePlanes {
    fn subnormals(&self) -> Subnormals {
        subnormals(self.mode)
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), self.columns, self.columns.div_ceil(4), |first, output| {
            let length = match self.mode {
                InterpolationMode::NearestNeighbor => 0,
                InterpolationMode::Linear => self.blocks.len() * MOST_LANES,
            };
            with_scratch(2 * length, |scratch| {
                let spread = scratch.split_at_mut(length).into();
                let of = Planes { rows: &self.rows, blocks: &self.blocks, columns: self.columns, from: self.from };
                let is_linear = self.mode == InterpolationMode::Linear;
                Rows { of, is_linear, image, first, output, spread }.compute(self.isa);
            });
        });
    }

    fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Place>() + self.blocks.len() * size_of::<Block>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::check_with;
    use crate::graph::ops::resample::Resample2d;

    #[test]
    fn planes() {
        for mode in [InterpolationMode::NearestNeighbor, InterpolationMode::Linear] {
            for ([height, width], [to_height, to_width]) in [
                ([5, 7], [10, 14]),
                ([3, 20], [6, 40]),
                ([4, 33], [9, 40]),
                ([6, 35], [6, 35]),
                ([1, 1], [3, 9]),
                ([2, 3], [5, 50]),
                ([9, 80], [4, 30]),
                ([3, 64], [7, 8]),
                ([9, 18], [31, 19]),
            ] {
                for axes in [[2, 3], [3, 2]] {
                    let op = Resample2d { input: OperandId(0), mode, scales: vec![1.0; 2], sizes: Some([1, 1]), axes };
                    let inputs = [(vec![2, 3, height, width], false)];
                    let output = [2, 3, to_height, to_width];
                    check_with(op.clone(), &[], &inputs, &output, |_| ());
                    check_with(op, &[], &inputs, &output, |data| {
                        let last = data.len() - 1;
                        (data[last / 3], data[last / 2], data[last]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
                    });
                }
            }
        }
    }
}
