//! A device: shared by all contexts of an adapter, with a thread that submits and one that waits.
//!
//! Work reaches the device in the order in which it is ordered here, so a piece of work may be reported as done as soon as it
//! is submitted: whatever is submitted later comes after it. Only reading waits for the device.

use super::adapter::Features;
use super::executable::Executable;
use super::shader::Pipelines;
use super::storage::Storage;
use super::waiting::{Flight, Limit, PATIENCE_AT_EXIT, Reading, Submission, Waiter, WeakReading};
use crate::backend::Bindings;
use crate::error::{Error, Kind, Result};
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use crate::timeline::Done;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use wgpu::{Adapter, BufferUsages, ErrorFilter};

/// Every device's alignment of bindings divides this.
const LEAST_BINDING: u64 = 256;

pub struct Device {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub features: Features,
    pub limits: wgpu::Limits,
    /// Whether it computes on the CPU, in the machine's own memory.
    pub is_software: bool,
    pub pipelines: Pipelines,
    /// How many graphs there are.
    graphs: AtomicUsize,
    orders: Sender<Order>,
    /// Nothing more is submitted.
    stopping: Arc<AtomicBool>,
    /// Disconnected when both threads have ended.
    ended: Receiver<()>,
    loss: Arc<Loss>,
    /// How long it may take for what was submitted.
    pub limit: Arc<Limit>,
}

/// Something to do for a context.
pub enum Job {
    Write { to: Arc<Storage>, bytes: Bytes, done: Done<()> },
    Read { from: Arc<Storage>, into: HostBuffer, done: Done<()> },
    Execute { graph: Arc<Executable>, bindings: Bindings<Storage>, done: Done<()> },
}

enum Order {
    Job(Arc<Turn>),
    Stop,
}

/// A job until its turn comes. Its context may take it away before.
struct Turn {
    job: Mutex<Option<Job>>,
    asked: Arc<Asked>,
}

/// What a context waits for, so that it can be refused at once: the device may be busy for as long as it likes.
#[derive(Default)]
pub struct Asked(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Why nothing more is done for the context.
    refused: Option<String>,
    turns: Vec<Weak<Turn>>,
    readings: Vec<WeakReading>,
    /// So many were alive when they were last looked through.
    alive: usize,
}

impl Asked {
    /// Refuses everything that was asked for and is asked for later. Nobody writes to the caller's memory any more
    /// when this returns.
    pub fn refuse(&self, why: &str) {
        let (turns, readings) = {
            let mut waiting = lock(&self.0);
            waiting.refused.get_or_insert_with(|| why.to_owned());
            (std::mem::take(&mut waiting.turns), std::mem::take(&mut waiting.readings))
        };
        for turn in turns.iter().filter_map(Weak::upgrade) {
            let job = lock(&turn.job).take();
            if let Some(job) = job {
                job.refuse(why);
            }
        }
        for reading in readings.iter().filter_map(WeakReading::upgrade) {
            reading.finish(|_| Err(Error::new(Kind::InvalidState, why.to_owned())));
        }
    }

    fn refused(&self) -> Option<String> {
        lock(&self.0).refused.clone()
    }

    fn add(&self, add: impl FnOnce(&mut Waiting)) {
        let refused = {
            let mut waiting = lock(&self.0);
            if waiting.turns.len() + waiting.readings.len() > 2 * waiting.alive + 64 {
                waiting.turns.retain(|turn| turn.strong_count() > 0);
                waiting.readings.retain(|reading| reading.upgrade().is_some());
                waiting.alive = waiting.turns.len() + waiting.readings.len();
            }
            add(&mut waiting);
            waiting.refused.clone()
        };
        if let Some(why) = refused {
            self.refuse(&why);
        }
    }
}

/// Whether the device was lost, and who wants to know.
#[derive(Default)]
pub struct Loss(Mutex<(Option<String>, Vec<Weak<Listener>>)>);

/// Is told once when the device is lost.
pub struct Listener(Mutex<Option<Tell>>);

type Tell = Box<dyn FnOnce(String) + Send>;

/// Nothing that runs under these locks leaves the contents half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    fn tell(&self, message: String) {
        if let Some(tell) = lock(&self.0).take() {
            tell(message);
        }
    }
}

impl Loss {
    pub fn set(&self, message: &str) {
        let listeners = {
            let mut state = lock(&self.0);
            state.0.get_or_insert_with(|| message.to_owned());
            std::mem::take(&mut state.1)
        };
        listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.tell(message.to_owned()));
    }

    pub fn message(&self) -> String {
        lock(&self.0).0.clone().unwrap_or_else(|| "the device was lost".to_owned())
    }
}

/// All devices of the process, for its end.
static DEVICES: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

