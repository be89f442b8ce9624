//! A device's complaints as errors.

use super::loss::Loss;
use crate::error::{Error, Kind, Result};
use wgpu::ErrorFilter;

/// Does something with a device, and makes its complaints errors.
pub fn checked<T>(device: &wgpu::Device, loss: &Loss, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let lost = || loss.get().map(|message| Error::new(Kind::InvalidState, message));
    // One that hangs is not given more to do.
    if let Some(error) = lost() {
        return Err(error);
    }
    let memory = device.push_error_scope(ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(ErrorFilter::Validation);
    let internal = device.push_error_scope(ErrorFilter::Internal);
    let result = work();
    let complaints = [internal.pop(), validation.pop()].map(pollster::block_on);
    if let Some(error) = lost() {
        return Err(error);
    }
    if let Some(error) = pollster::block_on(memory.pop()) {
        return Err(Error::new(Kind::Unknown, format!("the device's memory is used up: {error}")));
    }
    match complaints.into_iter().flatten().next() {
        Some(error) => Err(Error::new(Kind::Operation, format!("the device refuses: {error}"))),
        None => result,
    }
}
