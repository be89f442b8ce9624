//! Depthwise convolutions of float32: every channel has a filter of its own.

use super::conv::axis;
use super::epilogue::{Epilogue, Rows};
use super::isa::isa;
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
        for_each_piece(output, output_size, output_size * taps / 8, |first, piece| {
            // A row of the padded image, long enough for every tap of every position.
            let reach = (self.columns.output - 1) * self.columns.stride + (self.columns.window - 1) * self.columns.dilation + 1;
            let length = reach.max(self.columns.padding + self.columns.input);
            with_scratch(self.rows.window * length, |lines| {
                for (i, output) in piece.chunks_exact_mut(output_size).enumerate() {
                    let image = &image[(first + i) * input_size..][..input_size];
                    self.channel(first + i, image, output, lines, length, &tensors);
                }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.filter.len() * 4 + self.epilogue.bytes()
    }
}

impl Depthwise {
    /// One channel of one image; `number` counts the channels of all images.
    fn channel(&self, number: usize, image: &[f32], output: &mut [f32], lines: &mut [f32], length: usize, tensors: &[&[f32]]) {
        let channel = number % self.channels;
        let (columns, window) = (self.columns, self.columns.window);
        let filter = &self.filter[channel * self.rows.window * window..][..self.rows.window * window];
        let isa = isa();
        for (row, output) in output.chunks_exact_mut(columns.output).enumerate() {
            for (tap, line) in lines.chunks_exact_mut(length).enumerate() {
                line.fill(0.0);
                if let Some(y) = self.rows.element(row, tap) {
                    line[columns.padding..][..columns.input].copy_from_slice(&image[y * columns.input..][..columns.input]);
                }
            }
            match (self.rows.window, window, columns.stride, columns.dilation) {
                (3, 3, 1, 1) => isa.run(|| row_of::<3, 3, 1>(output, lines, length, filter)),
                (3, 3, 2, 1) => isa.run(|| row_of::<3, 3, 2>(output, lines, length, filter)),
                (5, 5, 1, 1) => isa.run(|| row_of::<5, 5, 1>(output, lines, length, filter)),
                (5, 5, 2, 1) => isa.run(|| row_of::<5, 5, 2>(output, lines, length, filter)),
                _ => {
                    output.fill(0.0);
                    for (line, filter) in lines.chunks_exact(length).zip(filter.chunks_exact(window)) {
                        for (tap, factor) in filter.iter().enumerate() {
                            let from = line[tap * columns.dilation..].iter().step_by(columns.stride);
                            output.iter_mut().zip(from).for_each(|(output, from)| *output += factor * from);
                        }
                    }
                }
            }
            if !self.epilogue.is_empty() {
                let first = row * columns.output;
                let place = number * self.rows.output * columns.output + first;
                self.epilogue.apply(channel, first..first + columns.output, place, tensors, output);
            }
        }
    }
}

/// A row of the output for a filter of known size, with all of the filter in registers.
#[inline(always)]
fn row_of<const HEIGHT: usize, const WIDTH: usize, const STRIDE: usize>(
    output: &mut [f32],
    lines: &[f32],
    length: usize,
    filter: &[f32],
) {
    let factors: [[f32; WIDTH]; HEIGHT] = std::array::from_fn(|y| std::array::from_fn(|x| filter[y * WIDTH + x]));
    let lines: [&[f32]; HEIGHT] = std::array::from_fn(|y| &lines[y * length..][..(output.len() - 1) * STRIDE + WIDTH]);
    for (i, output) in output.iter_mut().enumerate() {
        let mut sum = 0.0;
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                sum += factors[y][x] * lines[y][i * STRIDE + x];
            }
        }
        *output = sum;
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
