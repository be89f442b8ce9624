//! Sliding windows along one axis, in numbers that a shader's 32 bits hold.

use crate::error::{Error, Kind, Result};

/// An axis that a window slides along.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Elements of the input.
    pub input: usize,
    /// Positions of the window.
    pub output: usize,
    /// Elements of the window.
    pub window: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Elements before the input.
    pub padding: usize,
}

impl Axis {
    /// # Errors
    /// `OperationError` when places are beyond 31 bits.
    pub fn new((input, output, window): (usize, usize, usize), (stride, dilation): (u32, u32), padding: u32) -> Result<Self> {
        let (mut stride, mut dilation, padding) = (stride as usize, dilation as usize, padding as usize);
        // What is never stepped does not matter.
        if output == 1 {
            stride = 1;
        }
        if window == 1 {
            dilation = 1;
        }
        let farthest = ((output - 1) as u128 * stride as u128) + ((window - 1) as u128 * dilation as u128);
        let most = i32::MAX as usize;
        if farthest > most as u128 || padding > most || input > most {
            let message = format!("windows that reach {farthest} elements, with a padding of {padding}; shaders count to {most}");
            return Err(Error::new(Kind::Operation, message));
        }
        Ok(Axis { input, output, window, stride, dilation, padding })
    }

    /// The input element under element `tap` of the window at a position, an `i32`; outside the input it is in the padding.
    pub fn place(&self, position: &str, tap: &str) -> String {
        let Axis { stride, dilation, padding, .. } = self;
        format!("i32({position} * {stride}u + {tap} * {dilation}u) - i32({padding})")
    }
}
