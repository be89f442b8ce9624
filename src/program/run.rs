//! A run: from part to part, until the model's outputs are there.

use super::between::StepBetween;
use super::timeline_handle::{self, Failures, OwnedTensor};
use super::values::{Held, Key, Values, find, held_element};
use super::{CompiledPart, Program, too_large};

use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::memory::Data;
use crate::onnx::{Body, Export, Givens, OpenOutput, Random, Step, StepKind, Tensor as Constant, evaluate};
use crate::thread::Pool;
use crate::timeline::inline::{self, Budget};
use crate::timeline::{Done, Task, TensorIds, Watch, from_panic};
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Runs of programs that have a thread at the same time in the whole process; others wait their turn.
const AT_ONCE: usize = 32;
const PLANS_AT_ONCE: usize = 4;
/// A thread without a run ends after so long.
const KEPT: Duration = Duration::from_secs(10);

static RUNS: Pool = Pool::new("webnn program", AT_ONCE, KEPT);
/// For plans that runs wait for, which may have taken all threads of the other pool.
static PLANS: Pool = Pool::new("webnn plans", PLANS_AT_ONCE, KEPT);

/// A tensor that a run is given, or gives.
#[derive(Debug)]
pub struct Tensor<B> {
    pub descriptor: Descriptor,
    pub elements: Elements<B>,
}

#[derive(Debug)]
pub enum Elements<B> {
    Bytes(B),
    /// On the device.
    Tensor(Arc<OwnedTensor>),
}

/// What an input or output is.
#[derive(Debug)]
pub enum Content<B> {
    Tensor(Tensor<B>),
    Sequence(Vec<Tensor<B>>),
    Nothing,
}

/// A value that a run is given.
#[derive(Debug)]
pub struct Input {
    pub name: String,
    pub content: Content<crate::memory::Bytes>,
}

/// How a run is wanted.
#[derive(Debug, Default)]
pub struct Options {
    /// For nodes without a seed.
    pub seed: Option<u64>,
    /// What its values may take.
    pub most_bytes: Option<usize>,
    pub watch: Watch,
    /// Outputs that stay on the device, if they are tensors and something is in them.
    pub kept: HashSet<String>,
    /// Of what has been done for the run.
    pub failures: Failures,
}

/// An output of a model.
#[derive(Debug)]
pub struct Output {
    pub name: String,
    pub content: Content<Vec<u8>>,
}

/// Runs a program from the part for the shapes of its inputs: on the calling thread as far as that may be, where everything is short and
/// was made before, and on a thread out of the pool.
pub fn start(program: Arc<Program>, part: Arc<CompiledPart>, inputs: Vec<Input>, options: Options, done: Done<Vec<Output>>) {
    let mut run = Run::new(program, options);
    let is_tensor = |input: &Input| matches!(input.content, Content::Tensor(_));
    let may_be_inline = run.kept.is_empty() && !run.program.timeline.has_own_memory() && inputs.iter().all(is_tensor);
    if !may_be_inline || inline::budget() == Budget::Nothing {
        return on_thread_of_pool(done, move |done| done.run(|| run.outputs(part, inputs)));
    }
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let values = run.held(inputs)?;
        run.run_inline(part, values)
    }));
    match ran.unwrap_or_else(|panic| Err(from_panic(&*panic))) {
        Ok(Inline::Ended(outputs)) => done.report(Ok(outputs)),
        Ok(Inline::Left(part, values)) => on_thread_of_pool(done, move |done| {
            done.run(|| {
                let values = run.run_from(None, part, values)?;
                run.finish(&values)
            });
        }),
        Err(error) => done.report(Err(error)),
    }
}

/// Has a thread out of the pool do the rest of a run.
fn on_thread_of_pool(done: Done<Vec<Output>>, work: impl FnOnce(Done<Vec<Output>>) + Send + 'static) {
    if let Err((error, done)) = spawn(done, work) {
        done.report(Err(error));
    }
}

/// Has a thread out of the same pool do something.
///
/// # Errors
/// Where there is none and none can be had; the duty is given back.
pub fn spawn<D: Send + 'static>(duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    RUNS.spawn(duty, |duty| inline::as_timeline(|| work(duty)))
}

