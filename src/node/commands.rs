//! The flat functions of recorded work.

use super::call::{Call, stale};
use super::compute::handles;
use super::external::Weak;
use super::handles::Handle;
use super::script::{Scope, Value, internal};
use crate::error::Result;
use crate::memory::Held;
use crate::timeline::{Command, Task, TensorId};
use std::sync::Arc;

/// Dispatches that were recorded.
pub struct CommandBuffer {
    pub context: Handle,
    commands: Arc<[Command]>,
    /// For the commands.
    _held: Held,
    /// What stands for it in script.
    pub object: Option<Weak>,
}

/// `createCommandBuffer(context, graphs, counts, tensors, labels, object)`: for each dispatch a graph, the number of its tensors and a
/// label, and the tensors of all of them one after the other, each time the graph's inputs and then its outputs. `object` is script's.
pub fn create<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    environment.forget(call.scope);
    let context = call.handle(0)?;
    let graphs = handles(call.scope, call.value(1))?;
    let counts: Vec<u32> = call.unsigned_list(2)?;
    let tensors = handles(call.scope, call.value(3))?;
    let labels: Vec<String> = call.scope.elements(call.value(4), Scope::as_string)?;
    let (all_graphs, all_tensors) = (environment.graphs.borrow(), environment.tensors.borrow());
    let ids: Vec<TensorId> =
        tensors.iter().map(|&handle| Ok(all_tensors.get(handle).ok_or_else(|| stale("tensor"))?.id)).collect::<Result<_>>()?;
    let mut rest = ids.as_slice();
    let mut commands = Vec::with_capacity(graphs.len());
    for ((&handle, count), label) in graphs.iter().zip(counts).zip(labels) {
        let graph = all_graphs.get(handle).ok_or_else(|| stale("graph"))?;
        let tensors;
        (tensors, rest) =
            rest.split_at_checked(count as usize).ok_or_else(|| internal("fewer tensors than the dispatches have"))?;
        commands.push(Command { graph: graph.id, tensors: tensors.iter().copied().collect(), label });
    }
    let spilled = |command: &Command| if command.tensors.spilled() { size_of_val(&*command.tensors) } else { 0 };
    let bytes = commands.iter().map(|command| size_of_val(command) + spilled(command) + command.label.len()).sum();
    let held = environment.external.total.hold(bytes);
    let object = Weak::new(call.scope, call.value(5));
    let buffer = CommandBuffer { context, commands: commands.into(), _held: held, object };
    let handle = environment.commands.borrow_mut().insert(buffer);
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `destroyCommandBuffer(buffer)`
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.commands.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `submit(context, buffers)`
///
/// `lib/` has seen to it that everything in the buffers is still there.
pub fn submit<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let all = environment.commands.borrow();
    let commands: Vec<Arc<[Command]>> = handles(call.scope, call.value(1))?
        .into_iter()
        .map(|handle| Ok(all.get(handle).ok_or_else(|| stale("command buffer"))?.commands.clone()))
        .collect::<Result<_>>()?;
    environment.with_context(call.handle(0)?, |context| {
        commands.into_iter().try_for_each(|commands| context.send(Task::Submit { commands }))?;
        Ok(None)
    })
}
