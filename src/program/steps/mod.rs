//! Runs of a model that are steps: what one appends to a cache is what the next one finds there ([`crate::onnx::caches`]).
//!
//! A step is one graph on memory of ours. The rows of a cache lie one after the other, and a run appends to them in place, as for
//! `generate` ([`super::decoder`]); what differs is that a caller gives all inputs, so that nothing is assumed of what they mean. A plan
//! serves all lengths of a *bucket* ([`super::caches`]), where that can be shown to give the same results, and else one length. Results of caches
//! stay here until somebody looks at them ([`values`]): passed back they are what they are, without a copy.
//!
//! Caches of a fixed size that are filled alike are such caches too: of their filled rows ([`crate::onnx::fixed_caches`]). Their other rows
//! are zeros for whoever looks at them, or what they were when somebody gave them.
//!
//! Models of which a step is not one graph, or does not append in place, run as others do.

mod plan;
mod values;

pub use values::Value;

use super::Program;
use super::run::spawn;
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use crate::onnx::caches::{self, Cache};
use crate::onnx::fixed_caches::{self, Filled, FixedCaches};
use crate::onnx::{Bounds, ElementType, Loaded, Signature, Size, Tensor};
use crate::program::caches::rounded;
use crate::timeline::{Compute, Done, Operand, Task, Watch};
use plan::{Feed, Key, Made, Plans};
use std::collections::HashSet;
use std::sync::Arc;
use values::{Claim, Past, Rest, can_hold, strides};

/// Rows before a bucket is full that the next one's plan is made.
const AHEAD: usize = 24;

/// What steps of a model are.
#[derive(Debug)]
pub struct Steps {
    /// Caches that grow with each step; none where the model has no such caches.
    growing: Form,
    /// The same model where its caches have a fixed size, if they may.
    fixed: Option<(Form, FixedCaches)>,
    /// See [`caches::Caches::states`].
    states: Vec<(String, String)>,
    /// Inputs for whose value ([`Steps::value`]) plans are made.
    known: Vec<Known>,
    /// The input with the tokens, if there is one.
    ids: Option<usize>,
    plans: Plans,
}

/// The caches of a model.
#[derive(Debug, Default)]
struct Form {
    caches: Vec<Cache>,
    /// By cache: the position of its past among the model's inputs.
    pasts: Vec<usize>,
}

/// An input for whose value plans are made, by its position.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: usize,
    kind: KnownKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownKind {
    /// A condition, or a count: its only element.
    Number,
    /// The mask of all sequences: 1 where it shows all, else 0.
    Mask,
    /// How much of caches of a fixed size is filled, of all sequences alike.
    Filled(Filled),
}

/// What somebody gives for an input.
#[derive(Debug)]
pub enum Input {
    Bytes(Bytes),
    /// The filled rows of a cache of a fixed size, and the others, if they count and are not zeros.
    Filled(Bytes, Option<Arc<Rest>>),
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
    /// Rows of the caches that are filled.
    rows: usize,
    /// Rows that caches of a fixed size have.
    size: Option<u32>,
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
    let is_whole = !input.element().is_float();
    is_one && is_whole && (is_count || input.element() == ElementType::Bool || input.name == "use_cache_branch")
}

