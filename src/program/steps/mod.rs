//! Runs of a model that are steps: what one appends to a cache is what the next one finds there ([`crate::onnx::caches`]).
//!
//! The engine is that of `generate` ([`super::caches`]). What differs is that the caller gives all inputs, so nothing is assumed of what they
//! mean: [`Steps::call`] finds out from shapes and values which sizes may share a plan. Caches stay here until somebody looks at their elements
//! ([`values`]): passed back as a past they are not copied.
//!
//! Caches of a fixed size that are filled alike are such caches too: of their filled rows ([`crate::onnx::fixed_caches`]). Their other rows
//! are zeros for whoever looks at them, or what they were when somebody gave them.
//!
//! Where sequences of a batch have different lengths, each has caches of its own ([`sequences`]).
//!
//! Models of which a step is not one graph, or does not append in place, run as others do.

mod plan;
mod run;
mod sequences;
mod values;

pub use run::start;
pub use values::Value;

use super::Program;
use super::caches::{AHEAD, Table};
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::memory::{Bytes, Usage};
use crate::onnx::caches::{self, KvCaches};
use crate::onnx::fixed_caches::{self, Filled, FixedCaches};
use crate::onnx::sequence_lengths::{self, Lengths};
use crate::onnx::{Bounds, ElementType, Loaded, Signature, Size, Tensor};
use crate::timeline::Watch;
use plan::{Batch, Key, StepPlan};
use sequences::Sequences;
use std::collections::HashSet;
use std::sync::Arc;
use values::{Order, Rest, can_hold};

/// What steps of a model are.
#[derive(Debug)]
pub struct Steps {
    /// Caches that grow with each step; none where the model has no such caches.
    growing: Form,
    /// The same model where its caches have a fixed size, if they may.
    fixed: Option<(Form, FixedCaches)>,
    /// Whether attention writes to each sequence of a batch where that one ends.
    ends_by_sequence: bool,
    /// What says how long each sequence of a batch is, if the caches of sequences may be apart.
    lengths: Option<Lengths>,
    /// Inputs for whose value ([`Steps::value`]) plans are made.
    known: Vec<Known>,
    /// The input with the tokens, if there is one.
    ids: Option<usize>,
    plans: Table<Key, StepPlan>,
}

/// The caches of a model.
#[derive(Debug, Default)]
struct Form {
    caches: KvCaches,
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

/// What the value of an input says that [`Steps::known`] names.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its element, whether all of the mask are 1, or how much of the caches is filled.
    number: i64,
    /// All its elements, where they say how long each sequence is.
    numbers: Vec<i64>,
}

/// A step that somebody wants.
#[derive(Clone, Debug)]
pub struct Call {
    key: Key,
    /// Rows of the caches that are filled; of several sequences those of the longest.
    rows: usize,
    /// Rows that caches of a fixed size have.
    size: Option<u32>,
    /// Those of each sequence, if each has caches of its own.
    sequences: Option<Sequences>,
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
    /// Those of a model that has caches. Plans that nobody uses stay for as long as the context has it.
    ///
    /// # Errors
    /// As [`caches::find`].
    pub fn of(loaded: &Loaded, bounds: &Bounds, usage: &Arc<Usage>) -> Result<Option<Steps>> {
        let inputs = loaded.inputs();
        if !loaded.has_only_tensors()? || inputs.iter().any(|input| input.default.is_some()) {
            return Ok(None);
        }
        let found = caches::find(loaded, bounds)?;
        let states = found.states.clone();
        let growing = Form::of(loaded, found, |size| matches!(size, Size::Open(_))).unwrap_or_default();
        // One concatenation with an input may be anything.
        let is_named =
            growing.caches.rows.iter().any(|cache| ["past", "cache", "state"].iter().any(|word| cache.past.contains(word)));
        let growing = if growing.pasts.len() > 1 || is_named { growing } else { Form::default() };
        let fixed = fixed_caches::find(loaded)?;
        let fixed = fixed.and_then(|fixed| {
            let caches = KvCaches { rows: fixed.caches.clone(), states };
            Some((Form::of(loaded, caches, |_| true)?, fixed))
        });
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
        let lengths = fixed.as_ref().map(|(_, fixed)| sequence_lengths::find(loaded, fixed)).transpose()?.flatten();
        let position = |name: &str| inputs.iter().position(|input| input.name == name);
        let ids = ["input_ids", "decoder_input_ids", "inputs_embeds"].into_iter().find_map(position);
        Ok(Some(Steps { growing, fixed, ends_by_sequence, lengths, known, ids, plans: Table::new(false).idle_as(usage) }))
    }

