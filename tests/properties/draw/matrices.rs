//! Products of matrices.

use super::elementwise::stretchable;
use super::{Contents, Draw};
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::Value;

pub fn matmul(draw: &mut Draw<'_>) {
    let (rank_a, rank_b) = (draw.rank("a"), draw.rank("b"));
    let batch: Vec<usize> = (2..rank_a.max(rank_b)).map(|_| draw.random.pick(&[1, 2, 3])).collect();
    let [rows, inner, columns] = sizes(draw, batch.iter().product());
    for (field, rank, matrix) in [("a", rank_a, [rows, inner]), ("b", rank_b, [inner, columns])] {
        let mut shape = stretchable(draw, &batch[batch.len() + 2 - rank..]);
        shape.extend(matrix);
        draw.operand(field, &shape, Contents::Summands);
    }
}

/// Rows, inner size and columns: small ones, and now and then some beyond the blocks in which products are computed.
fn sizes(draw: &mut Draw<'_>, batches: usize) -> [usize; 3] {
    let most = if batches < 4 && draw.random.once_in(10) { 70 } else { 6 };
    [(); 3].map(|()| draw.random.between(1, most))
}

pub fn gemm(draw: &mut Draw<'_>) {
    let [rows, inner, columns] = sizes(draw, 1);
    let a = if draw.boolean("a_transpose", false) { [inner, rows] } else { [rows, inner] };
    let b = if draw.boolean("b_transpose", false) { [columns, inner] } else { [inner, columns] };
    draw.operand("a", &a, Contents::Moderate);
    draw.operand("b", &b, Contents::Moderate);
    let rank = draw.rank("c");
    let c = stretchable(draw, &[rows, columns][2 - rank..]);
    draw.optional("c", &c, Contents::Moderate);
}

/// Matrices of each number of bits, some of which no row has.
pub fn experts(draw: &mut Draw<'_>) {
    let bits = draw.random.pick(&[2, 3, 4, 8]);
    let [rows, blocks, block, matrices] = [8, 4, 20, 4].map(|most| draw.random.between(1, most));
    let (depth, columns) = (blocks * block, draw.random.between(1, 30));
    draw.operand("a", &[rows, depth], Contents::Moderate);
    draw.operand("weights", &[matrices, columns, (depth * bits).div_ceil(8)], Contents::Anything);
    draw.operand("scales", &[matrices, columns, blocks], Contents::Factors);
    draw.operand("experts", &[rows], Contents::Indices(matrices));
    draw.set("bits", Value::Unsigned(bits as u32));
    draw.optional("zero_points", &[matrices, columns, blocks], Contents::Moderate);
}

/// Weights of each number of bits, in blocks of any length, and in those that kernels are made for.
pub fn block_quantized(draw: &mut Draw<'_>) {
    let bits = draw.random.pick(&[2, 3, 4, 8]);
    let is_float16 = draw.enumeration("coding") == 3;
    let bits = if is_float16 { 16 } else { bits };
    let by_depth = draw.boolean("by_depth", false);
    let most = if draw.random.once_in(3) { 80 } else { 12 };
    let (rows, depth, columns) = (draw.random.between(1, 10), draw.random.between(1, most), draw.random.between(1, 70));
    let short = draw.random.between(1, 24);
    let block = draw.random.pick(&[16, 32, short]);
    // The first of two has the high bits only where two share a byte.
    let wants_high = draw.boolean("high_first", false) && !is_float16;
    if is_float16 {
        draw.set("high_first", Value::Boolean(false));
    }
    let (bits, block, by_depth) = if wants_high { (4, block.next_multiple_of(2), false) } else { (bits, block, by_depth) };
    if wants_high {
        draw.set("by_depth", Value::Boolean(false));
    }
    let bytes = |count: usize| (count * bits).div_ceil(8);
    let blocks = depth.div_ceil(block);
    let ordered = |columns: usize, blocks: usize| if by_depth { [blocks, columns] } else { [columns, blocks] };
    let rank = draw.rank("a");
    let mut shape = vec![1; rank - 2];
    shape.extend([rows, depth]);
    draw.operand("a", &shape, Contents::Moderate);
    let weights = if by_depth { [depth, bytes(columns)] } else { [columns, blocks * bytes(block)] };
    draw.operand("weights", &weights, Contents::Anything);
    draw.operand("scales", &ordered(columns, blocks), Contents::Factors);
    let zero_points = match draw.data_type("zero_points") {
        DataType::Uint8 if by_depth => [blocks, bytes(columns)],
        DataType::Uint8 => [columns, bytes(blocks)],
        _ => ordered(columns, blocks),
    };
    // Of integers any, of numbers ordinary ones.
    let contents = if draw.data_type("zero_points") == DataType::Uint8 { Contents::Anything } else { Contents::Moderate };
    if is_float16 {
        draw.set("zero_points", Value::Absent);
        draw.set("code_book", Value::Absent);
    } else {
        draw.optional("zero_points", &zero_points, contents);
        draw.optional("code_book", &[1 << bits], Contents::Moderate);
    }
    draw.optional("bias", &[columns], Contents::Moderate);
    // Kernels are made for weights that are known.
    if draw.random.once_in(2) {
        draw.operands.iter_mut().enumerate().for_each(|(i, operand)| operand.is_constant = i > 0);
    }
    draw.set("bits", Value::Unsigned(bits as u32));
    draw.set("block_size", Value::Unsigned(block as u32));
}

/// Bytes of both signs, and zero points of everything, of rows and columns, and of matrices.
pub fn quantized(draw: &mut Draw<'_>) {
    let (rank_a, rank_b) = (draw.rank("a"), draw.rank("b"));
    let batch: Vec<usize> = (2..rank_a.max(rank_b)).map(|_| draw.random.pick(&[1, 2, 3])).collect();
    let [rows, inner, columns] = sizes(draw, batch.iter().product());
    let mut zeros = Vec::new();
    for (field, rank, matrix, zero) in [("a", rank_a, [rows, inner], [rows, 1]), ("b", rank_b, [inner, columns], [1, columns])] {
        let mut shape = stretchable(draw, &batch[batch.len() + 2 - rank..]);
        let mut of_zeros = shape.clone();
        shape.extend(matrix);
        of_zeros.extend(zero);
        draw.operand(field, &shape, Contents::Anything);
        zeros.push(of_zeros);
    }
    for (field, shape) in ["a_zero_point", "b_zero_point"].into_iter().zip(zeros) {
        let rank = match draw.wished_rank(field) {
            Some(rank) => rank.min(shape.len()),
            None => draw.random.between(0, shape.len()),
        };
        let shape = stretchable(draw, &shape[shape.len() - rank..]);
        draw.optional(field, &shape, Contents::Anything);
    }
    // Kernels are made for one matrix that is known.
    if draw.random.once_in(2) {
        draw.operands.iter_mut().enumerate().for_each(|(i, operand)| operand.is_constant = matches!(i, 1 | 3));
    }
}
