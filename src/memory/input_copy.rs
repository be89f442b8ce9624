//! Memory that is filled while others already work with what comes before it: large inputs are copied while the first steps of
//! their graph run. Whoever needs them first helps: what a thread copies itself is in its own cache, where the memory was when
//! it was used the last time.
//!
//! Where script's thread made the whole copy, 256 KiB took 45 microseconds, all of them on their way from one core's cache to the
//! other's, and several times as long where two threads that computed had the two cores.

use super::Bytes;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bytes that a thread copies at a time.
const PIECE: usize = 16 << 10;

/// How often a thread looks before it lets others have its core, such as the one that it waits for.
const LOOKS: usize = 2000;

/// Bytes on their way.
#[derive(Debug)]
pub struct Arriving(Arc<InputCopy>);

#[derive(Debug)]
struct InputCopy {
    /// A piece is not to be looked at before it is there.
    to: Target,
    length: usize,
    from: Source,
    pieces: usize,
    /// The pieces that nobody has begun with, as two halves of a number: the first, and the end.
    left: AtomicU64,
    /// How many pieces are there.
    there: AtomicUsize,
    /// How many of those that were taken from the front are there, without a gap.
    front: AtomicUsize,
    /// Whether somebody works with the first ones already, and will need the next.
    in_order: AtomicBool,
}

/// Where the copy is made.
#[derive(Debug)]
enum Target {
    /// In memory of its own.
    Own(Bytes),
    /// In somebody else's, in runs.
    Runs(*mut u8, Runs),
}

// SAFETY: pieces are written by one thread each and not read before they are there; somebody else's memory is left to us, by
// the promise at `arriving_in_runs`.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// Bytes that lie in runs of so many, which begin at a distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    pub run: usize,
    pub stride: usize,
}

impl Runs {
    /// How many bytes it is from the first to the end of the last of so many.
    pub fn reach(&self, length: usize) -> usize {
        if length == 0 { 0 } else { (length - 1) / self.run * self.stride + (length - 1) % self.run + 1 }
    }
}

/// Where the bytes come from: read before all pieces are there, and not any more from then on.
#[derive(Debug)]
struct Source(*const u8);

// SAFETY: it is read only, by the promise at `arriving`, while the memory is valid and nobody writes it.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// Keeps the copy possible. When this is dropped the copy is there, so nobody waits for ever.
#[derive(Debug)]
pub struct Arrival(Arc<InputCopy>);

/// A copy of so many bytes that is made by whoever needs it, or when the [`Arrival`] is dropped.
///
/// # Errors
/// `UnknownError` when the memory cannot be had.
///
/// # Safety
/// `length` bytes must be valid for reads from `from` on until the `Arrival` is dropped, and it must be.
pub unsafe fn arriving(from: *const u8, length: usize) -> Result<(Arriving, Arrival)> {
    // SAFETY: readers wait until what they look at has been copied.
    let bytes = unsafe { Bytes::unwritten(length)? };
    Ok(share(Target::Own(bytes), length, from))
}

/// The same in somebody else's memory, in runs.
///
/// # Panics
/// When runs are empty, or overlap.
///
/// # Safety
/// As for [`arriving`]; and the memory must be valid for writes from `to` on as far as the runs [reach](Runs::reach), and
/// nobody else may access them before [`Arriving::wait`] has returned.
pub unsafe fn arriving_in_runs(from: *const u8, length: usize, to: *mut u8, runs: Runs) -> (Arriving, Arrival) {
    assert!(runs.run > 0 && runs.run <= runs.stride);
    share(Target::Runs(to, runs), length, from)
}

fn share(to: Target, length: usize, from: *const u8) -> (Arriving, Arrival) {
    let pieces = length.div_ceil(PIECE);
    let shared = Arc::new(InputCopy {
        to,
        length,
        from: Source(from),
        pieces,
        left: AtomicU64::new(pieces as u64),
        there: AtomicUsize::new(0),
        front: AtomicUsize::new(0),
        in_order: AtomicBool::new(false),
    });
    (Arriving(shared.clone()), Arrival(shared))
}

impl Arriving {
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// Where the bytes begin. They are not to be accessed before [`Arriving::wait`] has returned, nor the first of them
    /// before [`Arriving::wait_for`] has.
    pub fn as_ptr(&self) -> *mut u8 {
        match &self.0.to {
            Target::Own(bytes) => bytes.as_ptr(),
            Target::Runs(start, _) => *start,
        }
    }

    /// Whether they lie in runs, and not one after the other.
    pub fn is_in_runs(&self) -> bool {
        matches!(self.0.to, Target::Runs(..))
    }

