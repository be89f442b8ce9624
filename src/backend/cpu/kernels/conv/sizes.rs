//! How large a convolution is, and where in the image the runs of its pixels begin.

use crate::backend::window::Axis;
use std::ops::Range;

/// The most runs of a window of which a table says where they begin.
const MOST_RUNS: usize = 128;

/// The sizes of a convolution with the channels last.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batches: usize,
    /// Channels of the whole input, and of a group of it.
    pub all_channels: usize,
    pub channels: usize,
    /// Channels of the whole output.
    pub all_outputs: usize,
    pub rows: Axis,
    pub columns: Axis,
    /// Whether whole rows of the window are runs, of an input that was padded on both sides.
    pub by_row: bool,
}

impl Sizes {
    pub fn runs(&self) -> usize {
        if self.by_row { self.rows.window } else { self.rows.window * self.columns.window }
    }

    pub fn length(&self) -> usize {
        if self.by_row { self.columns.window * self.channels } else { self.channels }
    }

    /// By run of a row of the window: the columns of the output at which it is not over padding.
    pub fn over(&self) -> Vec<Range<usize>> {
        if self.by_row {
            return std::iter::once(0..self.columns.output).collect();
        }
        (0..self.columns.window).map(|tap| self.columns.positions(tap)).collect()
    }

    /// Pixels of a row of the input as the kernel reads it.
    pub fn width(&self) -> usize {
        if self.by_row { (self.columns.output - 1) * self.columns.stride + self.columns.window } else { self.columns.input }
    }

    /// Whether the input must be copied, to have its padding beside it.
    pub fn is_padded(&self) -> bool {
        self.by_row && (self.columns.padding > 0 || self.width() > self.columns.input)
    }

    /// Whether every pixel of the output is made from the one at the same place of the input.
    pub fn is_plain(&self) -> bool {
        let plain = |axis: &Axis| axis.window == 1 && axis.stride == 1 && axis.padding == 0 && axis.input == axis.output;
        plain(&self.rows) && plain(&self.columns) && !self.is_padded()
    }

    /// All runs but the first and the last ones that are in the padding for each of some pixels, as far as these are whole rows
    /// of the window.
    pub fn inside(&self, pixels: Range<usize>) -> Range<usize> {
        let [first, last] = [pixels.start, pixels.end - 1].map(|pixel| pixel / self.columns.output);
        let of_row = self.runs() / self.rows.window;
        if first / self.rows.output != last / self.rows.output {
            return 0..self.runs();
        }
        // Further down the window begins, and ends, with an earlier one of its rows.
        let [first, last] = [first, last].map(|row| self.rows.taps(row % self.rows.output));
        last.start * of_row..first.end.max(last.start) * of_row
    }

    /// Elements of the padded input.
    pub fn padded(&self) -> usize {
        if self.is_padded() { self.batches * self.rows.input * self.width() * self.channels } else { 0 }
    }

    pub fn pad(&self, image: &[f32], padded: &mut [f32]) {
        let (line, padded_line) = (self.columns.input * self.channels, self.width() * self.channels);
        let before = self.columns.padding * self.channels;
        for (from, to) in image.chunks_exact(line).zip(padded.chunks_exact_mut(padded_line)) {
            let before = before.min(to.len());
            let count = from.len().min(to.len() - before);
            to[..before].fill(0.0);
            to[before..before + count].copy_from_slice(&from[..count]);
            to[before + count..].fill(0.0);
        }
    }

    /// Numbers of a row of the input as the kernel reads it.
    fn line(&self) -> usize {
        let pixels = if self.is_padded() { self.width() } else { self.columns.input };
        pixels * self.all_channels
    }

    /// Columns before the input as the kernel reads it.
    fn before(&self) -> usize {
        if self.by_row { 0 } else { self.columns.padding }
    }

