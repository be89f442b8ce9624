//! Weights of 8 bits in the order in which the [tiles](super::tile) read them.

use super::tile::{GROUP, Tiles, WIDEST};
use crate::memory::Bytes;

/// Panels of columns: as many of two vectors as there are, and one of one vector if that is enough for the rest.
#[derive(Debug)]
pub struct Panels {
    pub columns: usize,
    lanes: usize,
    /// Bytes of a column of a panel.
    height: usize,
    bytes: Bytes,
}

/// One panel.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    pub first: usize,
    pub columns: usize,
    pub vectors: usize,
    pub weights: &'a [u8],
}

impl Panels {
    /// Packs weights for so many runs of so many bytes; `weight` says what stands at a byte of a run in a column.
    ///
    /// # Panics
    /// When the memory cannot be had, which becomes an error of the build.
    pub fn pack(tiles: &Tiles, runs: usize, length: usize, columns: usize, weight: impl Fn(usize, usize, usize) -> i8) -> Panels {
        let (lanes, padded) = (tiles.lanes, length.next_multiple_of(GROUP));
        let height = runs * padded * tiles.weight;
        let bytes = height.checked_mul(columns.next_multiple_of(lanes)).expect("panels fit into the address space");
        let bytes = Bytes::beside_others(bytes).unwrap_or_else(|error| panic!("{error}"));
        let mut panels = Panels { columns, lanes, height, bytes };
        for number in 0..panels.count() {
            let (first, count, vectors) = panels.place(number);
            let width = vectors * lanes;
            let panel = &mut panels.bytes[first * height..][..width * height];
            let groups = panel.chunks_exact_mut(width * tiles.group * tiles.weight);
            for (number, group) in groups.enumerate() {
                let first_byte = number * tiles.group;
                let (run, first_byte) = (first_byte / padded, first_byte % padded);
                for (column, weights) in group.chunks_exact_mut(tiles.group * tiles.weight).enumerate().take(count) {
                    for (i, place) in weights.chunks_exact_mut(tiles.weight).enumerate().take(length.saturating_sub(first_byte)) {
                        let number = i16::from(weight(run, first_byte + i, first + column));
                        place.copy_from_slice(&number.to_le_bytes()[..tiles.weight]);
                    }
                }
            }
        }
        panels
    }

    pub fn count(&self) -> usize {
        self.columns.div_ceil(WIDEST * self.lanes)
    }

    /// First column, columns, and vectors of a panel.
    fn place(&self, number: usize) -> (usize, usize, usize) {
        let first = number * WIDEST * self.lanes;
        let columns = (self.columns - first).min(WIDEST * self.lanes);
        (first, columns, columns.div_ceil(self.lanes))
    }

    pub fn panel(&self, number: usize) -> Panel<'_> {
        let (first, columns, vectors) = self.place(number);
        let weights = &self.bytes[first * self.height..][..vectors * self.lanes * self.height];
        Panel { first, columns, vectors, weights }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
