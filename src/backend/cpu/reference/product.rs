//! The product of two matrices in `f32`, which matmul, gemm and the convolutions share.
//!
//! A block of columns of the right matrix is packed into panels of [`COLUMNS`] columns, and [`ROWS`] rows of the left one
//! into a panel of their own; the innermost loop multiplies two panels and keeps all sums in registers. It is plain
//! loops over arrays of constant size, which the compiler turns into vector instructions.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::{for_each_piece, is_wanted};
use crate::looks::{self, Looking};
use std::ops::Range;

/// Rows of the left matrix that are multiplied together.
const ROWS: usize = 4;
/// Columns of the right matrix that are multiplied together.
const COLUMNS: usize = 8;
/// Products that are summed up one after the other; longer sums are made of such sums, which is more exact.
const DEPTH: usize = 256;
/// Elements of the right matrix that are packed at a time: they should stay in a core's cache.
const PACKED: usize = 1 << 18;
/// With fewer rows than this, packing the right matrix costs more than it gains.
const FEW_ROWS: usize = 12;

/// `rows` x `depth` times `depth` x `columns`.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
}

/// A matrix that can stand on the left.
pub trait Left: Sync {
    /// Copies a row.
    fn read_row(&self, row: usize, into: &mut [f32]);
}

/// A matrix that can stand on the right.
pub trait Right: Sync {
    /// Copies the elements of a row from that column on.
    fn read_piece(&self, row: usize, column: usize, into: &mut [f32]);

    /// The matrix as it lies in memory, if it does.
    fn in_memory(&self) -> Option<Strided<'_>> {
        None
    }
}

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    pub elements: &'a [f32],
    /// From one row to the next, and from one column to the next.
    pub strides: [usize; 2],
}

impl<'a> Strided<'a> {
    /// A matrix of so many columns, row after row.
    pub fn dense(elements: &'a [f32], columns: usize) -> Self {
        Strided { elements, strides: [columns, 1] }
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        let [row, column] = self.strides;
        Strided { strides: [column, row], ..self }
    }
}

impl Left for Strided<'_> {
    fn read_row(&self, row: usize, into: &mut [f32]) {
        self.read_piece(row, 0, into);
    }
}

impl Right for Strided<'_> {
    fn read_piece(&self, row: usize, column: usize, into: &mut [f32]) {
        let [row_stride, column_stride] = self.strides;
        copy_strided(&self.elements[row * row_stride + column * column_stride..], column_stride, into);
    }

    fn in_memory(&self) -> Option<Strided<'_>> {
        Some(*self)
    }
}

/// Copies every `stride`-th element, from the first on.
pub fn copy_strided(from: &[f32], stride: usize, into: &mut [f32]) {
    if stride == 1 {
        looks::copy(&from[..into.len()], into);
    } else {
        // A stride of 0 repeats the one element.
        let mut place = 0;
        into.iter_mut().looking_if_long(1).for_each(|element| {
            *element = from[place];
            place += stride;
        });
    }
}

/// Adds a product to the rows of `output`, which begin `row_stride` elements apart. Divided over threads.
pub fn add_product(size: Size, left: &impl Left, right: &impl Right, output: &mut [f32], row_stride: usize) {
    if size.rows < FEW_ROWS
        && let Some(matrix) = right.in_memory()
        && matrix.strides.contains(&1)
    {
        let mut row = scratch::zeroed(size.depth);
        for (i, output) in output.chunks_mut(row_stride).take(size.rows).enumerate() {
            left.read_row(i, &mut row);
            add_row_product(&row, matrix, &mut output[..size.columns]);
        }
        return;
    }
    let block = (PACKED / size.depth / COLUMNS).max(2) * COLUMNS;
    let mut packed = scratch::zeroed(size.depth * block.min(size.columns.next_multiple_of(COLUMNS)));
    for first in (0..size.columns).step_by(block) {
        let columns = first..size.columns.min(first + block);
        let packed = &mut packed[..size.depth * columns.len().next_multiple_of(COLUMNS)];
        pack(right, size.depth, columns.clone(), packed);
        let cost = ROWS * size.depth * columns.len() / 16;
        for_each_piece(output, ROWS * row_stride, cost, |first_panel, piece| {
            add_block(size, left, first_panel * ROWS, packed, columns.clone(), piece, row_stride);
        });
    }
}

/// Packs columns of the right matrix: a panel for every [`COLUMNS`] of them, in it row after row, filled up with zeros.
fn pack(right: &impl Right, depth: usize, columns: Range<usize>, packed: &mut [f32]) {
    // Pieces of rows are best read as long as they are; a matrix of contiguous columns, a few of them at a time.
    let by_columns = right.in_memory().is_some_and(|matrix| matrix.strides[1] != 1);
    let panel = depth * COLUMNS;
    for_each_piece(packed, panel, panel / 4, |first_panel, piece| {
        let together = if by_columns { panel } else { piece.len() };
        let mut row = scratch::zeroed(together / depth);
        for (i, piece) in piece.chunks_mut(together).enumerate() {
            let first = columns.start + first_panel * COLUMNS + i * row.len();
            let inside = row.len().min(columns.end - first);
            row[inside..].fill(0.0);
            for k in (0..depth).looking_if_long(inside) {
                right.read_piece(k, first, &mut row[..inside]);
                for (panel, from) in piece.chunks_exact_mut(panel).zip(row.chunks_exact(COLUMNS)) {
                    panel[k * COLUMNS..][..COLUMNS].copy_from_slice(from);
                }
            }
        }
    });
}

