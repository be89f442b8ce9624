//! Pooling of float32 with the channels last, a vector of channels at a time.
//!
//! Sums of float32 may be infinite where the mean is not, and squares infinite or 0 where the norm is not. Such results are
//! looked for afterwards and computed again in float64.
#![allow(unsafe_code)]

use super::isa::Isa;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_piece, is_wanted};
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use std::ops::Range;

/// Vectors of channels that are reduced together.
const TOGETHER: usize = 4;
/// One thread has pooled fewer numbers when another has come.
const LEAST_TO_DIVIDE: usize = 160 << 10;

#[derive(Debug)]
struct Pool {
    isa: &'static Isa,
    kind: Pool2dKind,
    input: OperandId,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// Into how many parts the rows under the window are divided, where it is the only one and there are several threads.
    parts: usize,
}

impl Kernel for Pool {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        if self.parts > 1 {
            return self.pool_parts(image, output);
        }
        let elements = self.rows.window.min(self.rows.input) * self.columns.window.min(self.columns.input);
        for_each_piece(output, self.channels, (self.channels * elements / 16).max(1), |first, output| {
            with_vectors(self.isa, Piece { of: self, image, first, output });
            self.mend(image, first, output);
        });
    }
}

impl Pool {
    /// Reduces what is under the only window, each thread some rows of it: it has often written them just before.
    fn pool_parts(&self, image: &[f32], output: &mut [f32]) {
        let Pool { isa, kind, parts, channels, .. } = *self;
        assert_eq!(output.len(), channels);
        let whole = Window::new(self, [0, 0], [&self.rows.taps(0), &self.columns.taps(0)]);
        with_scratch(parts * channels, |reduced| {
            for_each_piece(reduced, channels, whole.elements() * channels / parts / 8, |first, reduced| {
                for (part, to) in (first..).zip(reduced.chunks_exact_mut(channels)) {
                    let window = whole.some_rows(part * whole.rows / parts..(part + 1) * whole.rows / parts);
                    with_vectors(isa, Part { kind, window, from: image, to, joined: None });
                }
            });
            let window = Window { rows: parts, columns: 1, first: 0, down: channels, across: 0 };
            with_vectors(isa, Part { kind, window, from: reduced, to: output, joined: Some(whole.elements()) });
        });
        self.mend(image, 0, output);
    }

    /// Computes again what may have left the range of float32 on its way, of the pixels from number `first` on.
    fn mend(&self, image: &[f32], first: usize, output: &mut [f32]) {
        // The squares of smaller numbers lose digits, or are 0.
        const LEAST_NORM: f32 = 1e-15;
        let is_doubtful = |x: f32| match self.kind {
            Pool2dKind::Max => false,
            Pool2dKind::Average => !x.is_finite(),
            Pool2dKind::L2 => !x.is_finite() || x < LEAST_NORM,
        };
        if self.kind == Pool2dKind::Max || !output.iter().fold(false, |found, &x| found | is_doubtful(x)) {
            return;
        }
        for (i, output) in output.iter_mut().enumerate().filter(|(_, x)| is_doubtful(**x)) {
            let (pixel, channel) = (first + i / self.channels, i % self.channels);
            *output = self.exactly(image, pixel, channel);
        }
    }

    /// One number of the output, by sums of float64.
    fn exactly(&self, image: &[f32], pixel: usize, channel: usize) -> f32 {
        let Pool { rows, columns, channels, .. } = *self;
        let (line, x) = (pixel / columns.output, pixel % columns.output);
        let size = rows.input * columns.input * channels;
        let image = &image[line / rows.output * size..][..size];
        let y = line % rows.output;
        let window = Window::new(self, [y, x], [&rows.taps(y), &columns.taps(x)]);
        let places = (0..window.rows).flat_map(|row| (0..window.columns).map(move |column| (row, column)));
        let numbers =
            places.map(|(row, column)| f64::from(image[window.first + row * window.down + column * window.across + channel]));
        match self.kind {
            Pool2dKind::L2 => numbers.map(|x| x * x).sum::<f64>().sqrt() as f32,
            _ => (numbers.sum::<f64>() / window.elements().max(1) as f64) as f32,
        }
    }
}

