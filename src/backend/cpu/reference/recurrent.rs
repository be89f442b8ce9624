//! Recurrent networks, and single steps of them.
//!
//! States are carried in `f32` from step to step; what is computed within a step is computed in `f64`.

use crate::backend::cpu::element::{Float, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::recurrent::{
    Gru, GruCell, Lstm, LstmCell, RecurrentNetworkActivation, RecurrentNetworkDirection, gru_activations, lstm_activations,
};
use crate::graph::{DataType, OperandId};
use crate::looks::{self, Looking};
use half::f16;
use std::borrow::Cow;

pub fn gru(op: &Gru, arguments: &mut Arguments<'_, '_>) {
    let weights = Weights::new(arguments, op.weight, op.recurrent_weight, op.bias, op.recurrent_bias);
    let units = GruUnits {
        weights: &weights,
        gates: op.layout.zrn(),
        activations: gru_activations(op.activations.as_deref()),
        reset_after: op.reset_after,
    };
    let mut hidden = state(arguments, op.initial_hidden_state);
    let steps = Steps::new(arguments, op.input, op.steps, op.direction);
    steps.run(arguments, &mut hidden, op.return_sequence.then_some(1), |direction, input, hidden| {
        units.step(direction, input, hidden);
    });
    write(&mut arguments.outputs()[0], 0, &hidden);
}

pub fn gru_cell(op: &GruCell, arguments: &mut Arguments<'_, '_>) {
    gru(&op.network(), arguments);
}

pub fn lstm(op: &Lstm, arguments: &mut Arguments<'_, '_>) {
    let weights = Weights::new(arguments, op.weight, op.recurrent_weight, op.bias, op.recurrent_bias);
    let peephole = op.peephole_weight.map(|id| floats(arguments.input(id)));
    let units = LstmUnits {
        weights: &weights,
        gates: op.layout.iofg(),
        peephole: peephole.as_deref(),
        activations: lstm_activations(op.activations.as_deref()),
    };
    let mut hidden = state(arguments, op.initial_hidden_state);
    let mut cell = state(arguments, op.initial_cell_state);
    let steps = Steps::new(arguments, op.input, op.steps, op.direction);
    let size = steps.state_size(&hidden);
    steps.run(arguments, &mut hidden, op.return_sequence.then_some(2), |direction, input, hidden| {
        units.step(direction, input, hidden, &mut cell[direction * size..][..size]);
    });
    write(&mut arguments.outputs()[0], 0, &hidden);
    write(&mut arguments.outputs()[1], 0, &cell);
}

pub fn lstm_cell(op: &LstmCell, arguments: &mut Arguments<'_, '_>) {
    lstm(&op.network(), arguments);
}

/// The elements of a floating-point operand as `f32`, copied only where they are not.
fn floats(view: View<'_>) -> Cow<'_, [f32]> {
    match view.data_type {
        DataType::Float32 => Cow::Borrowed(view.elements()),
        _ => Cow::Owned(scratch::collected(view.element_count(), view.elements::<f16>().iter().map(|&x| x.to_f32()))),
    }
}

/// A copy of a state; zeros, as many as the first output has elements, when it is absent.
fn state(arguments: &mut Arguments<'_, '_>, id: Option<OperandId>) -> Vec<f32> {
    match id {
        Some(id) => match floats(arguments.input(id)) {
            Cow::Borrowed(elements) => scratch::collected(elements.len(), elements.iter().copied()),
            Cow::Owned(elements) => elements,
        },
        None => scratch::zeroed(arguments.output().element_count()),
    }
}

/// Writes values to an output from an element on.
fn write(output: &mut ViewMut<'_>, first: usize, values: &[f32]) {
    with_float!(output.data_type, T => {
        output.elements::<T>()[first..].iter_mut().zip(values).looking(1).for_each(|(element, &value)| {
            *element = T::from_f32(value);
        });
    })
}

/// The steps of a network over its input.
struct Steps<'a> {
    input: Cow<'a, [f32]>,
    count: usize,
    direction: RecurrentNetworkDirection,
}

impl<'a> Steps<'a> {
    fn new(arguments: &Arguments<'a, '_>, input: OperandId, steps: u32, direction: RecurrentNetworkDirection) -> Self {
        Steps { input: floats(arguments.input(input)), count: steps as usize, direction }
    }

    /// The elements of the state of one direction.
    fn state_size(&self, states: &[f32]) -> usize {
        states.len() / self.direction.count() as usize
    }

    /// Takes the steps of each direction with `step(direction, input, hidden)`, and writes the hidden state after each
    /// to the output of that number.
    fn run(
        &self,
        arguments: &mut Arguments<'_, '_>,
        hidden: &mut [f32],
        sequence: Option<usize>,
        mut step: impl FnMut(usize, &[f32], &mut [f32]),
    ) {
        let state_size = self.state_size(hidden);
        let input_size = self.input.len() / self.count;
        for (direction, hidden) in hidden.chunks_exact_mut(state_size).enumerate() {
            for i in 0..self.count {
                let position = if self.direction.is_backward(direction) { self.count - 1 - i } else { i };
                step(direction, &self.input[position * input_size..][..input_size], hidden);
                if let Some(output) = sequence {
                    // [steps, numDirections, batchSize, hiddenSize]
                    let first = (position * self.direction.count() as usize + direction) * state_size;
                    write(&mut arguments.outputs()[output], first, hidden);
                }
            }
        }
    }
}

/// The weights and biases of all directions and gates.
struct Weights<'a> {
    input: Cow<'a, [f32]>,
    recurrent: Cow<'a, [f32]>,
    bias: Option<Cow<'a, [f32]>>,
    recurrent_bias: Option<Cow<'a, [f32]>>,
    input_size: usize,
    hidden_size: usize,
    gates: usize,
}

