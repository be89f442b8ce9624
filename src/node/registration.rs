//! What Node finds when it loads the addon.
#![allow(unsafe_code)]

use super::call::{Call, enter};
use super::script::{Scope, Value};
use super::{
    caches, commands, compute, contexts, decoder, device_tasks, environment, graphs, onnx, programs, received, saved_graphs,
    steps, table, tensors,
};
use crate::error::Result;
use napi::bindgen_prelude::{Env, Object};
use napi::{JsValue, sys};
use napi_derive::napi;

/// The flat functions by their names in JavaScript.
macro_rules! functions {
    ($($name:literal => $function:path;)*) => {
        &[$(($name, {
            unsafe extern "C" fn entry(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
                // SAFETY: `environment::start` exports this entry, with the environment as its data.
                unsafe { enter(env, info, $function) }
            }
            Some(entry)
        })),*]
    };
}

const FUNCTIONS: &[(&str, sys::napi_callback)] = functions! {
    "version" => version;
    "initialize" => initialize;
    "operators" => table::operators;
    "dataTypes" => table::data_types;
    "createContext" => contexts::create;
    "destroyContext" => contexts::destroy;
    "cores" => contexts::cores;
    "leaveDevices" => contexts::leave_devices;
    "forgetContext" => contexts::forget;
    "opSupportLimits" => contexts::op_support_limits;
    "memoryUsage" => contexts::memory_usage;
    "keepIdleFor" => contexts::keep_idle_for;
    "awaitContext" => contexts::wait;
    "useCache" => caches::use_for_all;
    "cacheState" => caches::state;
    "finishCache" => caches::finish;
    "checkCache" => caches::check;
    "cacheBuild" => saved_graphs::cache_build;
    "keepGraph" => saved_graphs::keep_graph;
    "dropSavableGraph" => saved_graphs::drop_savable;
    "saveGraph" => saved_graphs::save;
    "loadGraph" => saved_graphs::load;
    "listGraphs" => saved_graphs::list;
    "deleteGraph" => saved_graphs::delete;
    "savedGraphs" => saved_graphs::list_all;
    "checkTensor" => tensors::check_descriptor;
    "createTensor" => tensors::create;
    "createConstantTensor" => tensors::create_constant;
    "destroyTensor" => tensors::destroy;
    "writeTensor" => tensors::write;
    "readTensor" => tensors::read;
    "tensorOfNumber" => tensors::of_number;
    "shareTensor" => tensors::share;
    "createBuilder" => graphs::create_builder;
    "destroyBuilder" => graphs::destroy_builder;
    "input" => graphs::input;
    "constantBytes" => graphs::constant_bytes;
    "constantNumber" => graphs::constant_number;
    "constantTensor" => graphs::constant_tensor;
    "apply" => graphs::apply;
    "build" => graphs::build;
    "destroyGraph" => graphs::destroy;
    "dispatch" => graphs::dispatch;
    "createDeviceContext" => programs::create_context;
    "buildProgram" => programs::build;
    "shaderText" => programs::shader_text;
    "programSteps" => programs::steps;
    "copyConstant" => programs::copy_constant;
    "destroyProgram" => programs::destroy;
    "setDeviceMemory" => programs::set_memory;
    "lendTensor" => device_tasks::lend_tensor;
    "takeTasks" => device_tasks::take_tasks;
    "finishTask" => device_tasks::finish_task;
    "openOnnx" => onnx::open;
    "onnxProgress" => onnx::progress;
    "closeOnnx" => onnx::close;
    "releaseOnnxFile" => onnx::release_file;
    "onnxMemoryUsage" => onnx::memory_usage;
    "receiveBytes" => received::begin;
    "receivePiece" => received::piece;
    "dropReceived" => received::forget;
    "planOnnx" => onnx::plan;
    "runOnnx" => onnx::run;
    "expirePlans" => onnx::expire_plans;
    "keepPlan" => onnx::keep_plan;
    "usePlan" => onnx::use_plan;
    "joinRows" => onnx::join_rows;
    "fitLengths" => onnx::fit_lengths;
    "summarizeOnnx" => onnx::summarize;
    "openDecoder" => decoder::open;
    "closeDecoder" => decoder::close;
    "decoderFigures" => decoder::figures;
    "createSession" => decoder::create_session;
    "destroySession" => decoder::destroy_session;
    "createAdapter" => decoder::create_adapter;
    "createPrefixes" => decoder::create_prefixes;
    "destroyAdapter" => decoder::destroy_adapter;
    "destroyPrefixes" => decoder::destroy_prefixes;
    "pinPrefix" => decoder::pin;
    "prefixFigures" => decoder::prefix_figures;
    "savePrefixes" => decoder::save_prefixes;
    "loadPrefixes" => decoder::load_prefixes;
    "beginSequences" => decoder::begin;
    "continueSequences" => decoder::proceed;
    "giveMasks" => decoder::give_masks;
    "takeSequenceSteps" => decoder::take_steps;
    "chooseToken" => decoder::choose;
    "appendTokens" => decoder::append;
    "speculate" => decoder::speculate;
    "isGuessed" => decoder::is_guessed;
    "chooseGuessed" => decoder::choose_guessed;
    "guessedLogits" => decoder::guessed_logits;
    "cancelSequences" => decoder::cancel;
    "stepFits" => steps::fits;
    "prepareStep" => steps::prepare;
    "runStep" => steps::run;
    "takeValue" => steps::take;
    "forgetRun" => steps::forget;
    "shareValue" => steps::share;
    "readValue" => steps::read;
    "writeValue" => steps::write;
    "dropValue" => steps::drop_value;
    "compute" => compute::compute;
    "run" => compute::run;
    "computeSync" => compute::compute_sync;
    "readTensorSync" => compute::read_sync;
    "createCommandBuffer" => commands::create;
    "destroyCommandBuffer" => commands::destroy;
    "submit" => commands::submit;
    "createWatch" => compute::create_watch;
    "beginWork" => compute::begin_work;
    "awaitEnd" => compute::await_end;
    "giveUp" => compute::give_up;
    "noteSteps" => compute::note_steps;
    "takeSteps" => compute::take_steps;
    "destroyWatch" => compute::destroy_watch;
    "settleSoon" => settle_soon;
    "settleRest" => settle_rest;
    "holdSettling" => hold;
    "isReady" => is_ready;
};

