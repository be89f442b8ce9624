//! The tiles of the instruction sets of x86-64.
#![allow(unsafe_code)]

use super::{GROUP, Sums, Task, Tiles, tile};
use std::arch::x86_64::*;

macro_rules! sums {
    ($name:ident, $tiles:ident, $tile:ident, $label:literal, $features:literal, $rows:tt, $register:ty, $lanes:literal, $parts:literal, $weight:literal,
     $zero:ident, $load:ident, $add:ident, $store:ident, $sub:ident, $mul:ident, $set:ident, $float:ident, $times:ident, $loadf:ident, $storef:ident, |$from:ident| $set_group:expr, |$group:ident, $part:ident| $bytes:expr, |$sum:ident, $b:ident, $w:ident| $plus:expr) => {
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
            unsafe fn group($from: *const u8) -> $register {
                // SAFETY: see above.
                unsafe { $set_group }
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

        /// # Safety
        /// See [`super::Tile`].
        #[target_feature(enable = $features)]
        unsafe fn $tile<const ROWS: usize, const VECTORS: usize>(task: &Task) {
            // SAFETY: the caller's promise.
            unsafe { tile::<$name, ROWS, VECTORS>(task) }
        }

        pub static $tiles: Tiles = Tiles {
            name: $label,
            rows: $rows,
            step: 1,
            lanes: $lanes,
            parts: $parts,
            weight: $weight,
            depth: GROUP,
    tiles: tiles!($rows: $tile),
        };
    };
}

sums!(
    Quads,
    VNNI,
    vnni,
    "vnni",
    "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2",
    12,
    __m512i,
    16,
    1,
    1,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_add_epi32,
    _mm512_storeu_si512,
    _mm512_sub_epi32,
    _mm512_mullo_epi32,
    _mm512_set1_epi32,
    _mm512_cvtepi32_ps,
    _mm512_mul_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    |from| _mm512_set1_epi32(from.cast::<i32>().read_unaligned()),
    |group, _part| group,
    |sum, bytes, weights| _mm512_dpbusd_epi32(sum, bytes, weights)
);
sums!(
    Pairs16,
    AVX512,
    avx512,
    "avx512",
    "avx512f,avx512vl,avx512dq,avx512bw,avx2",
    12,
    __m512i,
    16,
    2,
    2,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_add_epi32,
    _mm512_storeu_si512,
    _mm512_sub_epi32,
    _mm512_mullo_epi32,
    _mm512_set1_epi32,
    _mm512_cvtepi32_ps,
    _mm512_mul_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    |from| _mm512_set1_epi32(from.cast::<i32>().read_unaligned()),
    |group, part| if part == 0 { _mm512_and_si512(group, _mm512_set1_epi16(0xff)) } else { _mm512_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm512_add_epi32(sum, _mm512_madd_epi16(bytes, weights))
);
sums!(
    Pairs8,
    AVX2,
    avx2,
    "avx2",
    "avx2",
    5,
    __m256i,
    8,
    2,
    2,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_add_epi32,
    _mm256_storeu_si256,
    _mm256_sub_epi32,
    _mm256_mullo_epi32,
    _mm256_set1_epi32,
    _mm256_cvtepi32_ps,
    _mm256_mul_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    |from| _mm256_set1_epi32(from.cast::<i32>().read_unaligned()),
    |group, part| if part == 0 { _mm256_and_si256(group, _mm256_set1_epi16(0xff)) } else { _mm256_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm256_add_epi32(sum, _mm256_madd_epi16(bytes, weights))
);
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

// What every CPU of the architecture has.
sums!(
    Pairs4,
    SSE2,
    sse2,
    "sse2",
    "sse2",
    4,
    __m128i,
    4,
    2,
    2,
    _mm_setzero_si128,
    _mm_loadu_si128,
    _mm_add_epi32,
    _mm_storeu_si128,
    _mm_sub_epi32,
    multiply_low,
    _mm_set1_epi32,
    _mm_cvtepi32_ps,
    _mm_mul_ps,
    _mm_loadu_ps,
    _mm_storeu_ps,
    |from| _mm_set1_epi32(from.cast::<i32>().read_unaligned()),
    |group, part| if part == 0 { _mm_and_si128(group, _mm_set1_epi16(0xff)) } else { _mm_srli_epi16::<8>(group) },
    |sum, bytes, weights| _mm_add_epi32(sum, _mm_madd_epi16(bytes, weights))
);
