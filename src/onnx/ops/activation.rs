//! Activation functions.

use super::elementwise::one;
use crate::graph::ops::elementwise::{
    ActivationKind, BinaryKind, Elu, Gate, GateKind, HardSigmoid, LeakyRelu, LogicalKind, Prelu, Swish,
};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn plain(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let kind = match node.operator() {
        "Relu" => ActivationKind::Relu,
        "Sigmoid" => ActivationKind::Sigmoid,
        "Tanh" => ActivationKind::Tanh,
        "Softplus" => ActivationKind::Softplus,
        "Softsign" => ActivationKind::Softsign,
        _ => ActivationKind::HardSwish,
    };
    one(emit.activation(kind, input)?)
}

pub fn elu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, alpha) = (emit.input(node, 0)?, node.float("alpha", 1.0)?);
    one(emit.push(Elu { input, alpha })?)
}

pub fn leaky_relu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, alpha) = (emit.input(node, 0)?, node.float("alpha", 0.01)?);
    one(emit.push(LeakyRelu { input, alpha })?)
}

pub fn hard_sigmoid(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    let input = emit.input(node, 0)?;
    one(emit.push(HardSigmoid { input, alpha, beta })?)
}

pub fn prelu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, slope) = (emit.input(node, 0)?, emit.input(node, 1)?);
    one(emit.push(Prelu { input, slope })?)
}

/// `gamma * (x if x > 0 else alpha * (exp(x) - 1))`.
pub fn selu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (alpha, gamma) = (node.float("alpha", 1.673_263_2)?, node.float("gamma", 1.050_701)?);
    let input = emit.input(node, 0)?;
    let elu = emit.push(Elu { input, alpha })?;
    one(emit.with(BinaryKind::Mul, elu, gamma)?)
}

/// `max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`, which is alpha times elu of x / alpha.
pub fn celu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let alpha = node.float("alpha", 1.0)?;
    let input = emit.input(node, 0)?;
    let scaled = emit.with(BinaryKind::Div, input, alpha)?;
    let elu = emit.push(Elu { input: scaled, alpha: 1.0 })?;
    let elu = emit.with(BinaryKind::Mul, elu, alpha)?;
    // Above 0 it is the input itself, also where the quotient is infinite.
    let positive = emit.compare(LogicalKind::Greater, input, 0.0)?;
    one(emit.select(positive, input, elu)?)
}

pub fn thresholded_relu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let alpha = node.float("alpha", 1.0)?;
    let input = emit.input(node, 0)?;
    let bound = emit.scalar(emit.data_type(input), alpha)?;
    let above = emit.logical(LogicalKind::Greater, input, bound)?;
    let zero = emit.scalar(emit.data_type(input), 0.0)?;
    one(emit.select(above, input, zero)?)
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, 0 between.
pub fn shrink(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (bias, lambd) = (node.float("bias", 0.0)?, node.float("lambd", 0.5)?);
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let (low, high, zero) = (emit.scalar(of, -lambd)?, emit.scalar(of, lambd)?, emit.scalar(of, 0.0)?);
    let below = emit.logical(LogicalKind::Lesser, input, low)?;
    let above = emit.logical(LogicalKind::Greater, input, high)?;
    let mut moved = |kind| {
        if of.is_float() || bias.fract() == 0.0 {
            return emit.with(kind, input, bias);
        }
        // A number with a fraction is added to integers before that is cut off.
        let input = emit.cast(input, DataType::Float32)?;
        let moved = emit.with(kind, input, bias)?;
        emit.cast(moved, of)
    };
    let (raised, lowered) = (moved(BinaryKind::Add)?, moved(BinaryKind::Sub)?);
    let inner = emit.select(above, lowered, zero)?;
    one(emit.select(below, raised, inner)?)
}

pub fn mish(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    one(emit.push(Gate { kind: GateKind::Mish, input })?)
}

/// `x * sigmoid(alpha * x)`: Swish, and QuickGelu of com.microsoft.
pub fn swish(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let alpha = node.float("alpha", if node.operator() == "QuickGelu" { 1.702 } else { 1.0 })?;
    let input = emit.input(node, 0)?;
    one(emit.push(Swish { input, alpha })?)
}

/// Gelu of the standard and of com.microsoft.
pub fn gelu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    match node.string("approximate", "none")?.as_str() {
        "none" => one(emit.activation(ActivationKind::Gelu, input)?),
        "tanh" => one(tanh_gelu(emit, input)?),
        other => Err(format!("attribute approximate {other:?}").into()),
    }
}

/// FastGelu and BiasGelu of com.microsoft: a bias is added first.
pub fn bias_gelu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut input = emit.input(node, 0)?;
    if let Some(bias) = emit.optional(node, 1)? {
        input = emit.add(input, bias)?;
    }
    match node.operator() {
        "FastGelu" => one(tanh_gelu(emit, input)?),
        _ => one(emit.activation(ActivationKind::Gelu, input)?),
    }
}

/// Gelu with tanh in the place of erf.
pub fn tanh_gelu(emit: &mut Emit<'_>, input: OperandId) -> Mapped<OperandId> {
    emit.push(Gate { kind: GateKind::TanhGelu, input })
}

/// Dropout does nothing when it does not train; its mask is all true then.
pub fn dropout(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.version >= 12
        && let Some(training) = node.optional_constant(2, "training_mode")?
        && training.integers().first().is_some_and(|&flag| flag != 0)
    {
        return Err("training is not supported".into());
    }
    let input = node.input(0)?.clone();
    let mut outputs = vec![input];
    if node.has_output(1) {
        let shape = outputs[0].shape(emit.builder);
        let sizes = crate::onnx::node::sizes(&shape)?;
        let truth = emit.scalar(DataType::Uint8, 1.0)?;
        outputs.push(emit.expand(truth, &sizes)?.into());
    }
    Ok(outputs)
}

pub fn identity(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    Ok(vec![node.input(0)?.clone()])
}
