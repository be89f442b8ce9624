//! The exit of a process that has used a driver.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::OnceLock;

/// What leaves all devices, and tells whether the functions of their drivers may run.
static LEAVE: OnceLock<fn() -> bool> = OnceLock::new();

/// To be called when there is a device: its driver is not to be used while it ends with the process. What is
/// registered last runs first, so before what the driver has registered.
pub fn leave_devices_at_exit(leave: fn() -> bool) {
    if LEAVE.set(leave).is_ok() {
        register();
    }
}

fn leave() -> bool {
    LEAVE.get().is_none_or(|leave| leave())
}

/// Where a device does not come to rest, or is one of hardware, the process ends here with its status: the functions of a driver that
/// run after this one would wait for the device, or crash.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn register() {
    use std::ffi::c_void;
    unsafe extern "C" {
        /// Of glibc.
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        fn fflush(stream: *mut c_void) -> c_int;
        fn _exit(status: c_int) -> !;
    }
    extern "C" fn leave_devices(status: c_int, _: *mut c_void) {
        if let Ok(false) = catch_unwind(leave) {
            // SAFETY: a null stream means all streams, and the end of the process needs nothing.
            unsafe {
                fflush(std::ptr::null_mut());
                _exit(status)
            }
        }
    }
    // SAFETY: the function stays mapped (build.rs links with `nodelete`) and does not unwind.
    let _ = unsafe { on_exit(leave_devices, std::ptr::null_mut()) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn register() {
    unsafe extern "C" {
        /// Of C's standard library.
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    extern "C" fn leave_devices() {
        let _ = catch_unwind(leave);
    }
    // SAFETY: the function stays mapped (build.rs links with `nodelete`) and does not unwind.
    let _ = unsafe { atexit(leave_devices) };
}
