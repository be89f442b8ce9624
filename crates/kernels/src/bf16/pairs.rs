//! Bundles of pairs: they lie in memory and are added as float32 bundles are; what multiplies adds two products.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::vector::Array;
use crate::simd::vector_bundle::VectorBundle;

/// What takes pairs apart.
pub(crate) trait Halves: VectorBundle {
    /// The first numbers, as float32, and the second ones.
    fn first(self) -> Self;
    fn second(self) -> Self;
}

impl Halves for Array {
    #[inline(always)]
    fn first(self) -> Self {
        Array(self.0.map(|pair| f32::from_bits(pair.to_bits() << 16)))
    }

    #[inline(always)]
    fn second(self) -> Self {
        Array(self.0.map(|pair| f32::from_bits(pair.to_bits() & 0xffff_0000)))
    }
}

#[cfg(target_arch = "aarch64")]
impl Halves for Neon {
    #[inline(always)]
    fn first(self) -> Self {
        use std::arch::aarch64::*;
        // SAFETY: every CPU of the architecture has the instructions, and they access no memory.
        unsafe { Neon(vreinterpretq_f32_u32(vshlq_n_u32::<16>(vreinterpretq_u32_f32(self.0)))) }
    }

    #[inline(always)]
    fn second(self) -> Self {
        use std::arch::aarch64::*;
        // SAFETY: as above.
        unsafe { Neon(vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(self.0), vdupq_n_u32(0xffff_0000)))) }
    }
}

/// The bundle's own arithmetic on the two halves.
#[derive(Clone, Copy)]
pub struct Emulated<V>(V);

