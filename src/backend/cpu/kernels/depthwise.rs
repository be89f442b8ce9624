//! Depthwise convolutions of float32 with the channels last: every channel has a filter of its own, so that a vector of
//! channels is computed at a time.
#![allow(unsafe_code)]

mod any_window;
mod large_window;

use super::clamp::Limits;
use super::conv::{Filter, axis};
use super::conv_epilogue::{ConvEpilogue, Rest};
use super::isa::Isa;
use super::vector::{OnVectors, Vector, with_vectors};
use super::vector_bundle::Span;
use super::{Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::InputOperandLayout;
use std::ops::Range;

/// AlignedBuffer behind the last channel that a vector may reach.
const MARGIN: usize = 16;
/// The most rows of the input that a strip of the output is made from.
const MOST_ROWS: usize = 8;
/// Pixels that are computed together.
const TOGETHER: usize = 4;

#[derive(Debug)]
pub struct Depthwise {
    pub isa: &'static Isa,
    input: OperandId,
    /// For each element of the window a number for each channel, and [`MARGIN`].
    weights: AlignedBuffer,
    bias: AlignedBuffer,
    pub finish: ConvEpilogue,
    pub batches: usize,
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
    /// See [`Filter::is_finite`].
    is_finite: bool,
    /// What stands for rows in the padding.
    zeros: AlignedBuffer,
}

impl Kernel for Depthwise {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.rest(arguments);
        let output = arguments.output().elements::<f32>();
        let row = self.columns.output * self.channels;
        let taps = self.rows.window * self.columns.window;
        let image = Image { numbers: image, rows: image.len() / (self.columns.input * self.channels) };
        // Two rows are a unit, since the fast loops compute them together; to read and to write take as long as two products.
        for_each_piece(output, 2 * row, 2 * row * (taps + 2) / 16, |first, output| {
            self.compute(image, added, &rest, 2 * first, output)
        });
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

/// Rows of all images one after the other, as far as they are there: row number i of all lies at i modulo `rows`.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    pub numbers: &'a [f32],
    pub rows: usize,
}

impl<'a> Image<'a> {
    /// A row of so many numbers.
    fn row(self, number: usize, length: usize) -> &'a [f32] {
        &self.numbers[number % self.rows * length..][..length]
    }
}

impl Depthwise {
    /// What is left to be done to the sums.
    pub fn rest<'a, 'b: 'a>(&'a self, arguments: &Arguments<'b, '_>) -> Rest<'a> {
        self.finish.rest(self.isa, self.channels, arguments)
    }

    /// Computes some rows of the output, from row number `first` of all images on. The rows of the input under their windows
    /// must be there.
    pub fn compute(&self, image: Image<'_>, added: Option<&[f32]>, rest: &Rest<'_>, first: usize, output: &mut [f32]) {
        let row = self.columns.output * self.channels;
        if rest.is_empty() {
            return with_vectors(self.isa, Piece { of: self, image, added, first, output });
        }
        // Little by little, so that the rest is done to what is in the cache.
        for (i, output) in output.chunks_mut(2 * row).enumerate() {
            let first = first + 2 * i;
            with_vectors(self.isa, Piece { of: self, image, added, first, output: &mut *output });
            rest.finish(first * row, output);
        }
    }
}

/// Some rows of the output, from row number `first` of all images on.
struct Piece<'a> {
    of: &'a Depthwise,
    image: Image<'a>,
    added: Option<&'a [f32]>,
    first: usize,
    output: &'a mut [f32],
}

