//! The product of two packed matrices, which matmul, gemm and the convolutions share.
//!
//! Both operands are packed into panels that the tile reads from front to back: the left one into panels of
//! [`Isa::rows`] rows, the right one into panels of [`Isa::columns`] columns. A constant is packed once, at build time. The
//! output is divided into blocks; a block runs over the depth in pieces, so that a left panel's piece stays in the
//! first-level cache and a right panel's and a block's left ones in the second.
#![allow(unsafe_code)]

use super::isa::{Isa, MOST_COLUMNS, MOST_ROWS, Plus};
use super::packing::pack_panel;
#[cfg(test)]
use super::packing::pack_rows;
use crate::memory::Bytes;
use std::ops::Range;

/// The greatest depth of a piece: so much of a right panel stays in the second-level cache beside a block's left panels.
const DEPTH: usize = 768;

/// The depth of the pieces, which are of about the same size.
fn piece_of(depth: usize) -> usize {
    depth.div_ceil(depth.div_ceil(DEPTH).max(1)).next_multiple_of(8)
}

/// The left operand in panels of rows; the last panel has as many rows as are left.
#[cfg(test)]
#[derive(Debug)]
pub struct Left {
    pub rows: usize,
    pub depth: usize,
    panels: Vec<f32>,
}

#[cfg(test)]
impl Left {
    /// Packs a matrix whose element (row, k) is `element(row, k)`.
    pub fn pack(isa: &Isa, rows: usize, depth: usize, elements: &[f32], strides: [usize; 2]) -> Left {
        let mut panels = vec![0.0; rows * depth];
        pack_rows(isa, 0..rows, depth, elements, strides, &mut panels);
        Left { rows, depth, panels }
    }

    pub fn view(&self) -> LeftView<'_> {
        LeftView { rows: self.rows, depth: self.depth, panels: &self.panels }
    }
}

/// A packed left operand in somebody's memory.
#[derive(Clone, Copy, Debug)]
pub struct LeftView<'a> {
    pub rows: usize,
    pub depth: usize,
    pub panels: &'a [f32],
}

/// The right operand in panels of columns; the last panel is filled up with zeros.
#[derive(Debug)]
pub struct Right {
    pub columns: usize,
    panels: Bytes,
}

/// Zeros for panels.
///
/// # Panics
/// When the memory cannot be had, which becomes an error of the build.
fn panels(depth: usize, columns: usize) -> Bytes {
    let length = depth.checked_mul(columns).and_then(|count| count.checked_mul(size_of::<f32>()));
    Bytes::beside_others(length.expect("panels fit into the address space")).unwrap_or_else(|error| panic!("{error}"))
}

impl Right {
    /// Packs a matrix with these strides of rows and columns.
    pub fn pack(isa: &Isa, depth: usize, columns: usize, elements: &[f32], strides: [usize; 2]) -> Right {
        let mut panels = panels(depth, columns.next_multiple_of(isa.columns));
        let elements_of_panels: &mut [f32] = bytemuck::cast_slice_mut(&mut panels);
        for (number, panel) in elements_of_panels.chunks_mut(depth * isa.columns).enumerate() {
            let first = number * isa.columns;
            pack_panel(isa, first..columns.min(first + isa.columns), depth, elements, strides, panel);
        }
        Right { columns, panels }
    }

    /// Packs a matrix whose element (k, column) is `element(k, column)`.
    pub fn pack_with(isa: &Isa, depth: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Right {
        let mut panels = panels(depth, columns.next_multiple_of(isa.columns));
        let elements_of_panels: &mut [f32] = bytemuck::cast_slice_mut(&mut panels);
        for (number, panel) in elements_of_panels.chunks_mut(depth * isa.columns).enumerate() {
            let first = number * isa.columns;
            for (k, row) in panel.chunks_exact_mut(isa.columns).enumerate() {
                let count = isa.columns.min(columns - first);
                row[..count].iter_mut().enumerate().for_each(|(j, number)| *number = element(k, first + j));
            }
        }
        Right { columns, panels }
    }

    pub fn bytes(&self) -> usize {
        self.panels.len()
    }

    pub fn view(&self) -> RightView<'_> {
        RightView { columns: self.columns, panels: bytemuck::cast_slice(&self.panels) }
    }
}

/// A packed right operand in somebody's memory.
#[derive(Clone, Copy, Debug)]
pub struct RightView<'a> {
    pub columns: usize,
    pub panels: &'a [f32],
}

/// A part of an output that one thread writes: rows of some columns, at a distance.
pub struct Block<'a> {
    /// Of the whole output.
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    output: Output<'a>,
}

/// A matrix that several threads write, each its own blocks.
#[derive(Clone, Copy)]
pub struct Output<'a> {
    start: *mut f32,
    length: usize,
    stride: usize,
    _elements: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: blocks are given out by `block`, whose caller promises that they do not overlap.