/// Stops the use of all devices: drivers crash when a thread uses one while the process exits. It should be called before
/// the exit begins, since drivers register functions for it at any time, and those run first that were registered last.
///
/// Called again it finds nothing left to wait for. Tells whether all devices are at rest.
pub fn end_of_process() -> bool {
    let mut at_rest = lock(&AT_REST);
    let devices: Vec<Arc<Device>> = std::mem::take(&mut *lock(&DEVICES)).iter().filter_map(Weak::upgrade).collect();
    for device in &devices {
        device.stopping.store(true, Ordering::Relaxed);
        let _ = device.orders.send(Order::Stop);
    }
    let last = Instant::now() + PATIENCE_AT_EXIT;
    for device in devices {
        // The threads send nothing: what they had is dropped when they end.
        let ended = matches!(device.ended.recv_deadline(last), Err(RecvTimeoutError::Disconnected));
        *at_rest = *at_rest && ended;
        // Never dropped: the driver is not to be touched any more.
        std::mem::forget(device);
    }
    *at_rest
}

/// Whether all devices were at rest when the process ended.
static AT_REST: Mutex<bool> = Mutex::new(true);

impl Device {
    pub fn new(adapter: &Adapter, features: Features) -> Result<Arc<Device>> {
        let limits = limits(adapter);
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("webnn"),
            required_features: features.required(),
            required_limits: limits.clone(),
            experimental_features: super::experimental::permission(features),
            ..Default::default()
        };
        let refused = |error: &dyn std::fmt::Display| {
            let message = format!("the adapter \"{}\" gives no device: {error}", adapter.get_info().name);
            Error::new(Kind::NotSupported, message)
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).map_err(|error| refused(&error))?;
        let loss = Arc::new(Loss::default());
        let on_loss = loss.clone();
        device.set_device_lost_callback(move |_, message| on_loss.set(&format!("the device was lost: {message}")));
        // Errors are looked for where they can happen; one that is found nowhere else must not end the process.
        device.on_uncaptured_error(Arc::new(|_| {}));

        let (orders, taken) = unbounded();
        let (submitted, finished) = unbounded();
        let is_software = adapter.get_info().device_type == wgpu::DeviceType::Cpu;
        let limit = Arc::new(Limit::wanted(is_software));
        let flight = Arc::new(Flight::default());
        let (ending, ended) = bounded(0);
        let stopping = Arc::new(AtomicBool::new(false));
        let submitter = Submitter {
            device: device.clone(),
            queue: queue.clone(),
            submitted,
            flight: flight.clone(),
            loss: loss.clone(),
            stopping: stopping.clone(),
        };
        let waiter = Waiter {
            device: device.clone(),
            queue: queue.clone(),
            flight: flight.clone(),
            limit: limit.clone(),
            loss: loss.clone(),
        };
        let start =
            |name: &str, work: Box<dyn FnOnce() + Send>| crate::thread::start(name, work).map_err(|error| refused(&error));
        let also_ending = ending.clone();
        start("webnn gpu", Box::new(move || submitter.run(&taken, ending)))?;
        start("webnn gpu wait", Box::new(move || waiter.run(&finished, also_ending)))?;
        let (most, lost) = (limit.clone(), loss.clone());
        start("webnn gpu watch", Box::new(move || flight.watch(&most, &lost)))?;

        let pipelines = Pipelines::default();
        let graphs = AtomicUsize::new(0);
        let device =
            Device { device, queue, features, limits, is_software, pipelines, graphs, orders, stopping, ended, loss, limit };
        let device = Arc::new(device);
        let mut devices = lock(&DEVICES);
        devices.retain(|other| other.strong_count() > 0);
        devices.push(Arc::downgrade(&device));
        Ok(device)
    }

    /// Orders work. It fails with `InvalidStateError` when the context is refused everything before its turn comes.
    pub fn order(&self, job: Job, asked: &Arc<Asked>) {
        let turn = Arc::new(Turn { job: Mutex::new(Some(job)), asked: asked.clone() });
        asked.add(|waiting| waiting.turns.push(Arc::downgrade(&turn)));
        // When the thread has ended the job is dropped, which reports it.
        let _ = self.orders.send(Order::Job(turn));
    }

    pub fn graph_begins(&self) {
        self.graphs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn graph_ends(&self) {
        if self.graphs.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.pipelines.idle();
        }
    }

    pub fn is_lost(&self) -> bool {
        lock(&self.loss.0).0.is_some()
    }

    /// Calls back once when the device is lost, or now if it is, as long as the result lives.
    pub fn on_lost(&self, tell: Tell) -> Arc<Listener> {
        let listener = Arc::new(Listener(Mutex::new(Some(tell))));
        let already = {
            let mut state = lock(&self.loss.0);
            state.1.retain(|other| other.strong_count() > 0);
            state.1.push(Arc::downgrade(&listener));
            state.0.clone()
        };
        if let Some(message) = already {
            listener.tell(message);
        }
        listener
    }

    /// A buffer of zeros, long enough for whole words.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    pub fn buffer(&self, length: usize, usage: BufferUsages) -> Result<wgpu::Buffer> {
        let size = (length.max(1) as u64).next_multiple_of(4);
        if size > self.limits.max_buffer_size || (self.is_software && !crate::memory::is_at_hand(length)) {
            let most = self.limits.max_buffer_size;
            let message = format!("{length} bytes of the device's memory cannot be had (its buffers have at most {most} bytes)");
            return Err(Error::new(Kind::Unknown, message));
        }
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        self.checked(|| Ok(self.device.create_buffer(&descriptor)))
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

