//! One product, tile by tile, and what becomes of the sums of each tile while they are in the cache.
#![allow(unsafe_code)]

use super::in_parts;
use super::rows::Rows;
use crate::backend::cpu::kernels::epilogue::Epilogue;
use crate::backend::cpu::kernels::{SharedOutput, with_scratch, with_starts};
use crate::backend::cpu::threads::for_each_job;
use crate::looks::{self, Progress};
use std::ops::Range;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::epilogue::post_ops::Tile;
use webnn_kernels::epilogue::single_pass::{Pass, PassOver, To};
use webnn_kernels::int8::microkernels::{self, MOST_NUMBERS, Task, Tiles, WIDEST};
use webnn_kernels::int8::panels::{Panel, PanelsView};
use webnn_kernels::int8::row_sums::add_up_rows;
use webnn_kernels::isa::Isa;
use webnn_kernels::quantize::{Quantize, Steps};

/// Bytes of the left operand and the output that stay in a core's second-level cache while panel after panel passes over them.
const PASSED: usize = 256 << 10;
/// So many tiles of a block are enough for weights to be read from another cache.
const LEAST_TILES: usize = 12;

/// How the output is divided into tiles and jobs.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    rows: usize,
    tiles: usize,
    /// Tiles and panels of a job.
    block_tiles: usize,
    block_panels: usize,
}

impl Division {
    /// For so many panels and threads.
    pub fn new(tiles: &Tiles, rows: &Rows, panels: usize, threads: usize) -> Division {
        let (count, height) = tiles.divide(rows.count());
        let wanted = if threads == 1 { 1 } else { threads * 4 };
        let of_tile = height * rows.offsets.len() * rows.padded_length();
        // With few rows weights would come from far away too often.
        let with_output = of_tile + height * panels * WIDEST * tiles.lanes * size_of::<f32>();
        let fitting = (PASSED / of_tile.max(1)).min((PASSED / with_output.max(1)).max(LEAST_TILES));
        let block_tiles = fitting.min(count.div_ceil(wanted)).max(1);
        let down = count.div_ceil(block_tiles);
        let block_panels = panels.div_ceil(wanted.div_ceil(down)).max(1);
        Division { rows: rows.count(), tiles: count, block_tiles, block_panels }
    }

    /// The rows of a tile: all tiles have nearly the same height.
    fn tile(&self, number: usize) -> Range<usize> {
        let (base, more) = (self.rows / self.tiles, self.rows % self.tiles);
        let first = number * base + number.min(more);
        first..first + base + usize::from(number < more)
    }
}

/// The products of both scales, by column.
#[derive(Clone, Copy)]
pub enum Factors<'a> {
    Numbers(&'a [f32]),
    /// A scale times those of the columns, whose product float32 does not hold well.
    Apart(f32, &'a [f32]),
    /// There are none: the bits of the sums are wanted.
    None,
}

/// A product of bytes with panels of weights, and where it goes.
pub struct Multiplication<'a> {
    pub isa: &'static Isa,
    pub tiles: &'static Tiles,
    pub rows: &'a Rows,
    /// The rows' bytes.
    pub bytes: &'a [u8],
    pub panels: PanelsView<'a>,
    /// By column, with those that fill up the last vector: what is added to the sum of products, and what this is multiplied
    /// with then.
    pub start: &'a [i32],
    pub factors: Factors<'a>,
    /// The weights' zero points, unless all are 0.
    pub zeros: &'a [i32],
    pub epilogue: &'a Epilogue,
    pub tensors: &'a [Stored<'a>],
    pub steps: Option<Steps>,
    /// Float32 or int32 numbers, or bytes if they are quantized.
    pub output: &'a SharedOutput<'a, u8>,
    /// The first row of the output that this product makes.
    pub first_row: usize,
    pub division: Division,
}

