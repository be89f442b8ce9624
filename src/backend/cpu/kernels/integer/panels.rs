//! Weights of 8 bits in the order in which the [microkernels](webnn_kernels::int8::microkernels) read them.

use super::tile::{GROUP, Tiles};
use crate::memory::Bytes;
use webnn_kernels::int8::panels::{PanelsView, bytes, count, place};

/// Panels of columns: as many of two vectors as there are, and one of one vector if that is enough for the rest.
#[derive(Debug)]
pub struct Panels {
    pub columns: usize,
    tiles: &'static Tiles,
    bytes: Bytes,
}

impl Panels {
    /// Packs weights for runs of so many bytes, and adds up each column; `places` has a number for each byte of each run, and
    /// `weight` says what stands at such a place in a column.
    ///
    /// # Panics
    /// When the memory cannot be had, which becomes an error of the build.
    pub fn pack(
        tiles: &'static Tiles,
        places: &[usize],
        length: usize,
        weight: impl Fn(usize, usize) -> i8,
        sums: &mut [i32],
    ) -> Panels {
        let (lanes, padded, columns) = (tiles.lanes, length.next_multiple_of(GROUP), sums.len());
        let runs = places.len() / length;
        let height = (runs * padded).next_multiple_of(tiles.depth) * tiles.weight;
        let bytes = Bytes::beside_others(bytes(tiles, runs, length, columns)).unwrap_or_else(|error| panic!("{error}"));
        let mut panels = Panels { columns, tiles, bytes };
        for number in 0..count(tiles, columns) {
            let (first, count, vectors) = place(columns, lanes, number);
            let width = vectors * lanes;
            let panel = &mut panels.bytes[first * height..][..width * height];
            let (together, size) = (GROUP / tiles.parts, GROUP / tiles.parts * tiles.weight);
            for (number, part) in panel.chunks_exact_mut(width * size).enumerate() {
                for (column, (weights, sum)) in (first..).zip(part.chunks_exact_mut(size).zip(&mut sums[first..first + count])) {
                    for i in 0..together {
                        let byte = tiles.byte(number, i);
                        let (run, byte) = (byte / padded, byte % padded);
                        if run >= runs || byte >= length {
                            continue;
                        }
                        let number = weight(places[run * length + byte], column);
                        *sum += i32::from(number);
                        match tiles.weight {
                            1 => weights[i] = number as u8,
                            _ => weights[2 * i..2 * i + 2].copy_from_slice(&i16::from(number).to_le_bytes()),
                        }
                    }
                }
            }
        }
        panels
    }

    pub fn view(&self) -> PanelsView<'_> {
        PanelsView::new(self.tiles, self.columns, &self.bytes)
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
