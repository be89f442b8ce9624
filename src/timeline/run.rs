//! The loop of a timeline's thread.

use super::builds::{Urgency, failed_build};
use super::compiled_graph::Description;
use super::ids::{IdMap, JobId};
use super::inline::{self, Budget};
use super::job::{self, Computed, Copy, End, Finished, GraphEntry, Jobs, Run, Tensors, Work};
use super::reports::Reports;
use super::task::{Built, Command, Compute, ENDED, GraphId, Operand, Part, Task, TensorCopy, TensorId};
use super::tensor_state::{Tensor, TensorRef};
use super::waiting::Waiting;
use crate::backend::{Backend, Bindings, CopyRange, Place, RunOptions};
use crate::done::{Done, because, from_panic};
use crate::error::{Error, Kind, Result};
#[cfg(feature = "faults")]
use crate::faults;
use crate::graph::Descriptor;
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Charge, Use};
use crate::watch::{Priority, Watch};
use crossbeam_channel::{Receiver, TryRecvError};
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So many tasks are looked at before the first of them starts, at most.
const TASKS_AT_ONCE: usize = 64;

/// So many bytes are made, copied or let go of in some tens of microseconds: a thread that is not the timeline's does not do more.
const MOST_INLINE_BYTES: usize = 256 << 10;

/// What other threads tell the loop.
pub enum Report<B: Backend> {
    Finished(Finished),
    /// Script has given a job up that may not have begun.
    GivenUp(JobId, Error),
    Built(GraphId, Result<GraphEntry<B>>, Done<Built>),
}

/// What was found at a look for something to do.
pub enum Look {
    Worked,
    /// Nothing; whether nothing is under way either.
    Idle {
        all_is_done: bool,
    },
    /// The timeline is to stop.
    End,
}

/// What a name of a tensor stands for.
struct Named<B: Backend> {
    tensor: TensorRef<B::Tensor>,
    descriptor: Descriptor,
    /// All names that share the tensor have this, and nobody else.
    charge: Arc<Charge>,
}

/// The state of a timeline, which one thread has at a time ([`super::shared_loop`]).
pub struct Loop<B: Backend> {
    backend: B,
    tensors: IdMap<TensorId, Named<B>>,
    graphs: IdMap<GraphId, Arc<GraphEntry<B>>>,
    jobs: Jobs<B>,
    ready: VecDeque<JobId>,
    /// Runs that were asked for.
    runs: u64,
    /// Some were more or less urgent than others.
    has_priorities: bool,
    /// A run may have the thread that has the loop.
    is_running: Arc<AtomicBool>,
    waiting: Arc<Waiting>,
    reports: Arc<Reports<Report<B>>>,
    /// Which threads the runs may have that start now.
    place: Place,
    /// It was told to stop.
    has_ended: bool,
    /// What a panic of another thread than the timeline's said, until that hears of it.
    pub panicked: Option<Box<dyn Any + Send>>,
}

impl<B: Backend> Loop<B> {
    pub fn new(backend: B, is_running: Arc<AtomicBool>, waiting: Arc<Waiting>, reports: Arc<Reports<Report<B>>>) -> Self {
        Loop {
            backend,
            tensors: IdMap::default(),
            graphs: IdMap::default(),
            jobs: Jobs::new(),
            ready: VecDeque::new(),
            runs: 0,
            has_priorities: false,
            is_running,
            waiting,
            reports,
            place: Place::Alone,
            has_ended: false,
            panicked: None,
        }
    }

