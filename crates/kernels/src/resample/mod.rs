//! Resampling of float32 images between pixels.

pub mod nchw;
pub mod nhwc;

/// Two rows or columns of the input, and how much of each there is. What has no share must not be multiplied with it, since
/// infinity times 0 is no number.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub numbers: [usize; 2],
    pub shares: [f32; 2],
}
