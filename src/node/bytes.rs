//! The memory of script's buffers.
#![allow(unsafe_code)]

use super::script::{Scope, Value, internal};
use crate::error::Result;
use crate::host_memory::{HostBuffer, Placement};
use crate::memory::{Arrival, Bytes};
use napi::sys;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr;

/// A new `ArrayBuffer` with these bytes.
pub fn array_buffer<'s>(scope: Scope<'s>, bytes: &[u8]) -> Result<Value<'s>> {
    let (mut data, mut buffer): (*mut c_void, sys::napi_value) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the environment is alive during the call (`Scope::new`), results are on the stack.
    let status = unsafe { sys::napi_create_arraybuffer(scope.env(), bytes.len(), &raw mut data, &raw mut buffer) };
    if status != sys::Status::napi_ok {
        return Err(internal(format!("an ArrayBuffer of {} bytes cannot be made", bytes.len())));
    }
    if !bytes.is_empty() {
        // SAFETY: Node-API says that so many bytes begin there, which nobody else has yet.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len()) };
    }
    // SAFETY: it was made for this environment just now.
    Ok(unsafe { Value::new(buffer) })
}

/// Where the bytes of an `ArrayBuffer`, a typed array or a `DataView` are at this moment.
fn locate(scope: Scope<'_>, source: Value<'_>) -> Result<(*mut u8, usize)> {
    let mut data: *mut c_void = ptr::null_mut();
    let mut length = 0;
    let mut element: sys::napi_typedarray_type = 0;
    let env = scope.env();
    // SAFETY: the environment and the value are alive during the call (`Scope::new`, `Value::new`), results are on the
    // stack. For a value of another kind each function fails and does nothing.
    unsafe {
        if sys::napi_get_arraybuffer_info(env, source.raw(), &raw mut data, &raw mut length) == sys::Status::napi_ok {
            return Ok((data.cast(), length));
        }
        let nothing = ptr::null_mut();
        if sys::napi_get_typedarray_info(
            env,
            source.raw(),
            &raw mut element,
            &raw mut length,
            &raw mut data,
            nothing,
            ptr::null_mut(),
        ) == sys::Status::napi_ok
        {
            let size = element_size(element).ok_or_else(|| internal(format!("a typed array of type {element}")))?;
            return Ok((data.cast(), length * size));
        }
        if sys::napi_get_dataview_info(env, source.raw(), &raw mut length, &raw mut data, nothing, ptr::null_mut())
            == sys::Status::napi_ok
        {
            return Ok((data.cast(), length));
        }
    }
    Err(internal("a buffer that is none"))
}

fn element_size(element: sys::napi_typedarray_type) -> Option<usize> {
    use sys::TypedarrayType as Type;
    /// Node 24 reports `Float16Array` by a number that the headers of its time do not list.
    const FLOAT16_ARRAY: sys::napi_typedarray_type = 11;
    Some(match element {
        Type::int8_array | Type::uint8_array | Type::uint8_clamped_array => 1,
        Type::int16_array | Type::uint16_array | FLOAT16_ARRAY => 2,
        Type::int32_array | Type::uint32_array | Type::float32_array => 4,
        Type::float64_array | Type::bigint64_array | Type::biguint64_array => 8,
        _ => return None,
    })
}

/// A copy of the bytes as they are now.
///
/// # Errors
/// `UnknownError` when the memory for the copy cannot be had.
pub fn copy(scope: Scope<'_>, source: Value<'_>) -> Result<Bytes> {
    copy_by(scope, source, Bytes::copy_of)
}

/// What is made of the bytes as they are now, such as a copy of some of them.
///
/// # Errors
/// Those of `make`.
pub fn copy_by<T>(scope: Scope<'_>, source: Value<'_>, make: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let (start, length) = locate(scope, source)?;
    if length == 0 {
        return make(&[]);
    }
    // SAFETY: Node-API says that `length` bytes begin at `start`, and no script of this thread runs before the copy is
    // made. Where the memory is shared, another thread may write it meanwhile: then the copy has some of either bytes,
    // which is what script gets everywhere for such a race.
    make(unsafe { std::slice::from_raw_parts(start, length) })
}

/// Changes the bytes of a view.
///
/// # Errors
/// Those of `change`.
pub fn change(scope: Scope<'_>, target: Value<'_>, change: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
    let (start, length) = locate(scope, target)?;
    if length == 0 {
        return change(&mut []);
    }
    // SAFETY: as in `copy_by`, and `change` has no other way to these bytes; a race for shared memory is script's own.
    change(unsafe { std::slice::from_raw_parts_mut(start, length) })
}

/// Copies of script's bytes that are made when they are needed, at the latest when [`copying`] returns.
pub struct Copies(SmallVec<[Arrival; 4]>);

/// Does something with copies of bytes as they are now, which it may send elsewhere before they are made.
pub fn copying<T>(work: impl FnOnce(&mut Copies) -> T) -> T {
    // Dropped here, not by `work`: until then the copies are made from script's own memory.
    let mut copies = Copies(SmallVec::new());
    work(&mut copies)
}

impl Copies {
    /// A copy in memory of its own, or in an output, which nobody may access before the copy is there.
    ///
    /// # Errors
    /// `UnknownError` when the memory for the copy cannot be had.
    pub fn of(&mut self, scope: Scope<'_>, source: Value<'_>, place: Option<(&HostBuffer, Placement)>) -> Result<HostBuffer> {
        let (start, length) = locate(scope, source)?;
        // SAFETY: Node-API says that `length` bytes begin at `start`, and no script of this thread runs before `copying`
        // returns and drops this; nobody else can. For shared memory see `copy`. An output is accessed by the step that its
        // placement is about, after the wait, and by none before it (`placements.rs`).
        let (memory, arrival) = unsafe {
            match place {
                Some((output, placement)) => HostBuffer::for_copy_in(output, placement, start, length),
                None => HostBuffer::for_copy(start, length)?,
            }
        };
        self.0.push(arrival);
        Ok(memory)
    }
}

/// A buffer for a read to fill. `lib/` made it for that, and keeps it alive and to itself until the read is settled.
pub fn host_buffer(scope: Scope<'_>, buffer: Value<'_>, wanted: usize) -> Result<HostBuffer> {
    let memory = host_memory(scope, buffer)?;
    if memory.len() != wanted {
        return Err(internal(format!("a buffer of {} bytes for a read of {wanted}", memory.len())));
    }
    Ok(memory)
}

/// Memory for a graph to run on, under the same promise.
pub fn host_memory(scope: Scope<'_>, buffer: Value<'_>) -> Result<HostBuffer> {
    let (start, length) = locate(scope, buffer)?;
    // SAFETY: the bytes are valid (as above); that nobody else has them until the request is settled is what `lib/` promises
    // (`settle.js`), and the end of the environment waits for the timeline.
    Ok(unsafe { HostBuffer::new(start, length) })
}
