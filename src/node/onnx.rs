//! The flat functions of ONNX models: files are read and imported on a thread of their own.

use super::bytes;
use super::caches;
use super::call::{Call, stale};
use super::compute;
use super::contexts::{fp_math, limit_of, usage_object};
use super::graphs::Graph;
use super::handles::Handle;
use super::programs::{self, Described};
use super::script::{Scope, Type, Value};
use super::settle::{Outcome, Request, descriptors};
use crate::backend::cpu;
use crate::error::{Error, Result};
use crate::graph::{Descriptor, Shared};
use crate::memory::{Charge, Held, Usage, Use};
use crate::onnx::{
    self, Bounds, Cut, Digests, Fixed, FixedValue, Form, ImportError, InputShape, Model, OpenInput, Progress, RefusedNode,
    Signature, Size, Summary, Tensor,
};
use crate::program::steps::Steps;
use crate::program::{
    self, Content, Elements, Input, Leaving, Lengths, Options, Output, Owner, Planned, Program, TimelineHandle, Weights,
};
use crate::thread;
use crate::timeline::{Built, Description, Done, GraphId, Task, Urgency, Watch, failed_build, from_panic};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What planning found out, besides the graph.
#[derive(Debug)]
pub enum Import {
    Model {
        graph_inputs: Vec<(String, Descriptor)>,
        graph_outputs: Vec<(String, Descriptor)>,
        /// The model's outputs, where one graph computes them, and those of them that are known.
        outputs: Vec<Signature>,
        known: Vec<(String, Tensor)>,
        /// The nodes at which the model is cut.
        cuts: Vec<Cut>,
    },
    Refused(Vec<RefusedNode>),
}

/// A model that was read, or is being read.
pub struct Loaded {
    pub context: Handle,
    /// Once it was read.
    program: Arc<OnceLock<Arc<Program>>>,
    /// Once its file is open.
    progress: Arc<OnceLock<Progress>>,
    usage: Arc<Usage>,
    _held: Held,
}

/// A model's file, or the copy of its bytes.
enum Origin {
    File(PathBuf),
    Bytes(crate::memory::Bytes),
    /// They arrived piece by piece.
    Received(Vec<u8>),
    /// Those of another model that has the same.
    Shared(::bytes::Bytes),
}

impl Origin {
    /// A path, bytes of script's, or the handle of bytes that have arrived.
    fn of<'s>(call: &Call<'s>, value: Value<'s>) -> Result<Origin> {
        let scope = call.scope;
        match scope.type_of(value)? {
            Type::Number => {
                let handle = Handle::from_number(scope.as_number(value)?);
                let received = call.environment.received.borrow_mut().remove(handle);
                Ok(Origin::Received(received.ok_or_else(|| stale("model"))?.into_bytes()))
            }
            Type::Object => bytes::copy_by(scope, value, |bytes| match onnx::find_bytes(bytes) {
                Some(found) => Ok(Origin::Shared(found)),
                None => crate::memory::Bytes::copy_of(bytes).map(Origin::Bytes),
            }),
            _ => Ok(Origin::File(scope.as_string(value)?.into())),
        }
    }

    fn open(self, maps: bool, usage: &Arc<Usage>) -> Result<Model> {
        match self {
            Origin::File(path) if maps => Model::map(&path),
            Origin::File(path) => Model::open(&path),
            Origin::Bytes(bytes) => Ok(Model::from_bytes(Counted::new(bytes, usage)?)),
            Origin::Received(bytes) => Ok(Model::from_bytes(Counted::new(bytes, usage)?)),
            Origin::Shared(bytes) => Ok(Model::of_shared(bytes)),
        }
    }

    /// As external data of a model.
    fn provide(self, model: &mut Model, location: &str, usage: &Arc<Usage>) -> Result<()> {
        match self {
            Origin::File(path) => model.provide_file(location, &path),
            Origin::Bytes(bytes) => model.provide(location, Counted::new(bytes, usage)?),
            Origin::Received(bytes) => model.provide(location, Counted::new(bytes, usage)?),
            Origin::Shared(bytes) => model.provide(location, bytes),
        }
    }
}

/// Bytes of a model in memory, counted for as long as somebody has some of them.
struct Counted<T> {
    bytes: T,
    _charge: Charge,
}

