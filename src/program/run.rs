//! A run: from stage to stage, until the model's outputs are there.

use super::device::{Failures, OwnedTensor};
use super::values::{Held, Key, Values, find, held_element};
use super::{Program, Stage, too_large};

use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::onnx::{Body, Export, Givens, OpenOutput, Random, Step, StepKind, Tensor as Constant, evaluate};
use crate::thread::Pool;
use crate::timeline::{Done, Task, TensorIds, Watch};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Runs of programs that have a thread at the same time in the whole process; others wait their turn.
const AT_ONCE: usize = 32;
/// A thread without a run ends after so long.
const KEPT: Duration = Duration::from_secs(10);

static RUNS: Pool = Pool::new("webnn program", AT_ONCE, KEPT);

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

/// Runs a program on a thread out of the pool, from the stage for the shapes of its inputs.
pub fn start(program: Arc<Program>, stage: Arc<Stage>, inputs: Vec<Input>, options: Options, done: Done<Vec<Output>>) {
    let work = move |done: Done<Vec<Output>>| {
        done.run(|| Run::new(&program, options).outputs(stage, inputs));
    };
    if let Err((error, done)) = RUNS.spawn(done, work) {
        done.report(Err(error));
    }
}

/// Has a thread out of the same pool do something.
///
/// # Errors
/// Where there is none and none can be had; the duty is given back.
pub fn spawn<D: Send + 'static>(duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    RUNS.spawn(duty, work)
}

/// Stages that one run makes at most, and runs of the bodies of loops, those of loops within loops together: a few nodes could ask for any
/// number, and each takes some microseconds, or some hundred where a stage is made.
const MOST_MADE: u64 = 1 << 14;
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
            return Err(Error::new(Kind::Operation, format!("found more than {most} {what} in one run, allowed as many")));
        }
        done.set(done.get() + 1);
        Ok(())
    }
}

