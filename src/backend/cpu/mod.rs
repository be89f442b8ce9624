//! The CPU backend: storage in host memory, graphs as lists of steps, kernels on threads of the context's own.

mod affinity;
mod aligned;
mod cancel;
mod capabilities;
mod checks;
pub mod copy;
mod cost;
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
mod run_queue;
mod run_time;
pub mod scratch;
mod storage;
#[cfg(test)]
pub mod testing;
mod thread_pool;
pub mod threads;
#[cfg(test)]
mod turns_tests;
pub mod view;

use cancel::Cancel;
use capabilities::CpuCapabilities;
use dispatch::{ANY_SIZE, Target};
pub use executable::Executable;
use idle_policy::IdlePolicy;
use run_queue::{Help, Lane, Place};
use storage::Contents;
pub use storage::Storage;
use thread_pool::ThreadPool;

use crate::backend::{Backend, Bindings, HostThread, Turn};
use crate::compiler::{Capabilities, Plan};
use crate::done::Done;
use crate::error::Result;
#[cfg(feature = "faults")]
use crate::faults;
use crate::graph::{Descriptor, Limits};
use crate::host_memory::{HostBuffer, Placements};
use crate::memory::{Bytes, Charge, THREAD, Usage, Use};
use crate::watch::{Priority, Watch};
use rayon::ThreadPoolBuilder;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
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

/// Runs of fewer nanoseconds that do not have the timeline's thread wait in the lane for short ones.
const LIGHT: usize = 1_000_000;

/// Reads of so many bytes go to the pool: fresh pages make them slow, and there may be several.
const LONG_READ: usize = 512 << 10;

/// The members of a pool, at most: beyond, they would be in each other's way.
const MOST_MEMBERS: usize = 256;

/// The backend of one context.
#[derive(Clone, Debug)]
pub struct Cpu(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    host_thread: Arc<HostThread>,
    target: Target,
    /// Copies what is read. Started by the first work that is worth it.
    copy_pool: OnceLock<Option<(rayon::ThreadPool, Charge)>>,
    /// Helps whoever runs a graph. Likewise.
    pool: OnceLock<Option<(ThreadPool, Charge)>>,
    long: Lane,
    short: Lane,
    /// How many graphs are being run.
    under_way: AtomicUsize,
    idle_policy: IdlePolicy,
    cancel: Cancel,
    capabilities: CpuCapabilities,
}

impl Cpu {
    /// A backend with that many threads; 0 means as many as this process may use.
    pub fn new(threads: usize) -> Self {
        let available = || std::thread::available_parallelism().map_or(1, |count| count.get());
        Cpu::on(Target::of_this_machine(if threads == 0 { available() } else { threads }))
    }

    /// One whose kernels take problems of any size, for tests.
    pub fn of_any_size(threads: usize) -> Self {
        Cpu::on(Target { tuning: &ANY_SIZE, ..Target::of_this_machine(threads) })
    }

    fn on(target: Target) -> Self {
        let threads = target.threads;
        let cancel = Cancel::default();
        let usage = Arc::<Usage>::default();
        let lane = |name, most| Lane::new(name, most, most > 1, cancel.clone(), usage.clone());
        Cpu(Arc::new(Shared {
            limits: Arc::new(Limits::everything()),
            host_thread: Arc::default(),
            target,
            copy_pool: OnceLock::new(),
            pool: OnceLock::new(),
            long: lane("webnn run", threads),
            short: lane("webnn short run", 1),
            usage,
            under_way: AtomicUsize::new(0),
            idle_policy: IdlePolicy::new(),
            capabilities: CpuCapabilities { cancel: cancel.clone(), target, is_of_build: true },
            cancel,
        }))
    }

    /// The threads that help whoever runs a graph; nothing for a single thread, or when the system gives no others.
    fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let cancel = self.0.cancel.clone();
            let members = self.0.target.threads.min(MOST_MEMBERS);
            let pool =
                (members > 1).then(|| ThreadPool::new(members, self.0.host_thread.clone(), move || cancel.adopt_thread()))??;
            Some((pool, self.overhead(members - 1)))
        };
        self.0.pool.get_or_init(start).as_ref().map(|(pool, _)| pool)
    }

    /// The threads that copy; nothing when the system gives none, and then work is done where it is asked for.
    fn copy_pool(&self) -> Option<&rayon::ThreadPool> {
        let start = || {
            let cancel = self.0.cancel.clone();
            ThreadPoolBuilder::new()
                .num_threads(self.0.target.threads)
                .thread_name(|number| format!("webnn cpu {number}"))
                .start_handler(move |_| cancel.adopt_thread())
                .build()
                .ok()
                .map(|pool| (pool, self.overhead(self.0.target.threads)))
        };
        self.0.copy_pool.get_or_init(start).as_ref().map(|(pool, _)| pool)
    }

    /// Counts threads.
    fn overhead(&self, threads: usize) -> Charge {
        self.0.usage.charge(Use::Overhead, threads * THREAD)
    }
}

