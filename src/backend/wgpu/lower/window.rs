//! Sliding windows along one axis, in numbers that a shader's 32 bits hold.

use crate::backend::wgpu::shader::size;
use crate::backend::window::Axis;
use crate::error::{Error, Kind, Result};

/// The axis with what is never stepped as small as may be.
///
/// # Errors
/// `OperationError` when places are beyond 31 bits.
pub fn countable(mut axis: Axis) -> Result<Axis> {
    if axis.output == 1 {
        axis.stride = 1;
    }
    if axis.window == 1 {
        axis.dilation = 1;
    }
    let Axis { input, output, window, stride, dilation, padding } = axis;
    let farthest = ((output - 1) as u128 * stride as u128) + ((window - 1) as u128 * dilation as u128);
    let most = i32::MAX as usize;
    if farthest > most as u128 || padding > most || input > most {
        let message = format!("windows that reach {farthest} elements, with a padding of {padding}; shaders count to {most}");
        return Err(Error::new(Kind::Operation, message));
    }
    Ok(axis)
}

/// The input element under element `tap` of the window at a position, an `i32`; outside the input it is in the padding.
pub fn place(axis: &Axis, position: &str, tap: &str) -> String {
    let Axis { stride, dilation, padding, .. } = axis;
    // Of paddings only the sum is the operator's own, where the output is as large as the input.
    format!("i32({position} * {stride}u + {tap} * {dilation}u) - i32({})", size(*padding))
}
