//! Inverse circular and hyperbolic functions, put together from what WebNN has. They are computed in float32.

use super::elementwise::one;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, UnaryKind};
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
        // Of the absolute value, since a negative number would be cancelled by its root.
        "Asinh" => {
            let (sign, magnitude) = (emit.unary(UnaryKind::Sign, x)?, emit.unary(UnaryKind::Abs, x)?);
            let square = emit.mul(x, x)?;
            let square = emit.with(BinaryKind::Add, square, 1.0)?;
            let root = emit.unary(UnaryKind::Sqrt, square)?;
            let sum = emit.add(magnitude, root)?;
            let log = emit.unary(UnaryKind::Log, sum)?;
            emit.mul(sign, log)?
        }
        "Acosh" => {
            let root = root_of_product(x, -1.0, 1.0, emit)?;
            let sum = emit.add(x, root)?;
            emit.unary(UnaryKind::Log, sum)?
        }
        _ => {
            let (more, less) = (emit.with(BinaryKind::Add, x, 1.0)?, from(1.0, x, emit)?);
            let quotient = emit.div(more, less)?;
            let log = emit.unary(UnaryKind::Log, quotient)?;
            emit.with(BinaryKind::Mul, log, 0.5)?
        }
    };
    one(emit.cast(result, of)?)
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
    let turned = emit.div(less, more)?;
    let t = emit.select(middle, turned, small)?;
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
    let sign = emit.unary(UnaryKind::Sign, x)?;
    emit.mul(sign, angle)
}
