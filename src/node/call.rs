//! One call of a flat function: what surrounds every one of them.
//!
//! A panic becomes an error, an error becomes an exception, and nothing unwinds into JavaScript.
#![allow(unsafe_code)]

use super::environment::Environment;
use super::handles::Handle;
use super::script::{Scope, Value, internal};
use crate::error::{Error, Result};
use crate::graph::DataType;
use crate::timeline::from_panic;
use napi::sys;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// As many arguments as any flat function has: `apply` has three and the operator's own.
pub const MOST: usize = 24;

/// The arguments of a call and what it is made in.
pub struct Call<'s> {
    pub scope: Scope<'s>,
    pub environment: &'s Environment,
    arguments: [Value<'s>; MOST],
}

/// A flat function. It returns nothing for `undefined`.
pub type Function = for<'s> fn(&Call<'s>) -> Result<Option<Value<'s>>>;

impl<'s> Call<'s> {
    /// The arguments from one on, with `undefined` for those that the caller did not give.
    pub fn values_from(&self, index: usize) -> &[Value<'s>] {
        &self.arguments[index..]
    }

    /// An argument; `undefined` where the caller gave fewer.
    pub fn value(&self, index: usize) -> Value<'s> {
        self.arguments[index]
    }

    pub fn number(&self, index: usize) -> Result<f64> {
        self.scope.as_number(self.arguments[index])
    }

    pub fn unsigned(&self, index: usize) -> Result<u32> {
        self.scope.as_unsigned(self.arguments[index])
    }

    pub fn string(&self, index: usize) -> Result<String> {
        self.scope.as_string(self.arguments[index])
    }

    pub fn handle(&self, index: usize) -> Result<Handle> {
        Ok(Handle::from_number(self.number(index)?))
    }

    pub fn data_type(&self, index: usize) -> Result<DataType> {
        let number = self.unsigned(index)?;
        DataType::from_index(number).ok_or_else(|| internal(format!("no data type has the number {number}")))
    }

    pub fn unsigned_list<C: FromIterator<u32>>(&self, index: usize) -> Result<C> {
        self.scope.elements(self.arguments[index], Scope::as_unsigned)
    }
}

/// What Node calls for a flat function.
///
/// # Safety
/// Only for a function that [`export`] made: its data is an environment that lives as long as the function can be called.
pub unsafe fn enter(env: sys::napi_env, info: sys::napi_callback_info, function: Function) -> sys::napi_value {
    let mut count = MOST;
    let mut raw = [ptr::null_mut(); MOST];
    let mut data: *mut c_void = ptr::null_mut();
    // SAFETY: Node calls this with a valid environment and information; `raw` has room for `count` values. Node fills
    // those that the caller did not give with `undefined`.
    let status = unsafe { sys::napi_get_cb_info(env, info, &raw mut count, raw.as_mut_ptr(), ptr::null_mut(), &raw mut data) };
    if status != sys::Status::napi_ok {
        return ptr::null_mut();
    }
    // SAFETY: this is the environment's thread, inside a callback, which has a handle scope.
    let scope = unsafe { Scope::new(env) };
    // SAFETY: `export` gave the function this data, and the caller promises that the environment is alive.
    let environment = unsafe { &*data.cast::<Environment>() };
    // SAFETY: arguments are alive until the callback returns.
    let arguments = raw.map(|raw| unsafe { Value::new(raw) });
    let call = Call { scope, environment, arguments };
    let result = catch_unwind(AssertUnwindSafe(|| function(&call))).unwrap_or_else(|panic| Err(from_panic(&*panic)));
    environment.external.tell(scope);
    match result {
        Ok(value) => value.map_or(ptr::null_mut(), Value::raw),
        Err(error) => {
            scope.throw(&error);
            ptr::null_mut()
        }
    }
}

/// Puts a flat function on the addon's exports.
///
/// # Safety
/// `environment` must live for as long as script can call the function.
pub unsafe fn export(
    scope: Scope<'_>,
    exports: sys::napi_value,
    name: &str,
    entry: sys::napi_callback,
    environment: *const Environment,
) -> Result<()> {
    let mut function = ptr::null_mut();
    let data = environment.cast_mut().cast();
    // SAFETY: the name is valid for the length given, `entry` leads to `enter`, and `data` is what that expects.
    let status = unsafe {
        sys::napi_create_function(scope.env(), name.as_ptr().cast(), name.len() as isize, entry, data, &raw mut function)
    };
    if status != sys::Status::napi_ok {
        return Err(internal(format!("napi_create_function() returned {status}")));
    }
    // SAFETY: both are values of this environment and of this callback.
    let (exports, function) = unsafe { (Value::new(exports), Value::new(function)) };
    scope.set(exports, name, function)
}

/// The error for a handle that is stale. `lib/` asks only for what it holds, so this is one of ours.
pub fn stale(what: &str) -> Error {
    internal(format!("the {what} is gone"))
}
