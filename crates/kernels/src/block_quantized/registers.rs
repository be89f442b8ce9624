//! Registers of 32-bit integers whose bytes are multiplied.
#![allow(unsafe_code)]

use crate::isa::{Isa, Level};
use crate::simd::vector::{Array, Vector};
use smallvec::{SmallVec, smallvec};

/// A vector of 32-bit integers. Like [vectors](crate::simd::vector) they exist only where the CPU has the instructions, and all
/// functions are `#[inline(always)]`.
pub trait Integers: Copy {
    /// As many float32 numbers.
    type Numbers: Vector;

    /// What [`Integers::plus_signed_products`] takes codes for, beyond what they are.
    const RAISED: i32;

    /// # Safety
    /// There must be a vector at `from`.
    unsafe fn load(from: *const f32) -> Self;

    fn splat(number: i32) -> Self;

    /// Without a sign.
    fn shifted_right(self, by: u32) -> Self;

    fn and(self, other: Self) -> Self;

    /// The sums with the products of each lane's four bytes, of codes below 16 and bytes with a sign.
    fn plus_products(self, codes: Self, bytes: Self) -> Self;

    /// The same of codes with a sign; no byte is -128.
    fn plus_signed_products(self, codes: Self, bytes: Self) -> Self;

    fn numbers(self) -> Self::Numbers;
}

/// Work on vectors of integers. `run` must be `#[inline(always)]`.
pub trait OnIntegers {
    fn run<I: Integers>(self);
}

/// Which instructions multiply bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Instructions {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Instructions {
    /// All that this CPU has within an instruction set, the best first.
    pub fn all_of(isa: &Isa) -> SmallVec<[Instructions; 2]> {
        match isa.level {
            Level::Portable => smallvec![Instructions::Portable],
            #[cfg(target_arch = "aarch64")]
            Level::Neon => smallvec![Instructions::Neon],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => smallvec![Instructions::Avx2],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if is_x86_feature_detected!("avx512vnni") => smallvec![Instructions::Vnni, Instructions::Avx512],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => smallvec![Instructions::Avx512],
        }
    }

    /// Runs work with them.
    ///
    /// # Panics
    /// When the instruction set does not have them.
    #[inline(always)]
    pub(super) fn run(self, isa: &Isa, work: impl OnIntegers) {
        match (self, isa.level) {
            (Instructions::Portable, _) => work.run::<Words>(),
            #[cfg(target_arch = "aarch64")]
            (Instructions::Neon, Level::Neon) => work.run::<arm::Words>(),
            // SAFETY: an `Isa` exists only when the CPU has its instructions.
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx2, Level::Avx2) => unsafe { x86::run_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            (Instructions::Avx512, Level::Avx512) => unsafe { x86::run_avx512(work) },
            #[cfg(target_arch = "x86_64")]
            (Instructions::Vnni, Level::Avx512) => {
                assert!(is_x86_feature_detected!("avx512vnni"));
                // SAFETY: as above, and as asserted.
                unsafe { x86::run_vnni(work) }
            }
            #[allow(unreachable_patterns, reason = "some architectures have one only")]
            other => unreachable!("{other:?}"),
        }
    }
}

/// What the compiler makes of a short array.
#[derive(Clone, Copy)]
struct Words([i32; 4]);

