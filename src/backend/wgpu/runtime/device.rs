//! A device: shared by all contexts of an adapter, with a thread that submits and one that waits.
//!
//! Work reaches the device in the order in which it is ordered here, so a piece of work may be reported as done as soon as it
//! is submitted: whatever is submitted later comes after it. Only reading waits for the device.

use super::adapter::required;
use super::constants::Constants;
use super::counts::Counts;
use super::errors::checked;
use super::exit::leave_devices_at_exit;
use super::experimental::permission;
use super::jobs::{Asked, Job, Order, QueuedJob};
use super::loss::{Listener, Loss, OnLost, lock};
use super::pipelines::Pipelines;
use super::storage::DeviceStorage;
use super::submitter::Submitter;
use super::timestamps::Clock;
use super::waiting::{Flight, Limit, PATIENCE_AT_EXIT, Waiter};
use crate::backend::CopyRange;
use crate::backend::wgpu::target::{Features, Target, opens_shapes};
use crate::error::{Error, Kind, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;
use wgpu::{Adapter, BufferUsages};

/// Copies of so many bytes are submitted together: each is in memory of the driver until the device has finished it.
const STAGED: usize = 4 << 20;

/// Every device's alignment of bindings divides this.
const LEAST_BINDING: u64 = 256;

pub struct Device {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub target: Target,
    /// Whether it computes on the CPU, in the machine's own memory.
    pub is_software: bool,
    pipelines: Pipelines,
    pub constants: Constants,
    /// How many graphs there are.
    graphs: AtomicUsize,
    /// How many bytes of constants were copied since copies were last submitted.
    staged: AtomicUsize,
    orders: Sender<Order>,
    loss: Arc<Loss>,
    /// How long it may take for what was submitted.
    pub limit: Arc<Limit>,
    pub counts: Arc<Counts>,
}

/// All devices of the process whose driver may be in use, for its end.
static DEVICES: Mutex<Vec<InUse>> = Mutex::new(Vec::new());

/// What the end of the process knows of a device. It outlives the [`Device`], which is dropped with its last context: its threads
/// may be in the driver then, and a dispatch that was given up goes on.
struct InUse {
    device: Weak<Device>,
    /// Of [`Device`].
    is_software: bool,
    stopping: Arc<AtomicBool>,
    /// Disconnected when both threads have ended.
    ended: Receiver<()>,
    /// Whether nothing was left to do on the device when they did.
    idle: Arc<AtomicBool>,
}

impl InUse {
    /// Whether nothing of ours will use the driver any more; waits until then, or until a time.
    fn is_at_rest(&self, last: Instant) -> bool {
        // The threads send nothing: what they had is dropped when they end.
        let ended = matches!(self.ended.recv_deadline(last), Err(RecvTimeoutError::Disconnected));
        ended && self.idle.load(Ordering::Acquire)
    }

    /// Whether the functions that the driver has registered for the exit may run. Drivers of hardware have threads of their own as long
    /// as there is a device, and NVIDIA's (580.159) crashes when the process exits beside them: gfx-rs/wgpu#8365, ggml-org/llama.cpp#10528.
    fn may_exit(&self, last: Instant, was_there: bool) -> bool {
        self.is_at_rest(last) && (self.is_software || !was_there)
    }
}

/// Stops the use of all devices: drivers crash when a thread uses one while the process exits. It should be called before
/// the exit begins, since drivers register functions for it at any time, and those run first that were registered last.
///
/// Called again it finds nothing left to wait for. Tells whether the drivers' own functions for the exit may run.
pub fn end_of_process() -> bool {
    let mut may_exit = lock(&MAY_EXIT);
    let devices = std::mem::take(&mut *lock(&DEVICES));
    *may_exit = stop(&devices, Instant::now() + PATIENCE_AT_EXIT) && *may_exit;
    *may_exit
}

/// Stops the use of devices; whether the process may exit as others do.
fn stop(devices: &[InUse], last: Instant) -> bool {
    let stop_one = |InUse { device, stopping, .. }: &InUse| {
        stopping.store(true, Ordering::Relaxed);
        let device = device.upgrade();
        let was_there = device.is_some();
        if let Some(device) = device {
            let _ = device.orders.send(Order::Stop);
            // Never dropped: the driver is not to be touched any more.
            std::mem::forget(device);
        }
        was_there
    };
    // All are told before one is waited for.
    let were_there: Vec<bool> = devices.iter().map(stop_one).collect();
    devices.iter().zip(were_there).all(|(device, was_there)| device.may_exit(last, was_there))
}

/// Whether all devices have allowed it so far.
static MAY_EXIT: Mutex<bool> = Mutex::new(true);

/// A driver in software has the host's memory, which has other users: blocks of it are small, and so is what stays of them.
fn memory_hints(is_software: bool) -> wgpu::MemoryHints {
    if is_software { wgpu::MemoryHints::MemoryUsage } else { wgpu::MemoryHints::Performance }
}

impl Device {
    pub fn new(adapter: &Adapter, features: Features) -> Result<Arc<Device>> {
        let limits = limits(adapter);
        let is_software = adapter.get_info().device_type == wgpu::DeviceType::Cpu;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("webnn"),
            required_features: required(adapter, features),
            required_limits: limits.clone(),
            experimental_features: permission(features),
            memory_hints: memory_hints(is_software),
            ..Default::default()
        };
        let refused = |error: &dyn std::fmt::Display| {
            let message = format!("the adapter \"{}\" gives no device: {error}", adapter.get_info().name);
            Error::new(Kind::NotSupported, message)
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| refused(&error))?;
        leave_devices_at_exit(end_of_process);
        let loss = Arc::new(Loss::default());
        let on_loss = loss.clone();
        device.set_device_lost_callback(move |_, message| on_loss.set(&format!("the device was lost: {message}")));
        // Errors are looked for where they can happen; one that is found nowhere else must not end the process.
        device.on_uncaptured_error(Arc::new(|_| {}));

        let (orders, taken) = unbounded();
        let (submitted, finished) = unbounded();
        let limit = Arc::new(Limit::wanted(is_software));
        let flight = Arc::new(Flight::new(limit.clone(), loss.clone()));
        let (ending, ended) = bounded(0);
        let (stopping, idle) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let counts = Arc::new(Counts::default());
        let submitter = Submitter {
            device: device.clone(),
            queue: queue.clone(),
            counts: counts.clone(),
            unsubmitted: Cell::default(),
            staging: Arc::default(),
            submitted,
            flight: flight.clone(),
            loss: loss.clone(),
            clock: Arc::new(Clock::new(queue.get_timestamp_period())),
            stopping: stopping.clone(),
        };
        let waiter = Waiter {
            device: device.clone(),
            queue: queue.clone(),
            flight,
            limit: limit.clone(),
            loss: loss.clone(),
            idle: idle.clone(),
            is_software,
        };
        let start =
            |name: &str, work: Box<dyn FnOnce() + Send>| crate::thread::start(name, work).map_err(|error| refused(&error));
        let also_ending = ending.clone();
        start("webnn gpu", Box::new(move || submitter.run(&taken, ending)))?;
        start("webnn gpu wait", Box::new(move || waiter.run(&finished, also_ending)))?;
        // It watches how long the device takes.
        crate::runtime::spawn(async {}).map_err(|error| refused(&error))?;

        let pipelines = Pipelines::default();
        let target = target(features, &limits);
        let graphs = AtomicUsize::new(0);
        let device = Arc::new(Device {
            device,
            queue,
            target,
            is_software,
            pipelines,
            constants: Constants::default(),
            graphs,
            staged: AtomicUsize::new(0),
            orders,
            loss,
            limit,
            counts,
        });
        let mut devices = lock(&DEVICES);
        devices.retain(|other| !other.is_at_rest(Instant::now()));
        devices.push(InUse { device: Arc::downgrade(&device), is_software, stopping, ended, idle });
        Ok(device)
    }

    /// Orders work. It fails with `InvalidStateError` when the context is refused everything before its turn comes.
    pub fn order(&self, job: Job, asked: &Arc<Asked>) {
        let queued_job = Arc::new(QueuedJob { job: Mutex::new(Some(job)), asked: asked.clone() });
        asked.add(|waiting| waiting.queued.push(Arc::downgrade(&queued_job)));
        // When the thread has ended the job is dropped, which reports it.
        let _ = self.orders.send(Order::Job(queued_job));
    }

    pub fn graph_begins(&self) {
        self.graphs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn graph_ends(&self) {
        if self.graphs.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.pipelines.idle();
        }
        if self.pipelines.were_let_go() {
            let _ = self.orders.send(Order::LetGo);
        }
    }

    /// Constants of so many bytes are being copied. Without a submission all of them would be in memory twice until something is executed.
    pub fn stages(&self, bytes: usize) {
        if self.staged.fetch_add(bytes, Ordering::Relaxed) + bytes >= STAGED {
            self.staged.store(0, Ordering::Relaxed);
            let _ = self.orders.send(Order::LetGo);
        }
    }

    pub fn is_lost(&self) -> bool {
        self.loss.get().is_some()
    }

    /// Calls back once when the device is lost, or now if it is, as long as the result lives.
    pub fn on_lost(&self, notify: OnLost) -> Arc<Listener> {
        self.loss.on_lost(notify)
    }

    /// The pipeline of a shader, whose entry point is `main`.
    ///
    /// # Errors
    /// `OperationError` when the device does not take it.
    pub fn pipeline(&self, label: &str, text: &str) -> Result<wgpu::ComputePipeline> {
        self.pipelines.get((&self.device, &self.loss), label, text)
    }

    /// How many were made.
    pub fn pipeline_count(&self) -> usize {
        self.pipelines.count()
    }

    /// A tensor's memory, zeros.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn storage(&self, length: usize) -> Result<DeviceStorage> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        Ok(DeviceStorage::new(self.buffer(length, usage)?))
    }

    /// A buffer of zeros, long enough for whole words.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn buffer(&self, length: usize, usage: BufferUsages) -> Result<wgpu::Buffer> {
        let size = (length.max(1) as u64).next_multiple_of(4);
        if size > self.target.max_buffer_size as u64 || (self.is_software && !crate::memory::is_at_hand(length)) {
            let most = self.target.max_buffer_size;
            let message = format!("cannot allocate {length} bytes on the device (its buffers have at most {most} bytes)");
            return Err(Error::new(Kind::Unknown, message));
        }
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        self.counts.buffer();
        self.checked(|| Ok(self.device.create_buffer(&descriptor)))
    }

    /// The commands that copy ranges of buffers.
    pub fn copies(&self, copies: &[CopyRange<DeviceStorage>]) -> wgpu::CommandBuffer {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        for CopyRange { from, first, to, at, length } in copies {
            let (first, at) = ((from.offset + first) as u64, (to.offset + at) as u64);
            encoder.copy_buffer_to_buffer(&from.buffer, first, &to.buffer, at, (*length as u64).next_multiple_of(4));
        }
        encoder.finish()
    }

    /// Whether it tells when passes begin and end.
    pub fn has_times(&self) -> bool {
        self.device.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    /// Does something with the device, and makes its complaints errors.
    pub fn checked<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        checked(&self.device, &self.loss, work)
    }

    /// Destroys the device, as a driver does that fails.
    pub fn destroy(&self) {
        self.device.destroy();
        self.loss.set("the device was lost: destroyed");
    }
}

