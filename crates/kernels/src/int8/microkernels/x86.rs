//! The tiles of the instruction sets of x86-64.
#![allow(unsafe_code)]

use super::*;
use std::arch::x86_64::*;

/// Vectors of sums: how many there are in one, parts of a group, bytes of a weight, the instructions for integers and for float32, and
/// what is done with a group's bytes.
macro_rules! sums {
    (
        $name:ident of $register:ty, $lanes:literal lanes, $parts:literal parts, $weight:literal bytes a weight,
        integers [$zero:ident, $load:ident, $store:ident, $set:ident, $add:ident, $sub:ident, $mul:ident],
        floats [$float:ident, $times:ident, $loadf:ident, $storef:ident],
        |$group:ident, $part:ident| $bytes:expr, |$sum:ident, $b:ident, $w:ident| $plus:expr
    ) => {
        #[derive(Clone, Copy)]
        struct $name($register);

        // SAFETY of all of its blocks: only the tiles below use the type, whose callers promise that the CPU has the
        // instructions; pointers are the caller's promise.
        impl Sums for $name {
            const LANES: usize = $lanes;
            const PARTS: usize = $parts;
            const WEIGHT: usize = $weight;
            type Weights = $register;
            type Group = $register;
            type Bytes = $register;

            #[inline(always)]
            fn zero() -> Self {
                // SAFETY: see above.
                $name(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn weights(from: *const u8) -> $register {
                // SAFETY: see above.
                unsafe { $load(from.cast()) }
            }

            #[inline(always)]
            unsafe fn group(from: *const u8) -> $register {
                // SAFETY: see above.
                unsafe { $set(from.cast::<i32>().read_unaligned()) }
            }

            #[inline(always)]
            #[allow(unused_unsafe, reason = "where there is one part, it is the group")]
            fn bytes($group: $register, $part: usize) -> $register {
                // SAFETY: see above.
                unsafe { $bytes }
            }

            #[inline(always)]
            fn plus(self, $b: $register, $w: $register) -> Self {
                let $sum = self.0;
                // SAFETY: see above.
                $name(unsafe { $plus })
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: see above.
                $name(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            unsafe fn load(from: *const i32) -> Self {
                // SAFETY: see above.
                $name(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            fn less(self, other: Self, times: i32) -> Self {
                // SAFETY: see above.
                $name(unsafe { $sub(self.0, $mul(other.0, $set(times))) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u32) {
                // SAFETY: see above.
                unsafe { $store(to.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn scale(self, factors: *const f32, to: *mut u32) {
                // SAFETY: see above.
                unsafe { $storef(to.cast(), $times($float(self.0), $loadf(factors))) }
            }
        }
    };
}

sums! {
    Quads of __m512i, 16 lanes, 1 parts, 1 bytes a weight,
    integers [_mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
        _mm512_add_epi32, _mm512_sub_epi32, _mm512_mullo_epi32],
    floats [_mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_loadu_ps, _mm512_storeu_ps],
    |group, _part| group,
    |sum, bytes, weights| _mm512_dpbusd_epi32(sum, bytes, weights)
}
sums! {
    Pairs16 of __m512i, 16 lanes, 2 parts, 2 bytes a weight,
    integers [_mm512_setzero_si512, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
        _mm512_add_epi32, _mm512_sub_epi32, _mm512_mullo_epi32],
    floats [_mm512_cvtepi32_ps, _mm512_mul_ps, _mm512_loadu_ps, _mm512_storeu_ps],
    |group, part| if part == 0 { _mm512_and_si512(group, _mm512_set1_epi16(0xff)) } else { _mm512_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm512_add_epi32(sum, _mm512_madd_epi16(bytes, weights))
}
sums! {
    Pairs8 of __m256i, 8 lanes, 2 parts, 2 bytes a weight,
    integers [_mm256_setzero_si256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32,
        _mm256_add_epi32, _mm256_sub_epi32, _mm256_mullo_epi32],
    floats [_mm256_cvtepi32_ps, _mm256_mul_ps, _mm256_loadu_ps, _mm256_storeu_ps],
    |group, part| if part == 0 { _mm256_and_si256(group, _mm256_set1_epi16(0xff)) } else { _mm256_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm256_add_epi32(sum, _mm256_madd_epi16(bytes, weights))
}
sums! {
    Pairs4 of __m128i, 4 lanes, 2 parts, 2 bytes a weight,
    integers [_mm_setzero_si128, _mm_loadu_si128, _mm_storeu_si128, _mm_set1_epi32,
        _mm_add_epi32, _mm_sub_epi32, multiply_low],
    floats [_mm_cvtepi32_ps, _mm_mul_ps, _mm_loadu_ps, _mm_storeu_ps],
    |group, part| if part == 0 { _mm_and_si128(group, _mm_set1_epi16(0xff)) } else { _mm_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm_add_epi32(sum, _mm_madd_epi16(bytes, weights))
}

tiles! { VNNI = isa::AVX512, vectors of Quads, compiled by avx512_vnni: "vnni" 12 x 2 }
tiles! { AVX512 = isa::AVX512, vectors of Pairs16, compiled by avx512: "avx512" 12 x 2 }
tiles! { AVX2 = isa::AVX2, vectors of Pairs8, compiled by avx2: "avx2" 5 x 2 }
// What every CPU of the architecture has.
tiles! { SSE2 = isa::PORTABLE, vectors of Pairs4, compiled by baseline: "sse2" 4 x 2 }

/// The low halves of products, for which SSE2 has no instruction.
///
/// # Safety
/// None: every CPU of the architecture has SSE2.
#[inline(always)]
unsafe fn multiply_low(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: every CPU of the architecture has the instructions.
    unsafe {
        let (even, odd) = (_mm_mul_epu32(a, b), _mm_mul_epu32(_mm_srli_epi64::<32>(a), _mm_srli_epi64::<32>(b)));
        let (even, odd) = (_mm_shuffle_epi32::<0b1000>(even), _mm_shuffle_epi32::<0b1000>(odd));
        _mm_unpacklo_epi32(even, odd)
    }
}
