//! Products of matrices.

use super::elementwise::stretchable;
use super::{Contents, Draw};

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