fn target(features: Features, limits: &wgpu::Limits) -> Target {
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    Target {
        features,
        max_storage_buffer_binding_size: size(limits.max_storage_buffer_binding_size),
        max_buffer_size: size(limits.max_buffer_size),
        max_storage_buffers_per_shader_stage: limits.max_storage_buffers_per_shader_stage as usize,
        max_compute_workgroups_per_dimension: limits.max_compute_workgroups_per_dimension as usize,
        max_compute_workgroup_storage_size: limits.max_compute_workgroup_storage_size as usize,
        opens_shapes: opens_shapes(),
    }
}

/// All that the adapter offers, or with the variable `WEBNN_GPU_LIMITS=least` what WebGPU promises of every device, phones among
/// them: 8 buffers of a shader, 128 MiB of each, 16 KiB for a workgroup. The variable `WEBNN_GPU_BINDING_SIZE` lowers how much memory is
/// bound at once, so that the division of larger tensors can be tested with small ones.
fn limits(adapter: &Adapter) -> wgpu::Limits {
    let mut limits = adapter.limits();
    if std::env::var("WEBNN_GPU_LIMITS").is_ok_and(|value| value == "least") {
        limits = wgpu::Limits::default().or_worse_values_from(&limits);
    }
    let wanted = std::env::var("WEBNN_GPU_BINDING_SIZE").ok().and_then(|text| text.trim().parse().ok());
    let size = &mut limits.max_storage_buffer_binding_size;
    *size = wanted.unwrap_or(*size).clamp(LEAST_BINDING, *size);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::open::open;
    use crate::backend::wgpu::runtime::adapter::AdapterRequest;
    use crate::backend::wgpu::runtime::waiting::Reading;
    use crate::done::Done;
    use crate::memory::Bytes;

    fn device() -> Option<Arc<Device>> {
        let found = open(AdapterRequest { software: true, ..AdapterRequest::default() });
        found.inspect_err(|error| println!("not tested: {}", error.message())).ok()
    }

    /// As the context was lost: the device is gone before its threads are.
    #[test]
    fn the_driver_is_in_use_until_the_threads_have_ended_and_nothing_is_computed() {
        let (ending, ended) = bounded::<()>(0);
        let idle = Arc::new(AtomicBool::new(false));
        let stopping = Arc::new(AtomicBool::new(false));
        let devices = [InUse { device: Weak::new(), is_software: false, stopping: stopping.clone(), ended, idle: idle.clone() }];
        assert!(!stop(&devices, Instant::now()), "a thread is in the driver");
        assert!(stopping.load(Ordering::Relaxed));
        drop(ending);
        assert!(!stop(&devices, Instant::now()), "a dispatch was given up and goes on");
        idle.store(true, Ordering::Release);
        assert!(stop(&devices, Instant::now()));
    }

    #[test]
    fn a_device_of_hardware_that_is_there_at_the_exit_keeps_the_functions_of_its_driver_from_running() {
        let idle = Arc::new(AtomicBool::new(true));
        for (is_software, was_there, expected) in
            [(true, true, true), (true, false, true), (false, true, false), (false, false, true)]
        {
            // Its threads have ended.
            let (_, ended) = bounded::<()>(0);
            let device = InUse { device: Weak::new(), is_software, stopping: Arc::default(), ended, idle: idle.clone() };
            assert_eq!(device.may_exit(Instant::now(), was_there), expected, "{is_software} {was_there}");
        }
    }

    #[test]
    fn a_shader_that_is_refused_is_an_error_with_its_label() {
        let Some(device) = device() else { return };
        for text in ["fn main( {", "@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }", "fn other() {}"] {
            let error = device.pipeline("the label", text).unwrap_err();
            assert_eq!(error.kind(), Kind::Operation);
            assert!(error.message().contains("the label"), "{error}");
        }
        // The device is none the worse for it.
        device.pipeline("good", "@compute @workgroup_size(1) fn main() {}").unwrap();
    }

    #[test]
    fn pipelines_that_nobody_uses_are_bounded_by_their_bytes() {
        let Some(device) = device() else { return };
        // Each counts for some 6 MiB.
        let text = |i: usize| format!("/*{}{i}*/ @compute @workgroup_size(1) fn main() {{}}", " ".repeat(100_000));
        // Those of the device are other tests' as well.
        let pipelines = Pipelines::default();
        for i in 0..24 {
            pipelines.get((&device.device, &device.loss), "long", &text(i)).unwrap();
        }
        let (count, bytes) = pipelines.cached();
        assert!(bytes <= 64 << 20 && (9..12).contains(&count), "{count} pipelines of {bytes} bytes");
        pipelines.idle();
        let (count, bytes) = pipelines.cached();
        assert!(bytes <= 16 << 20 && count == 2, "{count} pipelines of {bytes} bytes");
    }

    #[test]
    fn what_was_asked_for_is_refused_at_once_however_busy_the_device_is() {
        let Some(device) = device() else { return };
        let asked = Arc::new(Asked::default());
        let (sender, reports) = unbounded();
        // No thread takes this one's turn.
        let storage = Arc::new(device.storage(4).unwrap());
        let done = Done::new(move |result: Result<()>| drop(sender.send(result.unwrap_err().message().to_owned())));
        let job = Job::Write { to: storage, bytes: Bytes::zeroed(4).unwrap(), done };
        let queued_job = Arc::new(QueuedJob { job: Mutex::new(Some(job)), asked: asked.clone() });
        asked.add(|waiting| waiting.queued.push(Arc::downgrade(&queued_job)));
        asked.refuse("it was destroyed");
        assert_eq!(reports.try_recv().as_deref(), Ok("it was destroyed"));
        assert!(lock(&queued_job.job).is_none());
        // Later work too.
        let (sender, reports) = unbounded();
        let (into, _) = crate::host_memory::leaked(4);
        let reading = Reading::new(into, Done::new(move |result: Result<()>| sender.send(result.is_ok()).unwrap()));
        asked.add(|waiting| waiting.readings.push(reading.downgrade()));
        assert_eq!(reports.try_recv(), Ok(false));
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        let Some(device) = device() else { return };
        for length in [usize::MAX / 2, 1 << 50] {
            let error = device.buffer(length, BufferUsages::STORAGE).unwrap_err();
            assert_eq!(error.kind(), Kind::Unknown);
            assert!(error.message().contains(&length.to_string()), "{error}");
        }
    }
}
