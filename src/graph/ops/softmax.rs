//! The softmax function.

use crate::error::Result;
use crate::graph::data_type::FLOAT;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, at_least, one, operators};
use crate::graph::shape::check_axis;
use crate::graph::{OperandId, Operands};

operators! {
    /// The softmax function along an axis.
    pub struct Softmax: "MLOperatorOptions" in "api-mlgraphbuilder-softmax-method" {
        input: OperandId,
        axis: u32,
    } options {}
    [("input", Of(FLOAT), at_least(1))] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Divides the exponential of every value by the sum of those along the axis, which gives values from 0 to 1
        /// whose sum along the axis is 1.
        "softmax"
    }
}

impl Rule for Softmax {
    /// `#api-mlgraphbuilder-softmax-method`, the check of the axis.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_axis("axis", self.axis, operands.rank(self.input))?;
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
            testing::check("softmax", &[operand], &[Value::Operand(OperandId(0)), Value::Unsigned(axis)], expected);
        };
        check((Float32, &[2, 3]), 1, Ok(&["float32[2, 3]"]));
        check((Float16, &[2]), 0, Ok(&["float16[2]"]));
        check((Float32, &[2, 3]), 2, Err("axis"));
        check((Float32, &[2, 3]), u32::MAX, Err("axis"));
        check((Float32, &[]), 0, Err("input"));
        check((Int32, &[2]), 0, Err("input"));
    }
}
