//! Maxima of the parts of regions of images: each thread goes through the pixels of a part.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::backend::wgpu::shader::{float, size};
use crate::error::Result;
use crate::graph::ops::roi::{FARTHEST, RoiMaxPool};

pub fn roi_max_pool(lowering: &mut Lowering<'_>, op: &RoiMaxPool, operands: &Operands) -> Result<()> {
    let (input, regions) = (operands.input(op.input), operands.input(op.regions));
    let &[images, channels, height, width] = &input.shape[..] else { unreachable!("the input's rank is 4") };
    let [rows, columns] = op.sizes;
    let whole = size(channels * (rows * columns) as usize);
    let (images, channels, plane) = (size(images), size(channels), size(height * width));
    let (height, width) = (size(height), size(width));
    let text = format!(
        "fn place(x: f32) -> i32 {{\n\
         if is_nan(x) {{ return 0; }}\n\
         // Halves go away from 0.\n\
         let whole = trunc(x);\n\
         let rounded = select(whole, whole + sign(x), abs(x - whole) >= 0.5f);\n\
         return i32(clamp(rounded, -{FARTHEST}.0f, {FARTHEST}.0f));\n}}\n\
         // Where part `number` of `count` begins, and where it ends.\n\
         fn part(first: i32, last: i32, number: i32, count: i32, size: i32) -> vec2<i32> {{\n\
         let length = max(last - first + 1, 1);\n\
         let whole = length / count;\n\
         let rest = length % count;\n\
         let begin = first + number * whole + number * rest / count;\n\
         let end = first + (number + 1) * whole + ((number + 1) * rest + count - 1) / count;\n\
         return clamp(vec2<i32>(begin, end), vec2<i32>(0), vec2<i32>(size));\n}}\n"
    );
    let body = format!(
        "let region = i / {whole}u * 5u;\n\
         let channel = i / {parts}u % {channels}u;\n\
         let number = regions(region);\n\
         if is_nan(number) || number <= -1.0f || number >= {images}.0f {{ return 0.0f; }}\n\
         let image = (u32(trunc(number)) * {channels}u + channel) * {plane}u;\n\
         let x = part(place(regions(region + 1u) * {scale}), place(regions(region + 3u) * {scale}), \
         i32(i % {columns}u), {columns}, {width});\n\
         let y = part(place(regions(region + 2u) * {scale}), place(regions(region + 4u) * {scale}), \
         i32(i / {columns}u % {rows}u), {rows}, {height});\n\
         if x.x >= x.y || y.x >= y.y {{ return 0.0f; }}\n\
         var best = input(image + u32(y.x) * {width}u + u32(x.x));\n\
         for (var row = u32(y.x); row < u32(y.y); row += 1u) {{\n\
         for (var column = u32(x.x); column < u32(x.y); column += 1u) {{\n\
         let value = input(image + row * {width}u + column);\n\
         if is_nan(value) {{ return value; }}\n\
         if value > best {{ best = value; }}\n\
         }}\n}}\n\
         return best;",
        parts = rows * columns,
        scale = float(op.scale as f32),
    );
    let kernel = Kernel::new("roiMaxPool").reads(lowering, "input", input).reads(lowering, "regions", regions);
    kernel.declare(&text).each(lowering, operands.output(), &body)
}
