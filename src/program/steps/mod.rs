//! Runs of a model that are steps: what one appends to a cache is what the next one finds there ([`crate::onnx::caches`]).
//!
//! A step is one graph on memory of ours. The rows of a cache lie one after the other, and a run appends to them in place, as for
//! `generate` ([`super::decoder`]); what differs is that a caller gives all inputs, so that nothing is assumed of what they mean. A plan
//! serves all lengths of a *bucket* ([`bucket`]), where that can be shown to give the same results, and else one length. Results of caches
//! stay here until somebody looks at them ([`values`]): passed back they are what they are, without a copy.
//!
//! Models of which a step is not one graph, or does not append in place, run as others do.

mod bucket;
mod plan;
#[cfg(test)]
mod tests;
mod told;
mod values;

pub use values::Value;

use super::Program;
use super::run::spawn;
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use crate::onnx::caches::{self, Caches};
use crate::onnx::{Bounds, ElementType, Loaded, Signature, Size, Tensor};
use crate::timeline::{Compute, Done, Operand, Task, Watch};
use plan::{Feed, Key, Made, Plans};
use std::collections::HashSet;
use std::sync::Arc;
use values::{Claim, Past, can_hold};

/// Rows before a bucket is full that the next one's plan is made.
const AHEAD: usize = 24;

/// What steps of a model are.
#[derive(Debug)]
pub struct Steps {
    caches: Caches,
    /// By cache: the position of its past among the model's inputs.
    pasts: Vec<usize>,
    /// Inputs for whose value ([`Steps::value`]) plans are made.
    known: Vec<usize>,
    /// The one of these that is the mask of several sequences, whose value is whether it shows all.
    mask: Option<usize>,
    /// The input with the tokens, if there is one.
    ids: Option<usize>,
    plans: Plans,
}

/// What somebody gives for an input.
#[derive(Debug)]
pub enum Input {
    Bytes(Bytes),
    Value(Value),
}

/// An output of a model.
#[derive(Debug)]
pub struct Output {
    pub signature: Signature,
    pub content: Content,
}

#[derive(Debug)]
pub enum Content {
    Bytes(Bytes),
    Value(Value),
}

/// A step that somebody wants.
#[derive(Clone, Debug)]
pub struct Call {
    key: Key,
    /// Rows of the caches.
    rows: usize,
}

/// How a step is wanted.
#[derive(Debug, Default)]
pub struct Options {
    /// The names of outputs; nothing for all.
    pub wanted: Option<HashSet<String>>,
    pub label: String,
    pub watch: Watch,
}

/// Whether plans are made for the value of an input: a condition, or a count.
fn is_known(input: &crate::onnx::OpenInput) -> bool {
    let is_one = input.shape.iter().all(|size| matches!(size, Size::Known(1)));
    let is_count = matches!(input.name.as_str(), "num_logits_to_keep" | "logits_to_keep");
    is_one && (is_count || input.element() == ElementType::Bool || input.name == "use_cache_branch")
}

impl Steps {
    /// Those of a model that has caches.
    ///
    /// # Errors
    /// As [`caches::find`].
    pub fn of(loaded: &Loaded, bounds: &Bounds) -> Result<Option<Steps>> {
        if loaded.is_fixed() || !loaded.has_only_tensors()? {
            return Ok(None);
        }
        let caches = caches::find(loaded, bounds)?;
        let inputs = loaded.inputs();
        let position = |name: &str| inputs.iter().position(|input| input.name == name);
        let mut pasts = Vec::new();
        for cache in &caches.rows {
            let Some(at) = position(&cache.past) else { return Ok(None) };
            if !can_hold(inputs[at].data_type) || !matches!(inputs[at].shape.get(cache.axis), Some(Size::Open(_))) {
                return Ok(None);
            }
            pasts.push(at);
        }
        // One concatenation with an input may be anything.
        let is_named = caches.rows.iter().any(|cache| ["past", "cache", "state"].iter().any(|word| cache.past.contains(word)));
        let is_decoder = pasts.len() > 1 || is_named;
        if pasts.is_empty() || !is_decoder || inputs.iter().any(|input| input.default.is_some()) {
            return Ok(None);
        }
        // Where attention appends to each sequence at its end, sequences that are all full make one append.
        let is_mask = |input: &crate::onnx::OpenInput| {
            input.name == "attention_mask" && input.shape.len() == 2 && !matches!(input.shape[0], Size::Known(1))
        };
        let mask = if caches::ends_by_sequence(loaded)? { inputs.iter().position(is_mask) } else { None };
        let known = (0..inputs.len()).filter(|&at| is_known(&inputs[at]) || mask == Some(at)).collect();
        let ids = ["input_ids", "decoder_input_ids", "inputs_embeds"].into_iter().find_map(position);
        Ok(Some(Steps { caches, pasts, known, mask, ids, plans: Plans::default() }))
    }

