//! Panels as float32 numbers, for products of many rows.
#![allow(unsafe_code)]

use super::float32::{number, scales, zeros};
use super::{INTEGERS, Weights};
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// Expands a panel of the usual set of tiles for [products](crate::gemm) of float32, which is as wide as two of these panels: so many
/// numbers for each step in depth.
pub struct Unpack<'a> {
    pub weights: Weights<'a>,
    /// Of those panels.
    pub panel: usize,
    pub to: &'a mut [f32],
    pub pauses: Pauses,
}

impl Unpack<'_> {
    /// Runs it with an instruction set.
    ///
    /// # Panics
    /// When the weights were packed for another one, or there is no room.
    pub fn compute(self, isa: &Isa) {
        let format = self.weights.format;
        assert!(!format.is_int8 && format.lanes == isa.gemm.lanes && isa.gemm.vectors == 2);
        assert!(self.to.len() >= format.depth * isa.gemm.columns && 2 * self.panel < format.panels());
        if 2 * format.padded_depth() > self.pauses.every { self.of_bits::<true>(isa) } else { self.of_bits::<false>(isa) }
    }

    fn of_bits<const LONG: bool>(self, isa: &Isa) {
        match (self.weights.format.bits, self.weights.code_book) {
            (4, Some(_)) => with_vectors(isa, Of::<LONG, 4, true>(self)),
            (2, _) => with_vectors(isa, Of::<LONG, 2, false>(self)),
            (4, _) => with_vectors(isa, Of::<LONG, 4, false>(self)),
            (8, _) => with_vectors(isa, Of::<LONG, 8, false>(self)),
            (bits, _) => {
                assert_eq!(bits, 16);
                with_vectors(isa, Of::<LONG, 16, false>(self));
            }
        }
    }
}

/// With pauses if it is LONG.
struct Of<'a, const LONG: bool, const BITS: usize, const BOOK: bool>(Unpack<'a>);

impl<const LONG: bool, const BITS: usize, const BOOK: bool> OnVectors for Of<'_, LONG, BITS, BOOK> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Unpack { weights, panel, to, pauses } = self.0;
        // The loops of others are those without parts.
        let pauses = if LONG { pauses } else { Pauses::NONE };
        let format = weights.format;
        let table = weights.code_book.unwrap_or(&INTEGERS);
        let words_of_block = pauses.whole_parts(format.words(), 1, 32 / BITS);
        for half in 0..2 {
            let panel = 2 * panel + half;
            if panel >= format.panels() {
                for row in to.chunks_exact_mut(2 * V::LANES).take(format.depth) {
                    row[V::LANES..].fill(0.0);
                }
                break;
            }
            let together = format.together(panel);
            let (mut at, first) = (weights.words_of(panel), format.place(panel, format.blocks()));
            for some in pauses.whole_parts(format.blocks(), 1, format.padded) {
                for block in some {
                    let place = first + block * together;
                    let (scale, zero) = (scales::<V>(&weights, place), zeros::<V>(&weights, place));
                    let end = format.block.min(format.depth - block * format.block);
                    for some in words_of_block.clone() {
                        for word in some {
                            let here = at;
                            at = here.wrapping_add(together * V::LANES);
                            for i in 0..32 / BITS {
                                let k = word * (32 / BITS) + i;
                                // SAFETY: a panel has so many words of all lanes for each block (`Weights::new`).
                                let number = unsafe { number::<V, BITS, BOOK>(here, i, table) };
                                let number = zero.map_or(number, |zero| number.sub(zero)).mul(scale);
                                if k < end {
                                    let place = (block * format.block + k) * 2 * V::LANES + half * V::LANES;
                                    // SAFETY: there is room for a vector.
                                    unsafe { number.store(to[place..][..V::LANES].as_mut_ptr()) };
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
