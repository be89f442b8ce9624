//! Resampling. Where the positions of the output lie in the input is found at build time, exactly.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader::{Scalar, coordinates, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::resample::{InterpolationMode, Resample2d};
use crate::graph::shape::strides;

pub fn resample2d(lowering: &mut Lowering<'_>, op: &Resample2d, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let mut axes = op.axes.map(|axis| axis as usize);
    axes.sort_unstable();
    let stride = strides(&input.shape);
    // For each of the two axes, the elements below all positions, and then the fractions of the way to the next ones.
    let mut table: Vec<u32> = Vec::new();
    let mut body = coordinates(&output.shape, "i", "c");
    let mut base = "0u".to_owned();
    for (axis, stride) in stride.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)) {
        base.push_str(&format!(" + c{axis} * {}u", size(*stride)));
    }
    body.push_str(&format!("let base = {base};\n"));
    for (name, axis) in ["y", "x"].into_iter().zip(axes) {
        let first = table.len();
        let count = output.shape[axis];
        let places = || op.mode.places(input.shape[axis], count);
        table.extend(places().map(|(below, _)| below as u32));
        table.extend(places().map(|(_, fraction)| (fraction as f32).to_bits()));
        let last = size(input.shape[axis] - 1);
        body.push_str(&format!(
            "let {name}_below = min(places({first}u + c{axis}), {last}u);\n\
             let {name}_above = min({name}_below + 1u, {last}u) * {stride}u;\n\
             let {name}_fraction = bitcast<f32>(places({fractions}u + c{axis}));\n\
             let {name} = {name}_below * {stride}u;\n",
            first = size(first),
            fractions = size(first + count),
            stride = size(stride[axis]),
        ));
    }
    let scalar = input.scalar();
    match op.mode {
        InterpolationMode::NearestNeighbor => body.push_str("return input(base + y + x);"),
        InterpolationMode::Linear => {
            let value = |y: &str, x: &str| scalar.convert(Scalar::F32, &format!("input(base + {y} + {x})"));
            // An element that has no part in the mean is not looked at: it may be infinite.
            body.push_str(&format!(
                "var row = {};\nif x_fraction > 0.0f {{ row = row * (1.0f - x_fraction) + {} * x_fraction; }}\n\
                 if y_fraction > 0.0f {{\n\
                 var next = {};\nif x_fraction > 0.0f {{ next = next * (1.0f - x_fraction) + {} * x_fraction; }}\n\
                 row = row * (1.0f - y_fraction) + next * y_fraction;\n}}\n",
                value("y", "x"),
                value("y", "x_above"),
                value("y_above", "x"),
                value("y_above", "x_above"),
            ));
            let rounded = if scalar == Scalar::F32 { "row" } else { "round(row)" };
            body.push_str(&format!("return {};", Scalar::F32.convert(scalar, rounded)));
        }
    }
    let bytes = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    let places = lowering.constant(DataType::Uint32, &[table.len()], bytes);
    Kernel::new("resample2d").reads(lowering, "input", input).reads(lowering, "places", &places).each(lowering, output, &body)
}
