//! Convolutions of float32 as products: the filter times the patches of the image under it.
#![allow(unsafe_code)]

use super::epilogue::{Epilogue, Origin, Rows};
use super::isa::{Isa, isa};
use super::product::{Block, Grid, Left, Output, RightView, multiply};
use super::{Kernel, Selection, Site, with_scratch};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::backend::cpu::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use smallvec::smallvec;
use std::ops::Range;

/// Elements of patches that are packed at a time: they should stay in a core's second-level cache.
const PACKED: usize = 160 << 10;

#[derive(Debug)]
struct Conv {
    isa: &'static Isa,
    input: OperandId,
    /// One packed filter for each group.
    filters: Vec<Left>,
    epilogue: Epilogue,
    patches: Patches,
    batches: usize,
    /// Input channels of a group.
    channels: usize,
    threads: usize,
}

/// The matrix of patches: a column for each output pixel, a row for each channel and filter element.
#[derive(Clone, Copy, Debug)]
struct Patches {
    rows: Axis,
    columns: Axis,
}

impl Patches {
    /// Packs the columns of one panel. `image` has the channels of the group.
    fn pack(&self, isa: &Isa, image: &[f32], columns: Range<usize>, panel: &mut [f32]) {
        let (height, width) = (self.rows.input, self.columns.input);
        let mut panel_rows = panel.chunks_exact_mut(isa.columns);
        for channel in image.chunks_exact(height * width) {
            for row_tap in 0..self.rows.window {
                for column_tap in 0..self.columns.window {
                    let row = panel_rows.next().expect("a panel has a row for each element of the filter");
                    self.pack_row(channel, row_tap, column_tap, columns.clone(), &mut row[..columns.len()]);
                    row[columns.len()..].fill(0.0);
                }
            }
        }
    }

    fn pack_row(&self, channel: &[f32], row_tap: usize, column_tap: usize, columns: Range<usize>, into: &mut [f32]) {
        let inside = self.columns.positions(column_tap);
        let mut position = columns.start;
        while position < columns.end {
            // The part of a row of the output.
            let (row, first) = (position / self.columns.output, position % self.columns.output);
            let count = (self.columns.output - first).min(columns.end - position);
            let piece = &mut into[position - columns.start..][..count];
            position += count;
            let from = inside.start.clamp(first, first + count);
            let to = inside.end.clamp(from, first + count);
            match self.rows.element(row, row_tap) {
                Some(y) if from < to => {
                    piece[..from - first].fill(0.0);
                    piece[to - first..].fill(0.0);
                    let line = &channel[y * self.columns.input..][..self.columns.input];
                    let x = self.columns.element(from, column_tap).expect("a position inside");
                    let piece = &mut piece[from - first..to - first];
                    if self.columns.stride == 1 {
                        piece.copy_from_slice(&line[x..x + piece.len()]);
                    } else {
                        for (element, from) in piece.iter_mut().zip(line[x..].iter().step_by(self.columns.stride)) {
                            *element = *from;
                        }
                    }
                }
                _ => piece.fill(0.0),
            }
        }
    }
}

impl Kernel for Conv {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let tensors = self.epilogue.tensors(arguments);
        let output = arguments.output().elements::<f32>();
        let pixels = self.patches.rows.output * self.patches.columns.output;
        let group_image = self.channels * self.patches.rows.input * self.patches.columns.input;
        let group_output = self.filters[0].rows * pixels;
        let images = image.chunks_exact(group_image).zip(output.chunks_exact_mut(group_output));
        for (number, (image, output)) in images.enumerate() {
            self.group(number, image, output, pixels, &tensors);
        }
        debug_assert_eq!(image.len(), self.batches * self.filters.len() * group_image);
    }

    fn bytes(&self) -> usize {
        self.filters.iter().map(Left::bytes).sum::<usize>() + self.epilogue.bytes()
    }
}