    /// Hears what was reported and does some of what was asked for.
    pub fn look(&mut self, tasks: &Receiver<Task>) -> Look {
        // Reports first: they free jobs, and a chain of small dispatches then never piles up.
        self.hear_all();
        let task = match tasks.try_recv() {
            Ok(task) => task,
            Err(TryRecvError::Empty) => return Look::Idle { all_is_done: self.jobs.is_empty() },
            Err(TryRecvError::Disconnected) => return self.end(),
        };
        // What was asked for together is looked at together: graphs that wait for nothing run side by side.
        let mut next = Some(task);
        for left in (0..TASKS_AT_ONCE).rev() {
            match next.take() {
                Some(Task::Stop) => return self.end(),
                Some(task) => self.accept(task),
                None => break,
            }
            next = if left > 0 { tasks.try_recv().ok() } else { None };
        }
        self.start_ready();
        Look::Worked
    }

    fn end(&mut self) -> Look {
        self.has_ended = true;
        Look::End
    }

    /// Whether a thread that has this room may carry a task out now.
    pub fn fits_budget(&self, task: &Task, budget: Budget) -> bool {
        let is_idle = self.jobs.is_empty() && self.reports.is_empty() && !self.has_ended && self.panicked.is_none();
        is_idle && self.backend.runs_inline() && self.fits(task, budget)
    }

    fn fits(&self, task: &Task, budget: Budget) -> bool {
        let most = match budget {
            Budget::Nothing => return false,
            Budget::For(most) => Some(most),
            Budget::All => None,
        };
        // What is not there takes no time.
        let time =
            |graph: &GraphId| self.graphs.get(graph).map_or(Duration::ZERO, |graph| self.backend.inline_time(&graph.executable));
        let takes_no_longer = |time: Duration| most.is_none_or(|most| time < most);
        match task {
            Task::CreateTensor { descriptor, .. } => descriptor.byte_length() <= MOST_INLINE_BYTES || most.is_none(),
            Task::Write { bytes, .. } => bytes.len() <= MOST_INLINE_BYTES || most.is_none(),
            Task::Read { into, .. } => into.len() <= MOST_INLINE_BYTES,
            Task::DestroyTensor { tensor } => {
                self.tensors.get(tensor).is_none_or(|named| named.descriptor.byte_length() <= MOST_INLINE_BYTES)
            }
            Task::Share { .. } | Task::Usage { .. } => true,
            Task::Dispatch { graph, .. } => takes_no_longer(time(graph)),
            // Its memory is its own.
            Task::Compute(Compute { graph, .. }) => {
                let time = time(graph);
                takes_no_longer(time) && !inline::is_better_in_parallel(time)
            }
            Task::Submit { commands } => takes_no_longer(
                commands.iter().map(|command| time(&command.graph)).fold(Duration::ZERO, Duration::saturating_add),
            ),
            // Threads of their own do them, or they may let go of much.
            Task::Copy { .. } | Task::Build { .. } | Task::DestroyGraph { .. } | Task::Stop => false,
        }
    }

    /// Carries a task out for which there is room.
    pub fn carry_out(&mut self, task: Task, budget: Budget) {
        self.place = if budget == Budget::All { Place::Alone } else { Place::Here };
        self.accept(task);
        self.start_ready();
        self.hear_all();
        self.place = Place::Alone;
    }

    /// Whether script's thread had better give a task to the backend's threads itself than wake the timeline's, which would give it to them: a
    /// computation beside others. The timeline's thread would have to wait for a core while these keep all of them busy.
    pub fn may_hand_over(&self, task: &Task) -> bool {
        let Task::Compute(Compute { graph, .. }) = task else { return false };
        let time = self.graphs.get(graph).map(|graph| self.backend.inline_time(&graph.executable));
        let is_over = self.has_ended || self.panicked.is_some();
        !is_over && self.backend.runs_inline() && time.is_some_and(|time| inline::is_worth_a_thread(time, !self.jobs.is_empty()))
    }

    /// Gives a task to the backend's threads. What was reported is left to others, since more may follow from it.
    pub fn hand_over(&mut self, task: Task) {
        self.place = Place::Elsewhere;
        self.accept(task);
        self.start_ready();
        self.place = Place::Alone;
    }