/// A run under way.
pub struct Run<'a> {
    pub program: &'a Program,
    pub failures: Failures,
    random: Random,
    most_bytes: usize,
    watch: Watch,
    kept: HashSet<String>,
    made: Count,
    bodies: Count,
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
        Elements::Bytes(bytes) => program.device.upload(descriptor, bytes, failures)?,
        Elements::Tensor(tensor) => tensor.clone(),
    };
    Ok(Held::Device { tensor, element })
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, options: Options) -> Run<'a> {
        let most_bytes = options.most_bytes.or(program.bounds.most_bytes).unwrap_or(usize::MAX);
        let Options { seed, watch, kept, failures, .. } = options;
        let made = Count::new("plans that were made", MOST_MADE);
        let bodies = Count::new("runs of the bodies of loops", MOST_BODIES);
        Run { program, failures, random: Random::new(seed), most_bytes, watch, kept, made, bodies }
    }

    fn outputs(&mut self, stage: Arc<Stage>, inputs: Vec<Input>) -> Result<Vec<Output>> {
        let mut values = Values::new();
        let mut total = 0usize;
        for Input { name, content } in inputs {
            let mut value = |given: &Tensor<crate::memory::Bytes>| {
                total = total.saturating_add(given.descriptor.byte_length());
                self.afford(total)?;
                held(self.program, &self.failures, &name, given)
            };
            let value = match &content {
                Content::Tensor(given) => value(given)?,
                Content::Sequence(list) => Held::Sequence(list.iter().map(value).collect::<Result<_>>()?),
                Content::Nothing => Held::Nothing,
            };
            values.insert(name, value);
        }
        let values = self.walk(None, stage, values)?;
        let mut wanted = Vec::new();
        let mut tensors: Vec<&OwnedTensor> = Vec::new();
        for output in &self.program.outputs {
            let value = find(&values, &output.name)?;
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
            false => self.program.device.read(&tensors)?.into_iter(),
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
            self.program.device.catch_up()?;
        }
        self.failures.check()?;
        Ok(outputs)
    }

    /// A tensor of its own with a value, which may also be another output, or an input; nothing where nothing is in it.
    fn kept(&self, value: &Held) -> Result<Option<Arc<OwnedTensor>>> {
        let device = &self.program.device;
        match value {
            Held::Device { tensor, .. } => device.share(tensor.id, &tensor.descriptor, &self.failures).map(Some),
            Held::Host { tensor, .. } if !tensor.is_empty() => {
                let (descriptor, bytes) = described(tensor)?;
                device.upload(&descriptor, &bytes, &self.failures).map(Some)
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

    /// From a stage on: what exists behind the last one, by name.
    pub fn walk(&mut self, body: Option<&Body>, mut stage: Arc<Stage>, mut values: Values) -> Result<Values> {
        loop {
            self.is_wanted()?;
            let results = self.execute(&stage, &mut values)?;
            let mut exported = Values::new();
            for (name, export) in &stage.exports {
                exported.insert(name.clone(), exported_value(export, &results, &values)?);
            }
            let Some(next) = &stage.next else { return Ok(exported) };
            let mut key = Key::default();
            for (step, plans) in next.steps.iter().zip(&stage.bodies) {
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
                let text =
                    format!("found values of {} bytes where sizes are meant, allowed at most {MOST_LOOKED_AT}", key.bytes());
                return Err(Error::new(Kind::Operation, text));
            }
            values = exported;
            let given: Givens = values.iter().map(|(name, value)| (name.clone(), value.given())).collect();
            stage = stage.later.get(key, || self.make(body, &given))?;
        }
    }

    /// Makes a stage.
    pub fn make(&self, body: Option<&Body>, given: &Givens) -> Result<Stage> {
        self.made.one_more()?;
        self.program.stage(body, given)
    }

    /// Notes that the body of a loop is to run.
    pub fn repeats(&self) -> Result<()> {
        self.bodies.one_more()
    }

    /// Runs the graph of a stage, if it has one; its results.
    fn execute(&mut self, stage: &Stage, values: &mut Values) -> Result<Vec<Arc<OwnedTensor>>> {
        let Some(graph) = &stage.graph else { return Ok(Vec::new()) };
        let device = &self.program.device;
        let mut tensors = TensorIds::new();
        let mut inputs = Vec::new();
        for (name, descriptor) in &graph.inputs {
            let tensor = match find(values, name)? {
                Held::Device { tensor, .. } => tensor.clone(),
                Held::Host { tensor, .. } => {
                    let (_, bytes) = tensor.held()?;
                    let uploaded = device.upload(descriptor, &bytes, &self.failures)?;
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
            let tensor = device.tensor(descriptor, &self.failures)?;
            tensors.push(tensor.id);
            results.push(tensor);
        }
        device.send(Task::Dispatch { graph: graph.id, tensors, label: String::new() })?;
        Ok(results)
    }

    /// A value's elements.
    pub fn tensor(&self, value: &Held) -> Result<Constant> {
        match value {
            Held::Host { tensor, .. } => Ok(tensor.clone()),
            Held::Device { tensor, element } => {
                let bytes = self.program.device.read(&[tensor])?.pop().unwrap_or_default();
                self.failures.check()?;
                let shape = tensor.descriptor.shape.iter().map(|&size| size as usize).collect();
                let held = Constant { element: tensor.descriptor.data_type.into(), shape, bytes: bytes.into() };
                Ok(if element.is_narrow() { held.cast(*element) } else { held })
            }
            _ => Err(Error::new(Kind::Operation, "a value that is no tensor")),
        }
    }

    /// Computes a step that is an operator.
    fn evaluate(&mut self, step: &Step, values: &Values) -> Result<Vec<Held>> {
        let input = |name: &Option<String>| name.as_ref().map(|name| self.tensor(find(values, name)?)).transpose();
        let inputs = step.inputs.iter().map(input).collect::<Result<_>>()?;
        let Program { loaded, limits, bounds, .. } = self.program;
        let tensors = evaluate(step, inputs, loaded, limits, bounds, &mut self.random)?;
        self.afford(tensors.iter().map(|tensor| tensor.bytes.len()).fold(0, usize::saturating_add))?;
        Ok(tensors.into_iter().map(|tensor| Held::Host { tensor, known: false }).collect())
    }
}

/// What an operand with these elements is, and its bytes.
fn described(tensor: &Constant) -> Result<(Descriptor, bytes::Bytes)> {
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
        let count = Count::new("runs of the bodies of loops", 3);
        assert!((0..3).all(|_| count.one_more().is_ok()));
        let error = count.one_more().unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
        assert_eq!(error.message(), "found more than 3 runs of the bodies of loops in one run, allowed as many");
    }
}
