//! The timeline on a toy backend: a graph adds its inputs' first bytes, or misbehaves as its label says.

use super::*;
use crate::backend::{Bindings, CopyRange, Turn};
use crate::compiler::{Capabilities, Plan};
use crate::error::{Error, Kind};
use crate::graph::ops::operator;
use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Op, attribute::Value};
use crate::host_memory::{HostBuffer, leaked};
use crate::memory::Bytes;
use crossbeam_channel::{Receiver, bounded, unbounded};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

#[derive(Clone)]
struct Toy {
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    /// Executions that were asked for and have not been let go on; nothing when they go on by themselves.
    held: Option<Sender<Box<dyn FnOnce() + Send>>>,
    /// Lets a slow build go on.
    slow_build: (Sender<()>, Receiver<()>),
    /// For runs that have the timeline's thread.
    here: (Sender<()>, Receiver<()>),
    turns: Arc<Mutex<Vec<u64>>>,
    urgencies: Urgencies,
    /// How many runs were to be done on the calling thread; nothing where none may be.
    here_runs: Option<Arc<AtomicUsize>>,
}

/// How urgent runs were when they began, and those that were lifted afterwards, by their numbers.
type Urgencies = Arc<Mutex<Vec<(u64, Priority)>>>;

/// Who writes these bytes makes the backend panic on the timeline's thread, where nobody catches it.
const PANICS: [u8; 2] = [9, 9];

/// What a toy graph does, said by the name of its first input.
struct Behaviour(String);

impl Capabilities for Toy {
    fn evaluate(&self, _: &Op, _: &[(&Descriptor, &[u8])], _: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
        unreachable!("toy graphs have no constants")
    }
}

/// The bytes of a tensor from one on.
struct Piece(Arc<Mutex<Bytes>>, usize);

impl Piece {
    fn get(&self) -> u8 {
        self.0.lock().unwrap()[self.1]
    }

    fn set(&self, byte: u8) {
        self.0.lock().unwrap()[self.1] = byte;
    }
}

impl Backend for Toy {
    type Tensor = Piece;
    type Executable = Behaviour;

    fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    fn works_here(&self) -> bool {
        self.here_runs.is_some()
    }

    fn time_here(&self, graph: &Behaviour) -> Duration {
        if graph.0 == "long" { Duration::from_secs(1) } else { Duration::ZERO }
    }

    fn allocate(&self, descriptor: &Descriptor) -> Result<Piece> {
        Ok(Piece(Arc::new(Mutex::new(Bytes::zeroed(descriptor.byte_length())?)), 0))
    }

    fn is_elsewhere(&self) -> bool {
        true
    }

    fn part(&self, of: &Arc<Piece>, first: usize, _: &Descriptor) -> Option<Piece> {
        Some(Piece(of.0.clone(), of.1 + first))
    }

    fn copy(&self, copies: Vec<CopyRange<Piece>>, done: Done<()>) {
        for CopyRange { from, first, to, at, length } in copies {
            let bytes = from.0.lock().unwrap()[first..first + length].to_vec();
            to.0.lock().unwrap()[at..at + length].copy_from_slice(&bytes);
        }
        done.report(Ok(()));
    }

    /// Its memory is elsewhere, as a GPU's is.
    fn adopt(&self, memory: HostBuffer, _: &Descriptor) -> Result<Self::Tensor, HostBuffer> {
        Err(memory)
    }

    fn compile(&self, plan: Plan) -> Result<Behaviour> {
        match plan.inputs[0].0.as_str() {
            "refuse" => Err(Error::new(Kind::Operation, "the device refuses")),
            "slow" => {
                self.slow_build.1.recv().unwrap();
                Ok(Behaviour("slow".into()))
            }
            name => Ok(Behaviour(name.to_owned())),
        }
    }

    fn capabilities(&self) -> &dyn Capabilities {
        self
    }

    fn write(&self, to: &Arc<Piece>, bytes: Bytes, done: Done<()>) {
        assert_ne!(*bytes, PANICS, "on purpose");
        *to.0.lock().unwrap() = bytes;
        done.report(Ok(()));
    }

    fn read(&self, from: &Arc<Piece>, mut into: HostBuffer, done: Done<()>) {
        into.as_mut_slice().copy_from_slice(&from.0.lock().unwrap());
        done.report(Ok(()));
    }

    fn execute(&self, graph: &Arc<Behaviour>, bindings: Bindings<Piece>, turn: Turn, done: Done<()>) {
        self.turns.lock().unwrap().push(turn.number);
        self.urgencies.lock().unwrap().push((turn.number, turn.priority));
        if graph.0 == "here" {
            // Tells that it has begun, and goes on when it is let.
            self.here.0.send(()).unwrap();
            self.here.1.recv().unwrap();
            return done.report(Ok(()));
        }
        let graph = graph.clone();
        let watch = turn.watch.clone();
        let work = move || match graph.0.as_str() {
            _ if watch.begin().is_err() => done.report(watch.check()),
            "fail" => done.report(Err(Error::new(Kind::Operation, "the kernel failed"))),
            "panic" => done.run(|| panic!("the kernel panicked")),
            "exhausted" => done.report(Err(Error::new(Kind::Unknown, "no memory"))),
            "forget" => drop(done),
            _ => done.run(|| {
                let sum = bindings.inputs.iter().map(|tensor| tensor.get()).fold(0, u8::wrapping_add);
                bindings.outputs.iter().flatten().for_each(|tensor| tensor.set(sum));
                Ok(())
            }),
        };
        if turn.here {
            self.here_runs.iter().for_each(|runs| _ = runs.fetch_add(1, Ordering::Relaxed));
            return work();
        }
        match &self.held {
            Some(held) => held.send(Box::new(work)).unwrap(),
            None => drop(std::thread::spawn(work)),
        }
    }

