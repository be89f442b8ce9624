//! Products and convolutions of 8-bit integers: the sums are exact, and are scaled and finished tile by tile, while they are
//! in the cache.
//!
//! For bytes `a` with the zero point `p` and weights `w` with the zero points `q` of their columns, a sum of
//! `(a - p) (w - q)` over the depth is that of `a w`, less `p` times the column's sum of weights, less `q` times the row's
//! sum of bytes, plus the depth times `p q`. All of this wraps around where it must, and the result does not
//! (the compiler bounds the depth).
#![allow(unsafe_code)]

#[cfg(test)]
mod graph_tests;
mod panels;
mod rows;
#[cfg(test)]
mod tests;
mod tile;

use super::epilogue::{Epilogue, Rows as Seen};
use super::isa::{Arithmetic, Isa, Loop};
use super::quantize::{Quantize, byte};
use super::{Kernel, Known, Selection, SharedOutput, Site, with_scratch, with_starts};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::{Arguments, View};
use crate::backend::window::Axis;
use crate::graph::DataType::{Int8, Uint8};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{DequantizeLinear, QuantizeLinear};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{DataType, Op, OperandId};
use panels::{Panel, Panels};
use rows::Rows;
use smallvec::SmallVec;
use std::ops::Range;
use tile::{MOST_ROWS, MOST_SUMS, Task, Tiles};

/// Bytes of the left operand that stay in a core's second-level cache while panel after panel passes over them.
const PASSED: usize = 256 << 10;

#[derive(Debug)]
struct Product {
    isa: &'static Isa,
    tiles: &'static Tiles,
    left: DequantizeLinear,
    rows: Rows,
    panels: Panels,
    /// By column: its scale, the sum of its weights, its zero point times the depth; and the zero points if there are any.
    scales: Vec<f32>,
    sums: Vec<i32>,
    depth: i32,
    zeros: Vec<i32>,
    epilogue: Epilogue,
    /// What makes integers of the results, and of which type.
    quantize: Option<(QuantizeLinear, DataType)>,
    division: Division,
}

/// How the output is divided into tiles and jobs.
#[derive(Clone, Copy, Debug)]
struct Division {
    rows: usize,
    tiles: usize,
    /// Tiles and panels of a job.
    block_tiles: usize,
    block_panels: usize,
}

impl Division {
    fn new(tiles: &Tiles, rows: &Rows, panels: &Panels, threads: usize) -> Division {
        let (count, height) = tiles.divide(rows.count());
        let wanted = if threads == 1 { 1 } else { threads * 4 };
        let of_tile = height * rows.offsets.len() * rows.padded_length();
        let block_tiles = (PASSED / of_tile.max(1)).min(count.div_ceil(wanted)).max(1);
        let down = count.div_ceil(block_tiles);
        let block_panels = panels.count().div_ceil(wanted.div_ceil(down)).max(1);
        Division { rows: rows.count(), tiles: count, block_tiles, block_panels }
    }

    /// The rows of a tile: all tiles have nearly the same height.
    fn tile(&self, number: usize) -> Range<usize> {
        let (base, more) = (self.rows / self.tiles, self.rows % self.tiles);
        let first = number * base + number.min(more);
        first..first + base + usize::from(number < more)
    }
}

/// What a run computes with, beside the constants.
struct Run<'a> {
    bytes: &'a [u8],
    /// By column: what is added to the sum of products, and what this is multiplied with then.
    start: &'a [i32],
    factors: Factors<'a>,
    tensors: Vec<&'a [f32]>,
    steps: Option<Steps>,
    output: SharedOutput<'a, u8>,
}