    /// Whether nothing is under way any more, of a timeline that has ended. What has not begun is dropped.
    pub fn is_over(&mut self) -> bool {
        self.hear_all();
        self.ready.clear();
        because(ENDED, || self.jobs.abandon());
        self.jobs.is_empty()
    }

    /// Hears all that was reported, and starts what waited for it.
    pub fn hear_all(&mut self) {
        while let Some(report) = self.reports.take() {
            self.hear(report);
        }
    }

    fn hear(&mut self, report: Report<B>) {
        match report {
            Report::Built(..) if self.has_ended => because(ENDED, || drop(report)),
            Report::Finished((id, result)) => self.finish(id, result),
            Report::GivenUp(id, error) => self.jobs.change(id, |work| work.give_up(error)),
            Report::Built(graph, result, done) => done.report(result.map(|entry| {
                let (placements, plan_bytes) =
                    (self.backend.placements(&entry.executable), self.backend.plan_bytes(&entry.executable));
                let in_tensors = self.backend.placements_in_tensors(&entry.executable);
                let built = Built { placements, in_tensors, bytes: entry.bytes, plan_bytes, compiled: entry.compiled.clone() };
                self.graphs.insert(graph, Arc::new(entry));
                built
            })),
        }
        self.start_ready();
    }

    fn accept(&mut self, task: Task) {
        self.waiting.seen(task.count());
        match task {
            Task::CreateTensor { tensor, descriptor, label, done } => {
                let result = self.create_tensor(tensor, &descriptor).map_err(|error| error.of("createTensor", &label));
                done.report(result);
            }
            Task::Write { tensor, bytes, label, charge } => {
                // Only a tensor whose creation failed, or one that was destroyed, is unknown: nobody can see the write.
                let Some((tensor, None)) = self.own_tensor(tensor) else { return };
                let mut wait = Wait::new(&self.jobs);
                wait.for_writing(&tensor);
                let wait = wait.jobs;
                self.add(Work::Write { tensor, bytes, label, charge }, &wait);
            }
            Task::Read { tensor, into, watch, done } => {
                let Some(tensor) = self.tensor(tensor) else {
                    return done.report(Err(Error::new(Kind::InvalidState, "readTensor: the tensor was destroyed")));
                };
                let mut wait = Wait::new(&self.jobs);
                wait.for_reading(&tensor);
                let wait = wait.jobs;
                self.add(Work::Read { tensor, into, watch, done, of: None }, &wait);
            }
            Task::Share { tensor, to, done } => {
                let shared = self.tensors.get(&tensor).map(|Named { tensor, descriptor, charge }| Named {
                    tensor: tensor.clone(),
                    descriptor: descriptor.clone(),
                    charge: charge.clone(),
                });
                done.report(match shared {
                    Some(shared) => {
                        self.tensors.insert(to, shared);
                        Ok(())
                    }
                    None => Err(Error::new(Kind::InvalidState, "run: a tensor was destroyed")),
                });
            }
            Task::Dispatch { graph, tensors, label, watch, done } => {
                self.dispatch(&Command { graph, tensors, label }, watch, done);
            }
            Task::Submit { commands } => {
                commands.iter().for_each(|command| self.dispatch(command, Watch::default(), Done::ignored()));
            }
            Task::Compute(task) => {
                let run = Run { watch: task.watch.clone(), ..self.next_run() };
                match self.graphs.get(&task.graph).cloned() {
                    Some(graph) => self.compute(graph, task, run),
                    None => {
                        let error = Error::new(Kind::InvalidState, "the graph was destroyed").of(task.method, &task.label);
                        task.done.report(Err(error));
                    }
                }
            }
            Task::Copy { copies, done } => self.copy(&copies, done),
            Task::Build { graph, description, label, most, urgency, watch, done } => {
                self.build(graph, description, (label, most, urgency, watch), done);
            }
            Task::DestroyTensor { tensor } => drop(self.tensors.remove(&tensor)),
            Task::DestroyGraph { graph } => drop(self.graphs.remove(&graph)),
            Task::Usage { done } => done.report(Ok(self.backend.usage().numbers())),
            Task::Stop => unreachable!("the loop looks for it"),
        }
    }

