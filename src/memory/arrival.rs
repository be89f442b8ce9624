//! Memory that one thread fills while another already works with what comes before it: large inputs are copied while the first
//! steps of their graph run.

use super::Bytes;
use crate::error::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a reader looks before it lets other threads have its core, such as the one that it waits for.
const LOOKS: usize = 2000;

/// Bytes on their way.
#[derive(Debug)]
pub struct Arriving(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Not to be looked at before they are there.
    bytes: Bytes,
    are_there: AtomicBool,
}

/// The duty to fill the memory. Dropped unused it fills it with zeros, so that nobody waits for ever.
#[derive(Debug)]
pub struct Arrival(Arc<Shared>);

/// Memory for a copy of so many bytes, which whoever has the [`Arrival`] makes later.
///
/// # Errors
/// `UnknownError` when the memory cannot be had.
pub fn arriving(length: usize) -> Result<(Arriving, Arrival)> {
    // SAFETY: readers wait for `are_there`, which only `fill` sets, or the `Arrival` that is dropped without it.
    let bytes = unsafe { Bytes::unwritten(length)? };
    let shared = Arc::new(Shared { bytes, are_there: AtomicBool::new(length == 0) });
    Ok((Arriving(shared.clone()), Arrival(shared)))
}

impl Arriving {
    pub fn length(&self) -> usize {
        self.0.bytes.len()
    }

    /// Where the bytes begin. They are not to be accessed before [`Arriving::wait`] has returned.
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.bytes.as_ptr()
    }

    /// Waits until the bytes are there.
    pub fn wait(&self) {
        let mut looks = 0;
        while !self.0.are_there.load(Ordering::Acquire) {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

impl Arrival {
    /// Makes the copy.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn fill(self, from: &[u8]) {
        assert_eq!(from.len(), self.0.bytes.len());
        // SAFETY: the memory is valid for so many bytes and overlaps nothing that somebody else has. Nobody reads it before
        // `are_there` is set, and there is one `Arrival`, which this uses up.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.0.bytes.as_ptr(), from.len()) };
        self.0.are_there.store(true, Ordering::Release);
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if !self.0.are_there.load(Ordering::Relaxed) {
            // SAFETY: as in `fill`.
            unsafe { std::ptr::write_bytes(self.0.bytes.as_ptr(), 0, self.0.bytes.len()) };
            self.0.are_there.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is there once it has arrived.
    fn seen(arriving: &Arriving) -> Vec<u8> {
        arriving.wait();
        arriving.0.bytes.to_vec()
    }

    #[test]
    fn readers_wait_for_what_comes() {
        for length in [0, 1, 100, 70_000, 5 << 20] {
            // Memory that was used before.
            drop(Bytes::copy_of(&vec![7; length]).unwrap());
            let (arriving, arrival) = arriving(length).unwrap();
            assert_eq!(arriving.length(), length);
            let wanted: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let found = std::thread::scope(|scope| {
                let reader = scope.spawn(|| seen(&arriving));
                arrival.fill(&wanted);
                reader.join().unwrap()
            });
            assert!(found == wanted, "{length} bytes");
        }
    }

    #[test]
    fn what_never_comes_is_zeros() {
        drop(Bytes::copy_of(&[7; 70_000]).unwrap());
        let (arriving, arrival) = arriving(70_000).unwrap();
        drop(arrival);
        assert!(seen(&arriving).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_memory_stays_until_it_is_filled() {
        let (arriving, arrival) = arriving(70_000).unwrap();
        drop(arriving);
        arrival.fill(&[1; 70_000]);
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        assert!(arriving(usize::MAX / 4).is_err());
    }
}
