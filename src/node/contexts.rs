//! The flat functions of contexts.

use super::call::{Call, stale};
use super::device_tasks::DeviceTasks;
use super::environment::{Environment, Running};
use super::handles::Handle;
use super::script::{Scope, Value};
use super::settle::{Outcome, Request};
use crate::backend::Backend;
use crate::backend::cpu::{Cpu, Performance};
use crate::backend::wgpu::{self, AdapterRequest, Foreign, Gpu, adapter};
use crate::cores;
use crate::error::{Error, Kind, Result};
use crate::graph::limits::Support;
use crate::graph::{DataType, FpMath, Limits};
use crate::memory::{Charge, Held, THREAD, Total, Usage, UsageNumbers, Use};
use crate::thread;
use crate::timeline::{Done, Task, Timeline};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Not accelerated, and the name of the device.
const CPU: (bool, &str) = (false, "cpu");

/// A context. It stays known after it was destroyed, until `lib/` forgets it: its limits can still be asked for.
pub struct Context {
    /// There when `lib/` hears of the context.
    device: Arc<OnceLock<Capabilities>>,
    running: Arc<Running>,
    /// For its thread, and what it has to know.
    _held: Held,
    /// The last number that was given to a tensor or a graph.
    last: Arc<AtomicU64>,
    /// What graphs may do that say nothing else.
    pub fp_math: FpMath,
    /// The device where it is script's. Such a context has no timeline here.
    foreign: Option<(Foreign, DeviceTasks)>,
    /// What is in use there, as script says: tensors, graphs, scratch.
    device_memory: RefCell<DeviceMemory>,
}

/// What is counted for a device of script's.
#[derive(Default)]
struct DeviceMemory {
    /// Tensors, graphs, scratch.
    bytes: [usize; 3],
    held: Vec<Charge>,
}

/// What is asked of a context's backend without its timeline.
struct Capabilities {
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    has_own_memory: bool,
    compiles_for: Option<String>,
}

impl Context {
    /// A context of a device of script's. It makes programs, and keeps the bytes of constants.
    pub fn on_foreign(environment: &Environment, device: Foreign, device_tasks: DeviceTasks, limit: Option<usize>) -> Context {
        let usage = device.usage().clone();
        limit.into_iter().for_each(|limit| usage.limit_to(limit));
        usage.is_part_of(environment.external.total.clone());
        let limits = device.limits().clone();
        let found = Capabilities { limits, usage, has_own_memory: true, compiles_for: None };
        Context {
            device: Arc::new(OnceLock::from(found)),
            running: Running::never(),
            _held: environment.external.total.hold(THREAD),
            last: Arc::default(),
            fp_math: FpMath::Strict,
            foreign: Some((device, device_tasks)),
            device_memory: RefCell::default(),
        }
    }

    pub fn foreign(&self) -> Result<Foreign> {
        self.foreign.as_ref().map(|(device, _)| device.clone()).ok_or_else(|| stale("device"))
    }

    /// The way to the device where it is script's.
    pub fn device_tasks(&self) -> Option<DeviceTasks> {
        self.foreign.as_ref().map(|(_, device_tasks)| device_tasks.clone())
    }

    /// Counts what a device of script's has, or is about to have: bytes of tensors, graphs and scratch, in the place of what it had.
    ///
    /// # Errors
    /// `QuotaExceededError` for more than the context may hold. Then it has what it had.
    pub fn hold_on_device(&self, bytes: [usize; 3]) -> Result<()> {
        const KINDS: [Use; 3] = [Use::Tensors, Use::Constants, Use::Scratch];
        let Some((foreign, _)) = &self.foreign else { return Ok(()) };
        let usage = foreign.usage();
        let mut device_memory = self.device_memory.borrow_mut();
        let DeviceMemory { bytes: before, held } = &mut *device_memory;
        let both = KINDS.into_iter().zip(bytes.into_iter().zip(*before));
        if bytes.iter().zip(&*before).any(|(now, before)| now < before) {
            // What is gone is not counted beside what is new.
            held.clear();
            held.extend(KINDS.into_iter().zip(bytes).map(|(kind, bytes)| usage.charge(kind, bytes)));
        } else {
            let more = both.filter(|(_, (now, before))| now > before);
            let more: Result<Vec<Charge>> = more.map(|(kind, (now, before))| usage.reserve(kind, now - before)).collect();
            held.extend(more?);
        }
        *before = bytes;
        Ok(())
    }

    /// Those of what script builds and creates.
    pub fn script_limits(&self) -> Result<Arc<Limits>> {
        Ok(Arc::new(self.limits()?.of_script()))
    }

    pub fn limits(&self) -> Result<Arc<Limits>> {
        Ok(self.device.get().ok_or_else(|| stale("context"))?.limits.clone())
    }

    pub fn usage(&self) -> Result<Arc<Usage>> {
        Ok(self.device.get().ok_or_else(|| stale("context"))?.usage.clone())
    }

    /// Whether tensors are not in the host's memory.
    pub fn has_own_memory(&self) -> Result<bool> {
        Ok(self.device.get().ok_or_else(|| stale("context"))?.has_own_memory)
    }