    fn lift(&self, number: u64, priority: Priority) {
        self.urgencies.lock().unwrap().push((number, priority));
    }

    fn cancel(&self) {}
}

/// A timeline over the toy backend, spoken to as `node/` does.
struct Harness {
    timeline: Timeline,
    slow_build: Sender<()>,
    /// A run has the timeline's thread, and lets it go on.
    here: (Receiver<()>, Sender<()>),
    /// The numbers of the runs, as they began.
    turns: Arc<Mutex<Vec<u64>>>,
    urgencies: Urgencies,
    next: std::cell::Cell<u64>,
}

impl Harness {
    fn new(held: Option<Sender<Box<dyn FnOnce() + Send>>>) -> Self {
        Harness::with(held, None)
    }

    /// One that lends its loop to the calling thread, which has as much time as script's; how many runs that has done.
    fn lent(held: Option<Sender<Box<dyn FnOnce() + Send>>>) -> (Self, Arc<AtomicUsize>) {
        here::begin_turn();
        let runs = Arc::<AtomicUsize>::default();
        (Harness::with(held, Some(runs.clone())), runs)
    }

    fn with(held: Option<Sender<Box<dyn FnOnce() + Send>>>, here_runs: Option<Arc<AtomicUsize>>) -> Self {
        let slow_build = unbounded();
        let ((begun, begins), (go, goes)) = (unbounded(), unbounded());
        let here = (begun, goes);
        let turns = Arc::<Mutex<Vec<u64>>>::default();
        let urgencies = Urgencies::default();
        let go_on = slow_build.0.clone();
        let toy = Toy {
            limits: Arc::new(Limits::everything()),
            usage: Arc::default(),
            held,
            slow_build,
            here,
            turns: turns.clone(),
            urgencies: urgencies.clone(),
            here_runs,
        };
        let timeline = Timeline::start(toy, |message| assert!(message.contains("on purpose"), "{message}")).unwrap();
        Harness { timeline, slow_build: go_on, here: (begins, go), turns, urgencies, next: Default::default() }
    }

    fn send(&self, task: Task) {
        self.timeline.send(task).unwrap();
    }

    fn id(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn tensor(&self) -> TensorId {
        let tensor = TensorId(self.id());
        let descriptor = Descriptor::new(DataType::Uint8, [1]);
        self.send(Task::CreateTensor { tensor, descriptor, label: String::new(), done: Done::ignored() });
        tensor
    }

    fn graph(&self, behaviour: &str, inputs: usize) -> Result<GraphId> {
        let (graph, built) = self.build(behaviour, inputs);
        built.recv().unwrap().map(|_| graph)
    }

    fn build(&self, behaviour: &str, inputs: usize) -> (GraphId, Receiver<Result<Built>>) {
        let mut builder = GraphBuilder::new(self.timeline.limits().clone());
        let mut input = |name: &str| builder.input(name, Descriptor::new(DataType::Uint8, [1])).unwrap();
        let mut sum = input(behaviour);
        for i in 1..inputs {
            let other = builder.input(&format!("input {i}"), Descriptor::new(DataType::Uint8, [1])).unwrap();
            sum = builder.apply(operator("add").unwrap(), [Value::Operand(sum), Value::Operand(other)], "").unwrap()[0];
        }
        if inputs == 1 {
            sum = builder.apply(operator("add").unwrap(), [Value::Operand(sum), Value::Operand(sum)], "").unwrap()[0];
        }
        let description = Box::new(builder.build(vec![("sum".into(), sum)]).unwrap());
        let graph = GraphId(self.id());
        let (sender, receiver) = bounded(1);
        let done = Done::new(move |result| sender.send(result).unwrap());
        self.send(Task::Build {
            graph,
            description,
            label: String::new(),
            most: usize::MAX,
            urgency: Urgency::Wanted,
            watch: Watch::default(),
            done,
        });
        (graph, receiver)
    }

    fn write(&self, tensor: TensorId, byte: u8) {
        self.send(Task::Write { tensor, bytes: Bytes::copy_of(&[byte]).unwrap(), label: String::new(), charge: None });
    }

    fn tensor_bytes(&self) -> usize {
        let (sender, receiver) = bounded(1);
        self.send(Task::Usage { done: Done::new(move |result: Result<UsageNumbers>| sender.send(result).unwrap()) });
        receiver.recv().unwrap().unwrap().tensors
    }

    fn share(&self, tensor: TensorId, to: TensorId) {
        self.send(Task::Share { tensor, to, done: Done::new(|result: Result<()>| result.unwrap()) });
    }

    fn dispatch(&self, graph: GraphId, tensors: &[TensorId], label: &str) {
        self.dispatch_watched(graph, tensors, label, Watch::default());
    }

    fn dispatch_watched(&self, graph: GraphId, tensors: &[TensorId], label: &str, watch: Watch) {
        let (tensors, label) = (tensors.iter().copied().collect(), label.into());
        self.send(Task::Dispatch { graph, tensors, label, watch, done: Done::ignored() });
    }

    /// Asks for a tensor's byte; the answer comes later.
    fn ask(&self, tensor: TensorId) -> Receiver<Result<u8>> {
        self.ask_watched(tensor, Watch::default())
    }

    fn ask_watched(&self, tensor: TensorId, watch: Watch) -> Receiver<Result<u8>> {
        let (sender, receiver) = bounded(1);
        let (into, memory) = leaked(1);
        // The memory is leaked, so it is still there when the read reports.
        let done = Done::new(move |result: Result<()>| sender.send(result.map(|()| crate::host_memory::peek(memory))).unwrap());
        self.send(Task::Read { tensor, into, watch, done });
        receiver
    }

    fn read(&self, tensor: TensorId) -> Result<u8> {
        self.ask(tensor).recv().unwrap()
    }
}

#[test]
fn a_chain_of_dispatches_needs_no_waiting() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let tensors = [harness.tensor(), harness.tensor(), harness.tensor()];
    harness.write(tensors[1], 1);
    for i in 0..12 {
        harness.dispatch(add, &[tensors[i % 3], tensors[(i + 1) % 3], tensors[(i + 2) % 3]], "");
    }
    // Fibonacci: the 13th number.
    assert_eq!(harness.read(tensors[13 % 3]).unwrap(), 233);
}