/// The products of both scales, by column.
#[derive(Clone, Copy)]
enum Factors<'a> {
    Numbers(&'a [f32]),
    /// A scale times those of the columns, whose product float32 does not hold well.
    Apart(f32, &'a [f32]),
}

/// How results are quantized.
#[derive(Clone, Copy)]
struct Steps {
    scale: f32,
    zero: i32,
    bounds: [f32; 2],
}

impl Steps {
    fn new(scale: f32, zero: i32, to: DataType) -> Steps {
        let (least, most) = if to == Int8 { (-128, 127) } else { (0, 255) };
        Steps { scale, zero, bounds: [(least - zero) as f32, (most - zero) as f32] }
    }
}

/// The only element of an operand.
fn number(view: View<'_>) -> f32 {
    view.elements::<f32>()[0]
}

impl Kernel for Product {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.left.input);
        let scale = number(arguments.input(self.left.scale));
        // Of bytes without a sign.
        let zero = byte(arguments.input(self.left.zero_point)) + if image.data_type == Int8 { 128 } else { 0 };
        let steps = self
            .quantize
            .as_ref()
            .map(|(op, to)| Steps::new(number(arguments.input(op.scale)), byte(arguments.input(op.zero_point)), *to));
        let tensors = self.epilogue.tensors(arguments);
        let output = SharedOutput::new(&mut *arguments.output().bytes);
        let columns = self.panels.columns;
        with_scratch(2 * columns + self.rows.copied().div_ceil(4), |scratch| {
            let (start, scratch) = scratch.split_at_mut(columns);
            let (factors, copy) = scratch.split_at_mut(columns);
            let start: &mut [i32] = bytemuck::cast_slice_mut(start);
            for (j, start) in start.iter_mut().enumerate() {
                let both = self.zeros.get(j).map_or(0, |own| self.depth.wrapping_mul(zero).wrapping_mul(*own));
                *start = both.wrapping_sub(zero.wrapping_mul(self.sums[j]));
            }
            factors.iter_mut().zip(&self.scales).for_each(|(factor, own)| *factor = scale * own);
            let is_plain = factors.iter().all(|factor| factor.is_normal());
            let factors = if is_plain { Factors::Numbers(factors) } else { Factors::Apart(scale, &self.scales) };
            let bytes = self.rows.copy(image.bytes, zero as u8, bytemuck::cast_slice_mut(copy));
            self.multiply(&Run { bytes, start, factors, tensors, steps, output });
        });
    }

    fn bytes(&self) -> usize {
        let lists = self.scales.len() + self.sums.len() + self.zeros.len();
        self.panels.bytes() + lists * size_of::<f32>() + self.epilogue.bytes()
    }
}

impl Product {
    fn multiply(&self, run: &Run<'_>) {
        let Division { rows, tiles, block_tiles, block_panels } = self.division;
        let across = self.panels.count().div_ceil(block_panels);
        let cost = rows * self.depth as usize * self.panels.columns / 256;
        for_each_job(across * tiles.div_ceil(block_tiles), cost, |job| {
            let first = job / across * block_tiles;
            let panels = job % across * block_panels;
            let panels = panels..self.panels.count().min(panels + block_panels);
            self.block(run, first..tiles.min(first + block_tiles), panels);
        });
    }

    fn block(&self, run: &Run<'_>, tiles: Range<usize>, panels: Range<usize>) {
        let runs = self.rows.offsets.len();
        let of_tile = runs * self.tiles.rows;
        let mut sums = [0i32; MOST_SUMS];
        let mut numbers = [0f32; MOST_SUMS];
        with_starts(tiles.len() * of_tile, |starts| {
            for (tile, starts) in tiles.clone().zip(starts.chunks_exact_mut(of_tile)) {
                self.rows.starts(run.bytes, self.division.tile(tile), starts);
            }
            for panel in panels {
                let panel = self.panels.panel(panel);
                for (tile, starts) in tiles.clone().zip(starts.chunks_exact(of_tile)) {
                    let rows = self.division.tile(tile);
                    let starts = &starts[..runs * rows.len()];
                    self.tile(run, rows, starts, panel, &mut sums, &mut numbers);
                }
            }
        });
    }