impl Integers for Words {
    type Numbers = Array;
    const RAISED: i32 = 0;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Words(unsafe { from.cast::<[i32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    fn splat(number: i32) -> Self {
        Words([number; 4])
    }

    #[inline(always)]
    fn shifted_right(self, by: u32) -> Self {
        Words(self.0.map(|word| (word as u32 >> by) as i32))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Words(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    #[inline(always)]
    fn plus_products(self, codes: Self, bytes: Self) -> Self {
        // Codes below 16 are the same with a sign.
        self.plus_signed_products(codes, bytes)
    }

    #[inline(always)]
    fn plus_signed_products(self, codes: Self, bytes: Self) -> Self {
        Words(std::array::from_fn(|i| {
            let (codes, bytes) = (codes.0[i].to_le_bytes(), bytes.0[i].to_le_bytes());
            let products = (0..4).map(|j| i32::from(codes[j] as i8) * i32::from(bytes[j] as i8));
            self.0[i].wrapping_add(products.sum::<i32>())
        }))
    }

    #[inline(always)]
    fn numbers(self) -> Array {
        Array(self.0.map(|sum| sum as f32))
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Integers;
    use crate::simd::neon::Neon;
    use std::arch::aarch64::*;

    #[derive(Clone, Copy)]
    pub struct Words(int32x4_t);

    impl Integers for Words {
        type Numbers = Neon;
        const RAISED: i32 = 0;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the caller's promise.
            Words(unsafe { vld1q_s32(from.cast()) })
        }

        #[inline(always)]
        fn splat(number: i32) -> Self {
            // SAFETY: every CPU of the architecture has the instruction.
            Words(unsafe { vdupq_n_s32(number) })
        }

        #[inline(always)]
        fn shifted_right(self, by: u32) -> Self {
            // SAFETY: every CPU of the architecture has the instructions.
            Words(unsafe { vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(self.0), vdupq_n_s32(-(by as i32)))) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: every CPU of the architecture has the instruction.
            Words(unsafe { vandq_s32(self.0, other.0) })
        }

        #[inline(always)]
        fn plus_products(self, codes: Self, bytes: Self) -> Self {
            self.plus_signed_products(codes, bytes)
        }

        #[inline(always)]
        fn plus_signed_products(self, codes: Self, bytes: Self) -> Self {
            // SAFETY: every CPU of the architecture has the instructions.
            Words(unsafe {
                let (codes, bytes) = (vreinterpretq_s8_s32(codes.0), vreinterpretq_s8_s32(bytes.0));
                let low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(bytes)));
                let high = vpaddlq_s16(vmull_high_s8(codes, bytes));
                vaddq_s32(self.0, vpaddq_s32(low, high))
            })
        }

        #[inline(always)]
        fn numbers(self) -> Neon {
            // SAFETY: every CPU of the architecture has the instruction.
            Neon(unsafe { vcvtq_f32_s32(self.0) })
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Integers, OnIntegers};
    use crate::simd::vector::x86::{Avx2, Avx512};
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU must have AVX2, FMA and F16C.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn run_avx2(work: impl OnIntegers) {
        work.run::<Words8>();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ and BW.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub unsafe fn run_avx512(work: impl OnIntegers) {
        work.run::<Words16>();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ, BW and VNNI.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")]
    pub unsafe fn run_vnni(work: impl OnIntegers) {
        work.run::<Vnni>();
    }

    macro_rules! integers {
        ($name:ident, $register:ty, $numbers:ident, $raised:literal, $load:ident, $set:ident, $shift:ident, $and:ident, $convert:ident,
         |$sum:ident, $codes:ident, $bytes:ident| $products:expr, $signed:expr) => {
            #[derive(Clone, Copy)]
            struct $name($register);

            impl Integers for $name {
                type Numbers = $numbers;
                const RAISED: i32 = $raised;

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the memory is the caller's promise; the type is used only where its instructions are.
                    $name(unsafe { $load(from.cast()) })
                }

                #[inline(always)]
                fn splat(number: i32) -> Self {
                    // SAFETY: the type is used only where its instructions are.
                    $name(unsafe { $set(number) })
                }

                #[inline(always)]
                fn shifted_right(self, by: u32) -> Self {
                    // SAFETY: the type is used only where its instructions are.
                    $name(unsafe { $shift(self.0, _mm_cvtsi32_si128(by as i32)) })
                }

                #[inline(always)]
                fn and(self, other: Self) -> Self {
                    // SAFETY: the type is used only where its instructions are.
                    $name(unsafe { $and(self.0, other.0) })
                }

                #[inline(always)]
                fn plus_products(self, codes: Self, bytes: Self) -> Self {
                    let ($sum, $codes, $bytes) = (self.0, codes.0, bytes.0);
                    // SAFETY: the type is used only where its instructions are.
                    $name(unsafe { $products })
                }

                #[inline(always)]
                fn plus_signed_products(self, codes: Self, bytes: Self) -> Self {
                    let ($sum, $codes, $bytes) = (self.0, codes.0, bytes.0);
                    // SAFETY: the type is used only where its instructions are.
                    $name(unsafe { $signed })
                }

                #[inline(always)]
                fn numbers(self) -> $numbers {
                    // SAFETY: the type is used only where its instructions are.
                    $numbers(unsafe { $convert(self.0) })
                }
            }
        };
    }

    // Two products of bytes are added up in 16 bits: of codes below 16 at most 2 * 15 * 128, of those with a sign, whose
    // magnitudes are multiplied with bytes of the other's sign, at most 2 * 128 * 127, so that nothing saturates.
    integers!(
        Words8,
        __m256i,
        Avx2,
        0,
        _mm256_loadu_si256,
        _mm256_set1_epi32,
        _mm256_srl_epi32,
        _mm256_and_si256,
        _mm256_cvtepi32_ps,
        |sum, codes, bytes| _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, bytes), _mm256_set1_epi16(1))),
        {
            let bytes = _mm256_sign_epi8(bytes, codes);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(codes), bytes);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        }
    );
    integers!(
        Words16,
        __m512i,
        Avx512,
        0,
        _mm512_loadu_si512,
        _mm512_set1_epi32,
        _mm512_srl_epi32,
        _mm512_and_si512,
        _mm512_cvtepi32_ps,
        |sum, codes, bytes| _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(codes, bytes), _mm512_set1_epi16(1))),
        {
            let bytes = _mm512_mask_sub_epi8(bytes, _mm512_movepi8_mask(codes), _mm512_setzero_si512(), bytes);
            let pairs = _mm512_maddubs_epi16(_mm512_abs_epi8(codes), bytes);
            _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
        }
    );
    integers!(
        Vnni,
        __m512i,
        Avx512,
        128,
        _mm512_loadu_si512,
        _mm512_set1_epi32,
        _mm512_srl_epi32,
        _mm512_and_si512,
        _mm512_cvtepi32_ps,
        |sum, codes, bytes| _mm512_dpbusd_epi32(sum, codes, bytes),
        _mm512_dpbusd_epi32(sum, _mm512_xor_si512(codes, _mm512_set1_epi8(-128)), bytes)
    );
}
