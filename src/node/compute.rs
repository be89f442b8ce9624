//! The flat functions that run a graph on memory of script's, and those that make the calling thread wait.

use super::bytes::{self, Copies};
use super::call::{Call, stale};
use super::contexts::Context;
use super::graphs::Graph;
use super::handles::Handle;
use super::script::{Scope, Type, Value, internal};
use super::settle::{Outcome, Request};
use crate::error::{Error, Kind, Reason, Result};
use crate::host_memory::HostBuffer;
use crate::timeline::{Compute, Done, GraphId, Operand, Task, inline};
use crate::watch::{Description, DoneStep, Priority, StepNumber, StepTime, Watch, WatchOptions};
use crossbeam_channel::{RecvTimeoutError, bounded};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(10);

/// A graph with the memory that it is to run on.
struct Bound {
    graph: GraphId,
    inputs: Vec<HostBuffer>,
    outputs: Vec<Option<HostBuffer>>,
}

/// Reads `graph, inputs, outputs` from the arguments: views in the graph's order, and `undefined` for an output that is
/// not wanted. The inputs are used in place, or copied where there is somebody for it.
fn bound(call: &Call<'_>, first: usize, mut copies: Option<&mut Copies>) -> Result<Bound> {
    let graphs = call.environment.graphs.borrow();
    let Graph { id: graph, placements, .. } = graphs.get(call.handle(first)?).ok_or_else(|| stale("graph"))?;
    let view = |scope: Scope<'_>, view: Value<'_>| match scope.type_of(view)? {
        Type::Undefined => Ok(None),
        _ => bytes::host_memory(scope, view).map(Some),
    };
    let outputs: Vec<Option<HostBuffer>> = call.scope.elements(call.value(first + 2), view)?;
    // Where it may be in an output from the beginning, if that is wanted.
    let mut placements = placements.get().into_iter().flatten();
    let inputs = call.scope.elements(call.value(first + 1), |scope, view| {
        let placement = placements.next().copied().flatten();
        match &mut copies {
            Some(copies) => {
                let place = placement.and_then(|placement| Some((outputs.get(placement.output)?.as_ref()?, placement)));
                copies.of(scope, view, place)
            }
            None => bytes::host_memory(scope, view),
        }
    })?;
    Ok(Bound { graph: *graph, inputs, outputs })
}

/// Sends the rest of `request, context, graph, inputs, outputs, label` to the timeline.
fn send<'s>(call: &Call<'s>, method: &'static str, bound: Bound, watch: Watch) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let Bound { graph, inputs, outputs } = bound;
    let (inputs, outputs) = Operand::on_host(inputs, outputs);
    let label = call.string(5)?;
    call.environment.with_context(call.handle(1)?, |context| {
        let done = call.environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
        context.send(Task::Compute(Compute { graph, inputs, outputs, method, label, watch, done }))?;
        Ok(None)
    })
}

/// `compute(request, context, graph, inputs, outputs, label, watch)`
///
/// `lib/` has transferred the buffers behind the views, and keeps them to itself until the request is settled.
pub fn compute<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    send(call, "compute", bound(call, 2, None)?, watch(call, 6)?)
}

/// `run(request, context, graph, inputs, outputs, label, watch)`
///
/// The inputs stay script's and are copied before this returns; the outputs are as in `compute`.
pub fn run<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    bytes::copying(|copies| {
        let bound = bound(call, 2, Some(copies)).map_err(|error| error.of("run", ""))?;
        let watch = watch(call, 6)?;
        send(call, "run", bound, watch)
    })
}

/// The watch of a handle, which may be none.
pub fn watch(call: &Call<'_>, index: usize) -> Result<Watch> {
    Ok(call.environment.watches.borrow().get(call.handle(index)?).cloned().unwrap_or_default())
}

