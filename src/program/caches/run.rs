//! One step of a sequence, or of several at once: a run of a plan whose inputs come from a [`Step`], and whose caches are appended to.
#![allow(unsafe_code)]

use super::memory::{Copies, HostMemory, Memory};
use super::padding::Padded;
use super::plan::{Input, Output, Plan};
use super::rows::{Allocator, Append, Rows, Span};
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use crate::program::Program;
use crate::program::timeline_handle::{Failures, OwnedTensor};
use crate::timeline::{Compute, Operand, Part, Task, Watch};
use std::sync::Arc;

/// What a run asks of whoever wants a step.
pub trait Step {
    /// What a cache has, of which the first rows count; nothing where there are none. `like` is the graph's output, whose rows come
    /// first.
    fn past(&mut self, cache: usize, like: &Descriptor, allocator: Allocator<'_>) -> Result<Option<&mut Rows>>;

    /// The value of an input of the model, by its position, as the graph has it.
    fn input(&mut self, input: usize, descriptor: &Descriptor, allocator: Allocator<'_>) -> Result<InputValue>;

    /// How many rows of padding are in front of what is the same for every step.
    fn given_padding(&self) -> usize {
        0
    }

    /// Whether it is a step of the second graph, of a plan that has two ([`StepGraph::or`](super::StepGraph::or)).
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether an output of the plan that is no cache is wanted.
    fn wants(&self, output: usize) -> bool;
}

/// The value of an input.
#[derive(Debug)]
pub enum InputValue {
    Bytes(Bytes),
    /// Memory that nobody writes any more, which is read where it is.
    Memory(Arc<Memory>),
    /// The same of bytes.
    Shared(Arc<Bytes>),
}

/// What a step gives for an output.
#[derive(Debug)]
pub enum OutputValue {
    Rows(Rows),
    /// It stays where the graph has it.
    State(Memory),
    Bytes(Bytes),
}

/// Who wants a run, and when it is to end early.
#[derive(Debug)]
pub struct Caller {
    pub method: &'static str,
    pub label: String,
    pub watch: Watch,
}

/// Runs a step. Waits for it. The results are those of the plan's outputs, in their order, as far as they are wanted.
///
/// # Errors
/// Those of the run and of the step's inputs. Caches are as before then.
pub fn run(program: &Program, plan: &Plan, span: Span, step: &mut impl Step, caller: Caller) -> Result<Vec<Option<OutputValue>>> {
    run_all(program, plan, &mut [(span, step)], caller)
}

/// Runs the steps of as many sequences as the plan is for.
///
/// # Errors
/// As [`run`]: then the caches of all are as before.
pub fn run_all<S: Step>(
    program: &Program,
    plan: &Plan,
    sequences: &mut [(Span, &mut S)],
    caller: Caller,
) -> Result<Vec<Option<OutputValue>>> {
    let failures = Failures::default();
    let mut run = Run {
        allocator: Allocator { timeline: &program.timeline, usage: program.weights.usage(), failures: &failures },
        plan,
        inputs: Vec::new(),
        outputs: Vec::new(),
        results: Vec::new(),
        kept: Default::default(),
        before: Copies::default(),
        after: Copies::default(),
    };
    // Inputs may lie in outputs.
    for output in 0..plan.outputs.len() {
        let (span, step) = &mut sequences[plan.sequence_of_output(output)];
        run.put_output(output, *span, *step)?;
    }
    for input in 0..plan.inputs.len() {
        let (span, step) = &mut sequences[plan.sequence_of_input(input)];
        run.put_input(input, *span, *step)?;
    }
    run.end(caller)
}

/// A run that is put together.
struct Run<'a> {
    allocator: Allocator<'a>,
    plan: &'a Plan,
    inputs: Vec<Operand>,
    outputs: Vec<Option<Operand>>,
    /// By output.
    results: Vec<Option<Pending>>,
    /// What inputs are in: the graph works on the memory of these until the run has ended.
    kept: (Vec<Bytes>, Vec<Arc<Memory>>, Vec<Arc<Bytes>>),
    /// Copies on the device that are made before the run, and after it.
    before: Copies,
    after: Copies,
}

/// Memory that an output is written into.
enum Pending {
    Append(Box<Append>),
    State(Memory),
    Bytes(Bytes),
}

impl Run<'_> {
    fn put_output(&mut self, number: usize, span: Span, step: &mut impl Step) -> Result<()> {
        let (output, descriptor) = &self.plan.outputs[number];
        let (operand, result) = match output {
            Output::Cache(cache) => {
                let past = step.past(*cache, descriptor, self.allocator)?;
                let (operand, append) = self.append(past, descriptor, span, self.plan.appends(number))?;
                (Some(operand), Some(Pending::Append(Box::new(append))))
            }
            _ if !step.wants(number) => (None, None),
            Output::State(_) => {
                let (operand, memory) = self.state(descriptor)?;
                (Some(operand), Some(Pending::State(memory)))
            }
            Output::Other => {
                let mut bytes = Bytes::zeroed(descriptor.byte_length())?;
                (Some(Operand::Host(buffer(&mut bytes))), Some(Pending::Bytes(bytes)))
            }
        };
        self.outputs.push(operand);
        self.results.push(result);
        Ok(())
    }

