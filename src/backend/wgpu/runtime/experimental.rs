//! wgpu's experimental features: the permission to use them.
#![allow(unsafe_code)]

use crate::backend::wgpu::target::Features;
use wgpu::ExperimentalFeatures;

/// Only what is wanted of them, which is products by cooperative matrices.
pub fn permission(features: Features) -> ExperimentalFeatures {
    if features.matrices.is_none() {
        return ExperimentalFeatures::disabled();
    }
    // SAFETY: wgpu asks that its users know that these features may have faults, and report them. The shaders that use
    // this one are made in `lower/product/matrices.rs` only: matrices are loaded from and stored to a workgroup's own
    // arrays, at numbers that are known to be inside, by all invocations of a subgroup. Only `WEBNN_GPU_FEATURES` switches it on.
    unsafe { ExperimentalFeatures::enabled() }
}