unsafe impl Send for Output<'_> {}
// SAFETY: as above.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    /// A matrix whose rows are `stride` elements apart.
    pub fn new(elements: &'a mut [f32], stride: usize) -> Self {
        Output { start: elements.as_mut_ptr(), length: elements.len(), stride, _elements: std::marker::PhantomData }
    }

    /// A part of it.
    ///
    /// # Safety
    /// No two blocks that live at the same time may overlap.
    pub unsafe fn block(self, rows: Range<usize>, columns: Range<usize>) -> Block<'a> {
        assert!(columns.end <= self.stride && (rows.is_empty() || (rows.end - 1) * self.stride + columns.end <= self.length));
        Block { rows, columns, output: self }
    }
}

impl<'a> Output<'a> {
    /// The matrix that begins at a later element.
    ///
    /// # Safety
    /// As for [`Output::block`], blocks of different matrices included.
    pub unsafe fn from(self, first: usize) -> Output<'a> {
        assert!(first <= self.length);
        // SAFETY: inside of the matrix.
        Output { start: unsafe { self.start.add(first) }, length: self.length - first, ..self }
    }

    /// A part of a matrix of one row.
    ///
    /// # Safety
    /// Nobody may write it while it is read.
    pub unsafe fn read(self, elements: Range<usize>) -> &'a [f32] {
        assert!(elements.start <= elements.end && elements.end <= self.length);
        // SAFETY: inside of the matrix, and nobody writes it, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start.add(elements.start), elements.len()) }
    }
}

impl Block<'_> {
    /// A piece of a row, by numbers of the whole output.
    pub fn row(&mut self, row: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(self.rows.contains(&row) && self.columns.start <= columns.start && columns.end <= self.columns.end);
        // SAFETY: inside the block, which is inside the output and nobody else's, by the promise at `Output::block`.
        unsafe { std::slice::from_raw_parts_mut(self.output.start.add(row * self.output.stride + columns.start), columns.len()) }
    }

    /// Where a tile of the block begins.
    fn tile(&mut self, row: usize, height: usize, columns: Range<usize>) -> *mut f32 {
        assert!(self.rows.start <= row && row + height <= self.rows.end);
        self.row(row, columns).as_mut_ptr()
    }
}

/// What is done to a finished tile of a block.
pub trait Finish: Sync {
    /// Brings what will be needed for these rows and columns into the cache, while they are computed.
    fn expect(&self, rows: Range<usize>, columns: Range<usize>);

    fn finish(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>);
}

/// Multiplies into a block of the output, and adds a row (by columns of the whole output) to all rows. The right operand's
/// panels begin at the block's first column.
pub fn multiply(
    isa: &Isa,
    left: LeftView<'_>,
    right: RightView<'_>,
    block: &mut Block<'_>,
    bias: Option<&[f32]>,
    finish: Option<&dyn Finish>,
) {
    let depth = left.depth;
    let (rows, columns) = (block.rows.clone(), block.columns.clone());
    assert!(rows.start % isa.rows == 0 && (rows.end % isa.rows == 0 || rows.end == left.rows));
    assert!(columns.len() <= right.columns);
    let mut edge = [0f32; MOST_ROWS * MOST_COLUMNS];
    let most = piece_of(depth);
    for first_k in (0..depth).step_by(most.max(1)) {
        let piece = most.min(depth - first_k);
        let add = first_k > 0;
        for (number, first_column) in columns.clone().step_by(isa.columns).enumerate() {
            let width = isa.columns.min(columns.end - first_column);
            let b = &right.panels[(number * depth + first_k) * isa.columns..][..piece * isa.columns];
            // The panel after this one, of which each tile brings a part closer. Beyond the last comes the first of the next
            // piece, and in the end whatever lies behind: often what the next product multiplies with.
            let next = match first_column + isa.columns < columns.end {
                true => ((number + 1) * depth + first_k) * isa.columns,
                false => (first_k + piece) * isa.columns,
            };
            let ahead = isa.columns.div_ceil(rows.len().div_ceil(isa.rows));
            for first_row in rows.clone().step_by(isa.rows) {
                let height = isa.rows.min(rows.end - first_row);
                let tile = (first_row - rows.start) / isa.rows;
                let next = Some((right.panels.as_ptr().wrapping_add(next + tile * ahead * piece), ahead));
                let a = &left.panels[first_row * depth + first_k * height..][..piece * height];
                let place = first_column..first_column + width;
                let finish = finish.filter(|_| first_k + piece == depth);
                if let Some(finish) = finish {
                    finish.expect(first_row..first_row + height, place.clone());
                }
                let plus = match bias {
                    _ if add => Plus::Itself,
                    Some(bias) => Plus::Row(&bias[place.clone()]),
                    None => Plus::Nothing,
                };
                if width == isa.columns {
                    let c = block.tile(first_row, height, place.clone());
                    // SAFETY: the tile lies in the block (asserted in `Block::tile`), and the block is ours.
                    unsafe { isa.tile(height, piece, a, b, c, block.output.stride, plus, next) };
                } else {
                    // SAFETY: `edge` has room for the largest tile of any instruction set.
                    unsafe { isa.tile(height, piece, a, b, edge.as_mut_ptr(), isa.columns, Plus::Nothing, next) };
                    for r in 0..height {
                        let c = block.row(first_row + r, place.clone());
                        let sums = &edge[r * isa.columns..];
                        match plus {
                            Plus::Nothing => c.copy_from_slice(&sums[..width]),
                            Plus::Itself => c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum),
                            Plus::Row(row) => c.iter_mut().zip(row).zip(sums).for_each(|((c, plus), sum)| *c = plus + sum),
                        }
                    }
                }
                if let Some(finish) = finish {
                    finish.finish(block, first_row..first_row + height, place);
                }
            }
        }
    }
}

