//! Pooling.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use super::reduce::{formula, lowest, norm, power};
use super::reduction::Reduction;
use super::window::{countable, place};
use crate::backend::wgpu::shader::{coordinates, real, size};
use crate::backend::window::Axis;
use crate::error::Result;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::pool::{NormPool2d, Pool2d, Pool2dKind};
use crate::graph::ops::reduce::ReduceKind;

/// Windows over the whole input that have more elements than this are done by workgroups.
const LARGE: usize = 32;

pub fn pool2d(lowering: &mut Lowering<'_>, op: &Pool2d, operands: &Operands) -> Result<()> {
    pool(lowering, op, 2, operands)
}

pub fn norm_pool2d(lowering: &mut Lowering<'_>, op: &NormPool2d, operands: &Operands) -> Result<()> {
    pool(lowering, &op.windows(), op.order, operands)
}

/// `order` is that of norms.
fn pool(lowering: &mut Lowering<'_>, op: &Pool2d, order: u32, operands: &Operands) -> Result<()> {
    let (input, output) = (operands.input(op.input), operands.output());
    let [_, _, height, width] = op.layout.to_nchw(&input.shape);
    let [_, _, output_height, output_width] = op.layout.to_nchw(&output.shape);
    let [window_height, window_width] = op.window([height as u32, width as u32]).map(|size| size as usize);
    let axis = |number, sizes| countable(Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding)));
    let rows = axis(0, (height, output_height, window_height))?;
    let columns = axis(1, (width, output_width, window_width))?;
    let formula = |count| match op.kind {
        Pool2dKind::Average => formula(ReduceKind::Mean, input.data_type, count),
        Pool2dKind::L2 => norm(order),
        Pool2dKind::Max => formula(ReduceKind::Max, input.data_type, count),
    };
    let covers = |axis: &Axis| axis.output == 1 && axis.window == axis.input && axis.dilation == 1 && axis.padding == 0;
    let count = height * width;
    if covers(&rows) && covers(&columns) && count > LARGE {
        let reduced = match op.layout {
            Nchw => vec![false, false, true, true],
            Nhwc => vec![false, true, true, false],
        };
        return Reduction { label: "pool2d", input, reduced, formula: formula(count) }.lower(lowering, output);
    }

    let scalar = input.scalar();
    let [a, b, c, d] = op.layout.of_nchw(["n", "c", "y", "x"]);
    let sizes = &input.shape;
    let element = format!("(({a} * {}u + {b}) * {}u + {c}) * {}u + {d}", size(sizes[1]), size(sizes[2]), size(sizes[3]));
    let [n, c, h, w] = op.layout.to_nchw(&["c0", "c1", "c2", "c3"]);
    let (declarations, start, add, result) = match op.kind {
        // A sum, and one of summands divided by a power of two, which is a number where the mean is.
        Pool2dKind::Average => {
            let power = power(window_height * window_width);
            let (power, back) = (size(power as usize), real(0.5f32.powi(power as i32)));
            let declarations = format!(
                "fn mean(total: vec2<f32>, count: f32) -> f32 {{\n\
                 if is_nan(total.x) || is_infinite(total.x) {{ return total.y / (count * {back}); }}\n\
                 return total.x / count;\n}}\n"
            );
            let add = format!("total += vec2<f32>(value, divided_by_power(value, {power}u));");
            (declarations, "vec2<f32>(0.0f, 0.0f)".to_owned(), add, "mean(total, max(f32(count), 1.0f))")
        }
        Pool2dKind::Max => {
            (String::new(), lowest(input.data_type), format!("total = {};", scalar.call("max", &["total", "value"])), "total")
        }
        Pool2dKind::L2 => {
            let declarations = norm(order).declare(scalar, scalar);
            (declarations, "nothing()".to_owned(), "total = combine(total, lift(value, 0u));".to_owned(), "result(total)")
        }
    };
    // Loops over windows of a size of their own are unrolled.
    let [window_height, window_width] = [window_height, window_width].map(|taps| match op.window_dimensions {
        Some(_) => taps.to_string(),
        None => size(taps).to_string(),
    });
    let (height, width) = (size(height), size(width));
    let body = format!(
        "{coordinates}\
         let n = {n};\nlet c = {c};\n\
         var total = {start};\n\
         var count = 0u;\n\
         for (var tap_y = 0u; tap_y < {window_height}u; tap_y += 1u) {{\n\
         let from_y = {from_y};\n\
         if from_y < 0 || from_y >= i32({height}) {{ continue; }}\n\
         let y = u32(from_y);\n\
         for (var tap_x = 0u; tap_x < {window_width}u; tap_x += 1u) {{\n\
         let from_x = {from_x};\n\
         if from_x < 0 || from_x >= i32({width}) {{ continue; }}\n\
         let x = u32(from_x);\n\
         let value = input({element});\n\
         {add}\n\
         count += 1u;\n\
         }}\n}}\n\
         return {result};",
        coordinates = coordinates(&output.shape, "i", "c"),
        from_y = place(&rows, h, "tap_y"),
        from_x = place(&columns, w, "tap_x"),
    );
    Kernel::new("pool2d").reads(lowering, "input", input).declare(&declarations).each(lowering, output, &body)
}
