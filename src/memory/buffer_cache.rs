//! A little memory that was given back lately, for copies of the same length: what script writes to tensors run after run.
//! New pages would cost more than the copy.

use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Smaller blocks are quick to get, larger ones come with large work. (With blocks of the allocator's, runs that copy 4 MiB took
/// 0.2 ms after most loadings of a model and 1.1 ms after others, without page faults, until script paused.)
const KEPT: std::ops::RangeInclusive<usize> = 64 << 10..=MOST;
/// All that is kept, in bytes.
const MOST: usize = 32 << 20;

/// Blocks that belong to nobody, the oldest first.
struct Spare {
    blocks: Vec<(NonNull<u8>, Layout)>,
    bytes: usize,
}

// SAFETY: the blocks belong to nobody but this list.
unsafe impl Send for Spare {}

static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: Vec::new(), bytes: 0 });

/// A block of this layout, with whatever was in it; it belongs to the caller.
pub fn take(layout: Layout) -> Option<*mut u8> {
    if !KEPT.contains(&layout.size()) {
        return None;
    }
    SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(layout)
}

/// Keeps a block, or gives it back to the allocator.
///
/// # Safety
/// It must come from the global allocator with this layout, and belong to the caller.
pub unsafe fn give(block: NonNull<u8>, layout: Layout) {
    if !KEPT.contains(&layout.size()) {
        // SAFETY: the caller's promise.
        return unsafe { dealloc(block.as_ptr(), layout) };
    }
    let old = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).keep(block, layout);
    for (block, layout) in old {
        // SAFETY: the promise of whoever gave it; it is in no list any more.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

impl Spare {
    /// The block of this layout that was given back last.
    fn take(&mut self, layout: Layout) -> Option<*mut u8> {
        let position = self.blocks.iter().rposition(|(_, kept)| *kept == layout)?;
        self.bytes -= layout.size();
        Some(self.blocks.remove(position).0.as_ptr())
    }

    /// Keeps a block; returns those that are too much now, the oldest.
    fn keep(&mut self, block: NonNull<u8>, layout: Layout) -> Vec<(NonNull<u8>, Layout)> {
        self.blocks.push((block, layout));
        self.bytes += layout.size();
        let mut count = 0;
        while self.bytes > MOST {
            self.bytes -= self.blocks[count].1.size();
            count += 1;
        }
        self.blocks.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that is only compared, and its layout.
    fn block(number: usize, size: usize) -> (NonNull<u8>, Layout) {
        let address = std::num::NonZero::new(number * 64).unwrap();
        (NonNull::without_provenance(address), Layout::from_size_align(size, 16).unwrap())
    }

    #[test]
    fn the_latest_block_of_a_layout_is_taken_first() {
        let mut spare = Spare { blocks: Vec::new(), bytes: 0 };
        for (number, size) in [(1, 70_000), (2, 80_000), (3, 70_000)] {
            let (start, layout) = block(number, size);
            assert!(spare.keep(start, layout).is_empty());
        }
        let mut take = |size| spare.take(block(1, size).1).map(|start| start.addr() / 64);
        assert_eq!([take(70_000), take(70_000), take(70_000)], [Some(3), Some(1), None]);
        assert_eq!([take(80_001), take(80_000)], [None, Some(2)]);
        assert_eq!((spare.blocks.len(), spare.bytes), (0, 0));
    }

    #[test]
    fn images_of_several_megabytes_are_kept() {
        assert!([100 << 10, 4 << 20, 3 * 1080 * 1920 * 4].iter().all(|size| KEPT.contains(size)));
        assert!([16 << 10, MOST + 1].iter().all(|size| !KEPT.contains(size)));
    }

    #[test]
    fn what_is_too_much_goes_the_oldest_first() {
        let mut spare = Spare { blocks: Vec::new(), bytes: 0 };
        let gone: Vec<usize> = (1..=20)
            .flat_map(|number| {
                let (start, layout) = block(number, MOST / 8);
                spare.keep(start, layout)
            })
            .map(|(start, _)| start.addr().get() / 64)
            .collect();
        assert_eq!(gone, (1..=12).collect::<Vec<_>>());
        assert_eq!((spare.blocks.len(), spare.bytes), (8, MOST));
    }
}
