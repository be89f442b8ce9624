//! Arithmetic, comparisons and logic, element by element.

use super::narrow;
use crate::graph::DataType;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, PredicateKind, Remainder, RemainderKind, UnaryKind};
use crate::graph::{Number, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, data_type};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// A mapped node with one output.
pub fn one(id: OperandId) -> Mapped<Vec<Value>> {
    Ok(vec![id.into()])
}

pub fn unary(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let kind = match node.operator() {
        "Abs" => UnaryKind::Abs,
        "Ceil" => UnaryKind::Ceil,
        "Cos" => UnaryKind::Cos,
        "Erf" => UnaryKind::Erf,
        "Exp" => UnaryKind::Exp,
        "Floor" => UnaryKind::Floor,
        "Log" => UnaryKind::Log,
        "Neg" => UnaryKind::Neg,
        "Reciprocal" => UnaryKind::Reciprocal,
        "Round" => UnaryKind::RoundEven,
        "Sign" => UnaryKind::Sign,
        "Sin" => UnaryKind::Sin,
        "Sqrt" => UnaryKind::Sqrt,
        "Tan" => UnaryKind::Tan,
        other => return Err(format!("{other} is no function of one operand").into()),
    };
    let unsigned = !emit.data_type(input).is_signed();
    match kind {
        // What has no sign stays as it is.
        UnaryKind::Abs if unsigned => one(input),
        UnaryKind::Sign if unsigned => one(emit.clamp(input, None, Some(1.0))?),
        _ => one(emit.unary(kind, input)?),
    }
}

pub fn binary(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = match node.operator() {
        "Add" => BinaryKind::Add,
        "Sub" => BinaryKind::Sub,
        "Mul" => BinaryKind::Mul,
        _ => BinaryKind::Div,
    };
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    one(emit.binary(kind, a, b)?)
}

/// Max, Min, Sum and Mean, of any number of inputs.
pub fn variadic(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = match node.operator() {
        "Max" => BinaryKind::Max,
        "Min" => BinaryKind::Min,
        _ => BinaryKind::Add,
    };
    let mut result = emit.input(node, 0)?;
    for position in 1..node.inputs.len() {
        let other = emit.input(node, position)?;
        result = emit.binary(kind, result, other)?;
    }
    match node.operator() {
        "Mean" => one(mean(node, result, emit)?),
        _ => one(result),
    }
}

/// A sum of inputs divided by their number. Where the sum leaves the range of the type, each input is divided before.
fn mean(node: &Node<'_>, sum: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let count = node.inputs.len() as f64;
    let plain = emit.with(BinaryKind::Div, sum, count)?;
    if !emit.data_type(sum).is_float() || node.inputs.len() < 2 {
        return Ok(plain);
    }
    let mut careful = None;
    for position in 0..node.inputs.len() {
        let input = emit.input(node, position)?;
        let part = emit.with(BinaryKind::Div, input, count)?;
        careful = Some(match careful {
            Some(careful) => emit.add(careful, part)?,
            None => part,
        });
    }
    let careful = careful.ok_or("no inputs")?;
    // An infinity on the way may have become NaN.
    let size = emit.unary(UnaryKind::Abs, sum)?;
    let is_finite = emit.compare(LogicalKind::LesserOrEqual, size, f32::MAX.into())?;
    emit.select(is_finite, plain, careful)
}

/// The type of the result is that of the base.
pub fn pow(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (base, exponent) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (of_base, of_exponent) = (emit.data_type(base), emit.data_type(exponent));
    // A square is one multiplication.
    let number = node.input(1)?.constant().filter(|tensor| tensor.count() == 1).map(|tensor| tensor.floats()[0]);
    if number == Some(2.0) && emit.rank(exponent) <= emit.rank(base) {
        return one(emit.mul(base, base)?);
    }
    let common = match (of_base, of_exponent) {
        // An exponent may have digits that float16 has not.
        (DataType::Float16, other) if other != DataType::Float16 => DataType::Float32,
        _ if of_exponent.is_float() && !of_base.is_float() => of_exponent,
        _ => of_base,
    };
    let (base, exponent) = (emit.cast(base, common)?, emit.cast(exponent, common)?);
    let power = emit.binary(BinaryKind::Pow, base, exponent)?;
    one(emit.cast(power, of_base)?)
}

/// The remainder with the sign of the divisor, or with `fmod` that of the dividend.
pub fn modulo(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = if node.flag("fmod", false)? { RemainderKind::Truncated } else { RemainderKind::Floored };
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    one(emit.push(Remainder { kind, a, b })?)
}

