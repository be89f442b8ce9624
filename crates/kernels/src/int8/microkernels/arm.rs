//! The tiles of ARM's dot products, which multiply bytes that both have signs: those without one are moved down by 128, and the tile makes
//! up for that.
#![allow(unsafe_code)]

use super::*;
use std::arch::aarch64::*;
use std::arch::asm;

#[derive(Clone, Copy)]
struct Quads(int32x4_t);

// SAFETY of all of its blocks: only the tiles below use the type, whose callers promise that the CPU has the instructions; pointers are
// the caller's promise.
impl Sums for Quads {
    const LANES: usize = 4;
    const PARTS: usize = 1;
    const WEIGHT: usize = 1;
    type Weights = int32x4_t;
    type Group = int32x4_t;
    type Bytes = int32x4_t;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: see above.
        Quads(unsafe { vdupq_n_s32(0) })
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vld1q_s32(from.cast()) }
    }

    #[inline(always)]
    unsafe fn group(from: *const u8) -> int32x4_t {
        // SAFETY: see above.
        unsafe { vdupq_n_s32(from.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    fn bytes(group: int32x4_t, _: usize) -> int32x4_t {
        // SAFETY: see above.
        unsafe { veorq_s32(group, vreinterpretq_s32_u8(vdupq_n_u8(128))) }
    }

    #[inline(always)]
    fn moved() -> Option<int32x4_t> {
        // SAFETY: see above.
        Some(unsafe { vreinterpretq_s32_s8(vdupq_n_s8(-128)) })
    }

    #[inline(always)]
    fn plus(self, bytes: int32x4_t, weights: int32x4_t) -> Self {
        let mut sum = self.0;
        // The intrinsic is not stable. SAFETY: see above; registers alone.
        unsafe {
            asm!(".arch_extension dotprod", "sdot {sum:v}.4s, {weights:v}.16b, {bytes:v}.16b",
                sum = inout(vreg) sum, weights = in(vreg) weights, bytes = in(vreg) bytes,
                options(pure, nomem, nostack, preserves_flags));
        }
        Quads(sum)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Quads(unsafe { vaddq_s32(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: see above.
        Quads(unsafe { vld1q_s32(from) })
    }

    #[inline(always)]
    fn less(self, other: Self, times: i32) -> Self {
        // SAFETY: see above.
        Quads(unsafe { vmlsq_n_s32(self.0, other.0, times) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: see above.
        unsafe { vst1q_s32(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn scale(self, factors: *const f32, to: *mut u32) {
        // SAFETY: see above.
        unsafe { vst1q_f32(to.cast(), vmulq_f32(vcvtq_f32_s32(self.0), vld1q_f32(factors))) }
    }
}

tiles! { DOT = isa::NEON, vectors of Quads, compiled by dotprod: "dotprod" 8 x 2 }
