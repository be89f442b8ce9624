//! Products with weights of a few bits: a product of matrices whose right one is read from its bits.

use super::lowering::{Lowering, Operands};
use super::product::{End, Product};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::block_quantized::{BlockQuantizedMatmul, WeightCoding};

pub fn block_quantized_matmul(lowering: &mut Lowering<'_>, op: &BlockQuantizedMatmul, operands: &Operands) -> Result<()> {
    let (a, weights, scales) = (operands.input(op.a), operands.input(op.weights), operands.input(op.scales));
    let output = operands.output();
    let depth = a.shape[a.shape.len() - 1];
    let sizes = op.sizes(depth, &scales.shape);
    let (columns, bits, block) = (sizes.columns, op.bits, op.block_size);
    let mut reads = vec![("a", a), ("weights", weights), ("scales", scales)];
    let of_block = match op.by_depth {
        true => format!("block * {columns}u + column"),
        false => format!("column * {}u + block", sizes.blocks),
    };
    let half = 1 << (bits - 1);
    let number = match (op.code_book, op.coding) {
        (Some(_), _) => "code_book(code)".to_owned(),
        (None, WeightCoding::Unsigned) => "f32(code)".to_owned(),
        (None, WeightCoding::Offset) => format!("f32(code) - {half}.0f"),
        (None, WeightCoding::Float16) => "f32_from_half(code)".to_owned(),
        (None, WeightCoding::Signed) => format!("f32(code ^ {half}u) - {half}.0f"),
    };
    // The bits `i` of a row that begins with byte `first`.
    let code = |of: &str, i: &str| {
        // What may lie in two bytes.
        let next = match bits {
            3 | 16 => format!(" | ({of}(first + {i} * {bits}u / 8u + 1u) << 8u)"),
            _ => String::new(),
        };
        format!("((({of}(first + {i} * {bits}u / 8u){next}) >> ({i} * {bits}u % 8u)) & {}u)", (1 << bits) - 1)
    };
    let swapped = if op.high_first { " ^ 1u" } else { "" };
    let (first, place) = match op.by_depth {
        true => (format!("k * {}u", sizes.row), "column".to_owned()),
        false => {
            let of_block = sizes.row / sizes.blocks.max(1);
            (format!("column * {}u + block * {of_block}u", sizes.row), format!("((k % {block}u){swapped})"))
        }
    };
    let mut functions = format!(
        "fn left_at(batch: u32, row: u32, k: u32) -> f32 {{ return a(row * {depth}u + k); }}\n\
         fn place(batch: u32, row: u32, column: u32) -> u32 {{ return row * {columns}u + column; }}\n\
         fn number(code: u32) -> f32 {{ return {number}; }}\n"
    );
    let zero_point = match op.zero_points.map(|id| operands.input(id)) {
        None => "return 0.0f;".to_owned(),
        Some(zero_points) => {
            reads.push(("zero_points", zero_points));
            if zero_points.data_type == DataType::Uint8 {
                let (row, place) = if op.by_depth { ("block", "column") } else { ("column", "block") };
                format!("let first = {row} * {}u; return number({});", sizes.zero_row, code("zero_points", place))
            } else {
                format!("return zero_points({of_block});")
            }
        }
    };
    if let Some(code_book) = op.code_book {
        reads.push(("code_book", operands.input(code_book)));
    }
    functions.push_str(&format!(
        "fn zero_point(block: u32, column: u32) -> f32 {{ {zero_point} }}\n\
         fn right_at(batch: u32, k: u32, column: u32) -> f32 {{\n\
         let block = k / {block}u;\n\
         let first = {first};\n\
         return (number({}) - zero_point(block, column)) * scales({of_block});\n}}\n",
        code("weights", &place),
    ));
    let mut end = End { reads: Vec::new(), text: String::new(), then: Some((a.data_type, operands)) };
    if let Some(bias) = op.bias {
        end.reads.push(("bias", operands.input(bias)));
        end.text = format!("x += bias(i % {columns}u);\n");
    }
    let product = Product {
        label: "blockQuantizedMatmul",
        batches: 1,
        rows: a.count() / depth.max(1),
        depth,
        columns,
        by_depth: [true, !op.by_depth],
        reads,
        functions,
        number: "i".to_owned(),
        end,
    };
    product.lower(lowering, output)
}
