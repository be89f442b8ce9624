//! Memory that steps work on: the host's, or a tensor of a device that has memory of its own, which its contents do not leave.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Charge, Usage, Use};
use crate::program::timeline_handle::{OwnedTensor, TimelineHandle};
use crate::timeline::{Part, Task, TensorCopy};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub enum Memory {
    Host(HostMemory),
    Device(Arc<OwnedTensor>),
}

/// Bytes that several may read and write at a time, in different places. They are counted for as long as they exist.
#[derive(Debug)]
pub struct HostMemory {
    bytes: Bytes,
    charges: Mutex<Charges>,
}

/// For how many bytes memory counts.
#[derive(Debug)]
struct Charges {
    counted: usize,
    #[allow(dead_code, reason = "they are kept")]
    all: Vec<Charge>,
}

impl Memory {
    pub fn byte_length(&self) -> usize {
        match self {
            Memory::Host(memory) => memory.len(),
            Memory::Device(tensor) => tensor.descriptor.byte_length(),
        }
    }
}

impl Memory {
    /// As many bytes as it counts for.
    pub fn counted(&self) -> usize {
        match self {
            Memory::Host(memory) => memory.lock().counted,
            Memory::Device(_) => self.byte_length(),
        }
    }
}

impl HostMemory {
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold it.
    pub fn new(bytes: Bytes, usage: &Arc<Usage>) -> Result<HostMemory> {
        let counted = bytes.len();
        HostMemory::counted(bytes, counted, usage)
    }

    /// The same for bytes of which only so many are to be there.
    pub fn counted(bytes: Bytes, counted: usize, usage: &Arc<Usage>) -> Result<HostMemory> {
        let charge = usage.reserve(Use::Caches, counted)?;
        Ok(HostMemory { bytes, charges: Mutex::new(Charges { counted, all: vec![charge] }) })
    }

    fn lock(&self) -> MutexGuard<'_, Charges> {
        // Each change is one charge more.
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts for so many bytes at least from now on.
    ///
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold it.
    pub fn count(&self, bytes: usize, usage: &Arc<Usage>) -> Result<()> {
        let mut charges = self.lock();
        if let Some(more @ 1..) = bytes.checked_sub(charges.counted) {
            charges.all.push(usage.reserve(Use::Caches, more)?);
            charges.counted = bytes;
        }
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// # Safety
    /// Nobody may write these bytes while the slice lives.
    pub unsafe fn part(&self, first: usize, length: usize) -> &[u8] {
        assert!(first + length <= self.bytes.len());
        // SAFETY: within the memory, which lives as long as the slice, and without a writer by promise.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().add(first), length) }
    }

    /// # Safety
    /// Nobody else may read or write these bytes while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "each user has a part to itself")]
    pub unsafe fn part_mut(&self, first: usize, length: usize) -> &mut [u8] {
        assert!(first + length <= self.bytes.len());
        // SAFETY: within the memory, and alone by promise.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr().add(first), length) }
    }

    /// A part of the memory for a run.
    ///
    /// # Safety
    /// The memory must outlive the buffer, and until then nobody else may write what the run reads, or access what it writes.
    pub unsafe fn buffer(&self, first: usize, length: usize) -> HostBuffer {
        assert!(first + length <= self.bytes.len());
        // SAFETY: within the memory; the rest is promised.
        unsafe { HostBuffer::new(self.bytes.as_ptr().add(first), length) }
    }
}

/// Copies on a device, which are sent together.
#[derive(Debug, Default)]
pub struct Copies {
    list: Vec<TensorCopy>,
    /// Kept until the copies are made.
    tensors: Vec<Arc<OwnedTensor>>,
}

impl Copies {
    /// Copies bytes from a position in one tensor to a position in another.
    pub fn add(&mut self, from: (&Arc<OwnedTensor>, usize), to: (&Arc<OwnedTensor>, usize), length: usize) {
        if length > 0 {
            let part = |(tensor, first): (&Arc<OwnedTensor>, usize)| Part { tensor: tensor.id, first };
            self.list.push(TensorCopy { from: part(from), to: part(to), length });
            self.tensors.extend([from.0.clone(), to.0.clone()]);
        }
    }

    /// Sends the copies, and waits until the device has them.
    ///
    /// # Errors
    /// Those of the device.
    pub fn make(self, timeline: &TimelineHandle) -> Result<()> {
        if self.list.is_empty() { Ok(()) } else { timeline.wait_for(|done| Task::Copy { copies: self.list, done }) }
    }
}