impl<T: AsRef<[u8]>> Counted<T> {
    fn new(bytes: T, usage: &Arc<Usage>) -> Result<Counted<T>> {
        let charge = usage.reserve(Use::Sources, bytes.as_ref().len())?;
        Ok(Counted { bytes, _charge: charge })
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// What a model takes beside its bytes.
const DESCRIPTION: usize = 16 << 10;

/// Does the work on a thread of its own.
pub fn in_background<T: Send + 'static>(
    what: &'static str,
    label: String,
    done: Done<T>,
    work: impl FnOnce(Done<T>) -> Result<(), (Error, Done<T>)> + Send + 'static,
) {
    let name = label.clone();
    if let Err((error, done)) = thread::start_with("webnn-node onnx", done, reporting(what, label, work)) {
        done.report(Err(error.of(what, &name)));
    }
}

/// Does the work on one of the threads that compile: what is done for each new shape, and must not wait for any of them.
fn on_build_thread<T: Send + 'static>(
    what: &'static str,
    label: String,
    urgency: Urgency,
    done: Done<T>,
    work: impl FnOnce(Done<T>) -> Result<(), (Error, Done<T>)> + Send + 'static,
) {
    let name = label.clone();
    if let Err((error, done)) = urgency.pool().spawn(done, reporting(what, label, work)) {
        done.report(Err(error.of(what, &name)));
    }
}

/// The work, whose errors are reported.
fn reporting<T>(
    what: &'static str,
    label: String,
    work: impl FnOnce(Done<T>) -> Result<(), (Error, Done<T>)>,
) -> impl FnOnce(Done<T>) {
    move |done| {
        if let Err((error, done)) = work(done) {
            done.report(Err(error.of(what, &label)));
        }
    }
}

/// Like the work's own result, but a panic in it is an error.
pub fn guarded<T, E: From<Error>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(from_panic(&*panic).into()))
}

/// `openOnnx(request, context, fileOrBytes, names, sizes, label, constants, arrays, values, overridable, maxBytes, locations, external,
/// outline, fpMath, digests, externalDigests, memoryLimit, cache, map, watch)`: the handle of a model that is being read. A negative number of bytes stands
/// for the default, or for no limit of memory, and no name of how to compute for the context's. Digests are a list of an algorithm and values, or
/// empty; the model's own bytes must have one of them. Those of external data follow their locations in one list, if all files must have some. The cache is a folder for packed weights; no name stands for none. Files are mapped where that is
/// asked for.
#[expect(clippy::too_many_lines, reason = "the arguments, in the order in which script gives them")]
pub fn open<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let context = call.handle(1)?;
    let origin = Origin::of(call, call.value(2))?;
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
    let most_bytes = limit_of(call.number(10)?);
    let locations: Vec<String> = call.scope.elements(call.value(11), Scope::as_string)?;
    let external: Vec<Origin> = call.scope.elements(call.value(12), |_, value| Origin::of(call, value))?;
    let tells_outputs = call.scope.as_boolean(call.value(13))?;
    let fp_math_name = call.string(14)?;
    let digests = digests(call.scope, call.value(15))?;
    let required = required_digests(call.scope, call.value(16))?;
    let memory_limit = limit_of(call.number(17)?);
    let cache_folder = call.string(18)?;
    let maps = call.scope.as_boolean(call.value(19))?;
    let watch = compute::watch(call, 20)?;
    let (limits, usage, timeline, is_wanted, of_context, is_on_foreign) = environment.with_context(context, |context| {
        let (has_own_memory, compiles_for) = (context.has_own_memory()?, context.compiles_for()?);
        let timeline = TimelineHandle::new(context.sender(), context.attempts(), context.numbers(), has_own_memory, compiles_for);
        let is_on_foreign = context.device_tasks().is_some();
        Ok((context.limits()?, context.usage()?, timeline, context.watcher(), context.fp_math, is_on_foreign))
    })?;
    let usage = Arc::new(Usage::of_model(&usage, memory_limit));
    let fp_math = if fp_math_name.is_empty() { of_context } else { fp_math(&fp_math_name)? };
    // A thread that imports knows for whom.
    let is_wanted = move || is_wanted() && Watch::current().check().is_ok();
    let bounds = Bounds { most_bytes, is_wanted: Arc::new(is_wanted) };
    let held = environment.external.total.hold(DESCRIPTION);
    let progress = Arc::new(OnceLock::new());
    let reading = progress.clone();
    let program = Arc::new(OnceLock::new());
    let (found, outcome) = (program.clone(), program.clone());
    let refusals = Arc::new(OnceLock::new());
    let refused = refusals.clone();
    let counted = usage.clone();
    let done = environment.settler.promise(call.scope, request, move |()| Outcome::OnnxModel(outcome, refused))?;
    in_background("loadOnnx", label, done, move |done| {
        let read = || {
            watch.check()?;
            // Before anything of the model is hashed.
            let shared = Shared::default();
            let cache = caches::attach(&shared, &cache_folder)?;
            let mut model = origin.open(maps, &counted)?;
            // A GPU has no packings.
            if let Some((cache, state)) = cache.filter(|_| !timeline.has_own_memory()).zip(model.file_state()) {
                cache.read_ahead(state);
            }
            let _ = reading.set(model.progress());
            if let Some(digests) = digests {
                model.check_integrity(&digests)?;
            }
            if let Some(required) = required {
                model.require_external(required);
            }
            for (location, origin) in locations.iter().zip(external) {
                origin.provide(&mut model, location, &counted)?;
            }
            let loaded = onnx::load(model, fixed, &limits, &bounds)?;
            // Where all sizes are known, importing tells more, at once.
            let unknown = if loaded.is_fixed() { Vec::new() } else { loaded.unknown_nodes(&bounds)?.to_vec() };
            // Where it is refused nobody asks for its outputs.
            let outputs = if tells_outputs && unknown.is_empty() && !loaded.is_fixed() {
                onnx::outline(&loaded, &limits, &bounds)?
            } else {
                loaded.outputs()?
            };
            // Without them it runs as others do. Script reads caches without returning, so no device of its own can have them.
            let steps =
                if unknown.is_empty() && !is_on_foreign { Steps::of(&loaded, &bounds, &counted).ok().flatten() } else { None };
            let has_only_tensors = loaded.has_only_tensors()?;
            watch.check()?;
            Ok((loaded, unknown, outputs, steps, has_only_tensors, shared))
        };
        match watch.during(|| guarded(read)) {
            Ok((loaded, unknown, outputs, steps, has_only_tensors, shared)) => {
                let _ = refusals.set(unknown);
                shared.is_counted_in(&counted);
                let _ = found.set(Arc::new(Program {
                    steps,
                    loaded,
                    outputs,
                    has_only_tensors,
                    limits,
                    bounds,
                    timeline: Arc::new(timeline),
                    fp_math,
                    shared,
                    weights: Weights::new(counted),
                    cache: Arc::default(),
                }));
                done.report(Ok(()));
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    });
    let model = environment.models.borrow_mut().insert(Loaded { context, program, progress, usage, _held: held });
    Ok(Some(call.scope.number(model.to_number())?))
}

/// A list of an algorithm and digests; nothing for an empty one.
fn digests<'s>(scope: Scope<'s>, list: Value<'s>) -> Result<Option<Digests>> {
    let parts: Vec<Value<'s>> = scope.elements(list, |_, part| Ok(part))?;
    let Some((algorithm, values)) = parts.split_first() else { return Ok(None) };
    let values = values.iter().map(|value| bytes::copy(scope, *value)).collect::<Result<_>>()?;
    Ok(Some(Digests { algorithm: scope.as_string(*algorithm)?, values }))
}

