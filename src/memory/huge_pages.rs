//! Constants of one graph beside each other, in pages of 2 MiB: reading them one after the other misses no translations of
//! addresses, and what fits into a cache has no two halves that displace each other.

use super::Bytes;
use crate::error::Result;
use memmap2::MmapMut;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

const HUGE_PAGE: usize = 2 << 20;
/// A block has room for so many bytes at most. What is larger than half of it has pages enough of its own.
const BLOCK: usize = 64 << 20;
/// Graphs with fewer bytes of constants take ordinary memory.
const WORTH_IT: usize = 512 << 10;

/// Zeroed memory that several [`Bytes`] have parts of: new pages, for those of an allocator's that were used before are small.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    length: usize,
    #[allow(dead_code, reason = "it is kept")]
    pages: MmapMut,
}

// SAFETY: the block itself accesses nothing; its parts belong to one `Bytes` each.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn new(length: usize) -> Option<Block> {
        let length = length.checked_next_multiple_of(HUGE_PAGE)?;
        let mut pages = MmapMut::map_anon(length.checked_add(HUGE_PAGE)?).ok()?;
        let all = NonNull::new(pages.as_mut_ptr())?;
        let offset = all.as_ptr().align_offset(HUGE_PAGE);
        assert!(offset + length <= pages.len());
        // SAFETY: within the pages, by the assertion.
        let start = unsafe { all.add(offset) };
        super::prefer_huge_pages(start, length);
        Some(Block { start, length, pages })
    }

    /// All bytes of some pages, which nobody else has.
    #[cfg(target_os = "linux")]
    pub(super) fn of(mut pages: MmapMut, length: usize) -> Option<Bytes> {
        assert!(length <= pages.len());
        let start = NonNull::new(pages.as_mut_ptr())?;
        // SAFETY: it begins where the pages do, initialized and aligned, and is the only part; they live as long.
        Some(unsafe { Bytes::part(start, length, Arc::new(Block { start, length, pages })) })
    }
}

/// Smaller parts stay with their block.
#[cfg(target_os = "linux")]
const WORTH_EMPTYING: usize = 64 << 10;

/// Gives the pages that only a part of a block fills back to the system: those of other graphs are still read.
///
/// # Safety
/// The memory must be a part of a block that is there, and nobody may use it any more.
#[cfg(target_os = "linux")]
pub(super) unsafe fn empty(start: NonNull<u8>, length: usize) {
    const PAGE: usize = 4096;
    const MADV_DONTNEED: std::ffi::c_int = 4;
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: std::ffi::c_int) -> std::ffi::c_int;
    }
    let skipped = start.as_ptr().addr().next_multiple_of(PAGE) - start.as_ptr().addr();
    if length < WORTH_EMPTYING.max(skipped) {
        return;
    }
    // SAFETY: whole pages of the part, in an anonymous private mapping. It is allowed to fail.
    unsafe { madvise(start.as_ptr().add(skipped).cast(), (length - skipped) / PAGE * PAGE, MADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn empty(_: NonNull<u8>, _: usize) {}

/// What is put side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Together {
    All,
    /// Where most of what was expected may not come: what is worth a block of its own, and small parts beside it.
    Large,
}

/// The block that is being filled.
struct Filling {
    together: Together,
    block: Option<Arc<Block>>,
    used: usize,
    /// Bytes that are still to come, about.
    expected: usize,
}

thread_local!(static FILLING: RefCell<Option<Filling>> = const { RefCell::new(None) });

/// Lets [`Bytes::beside_others`] put what this thread makes in `body` side by side, about so many bytes.
pub fn side_by_side<R>(expected: usize, together: Together, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Filling>);
    impl Drop for Restore {
        fn drop(&mut self) {
            FILLING.set(self.0.take());
        }
    }
    let filling = (expected >= WORTH_IT).then_some(Filling { together, block: None, used: 0, expected });
    let _restore = Restore(FILLING.replace(filling));
    body()
}

impl Bytes {
    /// Zeros, beside others of the same [`side_by_side`].
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn beside_others(length: usize) -> Result<Bytes> {
        let part = FILLING.with_borrow_mut(|filling| filling.as_mut().and_then(|filling| filling.take(length)));
        match part {
            // SAFETY: the part was given out once, is in the block, zeroed and aligned; the block lives as long.
            Some((start, block)) => Ok(unsafe { Bytes::part(start, length, block) }),
            None => Bytes::zeroed(length),
        }
    }