impl<'a> Weights<'a> {
    fn new(
        arguments: &Arguments<'a, '_>,
        weight: OperandId,
        recurrent_weight: OperandId,
        bias: Option<OperandId>,
        recurrent_bias: Option<OperandId>,
    ) -> Self {
        let last = |view: View<'_>| *view.shape.last().expect("weights are matrices");
        let (weight, recurrent_weight) = (arguments.input(weight), arguments.input(recurrent_weight));
        let hidden_size = last(recurrent_weight);
        let rows = recurrent_weight.shape[recurrent_weight.shape.len() - 2];
        Weights {
            input: floats(weight),
            recurrent: floats(recurrent_weight),
            bias: bias.map(|id| floats(arguments.input(id))),
            recurrent_bias: recurrent_bias.map(|id| floats(arguments.input(id))),
            input_size: last(weight),
            hidden_size,
            gates: rows / hidden_size,
        }
    }

    fn row(&self, direction: usize, gate: usize, unit: usize) -> usize {
        (direction * self.gates + gate) * self.hidden_size + unit
    }

    /// A unit's gate, as far as it depends on the input.
    fn of_input(&self, row: usize, input: &[f32]) -> f64 {
        let bias = self.bias.as_ref().map_or(0.0, |bias| bias[row]);
        bias as f64 + dot(&self.input[row * self.input_size..][..self.input_size], input)
    }

    /// A unit's gate, as far as it depends on the hidden state.
    fn of_hidden(&self, row: usize, hidden: &[f32]) -> f64 {
        let bias = self.recurrent_bias.as_ref().map_or(0.0, |bias| bias[row]);
        bias as f64 + dot(&self.recurrent[row * self.hidden_size..][..self.hidden_size], hidden)
    }

    /// About how many nanoseconds that many gates of a unit take.
    fn cost(&self, gates: usize) -> usize {
        gates * ((self.input_size + self.hidden_size) / 2 + 20)
    }
}

/// A sum of products, exact but for the sum's roundings in `f64`.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let product = |(&a, &b): (&f32, &f32)| a as f64 * b as f64;
    let mut sums = [0f64; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for part in looks::parts(a.len()) {
        for (a, b) in a[part.clone()].iter().zip(&b[part]) {
            for (sum, pair) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += product(pair);
            }
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(product).sum::<f64>()
}

pub fn activate(activation: RecurrentNetworkActivation, x: f64) -> f64 {
    match activation {
        // NaN stays NaN.
        RecurrentNetworkActivation::Relu if x <= 0.0 => 0.0,
        RecurrentNetworkActivation::Relu => x,
        RecurrentNetworkActivation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        RecurrentNetworkActivation::Tanh => x.tanh(),
    }
}

/// The gated recurrent units of a network.
struct GruUnits<'a> {
    weights: &'a Weights<'a>,
    /// The positions of the update, reset and new gates.
    gates: [usize; 3],
    activations: [RecurrentNetworkActivation; 2],
    reset_after: bool,
}

