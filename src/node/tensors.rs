//! The flat functions of tensors.

use super::bytes;
use super::call::{Call, stale};
use super::compute;
use super::contexts::Context;
use super::environment::Environment;
use super::handles::Handle;
use super::script::Value;
use super::settle::{Outcome, Request};
use crate::error::{Error, Result};
use crate::graph::{ConstantBytes, Descriptor};
use crate::memory::{Bytes, Charge, Held, Use};
use crate::timeline::{Done, Task, TensorId};

/// A tensor, as Node-API knows it.
pub struct Tensor {
    pub context: Handle,
    pub id: TensorId,
    pub descriptor: Descriptor,
    /// A constant tensor has its bytes here, and the timeline knows nothing of it: it is no input of a dispatch.
    pub constant: Option<ConstantBytes>,
    /// For what describes it, here and on the timeline. Its memory is counted there.
    _held: Held,
}

/// What a tensor takes beside its memory.
const DESCRIPTION: usize = 512;

/// The bytes of a constant tensor, counted among the context's tensors for as long as somebody has them.
struct Counted {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Environment {
    pub fn with_tensor<R>(&self, handle: Handle, use_it: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
        use_it(self.tensors.borrow().get(handle).ok_or_else(|| stale("tensor"))?)
    }
}

/// *Check dimensions*, and whether a tensor of that type can be had here.
fn check(context: &Context, descriptor: &Descriptor, method: &str, label: &str) -> Result<()> {
    let limits = context.script_limits()?;
    let types = limits.input_types();
    let result = if types.contains(descriptor.data_type) {
        limits.check_tensor(descriptor, "descriptor")
    } else {
        Err(Error::argument("descriptor", format!("data type {}", descriptor.data_type), types))
    };
    result.map_err(|error| error.of(method, label))
}

/// `checkTensor(context, dataType, shape, method, label)`: fails where such a tensor cannot be had.
pub fn check_descriptor<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let descriptor = Descriptor { data_type: call.data_type(1)?, shape: call.unsigned_list(2)? };
    let (method, label) = (call.string(3)?, call.string(4)?);
    call.environment.with_context(call.handle(0)?, |context| check(context, &descriptor, &method, &label))?;
    Ok(None)
}

/// `createTensor(request, context, dataType, shape, readable, writable, label)`
///
/// Whether it is readable and writable only matters to devices that choose a tensor's memory by it.
pub fn create<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let handle = call.handle(1)?;
    let descriptor = Descriptor { data_type: call.data_type(2)?, shape: call.unsigned_list(3)? };
    let label = call.string(6)?;
    let environment = call.environment;
    let id = environment.with_context(handle, |context| {
        check(context, &descriptor, "createTensor", &label)?;
        let id = TensorId(context.next());
        let done = environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
        context.send(Task::CreateTensor { tensor: id, descriptor: descriptor.clone(), label, done })?;
        Ok(id)
    })?;
    let held = environment.external.total.hold(DESCRIPTION);
    let tensor = Tensor { context: handle, id, descriptor, constant: None, _held: held };
    let tensor = environment.tensors.borrow_mut().insert(tensor);
    Ok(Some(call.scope.number(tensor.to_number())?))
}

/// `createConstantTensor(request, context, dataType, shape, bytes, label)`
pub fn create_constant<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let handle = call.handle(1)?;
    let descriptor = Descriptor { data_type: call.data_type(2)?, shape: call.unsigned_list(3)? };
    let label = call.string(5)?;
    let environment = call.environment;
    let (id, constant) = environment.with_context(handle, |context| {
        check(context, &descriptor, "createConstantTensor", &label)?;
        let bytes = bytes::copy(call.scope, call.value(4)).map_err(|error| error.of("createConstantTensor", &label))?;
        check_length(&bytes, &descriptor).map_err(|error| error.of("createConstantTensor", &label))?;
        let charge = context.usage()?.reserve(Use::Tensors, bytes.len());
        let charge = charge.map_err(|error| error.of("createConstantTensor", &label))?;
        let done = environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
        done.report(Ok(()));
        Ok((TensorId(context.next()), ConstantBytes::new(Counted { bytes, _charge: charge })))
    })?;
    let held = environment.external.total.hold(DESCRIPTION);
    let tensor = Tensor { context: handle, id, descriptor, constant: Some(constant), _held: held };
    let tensor = environment.tensors.borrow_mut().insert(tensor);
    Ok(Some(call.scope.number(tensor.to_number())?))
}

