//! Convolutions of float32 whose input has few channels, as pictures have. The input has its channels first, each a plane of
//! its own, so that a row of the window is a run of each channel wherever it lies; the output has its channels last. So
//! a picture need not be reordered before.
#![allow(unsafe_code)]

use super::conv::{Filter, axis, spread};
use super::conv_epilogue::ConvEpilogue;
use super::panels::{Elements, Panels};
use super::stored::for_each_stored_piece;
use super::{
    Accepted, AlignedBuffer, Bf16Support, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require,
    with_scratch, with_starts,
};
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use crate::looks::Progress;
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::isa::Isa;

/// How the input lies in memory: `[batches, channels, height, width]`, by the dimensions that the operator sees.
const PLANES: [u32; 4] = [0, 2, 3, 1];

#[derive(Debug)]
struct FirstLayer {
    isa: &'static Isa,
    tiles: &'static Tiles,
    input: OperandId,
    /// A run for each channel and row of the window.
    panels: Panels,
    bias: AlignedBuffer,
    finish: ConvEpilogue,
    channels: usize,
    rows: Axis,
    columns: Axis,
    /// What stands for runs in the padding.
    zeros: AlignedBuffer,
}

impl Kernel for FirstLayer {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.panels.columns, arguments);
        let (row, runs) = (self.columns.output * self.panels.columns, self.runs());
        let cost = self.cost(self.columns.output, self.panels.columns);
        for_each_stored_piece(self.isa, arguments.output(), row, cost, |first, output| {
            with_scratch(runs * self.reach(), |copies| {
                with_starts(2 * runs, |places| {
                    for (i, output) in output.chunks_exact_mut(row).enumerate() {
                        let place = (first + i) * row;
                        let added = added.map(|added| &added[place..place + row]);
                        self.row(image, first + i, added, output, places, copies);
                        rest.apply(place, output);
                    }
                });
            });
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        Bf16Support { stores: true, rounds_output: true, ..Bf16Support::default() }
    }

    fn bytes(&self) -> usize {
        self.panels.bytes() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

impl FirstLayer {
    /// About how many nanoseconds some channels of some pixels take.
    fn cost(&self, pixels: usize, channels: usize) -> usize {
        pixels * channels * self.panels.depth / 32
    }

    fn runs(&self) -> usize {
        self.channels * self.rows.window
    }

    /// Pixels that are computed together.
    fn together(&self) -> usize {
        if self.columns.output < self.tiles.rows { 1 } else { self.tiles.rows }
    }

    /// Columns of the input under the windows of a tile.
    fn reach(&self) -> usize {
        (self.together() - 1) * self.columns.stride + (self.columns.window - 1) * self.columns.dilation + 1
    }

    /// Computes a row of the output, by its number among those of all images. `places` has room for the runs of a tile, and for the
    /// lines of the input that they lie in.
    fn row(
        &self,
        image: &[f32],
        number: usize,
        added: Option<&[f32]>,
        output: &mut [f32],
        places: &mut [*const f32],
        copies: &mut [f32],
    ) {
        let (width, together, outputs) = (self.columns.output, self.together(), self.panels.columns);
        let progress = Progress::of(self.cost(width, outputs));
        let (lines, starts) = places.split_at_mut(self.runs());
        self.lines(image, number, lines);
        for panel in self.panels.parts(0..self.panels.count()) {
            let place = panel.first..(width - 1) * outputs + panel.first + panel.columns;
            let added = added.map_or(std::ptr::null(), |added| added[place.clone()].as_ptr());
            let output = output[place].as_mut_ptr();
            let mut task = panel.task([self.runs(), self.columns.window], starts, (output, outputs));
            (task.input.step, task.input.dilation) = (self.columns.stride, self.columns.dilation);
            task.weights.bias = panel.bias(self.bias.as_slice());
            task.clamps = self.finish.clamps;
            for x in (0..width).step_by(together) {
                // What is left over at the end is computed together with some pixels before, once more.
                let x = x.min(width - together);
                self.starts(lines, x, starts, copies);
                task.input.starts = starts.as_ptr();
                task.output.start = output.wrapping_add(x * outputs);
                task.added.start = if added.is_null() { added } else { added.wrapping_add(x * outputs) };
                // SAFETY: `reach` numbers lie at every start (`starts`), which is how far the windows of these pixels go; there is
                // one for each run; the weights' number was asserted; the bias, the output and what is added were sliced to
                // what the panel touches.
                unsafe { self.tiles.run_spaced(together, &task) }
                progress.made(self.cost(together, panel.columns));
            }
        }
    }

    /// Finds the lines of the input that are under the window in a row of the output; null in the padding.
    fn lines(&self, image: &[f32], number: usize, lines: &mut [*const f32]) {
        let (batch, y) = (number / self.rows.output, number % self.rows.output);
        let width = self.columns.input;
        for (run, line) in lines.iter_mut().enumerate() {
            let (channel, tap) = (run / self.rows.window, run % self.rows.window);
            *line = self.rows.element(y, tap).map_or(std::ptr::null(), |row| {
                image[((batch * self.channels + channel) * self.rows.input + row) * width..][..width].as_ptr()
            });
        }
    }

    /// Finds the runs of the pixels from column `x` on. What reaches into the padding is copied.
    fn starts(&self, lines: &[*const f32], x: usize, starts: &mut [*const f32], copies: &mut [f32]) {
        let (reach, width) = (self.reach(), self.columns.input);
        // Columns of the input: those there are, and how many of the padding stand before them.
        let first = (x * self.columns.stride) as isize - self.columns.padding as isize;
        let before = first.min(0).unsigned_abs().min(reach);
        let from = (first.max(0) as usize).min(width);
        let count = (width - from).min(reach - before);
        let zeros = self.zeros.as_slice()[..reach].as_ptr();
        assert!(lines.len() == starts.len() && copies.len() >= lines.len() * reach);
        if count == reach {
            for (start, line) in starts.iter_mut().zip(lines) {
                *start = if line.is_null() { zeros } else { line.wrapping_add(from) };
            }
            return;
        }
        for ((start, line), copy) in starts.iter_mut().zip(lines).zip(copies.chunks_exact_mut(reach)) {
            *start = zeros;
            if !line.is_null() {
                // SAFETY: a line has `width` numbers (`lines`), of an image that is borrowed meanwhile.
                let there = unsafe { std::slice::from_raw_parts(line.add(from), count) };
                copy.fill(0.0);
                copy[before..before + count].copy_from_slice(there);
                *start = copy.as_ptr();
            }
        }
    }
}

/// An image with its channels first in memory, or a single one, and a constant filter.
pub static FIRST_LAYER: Implementation = Implementation { name: "conv.first_layer", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Conv2d(op) = problem.op else { return Err(Reject("not a conv2d")) };
    let isa = target.isa;
    let (filter, [outputs, channels, height, width]) = Filter::of(op, problem)?;
    let input = problem.input(op.input);
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last for the operator")?;
    require(op.groups == 1, "several groups")?;
    let tuning = target.tuning;
    match input.order {
        Some(order) => {
            require(order == PLANES, "an image in another order than channels first")?;
            require(channels <= tuning.first_layer_channels, "many channels")?;
            require(input.shape[1].min(input.shape[2]) >= tuning.first_layer_size, "few rows or columns")?;
            require(outputs >= tuning.first_layer_outputs, "few output channels")?;
        }
        None => {
            require(channels == 1, "channels last in memory, and more than one")?;
            let size = problem.output.shape[1].min(problem.output.shape[2]);
            require(size >= tuning.first_layer_size, "few rows or columns")?;
        }
    }
    let weights = outputs * channels * height * width;
    require(weights <= tuning.first_layer_weights, "a filter that does not stay in the cache")?;
    let mut finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (axis(op, 0, input.shape[1], height, problem), axis(op, 1, input.shape[2], width, problem));
    Ok(Box::new(move || {
        let tiles = Tiles::of_columns(isa, outputs);
        let runs = (0..channels * height).map(|row| filter.place([0, row / height, row % height, 0]));
        let [column, .., step] = filter.strides;
        let panels = Panels::pack(tiles, &Elements { elements: filter.elements, length: width, step, column }, runs, outputs);
        let bias = spread(&mut finish.bias, 1, tiles.step);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let zeros = AlignedBuffer::zeroed(0);
        let mut kernel = FirstLayer { isa, tiles, input: op.input, panels, bias, finish, channels, rows, columns, zeros };
        kernel.zeros = AlignedBuffer::zeros(kernel.reach());
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}
