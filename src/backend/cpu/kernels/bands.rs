//! A convolution of single pixels and the depthwise one that reads what it makes, as in inverted residual blocks, by bands of
//! rows: what is made for a band stays in a core's second-level cache until it has been read.

use super::conv::{Filter, spread};
use super::depthwise::{Depthwise, Image};
use super::finish::{Finish, Rest};
use super::isa::Isa;
use super::panels::{Elements, Panels};
use super::plain::Plain;
use super::tile::Tiles;
use super::{Kernel, Known, Selection, Site, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::compiler::behind_inputs;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use std::ops::Range;

/// Bytes of rows between the two convolutions that a thread works on at a time: they stay in the cache, beside what comes in
/// and goes out.
const TOGETHER: usize = 256 << 10;
/// Rows of a band, at most.
const MOST_ROWS: usize = 8;
/// Work of a job, in nanoseconds, at most: as long as what one thread may do before it looks whether its context has ended.
const LONGEST: usize = 10_000_000;

#[derive(Debug)]
struct Bands {
    input: OperandId,
    first: Plain,
    then: Depthwise,
    /// Rows of the output in a band, and in a job.
    band: usize,
    job: usize,
    /// Rows between the two that are kept.
    kept: usize,
}

impl Kernel for Bands {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let first_rest = self.first.finish.rest(self.first.isa, self.then.channels, arguments);
        let added = self.then.finish.added(arguments);
        let rest = self.then.finish.rest(self.first.isa, self.then.channels, arguments);
        let output = arguments.output().elements::<f32>();
        let row = self.then.columns.output * self.then.channels;
        for_each_piece(output, self.job * row, self.job * self.cost(), |job, output| {
            with_scratch(self.kept * self.between(), |kept| {
                let mut number = job * self.job;
                let (mut there, mut left) = (0..0, output);
                while !left.is_empty() {
                    // The rows of a band, all of them of one image.
                    let (batch, y) = (number / self.then.rows.output, number % self.then.rows.output);
                    let count = self.band.min(self.then.rows.output - y).min(left.len() / row);
                    let needed = self.needed(batch, y..y + count);
                    self.expand(image, needed.start.max(there.end)..needed.end, &first_rest, kept);
                    there = needed;
                    let (band, others) = left.split_at_mut(count * row);
                    self.then.compute(Image { numbers: kept, rows: self.kept }, added, &rest, number, band);
                    number += count;
                    left = others;
                }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.first.bytes() + self.then.bytes()
    }
}

impl Bands {
    /// Numbers of a row between the two.
    fn between(&self) -> usize {
        self.then.columns.input * self.then.channels
    }

    /// About how many nanoseconds a row of the output takes.
    fn cost(&self) -> usize {
        (self.then.rows.stride * self.between() * self.first.panels.depth / 64).max(1)
    }

    /// The rows, by their numbers among those of all images, that are under the windows of some rows of the output.
    fn needed(&self, batch: usize, rows: Range<usize>) -> Range<usize> {
        let axis = &self.then.rows;
        let top = (rows.start * axis.stride).saturating_sub(axis.padding).min(axis.input);
        let end = (rows.end - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1;
        let end = end.saturating_sub(axis.padding).clamp(top, axis.input);
        batch * axis.input + top..batch * axis.input + end
    }

    /// Makes some rows, where they are kept.
    fn expand(&self, image: &[f32], rows: Range<usize>, rest: &Rest<'_>, kept: &mut [f32]) {
        let (from, to) = (self.then.columns.input * self.first.panels.depth, self.between());
        let mut first = rows.start;
        while first < rows.end {
            let place = first % self.kept;
            let count = (rows.end - first).min(self.kept - place);
            let image = &image[first * from..(first + count) * from];
            self.first.compute(image, rest, &mut kept[place * to..(place + count) * to]);
            first += count;
        }
    }
}

/// The kernel for such a pair ([`Step::before`](crate::compiler::Step::before)).
pub fn select(site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    let ([Op::Conv2d(first), between @ ..], Op::Conv2d(then)) = (site.before, site.op) else { return None };
    let input = site.inputs[first.input.0 as usize];
    let (filter, [outputs, channels, 1, 1]) = Filter::of(first, site)? else { return None };
    let mut shape = input.shape.to_vec();
    shape[3] = outputs;
    let fused = behind_inputs(between.to_vec(), site.inputs.len());
    let made = Known { shape: &shape, order: None, ..site.output };
    let finish = Finish::new(&Site { before: &[], fused: &fused, output: made, ..*site }, first.bias)?;
    if !finish.is_whole || finish.added.is_some() {
        return None;
    }
    let tiles = Tiles::of(isa);
    let [column, step, ..] = filter.strides;
    let elements = Elements { elements: filter.elements, length: channels, step, column };
    let panels = Panels::pack(tiles, &elements, std::iter::once(0), outputs);
    let bias = spread(&finish.bias, 1, tiles.step);
    let first_plain = Plain { isa, tiles, panels, bias, finish };
    let depthwise = Depthwise::new(then, &shape, site, isa)?;
    let rows = depthwise.rows;
    let reach = (rows.window - 1) * rows.dilation + 1;
    let fit = TOGETHER / (shape[2] * outputs * 4);
    let band = (fit.saturating_sub(reach) / rows.stride + 1).min(MOST_ROWS);
    // Two rows are computed together.
    let band = if band > 1 { band / 2 * 2 } else { band };
    let kept = ((band - 1) * rows.stride + reach).min(input.shape[0] * rows.input);
    let all = input.shape[0] * rows.output;
    let mut taken = smallvec![first.filter.0 as usize, then.filter.0 as usize];
    taken.extend(first_plain.finish.taken.iter().chain(&depthwise.finish.taken).copied());
    let fuses = depthwise.finish.is_whole;
    let mut kernel = Bands { input: first.input, first: first_plain, then: depthwise, band, job: all, kept };
    // What is under two jobs is made twice, so there are few.
    let jobs = site.threads.max((all * kernel.cost()).div_ceil(LONGEST));
    kernel.job = all.div_ceil(jobs).next_multiple_of(2);
    Some(Selection { kernel: Box::new(kernel), taken, fuses })
}
