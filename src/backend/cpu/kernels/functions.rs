//! Which operators are functions of one float32 that the crate of kernels computes, and which of them are done to what another step has
//! made.

#[cfg(test)]
pub mod exact_tests;

use crate::graph::ops::Elementwise;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, GateKind, UnaryKind};
use crate::graph::{DataType, Number, Op, OperandId};
use webnn_kernels::functions::Function;
use webnn_kernels::functions::formulas::{Formula, Power};

/// The formula of an operator that does the same to every number.
pub fn formula(op: &Op) -> Option<Formula> {
    let bound = |bound: Option<Number>, absent| bound.map_or(absent, Number::to_f32);
    Some(match op.elementwise()? {
        Elementwise::Activation(op) => Formula::Of(activation(op.kind)?),
        Elementwise::Clamp(op) => Formula::Clamp(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY)),
        Elementwise::Elu(op) => Formula::Elu(op.alpha as f32),
        Elementwise::Gate(op) => Formula::Of(gate(op.kind)),
        Elementwise::LeakyRelu(op) => Formula::LeakyRelu(op.alpha as f32),
        Elementwise::HardSigmoid(op) => Formula::HardSigmoid(op.alpha as f32, op.beta as f32),
        Elementwise::Linear(op) => Formula::Linear(op.alpha as f32, op.beta as f32),
        Elementwise::Swish(op) => Formula::Swish(op.alpha as f32),
        Elementwise::ReplaceNan(op) => Formula::ReplaceNan(op.number as f32),
        Elementwise::Unary(op) => Formula::Of(unary(op.kind)?),
        // Of a chain, whose numbers stay float32.
        Elementwise::Cast(op) if op.data_type == DataType::Float16 => Formula::Of(Function::Float16),
        Elementwise::Cast(_) => return None,
        // Of two numbers: `epilogue.rs` has those that post-ops do.
        Elementwise::Binary(_) | Elementwise::Prelu(_) | Elementwise::Remainder(_) | Elementwise::Where(_) => return None,
        // Of other types.
        Elementwise::DequantizeLinear(_)
        | Elementwise::Logical(_)
        | Elementwise::Predicate(_)
        | Elementwise::QuantizeLinear(_) => return None,
    })
}

fn activation(kind: ActivationKind) -> Option<Function> {
    Some(match kind {
        ActivationKind::Gelu => Function::Gelu,
        ActivationKind::HardSwish => Function::HardSwish,
        ActivationKind::Relu => Function::Relu,
        ActivationKind::Sigmoid => Function::Sigmoid,
        ActivationKind::Softplus => Function::Softplus,
        ActivationKind::Softsign => return None,
        ActivationKind::Tanh => Function::Tanh,
    })
}

fn gate(kind: GateKind) -> Function {
    match kind {
        GateKind::Mish => Function::Mish,
        GateKind::TanhGelu => Function::TanhGelu,
    }
}

fn unary(kind: UnaryKind) -> Option<Function> {
    Some(match kind {
        UnaryKind::Abs => Function::Abs,
        UnaryKind::Ceil => Function::Ceil,
        UnaryKind::Cos => Function::Cos,
        UnaryKind::Erf => Function::Erf,
        UnaryKind::Exp => Function::Exp,
        UnaryKind::Floor => Function::Floor,
        UnaryKind::Log => Function::Log,
        UnaryKind::Neg => Function::Neg,
        UnaryKind::Reciprocal => Function::Reciprocal,
        UnaryKind::RoundEven => Function::RoundEven,
        UnaryKind::Sign => Function::Sign,
        UnaryKind::Sin => Function::Sin,
        UnaryKind::Sqrt => Function::Sqrt,
        UnaryKind::Identity | UnaryKind::Tan => return None,
    })
}

/// Whether an operator becomes a stage of the step that makes its data (`epilogue.rs`); `number` gives an operand that is a constant of
/// one float32.
pub fn is_quick(op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
    match op {
        Op::Binary(op) => match op.kind {
            BinaryKind::Add | BinaryKind::Sub | BinaryKind::Mul | BinaryKind::Div => true,
            BinaryKind::Pow => number(op.b).and_then(Power::of).is_some(),
            BinaryKind::Max | BinaryKind::Min => false,
        },
        Op::Prelu(_) => true,
        // A step of its own: whether it pays in the step of another has not been measured.
        Op::Unary(op) if op.kind == UnaryKind::Log => false,
        op => formula(op).is_some(),
    }
}

/// Whether all kernels do an operator to their own results, those for other data types than float32 and without fast loops, too.
pub fn is_always_fused(op: &Op) -> bool {
    match op {
        Op::Clamp(_) => true,
        Op::Activation(op) => op.kind == ActivationKind::Relu,
        Op::Binary(op) => op.kind == BinaryKind::Add,
        _ => false,
    }
}
