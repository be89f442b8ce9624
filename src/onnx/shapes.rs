//! Shapes as ONNX's operators compute them. Sizes may be 0 here.

use super::node::{axes, axis};
use super::refusal::Mapped;

/// The shape of two values that are broadcast to each other.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[usize], i: usize| if i + shape.len() < rank { 1 } else { shape[i + shape.len() - rank] };
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

/// Reshape's: -1 stands for what is left, 0 for the input's size unless `allow_zero`.
pub fn reshape(shape: &[usize], wanted: &[i64], allow_zero: bool) -> Mapped<Vec<usize>> {
    let fail = || format!("the shape {shape:?} cannot become {wanted:?}").into();
    let mut target = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &size) in wanted.iter().enumerate() {
        target.push(match size {
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            0 if !allow_zero => *shape.get(i).ok_or_else(fail)?,
            size => usize::try_from(size).map_err(|_| fail())?,
        });
    }
    let count: usize = shape.iter().product();
    let product = target.iter().try_fold(1usize, |product, &size| product.checked_mul(size)).ok_or_else(fail)?;
    if let Some(open) = open {
        if product == 0 || !count.is_multiple_of(product) {
            return Err(fail());
        }
        target[open] = count / product;
        return Ok(target);
    }
    if product == count { Ok(target) } else { Err(fail()) }
}

/// Flatten's: everything before the axis, and everything from it on.
pub fn flatten(shape: &[usize], at: i64) -> Mapped<Vec<usize>> {
    // The axis may be the rank.
    let at = if at == shape.len() as i64 { shape.len() } else { axis(at, shape.len())? };
    Ok(vec![shape[..at].iter().product(), shape[at..].iter().product()])
}

pub fn unsqueeze(shape: &[usize], list: &[i64]) -> Mapped<Vec<usize>> {
    let rank = shape.len() + list.len();
    let axes = axes(list, rank)?;
    let mut sizes = shape.iter();
    (0..rank)
        .map(|axis| match axes.contains(&axis) {
            true => Ok(1),
            false => sizes.next().copied().ok_or_else(|| "axes".into()),
        })
        .collect()
}

