//! What the specification says that a call computes, one element at a time in `f64` and `i128`.
//!
//! The oracle is written from the text of the specification and shares nothing with the rules and kernels: shapes, defaults
//! of options and conversions of numbers are its own too.
//!
//! # How near a result must be
//!
//! Kernels compute in float32 or better and round once. Where one IEEE operation gives the result (`+ - * /`, square root,
//! rounding, comparison, selection, conversion), it is exact in both float types, since rounding an `f64` result is the same
//! as rounding once. Everything else is [`Element::Near`]: the worst error of an evaluation in float32 by the specification's
//! expression, in any order of additions (`n` terms: `n` roundings of at most the sum of their magnitudes), and one unit in
//! the last place for the rounding to the output's type. Each family says what it allows.

mod convolution;
mod elementwise;
mod indexed;
mod matrices;
mod movement;
mod normalization;
mod number;
mod others;
mod pooling;
mod recurrent;
mod reduction;

use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::positions;
use webnn_node::graph::DataType;

/// The relative error of a rounding to float32.
pub const EPSILON: f64 = 1.0 / (1u64 << 24) as f64;

/// The outputs of a call.
pub fn outputs(call: &Call) -> Vec<Expected> {
    match call.row.name {
        "argMin" | "argMax" => vec![reduction::arg(call)],
        "topK" => reduction::top_k(call),
        "cumulativeSum" => vec![reduction::cumulative(call, "reduceSum", |added| added.iter().sum())],
        "cumulativeProduct" => {
            vec![reduction::cumulative(call, "reduceProduct", |factors| {
                factors.iter().fold(1, |product, x| product.wrapping_mul(*x))
            })]
        }
        "softmax" => vec![reduction::softmax(call)],
        name if name.starts_with("reduce") => vec![reduction::reduce(call)],
        "batchNormalization" | "instanceNormalization" | "layerNormalization" | "rmsNormalization" => {
            vec![normalization::normalize(call)]
        }
        "conv2d" => vec![convolution::conv2d(call)],
        "convTranspose2d" => vec![convolution::conv_transpose2d(call)],
        "averagePool2d" | "l2Pool2d" | "maxPool2d" | "normPool2d" => vec![pooling::pool2d(call)],
        "resample2d" => vec![pooling::resample2d(call)],
        "matmul" => vec![matrices::matmul(call)],
        "integerMatmul" => vec![matrices::integer_matmul(call)],
        "quantizedLstm" => recurrent::quantized(call),
        "quantizedMatmul" => vec![matrices::quantized(call)],
        "dynamicQuantizeLinear" => elementwise::dynamic_quantization(call),
        "blockQuantizedMatmul" => vec![matrices::block_quantized(call)],
        "expertMatmul" => vec![matrices::experts(call)],
        "gemm" => vec![matrices::gemm(call)],
        "gather" | "gatherElements" | "gatherND" | "scatterElements" | "scatterND" | "accumulateElements" | "accumulateND" => {
            vec![indexed::output(call)]
        }
        "concat" | "expand" | "pad" | "reshape" | "reverse" | "slice" | "tile" | "transpose" | "triangular" => {
            vec![movement::output(call)]
        }
        "bitcast" => vec![others::bitcast(call)],
        "determinant" => vec![others::determinant(call)],
        "inverse" => vec![others::inverse(call)],
        "linearAttention" => others::linear_attention(call),
        "pairwiseCoupling" => vec![others::pairwise_coupling(call)],
        "roiMaxPool" => vec![others::roi_max_pool(call)],
        "treeEnsemble" => vec![others::tree_ensemble(call)],
        "split" => movement::split(call),
        "gru" | "gruCell" | "lstm" | "lstmCell" => recurrent::outputs(call),
        _ => vec![elementwise::output(call)],
    }
}

/// An output whose elements are a function of their positions.
pub fn by_position(data_type: DataType, shape: Vec<usize>, element: impl Fn(&[usize]) -> Element) -> Expected {
    let elements = positions(&shape).iter().map(|position| element(position)).collect();
    Expected { data_type, shape, elements }
}

/// *Bidirectionally broadcast the shapes*.
pub fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let padded = |shape: &[usize]| [vec![1; rank - shape.len()], shape.to_vec()].concat();
    padded(a).into_iter().zip(padded(b)).map(|(a, b)| a.max(b)).collect()
}

/// Where the element of an operand is that stands at a position of the output it is broadcast to.
pub fn stretched(shape: &[usize], position: &[usize]) -> Vec<usize> {
    let position = &position[position.len() - shape.len()..];
    shape.iter().zip(position).map(|(&size, &i)| if size == 1 { 0 } else { i }).collect()
}

/// A position with one coordinate replaced.
pub fn with(position: &[usize], axis: usize, i: usize) -> Vec<usize> {
    let mut position = position.to_vec();
    position[axis] = i;
    position
}
