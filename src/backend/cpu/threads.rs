//! How kernels spread over threads.
//!
//! A kernel never starts threads and never waits for the global pool: it divides its output, and the pieces run on the pool
//! that the caller leads, or else, when it is inside of a rayon pool, there; otherwise, or when there is little
//! to do, one after the other. A piece does with subnormal numbers what the thread does that asks for it.

use super::thread_pool;
use super::thread_pool::Padded;
use crate::{cancel, looks};
use rayon::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use webnn_kernels::subnormals::Subnormals;

/// Units of work of a pool's piece, at most, unless there are many: its members begin and end at the same time but for one piece,
/// and one begins some microseconds before the others.
const PIECE_OF_POOL: usize = 20_000;

/// Who does the pieces.
#[derive(Clone, Copy)]
struct Help {
    threads: usize,
    is_pool: bool,
    /// Below this many units of work (about a nanosecond each) a hand-over to other threads costs more than it gains.
    worth_dividing: usize,
}

impl Help {
    fn here() -> Help {
        if let Some(threads) = thread_pool::members() {
            return Help { threads, is_pool: true, worth_dividing: 8_000 };
        }
        let threads = if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 };
        Help { threads, is_pool: false, worth_dividing: 50_000 }
    }
}

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
    let cost = cost.max(1);
    let Help { threads, is_pool, worth_dividing } = Help::here();
    // A context that ends waits for the pieces that have begun, and does not begin others.
    let longest = (looks::longest() / cost).max(1);
    let total = units.saturating_mul(cost);
    if units <= longest && (threads == 1 || total < worth_dividing) || units == 1 {
        body(0, output);
        return looks::worked(total);
    }
    // Finer than the number of threads, so that one that is late does not hold up the others.
    let coarse = units.div_ceil(threads * 4);
    let fine = if is_pool { (PIECE_OF_POOL / cost).max(units.div_ceil(threads * 16)) } else { coarse };
    let per_piece = coarse.min(fine).max(worth_dividing / 4 / cost).clamp(1, longest);
    let (cancel, subnormals) = (cancel::current(), Subnormals::here());
    let body = |(piece, chunk): (usize, &mut [T])| {
        let _until_it_ends = subnormals.begin();
        looks::looked();
        if cancel.as_ref().is_none_or(|cancel| cancel.check().is_ok()) {
            body(piece * per_piece, chunk);
        }
    };
    if threads == 1 {
        output.chunks_mut(per_piece * unit).enumerate().for_each(body);
    } else if is_pool {
        let chunks: Vec<_> = output.chunks_mut(per_piece * unit).map(Mutex::new).collect();
        // Each is one thread's, so nobody waits and nobody sees what a panic left.
        thread_pool::share(chunks.len(), total, &|piece| body((piece, &mut chunks[piece].lock().expect("nobody else's"))));
    } else {
        output.par_chunks_mut(per_piece * unit).enumerate().for_each(body);
    }
}

/// How many threads the work of this one can be divided among.
pub fn available() -> usize {
    Help::here().threads
}

/// Whether somebody still wants what this thread computes. For loops within a piece that may take long: what they leave is
/// looked at by nobody.
pub fn is_wanted() -> bool {
    looks::looked();
    cancel::is_wanted()
}

/// Calls `body` with every number below `count`. `cost` is the work of all of them in nanoseconds or so.
pub fn for_each_job(count: usize, cost: usize, body: impl Fn(usize) + Sync) {
    share(count, cost, &body);
}

fn share(count: usize, cost: usize, body: &(dyn Fn(usize) + Sync)) {
    let Help { threads, is_pool, worth_dividing } = Help::here();
    let (cancel, subnormals) = (cancel::current(), Subnormals::here());
    let body = |number: usize| {
        let _until_it_ends = subnormals.begin();
        looks::looked();
        if cancel.as_ref().is_none_or(|cancel| cancel.check().is_ok()) {
            body(number);
        }
    };
    if threads == 1 || count <= 1 || cost < worth_dividing {
        (0..count).for_each(body);
    } else if is_pool {
        thread_pool::share(count, cost, &body);
    } else {
        (0..count).into_par_iter().with_max_len(1).for_each(body);
    }
}

