//! Memory that is kept for the moment when there is none left.
//!
//! Most allocations are small and many, and the language's collections end the process where one of them fails. So some
//! address space is kept, which nobody touches: where the system has nothing to give, a part of it goes back and the allocation
//! is tried again, and whoever next asks [`check`] gives up in good order. What is as large as a tensor is asked for by
//! functions that can fail instead ([`Bytes`](super::Bytes), the CPU's `scratch`), and takes nothing of it.

use crate::error::{Error, Kind, Result};
use memmap2::MmapMut;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What is kept, in so many parts of so many bytes: some thousand small allocations each, where every one takes a page.
const PARTS: usize = 8;
const PART: usize = 4 << 20;
/// Larger allocations take nothing of it.
const LARGEST: usize = 1 << 20;

static KEPT: [AtomicPtr<MmapMut>; PARTS] = [const { AtomicPtr::new(null_mut()) }; PARTS];

/// The allocator of all this crate's memory: the system's.
struct Reserving;

#[global_allocator]
static ALLOCATOR: Reserving = Reserving;

// SAFETY: every request goes to the system's allocator, with the caller's promises; what it gives, it gets back.
unsafe impl GlobalAlloc for Reserving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_again(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise. Where it fails the old allocation stays.
        or_again(size, || unsafe { System.realloc(start, layout, size) })
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[inline]
fn or_again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let start = allocate();
    if start.is_null() { again(size, &allocate) } else { start }
}

#[cold]
fn again(size: usize, allocate: &dyn Fn() -> *mut u8) -> *mut u8 {
    let parts = KEPT.iter().filter(|_| size <= LARGEST);
    for part in parts {
        let part = part.swap(null_mut(), Ordering::AcqRel);
        if part.is_null() {
            continue;
        }
        // SAFETY: the pointer is of a box that `check` has left there, and whoever takes it out has it alone.
        drop(unsafe { Box::from_raw(part) });
        let start = allocate();
        if !start.is_null() {
            return start;
        }
    }
    null_mut()
}

/// Sees to it that the reserve is whole. Asked before work that makes many small allocations, and while it goes on.
///
/// # Errors
/// `UnknownError` when there is no memory for it.
pub fn check() -> Result<()> {
    for part in KEPT.iter().filter(|part| part.load(Ordering::Relaxed).is_null()) {
        let memory = MmapMut::map_anon(PART).map_err(|_| Error::new(Kind::Unknown, "there is hardly any memory left"))?;
        let memory = Box::into_raw(Box::new(memory));
        if part.compare_exchange(null_mut(), memory, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: it was made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(memory) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// The address that the allocation gets, after it has failed so often.
    fn after(failures: usize, size: usize) -> *mut u8 {
        let left = Cell::new(failures);
        or_again(size, || match left.get() {
            0 => std::ptr::dangling_mut(),
            _ => {
                left.set(left.get() - 1);
                null_mut()
            }
        })
    }

    fn kept() -> usize {
        KEPT.iter().filter(|part| !part.load(Ordering::Relaxed).is_null()).count()
    }

    #[test]
    fn what_fails_is_tried_again_with_a_part_of_the_reserve() {
        // Other tests may fill it again meanwhile, but take nothing.
        check().unwrap();
        assert_eq!(kept(), PARTS);
        assert!(after(LARGEST, LARGEST + 1).is_null(), "something large waits for nothing");
        assert!(!after(PARTS, 1).is_null());
        check().unwrap();
        assert_eq!(kept(), PARTS);
        assert!(after(1000 * PARTS, 1).is_null(), "there is an end to it");
        check().unwrap();
        assert_eq!(kept(), PARTS);
    }
}
