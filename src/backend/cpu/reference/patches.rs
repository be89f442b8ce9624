//! The parts of an image that a filter covers, as a matrix that is never whole in memory (*im2col*): a convolution is
//! its product with the filter.

use super::product::{Left, Right, copy_strided};
use crate::backend::window::Axis;

/// The patches of an image, or of several of the same size. In the padding elements are 0.
#[derive(Clone, Copy, Debug)]
pub struct Patches<'a> {
    /// From the first channel that the filter sees on.
    pub image: &'a [f32],
    /// From one element to the next along batches, channels, height and width.
    pub strides: [usize; 4],
    /// The number of channels that the filter sees.
    pub channels: usize,
    pub rows: Axis,
    pub columns: Axis,
}

/// A column for every position of the filter in the first image, with its elements ordered by channel, height and width.
impl Right for Patches<'_> {
    fn read_piece(&self, row: usize, column: usize, mut into: &mut [f32]) {
        let Patches { image, strides: [_, channel_stride, row_stride, column_stride], rows, columns, .. } = *self;
        let (row, tap_x) = (row / columns.window, row % columns.window);
        let (channel, tap_y) = (row / rows.window, row % rows.window);
        let inside = columns.positions(tap_x);
        let (mut y, mut x) = (column / columns.output, column % columns.output);
        while !into.is_empty() {
            let length = into.len().min(columns.output - x);
            let (piece, rest) = into.split_at_mut(length);
            let (start, end) = (inside.start.clamp(x, x + length), inside.end.clamp(x, x + length));
            match rows.element(y, tap_y) {
                Some(from_y) if start < end => {
                    let from_x = columns.element(start, tap_x).expect("the position is inside");
                    let from = channel * channel_stride + from_y * row_stride + from_x * column_stride;
                    piece[..start - x].fill(0.0);
                    copy_strided(&image[from..], columns.stride * column_stride, &mut piece[start - x..end - x]);
                    piece[end - x..].fill(0.0);
                }
                _ => piece.fill(0.0),
            }
            (into, y, x) = (rest, y + 1, 0);
        }
    }
}

/// A row for every position of the filter, image after image, with its elements ordered by height, width and channel.
impl Left for Patches<'_> {
    fn read_row(&self, row: usize, into: &mut [f32]) {
        let Patches { image, strides: [batch_stride, channel_stride, row_stride, column_stride], channels, rows, columns } =
            *self;
        let (position, x) = (row / columns.output, row % columns.output);
        let (batch, y) = (position / rows.output, position % rows.output);
        let inside = columns.taps(x);
        // Elements under neighbouring taps are neighbours, and all can be copied at once.
        let dense = channel_stride == 1 && column_stride == channels && columns.dilation == 1;
        for (tap_y, into) in into.chunks_exact_mut(columns.window * channels).enumerate() {
            let Some(from_y) = rows.element(y, tap_y).filter(|_| !inside.is_empty()) else {
                into.fill(0.0);
                continue;
            };
            into[..inside.start * channels].fill(0.0);
            into[inside.end * channels..].fill(0.0);
            let into = &mut into[inside.start * channels..inside.end * channels];
            let from_x = columns.element(x, inside.start).expect("the tap is inside");
            let from = &image[batch * batch_stride + from_y * row_stride + from_x * column_stride..];
            if dense {
                into.copy_from_slice(&from[..into.len()]);
            } else {
                for (tap, into) in into.chunks_exact_mut(channels).enumerate() {
                    copy_strided(&from[tap * columns.dilation * column_stride..], channel_stride, into);
                }
            }
        }
    }
}
