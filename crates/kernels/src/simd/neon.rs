//! [Vectors](super::vector) of NEON, which every 64-bit ARM CPU has.
#![allow(unsafe_code)]

use crate::simd::bits::{Bits, LEAST_FACTOR};
use crate::simd::doubles::Doubles;
use crate::simd::fields::Fields;
use crate::simd::vector::{MOST_LANES, Vector};
use crate::simd::vector_bundle::VectorBundle;
use std::arch::aarch64::*;

/// An expression of instructions that work on registers alone.
macro_rules! neon {
    ($($tokens:tt)*) => {
        // SAFETY: every CPU of the architecture has them, and they access no memory.
        unsafe { $($tokens)* }
    };
}

#[derive(Clone, Copy)]
pub struct Neon(pub(crate) float32x4_t);

impl VectorBundle for Neon {
    const LANES: usize = 4;
    /// One register for all of them: a product takes its number from there.
    type Numbers = float32x4_t;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Neon(unsafe { vld1q_f32(from) })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut numbers = [0.0; 4];
        // SAFETY: the caller's promise, and no more than the array has room for.
        unsafe {
            std::ptr::copy_nonoverlapping(from, numbers.as_mut_ptr(), count.min(4));
            Self::load(numbers.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_f32(to, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        let mut numbers = [0.0; 4];
        // SAFETY: the caller's promise, and no more than the array has.
        unsafe {
            self.store(numbers.as_mut_ptr());
            std::ptr::copy_nonoverlapping(numbers.as_ptr(), to, count.min(4));
        }
    }

    #[inline(always)]
    fn splat(number: f32) -> Self {
        Neon(neon!(vdupq_n_f32(number)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Neon(neon!(vaddq_f32(self.0, other.0)))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, sum: Self) -> Self {
        Neon(neon!(vfmaq_f32(sum.0, self.0, factor.0)))
    }

    #[inline(always)]
    unsafe fn numbers(from: *const f32) -> float32x4_t {
        // SAFETY: the caller's promise.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn add_product<const NUMBER: i32>(self, numbers: float32x4_t, factors: Self) -> Self {
        Neon(neon!(vfmaq_laneq_f32::<NUMBER>(self.0, factors.0, numbers)))
    }

    #[inline(always)]
    fn max(self, low: Self) -> Self {
        Neon(neon!(vbslq_f32(vcgtq_f32(low.0, self.0), low.0, self.0)))
    }

    #[inline(always)]
    fn min(self, high: Self) -> Self {
        Neon(neon!(vbslq_f32(vcltq_f32(high.0, self.0), high.0, self.0)))
    }
}

impl Vector for Neon {
    type Half = Neon;
    type Doubles = NeonDoubles;
    const IS_FUSED: bool = true;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Neon(neon!(vsubq_f32(self.0, other.0)))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Neon(neon!(vmulq_f32(self.0, other.0)))
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Neon(neon!(vdivq_f32(self.0, other.0)))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Neon(neon!(vsqrtq_f32(self.0)))
    }

    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        Neon(neon!(vmaxq_f32(self.0, other.0)))
    }

    #[inline(always)]
    fn permuted(self, places: &[i32; MOST_LANES]) -> Self {
        // SAFETY: the array has as many numbers and more.
        let places = unsafe { vld1q_u32(places.as_ptr().cast()) };
        // The four bytes of each.
        Neon(neon! {
            let bytes = vaddq_u32(vmulq_n_u32(places, 0x0404_0404), vdupq_n_u32(0x0302_0100));
            vreinterpretq_f32_u8(vqtbl1q_u8(vreinterpretq_u8_f32(self.0), vreinterpretq_u8_u32(bytes)))
        })
    }

    #[inline(always)]
    fn transpose(lines: [Self; MOST_LANES]) -> [Self; MOST_LANES] {
        let [a, b, c, d, rest @ ..] = lines;
        let transposed = neon! {
            let doubles = |a, b| (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
            let (even_low, even_high) = doubles(vtrn1q_f32(a.0, b.0), vtrn1q_f32(c.0, d.0));
            let (odd_low, odd_high) = doubles(vtrn2q_f32(a.0, b.0), vtrn2q_f32(c.0, d.0));
            [
                vtrn1q_f64(even_low, even_high),
                vtrn1q_f64(odd_low, odd_high),
                vtrn2q_f64(even_low, even_high),
                vtrn2q_f64(odd_low, odd_high),
            ]
            .map(|line| vreinterpretq_f32_f64(line))
        };
        std::array::from_fn(|i| if i < 4 { Neon(transposed[i]) } else { rest[i - 4] })
    }
}

impl Bits for Neon {
    #[inline(always)]
    fn if_below(self, limit: Self, then: Self, otherwise: Self) -> Self {
        Neon(neon!(vbslq_f32(vcltq_f32(self.0, limit.0), then.0, otherwise.0)))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Neon(neon!(vabsq_f32(self.0)))
    }

    #[inline(always)]
    fn negated(self) -> Self {
        Neon(neon!(vnegq_f32(self.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Neon(neon!(vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(self.0), vreinterpretq_u32_f32(other.0)))))
    }

    #[inline(always)]
    fn with_sign(self, other: Self) -> Self {
        Neon(neon!(vbslq_f32(vdupq_n_u32(1 << 31), other.0, self.0)))
    }

    #[inline(always)]
    fn nearest(self) -> Self {
        Neon(neon!(vrndnq_f32(self.0)))
    }

    #[inline(always)]
    fn floor(self) -> Self {
        Neon(neon!(vrndmq_f32(self.0)))
    }

    #[inline(always)]
    fn ceil(self) -> Self {
        Neon(neon!(vrndpq_f32(self.0)))
    }

    #[inline(always)]
    fn round_even(self) -> Self {
        Neon(neon!(vrndnq_f32(self.0)))
    }

    #[inline(always)]
    fn times_two_to_the(self, n: Self) -> Self {
        // In two factors, since n can be beyond the exponents of normal numbers.
        Neon(neon! {
            let n = vcvtnq_s32_f32(n.0);
            let half = vshrq_n_s32::<1>(n);
            let power = |n| vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))));
            vmulq_f32(vmulq_f32(self.0, power(half)), power(vsubq_s32(n, half)))
        })
    }

