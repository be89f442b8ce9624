//! Depthwise convolutions: a filter for each channel.

pub mod int8;
pub mod nhwc;