/// C13.
#[test]
fn a_long_build_holds_up_no_dispatch_that_does_not_need_it() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let [a, b, sum, later] = [(); 4].map(|()| harness.tensor());
    harness.write(a, 2);
    let (slow, built) = harness.build("slow", 1);
    harness.dispatch(add, &[a, a, b], "");
    assert_eq!(harness.read(b).unwrap(), 4);
    harness.dispatch(add, &[a, b, sum], "");
    assert_eq!(harness.read(sum).unwrap(), 6);
    assert!(built.try_recv().is_err(), "the build is still under way");
    harness.slow_build.send(()).unwrap();
    built.recv().unwrap().unwrap();
    harness.dispatch(slow, &[b, later], "");
    assert_eq!(harness.read(later).unwrap(), 4);
}

/// C2.
#[test]
fn dispatches_that_share_nothing_written_run_at_the_same_time() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let shared = harness.tensor();
    for _ in 0..2 {
        harness.dispatch(add, &[shared, harness.tensor(), harness.tensor()], "");
    }
    // Both have been started although neither has ended.
    let both = [held.recv().unwrap(), held.recv().unwrap()];
    both.into_iter().for_each(|work| work());
}

#[test]
fn who_asks_for_the_memory_waits_for_no_run() {
    let harness = Harness::new(None);
    let here = harness.graph("here", 1).unwrap();
    let [from, to] = [(); 2].map(|()| harness.tensor());
    let idle = harness.timeline.usage();
    harness.dispatch(here, &[from, to], "");
    harness.here.0.recv().unwrap();
    assert_eq!(harness.timeline.usage(), idle);
    harness.here.1.send(()).unwrap();
    assert_eq!(harness.read(to).unwrap(), 0);
}

#[test]
fn runs_are_numbered_as_they_are_asked_for() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let here = harness.graph("here", 1).unwrap();
    let [one, sum, twice, other] = [(); 4].map(|()| harness.tensor());
    harness.write(one, 1);
    harness.dispatch(here, &[one, other], "");
    harness.here.0.recv().unwrap();
    harness.dispatch(add, &[one, one, sum], "");
    harness.dispatch(add, &[sum, sum, twice], "");
    harness.dispatch(add, &[one, one, other], "");
    harness.here.1.send(()).unwrap();
    assert_eq!([harness.read(twice).unwrap(), harness.read(other).unwrap()], [4, 2]);
    // The last one need not wait for the first sum; the number says that it was asked for later.
    assert_eq!(*harness.turns.lock().unwrap(), [1, 2, 4, 3]);
}

#[test]
fn a_writer_waits_for_readers_and_readers_for_the_writer() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (a, b, sum) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 2);
    harness.write(b, 3);
    harness.dispatch(add, &[a, b, sum], "");
    harness.write(a, 100);
    let before = harness.ask(sum);
    harness.dispatch(add, &[a, b, sum], "");
    let after = harness.ask(sum);
    for _ in 0..2 {
        held.recv().unwrap()();
    }
    assert_eq!(before.recv().unwrap().unwrap(), 5);
    assert_eq!(after.recv().unwrap().unwrap(), 103);
}

#[test]
fn failures_travel_and_are_cleared_by_a_write() {
    for behaviour in ["fail", "panic", "forget"] {
        let harness = Harness::new(None);
        let bad = harness.graph(behaviour, 1).unwrap();
        let add = harness.graph("add", 1).unwrap();
        let (a, b, c) = (harness.tensor(), harness.tensor(), harness.tensor());
        harness.dispatch(bad, &[a, b], "first");
        harness.dispatch(add, &[b, c], "second");
        let error = harness.read(c).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert!(error.message().contains("[second]"), "{error}");
        let chain: Vec<_> = std::iter::successors(Some(&error), |error| error.cause()).map(|error| error.message()).collect();
        assert!(chain.last().unwrap().contains("[first]"), "{chain:?}");
        let errored = harness.ask(b);
        harness.write(b, 7);
        harness.dispatch(add, &[b, c], "");
        assert!(errored.recv().unwrap().is_err());
        assert_eq!(harness.read(b).unwrap(), 7);
        assert_eq!(harness.read(c).unwrap(), 7);
    }
}

