//! Rules about shapes that several families share.

use super::Shape;
use super::descriptor::{Dimensions, is_valid_dimension};
use crate::error::{Error, Result};

/// *Unidirectionally broadcast*, `#algorithms-broadcasting`: whether `from` can be stretched to `to`.
pub fn unidirectionally_broadcastable(from: &[u32], to: &[u32]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(&from, &to)| from == to || from == 1)
}

/// *Bidirectionally broadcast*, `#algorithms-broadcasting`.
pub fn bidirectionally_broadcast(a: &[u32], b: &[u32]) -> Option<Shape> {
    let rank = a.len().max(b.len());
    let size = |shape: &[u32], i: usize| if i + shape.len() < rank { 1 } else { shape[i + shape.len() - rank] };
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

/// *Blockwise broadcast*, `#algorithms-broadcasting`: same rank, and each size divides the other's.
pub fn blockwise_broadcastable(from: &[u32], to: &[u32]) -> bool {
    from.len() == to.len() && from.iter().zip(to).all(|(&from, &to)| from != 0 && to % from == 0)
}

/// The distance from one element to the next along each dimension of a dense tensor.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// The shapes of two operands, broadcast to each other.
pub fn broadcast(a: (&str, &[u32]), b: (&str, &[u32])) -> Result<Shape> {
    bidirectionally_broadcast(a.1, b.1).ok_or_else(|| {
        Error::argument(
            &format!("{} and {}", a.0, b.0),
            format!("the shapes {} and {}", Dimensions(a.1), Dimensions(b.1)),
            "shapes that can be broadcast to each other",
        )
    })
}

/// Checks that an axis is below the rank.
pub fn check_axis(argument: &str, axis: u32, rank: usize) -> Result<()> {
    if (axis as usize) < rank {
        return Ok(());
    }
    Err(Error::argument(argument, axis, format!("an axis of an operand of rank {rank}")))
}

/// Checks that axes are below the rank and that none is there twice.
pub fn check_axes(argument: &str, axes: &[u32], rank: usize) -> Result<()> {
    for (i, &axis) in axes.iter().enumerate() {
        check_axis(argument, axis, rank)?;
        if axes[..i].contains(&axis) {
            return Err(Error::argument(argument, format!("{axis} twice in {}", Dimensions(axes)), "each axis once"));
        }
    }
    Ok(())
}

/// *Calculate reduction output sizes*, `#api-mlgraphbuilder-reduce`. Without a list of axes, all are reduced.
pub fn reduced(shape: &[u32], axes: Option<&[u32]>, keep_dimensions: bool) -> Result<Shape> {
    if let Some(axes) = axes {
        check_axes("axes", axes, shape.len())?;
    }
    let is_reduced = |axis: usize| axes.is_none_or(|axes| axes.contains(&(axis as u32)));
    let sizes = shape.iter().enumerate().filter_map(|(axis, &size)| match is_reduced(axis) {
        false => Some(size),
        true => keep_dimensions.then_some(1),
    });
    Ok(sizes.collect())
}

/// Checks that a shape is exactly that.
pub fn check_shape(argument: &str, found: &[u32], allowed: &[u32]) -> Result<()> {
    if found == allowed {
        return Ok(());
    }
    Err(Error::argument(argument, format!("shape {}", Dimensions(found)), format!("shape {}", Dimensions(allowed))))
}

/// Checks the length of a list.
pub fn check_length(argument: &str, found: usize, allowed: usize) -> Result<()> {
    if found == allowed {
        return Ok(());
    }
    Err(Error::argument(argument, format!("a list of length {found}"), format!("a list of length {allowed}")))
}

/// Checks that a size that was computed is a *valid dimension*, `#valid-dimension`.
pub fn check_dimension(argument: &str, size: u64) -> Result<u32> {
    if is_valid_dimension(size) {
        return Ok(size as u32);
    }
    Err(Error::argument(argument, format!("a dimension of {size}"), "1 to 2147483647"))
}

/// Checks that a number of operands is a *valid tensor count*, `#valid-tensor-count`.
pub fn check_tensor_count(argument: &str, count: usize) -> Result<()> {
    if (1..=8192).contains(&count) {
        return Ok(());
    }
    Err(Error::argument(argument, format!("{count} operands"), "1 to 8192"))
}

/// Checks a list of strides, dilations or sizes, none of which may be 0.
pub fn check_positive(argument: &str, list: &[u32]) -> Result<()> {
    if list.contains(&0) {
        return Err(Error::argument(argument, Dimensions(list), "numbers greater than 0"));
    }
    Ok(())
}

/// How many positions a sliding window has along one axis (*calculate conv output size*,
/// `#mlgraphbuilder-calculate-conv-output-size`), rounded both ways; nothing where that is not a valid dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCount {
    pub floor: Option<u32>,
    pub ceil: Option<u32>,
}

/// *Calculate conv output size*. The stride must not be 0.
pub fn window_count(input: u32, window: u32, padding: (u32, u32), stride: u32, dilation: u32) -> WindowCount {
    let effective_window = (window as i128 - 1) * dilation as i128 + 1;
    let room = input as i128 - effective_window + padding.0 as i128 + padding.1 as i128;
    let stride = stride as i128;
    let valid = |size: i128| u64::try_from(size).ok().filter(|&size| is_valid_dimension(size)).map(|size| size as u32);
    WindowCount { floor: valid(room.div_euclid(stride) + 1), ceil: valid(1 - (-room).div_euclid(stride)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting() {
        assert_eq!(bidirectionally_broadcast(&[2, 1, 3], &[4, 1]).as_deref(), Some(&[2, 4, 3][..]));
        assert_eq!(bidirectionally_broadcast(&[], &[4, 1]).as_deref(), Some(&[4, 1][..]));
        assert_eq!(bidirectionally_broadcast(&[2], &[3]), None);
        assert!(unidirectionally_broadcastable(&[1, 3], &[5, 2, 3]));
        assert!(!unidirectionally_broadcastable(&[2, 3], &[3]));
        assert!(blockwise_broadcastable(&[2, 1], &[4, 3]));
        assert!(!blockwise_broadcastable(&[3], &[4]));
    }

    #[test]
    fn windows_are_counted_exactly() {
        let count = |input, window, padding, stride, dilation| {
            let count = window_count(input, window, padding, stride, dilation);
            (count.floor, count.ceil)
        };
        assert_eq!(count(5, 3, (0, 0), 1, 1), (Some(3), Some(3)));
        assert_eq!(count(5, 3, (1, 0), 2, 1), (Some(2), Some(3)));
        assert_eq!(count(5, 3, (0, 0), 1, 2), (Some(1), Some(1)));
        // (5 - 6) / 2 + 1 is a half, (5 - 7) / 2 + 1 nothing, and below that it is negative.
        assert_eq!(count(5, 6, (0, 0), 2, 1), (None, Some(1)));
        assert_eq!(count(5, 7, (0, 0), 2, 1), (None, None));
        assert_eq!(count(5, 100, (0, 0), 2, 1), (None, None));
        assert_eq!(count(1, u32::MAX, (u32::MAX, u32::MAX), 3, u32::MAX), (None, None));
        assert_eq!(count(1, 1, (u32::MAX, u32::MAX), 1, u32::MAX), (None, None));
        assert_eq!(count(1, 1, (u32::MAX, u32::MAX), u32::MAX, 1), (Some(3), Some(3)));
    }
}
