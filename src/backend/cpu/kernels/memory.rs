//! Memory of kernels: packed constants, scratch that threads keep.
#![allow(unsafe_code)]

use crate::backend::cpu::packings::{self, Packed, packed};
use crate::backend::cpu::scratch;
use crate::memory::{ALIGNMENT, Bytes};
use std::cell::RefCell;
use std::sync::Arc;

/// Aligned numbers of a kernel.
#[derive(Clone, Debug)]
pub struct AlignedBuffer {
    memory: Arc<Packed>,
    /// How many of the numbers in it these are.
    length: usize,
    /// What counts with the kernel: nothing of what others may have too whatever step they belong to.
    bytes: usize,
}

impl AlignedBuffer {
    /// # Panics
    /// When the memory cannot be had; that ends the build with an error.
    pub fn zeroed(length: usize) -> AlignedBuffer {
        let memory = Bytes::beside_others(bytes_of(length)).unwrap_or_else(|error| panic!("{error}"));
        AlignedBuffer { memory: Arc::new(Packed::own(memory)), length, bytes: bytes_of(length) }
    }

    /// Zeros that stay zeros, and which others may have too.
    ///
    /// # Panics
    /// As [`AlignedBuffer::zeroed`].
    pub fn zeros(length: usize) -> AlignedBuffer {
        AlignedBuffer { memory: packings::zeros(bytes_of(length)), length, bytes: 0 }
    }

    /// Numbers that others may have too.
    ///
    /// # Panics
    /// As [`AlignedBuffer::zeroed`].
    pub fn row(numbers: &[f32]) -> AlignedBuffer {
        AlignedBuffer { memory: packings::row(numbers), length: numbers.len(), bytes: 0 }
    }

    /// Weights that `fill` packs, or those of another graph of the model. They depend on the numbers of `layout` beside the step's
    /// constants and attributes.
    ///
    /// # Panics
    /// As [`AlignedBuffer::zeroed`].
    pub fn packed(layout: &[usize], length: usize, fill: impl FnOnce(&mut [f32])) -> AlignedBuffer {
        let memory = packed(layout, bytes_of(length), |bytes| fill(bytemuck::cast_slice_mut(bytes)));
        AlignedBuffer { memory, length, bytes: bytes_of(length) }
    }

    pub fn as_slice(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.memory)[..self.length]
    }

    /// # Panics
    /// For numbers that were packed, which others may have too.
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(Arc::get_mut(&mut self.memory).expect("numbers that nobody else has").bytes_mut())
    }

    /// What counts with the kernel.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl AsRef<[f32]> for AlignedBuffer {
    fn as_ref(&self) -> &[f32] {
        self.as_slice()
    }
}

fn bytes_of(length: usize) -> usize {
    length.checked_mul(size_of::<f32>()).expect("a length in memory")
}

/// Calls `body` with aligned memory that the thread keeps for the next time. The contents are whatever was there.
///
/// # Panics
/// When the memory cannot be had; that becomes an error of the dispatch.
pub fn with_scratch<R>(length: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local!(static SCRATCH: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) });
    const MARGIN: usize = ALIGNMENT / size_of::<f32>();
    // Taken and put back, since the body may want more of it, or run another kernel's piece on this thread while it waits.
    let mut memory = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    if memory.len() < length + MARGIN {
        // The smaller one goes first.
        drop(memory);
        memory = scratch::zeroed(length + MARGIN);
    }
    let first = memory.as_ptr().align_offset(ALIGNMENT);
    let result = body(&mut memory[first..first + length]);
    SCRATCH.with_borrow_mut(|scratch| scratch.push(memory));
    result
}

/// The same with pointers, which are all null at first or whatever was there.
pub fn with_starts<T, R>(length: usize, body: impl FnOnce(&mut [*const T]) -> R) -> R {
    thread_local!(static STARTS: RefCell<Vec<Vec<*const f32>>> = const { RefCell::new(Vec::new()) });
    let mut memory = STARTS.with_borrow_mut(Vec::pop).unwrap_or_default();
    if memory.len() < length {
        memory = scratch::filled(std::ptr::null(), length);
    }
    assert!(length <= memory.len());
    // SAFETY: pointers to whatever type are all alike.
    let starts = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), length) };
    let result = body(starts);
    STARTS.with_borrow_mut(|starts| starts.push(memory));
    result
}