    fn tile(
        &self,
        run: &Run<'_>,
        rows: Range<usize>,
        starts: &[*const u8],
        panel: Panel<'_>,
        sums: &mut [i32; MOST_SUMS],
        numbers: &mut [f32; MOST_SUMS],
    ) {
        let (runs, length, width) = (self.rows.offsets.len(), self.rows.padded_length(), panel.vectors * self.tiles.lanes);
        assert_eq!(starts.len(), runs * rows.len());
        assert_eq!(panel.weights.len(), runs * length * width * self.tiles.weight);
        assert!(rows.len() <= self.tiles.rows && rows.len() * width <= MOST_SUMS);
        let (starts_of_runs, weights) = (starts.as_ptr(), panel.weights.as_ptr());
        let task = Task { runs, length, starts: starts_of_runs, weights, sums: sums.as_mut_ptr() };
        // SAFETY: `length` bytes lie at each start (`Rows::starts`); the weights' number and the room were asserted.
        unsafe { self.tiles.run(rows.len(), panel.vectors, &task) };
        let mut row_sums = [0; MOST_ROWS];
        if !self.zeros.is_empty() {
            row_sums.iter_mut().zip(0..rows.len()).for_each(|(sum, row)| *sum = self.rows.sum(starts, rows.len(), row));
        }
        let columns = panel.first..panel.first + panel.columns;
        let numbers = &mut numbers[..rows.len() * columns.len()];
        self.isa.run_loop(Scale {
            sums,
            width,
            start: &run.start[columns.clone()],
            row_sums: &row_sums,
            zeros: self.zeros.get(columns.clone()).unwrap_or_default(),
            factors: run.factors,
            columns: columns.clone(),
            numbers,
        });
        let stride = self.panels.columns;
        self.epilogue.apply_tile(self.isa, rows.clone(), columns.clone(), stride, &run.tensors, numbers);
        let size = if run.steps.is_some() { 1 } else { size_of::<f32>() };
        for (row, numbers) in rows.zip(numbers.chunks_exact(columns.len())) {
            let place = (row * stride + columns.start) * size;
            let end = place + columns.len() * size;
            // SAFETY: inside the output (`from` asserts that); jobs have different rows or columns.
            let bytes = unsafe { std::slice::from_raw_parts_mut(run.output.from(place, end), end - place) };
            match run.steps {
                Some(Steps { scale, zero, bounds }) => self.isa.run_loop(Quantize { numbers, bytes, scale, zero, bounds }),
                None => bytes.copy_from_slice(bytemuck::cast_slice(numbers)),
            }
        }
    }
}

/// Makes numbers of a tile's sums.
struct Scale<'a> {
    sums: &'a [i32; MOST_SUMS],
    /// Sums from one row to the next.
    width: usize,
    start: &'a [i32],
    row_sums: &'a [i32; MOST_ROWS],
    zeros: &'a [i32],
    factors: Factors<'a>,
    columns: Range<usize>,
    numbers: &'a mut [f32],
}

impl Loop for Scale<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Scale { sums, width, start, row_sums, zeros, factors, columns, numbers } = self;
        let rows = numbers.chunks_exact_mut(columns.len()).zip(sums.chunks_exact(width)).zip(row_sums);
        for ((numbers, sums), &row_sum) in rows {
            let mut corrected = [0i32; 2 * 16];
            let corrected = &mut corrected[..columns.len()];
            for ((to, sum), start) in corrected.iter_mut().zip(sums).zip(start) {
                *to = sum.wrapping_add(*start);
            }
            if !zeros.is_empty() {
                for (to, zero) in corrected.iter_mut().zip(zeros) {
                    *to = to.wrapping_sub(zero.wrapping_mul(row_sum));
                }
            }
            match factors {
                Factors::Numbers(factors) => {
                    for ((number, sum), factor) in numbers.iter_mut().zip(&*corrected).zip(&factors[columns.clone()]) {
                        *number = *sum as f32 * factor;
                    }
                }
                Factors::Apart(scale, scales) => {
                    for ((number, sum), own) in numbers.iter_mut().zip(&*corrected).zip(&scales[columns.clone()]) {
                        *number = (f64::from(*sum) * f64::from(scale) * f64::from(*own)) as f32;
                    }
                }
            }
        }
    }
}

pub fn select(site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    select_with(site, isa, Tiles::of(isa))
}

/// The right operand as columns of weights.
struct Weights<'a> {
    bytes: &'a [u8],
    /// Elements from one column to the next, and from one element of the window to the next line, column, channel.
    column: usize,
    taps: [usize; 3],
}

