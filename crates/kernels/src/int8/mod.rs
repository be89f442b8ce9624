//! Products of 8-bit integers.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) mod amx;
pub mod microkernels;
pub mod panels;
pub mod row_sums;
#[cfg(test)]
mod tests;