impl Steps {
    /// Those of a model that has caches.
    ///
    /// # Errors
    /// As [`caches::find`].
    pub fn of(loaded: &Loaded, bounds: &Bounds) -> Result<Option<Steps>> {
        let inputs = loaded.inputs();
        if !loaded.has_only_tensors()? || inputs.iter().any(|input| input.default.is_some()) {
            return Ok(None);
        }
        let found = caches::find(loaded, bounds)?;
        let growing = Form::of(loaded, found.rows, |size| matches!(size, Size::Open(_))).unwrap_or_default();
        // One concatenation with an input may be anything.
        let is_named = growing.caches.iter().any(|cache| ["past", "cache", "state"].iter().any(|word| cache.past.contains(word)));
        let growing = if growing.pasts.len() > 1 || is_named { growing } else { Form::default() };
        let fixed = fixed_caches::find(loaded)?;
        let fixed = fixed.and_then(|fixed| Some((Form::of(loaded, fixed.caches.clone(), |_| true)?, fixed)));
        if growing.pasts.is_empty() && fixed.is_none() {
            return Ok(None);
        }
        // Where attention appends to each sequence at its end, sequences that are all full make one append. One sequence is full.
        let ends_by_sequence = caches::ends_by_sequence(loaded)?;
        let is_mask = |input: &crate::onnx::OpenInput| {
            // The rank first: any input may have any.
            matches!(&input.shape[..], [batch, _] if fixed.is_some() || ends_by_sequence && !matches!(batch, Size::Known(1)))
                && input.name == "attention_mask"
        };
        let kind = |at: usize| {
            let filled = fixed.iter().flat_map(|(_, fixed)| &fixed.counts).find(|(count, _)| *count == at);
            match filled {
                Some(&(_, filled)) => Some(KnownKind::Filled(filled)),
                None if is_known(&inputs[at]) => Some(KnownKind::Number),
                None if is_mask(&inputs[at]) => Some(KnownKind::Mask),
                None => None,
            }
        };
        let known = (0..inputs.len()).filter_map(|at| Some(Known { at, kind: kind(at)? })).collect();
        let position = |name: &str| inputs.iter().position(|input| input.name == name);
        let ids = ["input_ids", "decoder_input_ids", "inputs_embeds"].into_iter().find_map(position);
        Ok(Some(Steps { growing, fixed, states: found.states, known, ids, plans: Plans::default() }))
    }

    /// The positions of inputs whose values [`Steps::call`] wants.
    pub fn known(&self) -> impl Iterator<Item = usize> {
        self.known.iter().map(|known| known.at)
    }

    /// The number of an input that [`Steps::known`] names: its element, whether all of the mask are 1, or how much of the caches is filled.
    pub fn value(&self, loaded: &Loaded, at: usize, bytes: &[u8]) -> i64 {
        let data_type = loaded.inputs()[at].data_type;
        let count = bytes.len() * 8 / data_type.bits().max(1);
        let tensor = Tensor { element: data_type.into(), shape: vec![count], bytes: bytes.to_vec().into() };
        let numbers = tensor.integers();
        let kind = self.known.iter().find(|known| known.at == at).map(|known| known.kind);
        let are_alike = || numbers.windows(2).all(|pair| pair[0] == pair[1]);
        match kind {
            // In floats a number between two whole ones is no 1.
            Some(KnownKind::Mask) if data_type.is_float() => tensor.floats().iter().all(|&number| number == 1.0).into(),
            Some(KnownKind::Mask) => numbers.iter().all(|&number| number == 1).into(),
            Some(KnownKind::Filled(_)) if !are_alike() => NOT_ALIKE,
            // Of nothing, or of several, it is no step.
            _ => numbers.first().copied().unwrap_or(NOT_ALIKE),
        }
    }

    /// The names of the outputs that a model writes into caches of a fixed size, and of the inputs that these are.
    pub fn fixed_caches(&self) -> impl Iterator<Item = (&str, &str)> {
        let caches = self.fixed.iter().flat_map(|(form, _)| &form.caches);
        caches.map(|cache| (cache.present.as_str(), cache.past.as_str()))
    }

    /// The caches of a step.
    fn form(&self, key: &Key) -> &Form {
        match &self.fixed {
            Some((form, _)) if key.is_fixed() => form,
            _ => &self.growing,
        }
    }

    /// How many rows of caches of a fixed size are filled, if these values say so of all sequences alike.
    fn filled(&self, fixed: &FixedCaches, shapes: &[Vec<u32>], known: &[i64]) -> Option<usize> {
        let new = *shapes.get(fixed.tokens)?.get(1)? as usize;
        let mut rows = None;
        for (Known { at, kind }, &number) in self.known.iter().zip(known) {
            let found = match kind {
                KnownKind::Number => continue,
                KnownKind::Filled(filled) => filled.rows(number, new)?,
                KnownKind::Mask if number == 1 => (*shapes[*at].get(1)? as usize).checked_sub(new)?,
                KnownKind::Mask => return None,
            };
            if *rows.get_or_insert(found) != found {
                return None;
            }
        }
        rows
    }

