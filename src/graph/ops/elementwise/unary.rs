//! Mathematics on one operand.

use crate::error::Result;
use crate::graph::data_type::{ANY, FLOAT, SIGNED};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::{OperandId, Operands};

operators! {
    /// An element-wise operation on one operand.
    pub struct Unary(UnaryKind): "MLOperatorOptions" in "api-mlgraphbuilder-unary" {
        input: OperandId,
    } options {}
    [("input", Of(SIGNED), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes the absolute value, element by element.
        "abs" Abs,
        /// Computes the negative value, element by element.
        "neg" Neg,
        /// Computes the sign, element by element: 1 for positive values, -1 for negative ones, otherwise 0.
        "sign" Sign,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Rounds up to a whole number, element by element.
        "ceil" Ceil,
        /// Computes the cosine of an angle in radians, element by element.
        "cos" Cos,
        /// Computes the error function, element by element.
        "erf" Erf,
        /// Computes the exponential function, element by element.
        "exp" Exp,
        /// Rounds down to a whole number, element by element.
        "floor" Floor,
        /// Computes the natural logarithm, element by element.
        "log" Log,
        /// Computes the reciprocal, element by element.
        "reciprocal" Reciprocal,
        /// Rounds to the nearest whole number, halves to the even one, element by element.
        "roundEven" RoundEven,
        /// Computes the sine of an angle in radians, element by element.
        "sin" Sin,
        /// Computes the square root, element by element.
        "sqrt" Sqrt,
        /// Computes the tangent of an angle in radians, element by element.
        "tan" Tan,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Returns the values of the input unchanged.
        "identity" Identity,
    }
}

impl UnaryKind {
    /// Whether what it makes of a finite number is finite.
    pub fn gives_finite(self) -> bool {
        match self {
            UnaryKind::Exp | UnaryKind::Log | UnaryKind::Reciprocal | UnaryKind::Sqrt | UnaryKind::Tan => false,
            UnaryKind::Abs
            | UnaryKind::Ceil
            | UnaryKind::Cos
            | UnaryKind::Erf
            | UnaryKind::Floor
            | UnaryKind::Identity
            | UnaryKind::Neg
            | UnaryKind::RoundEven
            | UnaryKind::Sign
            | UnaryKind::Sin => true,
        }
    }
}

impl Rule for Unary {
    /// `#api-mlgraphbuilder-unary`, *create an element-wise unary operation*: the row says all that is to be checked.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}