impl Conv {
    /// One group of one image; `number` counts the groups of all images.
    fn group(&self, number: usize, image: &[f32], output: &mut [f32], pixels: usize, tensors: &[&[f32]]) {
        let group = number % self.filters.len();
        let (isa, filter) = (self.isa, &self.filters[group]);
        let (rows, depth) = (filter.rows, filter.depth);
        let unit = depth * isa.columns;
        let work = rows * depth * pixels / 16;
        let panels = pixels.div_ceil(isa.columns);
        let output = Output::new(output, pixels);
        let origin = Origin { row: group * rows, place: number * rows * pixels, stride: pixels };
        let finish = |block: &mut Block<'_>, rows: Range<usize>, columns: Range<usize>| {
            self.epilogue.finish(isa, block, rows, columns, origin, tensors);
        };
        let finish: Option<&super::product::Finish<'_>> = if self.epilogue.is_empty() { None } else { Some(&finish) };
        let pack = |first: usize, panels: &mut [f32]| {
            for (i, panel) in panels.chunks_mut(unit).enumerate() {
                let first = (first + i) * isa.columns;
                self.patches.pack(isa, image, first..pixels.min(first + isa.columns), panel);
            }
        };
        let together = (PACKED / unit).max(1);
        if panels >= 3 * self.threads {
            // Enough pixels for everybody: each packs the patches that it multiplies.
            let together = together.min(panels.div_ceil(4 * self.threads));
            for_each_job(panels.div_ceil(together), work, |number| {
                let first = number * together;
                let count = together.min(panels - first);
                with_scratch(count * unit, |packed| {
                    pack(first, packed);
                    let columns = first * isa.columns..pixels.min((first + count) * isa.columns);
                    let grid = Grid::new(isa, rows, columns.len(), 1);
                    let right = RightView { columns: columns.len(), panels: packed };
                    // Blocks of rows, so that the filter's panels stay in the cache.
                    for number in 0..grid.count() {
                        let (rows, _) = grid.block(number);
                        // SAFETY: jobs have different columns, and the blocks of a job different rows.
                        let mut block = unsafe { output.block(rows, columns.clone()) };
                        multiply(isa, filter.view(), right, &mut block, None, finish);
                    }
                });
            });
            return;
        }
        with_scratch(panels * unit, |packed| {
            for_each_piece(packed, unit, unit / 2, pack);
            let grid = Grid::new(isa, rows, pixels, self.threads);
            let packed = &*packed;
            for_each_job(grid.count(), work, |number| {
                let (rows, columns) = grid.block(number);
                let first = columns.start / isa.columns * unit;
                let right = RightView { columns: columns.len(), panels: &packed[first..] };
                // SAFETY: the blocks of a grid do not overlap.
                let mut block = unsafe { output.block(rows, columns) };
                multiply(isa, filter.view(), right, &mut block, None, finish);
            });
        });
    }
}

pub fn select(op: &Conv2d, site: &Site<'_>) -> Option<Selection> {
    let (input, filter) = (site.inputs[op.input.0 as usize], site.inputs[op.filter.0 as usize]);
    if op.input_layout != InputOperandLayout::Nchw || op.filter_layout != Conv2dFilterOperandLayout::Oihw {
        return None;
    }
    let elements = filter.elements()?;
    let bias = match op.bias {
        Some(bias) => Some(site.inputs[bias.0 as usize].elements()?.to_vec()),
        None => None,
    };
    let (&[batches, _, height, width], &[outputs, channels, filter_height, filter_width]) = (input.shape, filter.shape) else {
        return None;
    };
    let mut patches = Patches { rows: axis(op, 0, height, filter_height, site), columns: axis(op, 1, width, filter_width, site) };
    if patches.is_the_image() {
        // The patches are the image: its rows can be read as one.
        let one = |size| Axis { input: size, output: size, window: 1, stride: 1, dilation: 1, padding: 0 };
        patches = Patches { rows: one(1), columns: one(height * width) };
    }
    let groups = op.groups as usize;
    let (rows, depth) = (outputs / groups, channels * filter_height * filter_width);
    let isa = isa();
    let filters =
        elements.chunks_exact(rows * depth).map(|elements| Left::pack(isa, rows, depth, elements, [depth, 1])).collect();
    let mut taken = smallvec![op.filter.0 as usize];
    taken.extend(op.bias.map(|bias| bias.0 as usize));
    let mut epilogue = Epilogue::new(bias, Rows::Channels);
    let fuses = epilogue.fuse(site, Rows::Channels, &mut taken);
    let kernel = Conv { isa, input: op.input, filters, epilogue, patches, batches, channels, threads: site.threads };
    Some(Selection { kernel: Box::new(kernel), taken, fuses })
}

/// How the filter slides along the height (0) or the width (1) of an nchw image.
pub fn axis(op: &Conv2d, number: usize, input: usize, window: usize, site: &Site<'_>) -> Axis {
    Axis {
        input,
        output: site.output.shape[2 + number],
        window,
        stride: op.strides[number] as usize,
        dilation: op.dilations[number] as usize,
        padding: op.padding[2 * number] as usize,
    }
}

impl Patches {
    /// Whether every output pixel sees just the input pixel at its place.
    fn is_the_image(&self) -> bool {
        [self.rows, self.columns]
            .iter()
            .all(|axis| axis.window == 1 && axis.stride == 1 && axis.padding == 0 && axis.input == axis.output)
    }
}
