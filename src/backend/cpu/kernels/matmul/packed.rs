//! A left operand times a constant matrix, which is packed when the graph is built.
#![allow(unsafe_code)]

use super::{Product, Shape};
use crate::backend::cpu::incoming::Elements;
use crate::backend::cpu::kernels::conv::{self, Filter, Windows};
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::product::{
    Grid, Left, Right, RightView, is_read_in_place, multiply, with_left, with_left_of_pairs,
};
use crate::backend::cpu::kernels::{
    Accepted, Bf16Support, Built, Implementation, Kernel, Problem, Subnormals, Target, bf16, require, with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use smallvec::smallvec;
use std::ops::Range;
use webnn_kernels::bf16::narrow::Tile;
use webnn_kernels::epilogue::post_ops::Origin;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::output::{Block, BlockEpilogue, Output};

/// A left operand times a constant matrix, which is packed.
pub static PACKED: Implementation = Implementation { name: "gemm.packed", accept: accept_packed };
/// A left operand times a constant matrix by way of bfloat16.
pub static BF16: Implementation = Implementation { name: "gemm.bf16", accept: accept_bf16 };
/// A convolution with single pixels as such a product, for tiles that only products have.
pub static POINTWISE_BF16_GEMM: Implementation =
    Implementation { name: "conv.pointwise_bf16_gemm", accept: accept_pointwise_bf16 };
/// Any other convolution as a product of the windows of the image.
pub static CONV_BF16_GEMM: Implementation = Implementation { name: "conv.bf16_gemm", accept: accept_conv_bf16 };
/// One row times a constant matrix, of which half the bytes are read.
pub static GEMV_BF16: Implementation = Implementation { name: "gemv.bf16", accept: accept_gemv_bf16 };

fn accept_packed<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    packed(Product::of(problem, target)?, target.isa.gemm, problem, target)
}

fn accept_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let gemm = bf16::for_products(target)?;
    let product = Product::of(problem, target)?;
    require(product.shape.rows > 1, "a single row")?;
    bf16::require_columns(product.shape.columns, target)?;
    packed(product, gemm, problem, target)
}

fn accept_pointwise_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let gemm = bf16::for_products_alone(target)?;
    let desc = conv::desc(problem, target)?;
    require(desc.is_pointwise(), "several groups, a window, strides or padding")?;
    let op = problem.conv2d()?;
    let (filter, [columns, depth, height, width]) = Filter::of(op, problem)?;
    // Of a larger one a single weight may be left that any window has over the image; it is not the first.
    require(height * width == 1, "a filter of several weights")?;
    bf16::require_columns(columns, target)?;
    require(depth >= target.tuning.bf16_channels, "few channels")?;
    let rows = problem.output.element_count() / columns;
    let shape = Shape { rows, depth, columns, left_strides: [depth, 1], right_strides: [filter.strides[1], filter.strides[0]] };
    let bias = match op.bias {
        Some(id) => Some((id.0 as usize, problem.input(id).constant_elements()?)),
        None => None,
    };
    let product = Product { shape, left: op.input, right: op.filter, stack: None, stride: columns, bias };
    packed(product, gemm, problem, target)
}

fn accept_gemv_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    bf16::require_permission(target)?;
    let product = Product::of(problem, target)?;
    let Shape { rows, depth, columns, .. } = product.shape;
    require(rows == 1, "not a single row")?;
    bf16::require_columns(columns, target)?;
    packed(product, bf16::microkernels_for_reading(depth * columns * size_of::<f32>(), target)?, problem, target)
}

