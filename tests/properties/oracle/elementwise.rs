//! Element-wise operators.
//!
//! Elementary functions may be one number off in float16, and two in float32, where `f32` functions of mathematical
//! libraries are not correctly rounded. Expressions made of several operations have the error of their parts.

use super::number::{cast, option, truncate};
use super::{EPSILON, broadcast, by_position, stretched};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, wrap};
use webnn_node::graph::DataType;

pub fn output(call: &Call) -> Expected {
    let fields: Vec<&str> = call.row.operands.iter().map(|limits| limits.name).collect();
    let operands: Vec<_> = fields.iter().map(|field| call.operand(field)).collect();
    if matches!(call.row.name, "dequantizeLinear" | "quantizeLinear") {
        return quantization(call);
    }
    let shape = operands.iter().fold(Vec::new(), |shape, operand| broadcast(&shape, &operand.shape));
    let data_type = operands[operands.len().saturating_sub(1)].data_type;
    let output = match call.row.name {
        "cast" => call.data_type("data_type", data_type),
        "equal" | "notEqual" | "greater" | "greaterOrEqual" | "lesser" | "lesserOrEqual" | "logicalAnd" | "logicalOr"
        | "logicalXor" | "logicalNot" | "isNaN" | "isInfinite" => DataType::Uint8,
        _ => data_type,
    };
    by_position(output, shape, |position| {
        let at = |i: usize| operands[i].at(&stretched(&operands[i].shape, position));
        match operands.len() {
            1 => match at(0) {
                Scalar::Float(x) => unary(call, data_type, output, x),
                Scalar::Integer(x) => unary_integer(call, data_type, output, x),
            },
            2 => match (at(0), at(1)) {
                (Scalar::Float(a), Scalar::Float(b)) => binary(call.row.name, a, b),
                (Scalar::Integer(a), Scalar::Integer(b)) => binary_integer(call.row.name, data_type, a, b),
                mixed => panic!("{mixed:?}"),
            },
            // where
            _ => Element::Exactly(if at(0).as_f64() != 0.0 { at(1) } else { at(2) }),
        }
    })
}

/// A truth value.
fn truth(x: bool) -> Element {
    Element::integer(x.into())
}

/// How far the results of an elementary function may be off.
fn elementary(data_type: DataType, value: f64) -> Element {
    Element::ulps(value, if data_type == DataType::Float16 { 1 } else { 2 })
}

fn unary(call: &Call, data_type: DataType, output: DataType, x: f64) -> Element {
    let alpha = |default: f64| option(data_type, call.double("alpha", default));
    let beta = |default: f64| option(data_type, call.double("beta", default));
    // The greater of the relative error of a few roundings, and of results that are subnormal in float32.
    let near = |value: f64, absolute: f64| Element::Near {
        value,
        absolute: absolute + f64::from(f32::MIN_POSITIVE),
        ulps: 2,
        magnitude: 0.0,
    };
    match call.row.name {
        "abs" => Element::float(x.abs()),
        "ceil" => Element::float(x.ceil()),
        "cos" => elementary(data_type, x.cos()),
        "erf" => elementary(data_type, erf(x)),
        "exp" => elementary(data_type, x.exp()),
        "floor" => Element::float(x.floor()),
        "identity" => Element::float(x),
        "log" => elementary(data_type, x.ln()),
        "neg" => Element::float(-x),
        "reciprocal" => Element::float(1.0 / x),
        "roundEven" => Element::float(x.round_ties_even()),
        "sin" => elementary(data_type, x.sin()),
        "sign" if x == 0.0 => Element::ulps(0.0, 0),
        "sign" => Element::float(x.signum()),
        "sqrt" => Element::float(x.sqrt()),
        "tan" => elementary(data_type, x.tan()),
        "tanh" => elementary(data_type, x.tanh()),
        "isNaN" => truth(x.is_nan()),
        "isInfinite" => truth(x.is_infinite()),
        "cast" if output.is_float() => Element::float(x),
        "cast" => Element::Exactly(truncate(output, x)),
        "clamp" => {
            let bound = |field: &str| call.number(field).map(|bound| cast(data_type, bound).as_f64());
            let raised = bound("min_value").map_or(x, |min| if x < min { min } else { x });
            Element::ulps(bound("max_value").map_or(raised, |max| if raised > max { max } else { raised }), 0)
        }
        "relu" => Element::ulps(if x < 0.0 { 0.0 } else { x }, 0),
        "replaceNaN" => Element::float(if x.is_nan() { option(data_type, call.double("number", 0.0)) } else { x }),
        // One of the summands is zero.
        "leakyRelu" => Element::ulps(if x < 0.0 { alpha(0.01) * x } else { x }, 0),
        "elu" if x > 0.0 => Element::float(x),
        "elu" => gated(alpha(1.0) * x.exp_m1()),
        "linear" => near(alpha(1.0) * x + beta(0.0), 2.0 * EPSILON * (alpha(1.0) * x).abs()),
        "hardSigmoid" => {
            let line = alpha(0.2) * x + beta(0.5);
            let value = if line.is_nan() { line } else { line.clamp(0.0, 1.0) };
            near(value, 2.0 * EPSILON * (alpha(0.2) * x).abs().min(2.0 + beta(0.5).abs()))
        }
        "sigmoid" => {
            Element::Near { value: 1.0 / ((-x).exp() + 1.0), absolute: f64::from(f32::MIN_POSITIVE), ulps: 4, magnitude: 0.0 }
        }
        // The greater of NaN and 0 would be 0.
        "softplus" => gated(x.max(0.0) + (-x.abs()).exp().ln_1p() + 0.0 * x.signum().abs()),
        "swish" if alpha(1.0) == 0.0 => Element::float(0.5 * x),
        "swish" => gate(x, alpha(1.0) * x),
        "mish" if x == f64::NEG_INFINITY => Element::ulps(0.0, 0),
        "mish" => gated(x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh()),
        "tanhGelu" => gate(x, (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))),
        // Towards infinity the expressions have a limit where their parts have no product or quotient.
        "softsign" if x.is_infinite() => Element::float(x.signum()),
        "softsign" => near(x / (1.0 + x.abs()), 0.0),
        "gelu" | "hardSwish" if x == f64::NEG_INFINITY => Element::ulps(0.0, 0),
        "gelu" => Element::Near { value: gelu(x), absolute: f64::from(f32::MIN_POSITIVE), ulps: 4, magnitude: 0.0 },
        "hardSwish" => Element::Near {
            value: x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
            absolute: f64::from(f32::MIN_POSITIVE),
            ulps: 3,
            magnitude: 0.0,
        },
        name => panic!("the oracle lacks {name}"),
    }
}