/// Locations of external data with their digests, one after the other; nothing where none is required.
fn required_digests<'s>(scope: Scope<'s>, list: Value<'s>) -> Result<Option<HashMap<String, Digests>>> {
    if scope.type_of(list)? == Type::Undefined {
        return Ok(None);
    }
    let parts: Vec<Value<'s>> = scope.elements(list, |_, part| Ok(part))?;
    let pair = |pair: &[Value<'s>]| Ok((scope.as_string(pair[0])?, digests(scope, pair[1])?.unwrap_or_default()));
    parts.chunks_exact(2).map(pair).collect::<Result<_>>().map(Some)
}

/// `onnxProgress(model)`: the bytes of its files that were read, and all of them; undefined where it is of no file that is read.
pub fn progress<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let models = call.environment.models.borrow();
    let model = models.get(call.handle(0)?).ok_or_else(|| stale("model"))?;
    let Some((read, length)) = model.progress.get().and_then(Progress::of_files) else { return Ok(None) };
    let numbers = [read, length].map(|number| call.scope.number(number as f64));
    call.scope.array_of(numbers.into_iter()).map(Some)
}

/// `closeOnnx(model)`
pub fn close<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.models.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `releaseOnnxFile(model)`: nothing more is made of the file. The memory of what was made can still be asked for.
pub fn release_file<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    if let Some(model) = call.environment.models.borrow_mut().get_mut(call.handle(0)?) {
        model.program = Arc::default();
    }
    Ok(None)
}

/// `onnxMemoryUsage(model)`
pub fn memory_usage<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let numbers = call.environment.models.borrow().get(call.handle(0)?).map(|model| model.usage.numbers());
    Ok(Some(usage_object(call.scope, numbers.ok_or_else(|| stale("model"))?)?))
}

pub fn program(call: &Call<'_>, index: usize) -> Result<(Handle, Arc<Program>)> {
    let models = call.environment.models.borrow();
    let model = models.get(call.handle(index)?).ok_or_else(|| stale("model"))?;
    Ok((model.context, model.program.get().ok_or_else(|| stale("model"))?.clone()))
}