    /// See [`Backend::compiles_for`].
    pub fn compiles_for(&self) -> Result<Option<String>> {
        Ok(self.device.get().ok_or_else(|| stale("context"))?.compiles_for.clone())
    }

    /// Whether its device was looked for in vain.
    fn has_failed(&self) -> bool {
        self.running.has_ended() && self.device.get().is_none()
    }

    /// Sends a task. When the context has ended the task is dropped, which reports it.
    ///
    /// # Errors
    /// `OperationError` for a task that nobody waits for, when too many wait.
    pub fn send(&self, task: Task) -> Result<()> {
        if let Some((_, device_tasks)) = &self.foreign {
            device_tasks.send(task);
            return Ok(());
        }
        self.running.way().map_or(Ok(()), |way| way.send(task))
    }

    /// What enqueues a task from any thread.
    pub fn sender(&self) -> impl Fn(Task) -> Result<()> + Send + Sync + use<> {
        let (running, device_tasks) = (self.running.clone(), self.device_tasks());
        move |task| match &device_tasks {
            Some(device_tasks) => {
                device_tasks.send(task);
                Ok(())
            }
            None => running.way().map_or(Ok(()), |way| way.send(task)),
        }
    }

    /// What carries a task out on the calling thread, if that may be.
    pub fn attempts(&self) -> impl Fn(Task) -> std::result::Result<(), Task> + Send + Sync + use<> {
        let running = self.running.clone();
        move |task| match running.way() {
            Some(way) => way.attempt(task),
            None => Err(task),
        }
    }

    /// What tells any thread whether the context is still there.
    pub fn watcher(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (running, foreign) = (self.running.clone(), self.foreign.clone());
        move || match &foreign {
            Some((foreign, _)) => foreign.is_wanted(),
            None => running.with(|timeline| !timeline.is_stopped()).unwrap_or(false),
        }
    }

    /// Ends the context's work as soon as may be.
    pub fn stop(&self) {
        if let Some((foreign, device_tasks)) = &self.foreign {
            foreign.cancel();
            device_tasks.end();
        }
        self.running.with(Timeline::stop);
    }

    /// A number that no other tensor or graph of the context has.
    pub fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Such numbers for any thread.
    pub fn numbers(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let last = self.last.clone();
        move || last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What a program asked of a device of script's, and nobody will do.
impl Drop for Context {
    fn drop(&mut self) {
        if let Some((_, device_tasks)) = &self.foreign {
            device_tasks.end();
        }
    }
}

impl Environment {
    pub fn with_context<R>(&self, handle: Handle, use_it: impl FnOnce(&Context) -> Result<R>) -> Result<R> {
        use_it(self.contexts.borrow().get(handle).ok_or_else(|| stale("context"))?)
    }
}

/// `createContext(request, deviceType, powerPreference, accelerated, numThreads, label, fpMath, memoryLimit, performance)`
///
/// A negative limit is none. The performance is `''` for the default, a name, or a number of streams.
/// `deviceType` wins over `powerPreference` and `accelerated` (docs/extensions.md B1, B2).
pub fn create<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let device = call.string(1)?;
    let low_power = call.string(2)? == "low-power";
    let accelerated = call.scope.as_boolean(call.value(3))?;
    let threads = call.unsigned(4)? as usize;
    let label = call.string(5)?;
    let fp_math = fp_math(&call.string(6)?)?;
    let memory_limit = limit_of(call.number(7)?);
    let performance = performance(&call.string(8)?)?;
    let (gpu, required) = match device.as_str() {
        "cpu" => (false, false),
        "gpu" => (true, true),
        "npu" => {
            let message = "deviceType 'npu' is not available, allowed 'cpu' or 'gpu'";
            return Err(Error::new(Kind::NotSupported, message).of("createContext", &label));
        }
        _ => (accelerated, false),
    };
    let environment = call.environment;
    let running = environment.ending.watch();
    let mut contexts = environment.contexts.borrow_mut();
    contexts.retain(|context| !context.has_failed());
    let found = Arc::new(OnceLock::new());
    let total = environment.external.total.clone();
    let held = total.hold(THREAD);
    // The handle is known before the timeline, which may announce its loss under it.
    let handle = contexts.insert(Context {
        device: found.clone(),
        running: running.clone(),
        _held: held,
        last: Arc::default(),
        fp_math,
        foreign: None,
        device_memory: RefCell::default(),
    });
    let handle = handle.to_number();
    let queue = environment.ending.queue.clone();
    let lost = move |message| queue.announce(request, Outcome::Lost { context: handle, message });
    let outcome = |(handle, (accelerated, device))| Outcome::Context { handle, accelerated, device };
    let done = environment.settler.promise(call.scope, request, outcome)?;
    let start = Start { found, running, total, memory_limit, lost };
    let request = AdapterRequest { software: required, low_power };
    if !gpu || (!required && adapter::is_absent(request)) {
        done.report(
            start.on_cpu(threads, performance).map(|()| (handle, CPU)).map_err(|error| error.of("createContext", &label)),
        );
        return Ok(None);
    }
    // Drivers take their time.
    let (running, name) = (start.running.clone(), label.clone());
    let work = move |done: Done<_>| {
        done.run(|| {
            let started = match Gpu::new(request) {
                Ok(gpu) => {
                    let accelerated = !gpu.is_software();
                    start.on(gpu).map(|()| (accelerated, "gpu"))
                }
                Err(error) if required => {
                    start.running.give_up();
                    Err(error)
                }
                Err(_) => start.on_cpu(threads, performance).map(|()| CPU),
            };
            started.map(|found| (handle, found)).map_err(|error| error.of("createContext", &label))
        });
    };
    if let Err((error, done)) = thread::start_with("webnn adapter", done, work) {
        running.give_up();
        done.report(Err(error.of("createContext", &name)));
    }
    Ok(None)
}

/// A number of bytes, or none where it is negative.
pub fn limit_of(bytes: f64) -> Option<usize> {
    // A number beyond the range is the greatest.
    (bytes >= 0.0).then_some(bytes as usize)
}

/// `lib/` has checked the name.
pub fn fp_math(name: &str) -> Result<FpMath> {
    FpMath::named(name).ok_or_else(|| stale("fpMath"))
}

/// `lib/` has checked it.
fn performance(value: &str) -> Result<Performance> {
    match value {
        "" => Ok(Performance::Adaptive),
        "latency" => Ok(Performance::Latency),
        "throughput" => Ok(Performance::Throughput),
        _ => value.parse().map(Performance::Streams).map_err(|_| stale("performance")),
    }
}

/// What makes a context that is waiting for its device ready.
struct Start<L> {
    found: Arc<OnceLock<Capabilities>>,
    running: Arc<Running>,
    total: Total,
    memory_limit: Option<usize>,
    lost: L,
}

impl<L: FnOnce(String) + Send + 'static> Start<L> {
    fn on_cpu(self, threads: usize, performance: Performance) -> Result<()> {
        match Cpu::of_process(threads, performance) {
            Ok(cpu) => self.on(cpu),
            Err(error) => {
                self.running.give_up();
                Err(error)
            }
        }
    }

