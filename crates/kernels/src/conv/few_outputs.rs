//! Convolutions of float32 with few output channels: with the channels last their vectors would be mostly empty. The rows of the
//! input are copied, one after the other, into planes of the channels that have room for those under a window, and vectors run
//! along the pixels of a row.
//!
//! With a stride, every so many pixels lie beside each other in a plane (a *phase*), so that a vector reads consecutive ones.
#![allow(unsafe_code)]

use crate::epilogue::clamp::Clamps;
use crate::epilogue::post_ops::BoundPostOps;
use crate::gemm::packing::interleave;
use crate::isa::Isa;
use crate::output::SharedOutput;
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use crate::window::Axis;
use std::ops::Range;

/// The most output channels.
pub const MOST_OUTPUTS: usize = 12;
/// The most pixels that are computed together, and numbers after a line that they may read.
pub const WIDEST: usize = 64;

/// A convolution whose weights are packed.
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'a> {
    pub tiling: Tiling,
    /// For each channel, row and column of the window a number for each output, and zeros up to `padded`.
    pub weights: &'a [f32],
    pub bias: &'a [f32; MOST_OUTPUTS],
    /// [`Tiling::places`].
    pub places: &'a [usize],
    pub clamps: Clamps,
}

#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    pub batches: usize,
    pub channels: usize,
    pub outputs: usize,
    /// As many as a kernel has.
    pub padded: usize,
    pub rows: Axis,
    pub columns: Axis,
    /// Rows and columns of the output in a job.
    pub height: usize,
    pub width: usize,
}

impl Tiling {
    pub fn down(&self) -> usize {
        self.rows.output.div_ceil(self.height)
    }

    pub fn across(&self) -> usize {
        self.columns.output.div_ceil(self.width)
    }

    /// Columns of the input under the windows of so many of the output.
    pub fn reach(&self, width: usize) -> usize {
        (width - 1) * self.columns.stride + (self.columns.window - 1) * self.columns.dilation + 1
    }

    /// Numbers of a phase of a line.
    pub fn line(&self) -> usize {
        self.reach(self.width).div_ceil(self.columns.stride) + WIDEST
    }

    /// Where in a plane's row the numbers under each column of the window begin.
    pub fn places(&self) -> Vec<usize> {
        let Axis { window, stride, dilation, .. } = self.columns;
        (0..window).map(|tap| tap * dilation % stride * self.line() + tap * dilation / stride).collect()
    }

    /// Rows of the input that planes have room for: those under a window.
    pub fn covered(&self) -> usize {
        (self.rows.window - 1) * self.rows.dilation + 1
    }

    /// About how many nanoseconds so many pixels of the output take.
    pub fn cost(&self, pixels: usize) -> usize {
        pixels * self.outputs * self.channels * self.rows.window * self.columns.window / 32
    }

    /// Numbers of the planes.
    pub fn numbers(&self) -> usize {
        self.channels * self.covered() * self.columns.stride * self.line()
    }
}

/// Some rows and columns of the output.
pub struct Job<'a> {
    pub of: Convolution<'a>,
    pub image: &'a [f32],
    pub added: Option<&'a [f32]>,
    pub rest: &'a BoundPostOps<'a>,
    pub output: &'a SharedOutput<'a>,
    pub batch: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// Room for [`Tiling::numbers`].
    pub planes: &'a mut [f32],
    /// They count as [`Tiling::cost`] does.
    pub pauses: Pauses,
}

impl Job<'_> {
    /// Runs it with an instruction set.
    ///
    /// # Safety
    /// Nobody else may access the job's rows and columns of the output meanwhile.
    ///
    /// # Panics
    /// When anything is too short.
    pub unsafe fn compute(self, isa: &Isa) {
        with_vectors(isa, self);
    }
}

impl OnVectors for Job<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let wide = V::LANES == 16;
        match self.of.tiling.padded {
            1 => self.pixels::<V, 1, 1, 4>(),
            2 => self.pixels::<V, 2, 2, 4>(),
            3 if wide => self.pixels::<V, 3, 3, 4>(),
            3 => self.pixels::<V, 3, 3, 3>(),
            4 if wide => self.pixels::<V, 4, 4, 4>(),
            4 => self.pixels::<V, 4, 4, 3>(),
            6 if wide => self.pixels::<V, 6, 6, 3>(),
            6 => self.pixels::<V, 6, 6, 2>(),
            8 if wide => self.pixels::<V, 8, 8, 3>(),
            8 => self.pixels::<V, 8, 4, 3>(),
            _ if wide => self.pixels::<V, 12, 12, 2>(),
            _ => self.pixels::<V, 12, 6, 2>(),
        }
    }
}

