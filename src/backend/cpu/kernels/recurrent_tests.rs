//! Recurrent networks against the reference kernels.

use super::tests::{check_outputs, numbers};
use crate::backend::cpu::view::View;
use crate::graph::ops::recurrent::RecurrentNetworkActivation::{Relu, Sigmoid, Tanh};
use crate::graph::ops::recurrent::{Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkDirection};
use crate::graph::{DataType, FpMath, Op, OperandId};

/// Sizes of a network.
struct Case {
    steps: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    direction: RecurrentNetworkDirection,
    /// Whether biases, peepholes and initial states are there.
    full: bool,
}

/// Runs an operator of so many gates and states on both kernels, on one thread and on several.
fn check(op: impl Into<Op>, case: &Case, gates: usize, states: usize) {
    let Case { steps, batch, input, hidden, direction, full } = *case;
    let directions = direction.count() as usize;
    let mut inputs = vec![
        (vec![steps, batch, input], false),
        (vec![directions, gates * hidden, input], true),
        (vec![directions, gates * hidden, hidden], true),
    ];
    if full {
        inputs.extend([(vec![directions, gates * hidden], true), (vec![directions, gates * hidden], true)]);
        if gates == 4 {
            inputs.push((vec![directions, 3 * hidden], true));
        }
        inputs.extend(vec![(vec![directions, batch, hidden], false); states]);
    }
    let state = vec![directions, batch, hidden];
    let mut outputs = vec![state; states];
    outputs.push(vec![steps, directions, batch, hidden]);
    let data: Vec<Vec<f32>> = inputs
        .iter()
        .zip(1..)
        .map(|((shape, _), seed)| numbers(shape.iter().product(), seed).iter().map(|x| x * 0.5).collect())
        .collect();
    let views: Vec<View<'_>> = inputs
        .iter()
        .zip(&data)
        .map(|((shape, _), data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data)))
        .collect();
    // States and gates of a step are off by the errors of some products of numbers below 1, which the functions do not make
    // larger but for a factor; a wrong weight or place is off by more.
    let strict = |size: f32| 1e-4 * size.max(1.0);
    let bf16 = |size: f32| 8.0 * 2f32.powi(-7) * (input + hidden) as f32 * 0.0625 * size.max(1.0);
    check_outputs(op, &views, |i| inputs[i].1, &outputs, &[(FpMath::Strict, &strict), (FpMath::Bf16, &bf16)]);
}

fn cases() -> Vec<Case> {
    use RecurrentNetworkDirection::{Backward, Both, Forward};
    let sizes = [(3, 1, 5, 16), (1, 2, 40, 40), (4, 13, 7, 33), (5, 1, 3, 150)];
    let mut cases = Vec::new();
    for (steps, batch, input, hidden) in sizes {
        for direction in [Forward, Backward, Both] {
            for full in [false, true] {
                cases.push(Case { steps, batch, input, hidden, direction, full });
            }
        }
    }
    cases
}

#[test]
fn long_short_term_memories() {
    for case in cases() {
        for (layout, activations) in [(LstmWeightLayout::Iofg, None), (LstmWeightLayout::Ifgo, Some(vec![Tanh, Relu, Sigmoid]))] {
            let id = |number| case.full.then_some(OperandId(number));
            let op = Lstm {
                input: OperandId(0),
                weight: OperandId(1),
                recurrent_weight: OperandId(2),
                steps: case.steps as u32,
                hidden_size: case.hidden as u32,
                bias: id(3),
                recurrent_bias: id(4),
                peephole_weight: id(5),
                initial_hidden_state: id(6),
                initial_cell_state: id(7),
                return_sequence: true,
                direction: case.direction,
                layout,
                activations,
            };
            check(op, &case, 4, 2);
        }
    }
}

#[test]
fn gated_recurrent_units() {
    for case in cases() {
        for (layout, activations) in [(GruWeightLayout::Zrn, None), (GruWeightLayout::Rzn, Some(vec![Sigmoid, Relu]))] {
            for reset_after in [false, true] {
                let id = |number| case.full.then_some(OperandId(number));
                let op = Gru {
                    input: OperandId(0),
                    weight: OperandId(1),
                    recurrent_weight: OperandId(2),
                    steps: case.steps as u32,
                    hidden_size: case.hidden as u32,
                    bias: id(3),
                    recurrent_bias: id(4),
                    initial_hidden_state: id(5),
                    reset_after,
                    return_sequence: true,
                    direction: case.direction,
                    layout,
                    activations: activations.clone(),
                };
                check(op, &case, 3, 1);
            }
        }
    }
}