    /// The positions of inputs whose values [`Steps::call`] wants.
    pub fn known(&self) -> impl Iterator<Item = usize> {
        self.known.iter().map(|known| known.at)
    }

    /// What the value of an input says that [`Steps::known`] names.
    pub fn value(&self, loaded: &Loaded, at: usize, bytes: &[u8]) -> Told {
        let data_type = loaded.inputs()[at].data_type;
        let count = bytes.len() * 8 / data_type.bits().max(1);
        let tensor = Tensor { element: data_type.into(), shape: vec![count], bytes: bytes.to_vec().into() };
        let numbers = tensor.integers();
        let kind = self.known.iter().find(|known| known.at == at).map(|known| known.kind);
        let are_alike = || numbers.windows(2).all(|pair| pair[0] == pair[1]);
        let number = match kind {
            // In floats a number between two whole ones is no 1.
            Some(KnownKind::Mask) if data_type.is_float() => tensor.floats().iter().all(|&number| number == 1.0).into(),
            Some(KnownKind::Mask) => numbers.iter().all(|&number| number == 1).into(),
            Some(KnownKind::Filled(_)) if !are_alike() => NOT_ALIKE,
            // Of nothing, or of several, it is no step.
            _ => numbers.first().copied().unwrap_or(NOT_ALIKE),
        };
        let is_of_each =
            matches!(self.lengths, Some(Lengths::Mask(own) | Lengths::Last(own)) if own == at) && !data_type.is_float();
        Told { number, numbers: if is_of_each { numbers } else { Vec::new() } }
    }

    /// The names of the outputs that a model writes into caches of a fixed size, and of the inputs that these are.
    pub fn fixed_caches(&self) -> impl Iterator<Item = (&str, &str)> {
        let caches = self.fixed.iter().flat_map(|(form, _)| &form.caches.rows);
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
    pub fn call(&self, loaded: &Loaded, shapes: &[Vec<u32>], told: &[Told]) -> Option<Call> {
        if shapes.len() != loaded.inputs().len() || told.len() != self.known.len() {
            return None;
        }
        let known = &told.iter().map(|told| told.number).collect::<Vec<i64>>()[..];
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
        let Some((form, size, rows)) = fixed else {
            let apart = self.call_by_sequence(loaded, shapes, told);
            return apart.or_else(|| self.call_of(loaded, &self.growing, shapes.to_vec(), known, None, None));
        };
        let mut shapes = shapes.to_vec();
        for (cache, &at) in form.caches.rows.iter().zip(&form.pasts) {
            shapes[at][cache.axis] = rows as u32;
        }
        self.call_of(loaded, form, shapes, known, Some(size as u32), None)
    }

    /// The same for caches that have their filled rows only; of one sequence of a batch, if that is given.
    fn call_of(
        &self,
        loaded: &Loaded,
        form: &Form,
        shapes: Vec<Vec<u32>>,
        known: &[i64],
        size: Option<u32>,
        batch: Option<Batch>,
    ) -> Option<Call> {
        let inputs = loaded.inputs();
        let rows = form.rows(&shapes)?;
        let mut grown: Vec<(usize, usize)> = Vec::new();
        if rows > 0 {
            let past_names: HashSet<&str> = form
                .caches
                .rows
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
                    let is_past = form.pasts.iter().zip(&form.caches.rows).any(|(&past, cache)| past == at && cache.axis == axis);
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
                // One sequence is as long as its cache, and after none all begin at 0.
                KnownKind::Mask if size.is_none() && (rows == 0 || shapes[*at].first() == Some(&1)) => *number = 0,
                KnownKind::Mask => {}
                // All lengths have this in common.
                KnownKind::Filled(_) if size.is_some() => *number -= rows as i64,
                KnownKind::Filled(_) => *number = 0,
            }
        }
        let key = Key::new(shapes, grown, numbers, rows, size.is_some(), batch);
        Some(Call { key: self.in_bucket(key, rows), rows, size, sequences: None })
    }
}

/// What stands for numbers that are not the same.
const NOT_ALIKE: i64 = i64::MIN;

