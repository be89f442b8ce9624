//! Constant weights in the order in which the tiles of convolutions read them.

use super::clamp::Clamps;
use super::packing::{copy_row, pack_panel};
use super::{AlignedBuffer, Numbers};
use crate::looks::{self, Looking};
use std::ops::Range;
use webnn_kernels::bf16::packing;
use webnn_kernels::bf16::rounding::pairs;
use webnn_kernels::conv::microkernels::{Added, Ahead, Input, Output, Task, Tiles, Weights};
use webnn_kernels::gemm::microkernels::{MOST_COLUMNS, Microkernels};

/// Weights in panels of columns, as wide as a full tile; the last one is as narrow as a tile for the rest may be.
#[derive(Debug)]
pub struct Panels {
    pub depth: usize,
    pub columns: usize,
    /// Panels as wide as a full tile. Here because to divide for each tile takes as long as a short one.
    whole: usize,
    tiles: &'static Tiles,
    /// Of several matrices that were packed together, and which of them these are.
    packed: AlignedBuffer,
    own: Range<usize>,
}

/// One panel, or several whole ones beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    pub first: usize,
    /// Columns that exist.
    pub columns: usize,
    /// Columns that the weights have, and those that they have in one panel.
    pub width: usize,
    of_one: usize,
    pub weights: &'a [f32],
    /// How many it is.
    pub several: usize,
}

/// Where the elements of a matrix are whose rows are runs of so many, one run after the other.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    pub elements: Numbers<'a>,
    /// Rows of a run.
    pub length: usize,
    /// From an element to the next of its run, and to that of the next column.
    pub step: usize,
    pub column: usize,
}

/// A row of each of several matrices, in the columns of a panel.
pub type Rows = [[f32; MOST_COLUMNS]];

impl Panel<'_> {
    /// What a tile computes of some runs of so many numbers, which begin anywhere, written to an output whose rows are `stride`
    /// apart. Nothing is added to it.
    ///
    /// # Panics
    /// When these are not the weights for so many numbers.
    pub fn task(&self, [runs, length]: [usize; 2], starts: &[*const f32], (output, stride): (*mut f32, usize)) -> Task {
        assert_eq!(self.weights.len(), runs * length * self.width);
        let panel = self.weights.as_ptr();
        Task {
            input: Input { runs, length, starts: starts.as_ptr(), step: 0, dilation: 1 },
            tiles: 1,
            ahead: Ahead { start: panel, step: 0, of_tile: 0 },
            weights: Weights {
                panel,
                bias: std::ptr::null(),
                columns: self.columns.min(self.of_one),
                panels: self.several,
                step: runs * length * self.of_one,
            },
            output: Output { start: output, stride, is_bits: false, is_far: false },
            added: Added::NOTHING,
            clamps: Clamps::default(),
        }
    }

    /// A task that leaves out all but some of its runs. `starts` are those of all.
    ///
    /// # Panics
    /// When there are no such runs.
    pub fn some_runs(&self, task: Task, runs: Range<usize>, starts: &[*const f32]) -> Task {
        if runs.len() == task.input.runs {
            return task;
        }
        let rows = starts.len() / task.input.runs;
        let left_out = runs.start * task.input.length * self.of_one;
        let starts = &starts[runs.start * rows..runs.end * rows];
        let input = Input { runs: runs.len(), starts: starts.as_ptr(), ..task.input };
        Task { input, weights: Weights { panel: self.weights[left_out..].as_ptr(), ..task.weights }, ..task }
    }

    /// The numbers of a bias for these columns; null where there is none.
    ///
    /// # Panics
    /// When some of them are missing.
    pub fn bias(&self, bias: &[f32]) -> *const f32 {
        if bias.is_empty() { std::ptr::null() } else { bias[self.first..][..self.width].as_ptr() }
    }
}

