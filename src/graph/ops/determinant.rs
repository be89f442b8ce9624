//! Determinants and inverses of square matrices.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// Determinants of the matrices in the last two dimensions.
    pub struct Determinant: "MLOperatorOptions" in "" {
        input: OperandId,
    } options {}
    [("input", Of(DataTypes::of(&[DataType::Float32])), at_least(2))] -> One [("output", SameAs("input"), N)] {
        /// Computes the determinant of each square matrix, by elimination with the greatest element of a column as pivot.
        "determinant"
    }
}

operators! {
    /// Inverses of the matrices in the last two dimensions.
    pub struct Inverse: "MLOperatorOptions" in "" {
        input: OperandId,
    } options {}
    [("input", Of(DataTypes::of(&[DataType::Float32])), at_least(2))] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes the inverse of each square matrix, by elimination with the greatest element of a column as pivot. Elements of that of
        /// a matrix which has none are infinite or NaN.
        "inverse"
    }
}

/// The dimensions before those of square matrices.
fn check_square<'a>(operands: &'a Operands<'_>, input: OperandId) -> Result<&'a [u32]> {
    let shape = operands.shape(input);
    let (batches, matrix) = shape.split_at(shape.len() - 2);
    if matrix[0] != matrix[1] {
        return Err(Error::argument("input", format!("shape {}", Dimensions(shape)), "square matrices"));
    }
    Ok(batches)
}

impl Rule for Inverse {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_square(operands, self.input)?;
        one(operands.descriptor(self.input).clone())
    }
}

impl Rule for Determinant {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let batches = check_square(operands, self.input)?;
        one(Descriptor::new(DataType::Float32, batches.iter().copied()))
    }
}
