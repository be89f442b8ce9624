//! The flat functions of builders and graphs.

use super::bytes;
use super::call::{Call, stale};
use super::environment::Environment;
use super::handles::Handle;
use super::script::{Scope, Value, internal};
use super::settle::{Outcome, Request};
use super::values;
use crate::error::Result;
use crate::graph::{self, ConstantBytes, Descriptor, GraphBuilder, OperandId, ops};
use crate::timeline::{GraphId, Task, TensorIds};

/// A builder until it has built or was destroyed.
pub struct Builder {
    pub context: Handle,
    graph: GraphBuilder,
}

/// A graph that was built, or is being built.
pub struct Graph {
    pub context: Handle,
    id: GraphId,
}

impl Environment {
    fn with_builder<R>(&self, handle: Handle, use_it: impl FnOnce(&mut Builder) -> Result<R>) -> Result<R> {
        use_it(self.builders.borrow_mut().get_mut(handle).ok_or_else(|| stale("builder"))?)
    }
}

/// `[id, dataType, …shape]`
fn operand<'s>(scope: Scope<'s>, id: OperandId, descriptor: &Descriptor) -> Result<Value<'s>> {
    let array = scope.array(2 + descriptor.shape.len())?;
    let head = [id.0, descriptor.data_type as u32];
    for (index, &number) in head.iter().chain(&descriptor.shape).enumerate() {
        scope.set_element(array, index as u32, scope.unsigned(number)?)?;
    }
    Ok(array)
}

/// `createBuilder(context)`
pub fn create_builder<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let context = call.handle(0)?;
    let graph = environment.with_context(context, |context| Ok(GraphBuilder::new(context.limits.clone())))?;
    let handle = environment.builders.borrow_mut().insert(Builder { context, graph });
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `destroyBuilder(builder)`
pub fn destroy_builder<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.builders.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `input(builder, name, dataType, shape)`
pub fn input<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_builder(call.handle(0)?, |builder| {
        let descriptor = Descriptor { data_type: call.data_type(2)?, shape: call.unsigned_list(3)? };
        let id = builder.graph.input(&call.string(1)?, descriptor)?;
        operand(call.scope, id, builder.graph.operands().descriptor(id)).map(Some)
    })
}

/// `constantBytes(builder, dataType, shape, bytes)`
pub fn constant_bytes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_builder(call.handle(0)?, |builder| {
        let descriptor = Descriptor { data_type: call.data_type(1)?, shape: call.unsigned_list(2)? };
        let bytes = bytes::copy(call.scope, call.value(3)).map_err(|error| error.of("constant", ""))?;
        let id = builder.graph.constant(descriptor, ConstantBytes::new(bytes))?;
        operand(call.scope, id, builder.graph.operands().descriptor(id)).map(Some)
    })
}

/// `constantNumber(builder, dataType, value)`
pub fn constant_number<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_builder(call.handle(0)?, |builder| {
        let id = builder.graph.scalar(call.data_type(1)?, values::number(call.scope, call.value(2))?)?;
        operand(call.scope, id, builder.graph.operands().descriptor(id)).map(Some)
    })
}

/// `constantTensor(builder, tensor)`
pub fn constant_tensor<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let (descriptor, bytes) = environment.with_tensor(call.handle(1)?, |tensor| {
        let bytes = tensor.constant.clone().ok_or_else(|| internal("the tensor is not constant"))?;
        Ok((tensor.descriptor.clone(), bytes))
    })?;
    environment.with_builder(call.handle(0)?, |builder| {
        let id = builder.graph.constant(descriptor, bytes)?;
        operand(call.scope, id, builder.graph.operands().descriptor(id)).map(Some)
    })
}

/// `apply(builder, operator, label, values)`
pub fn apply<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    call.environment.with_builder(call.handle(0)?, |builder| {
        let number = call.unsigned(1)?;
        let row = ops::operators().get(number as usize).ok_or_else(|| internal(format!("no operator {number}")))?;
        let label = call.string(2)?;
        let values = values::read(scope, call.value(3), row)?;
        let outputs = builder.graph.apply(row, values, &label)?.to_vec();
        let operands = builder.graph.operands();
        match row.returns {
            graph::operator::Returns::One => operand(scope, outputs[0], operands.descriptor(outputs[0])).map(Some),
            graph::operator::Returns::Sequence => {
                scope.array_of(outputs.iter().map(|&id| operand(scope, id, operands.descriptor(id)))).map(Some)
            }
        }
    })
}

/// `build(request, builder, names, operands, label)`
pub fn build<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let builder = call.handle(1)?;
    let names: Vec<String> = call.scope.elements(call.value(2), Scope::as_string)?;
    let ids: Vec<u32> = call.unsigned_list(3)?;
    let label = call.string(4)?;
    let outputs = names.into_iter().zip(ids.into_iter().map(OperandId)).collect();
    let (context, description) =
        environment.with_builder(builder, |builder| Ok((builder.context, builder.graph.build(outputs)?)))?;
    drop(environment.builders.borrow_mut().remove(builder));
    let id = environment.with_context(context, |context| {
        let id = GraphId(context.next());
        let described = |list: &[(String, OperandId)]| {
            let descriptor = |id: OperandId| description.operands[id.0 as usize].descriptor.clone();
            list.iter().map(|(name, id)| (name.clone(), descriptor(*id))).collect::<Vec<_>>()
        };
        let (inputs, outputs) = (described(&description.inputs), described(&description.outputs));
        let done = environment.settler.promise(call.scope, request, move |()| Outcome::Graph { inputs, outputs })?;
        context.send(Task::Build { graph: id, description: Box::new(description), label, done });
        Ok(id)
    })?;
    let graph = environment.graphs.borrow_mut().insert(Graph { context, id });
    Ok(Some(call.scope.number(graph.to_number())?))
}

/// `destroyGraph(graph)`
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let graph = environment.graphs.borrow_mut().remove(call.handle(0)?);
    if let Some(graph) = graph
        && let Some(context) = environment.contexts.borrow().get(graph.context)
    {
        context.send(Task::DestroyGraph { graph: graph.id });
    }
    Ok(None)
}

/// `dispatch(context, graph, tensors, label)`
///
/// `lib/` has bound the tensors; they are all of this context and of the graph's types and shapes.
pub fn dispatch<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let graph = environment.graphs.borrow().get(call.handle(1)?).ok_or_else(|| stale("graph"))?.id;
    let all = environment.tensors.borrow();
    let tensors: TensorIds = call.scope.elements(call.value(2), |scope, value| {
        let handle = Handle::from_number(scope.as_number(value)?);
        Ok(all.get(handle).ok_or_else(|| stale("tensor"))?.id)
    })?;
    let label = call.string(3)?;
    environment.with_context(call.handle(0)?, |context| {
        context.send(Task::Dispatch { graph, tensors, label });
        Ok(None)
    })
}