/// Some rows of the only window; or all parts, to be joined, of so many elements.
struct Part<'a> {
    kind: Pool2dKind,
    window: Window,
    from: &'a [f32],
    to: &'a mut [f32],
    joined: Option<usize>,
}

impl OnVectors for Part<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Part { kind, window, from, to, joined } = self;
        match (kind, joined) {
            (Pool2dKind::Max, _) => window.reduce(from, to, f32::NEG_INFINITY, &V::greatest, &|most, _| most),
            (Pool2dKind::L2, None) => window.reduce(from, to, 0.0, &|sum: V, x: V| x.mul_add(x, sum), &|sum, _| sum),
            (Pool2dKind::L2, Some(_)) => window.reduce(from, to, 0.0, &V::add, &|sum: V, _| sum.sqrt()),
            (Pool2dKind::Average, None) => window.reduce(from, to, 0.0, &V::add, &|sum, _| sum),
            (Pool2dKind::Average, Some(elements)) => {
                window.reduce(from, to, 0.0, &V::add, &|sum: V, _| sum.div(V::set(elements.max(1) as f32)));
            }
        }
    }
}

/// Some pixels of the output, from number `first` on.
struct Piece<'a> {
    of: &'a Pool,
    image: &'a [f32],
    first: usize,
    output: &'a mut [f32],
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.of.kind {
            Pool2dKind::Max => self.pool::<V>(f32::NEG_INFINITY, |most, x| most.greatest(x), |most, _| most),
            // The mean of nothing but padding is 0.
            Pool2dKind::Average => self.pool::<V>(0.0, |sum, x| sum.add(x), |sum, count| sum.div(V::set(count.max(1) as f32))),
            Pool2dKind::L2 => self.pool::<V>(0.0, |sum, x| x.mul_add(x, sum), |sum, _| sum.sqrt()),
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn pool<V: Vector>(self, start: f32, add: impl Fn(V, V) -> V, finish: impl Fn(V, usize) -> V) {
        let Pool { rows, columns, channels, .. } = *self.of;
        let size = rows.input * columns.input * channels;
        // Positions in a row at which the window is over no padding.
        let [first, last] = [0, columns.window - 1].map(|tap| columns.positions(tap));
        let whole = first.start.max(last.start)..first.end.min(last.end);
        let (mut i, count) = (0, self.output.len() / channels);
        while i < count {
            let (line, first) = ((self.first + i) / columns.output, (self.first + i) % columns.output);
            let image = &self.image[line / rows.output * size..][..size];
            let y = line % rows.output;
            let down = rows.taps(y);
            let mut x = first;
            while x < columns.output && i < count {
                // Windows may be as large as the image, and there may be as many.
                if rows.window.saturating_mul(columns.window) > LONG && !is_wanted() {
                    return;
                }
                let is_whole = whole.contains(&x);
                let across = if is_whole { 0..columns.window } else { columns.taps(x) };
                // Windows that are a pixel apart are one, of longer runs.
                let together = if is_whole && columns.stride == 1 { (whole.end - x).min(count - i) } else { 1 };
                let window = Window::new(self.of, [y, x], [&down, &across]);
                let output = &mut self.output[i * channels..(i + together) * channels];
                window.reduce(image, output, start, &add, &finish);
                i += together;
                x += together;
            }
        }
    }
}

/// Windows of more elements take longer than to ask whether they are wanted.
const LONG: usize = 1000;

/// What is under a window, without padding.
struct Window {
    rows: usize,
    columns: usize,
    /// Where the run of numbers under its first element begins, and how much later those of the next row and column do.
    first: usize,
    down: usize,
    across: usize,
}

impl Window {
    #[inline(always)]
    fn new(of: &Pool, [y, x]: [usize; 2], [down, across]: [&Range<usize>; 2]) -> Window {
        let Pool { rows, columns, channels, .. } = *of;
        let (steps_down, steps_across) = (rows.dilation * columns.input * channels, columns.dilation * channels);
        if down.is_empty() || across.is_empty() {
            return Window { rows: 0, columns: 0, first: 0, down: steps_down, across: steps_across };
        }
        let row = y * rows.stride + down.start * rows.dilation - rows.padding;
        let column = x * columns.stride + across.start * columns.dilation - columns.padding;
        let first = (row * columns.input + column) * channels;
        Window { rows: down.len(), columns: across.len(), first, down: steps_down, across: steps_across }
    }