    #[inline(always)]
    fn raised(self, n: Self) -> Self {
        Neon(neon! {
            let n = vshlq_n_s32::<23>(vcvtnq_s32_f32(n.0));
            vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(self.0), n))
        })
    }

    #[inline(always)]
    fn any_below(self, limits: Self) -> bool {
        neon!(vmaxvq_u32(vcltq_f32(self.0, limits.0)) != 0)
    }

    #[inline(always)]
    fn least_numbers(self) -> Self {
        Neon(neon!(vreinterpretq_f32_s32(vcvtnq_s32_f32(self.0))))
    }

    #[inline(always)]
    fn parts(self) -> (Self, Self) {
        neon! {
            let bits = vreinterpretq_s32_f32(self.0);
            let powers = vshrq_n_s32::<23>(vsubq_s32(bits, vdupq_n_s32(LEAST_FACTOR)));
            let factors = vsubq_s32(bits, vshlq_n_s32::<23>(powers));
            (Neon(vreinterpretq_f32_s32(factors)), Neon(vcvtq_f32_s32(powers)))
        }
    }

    #[inline(always)]
    fn float16(self) -> Self {
        let numbers: float32x4_t;
        // SAFETY: they convert registers, to float16 and back, and do nothing else; every CPU of the architecture has them.
        unsafe {
            std::arch::asm!(
                "fcvtn {to:v}.4h, {from:v}.4s",
                "fcvtl {to:v}.4s, {to:v}.4h",
                from = in(vreg) self.0,
                to = lateout(vreg) numbers,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        Neon(numbers)
    }

    #[inline(always)]
    unsafe fn load_bytes<const SIGNED: bool>(from: *const u8, count: usize) -> Self {
        let number = |byte: u8| if SIGNED { f32::from(byte as i8) } else { f32::from(byte) };
        // SAFETY: below `count`, by the caller's promise.
        let numbers: [f32; 4] = std::array::from_fn(|i| if i < count { number(unsafe { *from.add(i) }) } else { 0.0 });
        // SAFETY: as many numbers as a vector has.
        unsafe { Self::load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, more: i32, to: *mut u8, count: usize) {
        let bytes = neon! {
            let integers = vaddq_s32(vcvtnq_s32_f32(self.0), vdupq_n_s32(more));
            let numbers = vandq_u32(vreinterpretq_u32_s32(integers), vceqq_f32(self.0, self.0));
            let pairs = vmovn_u32(numbers);
            vget_lane_u32::<0>(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(pairs, pairs)))).to_le_bytes()
        };
        // SAFETY: the caller's promise, and no more than the array has.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count.min(bytes.len())) }
    }
}