/// `expirePlans(model)`: lets plans go that no run has used for as long as the context keeps what is idle. Milliseconds until the next look, or -1
/// where there is nothing to look for, and the numbers of script's plans that are to go.
pub fn expire_plans<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (_, program) = program(call, 0)?;
    let (next, leaving) = match program.weights.usage().idle() {
        Some(idle) => program.cache.expire(idle, Instant::now()),
        None => (None, Leaving::default()),
    };
    leaving.leave();
    let next = next.map_or(-1.0, |next| next.as_secs_f64() * 1000.0);
    let all = std::iter::once(next).chain(program.cache.take_leaving().into_iter().map(|number| number as f64));
    call.scope.array_of(all.map(|number| call.scope.number(number)).collect::<Vec<_>>().into_iter()).map(Some)
}

/// `keepPlan(model, bytes)`: counts a plan of script's; its number, and those of script's plans that are to go.
pub fn keep_plan<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (_, program) = program(call, 0)?;
    // `as` saturates.
    let (number, leaving) = program.cache.keep(call.number(1)? as usize, Owner::Script);
    leaving.leave();
    numbers(call.scope, std::iter::once(number).chain(program.cache.take_leaving())).map(Some)
}

/// `usePlan(model, plan)`: notes a use; the numbers of script's plans that are to go, if there are any.
pub fn use_plan<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (_, program) = program(call, 0)?;
    program.cache.touch(call.number(1)? as u64);
    let leaving = program.cache.take_leaving();
    if leaving.is_empty() {
        return Ok(None);
    }
    numbers(call.scope, leaving.into_iter()).map(Some)
}

fn numbers<'s>(scope: Scope<'s>, numbers: impl Iterator<Item = u64>) -> Result<Value<'s>> {
    scope.array_of(numbers.map(|number| scope.number(number as f64)).collect::<Vec<_>>().into_iter())
}

/// The shapes of all inputs of a model in their order: lists of sizes, of a sequence a list of those, and undefined for no content.
fn input_shapes(call: &Call<'_>, index: usize, program: &Program) -> Result<Vec<InputShape>> {
    let mut inputs = program.loaded.inputs().iter();
    let sizes = |scope: Scope<'_>, shape| scope.elements(shape, Scope::as_unsigned);
    call.scope.elements(call.value(index), |scope, shape| {
        Ok(match inputs.next() {
            _ if scope.type_of(shape)? == Type::Undefined => InputShape::Nothing,
            Some(OpenInput { form: Form { is_sequence: true, .. }, .. }) => InputShape::Sequence(scope.elements(shape, sizes)?),
            _ => InputShape::Tensor(sizes(scope, shape)?),
        })
    })
}

/// `planOnnx(request, model, shapes, label, ahead, watch, long, short)`: the handle of the graph for inputs of these shapes, which is being made,
/// with the lowest priority if it is made ahead. With the shapes `long` of one text and `short` of a shorter one, it is for texts that may end earlier. On a device of script's `[program, graph, number]`, the last of which is the graph's in tasks (`device_tasks.rs`).
pub fn plan<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (context, program) = program(call, 1)?;
    let shapes = input_shapes(call, 2, &program)?;
    let label = call.string(3)?;
    let urgency = if call.scope.as_boolean(call.value(4))? { Urgency::Ahead } else { Urgency::Wanted };
    let watch = compute::watch(call, 5)?;
    let lengths = match call.scope.type_of(call.value(6))? {
        Type::Undefined => None,
        _ => Some(Lengths { long: input_shapes(call, 6, &program)?, short: input_shapes(call, 7, &program)? }),
    };
    let (id, foreign) = environment.with_context(context, |context| Ok((GraphId(context.next()), context.foreign().ok())))?;
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    // From here on nothing fails: what has the duty to report is not lost with an exception as well.
    let placements = Arc::new(OnceLock::new());
    let known = placements.clone();
    let part = Arc::new(OnceLock::new());
    let part_cell = part.clone();
    let described = foreign.is_some().then(|| Arc::new(OnceLock::new()));
    let on_device = described.clone();
    let done = environment.settler.promise(call.scope, request, move |built: Built| {
        let _ = known.set(built.placements);
        Outcome::Onnx { import: outcome, program: on_device, run_bytes: built.bytes, plan_bytes: built.plan_bytes }
    })?;
    let (task_label, lowered) = (label.clone(), described.clone());
    on_build_thread("loadOnnx", label, urgency, done, move |done| {
        let describe = |Planned { part, inputs, outputs }: Planned| {
            let import = Import::Model {
                graph_inputs: inputs,
                graph_outputs: outputs,
                outputs: part.outputs.clone(),
                known: part.known_outputs().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect(),
                cuts: part.cuts().to_vec(),
            };
            let _ = (found.set(import), part_cell.set(Arc::new(part)));
        };
        let timeline = program.timeline.clone();
        let of_task = watch.clone();
        let build = move |description: Description, most, done: Done<Built>| {
            let Some((foreign, described)) = foreign.zip(lowered) else {
                return timeline.send(Task::Build {
                    graph: id,
                    description,
                    label: task_label,
                    most,
                    urgency,
                    watch: of_task,
                    done,
                });
            };
            done.run(|| {
                // Nothing is compiled here for others.
                let Description::Graph(description) = description else { return Err(stale("graph")) };
                let lowered = foreign.program(*description, most).map_err(|error| failed_build(&error, &task_label))?;
                let built = programs::built(&lowered);
                let _ = described.set(Described::new(lowered));
                Ok(built)
            });
            Ok(())
        };
        let first = || watch.during(|| program.first(&shapes, lengths.as_ref(), id, done, describe, build));
        let planned = catch_unwind(AssertUnwindSafe(first));
        match planned {
            Ok(Err((ImportError::Nodes(nodes), done))) => {
                let _ = found.set(Import::Refused(nodes));
                done.report(Ok(Built::default()));
                Ok(())
            }
            Ok(Err((ImportError::Model(error), done))) => Err((error, done)),
            // A duty that a panic dropped has reported.
            Ok(Ok(())) | Err(_) => Ok(()),
        }
    });
    let mut graph = Graph::new(environment, context, id, placements, 0);
    graph.part = Some(part);
    let graph = call.scope.number(environment.graphs.borrow_mut().insert(graph).to_number())?;
    let Some(described) = described else { return Ok(Some(graph)) };
    let entry = programs::ProgramEntry::new(environment, context, described);
    let program = call.scope.number(environment.programs.borrow_mut().insert(entry).to_number())?;
    let all = [program, graph, call.scope.number(id.0 as f64)?];
    call.scope.array_of(all.into_iter().map(Ok)).map(Some)
}