    /// The step for inputs of these shapes, with the values of those that [`Steps::known`] names; nothing where it cannot be one.
    pub fn call(&self, loaded: &Loaded, shapes: &[Vec<u32>], known: &[i64]) -> Option<Call> {
        if shapes.len() != loaded.inputs().len() || known.len() != self.known.len() {
            return None;
        }
        // What is declared as a scalar may have been given any shape.
        let is_one = |known: &Known| known.kind != KnownKind::Number || shapes[known.at].iter().all(|&size| size == 1);
        if !self.known.iter().all(is_one) {
            return None;
        }
        let fixed = self.fixed.as_ref().and_then(|(form, fixed)| {
            let size = form.rows(shapes)?;
            let rows = self.filled(fixed, shapes, known)?;
            let new = shapes[fixed.tokens][1] as usize;
            (rows < size && rows + new <= size).then_some((form, size, rows))
        });
        let Some((form, size, rows)) = fixed else { return self.call_of(loaded, &self.growing, shapes.to_vec(), known, None) };
        let mut shapes = shapes.to_vec();
        for (cache, &at) in form.caches.iter().zip(&form.pasts) {
            shapes[at][cache.axis] = rows as u32;
        }
        self.call_of(loaded, form, shapes, known, Some(size as u32))
    }