impl Form {
    /// Caches that are inputs, whose sizes along the axis suit; nothing if one does not.
    fn of(loaded: &Loaded, caches: KvCaches, suits: impl Fn(&Size) -> bool) -> Option<Form> {
        let inputs = loaded.inputs();
        let past = |cache: &caches::KvCache| {
            let at = inputs.iter().position(|input| input.name == cache.past)?;
            let is_suited = can_hold(inputs[at].data_type) && inputs[at].shape.get(cache.axis).is_some_and(&suits);
            is_suited.then_some(at)
        };
        let pasts = caches.rows.iter().map(past).collect::<Option<Vec<_>>>()?;
        Some(Form { caches, pasts })
    }

    /// The rows that all caches have; nothing where they differ, or there are no caches.
    fn rows(&self, shapes: &[Vec<u32>]) -> Option<usize> {
        let mut all = self.caches.rows.iter().zip(&self.pasts).map(|(cache, &at)| shapes[at].get(cache.axis));
        let first = *all.next()??;
        all.all(|size| size == Some(&first)).then_some(first as usize)
    }
}

impl Call {
    /// What a run needs of an input's bytes: all, or of a cache of a fixed size the filled rows, of several sequences those of the longest.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it, `TypeError` for another number of bytes than the shape has.
    pub fn input(&self, program: &Program, at: usize, bytes: &[u8]) -> Result<Input> {
        let steps = program.steps.as_ref().ok_or_else(|| internal("a step of a model without caches"))?;
        let (Some(size), Some((form, fixed))) = (self.size, &steps.fixed) else { return Bytes::copy_of(bytes).map(Input::Bytes) };
        let (size, count) = self.sequences.as_ref().map_or((size as usize, 1), |sequences| (sequences.past, sequences.count()));
        let Some(number) = form.pasts.iter().position(|&past| past == at) else {
            return Bytes::copy_of(bytes).map(Input::Bytes);
        };
        let input = &program.loaded.inputs()[at];
        let shape = self.key.shapes()[at].iter().copied();
        let Order { outer, inner } = Order::of(&Descriptor::new(input.data_type, shape), form.caches.rows[number].axis);
        let (outer, whole, needed) = (count * outer, size * inner, self.rows * inner);
        if bytes.len() != outer * whole {
            return Err(Error::argument("inputs", format!("{} bytes for {:?}", bytes.len(), input.name), outer * whole));
        }
        let mut rows = Bytes::zeroed(outer * needed)?;
        for (to, from) in rows.chunks_exact_mut(needed.max(1)).zip(bytes.chunks_exact(whole.max(1))) {
            to.copy_from_slice(&from[..needed]);
        }
        let is_zeros = || bytes.chunks_exact(whole.max(1)).all(|part| part[needed..].iter().all(|&byte| byte == 0));
        let rest = match fixed.keeps_rest[number] && !is_zeros() {
            true => Some(Rest::new(Bytes::copy_of(bytes)?, program.weights.usage())?),
            false => None,
        };
        Ok(Input::Filled(rows, rest))
    }
}

impl Program {
    /// Whether a step is one that can be run so; nothing where nobody has found out.
    pub fn fits(&self, call: &Call) -> Option<bool> {
        self.steps.as_ref()?.plans.has_plan(&call.key)
    }

    /// Makes the plan of a step; whether there is one.
    pub fn prepare(&self, call: &mut Call) -> bool {
        let Some(steps) = &self.steps else { return false };
        // Perhaps not for all lengths of a bucket, but for those of a smaller one, or for this one.
        loop {
            if steps.plan(self, &call.key).is_ok() {
                return true;
            }
            let other = steps.in_bucket(call.key.at(call.rows), call.rows);
            if other == call.key {
                return false;
            }
            call.key = other;
        }
    }
}

impl Program {
    /// Has the plan made that is needed soon.
    fn look_ahead(self: &Arc<Self>, call: &Call) {
        let Some(steps) = &self.steps else { return };
        let bucket = call.key.bucket();
        if call.rows == 0 || bucket.is_exact() {
            return;
        }
        let key = call.key.at(bucket.rows(call.rows + AHEAD));
        let (program, wanted) = (self.clone(), key.clone());
        steps.plans.make_ahead(&key, move || {
            if let Some(steps) = &program.steps {
                drop(steps.plan(&program, &wanted));
            }
        });
    }
}

fn internal(text: impl Into<String>) -> Error {
    Error::new(Kind::Operation, format!("{} (internal error)", text.into()))
}
