//! The life and the end of an environment: the main thread's, or that of a worker.
//!
//! An environment ends in one of two ways, and both lead to [`Ending::stop`]. A worker's, and the main one when the event
//! loop runs dry, run Node-API's cleanup hooks. `process.exit()` and an uncaught exception on the main thread do not; they
//! run C's `atexit` functions.
//!
//! At the end the timelines are cancelled, stopped and, where the heap of JavaScript goes next, *joined*: their threads
//! write into memory of that heap.
#![allow(unsafe_code)]

use super::call;
use super::commands::CommandBuffer;
use super::compute::Reasons;
use super::contexts::Context;
use super::decoder::{Adapted, Opened, Prefixed, Remembered};
use super::described::Described;
use super::external::{self, External};
use super::graphs::{Builder, Graph};
use super::handles::{Handle, Slab};
use super::onnx::Loaded;
use super::programs::ProgramEntry;
use super::received::Received;
use super::saved_graphs::SavableGraph;
use super::script::{Scope, Value, internal};
use super::settle::{Queue, Settler};
use super::steps::{Stepped, UnreadValue};
use super::tensors::Tensor;
use crate::error::Result;
use crate::timeline::{Timeline, Way};
use crate::watch::Watch;
use napi::sys;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Everything that one environment has here. It is used on the environment's thread only, and no borrow of its parts is
/// held while JavaScript runs.
pub struct Environment {
    pub settler: Settler,
    pub contexts: RefCell<Slab<Context>>,
    pub tensors: RefCell<Slab<Tensor>>,
    pub graphs: RefCell<Slab<Graph>>,
    pub builders: RefCell<Slab<Builder>>,
    pub savable_graphs: RefCell<Slab<SavableGraph>>,
    pub commands: RefCell<Slab<CommandBuffer>>,
    pub models: RefCell<Slab<Loaded>>,
    pub received: RefCell<Slab<Received>>,
    pub programs: RefCell<Slab<ProgramEntry>>,
    pub decoders: RefCell<Slab<Opened>>,
    pub sessions: RefCell<Slab<Remembered>>,
    pub prefixes: RefCell<Slab<Prefixed>>,
    pub adapters: RefCell<Slab<Adapted>>,
    pub stepped: RefCell<Slab<Stepped>>,
    /// Memory alone, which stays when its context goes.
    pub values: RefCell<Slab<UnreadValue>>,
    pub watches: RefCell<Slab<Watch>>,
    pub reasons: RefCell<Reasons>,
    pub described: Described,
    pub external: Rc<External>,
    pub ending: Arc<Ending>,
}

/// The timelines of an environment that may have to be joined, and the queue to close.
pub struct Ending {
    pub queue: Arc<Queue>,
    timelines: Mutex<Vec<Arc<Running>>>,
}

/// A timeline until it is joined. Only the environment's thread uses it, except at the beginning and at the very end.
pub struct Running(Mutex<State>);

enum State {
    /// The device is looked for.
    Starting,
    Started(Timeline),
    /// It was joined, or never came to be.
    Ended,
}

/// All environments of the process, for `atexit`.
static ENDINGS: Mutex<Vec<Weak<Ending>>> = Mutex::new(Vec::new());