impl Panels {
    fn zeroed(tiles: &'static Tiles, depth: usize, columns: usize) -> Panels {
        let length = depth * tiles.width(columns);
        Panels { depth, columns, whole: columns / tiles.columns, tiles, packed: AlignedBuffer::zeroed(length), own: 0..length }
    }

    fn numbers(&self) -> &[f32] {
        &self.packed.as_slice()[self.own.clone()]
    }

    /// A matrix of as many columns, whose runs begin at these elements.
    ///
    /// # Panics
    /// When one of its elements is outside.
    pub fn pack(tiles: &'static Tiles, from: &Elements<'_>, runs: impl Iterator<Item = usize>, columns: usize) -> Panels {
        let pack = |width: usize, columns: Range<usize>, elements: &[f32], rows: &mut [f32]| {
            for part in looks::pauses(rows.len()).parts(from.length) {
                let (elements, rows) = (&elements[part.start * from.step..], &mut rows[part.start * width..]);
                pack_panel(width, columns.clone(), part.len(), elements, [from.step, from.column], rows);
            }
        };
        Panels::pack_runs(tiles, from, from.length, runs, columns, pack)
    }

    /// The same of pairs, for tiles of pairs. Each run has its own.
    ///
    /// # Panics
    /// When one of its elements is outside.
    pub fn pack_pairs(
        (gemm, tiles): (&Microkernels, &'static Tiles),
        from: &Elements<'_>,
        runs: impl Iterator<Item = usize>,
        columns: usize,
    ) -> Panels {
        let pack = |width: usize, columns: Range<usize>, elements: &[f32], rows: &mut [f32]| {
            packing::pack_panel(gemm, width, columns, from.length, elements, [from.step, from.column], rows);
        };
        Panels::pack_runs(tiles, from, pairs(from.length), runs, columns, pack)
    }

    /// Packs runs of `length`, each for some columns by `pack`.
    fn pack_runs(
        tiles: &'static Tiles,
        from: &Elements<'_>,
        length: usize,
        runs: impl Iterator<Item = usize>,
        columns: usize,
        pack: impl Fn(usize, Range<usize>, &[f32], &mut [f32]),
    ) -> Panels {
        let runs: Vec<usize> = runs.collect();
        let depth = runs.len() * length;
        if from.length == 0 {
            return Panels::zeroed(tiles, depth, columns);
        }
        let mut layout = vec![tiles.columns, tiles.width(columns), depth, columns, from.length, from.step, from.column];
        layout.extend(&runs);
        let empty = Panels::zeroed(tiles, 0, columns);
        let own = 0..depth * tiles.width(columns);
        let packed = AlignedBuffer::packed(&layout, own.len(), |numbers| {
            let elements = from.elements.all();
            for number in 0..empty.count() {
                let (first, count, width) = empty.place(number);
                let panel = &mut numbers[first * depth..][..depth * width];
                for (start, rows) in runs.iter().zip(panel.chunks_exact_mut(length * width)).looking(length * width) {
                    pack(width, first..first + count, &elements[*start..], rows);
                }
            }
        });
        Panels { depth, packed, own, ..empty }
    }

    /// Several matrices of one size, whose rows are made together: `rows` is given a row and the columns of a panel, and
    /// writes these elements of each of them.
    pub fn pack_several(
        several: usize,
        (tiles, depth, columns): (&'static Tiles, usize, usize),
        mut rows: impl FnMut(usize, Range<usize>, &mut Rows),
    ) -> Vec<Panels> {
        let of_one = depth * tiles.width(columns);
        let empty = || Panels::zeroed(tiles, 0, columns);
        let layout = [several, tiles.columns, tiles.width(columns), depth, columns];
        let packed = AlignedBuffer::packed(&layout, several * of_one, |numbers| {
            let mut row = vec![[0.0; MOST_COLUMNS]; several];
            for number in 0..empty().count() {
                let (first, count, width) = empty().place(number);
                for k in (0..depth).looking(several * count) {
                    rows(k, first..first + count, &mut row);
                    for (number, row) in row.iter().enumerate() {
                        copy_row(&row[..count], &mut numbers[number * of_one + first * depth + k * width..][..count]);
                    }
                }
            }
        });
        let matrix = |number: usize| {
            let own = number * of_one..(number + 1) * of_one;
            Panels { depth, packed: packed.clone(), own, ..empty() }
        };
        (0..several).map(matrix).collect()
    }

    pub fn count(&self) -> usize {
        self.columns.div_ceil(self.tiles.columns)
    }

    /// First column, columns, and width of a panel.
    fn place(&self, number: usize) -> (usize, usize, usize) {
        let first = number * self.tiles.columns;
        let columns = (self.columns - first).min(self.tiles.columns);
        (first, columns, self.tiles.width(columns))
    }

    /// Columns that the weights of a panel have.
    pub fn width(&self, number: usize) -> usize {
        self.place(number).2
    }

    pub fn panel(&self, number: usize) -> Panel<'_> {
        self.panel_of(self.numbers(), number)
    }

    /// A panel of other weights, which lie as these do.
    pub fn panel_of<'a>(&self, weights: &'a [f32], number: usize) -> Panel<'a> {
        let (first, columns, width) = self.place(number);
        Panel { first, columns, width, of_one: width, weights: &weights[first * self.depth..][..width * self.depth], several: 1 }
    }

    /// All weights.
    pub fn all(&self) -> &[f32] {
        self.numbers()
    }

    /// The weights of some panels, one after the other.
    pub fn weights(&self, numbers: Range<usize>) -> &[f32] {
        let start = |number: usize| self.place(number).0 * self.depth;
        let all = self.numbers();
        &all[start(numbers.start)..if numbers.end < self.count() { start(numbers.end) } else { all.len() }]
    }

    /// Some panels in as few parts as tiles can pass over at once: all whole ones, and the last if it is not.
    pub fn parts(&self, numbers: Range<usize>) -> impl Iterator<Item = Panel<'_>> {
        self.parts_of(self.numbers(), numbers)
    }

    /// The same of other weights, which lie as these do.
    pub fn parts_of<'a>(&self, weights: &'a [f32], numbers: Range<usize>) -> impl Iterator<Item = Panel<'a>> {
        let of_tile = self.tiles.columns;
        let whole = numbers.start..numbers.end.min(self.whole);
        let (first, columns) = (whole.start * of_tile, whole.len() * of_tile);
        let together = (!whole.is_empty()).then(|| Panel {
            first,
            columns,
            width: columns,
            of_one: of_tile,
            weights: &weights[first * self.depth..][..columns * self.depth],
            several: whole.len(),
        });
        together.into_iter().chain((numbers.start.max(whole.end)..numbers.end).map(|number| self.panel_of(weights, number)))
    }

    /// An element of the matrix.
    pub fn at(&self, k: usize, column: usize) -> f32 {
        let panel = self.panel(column / self.tiles.columns);
        panel.weights[k * panel.width + column - panel.first]
    }

    pub fn bytes(&self) -> usize {
        size_of_val(self.numbers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::numbers;
    use webnn_kernels::isa::Isa;

    #[test]
    fn panels_lie_one_behind_the_other() {
        for isa in Isa::available() {
            let tiles = Tiles::of(isa);
            // The last panel whole, and narrower.
            for columns in [3 * tiles.columns, 2 * tiles.columns + 3] {
                let elements = numbers(5 * columns, 1);
                let from = Elements { elements: Numbers::from(&elements[..]), length: 5, step: columns, column: 1 };
                let panels = Panels::pack(tiles, &from, std::iter::once(0), columns);
                for some in [0..3, 0..1, 1..2, 1..3, 2..3] {
                    let expected: Vec<f32> = some.clone().flat_map(|number| panels.panel(number).weights.to_vec()).collect();
                    assert_eq!(panels.weights(some.clone()), expected, "{} {columns} {some:?}", isa.name);
                }
            }
        }
    }
}