#[test]
fn what_is_given_up_before_its_turn_is_errored_in_its_turn() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let [a, b, sum, out] = [(); 4].map(|()| harness.tensor());
    harness.write(out, 5);
    harness.dispatch(add, &[a, b, sum], "");
    let before = harness.ask(out);
    let (watch, of_read) = (Watch::new(false), Watch::new(false));
    harness.dispatch_watched(add, &[a, sum, out], "mine", watch.clone());
    let after = harness.ask(out);
    let unread = harness.ask_watched(out, of_read.clone());
    let is_of = |error: &Error, watch: &Watch| Arc::ptr_eq(error.reason().unwrap(), watch.reason().unwrap());
    watch.give_up();
    of_read.give_up();
    // A read that nobody wants ends at once, though what it was to read is not there.
    let error = unread.recv().unwrap().unwrap_err();
    assert!(error.kind() == Kind::Aborted && is_of(&error, &of_read));
    assert_eq!(before.recv().unwrap().unwrap(), 5);
    assert!(after.try_recv().is_err());
    held.recv().unwrap()();
    let error = after.recv().unwrap().unwrap_err();
    assert!(error.kind() == Kind::Aborted && is_of(&error, &watch));
    assert_eq!(error.message(), "dispatch [mine]: it was cancelled by its signal");
    harness.dispatch(add, &[out, a, b], "next");
    let error = harness.read(b).unwrap_err();
    assert!(error.kind() == Kind::Operation && is_of(error.root(), &watch));
    harness.write(out, 7);
    assert_eq!(harness.read(out).unwrap(), 7);
    assert!(held.is_empty(), "it did not run");
}

fn watch_of(priority: Priority, timeout: Option<u64>) -> Watch {
    let timeout = timeout.map(Duration::from_millis);
    Watch::of(Wish { priority, timeout, ..Wish::default() }).unwrap()
}

#[test]
fn the_more_urgent_of_what_is_ready_goes_first() {
    let harness = Harness::new(None);
    let (here, add) = (harness.graph("here", 1).unwrap(), harness.graph("add", 1).unwrap());
    let tensors: Vec<[TensorId; 2]> = (0..5).map(|_| [(); 2].map(|()| harness.tensor())).collect();
    harness.dispatch(here, &tensors[0], "");
    harness.here.0.recv().unwrap();
    for (tensors, priority) in tensors[1..].iter().zip([Priority::Low, Priority::Normal, Priority::High, Priority::Normal]) {
        harness.dispatch_watched(add, tensors, "", watch_of(priority, None));
    }
    harness.here.1.send(()).unwrap();
    tensors.iter().for_each(|[_, to]| assert_eq!(harness.read(*to).unwrap(), 0));
    let of = [(1, Priority::Normal), (4, Priority::High), (3, Priority::Normal), (5, Priority::Normal), (2, Priority::Low)];
    assert_eq!(*harness.urgencies.lock().unwrap(), of);
}

#[test]
fn what_the_more_urgent_wait_for_is_as_urgent() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let [a, b, c, d, e] = [(); 5].map(|()| harness.tensor());
    harness.dispatch_watched(add, &[a, b], "", watch_of(Priority::Low, None));
    harness.dispatch_watched(add, &[b, c], "", watch_of(Priority::Low, None));
    // Who reads hurries nobody, unless script says so.
    let read = harness.ask(c);
    harness.dispatch_watched(add, &[a, e], "", watch_of(Priority::Low, None));
    harness.timeline.usage();
    assert!(harness.urgencies.lock().unwrap().iter().all(|(_, priority)| *priority == Priority::Low));
    harness.dispatch_watched(add, &[c, d], "", watch_of(Priority::High, None));
    let _read = harness.ask_watched(e, watch_of(Priority::Normal, None));
    // Before anything ends.
    harness.timeline.usage();
    for _ in 0..4 {
        held.recv().unwrap()();
    }
    assert!(read.recv().unwrap().is_ok() && harness.read(d).is_ok());
    let (low, normal, high) = (Priority::Low, Priority::Normal, Priority::High);
    assert_eq!(*harness.urgencies.lock().unwrap(), [(1, low), (3, low), (1, high), (3, normal), (2, high), (4, high)]);
}

#[test]
fn what_is_overdue_before_its_turn_is_dropped() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let [a, b, c] = [(); 3].map(|()| harness.tensor());
    harness.dispatch(add, &[a, b], "");
    harness.dispatch_watched(add, &[b, c], "mine", watch_of(Priority::Normal, Some(10)));
    let error = harness.ask_watched(c, watch_of(Priority::Normal, Some(20))).recv().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Timeout, "readTensor: it had not begun after 20 ms (timeout)"));
    let read = harness.ask(c);
    held.recv().unwrap()();
    let error = read.recv().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Timeout, "dispatch [mine]: it had not begun after 10 ms (timeout)"));
    assert!(held.is_empty(), "it did not run");
}

#[test]
fn nothing_begins_of_what_was_given_up_before() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 1).unwrap();
    let [a, b] = [(); 2].map(|()| harness.tensor());
    let watch = Watch::new(false);
    watch.give_up();
    harness.dispatch_watched(add, &[a, b], "", watch.clone());
    assert_eq!(harness.read(b).unwrap_err().kind(), Kind::Aborted);
    assert_eq!(harness.ask_watched(a, watch).recv().unwrap().unwrap_err().kind(), Kind::Aborted);
    assert_eq!(harness.read(a).unwrap(), 0);
}

#[test]
fn a_build_that_is_refused_rejects_and_disturbs_nothing() {
    let harness = Harness::new(None);
    let error = harness.graph("refuse", 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Operation);
    assert!(error.message().contains("the device refuses"));
    let tensor = harness.tensor();
    assert_eq!(harness.read(tensor).unwrap(), 0);
}