fn select_with(site: &Site<'_>, isa: &'static Isa, tiles: &'static Tiles) -> Option<Selection> {
    let [Op::DequantizeLinear(left), Op::DequantizeLinear(right)] = site.dequantized else { return None };
    let known = |id: OperandId| site.inputs[id.0 as usize];
    let (image, weights) = (known(left.input), known(right.input));
    let bytes = weights.constant?;
    let signed = image.data_type == Int8;
    let mut taken: SmallVec<[usize; 2]> =
        [right.input, right.scale, right.zero_point].map(|id| id.0 as usize).into_iter().collect();
    let matrix = |columns: usize, [column, depth]: [usize; 2]| {
        let depth_of_all = image.shape.last().copied()?;
        let rows = Rows::matrix(image.shape.iter().product::<usize>() / depth_of_all.max(1), depth_of_all, signed);
        Some((rows, columns, Weights { bytes, column, taps: [0, 0, depth] }))
    };
    let (rows, columns, weights_of, bias) = match site.op {
        Op::Matmul(_) => {
            let columns = *weights.shape.last()?;
            let (rows, columns, weights) = matrix(columns, [1, columns])?;
            (rows, columns, weights, None)
        }
        Op::Gemm(op) => {
            let &[b, c] = weights.shape else { return None };
            let (columns, strides) = if op.b_transpose { (b, [c, 1]) } else { (c, [1, c]) };
            let (rows, columns, weights) = matrix(columns, strides)?;
            (rows, columns, weights, op.c)
        }
        Op::Conv2d(op) => {
            let (rows, columns, weights) = image_of(op, site, image, weights.shape, bytes, signed)?;
            (rows, columns, weights, op.bias)
        }
        _ => return None,
    };
    let scales = known(right.scale).elements()?;
    let zeros = known(right.zero_point).constant?;
    let of_column = |j: usize, count: usize| if count == 1 { 0 } else { j };
    // Weights without a sign are moved down by 128, and their zero points with them.
    let is_shifted = weights.data_type == Uint8;
    let weight = |run: usize, byte: usize, column: usize| {
        let place: usize = rows.tap(run, byte).iter().zip(weights_of.taps).map(|(at, stride)| at * stride).sum();
        let byte = weights_of.bytes[place + column * weights_of.column];
        if is_shifted { (byte ^ 128) as i8 } else { byte as i8 }
    };
    let zero = |j: usize| {
        let byte = zeros[of_column(j, zeros.len())];
        i32::from(if is_shifted { (byte ^ 128) as i8 } else { byte as i8 })
    };
    let runs = rows.offsets.len();
    let panels = Panels::pack(tiles, runs, rows.length, columns, weight);
    let mut sums = vec![0i32; columns];
    for run in 0..runs {
        for byte in 0..rows.length {
            sums.iter_mut().enumerate().for_each(|(j, sum)| *sum += i32::from(weight(run, byte, j)));
        }
    }
    let zeros = if (0..columns).any(|j| zero(j) != 0) { (0..columns).map(zero).collect() } else { Vec::new() };
    let mut row = None;
    if let Some(bias) = bias {
        row = Some(known(bias).elements()?.to_vec());
        taken.push(bias.0 as usize);
    }
    let (fused, quantize) = match site.fused {
        [fused @ .., Op::QuantizeLinear(op)] => (fused, Some((op.clone(), site.output.data_type))),
        fused => (fused, None),
    };
    let mut epilogue = Epilogue::new(row, Seen::Leading);
    if !epilogue.fuse(&Site { fused, ..*site }, Seen::Leading, &mut taken) {
        return None;
    }
    let division = Division::new(tiles, &rows, &panels, site.threads);
    let kernel = Product {
        isa,
        tiles,
        left: left.clone(),
        depth: (runs * rows.length) as i32,
        rows,
        panels,
        scales: (0..columns).map(|j| scales[of_column(j, scales.len())]).collect(),
        sums,
        zeros,
        epilogue,
        quantize,
        division,
    };
    Some(Selection { kernel: Box::new(kernel), taken, fuses: true })
}

/// The windows of a convolution with the channels last, its output channels, and its weights.
fn image_of<'a>(
    op: &Conv2d,
    site: &Site<'_>,
    image: Known<'_>,
    shape: &[usize],
    bytes: &'a [u8],
    signed: bool,
) -> Option<(Rows, usize, Weights<'a>)> {
    let (&[a, b, c, d], &[batches, height, width, channels]) = (shape, image.shape) else { return None };
    if op.input_layout != InputOperandLayout::Nhwc || op.groups != 1 {
        return None;
    }
    let [outputs, _, window_height, window_width] = op.filter_layout.to_oihw(&[a, b, c, d]);
    let [column, channel, line, across] = op.filter_layout.to_oihw(&[b * c * d, c * d, d, 1]);
    let axis = |number: usize, input: usize, window: usize| {
        Axis::new(number, (input, site.output.shape[1 + number], window), (&op.strides, &op.dilations, &op.padding))
    };
    let rows = Rows::image(batches, (axis(0, height, window_height), axis(1, width, window_width)), channels, signed);
    Some((rows, outputs, Weights { bytes, column, taps: [line, across, channel] }))
}
