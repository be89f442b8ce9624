//! A tensor's memory on the device.

use crate::backend::wgpu::program::Memory;
use wgpu::{BindingResource, Buffer, BufferBinding};

/// A buffer of whole words, or a part of one; what is behind the last element means nothing.
#[derive(Debug)]
pub struct Storage {
    pub buffer: Buffer,
    /// Where it begins in the buffer, in bytes.
    pub offset: usize,
}

impl Storage {
    /// A part of its memory, as a shader binds it.
    pub fn resource(&self, memory: &Memory) -> BindingResource<'_> {
        resource(&self.buffer, self.offset, memory)
    }
}

/// A part of what begins at an offset in a buffer.
pub fn resource<'a>(buffer: &'a Buffer, offset: usize, memory: &Memory) -> BindingResource<'a> {
    BindingResource::Buffer(BufferBinding {
        buffer,
        offset: (offset + memory.offset) as u64,
        size: std::num::NonZero::new((memory.length.max(1) as u64).next_multiple_of(4)),
    })
}
