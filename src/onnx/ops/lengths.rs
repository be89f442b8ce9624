//! Recurrent networks whose sequences have different lengths, by WebNN's own operators. What comes after the end of a
//! sequence changes nothing before it, and is left out of the results; backwards, each sequence is turned around first.

use super::network::Network;
use super::order::reversed;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::recurrent::RecurrentNetworkDirection;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Y and Y_h of a network, of which `forwards` makes the hidden states [steps, 1, batches, units] of one direction.
pub fn run(
    network: &Network,
    lengths: OperandId,
    emit: &mut Emit<'_>,
    forwards: &mut dyn FnMut(usize, Network, &mut Emit<'_>) -> Mapped<OperandId>,
) -> Mapped<Vec<Value>> {
    let (steps, units) = (network.steps, network.hidden_size);
    let batches = emit.shape(network.input)[1];
    let data_type = emit.data_type(network.input);
    let most = steps.checked_add(1).ok_or("too many elements")?;
    let lengths = emit.within(lengths, &[most], Negative::Outside)?;
    let lengths = emit.cast(lengths, DataType::Int64)?;
    let of_batches = emit.reshape(lengths, &[1, batches, 1])?;
    let positions = emit.positions(DataType::Int64, 3, 0, steps)?;
    let within = emit.logical(LogicalKind::Lesser, positions, of_batches)?;
    let last = emit.with(BinaryKind::Sub, of_batches, 1.0)?;
    let last = emit.clamp(last, Some(0.0), None)?;
    let last = emit.expand(last, &[1, batches, units])?;
    let begins = emit.compare(LogicalKind::Greater, of_batches, 0.0)?;
    let zero = emit.scalar(data_type, 0.0)?;
    let (mut sequences, mut finals) = (Vec::new(), Vec::new());
    for direction in 0..network.direction.count() as usize {
        let mut own = of_direction(network, direction, emit)?;
        let initial = own.initial_hidden_state;
        let backward = network.direction.is_backward(direction);
        if backward {
            own.input = reversed(own.input, lengths, [1, 0], emit)?;
        }
        let states = forwards(direction, own, emit)?;
        let states = emit.reshape(states, &[steps, batches, units])?;
        let end = emit.push(GatherElements { input: states, indices: last, axis: 0 })?;
        // A sequence of no steps ends as it begins.
        let end = emit.select(begins, end, initial.unwrap_or(zero))?;
        finals.push(emit.reshape(end, &[1, batches, units])?);
        let states = if backward { reversed(states, lengths, [1, 0], emit)? } else { states };
        let shown = emit.select(within, states, zero)?;
        sequences.push(emit.reshape(shown, &[steps, 1, batches, units])?);
    }
    let (sequence, state) = (emit.concat(sequences, 1)?, emit.concat(finals, 0)?);
    network.outputs(&[state], Some(sequence), emit)
}

/// What belongs to one direction of a network, as one that runs forwards over whole sequences.
fn of_direction(network: &Network, direction: usize, emit: &mut Emit<'_>) -> Mapped<Network> {
    let mut part = |id: OperandId| part(network, direction, id, emit);
    let (weight, recurrent_weight) = (part(network.weight)?, part(network.recurrent_weight)?);
    let mut optional = |id: Option<OperandId>| id.map(&mut part).transpose();
    Ok(Network {
        bias: optional(network.bias)?,
        recurrent_bias: optional(network.recurrent_bias)?,
        initial_hidden_state: optional(network.initial_hidden_state)?,
        weight,
        recurrent_weight,
        input: network.input,
        steps: network.steps,
        hidden_size: network.hidden_size,
        direction: RecurrentNetworkDirection::Forward,
        functions: vec![network.functions[direction].clone()],
        clip: network.clip,
        lengths: None,
        batch_first: false,
    })
}

/// A part of an operand that belongs to one direction.
pub fn part(network: &Network, direction: usize, id: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    if network.direction.count() == 1 { Ok(id) } else { emit.slice_axis(id, 0, direction as u32, 1) }
}
