//! Weights of 8 bits in the order in which the [microkernels](webnn_kernels::int8::microkernels) read them.

use crate::backend::cpu::packings::{Packed, packed};
use crate::looks::Looking;
use std::sync::Arc;
use webnn_kernels::int8::microkernels::{GROUP, Tiles};
use webnn_kernels::int8::panels::{PanelsView, bytes, count, place};

/// Panels of columns: as many of two vectors as there are, and one of one vector if that is enough for the rest.
#[derive(Debug)]
pub struct Panels {
    pub columns: usize,
    tiles: &'static Tiles,
    /// The weights, so many bytes, and after them the sum of each column.
    packed: Arc<Packed>,
    weights: usize,
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
        let columns = sums.len();
        let weights = bytes(tiles, places.len() / length, length, columns);
        let mut layout = vec![tiles.lanes, tiles.depth(), tiles.weight, tiles.parts, length, columns];
        layout.extend(places);
        let packed = packed(&layout, weights + size_of_val(sums), |packed| {
            let (panels, packed_sums) = packed.split_at_mut(weights);
            let mut sums = vec![0i32; sums.len()];
            fill(tiles, places, length, weight, panels, &mut sums);
            packed_sums.copy_from_slice(bytemuck::cast_slice(&sums));
        });
        for (sum, bytes) in sums.iter_mut().zip(packed[weights..].chunks_exact(size_of::<i32>())) {
            *sum += i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Panels { columns, tiles, packed, weights }
    }

    pub fn view(&self) -> PanelsView<'_> {
        PanelsView::new(self.tiles, self.columns, &self.packed[..self.weights])
    }

    pub fn bytes(&self) -> usize {
        self.packed.len()
    }
}

/// Writes the panels, and adds up their columns.
fn fill(
    tiles: &Tiles,
    places: &[usize],
    length: usize,
    weight: impl Fn(usize, usize) -> i8,
    panels: &mut [u8],
    sums: &mut [i32],
) {
    let (lanes, padded, columns) = (tiles.lanes, length.next_multiple_of(GROUP), sums.len());
    let runs = places.len() / length;
    let height = (runs * padded).next_multiple_of(tiles.depth()) * tiles.weight;
    for number in 0..count(tiles, columns) {
        let (first, count, vectors) = place(columns, lanes, number);
        let width = vectors * lanes;
        let panel = &mut panels[first * height..][..width * height];
        let (together, size) = (GROUP / tiles.parts, GROUP / tiles.parts * tiles.weight);
        for (number, part) in panel.chunks_exact_mut(width * size).enumerate().looking(width * size) {
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
}
