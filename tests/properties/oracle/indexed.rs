//! Operators with indices. A negative index counts from the end. One that is out of range is clamped, which the
//! specification suggests and the documentation of the operators says. Where several updates go to the same element, each
//! of them may be the last.

use super::{EPSILON, by_position, with};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor, offset, positions, wrap};

pub fn output(call: &Call) -> Expected {
    let (input, indices) = (call.operand("input"), call.operand("indices"));
    let axis = |call: &Call| call.unsigned("axis").unwrap_or(0);
    match call.row.name {
        "gather" => gather(input, indices, axis(call)),
        "gatherElements" => {
            let axis = axis(call);
            by_position(input.data_type, indices.shape.clone(), |position| {
                Element::Exactly(input.at(&with(position, axis, index(indices, position, input.shape[axis]))))
            })
        }
        "gatherND" => {
            let count = indices.shape[indices.rank() - 1];
            let batch = &indices.shape[..indices.rank() - 1];
            by_position(input.data_type, [batch, &input.shape[count..]].concat(), |position| {
                let (batch, rest) = position.split_at(batch.len());
                Element::Exactly(input.at(&[coordinate(indices, batch, &input.shape).as_slice(), rest].concat()))
            })
        }
        "scatterElements" | "accumulateElements" => {
            let axis = axis(call);
            scattered(call, |position| with(position, axis, index(indices, position, input.shape[axis])))
        }
        "scatterND" | "accumulateND" => {
            let batch = indices.rank() - 1;
            scattered(call, |position| {
                let (batch, rest) = position.split_at(batch);
                [coordinate(indices, batch, &input.shape).as_slice(), rest].concat()
            })
        }
        name => panic!("the oracle lacks {name}"),
    }
}

fn index(indices: &Tensor, position: &[usize], size: usize) -> usize {
    let Scalar::Integer(index) = indices.at(position) else { panic!("indices are integers") };
    let size = size as i128;
    let from_start = if index < 0 { index + size } else { index };
    from_start.clamp(0, size - 1) as usize
}

/// The coordinate at a position of the other dimensions.
fn coordinate(indices: &Tensor, batch: &[usize], shape: &[usize]) -> Vec<usize> {
    (0..indices.shape[batch.len()]).map(|i| index(indices, &[batch, &[i]].concat(), shape[i])).collect()
}

fn gather(input: &Tensor, indices: &Tensor, axis: usize) -> Expected {
    let shape = [&input.shape[..axis], &indices.shape, &input.shape[axis + 1..]].concat();
    by_position(input.data_type, shape, |position| {
        let (before, rest) = position.split_at(axis);
        let (of_index, after) = rest.split_at(indices.rank());
        Element::Exactly(input.at(&[before, &[index(indices, of_index, input.shape[axis])], after].concat()))
    })
}

fn scattered(call: &Call, target: impl Fn(&[usize]) -> Vec<usize>) -> Expected {
    let (input, updates) = (call.operand("input"), call.operand("updates"));
    let mut written: Vec<Vec<Scalar>> = vec![Vec::new(); input.elements.len()];
    for position in positions(&updates.shape) {
        written[offset(&input.shape, &target(&position))].push(updates.at(&position));
    }
    let elements = written.into_iter().zip(&input.elements).map(|(written, old)| match written.is_empty() {
        true => Element::Exactly(*old),
        false if call.row.name.starts_with("accumulate") => accumulated(call, *old, &written),
        false => Element::OneOf(written.into_iter().map(Element::Exactly).collect()),
    });
    Expected { data_type: input.data_type, shape: input.shape.clone(), elements: elements.collect() }
}

/// All updates of a place combined with what was there, in their order: sums and products with a rounding for each.
fn accumulated(call: &Call, old: Scalar, updates: &[Scalar]) -> Element {
    let reduction = call.enumeration("reduction", "add");
    let combine_floats = |a: f64, b: f64| match reduction {
        "add" => a + b,
        "mul" => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        "max" => a.max(b),
        _ => a.min(b),
    };
    let data_type = call.operand("input").data_type;
    let combine_integers = |a: i128, b: i128| match reduction {
        "add" => a + b,
        "mul" => wrap(data_type, a.wrapping_mul(b)),
        "max" => a.max(b),
        _ => a.min(b),
    };
    match old {
        Scalar::Integer(old) => {
            let total = updates.iter().fold(old, |total, x| match x {
                Scalar::Integer(x) => combine_integers(total, *x),
                Scalar::Float(x) => panic!("{x} among integers"),
            });
            Element::integer(wrap(data_type, total))
        }
        Scalar::Float(old) => {
            let value = updates.iter().fold(old, |total, x| combine_floats(total, x.as_f64()));
            let magnitude = updates.iter().fold(old.abs(), |sum, x| sum + x.as_f64().abs());
            let roundings = updates.len() as f64;
            match reduction {
                "add" if value.is_finite() => Element::within(value, roundings * EPSILON * magnitude),
                "mul" if value.is_finite() => Element::within(value, roundings * EPSILON * value.abs()),
                _ => Element::ulps(value, 0),
            }
        }
    }
}
