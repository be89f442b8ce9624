//! What [vectors](super::vector) do to the parts of numbers: signs, exponents, choices between two numbers.
#![allow(unsafe_code)]

use crate::simd::vector::Array;

pub trait Bits: Sized {
    /// `then` where a number is below `limit`, `otherwise` where it is not, or where one of the two is not a number.
    fn if_below(self, limit: Self, then: Self, otherwise: Self) -> Self;

    fn abs(self) -> Self;

    fn negated(self) -> Self;

    /// The bits that both have.
    fn and(self, other: Self) -> Self;

    /// The number with the sign of another.
    fn with_sign(self, other: Self) -> Self;

    /// The nearest integer of a number below 2²² in magnitude; the even one of two.
    fn nearest(self) -> Self;

    /// The greatest integer that is not above the number, the smallest that is not below it, the nearest one, the even one of
    /// two. They have the number's sign; infinities, and what is not a number, stay.
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn round_even(self) -> Self;

    /// The number times two to the power of `n`, integers from -250 to 130 (whose halves are exponents of normal numbers). The
    /// product is rounded once, unless the number is much smaller than 1 and the product is no normal number.
    fn times_two_to_the(self, n: Self) -> Self;

    /// The same where the number and the result are normal ones, or where number and `n` are not numbers.
    fn raised(self, n: Self) -> Self;

    /// Whether a number of any lane is below the one of `limits` there.
    fn any_below(self, limits: Self) -> bool;

    /// The numbers whose bits are the nearest integers to these numbers, the even ones of two, from 0 to 2²³: as many times 2⁻¹⁴⁹.
    fn least_numbers(self) -> Self;

    /// Of positive normal numbers: a factor between √½ and √2, and the power of two that it is times.
    fn parts(self) -> (Self, Self);

    /// The nearest float16 number, the even one of two; infinity where there is none so great.
    fn float16(self) -> Self;

    /// The integers of `count` bytes, SIGNED or not; the other lanes may have any numbers.
    ///
    /// # Safety
    /// There must be `count` bytes at `from`, at most as many as there are numbers.
    unsafe fn load_bytes<const SIGNED: bool>(from: *const u8, count: usize) -> Self;

    /// Stores the low bytes of the nearest integers, the even ones of two, with another one added; 0 for what is not a number.
    /// Numbers are below 2²² in magnitude.
    ///
    /// # Safety
    /// There must be room for `count` bytes at `to`, at most as many as there are numbers.
    unsafe fn store_bytes(self, more: i32, to: *mut u8, count: usize);
}

/// Adding this leaves no bits for a fraction, and an integer in the low bits.
const ROUND: f32 = 12_582_912.0;

/// Numbers from here on are integers. One that is added to them leaves no bits for a fraction of a smaller number.
const WHOLE: f32 = 8_388_608.0;

/// The nearest integer, the even one of two. (The function of the standard library is a call where there is no instruction.)
#[inline(always)]
fn round_even(x: f32) -> f32 {
    let size = x.abs();
    let whole = if size < WHOLE { size + WHOLE - WHOLE } else { size };
    whole.copysign(x)
}

/// The bits of √½.
pub const LEAST_FACTOR: i32 = 0x3f35_04f3;

impl Bits for Array {
    #[inline(always)]
    fn if_below(self, limit: Self, then: Self, otherwise: Self) -> Self {
        Array(std::array::from_fn(|i| if self.0[i] < limit.0[i] { then.0[i] } else { otherwise.0[i] }))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Array(self.0.map(f32::abs))
    }

    #[inline(always)]
    fn negated(self) -> Self {
        Array(self.0.map(|x| -x))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Array(std::array::from_fn(|i| f32::from_bits(self.0[i].to_bits() & other.0[i].to_bits())))
    }

