//! How kernels spread over threads.
//!
//! A kernel never starts threads and never waits for the global pool: it divides its output, and when the caller runs
//! inside the context's rayon pool the pieces run there; otherwise, or when there is little to do, one after the other.

use rayon::prelude::*;

/// Below this many units of work (about a nanosecond each) a hand-over to other threads costs more than it gains.
const WORTH_DIVIDING: usize = 50_000;

/// Calls `body` with consecutive pieces of `output`, each a whole number of `unit` elements, and the index of the piece's
/// first unit. `cost` is the work of one unit in nanoseconds or so.
pub fn for_each_piece<T: Send>(output: &mut [T], unit: usize, cost: usize, body: impl Fn(usize, &mut [T]) + Sync) {
    divide(output, unit, cost, &body);
}

/// The same with the body behind a pointer, so that the hand-over is compiled once for a type and not for every kernel.
fn divide<T: Send>(output: &mut [T], unit: usize, cost: usize, body: &(dyn Fn(usize, &mut [T]) + Sync)) {
    if output.is_empty() {
        return;
    }
    let unit = unit.max(1);
    let units = output.len().div_ceil(unit);
    let threads = if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 };
    if threads == 1 || units == 1 || units.saturating_mul(cost.max(1)) < WORTH_DIVIDING {
        return body(0, output);
    }
    // Finer than the number of threads, so that one that is late does not hold up the others.
    let per_piece = units.div_ceil(threads * 4).max(WORTH_DIVIDING / 4 / cost.max(1)).max(1);
    output.par_chunks_mut(per_piece * unit).enumerate().for_each(|(piece, chunk)| body(piece * per_piece, chunk));
}
