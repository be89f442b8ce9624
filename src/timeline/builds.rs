//! Where graphs are compiled: on a few threads of the process's own, so that a long build holds up no dispatch.

use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Builds that run at the same time in the whole process; others wait their turn.
const AT_ONCE: usize = 4;

/// Runs work on one of the threads for builds. If no thread can be had the work is dropped, and with it its `Done`.
pub fn spawn(work: impl FnOnce() + Send + 'static) {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || Builder::new_current_thread().max_blocking_threads(AT_ONCE).thread_name("webnn build").build().ok();
    if let Some(runtime) = RUNTIME.get_or_init(start) {
        drop(runtime.spawn_blocking(work));
    }
}
