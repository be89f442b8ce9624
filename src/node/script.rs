//! Values of JavaScript, as this module uses them: thin, checked functions over `napi::sys`.
//!
//! Nothing here trusts a value's type: a value of another kind becomes an error, never undefined behaviour. Node-API refuses it, says its
//! text; but that of Deno reads `undefined` as the number 0, so the type is looked at first. `lib/` has converted everything: such an error
//! is one of ours and says so.
#![allow(unsafe_code)]

use crate::error::{Error, Kind, Result};
use crate::memory;
use napi::sys;
use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::ptr;

/// An environment in which values can be made and looked at: only on its thread, and only for as long as `'s`.
#[derive(Clone, Copy)]
pub struct Scope<'s> {
    env: sys::napi_env,
    lifetime: PhantomData<(&'s (), *mut ())>,
}

/// A value of JavaScript, which the garbage collector leaves alone for as long as `'s`.
#[derive(Clone, Copy)]
pub struct Value<'s> {
    raw: sys::napi_value,
    lifetime: PhantomData<(&'s (), *mut ())>,
}

/// What kind of value it is, as far as anybody here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Undefined,
    Boolean,
    Number,
    BigInt,
    String,
    Object,
    Other,
}

impl<'s> Value<'s> {
    /// # Safety
    /// `raw` must be a value of the environment of the scope that it is used with, and valid for `'s`.
    pub unsafe fn new(raw: sys::napi_value) -> Self {
        Value { raw, lifetime: PhantomData }
    }

    pub fn raw(self) -> sys::napi_value {
        self.raw
    }
}

/// Calls a function of Node-API whose last parameter receives the result.
macro_rules! ask {
    ($function:ident($($argument:expr),* $(,)?) -> $initial:expr) => {{
        let mut result = $initial;
        // SAFETY: the environment and the values are alive for the scope's lifetime (`Scope::new`, `Value::new`), and
        // the result lives on the stack until the call returns.
        let status = unsafe { sys::$function($($argument,)* &raw mut result) };
        check(status, stringify!($function)).map(|()| result)
    }};
}

fn check(status: sys::napi_status, function: &str) -> Result<()> {
    if status == sys::Status::napi_ok { Ok(()) } else { Err(internal(format!("{function}() returned {status}"))) }
}

/// An error of this module and not of its user.
pub fn internal(message: impl std::fmt::Display) -> Error {
    Error::new(Kind::Operation, format!("internal error: {message}"))
}

impl<'s> Scope<'s> {
    /// # Safety
    /// `env` must be the environment of the current thread, with an open handle scope, for the whole of `'s`.
    pub unsafe fn new(env: sys::napi_env) -> Self {
        Scope { env, lifetime: PhantomData }
    }

    pub fn env(self) -> sys::napi_env {
        self.env
    }

