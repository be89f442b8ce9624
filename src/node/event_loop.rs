//! Waking an event loop shortly before there is something for it.
//!
//! The thread that computes a result can tell when it is nearly there, and a loop that sleeps takes longer to wake than is
//! left. A threadsafe function is no good for that: it is called under a lock, and whoever calls it on the environment's own
//! core is interrupted inside of it by the thread that it wakes, which then waits for the lock. So this is a handle of libuv's,
//! for which Node-API has no functions; they are looked for in the process. Where they are not, the loop is woken by its
//! results, as ever.
#![allow(unsafe_code)]

use super::script::Scope;
use super::settle::Queue;
use napi::sys;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// `uv_handle_t` and `uv_async_t`.
type UvHandle = *mut c_void;
type Callback = unsafe extern "C" fn(UvHandle);

/// `UV_ASYNC` of `uv_handle_type`.
const ASYNC: c_int = 1;

/// The functions of libuv that are used here. Its interface has been stable since version 1.0.
struct Libuv {
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    async_init: unsafe extern "C" fn(*mut sys::uv_loop_s, UvHandle, Option<Callback>) -> c_int,
    async_send: unsafe extern "C" fn(UvHandle) -> c_int,
    unref: unsafe extern "C" fn(UvHandle),
    close: unsafe extern "C" fn(UvHandle, Option<Callback>),
    now: unsafe extern "C" fn(*const sys::uv_loop_s) -> u64,
    hrtime: unsafe extern "C" fn() -> u64,
}

impl Libuv {
    /// That of the process; nothing where it is not to be seen.
    fn find() -> Option<&'static Libuv> {
        static FOUND: OnceLock<Option<Libuv>> = OnceLock::new();
        let look = || {
            #[cfg(unix)]
            let process = libloading::os::unix::Library::this();
            #[cfg(windows)]
            let process = libloading::os::windows::Library::this().ok()?;
            // SAFETY: these are the types of libuv's functions of these names.
            unsafe {
                Some(Libuv {
                    handle_size: *process.get(b"uv_handle_size\0").ok()?,
                    async_init: *process.get(b"uv_async_init\0").ok()?,
                    async_send: *process.get(b"uv_async_send\0").ok()?,
                    unref: *process.get(b"uv_unref\0").ok()?,
                    close: *process.get(b"uv_close\0").ok()?,
                    now: *process.get(b"uv_now\0").ok()?,
                    hrtime: *process.get(b"uv_hrtime\0").ok()?,
                })
            }
        };
        FOUND.get_or_init(look).as_ref()
    }
}

/// An environment's loop, and the functions for it.
fn loop_of(scope: Scope<'_>) -> Option<(&'static Libuv, *mut sys::uv_loop_s)> {
    // They have functions of these names for addons, which end the process or do something of their own.
    if scope.has_global("Bun").ok()? || scope.has_global("Deno").ok()? {
        return None;
    }
    let libuv = Libuv::find()?;
    let mut event_loop = ptr::null_mut();
    // SAFETY: the environment is alive, and the result lives on the stack until the call returns.
    let status = unsafe { sys::napi_get_uv_event_loop(scope.env(), &raw mut event_loop) };
    (status == sys::Status::napi_ok).then_some((libuv, event_loop))
}

/// The rounds of an environment's event loop: timers, then what has come in, then what script wants done after that.
pub struct Rounds {
    libuv: &'static Libuv,
    event_loop: *mut sys::uv_loop_s,
}

impl Rounds {
    /// Nothing where that cannot be known.
    pub fn of(scope: Scope<'_>) -> Option<Rounds> {
        loop_of(scope).map(|(libuv, event_loop)| Rounds { libuv, event_loop })
    }

    /// For how long what has come in has been served in this round, as exactly as milliseconds are.
    pub fn last(&self) -> Duration {
        // SAFETY: the loop is there as long as the environment, on whose thread this runs. It takes the time when it begins to serve.
        let (began, now) = unsafe { ((self.libuv.now)(self.event_loop), (self.libuv.hrtime)()) };
        Duration::from_millis((now / 1_000_000).saturating_sub(began))
    }
}