/// Has a thread make a plan, of a pool in which nothing waits for plans.
///
/// # Errors
/// Where there is none and none can be had; the duty is given back.
pub fn spawn_plan<D: Send + 'static>(duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    PLANS.spawn(duty, |duty| inline::as_timeline(|| work(duty)))
}

/// Parts that one run makes at most, and runs of the bodies of loops, those of loops within loops together: a few nodes could ask for any
/// number, and each takes some microseconds, or some hundred where a part is made.
const MOST_IMPORTS: u64 = 1 << 14;
const MOST_BODIES: u64 = 1 << 22;

/// Counts what a run does again and again.
struct Count {
    done: Cell<u64>,
    most: u64,
    what: &'static str,
}

impl Count {
    fn new(what: &'static str, most: u64) -> Count {
        Count { done: Cell::new(0), most, what }
    }

    /// # Errors
    /// `OperationError` when it was done as often as it may be.
    fn one_more(&self) -> Result<()> {
        let Count { done, most, what } = self;
        if done.get() == *most {
            return Err(Error::new(Kind::Operation, format!("the run made more than {most} {what} (the limit)")));
        }
        done.set(done.get() + 1);
        Ok(())
    }
}

/// A run under way.
pub struct Run {
    pub program: Arc<Program>,
    pub failures: Failures,
    random: Random,
    most_bytes: usize,
    watch: Watch,
    kept: HashSet<String>,
    imports: Count,
    bodies: Count,
    /// What would wait is refused: the calling thread does nothing but what it can do itself.
    is_inline: bool,
    /// Something was.
    is_refused: Cell<bool>,
}

/// How far a run came on the calling thread.
enum Inline {
    Ended(Vec<Output>),
    /// To a part that another thread has to do.
    Left(Arc<CompiledPart>, Values),
}

/// What follows a part.
enum Then {
    Part(Arc<CompiledPart>, Values),
    /// It was the last one: what exists, by name.
    End(Values),
}

/// Inputs of zero elements have no tensor; where a run is given one, it is there without.
fn held(program: &Program, failures: &Failures, name: &str, given: &Tensor<crate::memory::Bytes>) -> Result<Held> {
    let Tensor { descriptor, elements } = given;
    let element = program.loaded.inputs().iter().find(|known| known.name == name).map(|known| known.element());
    let element = held_element(element.unwrap_or(descriptor.data_type.into()));
    if descriptor.shape.contains(&0) {
        let shape = descriptor.shape.iter().map(|&size| size as usize).collect();
        let tensor = Constant { element: descriptor.data_type.into(), shape, bytes: Default::default() };
        return Ok(Held::Host { tensor, known: true });
    }
    let tensor = match elements {
        Elements::Bytes(bytes) => program.timeline.upload(descriptor, bytes, failures)?,
        Elements::Tensor(tensor) => tensor.clone(),
    };
    Ok(Held::Device { tensor, element })
}

impl Run {
    fn new(program: Arc<Program>, options: Options) -> Run {
        let most_bytes = options.most_bytes.or(program.bounds.most_bytes).unwrap_or(usize::MAX);
        let Options { seed, watch, kept, failures, .. } = options;
        let imports = Count::new("plans", MOST_IMPORTS);
        let bodies = Count::new("loop iterations", MOST_BODIES);
        let random = Random::new(seed);
        Run {
            program,
            failures,
            random,
            most_bytes,
            watch,
            kept,
            imports,
            bodies,
            is_inline: false,
            is_refused: Cell::new(false),
        }
    }

    fn outputs(&mut self, part: Arc<CompiledPart>, inputs: Vec<Input>) -> Result<Vec<Output>> {
        let values = self.held(inputs)?;
        let values = self.run_from(None, part, values)?;
        self.finish(&values)
    }

    /// The inputs, by name.
    fn held(&self, inputs: Vec<Input>) -> Result<Values> {
        let mut values = Values::new();
        let mut total = 0usize;
        for Input { name, content } in inputs {
            let mut value = |given: &Tensor<crate::memory::Bytes>| {
                total = total.saturating_add(given.descriptor.byte_length());
                self.afford(total)?;
                held(&self.program, &self.failures, &name, given)
            };
            let value = match &content {
                Content::Tensor(given) => value(given)?,
                Content::Sequence(list) => Held::Sequence(list.iter().map(value).collect::<Result<_>>()?),
                Content::Nothing => Held::Nothing,
            };
            values.insert(name, value);
        }
        Ok(values)
    }

