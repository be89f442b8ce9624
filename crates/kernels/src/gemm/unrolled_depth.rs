//! Several steps in depth of a tile written out one after the other.
//!
//! A tile of few numbers has few products between the instructions that advance its addresses: 12 of 27 with AVX2. Where two
//! threads of execution share a core, each may have half of the instructions that it decodes in a cycle, and then these are
//! what a product waits for. Written out, 12 of 22.
#![allow(unsafe_code)]

use crate::simd::prefetch::{LINE, fetch};
use crate::simd::vector_bundle::VectorBundle;

/// Steps that are written out.
const UNROLL: usize = 4;
/// Rows whose addresses find room in registers.
const MOST_ROWS: usize = if cfg!(target_arch = "aarch64") { 8 } else { 6 };

/// What will be needed next, and how many numbers of it are fetched with each step; any address.
pub type Ahead = (*const f32, usize);

/// Whether a tile of so many rows of a bundle gains by it.
pub const fn are_worth_it<S: VectorBundle>(rows: usize) -> bool {
    S::LANES <= 16 && rows >= 2 && rows <= MOST_ROWS
}

/// Adds the products of as many steps as are whole, and says how many these are. For each step there is a number of each row,
/// one after the other from its start on, and a bundle of factors. What will be needed next is fetched if there are STREAMS, line
/// after line however many they are.
///
/// # Safety
/// There must be that many numbers and bundles for `depth` steps.
#[inline(always)]
pub unsafe fn add_steps<S: VectorBundle, const ROWS: usize, const STREAMS: usize>(
    sums: &mut [S; ROWS],
    starts: &[*const f32; ROWS],
    factors: *const f32,
    depth: usize,
    (mut ahead, ahead_step): Ahead,
) -> usize {
    let whole = depth / UNROLL * UNROLL;
    let mut k = 0;
    while k < whole {
        if STREAMS > 0 {
            fetch::<1>(ahead);
            if ahead_step * UNROLL > LINE {
                (1..UNROLL).for_each(|line| fetch::<1>(ahead.wrapping_add(line * LINE)));
            }
            ahead = ahead.wrapping_add(ahead_step * UNROLL);
        }
        // SAFETY: these steps are some of `depth`, for which the caller promises numbers and factors.
        unsafe {
            let numbers: [S::Numbers; ROWS] = std::array::from_fn(|r| S::numbers(starts[r].add(k)));
            let factors = factors.add(k * S::LANES);
            add_products::<S, ROWS, 0>(sums, &numbers, factors);
            add_products::<S, ROWS, 1>(sums, &numbers, factors);
            add_products::<S, ROWS, 2>(sums, &numbers, factors);
            add_products::<S, ROWS, 3>(sums, &numbers, factors);
        }
        k += UNROLL;
    }
    whole
}

/// Adds the products of one of the steps.
///
/// # Safety
/// There must be numbers and factors for it.
#[inline(always)]
unsafe fn add_products<S: VectorBundle, const ROWS: usize, const STEP: i32>(
    sums: &mut [S; ROWS],
    numbers: &[S::Numbers; ROWS],
    factors: *const f32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let factors = S::load(factors.add(STEP as usize * S::LANES));
        for (sum, numbers) in sums.iter_mut().zip(numbers) {
            *sum = sum.add_product::<STEP>(*numbers, factors);
        }
    }
}