impl GruUnits<'_> {
    /// Takes one step of a direction, `#api-mlgraphbuilder-grucell`: the hidden state becomes the new one.
    fn step(&self, direction: usize, input: &[f32], hidden: &mut [f32]) {
        let Weights { input_size, hidden_size, .. } = *self.weights;
        let [update, reset, new] = self.gates;
        let [activation, new_activation] = self.activations;
        let of_batch = |element: usize| {
            let batch = element / hidden_size;
            (&input[batch * input_size..][..input_size], batch * hidden_size..(batch + 1) * hidden_size, element % hidden_size)
        };
        let gate = |gate: usize, unit: usize, input: &[f32], hidden: &[f32]| {
            let row = self.weights.row(direction, gate, unit);
            activate(activation, self.weights.of_input(row, input) + self.weights.of_hidden(row, hidden))
        };

        // Applied before the product, the reset gates of all units are needed for each.
        let mut reset_hidden = Vec::new();
        if !self.reset_after {
            reset_hidden = scratch::zeroed::<f32>(hidden.len());
            threads::for_each_piece(&mut reset_hidden, 1, self.weights.cost(1), |first, piece| {
                for (element, result) in (first..).zip(piece) {
                    let (input, batch, unit) = of_batch(element);
                    *result = (gate(reset, unit, input, &hidden[batch]) * hidden[element] as f64) as f32;
                }
            });
        }

        let mut next = scratch::zeroed::<f32>(hidden.len());
        threads::for_each_piece(&mut next, 1, self.weights.cost(3), |first, piece| {
            for (element, result) in (first..).zip(piece) {
                let (input, batch, unit) = of_batch(element);
                let row = self.weights.row(direction, new, unit);
                let of_hidden = if self.reset_after {
                    let hidden = &hidden[batch.clone()];
                    gate(reset, unit, input, hidden) * self.weights.of_hidden(row, hidden)
                } else {
                    self.weights.of_hidden(row, &reset_hidden[batch.clone()])
                };
                let n = activate(new_activation, self.weights.of_input(row, input) + of_hidden);
                let z = gate(update, unit, input, &hidden[batch]);
                *result = (z * hidden[element] as f64 + n * (1.0 - z)) as f32;
            }
        });
        looks::copy(&next, hidden);
    }
}

/// The long short-term memory units of a network.
struct LstmUnits<'a> {
    weights: &'a Weights<'a>,
    /// The positions of the input, output, forget and cell gates.
    gates: [usize; 4],
    /// For the input, output and forget gates.
    peephole: Option<&'a [f32]>,
    activations: [RecurrentNetworkActivation; 3],
}

