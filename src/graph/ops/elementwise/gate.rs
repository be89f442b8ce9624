//! A number times a factor that is made of it and is between 0 and 1. Products with WebNN's functions are rounded several times,
//! lose the digits of small factors, and are no numbers at minus infinity.

use crate::error::Result;
use crate::graph::data_type::FLOAT;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::{OperandId, Operands};

operators! {
    /// The swish function, also known as SiLU.
    pub struct Swish: "MLSwishOptions" in "" {
        input: OperandId,
    } options {
        /// The factor within the sigmoid.
        alpha: f64 = 1.0,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes `x * sigmoid(alpha * x)`, element by element; 0 where that is infinity times 0.
        "swish"
    }
}

operators! {
    /// A function of that kind without parameters.
    pub struct Gate(GateKind): "MLOperatorOptions" in "" {
        input: OperandId,
    } options {}
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes `x * tanh(ln(1 + exp(x)))`, element by element; 0 at minus infinity.
        "mish" Mish,
        /// Computes `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`, element by element; 0 at minus infinity.
        "tanhGelu" TanhGelu,
    }
}

impl GateKind {
    /// Whether what it makes of a finite number is finite.
    pub fn gives_finite(self) -> bool {
        match self {
            GateKind::Mish | GateKind::TanhGelu => true,
        }
    }
}

impl Rule for Swish {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}

impl Rule for Gate {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}
