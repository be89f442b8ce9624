//! The run of a step: what the engine asks of the caller's inputs, and the outputs as script has them.

use super::plan::StepPlan;
use super::values::{Order, Rest, Value, can_hold};
use super::{Call, Content, Form, Input, Options, Output, Steps, internal, sequences};
use crate::error::{Error, Result};
use crate::graph::Descriptor;
use crate::memory::Bytes;
use crate::onnx::Signature;
use crate::program::Program;
use crate::program::caches::{self, Allocator, Caller, InputValue, OutputValue, Rows, Span, Step};
use crate::program::run::spawn;
use crate::timeline::Done;
use std::collections::HashSet;
use std::sync::Arc;

/// Runs a step on a thread of its own.
pub fn start(program: Arc<Program>, call: Call, inputs: Vec<Input>, options: Options, done: Done<Vec<Output>>) {
    let work = move |done: Done<Vec<Output>>| {
        done.run(|| run(&program, &call, inputs, options));
        program.look_ahead(&call);
    };
    if let Err((error, done)) = spawn(done, work) {
        done.report(Err(error));
    }
}

fn run(program: &Program, call: &Call, inputs: Vec<Input>, options: Options) -> Result<Vec<Output>> {
    let steps = program.steps.as_ref().ok_or_else(|| internal("a step of a model without caches"))?;
    let plan = steps.plan(program, &call.key).map_err(|_| internal("a step without a plan"))?;
    if let Some(sequences) = &call.sequences {
        return sequences::run(program, call, sequences, &plan, inputs, options);
    }
    let form = steps.form(&call.key);
    let Options { wanted, label, watch } = options;
    let mut rests = Vec::new();
    rests.resize_with(form.caches.rows.len(), || None);
    let mut step = CallersStep { program, steps, form, call, plan: &plan, inputs, wanted, fresh: None, rests };
    let span = Span { padding: call.key.rows() - call.rows, had: call.rows, new: plan.new_rows };
    let values = caches::run(program, &plan.plan, span, &mut step, Caller { method: "run", label, watch })?;
    step.results(values)
}

/// A step whose inputs a caller gives.
struct CallersStep<'a> {
    program: &'a Program,
    steps: &'a Steps,
    form: &'a Form,
    call: &'a Call,
    plan: &'a StepPlan,
    inputs: Vec<Input>,
    /// The names of outputs; nothing for all.
    wanted: Option<HashSet<String>>,
    /// The rows of a cache that was given as bytes, until the engine has taken them.
    fresh: Option<Rows>,
    /// By cache of a fixed size: what its rows are that are not filled.
    rests: Vec<Option<Arc<Rest>>>,
}

impl Step for CallersStep<'_> {
    fn past(&mut self, cache: usize, like: &Descriptor, allocator: Allocator<'_>) -> Result<Option<&mut Rows>> {
        let CallersStep { program, steps, call, .. } = *self;
        let (at, axis) = (self.form.pasts[cache], self.form.caches.rows[cache].axis);
        let descriptor = self.cache_for_script(cache)?;
        let input = self.inputs.get_mut(at).ok_or_else(|| internal("no past"))?;
        if let Input::Value(value) = input
            && value.rows_before(call.rows, &descriptor, axis).is_none()
        {
            *input = call.input(program, at, &value.read()?)?;
        }
        let keeps_rest = call.size.is_some() && steps.fixed.as_ref().is_some_and(|(_, fixed)| fixed.keeps_rest[cache]);
        self.rests[cache] = match &*input {
            Input::Value(value) if keeps_rest => value.rest(call.rows)?,
            Input::Filled(_, rest) => rest.clone(),
            _ => None,
        };
        if call.rows == 0 {
            return Ok(None);
        }
        match input {
            Input::Value(value) => Ok(value.rows_before(call.rows, &descriptor, axis)),
            Input::Bytes(bytes) | Input::Filled(bytes, _) => {
                let span = Span { padding: call.key.rows() - call.rows, had: call.rows, new: self.plan.new_rows };
                let order = Order::of(&descriptor, axis);
                let length = call.rows * order.outer * order.inner;
                if bytes.len() != length {
                    return Err(internal(format!("{} bytes of a cache, not {length}", bytes.len())));
                }
                let rows = Rows::filled(like, &span, allocator, |rows| order.read(bytes, call.rows, rows))?;
                Ok(Some(self.fresh.insert(rows)))
            }
        }
    }

    fn input(&mut self, input: usize, descriptor: &Descriptor, _allocator: Allocator<'_>) -> Result<InputValue> {
        let (axis, padding) = (self.call.key.padded_axis(input), self.call.key.rows() - self.call.rows);
        let read;
        let bytes: &[u8] = match self.inputs.get(input) {
            Some(Input::Value(value)) => {
                if let Some(memory) = value.memory().filter(|_| axis.is_none() && value.descriptor == *descriptor) {
                    return Ok(InputValue::Memory(memory.clone()));
                }
                read = value.read()?;
                &read
            }
            Some(Input::Bytes(bytes) | Input::Filled(bytes, _)) => bytes,
            None => return Err(internal("no input")),
        };
        let length = descriptor.byte_length();
        let size = |axis: usize| descriptor.shape[axis] as usize;
        let given = axis.map_or(length, |axis| length / size(axis) * (size(axis) - padding));
        if bytes.len() != given {
            let name = &self.program.loaded.inputs()[input].name;
            return Err(Error::argument("inputs", format!("{} bytes for {name:?}", bytes.len()), given));
        }
        padded(bytes, descriptor, axis, padding).map(InputValue::Bytes)
    }

    fn wants(&self, output: usize) -> bool {
        let output = &self.plan.outputs[output];
        output.alias.is_none() && self.is_wanted(&output.signature.name)
    }
}

