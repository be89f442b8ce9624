//! ConvTranspose convolutions of float32 with the channels last. The pixels of the output whose places have the same remainder
//! by the strides (a *phase*) are made from the input by the same elements of the filter's window: each phase is a
//! convolution with stride 1, and is computed like one.
#![allow(unsafe_code)]

use super::conv::spread;
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::panels::{Elements, Panels};
use super::{
    Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, require,
    with_starts,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::conv::ConvTranspose2d;
use crate::graph::ops::layout::InputOperandLayout;
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::isa::Isa;

/// With fewer output channels in a group most of a vector would be empty.
pub const LEAST_OUTPUTS: usize = 8;

#[derive(Debug)]
struct ConvTranspose {
    isa: &'static Isa,
    tiles: &'static Tiles,
    input: OperandId,
    phases: Vec<Phase>,
    /// For each group, a number for each column of its panels, those that do not exist too.
    bias: AlignedBuffer,
    finish: ConvEpilogue,
    batches: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    rows: Reach,
    columns: Reach,
    /// What stands for pixels outside of the input.
    zeros: AlignedBuffer,
}

/// How an axis grows.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    pub input: usize,
    pub output: usize,
    pub stride: usize,
    pub padding: usize,
}

impl Reach {
    /// Of the height (0) or the width (1) of images.
    pub fn new(op: &ConvTranspose2d, problem: &Problem<'_>, axis: usize) -> Reach {
        let first = if op.input_layout == InputOperandLayout::Nhwc { 1 } else { 2 };
        Reach {
            input: problem.inputs[op.input.0 as usize].shape[first + axis],
            output: problem.output.shape[first + axis],
            stride: op.strides[axis] as usize,
            padding: op.padding[2 * axis] as usize,
        }
    }

    fn phase(&self, position: usize) -> usize {
        (position + self.padding) % self.stride
    }

    /// The element of the input that reaches a position by an element of the window that lies so far from its first one.
    pub fn element(&self, position: usize, distance: usize) -> Option<usize> {
        let place = (position + self.padding).checked_sub(distance)?;
        Some(place / self.stride).filter(|&element| element < self.input)
    }
}

#[derive(Debug)]
struct Phase {
    /// How far the elements of the window lie from its first one: rows and columns of the output.
    taps: Vec<[usize; 2]>,
    /// One for each group.
    panels: Vec<Panels>,
}

