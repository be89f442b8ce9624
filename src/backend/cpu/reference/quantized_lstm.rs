//! Long short-term memory whose hidden state is multiplied as bytes. What is computed within a step is computed in `f64`.

use super::recurrent::activate;
use crate::backend::cpu::scratch;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::quantized::{extremes, of_range};
use crate::graph::ops::quantized_lstm::QuantizedLstm;
use crate::graph::ops::recurrent::lstm_activations;
use crate::graph::{DataType, OperandId};
use crate::looks::{self, Looking};

pub fn quantized_lstm(op: &QuantizedLstm, arguments: &mut Arguments<'_, '_>) {
    let (gates, weights) = (arguments.input(op.gates), arguments.input(op.recurrent_weight));
    let &[steps, directions, batches, columns] = gates.shape else { unreachable!("the row demands rank 4") };
    let hidden_size = columns / 4;
    let size = batches * hidden_size;
    let gates = gates.elements::<f32>();
    let (bytes, is_signed) = (weights.bytes(), weights.data_type == DataType::Int8);
    let integer = |byte: u8| if is_signed { i32::from(byte as i8) } else { i32::from(byte) };
    let scales = arguments.input(op.scales).elements::<f32>();
    let zeros = op.zero_points.map(|id| arguments.input(id).bytes());
    let floats = |id: Option<OperandId>| id.map(|id| arguments.input(id).elements::<f32>());
    let peephole = floats(op.peephole_weight);
    let states = [op.initial_hidden_state, op.initial_cell_state].map(|id| match floats(id) {
        Some(state) => scratch::collected(state.len(), state.iter().copied()),
        None => scratch::zeroed::<f32>(directions * size),
    });
    let [mut hidden, mut cell] = states;
    let [activation, cell_activation, state_activation] = lstm_activations(op.activations.as_deref());
    for direction in 0..directions {
        let (hidden, cell) = (&mut hidden[direction * size..][..size], &mut cell[direction * size..][..size]);
        for i in 0..steps {
            let step = if op.direction.is_backward(direction) { steps - 1 - i } else { i };
            let [least, most] = extremes(hidden);
            let (scale, zero_point) = of_range(least, most);
            let quantized = hidden.iter().map(|x| {
                let byte = ((x / scale).round_ties_even() + f32::from(zero_point)).clamp(0.0, 255.0) as u8;
                i32::from(byte) - i32::from(zero_point)
            });
            let quantized: Vec<i32> = scratch::collected(size, quantized);
            for element in (0..size).looking(4 * hidden_size) {
                let (batch, unit) = (element / hidden_size, element % hidden_size);
                let before = f64::from(cell[element]);
                let sum = |gate: usize| {
                    let column = gate * hidden_size + unit;
                    let row = direction * columns + column;
                    let zero = zeros.map_or(0, |zeros| integer(zeros[row]));
                    let row_of_weights = &bytes[row * hidden_size..][..hidden_size];
                    let numbers = &quantized[batch * hidden_size..][..hidden_size];
                    let products = row_of_weights.iter().zip(numbers).map(|(&byte, x)| (integer(byte) - zero).wrapping_mul(*x));
                    let product = products.fold(0i32, i32::wrapping_add);
                    let of_input = gates[((step * directions + direction) * batches + batch) * columns + column];
                    let of_cell = match peephole {
                        Some(weights) if gate < 3 => f64::from(weights[(direction * 3 + gate) * hidden_size + unit]) * before,
                        _ => 0.0,
                    };
                    f64::from(of_input) + f64::from(product) * f64::from(scale) * f64::from(scales[row]) + of_cell
                };
                let [i, o, f] = [0, 1, 2].map(|gate| activate(activation, sum(gate)));
                let g = activate(cell_activation, sum(3));
                let after = f * before + i * g;
                cell[element] = after as f32;
                hidden[element] = (o * activate(state_activation, after)) as f32;
            }
            if op.return_sequence {
                let first = (step * directions + direction) * size;
                looks::copy(hidden, &mut arguments.outputs()[2].elements::<f32>()[first..][..size]);
            }
        }
    }
    looks::copy(&hidden, arguments.outputs()[0].elements::<f32>());
    looks::copy(&cell, arguments.outputs()[1].elements::<f32>());
}