    /// Whether the first bytes, so many, are there.
    pub fn has_first(&self, length: usize) -> bool {
        self.0.has_first(length.div_ceil(PIECE))
    }

    /// Waits until the bytes are there, and copies what nobody has begun with.
    pub fn wait(&self) {
        self.0.complete(self.0.pieces, End::First);
    }

    /// The same for the first bytes, so many. Others may be on their way still, and come in their order from now on.
    pub fn wait_for(&self, length: usize) {
        if !self.has_first(length) {
            self.0.in_order.store(true, Ordering::Relaxed);
            self.0.complete(length.div_ceil(PIECE), End::First);
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.complete(self.0.pieces, End::Last);
    }
}

/// From which end a thread takes pieces. Each has its own, so that it copies the same ones in every run: those are in its
/// cache, and the other's has none of their lines to give up.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

impl InputCopy {
    /// Copies until so many pieces at the front are there.
    fn complete(&self, wanted: usize, end: End) {
        while !self.has_first(wanted) {
            let end = if self.in_order.load(Ordering::Relaxed) { End::First } else { end };
            // Where nothing is left, others are about to be done with what they have.
            let Some(piece) = self.take(end) else { return wait_until(|| self.is_complete()) };
            self.copy(piece);
            if let End::First = end {
                // Others have those before it, and are about to be done too.
                wait_until(|| self.front.load(Ordering::Acquire) == piece);
                self.front.store(piece + 1, Ordering::Release);
            }
        }
    }

    fn has_first(&self, wanted: usize) -> bool {
        self.front.load(Ordering::Acquire) >= wanted || self.is_complete()
    }

    fn is_complete(&self) -> bool {
        self.there.load(Ordering::Acquire) == self.pieces
    }

    /// Copies a piece that this thread has taken.
    fn copy(&self, piece: usize) {
        let start = piece * PIECE;
        let length = PIECE.min(self.length - start);
        let copy = |first: usize, to: *mut u8, count: usize| {
            // SAFETY: these bytes of the piece lie in both. This thread alone has it, so nobody else writes there, and nobody
            // reads there before it is there. Until then the source is valid: the `Arrival` waits for all pieces.
            unsafe { std::ptr::copy_nonoverlapping(self.from.0.add(first), to, count) };
        };
        match &self.to {
            Target::Own(bytes) => copy(start, bytes.as_ptr().wrapping_add(start), length),
            Target::Runs(to, Runs { run, stride }) => {
                let mut first = start;
                while first < start + length {
                    let within = first % run;
                    let count = (run - within).min(start + length - first);
                    copy(first, to.wrapping_add(first / run * stride + within), count);
                    first += count;
                }
            }
        }
        self.there.fetch_add(1, Ordering::Release);
    }

    /// A piece that nobody has begun with.
    fn take(&self, end: End) -> Option<usize> {
        let halves = |left: u64| (left >> 32, left & u64::from(u32::MAX));
        let take = |left| match (halves(left), end) {
            ((first, last), _) if first >= last => None,
            ((first, last), End::First) => Some(((first + 1) << 32) | last),
            ((first, last), End::Last) => Some((first << 32) | (last - 1)),
        };
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let (first, last) = halves(left);
        Some(match end {
            End::First => first,
            End::Last => last - 1,
        } as usize)
    }
}

fn wait_until(done: impl Fn() -> bool) {
    let mut looks = 0;
    while !done() {
        looks += 1;
        if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there once it has arrived.
    fn seen(arriving: &Arriving) -> Vec<u8> {
        arriving.wait();
        match &arriving.0.to {
            Target::Own(bytes) => bytes.to_vec(),
            Target::Runs(..) => panic!("in somebody else's memory"),
        }
    }

    fn copying(from: &[u8]) -> (Arriving, Arrival) {
        // Memory that was used before.
        drop(Bytes::copy_of(&vec![7; from.len()]).unwrap());
        // SAFETY: each test drops the arrival before the bytes.
        unsafe { arriving(from.as_ptr(), from.len()) }.unwrap()
    }

    #[test]
    fn readers_and_the_source_copy_together() {
        for length in [0, 1, 100, PIECE, PIECE + 1, 70_000, 5 << 20] {
            let wanted: Vec<u8> = (0..length).map(|i| (i * 7 / 5) as u8).collect();
            let (arriving, arrival) = copying(&wanted);
            assert_eq!(arriving.length(), length);
            std::thread::scope(|scope| {
                let readers = [(); 2].map(|()| scope.spawn(|| seen(&arriving)));
                drop(arrival);
                readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() == wanted, "{length} bytes"));
            });
        }
    }