fn check_length(bytes: &Bytes, descriptor: &Descriptor) -> Result<()> {
    let (found, allowed) = (bytes.len(), descriptor.byte_length());
    if found == allowed {
        return Ok(());
    }
    Err(Error::argument("inputData", format!("{found} bytes"), format!("the {allowed} bytes of {descriptor}")))
}

/// `tensorOfNumber(context, dataType, shape, number)`: the handle of a tensor that the timeline has under this number.
pub fn of_number<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let context = call.handle(0)?;
    let descriptor = Descriptor { data_type: call.data_type(1)?, shape: call.unsigned_list(2)? };
    let tensor = handle(call.environment, context, descriptor, TensorId(call.number(3)? as u64));
    Ok(Some(call.scope.number(tensor.to_number())?))
}

/// The handle of a tensor.
pub fn handle(environment: &Environment, context: Handle, descriptor: Descriptor, id: TensorId) -> Handle {
    let tensor = Tensor { context, id, descriptor, constant: None, _held: environment.external.total.hold(DESCRIPTION) };
    environment.tensors.borrow_mut().insert(tensor)
}

/// `shareTensor(tensor, to)`: gives another tensor, of the same type and shape, what one has.
pub fn share<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    environment.with_tensor(call.handle(0)?, |tensor| {
        let to = environment.with_tensor(call.handle(1)?, |to| Ok((to.id, to.descriptor.clone())))?;
        if to.1 != tensor.descriptor {
            return Err(Error::argument("outputs", tensor.descriptor.to_string(), to.1));
        }
        environment.with_context(tensor.context, |context| {
            // One that was destroyed meanwhile has nobody to see it.
            context.send(Task::Share { tensor: tensor.id, to: to.0, done: Done::new(|_: Result<()>| {}) })?;
            Ok(None)
        })
    })
}

/// `destroyTensor(tensor)`
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let tensor = environment.tensors.borrow_mut().remove(call.handle(0)?);
    if let Some(tensor) = tensor
        && let Some(context) = environment.contexts.borrow().get(tensor.context)
    {
        context.send(Task::DestroyTensor { tensor: tensor.id })?;
    }
    Ok(None)
}

/// `writeTensor(tensor, bytes, label)`
pub fn write<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    environment.with_tensor(call.handle(0)?, |tensor| {
        let label = call.string(2)?;
        let bytes = bytes::copy(call.scope, call.value(1)).map_err(|error| error.of("writeTensor", &label))?;
        check_length(&bytes, &tensor.descriptor).map_err(|error| error.of("writeTensor", &label))?;
        environment.with_context(tensor.context, |context| {
            let charge = context.usage()?.reserve(Use::PendingWrites, bytes.len());
            let charge = charge.map_err(|error| error.of("writeTensor", &label))?;
            context.send(Task::Write { tensor: tensor.id, bytes, label, charge: Some(charge) })?;
            Ok(None)
        })
    })
}

/// `readTensor(request, tensor, buffer, watch)`
pub fn read<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    environment.with_tensor(call.handle(1)?, |tensor| {
        let into = bytes::host_buffer(call.scope, call.value(2), tensor.descriptor.byte_length())?;
        environment.with_context(tensor.context, |context| {
            let watch = compute::watch(call, 3)?;
            let done = environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
            context.send(Task::Read { tensor: tensor.id, into, watch, done })?;
            Ok(None)
        })
    })
}
