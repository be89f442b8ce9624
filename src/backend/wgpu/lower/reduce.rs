//! Reductions along axes.

use super::lowering::{Lowering, Operands};
use super::reduction::{Formula, Reduction};
use super::workgroup::{EXPONENTIALS, SUMS};
use crate::backend::wgpu::shader::{Scalar, real, size};
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::number::integer_range;
use crate::graph::ops::reduce::{Reduce, ReduceKind};

pub fn reduce(lowering: &mut Lowering<'_>, op: &Reduce, operands: &Operands) -> Result<()> {
    let input = operands.input(op.input);
    let reduced: Vec<bool> = (0..input.shape.len()).map(|axis| op.reduces(axis)).collect();
    let count = input.shape.iter().zip(&reduced).filter(|(_, reduced)| **reduced).map(|(size, _)| size).product();
    let formula = formula(op.kind, input.data_type, count);
    Reduction { label: "reduce", input, reduced, formula }.lower(lowering, operands.output())
}

/// The formula of a reduction of so many values.
pub fn formula(kind: ReduceKind, data_type: DataType, count: usize) -> Formula {
    let scalar = Scalar::of(data_type);
    let total = |lift: String| Formula {
        in_subgroup: (!scalar.is_wide()).then_some(SUMS),
        ..Formula::scalar(scalar, scalar.integer(0), lift, scalar.add("a", "b"))
    };
    let extreme = |function, nothing| Formula::scalar(scalar, nothing, "x".to_owned(), scalar.call(function, &["a", "b"]));
    match kind {
        ReduceKind::Sum if scalar == Scalar::F32 => sums(count, "a.x", "a.y * back()"),
        ReduceKind::Sum => total("x".to_owned()),
        ReduceKind::L1 if scalar.is_signed() => total(scalar.call("abs", &["x"])),
        ReduceKind::L1 => total("x".to_owned()),
        ReduceKind::SumSquare => total(scalar.mul("x", "x")),
        ReduceKind::Product if scalar == Scalar::F32 => product(),
        ReduceKind::Product => Formula::scalar(scalar, scalar.integer(1), "x".to_owned(), scalar.mul("a", "b")),
        ReduceKind::LogSum => sums(count, "log_f32(a.x)", "log_f32(a.y) + log_f32(back())"),
        ReduceKind::Mean => {
            let rest = real((count as f64 / 2f64.powi(power(count) as i32)) as f32);
            sums(count, &format!("a.x / {}", real(count as f32)), &format!("a.y / {rest}"))
        }
        ReduceKind::L2 => norm(2),
        ReduceKind::LogSumExp => Formula { result: "return a.x + log_f32(a.y);".to_owned(), ..exponentials() },
        ReduceKind::Max => extreme("max", lowest(data_type)),
        ReduceKind::Min => extreme("min", highest(data_type)),
    }
}

/// So many summands divided by two to this power have a sum in the range of their type.
pub fn power(count: usize) -> u32 {
    (count as u64).next_power_of_two().ilog2()
}

/// A sum, `a.x`, and that of summands divided by `back()`, a power of two, which is used where the former, or one on the way to
/// it, is infinite or no number. (Where it is not, the division could lose digits of the smallest numbers.)
fn sums(count: usize, plain: &str, scaled: &str) -> Formula {
    let power = power(count);
    let (power, back) = (size(power as usize), real(2f32.powi(power as i32)));
    Formula {
        accumulator: "vec2<f32>",
        declarations: format!("fn back() -> f32 {{ return {back}; }}"),
        parts: vec![("a.x", Scalar::F32), ("a.y", Scalar::F32)],
        nothing: "vec2<f32>(0.0f, 0.0f)".to_owned(),
        lift: format!("return vec2<f32>(x, divided_by_power(x, {power}u));"),
        combine: "return a + b;".to_owned(),
        in_subgroup: Some(SUMS),
        result: format!("if is_nan(a.x) || is_infinite(a.x) {{ return {scaled}; }}\nreturn {plain};"),
    }
}

/// A product, `a.x` times two to the power of `a.y`, no part of which overflows or vanishes.
fn product() -> Formula {
    Formula {
        accumulator: "vec2<f32>",
        declarations: String::new(),
        parts: vec![("a.x", Scalar::F32), ("a.y", Scalar::F32)],
        nothing: "vec2<f32>(1.0f, 0.0f)".to_owned(),
        lift: "return with_power(x, 0.0f);".to_owned(),
        combine: "return with_power(a.x * b.x, a.y + b.y);".to_owned(),
        in_subgroup: None,
        result: "return times_two_to_the(a.x, i32(clamp(a.y, -250.0f, 250.0f)));".to_owned(),
    }
}

/// What is below all numbers of a data type.
pub fn lowest(data_type: DataType) -> String {
    match Scalar::of(data_type) {
        Scalar::F32 => "-infinity()".to_owned(),
        scalar => scalar.integer(integer_range(data_type).0),
    }
}

fn highest(data_type: DataType) -> String {
    match Scalar::of(data_type) {
        Scalar::F32 => "infinity()".to_owned(),
        scalar => scalar.integer(integer_range(data_type).1),
    }
}

/// The root of this order of a sum of powers: the greatest magnitude, and the sum of powers divided by its power, so that none
/// overflows or vanishes.
pub fn norm(order: u32) -> Formula {
    let power = (1..order).fold("r".to_owned(), |power, _| power + " * r");
    let root = match order {
        1 => "a.y".to_owned(),
        2 => "sqrt(a.y)".to_owned(),
        order => format!("pow_f32(a.y, {})", real((1.0 / f64::from(order)) as f32)),
    };
    Formula {
        accumulator: "vec2<f32>",
        declarations: String::new(),
        parts: vec![("a.x", Scalar::F32), ("a.y", Scalar::F32)],
        nothing: "vec2<f32>(0.0f, 0.0f)".to_owned(),
        lift: "return vec2<f32>(abs_f32(x), 1.0f);".to_owned(),
        combine: format!(
            "if a.x == b.x {{ return vec2<f32>(a.x, a.y + b.y); }}\n\
             if a.x > b.x {{ let r = div_f32(b.x, a.x); return vec2<f32>(a.x, a.y + b.y * ({power})); }}\n\
             if b.x > a.x {{ let r = div_f32(a.x, b.x); return vec2<f32>(b.x, b.y + a.y * ({power})); }}\n\
             return vec2<f32>(nan(), nan());"
        ),
        in_subgroup: None,
        result: format!("if a.x == 0.0f {{ return 0.0f; }}\nreturn a.x * {root};"),
    }
}

/// A sum of exponentials as the greatest exponent and the sum of exponentials of differences to it, which do not overflow.
pub fn exponentials() -> Formula {
    Formula {
        accumulator: "vec2<f32>",
        declarations: String::new(),
        parts: vec![("a.x", Scalar::F32), ("a.y", Scalar::F32)],
        nothing: "vec2<f32>(-infinity(), 0.0f)".to_owned(),
        lift: "return vec2<f32>(x, 1.0f);".to_owned(),
        // Infinities too are equal to themselves, but their difference is not a number.
        combine: "if is_nan(a.x) || is_nan(b.x) { return vec2<f32>(nan(), nan()); }\n\
                  if a.x == b.x { return vec2<f32>(a.x, a.y + b.y); }\n\
                  if a.x > b.x { return vec2<f32>(a.x, a.y + b.y * exp_f32(b.x - a.x)); }\n\
                  return vec2<f32>(b.x, b.y + a.y * exp_f32(a.x - b.x));"
            .to_owned(),
        in_subgroup: Some(EXPONENTIALS),
        result: String::new(),
    }
}
