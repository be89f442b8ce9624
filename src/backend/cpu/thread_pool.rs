//! Threads that help another one through a dispatch.
//!
//! Between two kernels there is a microsecond or less, too little for threads that sleep. So the members of a pool look for
//! what there is to do again and again for as long as a dispatch is under way, and sleep between dispatches. A *region* is
//! work in numbered pieces: each member has a part of the numbers, the same in regions of the same size, so that its caches
//! have what the region before left there; whoever is through with its own takes from the others' ends. A member that is late,
//! since it was asleep or another process has its core, is not waited for unless it has begun a piece.
#![allow(unsafe_code)]

use super::affinity::Affinity;
use crate::backend::HostThread;
use crate::cancel::Cancel;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread, park, yield_now};
use std::time::{Duration, Instant};

/// For so long a member looks without a pause; then it lets others have the core in between.
const EAGER: Duration = Duration::from_micros(20);
/// After so long without work it sleeps, also during a dispatch: a kernel that is not divided takes its time.
const PATIENT: Duration = Duration::from_micros(500);
/// After a dispatch it gives its core to whoever wants it for so long before it sleeps: the result's reader is about to be
/// woken, and gets a core that is awake.
const LINGER: Duration = Duration::from_micros(20);
/// To wake somebody takes some microseconds: not for regions of fewer nanoseconds.
const WORTH_WAKING: usize = 40_000;

/// Bits of the gate below the number of the region: how many workers are inside, and whether more may come.
const INSIDE: u64 = OPEN - 1;
const OPEN: u64 = 1 << 16;
const NUMBER: u32 = 17;

/// Its dispatch thread is whichever thread runs a dispatch; the others are its own.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
    is_led: AtomicBool,
}

type Body<'a> = dyn Fn(usize) + Sync + 'a;

struct PoolState {
    /// The number of the region, whether it is open, and how many workers are inside.
    gate: Padded<AtomicU64>,
    /// What to do with a piece. Written by the dispatch thread while the gate is closed and nobody inside; read by those inside.
    body: UnsafeCell<*const Body<'static>>,
    /// For each member the next piece and the end of its part, the dispatch thread's first.
    parts: Box<[Padded<AtomicU64>]>,
    /// Which members are asleep or about to be.
    asleep: Box<[Padded<AtomicBool>]>,
    /// The workers, to wake them.
    threads: OnceLock<Box<[Thread]>>,
    affinity: Affinity,
    /// Whom the members work for, and how often that has changed.
    works_for: Mutex<Cancel>,
    changes: AtomicU64,
    /// No dispatch is under way.
    at_rest: AtomicBool,
    has_ended: AtomicBool,
    /// What a worker's piece panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: only `body` is not shared by its own means. The dispatch thread writes it, of whom there is one (`is_led`), while the
// gate is closed and nobody inside (asserted in `share`); others read it while the gate counts them as inside. What it points
// to may be shared (`Sync`).
unsafe impl Sync for PoolState {}
// SAFETY: as above.
unsafe impl Send for PoolState {}

impl std::fmt::Debug for PoolState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} members", self.parts.len())
    }
}

/// Has its cache lines to itself.
#[derive(Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// What a thread is to the pool of the dispatch that it works for.
#[derive(Clone, Copy)]
enum Role {
    None,
    /// The pool lives until `run` returns, which takes the role away.
    Dispatcher(*const ThreadPool),
    /// Inside of a region nobody is left to help.
    Busy,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::None) };
}

/// Takes a role until it is dropped.
struct Taken(Role);

impl Taken {
    fn take(role: Role) -> Taken {
        Taken(ROLE.replace(role))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        ROLE.set(self.0);
    }
}

/// How many threads can work for this one: those of its pool, nobody but itself inside of a region, and nothing is known
/// without a pool.
pub fn members() -> Option<usize> {
    match ROLE.get() {
        Role::None => None,
        // SAFETY: the role is this thread's only while `run` borrows the pool.
        Role::Dispatcher(pool) => Some(unsafe { &*pool }.members()),
        Role::Busy => Some(1),
    }
}

/// Does `work`, which is another run's, with the help that this thread has, of whose threads it returns the number; nothing without a pool.
pub fn help_another<R>(of: &Cancel, work: impl FnOnce() -> R) -> Result<(R, usize), impl FnOnce() -> R> {
    let Role::Dispatcher(pool) = ROLE.get() else { return Err(work) };
    // SAFETY: as in `members`.
    let pool = unsafe { &*pool };
    let before = pool.shared.work_for(of.clone());
    let result = work();
    pool.shared.work_for(before);
    Ok((result, pool.members()))
}

