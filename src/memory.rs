//! Aligned, zeroed bytes.
//!
//! Large tensors are a server's normal case: memory is asked for fallibly, pages are touched only when they are used, and
//! a request for more than the machine has is refused here, not by the kernel's out-of-memory killer.
#![allow(unsafe_code)]

use crate::error::{Error, Kind, Result};
use memmap2::MmapMut;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

mod available;
mod buffer_cache;
mod data;
mod file_bytes;
mod huge_pages;
mod identities;
mod input_copy;
mod mapped;
mod once;
mod reserve;
mod template;
mod trim;
mod usage;

use available::available;
pub use data::Data;
pub use file_bytes::{FileBytes, FileState, Pin, Place, WORTH_GIVING_BACK, is_of_file, pin, read_of, regular, unreadable};
use huge_pages::Block;
pub use huge_pages::{Together, side_by_side};
pub use identities::{
    Finding, Immutable, Store, are_halves, greatest, identity, identity_with, is_immutable, known_greatest, known_halves,
    known_identity, seed, set_seed, store_findings,
};
pub use input_copy::{Arrival, Arriving, Runs, arriving, arriving_in_runs};
pub use mapped::{Check, MappedFile, is_mapped, let_go};
pub use once::{Once, Reference};
pub use reserve::check;
pub use template::Template;
pub use trim::{Gone, give_back, note_work};
pub use usage::{Charge, Held, Lending, THREAD, Total, Usage, UsageNumbers, Use};

/// Every [`Bytes`] begins at a multiple of this: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// The allocator gives zeroed pages lazily only up to this alignment; the rest is done by hand.
const ALLOCATOR_ALIGNMENT: usize = 16;

/// What is mapped is a multiple of it.
const PAGE: usize = 4096;

/// Requests from here on are held against what the machine has left.
const LARGE: usize = 64 << 20;

/// Aligned bytes on the heap, zeroed at first.
pub struct Bytes {
    start: NonNull<u8>,
    length: usize,
    owner: Owner,
}

/// Whose memory it is.
enum Owner {
    /// There is none.
    Nobody,
    Alone(NonNull<u8>, Layout),
    /// Pages of its own, until they are given back.
    Pages(Option<MmapMut>),
    /// A part of what others have parts of too.
    Block(Arc<Block>),
}