/// Nothing that runs under these locks leaves the contents half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Of a context without a timeline.
    pub fn never() -> Arc<Running> {
        Arc::new(Running(Mutex::new(State::Ended)))
    }

    /// Nothing when the timeline was joined, or has not started.
    pub fn with<R>(&self, use_it: impl FnOnce(&Timeline) -> R) -> Option<R> {
        if let State::Started(timeline) = &*lock(&self.0) { Some(use_it(timeline)) } else { None }
    }

    /// What sends tasks to the timeline, if that is there. No lock is held while a task is sent, which may be carried out on the way.
    pub fn way(&self) -> Option<Way> {
        self.with(Timeline::way)
    }

    /// The timeline is there; where it is not wanted any more it stops.
    pub fn start(&self, timeline: Timeline) {
        let mut state = lock(&self.0);
        if let State::Starting = *state {
            *state = State::Started(timeline);
        }
    }

    /// There will be no timeline.
    pub fn give_up(&self) {
        *lock(&self.0) = State::Ended;
    }

    pub fn has_ended(&self) -> bool {
        match &*lock(&self.0) {
            State::Starting => false,
            State::Started(timeline) => timeline.has_ended(),
            State::Ended => true,
        }
    }

    /// Waits for the timeline's thread, which was stopped before.
    fn join(&self) {
        let state = std::mem::replace(&mut *lock(&self.0), State::Ended);
        if let State::Started(timeline) = state {
            timeline.join();
        }
    }
}

impl Ending {
    fn new() -> Arc<Ending> {
        let ending = Arc::new(Ending { queue: Arc::default(), timelines: Mutex::default() });
        let mut endings = lock(&ENDINGS);
        endings.retain(|other| other.strong_count() > 0);
        endings.push(Arc::downgrade(&ending));
        ending
    }

    /// Sees to it that a timeline that is to start is joined in the end. Those of forgotten contexts that have ended are
    /// joined now.
    pub fn watch(&self) -> Arc<Running> {
        let running = Arc::new(Running(Mutex::new(State::Starting)));
        let mut timelines = lock(&self.timelines);
        timelines.retain(|other| {
            let forgotten = Arc::strong_count(other) == 1 && other.has_ended();
            if forgotten {
                other.join();
            }
            !forgotten
        });
        timelines.push(running.clone());
        running
    }

    /// Cancels, stops and joins. Called again it finds nothing left to do.
    fn end(&self) {
        self.stop().iter().for_each(|running| running.join());
    }

    fn stop(&self) -> Vec<Arc<Running>> {
        self.queue.close();
        let timelines = std::mem::take(&mut *lock(&self.timelines));
        for running in &timelines {
            running.with(Timeline::stop);
        }
        timelines
    }
}

impl Environment {
    fn new() -> Self {
        let ending = Ending::new();
        let external = Rc::<External>::default();
        Environment {
            settler: Settler::new(ending.queue.clone(), external.clone()),
            contexts: RefCell::default(),
            tensors: RefCell::default(),
            graphs: RefCell::default(),
            builders: RefCell::default(),
            savable_graphs: RefCell::default(),
            models: RefCell::default(),
            received: RefCell::default(),
            programs: RefCell::default(),
            decoders: RefCell::default(),
            sessions: RefCell::default(),
            prefixes: RefCell::default(),
            adapters: RefCell::default(),
            stepped: RefCell::default(),
            values: RefCell::default(),
            watches: RefCell::default(),
            reasons: RefCell::default(),
            commands: RefCell::default(),
            described: Described::new(),
            external,
            ending,
        }
    }

    /// Lets go of everything that belongs to a context, or to any.
    pub fn release(&self, context: Option<Handle>) {
        let stays = |owner: Handle| context.is_some_and(|context| context != owner);
        self.builders.borrow_mut().retain(|builder| stays(builder.context));
        self.savable_graphs.borrow_mut().retain(|kept| stays(kept.context));
        self.models.borrow_mut().retain(|model| stays(model.context));
        self.sessions.borrow_mut().retain(|session| stays(session.context));
        self.prefixes.borrow_mut().retain(|prefixes| stays(prefixes.context));
        self.adapters.borrow_mut().retain(|adapted| stays(adapted.context));
        self.decoders.borrow_mut().retain(|decoder| stays(decoder.context));
        self.commands.borrow_mut().retain(|commands| stays(commands.context));
        self.tensors.borrow_mut().retain(|tensor| stays(tensor.context));
        self.graphs.borrow_mut().retain(|graph| stays(graph.context));
        self.programs.borrow_mut().retain(|program| stays(program.context));
    }