/// Adds the product of the left matrix from `first_row` on with packed columns to the rows that `output` begins with.
fn add_block(
    size: Size,
    left: &impl Left,
    first_row: usize,
    packed: &[f32],
    columns: Range<usize>,
    output: &mut [f32],
    row_stride: usize,
) {
    let mut row = scratch::zeroed(size.depth);
    let mut panel = scratch::zeroed(size.depth * ROWS);
    for (i, output) in output.chunks_mut(ROWS * row_stride).enumerate() {
        if !is_wanted() {
            return;
        }
        let first_row = first_row + i * ROWS;
        let rows = ROWS.min(size.rows.saturating_sub(first_row));
        panel.fill(0.0);
        for r in 0..rows {
            left.read_row(first_row + r, &mut row);
            panel.chunks_exact_mut(ROWS).zip(&row).looking_if_long(1).for_each(|(group, &element)| {
                group[r] = element;
            });
        }
        for (j, right) in packed.chunks_exact(size.depth * COLUMNS).enumerate() {
            let sums = multiply_panels(&panel, right);
            let column = columns.start + j * COLUMNS;
            let width = COLUMNS.min(columns.end - column);
            for (output, sums) in output.chunks_mut(row_stride).take(rows).zip(&sums) {
                let output = &mut output[column..column + width];
                output.iter_mut().zip(sums).for_each(|(output, sum)| *output += sum);
            }
        }
    }
}

/// The product of two panels.
#[inline]
fn multiply_panels(left: &[f32], right: &[f32]) -> [[f32; COLUMNS]; ROWS] {
    let mut total = [[0.0; COLUMNS]; ROWS];
    for (left, right) in left.chunks(DEPTH * ROWS).zip(right.chunks(DEPTH * COLUMNS)).looking_if_long(DEPTH * ROWS) {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        for (left, right) in left.as_chunks::<ROWS>().0.iter().zip(right.as_chunks::<COLUMNS>().0) {
            for i in 0..ROWS {
                for j in 0..COLUMNS {
                    sums[i][j] += left[i] * right[j];
                }
            }
        }
        for i in 0..ROWS {
            for j in 0..COLUMNS {
                total[i][j] += sums[i][j];
            }
        }
    }
    total
}

/// Adds the product of one row with a matrix that has contiguous rows or columns to `output`.
fn add_row_product(row: &[f32], right: Strided<'_>, output: &mut [f32]) {
    let [row_stride, column_stride] = right.strides;
    for_each_piece(output, 1, row.len() / 4, |first, piece| {
        if column_stride == 1 {
            add_multiples(row, &right.elements[first..], row_stride, piece);
        } else {
            for (j, output) in piece.iter_mut().enumerate() {
                *output += dot(row, &right.elements[(first + j) * column_stride..][..row.len()]);
            }
        }
    });
}

/// Adds to `output` the rows that begin `stride` elements apart, each times a factor.
fn add_multiples(factors: &[f32], rows: &[f32], stride: usize, output: &mut [f32]) {
    const WIDTH: usize = 512;
    for (block, output) in output.chunks_mut(WIDTH).enumerate() {
        for (chunk, factors) in factors.chunks(DEPTH).enumerate().looking_if_long(DEPTH * output.len() / 4) {
            let mut sums = [0.0; WIDTH];
            let sums = &mut sums[..output.len()];
            let row = |k: usize| &rows[(chunk * DEPTH + k) * stride + block * WIDTH..][..output.len()];
            let (fours, rest) = factors.as_chunks::<4>();
            for (k, f) in fours.iter().enumerate() {
                let [a, b, c, d] = [row(4 * k), row(4 * k + 1), row(4 * k + 2), row(4 * k + 3)];
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum += (f[0] * a[j] + f[1] * b[j]) + (f[2] * c[j] + f[3] * d[j]);
                }
            }
            for (k, &factor) in rest.iter().enumerate() {
                sums.iter_mut().zip(row(4 * fours.len() + k)).for_each(|(sum, element)| *sum += factor * element);
            }
            output.iter_mut().zip(sums).for_each(|(output, sum)| *output += *sum);
        }
    }
}

/// The sum of the products of two lists.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let ((a_lanes, a_rest), (b_lanes, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for part in looks::parts(a_lanes.len()) {
        for (a, b) in a_lanes[part.clone()].iter().zip(&b_lanes[part]) {
            for i in 0..LANES {
                sums[i] += a[i] * b[i];
            }
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that every sum is exact.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7 + seed) * 31 % 11) as f32 - 5.0).collect()
    }

    #[test]
    fn products_of_every_shape() {
        let sizes = [1, 2, 3, 4, 5, 8, 9, 17, 300];
        for (rows, depth, columns) in sizes.iter().flat_map(|&m| sizes.iter().flat_map(move |&k| sizes.map(|n| (m, k, n)))) {
            if rows * depth * columns > 200_000 {
                continue;
            }
            let size = Size { rows, depth, columns };
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            let b_transposed: Vec<f32> = (0..columns * depth).map(|i| b[i % depth * columns + i / depth]).collect();
            let row_stride = columns + 3;
            let expected: Vec<f32> = (0..rows * row_stride)
                .map(|i| {
                    let (row, column) = (i / row_stride, i % row_stride);
                    let product = |k: usize| a[row * depth + k] * b[k * columns + column];
                    if column < columns { 1.0 + (0..depth).map(product).sum::<f32>() } else { 1.0 }
                })
                .collect();
            for right in [Strided::dense(&b, columns), Strided::dense(&b_transposed, depth).transposed()] {
                // The last row may end with its last column.
                for length in [rows * row_stride, (rows - 1) * row_stride + columns] {
                    let mut output = vec![1.0; length];
                    add_product(size, &Strided::dense(&a, depth), &right, &mut output, row_stride);
                    assert_eq!(output, expected[..length], "{size:?}");
                }
            }
        }
    }
}
