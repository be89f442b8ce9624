//! Products of 8-bit integers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub mod microkernels;
pub mod panels;
pub mod row_sums;
#[cfg(test)]
mod tests;