    /// Lets go of what V8 has collected of the objects that script makes at once, without waiting for a promise. Their finalizers run
    /// when the event loop comes round, but script may make one after the other before it does.
    pub fn forget(&self, scope: Scope<'_>) {
        if self.external.has_collected(scope) {
            let is_there = |object: &Option<external::Weak>| object.as_ref().is_none_or(external::Weak::is_there);
            self.builders.borrow_mut().retain(|builder| is_there(&builder.object));
            self.commands.borrow_mut().retain(|commands| is_there(&commands.object));
        }
    }

    fn end(&self) {
        self.ending.end();
        self.release(None);
        self.external.end();
    }
}

/// Sets up an environment and exports the flat functions.
///
/// # Safety
/// `scope` and `exports` must be those of the registration of this module.
pub unsafe fn start(scope: Scope<'_>, exports: sys::napi_value, functions: &[(&str, sys::napi_callback)]) -> Result<()> {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(|| {
        // SAFETY: the function stays mapped (build.rs links with `nodelete`) and does not unwind.
        let _ = unsafe { atexit(at_exit) };
        keep_panics_quiet();
    });
    let environment = Box::into_raw(Box::new(Environment::new()));
    let data = environment.cast::<c_void>();
    // SAFETY: from here on the box belongs to Node, which gives it to `forget` after everything else of the environment.
    let status = unsafe { sys::napi_set_instance_data(scope.env(), data, Some(forget), std::ptr::null_mut()) };
    if status != sys::Status::napi_ok {
        return Err(internal(format!("napi_set_instance_data() returned {status}")));
    }
    // SAFETY: the environment stays where it is until `forget`. Hooks run before that, and so does script.
    unsafe {
        (*environment).settler.start(scope)?;
        let described = (*environment).described.start(scope)?;
        scope.set(Value::new(exports), "described", described)?;
        sys::napi_add_env_cleanup_hook(scope.env(), Some(clean_up), data);
        for &(name, entry) in functions {
            call::export(scope, exports, name, entry, environment)?;
        }
    }
    Ok(())
}

/// The cleanup hook.
unsafe extern "C" fn clean_up(environment: *mut c_void) {
    // SAFETY: the environment that `start` gave; `forget` comes later.
    let environment = unsafe { &*environment.cast_const().cast::<Environment>() };
    let _ = catch_unwind(AssertUnwindSafe(|| environment.end()));
}

/// The end of the instance data.
unsafe extern "C" fn forget(_env: sys::napi_env, environment: *mut c_void, _hint: *mut c_void) {
    // SAFETY: the box that `start` made, and Node calls this once.
    let environment = unsafe { Box::from_raw(environment.cast::<Environment>()) };
    let _ = catch_unwind(AssertUnwindSafe(move || drop(environment)));
}

unsafe extern "C" {
    /// Of C's standard library.
    fn atexit(function: extern "C" fn()) -> c_int;
}

/// How long the exit of the process waits for kernels that are under way. The heap is not taken apart then, and kernels
/// touch nothing else, so one that takes longer can end with the process.
const PATIENCE: Duration = Duration::from_millis(100);

/// On the main thread, when the process exits. Workers have ended before.
extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        let endings: Vec<_> = lock(&ENDINGS).iter().filter_map(Weak::upgrade).collect();
        let stopped: Vec<_> = endings.iter().flat_map(|ending| ending.stop()).collect();
        let last = Instant::now() + PATIENCE;
        for running in stopped {
            match running.with(|timeline| timeline.has_ended_by(last)) {
                Some(true) => running.join(),
                // Dropping what belongs to it would wait for it.
                _ => std::mem::forget(running),
            }
        }
    });
}

/// A panic of ours becomes an error for whoever asked for the work; nothing of it is for the terminal (docs/extensions.md E4).
fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|_| {}));
}
