//! Operators that replace elements at places which other operands name.

use super::gather::{check_element_indices, shape_at_coordinates};
use crate::error::Result;
use crate::graph::data_type::{ANY, INDEX};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::shape::check_shape;
use crate::graph::{OperandId, Operands};

operators! {
    /// Elements replaced along an axis, each named by an index.
    pub struct ScatterElements: "MLScatterOptions" in "api-mlgraphbuilder-scatterelements" {
        input: OperandId,
        indices: OperandId,
        updates: OperandId,
    } options {
        /// The axis that the indices refer to.
        axis: u32 = 0,
    }
    [
        ("input", Of(ANY), at_least(1)),
        ("indices", Of(INDEX), SameRankAs("input")),
        ("updates", SameAs("input"), SameRankAs("input")),
    ] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Replaces one element of the input for each index: the one at the index's own position, but with the index
        /// itself along the axis. The indices have the input's shape except for the size of the axis, and the updates,
        /// which hold the new elements, have theirs. A negative index counts from the end; one that is out of range is
        /// clamped.
        "scatterElements"
    }
}

impl Rule for ScatterElements {
    /// `#api-mlgraphbuilder-scatterelements`, from the check of the axis on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let indices = operands.shape(self.indices);
        check_element_indices(&input.shape, indices, self.axis)?;
        check_shape("updates", operands.shape(self.updates), indices)?;
        one(input.clone())
    }
}

operators! {
    /// Slices replaced at coordinates.
    pub struct ScatterNd: "MLOperatorOptions" in "api-mlgraphbuilder-scatternd" {
        input: OperandId,
        indices: OperandId,
        updates: OperandId,
    } options {}
    [
        ("input", Of(ANY), at_least(1)),
        ("indices", Of(INDEX), at_least(1)),
        ("updates", SameAs("input"), N),
    ] -> One [("output", SameAs("input"), at_least(1))] {
        /// Replaces slices of the input at coordinates: the last dimension of the indices holds a coordinate for each of
        /// the input's first dimensions. The updates, which hold the new slices, have the other dimensions of the
        /// indices, and then those of a slice. A negative index counts from the end; one that is out of range is
        /// clamped.
        "scatterND"
    }
}

impl Rule for ScatterNd {
    /// `#api-mlgraphbuilder-scatternd`, from the size of the coordinates on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let expected = shape_at_coordinates(&input.shape, operands.shape(self.indices))?;
        check_shape("updates", operands.shape(self.updates), &expected)?;
        one(input.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;
    use crate::graph::testing;

    #[test]
    fn scatter_elements() {
        let check = |operands: &[(DataType, &[u32])], axis, expected| {
            let mut values: Vec<_> = (0..3).map(|i| Operand(OperandId(i))).collect();
            values.push(Unsigned(axis));
            testing::check("scatterElements", operands, &values, expected);
        };
        check(&[(Int8, &[2, 3]), (Int32, &[2, 9]), (Int8, &[2, 9])], 1, Ok(&["int8[2, 3]"]));
        check(&[(Int8, &[2, 3]), (Int64, &[1, 3]), (Int8, &[1, 3])], 0, Ok(&["int8[2, 3]"]));
        check(&[(Int8, &[2, 3]), (Int8, &[1, 3]), (Int8, &[1, 3])], 0, Err("indices"));
        check(&[(Int8, &[2, 3]), (Int32, &[1, 3]), (Uint8, &[1, 3])], 0, Err("updates"));
        check(&[(Int8, &[2, 3]), (Int32, &[3]), (Int8, &[1, 3])], 0, Err("indices"));
        check(&[(Int8, &[2, 3]), (Int32, &[1, 3]), (Int8, &[3])], 0, Err("updates"));
        check(&[(Int8, &[]), (Int32, &[]), (Int8, &[])], 0, Err("input"));
        check(&[(Int8, &[2, 3]), (Int32, &[1, 3]), (Int8, &[1, 3])], 2, Err("axis"));
        check(&[(Int8, &[2, 3]), (Int32, &[1, 4]), (Int8, &[1, 4])], 0, Err("indices"));
        check(&[(Int8, &[2, 3]), (Int32, &[1, 3]), (Int8, &[2, 3])], 0, Err("updates"));
    }

    #[test]
    fn scatter_nd() {
        let check = |operands: &[(DataType, &[u32])], expected| {
            let values: Vec<_> = (0..3).map(|i| Operand(OperandId(i))).collect();
            testing::check("scatterND", operands, &values, expected);
        };
        check(&[(Int8, &[2, 3, 4]), (Int32, &[5, 2]), (Int8, &[5, 4])], Ok(&["int8[2, 3, 4]"]));
        check(&[(Int8, &[2, 3]), (Uint32, &[2]), (Int8, &[])], Ok(&["int8[2, 3]"]));
        check(&[(Int8, &[2, 3]), (Uint64, &[5, 2]), (Int8, &[5])], Err("indices"));
        check(&[(Int8, &[2, 3]), (Int32, &[5, 2]), (Int32, &[5])], Err("updates"));
        check(&[(Int8, &[2, 3]), (Int32, &[]), (Int8, &[])], Err("indices"));
        check(&[(Int8, &[]), (Int32, &[1]), (Int8, &[])], Err("input"));
        check(&[(Int8, &[2, 3]), (Int32, &[5, 3]), (Int8, &[5])], Err("indices"));
        check(&[(Int8, &[2, 3]), (Int32, &[5, 1]), (Int8, &[5])], Err("updates"));
    }
}
