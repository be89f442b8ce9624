//! The extreme elements of lines, in order: the place of an element is the number of those that come before it.
//!
//! Each element is compared with those of its line until as many as are wanted come before it, so a line takes at most the
//! square of its length in comparisons, and far fewer where few elements are wanted and the line is in no order.

use super::kernel::Kernel;
use super::kernel::{WORKGROUP, grid};
use super::lowering::{Lowering, Operands};
use crate::backend::strided::Axis;
use crate::backend::wgpu::shader::{Scalar, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::top_k::TopK;

pub fn top_k(lowering: &mut Lowering<'_>, op: &TopK, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let [values, indices] = operands.outputs() else { unreachable!("there are two outputs") };
    let Axis { size: length, run: distance } = Axis::new(&input.shape, op.axis);
    let (count, run, block) = (size(op.count as usize), size(distance), size(length * distance));
    let scalar = input.scalar();
    let (wins, loses) = match op.largest {
        true => (scalar.lt("y", "x"), scalar.lt("x", "y")),
        false => (scalar.lt("x", "y"), scalar.lt("y", "x")),
    };
    let nan = match scalar {
        // NaN is the greatest.
        Scalar::F32 => format!("if is_nan(x) != is_nan(y) {{ return is_nan({}); }}\n", if op.largest { "x" } else { "y" }),
        _ => String::new(),
    };
    let positions = lowering.temporary(DataType::Uint32, &values.shape)?;
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
    let kernel = Kernel::new("topK, places").reads(lowering, "input", input).writes(lowering, "positions", &positions);
    kernel.declare(&text).run(lowering, size_of_grid)?;
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
