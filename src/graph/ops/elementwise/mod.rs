//! Element-wise operators: every output element depends on one element of each operand, broadcast where need be.

mod activation;
mod binary;
mod cast;
mod gate;
mod logical;
mod quantize;
mod remainder;
mod replace_nan;
mod select;
mod unary;

#[cfg(test)]
mod tests;

pub use activation::{Activation, ActivationKind, Clamp, Elu, HardSigmoid, LeakyRelu, Linear, Prelu};
pub use binary::{Binary, BinaryKind};
pub use cast::Cast;
pub use gate::{Gate, GateKind, Swish};
pub use logical::{Logical, LogicalKind, Predicate, PredicateKind};
pub use quantize::{DequantizeLinear, QuantizeLinear};
pub use remainder::{Remainder, RemainderKind};
pub use replace_nan::ReplaceNan;
pub use select::Where;
pub use unary::{Unary, UnaryKind};
