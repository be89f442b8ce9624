//! The extreme elements of lines, in order, which WebNN has no operator for.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, DataType, DataTypes};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, at_least, operators};
use crate::graph::shape::check_axis;
use crate::graph::{Descriptor, OperandId, Operands};
use smallvec::smallvec;

operators! {
    /// The greatest or least elements along an axis.
    pub struct TopK: "MLOperatorOptions" in "" {
        input: OperandId,
        axis: u32,
        /// How many elements there are of each line.
        count: u32,
    } options {
        /// Whether the greatest elements come first, or the least.
        largest: bool = true,
    }
    [("input", Of(ANY), at_least(1))] -> Sequence [
        ("values", SameAs("input"), SameRankAs("input")),
        ("indices", Of(DataTypes::of(&[DataType::Int64])), SameRankAs("input")),
    ] {
        /// Finds so many of the greatest or least elements along an axis, in order, and their positions. NaN counts as the
        /// greatest; of equal elements, as 0 and -0 are and all NaNs, the first comes first.
        "topK"
    }
}

impl Rule for TopK {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_axis("axis", self.axis, input.shape.len())?;
        let size = input.shape[self.axis as usize];
        if self.count == 0 || self.count > size {
            return Err(Error::argument("count", self.count, format!("1 to {size}, the size of axis {}", self.axis)));
        }
        let mut shape = input.shape.clone();
        shape[self.axis as usize] = self.count;
        Ok(smallvec![Descriptor { shape: shape.clone(), ..input.clone() }, Descriptor { data_type: DataType::Int64, shape }])
    }
}
