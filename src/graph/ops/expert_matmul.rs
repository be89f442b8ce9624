//! Products in which each row has a matrix of its own, of several whose weights have a few bits: layers of experts, of which data chooses
//! some. As products of all matrices, or of matrices that are gathered and expanded, they would read many times as much.

use super::block_quantized::BITS;
use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A product of rows with matrices that are chosen.
    pub struct ExpertMatmul: "MLOperatorOptions" in "" {
        /// `[rows, depth]`.
        a: OperandId,
        /// For each matrix and column of the product the bits of its weights, the first one in the lowest bits: `[matrices, columns, bytes]`.
        weights: OperandId,
        /// Of each block of weights: `[matrices, columns, blocks]`.
        scales: OperandId,
        /// The number of each row's matrix: `[rows]`.
        experts: OperandId,
        bits: u32,
    } options {
        /// What is taken off the integers of a block before they are scaled: the middle of their range if it is absent.
        zero_points: Option<OperandId> = None,
    }
    [
        ("a", Of(DataTypes::of(&[DataType::Float32])), rank(2)),
        ("weights", Of(DataTypes::of(&[DataType::Uint8])), rank(3)),
        ("scales", SameAs("a"), rank(3)),
        ("experts", Of(DataTypes::of(&[DataType::Int32])), rank(1)),
        ("zero_points", SameAs("a"), rank(3)),
    ] -> One [("output", SameAs("a"), rank(2))] {
        /// Multiplies each row with the matrix of its number, whose weights are `(integer - zero point) * scale`. Numbers that are out of
        /// range are the nearest ones within it.
        "expertMatmul"
    }
}

/// The sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub rows: usize,
    pub depth: usize,
    pub experts: usize,
    pub columns: usize,
    pub blocks: usize,
    /// Weights of a block, and bytes of a column's.
    pub block: usize,
    pub bytes: usize,
}

impl ExpertMatmul {
    /// Of operands that the rule has accepted.
    pub fn sizes(&self, shape: impl Fn(OperandId) -> Vec<usize>) -> Sizes {
        let (a, weights, scales) = (shape(self.a), shape(self.weights), shape(self.scales));
        Sizes {
            rows: a[0],
            depth: a[1],
            experts: scales[0],
            columns: scales[1],
            blocks: scales[2],
            block: a[1] / scales[2],
            bytes: weights[2],
        }
    }
}

impl Rule for ExpertMatmul {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = |id: OperandId| operands.shape(id);
        let (&[rows, depth], &[experts, columns, blocks]) = (shape(self.a), shape(self.scales)) else {
            unreachable!("the table says which ranks they have")
        };
        if !BITS.contains(&self.bits) {
            return Err(Error::argument("bits", self.bits, format!("{BITS:?}")));
        }
        if !depth.is_multiple_of(blocks) {
            return Err(Error::argument(
                "scales",
                format!("{blocks} blocks"),
                format!("a divisor of the {depth} weights of a column"),
            ));
        }
        let bytes = (u64::from(depth) * u64::from(self.bits)).div_ceil(8);
        let bytes = u32::try_from(bytes)
            .map_err(|_| Error::argument("a", format!("{depth} columns"), "fewer than 2^32 bits of weights"))?;
        check_shape("weights", shape(self.weights), &[experts, columns, bytes])?;
        check_shape("experts", shape(self.experts), &[rows])?;
        if let Some(zero_points) = self.zero_points {
            check_shape("zeroPoints", shape(zero_points), &[experts, columns, blocks])?;
        }
        one(Descriptor::new(DataType::Float32, [rows, columns]))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{Float32, Int32, Uint8};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;
    use crate::graph::testing;

    #[test]
    fn rows_have_the_bits_of_their_weights() {
        let check = |weights: &[u32], experts: &[u32], zero_points: &[u32], bits: u32, expected: Result<&[&str], &str>| {
            let shapes: [(_, &[u32]); 5] =
                [(Float32, &[3, 12]), (Uint8, weights), (Float32, &[2, 5, 4]), (Int32, experts), (Float32, zero_points)];
            let id = |number| Value::Operand(OperandId(number));
            let values = [id(0), id(1), id(2), id(3), Value::Unsigned(bits), id(4)];
            testing::check("expertMatmul", &shapes, &values, expected);
        };
        let output: &[&str] = &["float32[3, 5]"];
        check(&[2, 5, 6], &[3], &[2, 5, 4], 4, Ok(output));
        check(&[2, 5, 5], &[3], &[2, 5, 4], 3, Ok(output));
        check(&[2, 5, 6], &[3], &[2, 5, 4], 3, Err("weights"));
        check(&[2, 5, 6], &[2], &[2, 5, 4], 4, Err("experts"));
        check(&[2, 5, 6], &[3], &[2, 5, 1], 4, Err("zeroPoints"));
        check(&[2, 5, 8], &[3], &[2, 5, 4], 5, Err("bits"));
    }
}
