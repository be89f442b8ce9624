//! How finished work gets back to JavaScript.
//!
//! Work may finish on any thread. It goes into one queue per environment, and one threadsafe function wakes the event loop
//! when the queue stops being empty. The wake-up settles all that is ready, with one call of the `settle` function of
//! `lib/`. Where `lib/` expects something within a moment it looks into the queue itself, and nothing is woken.
//!
//! What script does when its promises are settled belongs to the same round of the event loop, and may make more results
//! ready at once. So only some are settled at a time, fewer where script's reactions take long, and after [`ROUND`] the others wait
//! until timers have had their turn.
//!
//! Several copies of `lib/` can share an environment (jest loads one per test file), so each is a *listener* with a range
//! of request numbers of its own. The threadsafe function is referenced, and so keeps the process alive, only while a
//! request is unfinished; likewise a listener's `settle` function keeps its copy of `lib/` alive only then.
#![allow(unsafe_code)]

use super::decoder;
use super::event_loop::Rounds;
use super::external::External;
use super::onnx;
use super::programs;
use super::script::{Scope, Value, internal};
use super::steps;
use crate::error::Result;
use crate::graph::Descriptor;
use crate::timeline::{Done, inline};
use napi::sys;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A number that `lib/` chose, out of the range of its copy. The first of a range is no request: it stands for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(u64);

/// How many numbers a listener has.
const RANGE: u64 = 1 << 40;

/// How long a look into the queue lasts: a few times as long as a round of the event loop, and no longer, for timers and input
/// are to be served as ever.
const MOMENT: Duration = Duration::from_micros(20);

/// So many results are settled at most before script's reactions to them run. Where these took longer than [`ROUND`] it is half as
/// many the next time, until it is one; where they took less than half of that, twice as many.
const MOST_AT_ONCE: usize = 64;
/// When a round of the event loop has lasted so long, what else is ready is settled after timers and input have had their turn.
const ROUND: Duration = Duration::from_millis(5);

/// So that all of them are exact as JavaScript numbers.
const MOST_LISTENERS: usize = 1 << 13;

impl Request {
    pub fn from_number(number: f64) -> Request {
        Request(number as u64)
    }

    fn listener(self) -> usize {
        (self.0 / RANGE) as usize
    }

    /// The number for events of the copy of `lib/` that made this request.
    pub fn events(self) -> Request {
        Request(self.0 / RANGE * RANGE)
    }
}

/// What `lib/` gets for a request that succeeded.
#[derive(Debug)]
pub enum Outcome {
    Nothing,
    Context {
        handle: f64,
        accelerated: bool,
        device: &'static str,
    },
    Graph {
        inputs: Vec<(String, Descriptor)>,
        outputs: Vec<(String, Descriptor)>,
    },
    /// A graph for a device of script's: its inputs and outputs, and what it became, which is there before the request is settled.
    Program {
        inputs: Vec<(String, Descriptor)>,
        outputs: Vec<(String, Descriptor)>,
        described: Arc<OnceLock<programs::Described>>,
    },
    /// What an import found out, and what it became on a device of script's, which are there before the request is settled; the bytes that
    /// a run takes, and those that the plan keeps.
    Onnx {
        import: Arc<OnceLock<onnx::Import>>,
        program: Option<Arc<OnceLock<programs::Described>>>,
        run_bytes: usize,
        plan_bytes: usize,
    },
    OnnxModel(Arc<OnceLock<Arc<crate::program::Program>>>, Arc<OnceLock<Vec<crate::onnx::RefusedNode>>>),
    OnnxRun(Vec<crate::program::Output>),
    Decoder(Arc<OnceLock<Arc<crate::program::decoder::Decoder>>>),
    Generated(crate::program::decoder::Next),
    Fits(Arc<OnceLock<bool>>),
    Step(Arc<OnceLock<Vec<crate::program::steps::Output>>>),
    OnnxSummary(Arc<OnceLock<crate::onnx::Summary>>),
    Rows(Arc<OnceLock<onnx::RowsApart>>),
    Fitting(Arc<OnceLock<onnx::Fitting>>),
    /// Not of a request: programs ask something of a device of script's.
    Tasks {
        context: f64,
    },
    /// Not of a request: a context was lost.
    Lost {
        context: f64,
        message: String,
    },
}

