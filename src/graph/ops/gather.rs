//! Operators that read elements at places which other operands name.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, INDEX};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::shape::{check_axis, check_shape};
use crate::graph::{Descriptor, OperandId, Operands, Shape};

operators! {
    /// Slices along an axis, named by indices.
    pub struct Gather: "MLGatherOptions" in "api-mlgraphbuilder-gather" {
        input: OperandId,
        indices: OperandId,
    } options {
        /// The axis that the indices refer to.
        axis: u32 = 0,
    }
    [("input", Of(ANY), at_least(1)), ("indices", Of(INDEX), N)] -> One [("output", SameAs("input"), at_least(1))] {
        /// Gathers slices of the input along an axis, at the given indices. The axis is replaced by the dimensions of the
        /// indices. A negative index counts from the end; one that is out of range is clamped.
        "gather"
    }
}

impl Rule for Gather {
    /// `#api-mlgraphbuilder-gather`, from the check of the axis on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_axis("axis", self.axis, input.rank())?;
        let (before, after) = input.shape.split_at(self.axis as usize);
        let shape = before.iter().chain(operands.shape(self.indices)).chain(&after[1..]);
        one(Descriptor::new(input.data_type, shape.copied()))
    }
}

operators! {
    /// Elements along an axis, each named by an index.
    pub struct GatherElements: "MLGatherOptions" in "api-mlgraphbuilder-gatherelements" {
        input: OperandId,
        indices: OperandId,
    } options {
        /// The axis that the indices refer to.
        axis: u32 = 0,
    }
    [("input", Of(ANY), at_least(1)), ("indices", Of(INDEX), SameRankAs("input"))]
        -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Gathers one element of the input for each index: the one at the index's own position, but with the index itself
        /// along the axis. The indices have the input's shape except for the size of the axis, and the output has
        /// theirs. A negative index counts from the end; one that is out of range is clamped.
        "gatherElements"
    }
}

impl Rule for GatherElements {
    /// `#api-mlgraphbuilder-gatherelements`, from the check of the axis on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let indices = operands.shape(self.indices);
        check_element_indices(&input.shape, indices, self.axis)?;
        one(Descriptor::new(input.data_type, indices.iter().copied()))
    }
}

operators! {
    /// Slices at coordinates.
    pub struct GatherNd: "MLOperatorOptions" in "api-mlgraphbuilder-gathernd" {
        input: OperandId,
        indices: OperandId,
    } options {}
    [("input", Of(ANY), at_least(1)), ("indices", Of(INDEX), at_least(1))] -> One [("output", SameAs("input"), N)] {
        /// Gathers slices of the input at coordinates: the last dimension of the indices holds a coordinate for each of the
        /// input's first dimensions. The output has the other dimensions of the indices, and then those of a slice. A
        /// negative index counts from the end; one that is out of range is clamped.
        "gatherND"
    }
}

impl Rule for GatherNd {
    /// `#api-mlgraphbuilder-gathernd`, from the size of the coordinates on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        one(Descriptor::new(input.data_type, shape_at_coordinates(&input.shape, operands.shape(self.indices))?))
    }
}

/// Checks that indices into elements along an axis have the input's shape except there.
pub(super) fn check_element_indices(input: &[u32], indices: &[u32], axis: u32) -> Result<()> {
    check_axis("axis", axis, input.len())?;
    let mut expected = Shape::from_slice(input);
    expected[axis as usize] = indices[axis as usize];
    check_shape("indices", indices, &expected)
}

/// The shape of all slices of an input at coordinates: a slice for each coordinate.
pub(super) fn shape_at_coordinates(input: &[u32], indices: &[u32]) -> Result<Shape> {
    let Some((&coordinate_size, coordinates)) = indices.split_last() else {
        unreachable!("the indices' rank is at least 1");
    };
    let Some(slice) = input.get(coordinate_size as usize..) else {
        return Err(Error::argument(
            "indices",
            format!("coordinates of size {coordinate_size}"),
            format!("at most the rank of input ({})", input.len()),
        ));
    };
    Ok(coordinates.iter().chain(slice).copied().collect())
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;
    use crate::graph::testing;

    /// Checks a rule that has an input of type int8, indices, and an axis.
    fn check(name: &str, input: &[u32], indices: (DataType, &[u32]), axis: u32, expected: Result<&[&str], &str>) {
        let values = [Operand(OperandId(0)), Operand(OperandId(1)), Unsigned(axis)];
        testing::check(name, &[(Int8, input), indices], &values, expected);
    }

    #[test]
    fn gather() {
        check("gather", &[2, 3, 4], (Int32, &[5, 6]), 1, Ok(&["int8[2, 5, 6, 4]"]));
        check("gather", &[2, 3, 4], (Int64, &[]), 0, Ok(&["int8[3, 4]"]));
        check("gather", &[2], (Uint32, &[]), 0, Ok(&["int8[]"]));
        check("gather", &[2, 3], (Int32, &[5]), 2, Err("axis"));
        check("gather", &[2, 3], (Int32, &[5]), u32::MAX, Err("axis"));
        check("gather", &[], (Int32, &[5]), 0, Err("input"));
        for wrong in [Int8, Uint8, Uint64, Float32, Float16] {
            check("gather", &[2], (wrong, &[5]), 0, Err("indices"));
        }
        check("gather", &[1; 5], (Int32, &[1; 5]), 0, Err("output"));
        check("gather", &[2, 1 << 16], (Int32, &[1 << 16]), 0, Err("output"));
    }

    #[test]
    fn gather_elements() {
        check("gatherElements", &[2, 3], (Int32, &[2, 9]), 1, Ok(&["int8[2, 9]"]));
        check("gatherElements", &[2, 3], (Int32, &[1, 3]), 0, Ok(&["int8[1, 3]"]));
        check("gatherElements", &[2, 3], (Int32, &[1, 3]), 2, Err("axis"));
        check("gatherElements", &[2, 3], (Int32, &[1, 3]), 1, Err("indices"));
        check("gatherElements", &[2, 3], (Int32, &[2]), 0, Err("indices"));
        check("gatherElements", &[2, 3], (Float32, &[2, 3]), 0, Err("indices"));
        check("gatherElements", &[], (Int32, &[]), 0, Err("input"));
    }

    #[test]
    fn gather_nd() {
        let check = |input: &[u32], indices: (DataType, &[u32]), expected| {
            let values = [Operand(OperandId(0)), Operand(OperandId(1))];
            testing::check("gatherND", &[(Int8, input), indices], &values, expected);
        };
        check(&[2, 3, 4], (Int32, &[5, 2]), Ok(&["int8[5, 4]"]));
        check(&[2, 3], (Int32, &[2]), Ok(&["int8[]"]));
        check(&[2, 3], (Int64, &[6, 5, 1]), Ok(&["int8[6, 5, 3]"]));
        check(&[2, 3], (Int32, &[5, 3]), Err("indices"));
        check(&[2, 3], (Int32, &[]), Err("indices"));
        check(&[2, 3], (Uint8, &[5, 1]), Err("indices"));
        check(&[], (Int32, &[5, 1]), Err("input"));
        check(&[1; 8], (Int32, &[5, 4, 1]), Err("output"));
    }
}