    fn dispatch(&mut self, Command { graph, tensors, label }: &Command, watch: Watch, done: Done<()>) {
        #[cfg(feature = "faults")]
        faults::at(faults::Place::Timeline).expect("what is planned here is a panic");
        let run = Run { watch, ..self.next_run() };
        let Some(graph) = self.graphs.get(graph).cloned() else { return };
        let (of_inputs, of_outputs) = tensors.split_at(graph.inputs.len());
        if !of_outputs.iter().all(|id| self.tensors.contains_key(id)) {
            return;
        }
        let Some(mut inputs) = of_inputs.iter().map(|&id| self.tensor(id)).collect::<Option<Tensors<B>>>() else { return };
        let mut outputs = Tensors::<B>::new();
        for &id in of_outputs {
            let Some((tensor, error)) = self.own_tensor(id) else { return };
            if error.is_some() {
                // What is errored is no input that a graph runs with, so all outputs will be.
                inputs.push(tensor.clone());
            }
            outputs.push(tensor);
        }
        let mut wait = Wait::new(&self.jobs);
        inputs.iter().for_each(|tensor| wait.for_reading(tensor));
        outputs.iter().for_each(|tensor| wait.for_writing(tensor));
        let wait = wait.jobs;
        self.add(Work::Dispatch { graph, inputs, outputs, label: label.clone(), run, done }, &wait);
    }

    /// The next run: they start in the order in which they were asked for.
    fn next_run(&mut self) -> Run {
        self.runs += 1;
        Run { number: self.runs, watch: Watch::default() }
    }

    fn copy(&mut self, copies: &[TensorCopy], done: Done<()>) {
        let of = |&TensorCopy { from, to, length }: &TensorCopy| {
            let (source, target) = (self.tensor(from.tensor)?, self.tensor(to.tensor)?);
            Some(Copy { from: source, first: from.first, to: target, at: to.first, length })
        };
        let Some(copies) = copies.iter().map(of).collect::<Option<Vec<Copy<B>>>>() else {
            return done.report(Err(Error::new(Kind::InvalidState, "run: a tensor was destroyed")));
        };
        let mut wait = Wait::new(&self.jobs);
        for Copy { from, to, .. } in &copies {
            wait.for_reading(from);
            wait.for_writing(to);
        }
        let wait = wait.jobs;
        self.add(Work::Copy { copies, done }, &wait);
    }

    /// Runs a graph in the caller's memory where the backend can, else on tensors that live as long as the run.
    fn compute(&mut self, graph: Arc<GraphEntry<B>>, task: Compute, run: Run) {
        let Compute { inputs, outputs, method, label, done, .. } = task;
        let bound = self.bind(&graph, inputs, outputs, &label);
        match bound.map_err(|error| error.of(method, &label)) {
            Err(error) => done.report(Err(error)),
            Ok((inputs, outputs, copies)) => {
                let mut wait = Wait::new(&self.jobs);
                inputs.iter().for_each(|tensor| wait.for_reading(tensor));
                outputs.iter().flatten().for_each(|tensor| wait.for_writing(tensor));
                let wait = wait.jobs;
                let end = Computed { method, label, copies, done };
                self.add(Work::Compute { graph, inputs, outputs, end, run }, &wait);
            }
        }
    }

