//! Memory that belongs to JavaScript, as the rooms below `node/` see it.
#![allow(unsafe_code)]

use crate::memory::Bytes;

/// A buffer of JavaScript's: one that a read is to fill, or one that was transferred to us.
///
/// `node/` makes it from an `ArrayBuffer` that script cannot reach before the request has been settled; `lib/` keeps that
/// buffer alive until then, and the end of the environment joins the timeline before the heap goes.
#[derive(Debug)]
pub struct HostBuffer {
    start: *mut u8,
    length: usize,
    /// Nothing where the memory is JavaScript's.
    _copy: Option<Bytes>,
}

// SAFETY: whoever made it promised that nobody else touches the memory while this lives; a copy is its own.
unsafe impl Send for HostBuffer {}
// SAFETY: shared references to a `HostBuffer` give no access to the memory.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// # Safety
    /// `start` must be valid for reads and writes of `length` bytes, and nobody else may access them, until the result is
    /// dropped.
    pub unsafe fn new(start: *mut u8, length: usize) -> Self {
        HostBuffer { start, length, _copy: None }
    }

    /// A copy that was made of JavaScript's memory, used like it.
    pub fn of_copy(copy: Bytes) -> Self {
        HostBuffer { start: copy.as_ptr(), length: copy.len(), _copy: Some(copy) }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it begins at a multiple of `alignment`.
    pub fn is_aligned_to(&self, alignment: usize) -> bool {
        self.start.addr().is_multiple_of(alignment)
    }

    pub fn as_slice(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: as in `as_mut_slice`.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: valid, initialised by JavaScript, and ours alone, by the promise at `new`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

/// For tests below `node/`: a buffer over memory that is leaked on purpose, and its address.
#[cfg(test)]
pub fn leaked(length: usize) -> (HostBuffer, usize) {
    let memory = Box::leak(vec![0u8; length].into_boxed_slice());
    let start = memory.as_mut_ptr();
    // SAFETY: the memory is leaked, and looked at only after the buffer has been filled and dropped.
    (unsafe { HostBuffer::new(start, length) }, start.expose_provenance())
}

/// The first byte of memory that [`leaked`] made.
#[cfg(test)]
pub fn peek(address: usize) -> u8 {
    // SAFETY: only addresses of `leaked` come here.
    unsafe { std::ptr::with_exposed_provenance::<u8>(address).read() }
}