impl LstmUnits<'_> {
    /// Takes one step of a direction, `#api-mlgraphbuilder-lstmcell`: the states become the new ones.
    fn step(&self, direction: usize, input: &[f32], hidden: &mut [f32], cell: &mut [f32]) {
        let Weights { input_size, hidden_size, .. } = *self.weights;
        let [input_gate, output_gate, forget_gate, cell_gate] = self.gates;
        let [activation, cell_activation, state_activation] = self.activations;
        let mut next = scratch::filled((0f32, 0f32), hidden.len());
        threads::for_each_piece(&mut next, 1, self.weights.cost(4), |first, piece| {
            for (element, (next_hidden, next_cell)) in (first..).zip(piece) {
                let (batch, unit) = (element / hidden_size, element % hidden_size);
                let input = &input[batch * input_size..][..input_size];
                let hidden = &hidden[batch * hidden_size..][..hidden_size];
                let cell = cell[element] as f64;
                let sum = |gate: usize| {
                    let row = self.weights.row(direction, gate, unit);
                    self.weights.of_input(row, input) + self.weights.of_hidden(row, hidden)
                };
                // The peepholes look at the cell state before the step, the output gate's too.
                let peephole = |number: usize| match self.peephole {
                    Some(weights) => weights[(direction * 3 + number) * hidden_size + unit] as f64 * cell,
                    None => 0.0,
                };
                let i = activate(activation, sum(input_gate) + peephole(0));
                let o = activate(activation, sum(output_gate) + peephole(1));
                let f = activate(activation, sum(forget_gate) + peephole(2));
                let g = activate(cell_activation, sum(cell_gate));
                let new_cell = f * cell + i * g;
                *next_cell = new_cell as f32;
                *next_hidden = (o * activate(state_activation, new_cell)) as f32;
            }
        });
        hidden.iter_mut().zip(cell).zip(next).looking(1).for_each(|((hidden, cell), (next_hidden, next_cell))| {
            (*hidden, *cell) = (next_hidden, next_cell);
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};

    /// Tensors of pseudo-random numbers between -1 and 1.
    fn tensors(shapes: &[&[u32]]) -> Vec<Tensor> {
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        shapes.iter().map(|shape| Tensor::of(shape, (0..shape.iter().product()).map(|_| random()))).collect()
    }

    fn operands(ids: std::ops::Range<u32>) -> impl Iterator<Item = Value> {
        ids.map(|id| Operand(OperandId(id)))
    }

    /// A part of a tensor along its first dimension, without that dimension.
    fn part(tensor: &Tensor, i: u32) -> Tensor {
        let shape = &tensor.descriptor.shape[1..];
        let size = shape.iter().product::<u32>() as usize;
        Tensor::of(shape, tensor.elements::<f32>()[i as usize * size..][..size].to_vec())
    }

    fn assert_close(found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((*found as f64 - expected).abs() < 1e-6, "{found} is not {expected}");
        }
    }

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    const UNITS: usize = 9;

    /// bias + weight · x for a gate's unit.
    fn gate(weight: &[f32], bias: &[f32], row: usize, x: &[f64]) -> f64 {
        let weight = &weight[row * x.len()..][..x.len()];
        bias[row] as f64 + weight.iter().zip(x).map(|(&weight, x)| weight as f64 * x).sum::<f64>()
    }

    fn wide(tensor: &Tensor) -> Vec<f64> {
        tensor.elements::<f32>().into_iter().map(f64::from).collect()
    }

    #[test]
    fn gru_cell_is_the_specification_s() {
        let units = UNITS as u32;
        let operand = tensors(&[&[1, 11], &[3 * units, 11], &[3 * units, units], &[1, units], &[3 * units], &[3 * units]]);
        let [x, h] = [wide(&operand[0]), wide(&operand[3])];
        let [w, r, b, rb] = [1, 2, 4, 5].map(|i| operand[i].elements::<f32>());
        for reset_after in [false, true] {
            for (layout, [z, r_gate, n]) in [(0, [0, 1, 2]), (1, [1, 0, 2])] {
                let sum = |g: usize, i: usize, h: &[f64]| gate(&w, &b, g * UNITS + i, &x) + gate(&r, &rb, g * UNITS + i, h);
                let reset: Vec<f64> = (0..UNITS).map(|i| sigmoid(sum(r_gate, i, &h))).collect();
                let reset_h: Vec<f64> = reset.iter().zip(&h).map(|(r, h)| r * h).collect();
                let expected: Vec<f64> = (0..UNITS)
                    .map(|i| {
                        let z = sigmoid(sum(z, i, &h));
                        let row = n * UNITS + i;
                        let of_hidden =
                            if reset_after { reset[i] * gate(&r, &rb, row, &h) } else { gate(&r, &rb, row, &reset_h) };
                        z * h[i] + (gate(&w, &b, row, &x) + of_hidden).tanh() * (1.0 - z)
                    })
                    .collect();
                let mut values: Vec<Value> = operands(0..4).chain([Unsigned(units)]).chain(operands(4..6)).collect();
                values.extend([Boolean(reset_after), Enumeration(layout)]);
                assert_close(&run("gruCell", &operand, values)[0].elements(), &expected);
            }
        }
    }

    #[test]
    fn lstm_cell_is_the_specification_s() {
        let units = UNITS as u32;
        let four: &[u32] = &[4 * units];
        let operand =
            tensors(&[&[1, 11], &[4 * units, 11], &[4 * units, units], &[1, units], &[1, units], four, four, &[3 * units]]);
        let [x, h, c, p] = [0, 3, 4, 7].map(|i| wide(&operand[i]));
        let [w, r, b, rb] = [1, 2, 5, 6].map(|i| operand[i].elements::<f32>());
        for (layout, [i, o, f, g]) in [(0, [0, 1, 2, 3]), (1, [0, 3, 1, 2])] {
            let sum = |position: usize, unit: usize| {
                let row = position * UNITS + unit;
                gate(&w, &b, row, &x) + gate(&r, &rb, row, &h)
            };
            let (hidden, cell): (Vec<f64>, Vec<f64>) = (0..UNITS)
                .map(|unit| {
                    let i = sigmoid(sum(i, unit) + p[unit] * c[unit]);
                    let o = sigmoid(sum(o, unit) + p[UNITS + unit] * c[unit]);
                    let f = sigmoid(sum(f, unit) + p[2 * UNITS + unit] * c[unit]);
                    let cell = f * c[unit] + i * sum(g, unit).tanh();
                    // The third activation is relu here.
                    (o * cell.max(0.0), cell)
                })
                .unzip();
            let mut values: Vec<Value> = operands(0..5).chain([Unsigned(units)]).chain(operands(5..8)).collect();
            values.extend([Enumeration(layout), EnumerationList(vec![1, 2, 0])]);
            let outputs = run("lstmCell", &operand, values);
            assert_close(&outputs[0].elements(), &hidden);
            assert_close(&outputs[1].elements(), &cell);
        }
    }

    #[test]
    fn a_gru_is_its_cells() {
        let operand = tensors(&[&[3, 2, 5], &[2, 12, 5], &[2, 12, 4], &[2, 12], &[2, 12], &[2, 2, 4]]);
        for (direction, directions) in [(0, 1), (1, 1), (2, 2)] {
            let operand: Vec<Tensor> =
                operand.iter().enumerate().map(|(i, t)| if i == 0 { t.clone() } else { first(t, directions) }).collect();
            let mut values: Vec<Value> = operands(0..3).chain([Unsigned(3), Unsigned(4)]).chain(operands(3..6)).collect();
            values.extend([Boolean(false), Boolean(true), Enumeration(direction)]);
            let outputs = run("gru", &operand, values);
            for d in 0..directions {
                let mut hidden = part(&operand[5], d);
                for i in 0..3 {
                    let step = if d == 1 || direction == 1 { 2 - i } else { i };
                    let mut cell = vec![part(&operand[0], step), part(&operand[1], d), part(&operand[2], d), hidden];
                    cell.extend([part(&operand[3], d), part(&operand[4], d)]);
                    let values = operands(0..4).chain([Unsigned(4)]).chain(operands(4..6)).chain([Boolean(false)]);
                    hidden = run("gruCell", &cell, values.collect()).remove(0);
                    assert_eq!(part(&part(&outputs[1], step), d), hidden);
                }
                assert_eq!(part(&outputs[0], d), hidden);
            }
        }
    }

    #[test]
    fn an_lstm_is_its_cells() {
        let operand = tensors(&[&[3, 2, 5], &[2, 16, 5], &[2, 16, 4], &[2, 16], &[2, 16], &[2, 12], &[2, 2, 4], &[2, 2, 4]]);
        for (direction, directions) in [(0, 1), (1, 1), (2, 2)] {
            let operand: Vec<Tensor> =
                operand.iter().enumerate().map(|(i, t)| if i == 0 { t.clone() } else { first(t, directions) }).collect();
            let mut values: Vec<Value> = operands(0..3).chain([Unsigned(3), Unsigned(4)]).chain(operands(3..8)).collect();
            values.extend([Boolean(true), Enumeration(direction)]);
            let outputs = run("lstm", &operand, values);
            for d in 0..directions {
                let mut states = vec![part(&operand[6], d), part(&operand[7], d)];
                for i in 0..3 {
                    let step = if d == 1 || direction == 1 { 2 - i } else { i };
                    let mut cell = vec![part(&operand[0], step), part(&operand[1], d), part(&operand[2], d)];
                    cell.append(&mut states);
                    cell.extend([3, 4, 5].map(|i| part(&operand[i], d)));
                    let values = operands(0..5).chain([Unsigned(4)]).chain(operands(5..8));
                    states = run("lstmCell", &cell, values.collect());
                    assert_eq!(part(&part(&outputs[2], step), d), states[0]);
                }
                assert_eq!(part(&outputs[0], d), states[0]);
                assert_eq!(part(&outputs[1], d), states[1]);
            }
        }
    }

    /// The operands of so many directions.
    fn first(tensor: &Tensor, directions: u32) -> Tensor {
        let mut shape = tensor.descriptor.shape.clone();
        shape[0] = directions;
        let size = shape.iter().product::<u32>() as usize;
        Tensor::of(&shape, tensor.elements::<f32>()[..size].to_vec())
    }

    #[test]
    fn absent_options_are_zeros() {
        let operand = tensors(&[&[2, 1, 3], &[1, 6, 3], &[1, 6, 2]]);
        let absent: Vec<Value> = operands(0..3).chain([Unsigned(2), Unsigned(2)]).collect();
        let mut given = operand.clone();
        given.extend(
            [&[1, 6][..], &[1, 6], &[1, 1, 2]].map(|shape| Tensor::of(shape, vec![0f32; shape.iter().product::<u32>() as usize])),
        );
        let values: Vec<Value> = absent.iter().cloned().chain(operands(3..6)).collect();
        assert_eq!(run("gru", &operand, absent), run("gru", &given, values));
    }
}