    #[allow(clippy::type_complexity, reason = "three lists that are taken apart at once")]
    fn bind(
        &mut self,
        graph: &GraphEntry<B>,
        inputs: Vec<Operand>,
        outputs: Vec<Option<Operand>>,
        label: &str,
    ) -> Result<(Tensors<B>, Vec<Option<TensorRef<B::Tensor>>>, Vec<(TensorRef<B::Tensor>, HostBuffer)>)> {
        let fit = |operand: &Operand, descriptor: &Descriptor| match operand {
            Operand::Host(memory) => memory.len() == descriptor.byte_length(),
            Operand::Part(Part { tensor, first }) => {
                let length = |named: &Named<B>| named.descriptor.byte_length();
                let end = first.checked_add(descriptor.byte_length());
                // One that is not there is looked for again.
                self.tensors.get(tensor).is_none_or(|named| end.is_some_and(|end| end <= length(named)))
            }
        };
        let inputs_fit = inputs.iter().zip(&*graph.inputs).all(|(memory, descriptor)| fit(memory, descriptor));
        let wanted = outputs.iter().zip(&*graph.outputs).filter_map(|(memory, descriptor)| Some((memory.as_ref()?, descriptor)));
        let outputs_fit = wanted.into_iter().all(|(memory, descriptor)| fit(memory, descriptor));
        if (graph.inputs.len(), graph.outputs.len()) != (inputs.len(), outputs.len()) || !inputs_fit || !outputs_fit {
            return Err(Error::new(Kind::Operation, "memory that is not the graph's (internal error)"));
        }
        let mut bound_inputs = Tensors::<B>::new();
        for (operand, descriptor) in inputs.into_iter().zip(&*graph.inputs) {
            let memory = match operand {
                Operand::Host(memory) => memory,
                Operand::Part(part) => {
                    bound_inputs.push(self.part(part, descriptor)?);
                    continue;
                }
            };
            let tensor = match self.backend.adopt(memory, descriptor) {
                Ok(storage) => Tensor::new(storage),
                Err(memory) => {
                    let tensor = Tensor::new(self.backend.allocate(descriptor)?);
                    let mut wait = Wait::new(&self.jobs);
                    wait.for_writing(&tensor);
                    let bytes = Bytes::copy_of(memory.as_slice())?;
                    self.add(Work::Write { tensor: tensor.clone(), bytes, label: label.to_owned(), charge: None }, &[]);
                    tensor
                }
            };
            bound_inputs.push(tensor);
        }
        let mut bound_outputs = Vec::new();
        let mut copies = Vec::new();
        for (operand, descriptor) in outputs.into_iter().zip(&*graph.outputs) {
            let memory = match operand {
                Some(Operand::Host(memory)) => memory,
                Some(Operand::Part(part)) => {
                    bound_outputs.push(Some(self.part(part, descriptor)?));
                    continue;
                }
                None => {
                    bound_outputs.push(None);
                    continue;
                }
            };
            let tensor = match self.backend.adopt(memory, descriptor) {
                Ok(storage) => Tensor::new(storage),
                Err(memory) => {
                    let tensor = Tensor::new(self.backend.allocate(descriptor)?);
                    copies.push((tensor.clone(), memory));
                    tensor
                }
            };
            bound_outputs.push(Some(tensor));
        }
        Ok((bound_inputs, bound_outputs, copies))
    }

    fn part(&self, Part { tensor, first }: Part, descriptor: &Descriptor) -> Result<TensorRef<B::Tensor>> {
        let of = self.tensor(tensor).ok_or_else(|| Error::new(Kind::InvalidState, "a tensor was destroyed"))?;
        let storage = self.backend.part(&of.storage, first, descriptor);
        storage
            .map(|storage| of.part(storage))
            .ok_or_else(|| Error::new(Kind::NotSupported, "parts of the host's memory (internal error)"))
    }

    fn tensor(&self, id: TensorId) -> Option<TensorRef<B::Tensor>> {
        self.tensors.get(&id).map(|named| named.tensor.clone())
    }