    /// Rows of a cache with new ones after them. On a device they are where the cache is if the graph appends to what is there
    /// (`is_in_place`) and can have it where they begin; else in a spare, of which the new ones are copied.
    fn append(&mut self, past: Option<&mut Rows>, like: &Descriptor, span: Span, is_in_place: bool) -> Result<(Operand, Append)> {
        let mut append = Append::new(past, like, span, self.allocator, &mut self.before)?;
        let (first, read, all) = append.bytes();
        if like.byte_length() != all || like.shape.first() != Some(&(span.all() as u32)) {
            let text = format!("found a cache of {like}, allowed {} rows: those before and the new ones", span.all());
            return Err(Error::new(Kind::NotSupported, text));
        }
        let here = append.part().filter(|_| is_in_place);
        let operand = match (append.memory(), here) {
            // SAFETY: the append keeps the memory, and the run keeps the append until it has ended. Only the new rows are written, which no
            // other append has, and no others have a writer: the graph reads them here, or a copy.
            (Memory::Host(memory), _) => Operand::Host(unsafe { memory.buffer(first, all) }),
            (Memory::Device(_), Some(part)) => Operand::Part(part),
            (Memory::Device(tensor), None) => {
                let tensor = tensor.clone();
                let spare = append.spare(true, like, self.allocator)?;
                self.after.add((&spare, read), (&tensor, first + read), all - read);
                whole(&spare)
            }
        };
        Ok((operand, append))
    }

    /// Memory for a state.
    fn state(&self, descriptor: &Descriptor) -> Result<(Operand, Memory)> {
        let Allocator { timeline, usage, failures } = self.allocator;
        if timeline.has_own_memory() {
            let tensor = timeline.tensor(descriptor, failures)?;
            return Ok((whole(&tensor), Memory::Device(tensor)));
        }
        let memory = HostMemory::new(Bytes::zeroed(descriptor.byte_length())?, usage)?;
        // SAFETY: the memory is nobody else's before the run has ended, and the run keeps it until then.
        let operand = Operand::Host(unsafe { memory.buffer(0, memory.len()) });
        Ok((operand, Memory::Host(memory)))
    }

    fn put_input(&mut self, number: usize, span: Span, step: &mut impl Step) -> Result<()> {
        let (input, descriptor) = &self.plan.inputs[number];
        let value = match input {
            Input::Cache(cache) => return self.read_cache(number, *cache, descriptor),
            Input::Padding(padded, padding) => {
                let mut bytes = Bytes::zeroed(descriptor.byte_length())?;
                let rows = match padded {
                    Padded::Appended => span.padding,
                    Padded::Given => step.given_padding(),
                };
                padding.write(rows, &mut bytes);
                InputValue::Bytes(bytes)
            }
            Input::Choice => InputValue::Bytes(Bytes::copy_of(&[u8::from(!step.is_plain())])?),
            Input::Model(position) => step.input(*position, descriptor, self.allocator)?,
        };
        match value {
            InputValue::Bytes(bytes) => self.give(bytes),
            InputValue::Memory(memory) => {
                self.inputs.push(match &*memory {
                    Memory::Device(tensor) => whole(tensor),
                    // SAFETY: nobody writes it any more, and the run keeps it until it has ended. Inputs are only read.
                    Memory::Host(memory) => Operand::Host(unsafe { memory.buffer(0, memory.len()) }),
                });
                self.kept.1.push(memory);
            }
            InputValue::Shared(bytes) => {
                // SAFETY: nobody writes them, and the run keeps them until it has ended. Inputs are only read.
                self.inputs.push(Operand::Host(unsafe { HostBuffer::new(bytes.as_ptr(), bytes.len()) }));
                self.kept.2.push(bytes);
            }
        }
        Ok(())
    }

