//! What the C library keeps of what others have given back to it.
//!
//! Large blocks are mapped and not the allocator's, but a model also has thousands of small ones. When it goes they are free, and glibc keeps
//! their pages in up to eight arenas for each core: by itself it gives pages back at the ends of its heaps only. So it is asked to when a
//! model or a context has gone ([`Gone`]) and no run and no load has begun for a moment. That changes no setting, and nothing that anybody has. It
//! holds the lock of one arena after the other, so a thread of its own asks, and the more seldom the longer it took ([`Rest`]).
//!
//! Other C libraries and allocators are not asked: musl gives free pages back by itself, and jemalloc lets them go in time.

use crate::{runtime, thread};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether [`give_back`] does anything.
const CAN_BE_ASKED: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// Nothing has begun for so long: what follows at once wants the pages again.
const MOMENT: Duration = Duration::from_secs(1);

/// What has begun: runs, loads, and the ends of models and contexts.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Whether somebody waits for a moment without work.
static IS_WAITING: AtomicBool = AtomicBool::new(false);
static REST: Mutex<Rest> = Mutex::new(Rest { until: None });

fn rest() -> MutexGuard<'static, Rest> {
    REST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the system all pages back that hold nothing. Mesa's llvmpipe, too, has what it compiles in small blocks: without this 60 graphs, each
/// run once, left 81 MB behind their context for as long as the process lived; with it 22 (`__tests__/processes/compiled.js run`, Mesa
/// 22.3.6, Zen 5).
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: glibc's function has this signature, takes any number, and may be called at any time by any thread.
        unsafe { malloc_trim(0) };
    }
}

/// A run or a load begins.
pub fn note_work() {
    BEGUN.fetch_add(1, Ordering::SeqCst);
}

/// Part of a model or a context: when that has gone, so do the pages a moment later that the C library keeps of it.
#[derive(Debug, Default)]
pub struct Gone;

impl Drop for Gone {
    fn drop(&mut self) {
        note_work();
        if CAN_BE_ASKED && !IS_WAITING.swap(true, Ordering::SeqCst) && runtime::spawn(ask_later()).is_err() {
            IS_WAITING.store(false, Ordering::SeqCst);
        }
    }
}

/// Waits for a moment without work.
async fn ask_later() {
    loop {
        let (begun, left) = (BEGUN.load(Ordering::SeqCst), rest().left(Instant::now()));
        tokio::time::sleep(left.max(MOMENT)).await;
        // What goes from now on waits anew; what went before is seen below.
        IS_WAITING.store(false, Ordering::SeqCst);
        if BEGUN.load(Ordering::SeqCst) == begun {
            break;
        }
        if IS_WAITING.swap(true, Ordering::SeqCst) {
            // Another one waits already.
            return;
        }
    }
    let ask = || {
        let began = Instant::now();
        give_back();
        let ended = Instant::now();
        rest().begin(ended, ended - began);
    };
    // Where no thread can be had, the next one that goes has it done.
    let _ = thread::start("webnn-node trim", ask);
}

/// Until when nobody asks again.
#[derive(Debug)]
struct Rest {
    until: Option<Instant>,
}

impl Rest {
    const LEAST: Duration = Duration::from_secs(5);
    /// So many times as long as it took.
    const SHARE: u32 = 200;
    const MOST: Duration = Duration::from_secs(3600);

    fn begin(&mut self, now: Instant, took: Duration) {
        self.until = Some(now + took.saturating_mul(Rest::SHARE).clamp(Rest::LEAST, Rest::MOST));
    }

    fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_long_is_done_seldom() {
        let (mut rest, now) = (Rest { until: None }, Instant::now());
        assert_eq!(rest.left(now), Duration::ZERO);
        rest.begin(now, Duration::from_millis(2));
        assert_eq!(rest.left(now), Rest::LEAST);
        assert_eq!(rest.left(now + Rest::LEAST), Duration::ZERO);
        rest.begin(now, Duration::from_millis(100));
        assert_eq!(rest.left(now + Duration::from_secs(1)), Duration::from_secs(19));
        rest.begin(now, Duration::MAX);
        assert_eq!(rest.left(now), Rest::MOST);
    }
}