/// All that the adapter offers. The variable `WEBNN_GPU_BINDING_SIZE` lowers how much memory is bound at once, so that the
/// division of larger tensors can be tested with small ones.
fn limits(adapter: &Adapter) -> wgpu::Limits {
    let mut limits = adapter.limits();
    let wanted = std::env::var("WEBNN_GPU_BINDING_SIZE").ok().and_then(|text| text.trim().parse().ok());
    let size = &mut limits.max_storage_buffer_binding_size;
    *size = wanted.unwrap_or(*size).clamp(LEAST_BINDING, *size);
    limits
}

fn checked<T>(device: &wgpu::Device, loss: &Loss, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let lost = || lock(&loss.0).0.clone().map(|message| Error::new(Kind::InvalidState, message));
    // One that hangs is not given more to do.
    if let Some(error) = lost() {
        return Err(error);
    }
    let memory = device.push_error_scope(ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(ErrorFilter::Validation);
    let internal = device.push_error_scope(ErrorFilter::Internal);
    let result = work();
    let complaints = [internal.pop(), validation.pop()].map(pollster::block_on);
    if let Some(error) = lost() {
        return Err(error);
    }
    if let Some(error) = pollster::block_on(memory.pop()) {
        return Err(Error::new(Kind::Unknown, format!("the device's memory is used up: {error}")));
    }
    match complaints.into_iter().flatten().next() {
        Some(error) => Err(Error::new(Kind::Operation, format!("the device refuses: {error}"))),
        None => result,
    }
}

/// The thread that submits.
struct Submitter {
    device: wgpu::Device,
    queue: wgpu::Queue,
    submitted: Sender<Submission>,
    flight: Arc<Flight>,
    loss: Arc<Loss>,
    stopping: Arc<AtomicBool>,
}

impl Submitter {
    fn run(self, orders: &Receiver<Order>, ending: Sender<()>) {
        while let Ok(Order::Job(turn)) = orders.recv() {
            // Waits when the device is far behind. Until then the job can be taken away.
            self.flight.enter();
            let Turn { job, asked } = &*turn;
            let job = lock(job).take();
            let submitted = match job {
                None => None,
                Some(job) if self.stopping.load(Ordering::Relaxed) => {
                    job.refuse(&asked.refused().unwrap_or_else(|| "the process ends".into()));
                    None
                }
                Some(Job::Write { to, bytes, done }) => {
                    let written = self.write(&to, &bytes);
                    drop((to, bytes));
                    reported(written, done)
                }
                Some(Job::Read { from, into, done }) => self.read(&from, into, done, asked),
                Some(Job::Execute { graph, bindings, done }) => {
                    let executed = self.execute(&graph, &bindings);
                    // The storage is let go before the end is reported: it may be the last reference.
                    drop((graph, bindings));
                    reported(executed, done)
                }
            };
            match submitted {
                Some(index) => drop(self.submitted.send(index)),
                None => self.flight.leave(),
            }
        }
        // What was ordered since is dropped, and so reported.
        while orders.try_recv().is_ok() {}
        drop(self);
        drop(ending);
    }

    fn checked<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        checked(&self.device, &self.loss, work)
    }

    fn write(&self, to: &Storage, bytes: &[u8]) -> Result<Submission> {
        #[cfg(feature = "faults")]
        crate::faults::at(crate::faults::Place::Write)?;
        self.checked(|| {
            let (whole, rest) = bytes.split_at(bytes.len() & !3);
            if !whole.is_empty() {
                self.queue.write_buffer(&to.buffer, 0, whole);
            }
            if !rest.is_empty() {
                let mut word = [0; 4];
                word[..rest.len()].copy_from_slice(rest);
                self.queue.write_buffer(&to.buffer, whole.len() as u64, &word);
            }
            // Without this the copies would pile up until something is executed.
            Ok(self.queue.submit([]))
        })
    }

    fn read(&self, from: &Storage, into: HostBuffer, done: Done<()>, asked: &Asked) -> Option<Submission> {
        #[cfg(feature = "faults")]
        if let Err(error) = crate::faults::at(crate::faults::Place::Read) {
            done.report(Err(error));
            return None;
        }
        let size = from.buffer.size();
        let staged = self.checked(|| {
            let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
            let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
            let staging = self.device.create_buffer(&descriptor);
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&from.buffer, 0, &staging, 0, size);
            Ok((staging, encoder.finish()))
        });
        let (staging, commands) = match staged {
            Ok(staged) => staged,
            Err(error) => {
                done.report(Err(error));
                return None;
            }
        };
        let reading = Reading::new(into, done);
        asked.add(|waiting| waiting.readings.push(reading.downgrade()));
        // A driver may wait here for the device; the read can be refused meanwhile.
        let index = self.queue.submit([commands]);
        let mapped = staging.clone();
        let answered = reading.clone();
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            answered.finish(|into| {
                let fail = |error: &dyn std::fmt::Display| {
                    Error::new(Kind::Unknown, format!("the device's memory cannot be read: {error}"))
                };
                result.map_err(|error| fail(&error))?;
                let view = mapped.get_mapped_range(..).map_err(|error| fail(&error))?;
                let length = into.len();
                into.as_mut_slice().copy_from_slice(&view[..length]);
                Ok(())
            });
        });
        Some(index)
    }

    fn execute(&self, graph: &Executable, bindings: &Bindings<Storage>) -> Result<Submission> {
        self.checked(|| {
            let commands = graph.record(bindings)?;
            Ok(self.queue.submit([commands]))
        })
    }
}

