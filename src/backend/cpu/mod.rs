//! The CPU backend: storage in host memory, graphs as lists of steps, kernels on a pool of threads of the context's own.

mod cancel;
pub mod copy;
mod cost;
pub mod element;
mod executable;
mod fold;
mod kernels;
mod profile;
pub mod reference;
pub mod scratch;
mod storage;
pub mod threads;
pub mod view;

use cancel::Cancel;
pub use executable::Executable;
use storage::Contents;
pub use storage::Storage;

use crate::backend::{Backend, Bindings};
use crate::compiler::{Evaluate, Fusing, Plan, Preferences};
use crate::error::Result;
#[cfg(feature = "faults")]
use crate::faults;
use crate::graph::{Descriptor, Limits};
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Usage};
use crate::timeline::Done;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, OnceLock};

/// Threads that are woken for a dispatch, at most; when there is work for more, it is found soon.
const MOST_WOKEN: usize = 4;

/// Reads of so many bytes go to the pool: fresh pages make them slow, and there may be several.
const LONG_READ: usize = 512 << 10;

/// The backend of one context.
#[derive(Clone, Debug)]
pub struct Cpu(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    threads: usize,
    /// Started by the first work that is worth it.
    pool: OnceLock<Option<ThreadPool>>,
    cancel: Cancel,
    evaluator: fold::Evaluator,
}

impl Cpu {
    /// A backend with that many threads; 0 means as many as this process may use.
    pub fn new(threads: usize) -> Self {
        let available = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let cancel = Cancel::default();
        Cpu(Arc::new(Shared {
            limits: Arc::new(Limits::everything()),
            usage: Arc::new(Usage::default()),
            threads: if threads == 0 { available() } else { threads },
            pool: OnceLock::new(),
            evaluator: fold::Evaluator(cancel.clone()),
            cancel,
        }))
    }

    /// The pool; nothing when the system gives no threads, and then work is done where it is asked for.
    fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let cancel = self.0.cancel.clone();
            ThreadPoolBuilder::new()
                .num_threads(self.0.threads)
                .thread_name(|number| format!("webnn cpu {number}"))
                .start_handler(move |_| cancel.adopt_thread())
                .build()
                .ok()
        };
        self.0.pool.get_or_init(start).as_ref()
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
        Executable::new(plan, &self.0.usage, self.0.threads)
    }

    fn fusing(&self) -> Fusing {
        if kernels::are_used() { Fusing::Quick } else { Fusing::Products }
    }

    fn evaluator(&self) -> &dyn Evaluate {
        &self.0.evaluator
    }

    fn preferences(&self) -> Preferences {
        Preferences { channels_last: kernels::are_used(), widens: kernels::are_used() }
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
        let long = into.len() >= LONG_READ && self.0.threads > 1;
        let work = move || {
            done.run(|| {
                #[cfg(feature = "faults")]
                faults::at(faults::Place::Read)?;
                into.as_mut_slice().copy_from_slice(&from.read()?);
                drop(from);
                Ok(())
            });
        };
        match if long { self.pool() } else { None } {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
    }

    fn execute(&self, graph: &Arc<Executable>, bindings: Bindings<Storage>, done: Done<()>) {
        let shared = self.0.clone();
        let executable = graph.clone();
        let work = move || {
            done.run(|| {
                let result = executable.run(&bindings, &shared.cancel);
                // The storage is let go before the end is reported: it may be the last reference.
                drop((bindings, executable));
                result
            });
        };
        match self.pool() {
            Some(pool) if !graph.is_brief() => {
                pool.spawn(work);
                // The other threads wake up at the same time, and not when the first finds something for them.
                (1..self.0.threads.min(MOST_WOKEN)).for_each(|_| pool.spawn(|| ()));
            }
            _ => work(),
        }
    }

    fn cancel(&self) {
        self.0.cancel.cancel();
    }
}
