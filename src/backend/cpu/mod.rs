//! The CPU backend: storage in host memory, graphs as lists of steps, kernels on threads that all contexts of the process share.

mod affinity;
mod aligned;
mod capabilities;
mod checks;
pub mod copy;
mod cost;
mod crew;
mod dispatch;
pub mod element;
mod executable;
#[cfg(test)]
mod folding_tests;
mod idle_policy;
mod incoming;
mod kernels;
mod packings;
mod profile;
pub mod reference;
#[cfg(test)]
mod run_order_tests;
mod run_queue;
mod run_time;
pub mod scratch;
mod storage;
mod streams;
#[cfg(test)]
pub mod testing;
mod thread_pool;
pub mod threads;
pub mod view;

use crate::cancel::Cancel;
use capabilities::CpuCapabilities;
use crew::Crew;
use dispatch::{ANY_SIZE, Target};
pub use executable::Executable;
use idle_policy::IdlePolicy;
use run_queue::{ActiveRun, Alone, Runs};
use storage::Contents;
pub use storage::HostStorage;
pub use streams::Performance;
use streams::Streams;

use crate::backend::{Backend, Bindings, CommonPart, HostThread, Place, RunOptions};
use crate::compiler::{Capabilities, Schedule};
use crate::cores;
use crate::done::Done;
use crate::error::{Error, Kind, Result};
#[cfg(feature = "faults")]
use crate::faults;
use crate::graph::{Descriptor, Limits, Shared};
use crate::host_memory::{HostBuffer, Placements};
use crate::memory::{Bytes, Gone, Usage, note_work};
use crate::watch::{Priority, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Whether the CPU has instructions that multiply 8-bit integers and add the products: VNNI, or the dot products of ARM.
pub fn has_integer_products() -> bool {
    webnn_kernels::int8::has_dot_products(webnn_kernels::isa::Isa::of_this_machine())
}

/// Work of fewer nanoseconds is done by the timeline's own thread alone: any help would cost about as much.
const BRIEF: usize = 30_000;
/// The same for a pool that the timeline's thread dispatches on, if nothing else waits, and where it is the only thread anyway: to
/// wake another thread, and the timeline in the end, takes some tens of microseconds. Short enough for what comes meanwhile.
const SHORT: usize = 10_000_000;

/// Runs of fewer nanoseconds that do not have the timeline's thread wait in the queue for short ones.
const LIGHT: usize = 1_000_000;

/// Reads of so many bytes go to the pool: fresh pages make them slow, and there may be several.
const LONG_READ: usize = 512 << 10;

/// The backend of one context.
#[derive(Clone, Debug)]
pub struct Cpu(Arc<CpuContext>);

#[derive(Debug)]
struct CpuContext {
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    host_thread: Arc<HostThread>,
    target: Target,
    /// Its runs, long and short ones.
    long: Runs,
    short: Runs,
    crew: Arc<Crew>,
    /// How many graphs are being run.
    under_way: AtomicUsize,
    idle_policy: IdlePolicy,
    cancel: Cancel,
    capabilities: CpuCapabilities,
    /// Script may have a context that was destroyed, and so what counts its memory.
    _gone: Gone,
}

impl Cpu {
    /// A backend with that many threads of its own.
    pub fn new(threads: usize) -> Self {
        Cpu::on(Target::of_this_machine(threads.max(1)), Performance::default(), Crew::new(threads))
    }

    /// A backend with threads of the process's, so many of them; 0 means as many as this process may use.
    ///
    /// # Errors
    /// `NotSupportedError` when the environment asks for what is no number of threads.
    pub fn of_process(threads: usize, performance: Performance) -> Result<Self> {
        let (crew, threads) = Crew::of_process(threads)?;
        Ok(Cpu::on(Target::of_this_machine(threads), performance, crew))
    }

    /// One whose kernels take problems of any size, for tests.
    pub fn of_any_size(threads: usize) -> Self {
        let target = Target { tuning: &ANY_SIZE, ..Target::of_this_machine(threads) };
        Cpu::on(target, Performance::default(), Crew::new(threads))
    }

    fn on(target: Target, performance: Performance, crew: Arc<Crew>) -> Self {
        let cancel = Cancel::default();
        let streams = Streams { threads: target.threads, performance };
        Cpu(Arc::new(CpuContext {
            limits: Arc::new(Limits::everything()),
            host_thread: Arc::default(),
            target,
            long: crew.long.enter(streams),
            short: crew.short.enter(streams),
            crew,
            usage: Arc::default(),
            under_way: AtomicUsize::new(0),
            idle_policy: IdlePolicy::new(),
            capabilities: CpuCapabilities { cancel: cancel.clone(), target, is_of_build: true },
            cancel,
            _gone: Gone,
        }))
    }
}

/// A graph that is being run, for as long as this lives.
struct UnderWay {
    shared: Arc<CpuContext>,
    /// No other was when it began.
    is_alone: bool,
}

impl UnderWay {
    fn begin(shared: &Arc<CpuContext>) -> UnderWay {
        note_work();
        UnderWay { is_alone: shared.under_way.fetch_add(1, Ordering::Relaxed) == 0, shared: shared.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.idle_policy.work_ended();
        self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backend for Cpu {
    type Tensor = HostStorage;
    type Executable = Executable;

    fn limits(&self) -> &Arc<Limits> {
        &self.0.limits
    }

    fn usage(&self) -> &Arc<Usage> {
        &self.0.usage
    }

    fn host_thread(&self) -> Option<&Arc<HostThread>> {
        // A single thread is in nobody's way.
        (self.0.target.threads > 1).then_some(&self.0.host_thread)
    }

    fn leaves_a_core(&self) -> bool {
        cores::count() > self.0.target.threads
    }

    fn runs_inline(&self) -> bool {
        true
    }

    fn inline_time(&self, graph: &Executable) -> Duration {
        graph.time_alone()
    }

    fn allocate(&self, descriptor: &Descriptor) -> Result<HostStorage> {
        #[cfg(feature = "faults")]
        faults::at(faults::Place::Allocate)?;
        Ok(HostStorage::new(Contents::Own(Bytes::zeroed(descriptor.byte_length())?)))
    }

    fn adopt(&self, memory: HostBuffer, descriptor: &Descriptor) -> Result<HostStorage, HostBuffer> {
        assert_eq!(memory.len(), descriptor.byte_length());
        // Kernels look at whole elements.
        if memory.is_aligned_to(descriptor.data_type.bits().div_ceil(8)) {
            Ok(HostStorage::new(Contents::Host(memory)))
        } else {
            Err(memory)
        }
    }

    fn compile(&self, schedule: Schedule) -> Result<Executable> {
        Executable::new(schedule, &self.0.usage, &self.0.target, &self.0.cancel.of_run(Watch::current()))
    }

    fn compiles_for(&self) -> Option<String> {
        // What else a target has is the same in all the process, but for tests.
        let Target { isa, caches, threads, fp_math, tuning, switches } = self.0.target;
        let of_tests = (std::ptr::from_ref(tuning), std::ptr::from_ref(switches));
        Some(format!("cpu {} {caches:?} {threads} {fp_math:?} {of_tests:?}", isa.name))
    }

    fn common_part(&self, graph: &Executable) -> Option<CommonPart> {
        Some(graph.compiled().clone())
    }

    fn with_common_part(&self, part: &CommonPart, shared: &Shared) -> Result<Executable> {
        let cannot = |_| Error::new(Kind::NotSupported, "a graph of another backend (internal error)");
        Ok(Executable::of_compiled(part.clone().downcast().map_err(cannot)?, shared, &self.0.usage))
    }

    fn placements(&self, graph: &Executable) -> Placements {
        graph.placements().to_vec()
    }

    fn plan_bytes(&self, graph: &Executable) -> usize {
        graph.plan_bytes()
    }

    fn capabilities(&self) -> &dyn Capabilities {
        &self.0.capabilities
    }

    fn write(&self, to: &Arc<HostStorage>, bytes: Bytes, done: Done<()>) {
        done.run(|| {
            #[cfg(feature = "faults")]
            faults::at(faults::Place::Write)?;
            to.replace(bytes)
        });
    }

    fn read(&self, from: &Arc<HostStorage>, mut into: HostBuffer, done: Done<()>) {
        let from = from.clone();
        let long = into.len() >= LONG_READ && self.0.target.threads > 1;
        let work = move || {
            done.run(|| {
                #[cfg(feature = "faults")]
                faults::at(faults::Place::Read)?;
                into.as_mut_slice().copy_from_slice(&from.read()?);
                drop(from);
                Ok(())
            });
        };
        match if long { self.0.crew.copy_pool() } else { None } {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    fn execute(&self, graph: &Arc<Executable>, bindings: Bindings<HostStorage>, options: RunOptions, done: Done<()>) {
        let cpu = self.clone();
        let executable = graph.clone();
        let estimate = graph.estimate();
        let under_way = UnderWay::begin(&self.0);
        let (number, place, alone) = (options.number, options.place, options.place == Place::Alone && under_way.is_alone);
        let (watch, priority) = (options.watch.clone(), options.priority);
        let work = move |threads, active: Option<&ActiveRun>, alone: Option<Alone<'_>>| {
            done.run(|| {
                // It may have waited for long.
                options.watch.begin()?;
                let cancel = cpu.0.cancel.of_run(options.watch);
                let run =
                    || cancel.during(|| executable.run(&bindings, &cancel, || active.into_iter().for_each(ActiveRun::give_way)));
                let begin = Instant::now();
                let (result, threads) = match thread_pool::help_another(&cancel, run) {
                    Ok(done) => done,
                    Err(run) => match cpu.0.crew.pool(threads) {
                        Some(pool) => {
                            // Whoever copies the inputs needs a core; a pool that waits with us would take it.
                            executable.wait_for_first(&bindings)?;
                            (pool.run(&cancel, &cpu.0.host_thread, run), threads)
                        }
                        None => (run(), 1),
                    },
                };
                if result.is_ok() && bindings.outputs.iter().all(Option::is_some) {
                    executable.took(begin.elapsed().saturating_sub(active.map_or(Duration::ZERO, ActiveRun::paused)), threads);
                }
                // The storage is let go before the end is reported: it may be the last reference. So are the cores: whoever hears of the end
                // may have the next run for them.
                drop((bindings, executable, under_way, alone));
                active.into_iter().for_each(ActiveRun::end);
                result
            });
        };
        // Nothing interrupts what the timeline's thread does.
        let may_be_inline = alone && (priority != Priority::Low || estimate < BRIEF);
        if place == Place::Here || (may_be_inline && estimate < BRIEF) {
            return work(1, None, None);
        }
        if may_be_inline && estimate < SHORT {
            let is_done_alone = self.0.idle_policy.is_done_alone(estimate, self.0.target.threads);
            if let Some(alone) = self.0.long.begin_alone(if is_done_alone { 1 } else { usize::MAX }) {
                return work(alone.threads, None, Some(alone));
            }
        }
        if place != Place::Elsewhere && estimate < BRIEF && self.0.short.is_empty() {
            return work(1, None, None);
        }
        let runs = if estimate < LIGHT { &self.0.short } else { &self.0.long };
        runs.push(number, priority, &watch, move |threads, active| work(threads, Some(active), None));
    }

    fn lift(&self, number: u64, priority: Priority) {
        self.0.short.lift(number, priority);
        self.0.long.lift(number, priority);
    }

    fn cancel(&self) {
        self.0.cancel.cancel();
        self.0.short.give_up();
        self.0.long.give_up();
    }
}