// SAFETY: `Bytes` owns its memory alone, like a `Box<[u8]>`.
unsafe impl Send for Bytes {}
// SAFETY: a shared `Bytes` gives out shared slices only.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn zeroed(length: usize) -> Result<Bytes> {
        if length >= WORTH_HUGE_PAGES {
            return is_at_hand(length).then(|| Bytes::in_new_pages(length)).flatten().ok_or_else(|| cannot_be_had(length));
        }
        if let Some((pages, is_new)) = Bytes::pages(length)? {
            let mut bytes = Bytes::of_pages(pages, length);
            if !is_new {
                bytes.fill(0);
            }
            return Ok(bytes);
        }
        // SAFETY: the layout's size is not zero, as `allocate` promises; zeros are initialised bytes.
        unsafe { Bytes::allocate(length, |layout| alloc_zeroed(layout)) }
    }

    /// A copy of other bytes.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn copy_of(bytes: &[u8]) -> Result<Bytes> {
        // SAFETY: all bytes are written before anybody reads them.
        let copy = unsafe { Bytes::unwritten(bytes.len())? };
        // SAFETY: both are valid for so many bytes, and what was just allocated overlaps nothing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.start.as_ptr(), bytes.len()) };
        Ok(copy)
    }

    /// Memory for a copy, with whatever was in it.
    ///
    /// # Safety
    /// It must be written before it is read.
    unsafe fn unwritten(length: usize) -> Result<Bytes> {
        if let Some((pages, _)) = Bytes::pages(length)? {
            return Ok(Bytes::of_pages(pages, length));
        }
        // SAFETY: the layout's size is not zero, as `allocate` promises; the rest is the caller's promise.
        unsafe { Bytes::allocate(length, |layout| alloc(layout)) }
    }

    /// Pages for many bytes, and whether they are new. Where the system has too many mappings, the allocator may still have memory.
    ///
    /// # Errors
    /// `UnknownError` when the machine has not so much memory left.
    fn pages(length: usize) -> Result<Option<(MmapMut, bool)>> {
        if length < buffer_cache::WORTH_MAPPING {
            return Ok(None);
        }
        let fail = || cannot_be_had(length);
        let rounded = length.checked_next_multiple_of(PAGE).ok_or_else(fail)?;
        if let Some(pages) = buffer_cache::take(rounded) {
            return Ok(Some((pages, false)));
        }
        if !is_at_hand(length) {
            return Err(fail());
        }
        let pages = MmapMut::map_anon(rounded).ok();
        if let Some(pages) = pages.as_ref().filter(|_| rounded >= WORTH_HUGE_PAGES) {
            prefer_huge_pages(NonNull::from(&**pages).cast(), rounded);
        }
        Ok(pages.map(|pages| (pages, true)))
    }

    /// The first of pages.
    ///
    /// # Panics
    /// When there are fewer bytes, or none.
    fn of_pages(mut pages: MmapMut, length: usize) -> Bytes {
        assert!(0 < length && length <= pages.len());
        let start = NonNull::from(&mut *pages).cast();
        Bytes { start, length, owner: Owner::Pages(Some(pages)) }
    }

    /// Aligned memory from an allocator, which is asked for no empty layout.
    ///
    /// # Safety
    /// What `allocate` gives must belong to the layout and to nobody else, and be initialised before it is read.
    unsafe fn allocate(length: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Result<Bytes> {
        let fail = || cannot_be_had(length);
        if length == 0 {
            return Ok(Bytes::default());
        }
        if !is_at_hand(length) {
            return Err(fail());
        }
        let size = length.checked_add(ALIGNMENT - ALLOCATOR_ALIGNMENT).ok_or_else(fail)?;
        let layout = Layout::from_size_align(size, ALLOCATOR_ALIGNMENT).map_err(|_| fail())?;
        let allocation = NonNull::new(allocate(layout)).ok_or_else(fail)?;
        let offset = allocation.as_ptr().align_offset(ALIGNMENT);
        assert!(offset + length <= size);
        // SAFETY: `offset` is within the allocation by the assertion.
        let start = unsafe { allocation.add(offset) };
        Ok(Bytes { start, length, owner: Owner::Alone(allocation, layout) })
    }

    /// A part of a block.
    ///
    /// # Safety
    /// It must be inside of the block, initialised, and nobody else's.
    unsafe fn part(start: NonNull<u8>, length: usize, block: Arc<Block>) -> Bytes {
        Bytes { start, length, owner: Owner::Block(block) }
    }

    #[cfg(test)]
    fn is_part(&self) -> bool {
        matches!(self.owner, Owner::Block(_))
    }

    /// Where the bytes begin. Valid for reads and writes of the whole length as long as `self` lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// Allocations from here on are offered pages of 2 MiB: reading them costs a sixth less, and touching them for the first
/// time much less.
const WORTH_HUGE_PAGES: usize = 4 << 20;

/// Asks for huge pages for what nobody has touched yet. Where there are none nothing happens.
#[cfg(target_os = "linux")]
fn prefer_huge_pages(start: NonNull<u8>, size: usize) {
    const MADV_HUGEPAGE: std::ffi::c_int = 14;
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: std::ffi::c_int) -> std::ffi::c_int;
    }
    let skipped = start.as_ptr().align_offset(PAGE);
    let length = (size - skipped) / PAGE * PAGE;
    // SAFETY: whole pages inside of our own allocation; advice changes no contents. It is allowed to fail.
    unsafe { madvise(start.as_ptr().add(skipped).cast(), length, MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}

/// No bytes.
impl Default for Bytes {
    fn default() -> Bytes {
        Bytes { start: NonNull::<u64>::dangling().cast(), length: 0, owner: Owner::Nobody }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        match &mut self.owner {
            Owner::Nobody => {}
            // SAFETY: it came from the allocator with this layout, and only here is it given back.
            Owner::Alone(allocation, layout) => unsafe { dealloc(allocation.as_ptr(), *layout) },
            Owner::Pages(pages) => pages.take().into_iter().for_each(buffer_cache::give),
            // With the last part the whole block goes.
            Owner::Block(block) if Arc::strong_count(block) == 1 => {}
            // SAFETY: the part was this one's alone, is given out once, and the block is still there.
            Owner::Block(_) => unsafe { huge_pages::empty(self.start, self.length) },
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `length` initialised bytes (zeroed at first) that belong to `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.length)
    }
}

fn cannot_be_had(length: usize) -> Error {
    Error::new(Kind::Unknown, format!("cannot allocate {length} bytes"))
}

/// Whether the machine has so much memory left. Small requests are not looked at: the allocator decides.
pub fn is_at_hand(length: usize) -> bool {
    length < LARGE || available().is_none_or(|available| length <= available)
}

/// Asks for so many bytes at once and gives them back: many small pieces are to follow, which cannot fail one by one.
///
/// # Errors
/// `UnknownError` when they cannot be had.
pub fn require(bytes: usize) -> Result<()> {
    check()?;
    let mut probe = Vec::<u8>::new();
    match is_at_hand(bytes) && probe.try_reserve_exact(bytes).is_ok() {
        true => Ok(()),
        false => Err(cannot_be_had(bytes)),
    }
}

/// So many copies of a value, where somebody else decides how many.
///
/// # Errors
/// `UnknownError` when there is no memory for them.
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    require(count.saturating_mul(size_of::<T>()))?;
    let mut list = Vec::new();
    list.try_reserve_exact(count).map_err(|_| cannot_be_had(count.saturating_mul(size_of::<T>())))?;
    list.resize(count, value);
    Ok(list)
}

/// Makes room for so many more elements in a collection whose length somebody else decides.
///
/// # Errors
/// `UnknownError` when it cannot be had.
pub fn grow<T>(vector: &mut Vec<T>, additional: usize) -> Result<()> {
    vector
        .try_reserve(additional)
        .map_err(|_| cannot_be_had(vector.len().saturating_add(additional).saturating_mul(size_of::<T>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_zeroed_and_aligned() {
        for length in [0, 1, 63, 64, 65, 70_000, 70_000, 1 << 20, 1 << 20, 5 << 20] {
            let mut bytes = Bytes::zeroed(length).unwrap();
            assert_eq!(bytes.len(), length);
            assert!(bytes.iter().all(|&byte| byte == 0));
            assert!(length == 0 || (bytes.as_ptr() as usize).is_multiple_of(ALIGNMENT));
            // For whoever has the memory next.
            bytes.fill(1);
        }
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        assert_eq!(Bytes::zeroed(usize::MAX / 4).unwrap_err().kind(), Kind::Unknown);
        assert_eq!(Bytes::zeroed(usize::MAX).unwrap_err().kind(), Kind::Unknown);
    }
}