/// For each output where the rows of runs are that are run as one, or why they cannot be.
pub type RowsApart = Result<Vec<(String, program::Rows)>, program::Refusal>;

/// `joinRows(request, model, one, many)`: whether runs with inputs of the shapes `one` can be run as one, with those of `many`.
pub fn join_rows<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (_, program) = program(call, 1)?;
    let (one, many) = (input_shapes(call, 2, &program)?, input_shapes(call, 3, &program)?);
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let done = environment.settler.promise(call.scope, request, move |()| Outcome::Rows(outcome))?;
    on_build_thread("run", String::new(), Urgency::Wanted, done, move |done| match guarded(|| program.rows_apart(&one, &many)) {
        Ok(rows) => {
            let _ = found.set(rows);
            done.report(Ok(()));
            Ok(())
        }
        Err(error) => Err((error.into(), done)),
    });
    Ok(None)
}

/// `{rows: [[output, axis]]}`, where the axis is -1 for what all rows have in common, or `{refused: [node, operator, reason]}`.
pub fn rows_value<'s>(scope: Scope<'s>, rows: &OnceLock<RowsApart>) -> Result<Value<'s>> {
    let value = scope.object()?;
    match rows.get().ok_or_else(|| stale("model"))? {
        Ok(rows) => {
            let rows = rows.iter().map(|(name, rows)| {
                let axis = rows.map_or(-1.0, |axis| axis as f64);
                scope.array_of([scope.string(name)?, scope.number(axis)?].into_iter().map(Ok))
            });
            scope.set(value, "rows", scope.array_of(rows)?)?;
        }
        Err(refusal) => scope.set(value, "refused", refusal_value(scope, refusal)?)?,
    }
    Ok(value)
}

/// By texts what the outputs are of those of a longer one, or why a text cannot be run in its place.
pub type Fitting = Vec<Result<program::Outputs, program::Refusal>>;

/// `fitLengths(request, model, long, shorter)`: what the outputs of texts with the shapes in a list are of those of one with the shapes `long`.
pub fn fit_lengths<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (_, program) = program(call, 1)?;
    let long = input_shapes(call, 2, &program)?;
    let sizes = |scope: Scope<'_>, shape| scope.elements(shape, Scope::as_unsigned).map(InputShape::Tensor);
    let shorter: Vec<Vec<InputShape>> = call.scope.elements(call.value(3), |scope, shapes| scope.elements(shapes, sizes))?;
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let done = environment.settler.promise(call.scope, request, move |()| Outcome::Fitting(outcome))?;
    on_build_thread("run", String::new(), Urgency::Wanted, done, move |done| {
        match guarded(|| program.fits_into(&long, &shorter)) {
            Ok(fitting) => {
                let _ = found.set(fitting);
                done.report(Ok(()));
                Ok(())
            }
            Err(error) => Err((error.into(), done)),
        }
    });
    Ok(None)
}

