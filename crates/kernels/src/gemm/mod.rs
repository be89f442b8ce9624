//! Products of float32 matrices.

mod bundles;
pub mod gemv;
pub mod microkernels;
pub mod packing;
pub mod row_times_panels;
pub mod scaled_rows;
pub(crate) mod unrolled_depth;
