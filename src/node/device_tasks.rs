//! Tasks of programs for a `GPUDevice`, which only the JavaScript thread can use. A program's thread queues a task for the timeline here. The
//! JavaScript thread takes it (`lib/webgpu/device-tasks.js`), carries it out, and reports its end.
//!
//! Graphs are lowered before, on the thread that asks for them. When the context ends, whatever is unfinished is reported as failed.

use super::bytes;
use super::call::{Call, stale};
use super::environment::Environment;
use super::handles::Handle;
use super::onnx::guarded;
use super::programs::{self, Described, ProgramEntry};
use super::script::{Scope, Type, Value};
use super::settle::{Outcome, Queue, Request};
use super::tensors;
use crate::backend::wgpu::Foreign;
use crate::error::{Error, Kind, Result};
use crate::graph::{Descriptor, Graph};
use crate::host_memory::HostBuffer;
use crate::memory::UsageNumbers;
use crate::timeline::{
    Built, Compute, Description, Done, GraphId, Operand, Part, Task, TensorCopy, TensorId, Watch, failed_build,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Script takes so many tasks at most at a time, and no further ones when those have so many bytes.
const MOST_TASKS: usize = 64;
const MOST_BYTES: usize = 1 << 21;

/// Shared by all programs of a context.
#[derive(Clone)]
pub struct DeviceTasks(Arc<TaskQueue>);

struct TaskQueue {
    device: Foreign,
    state: Mutex<State>,
    /// Whom to tell that there is something.
    queue: Arc<Queue>,
    events: Request,
    context: Handle,
}

#[derive(Default)]
struct State {
    asked: VecDeque<Asked>,
    /// What script has taken and is to report, by number.
    taken: HashMap<u64, Taken>,
    last: u64,
    /// Script knows that there is something, and has not found nothing since.
    is_announced: bool,
    has_ended: bool,
}

enum Asked {
    Task(Task),
    /// A graph was lowered, and is to be put on the device.
    Open {
        graph: GraphId,
        inputs: usize,
        label: String,
        described: Arc<OnceLock<Described>>,
        built: Built,
        done: Done<Built>,
    },
}

/// What is left to do when script reports.
enum Taken {
    Plain(Done<()>),
    /// With bytes for each of these that is there.
    Bytes(Vec<Option<HostBuffer>>, Done<()>),
    Opened(Built, Done<Built>),
    /// All that was asked for before has been looked at; what it takes is counted elsewhere.
    CaughtUp(Done<UsageNumbers>),
}

impl Asked {
    /// Ends what script will not do.
    fn refuse(self, error: Error) {
        match self {
            // Whoever sent what nobody reports hears of it by what it waits for next.
            Asked::Task(task) => drop(task.refuse(error)),
            Asked::Open { done, .. } => done.report(Err(error)),
        }
    }

    /// The bytes that script's thread copies.
    fn byte_length(&self) -> usize {
        match self {
            Asked::Task(Task::Write { bytes, .. }) => bytes.len(),
            Asked::Task(Task::Compute(Compute { inputs, .. })) => {
                let length = |input: &Operand| if let Operand::Host(memory) = input { memory.len() } else { 0 };
                inputs.iter().map(length).sum()
            }
            _ => 0,
        }
    }
}

impl Taken {
    fn end(self, result: Result<()>) {
        match self {
            Taken::Plain(done) => done.report(result),
            // Whoever gets the report has its memory back.
            Taken::Bytes(memory, done) => {
                drop(memory);
                done.report(result);
            }
            Taken::Opened(built, done) => done.report(result.map(|()| built)),
            Taken::CaughtUp(done) => done.report(result.map(|()| UsageNumbers::default())),
        }
    }
}

fn ended() -> Error {
    Error::new(Kind::InvalidState, "the context was destroyed")
}

impl DeviceTasks {
    pub fn new(device: Foreign, queue: Arc<Queue>, events: Request, context: Handle) -> DeviceTasks {
        DeviceTasks(Arc::new(TaskQueue { device, state: Mutex::default(), queue, events, context }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves the state half changed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a task, from any thread. A graph is lowered before this returns.
    pub fn send(&self, task: Task) {
        match task {
            Task::Build { graph, description, label, most, done, .. } => match description {
                Description::Graph(description) => self.build(graph, *description, label, most, done),
                // Nothing is compiled here for others.
                Description::Compiled(..) => done.report(Err(stale("graph"))),
            },
            other => self.add(Asked::Task(other)),
        }
    }

    fn build(&self, graph: GraphId, description: Graph, label: String, most: usize, done: Done<Built>) {
        let inputs = description.inputs.len();
        match guarded(|| self.0.device.program(description, most)) {
            Err(error) => done.report(Err(failed_build(&error, &label))),
            Ok(lowered) => {
                let built = programs::built(&lowered);
                let described = Arc::new(OnceLock::from(Described::new(lowered)));
                self.add(Asked::Open { graph, inputs, label, described, built, done });
            }
        }
    }

    fn add(&self, asked: Asked) {
        let mut state = self.lock();
        if state.has_ended {
            drop(state);
            asked.refuse(ended());
            return;
        }
        state.asked.push_back(asked);
        let is_announced = std::mem::replace(&mut state.is_announced, true);
        drop(state);
        if !is_announced {
            let TaskQueue { queue, events, context, .. } = &*self.0;
            queue.announce(*events, Outcome::Tasks { context: context.to_number() });
        }
    }

    /// Ends all that is unfinished, and whatever comes.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let (asked, taken) = (std::mem::take(&mut state.asked), std::mem::take(&mut state.taken));
        // Reports may lead to further tasks.
        drop(state);
        asked.into_iter().for_each(|asked| asked.refuse(ended()));
        taken.into_values().for_each(|taken| taken.end(Err(ended())));
    }

    /// Some of what was asked for, the first of it.
    fn take(&self) -> Vec<Asked> {
        let mut state = self.lock();
        let mut bytes = 0;
        let mut some = Vec::new();
        while some.len() < MOST_TASKS && bytes < MOST_BYTES {
            let Some(asked) = state.asked.pop_front() else { break };
            bytes += asked.byte_length();
            some.push(asked);
        }
        state.is_announced = !some.is_empty();
        some
    }

    /// Notes what is left to do when script reports; the number for that.
    fn note(&self, taken: Taken) -> u64 {
        let mut state = self.lock();
        if state.has_ended {
            drop(state);
            taken.end(Err(ended()));
            return 0;
        }
        state.last += 1;
        let number = state.last;
        state.taken.insert(number, taken);
        number
    }

    fn finish(&self, number: u64) -> Option<Taken> {
        self.lock().taken.remove(&number)
    }
}

fn device_tasks(environment: &Environment, context: Handle) -> Result<DeviceTasks> {
    environment.with_context(context, |context| context.device_tasks().ok_or_else(|| stale("device_tasks")))
}

/// `takeTasks(context)`: some of what programs ask for, in its order; nothing when there is nothing. A list for each, which begins with its
/// kind: `['createTensor', number, tensor, dataType, shape]`, `['writeTensor', tensor, ArrayBuffer]`, `['readTensor', number, tensor]`,
/// `['open', number, graph, program, description, inputs, label]`, `['dispatch', graph, tensors, watch]`, `['compute', number, graph,
/// inputs, outputs, watch]`, `['copy', number, copies]`, `['shareTensor', number, tensor, to]`, `['catchUp', number]`,
/// `['destroyTensor', tensor]`, `['destroyGraph', graph]`. An input is an ArrayBuffer, an output whether its bytes are wanted; each may
/// also be a part of a tensor, `[tensor, first]`. A watch is there where steps are wanted, for script to destroy. A copy is `[tensor, first, to, at, length]`, all as numbers.
pub fn take_tasks<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let context = call.handle(0)?;
    let device_tasks = device_tasks(call.environment, context)?;
    let tasks: Vec<Value<'s>> = device_tasks
        .take()
        .into_iter()
        .filter_map(|asked| task_value(call, context, &device_tasks, asked).transpose())
        .collect::<Result<_>>()?;
    call.scope.array_of(tasks.into_iter().map(Ok)).map(Some)
}

/// The handle of a watch that wants steps, which script destroys; 0 for others.
fn lent(environment: &Environment, watch: Watch) -> f64 {
    if watch.wants_steps() { environment.watches.borrow_mut().insert(watch).to_number() } else { 0.0 }
}

fn task_value<'s>(call: &Call<'s>, context: Handle, device_tasks: &DeviceTasks, asked: Asked) -> Result<Option<Value<'s>>> {
    let (scope, environment) = (call.scope, call.environment);
    let number = |number: u64| scope.number(number as f64);
    let (kind, values) = match asked {
        Asked::Open { graph, inputs, label, described, built, done } => {
            let description = programs::value(scope, &described)?;
            let program = environment.programs.borrow_mut().insert(ProgramEntry::new(environment, context, described));
            let note = number(device_tasks.note(Taken::Opened(built, done)))?;
            let (program, label) = (scope.number(program.to_number())?, scope.string(&label)?);
            ("open", vec![note, number(graph.0)?, program, description, scope.number(inputs as f64)?, label])
        }
        Asked::Task(task) => match task {
            Task::CreateTensor { tensor, descriptor, done, .. } => {
                let shape = scope.array_of(descriptor.shape.iter().map(|&size| scope.unsigned(size)))?;
                let note = number(device_tasks.note(Taken::Plain(done)))?;
                ("createTensor", vec![note, number(tensor.0)?, scope.unsigned(descriptor.data_type as u32)?, shape])
            }
            Task::Write { tensor, bytes, .. } => ("writeTensor", vec![number(tensor.0)?, bytes::array_buffer(scope, &bytes)?]),
            Task::Read { tensor, into, done, .. } => {
                ("readTensor", vec![number(device_tasks.note(Taken::Bytes(vec![Some(into)], done)))?, number(tensor.0)?])
            }
            Task::Dispatch { graph, tensors, watch, .. } => {
                let tensors = scope.array_of(tensors.iter().map(|tensor| number(tensor.0)))?;
                ("dispatch", vec![number(graph.0)?, tensors, scope.number(lent(environment, watch))?])
            }
            Task::Compute(Compute { graph, inputs, outputs, watch, done, .. }) => {
                let part = |part: &Part| scope.array_of([number(part.tensor.0), number(part.first as u64)].into_iter());
                let given = scope.array_of(inputs.iter().map(|input| match input {
                    Operand::Host(memory) => bytes::array_buffer(scope, memory.as_slice()),
                    Operand::Part(place) => part(place),
                }))?;
                let wanted = scope.array_of(outputs.iter().map(|output| match output {
                    Some(Operand::Part(place)) => part(place),
                    other => scope.boolean(other.is_some()),
                }))?;
                let memory = |output| if let Some(Operand::Host(memory)) = output { Some(memory) } else { None };
                let outputs = outputs.into_iter().map(memory).collect();
                let watch = scope.number(lent(environment, watch))?;
                ("compute", vec![number(device_tasks.note(Taken::Bytes(outputs, done)))?, number(graph.0)?, given, wanted, watch])
            }
            Task::Copy { copies, done } => {
                let copy = |&TensorCopy { from, to, length }: &TensorCopy| {
                    let numbers = [from.tensor.0, from.first as u64, to.tensor.0, to.first as u64, length as u64];
                    scope.array_of(numbers.into_iter().map(number))
                };
                let copies = scope.array_of(copies.iter().map(copy))?;
                ("copy", vec![number(device_tasks.note(Taken::Plain(done)))?, copies])
            }
            Task::DestroyTensor { tensor } => ("destroyTensor", vec![number(tensor.0)?]),
            Task::DestroyGraph { graph } => ("destroyGraph", vec![number(graph.0)?]),
            Task::Share { tensor, to, done } => {
                ("shareTensor", vec![number(device_tasks.note(Taken::Plain(done)))?, number(tensor.0)?, number(to.0)?])
            }
            Task::Usage { done } => ("catchUp", vec![number(device_tasks.note(Taken::CaughtUp(done)))?]),
            // Nothing of programs.
            Task::Build { .. } | Task::Submit { .. } | Task::Stop => return Ok(None),
        },
    };
    scope
        .array_of(std::iter::once(scope.string(kind)).chain(values.into_iter().map(Ok)).collect::<Vec<_>>().into_iter())
        .map(Some)
}

