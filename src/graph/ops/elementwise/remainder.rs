//! Remainders of divisions, which WebNN has no operator for.

use crate::error::Result;
use crate::graph::data_type::ANY;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::broadcast;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// What a division leaves of the first operand, exactly, however large the quotient; the operands are broadcast to each
    /// other.
    pub struct Remainder(RemainderKind): "MLOperatorOptions" in "" {
        a: OperandId,
        b: OperandId,
    } options {}
    [("a", Of(ANY), N), ("b", SameAs("a"), N)] -> One [("output", SameAs("a"), N)] {
        /// The remainder of a division whose quotient is rounded towards zero, as C's `fmod` and `%`: it has the sign of the
        /// first operand. NaN if that is infinite or the second is 0; an integer divided by 0 leaves itself.
        "truncatedRemainder" Truncated,
        /// The remainder of a division whose quotient is rounded down, as Python's `%`: it has the sign of the second operand,
        /// and is rounded once where that sign makes it a sum. NaN if the first operand is infinite or the second is 0; an
        /// integer divided by 0 leaves itself.
        "flooredRemainder" Floored,
    }
}

impl Rule for Remainder {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = broadcast(("a", operands.shape(self.a)), ("b", operands.shape(self.b)))?;
        one(Descriptor::new(operands.data_type(self.a), shape))
    }
}
