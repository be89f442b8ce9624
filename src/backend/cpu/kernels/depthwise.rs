//! Depthwise convolutions of float32: every channel has a filter of its own.

use super::conv::axis;
use super::epilogue::{Epilogue, Rows};
use super::isa::{Isa, Loop, isa};
use super::{Kernel, Selection, Site, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::cpu::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use smallvec::smallvec;

#[derive(Debug)]
struct Depthwise {
    input: OperandId,
    filter: Vec<f32>,
    epilogue: Epilogue,
    rows: Axis,
    columns: Axis,
    channels: usize,
}

impl Kernel for Depthwise {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let tensors = self.epilogue.tensors(arguments);
        let output = arguments.output().elements::<f32>();
        let (input_size, output_size) = (self.rows.input * self.columns.input, self.rows.output * self.columns.output);
        let taps = self.rows.window * self.columns.window;
        for_each_piece(output, output_size, output_size * taps / 16, |first, piece| {
            with_scratch(self.rows.window * self.line(), |lines| {
                for (i, output) in piece.chunks_exact_mut(output_size).enumerate() {
                    let image = &image[(first + i) * input_size..][..input_size];
                    self.channel(first + i, image, output, lines, &tensors);
                }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.filter.len() * 4 + self.epilogue.bytes()
    }
}

/// Outputs that are computed together.
const TOGETHER: usize = 16;

impl Depthwise {
    /// Elements of a phase of a padded line: those under one tap of every position, and what a last group reads beyond.
    fn phase(&self) -> usize {
        let reach = (self.columns.window - 1) * self.columns.dilation / self.columns.stride;
        (self.columns.output + reach).next_multiple_of(TOGETHER) + TOGETHER
    }

    /// Elements of a padded line. Element x lies in phase x % stride, so that what one tap sees at consecutive positions is
    /// contiguous.
    fn line(&self) -> usize {
        self.phase() * self.columns.stride
    }

    /// One channel of one image; `number` counts the channels of all images.
    fn channel(&self, number: usize, image: &[f32], output: &mut [f32], lines: &mut [f32], tensors: &[&[f32]]) {
        let channel = number % self.channels;
        let (rows, columns) = (self.rows, self.columns);
        let filter = &self.filter[channel * rows.window * columns.window..][..rows.window * columns.window];
        let isa = isa();
        for (row, output) in output.chunks_exact_mut(columns.output).enumerate() {
            for (tap, line) in lines.chunks_exact_mut(self.line()).enumerate() {
                self.fill(rows.element(row, tap).map(|y| &image[y * columns.input..][..columns.input]), line);
            }
            let offset = |x: usize| {
                let place = x * columns.dilation;
                place % columns.stride * self.phase() + place / columns.stride
            };
            match (rows.window, columns.window) {
                (3, 3) => square::<3>(isa, output, lines, self.line(), filter, std::array::from_fn(offset)),
                (5, 5) => square::<5>(isa, output, lines, self.line(), filter, std::array::from_fn(offset)),
                _ => {
                    output.fill(0.0);
                    for (line, filter) in lines.chunks_exact(self.line()).zip(filter.chunks_exact(columns.window)) {
                        for (x, factor) in filter.iter().enumerate() {
                            let from = &line[offset(x)..];
                            output.iter_mut().zip(from).for_each(|(output, from)| *output += factor * from);
                        }
                    }
                }
            }
            if !self.epilogue.is_empty() {
                let first = row * columns.output;
                let place = number * rows.output * columns.output + first;
                self.epilogue.apply(isa, channel, first..first + columns.output, place, tensors, output);
            }
        }
    }

    /// Lays a row of the image, or zeros instead, into a padded line.
    fn fill(&self, row: Option<&[f32]>, line: &mut [f32]) {
        let (stride, padding) = (self.columns.stride, self.columns.padding);
        line.fill(0.0);
        let Some(row) = row else { return };
        for (phase, line) in line.chunks_exact_mut(self.phase()).enumerate() {
            // The first element of the row that lies in this phase, and where.
            let first = (phase + stride - padding % stride) % stride;
            let place = (padding + first - phase) / stride;
            if stride == 1 {
                let count = row.len().min(line.len().saturating_sub(place));
                line[place..place + count].copy_from_slice(&row[..count]);
            } else if let (Some(row), Some(line)) = (row.get(first..), line.get_mut(place..)) {
                line.iter_mut().zip(row.iter().step_by(stride)).for_each(|(element, from)| *element = *from);
            }
        }
    }
}

/// A row of the output for a filter of SIZE x SIZE, with all of the filter in registers. `offsets` says where in a line the
/// elements under each tap begin.
fn square<const SIZE: usize>(
    isa: &Isa,
    output: &mut [f32],
    lines: &[f32],
    length: usize,
    filter: &[f32],
    offsets: [usize; SIZE],
) {
    isa.run_loop(Groups { output, lines, length, filter, offsets });
}

struct Groups<'a, const SIZE: usize> {
    output: &'a mut [f32],
    lines: &'a [f32],
    length: usize,
    filter: &'a [f32],
    offsets: [usize; SIZE],
}

impl<const SIZE: usize> Loop for Groups<'_, SIZE> {
    #[inline(always)]
    fn run(self) {
        let Groups { output, lines, length, filter, offsets } = self;
        let factors: [[f32; SIZE]; SIZE] = std::array::from_fn(|y| std::array::from_fn(|x| filter[y * SIZE + x]));
        let lines: [&[f32]; SIZE] = std::array::from_fn(|y| &lines[y * length..][..length]);
        for (group, output) in output.chunks_mut(TOGETHER).enumerate() {
            let mut sums = [0f32; TOGETHER];
            for (line, factors) in lines.iter().zip(&factors) {
                for (offset, factor) in offsets.iter().zip(factors) {
                    // What lies beyond the last position is inside the line all the same, see `phase`.
                    let from: &[f32; TOGETHER] = line[offset + group * TOGETHER..].first_chunk().expect("a line is long enough");
                    for (sum, from) in sums.iter_mut().zip(from) {
                        // Not `mul_add`: where the instruction is missing, or not seen, that is a slow call.
                        *sum += factor * from;
                    }
                }
            }
            output.copy_from_slice(&sums[..output.len()]);
        }
    }
}

pub fn select(op: &Conv2d, site: &Site<'_>) -> Option<Selection> {
    let (input, filter) = (site.inputs[op.input.0 as usize], site.inputs[op.filter.0 as usize]);
    if op.input_layout != InputOperandLayout::Nchw || op.filter_layout != Conv2dFilterOperandLayout::Oihw {
        return None;
    }
    let (&[_, channels, height, width], &[outputs, 1, filter_height, filter_width]) = (input.shape, filter.shape) else {
        return None;
    };
    if op.groups as usize != channels || outputs != channels {
        return None;
    }
    let bias = match op.bias {
        Some(bias) => Some(site.inputs[bias.0 as usize].elements()?.to_vec()),
        None => None,
    };
    let mut taken = smallvec![op.filter.0 as usize];
    taken.extend(op.bias.map(|bias| bias.0 as usize));
    let (rows, columns) = (axis(op, 0, height, filter_height, site), axis(op, 1, width, filter_width, site));
    let mut epilogue = Epilogue::new(bias, Rows::Channels);
    let filter = filter.elements()?.to_vec();
    let fuses = epilogue.fuse(site, Rows::Channels, &mut taken);
    let kernel = Depthwise { input: op.input, filter, epilogue, rows, columns, channels };
    Some(Selection { kernel: Box::new(kernel), taken, fuses })
}
