//! The numbers of rows of features: above those of tokens, and the same for the same features.

use crate::error::{Error, Kind, Result};
use crate::memory::Bytes;
use std::sync::{Arc, Weak};

/// Numbers from here on are rows of features.
pub(super) const FIRST: u32 = 1 << 31;
/// Images that are recognized when they come again.
const MOST: usize = 4096;

/// Frames, and the rows and columns of each: the axes of positions.
pub type Grid = [u32; 3];

#[derive(Debug, Default)]
pub struct Features {
    /// Rows that have a number.
    used: u32,
    /// In the order in which they were used.
    images: Vec<Image>,
    /// There are no more numbers: what has one may be something else by now.
    pub is_worn: bool,
}

/// What tells features from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// In whose place they are: the bits of the number.
    pub token: u32,
    pub rows: u32,
    pub grids: Vec<Grid>,
}

#[derive(Debug)]
struct Image {
    identity: u128,
    looks: Looks,
    first: u32,
    /// A call that runs has it.
    bytes: Weak<Bytes>,
}

impl Image {
    /// The row of a number, if it has it.
    fn row(&self, id: u32) -> Option<u32> {
        id.checked_sub(self.first).filter(|row| *row < self.looks.rows)
    }
}

fn missing() -> Error {
    Error::new(Kind::Operation, "no such features (internal error)")
}

impl Features {
    /// The number of the first row. The same features have the same, and calls at a time have their bytes once.
    pub fn number(&mut self, bytes: &mut Arc<Bytes>, looks: Looks) -> u32 {
        let identity = crate::memory::identity(bytes);
        let known = self.images.iter().position(|image| image.identity == identity && image.looks == looks);
        let mut image = match known {
            Some(position) => self.images.remove(position),
            None => {
                let rows = looks.rows;
                if self.used.checked_add(rows).is_none_or(|used| used >= FIRST) {
                    (self.used, self.is_worn) = (0, true);
                }
                let first = FIRST + self.used;
                self.used += rows;
                Image { identity, looks, first, bytes: Weak::new() }
            }
        };
        match image.bytes.upgrade() {
            Some(there) => *bytes = there,
            None => image.bytes = Arc::downgrade(bytes),
        }
        let first = image.first;
        if self.images.len() >= MOST {
            // Positions of those that a call has are asked for until it ends.
            let unused = self.images.iter().position(|image| image.bytes.strong_count() == 0);
            self.images.remove(unused.unwrap_or(0));
        }
        self.images.push(image);
        first
    }

    /// The latest, where numbers are used again.
    fn image(&self, id: u32) -> Result<(&Image, u32)> {
        self.images.iter().rev().find_map(|image| Some((image, image.row(id)?))).ok_or_else(missing)
    }

    /// The bytes of rows one after the other.
    pub fn rows(&self, ids: &[u32], row: usize) -> Result<Bytes> {
        let mut bytes = Bytes::zeroed(ids.len() * row)?;
        for (&id, into) in ids.iter().zip(bytes.chunks_exact_mut(row.max(1))) {
            let (image, number) = self.image(id)?;
            let all = image.bytes.upgrade().ok_or_else(missing)?;
            let first = number as usize * row;
            into.copy_from_slice(all.get(first..first + row).ok_or_else(missing)?);
        }
        Ok(bytes)
    }

    /// The bits of the tokens in whose place they are; those that are tokens themselves stay.
    pub fn tokens(&self, ids: &[u32]) -> Result<Vec<u32>> {
        let token = |&id: &u32| if id < FIRST { Ok(id) } else { self.image(id).map(|(image, _)| image.looks.token) };
        ids.iter().map(token).collect()
    }

    /// The positions of tokens behind others, on each axis. A token is one further than all before it on all axes. Rows of a grid are as far from
    /// where it begins as they are within it.
    pub fn positions(&self, before: &[u32], ids: &[u32]) -> Result<[Vec<i64>; 3]> {
        let mut axes = [const { Vec::new() }; 3];
        // Where the next one is, and where the grid begins that it is within.
        let (mut next, mut begin) = (0, 0);
        let mut last: Option<&Image> = None;
        for (place, &id) in before.iter().chain(ids).enumerate() {
            let mut position = [next; 3];
            if id < FIRST {
                next += 1;
            } else {
                let (image, row) = match last.and_then(|image| Some((image, image.row(id)?))) {
                    Some(found) => found,
                    None => self.image(id)?,
                };
                last = Some(image);
                let (grid, at) = within(&image.looks.grids, row).ok_or_else(missing)?;
                if at == [0; 3] {
                    begin = next;
                }
                position = at.map(|at| begin + i64::from(at));
                next = begin + i64::from(grid.into_iter().max().unwrap_or(0));
            }
            if place >= before.len() {
                axes.iter_mut().zip(position).for_each(|(axis, position)| axis.push(position));
            }
        }
        Ok(axes)
    }
}

