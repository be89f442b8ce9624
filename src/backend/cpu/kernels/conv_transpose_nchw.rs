//! ConvTranspose convolutions of float32 with the channels first, as they are where there are few output channels: each tap of the
//! window of each output channel is a row of one product with the pixels of the input. What belongs to an output row is then
//! added up in as many lines as the columns' stride has phases, and these are woven together.
#![allow(unsafe_code)]

use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::conv_transpose::Reach;
use super::packing::pack_rows;
use super::product::{Left, RightView, multiply, pack_panel};
use super::{
    Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, require,
    with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;
use crate::{looks, memory};
use std::ops::Range;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::output::Output;

/// Numbers of a job's product: they stay in a core's second-level cache.
const AT_ONCE: usize = 64 << 10;

#[derive(Debug)]
struct ConvTransposeNchw {
    gemm: &'static Microkernels,
    input: OperandId,
    /// A left operand: a row of channels for each output channel and each row and column of the window.
    taps: AlignedBuffer,
    finish: ConvEpilogue,
    batches: usize,
    channels: usize,
    outputs: usize,
    /// Rows and columns of the window, and how far it is from each to the next.
    window: [usize; 2],
    dilations: [usize; 2],
    rows: Reach,
    columns: Reach,
    /// Rows of the output in a job.
    height: usize,
}

impl Kernel for ConvTransposeNchw {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let rest = self.finish.rest(self.gemm.isa, self.columns.output, arguments);
        let output = arguments.output().elements::<f32>();
        let pixels = self.rows.input * self.columns.input;
        assert_eq!(image.len(), self.batches * self.channels * pixels);
        assert_eq!(output.len(), self.batches * self.outputs * self.rows.output * self.columns.output);
        let output = SharedOutput::new(output);
        let down = self.rows.output.div_ceil(self.height);
        let cost = self.batches * pixels * self.channels * self.taps() / 32;
        for_each_job(self.batches * down, cost, |job| {
            let (batch, first) = (job / down, job % down * self.height);
            let rows = first..self.rows.output.min(first + self.height);
            let image = &image[batch * self.channels * pixels..][..self.channels * pixels];
            let from = self.reached(&rows);
            let count = from.len() * self.columns.input;
            let padded = count.next_multiple_of(self.gemm.columns);
            let lines = self.columns.stride * self.columns.output.div_ceil(self.columns.stride);
            with_scratch(padded * self.channels + self.taps() * count + lines, |scratch| {
                let (panels, scratch) = scratch.split_at_mut(padded * self.channels);
                let (products, lines) = scratch.split_at_mut(self.taps() * count);
                self.multiply(image, from.start * self.columns.input..from.end * self.columns.input, panels, products);
                for plane in 0..self.outputs {
                    for y in rows.clone() {
                        let row = (batch * self.outputs + plane) * self.rows.output + y;
                        let place = row * self.columns.output;
                        // SAFETY: inside the output (`from` asserts that); the rows are this job's.
                        let to = unsafe {
                            let start = output.from(place, place + self.columns.output);
                            std::slice::from_raw_parts_mut(start, self.columns.output)
                        };
                        self.row(plane, y, &from, products, lines, to);
                        self.finish(place, &rest, to);
                    }
                }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.taps.bytes() + self.finish.bytes()
    }
}

impl ConvTransposeNchw {
    /// Rows of the products.
    fn taps(&self) -> usize {
        self.outputs * self.window[0] * self.window[1]
    }

    /// The rows of the input that reach these of the output.
    fn reached(&self, rows: &Range<usize>) -> Range<usize> {
        let Reach { input, stride, padding, .. } = self.rows;
        let farthest = (self.window[0] - 1) * self.dilations[0];
        let first = (rows.start + padding).saturating_sub(farthest).div_ceil(stride).min(input);
        first..((rows.end - 1 + padding) / stride + 1).clamp(first, input)
    }

    /// Multiplies all taps with some pixels.
    fn multiply(&self, image: &[f32], pixels: Range<usize>, panels: &mut [f32], products: &mut [f32]) {
        let (gemm, depth, count) = (self.gemm, self.channels, pixels.len());
        if count == 0 {
            return;
        }
        let strides = [self.rows.input * self.columns.input, 1];
        for (number, panel) in panels.chunks_exact_mut(depth * gemm.columns).enumerate() {
            let first = pixels.start + number * gemm.columns;
            pack_panel(gemm, first..pixels.end.min(first + gemm.columns), depth, image, strides, panel);
        }
        let left = Left::packed(self.taps(), depth, self.taps.as_slice());
        // SAFETY: the only block.
        let mut block = unsafe { Output::new(products, count).block(0..self.taps(), 0..count) };
        multiply(gemm, left, RightView { columns: count, panels }, &mut block, None, None);
    }

    /// Adds up a row of the output.
    fn row(&self, plane: usize, y: usize, from: &Range<usize>, products: &[f32], lines: &mut [f32], to: &mut [f32]) {
        let Reach { input, output, stride, padding } = self.columns;
        let count = from.len() * input;
        let length = output.div_ceil(stride);
        lines.fill(self.finish.bias.get(plane).copied().unwrap_or(0.0));
        for down in 0..self.window[0] {
            let distance = down * self.dilations[0];
            let is_reached = (y + self.rows.padding) % self.rows.stride == distance % self.rows.stride;
            let Some(element) = self.rows.element(y, distance).filter(|_| is_reached) else { continue };
            for across in 0..self.window[1] {
                let tap = (plane * self.window[0] + down) * self.window[1] + across;
                let numbers = &products[tap * count + (element - from.start) * input..][..input];
                // Element x lands on column x stride + distance - padding, the first of its phase if it is below the stride.
                let place = (across * self.dilations[1]) as isize - padding as isize;
                let (phase, shift) = (place.rem_euclid(stride as isize) as usize, place.div_euclid(stride as isize));
                let line = &mut lines[phase * length..][..length];
                let (line, numbers) = match usize::try_from(shift) {
                    Ok(shift) => (&mut line[shift.min(length)..], numbers),
                    Err(_) => (line, &numbers[shift.unsigned_abs().min(input)..]),
                };
                line.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
            }
        }
        for (phase, line) in lines.chunks_exact(length).enumerate().take(output) {
            to[phase..].iter_mut().step_by(stride).zip(line).for_each(|(to, sum)| *to = *sum);
        }
    }

    fn finish(&self, place: usize, rest: &BoundPostOps<'_>, row: &mut [f32]) {
        let clamps = self.finish.clamps;
        if clamps != Default::default() {
            row.iter_mut().for_each(|number| *number = clamps.finish_number(*number, None));
        }
        rest.apply(place, row);
    }
}

/// With the channels first: products of rows of the image with all taps of the filter, added to where they belong.
pub static NCHW: Implementation = Implementation { name: "conv_transpose.nchw", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, gemm, threads) = (problem.conv_transpose2d()?, target.isa.gemm, target.threads);
    let filter = problem.input(op.filter);
    let &[batches, channels, ..] = problem.input(op.input).shape else { return Err(Reject("not an image")) };
    let &[a, b, c, d] = filter.shape else { return Err(Reject("not a filter of 4 dimensions")) };
    let [_, outputs, height, width] = op.filter_layout.to_iohw(&[a, b, c, d]);
    let [from_channel, from_output, from_row, from_column] = op.filter_layout.to_iohw(&[b * c * d, c * d, d, 1]);
    let elements = filter.constant_numbers()?;
    require(op.input_layout == InputOperandLayout::Nchw, "channels not first")?;
    require(op.groups == 1, "several groups")?;
    let finish = ConvEpilogue::of_planes(problem, op.bias)?;
    let (rows, columns) = (Reach::new(op, problem, 0), Reach::new(op, problem, 1));
    Ok(Box::new(move || {
        let count = outputs * height * width;
        memory::require(count * channels * size_of::<f32>())?;
        let taps = AlignedBuffer::packed(&[channels], count * channels, |taps| {
            let elements = elements.all();
            let mut by_tap = Vec::with_capacity(count * channels);
            for tap in 0..count {
                let (output, row, column) = (tap / width / height, tap / width % height, tap % width);
                let first = output * from_output + row * from_row + column * from_column;
                by_tap.extend((0..channels).map(|channel| elements[first + channel * from_channel]));
            }
            pack_rows(gemm, 0..count, channels, &by_tap, [channels, 1], (taps, looks::pauses(by_tap.len())));
        });
        // Each job multiplies the rows of the input that it shares with the next one.
        let at_once = AT_ONCE / (columns.input * (count + channels)).max(1);
        let most = rows.output.div_ceil((threads * 4).div_ceil(batches.max(1)));
        let height_of_job = (at_once * rows.stride).clamp(1, most.max(height));
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let kernel = ConvTransposeNchw {
            gemm,
            input: op.input,
            taps,
            finish,
            batches,
            channels,
            outputs,
            window: [height, width],
            dilations: op.dilations.map(|dilation| dilation as usize),
            rows,
            columns,
            height: height_of_job,
        };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}
