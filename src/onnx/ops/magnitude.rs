//! Squares, powers and sums on the way to a result that float32 has, though they leave it: values are divided by a power of two near the
//! greatest of them first, which takes no digits, or a root is taken of a sum that is near 1.

use crate::graph::ops::bitcast::Bitcast;
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::refusal::Mapped;

/// 2^23: what is below it among the bits of a float32 number are its digits.
const DIGITS: f64 = 8_388_608.0;

/// For each line of float32 values along some axes, a power of two of which the greatest value is less than twice as much, whatever its
/// sign. (At least 2^-126 and at most 2^127, of which infinities and NaN are what they are.)
pub fn power_of_two(input: OperandId, over: &[usize], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let magnitude = emit.unary(UnaryKind::Abs, input)?;
    let greatest = emit.reduce(ReduceKind::Max, magnitude, over, true)?;
    let bits = emit.push(Bitcast { input: greatest, data_type: DataType::Uint32 })?;
    let exponent = emit.with(BinaryKind::Div, bits, DIGITS)?;
    let bits = emit.with(BinaryKind::Mul, exponent, DIGITS)?;
    let power = emit.push(Bitcast { input: bits, data_type: DataType::Float32 })?;
    emit.clamp(power, Some(2f64.powi(-126)), Some(2f64.powi(127)))
}

/// `sqrt(x² + number²)` for values and a number that are not negative.
pub fn hypotenuse(x: OperandId, number: f64, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    if number == 0.0 {
        return Ok(x);
    }
    let greater = emit.clamp(x, Some(number), None)?;
    let less = emit.clamp(x, None, Some(number))?;
    let ratio = emit.div(less, greater)?;
    let square = emit.mul(ratio, ratio)?;
    let sum = emit.with(BinaryKind::Add, square, 1.0)?;
    let root = emit.unary(UnaryKind::Sqrt, sum)?;
    emit.mul(greater, root)
}