#[test]
fn a_build_hears_that_the_timeline_has_ended_meanwhile() {
    let harness = Harness::new(None);
    let (_, built) = harness.build("slow", 1);
    let Harness { timeline, slow_build, .. } = harness;
    timeline.send(Task::Stop).unwrap();
    // Its end is seen by a task that is reported.
    let (sender, ended) = bounded(1);
    while ended.is_empty() {
        let sender = sender.clone();
        let done = Done::new(move |usage: Result<_>| _ = usage.is_err().then(|| sender.try_send(())));
        timeline.send(Task::Usage { done }).unwrap();
    }
    slow_build.send(()).unwrap();
    let error = built.recv().unwrap().err().unwrap();
    assert_eq!(error.message(), "the work was lost: the context was destroyed or lost");
}

#[test]
fn what_waits_hears_what_the_timeline_panicked_of() {
    let harness = Harness::new(None);
    let slow = harness.graph("here", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    // Asked for while a run has the thread, so that it is there when the panic comes.
    harness.dispatch(slow, &[a, b], "");
    harness.here.0.recv().unwrap();
    harness.send(Task::Write { tensor: a, bytes: Bytes::copy_of(&PANICS).unwrap(), label: String::new(), charge: None });
    let read = harness.ask(a);
    harness.here.1.send(()).unwrap();
    let error = read.recv().unwrap().unwrap_err();
    let expected = "the work was lost: the context's thread panicked: assertion `left != right` failed: on purpose";
    assert!(error.message().starts_with(expected), "{error}");
}

#[test]
fn destroyed_tensors_serve_what_was_asked_before() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (a, b, sum) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 1);
    harness.dispatch(add, &[a, b, sum], "");
    for tensor in [a, b] {
        harness.send(Task::DestroyTensor { tensor });
    }
    harness.send(Task::DestroyGraph { graph: add });
    let answer = harness.ask(sum);
    held.recv().unwrap()();
    assert_eq!(answer.recv().unwrap().unwrap(), 1);
}

#[test]
fn a_timeline_that_has_gone_reports_what_it_is_asked() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    harness.dispatch(add, &[a, b], "");
    let pending = harness.ask(b);
    harness.timeline.stop();
    assert!(pending.recv().unwrap().is_err());
    assert!(harness.read(a).is_err());
    drop(held);
}

#[test]
fn random_programs_read_what_a_sequential_model_reads() {
    let seed = std::env::var("WEBNN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_121u64);
    println!("seed {seed} (WEBNN_SEED)");
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % below as u64) as usize
    };
    // On its thread, and now here and now there.
    random_program(&Harness::new(None), &mut random);
    let (harness, runs) = Harness::lent(None);
    random_program(&harness, &mut |below| {
        if below == 9 {
            here::begin_turn();
        }
        random(below)
    });
    assert!(!is_usual() || runs.load(Ordering::Relaxed) > 0);
}

/// No variable says how much is done on the calling thread.
fn is_usual() -> bool {
    std::env::var_os("WEBNN_INLINE").is_none()
}

fn random_program(harness: &Harness, random: &mut impl FnMut(usize) -> usize) {
    let add = harness.graph("add", 2).unwrap();
    let fail = harness.graph("fail", 2).unwrap();
    let long = harness.graph("long", 2).unwrap();
    let tensors: Vec<TensorId> = (0..5).map(|_| harness.tensor()).collect();
    let mut versions = 0;
    let mut version = || {
        versions += 1;
        versions
    };
    let mut model: Vec<Modelled> = tensors.iter().map(|_| Modelled { value: Some(0), may_fail: false, version: 0 }).collect();
    let mut answers = Vec::new();
    // What may still be given up.
    let mut watches: Vec<Watch> = Vec::new();
    for _ in 0..3000 {
        let gives_up = random(8) == 0;
        if gives_up && !watches.is_empty() {
            watches.swap_remove(random(watches.len())).give_up();
        }
        // Of every third piece of work.
        let timeout = (random(4) == 0).then(|| random(3) as u64);
        let watch = if random(3) == 0 { watch_of(Priority::ALL[random(3)], timeout) } else { Watch::default() };
        let is_over = watch.is_watched() && random(6) == 0;
        if is_over {
            watch.give_up();
        } else if watch.is_watched() {
            watches.push(watch.clone());
        }
        match random(9) {
            0 | 1 => {
                let (i, byte) = (random(5), random(256) as u8);
                harness.write(tensors[i], byte);
                model[i] = Modelled { value: Some(byte), may_fail: false, version: version() };
            }
            2..=4 => {
                let a = random(5);
                let b = (a + 1 + random(3)) % 5;
                let out = (0..5).find(|i| *i != a && *i != b).unwrap();
                let fails = random(10) == 0;
                let graph = [add, long][usize::from(random(8) == 0)];
                let graph = if fails { fail } else { graph };
                let may_fail = watch.is_watched() || model[a].may_fail || model[b].may_fail;
                harness.dispatch_watched(graph, &[tensors[a], tensors[b], tensors[out]], "", watch);
                let sum = model[a].value.zip(model[b].value).map(|(a, b)| a.wrapping_add(b));
                let value = if fails || is_over { None } else { sum };
                model[out] = Modelled { value, may_fail, version: version() };
            }
            5 => {
                let (from, to) = (random(5), random(5));
                harness.share(tensors[from], tensors[to]);
                model[to] = model[from];
            }
            _ => {
                let i = random(5);
                let may_be_given_up = watch.is_watched();
                let expected = if is_over { Modelled { value: None, ..model[i] } } else { model[i] };
                answers.push((harness.ask_watched(tensors[i], watch), expected, may_be_given_up));
            }
        }
    }
    let mut found: Vec<Option<Option<u8>>> = vec![None; versions + 1];
    for (number, (answer, Modelled { value, may_fail, version }, may_be_given_up)) in answers.into_iter().enumerate() {
        let answer = answer.recv().unwrap().ok();
        assert!(answer == value || answer.is_none() && (may_fail || may_be_given_up), "read {number}");
        if !may_be_given_up {
            // Nothing changes between two writes, whatever is given up meanwhile.
            assert_eq!(*found[version].get_or_insert(answer), answer, "read {number}");
        }
    }
}