    /// The rows of a cache that the step reads. They lie at the beginning of an output if the plan says so, and are copied else.
    fn read_cache(&mut self, number: usize, cache: usize, descriptor: &Descriptor) -> Result<()> {
        let output = self.plan.output_of(self.plan.sequence_of_input(number), cache);
        let append = output.and_then(|output| Some((output, self.results[output].as_mut()?)));
        let Some((output, Pending::Append(append))) = append else {
            let text = format!("found the cache {cache} without an output that appends to it, allowed one that has it");
            return Err(Error::new(Kind::NotSupported, text));
        };
        let (first, read, _) = append.bytes();
        let beginning = self.plan.beginning(number).filter(|placement| placement.output == output);
        let operand = match (append.memory(), beginning, &self.outputs[output]) {
            (Memory::Host(_), Some(placement), Some(Operand::Host(output))) if !self.allocator.timeline.has_own_memory() => {
                Operand::Host(HostBuffer::in_output(output, placement, descriptor.byte_length()))
            }
            // A graph that reads it elsewhere too.
            (Memory::Host(memory), ..) => {
                // SAFETY: the step writes after these rows, and nobody else does.
                let bytes = Bytes::copy_of(unsafe { memory.part(first, read) })?;
                self.give(bytes);
                return Ok(());
            }
            // Where the rows are, or in the spare that stands in for them.
            (Memory::Device(tensor), Some(_), Some(Operand::Part(part))) => {
                if let Some(spare) = append.is_spare(*part) {
                    self.before.add((tensor, first), (spare, 0), read);
                }
                Operand::Part(*part)
            }
            (Memory::Device(tensor), ..) => {
                let tensor = tensor.clone();
                let spare = append.spare(false, descriptor, self.allocator)?;
                self.before.add((&tensor, first), (&spare, 0), read);
                whole(&spare)
            }
        };
        self.inputs.push(operand);
        Ok(())
    }

    /// The next input.
    fn give(&mut self, mut bytes: Bytes) {
        self.inputs.push(Operand::Host(buffer(&mut bytes)));
        self.kept.0.push(bytes);
    }

    /// Waits for the end of the run.
    fn end(self, caller: Caller) -> Result<Vec<Option<OutputValue>>> {
        let Run { allocator, plan, inputs, outputs, results, kept, before, after, .. } = self;
        let Allocator { timeline, failures, .. } = allocator;
        let Caller { method, label, watch } = caller;
        let compute = |done| Task::Compute(Compute { graph: plan.graph, inputs, outputs, method, label, watch, done });
        let ended = before.make(timeline).and_then(|()| timeline.wait_for(compute));
        drop(kept);
        // What was asked for before is known by now, and why it failed is worth more.
        failures.check().and(ended)?;
        after.make(timeline)?;
        let result = |pending| match pending {
            Pending::Append(append) => OutputValue::Rows(append.keep()),
            Pending::State(memory) => OutputValue::State(memory),
            Pending::Bytes(bytes) => OutputValue::Bytes(bytes),
        };
        Ok(results.into_iter().map(|pending| pending.map(result)).collect())
    }
}

fn whole(tensor: &OwnedTensor) -> Operand {
    Operand::Part(Part { tensor: tensor.id, first: 0 })
}

/// Memory of ours for a run.
fn buffer(bytes: &mut Bytes) -> HostBuffer {
    let length = bytes.len();
    // SAFETY: the bytes stay where they are, wherever their owner goes, and `Run` keeps them, untouched, until the run has ended
    // and dropped the buffer.
    unsafe { HostBuffer::new(bytes.as_mut_ptr(), length) }
}
