//! Probabilities of classes from those of pairs of classes, which are found step by step until they no longer change.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::operator::Types::Of;
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

/// More classes need more memory than a thread of a GPU has.
pub const MOST_CLASSES: u32 = 256;

operators! {
    /// Probabilities of classes from those of pairs.
    pub struct PairwiseCoupling: "MLOperatorOptions" in "" {
        /// In each row the probability of the first class of each pair, in the order of the first and then of the second.
        input: OperandId,
        classes: u32,
    } options {}
    [("input", Of(DataTypes::of(&[DataType::Float32])), rank(2))] -> One [
        ("output", Of(DataTypes::of(&[DataType::Float32])), rank(2)),
    ] {
        /// Finds the probabilities of classes that agree best with those of pairs of classes: the second method of Wu, Lin and
        /// Weng (Probability Estimates for Multi-class Classification by Pairwise Coupling, 2004), which begins with
        /// equal ones and ends, as LIBSVM does, when no error is above 0.005 divided by the number of classes, or after 100
        /// steps, or as many as there are classes.
        "pairwiseCoupling"
    }
}

impl Rule for PairwiseCoupling {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = operands.shape(self.input);
        if !(2..=MOST_CLASSES).contains(&self.classes) {
            return Err(Error::argument("classes", self.classes, format!("2 to {MOST_CLASSES}")));
        }
        check_shape("input", shape, &[shape[0], self.classes * (self.classes - 1) / 2])?;
        one(Descriptor::new(DataType::Float32, [shape[0], self.classes]))
    }
}