struct Settled {
    request: Request,
    result: Result<Outcome>,
}

/// What is ready, shared by all threads.
#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    /// Something may be ready: for a look without the lock.
    has_some: AtomicBool,
    /// Nothing before the environment has begun, and when it has ended. Not part of the state: the call may make the system
    /// give this core to the environment's thread, which would then wait for whoever holds the lock.
    wake: Mutex<Option<Wake>>,
    /// Unfinished requests of all listeners. Only the environment's thread changes it.
    pending: AtomicUsize,
}

#[derive(Default)]
struct State {
    settled: VecDeque<Settled>,
    /// A wake-up is on its way, or the environment's thread is looking.
    signalled: bool,
    /// Somebody will settle what is queued.
    is_open: bool,
}

struct Wake(sys::napi_threadsafe_function);

// SAFETY: a threadsafe function may be called from any thread; that is what it is for.
unsafe impl Send for Wake {}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_wake(&self) -> MutexGuard<'_, Option<Wake>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, wake: Wake) {
        *self.lock_wake() = Some(wake);
        self.lock().is_open = true;
    }

    fn push(&self, request: Request, result: Result<Outcome>) {
        let mut state = self.lock();
        if !state.is_open {
            return;
        }
        state.settled.push_back(Settled { request, result });
        self.has_some.store(true, Ordering::Release);
        let is_signalled = std::mem::replace(&mut state.signalled, true);
        drop(state);
        if !is_signalled {
            self.call();
        }
    }

    /// Has the threadsafe function called.
    fn call(&self) {
        if let Some(Wake(function)) = *self.lock_wake() {
            // SAFETY: the function exists, since `close` takes it away under this lock before it goes. The call makes a
            // note for the event loop; it neither blocks nor runs JavaScript.
            unsafe {
                sys::napi_call_threadsafe_function(function, ptr::null_mut(), sys::ThreadsafeFunctionCallMode::nonblocking)
            };
        }
    }

    /// Waits for at most that long until something is ready. Nobody is woken for what comes from now on until it is taken.
    fn look(&self, for_up_to: Duration) {
        self.lock().signalled = true;
        let begin = Instant::now();
        while !self.has_some.load(Ordering::Acquire) && begin.elapsed() < for_up_to {
            (0..4).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Some of what is ready, the earliest. For what is left the threadsafe function is called again: when that is served
    /// script's reactions to the earlier ones have run.
    fn take(&self, most: usize) -> Vec<Settled> {
        let mut state = self.lock();
        let count = state.settled.len().min(most);
        let ready = state.settled.drain(..count).collect();
        let has_more = !state.settled.is_empty();
        state.signalled = has_more;
        self.has_some.store(has_more, Ordering::Relaxed);
        drop(state);
        if has_more {
            self.call();
        }
        ready
    }

    /// Wakes nobody for what comes until [`Queue::let_go`]. Tells whether somebody would be woken otherwise.
    fn hold(&self) -> bool {
        !std::mem::replace(&mut self.lock().signalled, true)
    }

    /// Whether something is ready since [`Queue::hold`], which is to be taken then.
    fn let_go(&self) -> bool {
        let mut state = self.lock();
        state.signalled = !state.settled.is_empty();
        state.signalled
    }

    /// Whose is the first that is ready. Nobody is woken for it, or for what comes from now on, until it is taken.
    fn put_off(&self) -> Option<Request> {
        let mut state = self.lock();
        let first = state.settled.front()?.request;
        state.signalled = true;
        Some(first)
    }

    /// From now on nothing is queued and nobody is woken.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_open = false;
        state.settled.clear();
        drop(state);
        *self.lock_wake() = None;
    }

    /// An event for the copy of `lib/` that made a request.
    pub fn announce(&self, request: Request, event: Outcome) {
        self.push(request.events(), Ok(event));
    }
}

