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

use super::Elementwise;
use crate::graph::{DataType, OperandId};

impl Elementwise<'_> {
    /// The data type of the output, by those of the operands.
    pub fn result_type(self, of: &dyn Fn(OperandId) -> DataType) -> DataType {
        match self {
            Elementwise::Cast(op) => op.data_type,
            Elementwise::Logical(_) | Elementwise::Predicate(_) => DataType::Uint8,
            Elementwise::Where(op) => of(op.true_value),
            Elementwise::DequantizeLinear(op) => of(op.scale),
            Elementwise::QuantizeLinear(op) => of(op.zero_point),
            Elementwise::Activation(op) => of(op.input),
            Elementwise::Binary(op) => of(op.a),
            Elementwise::Clamp(op) => of(op.input),
            Elementwise::Elu(op) => of(op.input),
            Elementwise::Gate(op) => of(op.input),
            Elementwise::HardSigmoid(op) => of(op.input),
            Elementwise::LeakyRelu(op) => of(op.input),
            Elementwise::Linear(op) => of(op.input),
            Elementwise::Prelu(op) => of(op.input),
            Elementwise::Remainder(op) => of(op.a),
            Elementwise::ReplaceNan(op) => of(op.input),
            Elementwise::Swish(op) => of(op.input),
            Elementwise::Unary(op) => of(op.input),
        }
    }

    /// Whether the compiler may give an operator its operands in another order of their dimensions, whatever they are: they are
    /// broadcast to each other and of the output's type.
    pub fn takes_any_order(self) -> bool {
        match self {
            Elementwise::Activation(_)
            | Elementwise::Binary(_)
            | Elementwise::Clamp(_)
            | Elementwise::Elu(_)
            | Elementwise::Gate(_)
            | Elementwise::HardSigmoid(_)
            | Elementwise::LeakyRelu(_)
            | Elementwise::Linear(_)
            | Elementwise::Prelu(_)
            | Elementwise::ReplaceNan(_)
            | Elementwise::Swish(_)
            | Elementwise::Unary(_) => true,
            // None of these has been seen between the convolutions of a network.
            Elementwise::Logical(_) | Elementwise::Predicate(_) | Elementwise::Remainder(_) | Elementwise::Where(_) => false,
            // The passes say which of these they turn: elements may share bytes, and operands may have blocks.
            Elementwise::Cast(_) | Elementwise::DequantizeLinear(_) | Elementwise::QuantizeLinear(_) => false,
        }
    }
}