/// Wakes the event loop of one environment, which then looks for what is about to come (`Queue::look_early`).
pub struct Waker {
    libuv: &'static Libuv,
    handle: UvHandle,
}

// SAFETY: `uv_async_send` may be called from any thread; that is what it is for.
unsafe impl Send for Waker {}

/// Room for a `uv_async_t`, which takes 128 bytes on Linux and 224 on Windows.
const ROOM: usize = 512;

/// What libuv has a pointer to. It goes when libuv has closed the handle.
#[repr(C, align(16))]
struct Handle {
    /// Comes first, so that a pointer to it is one to all of this.
    of_libuv: [u8; ROOM],
    libuv: &'static Libuv,
    queue: Arc<Queue>,
    /// What Node waits for at the end of the environment.
    hook: Cell<sys::napi_async_cleanup_hook_handle>,
}

impl Waker {
    /// Makes one, on the environment's thread. Handles are served in the order in which they were made: one that is to be served
    /// in the same round as this one is made after it.
    pub fn start(scope: Scope<'_>, queue: Arc<Queue>) -> Option<Waker> {
        let (libuv, event_loop) = loop_of(scope)?;
        // SAFETY: a function of numbers.
        if unsafe { (libuv.handle_size)(ASYNC) } > ROOM {
            return None;
        }
        let handle = Box::into_raw(Box::new(Handle { of_libuv: [0; ROOM], libuv, queue, hook: Cell::new(ptr::null_mut()) }));
        // SAFETY: the loop is this environment's, on whose thread this runs; there is room for the handle, which stays where it is
        // until it is closed. It does not keep the loop alive.
        unsafe {
            if (libuv.async_init)(event_loop, handle.cast(), Some(woken)) != 0 {
                drop(Box::from_raw(handle));
                return None;
            }
            (libuv.unref)(handle.cast());
        }
        let mut hook = ptr::null_mut();
        // SAFETY: the environment is alive, and so is the handle until the hook has run.
        let status = unsafe { sys::napi_add_async_cleanup_hook(scope.env(), Some(close), handle.cast(), &raw mut hook) };
        if status != sys::Status::napi_ok {
            // SAFETY: the handle was made above, and nobody knows it.
            unsafe { (libuv.close)(handle.cast(), Some(closed)) };
            return None;
        }
        Some(Waker { libuv, handle: handle.cast() })
    }

    /// Wakes the loop, soon; it may go round for several calls once.
    pub fn wake(&self) {
        // SAFETY: the handle is closed only when the queue has let go of this.
        unsafe { (self.libuv.async_send)(self.handle) };
    }
}

/// What the loop calls when it was woken.
unsafe extern "C" fn woken(handle: UvHandle) {
    // SAFETY: libuv gives the handle that `start` made, and it is not closed.
    let handle = unsafe { &*handle.cast_const().cast::<Handle>() };
    let _ = catch_unwind(AssertUnwindSafe(|| handle.queue.look_early()));
}

/// What Node calls at the end of the environment.
unsafe extern "C" fn close(hook: sys::napi_async_cleanup_hook_handle, handle: *mut c_void) {
    // SAFETY: the handle that `start` made; it goes in `closed`.
    let Handle { libuv, queue, hook: place, .. } = unsafe { &*handle.cast_const().cast::<Handle>() };
    place.set(hook);
    // From here on nobody wakes the loop any more.
    queue.close();
    // SAFETY: the handle is open, and this is its loop's thread.
    unsafe { (libuv.close)(handle, Some(closed)) };
}

/// What libuv calls when it has forgotten the handle.
unsafe extern "C" fn closed(handle: UvHandle) {
    // SAFETY: the box that `start` made; libuv calls this once.
    let handle = unsafe { Box::from_raw(handle.cast::<Handle>()) };
    let hook = handle.hook.get();
    if !hook.is_null() {
        // SAFETY: the hook that Node gave to `close`, and waits for.
        unsafe { sys::napi_remove_async_cleanup_hook(hook) };
    }
}