/// Calls `body` with every round and every part of it. The parts of a round may run side by side on so many threads, all of
/// them before any of the next round. For many rounds of some microseconds, between which a hand-over would be too dear: a
/// thread that waits for the others looks again and again. A part is the same thread's in all rounds, whose caches have what
/// it reads, unless that thread is late.
pub fn in_rounds(rounds: usize, parts: usize, threads: usize, body: impl Fn(usize, usize) + Sync) {
    run_rounds(rounds, parts, threads, &body);
}

fn run_rounds(rounds: usize, parts: usize, threads: usize, body: &(dyn Fn(usize, usize) + Sync)) {
    let Help { threads: available, is_pool, .. } = Help::here();
    let threads = threads.min(available).min(parts);
    let (cancel, subnormals) = (cancel::current(), Subnormals::here());
    let is_wanted = || {
        looks::looked();
        cancel.as_ref().is_none_or(|cancel| cancel.check().is_ok())
    };
    if threads <= 1 {
        for round in (0..rounds).take_while(|_| is_wanted()) {
            (0..parts).for_each(|part| body(round, part));
        }
        return;
    }
    // How often each part has been begun, and how many parts of all rounds each thread has done. Whoever takes a part has seen
    // that all of the earlier rounds are. A thread that never comes is not waited for.
    let begun: Vec<Padded<AtomicUsize>> = (0..parts).map(|_| Padded::default()).collect();
    let done: Vec<Padded<AtomicUsize>> = (0..threads).map(|_| Padded::default()).collect();
    let come = Padded(AtomicUsize::new(0));
    let failed = AtomicBool::new(false);
    let work = || {
        let _until_it_ends = subnormals.begin();
        let ended = EndsAll(&failed);
        let me = come.0.fetch_add(1, Ordering::Relaxed);
        let own = me * parts / threads..(me + 1) * parts / threads;
        let (mut looks, mut done_by_me) = (0usize, 0);
        loop {
            // Who has done parts of a round has seen the end of the one before: so has, then, whoever sees that.
            let finished = done.iter().map(|done| done.0.load(Ordering::Acquire)).sum::<usize>();
            if finished >= rounds * parts {
                break;
            }
            if failed.load(Ordering::Relaxed) {
                return;
            }
            let round = finished / parts;
            let take = |part: &usize| {
                let begun = &begun[*part].0;
                begun.load(Ordering::Relaxed) == round
                    && begun.compare_exchange(round, round + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            let is_alone = come.0.load(Ordering::Relaxed) == 1;
            let others = || if is_alone || looks >= PATIENCE { 0..parts } else { 0..0 };
            let Some(part) = own.clone().find(take).or_else(|| others().find(take)) else {
                looks += 1;
                if looks < 2000 {
                    std::hint::spin_loop()
                } else {
                    std::thread::yield_now()
                }
                continue;
            };
            looks = 0;
            if is_wanted() {
                body(round, part);
            }
            done_by_me += 1;
            done[me].0.store(done_by_me, Ordering::Release);
        }
        std::mem::forget(ended);
    };
    if is_pool {
        return thread_pool::share(threads, usize::MAX, &|_| work());
    }
    rayon::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|_| work());
        }
        work();
    });
}

/// How often a thread looks before it takes a part that is another's: some microseconds.
const PATIENCE: usize = 100;

/// Tells the others when a part has panicked: its round never ends.
struct EndsAll<'a>(&'a AtomicBool);

