//! How the output of a product is divided into blocks.

use super::piece_of;
use std::ops::Range;
use webnn_kernels::caches::CacheClass;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::gemm::row_times_panels::MOST_PANELS;

/// Bytes of a right operand that stays in a core's second-level cache: where it does, a thread's blocks, which follow each other,
/// are of some rows, which it often has there, or leaves there for what comes next. Else they are of some columns, so that it
/// reads no more than its part of the right operand.
const KEPT: usize = 512 << 10;

/// A core with a [large](CacheClass::LargeSecond) second-level cache reads slowly what another one has written. With so many rows for each thread each
/// has its own of a larger right operand too, from one product to the next: to multiply them with a panel takes as long as the
/// next panel takes from memory.
const MANY_ROWS: usize = 48;

/// How an output is divided: into parts of some rows, and these into blocks of rows and columns, multiples of the tile's.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    rows: usize,
    columns: usize,
    part_rows: usize,
    block_rows: usize,
    block_columns: usize,
    by_rows: bool,
}

/// Rows of a block, at most: so many left panels of a piece's depth take half of a second-level cache.
const BLOCK_ROWS: usize = 168;

impl Grid {
    /// Blocks for so many threads: several for each, so that one that is late does not hold up the others. Fewer where the
    /// depth is divided: then the pieces of the left operand come from farther away for each block.
    pub fn new(gemm: &Microkernels, rows: usize, depth: usize, columns: usize, threads: usize) -> Grid {
        let is_kept = depth * columns * size_of::<f32>() <= KEPT;
        let has_own_rows = !is_kept && gemm.caches == CacheClass::LargeSecond && rows >= threads * MANY_ROWS;
        let by_rows = is_kept || has_own_rows;
        // Each thread has a part: a row that another one has read too takes long to write the next time.
        let part_rows = rows.div_ceil(if by_rows { threads } else { 1 }).next_multiple_of(gemm.rows).max(gemm.rows);
        let parts = rows.div_ceil(part_rows).max(1);
        // Of about the same size.
        let least_down = part_rows.div_ceil(BLOCK_ROWS).max(1);
        let (for_each, least_columns) = match depth > piece_of(gemm, depth) {
            true => (4, 2 * gemm.columns),
            // Between two blocks a thread waits until its sums are written.
            false => (if is_kept { 8 } else { 16 }, gemm.columns),
        };
        let wanted = if threads == 1 { 1 } else { (threads * for_each).div_ceil(parts) };
        // One row is multiplied with several panels at a time, where that leaves no thread without any.
        let several = MOST_PANELS * gemm.columns;
        let unit = if rows == 1 && columns >= threads * several { several } else { gemm.columns };
        let block_columns = columns.div_ceil(wanted.div_ceil(least_down)).next_multiple_of(unit).max(least_columns);
        let down = if has_own_rows { least_down } else { wanted.div_ceil(columns.div_ceil(block_columns)).max(least_down) };
        let block_rows = part_rows.div_ceil(down).next_multiple_of(gemm.rows);
        Grid { rows, columns, part_rows, block_rows, block_columns, by_rows }
    }

    pub fn count(&self) -> usize {
        let [parts, down, across] = self.blocks();
        parts * down * across
    }

    /// How many parts there are, how many blocks of rows in each of them, and of columns.
    fn blocks(&self) -> [usize; 3] {
        let down = self.part_rows.div_ceil(self.block_rows);
        [self.rows.div_ceil(self.part_rows), down, self.columns.div_ceil(self.block_columns)]
    }

    /// Rows and columns of a block; the last part may have some without rows.
    pub fn block(&self, number: usize) -> (Range<usize>, Range<usize>) {
        let [parts, down, across] = self.blocks();
        let (row, column) = match self.by_rows {
            true => (number / across, number % across),
            false => (number % (parts * down), number / (parts * down)),
        };
        let part = row / down;
        let end = self.rows.min((part + 1) * self.part_rows);
        let first_row = (part * self.part_rows + row % down * self.block_rows).min(end);
        let first_column = column * self.block_columns;
        (first_row..end.min(first_row + self.block_rows), first_column..self.columns.min(first_column + self.block_columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webnn_kernels::gemm::microkernels::available;
    use webnn_kernels::isa::Isa;

    #[test]
    fn a_thread_has_its_rows_of_a_small_product_and_its_columns_of_a_large_one() {
        for gemm in available() {
            let is_large = gemm.caches == CacheClass::LargeSecond;
            for (rows, depth, columns, by_rows) in [
                (256, 256, 256, true),
                (1000, 100, 130, true),
                (1024, 1024, 1024, is_large),
                (128, 100, 4096, is_large),
                (90, 100, 4096, false),
            ] {
                let grid = Grid::new(gemm, rows, depth, columns, 2);
                let mut times = vec![0; rows * columns];
                let mut end = 0;
                for (number, (block_rows, block_columns)) in (0..grid.count()).map(|number| grid.block(number)).enumerate() {
                    for row in block_rows.clone() {
                        times[row * columns..][block_columns.clone()].iter_mut().for_each(|times| *times += 1);
                    }
                    if number < grid.count() / 2 {
                        end = end.max(if by_rows { block_rows.end } else { block_columns.end });
                    }
                }
                assert!(times.iter().all(|&times| times == 1), "{} {rows}x{depth}x{columns}", gemm.name);
                let all = if by_rows { rows } else { columns };
                let most = if by_rows { (all / 2).next_multiple_of(gemm.rows) } else { all * 3 / 4 };
                assert!(end <= most, "{} {rows}x{depth}x{columns}: the first half reads {end}", gemm.name);
            }
        }
    }

    #[test]
    fn one_row_is_multiplied_with_several_panels_at_a_time_where_each_thread_has_some() {
        for gemm in Isa::available().iter().map(|isa| isa.gemm) {
            let several = MOST_PANELS * gemm.columns;
            for (columns, threads, expected) in
                [(6 * several, 2, several), (2 * several - 1, 2, gemm.columns), (several + 1, 1, 2 * several)]
            {
                assert_eq!(Grid::new(gemm, 1, 100, columns, threads).block_columns, expected, "{} {columns}", gemm.name);
            }
        }
    }
}
