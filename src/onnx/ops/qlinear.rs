//! Operators on quantized values that carry scales and zero points along: they are computed in float32, which holds the
//! integers exactly, and quantized again.

use super::conv::convolution;
use super::elementwise::one;
use super::functions;
use super::image_pool::{Kind, windows};
use super::matmul::product;
use super::network::{self, Network};
use super::quantize::{self, dynamically, integer_product, per_axis};
use super::recurrent;
use super::window::Window;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, LeakyRelu, QuantizeLinear};
use crate::graph::ops::quantized_lstm::QuantizedLstm;
use crate::graph::ops::recurrent::RecurrentNetworkActivation;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// An input with scale and zero point beside it, as float32.
fn scaled(node: &Node<'_>, first: usize, at: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (input, scale, zero_point) = (emit.input(node, first)?, emit.input(node, first + 1)?, emit.optional(node, first + 2)?);
    quantize::scaled(input, scale, zero_point, at, emit)
}

/// Quantizes a result with a scale and zero point for all of it; without a zero point, to uint8.
fn requantized(node: &Node<'_>, result: OperandId, first: usize, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let scale = emit.input(node, first)?;
    let zero_point = match emit.optional(node, first + 1)? {
        Some(zero_point) => zero_point,
        None => emit.scalar(DataType::Uint8, 0.0)?,
    };
    let aligned = vec![1; emit.rank(result)];
    let scale = emit.cast(scale, DataType::Float32)?;
    let (scale, zero_point) = (emit.reshape(scale, &aligned)?, emit.reshape(zero_point, &aligned)?);
    one(emit.push(QuantizeLinear { input: result, scale, zero_point })?)
}

pub fn matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let rank = |position: usize, emit: &mut Emit<'_>| -> Mapped<usize> { Ok(node.input(position)?.shape(emit.builder).len()) };
    let (rank_a, rank_b) = (rank(0, emit)?, rank(3, emit)?);
    let a = scaled(node, 0, rank_a.saturating_sub(2), emit)?;
    let b = scaled(node, 3, rank_b.saturating_sub(1), emit)?;
    let result = product(a, b, emit)?;
    requantized(node, result, 6, emit)
}

pub fn conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = scaled(node, 0, 1, emit)?;
    let filter = scaled(node, 3, 0, emit)?;
    let bias = match emit.optional(node, 8)? {
        // Quantized with the product of both scales.
        Some(bias) => {
            let (of_input, of_filter) = (emit.input(node, 1)?, emit.input(node, 4)?);
            let of_input = emit.reshape(of_input, &[1])?;
            let count = size(emit.shape(of_filter).iter().map(|&size| u64::from(size)).product::<u64>())?;
            let of_filter = emit.reshape(of_filter, &[count])?;
            let scale = emit.mul(of_input, of_filter)?;
            let bias = emit.cast(bias, DataType::Float32)?;
            Some(emit.mul(bias, scale)?)
        }
        None => None,
    };
    let result = convolution(node, input, filter, bias, emit)?;
    requantized(node, result, 6, emit)
}

/// QLinearAdd and QLinearMul of com.microsoft.
pub fn binary(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (scaled(node, 0, 0, emit)?, scaled(node, 3, 0, emit)?);
    let kind = if node.operator() == "QLinearAdd" { BinaryKind::Add } else { BinaryKind::Mul };
    let result = emit.binary(kind, a, b)?;
    requantized(node, result, 6, emit)
}

/// QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax of com.microsoft.
pub fn activation(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = scaled(node, 0, 0, emit)?;
    let result = match node.operator() {
        "QLinearSigmoid" => emit.activation(ActivationKind::Sigmoid, input)?,
        "QLinearLeakyRelu" => emit.push(LeakyRelu { input, alpha: node.float("alpha", 0.01)? })?,
        _ => {
            if node.int("opset", 13)? < 13 {
                return Err("the softmax of versions before 13 is not supported".into());
            }
            let at = axis(node.int("axis", -1)?, emit.rank(input))?;
            emit.push(Softmax { input, axis: size(at)? })?
        }
    };
    requantized(node, result, 3, emit)
}

/// QLinearGlobalAveragePool and QLinearAveragePool of com.microsoft.
pub fn average(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let channels_last = node.flag("channels_last", false)?;
    let mut input = scaled(node, 0, 0, emit)?;
    let rank = emit.rank(input);
    if rank < 3 {
        return Err(format!("an input of rank {rank}").into());
    }
    let result = if node.operator() == "QLinearGlobalAveragePool" {
        let over: Vec<usize> = if channels_last { (1..rank - 1).collect() } else { (2..rank).collect() };
        emit.reduce(ReduceKind::Mean, input, &over, true)?
    } else {
        if channels_last {
            return Err("channels_last is not supported".into());
        }
        let window = Window::of(node, rank, None)?;
        input = window.with_images(input, emit)?;
        let output = windows(node, Kind::Average, input, window.clone(), emit)?;
        window.without_images(output, emit)?
    };
    requantized(node, result, 3, emit)
}

