//! Normalizations.

use super::rows::{Rows, Summary};
use super::{Kernel, Lowering, Operands, Tensor};
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::float;
use crate::error::Result;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};

/// Binds scale and bias, which may be absent: `factor(i, deviation)` is the scale number `i` divided by a deviation,
/// `offset(i)` the bias.
fn factors(lowering: &Lowering<'_>, mut kernel: Kernel, scale: Option<&Tensor>, bias: Option<&Tensor>) -> Kernel {
    let mut text = "fn factor(i: u32, deviation: f32) -> f32 { return 1.0f / deviation; }\n".to_owned();
    if let Some(scale) = scale {
        kernel = kernel.reads(lowering, "scale", scale);
        text = "fn factor(i: u32, deviation: f32) -> f32 { return scale(i) / deviation; }\n".to_owned();
    }
    if let Some(bias) = bias {
        kernel = kernel.reads(lowering, "bias", bias);
    }
    let offset = if bias.is_some() { "bias(i)" } else { "0.0f" };
    text.push_str(&format!("fn offset(i: u32) -> f32 {{ return {offset}; }}\n"));
    kernel.declare(&text)
}

pub fn batch_normalization(lowering: &mut Lowering<'_>, op: &BatchNormalization, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let Axis { size: features, run: inner } = Axis::new(&input.shape, op.axis);
    let kernel = Kernel::new("batchNormalization")
        .reads(lowering, "input", input)
        .reads(lowering, "mean", operands.input(op.mean))
        .reads(lowering, "variance", operands.input(op.variance));
    let kernel = factors(lowering, kernel, operands.optional(op.scale), operands.optional(op.bias));
    let body = format!(
        "let feature = (i / {inner}u) % {features}u;\n\
         let deviation = sqrt(variance(feature) + {});\n\
         return factor(feature, deviation) * (input(i) - mean(feature)) + offset(feature);",
        float(op.epsilon as f32),
    );
    kernel.each(lowering, output, &body)
}

pub fn instance_normalization(lowering: &mut Lowering<'_>, op: &InstanceNormalization, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let channels = input.shape[op.layout.channel_axis()];
    let axes = match op.layout {
        Nchw => [2, 3],
        Nhwc => [1, 2],
    };
    let statistics = Statistics { label: "instanceNormalization", axes: &axes, epsilon: op.epsilon };
    let (scale, bias) = (operands.optional(op.scale), operands.optional(op.bias));
    // Rows are numbered by batch and channel in both layouts.
    statistics.normalize(lowering, input, (scale, bias), operands.output(), &format!("row % {channels}u"))
}

pub fn layer_normalization(lowering: &mut Lowering<'_>, op: &LayerNormalization, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let axes: Vec<usize> = op.axes(input.shape.len()).iter().map(|&axis| axis as usize).collect();
    let statistics = Statistics { label: "layerNormalization", axes: &axes, epsilon: op.epsilon };
    let (scale, bias) = (operands.optional(op.scale), operands.optional(op.bias));
    statistics.normalize(lowering, input, (scale, bias), operands.output(), "k")
}

/// A normalization by the mean and variance along some axes.
struct Statistics<'a> {
    label: &'static str,
    axes: &'a [usize],
    epsilon: f64,
}

impl Statistics<'_> {
    /// `factor` is the number of the scale and bias of value `k` of row `row`.
    fn normalize(
        &self,
        lowering: &mut Lowering<'_>,
        input: &Tensor,
        (scale, bias): (Option<&Tensor>, Option<&Tensor>),
        output: &Tensor,
        factor: &str,
    ) -> Result<()> {
        let count: usize = self.axes.iter().map(|&axis| input.shape[axis]).product();
        let epsilon = float(self.epsilon as f32);
        let kernel = Kernel::new(self.label).reads(lowering, "input", input);
        let kernel = factors(lowering, kernel, scale, bias);
        Rows::new(&input.shape, self.axes)
            .reduce(lowering, "sum", Summary::Sum, "x")
            .then(&format!("let mean = sum / {count}.0f;"))
            .reduce(lowering, "squares", Summary::Sum, "(x - mean) * (x - mean)")
            .then(&format!("let deviation = sqrt(squares / {count}.0f + {epsilon});"))
            .write(lowering, kernel, output, &format!("factor({factor}, deviation) * (x - mean) + offset({factor})"))
    }
}
