//! The flat functions of ONNX models: files are read and imported on a thread of their own.

use super::bytes;
use super::call::{Call, stale};
use super::graphs::Graph;
use super::script::{Scope, Type, Value};
use super::settle::{Outcome, Request, descriptors};
use crate::error::{Error, Result};
use crate::graph::{DataType, Descriptor, OperandId};
use crate::onnx::{self, Bounds, Fixed, FixedValue, ImportError, Input, Model, RefusedNode, Signature, Summary};
use crate::thread;
use crate::timeline::{Built, Done, GraphId, Task, from_panic};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What an import found out, besides the graph.
#[derive(Debug)]
pub enum Import {
    Model {
        graph_inputs: Vec<(String, Descriptor)>,
        graph_outputs: Vec<(String, Descriptor)>,
        inputs: Vec<Input>,
        outputs: Vec<Signature>,
    },
    Refused(Vec<RefusedNode>),
}

/// A model's file, or the copy of its bytes.
enum Origin {
    File(PathBuf),
    Bytes(crate::memory::Bytes),
}

impl Origin {
    fn of(call: &Call<'_>, index: usize) -> Result<Origin> {
        let value = call.value(index);
        match call.scope.type_of(value)? {
            Type::Object => Ok(Origin::Bytes(bytes::copy(call.scope, value)?)),
            _ => Ok(Origin::File(call.string(index)?.into())),
        }
    }

    fn open(self) -> Result<Model> {
        match self {
            Origin::File(path) => Model::open(&path),
            Origin::Bytes(bytes) => Ok(Model::from_bytes(bytes)),
        }
    }
}

/// Does the work on a thread of its own.
fn in_background<T: Send + 'static>(
    what: &'static str,
    label: String,
    done: Done<T>,
    work: impl FnOnce(Done<T>) -> Result<(), (Error, Done<T>)> + Send + 'static,
) {
    let told = label.clone();
    let run = move |done| {
        if let Err((error, done)) = work(done) {
            done.report(Err(error.of(what, &label)));
        }
    };
    if let Err((error, done)) = thread::start_with("webnn-node onnx", done, run) {
        done.report(Err(error.of(what, &told)));
    }
}

/// Like the work's own result, but a panic in it is an error.
fn guarded<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(from_panic(&*panic).into()))
}

/// `importOnnx(request, context, fileOrBytes, names, sizes, label, constants, arrays, values, overridable, maxBytes)`: the handle of a
/// graph that is being built. A negative number of bytes stands for the default.
pub fn import<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let context = call.handle(1)?;
    let origin = Origin::of(call, 2)?;
    let names: Vec<String> = call.scope.elements(call.value(3), Scope::as_string)?;
    let sizes: Vec<u32> = call.unsigned_list(4)?;
    let label = call.string(5)?;
    let inputs: Vec<String> = call.scope.elements(call.value(6), Scope::as_string)?;
    let arrays: Vec<String> = call.scope.elements(call.value(7), Scope::as_string)?;
    let values: Vec<crate::memory::Bytes> = call.scope.elements(call.value(8), bytes::copy)?;
    let values = arrays.into_iter().zip(values).map(|(array, bytes)| FixedValue::new(array, bytes));
    let overridable: Vec<String> = call.scope.elements(call.value(9), Scope::as_string)?;
    let fixed = Fixed {
        sizes: names.into_iter().zip(sizes).collect(),
        values: inputs.into_iter().zip(values).collect(),
        overridable: overridable.into_iter().collect(),
    };
    let most_bytes = call.number(10)?;
    // A number beyond the range is the greatest.
    let most_bytes = (most_bytes >= 0.0).then_some(most_bytes as usize);
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let (id, limits, send, is_wanted) = environment
        .with_context(context, |context| Ok((GraphId(context.next()), context.limits()?, context.sender(), context.watcher())))?;
    let bounds = Bounds { most_bytes, is_wanted: Arc::new(is_wanted) };
    // From here on nothing fails: what has the duty to report is not lost with an exception as well.
    let placements = Arc::new(OnceLock::new());
    let known = placements.clone();
    let done = environment.settler.promise(call.scope, request, move |built: Built| {
        let _ = known.set(built.placements);
        Outcome::Onnx(outcome, built.bytes)
    })?;
    let task_label = label.clone();
    in_background("loadOnnx", label, done, move |done| {
        let imported = guarded(|| onnx::import(&origin.open()?, &limits, &fixed, &bounds));
        match imported {
            Ok(imported) => {
                let described = |list: &[(String, OperandId)]| {
                    list.iter().map(|(name, id)| (name.clone(), imported.graph.descriptor(*id).clone())).collect()
                };
                let (graph_inputs, graph_outputs) = (described(&imported.graph.inputs), described(&imported.graph.outputs));
                let _ =
                    found.set(Import::Model { graph_inputs, graph_outputs, inputs: imported.inputs, outputs: imported.outputs });
                let (description, most) = (Box::new(imported.graph), imported.most_bytes);
                send(Task::Build { graph: id, description, label: task_label, most, done });
            }
            Err(ImportError::Nodes(nodes)) => {
                let _ = found.set(Import::Refused(nodes));
                done.report(Ok(Built::default()));
            }
            Err(ImportError::Model(error)) => return Err((error, done)),
        }
        Ok(())
    });
    let graph = environment.graphs.borrow_mut().insert(Graph::new(environment, context, id, placements, 0));
    Ok(Some(call.scope.number(graph.to_number())?))
}