impl CallersStep<'_> {
    fn is_wanted(&self, name: &str) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.contains(name))
    }

    /// What a cache is for script after the step.
    fn cache_for_script(&self, cache: usize) -> Result<Descriptor> {
        let outputs = self.plan.plan.outputs.iter().zip(&self.plan.outputs);
        let mut found = outputs.filter(|((output, _), _)| *output == caches::Output::Cache(cache));
        let (_, output) = found.next().ok_or_else(|| internal("no cache"))?;
        Ok(output.for_script(self.call.rows, self.call.size))
    }

    /// The outputs that are wanted, in the order of the model.
    fn results(mut self, values: Vec<Option<OutputValue>>) -> Result<Vec<Output>> {
        let mut results = Vec::new();
        for (number, value) in values.into_iter().enumerate() {
            let signature = &self.plan.outputs[number].signature;
            if !self.is_wanted(&signature.name) {
                continue;
            }
            let descriptor = self.plan.outputs[number].for_script(self.call.rows, self.call.size);
            let signature = Signature { shape: descriptor.shape.to_vec(), ..signature.clone() };
            let content = self.content(number, value, descriptor)?;
            results.push(Output { signature, content });
        }
        with_known(&mut results, self.plan)?;
        results.retain(|output| self.is_wanted(&output.signature.name));
        Ok(results)
    }

    fn content(&mut self, number: usize, value: Option<OutputValue>, descriptor: Descriptor) -> Result<Content> {
        let (output, _) = &self.plan.plan.outputs[number];
        let usage = self.program.weights.usage();
        Ok(match (value, *output) {
            (Some(OutputValue::Rows(rows)), caches::Output::Cache(cache)) => {
                let axis = self.form.caches.rows[cache].axis;
                Content::Value(Value::cache(rows, self.call.rows, descriptor, axis, self.rests[cache].take()))
            }
            (Some(OutputValue::State(memory)), _) => {
                let is_held = can_hold(descriptor.data_type);
                let value = Value::state(memory, descriptor);
                if is_held { Content::Value(value) } else { Content::Bytes(value.read()?) }
            }
            (Some(OutputValue::Bytes(bytes)), _) => Content::Bytes(bytes),
            _ => {
                let input = self.plan.outputs[number].alias.and_then(|input| self.inputs.get(input));
                match input.ok_or_else(|| internal("no input"))? {
                    Input::Value(value) => Content::Value(value.clone()),
                    // It has become one now.
                    Input::Bytes(bytes) | Input::Filled(bytes, _) => Content::Value(Value::state_of(bytes, descriptor, usage)?),
                }
            }
        })
    }
}

/// Puts the outputs that are known where they belong.
pub fn with_known(results: &mut Vec<Output>, plan: &StepPlan) -> Result<()> {
    for (position, signature, bytes) in &plan.known {
        let content = Content::Bytes(Bytes::copy_of(bytes)?);
        results.insert((*position).min(results.len()), Output { signature: signature.clone(), content });
    }
    Ok(())
}

/// What a caller gave, after zeros for the padding.
fn padded(bytes: &[u8], descriptor: &Descriptor, axis: Option<usize>, padding: usize) -> Result<Bytes> {
    let Some(axis) = axis.filter(|_| padding > 0) else { return Bytes::copy_of(bytes) };
    let Order { inner, .. } = Order::of(descriptor, axis);
    let long = descriptor.shape[axis] as usize * inner;
    let front = padding * inner;
    let mut result = Bytes::zeroed(descriptor.byte_length())?;
    for (to, from) in result.chunks_exact_mut(long.max(1)).zip(bytes.chunks_exact((long - front).max(1))) {
        to[front..].copy_from_slice(from);
    }
    Ok(result)
}