/// Reports how a submission went, which needs no waiting for its end.
fn reported(result: Result<Submission>, done: Done<()>) -> Option<Submission> {
    match result {
        Ok(index) => {
            done.report(Ok(()));
            Some(index)
        }
        Err(error) => {
            done.report(Err(error));
            None
        }
    }
}

impl Job {
    fn refuse(self, why: &str) {
        let (Job::Write { done, .. } | Job::Read { done, .. } | Job::Execute { done, .. }) = self;
        done.report(Err(Error::new(Kind::InvalidState, why.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::adapter::{Wish, open};

    fn device() -> Option<Arc<Device>> {
        let found = open(Wish { software: true, ..Wish::default() });
        found.inspect_err(|error| println!("not tested: {}", error.message())).ok()
    }

    #[test]
    fn a_shader_that_is_refused_is_an_error_with_its_label() {
        let Some(device) = device() else { return };
        for text in ["fn main( {", "@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }", "fn other() {}"] {
            let error = device.pipelines.get(&device, "the label", text.to_owned()).unwrap_err();
            assert_eq!(error.kind(), Kind::Operation);
            assert!(error.message().contains("the label"), "{error}");
        }
        // The device is none the worse for it.
        device.pipelines.get(&device, "good", "@compute @workgroup_size(1) fn main() {}".to_owned()).unwrap();
    }

    #[test]
    fn pipelines_that_nobody_uses_are_bounded_by_their_bytes() {
        let Some(device) = device() else { return };
        // Each counts for some 6 MiB.
        let text = |i: usize| format!("/*{}{i}*/ @compute @workgroup_size(1) fn main() {{}}", " ".repeat(100_000));
        for i in 0..24 {
            device.pipelines.get(&device, "long", text(i)).unwrap();
        }
        let (count, bytes) = device.pipelines.kept();
        assert!(bytes <= 64 << 20 && (9..12).contains(&count), "{count} pipelines of {bytes} bytes");
        device.pipelines.idle();
        let (count, bytes) = device.pipelines.kept();
        assert!(bytes <= 16 << 20 && count == 2, "{count} pipelines of {bytes} bytes");
    }

    #[test]
    fn what_was_asked_for_is_refused_at_once_however_busy_the_device_is() {
        let Some(device) = device() else { return };
        let asked = Arc::new(Asked::default());
        let (sender, reports) = unbounded();
        // No thread takes this one's turn.
        let storage = Arc::new(Storage::new(&device, 4).unwrap());
        let done = Done::new(move |result: Result<()>| drop(sender.send(result.unwrap_err().message().to_owned())));
        let job = Job::Write { to: storage, bytes: Bytes::zeroed(4).unwrap(), done };
        let turn = Arc::new(Turn { job: Mutex::new(Some(job)), asked: asked.clone() });
        asked.add(|waiting| waiting.turns.push(Arc::downgrade(&turn)));
        asked.refuse("it was destroyed");
        assert_eq!(reports.try_recv().as_deref(), Ok("it was destroyed"));
        assert!(lock(&turn.job).is_none());
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