/// `summarizeOnnx(request, fileOrBytes)`
pub fn summarize<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let origin = Origin::of(call, 1)?;
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let done = call.environment.settler.promise(call.scope, request, move |()| Outcome::OnnxSummary(outcome))?;
    in_background("inspect", String::new(), done, move |done| match guarded(|| onnx::summarize(&origin.open()?)) {
        Ok(summary) => {
            let _ = found.set(summary);
            done.report(Ok(()));
            Ok(())
        }
        Err(error) => Err((error, done)),
    });
    Ok(None)
}

/// `{inputs, outputs, modelInputs, modelOutputs, runBytes}`, or `{refused}`.
pub fn import_value<'s>(scope: Scope<'s>, import: &OnceLock<Import>, run_bytes: usize) -> Result<Value<'s>> {
    let value = scope.object()?;
    match import.get().ok_or_else(|| stale("model"))? {
        Import::Model { graph_inputs, graph_outputs, inputs, outputs } => {
            scope.set(value, "inputs", descriptors(scope, graph_inputs)?)?;
            scope.set(value, "outputs", descriptors(scope, graph_outputs)?)?;
            let described = inputs.iter().map(|input| signature(scope, &input.signature, input.used, input.default.as_deref()));
            scope.set(value, "modelInputs", scope.array_of(described)?)?;
            let described = outputs.iter().map(|output| signature(scope, output, true, None));
            scope.set(value, "modelOutputs", scope.array_of(described)?)?;
            scope.set(value, "runBytes", scope.number(run_bytes as f64)?)?;
        }
        Import::Refused(nodes) => scope.set(value, "refused", refused(scope, nodes)?)?,
    }
    Ok(value)
}

/// `[name, dataType, shape, used, type, default]`, where the last is an `ArrayBuffer` of an input that need not be passed.
fn signature<'s>(scope: Scope<'s>, signature: &Signature, used: bool, default: Option<&[u8]>) -> Result<Value<'s>> {
    let shape = scope.array_of(signature.shape.iter().map(|&size| scope.unsigned(size)))?;
    let data_type: DataType = signature.data_type;
    let (name, element_type) = (scope.string(&signature.name)?, scope.string(signature.element_type)?);
    let default = default.map_or_else(|| scope.undefined(), |bytes| bytes::array_buffer(scope, bytes))?;
    let parts = [name, scope.unsigned(data_type as u32)?, shape, scope.boolean(used)?, element_type, default];
    scope.array_of(parts.into_iter().map(Ok))
}

fn refused<'s>(scope: Scope<'s>, nodes: &[RefusedNode]) -> Result<Value<'s>> {
    scope.array_of(nodes.iter().map(|node| {
        let value = scope.object()?;
        scope.set(value, "name", scope.string(&node.name)?)?;
        scope.set(value, "operator", scope.string(&node.operator)?)?;
        scope.set(value, "domain", scope.string(&node.domain)?)?;
        scope.set(value, "version", scope.number(node.version as f64)?)?;
        scope.set(value, "reason", scope.string(&node.reason)?)?;
        Ok(value)
    }))
}

/// A summary as a plain object.
pub fn summary_value<'s>(scope: Scope<'s>, summary: &OnceLock<Summary>) -> Result<Value<'s>> {
    let summary = summary.get().ok_or_else(|| stale("model"))?;
    let value = scope.object()?;
    scope.set(value, "producer", scope.string(&summary.producer)?)?;
    scope.set(value, "irVersion", scope.number(summary.ir_version as f64)?)?;
    let opsets = scope.object()?;
    for (domain, version) in &summary.opsets {
        scope.set(opsets, domain, scope.number(*version as f64)?)?;
    }
    scope.set(value, "opsets", opsets)?;
    let operators = scope.array_of(summary.operators.iter().map(|((domain, operator), count)| {
        let row = scope.object()?;
        scope.set(row, "domain", scope.string(domain)?)?;
        scope.set(row, "operator", scope.string(operator)?)?;
        scope.set(row, "count", scope.number(*count as f64)?)?;
        Ok(row)
    }))?;
    scope.set(value, "operators", operators)?;
    scope.set(value, "parameters", scope.number(summary.parameters as f64)?)?;
    scope.set(value, "parameterBytes", scope.number(summary.parameter_bytes as f64)?)?;
    for (name, list) in [("inputs", &summary.inputs), ("outputs", &summary.outputs)] {
        let list = scope.array_of(list.iter().map(|description| {
            let row = scope.object()?;
            scope.set(row, "name", scope.string(&description.name)?)?;
            scope.set(row, "dataType", scope.string(&description.data_type)?)?;
            let shape = match &description.shape {
                Some(shape) => scope.strings(shape.iter().map(String::as_str))?,
                None => scope.null()?,
            };
            scope.set(row, "shape", shape)?;
            Ok(row)
        }))?;
        scope.set(value, name, list)?;
    }
    scope.set(value, "unsupported", refused(scope, &summary.unknown)?)?;
    Ok(value)
}