/// A tensor of the sequential model.
#[derive(Clone, Copy)]
struct Modelled {
    /// Nothing where it is errored in any case.
    value: Option<u8>,
    /// What it was computed from may have been given up.
    may_fail: bool,
    /// Which write it has its value from.
    version: usize,
}

#[test]
fn what_is_short_is_done_on_the_calling_thread_while_nothing_is_under_way() {
    let (sender, held) = unbounded();
    let (harness, runs) = Harness::lent(Some(sender));
    let (add, long) = (harness.graph("add", 2).unwrap(), harness.graph("long", 2).unwrap());
    let [a, b, c] = [(); 3].map(|()| harness.tensor());
    harness.write(a, 3);
    // The build may not have been heard of before.
    harness.timeline.usage();
    let here = |expected: usize| assert_eq!(runs.load(Ordering::Relaxed), expected);
    if !is_usual() {
        return;
    }
    // The thread may still have the loop; then it does what is asked.
    while runs.load(Ordering::Relaxed) == 0 {
        here::begin_turn();
        harness.dispatch(add, &[a, a, b], "");
        if runs.load(Ordering::Relaxed) == 0 {
            held.recv().unwrap()();
        }
    }
    assert_eq!(harness.read(b).unwrap(), 6);
    // A long one goes to the thread, and what comes behind it too, if it were ever so short.
    harness.dispatch(long, &[a, b, c], "");
    let work = held.recv().unwrap();
    harness.dispatch(add, &[c, c, b], "");
    harness.write(c, 100);
    here(1);
    work();
    held.recv().unwrap()();
    assert_eq!([harness.read(b).unwrap(), harness.read(c).unwrap()], [18, 100]);
    // Nor is anything done here where there is no time left.
    let spent = || {
        while here::room() != here::Room::For(Duration::ZERO) {
            here::timed(std::thread::yield_now);
        }
    };
    spent();
    harness.dispatch(add, &[a, a, b], "");
    here(1);
    held.recv().unwrap()();
    assert_eq!(harness.read(b).unwrap(), 6);
    // A thread that is not script's does what the timeline's would.
    here::as_timeline(|| harness.dispatch(add, &[a, b, c], ""));
    held.recv().unwrap()();
    assert_eq!(harness.read(c).unwrap(), 9);
}

#[test]
fn what_fails_on_the_calling_thread_fails_as_elsewhere() {
    for behaviour in ["fail", "panic", "forget"] {
        let (harness, _) = Harness::lent(None);
        let (bad, add) = (harness.graph(behaviour, 1).unwrap(), harness.graph("add", 1).unwrap());
        let [a, b, c] = [(); 3].map(|()| harness.tensor());
        harness.timeline.usage();
        harness.dispatch(bad, &[a, b], "first");
        harness.dispatch(add, &[b, c], "second");
        let error = harness.read(c).unwrap_err();
        let chain: Vec<_> = std::iter::successors(Some(&error), |error| error.cause()).map(|error| error.message()).collect();
        assert!(chain[0].contains("[second]") && chain.last().unwrap().contains("[first]"), "{chain:?}");
        harness.write(b, 7);
        assert_eq!(harness.read(b).unwrap(), 7);
    }
}

#[test]
fn a_panic_on_the_calling_thread_ends_the_timeline() {
    let (harness, _) = Harness::lent(None);
    let tensor = harness.tensor();
    harness.timeline.usage();
    harness.send(Task::Write { tensor, bytes: Bytes::copy_of(&PANICS).unwrap(), label: String::new(), charge: None });
    // Nothing hangs, whoever noticed first.
    let error = harness.read(tensor).unwrap_err();
    let expected = ["the context's thread panicked: assertion `left != right` failed: on purpose", run::ENDED];
    assert!(expected.iter().any(|expected| error.message().contains(expected)), "{error}");
    assert!(harness.timeline.has_ended_by(Instant::now() + Duration::from_secs(60)));
}

#[test]
fn threads_that_do_tasks_themselves_keep_the_order_of_each() {
    let (harness, _) = Harness::lent(None);
    let add = harness.graph("add", 2).unwrap();
    let tensors: Vec<[TensorId; 3]> = (0..4).map(|_| [(); 3].map(|()| harness.tensor())).collect();
    let way = harness.timeline.way();
    std::thread::scope(|scope| {
        for (number, &[one, sum, other]) in tensors.iter().enumerate() {
            let way = way.clone();
            scope.spawn(move || {
                let work = || {
                    let send = |task| way.send(task).unwrap();
                    let write = |byte| Task::Write {
                        tensor: one,
                        bytes: Bytes::copy_of(&[byte]).unwrap(),
                        label: String::new(),
                        charge: None,
                    };
                    let add = |tensors: [TensorId; 3]| Task::Dispatch {
                        graph: add,
                        tensors: tensors.into_iter().collect(),
                        label: String::new(),
                        watch: Watch::default(),
                        done: Done::ignored(),
                    };
                    for _ in 0..200 {
                        // sum becomes 2, and then 4, 6, …
                        send(write(2));
                        send(add([one, sum, other]));
                        send(write(0));
                        send(add([one, other, sum]));
                    }
                };
                // Two of them are script's, the others have themselves to themselves.
                if number % 2 == 0 {
                    here::begin_turn();
                    work();
                } else {
                    here::as_timeline(work);
                }
            });
        }
    });
    for [_, sum, _] in tensors {
        assert_eq!(harness.read(sum).unwrap(), (400 % 256) as u8);
    }
}

