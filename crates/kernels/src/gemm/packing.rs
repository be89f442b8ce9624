//! Copies of matrices into the order in which tiles read them.
#![allow(unsafe_code)]

use crate::gemm::microkernels::Microkernels;
use crate::pauses::Pauses;
use std::ops::Range;

/// Packs rows of a matrix with these strides of rows and columns into as many elements: panels of [`Microkernels::rows`] rows, in
/// which the elements of a column follow each other. Pauses within long panels.
pub fn pack_rows(
    gemm: &Microkernels,
    rows: Range<usize>,
    depth: usize,
    elements: &[f32],
    strides: [usize; 2],
    (panels, pauses): (&mut [f32], Pauses),
) {
    for first in rows.clone().step_by(gemm.rows) {
        let height = gemm.rows.min(rows.end - first);
        let panel = &mut panels[(first - rows.start) * depth..][..height * depth];
        for part in pauses.whole_parts(depth, COLUMNS, height) {
            let elements = &elements[first * strides[0] + part.start * strides[1]..];
            pack_rows_of_panel(height, part.len(), elements, strides, &mut panel[part.start * height..part.end * height]);
        }
    }
}

/// Packs some columns of the rows of a panel.
fn pack_rows_of_panel(height: usize, depth: usize, elements: &[f32], strides: [usize; 2], panel: &mut [f32]) {
    if strides[1] == 1 {
        return interleave(elements, strides[0], height, depth, panel, height);
    }
    for (k, column) in panel.chunks_exact_mut(height).enumerate() {
        let from = &elements[k * strides[1]..];
        for (r, element) in column.iter_mut().enumerate() {
            *element = from[r * strides[0]];
        }
    }
}

/// Packs some columns of a matrix with these strides of rows and columns, into a panel of `width`, and fills it up with
/// zeros.
pub fn pack_panel(width: usize, columns: Range<usize>, depth: usize, elements: &[f32], strides: [usize; 2], panel: &mut [f32]) {
    let count = columns.len();
    let panel = &mut panel[..depth * width];
    if strides[0] == 1 && strides[1] != 1 {
        interleave(&elements[columns.start * strides[1]..], strides[1], count, depth, panel, width);
        if count < width {
            panel.chunks_exact_mut(width).for_each(|row| row[count..].fill(0.0));
        }
        return;
    }
    for (k, row) in panel.chunks_exact_mut(width).enumerate() {
        let from = &elements[k * strides[0] + columns.start * strides[1]..];
        if strides[1] == 1 {
            copy_row(&from[..count], &mut row[..count]);
        } else {
            for (j, element) in row[..count].iter_mut().enumerate() {
                *element = from[j * strides[1]];
            }
        }
        row[count..].fill(0.0);
    }
}

/// Copies as many elements as both have. A constant length is a few moves, another one a call.
#[inline(always)]
pub fn copy_row(from: &[f32], to: &mut [f32]) {
    match (from.len(), to.len()) {
        (32, 32) => to[..32].copy_from_slice(&from[..32]),
        (16, 16) => to[..16].copy_from_slice(&from[..16]),
        (8, 8) => to[..8].copy_from_slice(&from[..8]),
        _ => to.copy_from_slice(from),
    }
}

/// Columns of four cache lines, so that few lines are in use at a time.
const COLUMNS: usize = 64;

/// A transposition: element k of row r becomes element r of row k. Rows are contiguous; both matrices have distances of
/// rows.
///
/// # Panics
/// When a matrix is too short.
pub fn interleave(from: &[f32], from_stride: usize, rows: usize, depth: usize, to: &mut [f32], to_stride: usize) {
    if rows == 0 || depth == 0 {
        return;
    }
    assert!(rows <= to_stride && (rows - 1) * from_stride + depth <= from.len() && (depth - 1) * to_stride + rows <= to.len());
    let whole = rows / SIDE * SIDE;
    for first in (0..depth).step_by(COLUMNS) {
        let columns = first..depth.min(first + COLUMNS);
        for r in (0..whole).step_by(SIDE) {
            let mut k = columns.start;
            while k + SIDE <= columns.end {
                // SAFETY: rows r to r + 3 and columns k to k + 3 are inside of both matrices, by the assertion above.
                unsafe {
                    let from = from.as_ptr().add(r * from_stride + k);
                    transpose_square(from, from_stride, to.as_mut_ptr().add(k * to_stride + r), to_stride);
                }
                k += SIDE;
            }
            for k in k..columns.end {
                for r in r..r + SIDE {
                    to[k * to_stride + r] = from[r * from_stride + k];
                }
            }
        }
        for r in whole..rows {
            for k in columns.clone() {
                to[k * to_stride + r] = from[r * from_stride + k];
            }
        }
    }
}

/// The side of the squares that are transposed in registers.
const SIDE: usize = 4;

/// Transposes a square of 4 × 4 elements.
///
/// # Safety
/// Both must have four rows of four elements, at these distances.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_square(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    use std::arch::x86_64::{_mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps};
    // SAFETY: the caller's promise; every CPU of the architecture has these instructions.
    unsafe {
        let row = |r: usize| _mm_loadu_ps(from.add(r * from_stride));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (low_ab, low_cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        let (high_ab, high_cd) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(low_ab, low_cd));
        _mm_storeu_ps(to.add(to_stride), _mm_movehl_ps(low_cd, low_ab));
        _mm_storeu_ps(to.add(2 * to_stride), _mm_movelh_ps(high_ab, high_cd));
        _mm_storeu_ps(to.add(3 * to_stride), _mm_movehl_ps(high_cd, high_ab));
    }
}

/// Transposes a square of 4 × 4 elements.
///
/// # Safety
/// Both must have four rows of four elements, at these distances.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn transpose_square(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    use crate::simd::neon::Neon;
    use crate::simd::vector::Vector;
    use crate::simd::vector_bundle::VectorBundle;
    // SAFETY: the caller's promise.
    unsafe {
        let lines = std::array::from_fn(|r| if r < SIDE { Neon::load(from.add(r * from_stride)) } else { Neon::splat(0.0) });
        let transposed = Neon::transpose(lines);
        (0..SIDE).for_each(|k| transposed[k].store(to.add(k * to_stride)));
    }
}

/// Transposes a square of 4 × 4 elements.
///
/// # Safety
/// Both must have four rows of four elements, at these distances.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
unsafe fn transpose_square(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
    for r in 0..SIDE {
        for k in 0..SIDE {
            // SAFETY: the caller's promise.
            unsafe { *to.add(k * to_stride + r) = *from.add(r * from_stride + k) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        for (rows, depth) in [(1, 1), (3, 5), (4, 4), (6, 130), (12, 64), (13, 67), (32, 9)] {
            let (from_stride, to_stride) = (depth + 3, rows + 2);
            let from: Vec<f32> = (0..rows * from_stride).map(|i| i as f32).collect();
            let mut to = vec![-1.0; depth * to_stride];
            interleave(&from, from_stride, rows, depth, &mut to, to_stride);
            for (i, &found) in to.iter().enumerate() {
                let (k, r) = (i / to_stride, i % to_stride);
                let expected = if r < rows { (r * from_stride + k) as f32 } else { -1.0 };
                assert_eq!(found, expected, "{rows} x {depth}, element {r} of row {k}");
            }
        }
    }

    #[test]
    #[should_panic]
    fn what_is_too_short_is_not_read() {
        interleave(&[0.0; 11], 4, 3, 4, &mut [0.0; 16], 4);
    }
}
