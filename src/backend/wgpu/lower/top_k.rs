//! The extreme elements of lines, in order: the place of an element is the number of those that come before it.
//!
//! Each element is compared with those of its line until as many as are wanted come before it, so a line takes at most the
//! square of its length in comparisons, and far fewer where few elements are wanted and the line is in no order. Long lines are sorted.

use super::kernel::Kernel;
use super::kernel::{WORKGROUP, grid};
use super::lowering::{Lowering, Operands, Tensor};
use super::sort::{bits_below, is_worth_sorting, order};
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::top_k::TopK;

pub fn top_k(lowering: &mut Lowering<'_>, op: &TopK, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let [values, indices] = operands.outputs() else { unreachable!("there are two outputs") };
    let Axis { size: length, run: distance } = Axis::new(&input.shape, op.axis);
    let run = size(distance);
    let positions = lowering.temporary(DataType::Uint32, &values.shape)?;
    let count_of_each = op.count as usize;
    if is_worth_sorting(input.count(), length) {
        sorted(lowering, input, op.largest, (length, count_of_each, distance), &positions)?;
    } else {
        compared(lowering, input, op.largest, (length, count_of_each, distance), &positions)?;
    }
    if lowering.is_read(values) {
        let body = format!(
            "return input((i / {}u * {}u + positions(i)) * {run}u + i % {run}u);",
            size(op.count as usize * distance),
            size(length)
        );
        let kernel = Kernel::new("topK, values").reads(lowering, "input", input);
        kernel.reads(lowering, "positions", &positions).each(lowering, values, &body)?;
    }
    if lowering.is_read(indices) {
        let position = Scalar::U32.convert(indices.scalar(), "positions(i)");
        let kernel = Kernel::new("topK, indices").reads(lowering, "positions", &positions);
        kernel.each(lowering, indices, &format!("return {position};"))?;
    }
    Ok(())
}

/// Finds the places in lines, whose elements are `distance` apart, by comparing elements of a line with each other.
fn compared(
    lowering: &mut Lowering<'_>,
    input: &Tensor,
    largest: bool,
    (length, count, distance): (usize, usize, usize),
    positions: &Tensor,
) -> Result<()> {
    let (count, run, block) = (size(count), size(distance), size(length * distance));
    let scalar = input.scalar();
    let (wins, loses) = match largest {
        true => (scalar.lt("y", "x"), scalar.lt("x", "y")),
        false => (scalar.lt("x", "y"), scalar.lt("y", "x")),
    };
    let nan = match scalar {
        // NaN is the greatest.
        Scalar::F32 => format!("if is_nan(x) != is_nan(y) {{ return is_nan({}); }}\n", if largest { "x" } else { "y" }),
        _ => String::new(),
    };
    let total = input.count();
    let (row, size_of_grid) = grid(lowering, total.div_ceil(WORKGROUP));
    // Whether element j, which is x, comes before element k, which is y.
    let text = format!(
        "fn comes_before(x: {name}, j: u32, y: {name}, k: u32) -> bool {{\n\
         {nan}\
         if {wins} {{ return true; }}\n\
         if {loses} {{ return false; }}\n\
         return j < k;\n}}\n\
         @compute @workgroup_size({WORKGROUP}) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.y * {row}u + id.x;\n\
         if i >= {total}u {{ return; }}\n\
         let line = i / {block}u;\n\
         let column = i % {run}u;\n\
         let k = i / {run}u % {length}u;\n\
         let y = input(i);\n\
         var rank = 0u;\n\
         for (var j = 0u; j < {length}u && rank < {count}u; j += 1u) {{\n\
         if comes_before(input(line * {block}u + j * {run}u + column), j, y, k) {{ rank += 1u; }}\n}}\n\
         if rank < {count}u {{ store_positions((line * {count}u + rank) * {run}u + column, k); }}\n}}\n",
        name = scalar.name(),
        row = size(row * WORKGROUP),
        total = size(total),
        length = size(length),
    );
    let kernel = Kernel::new("topK, places").reads(lowering, "input", input).writes(lowering, "positions", positions);
    kernel.declare(&text).run(lowering, size_of_grid)
}

/// Finds them by sorting all elements by their values, and then by their lines.
fn sorted(
    lowering: &mut Lowering<'_>,
    input: &Tensor,
    largest: bool,
    (length, count, distance): (usize, usize, usize),
    positions: &Tensor,
) -> Result<()> {
    let scalar = input.scalar();
    let word = match scalar {
        // NaN is the greatest, and both zeros are one.
        Scalar::F32 => "select(select(bits | 0x80000000u, ~bits, bits > 0x7fffffffu), 0xffffffffu, is_nan(x))",
        Scalar::I32 => "bitcast<u32>(x) ^ 0x80000000u",
        Scalar::U32 => "x",
        Scalar::I64 => "x.y ^ 0x80000000u",
        Scalar::U64 => "x.y",
    };
    let bits = if scalar == Scalar::F32 { "let bits = select(bitcast<u32>(x), 0u, x == 0.0f);\n" } else { "" };
    let words = if scalar.is_wide() { vec!["x.x", word] } else { vec![word] };
    let total = input.count();
    let keys = lowering.temporary(DataType::Uint32, &[total])?;
    let mut current = None;
    for word in words {
        let word = if largest { format!("~({word})") } else { word.to_owned() };
        let kernel = Kernel::new("topK, keys").reads(lowering, "input", input);
        kernel.each(lowering, &keys, &format!("let x = input(i);\n{bits}return {word};"))?;
        current = Some(order(lowering, &keys, 32, current)?);
    }
    let (run, block) = (size(distance), size(length * distance));
    let lines = total / length;
    if lines > 1 {
        let body = format!("return i / {block}u * {run}u + i % {run}u;");
        Kernel::new("topK, lines").each(lowering, &keys, &body)?;
        current = Some(order(lowering, &keys, bits_below(lines), current)?);
    }
    let current = current.expect("there are keys");
    let (count, length) = (size(count), size(length));
    let body = format!(
        "let line = i / ({count}u * {run}u) * {run}u + i % {run}u;\n\
         return order(line * {length}u + i / {run}u % {count}u) / {run}u % {length}u;"
    );
    Kernel::new("topK, places").reads(lowering, "order", &current).each(lowering, positions, &body)
}
