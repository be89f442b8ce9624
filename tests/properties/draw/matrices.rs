//! Products of matrices.

use super::elementwise::stretchable;
use super::{Contents, Draw};

pub fn matmul(draw: &mut Draw<'_>) {
    let (rank_a, rank_b) = (draw.rank("a"), draw.rank("b"));
    let batch: Vec<usize> = (2..rank_a.max(rank_b)).map(|_| draw.random.pick(&[1, 2, 3])).collect();
    let [rows, inner, columns] = [(); 3].map(|()| draw.random.between(1, 6));
    for (field, rank, matrix) in [("a", rank_a, [rows, inner]), ("b", rank_b, [inner, columns])] {
        let mut shape = stretchable(draw, &batch[batch.len() + 2 - rank..]);
        shape.extend(matrix);
        draw.operand(field, &shape, Contents::Summands);
    }
}

pub fn gemm(draw: &mut Draw<'_>) {
    let [rows, inner, columns] = [(); 3].map(|()| draw.random.between(1, 7));
    let a = if draw.boolean("a_transpose", false) { [inner, rows] } else { [rows, inner] };
    let b = if draw.boolean("b_transpose", false) { [columns, inner] } else { [inner, columns] };
    draw.operand("a", &a, Contents::Moderate);
    draw.operand("b", &b, Contents::Moderate);
    let rank = draw.rank("c");
    let c = stretchable(draw, &[rows, columns][2 - rank..]);
    draw.optional("c", &c, Contents::Moderate);
}
