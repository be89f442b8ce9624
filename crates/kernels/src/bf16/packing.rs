//! Copies of matrices as pairs, in the order in which tiles read them.

use super::rounding::{RoundRows, pair, pairs};
use crate::gemm::microkernels::{MOST_COLUMNS, Microkernels};
use crate::gemm::packing::interleave;
use crate::isa::Loop;
use std::ops::Range;

/// Pairs of a column that are transposed at a time.
const TRANSPOSED_PAIRS: usize = 64;

/// As [`pack_panel`](crate::gemm::packing::pack_panel), but of pairs, for a panel of `width`.
///
/// # Panics
/// When the matrix or the panel is too short.
pub fn pack_panel(
    gemm: &Microkernels,
    width: usize,
    columns: Range<usize>,
    depth: usize,
    elements: &[f32],
    strides: [usize; 2],
    panel: &mut [f32],
) {
    let (count, steps) = (columns.len(), pairs(depth));
    let panel = &mut panel[..steps * width];
    assert!(count <= width && width <= MOST_COLUMNS);
    if count == 0 || depth == 0 {
        return;
    }
    let elements = &elements[columns.start * strides[1]..];
    if strides[0] != 1 || strides[1] == 1 {
        return gemm.isa.run_loop(Rows { count, width, depth, elements, strides, panel });
    }
    let mut transposed = [0f32; MOST_COLUMNS * TRANSPOSED_PAIRS];
    for first in (0..steps).step_by(TRANSPOSED_PAIRS) {
        let some = TRANSPOSED_PAIRS.min(steps - first);
        let (numbers, depth) = (&elements[2 * first..], (2 * some).min(depth - 2 * first));
        RoundRows {
            rows: count,
            depth,
            numbers,
            strides: [strides[1], 1],
            pairs: &mut transposed,
            pairs_stride: TRANSPOSED_PAIRS,
        }
        .compute(gemm);
        let to = &mut panel[first * width..][..some * width];
        interleave(&transposed, TRANSPOSED_PAIRS, count, some, to, width);
        if count < width {
            to.chunks_exact_mut(width).for_each(|row| row[count..].fill(0.0));
        }
    }
}

/// Of a matrix whose columns do not lie together.
struct Rows<'a> {
    count: usize,
    width: usize,
    depth: usize,
    elements: &'a [f32],
    strides: [usize; 2],
    panel: &'a mut [f32],
}

impl Loop for Rows<'_> {
    #[inline(always)]
    fn run(self) {
        let Rows { count, width, depth, elements, strides: [step, column], panel } = self;
        let none = [0f32; MOST_COLUMNS];
        for (p, row) in panel.chunks_exact_mut(width).enumerate() {
            let (to, rest) = row.split_at_mut(count);
            rest.fill(0.0);
            let first = &elements[2 * p * step..];
            let has_second = 2 * p + 1 < depth;
            if column == 1 {
                let second = if has_second { &elements[(2 * p + 1) * step..][..count] } else { &none[..count] };
                for ((to, &first), &second) in to.iter_mut().zip(&first[..count]).zip(second) {
                    *to = pair(first, second);
                }
            } else {
                for (j, to) in to.iter_mut().enumerate() {
                    let second = if has_second { elements[(2 * p + 1) * step + j * column] } else { 0.0 };
                    *to = pair(first[j * column], second);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16::available;
    use crate::testing::numbers;

    #[test]
    fn panels_are_pairs_of_rows() {
        for gemm in available() {
            for (depth, columns, strides) in
                [(1, 3, [9, 1]), (7, 64, [64, 1]), (300, 20, [1, 301]), (301, 64, [1, 301]), (16, 5, [50, 3])]
            {
                let elements = numbers(40_000, 3);
                let first = 2;
                let count = columns.min(gemm.columns);
                let mut panel = vec![f32::NAN; pairs(depth) * gemm.columns];
                pack_panel(gemm, gemm.columns, first..first + count, depth, &elements, strides, &mut panel);
                for (i, found) in panel.iter().enumerate() {
                    let (p, j) = (i / gemm.columns, i % gemm.columns);
                    let at = |k: usize| match k < depth && j < count {
                        true => elements[k * strides[0] + (first + j) * strides[1]],
                        false => 0.0,
                    };
                    let expected = pair(at(2 * p), at(2 * p + 1));
                    assert_eq!(found.to_bits(), expected.to_bits(), "{} {depth}x{columns} {strides:?} at {p}, {j}", gemm.name);
                }
            }
        }
    }
}