/// Rows of the output that lie below each other, and those of the input that their windows cover: pointers to whole rows.
/// It is passed by value, so that the innermost loops need not look at memory for what is in it.
#[derive(Clone, Copy)]
struct Strip {
    from: [*const f32; MOST_ROWS],
    to: *mut f32,
    added: *const f32,
    weights: *const f32,
    bias: *const f32,
    zeros: *const f32,
    rows: Axis,
    columns: Axis,
    channels: usize,
    is_finite: bool,
    limits: Limits,
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Depthwise { rows, columns, channels, .. } = *self.of;
        let (from_row, to_row) = (columns.input * channels, columns.output * channels);
        let is_dense = rows.dilation == 1 && columns.dilation == 1;
        let square = |size| rows.window == size && columns.window == size && is_dense;
        // The rows of the input are given one by one, so only the columns matter here.
        let dilated =
            |size| rows.window == size && columns.window == size && rows.stride == 1 && columns.stride == 1 && !is_dense;
        let stride = if rows.stride == columns.stride { rows.stride } else { 0 };
        let mut done = 0;
        let all = self.output.len() / to_row;
        while done < all {
            let (image, y) = ((self.first + done) / rows.output, (self.first + done) % rows.output);
            let top = image * rows.input;
            let two = square(3) && stride == 1 && done + 1 < all && y + 1 < rows.output;
            let height = if two { 2 } else { 1 };
            let place = done * to_row;
            let added = self.added.map(|added| &added[self.first * to_row + place..][..height * to_row]);
            let zeros = self.of.zeros.as_slice().as_ptr();
            let mut strip = Strip {
                from: [zeros; MOST_ROWS],
                to: self.output[place..][..height * to_row].as_mut_ptr(),
                added: added.map_or(std::ptr::null(), <[f32]>::as_ptr),
                weights: self.of.weights.as_slice().as_ptr(),
                bias: self.of.bias.as_slice().as_ptr(),
                zeros,
                rows,
                columns,
                channels,
                is_finite: self.of.is_finite,
                limits: self.of.finish.limits,
            };
            let taps = if self.of.is_finite { rows.taps(y) } else { 0..rows.window };
            if rows.window < MOST_ROWS {
                for (tap, from) in strip.from.iter_mut().enumerate().take(rows.window + height - 1) {
                    // Below the window of the first row stands the last row of the second.
                    let (y, tap) = if tap < rows.window { (y, tap) } else { (y + 1, rows.window - 1) };
                    if let Some(y) = rows.element(y, tap) {
                        *from = self.image.row(top + y, from_row).as_ptr();
                    }
                }
            }
            // SAFETY: as many rows of the input as the window has, and one more for two rows of the output, lie at `from`,
            // each whole or zeros; the output's rows are the piece's; what is added is as large.
            unsafe {
                match (stride, two) {
                    (1, true) => strip.run::<V, 3, 1, 2, false>(),
                    (1, false) if square(3) => strip.run::<V, 3, 1, 1, false>(),
                    (2, false) if square(3) => strip.run::<V, 3, 2, 1, false>(),
                    (1, false) if square(5) => strip.row_by_row::<V, 5, 1, false>(taps),
                    (2, false) if square(5) => strip.row_by_row::<V, 5, 2, false>(taps),
                    (1, false) if square(7) => strip.row_by_row::<V, 7, 1, false>(taps),
                    (2, false) if square(7) => strip.row_by_row::<V, 7, 2, false>(taps),
                    _ if dilated(3) => strip.run::<V, 3, 1, 1, true>(),
                    _ if dilated(5) => strip.row_by_row::<V, 5, 1, true>(taps),
                    _ => strip.any_row::<V>(self.image, top, y),
                }
            }
            done += height;
        }
    }
}

impl Strip {
    /// Between the weights of an element of the window and those of the next.
    #[inline(always)]
    fn distance(self) -> usize {
        self.channels + MARGIN
    }

    /// The positions at which no column of the window is over padding.
    fn inside(self) -> Range<usize> {
        let (first, last) = (self.columns.positions(0), self.columns.positions(self.columns.window - 1));
        first.start.max(last.start)..first.end.min(last.end).max(first.start.max(last.start))
    }

