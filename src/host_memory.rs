//! Memory that belongs to JavaScript, as the modules below `node/` see it.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::memory::{Arrival, Arriving, Runs, arriving, arriving_in_runs};
use std::ops::Range;

/// A buffer of JavaScript's: one that a read is to fill, or one that was transferred to us.
///
/// `node/` makes it from an `ArrayBuffer` that script cannot reach before the request has been settled; `lib/` keeps that
/// buffer alive until then, and the end of the environment joins the timeline before the heap goes.
#[derive(Debug)]
pub struct HostBuffer {
    start: *mut u8,
    length: usize,
    /// Nothing where the memory is JavaScript's.
    copy: Option<Arriving>,
    /// A part of an output that is there already.
    is_placed: bool,
}

/// Where in an output of a graph the bytes of an input lie in the end: from a byte on, in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Of the graph's outputs.
    pub output: usize,
    pub first: usize,
    pub runs: Runs,
}

/// By input of a graph: its placement, if it has one.
pub type Placements = Vec<Option<Placement>>;

// SAFETY: whoever made it promised that nobody else touches the memory while this lives; a copy is its own.
unsafe impl Send for HostBuffer {}
// SAFETY: shared references to a `HostBuffer` give no access to the memory.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// # Safety
    /// `start` must be valid for reads and writes of `length` bytes, and nobody else may access them, until the result is
    /// dropped.
    pub unsafe fn new(start: *mut u8, length: usize) -> Self {
        HostBuffer { start, length, copy: None, is_placed: false }
    }

    /// Memory for a copy of JavaScript's, used like it, that is still to be made: when it is needed, or else when the
    /// [`Arrival`] is dropped.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    ///
    /// # Safety
    /// `length` bytes must be valid for reads from `from` on until the `Arrival` is dropped, and it must be.
    pub unsafe fn for_copy(from: *const u8, length: usize) -> Result<(Self, Arrival)> {
        // SAFETY: promised.
        let (copy, arrival) = unsafe { arriving(from, length)? };
        Ok((HostBuffer { start: copy.as_ptr(), length: copy.length(), copy: Some(copy), is_placed: false }, arrival))
    }

    /// Like [`HostBuffer::for_copy`], but the copy is made in an output. Nobody can look at it as one slice.
    ///
    /// # Panics
    /// When it does not fit there.
    ///
    /// # Safety
    /// As for [`HostBuffer::for_copy`]; and nobody may access the output before [`HostBuffer::wait`] of this has returned.
    pub unsafe fn for_copy_in(output: &HostBuffer, placement: Placement, from: *const u8, length: usize) -> (Self, Arrival) {
        let Placement { first, runs, .. } = placement;
        assert!(first + runs.reach(length) <= output.length);
        let start = output.start.wrapping_add(first);
        // SAFETY: promised, and inside of the output.
        let (copy, arrival) = unsafe { arriving_in_runs(from, length, start, runs) };
        (HostBuffer { start, length, copy: Some(copy), is_placed: false }, arrival)
    }

    /// Bytes that lie in an output already, where the graph wants them: nothing copies them. Nobody can look at them as one slice.
    ///
    /// # Panics
    /// When so many do not fit there.
    pub fn in_output(output: &HostBuffer, placement: Placement, length: usize) -> HostBuffer {
        let Placement { first, runs, .. } = placement;
        assert!(first + runs.reach(length) <= output.length);
        HostBuffer { start: output.start.wrapping_add(first), length, copy: None, is_placed: true }
    }

    /// Whether the bytes lie in an output, in runs.
    pub fn is_in_output(&self) -> bool {
        self.is_placed || self.copy.as_ref().is_some_and(Arriving::is_in_runs)
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

    /// The bytes, once they are there.
    pub fn as_slice(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        assert!(!self.is_in_output());
        self.wait();
        // SAFETY: as in `as_mut_slice`.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// Where they are, or will be.
    pub fn address(&self) -> *mut u8 {
        self.start
    }

    /// Whether so many of the bytes are there.
    pub fn is_there(&self, length: usize) -> bool {
        self.copy.as_ref().is_none_or(|copy| copy.has_first(length))
    }

    /// Some of the bytes, once these are there.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.length);
        if self.length == 0 {
            return &[];
        }
        assert!(!self.is_in_output());
        if let Some(copy) = &self.copy {
            copy.wait_for(range.end);
        }
        // SAFETY: as in `as_mut_slice`, for these bytes, which nobody writes any more.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        assert!(!self.is_in_output());
        self.wait();
        // SAFETY: valid, initialised by JavaScript or by the copy that is there now, and ours alone, by the promise at `new`
        // or since whoever made the copy is done with it.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// Waits until the bytes are there.
    pub fn wait(&self) {
        if let Some(copy) = &self.copy {
            copy.wait();
        }
    }
}

/// For tests: does something with a copy of bytes that nobody else makes before it is done.
#[cfg(test)]
pub fn while_arriving<R>(bytes: &[u8], body: impl FnOnce(&HostBuffer) -> R) -> R {
    // Memory that is used again has other bytes.
    drop(crate::memory::Bytes::copy_of(&vec![0xff; bytes.len()]).unwrap());
    // SAFETY: the bytes are borrowed until this returns or unwinds, which drops the arrival.
    let (buffer, _arrival) = unsafe { HostBuffer::for_copy(bytes.as_ptr(), bytes.len()) }.unwrap();
    body(&buffer)
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
