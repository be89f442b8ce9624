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

pub mod convolution;
pub mod elementwise;
pub mod indexed;
pub mod matrices;
pub mod movement;
pub mod normalization;
mod number;
pub mod others;
pub mod pooling;
pub mod recurrent;
pub mod reduction;

use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::families;
use crate::tensor::positions;
use webnn_node::graph::DataType;

/// The relative error of a rounding to float32.
pub const EPSILON: f64 = 1.0 / (1u64 << 24) as f64;

/// The outputs of a call.
pub fn outputs(call: &Call) -> Vec<Expected> {
    (families::of(call.row).1)(call)
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
