//! The flat functions of models whose results are kept for their next run.

use super::bytes;
use super::call::{Call, stale};
use super::compute;
use super::handles::Handle;
use super::onnx::{guarded, in_background, program, signature};
use super::script::{Scope, Type, Value};
use super::settle::{Outcome, Request};
use crate::error::Result;
use crate::program::Program;
use crate::program::steps::{self, Content, Input, Options, Output};
use crate::timeline::Done;
use std::sync::{Arc, OnceLock};

/// The values of a run, once it has ended, until script has taken them.
pub struct Stepped(Arc<OnceLock<Vec<Output>>>);

/// A result that script has not looked at.
pub struct UnreadValue(steps::Value);

/// Inputs of a model: handles of values, and what `undefined` and views are read as.
fn inputs<'s, T>(
    call: &Call<'s>,
    index: usize,
    mut read: impl FnMut(usize, Scope<'s>, Value<'s>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut position = 0;
    call.scope.elements(call.value(index), |scope, value| {
        position += 1;
        read(position - 1, scope, value)
    })
}

/// Reads `shapes, values` from the arguments: the step that they are, if they can be one.
fn step(call: &Call<'_>, program: &Program, first: usize) -> Result<Option<steps::Call>> {
    let Some(steps) = &program.steps else { return Ok(None) };
    let known: Vec<usize> = steps.known().collect();
    let shapes: Vec<Vec<u32>> =
        call.scope.elements(call.value(first), |scope, shape| scope.elements(shape, Scope::as_unsigned))?;
    let told = inputs(call, first + 1, |at, scope, value| {
        let is_wanted = known.contains(&at) && scope.type_of(value)? == Type::Object;
        let told = |bytes: crate::memory::Bytes| steps.value(&program.loaded, at, &bytes);
        if is_wanted { bytes::copy(scope, value).map(told).map(Some) } else { Ok(None) }
    })?;
    let told: Vec<steps::Told> = told.into_iter().flatten().collect();
    Ok(steps.call(&program.loaded, &shapes, &told))
}

/// `stepFits(model, shapes, values)`: whether such inputs can be a step; `undefined` where nobody has found out.
pub fn fits<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (_, program) = program(call, 0)?;
    match step(call, &program, 1)? {
        None => call.scope.boolean(false).map(Some),
        Some(step) => program.fits(&step).map(|fits| call.scope.boolean(fits)).transpose(),
    }
}

/// `prepareStep(request, model, shapes, values)`: settles with whether such inputs can be a step, when it has a plan.
pub fn prepare<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let (_, program) = program(call, 1)?;
    let step = step(call, &program, 2)?;
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let done = call.environment.settler.promise(call.scope, request, move |()| Outcome::Fits(outcome))?;
    in_background("run", String::new(), done, move |done| {
        let fits = guarded(|| Ok::<_, crate::error::Error>(step.is_some_and(|mut step| program.prepare(&mut step))));
        match fits {
            Ok(fits) => {
                let _ = found.set(fits);
                done.report(Ok(()));
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    });
    Ok(None)
}

/// `runStep(request, model, shapes, values, wanted, label, watch)`: the handle of a run, which settles with `[[name, dataType, shape, type],
/// ArrayBuffer or undefined]` for each output; what is undefined there is taken with `takeValue`. Values are views, which are copied, or handles.
pub fn run<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (_, program) = program(call, 1)?;
    let step = step(call, &program, 2)?.ok_or_else(|| stale("step"))?;
    let given = inputs(call, 3, |at, scope, value| match scope.type_of(value)? {
        Type::Number => {
            let values = environment.values.borrow();
            let UnreadValue(value) = values.get(Handle::from_number(scope.as_number(value)?)).ok_or_else(|| stale("value"))?;
            Ok(Input::Value(value.clone()))
        }
        _ => bytes::copy_by(scope, value, |bytes| step.input(&program, at, bytes)),
    })?;
    let wanted = match call.scope.type_of(call.value(4))? {
        Type::Undefined => None,
        _ => Some(call.scope.elements(call.value(4), Scope::as_string)?),
    };
    let label = call.string(5)?;
    let watch = compute::watch(call, 6)?;
    let stepped = Arc::new(OnceLock::new());
    let (found, outcome) = (stepped.clone(), stepped.clone());
    let done = environment.settler.promise(call.scope, request, move |()| Outcome::Step(outcome))?;
    let name = label.clone();
    let done = Done::new(move |result: Result<Vec<Output>>| {
        done.report(result.map(|outputs| drop(found.set(outputs))).map_err(|error| error.of("run", &name)));
    });
    steps::start(program, step, given, Options { wanted, label, watch }, done);
    let handle = environment.stepped.borrow_mut().insert(Stepped(stepped));
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `takeValue(run, output)`: the handle of a result.
pub fn take<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let value = {
        let stepped = call.environment.stepped.borrow();
        let outputs = stepped.get(call.handle(0)?).and_then(|run| run.0.get()).ok_or_else(|| stale("run"))?;
        match outputs.get(call.unsigned(1)? as usize).map(|output| &output.content) {
            Some(Content::Value(value)) => value.clone(),
            _ => return Err(stale("value")),
        }
    };
    let handle = call.environment.values.borrow_mut().insert(UnreadValue(value));
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `forgetRun(run)`
pub fn forget<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.stepped.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

fn value(call: &Call<'_>) -> Result<steps::Value> {
    let values = call.environment.values.borrow();
    Ok(values.get(call.handle(0)?).ok_or_else(|| stale("value"))?.0.clone())
}

/// `shareValue(value)`: another handle of the same value.
pub fn share<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let value = value(call)?;
    let handle = call.environment.values.borrow_mut().insert(UnreadValue(value));
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `readValue(value)`: an `ArrayBuffer` with its elements.
pub fn read<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let bytes = value(call)?.read()?;
    bytes::array_buffer(call.scope, &bytes).map(Some)
}

/// `writeValue(value, view, isPast)`: writes its elements into a view; only those of new rows where the view has what the run found (1).
pub fn write<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (value, is_past) = (value(call)?, call.unsigned(2)? != 0);
    bytes::change(call.scope, call.value(1), |bytes| value.write_to(is_past, bytes))?;
    Ok(None)
}

/// `dropValue(value)`
pub fn drop_value<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.values.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// See [`prepare`].
pub fn fits_value<'s>(scope: Scope<'s>, fits: &OnceLock<bool>) -> Result<Value<'s>> {
    scope.boolean(fits.get().copied().unwrap_or(false))
}

/// See [`run`].
pub fn step_value<'s>(scope: Scope<'s>, outputs: &OnceLock<Vec<Output>>) -> Result<Value<'s>> {
    let outputs = outputs.get().ok_or_else(|| stale("run"))?;
    scope.array_of(outputs.iter().map(|Output { signature: described, content }| {
        let content = match content {
            Content::Bytes(bytes) => bytes::array_buffer(scope, bytes)?,
            Content::Value(_) => scope.undefined()?,
        };
        scope.array_of([signature(scope, described)?, content].into_iter().map(Ok))
    }))
}
