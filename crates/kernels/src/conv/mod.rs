//! Convolutions of float32 as indirect products: rows of the left operand begin wherever the window's elements lie.

pub mod few_outputs;
pub mod microkernels;
pub mod pointwise;
pub mod small_groups;
