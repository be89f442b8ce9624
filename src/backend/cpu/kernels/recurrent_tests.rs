//! Recurrent networks against the reference kernels.

use super::tests::numbers;
use super::{Isa, Problem, Target, TensorDesc, first};
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
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
    let op = op.into();
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
    let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
        let mut results: Vec<Vec<f32>> = outputs.iter().map(|shape| vec![f32::NAN; shape.iter().product()]).collect();
        let mut written: Vec<ViewMut<'_>> = results
            .iter_mut()
            .zip(&outputs)
            .map(|(result, shape)| ViewMut { data_type: DataType::Float32, shape, bytes: bytemuck::cast_slice_mut(result) })
            .collect();
        body(&mut Arguments::new(&views, &mut written));
        results.concat()
    };
    let expected = run(&|arguments| reference::execute(&op, arguments));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let settings = [(1, FpMath::Strict), (3, FpMath::Strict), (1, FpMath::Bf16), (3, FpMath::Bf16)];
    for (isa, (threads, fp_math)) in Isa::available().iter().flat_map(|isa| settings.map(|setting| (isa, setting))) {
        let known: Vec<TensorDesc<'_>> = views
            .iter()
            .zip(&inputs)
            .map(|(view, (_, constant))| TensorDesc {
                data_type: view.data_type,
                shape: view.shape,
                constant: constant.then_some(view.bytes()),
                order: None,
            })
            .collect();
        let output = TensorDesc { data_type: DataType::Float32, shape: &outputs[0], constant: None, order: None };
        let problem = Problem { prologue: &[], dequantized: &[], op: &op, fused: &[], inputs: &known, output, workspace: None };
        let selection = first(&problem, &Target { fp_math, ..Target::with(isa, threads) });
        let run_kernel = || run(&|arguments| selection.kernel.run(arguments));
        let found = if threads == 1 { run_kernel() } else { pool.install(run_kernel) };
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // States and gates of a step are off by the errors of some products of numbers below 1, which the functions do not make
            // larger but for a factor; a wrong weight or place is off by more.
            let allowed = match fp_math {
                FpMath::Strict => 1e-4,
                FpMath::Bf16 => 8.0 * 2f32.powi(-7) * (input + hidden) as f32 * 0.0625,
            };
            assert!(
                (found - expected).abs() <= allowed * expected.abs().max(1.0),
                "{} {op:?} at {i}: {found}, not {expected}",
                isa.name
            );
        }
    }
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
