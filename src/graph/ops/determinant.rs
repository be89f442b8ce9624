//! Determinants of square matrices.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::descriptor::Dimensions;
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

impl Rule for Determinant {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = operands.shape(self.input);
        let (batches, matrix) = shape.split_at(shape.len() - 2);
        if matrix[0] != matrix[1] {
            return Err(Error::argument("input", format!("shape {}", Dimensions(shape)), "square matrices"));
        }
        one(Descriptor::new(DataType::Float32, batches.iter().copied()))
    }
}
