//! Loops on the registers that the microkernels of a set multiply with, beside its tiles.
#![allow(unsafe_code)]

use crate::bf16::pairs::Emulated;
use crate::gemm::microkernels::Microkernels;
use crate::isa::Level;
use crate::simd::vector::{Array, OnVectors, Vector, with_vectors};
use crate::simd::vector_bundle::VectorBundle;

/// Work on bundles of a set's operands. `run` must be `#[inline(always)]`.
pub(crate) trait OnBundles {
    fn run<V: VectorBundle>(self);
}

/// Of vectors of float32.
struct Vectors<W>(W);

impl<W: OnBundles> OnVectors for Vectors<W> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        self.0.run::<V>();
    }
}

/// Runs work with one register of a set's operands at a time.
#[inline(always)]
pub(crate) fn with_bundles(gemm: &Microkernels, work: impl OnBundles) {
    if !gemm.rounds() {
        return with_vectors(gemm.isa, Vectors(work));
    }
    match gemm.isa.level {
        Level::Portable => work.run::<Emulated<Array>>(),
        #[cfg(target_arch = "aarch64")]
        Level::Neon if gemm.is_native_bf16() => work.run::<crate::bf16::pairs::arm::NeonBf16>(),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => work.run::<Emulated<crate::simd::neon::Neon>>(),
        // SAFETY: a set exists only when the CPU has its instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::run_avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 if gemm.is_native_bf16() => unsafe { x86::run_avx512_bf16(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::run_avx512(work) },
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Emulated, OnBundles};
    use crate::bf16::pairs::x86::Avx512Bf16;
    use crate::simd::vector::x86::{Avx2, Avx512};

    /// # Safety
    /// The CPU must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn run_avx2(work: impl OnBundles) {
        work.run::<Emulated<Avx2>>();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ and BW.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub unsafe fn run_avx512(work: impl OnBundles) {
        work.run::<Emulated<Avx512>>();
    }

    /// # Safety
    /// The CPU must have these, and BF16.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")]
    pub unsafe fn run_avx512_bf16(work: impl OnBundles) {
        work.run::<Avx512Bf16>();
    }
}