    /// A tensor that is to be written: with memory of its own, if others share what it has. Where that cannot be had it is errored, and
    /// nobody may write it.
    fn own_tensor(&mut self, id: TensorId) -> Option<(TensorRef<B::Tensor>, Option<Error>)> {
        let named = self.tensors.get(&id)?;
        let mut failed = None;
        if Arc::strong_count(&named.charge) > 1 {
            let descriptor = named.descriptor.clone();
            if let Err(error) = self.create_tensor(id, &descriptor) {
                let named = self.tensors.get_mut(&id)?;
                named.tensor = Tensor::errored(named.tensor.storage.clone(), error.clone());
                failed = Some(error);
            }
        }
        Some((self.tensor(id)?, failed))
    }

    fn create_tensor(&mut self, id: TensorId, descriptor: &Descriptor) -> Result<()> {
        let charge = self.backend.usage().reserve(Use::Tensors, descriptor.byte_length())?;
        let storage =
            catch_unwind(AssertUnwindSafe(|| self.backend.allocate(descriptor))).unwrap_or_else(|p| Err(from_panic(&*p)))?;
        let descriptor = descriptor.clone();
        self.tensors.insert(id, Named { tensor: Tensor::new(storage), descriptor, charge: Arc::new(charge) });
        Ok(())
    }

    /// Compiles on another thread, so that dispatches go on meanwhile.
    fn build(
        &mut self,
        graph: GraphId,
        description: Description,
        (label, most, urgency, watch): (String, usize, Urgency, Watch),
        done: Done<Built>,
    ) {
        let backend = self.backend.clone();
        let reports = self.reports.clone();
        let shown = label.clone();
        // The duty to report travels with the work: if that is dropped or dies, the duty reports.
        let compiled = Done::new(move |result: Result<GraphEntry<B>>| {
            let result = result.map_err(|error| failed_build(&error, &shown));
            reports.push(Report::Built(graph, result, done));
        });
        let work = move |compiled: Done<GraphEntry<B>>| {
            let build = || {
                watch.check()?;
                GraphEntry::of(&backend, description, most, label, &watch)
            };
            compiled.run(|| watch.during(build));
        };
        if let Err((error, compiled)) = urgency.pool().spawn(compiled, work) {
            compiled.report(Err(error));
        }
    }

    fn add(&mut self, work: Work<B>, wait: &[JobId]) {
        let watch = if wait.is_empty() { None } else { work.watch().filter(|watch| watch.is_watched()).cloned() };
        let (id, can_start) = self.jobs.add(work, wait);
        self.waiting.job_begins();
        if can_start {
            self.ready.push_back(id);
        }
        if let Some(watch) = watch {
            let reports = self.reports.clone();
            watch.when_over(move |error| reports.push(Report::GivenUp(id, error)));
        }
        let job::Urgency { priority, number } = self.jobs.urgency(id);
        self.has_priorities |= number.is_some() && priority != Priority::Normal;
        if self.has_priorities && !wait.is_empty() {
            self.jobs.lift(wait, priority, |number| self.backend.lift(number, priority));
        }
    }

    fn start_ready(&mut self) {
        while let Some(id) = self.next_ready() {
            self.start(id);
        }
    }

    /// The first of the most urgent ones; what is no run is short and goes before them.
    fn next_ready(&mut self) -> Option<JobId> {
        if !self.has_priorities {
            return self.ready.pop_front();
        }
        let (jobs, ready) = (&mut self.jobs, &self.ready);
        let order = |id: JobId| {
            let job::Urgency { priority, number } = jobs.urgency(id);
            number.map(|_| priority)
        };
        let first = ready.iter().copied().map(order).enumerate().min_by_key(|(position, order)| (*order, *position))?;
        self.ready.remove(first.0)
    }

