//! Resampling of float32 images with the channels last: those of a pixel are some vectors.

pub mod planes;

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::resample::InterpolationMode;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::resample::Place;
use webnn_kernels::resample::nhwc::Row;

/// With fewer channels most of a vector would be empty.
const LEAST_CHANNELS: usize = 4;

#[derive(Debug)]
struct Resample {
    isa: &'static Isa,
    input: OperandId,
    mode: InterpolationMode,
    /// For each row and column of the output, those of the input that it is made of.
    rows: Vec<Place>,
    columns: Vec<Place>,
    /// Rows and columns of the input.
    from: [usize; 2],
    channels: usize,
}

/// The places of all positions along an axis whose size changes from `input` to `output`.
pub fn places(mode: InterpolationMode, input: usize, output: usize) -> Vec<Place> {
    let place = |(below, fraction): (usize, f64)| Place {
        numbers: [below, below + usize::from(fraction > 0.0)],
        shares: [(1.0 - fraction) as f32, fraction as f32],
    };
    mode.places(input, output).map(place).collect()
}

/// Images with the channels last.
pub static NHWC: Implementation = Implementation { name: "resample.nhwc", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Resample2d(op) = problem.op else { return Err(Reject("not a resample2d")) };
    let input = problem.input(op.input);
    let (&[_, height, width, channels], &[_, to_height, to_width, _]) = (input.shape, problem.output.shape) else {
        return Err(Reject("not an image"));
    };
    require(matches!(op.axes, [1, 2] | [2, 1]), "channels not last")?;
    require(channels >= LEAST_CHANNELS, "too few channels for vectors")?;
    require(input.order.is_none() && problem.output.order.is_none(), "dimensions in another order")?;
    let (isa, fuses) = (target.isa, problem.fused.is_empty());
    Ok(Box::new(move || {
        let (rows, columns) = (places(op.mode, height, to_height), places(op.mode, width, to_width));
        let kernel = Resample { isa, input: op.input, mode: op.mode, rows, columns, from: [height, width], channels };
        Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })
    }))
}

/// Only what is interpolated is computed.
fn subnormals(mode: InterpolationMode) -> Subnormals {
    match mode {
        InterpolationMode::Linear => Subnormals::Flushed,
        InterpolationMode::NearestNeighbor => Subnormals::Exact,
    }
}

impl Kernel for Resample {
    fn subnormals(&self) -> Subnormals {
        subnormals(self.mode)
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let (height, length) = (self.rows.len(), self.columns.len() * self.channels);
        for_each_piece(arguments.output().elements::<f32>(), length, length / 4, |first, piece| {
            for (number, output) in (first..).zip(piece.chunks_exact_mut(length)) {
                let place = self.rows[number % height];
                let row = |y: usize| {
                    let length = self.from[1] * self.channels;
                    &image[(number / height * self.from[0] + y) * length..][..length]
                };
                match self.mode {
                    InterpolationMode::NearestNeighbor => self.nearest(row(place.numbers[0]), output),
                    InterpolationMode::Linear => {
                        let (from, shares) = (place.numbers.map(row), place.shares);
                        Row { columns: &self.columns, channels: self.channels, from, shares, output }.compute(self.isa);
                    }
                }
            }
        });
    }

    fn bytes(&self) -> usize {
        (self.rows.len() + self.columns.len()) * size_of::<Place>()
    }
}

impl Resample {
    fn nearest(&self, from: &[f32], output: &mut [f32]) {
        for (pixel, place) in output.chunks_exact_mut(self.channels).zip(&self.columns) {
            pixel.copy_from_slice(&from[place.numbers[0] * self.channels..][..self.channels]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::check_with;
    use crate::graph::ops::resample::Resample2d;

    #[test]
    fn images() {
        for mode in [InterpolationMode::NearestNeighbor, InterpolationMode::Linear] {
            for ([height, width], [to_height, to_width]) in
                [([5, 7], [10, 14]), ([4, 4], [9, 3]), ([6, 5], [6, 5]), ([1, 1], [3, 2]), ([9, 8], [4, 4]), ([3, 5], [3, 11])]
            {
                for channels in [4, 16, 21, 40] {
                    let op = Resample2d {
                        input: OperandId(0),
                        mode,
                        scales: vec![1.0; 2],
                        sizes: Some([to_height as u32, to_width as u32]),
                        axes: [1, 2],
                    };
                    let inputs = [(vec![2, height, width, channels], false)];
                    check_with(op, &[], &inputs, &[2, to_height, to_width, channels], |data| {
                        (data[1], data[channels + 2], data[3]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
                    });
                }
            }
        }
    }
}
