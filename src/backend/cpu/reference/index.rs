//! Indices as gather and scatter read them.

use crate::backend::cpu::view::View;
use crate::graph::DataType;

/// Indices into dimensions, of the types that an operand of indices may have.
#[derive(Clone, Copy)]
pub enum Indices<'a> {
    Int32(&'a [i32]),
    Uint32(&'a [u32]),
    Int64(&'a [i64]),
}

impl<'a> Indices<'a> {
    pub fn new(view: View<'a>) -> Self {
        match view.data_type {
            DataType::Int32 => Indices::Int32(view.elements()),
            DataType::Uint32 => Indices::Uint32(view.elements()),
            DataType::Int64 => Indices::Int64(view.elements()),
            other => unreachable!("{other} is not a type of indices"),
        }
    }

    /// The index at that position, made one into a dimension of that size: a negative one counts from the end, and what
    /// is out of range is clamped to it.
    pub fn at(self, position: usize, size: usize) -> usize {
        valid(self.wide(position), size)
    }

    /// The same, or nothing where `CHECKED` and out of range.
    pub fn index<const CHECKED: bool>(self, position: usize, size: usize) -> Option<usize> {
        index_of::<CHECKED>(self.wide(position), size)
    }

    fn wide(self, position: usize) -> i64 {
        match self {
            Indices::Int32(indices) => indices[position] as i64,
            Indices::Uint32(indices) => indices[position] as i64,
            Indices::Int64(indices) => indices[position],
        }
    }

    /// The number, in row-major order, of the place in the first dimensions of a shape which coordinate number
    /// `coordinate` names; there are as many dimensions as a coordinate has indices.
    pub fn place(self, coordinate: usize, dimensions: &[usize]) -> usize {
        let place = match self {
            Indices::Int32(indices) => place_of::<false, _>(indices, coordinate, dimensions),
            Indices::Uint32(indices) => place_of::<false, _>(indices, coordinate, dimensions),
            Indices::Int64(indices) => place_of::<false, _>(indices, coordinate, dimensions),
        };
        place.expect("what is clamped has a place")
    }
}

/// See [`Indices::place`]; nothing where `CHECKED` and an index is out of range.
#[inline]
pub fn place_of<const CHECKED: bool, I: Copy + Into<i64>>(
    indices: &[I],
    coordinate: usize,
    dimensions: &[usize],
) -> Option<usize> {
    let indices = &indices[coordinate * dimensions.len()..][..dimensions.len()];
    let mut place = 0;
    for (&index, &size) in indices.iter().zip(dimensions) {
        place = place * size + index_of::<CHECKED>(index.into(), size)?;
    }
    Some(place)
}

/// An index made one into a dimension of that size, see [`Indices::at`].
#[inline]
pub fn valid(index: i64, size: usize) -> usize {
    let size = size as i64;
    let from_start = if index < 0 { index.saturating_add(size) } else { index };
    from_start.clamp(0, size - 1) as usize
}

/// An index made one into a dimension of that size, see [`Indices::at`], or nothing where `CHECKED` and out of range.
#[inline]
pub fn index_of<const CHECKED: bool>(index: i64, size: usize) -> Option<usize> {
    if !CHECKED {
        return Some(valid(index, size));
    }
    // One that is negative afterwards is greater than all sizes as a number without a sign.
    let from_start = if index < 0 { index.wrapping_add(size as i64) } else { index };
    let place = from_start as u64 as usize;
    (place < size).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_made_valid() {
        let int32 = [i32::MIN, -5, -4, -1, 0, 3, 4, i32::MAX];
        let found: Vec<_> = (0..8).map(|i| Indices::Int32(&int32).at(i, 4)).collect();
        assert_eq!(found, [0, 0, 0, 3, 0, 3, 3, 3]);
        let int64 = [i64::MIN, -2, i64::MAX];
        assert_eq!((0..3).map(|i| Indices::Int64(&int64).at(i, 4)).collect::<Vec<_>>(), [0, 2, 3]);
        let found: Vec<_> = (0..8).map(|i| Indices::Int32(&int32).index::<true>(i, 4)).collect();
        assert_eq!(found, [None, None, Some(0), Some(3), Some(0), Some(3), None, None]);
        assert_eq!((0..3).map(|i| Indices::Int64(&int64).index::<true>(i, 4)).collect::<Vec<_>>(), [None, Some(2), None]);
        let uint32 = [2, u32::MAX];
        assert_eq!((0..2).map(|i| Indices::Uint32(&uint32).index::<true>(i, 4)).collect::<Vec<_>>(), [Some(2), None]);
        assert_eq!((0..2).map(|i| Indices::Uint32(&uint32).at(i, 4)).collect::<Vec<_>>(), [2, 3]);
    }
}
