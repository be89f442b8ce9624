//! Recurrent networks.

use crate::graph::OperandId;
use crate::graph::ops::recurrent::{
    Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkActivation, RecurrentNetworkDirection,
};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// What LSTM and GRU have in common.
struct Network {
    input: OperandId,
    weight: OperandId,
    recurrent_weight: OperandId,
    bias: Option<OperandId>,
    recurrent_bias: Option<OperandId>,
    initial_hidden_state: Option<OperandId>,
    steps: u32,
    hidden_size: u32,
    direction: RecurrentNetworkDirection,
    activations: Option<Vec<RecurrentNetworkActivation>>,
    /// Whether the batch comes first in inputs and outputs.
    batch_first: bool,
}

impl Network {
    fn of(node: &Node<'_>, gates: u32, functions: usize, emit: &mut Emit<'_>) -> Mapped<Network> {
        if node.attribute("clip").is_some() {
            return Err("the attribute clip is not supported".into());
        }
        let batch_first = node.flag("layout", false)?;
        let mut input = emit.input(node, 0)?;
        if emit.rank(input) != 3 {
            return Err(format!("an input of rank {}", emit.rank(input)).into());
        }
        if batch_first {
            input = emit.transpose(input, &[1, 0, 2])?;
        }
        let steps = emit.shape(input)[0];
        if let Some(lengths) = node.optional_constant(4, "sequence_lens")?
            && lengths.integers().iter().any(|&length| length != i64::from(steps))
        {
            return Err("sequences of different lengths (sequence_lens) are not supported".into());
        }
        let (weight, recurrent_weight) = (emit.input(node, 1)?, emit.input(node, 2)?);
        let hidden_size = match emit.shape(recurrent_weight)[..] {
            [_, _, size] => size,
            _ => return Err("recurrent weights whose rank is not 3".into()),
        };
        if node.optional_int("hidden_size")?.is_some_and(|size| size != i64::from(hidden_size)) {
            return Err("the attribute hidden_size is not that of the weights".into());
        }
        let direction = match node.string("direction", "forward")?.as_str() {
            "forward" => RecurrentNetworkDirection::Forward,
            "reverse" => RecurrentNetworkDirection::Backward,
            "bidirectional" => RecurrentNetworkDirection::Both,
            other => return Err(format!("the direction {other:?}").into()),
        };
        let activations = activations(node, functions, direction.count() as usize)?;
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
            activations,
            batch_first,
        })
    }

    /// Y and Y_h (and Y_c) from what WebNN returns.
    fn outputs(&self, states: &[OperandId], sequence: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
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

fn state(node: &Node<'_>, position: usize, batch_first: bool, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    match emit.optional(node, position)? {
        Some(state) if batch_first && emit.rank(state) == 3 => Ok(Some(emit.transpose(state, &[1, 0, 2])?)),
        state => Ok(state),
    }
}

/// The functions of the gates, which must be the same in both directions.
fn activations(node: &Node<'_>, functions: usize, directions: usize) -> Mapped<Option<Vec<RecurrentNetworkActivation>>> {
    let Some(names) = node.strings("activations")? else { return Ok(None) };
    if node.floats("activation_alpha")?.is_some_and(|list| !list.is_empty())
        || node.floats("activation_beta")?.is_some_and(|list| !list.is_empty())
    {
        return Err("activation functions with parameters are not supported".into());
    }
    let list = names.iter().map(|name| match name.to_ascii_lowercase().as_str() {
        "relu" => Ok(RecurrentNetworkActivation::Relu),
        "sigmoid" => Ok(RecurrentNetworkActivation::Sigmoid),
        "tanh" => Ok(RecurrentNetworkActivation::Tanh),
        _ => Err(format!("the activation function {name:?} is not supported").into()),
    });
    let list = list.collect::<Mapped<Vec<_>>>()?;
    let Some((first, second)) = list.split_at_checked(functions) else {
        return Err(format!("{} activation functions", list.len()).into());
    };
    let same = second.is_empty() || (directions == 2 && second == first);
    if !same {
        return Err("different activation functions for the two directions are not supported".into());
    }
    Ok(Some(first.to_vec()))
}

pub fn lstm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.flag("input_forget", false)? {
        return Err("the attribute input_forget is not supported".into());
    }
    let network = Network::of(node, 4, 3, emit)?;
    let initial_cell_state = state(node, 6, network.batch_first, emit)?;
    let peephole_weight = peepholes(node, &network, emit)?;
    let return_sequence = node.has_output(0);
    let results = emit.push_all(Lstm {
        input: network.input,
        weight: network.weight,
        recurrent_weight: network.recurrent_weight,
        steps: network.steps,
        hidden_size: network.hidden_size,
        bias: network.bias,
        recurrent_bias: network.recurrent_bias,
        peephole_weight,
        initial_hidden_state: network.initial_hidden_state,
        initial_cell_state,
        return_sequence,
        direction: network.direction,
        layout: LstmWeightLayout::Iofg,
        activations: network.activations.clone(),
    })?;
    network.outputs(&results[..2], results.get(2).copied(), emit)
}