    fn on(self, backend: impl Backend) -> Result<()> {
        backend.usage().is_part_of(self.total);
        if let Some(bytes) = self.memory_limit {
            backend.usage().limit_to(bytes);
        }
        let (limits, usage) = (backend.limits().clone(), backend.usage().clone());
        let (has_own_memory, compiles_for) = (backend.has_own_memory(), backend.compiles_for());
        let device = Capabilities { limits, usage, has_own_memory, compiles_for };
        match Timeline::start(backend, self.lost) {
            Ok(timeline) => {
                let _ = self.found.set(device);
                self.running.start(timeline);
                Ok(())
            }
            Err(error) => {
                self.running.give_up();
                Err(error)
            }
        }
    }
}

/// `cores()`: how many cores the contexts of this process share.
pub fn cores<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    Ok(Some(call.scope.number(cores::count() as f64)?))
}

/// `leaveDevices()`: no GPU is used any more, because the process exits.
pub fn leave_devices<'s>(_: &Call<'s>) -> Result<Option<Value<'s>>> {
    wgpu::end_of_process();
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
        let usage = context.usage()?;
        Ok(context.running.with(Timeline::usage).unwrap_or_else(|| usage.numbers()))
    })?;
    Ok(Some(usage_object(call.scope, numbers)?))
}

/// `keepIdleFor(context, milliseconds)`: how long memory for runs stays where no run uses it; a negative number is no limit.
pub fn keep_idle_for<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let milliseconds = call.number(1)?;
    // What is negative, or too long for a duration, is none.
    let time = Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    call.environment.with_context(call.handle(0)?, |context| {
        context.usage()?.keep_idle_for(time);
        Ok(None)
    })
}

/// The numbers for script.
pub fn usage_object<'s>(scope: Scope<'s>, numbers: UsageNumbers) -> Result<Value<'s>> {
    let UsageNumbers { tensors, packed, mapped, constants, sources, plans, shared, scratch, caches, pending_writes, peak } =
        numbers;
    let result = scope.object()?;
    let all = [
        ("tensors", tensors),
        ("graphs", packed + mapped + constants),
        ("packed", packed),
        ("mapped", mapped),
        ("constants", constants),
        ("sources", sources),
        ("plans", plans),
        ("shared", shared),
        ("scratch", scratch),
        ("caches", caches),
        ("pendingWrites", pending_writes),
        ("peak", peak),
    ];
    for (name, bytes) in all {
        scope.set(result, name, scope.number(bytes as f64)?)?;
    }
    Ok(result)
}

/// `awaitContext(request, context)`: settles once everything asked of it before has been looked at. What was destroyed is gone then.
pub fn wait<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    environment.with_context(call.handle(1)?, |context| {
        let done = environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
        // One that has ended holds nothing any more.
        let done = Done::new(move |_: Result<UsageNumbers>| done.report(Ok(())));
        context.send(Task::Usage { done })?;
        Ok(None)
    })
}

/// `opSupportLimits(context)`
pub fn op_support_limits<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let limits = call.environment.with_context(call.handle(0)?, Context::script_limits)?;
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