/// `createWatch(withSteps, priority, timeout)`: the handle of how work is watched. The priority is a position in [`Priority::ALL`], the
/// timeout in milliseconds; a negative one is none.
pub fn create_watch<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let with_steps = call.scope.as_boolean(call.value(0))?;
    let watch = Watch::of(WatchOptions { with_steps, ..watch_options(call, 1)? })?;
    let handle = call.environment.watches.borrow_mut().insert(watch);
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// A priority and a timeout.
pub fn watch_options(call: &Call<'_>, first: usize) -> Result<WatchOptions> {
    let priority = Priority::ALL.get(call.unsigned(first)? as usize).copied().unwrap_or_default();
    // What is negative, or too long for a duration, is none.
    let timeout = Duration::try_from_secs_f64(call.number(first + 1)? / 1000.0).ok();
    Ok(WatchOptions { priority, timeout, ..WatchOptions::default() })
}

/// `beginWork(watch)`: `lib/` itself begins with the work, which is not overdue any more; whether it is still wanted.
pub fn begin_work<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let is_wanted = watch(call, 0)?.begin().is_ok();
    call.scope.boolean(is_wanted).map(Some)
}

/// `awaitEnd(request, watch)`: fails when the work is not wanted any more, or the watch is gone.
pub fn await_end<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let watch = watch(call, 1)?;
    let done = call.environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
    watch.when_over(move |error| done.report(Err(error)));
    Ok(None)
}

/// `giveUp(watch)`: the work that has it ends as soon as it can, with an error. The number under which `lib/` keeps the reason, and then the
/// numbers of those that no error has any more.
pub fn give_up<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let watch = watch(call, 0)?;
    watch.give_up();
    let Some(reason) = watch.reason() else { return Ok(None) };
    let gone = call.environment.reasons.borrow_mut().add(reason);
    let numbers: Vec<u64> = std::iter::once(reason.0).chain(gone).collect();
    call.scope.array_of(numbers.into_iter().map(|number| call.scope.number(number as f64))).map(Some)
}

/// The reasons of script's that `lib/` keeps.
#[derive(Default)]
pub struct Reasons {
    kept: Vec<(u64, Weak<Reason>)>,
    /// With so many it is looked which are not needed any more.
    most: usize,
}

impl Reasons {
    const LEAST: usize = 64;

    /// Adds one; the numbers of those that are gone.
    fn add(&mut self, reason: &Arc<Reason>) -> Vec<u64> {
        let mut gone = Vec::new();
        if self.kept.len() >= self.most {
            self.kept.retain(|(number, reason)| {
                let is_needed = reason.strong_count() > 0;
                if !is_needed {
                    gone.push(*number);
                }
                is_needed
            });
            self.most = (2 * self.kept.len()).max(Reasons::LEAST);
        }
        if self.kept.iter().rev().all(|(number, _)| *number != reason.0) {
            self.kept.push((reason.0, Arc::downgrade(reason)));
        }
        gone
    }
}

/// `takeSteps(watch)`: `[operator, label, began, ended, implementation, text, multiplications, bytes, data type, thread, graph, number,
/// sources]` of each step so far; times in nanoseconds since the watch was created.
pub fn take_steps<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    steps_value(call.scope, &watch(call, 0)?.take_steps()).map(Some)
}

/// The steps of a watch.
pub fn steps_value<'s>(scope: Scope<'s>, steps: &[StepTime]) -> Result<Value<'s>> {
    let steps = steps.iter().map(|StepTime { operator, label, number, began, ended, thread, description }| {
        let count = |number: usize| scope.number(number as f64);
        let Description { text, implementation, multiplications, bytes, data_type, sources } = description;
        let step = [
            scope.string(operator)?,
            scope.string(label)?,
            scope.number(*began as f64)?,
            scope.number(*ended as f64)?,
            scope.string(implementation)?,
            scope.string(text)?,
            count(*multiplications)?,
            count(*bytes)?,
            scope.string(data_type)?,
            scope.string(thread)?,
            count(number.graph)?,
            count(number.step)?,
            scope.array_of(sources.iter().map(|&source| count(source)))?,
        ];
        scope.array_of(step.into_iter().map(Ok))
    });
    scope.array_of(steps)
}

/// `noteSteps(watch, steps)`: steps of a graph that has run on a device of script's: `[operator, label, began, ended, implementation, text,
/// multiplications, bytes, data type, thread, number, sources]`, with the milliseconds since each began and ended.
pub fn note_steps<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (watch, now) = (watch(call, 0)?, Instant::now());
    let steps: Vec<(DoneStep, Description)> = call.scope.elements(call.value(1), |scope, value| {
        step_of(scope, &scope.elements::<_, Vec<_>>(value, |_, member| Ok(member))?, now)
    })?;
    let graph = watch.graph();
    for (mut step, description) in steps {
        step.number.graph = graph;
        watch.note(step, description);
    }
    Ok(None)
}