impl Job<'_> {
    /// Where the planes have a row under the windows, counted with the padding above.
    fn line_of(&self, row: usize) -> usize {
        row % self.of.tiling.covered()
    }

    /// Copies rows under the windows, counted with the padding above, into the planes. Rows in the padding are left out.
    #[inline(always)]
    fn fill(&mut self, wanted: Range<usize>) {
        let tiling = self.of.tiling;
        let Tiling { channels, rows, columns, .. } = tiling;
        let (line, stride) = (tiling.line(), columns.stride);
        let phases = stride * line;
        let distance = tiling.covered() * phases;
        let reach = tiling.reach(self.columns.len());
        // Columns of the input: those there are, and how many numbers of the padding stand before them.
        let first = (self.columns.start * stride) as isize - columns.padding as isize;
        let before = first.min(0).unsigned_abs().min(reach);
        let from = first.max(0) as usize;
        let count = columns.input.saturating_sub(from).min(reach - before);
        for row in wanted {
            let place = self.line_of(row) * phases;
            let Some(row) = row.checked_sub(rows.padding).filter(|&row| row < rows.input) else { continue };
            let image = &self.image[row * columns.input * channels..][..columns.input * channels];
            if stride == 1 {
                for plane in self.planes.chunks_exact_mut(distance) {
                    let plane = &mut plane[place..place + phases];
                    plane[..before].fill(0.0);
                    plane[before + count..].fill(0.0);
                }
                if channels == 1 {
                    self.planes[place + before..][..count].copy_from_slice(&image[from..from + count]);
                } else if count > 0 {
                    let pixels = &image[from * channels..(from + count) * channels];
                    interleave(pixels, channels, count, channels, &mut self.planes[place + before..], distance);
                }
                continue;
            }
            for channel in 0..channels {
                let plane = &mut self.planes[channel * distance + place..][..phases];
                plane.fill(0.0);
                for (phase, to) in plane.chunks_exact_mut(line).enumerate() {
                    // The first column that is in this phase.
                    let skipped = (phase + stride - before % stride) % stride;
                    if skipped < count {
                        let numbers = image[(from + skipped) * channels + channel..].iter().step_by(stride * channels);
                        let to = to[(before + skipped) / stride..].iter_mut().take((count - skipped).div_ceil(stride));
                        to.zip(numbers).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        }
    }

    /// Tiles are VECTORS vectors of pixels, and OF_TILE of the outputs: as many sums as there are registers.
    #[inline(always)]
    fn pixels<V: Vector, const OUTPUTS: usize, const OF_TILE: usize, const VECTORS: usize>(&mut self) {
        const { assert!(OUTPUTS.is_multiple_of(OF_TILE) && OF_TILE > 0) };
        let Tiling { outputs, rows, columns, .. } = self.of.tiling;
        let mut sums = [[0f32; WIDEST]; OUTPUTS];
        let (mut filled, mut counted) = (0, self.pauses.counted());
        for y in self.rows.clone() {
            let under = y * rows.stride..y * rows.stride + self.of.tiling.covered();
            self.fill(under.start.max(filled)..under.end);
            filled = under.end;
            let mut x = 0;
            while x < self.columns.len() {
                let left = self.columns.len() - x;
                let is_wide = left > (VECTORS - 1) * V::LANES;
                for (i, sums) in sums.chunks_exact_mut(OF_TILE).enumerate() {
                    let sums = sums.try_into().expect("a chunk of OF_TILE");
                    if is_wide {
                        self.tile::<V, OUTPUTS, OF_TILE, VECTORS>(y, x, i * OF_TILE, sums);
                    } else {
                        self.tile::<V, OUTPUTS, OF_TILE, 1>(y, x, i * OF_TILE, sums);
                    }
                }
                let count = left.min(if is_wide { VECTORS * V::LANES } else { V::LANES });
                let place = (self.batch * rows.output + y) * columns.output + self.columns.start + x;
                let (place, length) = (place * outputs, count * outputs);
                // SAFETY: inside the output (`from` asserts that); the pixels are this job's.
                let numbers = unsafe { std::slice::from_raw_parts_mut(self.output.from(place, place + length), length) };
                if OUTPUTS == 1 {
                    numbers.copy_from_slice(&sums[0][..count]);
                } else {
                    interleave(sums.as_flattened(), WIDEST, outputs, count, numbers, outputs);
                }
                self.finish::<V>(place, numbers);
                x += count;
                counted.done(self.of.tiling.cost(count));
            }
        }
    }

    /// Sums of VECTORS vectors of pixels from column `x` of the job on, of OF_TILE outputs from number `first` on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn tile<V: Vector, const OUTPUTS: usize, const OF_TILE: usize, const VECTORS: usize>(
        &self,
        y: usize,
        x: usize,
        first: usize,
        results: &mut [[f32; WIDEST]; OF_TILE],
    ) {
        let tiling = self.of.tiling;
        let Tiling { channels, rows, columns, .. } = tiling;
        let (line, covered) = (tiling.line(), tiling.covered());
        let phases = columns.stride * line;
        let taps = rows.taps(y);
        let (down, across) = (columns.window * OUTPUTS, rows.window * columns.window * OUTPUTS);
        assert!(self.planes.len() >= channels * covered * phases && x + VECTORS * V::LANES <= tiling.width + WIDEST);
        assert!(self.of.weights.len() == channels * across && VECTORS * V::LANES <= WIDEST);
        assert!(first + OF_TILE <= OUTPUTS && OUTPUTS <= MOST_OUTPUTS && self.of.places.len() == columns.window);
        let mut sums = [[V::splat(0.0); VECTORS]; OF_TILE];
        for (o, sums) in sums.iter_mut().enumerate() {
            *sums = [V::splat(self.of.bias[first + o]); VECTORS];
        }
        for tap_y in taps {
            let row = self.line_of(y * rows.stride + tap_y * rows.dilation);
            for channel in 0..channels {
                // SAFETY: the planes have room for the row, and the numbers lie `WIDEST` or more before the end of their line:
                // the last column that is wanted lies at `reach` - 1 or before, and vectors reach less than `WIDEST` further.
                // The weights have OUTPUTS numbers for every tap of every channel. (Both lengths were asserted.)
                unsafe {
                    let from = self.planes.as_ptr().add((channel * covered + row) * phases + x);
                    let mut weights = self.of.weights.as_ptr().add(channel * across + tap_y * down + first);
                    for &place in self.of.places {
                        let from = from.add(place);
                        let mut numbers = [V::splat(0.0); VECTORS];
                        for (v, numbers) in numbers.iter_mut().enumerate() {
                            *numbers = V::load(from.add(v * V::LANES));
                        }
                        for o in 0..OF_TILE {
                            let factor = V::splat(*weights.add(o));
                            for v in 0..VECTORS {
                                sums[o][v] = numbers[v].mul_add(factor, sums[o][v]);
                            }
                        }
                        weights = weights.add(OUTPUTS);
                    }
                }
            }
        }
        // A copy, which may lie in memory: the sums themselves would otherwise do so in the loop above too.
        let sums = sums;
        for (result, sums) in results.iter_mut().zip(&sums) {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: VECTORS vectors are no more than `WIDEST` numbers (asserted).
                unsafe { sum.store(result.as_mut_ptr().add(v * V::LANES)) }
            }
        }
    }

    /// Does what is fused to some pixels.
    #[inline(always)]
    fn finish<V: Vector>(&self, place: usize, numbers: &mut [f32]) {
        let clamps = self.of.clamps;
        if clamps != Default::default() || self.added.is_some() {
            let added = self.added.map(|added| &added[place..place + numbers.len()]);
            for first in (0..numbers.len()).step_by(V::LANES) {
                let count = V::LANES.min(numbers.len() - first);
                // SAFETY: so many numbers are left, of both.
                unsafe {
                    let to = numbers.as_mut_ptr().add(first);
                    let added = added.map(|added| V::load_first(added.as_ptr().add(first), count));
                    clamps.finish(V::load_first(to, count), added).store_first(to, count);
                }
            }
        }
        self.rest.apply(place, numbers);
    }
}
