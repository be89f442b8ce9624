//! How long a round of the environment's event loop has lasted, for which Node-API has no function: those of libuv are looked for
//! in the process. Where they are not, nothing is known of rounds.
#![allow(unsafe_code)]

use super::script::Scope;
use napi::sys;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

/// The functions of libuv that are used here. Its interface has been stable since version 1.0.
struct Libuv {
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
            unsafe { Some(Libuv { now: *process.get(b"uv_now\0").ok()?, hrtime: *process.get(b"uv_hrtime\0").ok()? }) }
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
