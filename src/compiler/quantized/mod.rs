//! Products of quantized values: a backend that asks for it ([`Preferences::integers`](super::Preferences)) gets products of their
//! integers ([`products`]).
//!
//! [`movement`] lets the operands be dequantized right before the product, and [`rounding`] makes arithmetic of the pairs of
//! quantizeLinear and dequantizeLinear that are left.

mod movement;
mod products;
mod rounding;
mod sums;

pub use movement::movement;
pub use products::{Integers, dequantized};
pub use rounding::rounding;
pub use sums::sums;
