//! A tensor's memory on the device.

use super::bound::Mentions;
use super::findings::Doubts;
use super::loss::lock;
use crate::backend::wgpu::gpu_program::Memory;
use std::sync::{Arc, Mutex};
use wgpu::{BindingResource, Buffer, BufferBinding};

/// A buffer of whole words, or a part of one; what is after the last element means nothing.
#[derive(Debug)]
pub struct DeviceStorage {
    pub buffer: Buffer,
    /// Of the buffer.
    pub mentions: Arc<Mentions>,
    /// Where it begins in the buffer, in bytes.
    pub offset: usize,
    /// What the host has written, if that is little and nothing else was written since: indices are checked here.
    known: Mutex<Option<Box<[u8]>>>,
    /// Whether what it has was computed well.
    doubts: Mutex<Doubts>,
}

/// Contents of more bytes are not kept.
const MOST_KNOWN: usize = 1 << 16;

impl DeviceStorage {
    pub fn new(buffer: Buffer) -> DeviceStorage {
        let mentions = Mentions::new(buffer.clone());
        DeviceStorage { buffer, mentions, offset: 0, known: Mutex::default(), doubts: Mutex::default() }
    }

    /// A part, which is what graphs write: the whole has it without their doubts, as it has what a failed run has left there.
    pub fn part(&self, offset: usize) -> DeviceStorage {
        // What is written to the part is another content of the whole.
        self.forget();
        let (buffer, mentions) = (self.buffer.clone(), self.mentions.clone());
        DeviceStorage { buffer, mentions, offset, known: Mutex::default(), doubts: Mutex::new(self.doubts()) }
    }

    /// Those that are not known to be groundless.
    pub fn doubts(&self) -> Doubts {
        let mut doubts = lock(&self.doubts);
        let mut left = Doubts::default();
        left.add_all(&doubts);
        *doubts = left.clone();
        left
    }

    /// All of it is written, with these doubts.
    pub fn replace_doubts(&self, doubts: Doubts) {
        *lock(&self.doubts) = doubts;
    }

    /// Some of it is.
    pub fn add_doubts(&self, doubts: &Doubts) {
        lock(&self.doubts).add_all(doubts);
    }

    /// The host writes all of it.
    pub fn remember(&self, bytes: &[u8]) {
        *lock(&self.known) = (bytes.len() <= MOST_KNOWN).then(|| bytes.into());
        self.replace_doubts(Doubts::default());
    }

    /// Something else writes it.
    pub fn forget(&self) {
        *lock(&self.known) = None;
    }

    /// Looks at what the host has written, if it is that.
    pub fn with_known<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        lock(&self.known).as_deref().map(look)
    }

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