/// `x * sigmoid(y)`; where that is infinity times 0, its limit.
fn gate(x: f64, y: f64) -> Element {
    gated(if x.is_infinite() && y == f64::NEG_INFINITY { 0.0 } else { x / (1.0 + (-y).exp()) })
}

/// A value with the relative error of a few roundings, or that of what is subnormal.
fn gated(value: f64) -> Element {
    Element::Near { value, absolute: f64::from(f32::MIN_POSITIVE), ulps: 4, magnitude: 0.0 }
}

fn unary_integer(call: &Call, data_type: DataType, output: DataType, x: i128) -> Element {
    let wrapped = |x: i128| Element::integer(wrap(data_type, x));
    match call.row.name {
        "abs" => wrapped(x.abs()),
        "neg" => wrapped(-x),
        "sign" => wrapped(x.signum()),
        "identity" => wrapped(x),
        "relu" => wrapped(x.max(0)),
        "logicalNot" => truth(x == 0),
        // To floats the nearest number, to integers the lowest bits.
        "cast" if output.is_float() => Element::integer(x),
        "cast" => Element::integer(wrap(output, x)),
        "clamp" => {
            let bound = |field: &str| call.number(field).map(|bound| cast(data_type, bound));
            let raised = bound("min_value").map_or(x, |min| if let Scalar::Integer(min) = min { x.max(min) } else { x });
            let lowered =
                bound("max_value").map_or(raised, |max| if let Scalar::Integer(max) = max { raised.min(max) } else { x });
            wrapped(lowered)
        }
        name => panic!("the oracle lacks {name} of integers"),
    }
}

fn binary(name: &str, a: f64, b: f64) -> Element {
    match name {
        "add" => Element::float(a + b),
        "sub" => Element::float(a - b),
        "mul" => Element::float(a * b),
        "div" => Element::float(a / b),
        "max" | "min" if a.is_nan() || b.is_nan() => Element::float(f64::NAN),
        "max" => Element::ulps(a.max(b), 0),
        "min" => Element::ulps(a.min(b), 0),
        "pow" => Element::ulps(a.powf(b), 2),
        // What an `f64` division leaves is exact.
        "truncatedRemainder" => Element::float(a % b),
        "flooredRemainder" => Element::float(match a % b {
            0.0 => 0f64.copysign(b),
            rest if rest.is_sign_negative() != b.is_sign_negative() => rest + b,
            rest => rest,
        }),
        "prelu" => Element::ulps(if a < 0.0 { b * a } else { a }, 0),
        "equal" => truth(a == b),
        "notEqual" => truth(a != b),
        "greater" => truth(a > b),
        "greaterOrEqual" => truth(a >= b),
        "lesser" => truth(a < b),
        "lesserOrEqual" => truth(a <= b),
        name => panic!("the oracle lacks {name}"),
    }
}