    /// The same for caches that have their filled rows only.
    fn call_of(&self, loaded: &Loaded, form: &Form, shapes: Vec<Vec<u32>>, known: &[i64], size: Option<u32>) -> Option<Call> {
        let inputs = loaded.inputs();
        let rows = form.rows(&shapes)?;
        let mut grown: Vec<(usize, usize)> = Vec::new();
        if rows > 0 {
            let past_names: HashSet<&str> = form
                .caches
                .iter()
                .zip(&form.pasts)
                .filter_map(
                    |(cache, &at)| if let Size::Open(name) = &inputs[at].shape[cache.axis] { Some(name.as_str()) } else { None },
                )
                .collect();
            // With the new tokens, as masks are.
            let total = self.ids.and_then(|at| shapes[at].get(1)).map(|&tokens| tokens as usize + rows);
            for (at, (input, shape)) in inputs.iter().zip(&shapes).enumerate() {
                for (axis, (size, &found)) in input.shape.iter().zip(shape).enumerate() {
                    let is_past = form.pasts.iter().zip(&form.caches).any(|(&past, cache)| past == at && cache.axis == axis);
                    let Size::Open(name) = size else {
                        grown.extend(is_past.then_some((at, axis)));
                        continue;
                    };
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
        let mut numbers = known.to_vec();
        for (Known { at, kind }, number) in self.known.iter().zip(&mut numbers) {
            match kind {
                KnownKind::Number => {}
                // One sequence is as long as its cache, and behind none all begin at 0.
                KnownKind::Mask if size.is_none() && (rows == 0 || shapes[*at].first() == Some(&1)) => *number = 0,
                KnownKind::Mask => {}
                // All lengths have this in common.
                KnownKind::Filled(_) if size.is_some() => *number -= rows as i64,
                KnownKind::Filled(_) => *number = 0,
            }
        }
        let key = Key::new(shapes, grown, numbers, rows, size.is_some());
        Some(Call { key: self.plans.roomy(key, rows), rows, size })
    }
}

/// What stands for numbers that are not the same.
const NOT_ALIKE: i64 = i64::MIN;

impl Form {
    /// Caches that are inputs, whose sizes along the axis suit; nothing if one does not.
    fn of(loaded: &Loaded, caches: Vec<Cache>, suits: impl Fn(&Size) -> bool) -> Option<Form> {
        let inputs = loaded.inputs();
        let past = |cache: &Cache| {
            let at = inputs.iter().position(|input| input.name == cache.past)?;
            let is_suited = can_hold(inputs[at].data_type) && inputs[at].shape.get(cache.axis).is_some_and(&suits);
            is_suited.then_some(at)
        };
        let pasts = caches.iter().map(past).collect::<Option<Vec<_>>>()?;
        Some(Form { caches, pasts })
    }

    /// The rows that all caches have; nothing where they differ, or there are no caches.
    fn rows(&self, shapes: &[Vec<u32>]) -> Option<usize> {
        let mut all = self.caches.iter().zip(&self.pasts).map(|(cache, &at)| shapes[at].get(cache.axis));
        let first = *all.next()??;
        all.all(|size| size == Some(&first)).then_some(first as usize)
    }
}

impl Call {
    /// What a run needs of an input's bytes: all, or of a cache of a fixed size the filled rows.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it, `TypeError` for another number of bytes than the shape has.
    pub fn input(&self, program: &Program, at: usize, bytes: &[u8]) -> Result<Input> {
        let steps = program.steps.as_ref().ok_or_else(|| internal("a step of a model without caches"))?;
        let (Some(size), Some((form, fixed))) = (self.size, &steps.fixed) else { return Bytes::copy_of(bytes).map(Input::Bytes) };
        let Some(number) = form.pasts.iter().position(|&past| past == at) else {
            return Bytes::copy_of(bytes).map(Input::Bytes);
        };
        let input = &program.loaded.inputs()[at];
        let shape = self.key.shapes()[at].iter().copied();
        let (outer, inner) = strides(&Descriptor::new(input.data_type, shape), form.caches[number].axis);
        let (whole, needed) = (size as usize * inner, self.rows * inner);
        if bytes.len() != outer * whole {
            return Err(Error::argument("inputs", format!("{} bytes for {:?}", bytes.len(), input.name), outer * whole));
        }
        let mut rows = Bytes::zeroed(outer * needed)?;
        for (to, from) in rows.chunks_exact_mut(needed.max(1)).zip(bytes.chunks_exact(whole.max(1))) {
            to.copy_from_slice(&from[..needed]);
        }
        let is_zeros = || bytes.chunks_exact(whole.max(1)).all(|part| part[needed..].iter().all(|&byte| byte == 0));
        let rest = match fixed.keeps_rest[number] && !is_zeros() {
            true => Some(Rest::new(Bytes::copy_of(bytes)?, program.weights.usage())),
            false => None,
        };
        Ok(Input::Filled(rows, rest))
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
        let key = call.key.at(rounded(call.rows + AHEAD));
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
    let form = steps.form(&call.key);
    let hidden = call.key.rows() - call.rows;
    let is_wanted = |name: &str| options.wanted.as_ref().is_none_or(|wanted| wanted.contains(name));

    let mut claims: Vec<Option<(Claim, Option<Arc<Rest>>)>> = Vec::new();
    let mut states: Vec<Option<Value>> = Vec::new();
    let mut made: Vec<Option<Bytes>> = Vec::new();
    let mut outputs: Vec<Option<HostBuffer>> = Vec::new();
    for output in &plan.outputs {
        let (mut claim, mut rest, mut state, mut bytes, mut buffer) = (None, None, None, None, None);
        match output.made {
            Made::Rows(number) => {
                let axis = form.caches[number].axis;
                let descriptor = output.user(call.rows, call.size);
                let read;
                let mut input = inputs.get(form.pasts[number]);
                if let Some(Input::Value(value)) = input
                    && !(value.precedes(&descriptor, axis) && value.rows() >= call.rows)
                {
                    read = call.input(program, form.pasts[number], &value.read()?)?;
                    input = Some(&read);
                }
                let keeps_rest = call.size.is_some() && steps.fixed.as_ref().is_some_and(|(_, fixed)| fixed.keeps_rest[number]);
                rest = match input {
                    Some(Input::Value(value)) if keeps_rest => value.rest(call.rows)?,
                    Some(Input::Filled(_, rest)) => rest.clone(),
                    _ => None,
                };
                let past = match input {
                    _ if call.rows == 0 => Past::Nothing,
                    Some(Input::Value(value)) => Past::Value(value),
                    Some(Input::Bytes(bytes) | Input::Filled(bytes, _)) => Past::Bytes(bytes),
                    None => return Err(internal("no past")),
                };
                let new = plan.new_rows;
                let claimed = Claim::new(&past, &descriptor, axis, hidden, call.rows, new, usage)?;
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
        claims.push(claim.map(|claim| (claim, rest)));
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
                    Some(Input::Bytes(bytes) | Input::Filled(bytes, _)) => bytes,
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
        let descriptor = output.user(call.rows, call.size);
        let signature = Signature { shape: descriptor.shape.to_vec(), ..output.signature.clone() };
        let content = match (output.made, claim, state, bytes) {
            (Made::Rows(number), Some((claim, rest)), ..) => {
                Content::Value(claim.value(descriptor, form.caches[number].axis, rest))
            }
            (Made::State, _, Some(value), _) => Content::Value(value),
            (Made::Other, .., Some(bytes)) => Content::Bytes(bytes),
            (Made::Alias(input), ..) => match inputs.get(input) {
                Some(Input::Value(value)) => Content::Value(value.clone()),
                // It has become one now.
                Some(Input::Bytes(bytes) | Input::Filled(bytes, _)) => {
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
