//! Hyperbolic functions and inverse ones, put together from what WebNN has. They are computed in float32.

use super::elementwise::one;
use crate::graph::ops::elementwise::{BinaryKind, Elu, LogicalKind, UnaryKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

pub fn inverse(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let x = emit.cast(input, DataType::Float32)?;
    let result = match node.operator() {
        "Atan" => arc_tangent(x, emit)?,
        "Asin" => {
            let root = root_of_product(x, 1.0, -1.0, emit)?;
            let quotient = emit.div(x, root)?;
            arc_tangent(quotient, emit)?
        }
        "Acos" => {
            let (less, more) = (from(1.0, x, emit)?, emit.with(BinaryKind::Add, x, 1.0)?);
            let quotient = emit.div(less, more)?;
            let root = emit.unary(UnaryKind::Sqrt, quotient)?;
            let half = arc_tangent(root, emit)?;
            emit.with(BinaryKind::Mul, half, 2.0)?
        }
        "Asinh" => {
            let magnitude = emit.unary(UnaryKind::Abs, x)?;
            let near = emit.clamp(magnitude, None, Some(FAR))?;
            // x + x² / (1 + √(1 + x²)) is e^asinh(x) without 1.
            let square = emit.mul(near, near)?;
            let root = emit.with(BinaryKind::Add, square, 1.0)?;
            let root = emit.unary(UnaryKind::Sqrt, root)?;
            let more = emit.with(BinaryKind::Add, root, 1.0)?;
            let more = emit.div(square, more)?;
            let above_one = emit.add(near, more)?;
            let near = log_of_one_and(above_one, emit)?;
            let value = or_log_of_twice(magnitude, near, emit)?;
            odd(x, magnitude, value, emit)?
        }
        "Acosh" => {
            let less = emit.with(BinaryKind::Sub, x, 1.0)?;
            let near = emit.clamp(less, None, Some(FAR))?;
            let more = emit.with(BinaryKind::Add, near, 2.0)?;
            // The root of a product would be that of two negative numbers, too.
            let (less_root, more_root) = (emit.unary(UnaryKind::Sqrt, near)?, emit.unary(UnaryKind::Sqrt, more)?);
            let root = emit.mul(less_root, more_root)?;
            let above_one = emit.add(near, root)?;
            let near = log_of_one_and(above_one, emit)?;
            or_log_of_twice(x, near, emit)?
        }
        _ => {
            let magnitude = emit.unary(UnaryKind::Abs, x)?;
            let (twice, less) = (emit.with(BinaryKind::Mul, magnitude, 2.0)?, from(1.0, magnitude, emit)?);
            let quotient = emit.div(twice, less)?;
            let log = log_of_one_and(quotient, emit)?;
            let value = emit.with(BinaryKind::Mul, log, 0.5)?;
            odd(x, magnitude, value, emit)?
        }
    };
    one(emit.cast(result, of)?)
}

/// Sinh and Cosh, from exponentials of half of which no one overflows before the result does.
pub fn hyperbolic(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let x = emit.cast(input, DataType::Float32)?;
    let magnitude = emit.unary(UnaryKind::Abs, x)?;
    let negative = emit.unary(UnaryKind::Neg, magnitude)?;
    // e^|x| / 2
    let less = emit.with(BinaryKind::Sub, magnitude, 1.0)?;
    let up = emit.unary(UnaryKind::Exp, less)?;
    let up = emit.with(BinaryKind::Mul, up, std::f64::consts::E / 2.0)?;
    let result = if node.operator() == "Cosh" {
        let down = emit.unary(UnaryKind::Exp, negative)?;
        let down = emit.with(BinaryKind::Mul, down, 0.5)?;
        emit.add(up, down)?
    } else {
        // (1 - e^-|x|) (e^|x| + 1) / 2; elu has the first factor without loss.
        let less = emit.push(Elu { input: negative, alpha: 1.0 })?;
        let less = emit.unary(UnaryKind::Neg, less)?;
        let more = emit.with(BinaryKind::Add, up, 0.5)?;
        let value = emit.mul(less, more)?;
        odd(x, magnitude, value, emit)?
    };
    one(emit.cast(result, of)?)
}

/// From here on `asinh(x)` and `acosh(x)` are `log(2 x)` to the last place.
const FAR: f64 = 1e4;

/// An odd function of x, by its value for the magnitude. Near 0 it is x itself, which keeps the sign of 0 too.
fn odd(x: OperandId, magnitude: OperandId, value: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let sign = emit.unary(UnaryKind::Sign, x)?;
    let value = emit.mul(sign, value)?;
    let is_near = emit.compare(LogicalKind::Lesser, magnitude, 1e-4)?;
    emit.select(is_near, x, value)
}

/// `log(1 + x)` of an x that is not below 0. The logarithm is of what the sum is rounded to, and nearly proportional there.
fn log_of_one_and(x: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let sum = emit.with(BinaryKind::Add, x, 1.0)?;
    let log = emit.unary(UnaryKind::Log, sum)?;
    let rounded = emit.with(BinaryKind::Sub, sum, 1.0)?;
    let factor = emit.div(x, rounded)?;
    let value = emit.mul(log, factor)?;
    // The quotients of 0 and of infinity are not numbers.
    let is_near = emit.compare(LogicalKind::Equal, rounded, 0.0)?;
    let value = emit.select(is_near, x, value)?;
    let is_far = emit.compare(LogicalKind::Greater, x, 1e9)?;
    emit.select(is_far, log, value)
}

/// `log(2 x)` where x is large, which may be more than all numbers, and another value elsewhere.
fn or_log_of_twice(x: OperandId, near: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let log = emit.unary(UnaryKind::Log, x)?;
    let log = emit.with(BinaryKind::Add, log, std::f64::consts::LN_2)?;
    let is_far = emit.compare(LogicalKind::Greater, x, FAR)?;
    emit.select(is_far, log, near)
}

/// `number - x`
fn from(number: f64, x: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let number = emit.scalar(emit.data_type(x), number)?;
    emit.sub(number, x)
}

/// `sqrt((x + 1) * (a + b x))` of a and b that are 1 or -1.
fn root_of_product(x: OperandId, a: f64, b: f64, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let more = emit.with(BinaryKind::Add, x, 1.0)?;
    let other = if b < 0.0 { from(a, x, emit)? } else { emit.with(BinaryKind::Add, x, a)? };
    let product = emit.mul(more, other)?;
    emit.unary(UnaryKind::Sqrt, product)
}

/// The arc tangent: its argument is brought to at most tan(π/8) by the identities for `1 / x` and `(x - 1) / (x + 1)`, where
/// a polynomial (the coefficients are those of the Cephes library's atanf) is as precise as float32.
fn arc_tangent(x: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let magnitude = emit.unary(UnaryKind::Abs, x)?;
    let large = emit.compare(LogicalKind::Greater, magnitude, 1.0)?;
    let inverse = emit.unary(UnaryKind::Reciprocal, magnitude)?;
    let small = emit.select(large, inverse, magnitude)?;
    let middle = emit.compare(LogicalKind::Greater, small, std::f64::consts::SQRT_2 - 1.0)?;
    let (less, more) = (emit.with(BinaryKind::Sub, small, 1.0)?, emit.with(BinaryKind::Add, small, 1.0)?);
    let shifted = emit.div(less, more)?;
    let t = emit.select(middle, shifted, small)?;
    let square = emit.mul(t, t)?;
    let mut series = emit.with(BinaryKind::Mul, square, 8.053_744_495_38e-2)?;
    for coefficient in [-1.387_768_560_32e-1, 1.997_771_064_78e-1, -3.333_294_915_39e-1] {
        series = emit.with(BinaryKind::Add, series, coefficient)?;
        series = emit.mul(series, square)?;
    }
    let series = emit.mul(series, t)?;
    let angle = emit.add(series, t)?;
    let raised = emit.with(BinaryKind::Add, angle, FRAC_PI_4)?;
    let angle = emit.select(middle, raised, angle)?;
    let complement = from(FRAC_PI_2, angle, emit)?;
    let angle = emit.select(large, complement, angle)?;
    odd(x, magnitude, angle, emit)
}