    #[test]
    fn either_of_them_copies_alone() {
        let mut wanted = vec![5; 70_000];
        let (arriving, arrival) = copying(&wanted);
        assert!(seen(&arriving) == wanted);
        drop(arrival);
        let (arriving, arrival) = copying(&wanted);
        drop(arrival);
        // From now on the source is somebody else's.
        wanted.fill(9);
        assert!(seen(&arriving).iter().all(|&byte| byte == 5));
    }

    #[test]
    fn each_takes_pieces_from_its_end() {
        let from = vec![0; 4 * PIECE + 1];
        let (arriving, arrival) = copying(&from);
        let shared = arriving.0.clone();
        let taken = [End::First, End::Last, End::Last, End::First, End::Last, End::First, End::Last].map(|end| shared.take(end));
        assert_eq!(taken, [Some(0), Some(4), Some(3), Some(1), Some(2), None, None]);
        // As the copy of them would have done.
        shared.there.store(5, Ordering::Release);
        drop(arrival);
    }

    #[test]
    fn the_first_bytes_come_first() {
        let wanted: Vec<u8> = (0..20 * PIECE + 100).map(|i| (i * 7 / 5) as u8).collect();
        let (arriving, arrival) = copying(&wanted);
        let shared = arriving.0.clone();
        let there = || shared.there.load(Ordering::Acquire);
        for (length, pieces) in [(0, 0), (1, 1), (PIECE, 1), (PIECE + 1, 2), (10, 2), (5 * PIECE, 5)] {
            arriving.wait_for(length);
            assert_eq!(there(), pieces, "after a wait for {length}");
        }
        // From now on the source has the next ones too, in front of the last.
        assert_eq!(shared.take(End::Last), Some(20));
        shared.copy(20);
        arriving.wait_for(wanted.len() - PIECE);
        assert_eq!((shared.front.load(Ordering::Acquire), there()), (20, 21));
        drop(arrival);
        assert!(seen(&arriving) == wanted);
    }

    #[test]
    fn readers_take_parts_while_the_source_copies() {
        let wanted: Vec<u8> = (0..50 * PIECE + 100).map(|i| (i * 11 / 7) as u8).collect();
        for _ in 0..20 {
            let (arriving, arrival) = copying(&wanted);
            std::thread::scope(|scope| {
                for step in [1000, PIECE, 70_000] {
                    let (arriving, wanted) = (&arriving, &wanted);
                    scope.spawn(move || {
                        for end in (0..=wanted.len()).step_by(step).chain([wanted.len()]) {
                            arriving.wait_for(end);
                            let from = end.saturating_sub(step);
                            // SAFETY: these bytes are there, and nobody writes them any more.
                            let part = unsafe { std::slice::from_raw_parts(arriving.as_ptr().add(from), end - from) };
                            assert!(part == &wanted[from..end], "up to {end}");
                        }
                    });
                }
                drop(arrival);
            });
        }
    }

    #[test]
    fn the_memory_stays_until_it_is_filled() {
        let wanted = vec![1; 70_000];
        let (arriving, arrival) = copying(&wanted);
        drop(arriving);
        drop(arrival);
    }

    #[test]
    fn a_copy_may_lie_in_runs() {
        for (length, run, stride) in
            [(6, 2, 5), (7, 7, 7), (100_000, 100_000, 100_000), (96_000, 1000, 1001), (50_000, 25_000, 30_000)]
        {
            let from: Vec<u8> = (0..length).map(|i| (i * 7 / 5) as u8 | 1).collect();
            let runs = Runs { run, stride };
            let mut to = vec![0; runs.reach(length) + 3];
            let wanted: Vec<u8> = (0..to.len())
                .map(|i| if i % stride < run && i / stride < length / run { from[i / stride * run + i % stride] } else { 0 })
                .collect();
            // SAFETY: both are there until the end, and nobody looks before the copy is there.
            let (arriving, arrival) = unsafe { arriving_in_runs(from.as_ptr(), length, to.as_mut_ptr(), runs) };
            assert!(arriving.is_in_runs());
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| arriving.wait());
                drop(arrival);
                reader.join().unwrap();
            });
            assert!(to == wanted, "{length} bytes in runs of {run}, {stride} apart");
        }
    }

    #[test]
    #[should_panic(expected = "runs.run <= runs.stride")]
    fn runs_do_not_overlap() {
        let mut bytes = [0; 8];
        // SAFETY: nothing is copied.
        drop(unsafe { arriving_in_runs(bytes.as_ptr(), 0, bytes.as_mut_ptr(), Runs { run: 2, stride: 1 }) });
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        // SAFETY: nothing is read, since there is no memory to copy it to.
        assert!(unsafe { arriving(std::ptr::null(), usize::MAX / 4) }.is_err());
    }
}