    fn elements(&self) -> usize {
        self.rows * self.columns
    }

    fn some_rows(&self, rows: Range<usize>) -> Window {
        Window { rows: rows.len(), first: self.first + rows.start * self.down, ..*self }
    }

    /// Reduces what is under the windows of some pixels.
    #[inline(always)]
    fn reduce<V: Vector>(
        &self,
        image: &[f32],
        output: &mut [f32],
        start: f32,
        add: &impl Fn(V, V) -> V,
        finish: &impl Fn(V, usize) -> V,
    ) {
        let elements = self.elements();
        let length = output.len();
        let last = self.first + self.rows.saturating_sub(1) * self.down + self.columns.saturating_sub(1) * self.across;
        assert!(elements == 0 || last + length <= image.len());
        let from = image.as_ptr().wrapping_add(self.first);
        let to = output.as_mut_ptr();
        let mut i = 0;
        while length - i >= TOGETHER * V::LANES {
            let mut reduced = [V::set(start); TOGETHER];
            for row in 0..self.rows {
                for column in 0..self.columns {
                    for (v, reduced) in reduced.iter_mut().enumerate() {
                        // SAFETY: under each element of the window are as many numbers of the image as the output has
                        // (asserted for the last one).
                        let x = unsafe { V::load(from.add(row * self.down + column * self.across + i + v * V::LANES)) };
                        *reduced = add(*reduced, x);
                    }
                }
            }
            for (v, &reduced) in reduced.iter().enumerate() {
                // SAFETY: so many numbers are left.
                unsafe { finish(reduced, elements).store(to.add(i + v * V::LANES)) };
            }
            i += TOGETHER * V::LANES;
        }
        while i < length {
            let count = V::LANES.min(length - i);
            let mut reduced = V::set(start);
            for row in 0..self.rows {
                for column in 0..self.columns {
                    // SAFETY: as above.
                    let x = unsafe {
                        let from = from.add(row * self.down + column * self.across + i);
                        if count == V::LANES { V::load(from) } else { V::load_first(from, count) }
                    };
                    reduced = add(reduced, x);
                }
            }
            let finished = finish(reduced, elements);
            // SAFETY: as above.
            unsafe { if count == V::LANES { finished.store(to.add(i)) } else { finished.store_first(to.add(i), count) } };
            i += count;
        }
    }
}

/// Windows over images with the channels last.
pub static WINDOWS: Implementation = Implementation { name: "pool.nhwc", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Pool2d(op) = problem.op else { return Err(Reject("not a pooling")) };
    require(op.layout == InputOperandLayout::Nhwc, "channels not last")?;
    let &[_, height, width, channels] = problem.input(op.input).shape else { return Err(Reject("not an image")) };
    let window = op.window([height as u32, width as u32]);
    let options = (&op.strides, &op.dilations, &op.padding);
    let sizes = |number| (problem.input(op.input).shape[1 + number], problem.output.shape[1 + number], window[number] as usize);
    let axis = |number| Axis::new(number, sizes(number), options);
    // Sums of more numbers than this are better computed in float64.
    let is_exact = op.kind == Pool2dKind::Max || height.saturating_mul(width) <= 1 << 16;
    require(is_exact, "sums of over 65,536 pixels")?;
    let (rows, columns) = (axis(0), axis(1));
    let is_only_one = problem.output.shape[..3].iter().all(|&size| size == 1);
    let divides = target.threads > 1 && is_only_one && height * width * channels >= LEAST_TO_DIVIDE;
    let parts = if divides { (4 * target.threads).min(rows.taps(0).len()) } else { 1 };
    let kernel = Pool { isa: target.isa, kind: op.kind, input: op.input, rows, columns, channels, parts };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: true })))
}
