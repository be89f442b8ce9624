//! Element-wise operators: one kernel with an expression inside. The kernel is [`rows`]; an operator is a formula.

mod activation;
mod binary;
mod cast;
mod logical;
mod quantize;
mod rows;
mod select;
#[cfg(test)]
mod tests;
mod unary;

use crate::backend::cpu::view::Arguments;
use crate::graph::ops::Elementwise;

pub fn elementwise(op: Elementwise<'_>, arguments: &mut Arguments<'_, '_>) {
    match op {
        Elementwise::Activation(op) => activation::activation(op, arguments),
        Elementwise::Binary(op) => binary::binary(op, arguments),
        Elementwise::Cast(op) => cast::cast(op, arguments),
        Elementwise::Clamp(op) => activation::clamp(op, arguments),
        Elementwise::DequantizeLinear(op) => quantize::dequantize_linear(op, arguments),
        Elementwise::Elu(op) => activation::elu(op, arguments),
        Elementwise::Gate(op) => activation::gate(op, arguments),
        Elementwise::HardSigmoid(op) => activation::hard_sigmoid(op, arguments),
        Elementwise::LeakyRelu(op) => activation::leaky_relu(op, arguments),
        Elementwise::Linear(op) => activation::linear(op, arguments),
        Elementwise::Logical(op) => logical::logical(op, arguments),
        Elementwise::Predicate(op) => logical::predicate(op, arguments),
        Elementwise::Prelu(op) => activation::prelu(op, arguments),
        Elementwise::QuantizeLinear(op) => quantize::quantize_linear(op, arguments),
        Elementwise::ReplaceNan(op) => activation::replace_nan(op, arguments),
        Elementwise::Remainder(op) => binary::remainder(op, arguments),
        Elementwise::Swish(op) => activation::swish(op, arguments),
        Elementwise::Unary(op) => unary::unary(op, arguments),
        Elementwise::Where(op) => select::select(op, arguments),
    }
}

/// Formulas of a few instructions, in nanoseconds for an element.
const CHEAP: usize = 1;

/// Formulas that call a mathematical function, in nanoseconds for an element.
const DEAR: usize = 10;
