//! Numbers of a few bits, several in each lane of a [vector](super::vector).
#![allow(unsafe_code)]

use crate::functions::{float16_bits, from_float16};
use crate::simd::vector::Array;

pub trait Fields: Sized {
    /// Whether [`Fields::looked_up`] is one instruction, or nearly.
    const HAS_TABLE: bool;

    /// The integer in two's complement of so many bits, the lowest of which is number `at`, of each lane.
    fn signed_field(self, at: u32, bits: u32) -> Self;

    /// The entry of a table whose number are the four bits from number `at` on, for each lane.
    fn looked_up(self, at: u32, table: &[f32; 16]) -> Self;

    /// Loads float16 numbers.
    ///
    /// # Safety
    /// There must be as many at `from` as there are lanes.
    unsafe fn load_float16(from: *const u16) -> Self;

    /// Stores the nearest float16 numbers, the even ones of two, infinities where there are none so great.
    ///
    /// # Safety
    /// There must be room for as many at `to` as there are lanes.
    unsafe fn store_float16(self, to: *mut u16);
}

impl Fields for Array {
    const HAS_TABLE: bool = false;

    #[inline(always)]
    fn signed_field(self, at: u32, bits: u32) -> Self {
        Array(self.0.map(|lane| ((lane.to_bits() << (32 - bits - at)) as i32 >> (32 - bits)) as f32))
    }

    #[inline(always)]
    fn looked_up(self, at: u32, table: &[f32; 16]) -> Self {
        Array(self.0.map(|lane| table[(lane.to_bits() >> at & 15) as usize]))
    }

    #[inline(always)]
    unsafe fn load_float16(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        Array(std::array::from_fn(|i| from_float16(unsafe { *from.add(i) })))
    }

    #[inline(always)]
    unsafe fn store_float16(self, to: *mut u16) {
        for (i, lane) in self.0.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *to.add(i) = float16_bits(lane) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Fields;
    use crate::simd::vector::x86::{Avx2, Avx512};
    use std::arch::x86_64::*;

    impl Fields for Avx2 {
        const HAS_TABLE: bool = false;

        #[inline(always)]
        fn signed_field(self, at: u32, bits: u32) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe {
                let up = _mm256_sll_epi32(_mm256_castps_si256(self.0), _mm_cvtsi32_si128((32 - bits - at) as i32));
                _mm256_cvtepi32_ps(_mm256_sra_epi32(up, _mm_cvtsi32_si128((32 - bits) as i32)))
            })
        }

        #[inline(always)]
        fn looked_up(self, at: u32, table: &[f32; 16]) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); a table has two vectors.
            Avx2(unsafe {
                let places = _mm256_srl_epi32(_mm256_castps_si256(self.0), _mm_cvtsi32_si128(at as i32));
                let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), places);
                let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr().add(8)), places);
                // The sign says which one.
                _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(places)))
            })
        }

        #[inline(always)]
        unsafe fn load_float16(from: *const u16) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the numbers are the caller's promise.
            Avx2(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
        }

        #[inline(always)]
        unsafe fn store_float16(self, to: *mut u16) {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the room is the caller's promise.
            unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
        }
    }

    impl Fields for Avx512 {
        const HAS_TABLE: bool = true;

        #[inline(always)]
        fn signed_field(self, at: u32, bits: u32) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe {
                let up = _mm512_sll_epi32(_mm512_castps_si512(self.0), _mm_cvtsi32_si128((32 - bits - at) as i32));
                _mm512_cvtepi32_ps(_mm512_sra_epi32(up, _mm_cvtsi32_si128((32 - bits) as i32)))
            })
        }

        #[inline(always)]
        fn looked_up(self, at: u32, table: &[f32; 16]) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); a table is one vector.
            Avx512(unsafe {
                let places = _mm512_srl_epi32(_mm512_castps_si512(self.0), _mm_cvtsi32_si128(at as i32));
                _mm512_permutexvar_ps(places, _mm512_loadu_ps(table.as_ptr()))
            })
        }

        #[inline(always)]
        unsafe fn load_float16(from: *const u16) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the numbers are the caller's promise.
            Avx512(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
        }

        #[inline(always)]
        unsafe fn store_float16(self, to: *mut u16) {
            const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the room is the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<NEAREST>(self.0)) }
        }
    }
}
