//! Recurrent networks: WebNN's own operators where they can express a network ([`lengths`] has sequences of different lengths),
//! and step by step otherwise ([`cells`]).

use super::cells;
use super::functions::{self, Function};
use super::lengths;
use crate::graph::OperandId;
use crate::graph::ops::recurrent::{
    Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkActivation, RecurrentNetworkDirection,
};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// What the recurrent networks have in common.
pub struct Network {
    pub input: OperandId,
    pub weight: OperandId,
    pub recurrent_weight: OperandId,
    pub bias: Option<OperandId>,
    pub recurrent_bias: Option<OperandId>,
    pub initial_hidden_state: Option<OperandId>,
    pub steps: u32,
    pub hidden_size: u32,
    pub direction: RecurrentNetworkDirection,
    /// The functions of the gates, for each direction.
    pub functions: Vec<Vec<Function>>,
    /// What the arguments of these functions are limited to.
    pub clip: Option<f64>,
    /// How many steps each sequence has, where they are not all.
    pub lengths: Option<OperandId>,
    /// Whether the batch comes first in inputs and outputs.
    pub batch_first: bool,
}

impl Network {
    fn of(node: &Node<'_>, defaults: &[Function], emit: &mut Emit<'_>) -> Mapped<Network> {
        Network::with_weights(node, defaults, [emit.input(node, 1)?, emit.input(node, 2)?], emit)
    }

    /// The network with weights [directions, gates * units, inputs] and [directions, gates * units, units].
    pub fn with_weights(node: &Node<'_>, defaults: &[Function], weights: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<Network> {
        let gates = if defaults.len() == 3 { 4 } else { 2 * defaults.len() as u32 - 1 };
        let batch_first = node.flag("layout", false)?;
        let mut input = emit.input(node, 0)?;
        if emit.rank(input) != 3 {
            return Err(format!("an input of rank {}", emit.rank(input)).into());
        }
        if batch_first {
            input = emit.transpose(input, &[1, 0, 2])?;
        }
        let steps = emit.shape(input)[0];
        let whole = |tensor: &Tensor| tensor.integers().iter().all(|&length| length == i64::from(steps));
        let lengths = match node.optional(4) {
            Some(value) if !value.constant().is_some_and(whole) => Some(emit.operand(value)?),
            _ => None,
        };
        let [weight, recurrent_weight] = weights;
        let &[_, columns, hidden_size] = &emit.shape(recurrent_weight)[..] else {
            return Err("recurrent weights whose rank is not 3".into());
        };
        let fits = |shape: &[u32]| shape.len() == 3 && shape[1] == columns;
        if Some(columns) != hidden_size.checked_mul(gates) || !fits(&emit.shape(weight)) {
            let (weight, recurrent) = (emit.shape(weight), emit.shape(recurrent_weight));
            return Err(format!("weights of shapes {weight:?} and {recurrent:?} for {gates} gates").into());
        }
        if node.optional_int("hidden_size")?.is_some_and(|size| size != i64::from(hidden_size)) {
            return Err("the attribute hidden_size is not that of the weights".into());
        }
        let direction = match node.string("direction", "forward")?.as_str() {
            "forward" => RecurrentNetworkDirection::Forward,
            "reverse" => RecurrentNetworkDirection::Backward,
            "bidirectional" => RecurrentNetworkDirection::Both,
            other => return Err(format!("the direction {other:?}").into()),
        };
        let functions = functions::of(node, defaults, direction.count() as usize)?;
        let clip = node.optional_float("clip")?.filter(|&clip| clip > 0.0);
        let (mut bias, mut recurrent_bias) = (None, None);
        if let Some(both) = emit.optional(node, 3)? {
            let half = hidden_size.checked_mul(gates).filter(|half| half.checked_mul(2).is_some()).ok_or("too many units")?;
            let parts = emit.split(both, vec![half, half], 1)?;
            (bias, recurrent_bias) = (Some(parts[0]), Some(parts[1]));
        }
        let initial_hidden_state = state(node, 5, batch_first, emit)?;
        Ok(Network {
            input,
            weight,
            recurrent_weight,
            bias,
            recurrent_bias,
            initial_hidden_state,
            steps,
            hidden_size,
            direction,
            functions,
            clip,
            lengths,
            batch_first,
        })
    }

    /// The functions as WebNN names them, where its own operators can express the network.
    fn plain(&self) -> Option<Vec<RecurrentNetworkActivation>> {
        let first = &self.functions[0];
        if self.lengths.is_some() || self.functions.iter().any(|other| other != first) {
            return None;
        }
        self.named(0)
    }

    /// The functions of a direction as WebNN names them, where its own operators can express that direction.
    fn named(&self, direction: usize) -> Option<Vec<RecurrentNetworkActivation>> {
        if self.clip.is_some() {
            return None;
        }
        self.functions[direction].iter().map(Function::plain).collect()
    }

    /// The lengths of the sequences, where WebNN's own operators can express each direction.
    fn named_lengths(&self) -> Option<OperandId> {
        self.lengths.filter(|_| (0..self.functions.len()).all(|direction| self.named(direction).is_some()))
    }

    /// Y and Y_h (and Y_c) from what WebNN returns.
    pub fn outputs(&self, states: &[OperandId], sequence: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
        let mut outputs: Vec<Value> = Vec::new();
        match sequence {
            Some(sequence) if self.batch_first => outputs.push(emit.transpose(sequence, &[2, 0, 1, 3])?.into()),
            Some(sequence) => outputs.push(sequence.into()),
            // Nobody asked for it.
            None => outputs.push(states[0].into()),
        }
        for &state in states {
            outputs.push(if self.batch_first { emit.transpose(state, &[1, 0, 2])? } else { state }.into());
        }
        Ok(outputs)
    }
}

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

/// The initial hidden or cell state, which is an input of the node.
pub fn state(node: &Node<'_>, position: usize, batch_first: bool, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    match emit.optional(node, position)? {
        Some(state) if batch_first && emit.rank(state) == 3 => Ok(Some(emit.transpose(state, &[1, 0, 2])?)),
        state => Ok(state),
    }
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