/// The peepholes' weights, if any. WebNN's output gate looks at the cell state before the step, and ONNX's at the one after:
/// that gate must have none.
fn peepholes(node: &Node<'_>, network: &Network, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    let Some(value) = node.optional(7) else { return Ok(None) };
    let known =
        value.constant().map(Tensor::floats).ok_or("peepholes that are computed when the graph runs are not supported")?;
    let hidden = network.hidden_size as usize;
    let of_output = known.chunks(3 * hidden).flat_map(|direction| direction.iter().skip(hidden).take(hidden));
    if of_output.into_iter().any(|&weight| weight != 0.0) {
        return Err("a peephole of the output gate, which WebNN applies to another cell state, is not supported".into());
    }
    emit.optional(node, 7)
}

pub fn gru(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let network = Network::of(node, 3, 2, emit)?;
    let return_sequence = node.has_output(0);
    let results = emit.push_all(Gru {
        input: network.input,
        weight: network.weight,
        recurrent_weight: network.recurrent_weight,
        steps: network.steps,
        hidden_size: network.hidden_size,
        bias: network.bias,
        recurrent_bias: network.recurrent_bias,
        initial_hidden_state: network.initial_hidden_state,
        reset_after: node.flag("linear_before_reset", false)?,
        return_sequence,
        direction: network.direction,
        layout: GruWeightLayout::Zrn,
        activations: network.activations.clone(),
    })?;
    network.outputs(&results[..1], results.get(1).copied(), emit)
}

/// RNN: a step at a time, since WebNN has no such network.
pub fn rnn(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    const MOST_STEPS: u32 = 512;
    let network = Network::of(node, 1, 1, emit)?;
    if network.steps > MOST_STEPS {
        return Err(format!("{} steps; at most {MOST_STEPS} are supported", network.steps).into());
    }
    let directions = network.direction.count();
    let shape = emit.shape(network.input);
    let (batches, width, hidden) = (shape[1], shape[2], network.hidden_size);
    let part = |id: OperandId, direction: u32, target: &[u32], emit: &mut Emit<'_>| {
        let own = emit.slice_axis(id, 0, direction, 1)?;
        emit.reshape(own, target)
    };
    let (mut sequences, mut states) = (Vec::new(), Vec::new());
    for direction in 0..directions {
        let weight = part(network.weight, direction, &[hidden, width], emit)?;
        let weight = emit.transpose(weight, &[1, 0])?;
        let recurrent = part(network.recurrent_weight, direction, &[hidden, hidden], emit)?;
        let recurrent = emit.transpose(recurrent, &[1, 0])?;
        // The input's part of all steps is one product.
        let mut projected = emit.matmul(network.input, weight)?;
        for bias in [network.bias, network.recurrent_bias].into_iter().flatten() {
            let bias = part(bias, direction, &[hidden], emit)?;
            projected = emit.add(projected, bias)?;
        }
        let mut state = match network.initial_hidden_state {
            Some(state) => Some(part(state, direction, &[batches, hidden], emit)?),
            None => None,
        };
        let backward = network.direction.is_backward(direction as usize);
        let mut outputs = Vec::new();
        for step in 0..network.steps {
            let step = if backward { network.steps - 1 - step } else { step };
            let own = emit.slice_axis(projected, 0, step, 1)?;
            let mut sum = emit.reshape(own, &[batches, hidden])?;
            if let Some(state) = state {
                let carried = emit.matmul(state, recurrent)?;
                sum = emit.add(sum, carried)?;
            }
            let kind = match network.activations.as_deref() {
                None | Some([RecurrentNetworkActivation::Tanh]) => crate::graph::ops::elementwise::ActivationKind::Tanh,
                Some([RecurrentNetworkActivation::Relu]) => crate::graph::ops::elementwise::ActivationKind::Relu,
                _ => crate::graph::ops::elementwise::ActivationKind::Sigmoid,
            };
            let next = emit.activation(kind, sum)?;
            outputs.push(emit.reshape(next, &[1, 1, batches, hidden])?);
            state = Some(next);
        }
        if backward {
            outputs.reverse();
        }
        sequences.push(emit.concat(outputs, 0)?);
        let last = state.ok_or("no steps")?;
        states.push(emit.reshape(last, &[1, size(batches)?, hidden])?);
    }
    let (sequence, state) = (emit.concat(sequences, 1)?, emit.concat(states, 0)?);
    network.outputs(&[state], Some(sequence), emit)
}