/// For each text `{outputs: [[name, shape]]}` or `{refused: [node, operator, reason]}`.
pub fn fitting_value<'s>(scope: Scope<'s>, fitting: &OnceLock<Fitting>) -> Result<Value<'s>> {
    let of_text = |found: &Result<program::Outputs, program::Refusal>| {
        let value = scope.object()?;
        match found {
            Ok(outputs) => {
                let output = |(name, shape): &(String, Vec<u32>)| {
                    let sizes = scope.array_of(shape.iter().map(|&size| scope.number(f64::from(size))))?;
                    scope.array_of([scope.string(name)?, sizes].into_iter().map(Ok))
                };
                scope.set(value, "outputs", scope.array_of(outputs.iter().map(output))?)?;
            }
            Err(refusal) => scope.set(value, "refused", refusal_value(scope, refusal)?)?,
        }
        Ok(value)
    };
    scope.array_of(fitting.get().ok_or_else(|| stale("model"))?.iter().map(of_text))
}

fn refusal_value<'s>(scope: Scope<'s>, refusal: &program::Refusal) -> Result<Value<'s>> {
    let program::Refusal { node, operator, reason } = refusal;
    scope.strings([node.as_str(), operator.as_str(), reason.as_str()].into_iter())
}

/// `runOnnx(request, model, graph, shapes, values, kept, label, seed, maxBytes, watch)`: runs a model that is cut, or of which inputs or
/// outputs are no tensors, from the plan of its first part. Values are arrays, which are copied, of a sequence a list of them, and tensors,
/// which have then what they have now. Outputs whose names are in `kept` stay on the device. Negative numbers stand for no seed and no limit.
pub fn run<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (_, program) = program(call, 1)?;
    let part = {
        let graphs = environment.graphs.borrow();
        let graph = graphs.get(call.handle(2)?).ok_or_else(|| stale("graph"))?;
        let part = graph.part.as_ref().and_then(|part| part.get());
        part.ok_or_else(|| stale("plan"))?.clone()
    };
    let shapes = input_shapes(call, 3, &program)?;
    let mut contents = shapes.iter();
    let kept: Vec<String> = call.scope.elements(call.value(5), Scope::as_string)?;
    let label = call.string(6)?;
    let (seed, most_bytes) = (call.number(7)?, call.number(8)?);
    let watch = compute::watch(call, 9)?;
    let options = Options {
        seed: (seed >= 0.0).then_some(seed as u64),
        most_bytes: (most_bytes >= 0.0).then_some(most_bytes as usize),
        watch,
        kept: kept.into_iter().collect(),
        ..Options::default()
    };
    let elements = |scope: Scope<'_>, value| match scope.type_of(value)? {
        Type::Number => environment.with_tensor(Handle::from_number(scope.as_number(value)?), |tensor| {
            let shared = program.timeline.share(tensor.id, &tensor.descriptor, &options.failures)?;
            Ok(Elements::Tensor(shared))
        }),
        _ => bytes::copy(scope, value).map(Elements::Bytes),
    };
    let values: Vec<Vec<Elements<crate::memory::Bytes>>> =
        call.scope.elements(call.value(4), |scope, value| match contents.next() {
            Some(InputShape::Sequence(_)) => scope.elements(value, elements),
            Some(InputShape::Tensor(_)) => Ok(vec![elements(scope, value)?]),
            _ => Ok(Vec::new()),
        })?;
    let mut inputs = Vec::with_capacity(shapes.len());
    for ((input, shape), values) in program.loaded.inputs().iter().zip(shapes).zip(values) {
        let mut values = values.into_iter();
        let mut tensor = |shape: Vec<u32>| {
            let descriptor = Descriptor { data_type: input.data_type, shape: shape.into_iter().collect() };
            let elements = values.next().ok_or_else(|| stale("array"))?;
            let (found, fits) = match &elements {
                Elements::Bytes(bytes) => (format!("{} bytes", bytes.len()), bytes.len() == descriptor.byte_length()),
                Elements::Tensor(tensor) => (tensor.descriptor.to_string(), tensor.descriptor == descriptor),
            };
            if !fits && !descriptor.shape.contains(&0) {
                let found = format!("{found} for {:?}", input.name);
                return Err(Error::argument("inputs", found, format!("the {} bytes of {descriptor}", descriptor.byte_length())));
            }
            Ok(program::Tensor { descriptor, elements })
        };
        let content = match shape {
            InputShape::Tensor(shape) => Content::Tensor(tensor(shape)?),
            InputShape::Sequence(list) => Content::Sequence(list.into_iter().map(tensor).collect::<Result<_>>()?),
            InputShape::Nothing => Content::Nothing,
        };
        inputs.push(Input { name: input.name.clone(), content });
    }
    let done = environment.settler.promise(call.scope, request, Outcome::OnnxRun)?;
    let done = Done::new(move |result: Result<Vec<Output>>| done.report(result.map_err(|error| error.of("run", &label))));
    program::start(program, part, inputs, options, done);
    Ok(None)
}