    /// The positions of inputs whose values [`Steps::call`] wants.
    pub fn known(&self) -> &[usize] {
        &self.known
    }

    /// The number of an input that [`Steps::known`] names: its element, or whether all of the mask are 1.
    ///
    /// # Errors
    /// `NotSupportedError` for an element type without whole numbers.
    pub fn value(&self, loaded: &Loaded, at: usize, bytes: &[u8]) -> Result<i64> {
        let element = loaded.inputs()[at].element();
        let data_type = loaded.inputs()[at].data_type;
        let count = bytes.len() * 8 / data_type.bits().max(1);
        let tensor = Tensor { element: data_type.into(), shape: vec![count], bytes: bytes.to_vec().into() };
        let numbers = tensor.integers();
        match self.mask == Some(at) {
            true => Ok(numbers.iter().all(|&number| number == 1).into()),
            false => numbers.first().copied().ok_or_else(|| Error::new(Kind::NotSupported, format!("a value of {element}"))),
        }
    }

    /// The step for inputs of these shapes, with the values of those that [`Steps::known`] names; nothing where it cannot be one.
    pub fn call(&self, loaded: &Loaded, shapes: &[Vec<u32>], known: &[i64]) -> Option<Call> {
        let inputs = loaded.inputs();
        if shapes.len() != inputs.len() || known.len() != self.known.len() {
            return None;
        }
        let mut rows = None;
        for (cache, &at) in self.caches.rows.iter().zip(&self.pasts) {
            let size = *shapes[at].get(cache.axis)? as usize;
            if *rows.get_or_insert(size) != size {
                return None;
            }
        }
        let rows = rows?;
        let mut grown: Vec<(usize, usize)> = Vec::new();
        if rows > 0 {
            let past_names: HashSet<&str> = self
                .caches
                .rows
                .iter()
                .zip(&self.pasts)
                .filter_map(
                    |(cache, &at)| if let Size::Open(name) = &inputs[at].shape[cache.axis] { Some(name.as_str()) } else { None },
                )
                .collect();
            // With the new tokens, as masks are.
            let total = self.ids.and_then(|at| shapes[at].get(1)).map(|&tokens| tokens as usize + rows);
            for (at, (input, shape)) in inputs.iter().zip(shapes).enumerate() {
                for (axis, (size, &found)) in input.shape.iter().zip(shape).enumerate() {
                    let Size::Open(name) = size else { continue };
                    let is_past = self.pasts.iter().zip(&self.caches.rows).any(|(&past, cache)| past == at && cache.axis == axis);
                    let has_name = past_names.contains(name.as_str()) && found as usize == rows;
                    // A size that others have too is not of the caches, though it may be the same by chance.
                    let is_own = inputs
                        .iter()
                        .filter(|other| other.shape.iter().any(|size| matches!(size, Size::Open(other) if other == name)))
                        .count()
                        == 1;
                    let is_total = axis > 0 && is_own && Some(found as usize) == total && input.data_type.bits() >= 8;
                    if is_past || has_name || is_total {
                        grown.push((at, axis));
                    }
                }
            }
        }
        // One sequence is as long as its cache, and behind none all begin at 0.
        let mut known = known.to_vec();
        let is_one = |at: usize| shapes[at].first() == Some(&1);
        for (at, number) in self.known.iter().zip(&mut known) {
            if self.mask == Some(*at) && (rows == 0 || is_one(*at)) {
                *number = 0;
            }
        }
        let key = Key::new(shapes.to_vec(), grown, known, rows);
        Some(Call { key: self.plans.roomy(key, rows), rows })
    }
}

impl Program {
    /// Whether a step is one that can be run so; nothing where nobody has found out.
    pub fn fits(&self, call: &Call) -> Option<bool> {
        self.steps.as_ref()?.plans.fits(&call.key)
    }