/// Calls `body` with every number below `count`, on all members of the pool that works for this thread. `cost` is the work of all
/// of them in nanoseconds or so.
pub fn share(count: usize, cost: usize, body: &Body<'_>) {
    match ROLE.get() {
        // SAFETY: as in `members`.
        Role::Dispatcher(pool) => unsafe { &*pool }.share(count, cost, body),
        _ => (0..count).for_each(body),
    }
}

impl ThreadPool {
    /// A pool of so many members with the dispatch thread. Nothing when the system gives no threads.
    pub fn new(members: usize) -> Option<ThreadPool> {
        assert!((2..INSIDE as usize).contains(&members));
        let shared = Arc::new(PoolState {
            gate: Padded::default(),
            body: UnsafeCell::new(&|_| {}),
            parts: (0..members).map(|_| Padded::default()).collect(),
            asleep: (0..members).map(|_| Padded::default()).collect(),
            threads: OnceLock::new(),
            affinity: Affinity::new(members - 1),
            works_for: Mutex::default(),
            changes: AtomicU64::new(0),
            at_rest: AtomicBool::new(true),
            has_ended: AtomicBool::new(false),
            panic: Mutex::default(),
        });
        let mut pool = ThreadPool { shared, workers: Vec::new(), is_led: AtomicBool::new(false) };
        for member in 1..members {
            let shared = pool.shared.clone();
            let help = move || {
                shared.affinity.enlist(member - 1);
                shared.help(member);
            };
            pool.workers.push(crate::thread::start(&format!("webnn pool {member}"), help).ok()?);
        }
        let threads = pool.workers.iter().map(|worker| worker.thread().clone()).collect();
        pool.shared.threads.set(threads).expect("set once");
        Some(pool)
    }

    /// Does `work` with the others' help, which the functions of `threads` ask for; alone if they help somebody else now. Its context gets its
    /// work from a host thread.
    pub fn run<R>(&self, of: &Cancel, host_thread: &HostThread, work: impl FnOnce() -> R) -> R {
        if self.is_led.swap(true, Ordering::Acquire) {
            return work();
        }
        let _rest = Rest(self);
        let _role = Taken::take(Role::Dispatcher(self));
        let shared = &*self.shared;
        shared.affinity.keep(host_thread);
        shared.work_for(of.clone());
        shared.at_rest.store(false, Ordering::SeqCst);
        shared.wake_next(0);
        work()
    }

    fn members(&self) -> usize {
        self.shared.parts.len()
    }

    fn share(&self, count: usize, cost: usize, body: &Body<'_>) {
        let shared = &*self.shared;
        let members = self.members() as u64;
        let count = u64::from(u32::try_from(count).expect("fewer pieces"));
        let gate = shared.gate.0.load(Ordering::Acquire);
        assert_eq!(gate & (INSIDE | OPEN), 0, "the region before has ended");
        for (member, part) in (0..members).zip(&shared.parts) {
            part.0.store(Share { next: count * member / members, end: count * (member + 1) / members }.pack(), Ordering::Relaxed);
        }
        // SAFETY: both are pointers to the same type of object; the lifetime is left out, for `Region` sees to it that nobody
        // has the pointer after this function returns or unwinds.
        let unbounded = unsafe { std::mem::transmute::<*const Body<'_>, *const Body<'static>>(body) };
        // SAFETY: the gate is closed and nobody inside, as was asserted, and only the dispatch thread opens it.
        unsafe { *shared.body.get() = unbounded };
        shared.gate.0.store((number(gate) + 1) << NUMBER | OPEN, Ordering::SeqCst);
        let region = Region(shared);
        let role = Taken::take(Role::Busy);
        if cost >= WORTH_WAKING {
            shared.wake_next(0);
        }
        shared.take_pieces(0, body);
        drop(role);
        drop(region);
        if let Some(panic) = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        for (worker, asleep) in self.workers.drain(..).zip(&self.shared.asleep[1..]) {
            asleep.0.store(false, Ordering::SeqCst);
            worker.thread().unpark();
            // Pieces' panics are caught, and it has none of its own.
            let _ = worker.join();
        }
    }
}

/// A dispatch that is under way; the pool rests when it is dropped.
struct Rest<'a>(&'a ThreadPool);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.shared.at_rest.store(true, Ordering::Relaxed);
        self.0.is_led.store(false, Ordering::Release);
    }
}

/// An open region; when it is dropped nobody is inside any more, and nobody comes.
struct Region<'a>(&'a PoolState);

impl Drop for Region<'_> {
    fn drop(&mut self) {
        let mut gate = self.0.gate.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut wait = Wait::default();
        while gate & INSIDE != 0 {
            wait.a_little();
            gate = self.0.gate.0.load(Ordering::Acquire);
        }
    }
}