/// A left operand times a constant matrix.
fn packed<'a>(product: Product<'a>, gemm: &'static Microkernels, problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    require(product.is_one(), "several matrices on the right")?;
    let Product { shape, left, right, bias, .. } = product;
    // A column is read where it is.
    require(shape.columns > 1, "a single column")?;
    let elements = problem.input(right).constant_numbers()?;
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || {
        let gemm = gemm.for_product(shape.rows, shape.columns, target.caches);
        let packed = Right::pack(gemm, shape.depth, shape.columns, elements, shape.right_strides);
        let chunks = Chunks::new(gemm, &shape, target.threads);
        let mut consumed = smallvec![right.0 as usize];
        consumed.extend(bias.iter().map(|(position, _)| *position));
        let mut epilogue = Epilogue::new(bias.map(|(_, bias)| bias));
        let fuses = epilogue.fuse(&problem, &mut consumed);
        let (threads, windows) = (target.threads, None);
        let kernel = TimesConstant { gemm, shape, left, windows, right: packed, epilogue, threads, chunks };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// The windows of an image times the filter. What is under them is copied together for some rows of tiles at a time: each number as
/// often as windows are over it, from and to the second-level cache, and multiplied with as many numbers as there are outputs.
fn accept_conv_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let gemm = bf16::for_products_alone(target)?;
    let op = problem.conv2d()?;
    let desc = conv::desc_of_pairs(problem, target)?;
    let bias = match op.bias {
        Some(id) => Some((id.0 as usize, problem.input(id).constant_elements()?)),
        None => None,
    };
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || {
        let windows = Windows::of(&desc);
        let [rows, columns] = desc.output();
        let depth = windows.depth();
        let shape = Shape { rows, depth, columns, left_strides: [depth, 1], right_strides: [columns, 1] };
        let gemm = gemm.for_product(rows, columns, target.caches);
        let right = desc.pack(gemm);
        let chunks = Chunks::new(gemm, &shape, target.threads);
        let mut consumed = smallvec![op.filter.0 as usize];
        consumed.extend(bias.iter().map(|(position, _)| *position));
        let mut epilogue = Epilogue::new(bias.map(|(_, bias)| bias));
        let fuses = epilogue.fuse(&problem, &mut consumed);
        let (left, threads, windows) = (op.input, target.threads, Some(windows));
        let kernel = TimesConstant { gemm, shape, left, windows, right, epilogue, threads, chunks };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// Elements of the left operand that several threads pack together.
const PACKED_TOGETHER: usize = 4 << 20;

/// A left operand times a constant right one.
#[derive(Debug)]
struct TimesConstant {
    gemm: &'static Microkernels,
    shape: Shape,
    left: OperandId,
    /// Where the left operand is an image: what of it the rows are.
    windows: Option<Windows>,
    right: Right,
    epilogue: Epilogue,
    threads: usize,
    chunks: Chunks,
}

impl Kernel for TimesConstant {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let left = arguments.input(self.left);
        match &self.windows {
            Some(_) if left.is_narrow() => self.multiply(left.pairs().into(), true, arguments),
            Some(windows) => windows.rounded(self.gemm, left.elements(), |pairs| self.multiply(pairs.into(), true, arguments)),
            None if left.is_narrow() => self.multiply(left.pairs().into(), true, arguments),
            None => self.multiply(left.incoming(), false, arguments),
        }
    }

    /// Rows of pairs are what tiles read. Sums are rounded once they are complete.
    fn bf16_support(&self) -> Bf16Support {
        let Shape { depth, columns, left_strides, .. } = self.shape;
        let is_whole = match &self.windows {
            Some(windows) => windows.are_of_pairs(),
            None => depth.is_multiple_of(2) && left_strides == [depth, 1],
        };
        if !self.gemm.rounds() {
            return Bf16Support::default();
        }
        let mut loads = self.epilogue.whole_tensors();
        loads.retain(|id| *id != self.left);
        loads.extend(is_whole.then_some(self.left));
        let stores = columns.is_multiple_of(2);
        Bf16Support { loads, rounds: smallvec![self.left], stores, rounds_output: true, ..Bf16Support::default() }
    }

    fn speed(&self) -> usize {
        bf16::speed_of(self.gemm)
    }

    fn bytes(&self) -> usize {
        self.right.bytes() + self.windows.as_ref().map_or(0, Windows::bytes)
    }
}

impl TimesConstant {
    /// Runs with these elements of the left operand, numbers or pairs; with pairs of an image, if it is one.
    fn multiply(&self, elements: Elements<'_>, of_pairs: bool, arguments: &mut Arguments<'_, '_>) {
        let tensors = self.epilogue.tensors(arguments);
        let output = arguments.output();
        let is_narrow = output.is_narrow();
        let output = if is_narrow { output.pairs() } else { output.elements::<f32>() };
        let Shape { rows, depth, columns, left_strides, .. } = self.shape;
        let steps = self.gemm.steps(depth);
        let (gemm, right) = (self.gemm, self.right.view());
        let (bias, post_ops) = self.epilogue.split_bias();
        // In elements of the output, which are numbers or pairs.
        let width = if is_narrow { columns / 2 } else { columns };
        let output = Output::new(output, width);
        let multiply_rows = |rows: Range<usize>, threads: usize| {
            let (first, rows) = (rows.start, rows.len());
            // SAFETY: chunks have different rows.
            let output = unsafe { output.from(first * width) };
            let origin = Origin { place: first * columns, stride: columns };
            let finish = post_ops.on_block(gemm.isa, origin, &tensors);
            let finish = finish.as_ref().map(|finish| finish as &dyn BlockEpilogue);
            let multiply_left = |left: Left<'_>| {
                let grid = Grid::new(gemm, rows, steps, columns, threads);
                for_each_job(grid.count(), self.cost(rows), |number| {
                    let (rows, columns) = grid.block(number);
                    let right_of = |columns: &Range<usize>| {
                        let first = columns.start / gemm.columns * steps * gemm.columns;
                        RightView { columns: columns.len(), panels: &right.panels[first..] }
                    };
                    if is_narrow {
                        return for_each_part(gemm, rows.len(), columns, |columns| {
                            with_scratch(rows.len() * columns.len(), |scratch| {
                                let mut part = Block::elsewhere(rows.clone(), columns.clone(), scratch);
                                multiply(gemm, left, right_of(&columns), &mut part, bias, finish);
                                // SAFETY: the blocks of a grid do not overlap, nor do their parts.
                                let mut block = unsafe { output.block(rows.clone(), columns.start / 2..columns.end / 2) };
                                round_block(gemm, &mut part, &mut block);
                            });
                        });
                    }
                    // SAFETY: the blocks of a grid do not overlap.
                    let mut block = unsafe { output.block(rows, columns.clone()) };
                    multiply(gemm, left, right_of(&columns), &mut block, bias, finish);
                });
            };
            if let Some(windows) = &self.windows {
                return windows.with_left(gemm, first..first + rows, elements.part(0..elements.len()), multiply_left);
            }
            let elements = elements.skip(first * if of_pairs { depth / 2 } else { left_strides[0] });
            match of_pairs {
                true => with_left_of_pairs(gemm, [rows, depth], elements, multiply_left),
                false => with_left(gemm, [rows, depth], columns, elements, left_strides, multiply_left),
            }
        };
        let chunks = self.chunks;
        if chunks.are_jobs {
            for_each_job(chunks.count, self.cost(rows), |chunk| multiply_rows(chunks.rows(gemm, rows, chunk), 1));
        } else {
            (0..chunks.count).for_each(|chunk| multiply_rows(chunks.rows(gemm, rows, chunk), self.threads));
        }
    }
}

