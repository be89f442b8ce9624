//! Which operators are functions of one float32 that the crate of kernels computes.

#[cfg(test)]
pub mod exact_tests;

use crate::graph::ops::elementwise::{ActivationKind, GateKind, UnaryKind};
use crate::graph::{DataType, Number, Op};
use webnn_kernels::functions::Function;
use webnn_kernels::functions::formulas::Formula;

/// The formula of an operator that does the same to every number.
pub fn formula(op: &Op) -> Option<Formula> {
    let bound = |bound: Option<Number>, absent| bound.map_or(absent, Number::to_f32);
    Some(match op {
        Op::Activation(op) if op.kind == ActivationKind::Relu => Formula::Of(Function::Relu),
        Op::Clamp(op) => Formula::Clamp(bound(op.min_value, f32::NEG_INFINITY), bound(op.max_value, f32::INFINITY)),
        Op::Elu(op) => Formula::Elu(op.alpha as f32),
        Op::LeakyRelu(op) => Formula::LeakyRelu(op.alpha as f32),
        Op::HardSigmoid(op) => Formula::HardSigmoid(op.alpha as f32, op.beta as f32),
        Op::Linear(op) => Formula::Linear(op.alpha as f32, op.beta as f32),
        Op::Swish(op) => Formula::Swish(op.alpha as f32),
        Op::ReplaceNan(op) => Formula::ReplaceNan(op.number as f32),
        op => Formula::Of(function(op)?),
    })
}

fn function(op: &Op) -> Option<Function> {
    Some(match op {
        Op::Unary(op) => match op.kind {
            UnaryKind::Exp => Function::Exp,
            UnaryKind::Log => Function::Log,
            UnaryKind::Erf => Function::Erf,
            UnaryKind::Sqrt => Function::Sqrt,
            UnaryKind::Neg => Function::Neg,
            UnaryKind::Abs => Function::Abs,
            UnaryKind::Reciprocal => Function::Reciprocal,
            UnaryKind::Sin => Function::Sin,
            UnaryKind::Cos => Function::Cos,
            UnaryKind::Floor => Function::Floor,
            UnaryKind::Ceil => Function::Ceil,
            UnaryKind::RoundEven => Function::RoundEven,
            UnaryKind::Sign => Function::Sign,
            _ => return None,
        },
        Op::Activation(op) => match op.kind {
            ActivationKind::Tanh => Function::Tanh,
            ActivationKind::Sigmoid => Function::Sigmoid,
            ActivationKind::Gelu => Function::Gelu,
            ActivationKind::HardSwish => Function::HardSwish,
            ActivationKind::Softplus => Function::Softplus,
            _ => return None,
        },
        Op::Gate(op) => match op.kind {
            GateKind::Mish => Function::Mish,
            GateKind::TanhGelu => Function::TanhGelu,
        },
        // Of a chain, whose numbers stay float32.
        Op::Cast(op) if op.data_type == DataType::Float16 => Function::Float16,
        _ => return None,
    })
}