/// Integers wrap around; division truncates, and that by zero, which the specification leaves open, gives 0, as the
/// documentation of `div` says.
fn binary_integer(name: &str, data_type: DataType, a: i128, b: i128) -> Element {
    let wrapped = |x: i128| Element::integer(wrap(data_type, x));
    match name {
        "add" => wrapped(a + b),
        "sub" => wrapped(a - b),
        "mul" => wrapped(a.wrapping_mul(b)),
        "div" if b == 0 => wrapped(0),
        "div" => wrapped(a / b),
        "truncatedRemainder" | "flooredRemainder" if b == 0 => wrapped(a),
        "truncatedRemainder" => wrapped(a - a / b * b),
        // Of a quotient rounded down.
        "flooredRemainder" => {
            let quotient = if a % b != 0 && (a < 0) != (b < 0) { a / b - 1 } else { a / b };
            wrapped(a - quotient * b)
        }
        "max" => wrapped(a.max(b)),
        "min" => wrapped(a.min(b)),
        "pow" if b >= 0 => wrapped(power(a, b)),
        // A fraction, truncated; one over zero is left open.
        "pow" => match a {
            1 => wrapped(1),
            -1 => wrapped(if b % 2 == 0 { 1 } else { -1 }),
            0 => Element::Anything,
            _ => wrapped(0),
        },
        "prelu" => wrapped(if a < 0 { a.wrapping_mul(b) } else { a }),
        "equal" => truth(a == b),
        "notEqual" => truth(a != b),
        "greater" => truth(a > b),
        "greaterOrEqual" => truth(a >= b),
        "lesser" => truth(a < b),
        "lesserOrEqual" => truth(a <= b),
        "logicalAnd" => truth(a != 0 && b != 0),
        "logicalOr" => truth(a != 0 || b != 0),
        "logicalXor" => truth((a != 0) != (b != 0)),
        name => panic!("the oracle lacks {name} of integers"),
    }
}

/// Modulo 2¹²⁸, which keeps all bits that any type has.
fn power(base: i128, exponent: i128) -> i128 {
    let (mut result, mut square, mut exponent) = (1i128, base, exponent);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent /= 2;
    }
    result
}

/// The error function by its series 2/√π · exp(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!, whose terms all have the same sign.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x.abs() > 6.0 {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..400 {
        term *= 2.0 * x * x / (2 * n + 1) as f64;
        sum += term;
    }
    sum * 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp()
}

/// `0.5 x (1 + erf(x / √2))`; where the sum cancels, by the continued fraction of erfc.
fn gelu(x: f64) -> f64 {
    let y = x / 2f64.sqrt();
    if x.is_nan() || y > -2.0 {
        return 0.5 * x * (1.0 + erf(y));
    }
    let fraction = (1..200).rev().fold(-y, |fraction, k| -y + f64::from(k) / 2.0 / fraction);
    0.5 * x * (-y * y).exp() / std::f64::consts::PI.sqrt() / fraction
}

/// Each scale and zero point belongs to a block of elements.
fn quantization(call: &Call) -> Expected {
    let (input, scales, zero_points) = (call.operand("input"), call.operand("scale"), call.operand("zero_point"));
    let block = |position: &[usize]| -> Vec<usize> {
        let sizes = input.shape.iter().zip(&scales.shape);
        position.iter().zip(sizes).map(|(i, (size, blocks))| i / (size / blocks)).collect()
    };
    let dequantizes = call.row.name == "dequantizeLinear";
    let output = if dequantizes { scales.data_type } else { zero_points.data_type };
    by_position(output, input.shape.clone(), |position| {
        let scale = scales.float(&block(position));
        let Scalar::Integer(zero_point) = zero_points.at(&block(position)) else { panic!("zero points are integers") };
        match input.at(position) {
            // Both numbers are rounded to float32, and so are their difference and the product.
            Scalar::Integer(x) => {
                let magnitude = (x.abs() + zero_point.abs()) as f64;
                let exact = magnitude < (1u64 << 24) as f64;
                let absolute = if exact { 0.0 } else { 2.0 * EPSILON * magnitude * scale };
                let ulps = if exact { 0 } else { 1 };
                Element::Near { value: (x - zero_point) as f64 * scale, absolute, ulps, magnitude: 0.0 }
            }
            Scalar::Float(x) => quantized(output, x / scale, zero_point),
        }
    })
}

