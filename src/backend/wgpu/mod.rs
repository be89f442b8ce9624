//! The GPU backend, on wgpu: all of it on any device that Vulkan, Metal or Direct3D 12 reaches.
//!
//! # How it works
//!
//! Three layers, each of which knows those above it in this list only (`tests/architecture.rs`):
//!
//! * [`shader`] is WGSL text: how the elements of each data type lie in memory, and functions that WGSL lacks. It depends on
//!   the [`target`] alone, which is what a device can do, without the device.
//! * [`lower`] makes a schedule's steps *dispatches*: a shader, the memory that it binds, a grid. Memory is a part of an input's,
//!   output's or constant's buffer, or of the graph's one arena, at the schedule's offsets. Runs of a graph follow each other on
//!   the device, so one arena is enough. What comes out is a [`program`], plain data that says nothing about what runs it.
//! * [`runtime`] runs programs, and is the only one that knows wgpu. A run records all dispatches in one command buffer.
//!   Equal texts share a pipeline. [`open`] finds a device, which is shared by all contexts of an adapter. A thread of its own
//!   submits work in the order in which it is ordered; later work comes after earlier work on the device too, so writing and
//!   executing are reported as done when they are submitted, and chained dispatches wait for nobody. A second thread waits for
//!   the device, and gives it up when it takes too long ([`runtime::waiting`]).
//!
//! # Elements in memory, and in shaders
//!
//! Shaders compute with five types ([`shader::Scalar`]): `f32` (for float32 and float16), `i32` (int32, int8, int4), `u32`
//! (uint32, uint8, uint4), and pairs of words `vec2<u32>` for both 64-bit types. How elements lie in memory is another matter
//! ([`shader::Layout`]): 8-bit and 4-bit types share words, and so does float16 on devices without the feature; and what is
//! larger than the device binds at once is several arrays. A kernel does not see this:
//!
//! * `Kernel::reads(lowering, "a", &tensor)` gives it `a(i)`, element number `i` as the scalar;
//! * `Kernel::each(lowering, &output, body)` makes `body` the body of `fn element(i: u32) -> T`, which is called for every
//!   element; one invocation owns a whole word of the output, so nothing is written twice. Integers are wrapped to the range
//!   of the data type when they are written, float16 is rounded (once, to nearest even, by the prelude's own function).
//! * A kernel with an entry point of its own (workgroup memory, several outputs) uses `Kernel::writes` and `Kernel::run`;
//!   its outputs must not share words (`Lowering::is_written_alone`). For a data type that does, write a
//!   `Lowering::temporary` of float32, int32 or uint32 and `Lowering::convert` it.
//!
//! Scalar-generic WGSL is put together with [`shader::Scalar`]'s methods (`add`, `mul`, `lt`, `call("max", …)`); functions
//! that WGSL lacks, or that drivers get wrong, are in `shader/prelude.wgsl` and become part of the shaders that mention them:
//! `max_f32` (NaN-keeping), `exp_f32`, `log_f32`, `tanh_f32`, `is_nan`, `nan()`, `infinity()`, `div_i64`, …  Positions are
//! made with [`Strided::at`](crate::backend::strided::Strided) (any strided view: broadcast, transposed, sliced, reversed,
//! tiled) and [`shader::coordinates`].
//!
//! # Shapes in shaders
//!
//! Numbers that come from shapes are [`shader::size`]s in the text of a kernel: marks that become literals at the end, with which
//! drivers divide quickly and unroll loops, or fields of a uniform buffer. The latter in graphs of a model whose inputs change their
//! shapes, so that each new length has the texts of the last one and compiles no pipeline. Everything else of a text must not depend
//! on sizes but by classes of them, each a kernel of its own: sizes of 1, tiles of products, rows that fit into registers, sums by
//! workgroups ([`lower::lowering::Lowering::is_open`]). What weights and options decide (windows, channels, groups, hidden sizes)
//! is literal, and so are sizes of arrays. `open_cases.txt` has calls of all operators whose texts are compared.
//!
//! # Adding an operator
//!
//! A function in its family's file in `lower/` and a line in the `match` of `lower/mod.rs`. It gets the node and
//! [`lower::lowering::Operands`], whose `input(op.a)` and `output()` are tensors with static shapes, and adds as many dispatches as it
//! needs; they run in order, each after the one before has finished. An operator that is a composition of others makes
//! temporaries and calls their functions. Node by node:
//!
//! ```text
//! pub fn triangular(lowering: &mut Lowering<'_>, op: &Triangular, operands: &Operands) -> Result<()> {
//!     let (input, output) = (operands.input(op.input), operands.output());
//!     Kernel::new("triangular").reads(lowering, "input", input).each(lowering, output, "…; return input(i);")
//! }
//! ```
//!
//! Heads of fusion (conv2d, matmul, gemm) do what is fused as well: `elementwise::finish(kernel, lowering, operands,
//! data_type)` declares `finish(i, x)`, which makes element `i` of the output out of the operator's own value `x`.
//!
//! # Invariants
//!
//! * Indices that come from data are clamped by the kernel; wgpu's bounds checks are on besides.
//! * Errors of the device are looked for with error scopes ([`runtime::device::Device::checked`]); none panics.
//! * Memory that the arena gives is never assumed to be zero, nor what is after a tensor's last element.