    fn start(&mut self, id: JobId) {
        let job::Urgency { priority, .. } = self.jobs.urgency(id);
        match self.jobs.start(id) {
            Work::Write { tensor, bytes, label, charge } => {
                let storage = tensor.storage.clone();
                self.jobs.set_end(
                    id,
                    End::Wrote {
                        outputs: smallvec![tensor],
                        what: "writeTensor",
                        label,
                        graph: None,
                        _pending: charge,
                        done: Done::ignored(),
                    },
                );
                self.backend.write(&storage, bytes, self.reporter(id));
            }
            Work::Read { tensor, into, watch, done, of } => {
                let errored = tensor.state().error.as_ref().map(errored);
                if let Some(error) = watch.begin().map_err(|error| error.of("readTensor", "")).err().or(errored) {
                    drop(into);
                    done.report(Err(error));
                    self.reports.push(Report::Finished((id, Ok(()))));
                    return;
                }
                self.jobs.set_end(id, End::Read { done, of });
                self.backend.read(&tensor.storage, into, self.reporter(id));
            }
            Work::Copy { copies, done } => {
                let errored = copies.iter().find_map(|copy| copy.from.state().error.clone());
                if let Some(cause) = errored {
                    let message = format!("run: a tensor is errored: {}", cause.root().message());
                    done.report(Err(Error::new(Kind::Operation, message).caused_by(cause)));
                    self.reports.push(Report::Finished((id, Ok(()))));
                    return;
                }
                self.jobs.set_end(id, End::Copied { done });
                let range = |Copy { from, first, to, at, length }: Copy<B>| CopyRange {
                    from: from.storage.clone(),
                    first,
                    to: to.storage.clone(),
                    at,
                    length,
                };
                self.backend.copy(copies.into_iter().map(range).collect(), self.reporter(id));
            }
            Work::GivenUp { outputs, error } => {
                for tensor in outputs {
                    tensor.state().error = Some(error.clone());
                }
                self.reports.push(Report::Finished((id, Ok(()))));
            }
            Work::Dispatch { graph, inputs, outputs, label, run, done } => {
                let Run { number, watch } = run;
                let bindings = Bindings {
                    inputs: inputs.iter().map(|tensor| tensor.storage.clone()).collect(),
                    outputs: outputs.iter().map(|tensor| Some(tensor.storage.clone())).collect(),
                };
                let label = if label.is_empty() { graph.label.clone() } else { label };
                let of = Some(graph.clone());
                self.jobs.set_end(id, End::Wrote { outputs, what: "dispatch", label, graph: of, _pending: None, done });
                self.execute(id, (number, watch, priority), &graph, &inputs, bindings);
            }
            Work::Compute { graph, inputs, outputs, mut end, run } => {
                let Run { number, watch } = run;
                let bindings = Bindings {
                    inputs: inputs.iter().map(|tensor| tensor.storage.clone()).collect(),
                    outputs: outputs.iter().map(|tensor| tensor.as_ref().map(|tensor| tensor.storage.clone())).collect(),
                };
                if end.label.is_empty() {
                    end.label = graph.label.clone();
                }
                drop(outputs);
                self.jobs.set_end(id, End::Computed { graph: graph.clone(), end });
                self.execute(id, (number, watch, priority), &graph, &inputs, bindings);
            }
        }
    }

    /// Runs a graph, unless it or an input of it is errored.
    fn execute(
        &mut self,
        id: JobId,
        (number, watch, priority): (u64, Watch, Priority),
        graph: &GraphEntry<B>,
        inputs: &Tensors<B>,
        bindings: Bindings<B::Tensor>,
    ) {
        let of_graph = || graph.error.get().cloned().map(|cause| ("the graph can never run again", cause));
        let of_input = |tensor: &TensorRef<B::Tensor>| tensor.state().error.clone().map(|cause| ("an input is errored", cause));
        match of_graph().or_else(|| inputs.iter().find_map(of_input)) {
            Some((what, cause)) => {
                // Not the whole chain in words: that grows with every dispatch, and can be followed through the causes.
                let error = Error::new(Kind::Operation, format!("{what}: {}", cause.root().message())).caused_by(cause);
                self.reporter(id).report(Err(error));
            }
            None => {
                let place = if self.place == Place::Alone && !self.ready.is_empty() { Place::InTurn } else { self.place };
                let options = RunOptions { number, place, watch, priority };
                let reporter = self.reporter(id);
                self.is_running.store(true, Ordering::Relaxed);
                self.backend.execute(&graph.executable, bindings, options, reporter);
                self.is_running.store(false, Ordering::Relaxed);
            }
        }
    }