#[test]
fn who_is_written_first_gets_memory_of_its_own() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 1).unwrap();
    let held = || harness.tensor_bytes();
    let (a, b) = (harness.tensor(), harness.tensor());
    harness.write(a, 3);
    let before = held();
    let new = TensorId(harness.id());
    harness.share(a, new);
    harness.share(a, b);
    // b had as much as it shares now.
    assert_eq!((harness.read(new).unwrap(), held()), (3, before - 1));
    harness.write(a, 4);
    harness.dispatch(add, &[a, b], "");
    assert_eq!([a, b, new].map(|tensor| harness.read(tensor).unwrap()), [4, 4, 3]);
    assert_eq!(held(), before + 1);
    // Nobody shares it any more, so it is written in its place.
    harness.share(new, a);
    harness.send(Task::DestroyTensor { tensor: new });
    harness.write(a, 5);
    assert_eq!((harness.read(a).unwrap(), held()), (5, before));
    // What has failed has failed for all.
    let fail = harness.graph("fail", 1).unwrap();
    harness.dispatch(fail, &[a, b], "");
    harness.share(b, new);
    harness.write(b, 1);
    assert_eq!(harness.read(b).unwrap(), 1);
    assert!(harness.read(new).unwrap_err().message().contains("the kernel failed"));
    let (sender, results) = bounded(1);
    let gone = Task::Share { tensor: TensorId(harness.id()), to: a, done: Done::new(move |result| sender.send(result).unwrap()) };
    harness.send(gone);
    assert!(results.recv().unwrap().unwrap_err().message().contains("destroyed"));
}

#[test]
fn a_backend_that_copies_computes_in_the_callers_memory_all_the_same() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let inputs = [3, 4].map(|byte| {
        let (mut memory, _) = leaked(1);
        memory.as_mut_slice()[0] = byte;
        memory
    });
    let (output, address) = leaked(1);
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let (inputs, outputs) = (inputs.into(), vec![Some(output)]);
    harness.send(Task::Compute(compute(add, inputs, outputs, "", done)));
    receiver.recv().unwrap().unwrap();
    assert_eq!(crate::host_memory::peek(address), 7);
}

fn compute(graph: GraphId, inputs: Vec<HostBuffer>, outputs: Vec<Option<HostBuffer>>, label: &str, done: Done<()>) -> Compute {
    let (inputs, outputs) = Operand::on_host(inputs, outputs);
    Compute { graph, inputs, outputs, method: "compute", label: label.to_owned(), watch: Default::default(), done }
}

/// A tensor of four bytes, and what asks for them.
fn four(harness: &Harness, bytes: [u8; 4]) -> (TensorId, impl Fn() -> Result<[u8; 4]>) {
    let tensor = TensorId(harness.id());
    let descriptor = Descriptor::new(DataType::Uint8, [4]);
    harness.send(Task::CreateTensor { tensor, descriptor, label: String::new(), done: Done::ignored() });
    harness.send(Task::Write { tensor, bytes: Bytes::copy_of(&bytes).unwrap(), label: String::new(), charge: None });
    let read = move || {
        let (sender, receiver) = bounded(1);
        let (into, address) = leaked(4);
        let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
        harness.send(Task::Read { tensor, into, watch: Watch::default(), done });
        receiver.recv().unwrap()?;
        Ok([0, 1, 2, 3].map(|i| crate::host_memory::peek(address + i)))
    };
    (tensor, read)
}

/// A run on parts of tensors; its end comes later.
fn on_parts(harness: &Harness, graph: GraphId, inputs: &[(TensorId, usize)], output: (TensorId, usize)) -> Receiver<Result<()>> {
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let part = |&(tensor, first): &(TensorId, usize)| Operand::Part(Part { tensor, first });
    let (inputs, outputs) = (inputs.iter().map(part).collect(), vec![Some(part(&output))]);
    let label = String::new();
    harness.send(Task::Compute(Compute { graph, inputs, outputs, method: "compute", label, watch: Default::default(), done }));
    receiver
}

#[test]
fn what_computes_on_parts_of_a_tensor_keeps_the_order_of_all_that_uses_it() {
    let (sender, held) = unbounded::<Box<dyn FnOnce() + Send>>();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 2).unwrap();
    let (tensor, read) = four(&harness, [1, 2, 3, 4]);
    // Each waits for the one before, by the tensor alone.
    let first = on_parts(&harness, add, &[(tensor, 0), (tensor, 1)], (tensor, 3));
    let second = on_parts(&harness, add, &[(tensor, 3), (tensor, 2)], (tensor, 0));
    let work = held.recv().unwrap();
    assert_eq!(harness.tensor_bytes(), 4);
    assert!(held.try_recv().is_err(), "the second has begun");
    work();
    first.recv().unwrap().unwrap();
    held.recv().unwrap()();
    second.recv().unwrap().unwrap();
    assert_eq!(read().unwrap(), [6, 2, 3, 3]);
}