    /// Zeros in pages of their own, which are there when they are touched, and are the system's again when the bytes are dropped: for
    /// room that is filled little by little. Of the first ones, `reserved`, only few will ever be touched.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn in_own_pages(reserved: usize, length: usize) -> Result<Bytes> {
        if length == 0 || reserved == 0 && length >= super::WORTH_HUGE_PAGES {
            return Bytes::zeroed(length);
        }
        let fail = || super::cannot_be_had(length);
        if !super::is_at_hand(length - reserved) {
            return Err(fail());
        }
        let mut pages = MmapMut::map_anon(length).map_err(|_| fail())?;
        let start = NonNull::new(pages.as_mut_ptr()).ok_or_else(fail)?;
        let touched = length - reserved;
        if touched >= super::WORTH_HUGE_PAGES {
            // SAFETY: within the pages.
            super::prefer_huge_pages(unsafe { start.add(reserved) }, touched);
        }
        // SAFETY: it begins where the pages do, zeroed and aligned, and is the only part; they live as long.
        Ok(unsafe { Bytes::part(start, length, Arc::new(Block { start, length, pages })) })
    }

    /// Zeros in a block of their own, if there is so much memory.
    pub(super) fn in_new_pages(length: usize) -> Option<Bytes> {
        let block = Block::new(length)?;
        // SAFETY: it begins where the block does, zeroed and aligned, and is the only part.
        Some(unsafe { Bytes::part(block.start, length, Arc::new(block)) })
    }
}

impl Filling {
    /// A part of so many bytes, if one would rather have it here.
    fn take(&mut self, length: usize) -> Option<(NonNull<u8>, Arc<Block>)> {
        if length == 0 || length > BLOCK / 2 {
            return None;
        }
        let padded = length.next_multiple_of(super::ALIGNMENT);
        let has_room = self.block.as_ref().is_some_and(|block| padded <= block.length - self.used);
        if !has_room && self.together == Together::Large && length < WORTH_IT {
            return None;
        }
        if !has_room {
            self.block = Some(Arc::new(Block::new(self.expected.clamp(padded, BLOCK))?));
            self.used = 0;
        }
        let block = self.block.clone()?;
        // SAFETY: `used` is at most the block's length, since there is room after it.
        let start = unsafe { block.start.add(self.used) };
        self.used += padded;
        self.expected = self.expected.saturating_sub(padded);
        Some((start, block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_zeroed_aligned_and_apart() {
        let make = |length: usize| {
            let mut bytes = Bytes::beside_others(length).unwrap();
            assert!(bytes.iter().all(|&byte| byte == 0));
            assert!(length == 0 || (bytes.as_ptr() as usize).is_multiple_of(super::super::ALIGNMENT));
            bytes.fill(length as u8);
            bytes
        };
        // Also beyond what was expected, what has a block of its own, and what does not fit into the first block.
        let lengths = [1, 63, 64, 65, 0, 1 << 20, 3 << 20, BLOCK / 2 + 1, BLOCK / 2, BLOCK / 2, 7];
        let made: Vec<Bytes> = side_by_side(WORTH_IT, Together::All, || lengths.into_iter().map(make).collect());
        for (bytes, length) in made.iter().zip(lengths) {
            assert!(bytes.len() == length && bytes.iter().all(|&byte| byte == length as u8));
        }
        // The block stays as long as a part of it.
        let last = made.into_iter().next_back().unwrap();
        assert!(last.iter().all(|&byte| byte == 7));
    }

    /// A huge page for a few numbers would be nearly empty.
    #[test]
    fn what_is_small_opens_no_block_where_little_may_come() {
        let lengths = [64, WORTH_IT - 1, WORTH_IT, 64];
        let is_part = |length: usize| Bytes::beside_others(length).unwrap().is_part();
        let parts = |together| side_by_side(1 << 30, together, || lengths.map(is_part));
        assert_eq!(parts(Together::Large), [false, false, true, true]);
        assert_eq!(parts(Together::All), [true; 4]);
    }

    #[test]
    fn room_is_zeroed_aligned_and_apart() {
        for length in [0, 1, 4096, 5000, 5 << 20] {
            let (mut one, two) = (Bytes::in_own_pages(0, length).unwrap(), Bytes::in_own_pages(length / 2, length).unwrap());
            assert!(one.len() == length && one.iter().all(|&byte| byte == 0));
            assert!(length == 0 || one.as_ptr().addr().is_multiple_of(super::super::ALIGNMENT));
            one.fill(1);
            assert!(two.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn small_graphs_take_ordinary_memory() {
        let is_part = |expected: usize| side_by_side(expected, Together::All, || Bytes::beside_others(100).unwrap().is_part());
        assert!(is_part(WORTH_IT) && !is_part(WORTH_IT - 1));
        assert!(!Bytes::beside_others(100).unwrap().is_part(), "nothing is left behind");
        // Nor when it ends by a panic.
        let fails = || side_by_side(WORTH_IT, Together::All, || panic!("on purpose"));
        assert!(std::panic::catch_unwind(fails).is_err());
        assert!(!Bytes::beside_others(100).unwrap().is_part());
    }
}