    fn value(self, raw: sys::napi_value) -> Value<'s> {
        Value { raw, lifetime: PhantomData }
    }

    // ---- Making values -----------------------------------------------------------------------------------------------

    pub fn undefined(self) -> Result<Value<'s>> {
        ask!(napi_get_undefined(self.env) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn null(self) -> Result<Value<'s>> {
        ask!(napi_get_null(self.env) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn boolean(self, value: bool) -> Result<Value<'s>> {
        ask!(napi_get_boolean(self.env, value) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn number(self, value: f64) -> Result<Value<'s>> {
        ask!(napi_create_double(self.env, value) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn unsigned(self, value: u32) -> Result<Value<'s>> {
        ask!(napi_create_uint32(self.env, value) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn string(self, text: &str) -> Result<Value<'s>> {
        let start = text.as_ptr().cast::<c_char>();
        ask!(napi_create_string_utf8(self.env, start, text.len() as isize) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn object(self) -> Result<Value<'s>> {
        ask!(napi_create_object(self.env) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn array(self, length: usize) -> Result<Value<'s>> {
        ask!(napi_create_array_with_length(self.env, length) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    pub fn array_of(self, values: impl ExactSizeIterator<Item = Result<Value<'s>>>) -> Result<Value<'s>> {
        let array = self.array(values.len())?;
        for (index, value) in values.enumerate() {
            self.set_element(array, index as u32, value?)?;
        }
        Ok(array)
    }

    pub fn strings<'t>(self, texts: impl ExactSizeIterator<Item = &'t str>) -> Result<Value<'s>> {
        self.array_of(texts.map(|text| self.string(text)))
    }

    pub fn set_element(self, array: Value<'s>, index: u32, value: Value<'s>) -> Result<()> {
        // SAFETY: the environment and both values are alive for `'s`.
        check(unsafe { sys::napi_set_element(self.env, array.raw, index, value.raw) }, "napi_set_element")
    }

    pub fn set(self, object: Value<'s>, name: &str, value: Value<'s>) -> Result<()> {
        let key = self.string(name)?;
        // SAFETY: the environment and the three values are alive for `'s`.
        check(unsafe { sys::napi_set_property(self.env, object.raw, key.raw, value.raw) }, "napi_set_property")
    }

    /// A new JavaScript `Error` with the exception's name as `code`, and the chain of causes as plain objects.
    pub fn error(self, error: &Error) -> Result<Value<'s>> {
        let (code, message) = (self.string(error.kind().name())?, self.string(error.message())?);
        let result = ask!(napi_create_error(self.env, code.raw, message.raw) -> ptr::null_mut()).map(|raw| self.value(raw))?;
        if let Some(cause) = error.cause() {
            self.set(result, "cause", self.cause(cause)?)?;
        }
        Ok(result)
    }

    /// `{code, message, cause?}`
    pub fn cause(self, error: &Error) -> Result<Value<'s>> {
        let object = self.object()?;
        self.set(object, "code", self.string(error.kind().name())?)?;
        self.set(object, "message", self.string(error.message())?)?;
        if let Some(cause) = error.cause() {
            self.set(object, "cause", self.cause(cause)?)?;
        }
        if let Some(reason) = error.reason() {
            self.set(object, "reason", self.number(reason.0 as f64)?)?;
        }
        Ok(object)
    }

    pub fn throw(self, error: &Error) {
        let Ok(error) = self.error(error) else { return };
        // SAFETY: the environment and the value are alive for `'s`. Where it fails an exception is pending already.
        unsafe { sys::napi_throw(self.env, error.raw) };
    }

    // ---- Looking at values -------------------------------------------------------------------------------------------

    pub fn type_of(self, value: Value<'s>) -> Result<Type> {
        use sys::ValueType;
        Ok(match ask!(napi_typeof(self.env, value.raw) -> 0)? {
            ValueType::napi_undefined => Type::Undefined,
            ValueType::napi_boolean => Type::Boolean,
            ValueType::napi_number => Type::Number,
            ValueType::napi_bigint => Type::BigInt,
            ValueType::napi_string => Type::String,
            ValueType::napi_object => Type::Object,
            _ => Type::Other,
        })
    }

    fn require(self, value: Value<'s>, wanted: Type) -> Result<()> {
        match self.type_of(value)? {
            found if found == wanted => Ok(()),
            found => Err(internal(format!("found a value of type {found:?}, allowed {wanted:?}"))),
        }
    }

    pub fn as_number(self, value: Value<'s>) -> Result<f64> {
        self.require(value, Type::Number)?;
        ask!(napi_get_value_double(self.env, value.raw) -> 0.0)
    }

    pub fn as_unsigned(self, value: Value<'s>) -> Result<u32> {
        self.require(value, Type::Number)?;
        ask!(napi_get_value_uint32(self.env, value.raw) -> 0)
    }

    pub fn as_signed(self, value: Value<'s>) -> Result<i32> {
        self.require(value, Type::Number)?;
        ask!(napi_get_value_int32(self.env, value.raw) -> 0)
    }

    pub fn as_boolean(self, value: Value<'s>) -> Result<bool> {
        self.require(value, Type::Boolean)?;
        ask!(napi_get_value_bool(self.env, value.raw) -> false)
    }

    /// A bigint, clamped to what an `i128` holds.
    pub fn as_integer(self, value: Value<'s>) -> Result<i128> {
        self.require(value, Type::BigInt)?;
        let mut sign: c_int = 0;
        let mut count = 2;
        let mut words = [0u64; 2];
        let sign_of = &raw mut sign;
        let count_of = &raw mut count;
        // SAFETY: the environment and the value are alive for `'s`, `words` has room for the `count` words announced.
        let status = unsafe { sys::napi_get_value_bigint_words(self.env, value.raw, sign_of, count_of, words.as_mut_ptr()) };
        check(status, "napi_get_value_bigint_words")?;
        // `count` is now the number of words that the bigint has.
        let magnitude = if count > 2 { u128::MAX } else { u128::from(words[1]) << 64 | u128::from(words[0]) };
        let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
        Ok(if sign != 0 { -magnitude } else { magnitude })
    }

    pub fn as_string(self, value: Value<'s>) -> Result<String> {
        const SHORT: usize = 64;
        let mut short = [0u8; SHORT];
        self.require(value, Type::String)?;
        let length = self.copy_string(value, &mut short)?;
        // One byte is the terminating zero, and a character that would not fit whole is left out.
        if length + 4 < SHORT {
            return String::from_utf8(short[..length].to_vec()).map_err(internal);
        }
        let length = ask!(napi_get_value_string_utf8(self.env, value.raw, ptr::null_mut(), 0) -> 0)?;
        let mut bytes = Vec::new();
        memory::grow(&mut bytes, length + 1)?;
        bytes.resize(length + 1, 0);
        let length = self.copy_string(value, &mut bytes)?;
        bytes.truncate(length);
        String::from_utf8(bytes).map_err(internal)
    }

    fn copy_string(self, value: Value<'s>, bytes: &mut [u8]) -> Result<usize> {
        let start = bytes.as_mut_ptr().cast::<c_char>();
        ask!(napi_get_value_string_utf8(self.env, value.raw, start, bytes.len()) -> 0)
    }

    pub fn length(self, array: Value<'s>) -> Result<u32> {
        if !ask!(napi_is_array(self.env, array.raw) -> false)? {
            return Err(internal(format!("found a value of type {:?}, allowed an array", self.type_of(array)?)));
        }
        ask!(napi_get_array_length(self.env, array.raw) -> 0)
    }

    pub fn element(self, array: Value<'s>, index: u32) -> Result<Value<'s>> {
        ask!(napi_get_element(self.env, array.raw, index) -> ptr::null_mut()).map(|raw| self.value(raw))
    }

    /// The elements of an array, each converted.
    pub fn elements<T, C: FromIterator<T>>(
        self,
        array: Value<'s>,
        mut convert: impl FnMut(Self, Value<'s>) -> Result<T>,
    ) -> Result<C> {
        let length = self.length(array)?;
        // Script decides how many there are.
        if length > FEW {
            memory::require((length as usize).saturating_mul(2 * size_of::<T>()))?;
        }
        (0..length).map(|index| convert(self, self.element(array, index)?)).collect()
    }
}

/// Arrays of more elements are held against the memory that there is.
const FEW: u32 = 1 << 12;

impl<'s> Scope<'s> {
    /// Calls a function of JavaScript. What it throws is the process's to handle, as for any callback.
    pub fn call(self, function: Value<'s>, argument: Value<'s>) -> Result<()> {
        let receiver = self.undefined()?;
        // SAFETY: the environment and the values are alive for `'s`; nobody wants the result.
        let status =
            unsafe { sys::napi_call_function(self.env, receiver.raw, function.raw, 1, &raw const argument.raw, ptr::null_mut()) };
        if status == sys::Status::napi_pending_exception {
            let exception = ask!(napi_get_and_clear_last_exception(self.env) -> ptr::null_mut())?;
            // SAFETY: the environment and the exception are alive for `'s`.
            return check(unsafe { sys::napi_fatal_exception(self.env, exception) }, "napi_fatal_exception");
        }
        check(status, "napi_call_function")
    }

    /// Whether this thread is to end: somebody terminates the worker, or the process exits.
    pub fn is_ending(self) -> bool {
        // Functions of this kind run no script here, but refuse where none may run any more.
        self.has_global("undefined").is_err()
    }

    /// Whether the global object has a property of its own of this name. Runs no script.
    pub fn has_global(self, name: &str) -> Result<bool> {
        let global = ask!(napi_get_global(self.env) -> ptr::null_mut())?;
        let name = self.string(name)?;
        ask!(napi_has_own_property(self.env, global, name.raw) -> false)
    }

    /// Lets the process handle an error that belongs to no call.
    pub fn report(self, error: &Error) {
        let Ok(error) = self.error(error) else { return };
        // SAFETY: the environment and the value are alive for `'s`. It fails where no JavaScript may run any more.
        unsafe { sys::napi_fatal_exception(self.env, error.raw) };
    }
}
