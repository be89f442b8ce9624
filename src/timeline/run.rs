//! The loop of a timeline's thread.

use super::builds;
use super::done::{Done, from_panic};
use super::job::{End, Finished, JobId, Jobs, Tensors, Work};
use super::task::{GraphId, Task, TensorId};
use super::tensor_state::{State, Tensor, TensorRef};
use crate::backend::{Backend, Bindings};
use crate::compiler;
use crate::error::{Error, Escaped, Kind, Result};
use crate::graph::{Descriptor, Graph};
use crate::memory::{Charge, Use};
use crossbeam_channel::{Receiver, Sender, TryRecvError, select};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// A compiled graph, and how many inputs it has.
pub struct GraphEntry<B: Backend> {
    executable: Arc<B::Executable>,
    inputs: usize,
    label: String,
}

/// What other threads tell the loop.
enum Report<B: Backend> {
    Finished(Finished),
    Built(GraphId, Result<(B::Executable, usize)>, String, Done<()>),
}

/// The state of a timeline's thread.
pub struct Loop<B: Backend> {
    backend: B,
    tensors: HashMap<TensorId, (TensorRef<B::Tensor>, Charge)>,
    graphs: HashMap<GraphId, Rc<GraphEntry<B>>>,
    jobs: Jobs<B>,
    ready: VecDeque<JobId>,
    reports: Sender<Report<B>>,
    reported: Receiver<Report<B>>,
}

impl<B: Backend> Loop<B> {
    pub fn new(backend: B) -> Self {
        let (reports, reported) = crossbeam_channel::unbounded();
        Loop {
            backend,
            tensors: HashMap::new(),
            graphs: HashMap::new(),
            jobs: Jobs::new(),
            ready: VecDeque::new(),
            reports,
            reported,
        }
    }

    /// Runs until it is told to stop or nobody can send any more.
    pub fn run(mut self, tasks: Receiver<Task>) {
        loop {
            // Reports first: they free jobs, and a chain of small dispatches then never piles up.
            while let Ok(report) = self.reported.try_recv() {
                self.hear(report);
            }
            let task = match tasks.try_recv() {
                Ok(task) => task,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => select! {
                    recv(self.reported) -> report => {
                        self.hear(report.expect("the loop holds a sender"));
                        continue;
                    }
                    recv(tasks) -> task => match task {
                        Ok(task) => task,
                        Err(_) => return,
                    },
                },
            };
            if let Task::Stop = task {
                return;
            }
            self.accept(task);
            self.start_ready();
        }
    }

    fn hear(&mut self, report: Report<B>) {
        match report {
            Report::Finished((id, result)) => self.finish(id, result),
            Report::Built(graph, result, label, done) => done.report(result.map(|(executable, inputs)| {
                self.graphs.insert(graph, Rc::new(GraphEntry { executable: Arc::new(executable), inputs, label }));
            })),
        }
        self.start_ready();
    }

    fn accept(&mut self, task: Task) {
        match task {
            Task::CreateTensor { tensor, descriptor, label, done } => {
                let result = self.create_tensor(tensor, &descriptor).map_err(|error| error.of("createTensor", &label));
                done.report(result);
            }
            Task::Write { tensor, bytes, label } => {
                // Only a tensor whose creation failed, or one that was destroyed, is unknown: nobody can see the write.
                let Some(tensor) = self.tensor(tensor) else { return };
                let mut wait = Wait::new(&self.jobs);
                wait.for_writing(&tensor);
                let wait = wait.jobs;
                self.add(Work::Write { tensor, bytes, label }, &wait);
            }
            Task::Read { tensor, into, done } => {
                let Some(tensor) = self.tensor(tensor) else {
                    return done.report(Err(Error::new(Kind::InvalidState, "readTensor: the tensor was destroyed")));
                };
                let mut wait = Wait::new(&self.jobs);
                wait.for_reading(&tensor);
                let wait = wait.jobs;
                self.add(Work::Read { tensor, into, done }, &wait);
            }
            Task::Dispatch { graph, tensors, label } => {
                let Some(graph) = self.graphs.get(&graph).cloned() else { return };
                let tensors: Option<Tensors<B>> = tensors.iter().map(|&id| self.tensor(id)).collect();
                let Some(mut inputs) = tensors else { return };
                let outputs: Tensors<B> = inputs.drain(graph.inputs..).collect();
                let mut wait = Wait::new(&self.jobs);
                inputs.iter().for_each(|tensor| wait.for_reading(tensor));
                outputs.iter().for_each(|tensor| wait.for_writing(tensor));
                let wait = wait.jobs;
                self.add(Work::Dispatch { graph, inputs, outputs, label }, &wait);
            }
            Task::Build { graph, description, label, done } => self.build(graph, *description, label, done),
            Task::DestroyTensor { tensor } => drop(self.tensors.remove(&tensor)),
            Task::DestroyGraph { graph } => drop(self.graphs.remove(&graph)),
            Task::Usage { done } => done.report(Ok(self.backend.usage().numbers())),
            Task::Stop => unreachable!("the loop looks for it"),
        }
    }

    fn tensor(&self, id: TensorId) -> Option<TensorRef<B::Tensor>> {
        self.tensors.get(&id).map(|(tensor, _)| tensor.clone())
    }