    /// From a part on, on the calling thread, until something has to be done elsewhere. What was begun of that part is done again
    /// there: all it did was to make values that nobody has.
    fn run_inline(&mut self, mut part: Arc<CompiledPart>, mut values: Values) -> Result<Inline> {
        self.is_inline = true;
        let ended = loop {
            let before = values.clone();
            match self.advance(None, &part, values) {
                Ok(Then::Part(next, given)) => (part, values) = (next, given),
                Ok(Then::End(exported)) => match self.finish(&exported) {
                    Err(_) if self.is_refused.get() => break Inline::Left(part, before),
                    outputs => break Inline::Ended(outputs?),
                },
                Err(_) if self.is_refused.get() => break Inline::Left(part, before),
                Err(error) => return Err(error),
            }
        };
        self.is_inline = false;
        Ok(ended)
    }

    /// What is to be done on another thread, where the calling one may not wait.
    fn refuse<T>(&self) -> Result<T> {
        self.is_refused.set(true);
        Err(timeline_handle::needs_another_thread())
    }

    /// The contents of tensors.
    fn read(&self, tensors: &[&OwnedTensor]) -> Result<Vec<Vec<u8>>> {
        match self.is_inline {
            false => self.program.timeline.read(tensors),
            true => self.program.timeline.read_on_this_thread(tensors).or_else(|_| self.refuse()),
        }
    }

    /// The outputs of the model, of what exists after its last part.
    fn finish(&self, values: &Values) -> Result<Vec<Output>> {
        let mut wanted = Vec::new();
        let mut tensors: Vec<&OwnedTensor> = Vec::new();
        for output in &self.program.outputs {
            let value = find(values, &output.name)?;
            let is_kept = self.kept.contains(&output.name);
            let parts = match value {
                Held::Sequence(list) => &list[..],
                _ if is_kept => &[],
                value => std::slice::from_ref(value),
            };
            tensors.extend(parts.iter().filter_map(Held::on_device));
            wanted.push((output, value, is_kept));
        }
        self.afford(tensors.iter().map(|tensor| tensor.descriptor.byte_length()).fold(0, usize::saturating_add))?;
        let mut contents = match tensors.is_empty() {
            true => Vec::new().into_iter(),
            false => self.read(&tensors)?.into_iter(),
        };
        let mut tensor = |name: &str, value: &Held| match value {
            Held::Device { tensor, .. } => {
                let bytes = contents.next().unwrap_or_default();
                Ok(Tensor { descriptor: tensor.descriptor.clone(), elements: Elements::Bytes(bytes) })
            }
            Held::Host { tensor, .. } => {
                let (descriptor, bytes) = described(tensor)?;
                Ok(Tensor { descriptor, elements: Elements::Bytes(bytes.to_vec()) })
            }
            Held::Sequence(_) | Held::Nothing => {
                let text =
                    format!("the output {name:?} is a sequence of sequences or of optional values, which is not supported");
                Err(Error::new(Kind::NotSupported, text))
            }
        };
        let output = |(output, value, is_kept): (&OpenOutput, &Held, bool)| {
            let name = output.name.clone();
            let content = match value {
                Held::Sequence(list) => Content::Sequence(list.iter().map(|part| tensor(&name, part)).collect::<Result<_>>()?),
                Held::Nothing => Content::Nothing,
                value => Content::Tensor(match if is_kept { self.kept(value)? } else { None } {
                    Some(kept) => Tensor { descriptor: kept.descriptor.clone(), elements: Elements::Tensor(kept) },
                    None => tensor(&name, value)?,
                }),
            };
            Ok(Output { name, content })
        };
        let outputs = wanted.into_iter().map(output).collect::<Result<Vec<Output>>>()?;
        // Who is given tensors hears of their failures when they are read, but not that there is none.
        if !self.kept.is_empty() {
            self.program.timeline.catch_up()?;
        }
        self.failures.check()?;
        Ok(outputs)
    }

