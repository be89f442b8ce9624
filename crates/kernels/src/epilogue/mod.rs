//! What is done to a tile of an output before, or soon after, it is stored.

pub mod clamp;
pub mod post_ops;
pub mod single_pass;
