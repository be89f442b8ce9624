//! Recurrent networks, by the specification's decomposition into cells, and of those into gates.
//!
//! Errors pass from gate to gate and from step to step. What is allowed is found by doing the same once more with every sum
//! off by its worst error: a bound in practice, not a proof.

use super::by_position;
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::Tensor;

/// The rounding errors of a gate's sum, relative to the greatest state.
const ERROR: f64 = 1e-5;

/// Operands of a network, of one direction.
struct Cell<'a> {
    call: &'a Call,
    direction: Option<usize>,
    hidden_size: usize,
    /// The number of each gate in weights and biases: z, r, n or i, o, f, g.
    gates: Vec<usize>,
    activations: Vec<&'static str>,
}

/// A state: a row for each member of the batch.
type State = Vec<Vec<f64>>;

fn activate(name: &str, x: f64) -> f64 {
    match name {
        "relu" => x.max(0.0),
        "sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "tanh" => x.tanh(),
        name => panic!("{name}"),
    }
}

impl Cell<'_> {
    fn at(&self, tensor: &Tensor, position: &[usize]) -> f64 {
        let direction: Vec<usize> = self.direction.into_iter().collect();
        tensor.float(&[direction.as_slice(), position].concat())
    }

    /// An element of an optional vector, or 0.
    fn optional(&self, field: &str, i: usize) -> f64 {
        self.call.optional(field).map_or(0.0, |tensor| self.at(tensor, &[i]))
    }

    /// A row of the weights times an input.
    fn product(&self, field: &str, row: usize, vector: &[f64]) -> f64 {
        let weight = self.call.operand(field);
        vector.iter().enumerate().map(|(i, x)| x * self.at(weight, &[row, i])).sum()
    }

    /// What the input and its bias add to a unit of a gate.
    fn of_input(&self, gate: usize, unit: usize, input: &[f64]) -> f64 {
        let row = self.gates[gate] * self.hidden_size + unit;
        self.product("weight", row, input) + self.optional("bias", row)
    }

    /// What the hidden state and its bias add to a unit of a gate.
    fn of_hidden(&self, gate: usize, unit: usize, hidden: &[f64]) -> f64 {
        let row = self.gates[gate] * self.hidden_size + unit;
        self.product("recurrent_weight", row, hidden) + self.optional("recurrent_bias", row)
    }

    fn gru(&self, input: &[f64], hidden: &[f64]) -> Vec<f64> {
        let reset_after = self.call.boolean("reset_after", true);
        let gate = |gate: usize, unit: usize| {
            activate(self.activations[0], self.of_input(gate, unit, input) + self.of_hidden(gate, unit, hidden))
        };
        let reset: Vec<f64> = (0..self.hidden_size).map(|unit| gate(1, unit)).collect();
        let reset_hidden: Vec<f64> = reset.iter().zip(hidden).map(|(r, h)| r * h).collect();
        (0..self.hidden_size)
            .map(|unit| {
                let z = gate(0, unit);
                let recurrent = match reset_after {
                    true => reset[unit] * self.of_hidden(2, unit, hidden),
                    false => self.of_hidden(2, unit, &reset_hidden),
                };
                let n = activate(self.activations[1], self.of_input(2, unit, input) + recurrent);
                z * hidden[unit] + n * (1.0 - z)
            })
            .collect()
    }

    /// The new hidden state and the new cell state.
    fn lstm(&self, input: &[f64], hidden: &[f64], cell: &[f64]) -> (Vec<f64>, Vec<f64>) {
        (0..self.hidden_size)
            .map(|unit| {
                let sum = |gate: usize| self.of_input(gate, unit, input) + self.of_hidden(gate, unit, hidden);
                // Peepholes are ordered i, o, f.
                let peephole = |gate: usize| cell[unit] * self.optional("peephole_weight", gate * self.hidden_size + unit);
                let [i, o, f] = [0, 1, 2].map(|gate| activate(self.activations[0], sum(gate) + peephole(gate)));
                let g = activate(self.activations[1], sum(3));
                let new_cell = f * cell[unit] + i * g;
                (o * activate(self.activations[2], new_cell), new_cell)
            })
            .unzip()
    }
}