/// `summarizeOnnx(request, fileOrBytes)`
pub fn summarize<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let origin = Origin::of(call, call.value(1))?;
    let found = Arc::new(OnceLock::new());
    let outcome = found.clone();
    let done = call.environment.settler.promise(call.scope, request, move |()| Outcome::OnnxSummary(outcome))?;
    in_background("inspect", String::new(), done, move |done| {
        match guarded(|| onnx::summarize(&origin.open(false, &Arc::default())?)) {
            Ok(summary) => {
                let _ = found.set(summary);
                done.report(Ok(()));
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    });
    Ok(None)
}

/// `{inputs, outputs, modelOutputs, known, cuts, runBytes, planBytes}`, or `{refused}`; on a device of script's with `program`, where
/// there is something to compute.
pub fn import_value<'s>(
    scope: Scope<'s>,
    import: &OnceLock<Import>,
    program: Option<&OnceLock<Described>>,
    run_bytes: usize,
    plan_bytes: usize,
) -> Result<Value<'s>> {
    let value = scope.object()?;
    match import.get().ok_or_else(|| stale("model"))? {
        Import::Model { graph_inputs, graph_outputs, outputs, known, cuts } => {
            scope.set(value, "inputs", descriptors(scope, graph_inputs)?)?;
            scope.set(value, "outputs", descriptors(scope, graph_outputs)?)?;
            scope.set(value, "modelOutputs", scope.array_of(outputs.iter().map(|output| signature(scope, output)))?)?;
            let known = known.iter().map(|(name, tensor)| {
                let (_, bytes) = tensor.held()?;
                scope.array_of([scope.string(name)?, bytes::array_buffer(scope, bytes.read()?)?].into_iter().map(Ok))
            });
            scope.set(value, "known", scope.array_of(known)?)?;
            let cuts = cuts.iter().map(|Cut { node, operator, reason }| {
                scope.strings([node.as_str(), operator.as_str(), reason.as_str()].into_iter())
            });
            scope.set(value, "cuts", scope.array_of(cuts)?)?;
            scope.set(value, "runBytes", scope.number(run_bytes as f64)?)?;
            scope.set(value, "planBytes", scope.number(plan_bytes as f64)?)?;
            if let Some(program) = program.filter(|program| program.get().is_some()) {
                scope.set(value, "program", programs::value(scope, program)?)?;
            }
        }
        Import::Refused(nodes) => scope.set(value, "refused", refused(scope, nodes)?)?,
    }
    Ok(value)
}

/// `[name, dataType, shape, type]`
pub fn signature<'s>(scope: Scope<'s>, signature: &Signature) -> Result<Value<'s>> {
    let shape = scope.array_of(signature.shape.iter().map(|&size| scope.unsigned(size)))?;
    let (name, element_type) = (scope.string(&signature.name)?, scope.string(signature.element_type)?);
    let parts = [name, scope.unsigned(signature.data_type as u32)?, shape, element_type];
    scope.array_of(parts.into_iter().map(Ok))
}

/// A number, a name, or null where only a run can tell.
fn sizes<'s>(scope: Scope<'s>, shape: &[Size]) -> Result<Value<'s>> {
    scope.array_of(shape.iter().map(|size| match size {
        Size::Known(size) => scope.unsigned(*size),
        Size::Open(name) => scope.string(name),
        Size::Unknown | Size::AnyRank => scope.null(),
    }))
}

fn form<'s>(scope: Scope<'s>, form: Form) -> Result<[Value<'s>; 2]> {
    Ok([scope.boolean(form.is_sequence)?, scope.boolean(form.is_optional)?])
}