mod capabilities;
mod foreign;
pub mod gpu_program;
mod lower;
mod open;
mod runtime;
mod shader;
pub mod target;
mod trial;

pub use foreign::{Common, Foreign, Lowered};
pub use runtime::adapter::{self, AdapterRequest};
pub use runtime::counts::Work;
pub use runtime::device::end_of_process;
pub use runtime::executable::Executable;
pub use runtime::storage::DeviceStorage;

use crate::backend::{Backend, Bindings, CopyRange, RunOptions};
use crate::compiler::{ALIGNMENT, Capabilities, Schedule};
use crate::done::Done;
use crate::error::{Error, Kind, Result};
#[cfg(feature = "faults")]
use crate::faults;
use crate::graph::{Descriptor, Limits};
use crate::host_memory::{HostBuffer, Placements};
use crate::memory::{Bytes, Usage};
use capabilities::GpuCapabilities;
use runtime::device::Device;
use runtime::findings::Doubts;
use runtime::jobs::{Asked, Job, Recorded};
use runtime::loss::Listener;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The backend of one context.
#[derive(Clone)]
pub struct Gpu(Arc<GpuContext>);

struct GpuContext {
    device: Arc<Device>,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    asked: Arc<Asked>,
    /// Who is to hear of the device's loss.
    listener: OnceLock<Arc<Listener>>,
    capabilities: GpuCapabilities,
}

impl Gpu {
    /// A backend on the adapter that fits the request. May take long: it loads drivers.
    ///
    /// # Errors
    /// `NotSupportedError` when there is none.
    pub fn new(request: AdapterRequest) -> Result<Self> {
        Ok(Self::on(open::open(request)?))
    }

    fn on(device: Arc<Device>) -> Self {
        let limits = device.target.limits();
        Gpu(Arc::new(GpuContext {
            device,
            limits: Arc::new(limits),
            usage: Arc::default(),
            asked: Arc::default(),
            listener: OnceLock::new(),
            capabilities: GpuCapabilities::new(),
        }))
    }

    /// Whether its adapter computes on the CPU, so that nothing is accelerated.
    pub fn is_software(&self) -> bool {
        self.0.device.is_software
    }

    fn order(&self, job: Job) {
        self.0.device.order(job, &self.0.asked);
    }

    /// How many pipelines the device has made so far, for all its contexts.
    pub fn pipelines(&self) -> usize {
        self.0.device.pipeline_count()
    }

    /// What the device was asked to do so far, by all its contexts.
    pub fn work(&self) -> Work {
        self.0.device.counts.work()
    }

    /// How much memory of the device is in use, where the driver's interface lets us say.
    pub fn allocated_bytes(&self) -> Option<u64> {
        self.0.device.device.generate_allocator_report().map(|report| report.total_allocated_bytes)
    }

    /// Destroys the device, for all its contexts, as a driver does that fails.
    pub fn lose(&self) {
        self.0.device.destroy();
    }

    /// Changes how long the device may take, for all its contexts; nothing is for ever.
    pub fn wait_at_most(&self, limit: Option<Duration>) {
        self.0.device.limit.set(limit);
    }
}

impl Backend for Gpu {
    type Tensor = DeviceStorage;
    type Executable = Executable;

    fn limits(&self) -> &Arc<Limits> {
        &self.0.limits
    }

