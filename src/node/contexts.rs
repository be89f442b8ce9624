//! The flat functions of contexts.

use super::call::{Call, stale};
use super::environment::{Environment, Running};
use super::handles::Handle;
use super::script::{Scope, Value};
use super::settle::{Outcome, Request};
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::error::{Error, Kind, Result};
use crate::graph::limits::Support;
use crate::graph::{DataType, Limits};
use crate::memory::Usage;
use crate::timeline::{Task, Timeline};
use std::cell::Cell;
use std::sync::Arc;

/// A context. It stays known after it was destroyed, until `lib/` forgets it: its limits can still be asked for.
pub struct Context {
    pub limits: Arc<Limits>,
    pub usage: Arc<Usage>,
    running: Arc<Running>,
    /// The last number that was given to a tensor or a graph.
    last: Cell<u64>,
}

impl Context {
    /// Enqueues a task. When the context has ended the task is dropped, which reports it.
    pub fn send(&self, task: Task) {
        self.running.with(|timeline| timeline.send(task));
    }

    /// What enqueues a task from any thread.
    pub fn sender(&self) -> impl Fn(Task) + Send + use<> {
        let running = self.running.clone();
        move |task| {
            running.with(|timeline| timeline.send(task));
        }
    }

    /// Ends the context's work as soon as may be.
    pub fn stop(&self) {
        self.running.with(Timeline::stop);
    }

    /// A number that no other tensor or graph of the context has.
    pub fn next(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }
}

impl Environment {
    pub fn with_context<R>(&self, handle: Handle, use_it: impl FnOnce(&Context) -> Result<R>) -> Result<R> {
        use_it(self.contexts.borrow().get(handle).ok_or_else(|| stale("context"))?)
    }
}

/// `createContext(request, deviceType, powerPreference, accelerated, numThreads, label)`
///
/// `powerPreference` and `accelerated` choose between a GPU and the CPU; there is only the CPU yet.
pub fn create<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let device = call.string(1)?;
    let threads = call.unsigned(4)?;
    let label = call.string(5)?;
    if device == "gpu" || device == "npu" {
        let message = format!("found deviceType '{device}', of which there is none here, allowed 'cpu'");
        return Err(Error::new(Kind::NotSupported, message).of("createContext", &label));
    }
    let environment = call.environment;
    // The handle is known before the timeline, which may announce its loss under it.
    let backend = Cpu::new(threads as usize);
    let (limits, usage) = (backend.limits().clone(), backend.usage().clone());
    let mut contexts = environment.contexts.borrow_mut();
    let slot = contexts.reserve();
    let queue = environment.ending.queue.clone();
    let handle = slot.to_number();
    let lost = move |message| queue.announce(request, Outcome::Lost { context: handle, message });
    let timeline = match Timeline::start(backend, lost) {
        Ok(timeline) => timeline,
        Err(error) => {
            contexts.cancel(slot);
            return Err(error.of("createContext", &label));
        }
    };
    let running = environment.ending.watch(timeline);
    contexts.occupy(slot, Context { limits, usage, running, last: Cell::new(0) });
    let done = environment.settler.promise(call.scope, request, |handle| Outcome::Context { handle, accelerated: false })?;
    done.report(Ok(handle));
    Ok(None)
}

/// `destroyContext(context)`: nothing more is done for it, and its memory goes.
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let handle = call.handle(0)?;
    call.environment.release(Some(handle));
    if let Some(context) = call.environment.contexts.borrow().get(handle) {
        context.stop();
    }
    Ok(None)
}

/// `forgetContext(context)`: script cannot reach it any more.
pub fn forget<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    destroy(call)?;
    drop(call.environment.contexts.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `memoryUsage(context)`
///
/// Of a destroyed context it waits until what was under way has noticed, so that the numbers are the last ones.
pub fn memory_usage<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let numbers = call.environment.with_context(call.handle(0)?, |context| {
        Ok(context.running.with(Timeline::usage).unwrap_or_else(|| context.usage.numbers()))
    })?;
    let scope = call.scope;
    let result = scope.object()?;
    for (name, bytes) in
        [("tensors", numbers.tensors), ("graphs", numbers.graphs), ("scratch", numbers.scratch), ("peak", numbers.peak)]
    {
        scope.set(result, name, scope.number(bytes as f64)?)?;
    }
    Ok(Some(result))
}

/// `opSupportLimits(context)`
pub fn op_support_limits<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let limits = call.environment.with_context(call.handle(0)?, |context| Ok(context.limits.clone()))?;
    let scope = call.scope;
    let result = scope.object()?;
    scope.set(result, "preferredInputLayout", scope.string(limits.preferred_input_layout)?)?;
    scope.set(result, "maxTensorByteLength", scope.number(limits.max_tensor_byte_length as f64)?)?;
    for (name, support) in limits.of_tensors() {
        scope.set(result, name, tensor_limits(scope, support)?)?;
    }
    for (operator, operands) in limits.operators() {
        let value = scope.object()?;
        for (name, support) in operands {
            scope.set(value, &name, tensor_limits(scope, support)?)?;
        }
        scope.set(result, operator, value)?;
    }
    Ok(Some(result))
}

/// `MLTensorLimits`
fn tensor_limits<'s>(scope: Scope<'s>, support: Support) -> Result<Value<'s>> {
    let types: Vec<&str> = support.data_types.iter().map(DataType::name).collect();
    let range = scope.object()?;
    scope.set(range, "min", scope.unsigned(support.ranks.0 as u32)?)?;
    scope.set(range, "max", scope.unsigned(support.ranks.1 as u32)?)?;
    let limits = scope.object()?;
    scope.set(limits, "dataTypes", scope.strings(types.into_iter())?)?;
    scope.set(limits, "rankRange", range)?;
    Ok(limits)
}