/// The grid that a row is in, and where.
fn within(grids: &[Grid], row: u32) -> Option<(Grid, Grid)> {
    let mut row = u64::from(row);
    for &grid in grids {
        let [_, rows, columns] = grid.map(u64::from);
        let all = rows_of(grid);
        if row < all {
            return Some((grid, [row / (rows * columns), row / columns % rows, row % columns].map(|at| at as u32)));
        }
        row -= all;
    }
    None
}

/// How many rows of features a grid has. What is too many for any is beyond what numbers can be.
pub(super) fn rows_of(grid: Grid) -> u64 {
    grid.into_iter().fold(1, |all: u64, size| all.saturating_mul(size.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &[u8]) -> Arc<Bytes> {
        Arc::new(Bytes::copy_of(text).unwrap())
    }

    fn plain(rows: u32) -> Looks {
        Looks { token: 9, rows, grids: Vec::new() }
    }

    #[test]
    fn the_same_features_have_the_same_numbers() {
        let mut features = Features::default();
        let (mut one, mut other, mut same) = (bytes(b"abcdef"), bytes(b"ghi"), bytes(b"abcdef"));
        let numbers = [(&mut one, 2), (&mut other, 1), (&mut same, 2)].map(|(bytes, rows)| features.number(bytes, plain(rows)));
        assert_eq!(numbers, [FIRST, FIRST + 2, FIRST]);
        assert!(Arc::ptr_eq(&one, &same));
        drop(one);
        assert_eq!(features.rows(&[FIRST + 1, FIRST + 2, FIRST], 3).unwrap()[..], *b"defghiabc");
        assert!(features.rows(&[FIRST + 3], 3).is_err());
        // Nobody has them any more, and then again.
        drop(same);
        assert!(features.rows(&[FIRST], 3).is_err());
        assert_eq!(features.number(&mut bytes(b"abcdef"), plain(2)), FIRST);
    }

    #[test]
    fn features_that_mean_something_else_have_other_numbers() {
        let mut features = Features::default();
        let looks = [plain(2), Looks { token: 8, ..plain(2) }, Looks { grids: vec![[1, 1, 2]], ..plain(2) }];
        let numbers = looks.map(|looks| features.number(&mut bytes(b"abcdef"), looks));
        assert_eq!(numbers, [FIRST, FIRST + 2, FIRST + 4]);
        assert_eq!(features.tokens(&[FIRST + 1, 5, FIRST + 2]).unwrap(), [9, 5, 8]);
        assert!(features.tokens(&[FIRST + 6]).is_err());
    }

    #[test]
    fn numbers_end() {
        let mut features = Features { used: FIRST - 2, ..Features::default() };
        assert_eq!((features.number(&mut bytes(b"a"), plain(1)), features.is_worn), (u32::MAX - 1, false));
        assert_eq!((features.number(&mut bytes(b"b"), plain(1)), features.is_worn), (FIRST, true));
        let mut kept = bytes(b"kept");
        let number = features.number(&mut kept, Looks { grids: vec![[1, 1, 1]], ..plain(1) });
        for i in 0..MOST as u32 + 3 {
            features.number(&mut bytes(&i.to_le_bytes()), plain(1));
        }
        assert_eq!(features.images.len(), MOST);
        // A call has it.
        assert_eq!(features.positions(&[], &[number]).unwrap(), [[0], [0], [0]]);
    }

    #[test]
    fn grids_have_positions_of_three_axes() {
        let mut features = Features::default();
        let first = features.number(&mut bytes(b"x"), Looks { grids: vec![[1, 2, 3], [2, 1, 1]], ..plain(8) });
        // Two tokens, an image of 2 × 3, a token, a film of two frames, a token.
        let ids: Vec<u32> =
            [1, 2].into_iter().chain(first..first + 6).chain([3]).chain(first + 6..first + 8).chain([4]).collect();
        let wanted: [[i64; 12]; 3] =
            [[0, 1, 2, 2, 2, 2, 2, 2, 5, 6, 7, 8], [0, 1, 2, 2, 2, 3, 3, 3, 5, 6, 6, 8], [0, 1, 2, 3, 4, 2, 3, 4, 5, 6, 6, 8]];
        for before in 0..ids.len() {
            let found = features.positions(&ids[..before], &ids[before..]).unwrap();
            assert_eq!(found.map(|axis| axis), wanted.map(|axis| axis[before..].to_vec()), "{before}");
        }
        assert!(features.positions(&[], &[first + 8]).is_err());
    }
}
