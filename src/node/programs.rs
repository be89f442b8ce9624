//! The flat functions of graphs for a GPU device that is script's: they become programs, plain data, and `lib/webgpu/` runs
//! those on the device. What is large, texts and constants, stays here until it is asked for piece by piece.

use super::bytes;
use super::call::{Call, stale};
use super::compute;
use super::contexts::{Context, limit_of};
use super::device_tasks::DeviceTasks;
use super::environment::Environment;
use super::graphs::ends;
use super::handles::Handle;
use super::script::{Scope, Value, internal};
use super::settle::{Outcome, Request};
use crate::backend::wgpu::gpu_program::{Finding, GpuProgram, ProgramStep};
use crate::backend::wgpu::target::{Features, Target, opens_shapes};
use crate::backend::wgpu::{Common, Foreign, Lowered};
use crate::error::Result;
use crate::graph::ConstantBytes;
use crate::graph::OperandId;
use crate::memory::Held;
use crate::timeline::{BUILDS, Built, Done, failed_build};
use crate::watch::Description;
use std::sync::{Arc, OnceLock};

/// A program that was made, or is being made.
pub struct ProgramEntry {
    pub context: Handle,
    described: Arc<OnceLock<Described>>,
    /// For what describes it. Constants are counted by the context.
    _held: Held,
}

/// What a program without shaders and constants takes, roughly.
const DESCRIPTION: usize = 16 << 10;

/// A program, and the part of it that script gets at once.
#[derive(Debug)]
pub struct Described {
    program: GpuProgram,
    common: Option<Common>,
    /// [`GpuProgram::encode_dispatches`]
    dispatches: Vec<u8>,
}

impl ProgramEntry {
    pub fn new(environment: &Environment, context: Handle, described: Arc<OnceLock<Described>>) -> ProgramEntry {
        ProgramEntry { context, described, _held: environment.external.total.hold(DESCRIPTION) }
    }
}

impl Described {
    pub fn new(Lowered { program, common, .. }: Lowered) -> Self {
        let dispatches = program.encode_dispatches();
        Described { program, common, dispatches }
    }
}

/// What is known of it. Graphs of a model have constants and the arena in common, which count for none of them.
pub fn built(Lowered { program, run_bytes, common }: &Lowered) -> Built {
    let plan_bytes = if common.is_some() { 0 } else { program.device_bytes() };
    Built { bytes: *run_bytes, plan_bytes, in_tensors: program.placements.clone(), ..Built::default() }
}

/// `{dispatches, steps, stepLabels, shaders, constants, sizes, arenaLength, outputLengths, checks, findings}`; of a model that may have several graphs also
/// `model`, its number, and `identities`, a name for each constant that no other constant of the model has.
pub fn value<'s>(scope: Scope<'s>, described: &OnceLock<Described>) -> Result<Value<'s>> {
    let Described { program, common, dispatches } = described.get().ok_or_else(|| internal("a program that was never made"))?;
    let numbers = |list: &[usize]| scope.array_of(list.iter().map(|&number| scope.number(number as f64)));
    let value = scope.object()?;
    scope.set(value, "dispatches", bytes::array_buffer(scope, dispatches)?)?;
    scope.set(value, "steps", scope.strings(program.steps.iter().map(|step| step.operator))?)?;
    scope.set(value, "stepLabels", scope.strings(program.steps.iter().map(|step| &*step.label))?)?;
    scope.set(value, "shaders", scope.strings(program.shaders.iter().map(|shader| shader.label))?)?;
    let constants: Vec<usize> = program.constants.iter().map(ConstantBytes::len).collect();
    scope.set(value, "constants", numbers(&constants)?)?;
    scope.set(value, "sizes", bytes::array_buffer(scope, &program.sizes)?)?;
    scope.set(value, "arenaLength", scope.number(program.arena_length as f64)?)?;
    scope.set(value, "outputLengths", numbers(&program.output_lengths)?)?;
    let checks = scope.array_of(program.checks.iter().map(|found| check_value(scope, Some(found.input), &found.of)))?;
    scope.set(value, "checks", checks)?;
    let findings = scope.array_of(program.findings.iter().map(|found| check_value(scope, None, found)))?;
    scope.set(value, "findings", findings)?;
    if let Some(Common { model, identities }) = common {
        scope.set(value, "model", scope.number(*model as f64)?)?;
        let names: Vec<String> = identities.iter().map(|identity| format!("{identity:x}")).collect();
        scope.set(value, "identities", scope.strings(names.iter().map(String::as_str))?)?;
    }
    Ok(value)
}

/// `[input or -1, data type, sizes, whether negative indices count from the end, shape, label]`
fn check_value<'s>(scope: Scope<'s>, input: Option<usize>, found: &Finding) -> Result<Value<'s>> {
    let Finding { data_type, check } = found;
    let sizes = scope.array_of(check.op.sizes.iter().map(|&size| scope.unsigned(size)))?;
    let shape = scope.array_of(check.shape.iter().map(|&size| scope.number(size as f64)))?;
    let (input, data_type) = (scope.number(input.map_or(-1.0, |input| input as f64))?, scope.unsigned(*data_type as u32)?);
    let parts = [input, data_type, sizes, scope.boolean(check.op.from_end)?, shape, scope.string(&check.label)?];
    scope.array_of(parts.into_iter().map(Ok))
}

