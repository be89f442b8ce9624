//! The product of two matrices, which matmul, gemm, attention and recurrent networks share.
//!
//! The right operand is packed into panels of [`Microkernels::columns`] columns that the tile reads from front to back; a constant is
//! packed once, at build time. The left one is read where it is, or packed into panels of [`Microkernels::rows`] rows where its rows
//! are not contiguous or displace each other from the cache. The output is divided into blocks; a block runs over the depth
//! in pieces, so that a right panel's piece and a block's left ones stay in the second-level cache.
//!
//! Microkernels for pairs of bfloat16 read these where others read numbers: depths of what is packed are in
//! [steps](Microkernels::steps), and a left operand is rounded whenever it is read.
#![allow(unsafe_code)]

use super::packing::pack_rows;
use super::{Numbers, with_scratch};
use crate::backend::cpu::incoming::Elements;
use crate::backend::cpu::packings::{Packed, packed_operand};
use crate::backend::cpu::threads::for_each_piece;
use crate::looks::{self, Looking, Progress};
use std::ops::Range;
use std::sync::Arc;
use webnn_kernels::bf16::packing;
use webnn_kernels::bf16::rounding::{RoundRows, pairs as pairs_of};
use webnn_kernels::gemm::microkernels::{Ahead, Below, LeftRows, MOST_NUMBERS, Microkernels, Plus, Task};
use webnn_kernels::gemm::row_times_panels::{self, MOST_PANELS, Source};
use webnn_kernels::output::{Block, BlockEpilogue};

mod grid;
pub use grid::Grid;

/// The greatest depth of a piece: so much of a right panel stays in the second-level cache beside a block's left panels.
const DEPTH: usize = 768;
/// The greatest depth that is one piece: to write the sums of two and read them again takes longer than what is gained.
const WHOLE: usize = 1024;

/// The depth of the pieces, which are of about the same size.
fn piece_of(gemm: &Microkernels, depth: usize) -> usize {
    let multiple = gemm.depth_unit().max(8);
    if depth <= WHOLE { depth } else { depth.div_ceil(depth.div_ceil(DEPTH)).next_multiple_of(multiple) }
}

/// A left operand in somebody's memory, packed or not.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    rows: usize,
    /// In steps.
    depth: usize,
    elements: Elements<'a>,
    /// Elements from a row to the next where those of a row lie side by side; none for panels.
    stride: Option<usize>,
}

impl<'a> Left<'a> {
    /// Panels of [`Microkernels::rows`] rows, as [`pack_rows`] makes them.
    pub fn packed(rows: usize, depth: usize, panels: &'a [f32]) -> Self {
        Left { rows, depth, elements: panels.into(), stride: None }
    }

    /// Rows that begin `stride` elements apart.
    pub fn in_place(rows: usize, depth: usize, elements: Elements<'a>, stride: usize) -> Self {
        Left { rows, depth, elements, stride: Some(stride) }
    }

    /// Where a row begins, if the rows before it lie directly one after the other.
    fn address(&self, row: usize) -> Option<*const f32> {
        self.stride.is_none_or(|stride| stride == self.depth).then(|| self.elements.address(row * self.depth))
    }

    /// What a tile of some rows begins with at a step in depth. Waits for those rows.
    #[inline(always)]
    fn tile(&self, first_row: usize, height: usize, first_k: usize) -> LeftRows<'a> {
        self.tiles(first_row..first_row + height, height, first_k).0
    }

    /// The same of several tiles of so many rows each, and how far it is from one to the next.
    #[inline(always)]
    fn tiles(&self, rows: Range<usize>, height: usize, first_k: usize) -> (LeftRows<'a>, usize) {
        match self.stride {
            Some(stride) => {
                let (first, end) = (rows.start * stride, (rows.end - 1) * stride + self.depth);
                let elements = self.elements.part(first + first_k..end);
                (LeftRows { elements, row: stride, step: 1 }, height * stride)
            }
            None => {
                let (first, end) = (rows.start * self.depth, rows.end * self.depth);
                let elements = self.elements.part(first + first_k * height..end);
                (LeftRows { elements, row: 1, step: height }, height * self.depth)
            }
        }
    }

    /// Whether the rows before this one are there, so that nobody would wait for them.
    fn is_there(&self, end: usize) -> bool {
        self.elements.is_there(((end - 1) * self.stride.unwrap_or(self.depth) + self.depth).min(self.elements.len()))
    }
}

