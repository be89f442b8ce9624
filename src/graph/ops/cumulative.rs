//! Running sums and products.

use crate::error::Result;
use crate::graph::attribute::Modulo;
use crate::graph::data_type::WIDE;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, at_least, one, operators};
use crate::graph::shape::check_axis;
use crate::graph::{OperandId, Operands};

operators! {
    /// Running sums along an axis.
    pub struct CumulativeSum: "MLCumulativeSumOptions" in "api-mlgraphbuilder-cumulativesum" {
        input: OperandId,
        axis: Modulo<u32>,
    } options {
        /// Whether a sum excludes the value at its own place.
        exclusive: bool = false,
        /// Whether summing starts at the end of the axis.
        reversed: bool = false,
    }
    [("input", Of(WIDE), at_least(1))] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Sums the values along the axis up to each place. Integers wrap around.
        "cumulativeSum"
    }
}

operators! {
    /// Running products along an axis.
    pub struct CumulativeProduct: "MLOperatorOptions" in "" {
        input: OperandId,
        axis: Modulo<u32>,
    } options {
        /// Whether a product leaves out the value at its own place.
        exclusive: bool = false,
        /// Whether multiplying starts at the end of the axis.
        reversed: bool = false,
    }
    [("input", Of(WIDE), at_least(1))] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Multiplies the values along the axis up to each place. Integers wrap around. A product of floats is finite where the exact
        /// one is in the range of its type, whatever a part of it is.
        "cumulativeProduct"
    }
}

impl Rule for CumulativeSum {
    /// `#api-mlgraphbuilder-cumulativesum`, the check of the axis.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_axis("axis", self.axis.0, operands.rank(self.input))?;
        one(operands.descriptor(self.input).clone())
    }
}

impl Rule for CumulativeProduct {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_axis("axis", self.axis.0, operands.rank(self.input))?;
        one(operands.descriptor(self.input).clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;
    use crate::graph::testing;

    #[test]
    fn rule() {
        let check = |operand: (DataType, &[u32]), axis, expected: Result<&[&str], &str>| {
            for name in ["cumulativeSum", "cumulativeProduct"] {
                testing::check(name, &[operand], &[Value::Operand(OperandId(0)), Value::Unsigned(axis)], expected);
            }
        };
        check((Float32, &[2, 3]), 1, Ok(&["float32[2, 3]"]));
        check((Uint64, &[2]), 0, Ok(&["uint64[2]"]));
        check((Float32, &[2, 3]), 2, Err("axis"));
        check((Float32, &[2, 3]), u32::MAX, Err("axis"));
        check((Float32, &[]), 0, Err("input"));
        check((Int8, &[2]), 0, Err("input"));
    }
}