/// Bytes of sums that stay in the cache until they are rounded.
const KEPT: usize = 64 << 10;

/// Parts of a block of so few columns that the sums stay in the cache.
fn for_each_part(gemm: &Microkernels, rows: usize, columns: Range<usize>, mut body: impl FnMut(Range<usize>)) {
    let of_panel = rows * gemm.columns * size_of::<f32>();
    let width = (KEPT / of_panel.max(1)).max(1) * gemm.columns;
    for first in columns.clone().step_by(width) {
        body(first..columns.end.min(first + width));
    }
}

/// Rounds a block to one of pairs.
fn round_block(gemm: &Microkernels, from: &mut Block<'_>, to: &mut Block<'_>) {
    let (rows, columns) = (from.rows.clone(), from.columns.clone());
    if rows.is_empty() || columns.is_empty() {
        return;
    }
    let tile = Tile {
        rows: rows.len(),
        columns: columns.len(),
        numbers: from.tile(rows.start, rows.len(), columns),
        stride: from.stride(),
        pairs: to.tile(rows.start, rows.len(), to.columns.clone()),
        pairs_stride: to.stride(),
    };
    assert!(tile.columns == 2 * to.columns.len());
    // SAFETY: both blocks have these rows, and are ours.
    unsafe { tile.round(gemm) };
}

