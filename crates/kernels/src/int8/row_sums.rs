//! The sums of the rows of a left operand, which its zero point is multiplied with.
#![allow(unsafe_code)]

use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;

/// Adds up the bytes of each row of a tile; `starts` has, for each run, for each row, where `length` bytes lie. Pauses within long runs.
///
/// # Safety
/// So many bytes must lie at each start.
pub unsafe fn add_up_rows(isa: &Isa, starts: &[*const u8], length: usize, sums: &mut [i32], pauses: Pauses) {
    isa.run_loop(Sums { starts, length, sums, pauses });
}

struct Sums<'a> {
    /// For each run, for each row; so many bytes count.
    starts: &'a [*const u8],
    length: usize,
    sums: &'a mut [i32],
    pauses: Pauses,
}

impl Loop for Sums<'_> {
    #[inline(always)]
    fn run(self) {
        let Sums { starts, length, sums, pauses } = self;
        let parts = pauses.whole_parts(length, 32, 1);
        sums.fill(0);
        for starts in starts.chunks_exact(sums.len()) {
            for (sum, &start) in sums.iter_mut().zip(starts) {
                // SAFETY: a run lies there, by the promise at [`add_up_rows`].
                let bytes = unsafe { std::slice::from_raw_parts(start, length) };
                parts.clone().for_each(|part| *sum = sum.wrapping_add(sum_of(&bytes[part])));
            }
        }
    }
}

#[inline(always)]
fn sum_of(bytes: &[u8]) -> i32 {
    let (wholes, rest) = bytes.as_chunks::<32>();
    let mut sum = rest.iter().fold(0, |sum: i32, &byte| sum.wrapping_add(i32::from(byte)));
    // So many bytes fit into 16 bits.
    for wholes in wholes.chunks(256) {
        let mut lanes = [0u16; 32];
        for whole in wholes {
            for i in 0..32 {
                lanes[i] += u16::from(whole[i]);
            }
        }
        sum = sum.wrapping_add(lanes.iter().map(|&lane| i32::from(lane)).sum::<i32>());
    }
    sum
}