    /// A tensor of its own with a value, which may also be another output, or an input; nothing where nothing is in it.
    fn kept(&self, value: &Held) -> Result<Option<Arc<OwnedTensor>>> {
        let timeline = &self.program.timeline;
        match value {
            Held::Device { tensor, .. } => timeline.share(tensor.id, &tensor.descriptor, &self.failures).map(Some),
            Held::Host { tensor, .. } if !tensor.is_empty() => {
                let (descriptor, bytes) = described(tensor)?;
                timeline.upload(&descriptor, &bytes, &self.failures).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Refuses what takes more than the run may.
    pub fn afford(&self, bytes: usize) -> Result<()> {
        if bytes > self.most_bytes { Err(too_large(bytes, self.most_bytes)) } else { Ok(()) }
    }

    /// Whether the context is still there, and whoever asked still wants the run. Everything that may go on for long asks.
    pub fn is_wanted(&self) -> Result<()> {
        self.watch.check()?;
        match (self.program.bounds.is_wanted)() {
            true => Ok(()),
            false => Err(Error::new(Kind::InvalidState, "the context was destroyed")),
        }
    }

    /// From a part on: what exists after the last one, by name.
    pub fn run_from(&mut self, body: Option<&Body>, mut part: Arc<CompiledPart>, mut values: Values) -> Result<Values> {
        loop {
            match self.advance(body, &part, values)? {
                Then::End(exported) => return Ok(exported),
                Then::Part(next, given) => (part, values) = (next, given),
            }
        }
    }

    /// Runs a part, and what is to be done after it.
    fn advance(&mut self, body: Option<&Body>, part: &CompiledPart, mut values: Values) -> Result<Then> {
        self.is_wanted()?;
        // Steps may take any time, and draw random numbers.
        if self.is_inline && part.next.as_ref().is_some_and(|next| !next.steps.is_empty()) {
            return self.refuse();
        }
        let results = self.execute(part, &mut values)?;
        let mut exported = Values::new();
        for (name, export) in &part.exports {
            exported.insert(name.clone(), exported_value(export, &results, &values)?);
        }
        let Some(next) = &part.next else { return Ok(Then::End(exported)) };
        let mut key = Key::default();
        for (step, plans) in next.steps.iter().zip(&part.bodies) {
            let outputs = match (&step.kind, plans) {
                (StepKind::Repetition { repetition, body }, Some(plans)) => {
                    self.repeat(step, repetition, body, plans, &exported)?
                }
                _ => self.evaluate(step, &exported)?,
            };
            for (name, value) in step.outputs.iter().zip(outputs) {
                key.shape(&value);
                if let Some(name) = name {
                    exported.insert(name.clone(), value);
                }
            }
        }
        for name in &next.looks {
            let tensor = self.tensor(find(&exported, name)?)?;
            key.known(&tensor);
            exported.insert(name.clone(), Held::Host { tensor, known: true });
        }
        if key.bytes() > MOST_LOOKED_AT {
            let text = format!("found {} bytes of values that decide shapes, allowed at most {MOST_LOOKED_AT}", key.bytes());
            return Err(Error::new(Kind::Operation, text));
        }
        let next = match self.is_inline {
            true => part.later.find(&key).map_or_else(|| self.refuse(), Ok)?,
            false => {
                let given: Givens = exported.iter().map(|(name, value)| (name.clone(), value.given())).collect();
                part.later.get(key, || self.make(body, &given))?
            }
        };
        Ok(Then::Part(next, exported))
    }

    /// Makes a part.
    pub fn make(&self, body: Option<&Body>, given: &Givens) -> Result<CompiledPart> {
        self.imports.one_more()?;
        self.program.part(body, given)
    }

    /// Notes that the body of a loop is to run.
    pub fn repeats(&self) -> Result<()> {
        self.bodies.one_more()
    }

    /// Runs the graph of a part, if it has one; its results.
    fn execute(&mut self, part: &CompiledPart, values: &mut Values) -> Result<Vec<Arc<OwnedTensor>>> {
        let Some(graph) = &part.graph else { return Ok(Vec::new()) };
        let timeline = self.program.timeline.clone();
        let mut tensors = TensorIds::new();
        let mut inputs = Vec::new();
        for (name, descriptor) in &graph.inputs {
            let tensor = match find(values, name)? {
                Held::Device { tensor, .. } => tensor.clone(),
                Held::Host { tensor, .. } => {
                    let (_, bytes) = tensor.held()?;
                    let uploaded = timeline.upload(descriptor, &bytes, &self.failures)?;
                    // Whoever needs it next has it there.
                    if let Some(Held::Host { known: false, tensor }) = values.get(name) {
                        let element = held_element(tensor.element);
                        values.insert(name.clone(), Held::Device { tensor: uploaded.clone(), element });
                    }
                    uploaded
                }
                _ => return Err(Error::new(Kind::Operation, format!("the value {name:?} is no tensor"))),
            };
            if tensor.descriptor != *descriptor {
                let text = format!("{} for {name:?}, which is {descriptor} (internal error)", tensor.descriptor);
                return Err(Error::new(Kind::Operation, text));
            }
            tensors.push(tensor.id);
            inputs.push(tensor);
        }
        let mut results = Vec::with_capacity(graph.outputs.len());
        for descriptor in &graph.outputs {
            let tensor = timeline.tensor(descriptor, &self.failures)?;
            tensors.push(tensor.id);
            results.push(tensor);
        }
        let (label, watch, done) = (String::new(), self.watch.clone(), Done::ignored());
        let task = Task::Dispatch { graph: graph.id, tensors, label, watch, done };
        if !self.is_inline {
            timeline.send(task)?;
        } else if !timeline.attempt(task) {
            return self.refuse();
        }
        Ok(results)
    }

    /// A value's elements.
    pub fn tensor(&self, value: &Held) -> Result<Constant> {
        match value {
            Held::Host { tensor, .. } => Ok(tensor.clone()),
            Held::Device { tensor, element } => {
                let bytes = self.read(&[tensor])?.pop().unwrap_or_default();
                self.failures.check()?;
                let shape = tensor.descriptor.shape.iter().map(|&size| size as usize).collect();
                let held = Constant { element: tensor.descriptor.data_type.into(), shape, bytes: bytes.into() };
                Ok(if element.is_narrow() { held.cast(*element) } else { held })
            }
            _ => Err(Error::new(Kind::Operation, "a value that is not a tensor")),
        }
    }

    /// Computes a step that is an operator.
    fn evaluate(&mut self, step: &Step, values: &Values) -> Result<Vec<Held>> {
        let input = |name: &Option<String>| name.as_ref().map(|name| self.tensor(find(values, name)?)).transpose();
        let inputs = step.inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
        let Program { loaded, limits, bounds, .. } = &*self.program;
        let watched = self.watch.wants_steps().then(|| StepBetween::begin(step, inputs.iter().flatten()));
        // Its loops ask by what this thread works for, and unwind.
        let random = &mut self.random;
        let evaluated = || self.watch.during(|| evaluate(step, inputs, loaded, limits, bounds, random));
        let evaluated = catch_unwind(AssertUnwindSafe(evaluated));
        self.is_wanted()?;
        let tensors = evaluated.unwrap_or_else(|panic| Err(from_panic(&*panic)))?;
        if let Some(watched) = watched {
            watched.end(&self.watch, &tensors);
        }
        self.afford(tensors.iter().map(|tensor| tensor.bytes.len()).fold(0, usize::saturating_add))?;
        Ok(tensors.into_iter().map(|tensor| Held::Host { tensor, known: false }).collect())
    }
}

/// What an operand with these elements is, and its bytes.
fn described(tensor: &Constant) -> Result<(Descriptor, Data)> {
    let (data_type, bytes) = tensor.held()?;
    let shape = tensor.shape.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
    Ok((Descriptor { data_type, shape }, bytes))
}

/// Values that sizes are taken from have a few elements.
const MOST_LOOKED_AT: usize = 1 << 20;

fn exported_value(export: &Export, results: &[Arc<OwnedTensor>], values: &Values) -> Result<Held> {
    Ok(match export {
        Export::Result { output, element, .. } => {
            let tensor = results.get(*output).ok_or_else(|| Error::new(Kind::Operation, "a result that no graph has"))?;
            Held::Device { tensor: tensor.clone(), element: *element }
        }
        Export::Known(tensor) => Held::Host { tensor: tensor.clone(), known: true },
        Export::Given(name) => find(values, name)?.clone(),
        Export::Sequence(list) => {
            Held::Sequence(list.iter().map(|export| exported_value(export, results, values)).collect::<Result<_>>()?)
        }
        Export::Nothing => Held::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_does_again_and_again_has_an_end() {
        let count = Count::new("loop iterations", 3);
        assert!((0..3).all(|_| count.one_more().is_ok()));
        let error = count.one_more().unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert_eq!(error.message(), "the run made more than 3 loop iterations (the limit)");
    }
}
