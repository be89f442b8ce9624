//! Pooling of float32 with the channels last, a vector of channels at a time.
//!
//! Sums of float32 may be infinite where the mean is not, and squares infinite or 0 where the norm is not: the caller looks for
//! such results.
#![allow(unsafe_code)]

use crate::bf16::narrow::{Source, Stored};
use crate::isa::Isa;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use crate::window::Axis;
use std::ops::Range;

/// Vectors of channels that are reduced together.
const VECTORS: usize = 4;
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Average,
    L2,
    Max,
}

/// How windows slide over images.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub kind: Kind,
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
}

/// Some rows of the only window; or all parts, to be joined, of so many elements.
pub struct PartialWindow<'a> {
    pub kind: Kind,
    pub window: Window,
    pub from: Stored<'a>,
    pub to: &'a mut [f32],
    pub joined: Option<usize>,
}

impl PartialWindow<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for PartialWindow<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let PartialWindow { kind, window, from, to, joined } = self;
        match (kind, joined) {
            (Kind::Max, _) => window.reduce(from, to, f32::NEG_INFINITY, &V::greatest, &|most, _| most),
            (Kind::L2, None) => window.reduce(from, to, 0.0, &|sum: V, x: V| x.mul_add(x, sum), &|sum, _| sum),
            (Kind::L2, Some(_)) => window.reduce(from, to, 0.0, &V::add, &|sum: V, _| sum.sqrt()),
            (Kind::Average, None) => window.reduce(from, to, 0.0, &V::add, &|sum, _| sum),
            (Kind::Average, Some(elements)) => {
                window.reduce(from, to, 0.0, &V::add, &|sum: V, _| sum.div(V::splat(elements.max(1) as f32)));
            }
        }
    }
}

/// Some pixels of the output, from number `first` on.
pub struct Piece<'a> {
    pub of: Windows,
    pub image: Stored<'a>,
    pub first: usize,
    pub output: &'a mut [f32],
    /// Whether anybody still wants the output; asked where windows are large.
    pub is_wanted: fn() -> bool,
}

impl Piece<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.of.kind {
            Kind::Max => self.pool::<V>(f32::NEG_INFINITY, |most, x| most.greatest(x), |most, _| most),
            // The mean of nothing but padding is 0.
            Kind::Average => self.pool::<V>(0.0, |sum, x| sum.add(x), |sum, count| sum.div(V::splat(count.max(1) as f32))),
            Kind::L2 => self.pool::<V>(0.0, |sum, x| x.mul_add(x, sum), |sum, _| sum.sqrt()),
        }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn pool<V: Vector>(self, start: f32, add: impl Fn(V, V) -> V, finish: impl Fn(V, usize) -> V) {
        let Windows { rows, columns, channels, .. } = self.of;
        let size = rows.input * columns.input * channels;
        // Positions in a row at which the window is over no padding.
        let [first, last] = [0, columns.window - 1].map(|tap| columns.positions(tap));
        let whole = first.start.max(last.start)..first.end.min(last.end);
        let (mut i, count) = (0, self.output.len() / channels);
        while i < count {
            let (line, first) = ((self.first + i) / columns.output, (self.first + i) % columns.output);
            let image = self.image.part(line / rows.output * size..(line / rows.output + 1) * size);
            let y = line % rows.output;
            let down = rows.taps(y);
            let mut x = first;
            while x < columns.output && i < count {
                // Windows may be as large as the image, and there may be as many.
                if rows.window.saturating_mul(columns.window) > LONG && !(self.is_wanted)() {
                    return;
                }
                let is_whole = whole.contains(&x);
                let across = if is_whole { 0..columns.window } else { columns.taps(x) };
                // Windows that are a pixel apart are one, of longer runs.
                let together = if is_whole && columns.stride == 1 { (whole.end - x).min(count - i) } else { 1 };
                let window = Window::new(&self.of, [y, x], [&down, &across]);
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
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub rows: usize,
    pub columns: usize,
    /// Where the run of numbers under its first element begins, and how much later those of the next row and column do.
    pub first: usize,
    pub down: usize,
    pub across: usize,
}

impl Window {
    #[inline(always)]
    pub fn new(of: &Windows, [y, x]: [usize; 2], [down, across]: [&Range<usize>; 2]) -> Window {
        let Windows { rows, columns, channels, .. } = *of;
        let (steps_down, steps_across) = (rows.dilation * columns.input * channels, columns.dilation * channels);
        if down.is_empty() || across.is_empty() {
            return Window { rows: 0, columns: 0, first: 0, down: steps_down, across: steps_across };
        }
        let row = y * rows.stride + down.start * rows.dilation - rows.padding;
        let column = x * columns.stride + across.start * columns.dilation - columns.padding;
        let first = (row * columns.input + column) * channels;
        Window { rows: down.len(), columns: across.len(), first, down: steps_down, across: steps_across }
    }

    pub fn elements(&self) -> usize {
        self.rows * self.columns
    }

    pub fn some_rows(&self, rows: Range<usize>) -> Window {
        Window { rows: rows.len(), first: self.first + rows.start * self.down, ..*self }
    }

    /// Reduces what is under the windows of some pixels.
    #[inline(always)]
    fn reduce<V: Vector>(
        &self,
        image: Stored<'_>,
        output: &mut [f32],
        start: f32,
        add: &impl Fn(V, V) -> V,
        finish: &impl Fn(V, usize) -> V,
    ) {
        let last = self.first + self.rows.saturating_sub(1) * self.down + self.columns.saturating_sub(1) * self.across;
        assert!(self.elements() == 0 || last + output.len() <= image.len());
        match image {
            // SAFETY: asserted.
            Stored::Float32(image) => unsafe {
                self.reduce_from(image.as_ptr().wrapping_add(self.first), output, start, add, finish)
            },
            // SAFETY: as above.
            Stored::Bf16(image) => unsafe {
                self.reduce_from(image.as_ptr().wrapping_add(self.first), output, start, add, finish)
            },
        }
    }

    /// The same from the run under the first element of the window on.
    ///
    /// # Safety
    /// Under each element of the window there must be as many numbers as the output has.
    #[inline(always)]
    unsafe fn reduce_from<V: Vector>(
        &self,
        from: impl Source,
        output: &mut [f32],
        start: f32,
        add: &impl Fn(V, V) -> V,
        finish: &impl Fn(V, usize) -> V,
    ) {
        let elements = self.elements();
        let length = output.len();
        let to = output.as_mut_ptr();
        let mut i = 0;
        while length - i >= VECTORS * V::LANES {
            let mut reduced = [V::splat(start); VECTORS];
            for row in 0..self.rows {
                for column in 0..self.columns {
                    for (v, reduced) in reduced.iter_mut().enumerate() {
                        // SAFETY: under each element of the window are as many numbers of the image as the output has, by the
                        // caller's promise.
                        let x: V = unsafe { from.load(row * self.down + column * self.across + i + v * V::LANES) };
                        *reduced = add(*reduced, x);
                    }
                }
            }
            for (v, &reduced) in reduced.iter().enumerate() {
                // SAFETY: so many numbers are left.
                unsafe { finish(reduced, elements).store(to.add(i + v * V::LANES)) };
            }
            i += VECTORS * V::LANES;
        }
        while i < length {
            let count = V::LANES.min(length - i);
            let mut reduced = V::splat(start);
            for row in 0..self.rows {
                for column in 0..self.columns {
                    // SAFETY: as above.
                    let x = unsafe {
                        let first = row * self.down + column * self.across + i;
                        if count == V::LANES { from.load(first) } else { from.load_first(first, count) }
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
