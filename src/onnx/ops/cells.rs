//! Recurrent networks a step at a time, where WebNN's own operators cannot express them: RNN, clipped gates, functions with
//! parameters or of one direction only, peepholes of output gates, sequences of different lengths.

use super::functions::Function;
use super::network::Network;
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Each step becomes some dozens of nodes.
const MOST_STEPS: u32 = 512;

/// What one direction of a network works with.
struct Direction<'a> {
    network: &'a Network,
    functions: &'a [Function],
    /// [steps, batches, gates * units]: the input's part of all gates, with the biases.
    projected: OperandId,
    /// [units, gates * units]
    recurrent: OperandId,
    /// [gates * units]
    recurrent_bias: Option<OperandId>,
    batches: u32,
}

/// A step of a cell: its hidden state, and the states that only it sees.
type Step<'a> = dyn FnMut(&Direction<'_>, OperandId, &[OperandId], &mut Emit<'_>) -> Mapped<Vec<OperandId>> + 'a;

/// What an LSTM has besides.
pub struct Lstm {
    pub initial_cell_state: Option<OperandId>,
    pub peephole_weight: Option<OperandId>,
    pub input_forget: bool,
}

impl Direction<'_> {
    fn units(&self) -> u32 {
        self.network.hidden_size
    }

    /// A function of a sum that is limited first.
    fn gate(&self, function: usize, sum: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let sum = match self.network.clip {
            Some(clip) => emit.clamp(sum, Some(-clip), Some(clip))?,
            None => sum,
        };
        self.functions[function].emit(sum, emit)
    }

    fn split(&self, gates: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<OperandId>> {
        let count = emit.shape(gates)[1] / self.units().max(1);
        emit.split(gates, vec![self.units(); count as usize], 1)
    }
}

/// A part of an operand that belongs to one direction.
fn part(id: OperandId, direction: u32, shape: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let own = emit.slice_axis(id, 0, direction, 1)?;
    emit.reshape(own, shape)
}

pub fn rnn(network: &Network, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    run(network, &[network.initial_hidden_state], true, emit, &mut |own, sum, states, emit| {
        let carried = emit.matmul(states[0], own.recurrent)?;
        let sum = emit.add(sum, carried)?;
        Ok(vec![own.gate(0, sum, emit)?])
    })
}

/// The gates are update, reset, and new.
pub fn gru(network: &Network, reset_after: bool, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    run(network, &[network.initial_hidden_state], !reset_after, emit, &mut |own, sum, states, emit| {
        let hidden = states[0];
        let units = own.units();
        let recurrent = emit.split(own.recurrent, vec![2 * units, units], 1)?;
        let sums = own.split(sum, emit)?;
        let mut carried = emit.matmul(hidden, recurrent[0])?;
        let mut new_bias = None;
        if let Some(bias) = own.recurrent_bias.filter(|_| reset_after) {
            let biases = emit.split(bias, vec![2 * units, units], 0)?;
            carried = emit.add(carried, biases[0])?;
            new_bias = Some(biases[1]);
        }
        let carried = own.split(carried, emit)?;
        let (update, reset) = (emit.add(sums[0], carried[0])?, emit.add(sums[1], carried[1])?);
        let (update, reset) = (own.gate(0, update, emit)?, own.gate(0, reset, emit)?);
        let carried = if reset_after {
            let mut product = emit.matmul(hidden, recurrent[1])?;
            if let Some(bias) = new_bias {
                product = emit.add(product, bias)?;
            }
            emit.mul(reset, product)?
        } else {
            let kept = emit.mul(reset, hidden)?;
            emit.matmul(kept, recurrent[1])?
        };
        let sum = emit.add(sums[2], carried)?;
        let new = own.gate(1, sum, emit)?;
        // (1 - update) * new + update * hidden
        let difference = emit.sub(hidden, new)?;
        let moved = emit.mul(update, difference)?;
        Ok(vec![emit.add(new, moved)?])
    })
}