/// The side of the environment's own thread.
pub struct Settler {
    queue: Arc<Queue>,
    function: Cell<sys::napi_threadsafe_function>,
    rounds: RefCell<Option<Rounds>>,
    pace: Pace,
    /// Nobody is woken at the moment.
    is_held: Cell<bool>,
    external: Rc<External>,
    listeners: RefCell<Vec<Listener>>,
}

/// How many results are settled at a time.
struct Pace {
    together: Cell<usize>,
    /// When the last ones were settled, if there were more of them: then the time until the next ones is that of script's reactions.
    since: Cell<Option<Instant>>,
}

impl Pace {
    fn new() -> Self {
        Pace { together: Cell::new(MOST_AT_ONCE), since: Cell::new(None) }
    }

    /// For those that are settled now, when the reactions to the ones before took so long.
    fn next(&self, reactions: Option<Duration>) -> usize {
        let together = match reactions {
            Some(taken) if taken > ROUND => (self.together.get() / 2).max(1),
            Some(taken) if taken < ROUND / 2 => (self.together.get() * 2).min(MOST_AT_ONCE),
            _ => self.together.get(),
        };
        self.together.set(together);
        together
    }
}

/// A copy of `lib/`.
struct Listener {
    /// Its `settle` function; weak while nothing is pending.
    settle: sys::napi_ref,
    pending: usize,
}

impl Settler {
    pub fn new(queue: Arc<Queue>, external: Rc<External>) -> Self {
        let function = Cell::new(ptr::null_mut());
        Settler {
            queue,
            function,
            rounds: RefCell::default(),
            pace: Pace::new(),
            is_held: Cell::default(),
            external,
            listeners: RefCell::default(),
        }
    }

    /// Makes the threadsafe function.
    ///
    /// # Safety
    /// The settler must stay where it is until the environment has ended.
    pub unsafe fn start(&self, scope: Scope<'_>) -> Result<()> {
        let name = scope.string("webnn-node")?;
        let nothing = ptr::null_mut();
        let context = ptr::from_ref(self).cast_mut().cast::<c_void>();
        let mut function = ptr::null_mut();
        // SAFETY: the environment and the name are alive. Instead of a JavaScript function there is `serve`, whose
        // context is this settler, which is there whenever it is called, by the caller's promise.
        let status = unsafe {
            let create = sys::napi_create_threadsafe_function;
            create(
                scope.env(),
                nothing,
                nothing,
                name.raw(),
                0,
                1,
                ptr::null_mut(),
                None,
                context,
                Some(serve),
                &raw mut function,
            )
        };
        if status != sys::Status::napi_ok {
            return Err(internal(format!("napi_create_threadsafe_function() returned {status}")));
        }
        // SAFETY: the function was just made, and this is its environment's thread.
        unsafe { sys::napi_unref_threadsafe_function(scope.env(), function) };
        self.function.set(function);
        *self.rounds.borrow_mut() = Rounds::of(scope);
        inline::begin_loop_iteration();
        self.queue.open(Wake(function));
        Ok(())
    }

    /// Adds a copy of `lib/`; returns the number from which its requests count.
    pub fn listen(&self, scope: Scope<'_>, settle: Value<'_>) -> Result<f64> {
        let mut reference = ptr::null_mut();
        // SAFETY: the environment and the value are alive; a count of 0 makes the reference weak.
        let status = unsafe { sys::napi_create_reference(scope.env(), settle.raw(), 0, &raw mut reference) };
        if status != sys::Status::napi_ok {
            return Err(internal(format!("napi_create_reference() returned {status}")));
        }
        let listener = Listener { settle: reference, pending: 0 };
        let mut listeners = self.listeners.borrow_mut();
        let gone = listeners.iter().position(|listener| listener.pending == 0 && listener.function(scope).is_none());
        let index = match gone {
            Some(index) => {
                let old = std::mem::replace(&mut listeners[index], listener);
                // SAFETY: the reference was made above, in an earlier call, and is not used any more.
                unsafe { sys::napi_delete_reference(scope.env(), old.settle) };
                index
            }
            None if listeners.len() < MOST_LISTENERS => {
                listeners.push(listener);
                listeners.len() - 1
            }
            None => return Err(internal("too many copies of lib/ in one environment")),
        };
        Ok((index as u64 * RANGE) as f64)
    }

