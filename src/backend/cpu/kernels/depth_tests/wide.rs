//! The same of kernels of which a piece may have enormously many pixels, channels, rows or tokens.
//!
//! Some loops do not look, since what they go over takes less than 50 ms unless it fills gigabytes: the window of a depthwise convolution
//! for some pixels (below 10 million elements), a token of a linear attention (below a million elements of a key), a pixel of small groups
//! and the transforms of a job of Winograd's algorithm (below 10 million channels), a tile of a convolution with few outputs or of one that
//! reads planes, whose filters are small.

use super::{Case, DEPTH, case, check, floats};
use crate::backend::cpu::kernels::functions::exact_tests::Given;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::expert_matmul::ExpertMatmul;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::linear_attention::LinearAttention;
use crate::graph::ops::recurrent::{Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkDirection};
use crate::graph::{DataType, OperandId};

/// A convolution of an image with its channels last: the image, the window, its dilation, the outputs, and the groups.
fn conv([height, width, channels]: [usize; 3], window: [usize; 2], dilation: u32, outputs: usize, groups: usize) -> Case {
    let [image, filter] = [0, 1].map(OperandId);
    let reach = window.map(|window| (window - 1) * dilation as usize);
    let layouts = (InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Ohwi);
    let op = Conv2d { groups: groups as u32, dilations: [dilation; 2], ..Conv2d::new(image, filter, layouts.0, layouts.1) };
    let weights = floats(&[outputs, window[0], window[1], channels / groups], 2);
    case(op, vec![floats(&[1, height, width, channels], 1), weights], &[1], &[1, height - reach[0], width - reach[1], outputs])
}

fn contains(names: &std::collections::BTreeSet<String>, wanted: &[&str]) {
    let missing: Vec<_> = wanted.iter().filter(|name| !names.contains(**name)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}, only {names:?}");
}

#[test]
fn convolutions_look_within_a_row() {
    let mut cases = Vec::new();
    // Every loop of depthwise convolutions: along a row, and along the channels of few pixels.
    for (window, dilation) in [([3, 3], 1), ([3, 3], 2), ([5, 5], 1), ([5, 5], 2), ([7, 7], 1), ([1, 9], 1)] {
        let reach = window.map(|window| (window - 1) * dilation as usize);
        cases.push(conv([reach[0] + 1, 3000, 20], window, dilation, 20, 20));
        cases.push(conv([reach[0] + 2, reach[1] + 1, DEPTH], window, dilation, DEPTH, DEPTH));
    }
    // Groups that share vectors, few outputs, planes.
    cases.extend([2, 4, 8].map(|of_group| conv([3, 4000, 16], [3, 3], 1, 16, 16 / of_group)));
    cases.extend([1, 3, 5, 12].map(|outputs| conv([5, 4000, 8], [3, 3], 1, outputs, 1)));
    cases.push(conv([18, 800, 1], [3, 3], 1, 16, 1));
    let names = check(cases);
    contains(&names, &["conv.depthwise", "conv.small_groups", "conv.few_outputs", "conv.first_layer", "conv.indirect"]);
}

#[test]
fn convolutions_of_frequencies_look_within_a_job() {
    // Also where the transforms let what is not finite reach other pixels, so that blocks are computed again.
    let finite = conv([12, 12, 70], [3, 3], 1, 65, 1);
    let mut infinite = conv([12, 12, 70], [3, 3], 1, 65, 1);
    infinite.inputs[0].bytes[400..404].copy_from_slice(&f32::INFINITY.to_ne_bytes());
    contains(&check(vec![finite, infinite]), &["conv.winograd_f2", "conv.winograd_f4"]);
}

#[test]
fn products_with_chosen_matrices_look_within_a_column() {
    let [a, weights, scales, experts] = [0, 1, 2, 3].map(OperandId);
    let of = |bits: u32, [rows, depth, columns, blocks]: [usize; 4]| {
        let bytes = (depth * bits as usize).div_ceil(8);
        let op = ExpertMatmul { a, weights, scales, experts, bits, zero_points: None };
        let inputs = vec![
            floats(&[rows, depth], 1),
            super::bytes(&[2, columns, bytes]),
            floats(&[2, columns, blocks], 2),
            Given::of(DataType::Int32, &[rows], &vec![1; rows]),
        ];
        case(op, inputs, &[], &[rows, columns])
    };
    let sizes = [[1, DEPTH, 1, 1], [1, DEPTH, 3, 2], [2000, 16, 2, 1], [3, 16, 500, 1]];
    check([2, 3, 4, 8].into_iter().flat_map(|bits| sizes.map(|sizes| of(bits, sizes))).collect());
}

#[test]
fn linear_attention_looks_between_tokens() {
    let [query, key, value, state, decay] = [0, 1, 2, 3, 4].map(OperandId);
    let of = |tokens: usize, kept: usize| {
        let op = LinearAttention { query, key, value, state, scale: 0.25, decay: Some(decay), rate: None, states: kept as u32 };
        let shapes = [&[1, tokens, 16][..], &[1, tokens, 16], &[1, tokens, 40], &[1, 1, 16, 40], &[1, tokens, 1]];
        let inputs = shapes.into_iter().zip(1..).map(|(shape, seed)| floats(shape, seed)).collect();
        let outputs = [vec![1, tokens, 40], vec![kept, 1, 1, 16, 40]].map(|shape| (DataType::Float32, shape)).to_vec();
        Case { outputs, ..case(op, inputs, &[], &[]) }
    };
    check(vec![of(100, 1), of(100, 3), of(100, 100)]);
}

#[test]
fn recurrent_networks_look_within_a_step() {
    const HIDDEN: usize = 256;
    let [input, weight, recurrent_weight] = [0, 1, 2].map(OperandId);
    let inputs = |batch: usize, gates: usize| {
        let shapes = [&[1, batch, 3][..], &[1, gates * HIDDEN, 3], &[1, gates * HIDDEN, HIDDEN]];
        shapes.into_iter().zip(1..).map(|(shape, seed)| floats(shape, seed)).collect::<Vec<_>>()
    };
    let outputs = |batch: usize, states: usize| vec![(DataType::Float32, vec![1, batch, HIDDEN]); states];
    let lstm = Lstm {
        input,
        weight,
        recurrent_weight,
        steps: 1,
        hidden_size: HIDDEN as u32,
        bias: None,
        recurrent_bias: None,
        peephole_weight: None,
        initial_hidden_state: None,
        initial_cell_state: None,
        return_sequence: false,
        direction: RecurrentNetworkDirection::Forward,
        layout: LstmWeightLayout::Iofg,
        activations: None,
    };
    let gru = Gru {
        input,
        weight,
        recurrent_weight,
        steps: 1,
        hidden_size: HIDDEN as u32,
        bias: None,
        recurrent_bias: None,
        initial_hidden_state: None,
        reset_after: true,
        return_sequence: false,
        direction: RecurrentNetworkDirection::Forward,
        layout: GruWeightLayout::Zrn,
        activations: None,
    };
    let cases = [1, 5, 40].into_iter().flat_map(|batch| {
        [
            Case { outputs: outputs(batch, 2), ..case(lstm.clone(), inputs(batch, 4), &[1, 2], &[]) },
            Case { outputs: outputs(batch, 1), ..case(gru.clone(), inputs(batch, 3), &[1, 2], &[]) },
        ]
    });
    check(cases.collect());
}