fn row(tensor: &Tensor, start: &[usize]) -> Vec<f64> {
    let size = tensor.shape[start.len()];
    (0..size).map(|i| tensor.float(&[start, &[i]].concat())).collect()
}

pub fn outputs(call: &Call) -> Vec<Expected> {
    let is_cell = call.row.name.ends_with("Cell");
    let is_lstm = call.row.name.starts_with("lstm");
    let input = call.operand("input");
    let hidden_size = call.unsigned("hidden_size").expect("a size");
    let direction = if is_cell { "forward" } else { call.enumeration("direction", "forward") };
    let directions = if direction == "both" { 2 } else { 1 };
    let (steps, batch) = if is_cell { (1, input.shape[0]) } else { (input.shape[0], input.shape[1]) };
    let order = call.enumeration("layout", if is_lstm { "iofg" } else { "zrn" });
    let gates = if is_lstm { "iofg" } else { "zrn" };
    let defaults = if is_lstm { vec!["sigmoid", "tanh", "tanh"] } else { vec!["sigmoid", "tanh"] };

    let mut last_hidden: Vec<State> = Vec::new();
    let mut last_cell: Vec<State> = Vec::new();
    // The hidden state after each step, of each direction.
    let mut sequences: Vec<Vec<State>> = vec![vec![State::new(); steps]; directions];
    let mut greatest = 1f64;
    for (number, sequence) in sequences.iter_mut().enumerate() {
        let cell = Cell {
            call,
            direction: (!is_cell).then_some(number),
            hidden_size,
            gates: gates.chars().map(|gate| order.find(gate).expect("a layout has all gates")).collect(),
            activations: call.enumerations("activations").unwrap_or(defaults.clone()),
        };
        let initial = |of_cell: &str, of_network: &str| -> State {
            let row_of = |i: usize| match is_cell {
                true => row(call.operand(of_cell), &[i]),
                false => call.optional(of_network).map_or(vec![0.0; hidden_size], |state| row(state, &[number, i])),
            };
            (0..batch).map(row_of).collect()
        };
        let mut hidden = initial("hidden_state", "initial_hidden_state");
        let mut cells = if is_lstm { initial("cell_state", "initial_cell_state") } else { State::new() };
        for step in 0..steps {
            let step = if number == 1 || direction == "backward" { steps - step - 1 } else { step };
            for i in 0..batch {
                let input = if is_cell { row(input, &[i]) } else { row(input, &[step, i]) };
                if is_lstm {
                    (hidden[i], cells[i]) = cell.lstm(&input, &hidden[i], &cells[i]);
                } else {
                    hidden[i] = cell.gru(&input, &hidden[i]);
                }
            }
            let states = hidden.iter().chain(&cells).flatten();
            greatest = states.fold(greatest, |greatest, x| greatest.max(x.abs()));
            sequence[step] = hidden.clone();
        }
        last_hidden.push(hidden);
        last_cell.push(cells);
    }

    let element = |x: f64| Element::within(x, ERROR * steps as f64 * greatest);
    let state = |states: &[State]| match is_cell {
        true => by_position(input.data_type, vec![batch, hidden_size], |p| element(states[0][p[0]][p[1]])),
        false => by_position(input.data_type, vec![directions, batch, hidden_size], |p| element(states[p[0]][p[1]][p[2]])),
    };
    let mut outputs = vec![state(&last_hidden)];
    if is_lstm {
        outputs.push(state(&last_cell));
    }
    if !is_cell && call.boolean("return_sequence", false) {
        let shape = vec![steps, directions, batch, hidden_size];
        outputs.push(by_position(input.data_type, shape, |p| element(sequences[p[1]][p[0]][p[2]][p[3]])));
    }
    outputs
}