/// How an output is divided into blocks: rows and columns of a block, multiples of the tile's.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    rows: usize,
    columns: usize,
    block_rows: usize,
    block_columns: usize,
}

/// Rows of a block, at most: so many left panels of a piece's depth take half of a second-level cache.
const BLOCK_ROWS: usize = 168;

impl Grid {
    /// Blocks for so many threads: several for each, so that one that is late does not hold up the others.
    pub fn new(isa: &Isa, rows: usize, columns: usize, threads: usize) -> Grid {
        // Of about the same size.
        let block_rows = rows.div_ceil(rows.div_ceil(BLOCK_ROWS).max(1)).next_multiple_of(isa.rows);
        let wanted = if threads == 1 { 1 } else { threads * 4 };
        let across = wanted.div_ceil(rows.div_ceil(block_rows));
        let block_columns = columns.div_ceil(across).next_multiple_of(isa.columns).max(2 * isa.columns);
        let down = wanted.div_ceil(columns.div_ceil(block_columns));
        let block_rows = rows.div_ceil(down).next_multiple_of(isa.rows).min(block_rows);
        Grid { rows, columns, block_rows, block_columns }
    }

    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.block_rows) * self.columns.div_ceil(self.block_columns)
    }

    /// Rows and columns of a block. Blocks of the same columns follow each other.
    pub fn block(&self, number: usize) -> (Range<usize>, Range<usize>) {
        let down = self.rows.div_ceil(self.block_rows);
        let (first_row, first_column) = (number % down * self.block_rows, number / down * self.block_columns);
        (first_row..self.rows.min(first_row + self.block_rows), first_column..self.columns.min(first_column + self.block_columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::isa::available;
    use crate::backend::cpu::kernels::tests::numbers;

    /// Adds the number of the row.
    struct PlusRow;

    impl Finish for PlusRow {
        fn expect(&self, _: Range<usize>, _: Range<usize>) {}

        fn finish(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>) {
            for row in rows {
                block.row(row, columns.clone()).iter_mut().for_each(|c| *c += row as f32);
            }
        }
    }

    #[test]
    fn every_instruction_set_multiplies_every_size() {
        let sizes =
            [(1, 1, 1), (1, 300, 33), (2, 7, 64), (11, 256, 31), (12, 257, 32), (13, 512, 100), (25, 3, 65), (250, 20, 40)];
        for isa in available() {
            for (rows, depth, columns) in sizes {
                let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
                let left = Left::pack(isa, rows, depth, &a, [depth, 1]);
                let right = Right::pack(isa, depth, columns, &b, [columns, 1]);
                let bias = numbers(columns, 3);
                for threads in [1, 3] {
                    let mut c = vec![f32::NAN; rows * columns];
                    let output = Output::new(&mut c, columns);
                    let grid = Grid::new(isa, rows, columns, threads);
                    for number in 0..grid.count() {
                        let (block_rows, block_columns) = grid.block(number);
                        let first_panel = block_columns.start / isa.columns * depth * isa.columns;
                        let part = RightView { columns: block_columns.len(), panels: &right.view().panels[first_panel..] };
                        // SAFETY: the blocks of a grid do not overlap.
                        let mut block = unsafe { output.block(block_rows, block_columns) };
                        multiply(isa, left.view(), part, &mut block, Some(&bias), Some(&PlusRow));
                    }
                    for (i, c) in c.iter().enumerate() {
                        let (row, column) = (i / columns, i % columns);
                        let sum: f64 = (0..depth).map(|k| a[row * depth + k] as f64 * b[k * columns + column] as f64).sum();
                        let difference = (*c as f64 - sum - row as f64 - bias[column] as f64).abs();
                        assert!(difference < 1e-4, "{} {rows}x{depth}x{columns} at {row}, {column}: {c}", isa.name);
                    }
                }
            }
        }
    }
}
