//! Vector registers of all instruction sets behind one trait, and what goes with them.
//!
//! Only this crate can name them: a loop over registers that another crate instantiated would be compiled there.

pub(crate) mod bits;
pub(crate) mod doubles;
pub(crate) mod fields;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod optimization_barrier;
pub mod prefetch;
pub(crate) mod vector;
pub(crate) mod vector_bundle;

pub use vector::MOST_LANES;
