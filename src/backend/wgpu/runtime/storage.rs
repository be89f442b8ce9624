//! A tensor's memory on the device.

/// A buffer of whole words; what is behind the last element means nothing.
#[derive(Debug)]
pub struct Storage {
    pub buffer: wgpu::Buffer,
}
