//! The flat functions of builders and graphs.

use super::bytes;
use super::call::{Call, stale};
use super::compute;
use super::environment::Environment;
use super::external::Weak;
use super::handles::Handle;
use super::script::{Scope, Type, Value, internal};
use super::settle::{Outcome, Request};
use super::values;
use crate::disk_cache::{DiskCache, ModelCache};
use crate::error::Result;
use crate::graph::operator::Returns;
use crate::graph::{self, ConstantBytes, Descriptor, GraphBuilder, OperandId, ops};
use crate::host_memory::Placements;
use crate::memory::{Charge, Held, Use};
use crate::program::CompiledPart;
use crate::timeline::{Built, Done, GraphId, Task, TensorIds, Urgency, Watch};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// A builder until it has built or was destroyed.
pub struct Builder {
    pub context: Handle,
    pub graph: GraphBuilder,
    /// Where packed weights of its graph come from, and go.
    pub cache: Option<Arc<DiskCache>>,
    /// For the constants that it has copied. A graph counts its own.
    charges: Vec<Charge>,
    /// For the operands.
    held: Held,
    /// The object of script's.
    pub object: Option<Weak>,
}

/// What an operand takes, with the operator that makes it and its name; and about what it takes in a compiled graph.
const OPERAND: usize = 512;
/// What builders and graphs take beside their operands.
const DESCRIPTION: usize = 4 << 10;

/// A graph that was built, or is being built.
pub struct Graph {
    pub context: Handle,
    pub id: GraphId,
    /// Once it was built.
    pub placements: Arc<OnceLock<Placements>>,
    /// Of a model's plan, once it was made: what is to be done after the graph.
    pub part: Option<Arc<OnceLock<Arc<CompiledPart>>>>,
    /// For what describes it. Its constants and its memory are counted by the context.
    _held: Held,
}

impl Graph {
    pub fn new(
        environment: &Environment,
        context: Handle,
        id: GraphId,
        placements: Arc<OnceLock<Placements>>,
        operands: usize,
    ) -> Graph {
        let held = environment.external.total.hold(DESCRIPTION + OPERAND * operands);
        Graph { context, id, placements, part: None, _held: held }
    }
}

impl Environment {
    pub fn with_builder<R>(&self, handle: Handle, use_it: impl FnOnce(&mut Builder) -> Result<R>) -> Result<R> {
        let mut builders = self.builders.borrow_mut();
        let builder = builders.get_mut(handle).ok_or_else(|| stale("builder"))?;
        let result = use_it(builder);
        builder.held.set(DESCRIPTION + OPERAND * builder.graph.operands().count());
        result
    }

    /// The graph of a builder, which ends thereby, and its context. Where that fails the builder is as before.
    pub fn finish(&self, handle: Handle, outputs: Vec<(String, OperandId)>) -> Result<(Handle, graph::Graph)> {
        let (context, mut graph) = self.with_builder(handle, |builder| {
            let graph = builder.graph.build(outputs)?;
            builder.cache.take().into_iter().for_each(|cache| graph.shared.attach(ModelCache::new(cache)));
            Ok((builder.context, graph))
        })?;
        graph.fp_math = self.with_context(context, |context| Ok(context.fp_math)).unwrap_or_default();
        drop(self.builders.borrow_mut().remove(handle));
        Ok((context, graph))
    }
}

/// Names and descriptors of a graph's inputs and of its outputs.
pub fn ends(graph: &graph::Graph) -> (Ends, Ends) {
    let described = |list: &[(String, OperandId)]| {
        let descriptor = |id: OperandId| graph.operands[id.0 as usize].descriptor.clone();
        list.iter().map(|(name, id)| (name.clone(), descriptor(*id))).collect()
    };
    (described(&graph.inputs), described(&graph.outputs))
}

type Ends = Vec<(String, Descriptor)>;

/// `[id, dataType, …shape]`
fn operand<'s>(scope: Scope<'s>, id: OperandId, descriptor: &Descriptor) -> Result<Value<'s>> {
    let head = [id.0, descriptor.data_type as u32];
    let numbers: SmallVec<[u32; 10]> = head.iter().chain(&descriptor.shape).copied().collect();
    scope.array_of(numbers.iter().map(|&number| scope.unsigned(number)))
}

/// Leaves an operand where `lib/` looks for it: making an array costs more than all the rest of a call.
fn describe(environment: &Environment, builder: &Builder, id: OperandId) {
    let descriptor = builder.graph.operands().descriptor(id);
    let head = [id.0, descriptor.data_type as u32, descriptor.shape.len() as u32];
    environment.described.write(head.iter().chain(&descriptor.shape).copied());
}