impl Fields for Neon {
    const HAS_TABLE: bool = false;

    #[inline(always)]
    fn signed_field(self, at: u32, bits: u32) -> Self {
        Neon(neon! {
            let up = vshlq_s32(vreinterpretq_s32_f32(self.0), vdupq_n_s32((32 - bits - at) as i32));
            vcvtq_f32_s32(vshlq_s32(up, vdupq_n_s32(bits as i32 - 32)))
        })
    }

    #[inline(always)]
    fn looked_up(self, at: u32, table: &[f32; 16]) -> Self {
        let mut lanes = [0.0f32; 4];
        // SAFETY: an array of as many numbers as a vector has.
        unsafe { self.store(lanes.as_mut_ptr()) };
        let numbers = lanes.map(|lane| table[(lane.to_bits() >> at & 15) as usize]);
        // SAFETY: as above.
        unsafe { Self::load(numbers.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_float16(from: *const u16) -> Self {
        let numbers: float32x4_t;
        // SAFETY: it converts a register and does nothing else; every CPU of the architecture has it. The numbers are the caller's promise.
        unsafe {
            std::arch::asm!(
                "fcvtl {to:v}.4s, {from:v}.4h",
                from = in(vreg) vld1_u16(from),
                to = lateout(vreg) numbers,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        Neon(numbers)
    }

    #[inline(always)]
    unsafe fn store_float16(self, to: *mut u16) {
        let halves: uint16x4_t;
        // SAFETY: it converts a register and does nothing else; every CPU of the architecture has it. The room is the caller's promise.
        unsafe {
            std::arch::asm!(
                "fcvtn {to:v}.4h, {from:v}.4s",
                from = in(vreg) self.0,
                to = lateout(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
            vst1_u16(to, halves);
        }
    }
}

#[derive(Clone, Copy)]
pub struct NeonDoubles(float64x2_t);

impl Doubles for NeonDoubles {
    const LANES: usize = 2;

    #[inline(always)]
    fn zero() -> Self {
        NeonDoubles(neon!(vdupq_n_f64(0.0)))
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        NeonDoubles(unsafe { vcvt_f64_f32(vld1_f32(from)) })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut numbers = [0.0; 2];
        // SAFETY: the caller's promise, and no more than the array has room for.
        unsafe {
            std::ptr::copy_nonoverlapping(from, numbers.as_mut_ptr(), count.min(2));
            Self::load(numbers.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_f64(to, self.0) }
    }

    #[inline(always)]
    fn abs(self) -> Self {
        NeonDoubles(neon!(vabsq_f64(self.0)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        NeonDoubles(neon!(vaddq_f64(self.0, other.0)))
    }

    #[inline(always)]
    fn square_add(self, sum: Self) -> Self {
        NeonDoubles(neon!(vfmaq_f64(sum.0, self.0, self.0)))
    }
}
