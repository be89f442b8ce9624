//! Numbers that lie in memory as bfloat16: lines and tiles of them from and to float32. Two that follow each other are 32 bits, as
//! [pairs](super) of a row are.
#![allow(unsafe_code)]

use super::rounding::{pair, round, widen};
use crate::gemm::microkernels::Microkernels;
use crate::isa::{Isa, Loop};
use crate::simd::vector::Vector;
use std::ops::Range;

/// Numbers that lie in memory as float32 or as bfloat16.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    Float32(&'a [f32]),
    Bf16(&'a [u16]),
}

impl<'a> From<&'a [f32]> for Stored<'a> {
    fn from(numbers: &'a [f32]) -> Self {
        Stored::Float32(numbers)
    }
}

impl<'a> Stored<'a> {
    pub fn len(self) -> usize {
        match self {
            Stored::Float32(numbers) => numbers.len(),
            Stored::Bf16(bits) => bits.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// # Panics
    /// When there is none at this place.
    pub fn at(self, place: usize) -> f32 {
        match self {
            Stored::Float32(numbers) => numbers[place],
            Stored::Bf16(bits) => widen(bits[place]),
        }
    }

    /// Some of them.
    ///
    /// # Panics
    /// When they are not there.
    pub fn part(self, range: Range<usize>) -> Stored<'a> {
        match self {
            Stored::Float32(numbers) => Stored::Float32(&numbers[range]),
            Stored::Bf16(bits) => Stored::Bf16(&bits[range]),
        }
    }

    /// What lies as float32.
    ///
    /// # Panics
    /// When it lies as bfloat16.
    pub fn numbers(self) -> &'a [f32] {
        match self {
            Stored::Float32(numbers) => numbers,
            Stored::Bf16(_) => panic!("whoever reads float32 alone is not given bfloat16"),
        }
    }

    /// Copies all of them as float32.
    ///
    /// # Panics
    /// When there is not as much room.
    pub fn copy_to(self, isa: &Isa, to: &mut [f32]) {
        match self {
            Stored::Float32(numbers) => to.copy_from_slice(numbers),
            Stored::Bf16(bits) => {
                assert!(bits.len() == to.len());
                isa.run_loop(WidenLine(bits, to));
            }
        }
    }
}

/// A place in memory from which vectors of float32 are loaded.
pub(crate) trait Source: Copy {
    /// # Safety
    /// There must be as many numbers from number `first` on as a vector has.
    unsafe fn load<V: Vector>(self, first: usize) -> V;

    /// # Safety
    /// There must be `count` numbers from number `first` on, and no vector may have fewer.
    unsafe fn load_first<V: Vector>(self, first: usize, count: usize) -> V;
}

impl Source for *const f32 {
    #[inline(always)]
    unsafe fn load<V: Vector>(self, first: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(self.add(first)) }
    }

    #[inline(always)]
    unsafe fn load_first<V: Vector>(self, first: usize, count: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_first(self.add(first), count) }
    }
}

impl Source for *const u16 {
    #[inline(always)]
    unsafe fn load<V: Vector>(self, first: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_bits(self.add(first), V::LANES) }
    }

    #[inline(always)]
    unsafe fn load_first<V: Vector>(self, first: usize, count: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_bits(self.add(first), count) }
    }
}

/// A place in memory to which vectors of float32 are stored.
pub(crate) trait Sink: Copy {
    /// The place so many numbers after.
    fn after(self, numbers: usize) -> Self;

    /// # Safety
    /// There must be room for a vector.
    unsafe fn store<V: Vector>(self, vector: V);

    /// # Safety
    /// There must be room for `count` numbers, and no vector may have fewer.
    unsafe fn store_first<V: Vector>(self, vector: V, count: usize);
}

impl Sink for *mut f32 {
    #[inline(always)]
    fn after(self, numbers: usize) -> Self {
        self.wrapping_add(numbers)
    }

    #[inline(always)]
    unsafe fn store<V: Vector>(self, vector: V) {
        // SAFETY: the caller's promise.
        unsafe { vector.store(self) }
    }

