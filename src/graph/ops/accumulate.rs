//! Operators that combine updates with the elements at places which other operands name. WebNN's only replace.

use super::gather::shape_at_coordinates;
use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::{ANY, INDEX};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::shape::{check_axis, check_shape};
use crate::graph::{OperandId, Operands};

enumeration! {
    /// How an update is combined with what is there.
    "Accumulation" Accumulation { Add "add", Mul "mul", Max "max", Min "min" }
}

operators! {
    /// Elements combined with updates along an axis, each named by an index.
    pub struct AccumulateElements: "MLScatterOptions" in "" {
        input: OperandId,
        indices: OperandId,
        updates: OperandId,
    } options {
        /// The axis that the indices refer to.
        axis: u32 = 0,
        /// How an update is combined with what is there.
        reduction: Accumulation = Accumulation::Add,
    }
    [
        ("input", Of(ANY), at_least(1)),
        ("indices", Of(INDEX), SameRankAs("input")),
        ("updates", SameAs("input"), SameRankAs("input")),
    ] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Combines one element of the input with an update for each index, in the order of the updates: the element at the
        /// index's own position, but with the index itself along the axis. The indices are at most as large as the input
        /// but for the size of the axis, and the updates have their shape. A negative index counts from the end; one that
        /// is out of range is clamped. float16 is combined in float32 and rounded once; integers wrap around; NaN stays NaN.
        "accumulateElements"
    }
}

impl Rule for AccumulateElements {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let indices = operands.shape(self.indices);
        check_axis("axis", self.axis, input.shape.len())?;
        let fits = |(axis, (size, most)): (usize, (&u32, &u32))| axis == self.axis as usize || size <= most;
        if !indices.iter().zip(&input.shape).enumerate().all(fits) {
            let allowed = format!("sizes of at most {} but for axis {}", Dimensions(&input.shape), self.axis);
            return Err(Error::argument("indices", format!("shape {}", Dimensions(indices)), allowed));
        }
        check_shape("updates", operands.shape(self.updates), indices)?;
        one(input.clone())
    }
}

operators! {
    /// Slices combined with updates at coordinates.
    pub struct AccumulateNd: "MLOperatorOptions" in "" {
        input: OperandId,
        indices: OperandId,
        updates: OperandId,
    } options {
        /// How an update is combined with what is there.
        reduction: Accumulation = Accumulation::Add,
    }
    [
        ("input", Of(ANY), at_least(1)),
        ("indices", Of(INDEX), at_least(1)),
        ("updates", SameAs("input"), N),
    ] -> One [("output", SameAs("input"), at_least(1))] {
        /// Combines slices of the input with updates at coordinates, as `scatterND` replaces them, in the order of the
        /// updates. float16 is combined in float32 and rounded once; integers wrap around; NaN stays NaN.
        "accumulateND"
    }
}

impl Rule for AccumulateNd {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let expected = shape_at_coordinates(&input.shape, operands.shape(self.indices))?;
        check_shape("updates", operands.shape(self.updates), &expected)?;
        one(input.clone())
    }
}
