//! A number in the place of NaN. WebNN says it with `isNaN` and `where`, which read their operand twice: what makes that operand could not
//! do it at once.

use crate::error::Result;
use crate::graph::data_type::FLOAT;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::{OperandId, Operands};

operators! {
    /// A number in the place of NaN.
    pub struct ReplaceNan: "MLReplaceNanOptions" in "" {
        input: OperandId,
    } options {
        /// The number; it may be NaN itself.
        number: f64 = 0.0,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Takes `number` for each value that is NaN, and leaves all others as they are.
        "replaceNaN"
    }
}

impl Rule for ReplaceNan {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}
