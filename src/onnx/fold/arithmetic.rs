//! Arithmetic on constants.

use super::{Folding, reduced_shape};
use crate::onnx::element::ElementType;
use crate::onnx::node::{Node, axes};
use crate::onnx::refusal::Mapped;
use crate::onnx::shapes::broadcast;
use crate::onnx::tensor::Tensor;

/// The result of a node with these inputs. Nothing when the operator is not one of these, or the result is too large.
pub fn evaluate(node: &Node<'_>, inputs: &[&Tensor], folding: &mut Folding) -> Option<Mapped<Tensor>> {
    match (node.operator(), inputs) {
        ("Where", [condition, a, b]) => select(condition, a, b, folding),
        ("Neg" | "Abs" | "Floor" | "Ceil" | "Round" | "Sqrt" | "Sign" | "Exp" | "Log" | "Reciprocal" | "Not", [input]) => {
            folding.affords(&input.shape).then(|| unary(node.operator(), input))
        }
        (operator, [a, b]) => match Binary::named(operator, node)? {
            Ok(kind) => binary(&kind, a, b, folding),
            Err(reason) => Some(Err(reason)),
        },
        // Variadic ones.
        ("Min" | "Max" | "Sum", [input]) => Some(Ok((*input).clone())),
        ("Min" | "Max" | "Sum", [first, others @ ..]) => {
            let kind = match node.operator() {
                "Min" => Binary::Min,
                "Max" => Binary::Max,
                _ => Binary::Add,
            };
            let mut result = (*first).clone();
            for other in others {
                match binary(&kind, &result, other, folding)? {
                    Ok(next) => result = next,
                    Err(reason) => return Some(Err(reason)),
                }
            }
            Some(Ok(result))
        }
        _ => None,
    }
}

/// The result of a Clip, whose bounds may be absent. Nothing where these are attributes, as they once were.
pub fn clip(node: &Node<'_>, folding: &mut Folding) -> Option<Mapped<Tensor>> {
    const BOUNDS_ARE_INPUTS: i64 = 11;
    if node.version < BOUNDS_ARE_INPUTS {
        return None;
    }
    let mut result = node.optional(0)?.constant()?.clone();
    let shape = result.shape.clone();
    for (position, kind) in [(1, Binary::Max), (2, Binary::Min)] {
        let Some(bound) = node.optional(position) else { continue };
        match binary(&kind, &result, bound.constant()?, folding)? {
            Ok(next) => result = next,
            Err(reason) => return Some(Err(reason)),
        }
    }
    // The rules will say what is wrong with a bound that is no number.
    (result.shape == shape).then_some(Ok(result))
}

enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Mod { like_c: bool },
    Pow,
    Min,
    Max,
    Compare(fn(std::cmp::Ordering) -> bool),
    Logic(fn(bool, bool) -> bool),
}

impl Binary {
    fn named(operator: &str, node: &Node<'_>) -> Option<Mapped<Binary>> {
        Some(Ok(match operator {
            "Add" | "Sum" => Binary::Add,
            "Sub" => Binary::Sub,
            "Mul" => Binary::Mul,
            "Div" => Binary::Div,
            "Mod" => match node.flag("fmod", false) {
                Ok(like_c) => Binary::Mod { like_c },
                Err(reason) => return Some(Err(reason)),
            },
            "Pow" => Binary::Pow,
            "Min" => Binary::Min,
            "Max" => Binary::Max,
            "Equal" => Binary::Compare(|order| order.is_eq()),
            "Less" => Binary::Compare(|order| order.is_lt()),
            "LessOrEqual" => Binary::Compare(|order| order.is_le()),
            "Greater" => Binary::Compare(|order| order.is_gt()),
            "GreaterOrEqual" => Binary::Compare(|order| order.is_ge()),
            "And" => Binary::Logic(|a, b| a && b),
            "Or" => Binary::Logic(|a, b| a || b),
            "Xor" => Binary::Logic(|a, b| a != b),
            _ => return None,
        }))
    }

    /// What the graph's operators compute: exactly, of which an integer type keeps the low bits, 0 for a division by zero, and
    /// powers with a negative exponent truncated towards zero.
    fn of_integers(&self, a: i128, b: i128) -> i128 {
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => a.checked_div(b).unwrap_or(0),
            Binary::Mod { like_c: true } => a.checked_rem(b).unwrap_or(a),
            // The sign is the divisor's.
            Binary::Mod { like_c: false } => match a.checked_rem(b).unwrap_or(a) {
                rest if b != 0 && rest != 0 && (rest < 0) != (b < 0) => rest + b,
                rest => rest,
            },
            Binary::Pow => power(a, b),
            Binary::Min => a.min(b),
            Binary::Max => a.max(b),
            Binary::Compare(test) => test(a.cmp(&b)).into(),
            Binary::Logic(test) => test(a != 0, b != 0).into(),
        }
    }

    fn of_floats(&self, a: f64, b: f64) -> Option<f64> {
        Some(match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Mod { like_c: true } => a % b,
            // 0 has the sign of the divisor, and so has what is not 0.
            Binary::Mod { like_c: false } => match a % b {
                0.0 => 0f64.copysign(b),
                rest if (rest < 0.0) != (b < 0.0) => rest + b,
                rest => rest,
            },
            Binary::Pow => a.powf(b),
            Binary::Min => -maximum(-a, -b),
            Binary::Max => maximum(a, b),
            Binary::Compare(_) | Binary::Logic(_) => return None,
        })
    }
}

