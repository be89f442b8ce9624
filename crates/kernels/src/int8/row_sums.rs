//! The sums of the rows of a left operand, which its zero point is multiplied with.
#![allow(unsafe_code)]

use crate::isa::{Isa, Loop};

/// Adds up the bytes of each row of a tile; `starts` has, for each run, for each row, where `length` bytes lie.
///
/// # Safety
/// So many bytes must lie at each start.
pub unsafe fn add_up_rows(isa: &Isa, starts: &[*const u8], length: usize, sums: &mut [i32]) {
    isa.run_loop(Sums { starts, length, sums });
}

struct Sums<'a> {
    /// For each run, for each row; so many bytes count.
    starts: &'a [*const u8],
    length: usize,
    sums: &'a mut [i32],
}

impl Loop for Sums<'_> {
    #[inline(always)]
    fn run(self) {
        let Sums { starts, length, sums } = self;
        sums.fill(0);
        for starts in starts.chunks_exact(sums.len()) {
            for (sum, &start) in sums.iter_mut().zip(starts) {
                // SAFETY: a run lies there, by the promise at [`add_up_rows`].
                let bytes = unsafe { std::slice::from_raw_parts(start, length) };
                let (wholes, rest) = bytes.as_chunks::<32>();
                // So many bytes fit into 16 bits.
                for wholes in wholes.chunks(256) {
                    let mut lanes = [0u16; 32];
                    for whole in wholes {
                        for i in 0..32 {
                            lanes[i] += u16::from(whole[i]);
                        }
                    }
                    *sum += lanes.iter().map(|&lane| i32::from(lane)).sum::<i32>();
                }
                *sum += rest.iter().map(|&byte| i32::from(byte)).sum::<i32>();
            }
        }
    }
}
