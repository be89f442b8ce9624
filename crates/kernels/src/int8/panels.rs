//! Weights of 8 bits in the order in which the [microkernels](super::microkernels) read them: panels of columns, as many of two
//! vectors as there are, and one of one vector if that is enough for the rest.

use super::microkernels::{GROUP, Tiles, WIDEST};
use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;

/// One panel.
#[derive(Clone, Copy, Debug)]
pub struct Panel<'a> {
    pub first: usize,
    pub columns: usize,
    pub vectors: usize,
    pub weights: &'a [u8],
}

/// Bytes of the panels of so many runs of so many weights.
pub fn bytes(tiles: &Tiles, runs: usize, length: usize, columns: usize) -> usize {
    let height = (runs * length.next_multiple_of(GROUP)).next_multiple_of(tiles.depth()) * tiles.weight;
    height.checked_mul(columns.next_multiple_of(tiles.lanes)).expect("panels fit into the address space")
}

/// How many panels so many columns are.
pub fn count(tiles: &Tiles, columns: usize) -> usize {
    columns.div_ceil(WIDEST * tiles.lanes)
}

/// Panels in somebody's memory.
#[derive(Clone, Copy, Debug)]
pub struct PanelsView<'a> {
    pub columns: usize,
    lanes: usize,
    height: usize,
    bytes: &'a [u8],
}

impl<'a> PanelsView<'a> {
    pub fn new(tiles: &Tiles, columns: usize, bytes: &'a [u8]) -> PanelsView<'a> {
        let lanes = tiles.lanes;
        PanelsView { columns, lanes, height: bytes.len() / columns.next_multiple_of(lanes), bytes }
    }

    pub fn count(&self) -> usize {
        self.columns.div_ceil(WIDEST * self.lanes)
    }

    pub fn panel(&self, number: usize) -> Panel<'a> {
        let (first, columns, vectors) = place(self.columns, self.lanes, number);
        let weights = &self.bytes[first * self.height..][..vectors * self.lanes * self.height];
        Panel { first, columns, vectors, weights }
    }
}

/// First column, columns, and vectors of a panel of so many columns.
pub fn place(columns: usize, lanes: usize, number: usize) -> (usize, usize, usize) {
    let first = number * WIDEST * lanes;
    let columns = (columns - first).min(WIDEST * lanes);
    (first, columns, columns.div_ceil(lanes))
}

/// Packs a matrix of bytes, row after row, and adds up its columns.
pub struct PackMatrix<'a> {
    pub tiles: &'a Tiles,
    pub columns: usize,
    pub bytes: &'a [u8],
    /// Makes signed integers of the bytes.
    pub flip: u8,
    pub packed: &'a mut [u8],
    pub sums: &'a mut [i32],
    pub pauses: Pauses,
}

impl PackMatrix<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for PackMatrix<'_> {
    #[inline(always)]
    fn run(self) {
        let PackMatrix { tiles, columns, bytes, flip, packed, sums, pauses } = self;
        let together = GROUP / tiles.parts;
        let size = together * tiles.weight;
        let height = packed.len() / columns.next_multiple_of(tiles.lanes);
        let none = [0u8; 64];
        sums.fill(0);
        for number in 0..count(tiles, columns) {
            let (first, own, vectors) = place(columns, tiles.lanes, number);
            let width = vectors * tiles.lanes;
            let sums = &mut sums[first..first + own];
            let mut parts = packed[first * height..][..width * height].chunks_exact_mut(width * size);
            let all = pauses.whole_parts(parts.len(), 1, width * size);
            for some in all {
                for (part, packed) in some.zip(parts.by_ref()) {
                    // Rows that do not exist are zeros, when their bytes are flipped.
                    let row = |i: usize| {
                        let k = tiles.byte(part, i);
                        bytes.get(k * columns + first..k * columns + first + own)
                    };
                    let is_there = |i: usize| row(i).is_some();
                    let or_none = |i: usize| row(i).unwrap_or(&none[..own]);
                    let flips = |i: usize| if is_there(i) { flip } else { 0 };
                    for i in 0..together {
                        let (row, flip) = (or_none(i), flips(i));
                        for (sum, &byte) in sums.iter_mut().zip(row) {
                            *sum += i32::from((byte ^ flip) as i8);
                        }
                    }
                    match (together, tiles.weight) {
                        (4, 1) => {
                            let (a, b, c, d) = (or_none(0), or_none(1), or_none(2), or_none(3));
                            let flip = u32::from_le_bytes([flips(0), flips(1), flips(2), flips(3)]);
                            let (words, _) = packed.as_chunks_mut::<4>();
                            for ((((word, &a), &b), &c), &d) in words.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                                *word = (u32::from_le_bytes([a, b, c, d]) ^ flip).to_le_bytes();
                            }
                            words[own..].fill([0; 4]);
                        }
                        (2, 2) => {
                            let (a, b, flips) = (or_none(0), or_none(1), [flips(0), flips(1)]);
                            let (words, _) = packed.as_chunks_mut::<4>();
                            for ((word, &a), &b) in words.iter_mut().zip(a).zip(b) {
                                let [a, b] = [(a ^ flips[0]) as i8, (b ^ flips[1]) as i8].map(|byte| i16::from(byte) as u16);
                                *word = (u32::from(a) | u32::from(b) << 16).to_le_bytes();
                            }
                            words[own..].fill([0; 4]);
                        }
                        _ => {
                            let (a, flip) = (or_none(0), flips(0));
                            let (words, _) = packed.as_chunks_mut::<2>();
                            for (word, &a) in words.iter_mut().zip(a) {
                                *word = i16::from((a ^ flip) as i8).to_le_bytes();
                            }
                            words[own..].fill([0; 2]);
                        }
                    }
                }
            }
        }
    }
}