/// The low 128 bits of a power; with a negative exponent the quotient that it stands for, truncated towards zero, and 0 for a
/// base of 0.
fn power(base: i128, mut exponent: i128) -> i128 {
    if exponent < 0 {
        let inverse = 1i128.checked_div(base).unwrap_or(0);
        return if exponent % 2 == 0 { inverse * inverse } else { inverse };
    }
    let (mut power, mut square) = (1i128, base);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = power.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent /= 2;
    }
    power
}

/// NaN if either is, and 0 is above -0.
fn maximum(a: f64, b: f64) -> f64 {
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Greater) => a,
        Some(std::cmp::Ordering::Less) => b,
        Some(std::cmp::Ordering::Equal) => f64::from_bits(a.to_bits() & b.to_bits()),
        None => f64::NAN,
    }
}

fn binary(kind: &Binary, a: &Tensor, b: &Tensor, folding: &mut Folding) -> Option<Mapped<Tensor>> {
    let shape = broadcast(&a.shape, &b.shape)?;
    // Unequal types are for Pow alone; the rules will say what is wrong with the others.
    if !folding.affords(&shape) || (a.element != b.element && !matches!(kind, Binary::Pow)) {
        return None;
    }
    // The graph raises integers to fractions as floats of its own.
    if b.element.is_float() && !a.element.is_float() {
        return None;
    }
    let (a, b) = (super::expand(a, &shape), super::expand(&b.cast(a.element), &shape));
    let element = match kind {
        Binary::Compare(_) | Binary::Logic(_) => ElementType::Bool,
        _ => a.element,
    };
    if a.element.is_float() {
        let pairs = a.floats().into_iter().zip(b.floats());
        if let Binary::Compare(test) = kind {
            let truths: Vec<i64> = pairs.map(|(a, b)| a.partial_cmp(&b).is_some_and(test).into()).collect();
            return Some(Ok(Tensor::from_integers(element, shape, &truths)));
        }
        let numbers: Vec<f64> = pairs.map(|(a, b)| kind.of_floats(a, b)).collect::<Option<_>>()?;
        return Some(Ok(Tensor::from_floats(element, shape, &numbers)));
    }
    let pairs = a.wholes().into_iter().zip(b.wholes());
    let numbers: Vec<i128> = pairs.map(|(a, b)| kind.of_integers(a, b)).collect();
    Some(Ok(Tensor::from_wholes(element, shape, &numbers)))
}

fn unary(operator: &str, input: &Tensor) -> Mapped<Tensor> {
    let (element, shape) = (input.element, input.shape.clone());
    if element.is_float() {
        let apply: fn(f64) -> f64 = match operator {
            "Neg" => |x| -x,
            "Abs" => f64::abs,
            "Floor" => f64::floor,
            "Ceil" => f64::ceil,
            "Round" => f64::round_ties_even,
            "Sqrt" => f64::sqrt,
            "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
            "Exp" => f64::exp,
            "Log" => f64::ln,
            "Reciprocal" => f64::recip,
            _ => return Err(format!("{operator} of {element} elements").into()),
        };
        return Ok(Tensor::from_floats(element, shape, &input.floats().into_iter().map(apply).collect::<Vec<_>>()));
    }
    let apply: fn(i128) -> i128 = match operator {
        "Neg" => |x| -x,
        "Abs" => i128::abs,
        "Sign" => i128::signum,
        "Not" => |x| (x == 0).into(),
        _ => return Err(format!("{operator} of {element} elements").into()),
    };
    Ok(Tensor::from_wholes(element, shape, &input.wholes().into_iter().map(apply).collect::<Vec<_>>()))
}

fn select(condition: &Tensor, a: &Tensor, b: &Tensor, folding: &mut Folding) -> Option<Mapped<Tensor>> {
    let shape = broadcast(&broadcast(&condition.shape, &a.shape)?, &b.shape)?;
    if !folding.affords(&shape) || a.element != b.element || a.element.bits() == 4 {
        return None;
    }
    let (condition, a, b) = (super::expand(condition, &shape), super::expand(a, &shape), super::expand(b, &shape));
    let width = a.element.bits() / 8;
    let mut bytes = Vec::with_capacity(a.bytes.len());
    for (i, truth) in condition.integers().into_iter().enumerate() {
        let chosen = if truth != 0 { &a } else { &b };
        bytes.extend_from_slice(&chosen.bytes[i * width..(i + 1) * width]);
    }
    Some(Ok(Tensor { element: a.element, shape, bytes: bytes.into() }))
}