/// A graph that is being run, for as long as this lives.
struct UnderWay {
    shared: Arc<Shared>,
    /// No other was when it began.
    is_alone: bool,
}

impl UnderWay {
    fn begin(shared: &Arc<Shared>) -> UnderWay {
        UnderWay { is_alone: shared.under_way.fetch_add(1, Ordering::Relaxed) == 0, shared: shared.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.idle_policy.begin();
        self.shared.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backend for Cpu {
    type Tensor = Storage;
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
        std::thread::available_parallelism().is_ok_and(|cores| cores.get() > self.0.target.threads)
    }

    fn works_here(&self) -> bool {
        true
    }

    fn time_here(&self, graph: &Executable) -> Duration {
        graph.time_alone()
    }

    fn allocate(&self, descriptor: &Descriptor) -> Result<Storage> {
        #[cfg(feature = "faults")]
        faults::at(faults::Place::Allocate)?;
        Ok(Storage::new(Contents::Own(Bytes::zeroed(descriptor.byte_length())?)))
    }

    fn adopt(&self, memory: HostBuffer, descriptor: &Descriptor) -> Result<Storage, HostBuffer> {
        assert_eq!(memory.len(), descriptor.byte_length());
        // Kernels look at whole elements.
        if memory.is_aligned_to(descriptor.data_type.bits().div_ceil(8)) {
            Ok(Storage::new(Contents::Host(memory)))
        } else {
            Err(memory)
        }
    }

    fn compile(&self, plan: Plan) -> Result<Executable> {
        Executable::new(plan, &self.0.usage, &self.0.target, &self.0.cancel.of_run(Watch::current()))
    }

    fn placements(&self, graph: &Executable) -> Placements {
        graph.placements().to_vec()
    }

    fn kept_bytes(&self, graph: &Executable) -> usize {
        graph.kept_bytes()
    }

    fn capabilities(&self) -> &dyn Capabilities {
        &self.0.capabilities
    }

    fn write(&self, to: &Arc<Storage>, bytes: Bytes, done: Done<()>) {
        done.run(|| {
            #[cfg(feature = "faults")]
            faults::at(faults::Place::Write)?;
            to.replace(bytes)
        });
    }

    fn read(&self, from: &Arc<Storage>, mut into: HostBuffer, done: Done<()>) {
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
        match if long { self.copy_pool() } else { None } {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    fn execute(&self, graph: &Arc<Executable>, bindings: Bindings<Storage>, turn: Turn, done: Done<()>) {
        let cpu = self.clone();
        let executable = graph.clone();
        let estimate = graph.estimate();
        let under_way = UnderWay::begin(&self.0);
        let (number, here, alone) = (turn.number, turn.here, turn.alone && under_way.is_alone);
        let (watch, priority) = (turn.watch.clone(), turn.priority);
        let work = move |help, place: Option<&Place>| {
            done.run(|| {
                // It may have waited for long.
                turn.watch.begin()?;
                let cancel = cpu.0.cancel.of_run(turn.watch);
                let run = || cancel.during(|| executable.run(&bindings, &cancel, || place.into_iter().for_each(Place::give_way)));
                let begin = Instant::now();
                let (result, threads) = match if help == Help::Pool { cpu.pool() } else { None } {
                    Some(pool) => {
                        // Whoever copies the inputs needs a core; a pool that waits with us would take it.
                        executable.wait_for_first(&bindings)?;
                        (pool.run(run), cpu.0.target.threads)
                    }
                    None => (run(), 1),
                };
                if result.is_ok() && bindings.outputs.iter().all(Option::is_some) {
                    executable.took(begin.elapsed().saturating_sub(place.map_or(Duration::ZERO, Place::paused)), threads);
                }
                // The storage is let go before the end is reported: it may be the last reference.
                drop((bindings, executable, under_way));
                result
            });
        };
        // Nothing interrupts what the timeline's thread does.
        let may_be_here = alone && (priority != Priority::Low || estimate < BRIEF);
        if here {
            work(Help::Nobody, None);
        } else if may_be_here && estimate < SHORT {
            let is_shared = estimate >= BRIEF && !self.0.idle_policy.is_done_alone(estimate, self.0.target.threads);
            work(if is_shared { Help::Pool } else { Help::Nobody }, None);
        } else if estimate < BRIEF && self.0.short.is_empty() {
            work(Help::Nobody, None);
        } else {
            let lane = if estimate < LIGHT { &self.0.short } else { &self.0.long };
            lane.push(number, priority, &watch, move |help, place| work(help, Some(place)));
        }
    }

    fn lift(&self, number: u64, priority: Priority) {
        self.0.short.lift(number, priority);
        self.0.long.lift(number, priority);
    }

    fn cancel(&self) {
        self.0.cancel.cancel();
    }
}
