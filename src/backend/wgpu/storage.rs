//! A tensor's memory on the device.

use super::device::Device;
use crate::error::Result;
use wgpu::BufferUsages;

/// A buffer of whole words; what is behind the last element means nothing.
#[derive(Debug)]
pub struct Storage {
    pub buffer: wgpu::Buffer,
}

impl Storage {
    /// Zeros.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn new(device: &Device, length: usize) -> Result<Storage> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        Ok(Storage { buffer: device.buffer(length, usage)? })
    }
}