/// The bundle with what its instruction set has for pairs.
macro_rules! moves {
    ($type:ty, $of:ty, |$whole:ident| $inner:expr, $new:expr) => {
        type Numbers = *const f32;
        const LANES: usize = <$of>::LANES;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the caller's promise.
            $new(unsafe { <$of>::load(from) })
        }

        #[inline(always)]
        unsafe fn load_first(from: *const f32, count: usize) -> Self {
            // SAFETY: the caller's promise.
            $new(unsafe { <$of>::load_first(from, count) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            let $whole = self;
            // SAFETY: the caller's promise.
            unsafe { $inner.store(to) }
        }

        #[inline(always)]
        unsafe fn store_first(self, to: *mut f32, count: usize) {
            let $whole = self;
            // SAFETY: the caller's promise.
            unsafe { $inner.store_first(to, count) }
        }

        #[inline(always)]
        fn splat(number: f32) -> Self {
            $new(<$of>::splat(number))
        }

        #[inline(always)]
        unsafe fn numbers(from: *const f32) -> *const f32 {
            from
        }

        #[inline(always)]
        unsafe fn add_product<const NUMBER: i32>(self, numbers: *const f32, factors: Self) -> Self {
            // SAFETY: one of the four, by the caller's promise.
            Self::splat(unsafe { *numbers.add(NUMBER as usize) }).mul_add(factors, self)
        }

        /// Of sums, as what follows.
        #[inline(always)]
        fn add(self, other: Self) -> Self {
            let inner = |$whole: Self| $inner;
            $new(inner(self).add(inner(other)))
        }

        #[inline(always)]
        fn max(self, low: Self) -> Self {
            let inner = |$whole: Self| $inner;
            $new(inner(self).max(inner(low)))
        }

        #[inline(always)]
        fn min(self, high: Self) -> Self {
            let inner = |$whole: Self| $inner;
            $new(inner(self).min(inner(high)))
        }
    };
}

impl<V: Halves> VectorBundle for Emulated<V> {
    moves!(Self, V, |whole| whole.0, Emulated);
    const OF_PAIRS: bool = true;

    #[inline(always)]
    fn mul_add(self, factor: Self, sum: Self) -> Self {
        let sum = self.0.second().mul_add(factor.0.second(), sum.0);
        Emulated(self.0.first().mul_add(factor.0.first(), sum))
    }
}

#[cfg(target_arch = "aarch64")]
pub mod arm {
    use crate::simd::neon::Neon;
    use crate::simd::vector_bundle::VectorBundle;
    use std::arch::aarch64::*;
    use std::arch::asm;

    /// Whether this processor has BFDOT and BFMMLA.
    pub fn is_there() -> bool {
        std::arch::is_aarch64_feature_detected!("bf16")
    }

    /// With BFDOT, which adds the products of two pairs to each of four sums.
    #[derive(Clone, Copy)]
    pub struct NeonBf16(Neon);

    impl VectorBundle for NeonBf16 {
        moves!(Self, Neon, |whole| whole.0, NeonBf16);
        const OF_PAIRS: bool = true;

        #[inline(always)]
        fn mul_add(self, factor: Self, sum: Self) -> Self {
            let mut sum = sum.0.0;
            // SAFETY: the type is used only in microkernels that exist where the CPU has the instruction; registers alone are accessed.
            unsafe {
                asm!(".arch_extension bf16", "bfdot {sum:v}.4s, {left:v}.8h, {right:v}.8h", sum = inout(vreg) sum,
                    left = in(vreg) self.0.0, right = in(vreg) factor.0.0, options(pure, nomem, nostack, preserves_flags));
            }
            NeonBf16(Neon(sum))
        }
    }

    /// Adds to the sums [c00, c01, c10, c11] the products of two rows of four numbers and of two columns of four.
    ///
    /// # Safety
    /// The CPU must have the instruction.
    #[inline(always)]
    pub unsafe fn multiply(mut sums: float32x4_t, rows: uint32x4_t, columns: uint32x4_t) -> float32x4_t {
        // SAFETY: the caller's promise; registers alone are accessed.
        unsafe {
            asm!(".arch_extension bf16", "bfmmla {sums:v}.4s, {rows:v}.8h, {columns:v}.8h", sums = inout(vreg) sums,
                rows = in(vreg) rows, columns = in(vreg) columns, options(pure, nomem, nostack, preserves_flags));
        }
        sums
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::Halves;
    use crate::simd::vector::x86::{Avx2, Avx512};
    use crate::simd::vector_bundle::VectorBundle;
    use std::arch::x86_64::*;

    impl Halves for Avx2 {
        #[inline(always)]
        fn first(self) -> Self {
            // SAFETY: the type exists only where its instructions do.
            unsafe { Avx2(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(self.0)))) }
        }

        #[inline(always)]
        fn second(self) -> Self {
            // SAFETY: as above.
            unsafe { Avx2(_mm256_and_ps(self.0, _mm256_castsi256_ps(_mm256_set1_epi32(0xffff_0000_u32 as i32)))) }
        }
    }

    impl Halves for Avx512 {
        #[inline(always)]
        fn first(self) -> Self {
            // SAFETY: the type exists only where its instructions do.
            unsafe { Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_castps_si512(self.0)))) }
        }

        #[inline(always)]
        fn second(self) -> Self {
            // SAFETY: as above.
            unsafe { Avx512(_mm512_and_ps(self.0, _mm512_castsi512_ps(_mm512_set1_epi32(0xffff_0000_u32 as i32)))) }
        }
    }

    /// With AVX512_BF16.
    #[derive(Clone, Copy)]
    pub struct Avx512Bf16(Avx512);

    impl VectorBundle for Avx512Bf16 {
        moves!(Self, Avx512, |whole| whole.0, Avx512Bf16);
        const OF_PAIRS: bool = true;

        #[inline(always)]
        unsafe fn load_bits(from: *const u16, count: usize) -> Self {
            // SAFETY: the caller's promise; the type is used only where its instructions are.
            unsafe {
                let bits = match count {
                    16.. => _mm256_loadu_si256(from.cast()),
                    _ => _mm256_maskz_loadu_epi16((1u16 << count) - 1, from.cast()),
                };
                Avx512Bf16(Avx512(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))))
            }
        }

        #[inline(always)]
        unsafe fn store_bits(self, to: *mut u16, count: usize) {
            // SAFETY: as above.
            unsafe {
                let bits = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(self.0.0));
                match count {
                    16.. => _mm256_storeu_si256(to.cast(), bits),
                    _ => _mm256_mask_storeu_epi16(to.cast(), (1u16 << count) - 1, bits),
                }
            }
        }

        #[inline(always)]
        fn mul_add(self, factor: Self, sum: Self) -> Self {
            // SAFETY: the type is used only in microkernels that exist where the CPU has the instruction.
            unsafe {
                let [left, right] = [self, factor].map(|pairs| std::mem::transmute::<__m512, __m512bh>(pairs.0.0));
                Avx512Bf16(Avx512(_mm512_dpbf16_ps(sum.0.0, left, right)))
            }
        }
    }
}
