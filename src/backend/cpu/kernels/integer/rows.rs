//! The left operand of a product of bytes: rows of a matrix, or the windows of an image with its channels last. Either way a
//! row is made of some runs of consecutive bytes, at the same distances in every row.
#![allow(unsafe_code)]

use crate::backend::cpu::threads::for_each_piece;
use crate::backend::window::Axis;
use std::ops::Range;
use webnn_kernels::int8::microkernels::GROUP;

/// An image with its channels last, and how a window slides over it; a matrix is an image of one line whose pixels are rows.
#[derive(Debug)]
pub struct Rows {
    batches: usize,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// Bytes without a sign; others are moved up by 128.
    signed: bool,
    /// Where the runs begin, counted from the first byte of a window.
    pub offsets: Vec<usize>,
    /// Bytes of a run that count.
    pub length: usize,
}

impl Rows {
    pub fn matrix(rows: usize, depth: usize, signed: bool) -> Rows {
        let axis = |size| Axis { input: size, output: size, window: 1, stride: 1, dilation: 1, padding: 0 };
        Rows::image(1, (axis(1), axis(rows)), depth, signed)
    }

    pub fn image(batches: usize, (rows, columns): (Axis, Axis), channels: usize, signed: bool) -> Rows {
        let mut found = Rows { batches, rows, columns, channels, signed, offsets: Vec::new(), length: 0 };
        // A row of a window without gaps is one run.
        let (runs, length) = if columns.dilation == 1 { (1, columns.window) } else { (columns.window, 1) };
        let (_, width) = found.lines();
        let taps = (0..rows.window).flat_map(|y| (0..runs).map(move |x| (y, x)));
        found.offsets = taps.map(|(y, x)| (y * rows.dilation * width + x * columns.dilation) * channels).collect();
        found.length = length * channels;
        found
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.batches * self.rows.output * self.columns.output
    }

    /// Bytes of a run with those that are read besides and do not count.
    pub fn padded_length(&self) -> usize {
        self.length.next_multiple_of(GROUP)
    }

    /// Which element of the window a byte of a run belongs to, by line and column, and its channel.
    pub fn tap(&self, run: usize, byte: usize) -> [usize; 3] {
        let across = self.offsets.len() / self.rows.window;
        [run / across, run % across + byte / self.channels, byte % self.channels]
    }

    /// Lines and columns that all windows together cover, from the first byte of the first one on.
    fn covered(&self) -> (usize, usize) {
        let covers = |axis: &Axis| (axis.output - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1;
        (covers(&self.rows), covers(&self.columns))
    }

    /// Whether there is padding.
    fn is_padded(&self) -> bool {
        let (height, width) = self.covered();
        self.rows.padding > 0 || self.columns.padding > 0 || height > self.rows.input || width > self.columns.input
    }

    /// Lines and columns of the image as it is read.
    fn lines(&self) -> (usize, usize) {
        if self.is_padded() { self.covered() } else { (self.rows.input, self.columns.input) }
    }

    /// Whether the image is copied before it is read: to have its padding, or to lose its signs, or since the last run
    /// would be read beyond its end.
    fn is_copied(&self) -> bool {
        self.signed || self.is_padded() || !self.length.is_multiple_of(GROUP)
    }

    /// Bytes that [`Rows::copy`] needs.
    pub fn copied(&self) -> usize {
        let (height, width) = self.lines();
        if self.is_copied() { self.batches * height * width * self.channels + GROUP } else { 0 }
    }

    /// Copies the image, if that is necessary, with `zero` as the padding.
    pub fn copy<'a>(&self, image: &'a [u8], zero: u8, copy: &'a mut [u8]) -> &'a [u8] {
        if !self.is_copied() {
            return image;
        }
        let (height, width) = self.lines();
        let (line, to_line) = (self.columns.input * self.channels, width * self.channels);
        let sign = if self.signed { 128 } else { 0 };
        let (lines, rest) = copy.split_at_mut(self.batches * height * to_line);
        rest.fill(zero);
        for_each_piece(lines, to_line, to_line / 16, |first, lines| {
            for (number, to) in lines.chunks_exact_mut(to_line).enumerate() {
                let (batch, y) = ((first + number) / height, (first + number) % height);
                let Some(y) = y.checked_sub(self.rows.padding).filter(|&y| y < self.rows.input) else {
                    to.fill(zero);
                    continue;
                };
                let from = &image[(batch * self.rows.input + y) * line..][..line];
                let before = (self.columns.padding * self.channels).min(to.len());
                let count = from.len().min(to.len() - before);
                to[..before].fill(zero);
                to[before..before + count].iter_mut().zip(from).for_each(|(to, from)| *to = from ^ sign);
                to[before + count..].fill(zero);
            }
        });
        copy
    }

    /// Finds where the runs of some rows begin: for each run, for each row. [`Rows::padded_length`] bytes lie there.
    ///
    /// # Panics
    /// When the bytes are too few.
    pub fn starts(&self, bytes: &[u8], rows: Range<usize>, starts: &mut [*const u8]) {
        let (height, width) = self.lines();
        let count = rows.len();
        let most = self.offsets.last().expect("a window has elements") + self.padded_length();
        let (mut x, above) = (rows.start % self.columns.output, rows.start / self.columns.output);
        let (mut y, mut batch) = (above % self.rows.output, above / self.rows.output);
        for i in 0..count {
            let place = ((batch * height + y * self.rows.stride) * width + x * self.columns.stride) * self.channels;
            let start = bytes[place..][..most].as_ptr();
            for (run, offset) in self.offsets.iter().enumerate() {
                // SAFETY: inside of the bytes, since no offset is greater than the last one.
                starts[run * count + i] = unsafe { start.add(*offset) };
            }
            x += 1;
            if x == self.columns.output {
                (x, y) = (0, y + 1);
                if y == self.rows.output {
                    (y, batch) = (0, batch + 1);
                }
            }
        }
    }
}