    #[inline(always)]
    unsafe fn store_first<V: Vector>(self, vector: V, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { vector.store_first(self, count) }
    }
}

impl Sink for *mut u16 {
    #[inline(always)]
    fn after(self, numbers: usize) -> Self {
        self.wrapping_add(numbers)
    }

    #[inline(always)]
    unsafe fn store<V: Vector>(self, vector: V) {
        // SAFETY: the caller's promise.
        unsafe { vector.store_bits(self, V::LANES) }
    }

    #[inline(always)]
    unsafe fn store_first<V: Vector>(self, vector: V, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { vector.store_bits(self, count) }
    }
}

/// Rounds a line.
///
/// # Panics
/// When there is not as much room.
pub fn round_line(isa: &Isa, numbers: &[f32], to: &mut [u16]) {
    assert!(numbers.len() == to.len());
    #[cfg(target_arch = "x86_64")]
    if super::microkernels(isa).is_native_bf16() {
        // SAFETY: native microkernels of bfloat16 exist only where the CPU has the instructions; the lengths were asserted.
        return unsafe { x86::round_line(numbers, to) };
    }
    isa.run_loop(RoundLine(numbers, to));
}

struct RoundLine<'a>(&'a [f32], &'a mut [u16]);

impl Loop for RoundLine<'_> {
    #[inline(always)]
    fn run(self) {
        self.1.iter_mut().zip(self.0).for_each(|(to, from)| *to = round(*from));
    }
}

struct WidenLine<'a>(&'a [u16], &'a mut [f32]);

impl Loop for WidenLine<'_> {
    #[inline(always)]
    fn run(self) {
        self.1.iter_mut().zip(self.0).for_each(|(to, from)| *to = widen(*from));
    }
}

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
    /// The CPU must have AVX-512 with F, BW, VL and BF16, and both must have the same length.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub unsafe fn round_line(numbers: &[f32], to: &mut [u16]) {
        let bits = |numbers: __m512| -> __m256i {
            // SAFETY: both are 256 bits.
            unsafe { std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(numbers)) }
        };
        let (whole, rest) = numbers.as_chunks::<16>();
        let (to_whole, to_rest) = to.as_chunks_mut::<16>();
        for (to, from) in to_whole.iter_mut().zip(whole) {
            // SAFETY: both are 16 numbers.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), bits(_mm512_loadu_ps(from.as_ptr()))) };
        }
        let mask = first(rest.len());
        // SAFETY: the mask leaves out what is after the last number.
        unsafe { _mm256_mask_storeu_epi16(to_rest.as_mut_ptr().cast(), mask, bits(_mm512_maskz_loadu_ps(mask, rest.as_ptr()))) };
    }

    /// # Safety
    /// The CPU must have AVX-512 with F and BF16; rows must be there.
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub unsafe fn round(tile: Tile) {
        let Tile { rows, columns, numbers, stride, pairs, pairs_stride } = tile;
        for row in 0..rows {
            // SAFETY: rows lie inside of both, by the caller's promise; masks leave out what is after the last column.
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
            // SAFETY: rows lie inside of both, by the caller's promise; masks leave out what is after the last column.
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
    fn lines_are_rounded_and_widened_as_numbers_are() {
        for isa in Isa::available() {
            for length in [0, 1, 15, 16, 33, 100] {
                let mut from = numbers(length, 4);
                from.iter_mut().zip([f32::NAN, f32::NEG_INFINITY, 1e-40, f32::MAX, -0.0]).for_each(|(to, x)| *to = x);
                let mut bits = vec![7; length];
                round_line(isa, &from, &mut bits);
                assert_eq!(bits, from.iter().map(|x| round(*x)).collect::<Vec<_>>(), "{}", isa.name);
                let mut back = vec![9.0; length];
                Stored::Bf16(&bits).copy_to(isa, &mut back);
                assert!(back.iter().zip(&bits).all(|(x, bits)| x.to_bits() == widen(*bits).to_bits()), "{}", isa.name);
            }
        }
    }

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
