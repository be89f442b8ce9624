//! Recurrent networks: WebNN's own operators where they can express a network ([`lengths`] has sequences of different lengths),
//! and step by step otherwise ([`cells`]).

use super::cells;
use super::functions;
use super::lengths;
use super::network::{Network, state};
use crate::graph::OperandId;
use crate::graph::ops::recurrent::{Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkActivation};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

pub fn lstm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let network = Network::of(node, &functions::LSTM, emit)?;
    lstm_of(node, network, emit)
}

/// An LSTM of a network that may have weights of its own.
pub fn lstm_of(node: &Node<'_>, network: Network, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let initial_cell_state = state(node, 6, network.batch_first, emit)?;
    let peephole_weight = emit.optional(node, 7)?;
    let input_forget = node.flag("input_forget", false)?;
    let is_usual = !input_forget && !output_peephole(node, &network);
    let operator = |own: &Network, return_sequence: bool, activations, [peephole_weight, initial_cell_state]: [_; 2]| Lstm {
        input: own.input,
        weight: own.weight,
        recurrent_weight: own.recurrent_weight,
        steps: own.steps,
        hidden_size: own.hidden_size,
        bias: own.bias,
        recurrent_bias: own.recurrent_bias,
        peephole_weight,
        initial_hidden_state: own.initial_hidden_state,
        initial_cell_state,
        return_sequence,
        direction: own.direction,
        layout: LstmWeightLayout::Iofg,
        activations: Some(activations),
    };
    // Of cell states WebNN tells only the last ones.
    if let Some(lengths) = network.named_lengths().filter(|_| is_usual && !node.has_output(2)) {
        return lengths::run(&network, lengths, emit, &mut |direction, own, emit| {
            let mut part = |id: Option<OperandId>| id.map(|id| lengths::part(&network, direction, id, emit)).transpose();
            let more = [part(peephole_weight)?, part(initial_cell_state)?];
            let activations = own.named(0).expect("looked at above");
            Ok(emit.push_all(operator(&own, true, activations, more))?[2])
        });
    }
    let Some(activations) = network.plain().filter(|_| is_usual) else {
        let cell = cells::Lstm { initial_cell_state, peephole_weight, input_forget };
        return cells::lstm(&network, &cell, emit);
    };
    let more = [peephole_weight, initial_cell_state];
    let results = emit.push_all(operator(&network, node.has_output(0), activations, more))?;
    network.outputs(&results[..2], results.get(2).copied(), emit)
}

/// The functions of an LSTM that WebNN's own operator could express.
pub fn plain_lstm(node: &Node<'_>, network: &Network) -> Mapped<Option<Vec<RecurrentNetworkActivation>>> {
    let is_usual = !node.flag("input_forget", false)? && !output_peephole(node, network);
    Ok(network.plain().filter(|_| is_usual))
}

/// Whether the output gate has a peephole: WebNN's looks at the cell state before the step, and ONNX's at the one after.
fn output_peephole(node: &Node<'_>, network: &Network) -> bool {
    let Some(value) = node.optional(7) else { return false };
    let Some(known) = value.constant().map(Tensor::floats) else { return true };
    let hidden = network.hidden_size as usize;
    known.chunks(3 * hidden.max(1)).any(|direction| direction.iter().skip(hidden).take(hidden).any(|&weight| weight != 0.0))
}

pub fn gru(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let network = Network::of(node, &functions::GRU, emit)?;
    let reset_after = node.flag("linear_before_reset", false)?;
    let operator = |own: &Network, return_sequence: bool, activations| Gru {
        input: own.input,
        weight: own.weight,
        recurrent_weight: own.recurrent_weight,
        steps: own.steps,
        hidden_size: own.hidden_size,
        bias: own.bias,
        recurrent_bias: own.recurrent_bias,
        initial_hidden_state: own.initial_hidden_state,
        reset_after,
        return_sequence,
        direction: own.direction,
        layout: GruWeightLayout::Zrn,
        activations: Some(activations),
    };
    if let Some(lengths) = network.named_lengths() {
        return lengths::run(&network, lengths, emit, &mut |_, own, emit| {
            let activations = own.named(0).expect("looked at above");
            Ok(emit.push_all(operator(&own, true, activations))?[1])
        });
    }
    let Some(activations) = network.plain() else { return cells::gru(&network, reset_after, emit) };
    let results = emit.push_all(operator(&network, node.has_output(0), activations))?;
    network.outputs(&results[..1], results.get(1).copied(), emit)
}

/// RNN, which WebNN does not have.
pub fn rnn(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let network = Network::of(node, &functions::RNN, emit)?;
    cells::rnn(&network, emit)
}
