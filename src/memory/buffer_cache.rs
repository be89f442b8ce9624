//! Large blocks, which are mapped and not the allocator's: whatever it is, the system has them back. A few that were given back lately are
//! kept for new bytes of the same length, such as what script writes to tensors run after run: new pages would cost more than the copy.
//! When nobody has used them for a while they go.

use crate::runtime;
use memmap2::MmapMut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Smaller blocks are the allocator's, which has them quickly.
pub const WORTH_MAPPING: usize = 64 << 10;
/// Larger blocks come with large work.
const LARGEST_KEPT: usize = 32 << 20;
/// All that is kept, in bytes.
const MOST: usize = 32 << 20;
/// A block goes when nobody has taken it for so long.
const IDLE: Duration = Duration::from_secs(2);

/// Blocks that belong to nobody, and since when, the oldest first.
struct Spare {
    blocks: Vec<(MmapMut, Instant)>,
    bytes: usize,
    /// Whether somebody will have them go.
    is_watched: bool,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare { blocks: Vec::new(), bytes: 0, is_watched: false });

fn spare() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of this length, with whatever was in it.
pub fn take(length: usize) -> Option<MmapMut> {
    spare().take(length)
}

/// Keeps a block, or gives it back to the system.
pub fn give(block: MmapMut) {
    if block.len() > LARGEST_KEPT {
        return;
    }
    let (old, begins) = {
        let mut spare = spare();
        let old = spare.keep(block, Instant::now());
        (old, !std::mem::replace(&mut spare.is_watched, true))
    };
    drop(old);
    // Where nobody can watch, nothing is kept.
    if begins && runtime::spawn(watch()).is_err() {
        let (all, _) = spare().expire(None);
        drop(all);
    }
}

/// Has each block go when its time has come, until there is none.
async fn watch() {
    loop {
        let (gone, next) = spare().expire(Some(Instant::now()));
        drop(gone);
        match next {
            Some(next) => tokio::time::sleep(next).await,
            None => return,
        }
    }
}

impl Spare {
    /// The block of this length that was given back last.
    fn take(&mut self, length: usize) -> Option<MmapMut> {
        let position = self.blocks.iter().rposition(|(kept, _)| kept.len() == length)?;
        self.bytes -= length;
        Some(self.blocks.remove(position).0)
    }

    /// Keeps a block; returns those that are too much now, the oldest.
    fn keep(&mut self, block: MmapMut, now: Instant) -> Vec<MmapMut> {
        self.bytes += block.len();
        self.blocks.push((block, now));
        let mut count = 0;
        let mut left = self.bytes;
        while left > MOST {
            left -= self.blocks[count].0.len();
            count += 1;
        }
        self.remove_first(count)
    }

    fn remove_first(&mut self, count: usize) -> Vec<MmapMut> {
        let gone: Vec<MmapMut> = self.blocks.drain(..count).map(|(block, _)| block).collect();
        self.bytes -= gone.iter().map(|block| block.len()).sum::<usize>();
        gone
    }

    /// The blocks whose time has come (without a time: all), and how long it is until that of the next. Without a next one nobody watches
    /// any more.
    fn expire(&mut self, now: Option<Instant>) -> (Vec<MmapMut>, Option<Duration>) {
        let left = |since: Instant| now.map_or(Duration::ZERO, |now| IDLE.saturating_sub(now.saturating_duration_since(since)));
        let count = self.blocks.iter().take_while(|(_, since)| left(*since).is_zero()).count();
        let gone = self.remove_first(count);
        let next = self.blocks.first().map(|(_, since)| left(*since));
        self.is_watched = next.is_some();
        (gone, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Spare {
        Spare { blocks: Vec::new(), bytes: 0, is_watched: true }
    }

    /// A block with a number in it.
    fn block(number: u8, length: usize) -> MmapMut {
        let mut block = MmapMut::map_anon(length).unwrap();
        block[0] = number;
        block
    }

    fn numbers(blocks: Vec<MmapMut>) -> Vec<u8> {
        blocks.iter().map(|block| block[0]).collect()
    }

    #[test]
    fn the_latest_block_of_a_length_is_taken_first() {
        let (mut spare, now) = (empty(), Instant::now());
        for (number, length) in [(1, 70_000), (2, 80_000), (3, 70_000)] {
            assert!(spare.keep(block(number, length), now).is_empty());
        }
        let mut take = |length| spare.take(length).map(|block| block[0]);
        assert_eq!([take(70_000), take(70_000), take(70_000)], [Some(3), Some(1), None]);
        assert_eq!([take(80_001), take(80_000)], [None, Some(2)]);
        assert_eq!((spare.blocks.len(), spare.bytes), (0, 0));
    }

    #[test]
    fn what_is_too_much_goes_the_oldest_first() {
        let (mut spare, now) = (empty(), Instant::now());
        let gone = (1..=20).flat_map(|number| numbers(spare.keep(block(number, MOST / 8), now))).collect::<Vec<u8>>();
        assert_eq!(gone, (1..=12).collect::<Vec<u8>>());
        assert_eq!((spare.blocks.len(), spare.bytes), (8, MOST));
    }

    #[test]
    fn blocks_go_when_their_time_has_come() {
        let (mut spare, start) = (empty(), Instant::now());
        spare.keep(block(1, 70_000), start);
        spare.keep(block(2, 80_000), start + IDLE / 2);
        let expire = |spare: &mut Spare, at| {
            let (gone, next) = spare.expire(Some(start + at));
            (numbers(gone), next)
        };
        assert_eq!(expire(&mut spare, IDLE / 4), (vec![], Some(IDLE * 3 / 4)));
        assert_eq!(expire(&mut spare, IDLE), (vec![1], Some(IDLE / 2)));
        assert!(spare.is_watched);
        assert_eq!(expire(&mut spare, IDLE * 3 / 2), (vec![2], None));
        assert!(!spare.is_watched && spare.bytes == 0);
        spare.keep(block(3, 70_000), start);
        assert_eq!(numbers(spare.expire(None).0), [3]);
    }

    #[test]
    fn a_block_is_given_back_after_a_while() {
        // Of no other test.
        const LENGTH: usize = WORTH_MAPPING + 331 * 4096;
        give(block(1, LENGTH));
        assert!(spare().blocks.iter().any(|(block, _)| block.len() == LENGTH));
        std::thread::sleep(IDLE + Duration::from_secs(1));
        assert!(!spare().blocks.iter().any(|(block, _)| block.len() == LENGTH));
    }
}