    /// All pixels, for a window of SIZE x SIZE, which may be DILATED. Pixels are taken together whose windows share columns:
    /// they are as far from each other as the columns of a window.
    ///
    /// # Safety
    /// As many rows as the windows cover must lie at `from`, and HEIGHT rows at `to` and `added`. DILATED needs a STRIDE of 1.
    #[inline(always)]
    unsafe fn run<V: Vector, const SIZE: usize, const STRIDE: usize, const HEIGHT: usize, const DILATED: bool>(self) {
        let inside = self.inside();
        let step = if DILATED { self.columns.dilation } else { 1 };
        for phase in 0..step.min(self.columns.output) {
            let width = (self.columns.output - phase).div_ceil(step);
            if width < TOGETHER {
                for x in 0..width {
                    // SAFETY: the caller's promise.
                    unsafe { self.group::<V, SIZE, STRIDE, HEIGHT, 1, true, DILATED>(phase + x * step) }
                }
                continue;
            }
            for x in (0..width).step_by(TOGETHER) {
                // What is left over at the end is computed together with some pixels before, once more.
                let x = phase + x.min(width - TOGETHER) * step;
                // SAFETY: the caller's promise; windows of positions inside are not over padding.
                unsafe {
                    if inside.start <= x && x + (TOGETHER - 1) * step < inside.end {
                        self.group::<V, SIZE, STRIDE, HEIGHT, TOGETHER, false, DILATED>(x)
                    } else {
                        self.group::<V, SIZE, STRIDE, HEIGHT, TOGETHER, true, DILATED>(x)
                    }
                }
            }
        }
    }

    /// WIDTH pixels of HEIGHT rows from position `x` on, at an EDGE or where no window is over padding to the left and right.
    ///
    /// # Safety
    /// See [`Strip::run`].
    #[inline(always)]
    unsafe fn group<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const HEIGHT: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
    >(
        self,
        x: usize,
    ) {
        let channels = self.channels;
        let whole = channels / V::LANES * V::LANES;
        for channel in (0..whole).step_by(V::LANES) {
            // SAFETY: whole vectors below the number of channels.
            unsafe { self.vector::<V, SIZE, STRIDE, HEIGHT, WIDTH, EDGE, DILATED, true>(x, channel, V::LANES) }
        }
        if whole < channels {
            // SAFETY: what is left of the channels.
            unsafe { self.vector::<V, SIZE, STRIDE, HEIGHT, WIDTH, EDGE, DILATED, false>(x, whole, channels - whole) }
        }
    }

    /// A vector of channels of a group, or its first `count`.
    ///
    /// # Safety
    /// See [`Strip::group`]; so many channels must be there.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn vector<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const HEIGHT: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
        const WHOLE: bool,
    >(
        self,
        x: usize,
        channel: usize,
        count: usize,
    ) {
        let (columns, channels) = (self.columns, self.channels);
        let step = if DILATED { columns.dilation } else { 1 };
        let first = (x * STRIDE).wrapping_sub(columns.padding);
        // SAFETY: weights and bias have a margin behind the last channel.
        let (bias, weights) = unsafe { (V::load(self.bias.add(channel)), self.weights.add(channel)) };
        let mut factors = [[bias; SIZE]; SIZE];
        for y in 0..SIZE {
            for x in 0..SIZE {
                // SAFETY: as above.
                factors[y][x] = unsafe { V::load(weights.add((y * SIZE + x) * self.distance())) };
            }
        }
        let mut sums = [[bias; WIDTH]; HEIGHT];
        // The rows of the input: with a stride of 1 each is under several rows of the output.
        for row in 0..SIZE + HEIGHT - 1 {
            for tap in 0..(WIDTH - 1) * STRIDE + SIZE {
                let column = first.wrapping_add(tap * step);
                // SAFETY: away from edges all columns are inside the row, by the caller's promise; zeros are a row too.
                let number = unsafe {
                    let from = match column {
                        column if !EDGE || column < columns.input => self.from[row].add(column * channels),
                        _ => self.zeros,
                    };
                    let from = from.add(channel);
                    if WHOLE { V::load(from) } else { V::load_first(from, count) }
                };
                for h in 0..HEIGHT {
                    for w in 0..WIDTH {
                        if row >= h && row - h < SIZE && tap >= w * STRIDE && tap - w * STRIDE < SIZE {
                            sums[h][w] = number.mul_add(factors[row - h][tap - w * STRIDE], sums[h][w]);
                        }
                    }
                }
            }
        }
        // One question for all pixels: asked for each of them, it would drive the sums out of the registers.
        let place = |h: usize, w: usize| (h * columns.output + x + w * step) * channels + channel;
        if self.added.is_null() {
            for h in 0..HEIGHT {
                for w in 0..WIDTH {
                    // SAFETY: inside HEIGHT rows.
                    unsafe { self.store::<V, WHOLE>(self.limits.before.bound(sums[h][w]), place(h, w), count) }
                }
            }
        } else {
            for h in 0..HEIGHT {
                for w in 0..WIDTH {
                    // SAFETY: inside HEIGHT rows; what is added is as large as the output.
                    unsafe { self.store::<V, WHOLE>(self.sum::<V, WHOLE>(sums[h][w], place(h, w), count), place(h, w), count) }
                }
            }
        }
    }

