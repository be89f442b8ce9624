//! The LSTM of bytes against the reference kernel, on every instruction set and with all tiles.

use super::lstm::accept_with;
use crate::backend::cpu::kernels::Target;
use crate::backend::cpu::kernels::tests::{alone, known, numbers, results};
use crate::backend::cpu::reference;
use crate::backend::cpu::view::View;
use crate::graph::DataType::{Float32, Int8, Uint8};
use crate::graph::ops::quantized_lstm::QuantizedLstm;
use crate::graph::ops::recurrent::{RecurrentNetworkActivation, RecurrentNetworkDirection};
use crate::graph::{DataType, Op, OperandId};
use webnn_kernels::int8::microkernels::Tiles;
use webnn_kernels::isa::Isa;

struct Case {
    of_weights: DataType,
    steps: usize,
    batch: usize,
    hidden: usize,
    direction: RecurrentNetworkDirection,
    has_options: bool,
}

fn check(case: &Case) {
    let Case { of_weights, steps, batch, hidden, direction, has_options } = *case;
    let directions = direction.count() as usize;
    let columns = 4 * hidden;
    let gates: Vec<f32> = numbers(steps * directions * batch * columns, 3).into_iter().map(|x| 2.0 * x).collect();
    let weights: Vec<u8> = numbers(directions * columns * hidden, 4).into_iter().map(|x| (x * 127.0) as i8 as u8).collect();
    let scales: Vec<f32> = (0..directions * columns).map(|i| 0.001 + (i % 7) as f32 * 0.0005).collect();
    let zeros: Vec<u8> = (0..directions * columns).map(|i| (i % 5) as u8 * 3).collect();
    let peephole = numbers(directions * 3 * hidden, 5);
    let states = [6, 7].map(|seed| numbers(directions * batch * hidden, seed));
    let shapes: [&[usize]; 7] = [
        &[steps, directions, batch, columns],
        &[directions, columns, hidden],
        &[directions, columns],
        &[directions, columns],
        &[directions, 3 * hidden],
        &[directions, batch, hidden],
        &[directions, batch, hidden],
    ];
    let float = |i: usize, list: &'_ [f32]| -> (usize, Vec<u32>) { (i, list.iter().map(|x| x.to_bits()).collect()) };
    let floats = [float(0, &gates), float(2, &scales), float(4, &peephole), float(5, &states[0]), float(6, &states[1])];
    let views: Vec<View<'_>> = (0..7)
        .map(|i| match floats.iter().find(|(position, _)| *position == i) {
            Some((_, list)) => View::new(Float32, shapes[i], bytemuck::cast_slice(list)),
            None => View::new(of_weights, shapes[i], if i == 1 { &weights } else { &zeros }),
        })
        .collect();
    let id = |number: u32| OperandId(number);
    let optional = |number: u32| has_options.then_some(OperandId(number));
    let op = Op::from(QuantizedLstm {
        gates: id(0),
        recurrent_weight: id(1),
        scales: id(2),
        zero_points: optional(3),
        peephole_weight: optional(4),
        initial_hidden_state: optional(5),
        initial_cell_state: optional(6),
        return_sequence: true,
        direction,
        activations: has_options.then(|| {
            use RecurrentNetworkActivation::{Sigmoid, Tanh};
            vec![Sigmoid, Sigmoid, Tanh]
        }),
    });
    let outputs = [shapes[5].to_vec(), shapes[6].to_vec(), vec![steps, directions, batch, hidden]];
    let expected = results(&views, &outputs, |arguments| reference::execute(&op, arguments));
    let known = known(&views, |i| (1..5).contains(&i));
    let problem = alone(&op, &known, &outputs[0]);
    for (isa, tiles) in Isa::available().iter().flat_map(|isa| Tiles::all_of(isa).into_iter().map(move |tiles| (isa, tiles))) {
        let build = accept_with(&problem, &Target::with(isa, 1), Some(tiles)).expect("weights that are known");
        let kernel = build().expect("memory").kernel;
        let found = results(&views, &outputs, |arguments| kernel.compute(arguments));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // A part of the range that is taken the other way moves a gate by some thousandths.
            let name = (isa.name, tiles.name);
            assert!((found - expected).abs() < 1e-5, "{name:?} {steps} {batch} {hidden} at {i}: {found}, not {expected}");
        }
    }
}

#[test]
fn the_hidden_state_is_multiplied_as_bytes() {
    use RecurrentNetworkDirection::{Backward, Both, Forward};
    for (steps, batch, hidden) in [(1, 1, 1), (3, 1, 32), (4, 2, 17), (3, 5, 40), (2, 13, 9)] {
        for direction in [Forward, Backward, Both] {
            for of_weights in [Int8, Uint8] {
                for has_options in [false, true] {
                    check(&Case { of_weights, steps, batch, hidden, direction, has_options });
                }
            }
        }
    }
}