    /// Takes over the duty to settle a request; whoever gets the result may report from any thread.
    pub fn promise<T>(
        &self,
        scope: Scope<'_>,
        request: Request,
        outcome: impl FnOnce(T) -> Outcome + Send + 'static,
    ) -> Result<Done<T>> {
        let mut listeners = self.listeners.borrow_mut();
        let listener = listeners.get_mut(request.listener()).ok_or_else(|| internal("a request of nobody"))?;
        listener.pending += 1;
        if listener.pending == 1 {
            // SAFETY: the reference was made in `listen` and is deleted only when nothing is pending.
            unsafe { sys::napi_reference_ref(scope.env(), listener.settle, ptr::null_mut()) };
        }
        if self.queue.pending.fetch_add(1, Ordering::Relaxed) == 0 {
            // SAFETY: this is the environment's thread, and the function goes only when the environment has ended.
            unsafe { sys::napi_ref_threadsafe_function(scope.env(), self.function.get()) };
        }
        let queue = self.queue.clone();
        Ok(Done::new(move |result: Result<T>| queue.push(request, result.map(outcome))))
    }

    /// Script is about to ask for something, which may be ready when it has.
    pub fn hold(&self) {
        self.is_held.set(self.queue.hold());
    }

    /// It has asked. Whether something is ready, for which script will call [`Settler::settle_some`] at the end of this round of the
    /// event loop: nobody is woken.
    pub fn let_go(&self) -> bool {
        self.is_held.take() && self.queue.let_go()
    }

    /// Settles what is ready, or becomes so within a moment.
    pub fn settle_soon(&self, scope: Scope<'_>) {
        self.queue.look(MOMENT);
        self.settle_some(scope);
    }

    /// The event loop serves what has come in.
    fn serve(&self, scope: Scope<'_>) {
        let is_over = self.rounds.borrow().as_ref().is_some_and(|rounds| rounds.last() >= ROUND);
        if !is_over || !self.settle_later(scope) {
            self.settle_some(scope);
        }
    }

    /// Has `lib/` call [`Settler::settle_some`] at the end of this round. Tells whether it will, if there is something to settle.
    fn settle_later(&self, scope: Scope<'_>) -> bool {
        let Some(first) = self.queue.put_off() else { return true };
        let function = self.listeners.borrow().get(first.listener()).and_then(|listener| listener.function(scope));
        let (Some(function), Ok(nothing)) = (function, scope.undefined()) else { return false };
        scope.call(function, nothing).is_ok()
    }

    /// Settles what is ready, or the first of it.
    pub fn settle_some(&self, scope: Scope<'_>) {
        self.external.tell(scope);
        inline::begin_loop_iteration();
        let most = self.pace.next(self.pace.since.take().map(|since| since.elapsed()));
        let mut ready = self.queue.take(most);
        if ready.len() == most {
            self.pace.since.set(Some(Instant::now()));
        }
        while let Some(first) = ready.first() {
            let listener = first.request.listener();
            let others = ready.iter().position(|settled| settled.request.listener() != listener).unwrap_or(ready.len());
            let rest = ready.split_off(others);
            if let Err(error) = self.settle(scope, listener, &ready) {
                scope.report(&error);
            }
            ready = rest;
        }
    }

