//! Sums and extremes of numbers.

pub(crate) mod accumulators;
pub mod axes;
