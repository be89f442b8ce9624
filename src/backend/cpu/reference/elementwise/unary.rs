//! Mathematics on one operand.

use super::rows::map;
use super::{CHEAP, DEAR};
use crate::backend::cpu::element::{Float, with_element, with_float};
use crate::backend::cpu::reference::arithmetic::Arithmetic;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Strided;
use crate::graph::ops::elementwise::{Unary, UnaryKind};

pub fn unary(op: &Unary, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    match op.kind {
        UnaryKind::Identity => Strided::dense(&[output.bytes.len()]).copy(input.bytes(), output.bytes),
        UnaryKind::Abs => with_element!(input.data_type, T => map(input, output, CHEAP, <T as Arithmetic>::abs)),
        UnaryKind::Neg => with_element!(input.data_type, T => map(input, output, CHEAP, <T as Arithmetic>::neg)),
        UnaryKind::Sign => with_element!(input.data_type, T => map(input, output, CHEAP, <T as Arithmetic>::sign)),
        // Exact, or correctly rounded even when rounded again.
        UnaryKind::Ceil => in_f32(input, output, f32::ceil),
        UnaryKind::Floor => in_f32(input, output, f32::floor),
        UnaryKind::RoundEven => in_f32(input, output, f32::round_ties_even),
        UnaryKind::Sqrt => in_f32(input, output, f32::sqrt),
        UnaryKind::Reciprocal => in_f32(input, output, |x| 1.0 / x),
        UnaryKind::Cos => in_f64(input, output, f64::cos),
        UnaryKind::Erf => in_f64(input, output, libm::erf),
        UnaryKind::Exp => in_f64(input, output, f64::exp),
        UnaryKind::Log => in_f64(input, output, f64::ln),
        UnaryKind::Sin => in_f64(input, output, f64::sin),
        UnaryKind::Tan => in_f64(input, output, f64::tan),
    }
}

/// Computes in `f32` and rounds to the output's type.
fn in_f32(input: View<'_>, output: &mut ViewMut<'_>, formula: impl Fn(f32) -> f32 + Sync) {
    with_float!(input.data_type, T => map(input, output, CHEAP, |x: T| <T as Float>::from_f32(formula(Float::to_f32(x)))));
}

/// Computes in `f64` and rounds to the output's type, so that the result is the nearest value but for one in 2²⁸ or so.
pub(super) fn in_f64(input: View<'_>, output: &mut ViewMut<'_>, formula: impl Fn(f64) -> f64 + Sync) {
    with_float!(input.data_type, T => map(input, output, DEAR, |x: T| <T as Float>::from_f64(formula(Float::to_f64(x)))));
}
