//! Products of 8-bit integers.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub mod microkernels;
pub mod panels;
pub mod row_sums;

use crate::isa::Isa;
use microkernels::Tiles;

/// Whether there are instructions within an instruction set that multiply bytes and add the products.
pub fn has_dot_products(isa: &Isa) -> bool {
    // Those that have them multiply the bytes of a group at once.
    Tiles::all_of(isa)[0].weight == 1
}

#[cfg(test)]
mod tests;
