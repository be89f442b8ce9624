//! The windows of a convolution as the rows of a matrix of pairs of bfloat16, for tiles that only products have.
#![allow(unsafe_code)]

use super::sizes::Sizes;
use super::{ConvDesc, with_starts};
use crate::backend::cpu::kernels::product::{Left, rows_with_stride};
use crate::backend::cpu::kernels::{AlignedBuffer, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use std::ops::Range;
use webnn_kernels::bf16::gather::GatherRows;
use webnn_kernels::bf16::rounding::RoundRows;
use webnn_kernels::gemm::microkernels::Microkernels;

/// A row for each pixel of the output: the runs of the image under its window, each of whole pairs.
#[derive(Debug)]
pub struct Windows {
    /// Of pairs.
    sizes: Sizes,
    /// Channels of the image.
    channels: usize,
    /// See [`Sizes::over`].
    over: Vec<Range<usize>>,
    /// What stands for runs in the padding.
    zeros: AlignedBuffer,
}

impl Windows {
    pub fn of(desc: &ConvDesc<'_>) -> Windows {
        let zeros = AlignedBuffer::zeros(desc.sizes.length());
        Windows { sizes: desc.sizes, channels: desc.channels, over: desc.sizes.over(), zeros }
    }

    /// Numbers of a row.
    pub fn depth(&self) -> usize {
        2 * self.sizes.runs() * self.sizes.length()
    }

    /// Whether the image may lie in memory as pairs: whether those of a pixel are whole.
    pub fn are_of_pairs(&self) -> bool {
        self.channels.is_multiple_of(2)
    }

    /// Calls `body` with an image of float32 as pairs, whose pixels have a pair more than half of their channels where these are odd.
    pub fn rounded(&self, gemm: &'static Microkernels, image: &[f32], body: impl FnOnce(&[f32])) {
        round_image(&self.sizes, gemm, image, body);
    }

    /// Calls `body` with the rows of some pixels of the output, of an image of pairs. All threads copy them together.
    pub fn with_left<R>(
        &self,
        gemm: &'static Microkernels,
        pixels: Range<usize>,
        image: &[f32],
        body: impl FnOnce(Left<'_>) -> R,
    ) -> R {
        let (steps, rows) = (gemm.steps(self.depth()), pixels.len());
        let stride = rows_with_stride(gemm, steps);
        let (runs, length) = (self.sizes.runs(), self.sizes.length());
        with_scratch(gemm.rows_in_memory(rows) * stride, |scratch| {
            let (copies, _) = scratch.split_at_mut(rows * stride);
            let unit = gemm.rows * stride;
            for_each_piece(copies, unit, unit / 16, |first, piece| {
                with_starts(runs * gemm.rows, |starts| {
                    for (number, to) in piece.chunks_mut(unit).enumerate() {
                        let first = pixels.start + (first + number) * gemm.rows;
                        let rows = to.len() / stride;
                        let starts = &mut starts[..runs * rows];
                        let padding = (self.over.as_slice(), self.zeros.as_slice());
                        self.sizes.starts(image, &(0..1), first..first + rows, padding, starts);
                        // SAFETY: runs of `length` pairs lie in the image, or in the zeros (`Sizes::starts`), which are borrowed meanwhile.
                        unsafe { GatherRows { rows, length, starts, pairs: to, stride }.compute(gemm.isa) };
                    }
                });
            });
            body(Left::in_place(rows, steps, (&*scratch).into(), stride))
        })
    }

    pub fn bytes(&self) -> usize {
        self.over.capacity() * size_of::<Range<usize>>()
    }
}

/// Calls `body` with an image as pairs. The sizes are of these.
pub fn round_image(sizes: &Sizes, gemm: &'static Microkernels, image: &[f32], body: impl FnOnce(&[f32])) {
    let Sizes { batches, all_channels: pairs, rows, columns, .. } = *sizes;
    let pixels = batches * rows.input * columns.input;
    let depth = image.len() / pixels;
    with_scratch(pixels * pairs, |scratch| {
        for_each_piece(scratch, pairs, pairs / 4, |first, piece| {
            let count = piece.len() / pairs;
            let numbers = &image[first * depth..][..count * depth];
            let work = if depth.is_multiple_of(2) {
                // One row is quicker than one for each pixel.
                let (depth, pairs_stride) = (count * depth, piece.len());
                RoundRows { rows: 1, depth, numbers, strides: [depth, 1], pairs: piece, pairs_stride }
            } else {
                RoundRows { rows: count, depth, numbers, strides: [depth, 1], pairs: piece, pairs_stride: pairs }
            };
            work.compute(gemm);
        });
        body(scratch);
    });
}