    fn create_tensor(&mut self, id: TensorId, descriptor: &Descriptor) -> Result<()> {
        let storage =
            catch_unwind(AssertUnwindSafe(|| self.backend.allocate(descriptor))).unwrap_or_else(|p| Err(from_panic(&*p)))?;
        let charge = self.backend.usage().charge(Use::Tensors, descriptor.byte_length());
        let tensor = Rc::new(Tensor { storage: Arc::new(storage), state: RefCell::new(State::default()) });
        self.tensors.insert(id, (tensor, charge));
        Ok(())
    }

    /// Compiles on another thread, so that dispatches go on meanwhile.
    fn build(&mut self, graph: GraphId, description: Graph, label: String, done: Done<()>) {
        let backend = self.backend.clone();
        let reports = self.reports.clone();
        let shown = label.clone();
        let inputs = description.inputs.len();
        // The duty to report travels with the work: if that is dropped or dies, the duty reports.
        let compiled = Done::new(move |result: Result<(B::Executable, usize)>| {
            let result = result.map_err(|error| failed_build(&error, &shown));
            let _ = reports.send(Report::Built(graph, result, label, done));
        });
        let work = move || {
            compiled.run(|| {
                let plan = compiler::compile(description, backend.evaluator())?;
                Ok((backend.compile(plan)?, inputs))
            });
        };
        builds::spawn(work);
    }

    fn add(&mut self, work: Work<B>, wait: &[JobId]) {
        let (id, can_start) = self.jobs.add(work, wait);
        if can_start {
            self.ready.push_back(id);
        }
    }

    fn start_ready(&mut self) {
        while let Some(id) = self.ready.pop_front() {
            self.start(id);
        }
    }

    fn start(&mut self, id: JobId) {
        match self.jobs.start(id) {
            Work::Write { tensor, bytes, label } => {
                let storage = tensor.storage.clone();
                self.jobs.set_end(id, End::Wrote { outputs: smallvec::smallvec![tensor], what: "writeTensor", label });
                self.backend.write(&storage, bytes, self.reporter(id));
            }
            Work::Read { tensor, into, done } => {
                if let Some(error) = &tensor.state.borrow().error {
                    let message = format!("readTensor: the tensor is errored: {}", error.message());
                    done.report(Err(Error::new(Kind::Operation, message).caused_by(error.clone())));
                    let _ = self.reports.send(Report::Finished((id, Ok(()))));
                    return;
                }
                self.jobs.set_end(id, End::Read { done });
                self.backend.read(&tensor.storage, into, self.reporter(id));
            }
            Work::Dispatch { graph, inputs, outputs, label } => {
                let failed = inputs.iter().find_map(|tensor| tensor.state.borrow().error.clone());
                let bindings = Bindings {
                    inputs: inputs.iter().map(|tensor| tensor.storage.clone()).collect(),
                    outputs: outputs.iter().map(|tensor| tensor.storage.clone()).collect(),
                };
                let label = if label.is_empty() { graph.label.clone() } else { label };
                self.jobs.set_end(id, End::Wrote { outputs, what: "dispatch", label });
                match failed {
                    Some(cause) => {
                        let error =
                            Error::new(Kind::Operation, format!("an input is errored: {}", cause.message())).caused_by(cause);
                        self.reporter(id).report(Err(error));
                    }
                    None => self.backend.execute(&graph.executable, bindings, self.reporter(id)),
                }
            }
        }
    }

    /// The duty to report a job's end to this loop.
    fn reporter(&self, id: JobId) -> Done<()> {
        let reports = self.reports.clone();
        // When the loop is gone nobody is left to hear.
        Done::new(move |result| drop(reports.send(Report::Finished((id, result)))))
    }

    fn finish(&mut self, id: JobId, result: Result<()>) {
        let ready = &mut self.ready;
        match self.jobs.finish(id, &mut |dependent| ready.push_back(dependent)) {
            Some(End::Wrote { outputs, what, label }) => {
                let error = result.err().map(|error| {
                    let named = Error::new(Kind::Operation, error.message().to_owned()).of(what, &label);
                    match error.cause() {
                        Some(cause) => named.caused_by(cause.clone()),
                        None => named,
                    }
                });
                for tensor in outputs {
                    tensor.state.borrow_mut().error = error.clone();
                }
            }
            Some(End::Read { done }) => {
                done.report(result.map_err(|error| Error::new(Kind::Unknown, format!("readTensor: {}", error.message()))));
            }
            None => {}
        }
    }
}

/// Collects what a job must wait for.
struct Wait<'a, B: Backend> {
    jobs: SmallVec<[JobId; 8]>,
    all: &'a Jobs<B>,
}

impl<'a, B: Backend> Wait<'a, B> {
    fn new(all: &'a Jobs<B>) -> Self {
        Wait { jobs: SmallVec::new(), all }
    }

    fn for_reading(&mut self, tensor: &Tensor<B::Tensor>) {
        let jobs = &mut self.jobs;
        let mut wait = |job| {
            if !jobs.contains(&job) {
                jobs.push(job)
            }
        };
        tensor.state.borrow_mut().read_by(self.all.next(), |job| self.all.is_unfinished(job), &mut wait);
    }

    fn for_writing(&mut self, tensor: &Tensor<B::Tensor>) {
        let jobs = &mut self.jobs;
        let mut wait = |job| {
            if !jobs.contains(&job) {
                jobs.push(job)
            }
        };
        tensor.state.borrow_mut().written_by(self.all.next(), |job| self.all.is_unfinished(job), &mut wait);
    }
}

fn failed_build(error: &Error, label: &str) -> Error {
    let label = if label.is_empty() { String::new() } else { format!(" [{}]", Escaped(label)) };
    Error::new(Kind::Operation, format!("build{label}: {}", error.message()))
}
