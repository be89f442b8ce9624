//! Activation functions.

use super::CHEAP;
use super::rows::{map, zip};
use super::unary::in_f64;
use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::reference::arithmetic::Arithmetic;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Clamp, Elu, Gate, GateKind, HardSigmoid, LeakyRelu, Linear, Prelu, ReplaceNan, Swish,
};
use crate::graph::{DataType, Number};

pub fn activation(op: &Activation, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    match op.kind {
        ActivationKind::Relu => with_element!(input.data_type, T => map(input, output, CHEAP, relu::<T>)),
        ActivationKind::Gelu => in_f64(input, output, gelu),
        ActivationKind::HardSwish => in_f64(input, output, hard_swish),
        ActivationKind::Sigmoid => in_f64(input, output, |x| 1.0 / ((-x).exp() + 1.0)),
        ActivationKind::Softplus => in_f64(input, output, softplus),
        ActivationKind::Softsign => in_f64(input, output, softsign),
        ActivationKind::Tanh => in_f64(input, output, f64::tanh),
    }
}

fn relu<T: Arithmetic>(x: T) -> T {
    T::ZERO.max(x)
}

/// `0.5 * x * (1 + erf(x / sqrt(2)))`, whose sum would lose the digits of what is left of 1 where x is negative. Towards minus
/// infinity the limit is 0.
fn gelu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY { -0.0 } else { 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2) }
}

/// `x * max(0, min(6, x + 3)) / 6`; towards minus infinity the limit is 0.
fn hard_swish(x: f64) -> f64 {
    if x <= -3.0 { -0.0 } else { x * (x + 3.0).clamp(0.0, 6.0) / 6.0 }
}

/// `x / (1 + |x|)`; towards infinity the limit is 1 with the sign of x.
fn softsign(x: f64) -> f64 {
    if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) }
}

/// `ln(1 + exp(x))`, without the overflow for great x and the loss of digits for small ones.
fn softplus(x: f64) -> f64 {
    let small = (-x.abs()).exp().ln_1p();
    if x > 0.0 { x + small } else { small }
}

pub fn clamp(op: &Clamp, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    with_element!(input.data_type, T => {
        let min = op.min_value.map_or(<T as Arithmetic>::LOWEST, cast);
        let max = op.max_value.map_or(<T as Arithmetic>::HIGHEST, cast);
        map(input, output, CHEAP, move |x: T| Arithmetic::min(Arithmetic::max(x, min), max));
    });
}

/// *Casts* a number to a data type.
fn cast<T: Element>(number: Number) -> T {
    bytemuck::pod_read_unaligned(&number.to_bytes(T::DATA_TYPE))
}

/// *Casts* an option to the data type of the input, where arithmetic with it goes on in `f64`.
fn option(value: f64, data_type: DataType) -> f64 {
    with_float!(data_type, T => Float::to_f64(<T as Float>::from_f64(value)))
}

/// Applies a formula that is computed in `f64`.
fn apply(input: View<'_>, output: &mut ViewMut<'_>, formula: impl Fn(f64) -> f64 + Sync) {
    with_float!(input.data_type, T => map(input, output, CHEAP, |x: T| <T as Float>::from_f64(formula(Float::to_f64(x)))));
}

pub fn elu(op: &Elu, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let alpha = option(op.alpha, input.data_type);
    let formula = |x: f64| if x <= 0.0 { alpha * x.exp_m1() } else { x };
    in_f64(input, arguments.output(), formula);
}

pub fn hard_sigmoid(op: &HardSigmoid, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let (alpha, beta) = (option(op.alpha, input.data_type), option(op.beta, input.data_type));
    // Not a number stays what it is.
    apply(input, arguments.output(), |x| (alpha * x + beta).clamp(0.0, 1.0));
}

pub fn leaky_relu(op: &LeakyRelu, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let alpha = option(op.alpha, input.data_type);
    apply(input, arguments.output(), |x| if x < 0.0 { alpha * x } else { x });
}

pub fn linear(op: &Linear, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let (alpha, beta) = (option(op.alpha, input.data_type), option(op.beta, input.data_type));
    apply(input, arguments.output(), |x| alpha * x + beta);
}

pub fn replace_nan(op: &ReplaceNan, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let number = option(op.number, input.data_type);
    apply(input, arguments.output(), |x| if x.is_nan() { number } else { x });
}

pub fn swish(op: &Swish, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let alpha = option(op.alpha, input.data_type);
    let formula = |x: f64| if alpha == 0.0 { x * 0.5 } else { gated(x, alpha * x) };
    in_f64(input, arguments.output(), formula);
}

pub fn gate(op: &Gate, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let formula = match op.kind {
        GateKind::Mish => mish,
        GateKind::TanhGelu => tanh_gelu,
    };
    in_f64(input, arguments.output(), formula);
}

/// `x / (1 + e^-y)`; 0 with the sign of x where that is infinity by infinity.
fn gated(x: f64, y: f64) -> f64 {
    if x.is_infinite() && y == f64::NEG_INFINITY { 0f64.copysign(x) } else { x / (1.0 + (-y).exp()) }
}

/// `x * tanh(ln(1 + e^x))`, which is `x * n / (n + 2)` with `n = e^x (e^x + 2)`.
fn mish(x: f64) -> f64 {
    let power = x.min(40.0).exp();
    let n = power * (power + 2.0);
    if x == f64::NEG_INFINITY { -0.0 } else { x * (n / (n + 2.0)) }
}

/// `0.5 * x * (1 + tanh(z))` is `x * sigmoid(2 z)`, which loses no digits where tanh is near -1.
fn tanh_gelu(x: f64) -> f64 {
    gated(x, (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x))
}

pub fn prelu(op: &Prelu, arguments: &mut Arguments<'_, '_>) {
    let operands = [arguments.input(op.input), arguments.input(op.slope)];
    let output = arguments.output();
    with_element!(output.data_type, T => zip(operands, output, CHEAP, parametric::<T>));
}

fn parametric<T: Arithmetic>(x: T, slope: T) -> T {
    if x < T::ZERO { slope.mul(x) } else { x }
}