    /// The duty to report a job's end to this loop.
    fn reporter(&self, id: JobId) -> Done<()> {
        let reports = self.reports.clone();
        Done::new(move |result| reports.push(Report::Finished((id, result))))
    }

    fn finish(&mut self, id: JobId, result: Result<()>) {
        self.waiting.job_ends();
        let ready = &mut self.ready;
        let end = self.jobs.finish(id, &mut |dependent| ready.push_back(dependent));
        match end {
            Some(End::Wrote { outputs, what, label, graph, _pending, done }) => {
                let error = result.err().map(|error| failed(error, what, &label, graph.as_deref()));
                for tensor in outputs {
                    tensor.state().error = error.clone();
                }
                done.report(error.map_or(Ok(()), Err));
            }
            Some(End::Computed { graph, end: Computed { method, label, copies, done } }) => match result {
                Err(error) => done.report(Err(failed(error, method, &label, Some(&graph)))),
                Ok(()) if copies.is_empty() => done.report(Ok(())),
                // Jobs of their own, so that the end of the timeline waits for them too.
                Ok(()) => {
                    let mut duties = done.split(copies.len());
                    let of = Some(Arc::new((method, label)));
                    for (tensor, into) in copies {
                        let done = duties.pop().expect("one for each copy");
                        self.add(Work::Read { tensor, into, watch: Watch::default(), done, of: of.clone() }, &[]);
                    }
                }
            },
            Some(End::Read { done, of }) => done.report(result.map_err(|error| unread(error, of.as_deref()))),
            Some(End::Copied { done }) => done.report(result.map_err(|error| error.of("run", ""))),
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
        tensor.state().read_by(self.all.next(), |job| self.all.is_unfinished(job), &mut wait);
    }

    fn for_writing(&mut self, tensor: &Tensor<B::Tensor>) {
        let jobs = &mut self.jobs;
        let mut wait = |job| {
            if !jobs.contains(&job) {
                jobs.push(job)
            }
        };
        tensor.state().written_by(self.all.next(), |job| self.all.is_unfinished(job), &mut wait);
    }
}

/// The failure of a read of a tensor that is errored: of what was dropped script hears as it is.
fn errored(error: &Error) -> Error {
    if error.is_dropped() {
        return error.clone();
    }
    let message = format!("readTensor: the tensor is errored: {}", error.message());
    Error::new(Kind::Operation, message).caused_by(error.clone())
}

/// The failure of a read, of which a run may be the reason.
fn unread(error: Error, of: Option<&(&'static str, String)>) -> Error {
    match (error.cause().cloned(), of) {
        (Some(run), Some((method, label))) => run.of(method, label),
        (Some(run), None) => {
            let message = format!("readTensor: the tensor is errored: {}", run.message());
            Error::new(Kind::Operation, message).caused_by(run)
        }
        (None, _) => Error::new(Kind::Unknown, format!("readTensor: {}", error.message())),
    }
}

/// The failure of an operation, named; a graph that can never run again is marked.
fn failed<B: Backend>(error: Error, what: &str, label: &str, graph: Option<&GraphEntry<B>>) -> Error {
    if let (Some(graph), Kind::Unknown) = (graph, error.kind()) {
        graph.error.get_or_init(|| error.clone());
    }
    if error.is_dropped() {
        return error.of(what, label);
    }
    // The end of the context is no failure of the operation.
    let kind = if error.kind() == Kind::InvalidState { Kind::InvalidState } else { Kind::Operation };
    error.as_kind(kind).of(what, label)
}