/// `lendTensor(context, dataType, shape)`: `[handle, number]` of a tensor that script has, for programs to be given; the number is that in
/// tasks.
pub fn lend_tensor<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let context = call.handle(0)?;
    let descriptor = Descriptor { data_type: call.data_type(1)?, shape: call.unsigned_list(2)? };
    let number = call.environment.with_context(context, |context| Ok(context.next()))?;
    let handle = tensors::handle(call.environment, context, descriptor, TensorId(number));
    call.scope.array_of([handle.to_number(), number as f64].into_iter().map(|number| call.scope.number(number))).map(Some)
}

/// `finishTask(context, number, code, message, buffers)`: how a task ended, with no code where it succeeded. The buffers are what was
/// read, and `undefined` where it was not wanted.
pub fn finish_task<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let Some(mut taken) = device_tasks(call.environment, call.handle(0)?)?.finish(call.number(1)? as u64) else {
        return Ok(None);
    };
    let (code, message) = (call.string(2)?, call.string(3)?);
    let result = match &*code {
        "" => fill(call.scope, call.value(4), &mut taken),
        code => Err(Error::new(Kind::named(code).unwrap_or(Kind::Operation), message)),
    };
    taken.end(result);
    Ok(None)
}

fn fill<'s>(scope: Scope<'s>, buffers: Value<'s>, taken: &mut Taken) -> Result<()> {
    let Taken::Bytes(memory, _) = taken else { return Ok(()) };
    for (index, memory) in memory.iter_mut().enumerate() {
        let buffer = scope.element(buffers, index as u32)?;
        if let (Some(memory), Type::Object) = (memory, scope.type_of(buffer)?) {
            bytes::host_buffer(scope, buffer, memory.len()).map(|from| memory.as_mut_slice().copy_from_slice(from.as_slice()))?;
        }
    }
    Ok(())
}
