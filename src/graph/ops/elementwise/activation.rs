//! Activation functions.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, DataType, FLOAT, SIGNED};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::broadcast;
use crate::graph::{Descriptor, Number, OperandId, Operands};
use std::cmp::Ordering;

operators! {
    /// An activation function without parameters.
    pub struct Activation(ActivationKind): "MLOperatorOptions" in "api-mlgraphbuilder-relu-method" {
        input: OperandId,
    } options {}
    [("input", Of(SIGNED), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes the rectified linear function `max(0, x)`, element by element.
        "relu" Relu,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes the Gaussian error linear unit `0.5 * x * (1 + erf(x / sqrt(2)))`, element by element.
        "gelu" Gelu in "api-mlgraphbuilder-gelu-method",
        /// Computes `x * max(0, min(6, x + 3)) / 6`, element by element.
        "hardSwish" HardSwish in "api-mlgraphbuilder-hard-swish",
        /// Computes the sigmoid function `1 / (exp(-x) + 1)`, element by element.
        "sigmoid" Sigmoid in "api-mlgraphbuilder-sigmoid-method",
        /// Computes the softplus function `ln(1 + exp(x))`, element by element.
        "softplus" Softplus in "api-mlgraphbuilder-softplus-method",
        /// Computes the softsign function `x / (1 + |x|)`, element by element.
        "softsign" Softsign in "api-mlgraphbuilder-softsign-method",
        /// Computes the hyperbolic tangent, element by element.
        "tanh" Tanh in "api-mlgraphbuilder-tanh-method",
    }
}

impl ActivationKind {
    /// Whether what it makes of a finite number is finite.
    pub fn gives_finite(self) -> bool {
        match self {
            ActivationKind::Gelu
            | ActivationKind::HardSwish
            | ActivationKind::Relu
            | ActivationKind::Sigmoid
            | ActivationKind::Softplus
            | ActivationKind::Softsign
            | ActivationKind::Tanh => true,
        }
    }
}

impl Rule for Activation {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}

operators! {
    /// A restriction to a range.
    pub struct Clamp: "MLClampOptions" in "api-mlgraphbuilder-clamp" {
        input: OperandId,
    } options {
        /// The lower bound; it must not be above `maxValue`, both taken as the input's data type.
        min_value: Option<Number> = None,
        /// The upper bound.
        max_value: Option<Number> = None,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Limits values to the range from `minValue` to `maxValue`, element by element. A bound that
        /// is missing does not limit.
        "clamp"
    }
}

impl Rule for Clamp {
    /// `#api-mlgraphbuilder-clamp`, from the defaults on. (The steps have the signs of the two infinities the wrong way
    /// round: a bound that is not given is no bound.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        if let (Some(min), Some(max)) = (self.min_value, self.max_value)
            && compare_as(input.data_type, min, max) == Some(Ordering::Greater)
        {
            return Err(Error::argument(
                "minValue",
                format!("{} above the maxValue of {}", min.to_f64(), max.to_f64()),
                format!("a {} that is not above maxValue", input.data_type),
            ));
        }
        one(input.clone())
    }
}

/// Compares numbers after *casting* them to a data type. Nothing when one is NaN.
fn compare_as(data_type: DataType, a: Number, b: Number) -> Option<Ordering> {
    match data_type {
        DataType::Float32 => a.to_f32().partial_cmp(&b.to_f32()),
        DataType::Float16 => a.to_f16().partial_cmp(&b.to_f16()),
        _ => a.to_integer(data_type).partial_cmp(&b.to_integer(data_type)),
    }
}

operators! {
    /// The exponential linear unit.
    pub struct Elu: "MLEluOptions" in "api-mlgraphbuilder-elu" {
        input: OperandId,
    } options {
        /// The factor of the exponential part.
        alpha: f64 = 1.0,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes the exponential linear unit `max(0, x) + alpha * (exp(min(0, x)) - 1)`, element by element.
        "elu"
    }
}

operators! {
    /// The piecewise linear sigmoid function.
    pub struct HardSigmoid: "MLHardSigmoidOptions" in "api-mlgraphbuilder-hard-sigmoid" {
        input: OperandId,
    } options {
        /// The factor.
        alpha: f64 = 0.2,
        /// The summand.
        beta: f64 = 0.5,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes `max(0, min(1, alpha * x + beta))`, element by element.
        "hardSigmoid"
    }
}

operators! {
    /// The rectified linear function with a slope below zero.
    pub struct LeakyRelu: "MLLeakyReluOptions" in "api-mlgraphbuilder-leakyrelu" {
        input: OperandId,
    } options {
        /// The slope below zero.
        alpha: f64 = 0.01,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes `max(0, x) + alpha * min(0, x)`, element by element.
        "leakyRelu"
    }
}

operators! {
    /// A linear function.
    pub struct Linear: "MLLinearOptions" in "api-mlgraphbuilder-linear" {
        input: OperandId,
    } options {
        /// The factor.
        alpha: f64 = 1.0,
        /// The summand.
        beta: f64 = 0.0,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Computes `alpha * x + beta`, element by element.
        "linear"
    }
}

/// Functions with options that every number is good for: the row says all that is to be checked.
macro_rules! checked_by_row {
    ($($Node:ty)*) => { $(
        impl Rule for $Node {
            fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
                one(operands.descriptor(self.input).clone())
            }
        }
    )* };
}

checked_by_row! { Elu HardSigmoid LeakyRelu Linear }

operators! {
    /// The rectified linear function with slopes that are data.
    pub struct Prelu: "MLOperatorOptions" in "api-mlgraphbuilder-prelu" {
        input: OperandId,
        slope: OperandId,
    } options {}
    [("input", Of(SIGNED), N), ("slope", SameAs("input"), N)] -> One [("output", SameAs("input"), N)] {
        /// Computes `max(0, x) + slope * min(0, x)`, element by element. The input and the slope are broadcast to each
        /// other.
        "prelu"
    }
}

impl Rule for Prelu {
    /// `#api-mlgraphbuilder-prelu`, the broadcasting.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = broadcast(("slope", operands.shape(self.slope)), ("input", operands.shape(self.input)))?;
        one(Descriptor::new(operands.data_type(self.input), shape))
    }
}