/// `createBuilder(context, object)`: `object` is script's.
pub fn create_builder<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let context = call.handle(0)?;
    let graph = environment.with_context(context, |context| Ok(GraphBuilder::new(context.script_limits()?)))?;
    environment.forget(call.scope);
    let held = environment.external.total.hold(DESCRIPTION);
    let object = Weak::new(call.scope, call.value(1));
    let handle =
        environment.builders.borrow_mut().insert(Builder { context, graph, cache: None, charges: Vec::new(), held, object });
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
        describe(call.environment, builder, id);
        Ok(None)
    })
}

/// `constantBytes(builder, dataType, shape, bytes)`
pub fn constant_bytes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_builder(call.handle(0)?, |builder| {
        let descriptor = Descriptor { data_type: call.data_type(1)?, shape: call.unsigned_list(2)? };
        let bytes = bytes::copy(call.scope, call.value(3)).map_err(|error| error.of("constant", ""))?;
        let usage = call.environment.with_context(builder.context, |context| context.usage())?;
        let charge = usage.reserve(Use::Constants, bytes.len()).map_err(|error| error.of("constant", ""))?;
        builder.charges.push(charge);
        let id = builder.graph.constant(descriptor, ConstantBytes::new(bytes))?;
        describe(call.environment, builder, id);
        Ok(None)
    })
}

/// `constantNumber(builder, dataType, value)`
pub fn constant_number<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.with_builder(call.handle(0)?, |builder| {
        let id = builder.graph.scalar(call.data_type(1)?, values::number(call.scope, call.value(2))?)?;
        describe(call.environment, builder, id);
        Ok(None)
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
        describe(call.environment, builder, id);
        Ok(None)
    })
}

/// `apply(builder, operator, label, …values)`
pub fn apply<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    call.environment.with_builder(call.handle(0)?, |builder| {
        let number = call.unsigned(1)?;
        let row = ops::operators().get(number as usize).ok_or_else(|| internal(format!("no operator {number}")))?;
        let values = values::read(scope, call.values_from(3), row)?;
        let outputs = builder.graph.apply(row, values, &call.string(2)?)?;
        match row.returns {
            Returns::One => {
                let id = outputs[0];
                describe(call.environment, builder, id);
                Ok(None)
            }
            Returns::Sequence => {
                let outputs = outputs.to_vec();
                let operands = builder.graph.operands();
                scope.array_of(outputs.iter().map(|&id| operand(scope, id, operands.descriptor(id)))).map(Some)
            }
        }
    })
}

/// `build(request, builder, names, operands, label, watch)`
pub fn build<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let builder = call.handle(1)?;
    let names: Vec<String> = call.scope.elements(call.value(2), Scope::as_string)?;
    let ids: Vec<u32> = call.unsigned_list(3)?;
    let (label, watch) = (call.string(4)?, compute::watch(call, 5)?);
    let outputs = names.into_iter().zip(ids.into_iter().map(OperandId)).collect();
    let (context, description) = environment.finish(builder, outputs)?;
    let operands = description.operands.len();
    let placements = Arc::new(OnceLock::new());
    let found = placements.clone();
    let id = environment.with_context(context, |context| {
        let id = GraphId(context.next());
        let (inputs, outputs) = ends(&description);
        let done = environment.settler.promise(call.scope, request, move |built: Built| {
            let _ = found.set(built.placements);
            Outcome::Graph { inputs, outputs }
        })?;
        context.send(Task::Build {
            graph: id,
            description: description.into(),
            label,
            most: usize::MAX,
            urgency: Urgency::Wanted,
            watch,
            done,
        })?;
        Ok(id)
    })?;
    let graph = Graph::new(environment, context, id, placements, operands);
    let graph = environment.graphs.borrow_mut().insert(graph);
    Ok(Some(call.scope.number(graph.to_number())?))
}

/// `destroyGraph(graph)`
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let graph = environment.graphs.borrow_mut().remove(call.handle(0)?);
    if let Some(graph) = graph
        && let Some(context) = environment.contexts.borrow().get(graph.context)
    {
        context.send(Task::DestroyGraph { graph: graph.id })?;
    }
    Ok(None)
}

/// `dispatch(context, graph, tensors, label, watch, request)`
///
/// `lib/` has bound the tensors; they are all of this context and of the graph's types and shapes. Where it gives a watch, the request is
/// settled when the dispatch has ended.
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
        let (watch, done) = match call.scope.type_of(call.value(4))? {
            Type::Undefined => (Watch::default(), Done::ignored()),
            _ => {
                let request = Request::from_number(call.number(5)?);
                (compute::watch(call, 4)?, environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?)
            }
        };
        context.send(Task::Dispatch { graph, tensors, label, watch, done })?;
        Ok(None)
    })
}
