//! What V8 knows of the memory behind script's objects.
//!
//! An object of script's has some hundred bytes of the heap, and megabytes, or threads, that V8 knows nothing of. It collects
//! garbage when there is reason to, so it has to know. All that contexts count in their [`Usage`](crate::memory::Usage), and what
//! else objects hold, is in one [`Total`]; it is reported to V8 when it has changed, whoever changed it: memory that two objects share is
//! counted once, and what is freed early is not counted any more.
#![allow(unsafe_code)]

use super::script::{Scope, Value};
use crate::memory::Total;
use napi::sys;
use std::cell::{Cell, RefCell};
use std::ptr;

/// Smaller changes are reported together with later ones.
const STEP: usize = 64 << 10;

/// So much may be held by objects that V8 has collected and nobody has looked for.
const UNSEEN: usize = 8 << 20;

/// The memory of one environment's objects.
#[derive(Default)]
pub struct External {
    pub total: Total,
    reported: Cell<usize>,
    /// What was held when forgotten objects were last looked for.
    seen: Cell<usize>,
    /// An object that nobody has: when it is gone V8 has collected garbage since then.
    marker: RefCell<Option<Weak>>,
}

impl External {
    /// Tells V8, which may collect garbage now, what has changed.
    pub fn tell(&self, scope: Scope<'_>) {
        let (now, reported) = (self.total.bytes(), self.reported.get());
        if now.abs_diff(reported) < STEP {
            return;
        }
        let change = now as i64 - reported as i64;
        let mut all = 0;
        // SAFETY: the environment is alive and this is its thread; values of open handle scopes stay.
        if unsafe { sys::napi_adjust_external_memory(scope.env(), change, &raw mut all) } == sys::Status::napi_ok {
            self.reported.set(now);
        }
    }

    /// Whether it is worth looking for objects of script's that V8 has collected. Costs nothing where little was added since the last
    /// time.
    pub fn has_collected(&self, scope: Scope<'_>) -> bool {
        let now = self.total.bytes();
        let seen = self.seen.get().min(now);
        self.seen.set(seen);
        if now - seen < UNSEEN || self.marker.borrow().as_ref().is_some_and(Weak::is_there) {
            return false;
        }
        self.seen.set(now);
        *self.marker.borrow_mut() = marker(scope);
        true
    }

    /// Before the environment ends.
    pub fn end(&self) {
        *self.marker.borrow_mut() = None;
    }
}

/// An object that nobody has, likewise in a handle scope of its own.
fn marker(scope: Scope<'_>) -> Option<Weak> {
    let mut inner = ptr::null_mut();
    // SAFETY: the environment is alive and this is its thread, inside of a call; the scopes are closed in their order.
    unsafe {
        if sys::napi_open_handle_scope(scope.env(), &raw mut inner) != sys::Status::napi_ok {
            return None;
        }
        let marker = scope.object().ok().and_then(|object| Weak::new(scope, object));
        sys::napi_close_handle_scope(scope.env(), inner);
        marker
    }
}

/// Whether an object of script's is still there. Finalizers wait for the event loop to come round, which it does not while script
/// makes one object after the other.
pub struct Weak {
    env: sys::napi_env,
    reference: sys::napi_ref,
}

impl Weak {
    /// Nothing where the value is no object.
    pub fn new(scope: Scope<'_>, object: Value<'_>) -> Option<Weak> {
        let mut reference = ptr::null_mut();
        // SAFETY: the environment and the value are alive; a count of 0 makes the reference weak.
        let status = unsafe { sys::napi_create_reference(scope.env(), object.raw(), 0, &raw mut reference) };
        (status == sys::Status::napi_ok).then_some(Weak { env: scope.env(), reference })
    }

    pub fn is_there(&self) -> bool {
        let (mut scope, mut object) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the reference exists, and this is its environment's thread, inside of a call. The result is null when the object
        // was collected. What is found is in a handle scope of its own, since it would stay for as long as its handle: V8 may begin
        // to collect garbage at the end of this very call (`tell`).
        unsafe {
            if sys::napi_open_handle_scope(self.env, &raw mut scope) != sys::Status::napi_ok {
                return true;
            }
            let status = sys::napi_get_reference_value(self.env, self.reference, &raw mut object);
            sys::napi_close_handle_scope(self.env, scope);
            status != sys::Status::napi_ok || !object.is_null()
        }
    }
}

impl Drop for Weak {
    fn drop(&mut self) {
        // SAFETY: the reference was made in `new`, and what has it goes before the environment does (`Environment::end`).
        unsafe { sys::napi_delete_reference(self.env, self.reference) };
    }
}
