//! Where what is remembered lies: in the host's memory, or in tensors of a device whose memory is elsewhere, which it does not leave.

use crate::error::Result;
use crate::graph::Descriptor;
use crate::memory::Bytes;
use crate::program::device::{Device, Failures, OwnedTensor};
use crate::timeline::{Part, Task, TensorCopy};
use std::sync::Arc;

/// The rows of a cache, one after the other, with zeros before and room behind them.
#[derive(Debug)]
pub struct Rows {
    pub memory: Memory,
    /// Bytes of a row.
    pub row: usize,
    /// Of so many rows as there is room for.
    descriptor: Descriptor,
}

#[derive(Debug)]
pub enum Memory {
    Host(Bytes),
    Device(Arc<OwnedTensor>),
}

impl Memory {
    /// The bytes that nobody else counts.
    pub fn host_bytes(&self) -> usize {
        if let Memory::Host(bytes) = self { bytes.len() } else { 0 }
    }
}

impl Rows {
    /// Room for so many rows, of zeros: those of a cache of this descriptor, whose rows come first.
    pub fn new(device: &Arc<Device>, like: &Descriptor, count: usize, failures: &Failures) -> Result<Rows> {
        let row = like.byte_length() / like.shape.first().copied().unwrap_or(1).max(1) as usize;
        let mut descriptor = like.clone();
        if let Some(rows) = descriptor.shape.first_mut() {
            *rows = u32::try_from(count).unwrap_or(u32::MAX);
        }
        // Devices copy words.
        let memory = match device.is_elsewhere() && row.is_multiple_of(4) {
            true => Memory::Device(device.tensor(&descriptor, failures)?),
            false => Memory::Host(Bytes::roomy(count * row)?),
        };
        Ok(Rows { memory, row, descriptor })
    }

    /// The same with room for other so many rows.
    pub fn resized(&self, device: &Arc<Device>, count: usize, failures: &Failures) -> Result<Rows> {
        Rows::new(device, &self.descriptor, count, failures)
    }

    /// Takes so many rows over from another one: at once, or by a copy that is still to be made.
    pub fn take(&mut self, at: usize, from: &Rows, first: usize, count: usize, copies: &mut Copies) {
        let row = self.row;
        match (&mut self.memory, &from.memory) {
            (Memory::Host(to), Memory::Host(from)) => {
                to[at * row..][..count * row].copy_from_slice(&from[first * row..][..count * row]);
            }
            (Memory::Device(to), Memory::Device(from)) => copies.add((from, first * row), (to, at * row), count * row),
            _ => unreachable!("both have rows of one size on one device"),
        }
    }

    /// The part of a tensor that begins with a row, where graphs can have it.
    pub fn part(&self, first: usize) -> Option<Part> {
        let first = first * self.row;
        match &self.memory {
            Memory::Device(tensor) if first.is_multiple_of(Part::ALIGNMENT) => Some(Part { tensor: tensor.id, first }),
            _ => None,
        }
    }
}

/// Copies on the device, which are asked for together.
#[derive(Debug, Default)]
pub struct Copies {
    list: Vec<TensorCopy>,
    /// Until they are made.
    tensors: Vec<Arc<OwnedTensor>>,
}

impl Copies {
    /// A number of bytes from a byte of a tensor on to one of another.
    pub fn add(&mut self, from: (&Arc<OwnedTensor>, usize), to: (&Arc<OwnedTensor>, usize), length: usize) {
        if length > 0 {
            let part = |(tensor, first): (&Arc<OwnedTensor>, usize)| Part { tensor: tensor.id, first };
            self.list.push(TensorCopy { from: part(from), to: part(to), length });
            self.tensors.extend([from.0.clone(), to.0.clone()]);
        }
    }

    /// Has them made, and waits until the device has taken them.
    ///
    /// # Errors
    /// Those of the device.
    pub fn make(self, device: &Device) -> Result<()> {
        if self.list.is_empty() { Ok(()) } else { device.wait_for(|done| Task::Copy { copies: self.list, done }) }
    }
}
