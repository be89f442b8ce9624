//! A little memory that was given back lately, for copies of the same length: what script writes to tensors run after run.
//! New pages would cost more than the copy.

use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Smaller blocks are quick to get, larger ones come with large work.
const KEPT: std::ops::Range<usize> = 64 << 10..4 << 20;
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
    let mut spare = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let position = spare.blocks.iter().rposition(|(_, kept)| *kept == layout)?;
    spare.bytes -= layout.size();
    Some(spare.blocks.remove(position).0.as_ptr())
}

/// Keeps a block, or gives it back to the allocator.
///
/// # Safety
/// It must come from the global allocator with this layout, and belong to the caller.
pub unsafe fn give(block: NonNull<u8>, layout: Layout) {
    let mut old = Vec::new();
    if KEPT.contains(&layout.size()) {
        let mut spare = SPARE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        spare.blocks.push((block, layout));
        spare.bytes += layout.size();
        let mut count = 0;
        while spare.bytes > MOST {
            spare.bytes -= spare.blocks[count].1.size();
            count += 1;
        }
        old.extend(spare.blocks.drain(..count));
    } else {
        old.push((block, layout));
    }
    for (block, layout) in old {
        // SAFETY: the promise of whoever gave it; it is in no list any more.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}