/// `createDeviceContext(events, halves, subgroups, limits, memoryLimit)`: the handle of a context on a device of script's, and the number of its copy
/// of `lib/` for events. The limits are those of the device: maxStorageBufferBindingSize, maxBufferSize, maxStorageBuffersPerShaderStage, maxComputeWorkgroupsPerDimension,
/// maxComputeWorkgroupStorageSize.
pub fn create_context<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    let events = Request::from_number(call.number(0)?);
    let half = scope.as_boolean(call.value(1))?;
    let subgroups = scope.as_boolean(call.value(2))?;
    let limits: Vec<f64> = scope.elements(call.value(3), Scope::as_number)?;
    let &[binding, buffer, bindings, workgroups, shared] = limits.as_slice() else {
        return Err(internal(format!("{} limits of a device", limits.len())));
    };
    if let Some(limit) = limits.iter().find(|limit| limit.is_nan() || **limit < 1.0) {
        return Err(internal(format!("a limit of {limit} of a device")));
    }
    // `as` saturates.
    let target = Target {
        features: Features { half, subgroups, standard: true, matrices: None },
        max_storage_buffer_binding_size: binding as usize,
        max_buffer_size: buffer as usize,
        max_storage_buffers_per_shader_stage: bindings as usize,
        max_compute_workgroups_per_dimension: workgroups as usize,
        max_compute_workgroup_storage_size: shared as usize,
        opens_shapes: opens_shapes(),
    };
    let limit = limit_of(call.number(4)?);
    let environment = call.environment;
    let device = Foreign::new(target);
    let handle = environment.contexts.borrow_mut().reserve();
    let device_tasks = DeviceTasks::new(device.clone(), environment.ending.queue.clone(), events, handle);
    let context = Context::on_foreign(environment, device, device_tasks, limit);
    environment.contexts.borrow_mut().occupy(handle, context);
    Ok(Some(scope.number(handle.to_number())?))
}

/// `buildProgram(request, builder, names, operands, label, watch)`
pub fn build<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let names: Vec<String> = call.scope.elements(call.value(2), Scope::as_string)?;
    let ids: Vec<u32> = call.unsigned_list(3)?;
    let (label, watch) = (call.string(4)?, compute::watch(call, 5)?);
    let outputs = names.into_iter().zip(ids.into_iter().map(OperandId)).collect();
    let (context, graph) = environment.finish(call.handle(1)?, outputs)?;
    let device = environment.with_context(context, Context::foreign)?;
    let (inputs, outputs) = ends(&graph);
    let described = Arc::new(OnceLock::new());
    let (outcome, found) = (described.clone(), described.clone());
    let done =
        environment.settler.promise(call.scope, request, move |()| Outcome::Program { inputs, outputs, described: outcome })?;
    let work = move |done: Done<()>| {
        done.run(|| {
            watch.check()?;
            let lowered = device.program(graph, usize::MAX).map_err(|error| failed_build(&error, &label))?;
            let _ = found.set(Described::new(lowered));
            Ok(())
        });
    };
    if let Err((error, done)) = BUILDS.spawn(done, work) {
        done.report(Err(error.of("build", &call.string(4)?)));
    }
    let entry = ProgramEntry::new(environment, context, described);
    let handle = environment.programs.borrow_mut().insert(entry);
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// Does something with a program that was made.
fn with_program<R>(call: &Call<'_>, use_it: impl FnOnce(&GpuProgram) -> Result<R>) -> Result<R> {
    let programs = call.environment.programs.borrow();
    let described = programs.get(call.handle(0)?).and_then(|entry| entry.described.get());
    use_it(&described.ok_or_else(|| stale("program"))?.program)
}

/// `shaderText(program, shader)`
pub fn shader_text<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    with_program(call, |program| {
        let shader = program.shaders.get(call.unsigned(1)? as usize).ok_or_else(|| internal("no such shader"))?;
        call.scope.string(&shader.text).map(Some)
    })
}

/// `programSteps(program)`: `[operator, label, implementation, text, multiplications, bytes, data type, sources]` of each, for profiles.
pub fn steps<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    let count = |number: usize| scope.number(number as f64);
    let value = |ProgramStep { operator, label, description }: &ProgramStep| {
        let Description { text, implementation, multiplications, bytes, data_type, sources } = description;
        let step = [
            scope.string(operator)?,
            scope.string(label)?,
            scope.string(implementation)?,
            scope.string(text)?,
            count(*multiplications)?,
            count(*bytes)?,
            scope.string(data_type)?,
            scope.array_of(sources.iter().map(|&source| count(source)))?,
        ];
        scope.array_of(step.into_iter().map(Ok))
    };
    with_program(call, |program| scope.array_of(program.steps.iter().map(value)).map(Some))
}

/// `copyConstant(program, constant, offset, into)`: as many bytes of a constant from there on as there is room for.
pub fn copy_constant<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    with_program(call, |program| {
        let constant = program.constants.get(call.unsigned(1)? as usize).ok_or_else(|| internal("no such constant"))?;
        let rest = constant.as_slice().get(call.number(2)? as usize..).ok_or_else(|| internal("behind a constant's end"))?;
        let mut into = bytes::host_memory(call.scope, call.value(3))?;
        let count = rest.len().min(into.len());
        into.as_mut_slice()[..count].copy_from_slice(&rest[..count]);
        Ok(None)
    })
}

/// `setDeviceMemory(context, tensors, graphs, scratch)`: the bytes in use on the device. It throws where the context may not hold them.
pub fn set_memory<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let mut bytes = [0; 3];
    for (index, bytes) in bytes.iter_mut().enumerate() {
        // `as` saturates.
        *bytes = call.number(index + 1)? as usize;
    }
    call.environment.with_context(call.handle(0)?, |context| {
        context.hold_on_device(bytes)?;
        Ok(None)
    })
}

/// `destroyProgram(program)`
pub fn destroy<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.programs.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}