    /// Finds where the runs of some pixels begin, those of the first of some groups: the others' lie after them.
    pub fn starts(
        &self,
        image: &[f32],
        groups: &Range<usize>,
        pixels: Range<usize>,
        (over, zeros): (&[Range<usize>], &[f32]),
        starts: &mut [*const f32],
    ) {
        let count = pixels.len();
        let channels = groups.start * self.channels..groups.end * self.channels;
        if self.is_plain() {
            // Pixel after pixel.
            let first = pixels.start * self.all_channels + channels.start;
            let image = &image[..pixels.end * self.all_channels];
            for (start, pixel) in starts[..count].iter_mut().zip(image[first..].chunks(self.all_channels)) {
                *start = pixel.as_ptr();
            }
            return;
        }
        let (line, padding) = (self.line(), self.before());
        let step = self.columns.stride * self.all_channels;
        let reach = if self.by_row { self.length() } else { channels.end };
        let mut pixel = pixels.start;
        while pixel < pixels.end {
            // The pixels of one row of the output.
            let (x, above) = (pixel % self.columns.output, pixel / self.columns.output);
            let (y, batch) = (above % self.rows.output, above / self.rows.output);
            let some = (self.columns.output - x).min(pixels.end - pixel);
            let mut places = starts.chunks_exact_mut(count).map(|places| &mut places[pixel - pixels.start..][..some]);
            for tap_y in 0..self.rows.window {
                let row = self.rows.element(y, tap_y);
                let row = row.map(|row| &image[(batch * self.rows.input + row) * line..][..line]);
                for (tap_x, over) in over.iter().enumerate() {
                    let places = places.next().expect("a place for each run");
                    // Those of the pixels at which this element of the window is over the row, and not beside it.
                    let [first, end] = [over.start, over.end].map(|end| end.clamp(x, x + some) - x);
                    let Some(row) = row.filter(|_| first < end) else {
                        places.fill(zeros.as_ptr());
                        continue;
                    };
                    places[..first].fill(zeros.as_ptr());
                    places[end..].fill(zeros.as_ptr());
                    let column = (x + first) * self.columns.stride + tap_x * self.columns.dilation - padding;
                    let place = column * self.all_channels;
                    assert!(place + (end - first - 1) * step + reach <= row.len());
                    let mut start = row[place + channels.start..].as_ptr();
                    for place in &mut places[first..end] {
                        *place = start;
                        start = start.wrapping_add(step);
                    }
                }
            }
            pixel += some;
        }
    }
}

/// Where the runs of pixels beside each other begin whose windows are over no padding: as far from the first one for all of them.
/// To find each takes as long as to multiply with some numbers of it.
#[derive(Debug, Default)]
pub struct Offsets {
    /// Rows and columns of the output with such pixels.
    rows: Range<usize>,
    columns: Range<usize>,
    /// By run, then by pixel; for so many pixels, and one more.
    count: usize,
    offsets: [Vec<usize>; 2],
}

impl Offsets {
    /// For so many pixels, and one more; none for windows that have very many runs, whose table would be as large as the filter.
    pub fn new(sizes: &Sizes, count: usize) -> Offsets {
        if sizes.runs() > MOST_RUNS {
            return Offsets::default();
        }
        let (line, channels) = (sizes.line(), sizes.all_channels);
        let inside = |axis: &Axis| {
            let [first, last] = [axis.positions(0), axis.positions(axis.window - 1)];
            first.start.max(last.start)..first.end.min(last.end)
        };
        let columns = if sizes.by_row { 0..sizes.columns.output } else { inside(&sizes.columns) };
        let of_row = sizes.runs() / sizes.rows.window;
        let of = |count: usize| {
            let run = |run: usize| run / of_row * sizes.rows.dilation * line + run % of_row * sizes.columns.dilation * channels;
            let step = sizes.columns.stride * channels;
            (0..sizes.runs()).flat_map(|number| (0..count).map(move |pixel| run(number) + pixel * step)).collect()
        };
        Offsets { rows: inside(&sizes.rows), columns, count, offsets: [of(count), of(count + 1)] }
    }

    /// As [`Sizes::starts`]; not, and false, if there are other pixels than such.
    pub fn starts(
        &self,
        sizes: &Sizes,
        image: &[f32],
        groups: &Range<usize>,
        pixels: Range<usize>,
        starts: &mut [*const f32],
    ) -> bool {
        let (x, above) = (pixels.start % sizes.columns.output, pixels.start / sizes.columns.output);
        let (y, batch) = (above % sizes.rows.output, above / sizes.rows.output);
        let is_beside = x >= self.columns.start && x + pixels.len() <= self.columns.end && self.rows.contains(&y);
        let Some(offsets) = pixels.len().checked_sub(self.count).and_then(|more| self.offsets.get(more)).filter(|_| is_beside)
        else {
            return false;
        };
        let row = batch * sizes.rows.input + y * sizes.rows.stride - sizes.rows.padding;
        let column = x * sizes.columns.stride - sizes.before();
        let first = row * sizes.line() + column * sizes.all_channels + groups.start * sizes.channels;
        // The last run ends last, in the last group.
        let reach = (groups.len() - 1) * sizes.channels + sizes.length();
        assert!(starts.len() == offsets.len());
        assert!(offsets.last().is_none_or(|last| first + last + reach <= image.len()));
        let first = image[first..].as_ptr();
        for (start, offset) in starts.iter_mut().zip(offsets) {
            *start = first.wrapping_add(*offset);
        }
        true
    }

    pub fn bytes(&self) -> usize {
        self.offsets.iter().map(|offsets| offsets.len() * size_of::<usize>()).sum()
    }
}
