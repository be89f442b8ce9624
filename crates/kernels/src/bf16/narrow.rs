//! Matrices that lie in memory as bfloat16, two numbers in 32 bits as [pairs](super) of a row are: tiles of them from and to float32.
#![allow(unsafe_code)]

use super::rounding::{pair, widen};
use crate::gemm::microkernels::Microkernels;
use crate::isa::Loop;

/// Rows of an even number of columns, in float32 and in pairs.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    pub rows: usize,
    pub columns: usize,
    pub numbers: *mut f32,
    /// Numbers from a row to the next.
    pub stride: usize,
    pub pairs: *mut f32,
    /// Pairs from a row to the next.
    pub pairs_stride: usize,
}

impl Tile {
    /// Rounds the numbers to the pairs.
    ///
    /// # Safety
    /// All rows must be there, and nobody else may access the pairs, nor write the numbers.
    ///
    /// # Panics
    /// When the number of columns is odd.
    pub unsafe fn round(self, gemm: &Microkernels) {
        assert!(self.columns.is_multiple_of(2));
        #[cfg(target_arch = "x86_64")]
        if gemm.is_native_bf16() {
            // SAFETY: native microkernels of bfloat16 exist only where the CPU has the instructions; the rest is the caller's promise.
            return unsafe { x86::round(self) };
        }
        gemm.isa.run_loop(Round(self));
    }

    /// Makes numbers of the pairs.
    ///
    /// # Safety
    /// All rows must be there, and nobody else may access the numbers, nor write the pairs.
    ///
    /// # Panics
    /// When the number of columns is odd.
    pub unsafe fn widen(self, gemm: &Microkernels) {
        assert!(self.columns.is_multiple_of(2));
        #[cfg(target_arch = "x86_64")]
        if gemm.is_native_bf16() {
            // SAFETY: as above.
            return unsafe { x86::widen(self) };
        }
        gemm.isa.run_loop(Widen(self));
    }
}

struct Round(Tile);

impl Loop for Round {
    #[inline(always)]
    fn run(self) {
        let Tile { rows, columns, numbers, stride, pairs, pairs_stride } = self.0;
        for row in 0..rows {
            // SAFETY: the rows are there, by the promise at `Tile::round`, and so do these slices not overlap.
            let (numbers, pairs) = unsafe {
                let numbers = std::slice::from_raw_parts(numbers.add(row * stride), columns);
                (numbers, std::slice::from_raw_parts_mut(pairs.add(row * pairs_stride), columns / 2))
            };
            for (to, &[first, second]) in pairs.iter_mut().zip(numbers.as_chunks::<2>().0) {
                *to = pair(first, second);
            }
        }
    }
}

struct Widen(Tile);

impl Loop for Widen {
    #[inline(always)]
    fn run(self) {
        let Tile { rows, columns, numbers, stride, pairs, pairs_stride } = self.0;
        for row in 0..rows {
            // SAFETY: the rows are there, by the promise at `Tile::widen`, and so do these slices not overlap.
            let (numbers, pairs) = unsafe {
                let numbers = std::slice::from_raw_parts_mut(numbers.add(row * stride), columns);
                (numbers, std::slice::from_raw_parts(pairs.add(row * pairs_stride), columns / 2))
            };
            for (to, from) in numbers.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
                let bits = from.to_bits();
                *to = [widen(bits as u16), widen((bits >> 16) as u16)];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Tile;
    use std::arch::x86_64::*;

    /// Of so many 32-bit numbers of a register the first ones.
    fn first(count: usize) -> u16 {
        if count >= 16 { u16::MAX } else { (1u16 << count) - 1 }
    }

    /// # Safety
    /// The CPU must have AVX-512 with F and BF16; rows must be there.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub unsafe fn round(tile: Tile) {
        let Tile { rows, columns, numbers, stride, pairs, pairs_stride } = tile;
        for row in 0..rows {
            // SAFETY: rows lie inside of both, by the caller's promise; masks leave out what is behind the last column.
            unsafe {
                let (from, to) = (numbers.add(row * stride), pairs.add(row * pairs_stride));
                let mut k = 0;
                while k + 32 <= columns {
                    let both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(k + 16)), _mm512_loadu_ps(from.add(k)));
                    _mm512_storeu_si512(to.add(k / 2).cast(), std::mem::transmute::<__m512bh, __m512i>(both));
                    k += 32;
                }
                if k < columns {
                    let rest = columns - k;
                    let low = _mm512_maskz_loadu_ps(first(rest), from.add(k));
                    let high = _mm512_maskz_loadu_ps(first(rest.saturating_sub(16)), from.wrapping_add(k + 16));
                    let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
                    _mm512_mask_storeu_epi32(to.add(k / 2).cast(), first(rest / 2), both);
                }
            }
        }
    }

    /// # Safety
    /// The CPU must have AVX-512 with F, BW and BF16; rows must be there.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub unsafe fn widen(tile: Tile) {
        let Tile { rows, columns, numbers, stride, pairs, pairs_stride } = tile;
        for row in 0..rows {
            // SAFETY: rows lie inside of both, by the caller's promise; masks leave out what is behind the last column.
            unsafe {
                let (from, to) = (pairs.add(row * pairs_stride).cast::<i16>(), numbers.add(row * stride));
                let wide = |halves: __m256i| _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves));
                let mut k = 0;
                while k + 16 <= columns {
                    _mm512_storeu_si512(to.add(k).cast(), wide(_mm256_loadu_si256(from.add(k).cast())));
                    k += 16;
                }
                if k < columns {
                    let mask = first(columns - k);
                    // The pairs that exist: each is two of these numbers.
                    let halves = _mm512_maskz_loadu_epi32(first((columns - k) / 2), from.add(k).cast());
                    _mm512_mask_storeu_epi32(to.add(k).cast(), mask, wide(_mm512_castsi512_si256(halves)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16::available;
    use crate::testing::numbers;

    #[test]
    fn tiles_are_rounded_and_widened_as_numbers_are() {
        for gemm in available() {
            for (rows, columns) in [(1, 2), (3, 16), (2, 18), (5, 32), (4, 62), (7, 100)] {
                let (stride, pairs_stride) = (columns + 3, columns / 2 + 2);
                let mut from = numbers(rows * stride, 5);
                (from[0], from[1]) = (f32::NAN, f32::NEG_INFINITY);
                let mut pairs = vec![7.0; rows * pairs_stride];
                let tile = Tile { rows, columns, numbers: from.as_mut_ptr(), stride, pairs: pairs.as_mut_ptr(), pairs_stride };
                // SAFETY: both have these rows.
                unsafe { tile.round(gemm) };
                let mut back = vec![9.0; rows * stride];
                // SAFETY: as above.
                unsafe { Tile { numbers: back.as_mut_ptr(), ..tile }.widen(gemm) };
                for row in 0..rows {
                    let place = format!("{} {rows}x{columns}, row {row}", gemm.name);
                    for k in 0..columns {
                        let from = from[row * stride + k];
                        let rounded = pair(from, from).to_bits() as u16;
                        assert_eq!(back[row * stride + k].to_bits(), widen(rounded).to_bits(), "{place}, {k}");
                    }
                    assert_eq!(back[row * stride + columns..][..3], [9.0; 3], "{place}");
                    assert_eq!(pairs[row * pairs_stride + columns / 2..][..2], [7.0; 2], "{place}");
                }
            }
        }
    }
}