fn step_of<'s>(scope: Scope<'s>, members: &[Value<'s>], now: Instant) -> Result<(DoneStep, Description)> {
    let &[operator, label, began, ended, implementation, text, multiplications, bytes, data_type, thread, number, sources] =
        members
    else {
        return Err(internal(format!("{} members of a step", members.len())));
    };
    // `as` saturates.
    let count = |value| scope.as_number(value).map(|number| number as usize);
    let ago = |value| -> Result<Instant> {
        let ago = Duration::try_from_secs_f64(scope.as_number(value)? / 1000.0).unwrap_or_default();
        Ok(now.checked_sub(ago).unwrap_or(now))
    };
    let step = DoneStep {
        operator: scope.as_string(operator)?.into(),
        label: scope.as_string(label)?,
        number: StepNumber { graph: 0, step: count(number)? },
        began: ago(began)?,
        ended: ago(ended)?,
        thread: scope.as_string(thread)?,
    };
    let description = Description {
        text: scope.as_string(text)?,
        implementation: scope.as_string(implementation)?.into(),
        multiplications: count(multiplications)?,
        bytes: count(bytes)?,
        data_type: scope.as_string(data_type)?.into(),
        sources: scope.elements(sources, |_, value| count(value))?,
    };
    Ok((step, description))
}

/// `destroyWatch(watch)`
pub fn destroy_watch<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.watches.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `computeSync(context, graph, inputs, outputs, label)`
pub fn compute_sync<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let Bound { graph, inputs, outputs } = bound(call, 1, None)?;
    let (inputs, outputs) = Operand::on_host(inputs, outputs);
    let label = call.string(4)?;
    call.environment.with_context(call.handle(0)?, |context| {
        let task =
            |done| Task::Compute(Compute { graph, inputs, outputs, method: "compute", label, watch: Watch::default(), done });
        wait(call.scope, context, task)
    })
}

/// `readTensorSync(tensor, buffer)`
pub fn read_sync<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_tensor(call.handle(0)?, |tensor| {
        let into = bytes::host_buffer(call.scope, call.value(1), tensor.descriptor.byte_length())?;
        call.environment.with_context(tensor.context, |context| {
            wait(call.scope, context, |done| Task::Read { tensor: tensor.id, into, watch: Watch::default(), done })
        })
    })
}

/// Sends a task and waits for its end. JavaScript of this thread stands still meanwhile, so its memory is nobody else's.
fn wait<'s>(scope: Scope<'s>, context: &Context, task: impl FnOnce(Done<()>) -> Task) -> Result<Option<Value<'s>>> {
    let (sender, end) = bounded(1);
    let task = task(Done::new(move |result: Result<()>| drop(sender.send(result))));
    // This thread can as well do what the timeline's would.
    inline::as_timeline(|| context.send(task))?;
    loop {
        match end.recv_timeout(LOOK) {
            Ok(result) => return result.map(|()| None),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::new(Kind::Operation, "the work was lost: nobody reported its end (internal error)"));
            }
            // Somebody ends this worker, or the process: that is not to wait for the work. Its end still has to come, since
            // kernels are writing into the memory.
            Err(RecvTimeoutError::Timeout) if scope.is_ending() => context.stop(),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The handles of a list.
pub fn handles(scope: Scope<'_>, list: Value<'_>) -> Result<Vec<Handle>> {
    scope.elements(list, |scope, value| scope.as_number(value).map(Handle::from_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_forgotten_when_no_error_has_them() {
        let mut reasons = Reasons::default();
        let kept = Arc::new(Reason(1));
        assert!(reasons.add(&kept).is_empty());
        let gone: Vec<u64> = (2..1000).flat_map(|number| reasons.add(&Arc::new(Reason(number)))).collect();
        assert!(gone.len() > 800 && !gone.contains(&1));
        assert!(reasons.kept.len() <= 2 * Reasons::LEAST);
    }
}