    fn usage(&self) -> &Arc<Usage> {
        &self.0.usage
    }

    fn allocate(&self, descriptor: &Descriptor) -> Result<DeviceStorage> {
        #[cfg(feature = "faults")]
        faults::at(faults::Place::Allocate)?;
        self.0.device.storage(descriptor.byte_length())
    }

    /// The memory is elsewhere.
    fn adopt(&self, memory: HostBuffer, _: &Descriptor) -> Result<DeviceStorage, HostBuffer> {
        Err(memory)
    }

    fn compile(&self, schedule: Schedule) -> Result<Executable> {
        let ask = || self.capabilities().check();
        let program = lower::lower(&schedule, &self.0.device.target, &ask)?;
        let usage = schedule.shared.usage().unwrap_or(&self.0.usage);
        Executable::new(self.0.device.clone(), program, &schedule.shared, usage, &ask)
    }

    fn plan_bytes(&self, graph: &Executable) -> usize {
        graph.plan_bytes
    }

    fn has_own_memory(&self) -> bool {
        true
    }

    fn part(&self, of: &Arc<DeviceStorage>, first: usize, descriptor: &Descriptor) -> Option<DeviceStorage> {
        let offset = of.offset + first;
        assert!(first.is_multiple_of(ALIGNMENT) && (offset + descriptor.byte_length()) as u64 <= of.buffer.size());
        Some(of.part(offset))
    }

    fn copy(&self, copies: Vec<CopyRange<DeviceStorage>>, done: Done<()>) {
        let device = self.0.device.clone();
        for CopyRange { from, to, .. } in &copies {
            let doubts = from.doubts();
            if let Err(error) = doubts.check() {
                return done.report(Err(error));
            }
            to.forget();
            to.add_doubts(&doubts);
        }
        let commands = Box::new(move || Ok(Recorded { commands: device.copies(&copies), timestamps: None }));
        self.order(Job::Execute { commands, done });
    }

    fn placements_in_tensors(&self, graph: &Executable) -> Placements {
        graph.placements().clone()
    }

    fn capabilities(&self) -> &dyn Capabilities {
        &self.0.capabilities
    }

    fn write(&self, to: &Arc<DeviceStorage>, bytes: Bytes, done: Done<()>) {
        to.remember(&bytes);
        self.order(Job::Write { to: to.clone(), bytes, done });
    }

    fn read(&self, from: &Arc<DeviceStorage>, into: HostBuffer, done: Done<()>) {
        let doubts = from.doubts();
        match doubts.check_read() {
            Ok(()) => self.order(Job::Read { from: from.clone(), doubts, into, done }),
            Err(error) => done.report(Err(error)),
        }
    }

    fn execute(&self, graph: &Arc<Executable>, bindings: Bindings<DeviceStorage>, options: RunOptions, done: Done<()>) {
        let mut doubts = Doubts::default();
        bindings.inputs.iter().for_each(|input| doubts.add_all(&input.doubts()));
        let look = match doubts.check() {
            Ok(()) => graph.check(&bindings.inputs),
            Err(cause) => {
                let message = format!("an input is errored: {}", cause.message());
                Err(Error::new(Kind::Operation, message).caused_by(cause))
            }
        };
        let look = match look {
            Ok(look) => look,
            Err(error) => return done.report(Err(error)),
        };
        look.findings.iter().for_each(|findings| doubts.add(findings));
        for output in bindings.outputs.iter().flatten() {
            output.forget();
            output.replace_doubts(doubts.clone());
        }
        let graph = graph.clone();
        // What was submitted is not stopped.
        let commands = Box::new(move || options.watch.begin().and_then(|()| graph.record(&bindings, &look, &options.watch)));
        self.order(Job::Execute { commands, done });
        if let Some(doubts) = doubts.overdue() {
            self.order(Job::Learn { doubts });
        }
    }

    fn on_lost(&self, tell: Box<dyn FnOnce(String) + Send>) {
        let asked = self.0.asked.clone();
        let report = move |message: String| {
            asked.refuse(&message);
            tell(message);
        };
        let _ = self.0.listener.set(self.0.device.on_lost(Box::new(report)));
    }

    fn cancel(&self) {
        self.0.asked.refuse("the context was destroyed");
        self.0.capabilities.cancel();
    }
}