    /// Settles what is ready for one listener.
    fn settle(&self, scope: Scope<'_>, listener: usize, ready: &[Settled]) -> Result<()> {
        let requests = ready.iter().filter(|settled| settled.request != settled.request.events()).count();
        let function = {
            let mut listeners = self.listeners.borrow_mut();
            let listener = listeners.get_mut(listener).ok_or_else(|| internal("a request of nobody"))?;
            let function = listener.function(scope);
            listener.pending -= requests;
            if requests > 0 && listener.pending == 0 {
                // SAFETY: the reference is counted since `promise`.
                unsafe { sys::napi_reference_unref(scope.env(), listener.settle, ptr::null_mut()) };
            }
            function
        };
        if requests > 0 && self.queue.pending.fetch_sub(requests, Ordering::Relaxed) == requests {
            // SAFETY: as in `promise`.
            unsafe { sys::napi_unref_threadsafe_function(scope.env(), self.function.get()) };
        }
        let Some(function) = function else {
            // An event for a copy of `lib/` that is not there any more. Requests keep theirs.
            return if requests == 0 { Ok(()) } else { Err(internal("the settle function was collected")) };
        };
        let batch = batch(scope, ready)?;
        // No borrow is held here: `lib/` may call back, and so may script's own code that it runs.
        scope.call(function, batch)
    }
}

impl Listener {
    fn function<'s>(&self, scope: Scope<'s>) -> Option<Value<'s>> {
        let mut function = ptr::null_mut();
        // SAFETY: the reference exists as long as the listener. The result is null when the function was collected.
        unsafe { sys::napi_get_reference_value(scope.env(), self.settle, &raw mut function) };
        // SAFETY: what a reference gives is alive in the current handle scope.
        (!function.is_null()).then(|| unsafe { Value::new(function) })
    }
}

/// What Node calls on the environment's thread when it was woken.
unsafe extern "C" fn serve(env: sys::napi_env, _function: sys::napi_value, context: *mut c_void, _data: *mut c_void) {
    // Node empties the function's queue this way when the environment has ended.
    if env.is_null() {
        return;
    }
    // SAFETY: this is the environment's thread, inside a callback, which has a handle scope; the context is the settler
    // that `start` gave, and it is still there.
    let (scope, settler) = unsafe { (Scope::new(env), &*context.cast_const().cast::<Settler>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| settler.serve(scope)));
}

/// `[request, code, value, request, code, value, …]`
fn batch<'s>(scope: Scope<'s>, ready: &[Settled]) -> Result<Value<'s>> {
    let batch = scope.array(3 * ready.len())?;
    for (index, Settled { request, result }) in ready.iter().enumerate() {
        let (code, value) = match result {
            Ok(outcome) => (scope.null()?, outcome_value(scope, outcome)?),
            Err(error) => (scope.string(error.kind().name())?, scope.cause(error)?),
        };
        for (part, value) in [scope.number(request.0 as f64)?, code, value].into_iter().enumerate() {
            scope.set_element(batch, (3 * index + part) as u32, value)?;
        }
    }
    Ok(batch)
}

