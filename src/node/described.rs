//! Where an operand is described to `lib/`: a few numbers in memory that both sides have.
//!
//! A method of `MLGraphBuilder` gives back a new operand's id, data type and shape. As an array of JavaScript that would
//! cost more than validating the operator.
#![allow(unsafe_code)]

use super::script::{Scope, Value, internal};
use crate::error::Result;
use crate::graph::descriptor::MAX_RANK;
use napi::sys;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Id, data type, rank, and the sizes of the dimensions.
const LENGTH: usize = 3 + MAX_RANK;

/// The memory of a `Uint32Array` that the addon exports, and that `lib/` reads right after a call.
pub struct Described(Cell<*mut u32>);

impl Described {
    pub fn new() -> Self {
        Described(Cell::new(ptr::null_mut()))
    }

    /// Makes the array. It is kept for as long as the environment.
    pub fn start<'s>(&self, scope: Scope<'s>) -> Result<Value<'s>> {
        let env = scope.env();
        let mut data: *mut c_void = ptr::null_mut();
        let (mut buffer, mut array, mut reference) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the environment is alive and results are on the stack. The reference keeps the buffer, and so its
        // memory, where it is; `lib/` does not give it to anybody.
        let done = unsafe {
            sys::napi_create_arraybuffer(env, 4 * LENGTH, &raw mut data, &raw mut buffer) == sys::Status::napi_ok
                && sys::napi_create_typedarray(env, sys::TypedarrayType::uint32_array, LENGTH, buffer, 0, &raw mut array)
                    == sys::Status::napi_ok
                && sys::napi_create_reference(env, buffer, 1, &raw mut reference) == sys::Status::napi_ok
        };
        if !done {
            return Err(internal("no memory to describe operands in"));
        }
        self.0.set(data.cast());
        // SAFETY: the value was just made in the scope.
        Ok(unsafe { Value::new(array) })
    }

    /// Writes as many numbers as there is room for.
    pub fn write(&self, numbers: impl Iterator<Item = u32>) {
        let start = self.0.get();
        assert!(!start.is_null(), "the environment was set up");
        for (index, number) in numbers.take(LENGTH).enumerate() {
            // SAFETY: `start` is that of `LENGTH` numbers (see `start`), aligned as every ArrayBuffer is.
            unsafe { start.add(index).write(number) };
        }
    }
}
