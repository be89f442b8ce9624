//! When products go by way of bfloat16: where the graph allows it and the estimate says that it is faster.

use super::{Reject, Target, require};
use crate::graph::FpMath;
use webnn_kernels::bf16;
use webnn_kernels::gemm::microkernels::{Microkernels, Operands};

/// Whether the graph allows it.
pub fn require_permission(target: &Target) -> Result<(), Reject> {
    require(target.fp_math == FpMath::Bf16, "float32 is to be strict")
}

/// The microkernels for what spends its time on multiplying.
pub fn microkernels(target: &Target) -> Result<&'static Microkernels, Reject> {
    require_permission(target)?;
    let gemm = bf16::microkernels(target.isa);
    require(gemm.is_native() || target.tuning.bf16_emulated, "no instructions for bfloat16")?;
    Ok(gemm)
}

/// Those for products of matrices.
pub fn for_products(target: &Target) -> Result<&'static Microkernels, Reject> {
    microkernels(target).map(|_| bf16::for_products(target.isa))
}

/// Those where they are faster than what other loops multiply with, so that these become products.
pub fn for_products_alone(target: &Target) -> Result<&'static Microkernels, Reject> {
    let gemm = for_products(target)?;
    let are_better = bf16::has_tiles_for_products(target.isa) || target.tuning.bf16_emulated;
    require(are_better, "tiles of convolutions are as good, and read the image where it is")?;
    Ok(gemm)
}

/// Those for products that read so many bytes of float32 weights once: from memory half of them take half the time, with whatever
/// instructions.
pub fn microkernels_for_reading(bytes: usize, target: &Target) -> Result<&'static Microkernels, Reject> {
    let gemm = bf16::microkernels(target.isa);
    let is_far = bytes > target.caches.second;
    require(
        gemm.is_native() || is_far || target.tuning.bf16_emulated,
        "no instructions for bfloat16, and weights that stay in a cache",
    )?;
    Ok(gemm)
}

/// Rounding an element of the left operand is worth as much as it is multiplied.
pub fn require_columns(columns: usize, target: &Target) -> Result<(), Reject> {
    require(columns >= target.tuning.bf16_columns, "few columns for the rounding of the left operand")
}

/// The multiplications of AMX, sixteen times as many as those of float32, wait half of the time for what they read.
const MOST_GAIN: usize = 8;

/// How many times as fast as float32 ones such products are where they read from a cache, about.
pub fn speed(target: &Target) -> usize {
    for_products(target).map_or(1, speed_of)
}

/// The same of those that a kernel has.
pub fn speed_of(gemm: &Microkernels) -> usize {
    match gemm.operands {
        Operands::Bf16 { gain } => gain.min(MOST_GAIN),
        _ => 1,
    }
}
