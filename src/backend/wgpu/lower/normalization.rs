//! Normalizations.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use super::reduce::power;
use super::rows::{Rows, Summary};
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::{float, real, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization, RmsNormalization};

/// Binds scale and bias, which may be absent: `finished(i, x, deviation)` is `x` divided by a deviation, times the scale number
/// `i`, and the bias.
fn factors(lowering: &Lowering<'_>, mut kernel: Kernel, scale: Option<&Tensor>, bias: Option<&Tensor>) -> Kernel {
    if let Some(scale) = scale {
        kernel = kernel.reads(lowering, "scale", scale);
    }
    if let Some(bias) = bias {
        kernel = kernel.reads(lowering, "bias", bias);
    }
    let factor = if scale.is_some() { "scale(i)" } else { "1.0f" };
    let offset = if bias.is_some() { "bias(i)" } else { "0.0f" };
    kernel.declare(&format!(
        "fn finished(i: u32, x: f32, deviation: f32) -> f32 {{ return quotient_times(x, deviation, {factor}) + {offset}; }}\n"
    ))
}

pub fn batch_normalization(lowering: &mut Lowering<'_>, op: &BatchNormalization, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let Axis { size: features, run: inner } = Axis::new(&input.shape, op.axis);
    let kernel = Kernel::new("batchNormalization")
        .reads(lowering, "input", input)
        .reads(lowering, "mean", operands.input(op.mean))
        .reads(lowering, "variance", operands.input(op.variance));
    let kernel = factors(lowering, kernel, operands.optional(op.scale), operands.optional(op.bias));
    let inner = size(inner);
    let body = format!(
        "let feature = (i / {inner}u) % {features}u;\n\
         let deviation = sqrt(variance(feature) + {});\n\
         let x = input(i) - mean(feature);\n\
         if is_infinite(x) {{\n\
         return finished(feature, divided_by_power(input(i), 1u) - divided_by_power(mean(feature), 1u), 0.5f * deviation);\n}}\n\
         return finished(feature, x, deviation);",
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
    let statistics = Statistics { label: "instanceNormalization", axes: &axes, epsilon: op.epsilon, centres: true };
    let (scale, bias) = (operands.optional(op.scale), operands.optional(op.bias));
    // Rows are numbered by batch and channel in both layouts.
    statistics.normalize(lowering, input, (scale, bias), operands.output(), &format!("row % {}u", size(channels)))
}

pub fn layer_normalization(lowering: &mut Lowering<'_>, op: &LayerNormalization, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let axes: Vec<usize> = op.axes(input.shape.len()).iter().map(|&axis| axis as usize).collect();
    let statistics = Statistics { label: "layerNormalization", axes: &axes, epsilon: op.epsilon, centres: true };
    let (scale, bias) = (operands.optional(op.scale), operands.optional(op.bias));
    statistics.normalize(lowering, input, (scale, bias), operands.output(), "k")
}

pub fn rms_normalization(lowering: &mut Lowering<'_>, op: &RmsNormalization, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let axes: Vec<usize> = op.axes(input.shape.len()).iter().map(|&axis| axis as usize).collect();
    let statistics = Statistics { label: "rmsNormalization", axes: &axes, epsilon: op.epsilon, centres: false };
    statistics.normalize(lowering, input, (operands.optional(op.scale), None), operands.output(), "k")
}

/// A normalization by the mean and variance along some axes, or by the mean square, where 0 stands for the mean.
struct Statistics<'a> {
    label: &'static str,
    axes: &'a [usize],
    epsilon: f64,
    centres: bool,
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
        let epsilon = self.epsilon as f32;
        let kernel = Kernel::new(self.label).reads(lowering, "input", input);
        let kernel = factors(lowering, kernel, scale, bias);
        let rows = Rows::new(lowering, &input.shape, self.axes);
        let number = size(count);
        if input.data_type == DataType::Float16 {
            // No sum or square of these leaves float32.
            let rows = if self.centres {
                rows.reduce(lowering, "sum", Summary::Sum, "x").then(&format!("let mean = sum / {number}.0f;"))
            } else {
                rows.then("let mean = 0.0f;")
            };
            return rows
                .reduce(lowering, "squares", Summary::Sum, "(x - mean) * (x - mean)")
                .then(&format!("let deviation = sqrt(squares / {number}.0f + {});", float(epsilon)))
                .write(lowering, kernel, output, &format!("finished({factor}, x - mean, deviation)"));
        }
        // All values of a row times a power of two, which their normalization does not depend on but for epsilon: squares of
        // the values themselves leave float32 from 1.8e19 on, and vanish below 1e-19. In rows between 2^-30 and 2^40 it is 1.
        let power = power(count);
        let rest = count as f64 * 0.5f64.powi(power as i32);
        let declarations = format!(
            "fn mean_of(sums: vec3<f32>, up: f32) -> f32 {{\n\
             if is_nan(sums.x) || is_infinite(sums.x) {{ return sums.y * up / {rest}; }}\n\
             return sums.x * up / {number}.0f;\n}}\n\
             fn epsilon(up: f32) -> f32 {{ return {epsilon}; }}\n",
            rest = real(rest as f32),
            // It may vanish beside large values, but not altogether: that would make rows without variance NaN.
            epsilon = if epsilon > 0.0 { format!("max({} * up * up, 0x1p-126f)", float(epsilon)) } else { "0.0f".to_owned() },
        );
        rows.reduce(
            lowering,
            "sums",
            Summary::Magnitude,
            &format!("vec3<f32>(x, divided_by_power(x, {}u), abs_f32(x))", size(power as usize)),
        )
        .then(&format!(
            "let up = row_scale(sums.z, {});\nlet mean = {};",
            float(greatest_scale(epsilon)),
            if self.centres { "mean_of(sums, up)" } else { "0.0f" },
        ))
        .reduce(lowering, "squares", Summary::Sum, "(x * up - mean) * (x * up - mean)")
        .then(&format!("let deviation = sqrt(squares / {number}.0f + epsilon(up));"))
        .write(lowering, kernel.declare(&declarations), output, &format!("finished({factor}, x * up - mean, deviation)"))
    }
}

/// The greatest power of two that a row is multiplied by: its square times epsilon is 1 at most.
fn greatest_scale(epsilon: f32) -> f32 {
    let power = if epsilon > 0.0 { (-0.5 * f64::from(epsilon).log2()).floor().min(126.0) } else { 126.0 };
    2f64.powf(power) as f32
}