/// The gates are input, output, forget, and cell.
pub fn lstm(network: &Network, cell: &Lstm, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut direction = 0;
    let mut peepholes: Option<(OperandId, Vec<OperandId>)> = None;
    let initial = [network.initial_hidden_state, cell.initial_cell_state];
    run(network, &initial, true, emit, &mut |own, sum, states, emit| {
        let units = own.units();
        let (hidden, state) = (states[0], states[1]);
        if let Some(all) = cell.peephole_weight {
            // They are taken apart once for each direction, which its recurrent weights tell.
            if peepholes.as_ref().is_none_or(|(of, _)| *of != own.recurrent) {
                let row = part(all, direction, &[3 * units], emit)?;
                peepholes = Some((own.recurrent, emit.split(row, vec![units; 3], 0)?));
                direction += 1;
            }
        }
        let looks = |gate: usize, sum: OperandId, state: OperandId, emit: &mut Emit<'_>| match &peepholes {
            Some((_, weights)) => {
                let look = emit.mul(weights[gate], state)?;
                emit.add(sum, look)
            }
            None => Ok(sum),
        };
        let carried = emit.matmul(hidden, own.recurrent)?;
        let sum = emit.add(sum, carried)?;
        let sums = own.split(sum, emit)?;
        let input = looks(0, sums[0], state, emit)?;
        let input = own.gate(0, input, emit)?;
        let forget = if cell.input_forget {
            let unit = emit.scalar(emit.data_type(input), 1.0)?;
            emit.sub(unit, input)?
        } else {
            let forget = looks(2, sums[2], state, emit)?;
            own.gate(0, forget, emit)?
        };
        let new = own.gate(1, sums[3], emit)?;
        let (kept, added) = (emit.mul(forget, state)?, emit.mul(input, new)?);
        let state = emit.add(kept, added)?;
        let output = looks(1, sums[1], state, emit)?;
        let output = own.gate(0, output, emit)?;
        let shown = own.functions[2].emit(state, emit)?;
        Ok(vec![emit.mul(output, shown)?, state])
    })
}

/// Runs a cell over the steps of all directions. `both_biases`: whether the recurrent bias may be added beforehand.
fn run(
    network: &Network,
    initial: &[Option<OperandId>],
    both_biases: bool,
    emit: &mut Emit<'_>,
    step: &mut Step<'_>,
) -> Mapped<Vec<Value>> {
    if network.steps > MOST_STEPS {
        let steps = network.steps;
        return Err(format!("{steps} steps of a network that has to be unrolled; at most {MOST_STEPS} are supported").into());
    }
    let shape = emit.shape(network.input);
    let (batches, width, units) = (shape[1], shape[2], network.hidden_size);
    let of = emit.data_type(network.input);
    let gates = emit.shape(network.recurrent_weight)[1];
    let zero = emit.scalar(of, 0.0)?;
    let zeros = emit.expand(zero, &[batches, units])?;
    let lengths = match network.lengths {
        Some(lengths) => {
            let lengths = emit.cast(lengths, DataType::Int32)?;
            Some(emit.reshape(lengths, &[batches, 1])?)
        }
        None => None,
    };
    let (mut sequences, mut finals) = (Vec::new(), vec![Vec::new(); initial.len()]);
    for direction in 0..network.direction.count() {
        let weight = part(network.weight, direction, &[gates, width], emit)?;
        let weight = emit.transpose(weight, &[1, 0])?;
        let recurrent = part(network.recurrent_weight, direction, &[gates, units], emit)?;
        let recurrent = emit.transpose(recurrent, &[1, 0])?;
        // The input's part of all steps is one product.
        let mut projected = emit.matmul(network.input, weight)?;
        let recurrent_bias = match network.recurrent_bias {
            Some(bias) => Some(part(bias, direction, &[gates], emit)?),
            None => None,
        };
        if let Some(bias) = network.bias {
            let bias = part(bias, direction, &[gates], emit)?;
            projected = emit.add(projected, bias)?;
        }
        if let Some(bias) = recurrent_bias.filter(|_| both_biases) {
            projected = emit.add(projected, bias)?;
        }
        let functions = &network.functions[direction as usize];
        let own = Direction { network, functions, projected, recurrent, recurrent_bias, batches };
        let mut states = Vec::new();
        for state in initial {
            states.push(match state {
                Some(state) => part(*state, direction, &[batches, units], emit)?,
                None => zeros,
            });
        }
        let mut outputs = Vec::new();
        let backward = network.direction.is_backward(direction as usize);
        for position in 0..network.steps {
            let at = if backward { network.steps - 1 - position } else { position };
            let sum = emit.slice_axis(own.projected, 0, at, 1)?;
            let sum = emit.reshape(sum, &[own.batches, gates])?;
            let mut next = step(&own, sum, &states, emit)?;
            let mut output = next[0];
            if let Some(lengths) = lengths {
                // Beyond its end a sequence keeps its state and shows nothing.
                let runs = emit.compare(LogicalKind::Greater, lengths, f64::from(at))?;
                output = emit.select(runs, output, zero)?;
                for (next, state) in next.iter_mut().zip(&states) {
                    *next = emit.select(runs, *next, *state)?;
                }
            }
            outputs.push(emit.reshape(output, &[1, 1, batches, units])?);
            states = next;
        }
        if backward {
            outputs.reverse();
        }
        sequences.push(emit.concat(outputs, 0)?);
        for (list, state) in finals.iter_mut().zip(states) {
            list.push(emit.reshape(state, &[1, batches, units])?);
        }
    }
    let sequence = emit.concat(sequences, 1)?;
    let mut states = Vec::new();
    for list in finals {
        states.push(emit.concat(list, 0)?);
    }
    network.outputs(&states, Some(sequence), emit)
}
