//! Pooling of float32 with the channels last, a vector of channels at a time.
#![allow(unsafe_code)]

use super::isa::Isa;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::{Pool2d, Pool2dKind};
use smallvec::smallvec;

/// Vectors of channels that are reduced together.
const TOGETHER: usize = 4;

#[derive(Debug)]
struct Pool {
    isa: &'static Isa,
    kind: Pool2dKind,
    input: OperandId,
    rows: Axis,
    columns: Axis,
    channels: usize,
}

impl Kernel for Pool {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        let elements = self.rows.window.min(self.rows.input) * self.columns.window.min(self.columns.input);
        for_each_piece(output, self.channels, (self.channels * elements / 16).max(1), |first, output| {
            with_vectors(self.isa, Piece { of: self, image, first, output });
        });
    }
}

/// Some pixels of the output, from number `first` on.
struct Piece<'a> {
    of: &'a Pool,
    image: &'a [f32],
    first: usize,
    output: &'a mut [f32],
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Pool { rows, columns, channels, .. } = *self.of;
        let size = rows.input * columns.input * channels;
        for (i, output) in self.output.chunks_exact_mut(channels).enumerate() {
            let (line, x) = ((self.first + i) / columns.output, (self.first + i) % columns.output);
            let image = &self.image[line / rows.output * size..][..size];
            let window = Window { of: self.of, image, y: line % rows.output, x };
            let mut first = 0;
            while channels - first >= TOGETHER * V::LANES {
                window.reduce::<V, TOGETHER>(first, V::LANES, output);
                first += TOGETHER * V::LANES;
            }
            while first < channels {
                window.reduce::<V, 1>(first, V::LANES.min(channels - first), output);
                first += V::LANES;
            }
        }
    }
}

struct Window<'a> {
    of: &'a Pool,
    image: &'a [f32],
    y: usize,
    x: usize,
}

impl Window<'_> {
    #[inline(always)]
    fn reduce<V: Vector, const VECTORS: usize>(&self, first: usize, count: usize, output: &mut [f32]) {
        match self.of.kind {
            Pool2dKind::Max => {
                self.fold::<V, VECTORS>(first, count, output, f32::NEG_INFINITY, |most, x| most.greatest(x), |most, _| most);
            }
            Pool2dKind::Average => self.fold::<V, VECTORS>(
                first,
                count,
                output,
                0.0,
                |sum, x| sum.add(x),
                // The mean of nothing but padding is 0.
                |sum, count| sum.div(V::set(count.max(1) as f32)),
            ),
            Pool2dKind::L2 => {
                self.fold::<V, VECTORS>(first, count, output, 0.0, |sum, x| x.mul_add(x, sum), |sum, _| sum.sqrt());
            }
        }
    }

    #[inline(always)]
    fn fold<V: Vector, const VECTORS: usize>(
        &self,
        first: usize,
        count: usize,
        output: &mut [f32],
        start: f32,
        add: impl Fn(V, V) -> V,
        finish: impl Fn(V, usize) -> V,
    ) {
        let Pool { rows, columns, channels, .. } = *self.of;
        let mut reduced = [V::set(start); VECTORS];
        let (taps_y, taps_x) = (rows.taps(self.y), columns.taps(self.x));
        let numbers = (VECTORS - 1) * V::LANES + count;
        for tap_y in taps_y.clone() {
            let row = rows.element(self.y, tap_y).expect("a tap inside") * columns.input;
            for tap_x in taps_x.clone() {
                let column = columns.element(self.x, tap_x).expect("a tap inside");
                let from = &self.image[(row + column) * channels + first..][..numbers];
                for (v, reduced) in reduced.iter_mut().enumerate() {
                    // SAFETY: `numbers` reach to the end of the last vector, or to its first `count` numbers.
                    let x = unsafe {
                        let from = from.as_ptr().add(v * V::LANES);
                        if count == V::LANES { V::load(from) } else { V::load_first(from, count) }
                    };
                    *reduced = add(*reduced, x);
                }
            }
        }
        let output = &mut output[first..first + numbers];
        for (v, &reduced) in reduced.iter().enumerate() {
            let finished = finish(reduced, taps_y.len() * taps_x.len());
            // SAFETY: as above.
            unsafe {
                let to = output.as_mut_ptr().add(v * V::LANES);
                if count == V::LANES { finished.store(to) } else { finished.store_first(to, count) }
            }
        }
    }
}

/// The kernel for pooling with the channels last.
pub fn select(op: &Pool2d, site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    if op.layout != InputOperandLayout::Nhwc {
        return super::reduce::select_pool(op, site, isa);
    }
    let input = site.inputs[op.input.0 as usize];
    let &[_, height, width, channels] = input.shape else { return None };
    let window = op.window([height as u32, width as u32]);
    let options = (&op.strides, &op.dilations, &op.padding);
    let sizes = |number| (input.shape[1 + number], site.output.shape[1 + number], window[number] as usize);
    let axis = |number| Axis::new(number, sizes(number), options);
    // Sums of more numbers than this are better computed more exactly.
    if op.kind != Pool2dKind::Max && height.saturating_mul(width) > 1 << 16 {
        return None;
    }
    let kernel = Pool { isa, kind: op.kind, input: op.input, rows: axis(0), columns: axis(1), channels };
    Some(Selection { kernel: Box::new(kernel), taken: smallvec![], fuses: true })
}
