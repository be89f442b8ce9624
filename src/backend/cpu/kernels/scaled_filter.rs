//! Convolutions of single pixels of an image whose channels are scaled by factors between 0 and 1: the filter is scaled instead.
#![allow(unsafe_code)]

use super::conv::{self, Conv, Filter};
use super::isa::Isa;
use super::panels::Panels;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::{Op, OperandId};

#[derive(Debug)]
struct Scaled {
    isa: &'static Isa,
    conv: Conv,
    /// A number for each channel of the image.
    factors: OperandId,
    /// The least weight that is not 0, without its sign.
    least: f32,
}

impl Kernel for Scaled {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let factors = arguments.input(self.factors).elements::<f32>();
        let panels = self.conv.weights();
        with_scratch(panels.all().len(), |weights| {
            self.scale(panels, factors, weights);
            self.conv.run_with(Some(weights), arguments);
        });
    }

    fn overwrites(&self) -> Option<OperandId> {
        self.conv.overwrites()
    }

    fn bytes(&self) -> usize {
        self.conv.bytes()
    }
}

impl Scaled {
    fn scale(&self, panels: &Panels, factors: &[f32], scaled: &mut [f32]) {
        // All panels but the last are as wide as the first.
        let of_panel = panels.depth * panels.width(0);
        for_each_piece(scaled, of_panel, of_panel / 8, |first, scaled| {
            for (number, scaled) in scaled.chunks_mut(of_panel).enumerate() {
                let panel = panels.panel(first + number);
                let least = self.least;
                with_vectors(self.isa, Rows { weights: panel.weights, factors, width: panel.width, least, scaled });
            }
        });
    }
}

/// The rows of a panel, each times its factor.
struct Rows<'a> {
    weights: &'a [f32],
    factors: &'a [f32],
    width: usize,
    least: f32,
    scaled: &'a mut [f32],
}

impl OnVectors for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Rows { weights, factors, width, least, scaled } = self;
        assert_eq!((weights.len(), scaled.len()), (factors.len() * width, factors.len() * width));
        for (k, &factor) in factors.iter().enumerate() {
            let (weights, scaled) = (&weights[k * width..][..width], &mut scaled[k * width..][..width]);
            if factor * least == 0.0 && factor != 0.0 {
                scale_by_little(weights, factor, scaled);
                continue;
            }
            let mut first = 0;
            while first < width {
                let count = V::LANES.min(width - first);
                // SAFETY: both rows have so many numbers from there on.
                unsafe {
                    let (from, to) = (weights.as_ptr().add(first), scaled.as_mut_ptr().add(first));
                    if count == V::LANES {
                        V::load(from).mul(V::set(factor)).store(to);
                    } else {
                        V::load_first(from, count).mul(V::set(factor)).store_first(to, count);
                    }
                }
                first += count;
            }
        }
    }
}

/// The same where products underflow: one with a weight that is not 0 is not, or else it would make NaN of an infinite pixel.
#[cold]
#[inline(never)]
fn scale_by_little(weights: &[f32], factor: f32, scaled: &mut [f32]) {
    for (scaled, &weight) in scaled.iter_mut().zip(weights) {
        let product = weight * factor;
        let underflows = product == 0.0 && weight != 0.0;
        *scaled = if underflows { f32::from_bits(1).copysign(weight) } else { product };
    }
}

/// An image whose channels are multiplied by factors between 0 and 1, as squeeze and excitation does, before a convolution of
/// single pixels: the factors go into a copy of the filter.
pub static SCALED_FILTER: Implementation = Implementation { name: "conv.scaled_filter", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let ([Op::Binary(Binary { kind: BinaryKind::Mul, a, b })], Op::Conv2d(op)) = (problem.before, problem.op) else {
        return Err(Reject("no factors before a conv2d"));
    };
    let size = |id: &OperandId| problem.input(*id).element_count();
    let (&input, &factors) = if size(a) > size(b) { (a, b) } else { (b, a) };
    let (image, [outputs, channels, height, width]) = (problem.input(input).shape, Filter::of(op, problem)?.1);
    let is_pointwise = (op.groups, [height, width], op.strides, op.padding) == (1, [1, 1], [1; 2], [0; 4]);
    require(is_pointwise, "a convolution of more than single pixels")?;
    let &[1, rows, columns, _] = image else { return Err(Reject("several images")) };
    let line = problem.input(factors).shape;
    let is_line = line.last() == Some(&channels) && line.iter().product::<usize>() == channels;
    require(is_line, "not one factor for each channel")?;
    require(channels >= target.tuning.pointwise_channels, "few channels")?;
    require(outputs >= target.tuning.scaled_outputs, "few output channels")?;
    require(rows * columns >= outputs || target.tuning.scaled_outputs == 0, "more rows in the filter than pixels in the image")?;
    require(Filter::of(op, problem)?.0.is_finite(), "weights that are not finite")?;
    let (problem, target) = (*problem, *target);
    let op = Op::from(Conv2d { input, ..op.clone() });
    conv::plan(&Problem { before: &[], op: &op, ..problem }, &target)?;
    Ok(Box::new(move || {
        let (conv, consumed) = conv::plan(&Problem { before: &[], op: &op, ..problem }, &target)?.build();
        let least = conv.weights().all().iter().map(|weight| weight.abs()).filter(|&weight| weight != 0.0);
        let least = least.fold(f32::INFINITY, f32::min);
        let fuses = conv.fuses();
        Ok(Built { kernel: Box::new(Scaled { isa: target.isa, conv, factors, least }), consumed, fuses })
    }))
}
