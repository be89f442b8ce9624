//! Moving the elements of constants.

use crate::graph::ops::check::outside;
use crate::graph::shape::strides;
use crate::looks::Looking;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;

/// Nanoseconds that an element takes.
const COST: usize = 4;

/// Makes a tensor of another shape, whose elements are the input's at the places that `source` tells for a position.
fn rearranged(input: &Tensor, shape: Vec<usize>, source: impl Fn(&[usize]) -> usize) -> Tensor {
    let count: usize = shape.iter().product();
    let mut position = vec![0; shape.len()];
    let mut places = Vec::with_capacity(count);
    for _ in (0..count).looking(COST) {
        places.push(source(&position));
        for (at, &size) in position.iter_mut().zip(&shape).rev() {
            *at += 1;
            if *at < size {
                break;
            }
            *at = 0;
        }
    }
    if input.element.bits() == 4 {
        let elements = input.integers();
        let moved: Vec<i64> = places.iter().looking(COST).map(|&place| elements[place]).collect();
        return Tensor::from_integers(input.element, shape, &moved);
    }
    let width = input.element.bits() / 8;
    let bytes: Vec<u8> =
        places.iter().looking(COST).flat_map(|&place| &input.bytes[place * width..(place + 1) * width]).copied().collect();
    Tensor { element: input.element, shape, bytes: bytes.into() }
}

pub fn transpose(input: &Tensor, permutation: &[usize]) -> Tensor {
    let strides = strides(&input.shape);
    let shape = permutation.iter().map(|&axis| input.shape[axis]).collect();
    rearranged(input, shape, |position| position.iter().zip(permutation).map(|(at, &axis)| at * strides[axis]).sum())
}

/// Expands to a shape that the input can be broadcast to.
pub fn expand(input: &Tensor, shape: &[usize]) -> Tensor {
    let strides = strides(&input.shape);
    let missing = shape.len() - input.shape.len();
    rearranged(input, shape.to_vec(), |position| {
        let aligned = position[missing..].iter().zip(&input.shape).zip(&strides);
        aligned.map(|((&at, &size), stride)| if size == 1 { 0 } else { at * stride }).sum()
    })
}

/// Takes `count` elements along each dimension, `step` apart from `start` on.
pub fn slice(input: &Tensor, ranges: &[(i64, i64, usize)]) -> Tensor {
    let strides = strides(&input.shape);
    let shape = ranges.iter().map(|&(_, _, count)| count).collect();
    rearranged(input, shape, |position| {
        let places = position.iter().zip(ranges).zip(&strides);
        places.map(|((&at, &(start, step, _)), stride)| (start + at as i64 * step) as usize * stride).sum()
    })
}

/// Gathers along an axis; negative indices count from the end.
pub fn gather(input: &Tensor, indices: &Tensor, axis: usize) -> Mapped<Tensor> {
    let size = input.shape[axis];
    let mut places = indices.integers();
    let of_check = u32::try_from(size).map_err(|_| "a dimension that is too large")?;
    if let Some(outside) = outside(places.iter().copied().looking(COST), &[of_check], true) {
        return Err(match size {
            0 => "an index into a dimension of size 0".into(),
            _ => format!("input 1: {}", outside.describe(&indices.shape, true)).into(),
        });
    }
    places.iter_mut().filter(|index| **index < 0).for_each(|index| *index += size as i64);
    let index_strides = strides(&indices.shape);
    let strides = strides(&input.shape);
    let rank = indices.shape.len();
    let (before, after) = (&input.shape[..axis], &input.shape[axis + 1..]);
    let shape: Vec<usize> = [before, &indices.shape, after].concat();
    Ok(rearranged(input, shape, |position| {
        let (outer, rest) = position.split_at(axis);
        let (middle, inner) = rest.split_at(rank);
        let index: usize = middle.iter().zip(&index_strides).map(|(at, stride)| at * stride).sum();
        let outer: usize = outer.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        let inner: usize = inner.iter().zip(&strides[axis + 1..]).map(|(at, stride)| at * stride).sum();
        outer + places[index] as usize * strides[axis] + inner
    }))
}

/// Joins tensors of one element type and of shapes that differ only along the axis.
pub fn concat(inputs: &[&Tensor], axis: usize) -> Mapped<Tensor> {
    let first = inputs[0];
    let mut shape = first.shape.clone();
    shape[axis] = inputs.iter().map(|input| input.shape[axis]).sum();
    if first.element.bits() == 4 {
        return Err("4-bit elements cannot be joined".into());
    }
    let outer: usize = shape[..axis].iter().product();
    let mut bytes = Vec::new();
    for row in 0..outer {
        for input in inputs {
            let length = input.bytes.len() / outer;
            bytes.extend_from_slice(&input.bytes[row * length..(row + 1) * length]);
        }
    }
    Ok(Tensor { element: first.element, shape, bytes: bytes.into() })
}

/// Keeps a triangle of each matrix, and puts zeros elsewhere.
pub fn triangular(input: &Tensor, upper: bool, diagonal: i64) -> Tensor {
    let [.., rows, columns] = input.shape[..] else { return input.clone() };
    let mut bytes = input.bytes.to_vec();
    for (place, element) in bytes.chunks_exact_mut(input.element.bits() / 8).enumerate() {
        let above = (place % columns) as i64 - (place / columns % rows) as i64;
        let is_kept = if upper { above >= diagonal } else { above <= diagonal };
        if !is_kept {
            element.fill(0);
        }
    }
    Tensor { element: input.element, shape: input.shape.clone(), bytes: bytes.into() }
}

/// A shape whose axes are reduced.
pub fn reduced_shape(shape: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let size = |(axis, &size): (usize, &usize)| match (axes.contains(&axis), keep) {
        (false, _) => Some(size),
        (true, true) => Some(1),
        (true, false) => None,
    };
    shape.iter().enumerate().filter_map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::element::ElementType;

    fn tensor(shape: &[usize]) -> Tensor {
        let numbers: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
        Tensor::from_integers(ElementType::Int32, shape.to_vec(), &numbers)
    }

    #[test]
    fn elements_move() {
        assert_eq!(transpose(&tensor(&[2, 3]), &[1, 0]).integers(), [0, 3, 1, 4, 2, 5]);
        assert_eq!(expand(&tensor(&[2, 1]), &[2, 2, 2]).integers(), [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(slice(&tensor(&[5]), &[(4, -2, 3)]).integers(), [4, 2, 0]);
        assert_eq!(slice(&tensor(&[5]), &[(0, 1, 0)]).shape, [0]);
        let indices = Tensor::int64s(&[-1, 0]);
        assert_eq!(gather(&tensor(&[2, 3]), &indices, 1).unwrap().integers(), [2, 0, 5, 3]);
        assert!(gather(&tensor(&[2, 3]), &Tensor::int64s(&[3]), 1).is_err());
        assert_eq!(concat(&[&tensor(&[2, 1]), &tensor(&[2, 2])], 1).unwrap().integers(), [0, 0, 1, 1, 2, 3]);
        assert_eq!(concat(&[&tensor(&[0]), &tensor(&[2])], 0).unwrap().integers(), [0, 1]);
        assert_eq!(triangular(&tensor(&[2, 2, 3]), true, 1).integers(), [0, 1, 2, 0, 0, 5, 0, 7, 8, 0, 0, 11]);
        assert_eq!(triangular(&tensor(&[2, 3]), false, i64::MIN).integers(), [0; 6]);
    }
}