    /// A sum with what is added to it.
    ///
    /// # Safety
    /// There must be so many numbers at that place of what is added.
    #[inline(always)]
    unsafe fn sum<S: Span, const WHOLE: bool>(self, sum: S, place: usize, count: usize) -> S {
        // SAFETY: the caller's promise.
        let added = unsafe { if WHOLE { S::load(self.added.add(place)) } else { S::load_first(self.added.add(place), count) } };
        self.limits.after.bound(self.limits.before.bound(sum).add(added))
    }

    /// # Safety
    /// There must be so many numbers at that place of the output.
    #[inline(always)]
    unsafe fn store<S: Span, const WHOLE: bool>(self, numbers: S, place: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { numbers.store(self.to.add(place)) } else { numbers.store_first(self.to.add(place), count) } }
    }
}

/// One input channel for each output channel, with vectors along the channels.
pub static DEPTHWISE: Implementation = Implementation { name: "conv.depthwise", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let op = problem.conv2d()?;
    let plan = plan(op, problem.input(op.input).shape, problem, target)?;
    Ok(Box::new(move || {
        let kernel = plan.build();
        let consumed = kernel.finish.consumed_beside(op.filter);
        let fuses = kernel.finish.is_whole;
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// What is decided before anything is packed.
pub struct Plan<'a> {
    isa: &'static Isa,
    input: OperandId,
    filter: Filter<'a>,
    pub finish: ConvEpilogue,
    batches: usize,
    rows: Axis,
    columns: Axis,
    channels: usize,
}

/// A depthwise convolution of an image of that shape, also as a part of another kernel.
pub fn plan<'a>(op: &Conv2d, input: &[usize], problem: &Problem<'a>, target: &Target) -> Result<Plan<'a>, Reject> {
    let (filter, [outputs, of_group, height, width]) = Filter::of(op, problem)?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let is_depthwise = of_group == 1 && op.groups as usize == outputs && input[3] == outputs;
    require(is_depthwise, "not one input channel for each output channel")?;
    // Vectors run along the channels; with a single one the general kernel, whose vectors run along the filter, is far
    // ahead.
    require(outputs > 1, "a single channel")?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (axis(op, 0, input[1], height, problem), axis(op, 1, input[2], width, problem));
    Ok(Plan { isa: target.isa, input: op.input, filter, finish, batches: input[0], rows, columns, channels: outputs })
}

impl Plan<'_> {
    pub fn build(self) -> Depthwise {
        let Plan { isa, input, filter, finish, batches, rows, columns, channels } = self;
        let distance = channels + MARGIN;
        let mut weights = AlignedBuffer::zeroed(rows.window * columns.window * distance);
        for (tap, numbers) in weights.as_mut_slice().chunks_exact_mut(distance).enumerate() {
            let number = |o| filter.at([o, 0, tap / columns.window, tap % columns.window]);
            numbers[..channels].iter_mut().enumerate().for_each(|(o, to)| *to = number(o));
        }
        let mut bias = AlignedBuffer::zeroed(distance);
        bias.as_mut_slice()[..finish.bias.len()].copy_from_slice(&finish.bias);
        let zeros = AlignedBuffer::zeroed(columns.input * channels);
        let is_finite = filter.is_finite();
        Depthwise { isa, input, weights, bias, finish, batches, rows, columns, channels, is_finite, zeros }
    }
}