#[expect(clippy::cognitive_complexity, reason = "a table: an arm for each outcome")]
fn outcome_value<'s>(scope: Scope<'s>, outcome: &Outcome) -> Result<Value<'s>> {
    let value = match outcome {
        Outcome::Nothing => return scope.undefined(),
        Outcome::Context { handle, accelerated, device } => {
            let value = scope.object()?;
            scope.set(value, "context", scope.number(*handle)?)?;
            scope.set(value, "accelerated", scope.boolean(*accelerated)?)?;
            scope.set(value, "device", scope.string(device)?)?;
            value
        }
        Outcome::Graph { inputs, outputs } => {
            let value = scope.object()?;
            scope.set(value, "inputs", descriptors(scope, inputs)?)?;
            scope.set(value, "outputs", descriptors(scope, outputs)?)?;
            value
        }
        Outcome::Program { inputs, outputs, described } => {
            let value = scope.object()?;
            scope.set(value, "inputs", descriptors(scope, inputs)?)?;
            scope.set(value, "outputs", descriptors(scope, outputs)?)?;
            scope.set(value, "program", programs::value(scope, described)?)?;
            value
        }
        Outcome::Onnx { import, program, run_bytes, plan_bytes } => {
            return onnx::import_value(scope, import, program.as_deref(), *run_bytes, *plan_bytes);
        }
        Outcome::OnnxModel(program, unknown) => return onnx::model_value(scope, program, unknown),
        Outcome::OnnxRun(outputs) => return onnx::run_value(scope, outputs),
        Outcome::Decoder(found) => return decoder::decoder_value(scope, found),
        Outcome::Generated(next) => return decoder::next_value(scope, next),
        Outcome::Fits(fits) => return steps::fits_value(scope, fits),
        Outcome::Step(outputs) => return steps::step_value(scope, outputs),
        Outcome::OnnxSummary(summary) => return onnx::summary_value(scope, summary),
        Outcome::Rows(rows) => return onnx::rows_value(scope, rows),
        Outcome::Fitting(fitting) => return onnx::fitting_value(scope, fitting),
        Outcome::Tasks { context } => {
            let value = scope.object()?;
            scope.set(value, "event", scope.string("tasks")?)?;
            scope.set(value, "context", scope.number(*context)?)?;
            value
        }
        Outcome::Lost { context, message } => {
            let value = scope.object()?;
            scope.set(value, "event", scope.string("lost")?)?;
            scope.set(value, "context", scope.number(*context)?)?;
            scope.set(value, "message", scope.string(message)?)?;
            value
        }
    };
    Ok(value)
}

/// `[[name, dataType, shape], …]`
pub fn descriptors<'s>(scope: Scope<'s>, list: &[(String, Descriptor)]) -> Result<Value<'s>> {
    scope.array_of(list.iter().map(|(name, descriptor)| {
        let shape = scope.array_of(descriptor.shape.iter().map(|&size| scope.unsigned(size)))?;
        let parts = [scope.string(name)?, scope.unsigned(descriptor.data_type as u32)?, shape];
        scope.array_of(parts.into_iter().map(Ok))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_taken_at_a_time_in_their_order() {
        let queue = Queue::default();
        queue.lock().is_open = true;
        let count = 2 * MOST_AT_ONCE as u64 + 1;
        (1..=count).for_each(|number| queue.push(Request(number), Ok(Outcome::Nothing)));
        let mut taken = Vec::new();
        for expected in [MOST_AT_ONCE, MOST_AT_ONCE, 1] {
            assert!(queue.lock().signalled, "for what is left");
            let some = queue.take(MOST_AT_ONCE);
            assert_eq!(some.len(), expected);
            taken.extend(some.into_iter().map(|settled| settled.request.0));
        }
        assert!(taken.into_iter().eq(1..=count));
        assert!(!queue.lock().signalled);
        assert_eq!(queue.put_off(), None);
        queue.push(Request(5), Ok(Outcome::Nothing));
        assert_eq!(queue.put_off(), Some(Request(5)));
        assert!(queue.lock().signalled, "nobody is woken again");
    }

    #[test]
    fn fewer_are_settled_at_a_time_where_reactions_take_long() {
        let pace = Pace::new();
        let long = Some(ROUND + Duration::from_millis(1));
        assert_eq!([None, long, long, long, None].map(|taken| pace.next(taken)), [64, 32, 16, 8, 8]);
        assert_eq!([long; 5].map(|taken| pace.next(taken)), [4, 2, 1, 1, 1]);
        let (short, usual) = (Some(ROUND / 4), Some(ROUND * 3 / 4));
        assert_eq!([usual, short, short, usual].map(|taken| pace.next(taken)), [1, 2, 4, 4]);
        assert_eq!([short; 5].map(|taken| pace.next(taken)), [8, 16, 32, 64, 64]);
    }
}