/// Bounds are attributes before version 11 and inputs since.
pub fn clip(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    if node.version < 11 {
        let (min, max) = (node.optional_float("min")?, node.optional_float("max")?);
        return one(emit.clamp(input, min, max)?);
    }
    let known = |position: usize| node.optional(position).is_none_or(|value| value.constant().is_some());
    if known(1) && known(2) {
        let float = emit.data_type(input).is_float();
        let bound = |position: usize| -> Mapped<Option<Number>> {
            let Some(tensor) = node.optional(position).and_then(Value::constant) else { return Ok(None) };
            if tensor.count() != 1 {
                return Err("a bound that is not a scalar".into());
            }
            Ok(Some(match float {
                true => Number::Double(tensor.floats()[0]),
                false => Number::Integer(tensor.wholes()[0]),
            }))
        };
        let (min, max) = (bound(1)?, bound(2)?);
        // Where the lower bound is above the upper one, everything becomes the upper one.
        let crossed = min.zip(max).is_some_and(|bounds| match bounds {
            (Number::Integer(min), Number::Integer(max)) => min > max,
            (min, max) => min.to_f64() > max.to_f64(),
        });
        let min_value = if crossed { max } else { min };
        return one(emit.push(crate::graph::ops::elementwise::Clamp { input, min_value, max_value: max })?);
    }
    let mut result = input;
    for (position, kind) in [(1, BinaryKind::Max), (2, BinaryKind::Min)] {
        if let Some(bound) = emit.optional(node, position)? {
            result = emit.binary(kind, result, bound)?;
        }
    }
    one(result)
}

pub fn comparison(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = match node.operator() {
        "Equal" => LogicalKind::Equal,
        "Greater" => LogicalKind::Greater,
        "GreaterOrEqual" => LogicalKind::GreaterOrEqual,
        "Less" => LogicalKind::Lesser,
        "LessOrEqual" => LogicalKind::LesserOrEqual,
        "And" => LogicalKind::LogicalAnd,
        "Or" => LogicalKind::LogicalOr,
        _ => LogicalKind::LogicalXor,
    };
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    one(emit.logical(kind, a, b)?)
}

pub fn not(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    one(emit.predicate(PredicateKind::LogicalNot, input)?)
}

pub fn is_nan(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    one(emit.predicate(PredicateKind::IsNan, input)?)
}

pub fn is_inf(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let infinite = emit.predicate(PredicateKind::IsInfinite, input)?;
    let (negative, positive) = (node.flag("detect_negative", true)?, node.flag("detect_positive", true)?);
    if negative && positive {
        return one(infinite);
    }
    let zero = emit.scalar(emit.data_type(input), 0.0)?;
    let kind = match (negative, positive) {
        (true, false) => LogicalKind::Lesser,
        (false, true) => LogicalKind::Greater,
        _ => LogicalKind::NotEqual,
    };
    let of_sign = emit.logical(kind, input, zero)?;
    let found = emit.logical(LogicalKind::LogicalAnd, infinite, of_sign)?;
    if negative || positive {
        return one(found);
    }
    // Neither is asked for.
    let none = emit.scalar(DataType::Uint8, 0.0)?;
    one(emit.logical(LogicalKind::LogicalAnd, found, none)?)
}

pub fn select(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (condition, a, b) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    one(emit.select(condition, a, b)?)
}

pub fn cast(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let element = node.element("to")?.ok_or("the attribute to is missing")?;
    cast_to(node.input(0)?, element, emit)
}

pub fn cast_like(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let element = emit.element(node.input(1)?);
    cast_to(node.input(0)?, element, emit)
}

fn cast_to(value: &Value, element: ElementType, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if let Some(tensor) = value.constant().filter(|tensor| emit.folding.affords(&tensor.shape)) {
        return Ok(vec![tensor.cast(element).into()]);
    }
    let input = emit.operand(value)?;
    if element == ElementType::Bool {
        let zero = emit.scalar(emit.data_type(input), 0.0)?;
        return one(emit.logical(LogicalKind::NotEqual, input, zero)?);
    }
    if element == ElementType::Int32 && emit.short.contains_key(&input) {
        // The same numbers, which are no longer of 16 bits.
        return one(emit.unary(UnaryKind::Identity, input)?);
    }
    if element.is_narrow() {
        let whole = if element.bits() == 4 && emit.data_type(input).is_float() { rounded_away(input, emit)? } else { input };
        let numbers = emit.cast(whole, DataType::Int32)?;
        let result = narrow::wrap(numbers, element, emit)?;
        emit.short.insert(result, element);
        return one(result);
    }
    one(emit.cast(input, data_type(element)?)?)
}

/// The nearest whole numbers, and of two the one that is farther from 0: so onnxruntime casts to integers of 4 bits, where it cuts off the
/// fraction for all others.
fn rounded_away(input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let even = emit.unary(UnaryKind::RoundEven, input)?;
    let rest = emit.sub(input, even)?;
    let rest = emit.unary(UnaryKind::Abs, rest)?;
    let half = emit.scalar(emit.data_type(input), 0.5)?;
    let is_half = emit.logical(LogicalKind::Equal, rest, half)?;
    let sign = emit.unary(UnaryKind::Sign, input)?;
    let half = emit.mul(sign, half)?;
    let away = emit.add(input, half)?;
    emit.select(is_half, away, even)
}
