//! Where every thread is made. A system may have none to give (`RLIMIT_NPROC`, a control group's `pids.max`), so that is an error
//! like others, and whoever waits for the thread's work hears of it.

use crate::error::{Error, Kind, Result};
use crossbeam_channel::bounded;
use std::thread::{Builder, JoinHandle};

/// Starts a thread.
///
/// # Errors
/// `UnknownError` when the system has no thread to give.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| Error::new(Kind::Unknown, format!("no thread can be had for '{name}': {error}")))
}

/// Starts a thread with a duty, which stays the caller's where there is no thread.
///
/// # Errors
/// As [`start`], with the duty.
pub fn start_with<D: Send + 'static>(name: &str, duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    let (sender, receiver) = bounded(1);
    let run = move || {
        if let Ok(duty) = receiver.recv() {
            work(duty);
        }
    };
    match start(name, run) {
        // The thread waits for it.
        Ok(_) => drop(sender.send(duty)),
        Err(error) => return Err((error, duty)),
    }
    Ok(())
}
