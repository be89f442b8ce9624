//! Rules about shapes that several families share.

use super::Shape;
use super::descriptor::{Sizes, is_valid_dimension};
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

/// The shapes of two operands, broadcast to each other.
pub fn broadcast(a: (&str, &[u32]), b: (&str, &[u32])) -> Result<Shape> {
    bidirectionally_broadcast(a.1, b.1).ok_or_else(|| {
        Error::argument(
            &format!("{} and {}", a.0, b.0),
            format!("the shapes {} and {}", Sizes(a.1), Sizes(b.1)),
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
            return Err(Error::argument(argument, format!("{axis} twice in {}", Sizes(axes)), "each axis once"));
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
    Err(Error::argument(argument, format!("shape {}", Sizes(found)), format!("shape {}", Sizes(allowed))))
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
}
