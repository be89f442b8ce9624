//! Sliding windows along one axis, which convolutions and pooling of both backends share.

pub use webnn_kernels::window::Axis;