impl Kernel for ConvTranspose {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.outputs, arguments);
        let output = arguments.output().elements::<f32>();
        assert_eq!(image.len(), self.batches * self.rows.input * self.columns.input * self.channels);
        assert_eq!(output.len(), self.batches * self.rows.output * self.columns.output * self.outputs);
        let output = SharedOutput::new(output);
        let depth: usize = self.phases.iter().map(|phase| phase.panels[0].depth).sum();
        let cost = self.batches * self.rows.output * self.columns.output * self.outputs * depth / self.phases.len() / 64;
        for_each_job(self.batches * self.rows.output, cost, |line| self.line(image, added, &rest, &output, line));
    }

    fn bytes(&self) -> usize {
        let panels = self.phases.iter().flat_map(|phase| &phase.panels);
        panels.map(Panels::bytes).sum::<usize>() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

impl ConvTranspose {
    /// Computes a row of the output.
    fn line(&self, image: &[f32], added: Option<&[f32]>, rest: &BoundPostOps<'_>, output: &SharedOutput<'_>, line: usize) {
        let (rows, columns) = (self.rows, self.columns);
        let (batch, y) = (line / rows.output, line % rows.output);
        for first in 0..columns.stride.min(columns.output) {
            let phase = &self.phases[rows.phase(y) * columns.stride + columns.phase(first)];
            let count = (columns.output - first).div_ceil(columns.stride);
            let (tiles, height) = self.tiles.divide(count);
            with_starts(phase.taps.len() * self.tiles.rows, |starts| {
                for tile in 0..tiles {
                    let from = tile * height;
                    let pixels = height.min(count.saturating_sub(from));
                    let starts = &mut starts[..phase.taps.len() * pixels];
                    for group in 0..self.groups {
                        for (i, start) in starts.iter_mut().enumerate() {
                            let [down, across] = phase.taps[i / pixels];
                            let x = first + (from + i % pixels) * columns.stride;
                            *start = match (rows.element(y, down), columns.element(x, across)) {
                                (Some(y), Some(x)) => {
                                    let place = ((batch * rows.input + y) * columns.input + x) * self.channels;
                                    let of_group = self.channels / self.groups;
                                    image[place + group * of_group..][..of_group].as_ptr()
                                }
                                _ => self.zeros.as_slice().as_ptr(),
                            };
                        }
                        self.tile(
                            phase,
                            group,
                            line * columns.output + first + from * columns.stride,
                            starts,
                            pixels,
                            added,
                            output,
                        );
                    }
                }
            });
        }
        let length = columns.output * self.outputs;
        if !rest.is_empty() {
            // SAFETY: inside the output (`from` asserts that); the row is this job's, which has written it.
            let numbers = unsafe { std::slice::from_raw_parts_mut(output.from(line * length, (line + 1) * length), length) };
            rest.apply(line * length, numbers);
        }
    }

    /// Computes some pixels of a phase, from number `pixel` of the output on.
    #[allow(clippy::too_many_arguments, reason = "they are what a tile is made from")]
    fn tile(
        &self,
        phase: &Phase,
        group: usize,
        pixel: usize,
        starts: &[*const f32],
        pixels: usize,
        added: Option<&[f32]>,
        output: &SharedOutput<'_>,
    ) {
        if pixels == 0 {
            return;
        }
        let panels = &phase.panels[group];
        let stride = self.columns.stride * self.outputs;
        let length = self.channels / self.groups;
        for panel in panels.parts(0..panels.count()) {
            let place = pixel * self.outputs + group * panels.columns + panel.first;
            let end = place + (pixels - 1) * stride + panel.columns;
            let bias = self.bias.as_slice();
            let mut task = panel.task([phase.taps.len(), length], starts, (output.from(place, end), stride));
            task.weights.bias = panel.bias(&bias[group * (bias.len() / self.groups)..]);
            if let Some(added) = added {
                task.added.start = added[place..end].as_ptr();
            }
            task.clamps = self.finish.clamps;
            assert_eq!(starts.len(), task.input.runs * pixels);
            // SAFETY: `starts` has runs of `length` numbers, which are sliced or the zeros; the weights' number was asserted;
            // the bias, the output and what is added were sliced to what the tile touches; jobs have different rows, tiles
            // different pixels or columns.
            unsafe { self.tiles.run(pixels, &task) }
        }
    }
}

/// One dense convolution for each phase of the strides, with the channels last.
pub static PHASES: Implementation = Implementation { name: "conv_transpose.phases", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, isa) = (problem.conv_transpose2d()?, target.isa);
    let input = problem.input(op.input);
    let filter = problem.input(op.filter);
    let groups = op.groups as usize;
    let &[a, b, c, d] = filter.shape else { return Err(Reject("not a filter of 4 dimensions")) };
    let [channels, of_group, height, width] = op.filter_layout.to_iohw(&[a, b, c, d]);
    let [from_channel, from_output, from_row, from_column] = op.filter_layout.to_iohw(&[b * c * d, c * d, d, 1]);
    let elements = filter.constant_numbers()?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    require(of_group >= LEAST_OUTPUTS, "too few output channels")?;
    let mut finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (Reach::new(op, problem, 0), Reach::new(op, problem, 1));
    // A phase that reaches no element of the output is not worth the memory for it.
    let are_used = rows.stride <= rows.output && columns.stride <= columns.output;
    require(are_used, "strides larger than the output")?;
    Ok(Box::new(move || {
        let tiles = Tiles::of(isa);
        let length = channels / groups;
        let [down, across] = op.dilations.map(|dilation| dilation as usize);
        let phases = (0..rows.stride * columns.stride).map(|phase| {
            let (y, x) = (phase / columns.stride, phase % columns.stride);
            let elements_of = |size: usize, distance: usize, stride: usize, phase: usize| {
                (0..size).filter(move |i| i * distance % stride == phase)
            };
            let taps: Vec<[usize; 2]> = elements_of(height, down, rows.stride, y)
                .flat_map(|i| elements_of(width, across, columns.stride, x).map(move |j| [i, j]))
                .collect();
            let panels = (0..groups).map(|group| {
                let first = group * length * from_channel;
                let runs = taps.iter().map(|[i, j]| first + i * from_row + j * from_column);
                Panels::pack(tiles, &Elements { elements, length, step: from_channel, column: from_output }, runs, of_group)
            });
            let panels = panels.collect();
            Phase { taps: taps.iter().map(|[i, j]| [i * down, j * across]).collect(), panels }
        });
        let phases = phases.collect();
        let bias = spread(&mut finish.bias, groups, tiles.step);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let kernel = ConvTranspose {
            isa,
            tiles,
            input: op.input,
            phases,
            bias,
            finish,
            batches: input.shape[0],
            channels,
            outputs: of_group * groups,
            groups,
            rows,
            columns,
            zeros: AlignedBuffer::zeros(length),
        };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}
