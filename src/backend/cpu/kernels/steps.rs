//! Several steps in depth of a tile written out one after the other.
//!
//! A tile of few numbers has few products between the instructions that advance its addresses: 12 of 27 with AVX2. Where two
//! threads of execution share a core, each may have half of the instructions that it decodes in a cycle, and then these are
//! what a product waits for. Written out, 12 of 22.
#![allow(unsafe_code)]

use super::span::Span;

/// Steps that are written out.
const TOGETHER: usize = 4;
/// Numbers of a line of the cache.
const LINE: usize = 16;

/// What will be needed next, and how many numbers of it are fetched with each step; any address.
pub type Ahead = (*const f32, usize);

/// Whether a tile of so many rows of a span gains by it: the addresses of the rows must find room in registers.
pub const fn are_worth_it<S: Span>(rows: usize) -> bool {
    S::LANES <= 16 && rows >= 2 && rows <= 6
}

/// Adds the products of as many steps as are whole, and says how many these are. For each step there is a number of each row,
/// one after the other from its start on, and a span of factors.
///
/// # Safety
/// There must be that many numbers and spans for `depth` steps.
#[inline(always)]
pub unsafe fn add_steps<S: Span, const ROWS: usize, const AHEAD: bool>(
    sums: &mut [S; ROWS],
    starts: &[*const f32; ROWS],
    factors: *const f32,
    depth: usize,
    (mut ahead, ahead_step): Ahead,
    fetch: impl Fn(*const f32),
) -> usize {
    let whole = depth / TOGETHER * TOGETHER;
    let mut k = 0;
    while k < whole {
        if AHEAD {
            fetch(ahead);
            if ahead_step * TOGETHER > LINE {
                (1..TOGETHER).for_each(|line| fetch(ahead.wrapping_add(line * LINE)));
            }
            ahead = ahead.wrapping_add(ahead_step * TOGETHER);
        }
        for step in k..k + TOGETHER {
            // SAFETY: the step is one of `depth`, for which the caller promises numbers and factors.
            unsafe {
                let factors = S::load(factors.add(step * S::LANES));
                for (sum, start) in sums.iter_mut().zip(starts) {
                    *sum = S::set(*start.add(step)).mul_add(factors, *sum);
                }
            }
        }
        k += TOGETHER;
    }
    whole
}
