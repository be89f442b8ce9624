//! Indices that must lie within sizes, looked at before the step that reads them.

use super::threads;
use super::view::View;
use crate::compiler::Check;
use crate::error::Result;
use crate::graph::DataType;
use crate::graph::ops::check::Outside;
use crate::looks::Looking;
use std::sync::atomic::{AtomicBool, Ordering};

/// Indices that are looked at at once: the threads share the pieces of longer lists.
const PIECE: usize = 1 << 14;

/// # Errors
/// `OperationError` with the first index that is outside.
pub fn check(check: &Check, indices: &View<'_>) -> Result<()> {
    let of = |sizes: &[u32], from_end: bool| match indices.data_type {
        DataType::Int8 => first(indices.elements::<i8>(), sizes, from_end),
        DataType::Uint8 => first(indices.elements::<u8>(), sizes, from_end),
        DataType::Int32 => first(indices.elements::<i32>(), sizes, from_end),
        DataType::Uint32 => first(indices.elements::<u32>(), sizes, from_end),
        DataType::Int64 => first(indices.elements::<i64>(), sizes, from_end),
        DataType::Uint64 => first(indices.elements::<u64>(), sizes, from_end),
        other => unreachable!("{other} is not a type of indices"),
    };
    match of(&check.op.sizes, check.op.from_end) {
        None => Ok(()),
        Some(outside) => Err(outside.error(&check.label, &check.shape, check.op.from_end)),
    }
}

/// An index in as many bits as one of them has.
trait Index: Copy + Sync + Into<i128> {
    /// Itself, or the greatest number where it is greater.
    fn wide(self) -> i64;
}

macro_rules! index {
    ($( $T:ty )*) => { $( impl Index for $T {
        #[inline(always)]
        fn wide(self) -> i64 {
            self.into()
        }
    } )* };
}

index! { i8 u8 i32 u32 i64 }

impl Index for u64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

/// The first index that is outside. Nearly always there is none, which a loop without branches says.
fn first<I: Index>(indices: &[I], sizes: &[u32], from_end: bool) -> Option<Outside> {
    let found = || crate::graph::ops::check::outside(indices.iter().copied().looking(2), sizes, from_end);
    let &[size] = sizes else { return found() };
    if indices.len() <= PIECE {
        return if are_within(indices, size, from_end) { None } else { found() };
    }
    let within = AtomicBool::new(true);
    threads::for_each_job(indices.len().div_ceil(PIECE), indices.len(), |number| {
        let piece = &indices[number * PIECE..];
        if !are_within(&piece[..piece.len().min(PIECE)], size, from_end) {
            within.store(false, Ordering::Relaxed);
        }
    });
    if within.into_inner() { None } else { found() }
}

fn are_within<I: Index>(indices: &[I], size: u32, from_end: bool) -> bool {
    let last = i64::from(size) - 1;
    // The sign says that one of them was outside.
    let signs = indices.iter().fold(0, |signs, index| {
        let index = index.wide();
        // -1 becomes 0, and so on.
        let distance = if from_end { index ^ (index >> 63) } else { index };
        signs | last.wrapping_sub(distance) | distance
    });
    signs >= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::check::outside;

    /// Against the definition, around all bounds.
    #[test]
    fn all_that_is_outside_is_found() {
        fn compare<I: Index + TryFrom<i128>>(near: &[i128]) {
            for size in [1, 6, 255, 256, 70_000, u32::MAX] {
                for from_end in [true, false] {
                    let around = near
                        .iter()
                        .flat_map(|x| [-2, -1, 0, 1].map(|d| x + d))
                        .chain([-2, -1, 0, 1].map(|d| i128::from(size) + d));
                    let around = around.chain([-2, -1, 0, 1].map(|d| d - i128::from(size)));
                    for index in around.filter_map(|x| I::try_from(x).ok()) {
                        let list = [I::try_from(0).ok().unwrap(), index];
                        assert_eq!(first(&list, &[size], from_end), outside(list, &[size], from_end), "{:?}", index.into());
                        let mut many = vec![list[0]; 3 * PIECE + 5];
                        many[2 * PIECE + 1] = index;
                        let found = first(&many, &[size], from_end);
                        assert_eq!(found.map(|found| found.position), outside(list, &[size], from_end).map(|_| 2 * PIECE + 1));
                    }
                }
            }
        }
        let near = [i8::MIN.into(), i8::MAX.into(), 0, u8::MAX.into(), i32::MIN.into(), i32::MAX.into(), u32::MAX.into()];
        let near = [near, [i64::MIN.into(), i64::MAX.into(), u64::MAX.into(), 1 << 40, -(1 << 40), 1 << 32, -(1 << 32)]].concat();
        compare::<i8>(&near);
        compare::<u8>(&near);
        compare::<i32>(&near);
        compare::<u32>(&near);
        compare::<i64>(&near);
        compare::<u64>(&near);
    }

    #[test]
    fn coordinates_have_sizes_of_their_own() {
        assert_eq!(first(&[1i32, 8, -2, -9], &[2, 9], true), None);
        assert_eq!(first(&[1i32, 8, 2, 0], &[2, 9], true), Some(Outside { position: 2, index: 2, size: 2 }));
    }
}