/// Squeeze's: without axes, all of size 1 are left out.
pub fn squeeze(shape: &[usize], list: Option<&[i64]>) -> Mapped<Vec<usize>> {
    let axes = match list {
        Some(list) => axes(list, shape.len())?,
        None => (0..shape.len()).filter(|&axis| shape[axis] == 1).collect(),
    };
    if let Some(axis) = axes.iter().find(|&&axis| shape[axis] != 1) {
        return Err(format!("dimension {axis} of {shape:?} is not 1").into());
    }
    Ok((0..shape.len()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect())
}

/// An end that stands for that of the dimension, as 32-bit exporters write it.
const OPEN_END_32: i64 = i32::MAX as i64;

/// Slice's: for each dimension its start, its step, and how many elements are taken.
pub fn slice(
    shape: &[usize],
    starts: &[i64],
    ends: &[i64],
    at: Option<&[i64]>,
    steps: Option<&[i64]>,
) -> Mapped<Vec<(i64, i64, usize)>> {
    let given = starts.len();
    if ends.len() != given || at.is_some_and(|at| at.len() != given) || steps.is_some_and(|steps| steps.len() != given) {
        return Err("starts, ends, axes and steps of different lengths".into());
    }
    let axes = match at {
        Some(at) => axes(at, shape.len())?,
        None if given <= shape.len() => (0..given).collect(),
        None => return Err(format!("{given} starts of a value of rank {}", shape.len()).into()),
    };
    let mut ranges: Vec<(i64, i64, usize)> = shape.iter().map(|&size| (0, 1, size)).collect();
    for (i, axis) in axes.into_iter().enumerate() {
        let size = shape[axis] as i64;
        let step = steps.map_or(1, |steps| steps[i]);
        if step == 0 || step == i64::MIN {
            return Err(format!("a step of {step}").into());
        }
        let counted = |place: i64| if place < 0 { place.saturating_add(size) } else { place };
        let (start, end) = (counted(starts[i]), counted(ends[i]));
        let (start, span) = if step > 0 {
            let start = start.clamp(0, size);
            (start, end.clamp(0, size) - start)
        } else {
            // Of nothing the start is -1, the same as the end.
            let start = start.max(0).min(size - 1);
            // After the last element there is nothing to take backwards; onnxruntime reads these two as "all that is left".
            let is_open = matches!(ends[i], i64::MAX | OPEN_END_32);
            (start, start - if is_open { -1 } else { end.clamp(-1, size - 1) })
        };
        let count = if span <= 0 { 0 } else { (span - 1) / step.abs() + 1 };
        ranges[axis] = (start, step, count as usize);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshaping() {
        assert_eq!(reshape(&[2, 3, 4], &[0, -1], false).unwrap(), [2, 12]);
        assert_eq!(reshape(&[2, 0], &[0, 2], true).unwrap(), [0, 2]);
        assert_eq!(reshape(&[], &[1, -1], false).unwrap(), [1, 1]);
        for wanted in [&[-1, -1][..], &[5], &[-2], &[0, 0, 0, 0], &[i64::MAX, i64::MAX], &[-1, 5]] {
            assert!(reshape(&[2, 3, 4], wanted, false).is_err(), "{wanted:?}");
        }
        assert!(reshape(&[0], &[0, -1], true).is_err());
        assert_eq!(flatten(&[2, 3, 4], 3).unwrap(), [24, 1]);
        assert_eq!(flatten(&[2, 3, 4], -1).unwrap(), [6, 4]);
        assert!(flatten(&[2], 2).is_err());
        assert_eq!(unsqueeze(&[2, 3], &[0, -1]).unwrap(), [1, 2, 3, 1]);
        assert!(unsqueeze(&[2], &[0, 0]).is_err());
        assert!(unsqueeze(&[2], &[2]).is_err());
        assert_eq!(squeeze(&[1, 2, 1], None).unwrap(), [2]);
        assert_eq!(squeeze(&[1, 2, 1], Some(&[-1])).unwrap(), [1, 2]);
        assert!(squeeze(&[1, 2, 1], Some(&[1])).is_err());
    }

    #[test]
    fn slicing() {
        let slice = |start, end, step| slice(&[5], &[start], &[end], None, Some(&[step])).map(|ranges| ranges[0]);
        assert_eq!(slice(1, i64::MAX, 1).unwrap(), (1, 1, 4));
        assert_eq!(slice(-2, i64::MAX, 2).unwrap(), (3, 2, 1));
        assert_eq!(slice(-1, i64::MIN, -1).unwrap(), (4, -1, 5));
        assert_eq!(slice(i64::MAX, 0, -2).unwrap(), (4, -2, 2));
        assert_eq!(slice(3, 3, 1).unwrap(), (3, 1, 0));
        // ONNX keeps the start within the dimension, where Python takes nothing.
        assert_eq!(slice(-9, i64::MIN, -1).unwrap(), (0, -1, 1));
        assert_eq!(slice(3, i64::MAX, -1).unwrap(), (3, -1, 4));
        assert_eq!(slice(3, i32::MAX.into(), -2).unwrap(), (3, -2, 2));
        assert_eq!(slice(3, i64::MAX - 1, -1).unwrap().2, 0);
        assert_eq!(super::slice(&[0], &[-1], &[-9], None, Some(&[-1])).unwrap(), [(-1, -1, 0)]);
        assert_eq!(slice(i64::MIN, i64::MAX, i64::MAX).unwrap(), (0, i64::MAX, 1));
        assert!(slice(0, 1, 0).is_err());
        assert!(slice(0, 1, i64::MIN).is_err());
        assert!(super::slice(&[5], &[0, 0], &[1, 1], None, None).is_err());
    }
}