/// `{inputs: [[name, dataType, shape or null, type, isSequence, isOptional, default]], outputs: [[name, dataType, shape, type, isSequence,
/// isOptional]], refused, producer, version, description, domain, graphName, metadata, slowProducts}`. The default is an
/// `ArrayBuffer` of an input that need not be passed; what the file does not tell of an output is null.
pub fn model_value<'s>(
    scope: Scope<'s>,
    program: &OnceLock<Arc<Program>>,
    unknown: &OnceLock<Vec<RefusedNode>>,
) -> Result<Value<'s>> {
    let Program { loaded, outputs, steps, .. } = &**program.get().ok_or_else(|| stale("model"))?;
    let value = scope.object()?;
    let inputs = loaded.inputs().iter().map(|input| {
        let default = input.default.as_deref();
        let default = default.map_or_else(|| scope.undefined(), |bytes| bytes::array_buffer(scope, bytes))?;
        let data_type = scope.unsigned(input.data_type as u32)?;
        let shape = if input.is_of_any_rank() { scope.null()? } else { sizes(scope, &input.shape)? };
        let [is_sequence, is_optional] = form(scope, input.form)?;
        let name = scope.string(&input.name)?;
        let parts = [name, data_type, shape, scope.string(input.element_type)?, is_sequence, is_optional, default];
        scope.array_of(parts.into_iter().map(Ok))
    });
    scope.set(value, "inputs", scope.array_of(inputs)?)?;
    let outputs = outputs.iter().map(|output| {
        let data_type = output.data_type.map_or_else(|| scope.null(), |data_type| scope.unsigned(data_type as u32))?;
        let shape = output.shape.as_ref().map_or_else(|| scope.null(), |shape| sizes(scope, shape))?;
        let element_type = output.element_type.map_or_else(|| scope.null(), |name| scope.string(name))?;
        let [is_sequence, is_optional] = form(scope, output.form)?;
        let parts = [scope.string(&output.name)?, data_type, shape, element_type, is_sequence, is_optional];
        scope.array_of(parts.into_iter().map(Ok))
    });
    scope.set(value, "outputs", scope.array_of(outputs)?)?;
    scope.set(value, "hasSteps", scope.boolean(steps.is_some())?)?;
    let caches: Vec<(&str, &str)> = steps.iter().flat_map(Steps::fixed_caches).collect();
    scope.set(
        value,
        "fixedCaches",
        scope.array_of(caches.into_iter().map(|(present, past)| scope.strings([present, past].into_iter())))?,
    )?;
    scope.set(value, "refused", refused(scope, unknown.get().map_or(&[][..], Vec::as_slice))?)?;
    let proto = loaded.proto();
    let graph_name = proto.graph.as_ref().map_or("", |graph| &graph.name);
    for (name, text) in [
        ("producer", &*proto.producer_name),
        ("producerVersion", &proto.producer_version),
        ("domain", &proto.domain),
        ("description", &proto.doc_string),
        ("graphName", graph_name),
    ] {
        scope.set(value, name, scope.string(text)?)?;
    }
    // On a CPU that is slow at them.
    let slow = |graph| if cpu::has_integer_products() { 0 } else { onnx::integer_products(graph) };
    scope.set(value, "slowProducts", scope.number(proto.graph.as_ref().map_or(0, slow) as f64)?)?;
    scope.set(value, "version", scope.number(proto.model_version as f64)?)?;
    let metadata = proto.metadata_props.iter();
    let metadata = metadata.map(|entry| scope.strings([entry.key.as_str(), entry.value.as_str()].into_iter()));
    scope.set(value, "metadata", scope.array_of(metadata)?)?;
    Ok(value)
}

/// `[[name, value]]`, of a tensor `[dataType, shape, ArrayBuffer or number]`, of a sequence a list of those, and undefined for no content. A
/// number is that of a tensor on the timeline, which is the caller's now: `tensorOfNumber()` makes a handle of it.
pub fn run_value<'s>(scope: Scope<'s>, outputs: &[Output]) -> Result<Value<'s>> {
    let tensor = |tensor: &program::Tensor<Vec<u8>>| {
        let Descriptor { data_type, shape } = &tensor.descriptor;
        let shape = scope.array_of(shape.iter().map(|&size| scope.unsigned(size)))?;
        let elements = match &tensor.elements {
            Elements::Bytes(bytes) => bytes::array_buffer(scope, bytes)?,
            Elements::Tensor(tensor) => scope.number(tensor.give().0 as f64)?,
        };
        let parts = [scope.unsigned(*data_type as u32)?, shape, elements];
        scope.array_of(parts.into_iter().map(Ok))
    };
    scope.array_of(outputs.iter().map(|Output { name, content }| {
        let value = match content {
            Content::Tensor(value) => tensor(value)?,
            Content::Sequence(list) => scope.array_of(list.iter().map(tensor))?,
            Content::Nothing => scope.undefined()?,
        };
        scope.array_of([scope.string(name)?, value].into_iter().map(Ok))
    }))
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
            for (name, is_so) in [("sequence", description.form.is_sequence), ("optional", description.form.is_optional)] {
                if is_so {
                    scope.set(row, name, scope.boolean(true)?)?;
                }
            }
            Ok(row)
        }))?;
        scope.set(value, name, list)?;
    }
    scope.set(value, "unsupported", refused(scope, &summary.unknown)?)?;
    Ok(value)
}