/// For tests only.
#[cfg(feature = "faults")]
const FAULTS: &[(&str, sys::napi_callback)] = functions! {
    "planFault" => plan_fault;
};
#[cfg(not(feature = "faults"))]
const FAULTS: &[(&str, sys::napi_callback)] = &[];

/// `planFault(place, failure, spared)`
#[cfg(feature = "faults")]
fn plan_fault<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    use crate::faults::{Failure, Place, inject};
    let unknown = |name: String| super::script::internal(format!("no '{name}' in faults.rs"));
    let place = match &*call.string(0)? {
        "step" => Place::Step,
        "write" => Place::Write,
        "read" => Place::Read,
        "allocate" => Place::Allocate,
        "timeline" => Place::Timeline,
        other => return Err(unknown(other.to_owned())),
    };
    let failure = match &*call.string(1)? {
        "error" => Failure::Error,
        "panic" => Failure::Panic,
        "scratch" => Failure::Scratch,
        "memory" => Failure::Memory,
        other => return Err(unknown(other.to_owned())),
    };
    inject(place, failure, call.unsigned(2)?);
    Ok(None)
}

/// `version()`: what `lib/` compares with its own, since packages can be mixed.
fn version<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    Ok(Some(call.scope.string(env!("CARGO_PKG_VERSION"))?))
}

/// `initialize(settle)`: a copy of `lib/` introduces itself; returns the number from which its requests count.
fn initialize<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let first = call.environment.settler.listen(call.scope, call.value(0))?;
    Ok(Some(call.scope.number(first)?))
}

/// `settleSoon()`: waits for a moment until something is ready, and settles it.
fn settle_soon<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.settler.settle_soon(call.scope);
    Ok(None)
}

/// `holdSettling()`: until `isReady()` nobody is woken for what becomes ready.
fn hold<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.settler.hold();
    Ok(None)
}

/// `isReady()`: whether something has become ready meanwhile, for which `settleRest()` is to be called at the end of this round.
fn is_ready<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.scope.boolean(call.environment.settler.let_go()).map(Some)
}

/// `settleRest()`: settles some of what was put off.
fn settle_rest<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    call.environment.settler.settle_some(call.scope);
    Ok(None)
}

#[napi(module_exports)]
fn register(exports: Object, env: Env) -> napi::Result<()> {
    // SAFETY: Node registers the addon on the environment's thread, with a handle scope.
    let scope = unsafe { Scope::new(env.raw()) };
    // SAFETY: both are those of this registration.
    unsafe { environment::start(scope, exports.raw(), &[FUNCTIONS, FAULTS].concat()) }
        .map_err(|error| napi::Error::from_reason(error.to_string()))
}