impl Drop for EndsAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::HostThread;
    use cancel::Cancel;

    /// How many of 100 pieces begin when the context ends in one of them.
    fn begun(cancel: &Cancel) -> usize {
        let begun = std::sync::Mutex::new(0);
        for_each_piece(&mut [0u8; 100], 1, usize::MAX, |_, piece| {
            assert_eq!(piece.len(), 1, "long work is divided even on one thread");
            *begun.lock().unwrap() += 1;
            cancel.cancel();
        });
        begun.into_inner().unwrap()
    }

    #[test]
    fn no_piece_begins_after_the_context_has_ended() {
        let cancel = Cancel::default();
        assert_eq!(cancel.during(|| begun(&cancel)), 1);
        assert!(cancel.check().is_err());
        assert_eq!(cancel.during(|| begun(&cancel)), 0);
        // What works for nobody, and for others, goes on.
        assert_eq!(begun(&cancel), 100);
        assert_eq!(Cancel::default().during(|| begun(&cancel)), 100);
    }

    #[test]
    fn a_round_begins_when_the_one_before_is_over() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let log = std::sync::Mutex::new(Vec::new());
        pool.install(|| in_rounds(50, 4, 3, |round, part| log.lock().unwrap().push((round, part))));
        let mut log = log.into_inner().unwrap();
        assert!(log.is_sorted_by_key(|(round, _)| *round));
        log.sort();
        assert!(log.into_iter().eq((0..50).flat_map(|round| (0..4).map(move |part| (round, part)))));
    }

    /// A thread of the pool that takes part in a kernel which flushes does so for that long, and the pool's own work stays exact.
    #[test]
    fn pieces_do_with_subnormal_numbers_what_the_caller_does() {
        let wrong = AtomicUsize::new(0);
        let look = |expected: Subnormals| {
            wrong.fetch_add(usize::from(Subnormals::here() != expected), Ordering::Relaxed);
        };
        let all = |expected: Subnormals| {
            for_each_job(64, usize::MAX, |_| look(expected));
            for_each_piece(&mut [0u8; 64], 1, 1_000_000, |_, _| look(expected));
            in_rounds(20, 4, 3, |_, _| look(expected));
        };
        let both = || {
            let flushed = Subnormals::Flushed.begin();
            all(Subnormals::Flushed);
            // A piece that is exact within one that is not.
            for_each_job(8, usize::MAX, |_| {
                let _exact = Subnormals::Exact.begin();
                for_each_job(4, usize::MAX, |_| look(Subnormals::Exact));
            });
            drop(flushed);
            all(Subnormals::Exact);
        };
        both();
        rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap().install(both);
        let pool = thread_pool::ThreadPool::new(3).unwrap();
        let run = |work: &dyn Fn()| pool.run(&Cancel::default(), &HostThread::default(), work);
        run(&both);
        let panics = || for_each_job(8, usize::MAX, |number| assert_ne!(number, 5));
        let panics = std::panic::AssertUnwindSafe(|| {
            let _flushed = Subnormals::Flushed.begin();
            run(&panics);
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        run(&|| all(Subnormals::Exact));
        assert_eq!(wrong.into_inner(), 0);
    }

    #[test]
    fn a_panic_in_a_round_ends_all() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let run = || pool.install(|| in_rounds(50, 4, 2, |round, part| assert_ne!((round, part), (7, 2))));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    }

    #[test]
    fn no_job_begins_after_the_context_has_ended() {
        let cancel = Cancel::default();
        let begun = AtomicUsize::new(0);
        cancel.during(|| {
            for_each_job(100, usize::MAX, |_| {
                begun.fetch_add(1, Ordering::Relaxed);
                cancel.cancel();
            });
        });
        assert_eq!(begun.into_inner(), 1);
    }

    #[test]
    fn the_threads_of_a_pool_work_for_its_context() {
        let cancel = Cancel::default();
        let start = cancel.clone();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).start_handler(move |_| start.adopt_thread());
        let begun = pool.build().unwrap().install(|| begun(&cancel));
        assert!((1..=2).contains(&begun), "{begun}");
    }
}
