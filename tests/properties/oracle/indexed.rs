//! Operators with indices. A negative index counts from the end. One that is out of range is clamped, which the
//! specification suggests and the documentation of the operators says. Where several updates go to the same element, each
//! of them may be the last.

use super::{by_position, with};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor, offset, positions};

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
        "scatterElements" => {
            let axis = axis(call);
            scattered(input, call.operand("updates"), |position| {
                with(position, axis, index(indices, position, input.shape[axis]))
            })
        }
        "scatterND" => {
            let batch = indices.rank() - 1;
            scattered(input, call.operand("updates"), |position| {
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

fn scattered(input: &Tensor, updates: &Tensor, target: impl Fn(&[usize]) -> Vec<usize>) -> Expected {
    let mut written: Vec<Vec<Element>> = vec![Vec::new(); input.elements.len()];
    for position in positions(&updates.shape) {
        written[offset(&input.shape, &target(&position))].push(Element::Exactly(updates.at(&position)));
    }
    let elements = written.into_iter().zip(&input.elements).map(|(written, old)| match written.is_empty() {
        true => Element::Exactly(*old),
        false => Element::OneOf(written),
    });
    Expected { data_type: input.data_type, shape: input.shape.clone(), elements: elements.collect() }
}
