//! Convolutions of float32 in groups of a few channels, as many of the input as of the output, with the channels last. A vector
//! has the channels of several groups: each number of a group is brought to all places of the group, one after the other, and
//! multiplied there, so that no part of a vector is empty.
#![allow(unsafe_code)]

use super::conv::{Filter, axis};
use super::conv_epilogue::{ConvEpilogue, Rest};
use super::isa::Isa;
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::{Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;

/// Pixels that are computed together.
const TOGETHER: usize = 4;
/// Columns of a window, at most.
const MOST_COLUMNS: usize = 8;

#[derive(Debug)]
struct SmallGroups {
    isa: &'static Isa,
    input: OperandId,
    /// Channels of a group.
    of_group: usize,
    /// For each element of the window, and each number of a group, one for each channel of the output.
    weights: AlignedBuffer,
    bias: AlignedBuffer,
    finish: ConvEpilogue,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// What stands for pixels in the padding.
    zeros: AlignedBuffer,
}

/// Groups of 2, 4 or 8 channels, several of which share a vector.
pub static SMALL_GROUPS: Implementation = Implementation { name: "conv.small_groups", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, isa) = (problem.conv2d()?, target.isa);
    let input = problem.input(op.input);
    let (filter, [channels, of_group, height, width]) = Filter::of(op, problem)?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let lanes = isa.lanes();
    require([2, 4, 8].contains(&of_group) && of_group < lanes, "not groups of 2, 4 or 8 channels that share a vector")?;
    require(channels % lanes == 0, "channels that do not fill whole vectors")?;
    let is_square = op.groups as usize * of_group == channels && input.shape[3] == channels;
    require(is_square, "not as many output channels as input channels")?;
    require(width <= MOST_COLUMNS, "a window of too many columns")?;
    require(filter.is_finite(), "weights that are not finite")?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (axis(op, 0, input.shape[1], height, problem), axis(op, 1, input.shape[2], width, problem));
    Ok(Box::new(move || {
        let mut weights = AlignedBuffer::zeroed(height * width * of_group * channels);
        for (place, numbers) in weights.as_mut_slice().chunks_exact_mut(channels).enumerate() {
            let (tap, number) = (place / of_group, place % of_group);
            numbers.iter_mut().enumerate().for_each(|(o, to)| *to = filter.at([o, number, tap / width, tap % width]));
        }
        let mut bias = AlignedBuffer::zeroed(channels);
        bias.as_mut_slice()[..finish.bias.len()].copy_from_slice(&finish.bias);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let zeros = AlignedBuffer::zeroed(channels);
        let kernel = SmallGroups { isa, input: op.input, of_group, weights, bias, finish, rows, columns, channels, zeros };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

impl Kernel for SmallGroups {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.channels, arguments);
        let row = self.columns.output * self.channels;
        let cost = row * self.rows.window * self.columns.window * self.of_group / 16;
        for_each_piece(arguments.output().elements::<f32>(), row, cost, |first, output| {
            for (number, output) in (first..).zip(output.chunks_exact_mut(row)) {
                self.row(image, added.map(|added| &added[number * row..][..row]), &rest, number, output);
            }
        });
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

impl SmallGroups {
    /// Computes a row of the output, by its number among those of all images.
    fn row(&self, image: &[f32], added: Option<&[f32]>, rest: &Rest<'_>, number: usize, output: &mut [f32]) {
        with_vectors(self.isa, Row { of: self, image, added, number, output: &mut *output });
        rest.finish(number * output.len(), output);
    }
}

struct Row<'a> {
    of: &'a SmallGroups,
    image: &'a [f32],
    added: Option<&'a [f32]>,
    number: usize,
    output: &'a mut [f32],
}

impl OnVectors for Row<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        match self.of.of_group {
            2 => self.pixels::<V, 2>(),
            4 => self.pixels::<V, 4>(),
            8 => self.pixels::<V, 8>(),
            others => unreachable!("groups of {others} are not selected"),
        }
    }
}

impl Row<'_> {
    #[inline(always)]
    fn pixels<V: Vector, const GROUP: usize>(&mut self) {
        let width = self.of.columns.output;
        // Closures might be left out of line, and would then be compiled without the instruction set.
        let mut x = 0;
        while x < width {
            if width < TOGETHER {
                self.group::<V, GROUP, 1>(x);
                x += 1;
            } else {
                // What is left over at the end is computed together with some pixels before, once more.
                self.group::<V, GROUP, TOGETHER>(x.min(width - TOGETHER));
                x += TOGETHER;
            }
        }
    }

    /// WIDTH pixels from position `x` on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn group<V: Vector, const GROUP: usize, const WIDTH: usize>(&mut self, x: usize) {
        let SmallGroups { rows, columns, channels, .. } = *self.of;
        let (image, y) = (self.number / rows.output, self.number % rows.output);
        let row = columns.input * channels;
        // Where in a row the numbers under the window are, if they are not padding.
        let mut places = [[None; WIDTH]; MOST_COLUMNS];
        for (tap, places) in places.iter_mut().enumerate().take(columns.window) {
            for (w, place) in places.iter_mut().enumerate() {
                *place = columns.element(x + w, tap).map(|column| column * channels);
            }
        }
        let (bias, zeros) = (self.of.bias.as_slice(), self.of.zeros.as_slice());
        assert!(bias.len() == channels && zeros.len() == channels && channels % V::LANES == 0);
        let limits = self.of.finish.limits;
        for channel in (0..channels).step_by(V::LANES) {
            // SAFETY: a whole vector is left, as was asserted.
            let mut sums = [unsafe { V::load(bias.as_ptr().add(channel)) }; WIDTH];
            for tap_y in rows.taps(y) {
                let from = image * rows.input + rows.element(y, tap_y).expect("a tap inside");
                let from = &self.image[from * row..][..row];
                for (tap_x, places) in places.iter().enumerate().take(columns.window) {
                    let mut numbers = sums;
                    for w in 0..WIDTH {
                        let from = match places[w] {
                            Some(place) => &from[place..][..channels],
                            None => zeros,
                        };
                        // SAFETY: as above.
                        numbers[w] = unsafe { V::load(from.as_ptr().add(channel)) };
                    }
                    let tap = (tap_y * columns.window + tap_x) * GROUP;
                    let weights = &self.of.weights.as_slice()[tap * channels..][..GROUP * channels];
                    for number in 0..GROUP {
                        // SAFETY: as above.
                        let factor = unsafe { V::load(weights.as_ptr().add(number * channels + channel)) };
                        for w in 0..WIDTH {
                            sums[w] =
                                numbers[w].permuted(&const { places_in_groups::<GROUP>() }[number]).mul_add(factor, sums[w]);
                        }
                    }
                }
            }
            for w in 0..WIDTH {
                let place = (x + w) * channels + channel;
                let mut sum = limits.before.bound(sums[w]);
                if let Some(added) = self.added {
                    // SAFETY: the slice has a whole vector there.
                    sum = limits.after.bound(sum.add(unsafe { V::load(added[place..][..V::LANES].as_ptr()) }));
                }
                // SAFETY: the slice has a whole vector there.
                unsafe { sum.store(self.output[place..][..V::LANES].as_mut_ptr()) }
            }
        }
    }
}

/// For each number of a group the place at which each lane finds that of its own group.
const fn places_in_groups<const GROUP: usize>() -> [[i32; MOST_LANES]; GROUP] {
    let mut places = [[0; MOST_LANES]; GROUP];
    let mut number = 0;
    while number < GROUP {
        let mut lane = 0;
        while lane < MOST_LANES {
            places[number][lane] = (lane / GROUP * GROUP + number) as i32;
            lane += 1;
        }
        number += 1;
    }
    places
}