/// Consecutive pieces.
struct Share {
    next: u64,
    end: u64,
}

impl Share {
    fn pack(self) -> u64 {
        self.next << 32 | self.end
    }

    fn unpack(packed: u64) -> Share {
        Share { next: packed >> 32, end: packed & u64::from(u32::MAX) }
    }
}

impl PoolState {
    /// From now on the members work for this; returns whom they worked for.
    fn work_for(&self, of: Cancel) -> Cancel {
        let before = std::mem::replace(&mut *self.works_for.lock().unwrap_or_else(PoisonError::into_inner), of);
        // The next region tells of it.
        self.changes.fetch_add(1, Ordering::Relaxed);
        before
    }

    /// The life of a worker.
    fn help(&self, me: usize) {
        let mut last = 0;
        let mut changes = 0;
        let mut wait = Wait::default();
        let mut rest = Wait::default();
        while !self.has_ended.load(Ordering::Relaxed) {
            let gate = self.gate.0.load(Ordering::Acquire);
            if is_new(gate, last) {
                // Closed meanwhile, or others came in: looks again.
                if self.gate.0.compare_exchange(gate, gate + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    last = number(gate);
                    // SAFETY: the gate was open and counts this thread as inside, so the dispatch thread waits in `Region`; what it
                    // wrote before it opened the gate is there.
                    let body = unsafe { &**self.body.get() };
                    let now = self.changes.load(Ordering::Relaxed);
                    if now != changes {
                        changes = now;
                        self.works_for.lock().unwrap_or_else(PoisonError::into_inner).adopt_thread();
                    }
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take_pieces(me, body))) {
                        *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                    }
                    self.gate.0.fetch_sub(1, Ordering::Release);
                    wait = Wait::default();
                }
                continue;
            }
            let at_rest = self.at_rest.load(Ordering::Relaxed);
            let is_enough = if at_rest { rest.for_others() > LINGER } else { wait.a_little() > PATIENT };
            if is_enough {
                self.sleep(me, last, at_rest);
                wait = Wait::default();
            }
            if is_enough || !at_rest {
                rest = Wait::default();
            }
        }
    }

    /// Sleeps until somebody wakes this member; not if there is a new region, or no rest any more.
    fn sleep(&self, me: usize, last: u64, at_rest: bool) {
        let asleep = &self.asleep[me].0;
        asleep.store(true, Ordering::SeqCst);
        // Whoever opens a region or begins a dispatch does that first and looks who is asleep then.
        let has_begun = at_rest && !self.at_rest.load(Ordering::SeqCst);
        if has_begun || is_new(self.gate.0.load(Ordering::SeqCst), last) || self.has_ended.load(Ordering::SeqCst) {
            asleep.store(false, Ordering::Relaxed);
            return;
        }
        while asleep.load(Ordering::Acquire) {
            park();
        }
        self.wake_next(me);
    }

    /// Each member wakes two others, so that it takes nobody long.
    fn wake_next(&self, me: usize) {
        for member in [2 * me + 1, 2 * me + 2] {
            let is_asleep = self.asleep.get(member).is_some_and(|asleep| asleep.0.load(Ordering::SeqCst));
            if is_asleep
                && self.asleep[member].0.swap(false, Ordering::SeqCst)
                && let Some(threads) = self.threads.get()
            {
                threads[member - 1].unpark();
            }
        }
    }

    fn take_pieces(&self, me: usize, body: &Body<'_>) {
        while let Some(piece) = self.take(me, |part| (part.next, Share { next: part.next + 1, ..part })) {
            body(piece);
        }
        let members = self.parts.len();
        for other in (1..members).map(|distance| (me + distance) % members) {
            while let Some(piece) = self.take(other, |part| (part.end - 1, Share { end: part.end - 1, ..part })) {
                body(piece);
            }
        }
    }

    /// Takes a piece of a member's part, if there is one left.
    fn take(&self, member: usize, divide: impl Fn(Share) -> (u64, Share)) -> Option<usize> {
        let part = &self.parts[member].0;
        let mut packed = part.load(Ordering::Relaxed);
        loop {
            let found = Share::unpack(packed);
            if found.next >= found.end {
                return None;
            }
            let (piece, left) = divide(found);
            match part.compare_exchange_weak(packed, left.pack(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(piece as usize),
                Err(now) => packed = now,
            }
        }
    }
}

/// Of the region that the gate is open to, or was.
fn number(gate: u64) -> u64 {
    gate >> NUMBER
}

/// Whether the gate is open to a region that is not the last one.
fn is_new(gate: u64, last: u64) -> bool {
    gate & OPEN != 0 && number(gate) != last
}