/// Parts of the rows of a left operand, of about the same size: so many are packed at a time where any are.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    count: usize,
    /// Whether one thread does all of a chunk.
    are_jobs: bool,
}

/// Bytes of a chunk that one thread packs and multiplies, while it stays in the second-level cache.
const CLOSE: usize = 384 << 10;
const FEWEST_TILES: usize = 6;
/// Below so many rows for each thread all of them pack the left operand, and each multiplies some columns: it reads no more than
/// its part of the right one.
const MANY_ROWS: usize = 96;

impl Chunks {
    fn new(gemm: &Microkernels, shape: &Shape, threads: usize) -> Chunks {
        let Shape { rows, depth, columns, left_strides, .. } = *shape;
        let depth = gemm.steps(depth);
        if is_read_in_place(gemm, columns, left_strides) {
            return Chunks { count: 1, are_jobs: false };
        }
        let block = Grid::new(gemm, rows, depth, columns, 1).block(0).0.len();
        if threads > 1 && rows < threads * MANY_ROWS {
            // They wait for each other after it, so it is a lot.
            let together = (PACKED_TOGETHER / depth.max(1) / block.max(1) * block).max(block);
            return Chunks { count: rows.div_ceil(together.max(1)), are_jobs: false };
        }
        // Fewer tiles would read the right operand too often.
        let close = CLOSE / (depth * size_of::<f32>()).max(1);
        let most = if close >= FEWEST_TILES * gemm.rows { close.min(block) } else { block };
        Chunks { count: rows.div_ceil(threads).div_ceil(most.max(1)) * threads, are_jobs: threads > 1 }
    }

    /// The rows of a chunk: whole tiles.
    fn rows(self, gemm: &Microkernels, rows: usize, chunk: usize) -> Range<usize> {
        let start = |chunk: usize| rows.min(chunk * rows.div_ceil(gemm.rows) / self.count * gemm.rows);
        start(chunk)..start(chunk + 1)
    }
}

impl TimesConstant {
    /// About how many nanoseconds some rows take. A few wait for the right operand, which comes from far away.
    fn cost(&self, rows: usize) -> usize {
        let right = self.shape.depth * self.shape.columns;
        (rows * right / 32).max(right / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use webnn_kernels::gemm::microkernels::available;

    #[test]
    fn chunks_are_all_rows_and_each_thread_has_as_many() {
        for gemm in available() {
            for (rows, depth, left_strides) in
                [(1024, 1024, [1024, 1]), (401, 5000, [1, 401]), (2000, 64, [1, 2000]), (30, 900, [1, 30])]
            {
                for threads in [1, 2, 5] {
                    let shape = Shape { rows, depth, columns: 200, left_strides, right_strides: [200, 1] };
                    let chunks = Chunks::new(gemm, &shape, threads);
                    let sizes: Vec<usize> = (0..chunks.count).map(|chunk| chunks.rows(gemm, rows, chunk).len()).collect();
                    let place = format!("{} {rows} x {depth}, {threads} threads: {chunks:?}, {sizes:?}", gemm.name);
                    assert_eq!(sizes.iter().sum::<usize>(), rows, "{place}");
                    assert!(sizes[..sizes.len() - 1].iter().all(|size| size % gemm.rows == 0), "{place}");
                    let packs = !is_read_in_place(gemm, 200, left_strides);
                    assert_eq!(chunks.are_jobs, packs && threads > 1 && rows >= threads * MANY_ROWS, "{place}");
                    if chunks.are_jobs {
                        assert!(
                            chunks.count.is_multiple_of(threads) && sizes[0].abs_diff(sizes[sizes.len() - 1]) < 2 * gemm.rows,
                            "{place}"
                        );
                    }
                    let close = CLOSE / (4 * depth);
                    let fits = sizes.iter().all(|&size| size < close + gemm.rows);
                    assert!(fits || !packs || rows < threads * MANY_ROWS || close < FEWEST_TILES * gemm.rows, "{place}");
                }
            }
        }
    }
}