/// The range of the numbers and 0 decides on the scale, and both on the rest. Numbers that are infinite or none have no range.
pub fn dynamic_quantization(call: &Call) -> Vec<Expected> {
    let input = call.operand("input");
    let numbers: Vec<f64> = crate::tensor::positions(&input.shape).iter().map(|position| input.float(position)).collect();
    let [least, most] = [f64::min, f64::max].map(|function| numbers.iter().copied().fold(0.0, function));
    let range = most - least;
    // What is left of the smallest numbers is open, as it is on GPUs.
    let is_usual = numbers.iter().all(|x| x.is_finite()) && (range == 0.0 || (1e-30..1e38).contains(&range));
    let scale = if range == 0.0 { 1.0 } else { range / 255.0 };
    let byte =
        |x: f64, zero_point: i128| if is_usual { quantized(DataType::Uint8, x / scale, zero_point) } else { Element::Anything };
    let zero_points = match byte(-least, 0) {
        Element::OneOf(all) => all,
        other => vec![other],
    };
    let output = by_position(DataType::Uint8, input.shape.clone(), |position| {
        let of_zero_point = |zero_point: &Element| match zero_point {
            Element::Exactly(Scalar::Integer(zero_point)) => byte(input.float(position), *zero_point),
            _ => Element::Anything,
        };
        Element::OneOf(zero_points.iter().map(of_zero_point).collect())
    });
    let number = |data_type, element: Element| by_position(data_type, Vec::new(), |_| element.clone());
    let of_scale = if is_usual { Element::ulps(scale, 4) } else { Element::Anything };
    vec![output, number(DataType::Float32, of_scale), number(DataType::Uint8, Element::OneOf(zero_points.clone()))]
}

/// Numbers along an axis, by the greatest of their magnitudes. Those that are infinite or none have no scale.
pub fn quantization_along(call: &Call) -> Vec<Expected> {
    let (input, axis) = (call.operand("input"), call.unsigned("axis").expect("an axis"));
    // The scale at a position, and whether it is a usual one: what is left of the smallest numbers is open, as it is on GPUs.
    let scale_at = |position: &[usize]| {
        let line = (0..input.shape[axis]).map(|i| input.float(&super::with(position, axis, i)));
        let most = line.fold(0.0f64, |most, x| if x.is_nan() { f64::INFINITY } else { most.max(x.abs()) });
        let is_usual = most == 0.0 || (1e-30..1e38).contains(&most);
        is_usual.then_some((most / 127.0).max(f64::from(f32::MIN_POSITIVE)))
    };
    let output = by_position(DataType::Int8, input.shape.clone(), |position| match scale_at(position) {
        Some(scale) => quantized(DataType::Int8, input.float(position) / scale, 0),
        None => Element::Anything,
    });
    let mut shape = input.shape.clone();
    shape[axis] = 1;
    let scales = by_position(DataType::Float32, shape, |position| {
        scale_at(position).map_or(Element::Anything, |scale| Element::ulps(scale, 4))
    });
    vec![output, scales]
}

/// The rounded quotient and the zero point, limited to the range of the type. NaN, which the specification does not
/// mention, may be anything. The quotient has an error that decides where it lies halfway between two integers.
fn quantized(data_type: DataType, quotient: f64, zero_point: i128) -> Element {
    if quotient.is_nan() {
        return Element::Anything;
    }
    let (low, high) = crate::tensor::range(data_type);
    let limited = |rounded: f64| Element::integer((rounded as i128).saturating_add(zero_point).clamp(low, high));
    let error = 2.0 * EPSILON * quotient.abs();
    // Beyond 2²⁴ the zero point is less than the error of a sum in float32.
    if quotient.abs().max(zero_point.abs() as f64) > (1u64 << 24) as f64 && quotient.is_finite() {
        let sum = (quotient + zero_point as f64).clamp(low as f64, high as f64);
        return Element::Near {
            value: sum,
            absolute: 1.0 + 4.0 * EPSILON * (quotient.abs() + zero_point.abs() as f64),
            ulps: 0,
            magnitude: 0.0,
        };
    }
    let nearest = [quotient, quotient - error, quotient + error].map(|x| limited(x.round_ties_even()));
    Element::OneOf(nearest.to_vec())
}

#[test]
fn the_error_function() {
    for (x, value) in
        [(0.0, 0.0), (0.5, 0.520_499_877_813_046_5), (-1.0, -0.842_700_792_949_714_9), (3.0, 0.999_977_909_503_001_4)]
    {
        assert!((erf(x) - value).abs() < 1e-15, "{x}");
    }
}