/// Calls `body` with a left operand that has these strides of rows and columns: in place where tiles can read it so, else
/// packed by all threads.
pub fn with_left<R>(
    gemm: &Microkernels,
    [rows, depth]: [usize; 2],
    columns: usize,
    elements: Elements<'_>,
    strides: [usize; 2],
    body: impl FnOnce(Left<'_>) -> R,
) -> R {
    if is_read_in_place(gemm, columns, strides) {
        return body(Left::in_place(rows, depth, elements, strides[0]));
    }
    if gemm.rounds() {
        return with_rounded_left(gemm, [rows, depth], elements, strides, body);
    }
    with_scratch(rows * depth, |panels| {
        // Each piece begins at a panel.
        let unit = gemm.rows * depth;
        for_each_piece(panels, unit, unit / 8, |first, piece| {
            let first = first * gemm.rows;
            let count = piece.len() / depth.max(1);
            let [row, step] = strides;
            let elements = elements.part(first * row..(first + count - 1) * row + (depth - 1) * step + 1);
            let pauses = looks::pauses(piece.len());
            pack_rows(gemm, 0..count, depth, elements, strides, (piece, pauses));
        });
        body(Left::packed(rows, depth, panels))
    })
}

/// The same as rows of pairs.
fn with_rounded_left<R>(
    gemm: &Microkernels,
    [rows, depth]: [usize; 2],
    elements: Elements<'_>,
    strides: [usize; 2],
    body: impl FnOnce(Left<'_>) -> R,
) -> R {
    let steps = gemm.steps(depth);
    let stride = rows_with_stride(gemm, steps);
    with_scratch(gemm.rows_in_memory(rows) * stride, |scratch| {
        let (pairs, _) = scratch.split_at_mut(rows * stride);
        let unit = gemm.rows * stride;
        for_each_piece(pairs, unit, unit / 8, |first, piece| {
            let (first, count) = (first * gemm.rows, piece.len() / stride.max(1));
            let [row, step] = strides;
            let numbers = elements.part(first * row..(first + count - 1) * row + (depth - 1) * step + 1);
            RoundRows { rows: count, depth, numbers, strides, pairs: &mut *piece, pairs_stride: stride }.compute(gemm);
            let whole = pairs_of(depth);
            if whole < steps {
                piece.chunks_exact_mut(stride).for_each(|row| row[whole..steps].fill(0.0));
            }
        });
        body(Left::in_place(rows, steps, (&*scratch).into(), stride))
    })
}

/// The same with rows that lie in memory as pairs, where tiles read them unless they displace each other from the cache, or reach beyond
/// the last one.
pub fn with_left_of_pairs<R>(
    gemm: &Microkernels,
    [rows, depth]: [usize; 2],
    pairs: Elements<'_>,
    body: impl FnOnce(Left<'_>) -> R,
) -> R {
    let (whole, steps) = (pairs_of(depth), gemm.steps(depth));
    if whole == steps && gemm.rows_in_memory(rows) == rows && !is_crowded(gemm, steps) {
        return body(Left::in_place(rows, steps, pairs, steps));
    }
    let stride = rows_with_stride(gemm, steps);
    with_scratch(gemm.rows_in_memory(rows) * stride, |scratch| {
        let (copies, _) = scratch.split_at_mut(rows * stride);
        let unit = gemm.rows * stride;
        for_each_piece(copies, unit, unit / 16, |first, piece| {
            for (row, to) in piece.chunks_exact_mut(stride).enumerate() {
                let first = (first * gemm.rows + row) * whole;
                to[..whole].copy_from_slice(pairs.part(first..first + whole));
                to[whole..steps].fill(0.0);
            }
        });
        body(Left::in_place(rows, steps, (&*scratch).into(), stride))
    })
}

/// How far apart rows of so many steps are copied, so that they do not displace each other from the cache.
pub fn rows_with_stride(gemm: &Microkernels, steps: usize) -> usize {
    if is_crowded(gemm, steps) { steps + LINE / size_of::<f32>() } else { steps }
}

/// Below so many columns of the product, packing takes longer than what reading crowded rows costs.
const WORTH_PACKING: usize = 128;

/// Whether tiles read rows with these strides where they are.
pub fn is_read_in_place(gemm: &Microkernels, columns: usize, [row, step]: [usize; 2]) -> bool {
    !gemm.rounds() && step == 1 && (columns < WORTH_PACKING || !is_crowded(gemm, row))
}

/// Whether the rows of a tile that begin so many elements apart displace each other from the first-level cache: whether
/// more of them than it has ways go into one of its sets.
pub fn is_crowded(gemm: &Microkernels, stride: usize) -> bool {
    // Of all x86-64 CPUs: sets for 4096 bytes, and 8 ways or more, one of which is for the panel and the output.
    const SETS: usize = 64;
    const WAYS: usize = 8;
    let mut rows = [0u8; SETS];
    (0..gemm.rows).for_each(|row| rows[row * stride * size_of::<f32>() / LINE % SETS] += 1);
    rows.iter().any(|&rows| rows as usize > WAYS)
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Steps of which the packing of a long panel does a multiple at once: whole ones of every set.
const PACKED_STEPS: usize = 256;

/// Packs a panel as [`Microkernels::pack_panel`] does, and looks meanwhile if it is long.
pub fn pack_panel(
    gemm: &Microkernels,
    columns: Range<usize>,
    depth: usize,
    elements: &[f32],
    strides: [usize; 2],
    panel: &mut [f32],
) {
    let pauses = looks::pauses(depth.saturating_mul(gemm.columns));
    for part in pauses.whole_parts(depth, PACKED_STEPS, gemm.columns) {
        let (elements, panel) = (&elements[part.start * strides[0]..], &mut panel[gemm.steps(part.start) * gemm.columns..]);
        gemm.pack_panel(columns.clone(), part.len(), elements, strides, panel);
    }
}

/// The right operand in panels of columns; the last panel is filled up with zeros.
#[derive(Debug)]
pub struct Right {
    pub columns: usize,
    panels: Arc<Packed>,
}

/// Panels of a matrix, which `fill` packs, or that of another graph of the model. They depend on these numbers beside the matrix.
///
/// # Panics
/// When the memory cannot be had, which becomes an error of the build.
fn panels(gemm: &Microkernels, [depth, columns]: [usize; 2], others: &[usize], fill: impl FnOnce(&mut [f32])) -> Arc<Packed> {
    let padded = columns.next_multiple_of(gemm.columns);
    let length = gemm.steps(depth).checked_mul(padded).and_then(|count| count.checked_mul(size_of::<f32>()));
    let layout = [&[gemm.columns, depth, columns], others].concat();
    packed_operand(&layout, length.expect("panels fit into the address space"), |bytes| fill(bytemuck::cast_slice_mut(bytes)))
}

impl Right {
    /// Packs a matrix with these strides of rows and columns.
    pub fn pack(gemm: &Microkernels, depth: usize, columns: usize, elements: Numbers<'_>, strides: [usize; 2]) -> Right {
        let panels = panels(gemm, [depth, columns], &strides, |panels| {
            let elements = elements.all();
            let of_panel = gemm.steps(depth) * gemm.columns;
            for (number, panel) in panels.chunks_mut(of_panel).enumerate().looking(of_panel) {
                let first = number * gemm.columns;
                pack_panel(gemm, first..columns.min(first + gemm.columns), depth, elements, strides, panel);
            }
        });
        Right { columns, panels }
    }

    /// Packs a matrix whose element (k, column) is `element(k, column)`.
    pub fn pack_with(gemm: &Microkernels, depth: usize, columns: usize, element: impl Fn(usize, usize) -> f32) -> Right {
        let panels = panels(gemm, [depth, columns], &[], |panels| {
            let of_panel = gemm.steps(depth) * gemm.columns;
            for (number, panel) in panels.chunks_mut(of_panel).enumerate().looking(of_panel) {
                let first = number * gemm.columns;
                gemm.pack_panel_with(first..columns.min(first + gemm.columns), depth, panel, &element);
            }
        });
        Right { columns, panels }
    }

    /// Packs a matrix of pairs of which each of some runs is so many rows, filled up to whole pairs, whose elements begin there and have
    /// these strides of rows and columns.
    pub fn pack_runs(
        gemm: &Microkernels,
        (length, runs): (usize, &[usize]),
        columns: usize,
        elements: Numbers<'_>,
        strides: [usize; 2],
    ) -> Right {
        let (of_run, width) = (pairs_of(length), gemm.columns);
        let depth = 2 * of_run * runs.len();
        let panels = panels(gemm, [depth, columns], &[&[length][..], &strides, runs].concat(), |panels| {
            let elements = elements.all();
            for (number, panel) in panels.chunks_mut(gemm.steps(depth) * width).enumerate() {
                let first = number * width;
                let some = first..columns.min(first + width);
                let (filled, rest) = panel.split_at_mut(runs.len() * of_run * width);
                for (start, rows) in runs.iter().zip(filled.chunks_exact_mut((of_run * width).max(1))).looking(of_run * width) {
                    packing::pack_panel(gemm, width, some.clone(), length, &elements[*start..], strides, rows);
                }
                rest.fill(0.0);
            }
        });
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

/// About how many nanoseconds a product takes. A few rows wait for the right operand, which comes from far away.
pub fn cost(rows: usize, depth: usize, columns: usize) -> usize {
    let right = depth.saturating_mul(columns);
    (rows.saturating_mul(right) / 32).max(right / 8)
}

/// With fewer panels in a block, too many of them would come from memory unfetched if one of them brought something else closer.
const MANY: usize = 8;

/// Multiplies into a block of the output, and adds a row (by columns of the whole output) to all rows. The right operand's
/// panels begin at the block's first column.
pub fn multiply(
    gemm: &Microkernels,
    left: Left<'_>,
    right: RightView<'_>,
    block: &mut Block<'_>,
    bias: Option<&[f32]>,
    epilogue: Option<&dyn BlockEpilogue>,
) {
    let depth = left.depth;
    let (rows, columns) = (block.rows.clone(), block.columns.clone());
    if rows.is_empty() {
        return;
    }
    assert!(rows.start % gemm.rows == 0 && (rows.end % gemm.rows == 0 || rows.end == left.rows));
    assert!(columns.len() <= right.columns);
    let _configured = gemm.configured();
    let progress = Progress::of(cost(rows.len(), depth, columns.len()));
    let is_row = rows.len() == 1 && row_times_panels::reads_panels_of(gemm);
    let done = if is_row { multiply_row(gemm, left, right, block, bias, epilogue) } else { 0 };
    let most = piece_of(gemm, depth);
    for first_k in (0..depth).step_by(most.max(1)) {
        let piece = Piece { first_k, depth: most.min(depth - first_k), left, right };
        let epilogue = epilogue.filter(|_| first_k + piece.depth == depth);
        for (number, first_column) in columns.clone().step_by(gemm.columns).enumerate().skip(done) {
            let place = first_column..columns.end.min(first_column + gemm.columns);
            let next = piece.next(gemm, number, block);
            let of_panel = Task {
                rows: gemm.rows,
                // Of the last panel often only the first half exists.
                columns: if 2 * place.len() <= gemm.columns { gemm.columns / 2 } else { gemm.columns },
                depth: piece.depth,
                left: LeftRows { elements: &[], row: 0, step: 1 },
                panel: &right.panels[(number * depth + first_k) * gemm.columns..][..piece.depth * gemm.columns],
                output: std::ptr::null_mut(),
                stride: block.stride(),
                plus: added_to(bias, first_k, &place),
                ahead: next.first,
            };
            let is_whole = place.len() == of_panel.columns;
            let mut at_once = 0;
            if epilogue.is_none() && is_whole && rows.len() >= gemm.rows && left.is_there(rows.end) {
                at_once = rows.len() / gemm.rows;
                let tiles = rows.start..rows.start + at_once * gemm.rows;
                let (left, left_next) = left.tiles(tiles.clone(), gemm.rows, first_k);
                let output = block.tile(tiles.start, tiles.len(), place.clone());
                let below = Below { count: at_once, left: left_next, ahead: next.of_tile };
                // SAFETY: the tiles lie in the block (asserted in `Block::tile`), and the block is ours.
                unsafe { gemm.tiles_below(Task { left, output, ..of_panel }, below) };
            }
            for (tile, first_row) in rows.clone().step_by(gemm.rows).enumerate().skip(at_once) {
                let height = gemm.rows.min(rows.end - first_row);
                let left = left.tile(first_row, height, first_k);
                let ahead = Ahead { start: next.first.start.wrapping_add(tile * next.of_tile), ..next.first };
                let task = Task { rows: height, left, ahead, ..of_panel };
                if let Some(epilogue) = epilogue {
                    epilogue.prefetch(first_row..first_row + height, place.clone());
                }
                if is_whole {
                    let output = block.tile(first_row, height, place.clone());
                    // SAFETY: the tile lies in the block (asserted in `Block::tile`), and the block is ours.
                    unsafe { gemm.tile(Task { output, ..task }) };
                } else {
                    narrow(gemm, task, block, first_row, place.clone());
                }
                if let Some(epilogue) = epilogue {
                    epilogue.apply(block, first_row..first_row + height, place.clone());
                }
            }
            progress.made(cost(rows.len(), piece.depth, gemm.columns));
        }
    }
}

/// A piece of the depth of a product.
#[derive(Clone, Copy)]
struct Piece<'a> {
    first_k: usize,
    depth: usize,
    left: Left<'a>,
    right: RightView<'a>,
}

/// What tiles bring closer: the first of a panel, and how far behind the next one begins.
#[derive(Clone, Copy)]
struct Next {
    first: Ahead,
    of_tile: usize,
}

impl Piece<'_> {
    /// What the tiles of a panel of a block bring closer.
    #[inline(always)]
    fn next(&self, gemm: &Microkernels, panel: usize, block: &Block<'_>) -> Next {
        let (depth, rows, columns) = (self.left.depth, &block.rows, &block.columns);
        let is_last_piece = self.first_k + self.depth == depth;
        // The panel after this one, of which each tile brings a part closer. Beyond the last comes the first of the next
        // piece, and in the end what lies after: that of the next block, or often of the next product.
        let next = if columns.start + (panel + 1) * gemm.columns < columns.end {
            (panel + 1) * depth + self.first_k
        } else if !is_last_piece {
            self.first_k + self.depth
        } else {
            (panel + 1) * depth
        };
        // The first one of many panels brings the left operand closer: another core may have written it just now.
        let brings_left = panel == 0 && self.depth == depth && columns.len() >= MANY * gemm.columns;
        match self.left.address(rows.start + gemm.rows).filter(|_| brings_left) {
            Some(start) => Next { first: Ahead { start, step: gemm.rows }, of_tile: gemm.rows * depth },
            None => {
                let start = self.right.panels.as_ptr().wrapping_add(next * gemm.columns);
                let step = gemm.columns.div_ceil(rows.len().div_ceil(gemm.rows));
                Next { first: Ahead { start, step }, of_tile: step * self.depth }
            }
        }
    }
}

/// What the products of a piece of the depth are added to.
fn added_to<'a>(bias: Option<&'a [f32]>, first_k: usize, columns: &Range<usize>) -> Plus<'a> {
    match bias {
        _ if first_k > 0 => Plus::Itself,
        Some(bias) => Plus::Row(&bias[columns.clone()]),
        None => Plus::Nothing,
    }
}

/// Multiplies one row with as many panels as there are in groups of [`MOST_PANELS`]; how many these are.
fn multiply_row(
    gemm: &Microkernels,
    left: Left<'_>,
    right: RightView<'_>,
    block: &mut Block<'_>,
    bias: Option<&[f32]>,
    epilogue: Option<&dyn BlockEpilogue>,
) -> usize {
    let (row, depth, width) = (block.rows.start, left.depth, MOST_PANELS * gemm.columns);
    let groups = block.columns.len() / width;
    if groups == 0 {
        return 0;
    }
    let a = left.tile(row, 1, 0).elements;
    let most = piece_of(gemm, depth);
    let progress = Progress::of(cost(1, depth, groups * width));
    for group in 0..groups {
        let first = block.columns.start + group * width;
        let place = first..first + width;
        if let Some(epilogue) = epilogue {
            epilogue.prefetch(row..row + 1, place.clone());
        }
        let c = block.row(row, place.clone());
        for first_k in (0..depth).step_by(most.max(1)) {
            let piece = most.min(depth - first_k);
            let panels = std::array::from_fn::<_, MOST_PANELS, _>(|number| {
                let panel = (group * MOST_PANELS + number) * depth;
                &right.panels[(panel + first_k) * gemm.columns..][..piece * gemm.columns]
            });
            let plus = added_to(bias, first_k, &place);
            row_times_panels::multiply(gemm, &a[first_k..first_k + piece], &panels, c, plus, Source::Memory);
            progress.made(cost(1, piece, width));
        }
        if let Some(epilogue) = epilogue {
            epilogue.apply(block, row..row + 1, place);
        }
    }
    groups * MOST_PANELS
}

/// Computes a tile of which only the first columns exist in the block, from that row on.
#[inline(never)]
fn narrow(gemm: &Microkernels, task: Task<'_>, block: &mut Block<'_>, first_row: usize, columns: Range<usize>) {
    let length = task.rows * task.columns;
    if length <= MOST_NUMBERS {
        return narrow_into(&mut [0f32; MOST_NUMBERS][..length], gemm, task, block, first_row, columns);
    }
    with_scratch(length, |whole| narrow_into(whole, gemm, task, block, first_row, columns));
}

/// The same, with room for the tile.
fn narrow_into(
    whole: &mut [f32],
    gemm: &Microkernels,
    task: Task<'_>,
    block: &mut Block<'_>,
    first_row: usize,
    columns: Range<usize>,
) {
    assert!(whole.len() >= task.rows * task.columns);
    let of_tile = Task { output: whole.as_mut_ptr(), stride: task.columns, plus: Plus::Nothing, ..task };
    // SAFETY: there is room for the tile, and the registers are configured (`multiply`).
    unsafe { gemm.tile(of_tile) };
    for (r, sums) in whole.chunks_exact(task.columns).enumerate().take(task.rows) {
        let c = block.row(first_row + r, columns.clone());
        let sums = &sums[..columns.len()];
        match task.plus {
            Plus::Nothing => c.copy_from_slice(sums),
            Plus::Itself => c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum),
            Plus::Row(row) => c.iter_mut().zip(row).zip(sums).for_each(|((c, plus), sum)| *c = plus + sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::numbers;
    use webnn_kernels::gemm::microkernels::available;
    use webnn_kernels::output::Output;
    use webnn_kernels::pauses::Pauses;

    fn pack(gemm: &Microkernels, rows: usize, depth: usize, elements: &[f32], strides: [usize; 2]) -> Vec<f32> {
        let mut panels = vec![0.0; rows * depth];
        pack_rows(gemm, 0..rows, depth, elements, strides, (&mut panels, Pauses::NONE));
        panels
    }

    #[test]
    fn a_left_operand_is_read_in_place_or_packed() {
        for gemm in available() {
            // By stride: contiguous; 4096 bytes apart, for a narrow product and a wide one; transposed.
            for (strides, columns, in_place) in [
                ([20, 1], 200, true),
                ([1024, 1], 33, true),
                ([1024, 1], 200, gemm.rows <= 8),
                ([1025, 1], 200, gemm.rows <= 8),
                ([1, 13], 200, false),
            ] {
                let (rows, depth) = (13, 20);
                let a = numbers((rows - 1) * strides[0] + (depth - 1) * strides[1] + 1, 1);
                let expected: Vec<f32> = match in_place {
                    true => a.clone(),
                    false => pack(gemm, rows, depth, &a, strides),
                };
                with_left(gemm, [rows, depth], columns, a.as_slice().into(), strides, |left| {
                    assert_eq!(left.stride, in_place.then_some(strides[0]), "{} {strides:?}", gemm.name);
                    assert_eq!(left.elements.part(0..left.elements.len()), expected);
                });
            }
        }
    }

    #[test]
    #[should_panic]
    fn what_is_too_short_is_not_read() {
        let gemm = available().next().unwrap();
        let (b, mut c) = (vec![0.0; 8 * gemm.columns], vec![0.0; 3 * gemm.columns]);
        let left = Left::in_place(3, 8, [0.0; 27].as_slice().into(), 10);
        // SAFETY: the only block.
        let mut block = unsafe { Output::new(&mut c, gemm.columns).block(0..3, 0..gemm.columns) };
        multiply(gemm, left, RightView { columns: gemm.columns, panels: &b }, &mut block, None, None);
    }

    /// Adds the number of the row.
    struct PlusRow;

    impl BlockEpilogue for PlusRow {
        fn prefetch(&self, _: Range<usize>, _: Range<usize>) {}

        fn apply(&self, block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>) {
            for row in rows {
                block.row(row, columns.clone()).iter_mut().for_each(|c| *c += row as f32);
            }
        }
    }

    #[test]
    fn every_instruction_set_multiplies_every_size() {
        let mut sizes =
            vec![(1, 1, 1), (1, 300, 33), (2, 7, 64), (11, 256, 31), (12, 257, 32), (13, 1600, 100), (25, 3, 65), (250, 20, 40)];
        // One row, in groups of panels and beside them.
        sizes.extend([(1, 20, 128), (1, 1600, 300)]);
        sizes.extend((1..=12).map(|rows| (rows, 14 + rows, 34)));
        // Of the last panel's columns exactly half.
        sizes.extend([(13, 1600, 48), (7, 9, 16), (6, 50, 24), (9, 31, 12), (20, 900, 96)]);
        for gemm in available() {
            for (rows, depth, columns) in sizes.iter().copied() {
                // Rows have something between them, and nothing is after the last.
                let stride = depth + 3;
                let (a, b) = (numbers(rows * stride - 3, 1), numbers(depth * columns, 2));
                let panels = pack(gemm, rows, depth, &a, [stride, 1]);
                let forms = [Left::packed(rows, depth, &panels), Left::in_place(rows, depth, a.as_slice().into(), stride)];
                let right = Right::pack(gemm, depth, columns, Numbers::from(&b[..]), [columns, 1]);
                let bias = numbers(columns, 3);
                let ways = [(forms[0], 1, 1.0), (forms[0], 3, 0.0), (forms[1], 1, 0.0), (forms[1], 3, 1.0)];
                for (left, threads, plus_row) in ways {
                    let mut c = vec![f32::NAN; rows * columns];
                    let output = Output::new(&mut c, columns);
                    let grid = Grid::new(gemm, rows, depth, columns, threads);
                    for number in 0..grid.count() {
                        let (block_rows, block_columns) = grid.block(number);
                        let first_panel = block_columns.start / gemm.columns * depth * gemm.columns;
                        let part = RightView { columns: block_columns.len(), panels: &right.view().panels[first_panel..] };
                        // SAFETY: the blocks of a grid do not overlap.
                        let mut block = unsafe { output.block(block_rows, block_columns) };
                        let epilogue: Option<&dyn BlockEpilogue> = if plus_row > 0.0 { Some(&PlusRow) } else { None };
                        multiply(gemm, left, part, &mut block, Some(&bias), epilogue);
                    }
                    for (i, c) in c.iter().enumerate() {
                        let (row, column) = (i / columns, i % columns);
                        let sum: f64 = (0..depth).map(|k| a[row * stride + k] as f64 * b[k * columns + column] as f64).sum();
                        let difference = (*c as f64 - sum - plus_row * row as f64 - bias[column] as f64).abs();
                        assert!(
                            difference < 1e-4,
                            "{} {rows}x{depth}x{columns}, {threads} threads, at {row}, {column}: {c}",
                            gemm.name
                        );
                    }
                }
            }
        }
    }
}
