//! One small runtime for the process: files are read on it in pieces, and its timers wait. It has one thread, which is made at first use.
//! Nothing is computed there, and nothing blocks it for longer than a piece of a file takes.
//!
//! Threads wait for time by themselves only where the runtime would have to wake them: a thread of a pool that has nothing to do ends after a
//! while ([`thread`]), a call of `generate()` waits for its turn until its time is over, the thread that waits for a GPU looks once whether that is idle, and
//! script's thread, in a synchronous call, looks whether its environment ends. Files of the cache are written by a thread of their own: a
//! disk may block it for seconds.

use crate::error::{Error, Kind, Result};
use crate::thread;
use crossbeam_channel::bounded;
use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);

/// The runtime. Where it cannot be had now, the next call tries again.
fn handle() -> Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*runtime {
        return Ok(handle.clone());
    }
    let failed = |error| Error::new(Kind::Unknown, format!("no runtime for files and timers can be had: {error}"));
    let built = Builder::new_current_thread().enable_time().build().map_err(failed)?;
    let handle = built.handle().clone();
    // The thread serves the runtime for as long as the process runs.
    thread::start("webnn files", move || built.block_on(std::future::pending::<()>()))?;
    *runtime = Some(handle.clone());
    Ok(handle)
}

/// Runs work in the background.
///
/// # Errors
/// `UnknownError` when the system has no thread to give.
pub fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    handle()?.spawn(work);
    Ok(())
}

/// Work that is done later, unless this is dropped before.
#[derive(Debug)]
pub struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Does something after a while. It must be short.
///
/// # Errors
/// As [`spawn`].
pub fn after(time: Duration, work: impl FnOnce() + Send + 'static) -> Result<Timer> {
    let task = handle()?.spawn(async move {
        tokio::time::sleep(time).await;
        work();
    });
    Ok(Timer(task.abort_handle()))
}

/// Runs work and waits for its result. It must not be called on the runtime's own thread.
///
/// # Errors
/// As [`spawn`]; `OperationError` when the work panics.
pub fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = bounded(1);
    spawn(async move {
        // The caller waits for it.
        let _ = sender.send(work.await);
    })?;
    receiver.recv().map_err(|_| Error::new(Kind::Operation, "work on the runtime was lost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_timer_that_is_dropped_does_nothing() {
        let (sender, receiver) = bounded(2);
        let send = |number: i32| {
            let sender = sender.clone();
            move || sender.send(number).unwrap()
        };
        drop(after(Duration::ZERO, send(1)).unwrap());
        let dropped = after(Duration::from_millis(20), send(2)).unwrap();
        let _kept = after(Duration::from_millis(40), send(3)).unwrap();
        drop(dropped);
        let came: Vec<i32> = std::iter::from_fn(|| receiver.recv_timeout(Duration::from_millis(500)).ok()).collect();
        // The first may have come before it was dropped.
        assert!(came.ends_with(&[3]) && !came.contains(&2), "{came:?}");
    }

    #[test]
    fn work_ends_with_its_result_and_a_panic_with_an_error() {
        assert_eq!(wait_for(async { 7 }).unwrap(), 7);
        assert!(wait_for(async { panic!("on purpose") }).is_err());
        let start = Instant::now();
        wait_for(async { tokio::time::sleep(Duration::from_millis(20)).await }).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20));
    }
}