#[test]
fn a_failed_run_leaves_the_tensors_of_which_it_has_parts() {
    let harness = Harness::new(None);
    let (fail, add) = (harness.graph("fail", 2).unwrap(), harness.graph("add", 2).unwrap());
    let (tensor, read) = four(&harness, [1, 2, 3, 4]);
    let ended = on_parts(&harness, fail, &[(tensor, 0), (tensor, 1)], (tensor, 3)).recv().unwrap();
    assert!(ended.unwrap_err().message().contains("the kernel failed"));
    assert_eq!(read().unwrap(), [1, 2, 3, 4]);
    let refused = |inputs: [(TensorId, usize); 2], output| on_parts(&harness, add, &inputs, output).recv().unwrap().unwrap_err();
    assert!(refused([(tensor, 0), (tensor, 4)], (tensor, 3)).message().contains("memory that is not the graph's"));
    assert!(refused([(tensor, 0), (tensor, 1)], (tensor, usize::MAX)).message().contains("memory that is not the graph's"));
    assert!(refused([(TensorId(1000), 0), (tensor, 1)], (tensor, 3)).message().contains("a tensor was destroyed"));
    // What is errored is no input.
    let (other, _) = four(&harness, [0; 4]);
    let failing = harness.graph("fail", 1).unwrap();
    harness.dispatch(failing, &[tensor, other], "");
    assert!(refused([(other, 0), (tensor, 1)], (tensor, 3)).message().contains("an input is errored"));
}

#[test]
fn copies_of_parts_come_behind_what_was_asked_before() {
    let harness = Harness::new(None);
    let (tensor, _) = four(&harness, [1, 2, 3, 4]);
    let (other, read) = four(&harness, [0; 4]);
    let copy = |from: (TensorId, usize), to: (TensorId, usize), length| {
        let (sender, receiver) = bounded(1);
        let part = |(tensor, first)| Part { tensor, first };
        let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
        harness.send(Task::Copy { copies: vec![TensorCopy { from: part(from), to: part(to), length }], done });
        receiver
    };
    let add = harness.graph("add", 2).unwrap();
    let computed = on_parts(&harness, add, &[(tensor, 2), (tensor, 3)], (tensor, 1));
    let copied = copy((tensor, 1), (other, 2), 2);
    assert_eq!(read().unwrap(), [0, 0, 7, 3]);
    computed.recv().unwrap().unwrap();
    copied.recv().unwrap().unwrap();
    let gone = copy((tensor, 0), (TensorId(1000), 0), 1).recv().unwrap();
    assert!(gone.unwrap_err().message().contains("a tensor was destroyed"));
    let failing = harness.graph("fail", 1).unwrap();
    harness.dispatch(failing, &[other, tensor], "");
    let errored = copy((tensor, 0), (other, 0), 1).recv().unwrap();
    assert!(errored.unwrap_err().message().contains("a tensor is errored"));
    assert_eq!(read().unwrap(), [0, 0, 7, 3]);
}

#[test]
fn a_failed_compute_names_its_label() {
    let harness = Harness::new(None);
    let fail = harness.graph("fail", 1).unwrap();
    let (sender, receiver) = bounded(1);
    let done = Done::new(move |result: Result<()>| sender.send(result).unwrap());
    let (inputs, outputs) = (vec![leaked(1).0], vec![Some(leaked(1).0)]);
    harness.send(Task::Compute(compute(fail, inputs, outputs, "mine", done)));
    let error = receiver.recv().unwrap().unwrap_err();
    assert!(error.message().starts_with("compute [mine]: the kernel failed"), "{error}");
}

#[test]
fn recorded_dispatches_run_in_their_order() {
    let harness = Harness::new(None);
    let add = harness.graph("add", 2).unwrap();
    let (a, b, c) = (harness.tensor(), harness.tensor(), harness.tensor());
    harness.write(a, 1);
    let command = |tensors: [TensorId; 3]| Command { graph: add, tensors: tensors.into_iter().collect(), label: String::new() };
    let commands: Arc<[Command]> = [command([a, b, c]), command([a, c, b])].into();
    for _ in 0..3 {
        harness.send(Task::Submit { commands: commands.clone() });
    }
    // b grows by two in each round.
    assert_eq!(harness.read(b).unwrap(), 6);
}

#[test]
fn a_graph_without_memory_is_errored_for_good() {
    let harness = Harness::new(None);
    let graph = harness.graph("exhausted", 1).unwrap();
    let (a, b) = (harness.tensor(), harness.tensor());
    for expected in ["no memory", "the graph can never run again"] {
        harness.dispatch(graph, &[a, b], "");
        let error = harness.read(b).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(error.kind(), Kind::Operation);
    }
}

#[test]
fn the_end_waits_for_what_is_under_way() {
    let (sender, held) = unbounded();
    let harness = Harness::new(Some(sender));
    let add = harness.graph("add", 1).unwrap();
    let (output, address) = leaked(1);
    let (mut input, _) = leaked(1);
    input.as_mut_slice()[0] = 9;
    let (reports, reported) = bounded(1);
    let done = Done::new(move |result: Result<()>| reports.send(result).unwrap());
    harness.send(Task::Compute(compute(add, vec![input], vec![Some(output)], "", done)));
    let work = held.recv().unwrap();
    harness.timeline.stop();
    // The caller's memory is still in use, so nothing may be reported yet.
    assert!(reported.try_recv().is_err());
    work();
    let _ = reported.recv().unwrap();
    harness.timeline.join();
    let _ = address;
}