    #[inline(always)]
    fn with_sign(self, other: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i].copysign(other.0[i])))
    }

    #[inline(always)]
    fn nearest(self) -> Self {
        Array(self.0.map(|x| x + ROUND - ROUND))
    }

    #[inline(always)]
    fn floor(self) -> Self {
        let floor = |x, near| if near > x { near - 1.0 } else { near };
        Array(self.0.map(|x| floor(x, round_even(x)).copysign(x)))
    }

    #[inline(always)]
    fn ceil(self) -> Self {
        let ceil = |x, near| if near < x { near + 1.0 } else { near };
        Array(self.0.map(|x| ceil(x, round_even(x)).copysign(x)))
    }

    #[inline(always)]
    fn round_even(self) -> Self {
        Array(self.0.map(round_even))
    }

    #[inline(always)]
    fn times_two_to_the(self, n: Self) -> Self {
        // In two factors, since n can be beyond the exponents of normal numbers.
        let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
        Array(std::array::from_fn(|i| {
            let n = (n.0[i] + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
            self.0[i] * power(n >> 1) * power(n - (n >> 1))
        }))
    }

    #[inline(always)]
    fn raised(self, n: Self) -> Self {
        // What is not a number is raised by nothing.
        Array(std::array::from_fn(|i| f32::from_bits(self.0[i].to_bits().wrapping_add((n.0[i] as i32 as u32) << 23))))
    }

    #[inline(always)]
    fn any_below(self, limits: Self) -> bool {
        self.0.iter().zip(limits.0).any(|(&x, limit)| x < limit)
    }

    #[inline(always)]
    fn least_numbers(self) -> Self {
        Array(self.0.map(|x| f32::from_bits(round_even(x) as u32)))
    }

    #[inline(always)]
    fn parts(self) -> (Self, Self) {
        let bits = self.0.map(|x| x.to_bits() as i32);
        let powers = bits.map(|bits| bits.wrapping_sub(LEAST_FACTOR) >> 23);
        let factors = std::array::from_fn(|i| f32::from_bits(bits[i].wrapping_sub(powers[i] << 23) as u32));
        (Array(factors), Array(powers.map(|power| power as f32)))
    }

    #[inline(always)]
    fn float16(self) -> Self {
        Array(self.0.map(crate::functions::float16))
    }

    #[inline(always)]
    unsafe fn load_bytes<const SIGNED: bool>(from: *const u8, count: usize) -> Self {
        let number = |byte: u8| if SIGNED { f32::from(byte as i8) } else { f32::from(byte) };
        // SAFETY: below `count`, by the caller's promise.
        Array(std::array::from_fn(|i| if i < count { number(unsafe { *from.add(i) }) } else { 0.0 }))
    }

    #[inline(always)]
    unsafe fn store_bytes(self, more: i32, to: *mut u8, count: usize) {
        for (i, &x) in self.0.iter().enumerate().take(count) {
            let byte = ((x + ROUND).to_bits() as i32).wrapping_add(more) as u8;
            // SAFETY: below `count`, by the caller's promise.
            unsafe { *to.add(i) = if x.is_nan() { 0 } else { byte } }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bits, LEAST_FACTOR};
    use crate::simd::vector::x86::{Avx2, Avx512};
    use std::arch::x86_64::*;

    impl Bits for Avx2 {
        #[inline(always)]
        fn if_below(self, limit: Self, then: Self, otherwise: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_blendv_ps(otherwise.0, then.0, _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, limit.0)) })
        }

        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0) })
        }

        #[inline(always)]
        fn negated(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), self.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_and_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn with_sign(self, other: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_or_ps(self.abs().0, _mm256_and_ps(_mm256_set1_ps(-0.0), other.0)) })
        }

        #[inline(always)]
        fn nearest(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn floor(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn ceil(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn round_even(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn times_two_to_the(self, n: Self) -> Self {
            // In two factors, since n can be beyond the exponents of normal numbers.
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe {
                let n = _mm256_cvtps_epi32(n.0);
                let half = _mm256_srai_epi32::<1>(n);
                let other = _mm256_sub_epi32(n, half);
                let power = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))));
                _mm256_mul_ps(_mm256_mul_ps(self.0, power(half)), power(other))
            })
        }

        #[inline(always)]
        fn raised(self, n: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe {
                let n = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n.0));
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), n))
            })
        }

        #[inline(always)]
        fn any_below(self, limits: Self) -> bool {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, limits.0)) != 0 }
        }

        #[inline(always)]
        fn least_numbers(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_castsi256_ps(_mm256_cvtps_epi32(self.0)) })
        }

        #[inline(always)]
        fn parts(self) -> (Self, Self) {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            unsafe {
                let bits = _mm256_castps_si256(self.0);
                let powers = _mm256_srai_epi32::<23>(_mm256_sub_epi32(bits, _mm256_set1_epi32(LEAST_FACTOR)));
                let factors = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(powers));
                (Avx2(_mm256_castsi256_ps(factors)), Avx2(_mm256_cvtepi32_ps(powers)))
            }
        }

        #[inline(always)]
        fn float16(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx2(unsafe { _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) })
        }

        #[inline(always)]
        unsafe fn load_bytes<const SIGNED: bool>(from: *const u8, count: usize) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the bytes are the caller's promise.
            unsafe {
                let bytes = if count >= 8 {
                    _mm_loadl_epi64(from.cast())
                } else {
                    let mut first = [0u8; 8];
                    std::ptr::copy_nonoverlapping(from, first.as_mut_ptr(), count);
                    _mm_cvtsi64_si128(i64::from_le_bytes(first))
                };
                let integers = if SIGNED { _mm256_cvtepi8_epi32(bytes) } else { _mm256_cvtepu8_epi32(bytes) };
                Avx2(_mm256_cvtepi32_ps(integers))
            }
        }

        #[inline(always)]
        unsafe fn store_bytes(self, more: i32, to: *mut u8, count: usize) {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the room is the caller's promise.
            unsafe {
                let integers = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(more));
                let is_number = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(self.0, self.0));
                let low = _mm256_and_si256(_mm256_and_si256(integers, is_number), _mm256_set1_epi32(255));
                let pairs = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
                let bytes = _mm_cvtsi128_si64(_mm_packus_epi16(pairs, pairs)).to_le_bytes();
                if count >= bytes.len() {
                    to.cast::<[u8; 8]>().write_unaligned(bytes);
                } else {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count);
                }
            }
        }
    }

    impl Bits for Avx512 {
        #[inline(always)]
        fn if_below(self, limit: Self, then: Self, otherwise: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_mask_mov_ps(otherwise.0, _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, limit.0), then.0) })
        }

        #[inline(always)]
        fn abs(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_abs_ps(self.0) })
        }

        #[inline(always)]
        fn negated(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_xor_ps(_mm512_set1_ps(-0.0), self.0) })
        }

        #[inline(always)]
        fn and(self, other: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_and_ps(self.0, other.0) })
        }

        #[inline(always)]
        fn with_sign(self, other: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_or_ps(self.abs().0, _mm512_and_ps(_mm512_set1_ps(-0.0), other.0)) })
        }

        #[inline(always)]
        fn nearest(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn floor(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn ceil(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn round_even(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
        }

        #[inline(always)]
        fn times_two_to_the(self, n: Self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_scalef_ps(self.0, n.0) })
        }

        #[inline(always)]
        fn raised(self, n: Self) -> Self {
            self.times_two_to_the(n)
        }

        #[inline(always)]
        fn any_below(self, limits: Self) -> bool {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, limits.0) != 0 }
        }

        #[inline(always)]
        fn least_numbers(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_castsi512_ps(_mm512_cvtps_epi32(self.0)) })
        }

        #[inline(always)]
        fn parts(self) -> (Self, Self) {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            unsafe {
                let bits = _mm512_castps_si512(self.0);
                let powers = _mm512_srai_epi32::<23>(_mm512_sub_epi32(bits, _mm512_set1_epi32(LEAST_FACTOR)));
                let factors = _mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(powers));
                (Avx512(_mm512_castsi512_ps(factors)), Avx512(_mm512_cvtepi32_ps(powers)))
            }
        }

        #[inline(always)]
        fn float16(self) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`).
            Avx512(unsafe { _mm512_cvtph_ps(_mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) })
        }

        #[inline(always)]
        unsafe fn load_bytes<const SIGNED: bool>(from: *const u8, count: usize) -> Self {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the bytes are the caller's promise.
            unsafe {
                let bytes = if count >= 16 {
                    _mm_loadu_si128(from.cast())
                } else {
                    _mm_maskz_loadu_epi8(((1u32 << count) - 1) as u16, from.cast())
                };
                let integers = if SIGNED { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) };
                Avx512(_mm512_cvtepi32_ps(integers))
            }
        }

        #[inline(always)]
        unsafe fn store_bytes(self, more: i32, to: *mut u8, count: usize) {
            // SAFETY: vectors are made only where their instructions are (`with_vectors`); the room is the caller's promise.
            unsafe {
                let integers = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(more));
                let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
                let bytes = _mm512_maskz_cvtepi32_epi8(is_number, integers);
                if count >= 16 {
                    _mm_storeu_si128(to.cast(), bytes);
                } else {
                    _mm_mask_storeu_epi8(to.cast(), ((1u32 << count) - 1) as u16, bytes);
                }
            }
        }
    }
}
