//! Convolutions of single pixels of an image whose channels are scaled by factors between 0 and 1: the filter is scaled instead.

use super::conv::{self, Conv, Filter};
use super::panels::Panels;
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::{Op, OperandId};
use webnn_kernels::gemm::scaled_rows::Rows;
use webnn_kernels::isa::Isa;

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
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

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
                Rows { weights: panel.weights, factors, width: panel.width, least, scaled }.compute(self.isa);
            }
        });
    }
}

/// An image whose channels are multiplied by factors between 0 and 1, as squeeze and excitation does, before a convolution of
/// single pixels: the factors go into a copy of the filter.
pub static SCALED_FILTER: Implementation = Implementation { name: "conv.scaled_filter", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let ([Op::Binary(Binary { kind: BinaryKind::Mul, a, b })], Op::Conv2d(op)) = (problem.prologue, problem.op) else {
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
    conv::desc(&Problem { prologue: &[], op: &op, ..problem }, &target)?;
    Ok(Box::new(move || {
        let (conv, consumed) = conv::desc(&Problem { prologue: &[], op: &op, ..problem }, &target)?.build();
        let least = conv.weights().all().iter().map(|weight| weight.abs()).filter(|&weight| weight != 0.0);
        let least = least.fold(f32::INFINITY, f32::min);
        let fuses = conv.fuses();
        Ok(Built { kernel: Box::new(Scaled { isa: target.isa, conv, factors, least }), consumed, fuses })
    }))
}