impl Multiplication<'_> {
    pub fn run(&self) {
        let Division { rows, tiles, block_tiles, block_panels } = self.division;
        let across = self.panels.count().div_ceil(block_panels);
        let depth = self.rows.offsets.len() * self.rows.length;
        let cost = (rows * self.panels.columns).saturating_mul(depth) / 256;
        let pass = Pass::of(self.epilogue.post_ops().list(), self.tensors);
        for_each_job(across * tiles.div_ceil(block_tiles), cost, |job| {
            let first = job / across * block_tiles;
            let panels = job % across * block_panels;
            let panels = panels..self.panels.count().min(panels + block_panels);
            self.block(first..tiles.min(first + block_tiles), panels, &pass);
        });
    }

    fn block(&self, tiles: Range<usize>, panels: Range<usize>, pass: &Pass<'_>) {
        let (runs, most) = (self.rows.offsets.len(), self.tiles.rows);
        let of_tile = runs * most;
        let cost = |rows: usize, panels: usize| {
            in_parts::cost(runs * self.rows.padded_length(), rows, panels * WIDEST * self.tiles.lanes)
        };
        let progress = Progress::of(cost(tiles.len() * most, panels.len()));
        let mut numbers = [0f32; MOST_NUMBERS];
        with_scratch(if self.zeros.is_empty() { 0 } else { tiles.len() * most }, |row_sums| {
            let row_sums: &mut [i32] = bytemuck::cast_slice_mut(row_sums);
            let gathered = self.tiles.gathered(runs * self.rows.padded_length());
            let _configured = self.tiles.configured();
            with_gathered_starts(tiles.len(), of_tile, gathered, |starts, room| {
                for (number, starts) in starts.chunks_exact_mut(of_tile).enumerate() {
                    let rows = self.division.tile(tiles.start + number);
                    self.rows.starts(self.bytes, rows.clone(), starts);
                    if !self.zeros.is_empty() {
                        let sums = &mut row_sums[number * most..][..rows.len()];
                        let starts = &starts[..runs * rows.len()];
                        // SAFETY: a run lies at each start (`Rows::starts`), in memory that is borrowed as long as they are used.
                        unsafe { add_up_rows(self.isa, starts, self.rows.length, sums, looks::pauses(self.rows.length)) };
                    }
                    let room = &mut room[number * gathered..][..gathered];
                    let starts = &mut starts[..runs * rows.len()];
                    self.tiles.gather(self.isa, starts, rows.len(), self.rows.padded_length(), room);
                }
                for panel in panels {
                    let panel = self.panels.panel(panel);
                    for (number, starts) in starts.chunks_exact(of_tile).enumerate() {
                        let rows = self.division.tile(tiles.start + number);
                        let row_sums = if self.zeros.is_empty() { &[] } else { &row_sums[number * most..][..rows.len()] };
                        self.tile(rows.clone(), &starts[..runs * rows.len()], row_sums, (panel, pass), &mut numbers);
                        progress.made(cost(rows.len(), 1));
                    }
                }
            });
        });
    }

    fn tile(
        &self,
        rows: Range<usize>,
        starts: &[*const u8],
        row_sums: &[i32],
        (panel, pass): (Panel<'_>, &Pass<'_>),
        numbers: &mut [f32; MOST_NUMBERS],
    ) {
        let (runs, length, width) = (self.rows.offsets.len(), self.rows.padded_length(), panel.vectors * self.tiles.lanes);
        let (height, stride) = (rows.len(), self.panels.columns);
        let columns = panel.first..panel.first + panel.columns;
        let rows = self.first_row + rows.start..self.first_row + rows.end;
        let size = if self.steps.is_some() { 1 } else { size_of::<f32>() };
        let place = |row: usize, column: usize| (row * stride + column) * size;
        let wide = panel.first..panel.first + width;
        // Where the numbers are finished as they leave the registers, they go where they belong.
        let is_apart = matches!(self.factors, Factors::Apart(..));
        let is_direct = self.steps.is_none() && self.epilogue.is_empty() && columns.len() == width && !is_apart;
        let (output, stride_of_tile) = match is_direct {
            true => (self.output.from(place(rows.start, columns.start), place(rows.end - 1, columns.end)).cast(), stride),
            false => (numbers.as_mut_ptr().cast(), width),
        };
        let epilogue = microkernels::Epilogue {
            start: self.start[wide.clone()].as_ptr(),
            zeros: if self.zeros.is_empty() { std::ptr::null() } else { self.zeros[wide.clone()].as_ptr() },
            row_sums: row_sums.as_ptr(),
            factors: match self.factors {
                Factors::Numbers(factors) => factors[wide.clone()].as_ptr(),
                _ => std::ptr::null(),
            },
        };
        assert_eq!(starts.len(), runs * height);
        assert_eq!(panel.weights.len(), (runs * length).next_multiple_of(self.tiles.depth()) * width * self.tiles.weight);
        assert!(height <= self.tiles.rows && (is_direct || height * width <= numbers.len()));
        assert!(self.zeros.is_empty() || row_sums.len() == height);
        let is_long = Progress::of(in_parts::cost(runs * length, height, width)).is_long;
        let (starts, weights) = (starts.as_ptr(), panel.weights.as_ptr());
        let task = Task { runs, length, rows: height, starts, weights, epilogue, output, stride: stride_of_tile };
        // SAFETY: `length` bytes lie at each start (`Rows::starts`), or all of them at the first (`Tiles::gather`); the registers are
        // configured (`block`); the numbers of weights, of what finishes the columns and rows, and the room were asserted; products and
        // jobs have different rows or columns of the output.
        unsafe {
            if is_long {
                in_parts::run(self.tiles, panel.vectors, &task);
            } else {
                self.tiles.run(panel.vectors, &task);
            }
        }
        if is_direct {
            return;
        }
        let numbers = &mut numbers[..height * width];
        if let Factors::Apart(scale, scales) = self.factors {
            for (i, number) in numbers.iter_mut().enumerate() {
                let sum = f64::from(number.to_bits() as i32);
                *number = (sum * f64::from(scale) * f64::from(scales[wide.start + i % width])) as f32;
            }
        }
        let (first, end) = (place(rows.start, columns.start), place(rows.end - 1, columns.end));
        let output = self.output.from(first, end);
        let is_all = pass.post_ops == self.epilogue.post_ops().list().len();
        let from = numbers.as_mut_ptr();
        let to = match self.steps {
            Some(steps) if is_all => To::Bytes(output, stride, steps),
            None if is_all => To::Numbers(output.cast(), stride),
            _ => To::Numbers(from, width),
        };
        if is_all || pass.post_ops > 0 {
            let place = [rows.clone(), columns.clone()];
            // SAFETY: rows of `width` numbers, and the output's columns of those rows (`from` asserts that they are inside); products
            // and jobs have different rows or columns of the output.
            unsafe { PassOver::new(pass, place, stride, (from, width), to) }.compute(self.isa);
        }
        if is_all {
            return;
        }
        let tile = Tile { rows: rows.clone(), columns: columns.clone(), stride, width };
        self.epilogue.post_ops().after(pass.post_ops).apply_tile(self.isa, tile, &self.tensors[pass.tensors..], numbers);
        for (row, numbers) in rows.zip(numbers.chunks_exact(width)) {
            let (first, end) = (place(row, columns.start), place(row, columns.end));
            let numbers = &numbers[..columns.len()];
            // SAFETY: inside the output (`from` asserts that); products and jobs have different rows or columns.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.output.from(first, end), end - first) };
            match self.steps {
                Some(steps) => Quantize { numbers, bytes, steps }.compute(self.isa),
                None => bytes.copy_from_slice(bytemuck::cast_slice(numbers)),
            }
        }
    }
}

/// Calls `body` with pointers for so many tiles, and room for so many bytes of each.
fn with_gathered_starts(tiles: usize, starts: usize, bytes: usize, body: impl FnOnce(&mut [*const u8], &mut [u8])) {
    with_scratch((tiles * bytes).div_ceil(size_of::<f32>()), |room| {
        with_starts(tiles * starts, |starts| body(starts, bytemuck::cast_slice_mut(room)));
    });
}