    /// Makes the plan of a step; whether there is one.
    pub fn prepare(&self, call: &mut Call) -> bool {
        let Some(steps) = &self.steps else { return false };
        // Perhaps not for all lengths of a bucket, but for those of a smaller one, or for this one.
        loop {
            if steps.plan(self, &call.key).is_some() {
                return true;
            }
            let other = steps.plans.roomy(call.key.at(call.rows), call.rows);
            if other == call.key {
                return false;
            }
            call.key = other;
        }
    }
}

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

impl Program {
    /// Has the plan made that is needed soon.
    fn look_ahead(self: &Arc<Self>, call: &Call) {
        let Some(steps) = &self.steps else { return };
        if call.rows == 0 || !call.key.is_roomy() {
            return;
        }
        let key = call.key.at(plan::rounded(call.rows + AHEAD));
        if steps.plans.begins(&key) {
            let program = self.clone();
            let work = move |()| {
                if let Some(steps) = &program.steps {
                    drop(steps.plan(&program, &key));
                }
            };
            // If there is no thread for it, it is made when it is needed.
            let _ = spawn((), work);
        }
    }
}

fn internal(text: impl Into<String>) -> Error {
    Error::new(Kind::Operation, format!("{} (internal error)", text.into()))
}

/// A run, and what it works on for as long as it lasts.
fn run(program: &Program, call: &Call, inputs: Vec<Input>, options: Options) -> Result<Vec<Output>> {
    let steps = program.steps.as_ref().ok_or_else(|| internal("a step of a model without caches"))?;
    let plan = steps.plan(program, &call.key).ok_or_else(|| internal("a step without a plan"))?;
    let usage = program.weights.usage();
    let hidden = call.key.rows() - call.rows;
    let is_wanted = |name: &str| options.wanted.as_ref().is_none_or(|wanted| wanted.contains(name));

    let mut claims: Vec<Option<Claim>> = Vec::new();
    let mut states: Vec<Option<Value>> = Vec::new();
    let mut made: Vec<Option<Bytes>> = Vec::new();
    let mut outputs: Vec<Option<HostBuffer>> = Vec::new();
    for output in &plan.outputs {
        let (mut claim, mut state, mut bytes, mut buffer) = (None, None, None, None);
        match output.made {
            Made::Rows(number) => {
                let axis = steps.caches.rows[number].axis;
                let descriptor = output.user(call.rows);
                let copied;
                let past = match inputs.get(steps.pasts[number]) {
                    _ if call.rows == 0 => Past::Nothing,
                    Some(Input::Value(value)) if value.precedes(&descriptor, axis) && value.rows() == call.rows => {
                        Past::Value(value)
                    }
                    Some(Input::Value(value)) => {
                        copied = value.read()?;
                        Past::Bytes(&copied, call.rows)
                    }
                    Some(Input::Bytes(bytes)) => Past::Bytes(bytes, call.rows),
                    None => return Err(internal("no past")),
                };
                let new = plan.new_rows;
                let claimed = Claim::new(&past, &descriptor, axis, hidden, new, usage)?;
                let window = claimed.buffer(hidden);
                if window.len() != output.descriptor.byte_length() {
                    return Err(internal(format!("rows of {} bytes for {}", window.len(), output.descriptor)));
                }
                buffer = Some(window);
                claim = Some(claimed);
            }
            Made::State if is_wanted(&output.signature.name) => {
                let (value, memory) = Value::state(output.descriptor.clone(), usage)?;
                (state, buffer) = (Some(value), Some(memory));
            }
            Made::Other if is_wanted(&output.signature.name) => {
                let mut memory = Bytes::zeroed(output.descriptor.byte_length())?;
                buffer = Some(host(&mut memory));
                bytes = Some(memory);
            }
            Made::Alias(_) | Made::State | Made::Other => {}
        }
        claims.push(claim);
        states.push(state);
        made.push(bytes);
        outputs.push(buffer);
    }

    let mut given: Vec<Bytes> = Vec::new();
    let mut buffers = Vec::new();
    for (position, (feed, descriptor)) in plan.inputs.iter().enumerate() {
        let length = descriptor.byte_length();
        let mut bytes = match feed {
            Feed::Rows(output) => {
                let place = plan.placements.get(position).copied().flatten();
                let memory = outputs.get(*output).and_then(Option::as_ref);
                let (Some(placement), Some(memory)) = (place, memory) else { return Err(internal("a cache elsewhere")) };
                buffers.push(HostBuffer::in_output(memory, placement, length));
                continue;
            }
            Feed::Told(told) => {
                let mut bytes = Bytes::zeroed(length)?;
                told.write(hidden, &mut bytes);
                bytes
            }
            Feed::Given { input, axis } => {
                let read;
                let bytes: &[u8] = match inputs.get(*input) {
                    Some(Input::Value(value)) => {
                        if axis.is_none()
                            && value.descriptor == *descriptor
                            && let Some(buffer) = value.bytes()
                        {
                            buffers.push(buffer);
                            continue;
                        }
                        read = value.read()?;
                        &read
                    }
                    Some(Input::Bytes(bytes)) => bytes,
                    None => return Err(internal("no input")),
                };
                let shorter = axis
                    .map_or(length, |axis| length / descriptor.shape[axis] as usize * (descriptor.shape[axis] as usize - hidden));
                if bytes.len() != shorter {
                    let name = &program.loaded.inputs()[*input].name;
                    return Err(Error::argument("inputs", format!("{} bytes for {name:?}", bytes.len()), shorter));
                }
                padded(bytes, descriptor, *axis, hidden)?
            }
        };
        buffers.push(host(&mut bytes));
        given.push(bytes);
    }
    let Options { label, watch, .. } = &options;
    program.device.wait_for(|done| {
        let (label, watch) = (label.clone(), watch.clone());
        let (inputs, outputs) = Operand::on_host(buffers, outputs);
        Task::Compute(Compute { graph: plan.graph, inputs, outputs, method: "run", label, watch, done })
    })?;
    drop(given);

    let mut results = Vec::new();
    let parts = claims.into_iter().zip(states).zip(made);
    for (output, ((claim, state), bytes)) in plan.outputs.iter().zip(parts) {
        let name = &output.signature.name;
        if !is_wanted(name) {
            continue;
        }
        let descriptor = output.user(call.rows);
        let signature = Signature { shape: descriptor.shape.to_vec(), ..output.signature.clone() };
        let content = match (output.made, claim, state, bytes) {
            (Made::Rows(number), Some(claim), ..) => Content::Value(claim.value(descriptor, steps.caches.rows[number].axis)),
            (Made::State, _, Some(value), _) => Content::Value(value),
            (Made::Other, .., Some(bytes)) => Content::Bytes(bytes),
            (Made::Alias(input), ..) => match inputs.get(input) {
                Some(Input::Value(value)) => Content::Value(value.clone()),
                // It has become one now.
                Some(Input::Bytes(bytes)) => {
                    let (value, mut memory) = Value::state(descriptor, usage)?;
                    memory.as_mut_slice().copy_from_slice(bytes);
                    Content::Value(value)
                }
                None => return Err(internal("no input")),
            },
            _ => return Err(internal(format!("no output {name:?}"))),
        };
        results.push((name.clone(), Output { signature, content }));
    }
    // In the order of the model.
    for (position, signature, bytes) in &plan.known {
        results.insert(
            (*position).min(results.len()),
            (signature.name.clone(), Output { signature: signature.clone(), content: Content::Bytes(Bytes::copy_of(bytes)?) }),
        );
    }
    Ok(results.into_iter().filter(|(name, _)| is_wanted(name)).map(|(_, output)| output).collect())
}

/// Memory of ours for a run.
#[allow(unsafe_code)]
fn host(bytes: &mut Bytes) -> HostBuffer {
    let length = bytes.len();
    // SAFETY: the bytes stay where they are, wherever their owner goes, and `run` keeps them, untouched, until the run has ended and
    // dropped the buffer.
    unsafe { HostBuffer::new(bytes.as_mut_ptr(), length) }
}

/// What somebody gave, behind zeros for rows that do not count.
fn padded(bytes: &[u8], descriptor: &Descriptor, axis: Option<usize>, hidden: usize) -> Result<Bytes> {
    let Some(axis) = axis.filter(|_| hidden > 0) else { return Bytes::copy_of(bytes) };
    let inner: usize = descriptor.shape[axis + 1..].iter().map(|&size| size as usize).product::<usize>()
        * descriptor.data_type.byte_length(1).unwrap_or(0);
    let long = descriptor.shape[axis] as usize * inner;
    let front = hidden * inner;
    let mut result = Bytes::zeroed(descriptor.byte_length())?;
    for (to, from) in result.chunks_exact_mut(long.max(1)).zip(bytes.chunks_exact((long - front).max(1))) {
        to[front..].copy_from_slice(from);
    }
    Ok(result)
}
