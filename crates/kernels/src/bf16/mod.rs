//! Products of float32 by way of bfloat16: operands are rounded to 8 bits, sums are float32.
//!
//! Where float32 microkernels have a number, these have a *pair*: two bfloat16 that follow each other in depth, in 32 bits, the first
//! one in the low half. A product of depth K is then one of K/2 steps, rounded up, and what loads, broadcasts, packs, prefetches and
//! stores is that of float32 ([`VectorBundle`](crate::simd::vector_bundle::VectorBundle)); only what is done with two numbers differs.
//!
//! Rounding is to nearest, to even in the middle. NaN stays NaN, infinities stay, numbers beyond the greatest bfloat16 become infinite.
//! Numbers that are subnormal in float32 become zero, with their sign: the instructions of x86 do that, and all implementations here do.
//! Sums that are subnormal are flushed to zero by AVX512_BF16, by AMX and by BFDOT and BFMMLA; elsewhere they stay.
//!
//! A step adds the product of the second numbers, then that of the first ones, each sum rounded to nearest. The products are exact:
//! 8 bits times 8 bits fit into 24. BFDOT and BFMMLA add both products first, and that to the sum, each rounded to odd, which is off
//! by less than a unit in the last place instead of a half.

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only sizes are of use elsewhere"))]
pub mod amx;
pub mod gather;
pub mod narrow;
pub mod packing;
pub(crate) mod pairs;
pub mod rounding;

use crate::gemm::microkernels::{Microkernels, bf16};
use crate::isa::Isa;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::isa::Level;

/// The microkernels of an instruction set: with instructions for bfloat16 where this CPU has them ([`Microkernels::is_native`]),
/// else with those of float32 on what was rounded, which is as exact and no faster where memory is.
pub fn microkernels(isa: &Isa) -> &'static Microkernels {
    #[cfg(target_arch = "x86_64")]
    if isa.level == Level::Avx512 && is_x86_feature_detected!("avx512bf16") {
        return &bf16::x86::AVX512_BF16;
    }
    #[cfg(target_arch = "aarch64")]
    if isa.level == Level::Neon && pairs::arm::is_there() {
        return &bf16::arm::NEON_BFDOT;
    }
    emulated(isa)
}

/// The same for products of matrices, which are multiplied in matrix registers, or by instructions that multiply small matrices, where
/// this CPU has them.
pub fn for_products(isa: &Isa) -> &'static Microkernels {
    #[cfg(target_arch = "x86_64")]
    if isa.level == Level::Avx512 && amx::x86::is_there() {
        return &bf16::x86::AMX;
    }
    #[cfg(target_arch = "aarch64")]
    if isa.level == Level::Neon && pairs::arm::is_there() {
        return &bf16::arm::NEON_BFMMLA;
    }
    microkernels(isa)
}

/// Whether products have faster tiles than other loops.
pub fn has_tiles_for_products(isa: &Isa) -> bool {
    !std::ptr::eq(for_products(isa), microkernels(isa))
}

/// Those without special instructions.
pub fn emulated(isa: &Isa) -> &'static Microkernels {
    bf16::emulated(isa.level)
}

/// All that this CPU has.
pub fn available() -> impl Iterator<Item = &'static Microkernels> {
    let both = Isa::available().iter().flat_map(|isa| [for_products(isa), microkernels(isa), emulated(isa)]);
    let mut last: Option<&'static Microkernels> = None;
    both.filter(move |gemm| !last.replace(gemm).is_some_and(|last| std::ptr::eq(last, *gemm))).flat_map(Microkernels::all)
}
