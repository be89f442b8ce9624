//! What of the weights is fetched before it is read: so far on in the stream of panels that lie together. After the last panels of
//! one come those that are read next.
//!
//! Into the second-level cache: on a Zen 4, of the 70 MB of a decoder with rows of 576 weights of four bits, 22 GB/s are read so, 15
//! where nothing is fetched, and 7 where lines are fetched into the first-level cache.

use super::Format;
use crate::simd::prefetch::fetch;

/// How far behind the words that are read those are that are fetched, in words of all lanes.
const SOON: usize = 32;

/// Distances in bytes: of the words of a panel, and of its scales.
pub(super) struct Ahead {
    words: usize,
    scales: usize,
}

impl Ahead {
    /// For panels of which so many lie together.
    #[inline(always)]
    pub fn of(format: &Format, together: usize) -> Ahead {
        let blocks = SOON.div_ceil(format.words().max(1));
        Ahead { words: SOON * together * format.lanes * 4, scales: blocks * together * format.bytes_of_scales() }
    }

    /// Fetches words, whether they are there or not.
    #[inline(always)]
    pub fn words(&self, from: *const f32) {
        fetch::<1>(from.wrapping_byte_add(self.words));
    }

    #[inline(always)]
    pub fn scales(&self, from: *const f32) {
        fetch::<1>(from.wrapping_byte_add(self.scales));
    }
}