/// Reduces integers or floats along axes.
pub fn reduce(operator: &str, input: &Tensor, list: &[i64], keep: bool) -> Option<Mapped<Tensor>> {
    let axes = match axes(list, input.shape.len()) {
        Ok(axes) => axes,
        Err(reason) => return Some(Err(reason)),
    };
    let kept: Vec<usize> = (0..input.shape.len()).filter(|axis| !axes.contains(axis)).collect();
    // The reduced axes last, so that what is reduced to one lies together.
    let order: Vec<usize> = kept.iter().chain(&axes).copied().collect();
    let moved = super::transpose(input, &order);
    let shape = reduced_shape(&input.shape, &axes, keep);
    let size: usize = axes.iter().map(|&axis| input.shape[axis]).product();
    let count: usize = shape.iter().product();
    if input.element.is_float() {
        let numbers = moved.floats();
        let apply: fn(&[f64]) -> Option<f64> = match operator {
            // Rust's sum of nothing is -0.
            "ReduceSum" => |list| Some(list.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)),
            "ReduceProd" => |list| Some(list.iter().product()),
            "ReduceMax" => |list| list.iter().copied().reduce(maximum),
            "ReduceMin" => |list| list.iter().copied().reduce(|a, b| -maximum(-a, -b)),
            _ => return None,
        };
        let results: Vec<f64> = (0..count).map(|i| apply(&numbers[i * size..(i + 1) * size])).collect::<Option<_>>()?;
        return Some(Ok(Tensor::from_floats(input.element, shape, &results)));
    }
    let numbers = moved.wholes();
    let apply: fn(&[i128]) -> Option<i128> = match operator {
        "ReduceSum" => |list| Some(list.iter().fold(0, |sum, x| sum.wrapping_add(*x))),
        "ReduceProd" => |list| Some(list.iter().fold(1, |product, x| product.wrapping_mul(*x))),
        "ReduceMax" => |list| list.iter().copied().max(),
        "ReduceMin" => |list| list.iter().copied().min(),
        _ => return None,
    };
    let results: Vec<i128> = (0..count).map(|i| apply(&numbers[i * size..(i + 1) * size])).collect::<Option<_>>()?;
    Some(Ok(Tensor::from_wholes(input.element, shape, &results)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(numbers: &[i64]) -> Tensor {
        Tensor::int64s(numbers)
    }

    fn of(kind: Binary, a: &[i64], b: &[i64]) -> Vec<i64> {
        binary(&kind, &ints(a), &ints(b), &mut Folding::default()).unwrap().unwrap().integers()
    }

    #[test]
    fn signs_of_floats() {
        let input = Tensor::from_floats(ElementType::Float, vec![4], &[-2.5, -0.0, f64::INFINITY, f64::NAN]);
        let found = unary("Sign", &input).unwrap().floats();
        assert_eq!(found[..3], [-1.0, 0.0, 1.0]);
        assert!(found[3].is_nan());
    }

    #[test]
    fn integers() {
        assert_eq!(of(Binary::Div, &[7, -7, 7, -7], &[2, 2, -2, -2]), [3, -3, -3, 3]);
        assert_eq!(of(Binary::Mod { like_c: false }, &[7, -7, 7, -7], &[3, 3, -3, -3]), [1, 2, -2, -1]);
        assert_eq!(of(Binary::Mod { like_c: true }, &[7, -7, 7, -7], &[3]), [1, -1, 1, -1]);
        assert_eq!(of(Binary::Mul, &[i64::MAX], &[2]), [-2]);
        assert_eq!(of(Binary::Compare(|order| order.is_lt()), &[1, 2, 3], &[2]), [1, 0, 0]);
        assert_eq!(of(Binary::Div, &[7, i64::MIN], &[0, -1]), [0, i64::MIN]);
        assert_eq!(of(Binary::Mod { like_c: false }, &[-7, i64::MIN], &[0, -1]), [-7, 0]);
        assert_eq!(of(Binary::Pow, &[3, 2, -1, 5], &[3, 64, -3, -1]), [27, 0, -1, 0]);
    }

    #[test]
    fn reductions() {
        let input = Tensor::from_integers(ElementType::Int64, vec![2, 3], &[1, 2, 3, 4, 5, 6]);
        let reduce = |operator, axes: &[i64], keep| reduce(operator, &input, axes, keep).unwrap().unwrap();
        assert_eq!(reduce("ReduceProd", &[0, 1], false).integers(), [720]);
        assert_eq!(reduce("ReduceSum", &[0], true).shape, [1, 3]);
        assert_eq!(reduce("ReduceSum", &[0], true).integers(), [5, 7, 9]);
        assert_eq!(reduce("ReduceMax", &[-1], false).integers(), [3, 6]);
        assert_eq!(super::reduce("ReduceProd", &ints(&[]), &[0], false).unwrap().unwrap().integers(), [1]);
        assert!(super::reduce("ReduceMax", &ints(&[]), &[0], false).is_none());
    }
}
