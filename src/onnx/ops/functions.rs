//! The functions of gates in recurrent networks.

use crate::graph::OperandId;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, Elu, HardSigmoid, LeakyRelu, LogicalKind};
use crate::graph::ops::recurrent::RecurrentNetworkActivation;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;

/// A function with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    Plain(ActivationKind),
    Affine(f64, f64),
    LeakyRelu(f64),
    ThresholdedRelu(f64),
    ScaledTanh(f64, f64),
    HardSigmoid(f64, f64),
    Elu(f64),
}

const SIGMOID: Function = Function::Plain(ActivationKind::Sigmoid);
const TANH: Function = Function::Plain(ActivationKind::Tanh);
pub const LSTM: [Function; 3] = [SIGMOID, TANH, TANH];
pub const GRU: [Function; 2] = [SIGMOID, TANH];
pub const RNN: [Function; 1] = [TANH];

/// The functions of each direction. Parameters are taken from their lists in turn, by the functions that have them.
pub fn of(node: &Node<'_>, defaults: &[Function], directions: usize) -> Mapped<Vec<Vec<Function>>> {
    let Some(names) = node.strings("activations")?.filter(|names| !names.is_empty()) else {
        return Ok(vec![defaults.to_vec(); directions]);
    };
    let mut alphas = node.floats("activation_alpha")?.unwrap_or_default().into_iter().map(f64::from);
    let mut betas = node.floats("activation_beta")?.unwrap_or_default().into_iter().map(f64::from);
    let mut alpha = |default: f64| alphas.next().unwrap_or(default);
    let mut beta = |default: f64| betas.next().unwrap_or(default);
    let mut list = Vec::new();
    for name in &names {
        list.push(match name.to_ascii_lowercase().as_str() {
            "relu" => Function::Plain(ActivationKind::Relu),
            "sigmoid" => SIGMOID,
            "tanh" => TANH,
            "softsign" => Function::Plain(ActivationKind::Softsign),
            "softplus" => Function::Plain(ActivationKind::Softplus),
            "affine" => Function::Affine(alpha(1.0), beta(0.0)),
            "leakyrelu" => Function::LeakyRelu(alpha(0.01)),
            "thresholdedrelu" => Function::ThresholdedRelu(alpha(1.0)),
            "scaledtanh" => Function::ScaledTanh(alpha(1.0), beta(1.0)),
            "hardsigmoid" => Function::HardSigmoid(alpha(0.2), beta(0.5)),
            "elu" => Function::Elu(alpha(1.0)),
            _ => return Err(format!("the activation function {name:?}").into()),
        });
    }
    // One list for both directions, or one for each.
    match list.len() {
        count if count == defaults.len() => Ok(vec![list; directions]),
        count if count == defaults.len() * directions => Ok(list.chunks(defaults.len()).map(<[Function]>::to_vec).collect()),
        count => Err(format!("{count} activation functions").into()),
    }
}

impl Function {
    /// As an activation of WebNN's recurrent networks.
    pub fn plain(&self) -> Option<RecurrentNetworkActivation> {
        match self {
            Function::Plain(ActivationKind::Relu) => Some(RecurrentNetworkActivation::Relu),
            Function::Plain(ActivationKind::Sigmoid) => Some(RecurrentNetworkActivation::Sigmoid),
            Function::Plain(ActivationKind::Tanh) => Some(RecurrentNetworkActivation::Tanh),
            _ => None,
        }
    }

    pub fn emit(&self, input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        match *self {
            Function::Plain(kind) => emit.activation(kind, input),
            Function::Affine(alpha, beta) => {
                let scaled = emit.with(BinaryKind::Mul, input, alpha)?;
                emit.with(BinaryKind::Add, scaled, beta)
            }
            Function::LeakyRelu(alpha) => emit.push(LeakyRelu { input, alpha }),
            Function::ThresholdedRelu(alpha) => {
                let above = emit.compare(LogicalKind::Greater, input, alpha)?;
                let zero = emit.scalar(emit.data_type(input), 0.0)?;
                emit.select(above, input, zero)
            }
            Function::ScaledTanh(alpha, beta) => {
                let scaled = emit.with(BinaryKind::Mul, input, beta)?;
                let tanh = emit.activation(ActivationKind::Tanh, scaled)?;
                emit.with(BinaryKind::Mul, tanh, alpha)
            }
            Function::HardSigmoid(alpha, beta) => emit.push(HardSigmoid { input, alpha, beta }),
            Function::Elu(alpha) => emit.push(Elu { input, alpha }),
        }
    }
}