/// The same network, whose hidden state is rounded to 255 parts of its range before each step. Where it lies nearly halfway between
/// two of them either may be taken, and nothing is known of what follows.
pub fn quantized(call: &Call) -> Vec<Expected> {
    let (gates, weights, scales) = (call.operand("gates"), call.operand("recurrent_weight"), call.operand("scales"));
    let &[steps, directions, batch, columns] = &gates.shape[..] else { panic!("a shape of {:?}", gates.shape) };
    let hidden_size = columns / 4;
    let direction = call.enumeration("direction", "forward");
    let activations = call.enumerations("activations").unwrap_or(vec!["sigmoid", "tanh", "tanh"]);
    let mut is_known = true;
    let mut greatest = 1f64;
    let mut last: [Vec<State>; 2] = [Vec::new(), Vec::new()];
    let mut sequences: Vec<Vec<State>> = vec![vec![State::new(); steps]; directions];
    for (number, sequence) in sequences.iter_mut().enumerate() {
        let [mut hidden, mut cells] = ["initial_hidden_state", "initial_cell_state"].map(|field| -> State {
            let row_of = |i| call.optional(field).map_or(vec![0.0; hidden_size], |state| row(state, &[number, i]));
            (0..batch).map(row_of).collect()
        });
        for step in 0..steps {
            let step = if number == 1 || direction == "backward" { steps - step - 1 } else { step };
            let [least, most] = [f64::min, f64::max].map(|function| hidden.iter().flatten().copied().fold(0.0, function));
            let scale = if most == least { 1.0 } else { (most - least) / 255.0 };
            let mut rounded = |x: f64| {
                is_known &= ((x.abs().fract() - 0.5).abs() > 1e-3) && x.is_finite();
                x.round_ties_even()
            };
            let zero_point = rounded(-least / scale);
            let multiplied: State = hidden
                .iter()
                .map(|row| row.iter().map(|x| (rounded(x / scale) + zero_point).clamp(0.0, 255.0) - zero_point).collect())
                .collect();
            for i in 0..batch {
                let before = cells[i].clone();
                let sum = |gate: usize, unit: usize| {
                    let row = gate * hidden_size + unit;
                    let zero = call.optional("zero_points").map_or(0.0, |zeros| zeros.float(&[number, row]));
                    let weight = |k: usize| weights.float(&[number, row, k]) - zero;
                    let product: f64 = (0..hidden_size).map(|k| weight(k) * multiplied[i][k]).sum();
                    let peephole = match call.optional("peephole_weight") {
                        Some(peephole) if gate < 3 => peephole.float(&[number, row]) * before[unit],
                        _ => 0.0,
                    };
                    gates.float(&[step, number, i, row]) + product * scale * scales.float(&[number, row]) + peephole
                };
                for unit in 0..hidden_size {
                    let [input, output, forget] = [0, 1, 2].map(|gate| activate(activations[0], sum(gate, unit)));
                    let after = forget * before[unit] + input * activate(activations[1], sum(3, unit));
                    cells[i][unit] = after;
                    hidden[i][unit] = output * activate(activations[2], after);
                    greatest = greatest.max(after.abs()).max(hidden[i][unit].abs());
                }
            }
            sequence[step] = hidden.clone();
        }
        last[0].push(hidden);
        last[1].push(cells);
    }
    // Beyond, errors of relus grow as fast as their results.
    is_known &= greatest < 1e4;
    let element = |x: f64| match is_known {
        true => Element::within(x, 10.0 * ERROR * steps as f64 * greatest),
        false => Element::Anything,
    };
    let mut outputs: Vec<Expected> = last
        .iter()
        .map(|state| by_position(gates.data_type, vec![directions, batch, hidden_size], |p| element(state[p[0]][p[1]][p[2]])))
        .collect();
    if call.boolean("return_sequence", false) {
        let shape = vec![steps, directions, batch, hidden_size];
        outputs.push(by_position(gates.data_type, shape, |p| element(sequences[p[1]][p[0]][p[2]][p[3]])));
    }
    outputs
}