/// Waiting for what comes soon, mostly.
#[derive(Default)]
struct Wait {
    looks: u32,
    since: Option<Instant>,
    waited: Duration,
}

impl Wait {
    /// Lets others have the core; returns how long it has been.
    fn for_others(&mut self) -> Duration {
        yield_now();
        self.since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Returns how long it has been.
    fn a_little(&mut self) -> Duration {
        std::hint::spin_loop();
        self.looks += 1;
        // To ask for the time takes longer than to look.
        if self.looks.is_multiple_of(32) {
            self.waited = self.since.get_or_insert_with(Instant::now).elapsed();
            if self.waited > EAGER {
                yield_now();
            }
        }
        self.waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn pool(members: usize) -> ThreadPool {
        ThreadPool::new(members).unwrap()
    }

    /// Has a pool help what works for nobody.
    fn run<R>(pool: &ThreadPool, work: impl FnOnce() -> R) -> R {
        pool.run(&Cancel::default(), &HostThread::default(), work)
    }

    /// How often each piece was done.
    fn counts(count: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        share(count, usize::MAX, &|piece| _ = counts[piece].fetch_add(1, Ordering::Relaxed));
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_piece_is_done_once() {
        for members in 2..6 {
            let pool = pool(members);
            for dispatch in 0..20 {
                run(&pool, || (0..50).for_each(|count| assert_eq!(counts(count + dispatch), vec![1; count + dispatch])));
            }
        }
    }

    #[test]
    fn helpers_take_pieces() {
        // A piece that waits for another needs a thread beside it. The worker may be late, but it comes.
        let pool = pool(2);
        for _ in 0..100 {
            let barrier = std::sync::Barrier::new(2);
            run(&pool, || share(2, usize::MAX, &|_| _ = barrier.wait()));
        }
    }

    #[test]
    fn a_helper_that_sleeps_is_woken() {
        let pool = pool(3);
        for _ in 0..20 {
            while !pool.shared.asleep[1..].iter().all(|asleep| asleep.0.load(Ordering::SeqCst)) {
                yield_now();
            }
            let barrier = std::sync::Barrier::new(3);
            run(&pool, || share(3, usize::MAX, &|_| _ = barrier.wait()));
        }
    }

    #[test]
    fn inside_of_a_region_everybody_is_alone() {
        let pool = pool(2);
        assert_eq!(members(), None);
        run(&pool, || {
            assert_eq!(members(), Some(2));
            let nested = AtomicUsize::new(0);
            share(8, usize::MAX, &|_| {
                assert_ne!(members(), Some(2));
                nested.fetch_add(counts(3).len(), Ordering::Relaxed);
            });
            assert_eq!(nested.into_inner(), 24);
            assert_eq!(members(), Some(2));
        });
        assert_eq!(members(), None);
    }

    #[test]
    fn there_is_one_leader() {
        let pool = pool(2);
        run(&pool, || {
            std::thread::scope(|scope| {
                scope.spawn(|| run(&pool, || assert_eq!(members(), None)));
            });
            assert_eq!(counts(5), [1; 5]);
        });
        run(&pool, || assert_eq!(members(), Some(2)));
    }

    #[test]
    fn members_work_for_whoever_is_helped() {
        let pool = pool(2);
        let (one, other) = (Cancel::default(), Cancel::default());
        other.cancel();
        // A piece on each member.
        let wanted = || {
            let (barrier, wanted) = (std::sync::Barrier::new(2), AtomicUsize::new(0));
            share(2, usize::MAX, &|_| {
                barrier.wait();
                wanted.fetch_add(usize::from(crate::cancel::is_wanted()), Ordering::Relaxed);
            });
            wanted.into_inner()
        };
        let host_thread = HostThread::default();
        for _ in 0..20 {
            pool.run(&one, &host_thread, || {
                assert_eq!(one.during(wanted), 2);
                let (found, members) = help_another(&other, || other.during(wanted)).ok().unwrap();
                assert_eq!((found, members), (0, 2));
                assert_eq!(one.during(wanted), 2);
            });
        }
        assert!(help_another(&one, || ()).is_err());
    }

    #[test]
    fn a_panic_reaches_the_leader_when_nobody_works_any_more() {
        let pool = pool(3);
        for bad in 0..30 {
            let region = || share(30, usize::MAX, &|piece| assert_ne!(piece, bad, "so it goes"));
            let panic = catch_unwind(AssertUnwindSafe(|| run(&pool, region))).unwrap_err();
            assert!(crate::done::from_panic(&*panic).message().contains("so it goes"));
            assert_eq!(members(), None);
            run(&pool, || assert_eq!(counts(30), [1; 30]));
        }
    }
}
