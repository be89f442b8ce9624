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

pub use activation::{activation, clamp, elu, gate, hard_sigmoid, leaky_relu, linear, prelu, replace_nan, swish};
pub use binary::{binary, remainder};
pub use cast::cast;
pub use logical::{logical, predicate};
pub use quantize::{dequantize_linear, quantize_linear};
pub use select::select;
pub use unary::unary;

/// Formulas of a few instructions, in nanoseconds for an element.
const CHEAP: usize = 1;

/// Formulas that call a mathematical function, in nanoseconds for an element.
const DEAR: usize = 10;
