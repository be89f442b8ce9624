//! The timeline on a toy backend: a graph adds its inputs' first bytes, or misbehaves as its label says.

mod calling_thread;
mod failures;
mod memory;
mod order;
mod random_programs;
mod wishes;

use super::*;
use crate::backend::{Bindings, CopyRange, Place, RunOptions};
use crate::compiler::{Capabilities, Schedule};
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
    gate: (Sender<()>, Receiver<()>),
    started: Arc<Mutex<Vec<u64>>>,
    urgencies: Urgencies,
    /// Runs that other threads than the timeline's have started; nothing where none may.
    lent: Option<Arc<Lent>>,
}

/// How many runs were to be done on the calling thread, and how many on others only.
#[derive(Default)]
struct Lent {
    here: AtomicUsize,
    elsewhere: AtomicUsize,
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
struct Piece(Arc<Mutex<Memory>>, usize);

enum Memory {
    Own(Bytes),
    Host(HostBuffer),
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Host(memory) => memory.as_slice(),
        }
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Host(memory) => memory.as_mut_slice(),
        }
    }
}

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

    fn runs_inline(&self) -> bool {
        self.lent.is_some()
    }

    fn inline_time(&self, graph: &Behaviour) -> Duration {
        if graph.0 == "long" { Duration::from_secs(1) } else { Duration::ZERO }
    }

    fn allocate(&self, descriptor: &Descriptor) -> Result<Piece> {
        Ok(Piece(Arc::new(Mutex::new(Memory::Own(Bytes::zeroed(descriptor.byte_length())?))), 0))
    }

    fn has_own_memory(&self) -> bool {
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

    /// Its memory is elsewhere, as a GPU's is, unless other threads may start runs, as those of a CPU may.
    fn adopt(&self, memory: HostBuffer, _: &Descriptor) -> Result<Self::Tensor, HostBuffer> {
        if self.lent.is_none() { Err(memory) } else { Ok(Piece(Arc::new(Mutex::new(Memory::Host(memory))), 0)) }
    }

    fn compile(&self, schedule: Schedule) -> Result<Behaviour> {
        match schedule.inputs[0].0.as_str() {
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
        *to.0.lock().unwrap() = Memory::Own(bytes);
        done.report(Ok(()));
    }

    fn read(&self, from: &Arc<Piece>, mut into: HostBuffer, done: Done<()>) {
        into.as_mut_slice().copy_from_slice(&from.0.lock().unwrap());
        done.report(Ok(()));
    }

    fn execute(&self, graph: &Arc<Behaviour>, bindings: Bindings<Piece>, options: RunOptions, done: Done<()>) {
        self.started.lock().unwrap().push(options.number);
        self.urgencies.lock().unwrap().push((options.number, options.priority));
        if graph.0 == "gated" {
            // Tells that it has begun, and goes on when it is let.
            self.gate.0.send(()).unwrap();
            self.gate.1.recv().unwrap();
            return done.report(Ok(()));
        }
        let graph = graph.clone();
        let watch = options.watch.clone();
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
        let count =
            |of: fn(&Lent) -> &AtomicUsize| self.lent.iter().for_each(|lent| _ = of(lent).fetch_add(1, Ordering::Relaxed));
        match options.place {
            Place::Here => {
                count(|lent| &lent.here);
                return work();
            }
            Place::Elsewhere => count(|lent| &lent.elsewhere),
            Place::Alone | Place::InTurn => {}
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
    gate: (Receiver<()>, Sender<()>),
    /// The numbers of the runs, as they began.
    started: Arc<Mutex<Vec<u64>>>,
    urgencies: Urgencies,
    next: std::cell::Cell<u64>,
}

impl Harness {
    fn new(held: Option<Sender<Box<dyn FnOnce() + Send>>>) -> Self {
        Harness::with(held, None)
    }

    /// One that lends its loop to the calling thread, which has as much time as script's; what that has started.
    fn lent(held: Option<Sender<Box<dyn FnOnce() + Send>>>) -> (Self, Arc<Lent>) {
        inline::begin_loop_iteration();
        let lent = Arc::<Lent>::default();
        (Harness::with(held, Some(lent.clone())), lent)
    }

    fn with(held: Option<Sender<Box<dyn FnOnce() + Send>>>, lent: Option<Arc<Lent>>) -> Self {
        let slow_build = unbounded();
        let ((begun, begins), (go, goes)) = (unbounded(), unbounded());
        let gate = (begun, goes);
        let started = Arc::<Mutex<Vec<u64>>>::default();
        let urgencies = Urgencies::default();
        let go_on = slow_build.0.clone();
        let toy = Toy {
            limits: Arc::new(Limits::everything()),
            usage: Arc::default(),
            held,
            slow_build,
            gate,
            started: started.clone(),
            urgencies: urgencies.clone(),
            lent,
        };
        let timeline = Timeline::start(toy, |message| assert!(message.contains("on purpose"), "{message}")).unwrap();
        Harness { timeline, slow_build: go_on, gate: (begins, go), started, urgencies, next: Default::default() }
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
        let description = builder.build(vec![("sum".into(), sum)]).unwrap();
        let graph = GraphId(self.id());
        let (sender, receiver) = bounded(1);
        let done = Done::new(move |result| sender.send(result).unwrap());
        self.send(Task::build(graph, description, usize::MAX, done));
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

fn watch_of(priority: Priority, timeout: Option<u64>) -> Watch {
    let timeout = timeout.map(Duration::from_millis);
    Watch::of(WatchOptions { priority, timeout, ..WatchOptions::default() }).unwrap()
}

/// No variable says how much is done on the calling thread.
fn is_usual() -> bool {
    std::env::var_os("WEBNN_INLINE").is_none()
}

fn compute(graph: GraphId, inputs: Vec<HostBuffer>, outputs: Vec<Option<HostBuffer>>, label: &str, done: Done<()>) -> Compute {
    let (inputs, outputs) = Operand::on_host(inputs, outputs);
    Compute { graph, inputs, outputs, method: "compute", label: label.to_owned(), watch: Default::default(), done }
}