/// QLinearConcat of com.microsoft: scale and zero point of the result, and then three inputs for each part.
pub fn concat(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut parts = Vec::new();
    for first in (2..node.inputs.len()).step_by(3) {
        // What is empty adds nothing. (Where all are empty, so is the result.)
        if node.inputs.len() > 5 && node.input(first)?.constant().is_some_and(Tensor::is_empty) {
            continue;
        }
        parts.push(scaled(node, first, 0, emit)?);
    }
    let first = *parts.first().ok_or("no inputs")?;
    let at = axis(node.int("axis", 0)?, emit.rank(first))?;
    let joined = emit.concat(parts, at)?;
    requantized(node, joined, 0, emit)
}

/// QLinearReduceMean of com.microsoft.
pub fn mean(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = scaled(node, 0, 0, emit)?;
    let rank = emit.rank(input);
    let list = node.ints("axes")?.filter(|list| !list.is_empty()).unwrap_or_else(|| (0..rank as i64).collect());
    let result = emit.reduce(ReduceKind::Mean, input, &axes(&list, rank)?, node.flag("keepdims", true)?)?;
    requantized(node, result, 3, emit)
}

/// QLinearWhere of com.microsoft.
pub fn select(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let condition = emit.input(node, 0)?;
    let (a, b) = (scaled(node, 1, 0, emit)?, scaled(node, 4, 0, emit)?);
    let result = emit.select(condition, a, b)?;
    requantized(node, result, 7, emit)
}

/// QGemm of com.microsoft: `alpha * a * b + c`, where c is quantized with the product of both scales.
pub fn gemm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (transposes_a, transposes_b) = (node.flag("transA", false)?, node.flag("transB", false)?);
    let of_columns = if transposes_b { 0 } else { 1 };
    let (mut a, mut b) = (scaled(node, 0, 0, emit)?, scaled(node, 3, of_columns, emit)?);
    if transposes_a {
        a = emit.transpose_matrices(a)?;
    }
    if transposes_b {
        b = emit.transpose_matrices(b)?;
    }
    let mut result = product(a, b, emit)?;
    if let Some(bias) = emit.optional(node, 6)? {
        let scale = bias_scale(node, emit)?;
        let bias = emit.cast(bias, DataType::Float32)?;
        let bias = emit.mul(bias, scale)?;
        result = emit.add(result, bias)?;
    }
    let alpha = node.float("alpha", 1.0)?;
    if alpha != 1.0 {
        result = emit.with(BinaryKind::Mul, result, alpha)?;
    }
    if node.optional(7).is_none() { one(result) } else { requantized(node, result, 7, emit) }
}

/// The product of the scales of input and weights: one number, or one for each column.
fn bias_scale(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (of_input, of_weights) = (emit.input(node, 1)?, emit.input(node, 4)?);
    let of_input = emit.reshape(of_input, &[1])?;
    let count = emit.check_count(&emit.shape(of_weights))?;
    let of_weights = emit.reshape(of_weights, &[count])?;
    let scale = emit.mul(of_input, of_weights)?;
    emit.cast(scale, DataType::Float32)
}

/// MatMulIntegerToFloat of com.microsoft, and DynamicQuantizeMatMul, which quantizes its first input itself.
pub fn matmul_to_float(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let a = emit.input(node, 0)?;
    let b = emit.input(node, 1)?;
    let (a, scale_a, zero_a, scale_b, zero_b, bias) = if node.operator() == "DynamicQuantizeMatMul" {
        let [a, scale, zero] = dynamically(a, emit)?;
        (a, scale, Some(zero), emit.input(node, 2)?, emit.optional(node, 3)?, emit.optional(node, 4)?)
    } else {
        let (scale_a, scale_b) = (emit.input(node, 2)?, emit.input(node, 3)?);
        (a, scale_a, emit.optional(node, 4)?, scale_b, emit.optional(node, 5)?, emit.optional(node, 6)?)
    };
    let of = emit.data_type(scale_a);
    let sums = integer_product((a, zero_a), (b, zero_b), emit)?;
    let mut result = emit.cast(sums, of)?;
    let rank = emit.rank(result);
    for (scale, at) in [(scale_a, rank - 2), (scale_b, rank - 1)] {
        let scale = per_axis(scale, at, rank, emit)?;
        result = emit.mul(result, scale)?;
    }
    match bias {
        Some(bias) => one(emit.add(result, bias)?),
        None => one(result),
    }
}

/// DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are quantized, each direction's or each column's with a scale. The input
/// is quantized by its range, and the hidden state before each step.
///
/// Sequences of several lengths and what only single steps can express have their weights as floats, and nothing else is
/// quantized: their results are those of the network before it was.
pub fn lstm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut weights = Vec::new();
    for (position, scale, zero_point) in [(1, 8, 9), (2, 10, 11)] {
        weights.push(Weights::of(node, [position, scale, zero_point], emit)?);
    }
    let floats = [weights[0].floats(emit)?, weights[1].floats(emit)?];
    let network = Network::with_weights(node, &functions::LSTM, floats, emit)?;
    match recurrent::plain_lstm(node, &network)? {
        Some(activations) => quantized_lstm(node, network, &weights, activations, emit),
        None => recurrent::lstm_of(node, network, emit),
    }
}

/// Weights of recurrent networks, [directions, inputs, gates * units].
struct Weights {
    bytes: OperandId,
    scale: OperandId,
    zero_point: OperandId,
    shape: [u32; 3],
}

impl Weights {
    fn of(node: &Node<'_>, [bytes, scale, zero_point]: [usize; 3], emit: &mut Emit<'_>) -> Mapped<Weights> {
        let bytes = emit.input(node, bytes)?;
        let shape = <[u32; 3]>::try_from(emit.shape(bytes)).map_err(|_| "weights whose rank is not 3")?;
        let [scale, zero_point] = [emit.input(node, scale)?, emit.input(node, zero_point)?];
        let scale = emit.cast(scale, DataType::Float32)?;
        Ok(Weights { bytes, scale, zero_point, shape })
    }

    /// A scale or zero point for each direction, or for each column, as one for each column.
    fn by_column(&self, list: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let [directions, _, columns] = self.shape;
        let list = match emit.shape(list)[..] {
            [count] if count == directions => emit.reshape(list, &[directions, 1])?,
            _ => emit.reshape(list, &[directions, columns])?,
        };
        emit.expand(list, &[directions, columns])
    }

    /// [directions, gates * units, inputs], as floats.
    fn floats(&self, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let [directions, _, columns] = self.shape;
        let mut wide = emit.cast(self.bytes, DataType::Float32)?;
        for (list, kind) in [(self.zero_point, BinaryKind::Sub), (self.scale, BinaryKind::Mul)] {
            let list = self.by_column(list, emit)?;
            let list = emit.cast(list, DataType::Float32)?;
            let list = emit.reshape(list, &[directions, 1, columns])?;
            wide = emit.binary(kind, wide, list)?;
        }
        emit.transpose_matrices(wide)
    }

    /// What a direction has of a list by column.
    fn of_direction(&self, list: OperandId, direction: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let own = emit.slice_axis(list, 0, direction, 1)?;
        emit.reshape(own, &[self.shape[2]])
    }
}

/// An LSTM whose input and hidden state are multiplied as bytes.
fn quantized_lstm(
    node: &Node<'_>,
    network: Network,
    weights: &[Weights],
    activations: Vec<RecurrentNetworkActivation>,
    emit: &mut Emit<'_>,
) -> Mapped<Vec<Value>> {
    let [of_input, of_hidden] = weights else { return Err("there are two weights".into()) };
    let [directions, inputs, columns] = of_input.shape;
    let &[steps, batches, _] = &emit.shape(network.input)[..] else { return Err("an input whose rank is not 3".into()) };
    let [input, scale, zero_point] = dynamically(network.input, emit)?;
    let scales = of_input.by_column(of_input.scale, emit)?;
    let zero_points = of_input.by_column(of_input.zero_point, emit)?;
    let mut gates = Vec::new();
    for direction in 0..directions {
        let own = emit.slice_axis(of_input.bytes, 0, direction, 1)?;
        let own = emit.reshape(own, &[inputs, columns])?;
        let zeros = of_input.of_direction(zero_points, direction, emit)?;
        let sums = integer_product((input, Some(zero_point)), (own, Some(zeros)), emit)?;
        let sums = emit.cast(sums, DataType::Float32)?;
        let factors = of_input.of_direction(scales, direction, emit)?;
        let factors = emit.mul(scale, factors)?;
        let mut of_gates = emit.mul(sums, factors)?;
        for bias in [network.bias, network.recurrent_bias].into_iter().flatten() {
            let bias = of_input.of_direction(bias, direction, emit)?;
            of_gates = emit.add(of_gates, bias)?;
        }
        gates.push(emit.reshape(of_gates, &[steps, 1, batches, columns])?);
    }
    let gates = emit.concat(gates, 1)?;
    let op = QuantizedLstm {
        gates,
        recurrent_weight: emit.transpose_matrices(of_hidden.bytes)?,
        scales: of_hidden.by_column(of_hidden.scale, emit)?,
        zero_points: Some(of_hidden.by_column(of_hidden.zero_point, emit)?),
        peephole_weight: emit.optional(node, 7)?,
        initial_hidden_state: network.initial_hidden_state,
        initial_cell_state: network::state(node, 6, network.batch_first, emit)?,
        return_sequence: node.has_output(0),
        direction: network.direction,
        activations: Some(activations),
    };
    let results = emit.push_all(op)?;
    network.outputs(&results[..2], results.get(2).copied(), emit)
}
