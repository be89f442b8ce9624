//! Sequences of different lengths, each with caches of its own.
//!
//! Attention appends to each sequence of a batch where that one ends ([`crate::onnx::sequence_lengths`]), so the caches of all are no rows
//! that one append could follow. Here each sequence has the rows that it has filled, and the plan is that of one sequence, joined with
//! itself ([`crate::program::batch::join`]). It stands for the model if
//!
//! - nothing else sees how long sequences are ([`Steps::lengths`]), and
//! - the graph for the batch computes what that for one sequence computes, for each ([`rows_apart`]), for all lengths up to that of the plan.

use super::plan::{Batch, Key, StepPlan, graph_of, known_outputs};
use super::run::with_known;
use super::values::{Order, Value};
use super::{Call, Content, Form, Input, KnownKind, Options, Output, Steps, Told, internal};
use crate::error::{Error, Result};
use crate::graph::Descriptor;
use crate::memory::Bytes;
use crate::onnx::fixed_caches::{Filled, FixedCaches};
use crate::onnx::sequence_lengths::Lengths;
use crate::onnx::{Loaded, Part, Signature, Size};
use crate::program::Program;
use crate::program::batch::rows_apart;
use crate::program::caches::{self, Allocator, Caller, InputValue, OutputValue, Rows, Span, Step, refused};
use std::collections::HashSet;

/// Sequences at most: a plan is as large as those of its sequences together.
const MOST: usize = 32;

/// What the caches of a step have.
#[derive(Clone, Debug)]
pub struct Sequences {
    /// Rows of each sequence that are filled.
    rows: Vec<usize>,
    /// Rows of what is given as a past, those that are not filled included.
    pub past: usize,
}

impl Sequences {
    pub fn count(&self) -> usize {
        self.rows.len()
    }
}

impl Steps {
    /// The step of sequences of different lengths, each with caches of its own; nothing where it cannot be one.
    pub(super) fn call_by_sequence(&self, loaded: &Loaded, shapes: &[Vec<u32>], told: &[Told]) -> Option<Call> {
        let (form, fixed) = self.fixed.as_ref().filter(|(form, _)| form.caches.states.is_empty())?;
        let (past, &[count, new, ..]) = (form.rows(shapes)?, &shapes[fixed.tokens][..]) else { return None };
        let (count, new) = (count as usize, new as usize);
        if !(2..=MOST).contains(&count) || new == 0 || past == 0 {
            return None;
        }
        let totals = self.totals(count, told)?;
        let total = self.total(shapes, told)?;
        // Caches that grow are one sequence longer than the past, and those of a fixed size as long.
        let size = if total <= past { past } else { past + new };
        let rows: Vec<usize> = totals.iter().filter_map(|total| total.checked_sub(new)).collect();
        let fits = |&rows: &usize| (1..=past).contains(&rows) && rows + new <= total.min(size);
        let longest = *rows.iter().max()?;
        if (total > past && total != past + new) || rows.len() < count || !rows.iter().all(fits) {
            return None;
        }
        let batch = Batch { count, inputs: by_sequence(loaded, fixed, shapes, count) };
        let (Lengths::Mask(source) | Lengths::Last(source)) = self.lengths?;
        // Another mask may be seen by others.
        let is_other = |known: &super::Known| known.kind == KnownKind::Mask && known.at != source;
        if !form.pasts.iter().chain([&source]).all(|at| batch.inputs.contains(at)) || self.known.iter().any(is_other) {
            return None;
        }
        let one = self.shapes_of_one(form, shapes, &batch, [longest, new])?;
        let number = |known: &super::Known, told: &Told| match known.kind {
            KnownKind::Number => told.number,
            KnownKind::Mask => 1,
            KnownKind::Filled(filled) => filled.number(longest, new),
        };
        let numbers: Vec<i64> = self.known.iter().zip(told).map(|(known, told)| number(known, told)).collect();
        let call = self.call_of(loaded, form, one, &numbers, Some(size as u32), Some(batch))?;
        let is_mask = |at: usize| self.known.iter().any(|known| known.at == at && known.kind == KnownKind::Mask);
        let are_known = call.key.grown().iter().all(|&(at, _)| form.pasts.contains(&at) || is_mask(at));
        let can_be = are_known && !call.key.bucket().is_exact();
        can_be.then_some(Call { sequences: Some(Sequences { rows, past }), ..call })
    }

    /// How many positions each sequence has with the new ones.
    fn totals(&self, count: usize, told: &[Told]) -> Option<Vec<usize>> {
        let lengths = self.lengths?;
        let (Lengths::Mask(source) | Lengths::Last(source)) = lengths;
        let position = self.known.iter().position(|known| known.at == source)?;
        let Told { number, numbers } = &told[position];
        match lengths {
            // Where all of it is 1, all are one append.
            Lengths::Mask(_) if *number == 1 || !numbers.iter().all(|number| matches!(number, 0 | 1)) => None,
            Lengths::Mask(_) => {
                let columns = numbers.len().checked_div(count).filter(|&columns| columns > 0)?;
                Some(numbers.chunks(columns).map(|row| row.iter().sum::<i64>() as usize).collect())
            }
            Lengths::Last(_) => {
                let totals = numbers.iter().map(|&last| usize::try_from(last.checked_add(1)?).ok());
                totals.collect::<Option<Vec<usize>>>().filter(|totals| totals.len() == count)
            }
        }
    }

    /// The positions of the longest sequence with the new ones, as the model is told.
    fn total(&self, shapes: &[Vec<u32>], told: &[Told]) -> Option<usize> {
        let mut known = self.known.iter().zip(told);
        let given = known.clone().find(|(known, _)| known.kind == KnownKind::Filled(Filled::After));
        if let Some((_, told)) = given {
            return usize::try_from(told.number).ok();
        }
        let (mask, _) = known.find(|(known, _)| known.kind == KnownKind::Mask)?;
        shapes[mask.at].get(1).map(|&columns| columns as usize)
    }

    /// The shapes of inputs for the longest sequence alone.
    fn shapes_of_one(&self, form: &Form, shapes: &[Vec<u32>], batch: &Batch, [rows, new]: [usize; 2]) -> Option<Vec<Vec<u32>>> {
        let mut one = shapes.to_vec();
        batch.inputs.iter().for_each(|&at| one[at][0] = 1);
        for (cache, &at) in form.caches.rows.iter().zip(&form.pasts) {
            one[at][cache.axis] = rows as u32;
        }
        for known in self.known.iter().filter(|known| known.kind == KnownKind::Mask) {
            *one[known.at].get_mut(1)? = (rows + new) as u32;
        }
        Some(one)
    }

    /// The names of outputs that each sequence has its own of, if the batch is so many sequences. `one` is the model for a key, of one of them.
    ///
    /// # Errors
    /// `NotSupportedError` where that is not shown, for all lengths.
    pub(super) fn rows_of_sequences(&self, program: &Program, key: &Key, one: &Part) -> Result<HashSet<String>> {
        let of_batch = key.of_batch();
        let mut many = self.part(program, &of_batch)?;
        let refuse = |refusal: crate::program::batch::Refusal| {
            refused(format!("sequences that are not apart: {} {}", refusal.operator, refusal.reason))
        };
        let found = rows_apart(one, &many).map_err(refuse)?;
        let mut names = HashSet::new();
        for (name, rows) in found {
            let is_cache = self.form(key).caches.rows.iter().any(|cache| cache.present == name);
            match rows {
                Some(0) => drop(names.insert(name)),
                // Its rows come first.
                Some(1) if is_cache => drop(names.insert(name)),
                None if !is_cache => {}
                _ => return Err(refused(format!("the output {name:?}, whose sequences are not one after the other"))),
            }
        }
        let known = known_outputs(&many)?;
        many.outputs.clear();
        self.for_lengths(program, &of_batch, graph_of(many)?, &known, |_| of_batch.rows())?;
        Ok(names)
    }
}

/// Inputs whose first dimension has the name of that of the tokens: it is the number of sequences.
fn by_sequence(loaded: &Loaded, fixed: &FixedCaches, shapes: &[Vec<u32>], count: usize) -> Vec<usize> {
    let inputs = loaded.inputs();
    let of_tokens = inputs[fixed.tokens].shape.first();
    let is_own = |at: &usize| {
        let first = inputs[*at].shape.first();
        matches!(first, Some(Size::Open(_))) && first == of_tokens && shapes[*at].first() == Some(&(count as u32))
    };
    (0..inputs.len()).filter(is_own).collect()
}

/// What somebody gave for an input.
enum Given {
    /// The rows of each sequence of a cache.
    Rows(Vec<Rows>),
    /// Elements in script's order: all, or those of the first rows of a cache.
    Bytes(Bytes, usize),
}

/// Runs a step.
///
/// # Errors
/// Those of the run. Caches are as before then.
pub(super) fn run(
    program: &Program,
    call: &Call,
    sequences: &Sequences,
    plan: &StepPlan,
    inputs: Vec<Input>,
    options: Options,
) -> Result<Vec<Output>> {
    let steps = program.steps.as_ref().ok_or_else(|| internal("a step of a model without caches"))?;
    let form = steps.form(&call.key);
    let Options { wanted, label, watch } = options;
    let run = Run { program, form, call, sequences, plan, wanted: wanted.as_ref(), given: Vec::new() };
    let given = inputs.into_iter().enumerate().map(|(at, input)| run.given(at, input)).collect::<Result<Vec<Given>>>()?;
    let run = Run { given, ..run };
    let mut all: Vec<SequenceStep<'_>> = (0..sequences.count()).map(|number| run.step(number)).collect();
    let mut spans: Vec<_> = all.iter_mut().map(|step| (run.span(step.number), step)).collect();
    let values = caches::run_all(program, &plan.plan, &mut spans, Caller { method: "run", label, watch })?;
    run.results(values)
}

struct Run<'a> {
    program: &'a Program,
    form: &'a Form,
    call: &'a Call,
    sequences: &'a Sequences,
    plan: &'a StepPlan,
    /// The names of outputs; nothing for all.
    wanted: Option<&'a HashSet<String>>,
    given: Vec<Given>,
}

impl<'a> Run<'a> {
    fn given(&self, at: usize, input: Input) -> Result<Given> {
        let value = match input {
            Input::Filled(bytes, _) => return Ok(Given::Bytes(bytes, self.call.rows)),
            Input::Bytes(bytes) => return Ok(Given::Bytes(bytes, 0)),
            Input::Value(value) => value,
        };
        if let Some(cache) = self.form.pasts.iter().position(|&past| past == at) {
            let (axis, descriptor) = (self.form.caches.rows[cache].axis, self.cache_for_script(cache)?);
            if let Some(rows) = value.rows_of_sequences(&self.sequences.rows, &descriptor, axis) {
                return Ok(Given::Rows(rows));
            }
        }
        value.read().map(|bytes| Given::Bytes(bytes, self.sequences.past))
    }

    /// What a cache of all sequences is for script after the step.
    fn cache_for_script(&self, cache: usize) -> Result<Descriptor> {
        let outputs = self.plan.plan.outputs.iter().zip(&self.plan.outputs);
        let mut found = outputs.filter(|((output, _), _)| *output == caches::Output::Cache(cache));
        let (_, output) = found.next().ok_or_else(|| internal("no cache"))?;
        Ok(output.for_script(self.call.rows, self.call.size))
    }

    fn span(&self, number: usize) -> Span {
        let had = self.sequences.rows[number];
        Span { padding: self.call.key.rows() - had, had, new: self.plan.new_rows }
    }

    fn step(&'a self, number: usize) -> SequenceStep<'a> {
        let rows_of = |&at: &usize| match &self.given[at] {
            Given::Rows(rows) => rows.get(number).cloned(),
            Given::Bytes(..) => None,
        };
        SequenceStep { run: self, number, rows: self.form.pasts.iter().map(rows_of).collect() }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.wanted.is_none_or(|wanted| wanted.contains(name))
    }

    /// The outputs that are wanted, in the order of the model.
    fn results(&self, values: Vec<Option<OutputValue>>) -> Result<Vec<Output>> {
        let mut all: Vec<Vec<Option<OutputValue>>> = self.plan.outputs.iter().map(|_| Vec::new()).collect();
        // Each sequence has all outputs, in this order.
        for (position, value) in values.into_iter().enumerate() {
            all[position % self.plan.outputs.len()].push(value);
        }
        let mut results = Vec::new();
        for (number, values) in all.into_iter().enumerate() {
            let output = &self.plan.outputs[number];
            if self.is_wanted(&output.signature.name) {
                let descriptor = output.for_script(self.call.rows, self.call.size);
                let signature = Signature { shape: descriptor.shape.to_vec(), ..output.signature.clone() };
                results.push(Output { signature, content: self.content(number, values, descriptor)? });
            }
        }
        with_known(&mut results, self.plan)?;
        results.retain(|output| self.is_wanted(&output.signature.name));
        Ok(results)
    }

    fn content(&self, number: usize, values: Vec<Option<OutputValue>>, descriptor: Descriptor) -> Result<Content> {
        if let (caches::Output::Cache(cache), _) = self.plan.plan.outputs[number] {
            let rows = values.into_iter().map(|value| match value {
                Some(OutputValue::Rows(rows)) => Ok(rows),
                _ => Err(internal("no rows")),
            });
            let (rows, axis) = (rows.collect::<Result<Vec<Rows>>>()?, self.form.caches.rows[cache].axis);
            return Ok(Content::Value(Value::sequences(rows, self.sequences.rows.clone(), descriptor, axis)));
        }
        let mut bytes = Bytes::zeroed(descriptor.byte_length())?;
        // What all have in common is that of the first one.
        let length = bytes.len() / (self.plan.outputs[number].sequences.max(1) as usize);
        for (part, value) in bytes.chunks_exact_mut(length.max(1)).zip(values) {
            match value {
                Some(OutputValue::Bytes(own)) if own.len() == part.len() => part.copy_from_slice(&own),
                _ => return Err(internal("no bytes of an output")),
            }
        }
        Ok(Content::Bytes(bytes))
    }
}

/// The step of one sequence.
struct SequenceStep<'a> {
    run: &'a Run<'a>,
    number: usize,
    /// By cache: those that are there, once the engine has asked for them.
    rows: Vec<Option<Rows>>,
}

impl Step for SequenceStep<'_> {
    fn past(&mut self, cache: usize, like: &Descriptor, allocator: Allocator<'_>) -> Result<Option<&mut Rows>> {
        let Run { form, sequences, given, .. } = self.run;
        if self.rows[cache].is_none() {
            let Given::Bytes(bytes, past) = &given[form.pasts[cache]] else { return Err(internal("no past")) };
            let order = Order::of(&self.run.cache_for_script(cache)?, form.caches.rows[cache].axis);
            let count = sequences.count();
            let order = Order { outer: order.outer / count, ..order };
            let length = past * order.outer * order.inner;
            if bytes.len() != count * length {
                return Err(internal(format!("{} bytes of a cache, not {}", bytes.len(), count * length)));
            }
            let own = &bytes[self.number * length..][..length];
            let span = self.run.span(self.number);
            self.rows[cache] = Some(Rows::filled(like, &span, allocator, |rows| order.read(own, *past, rows))?);
        }
        Ok(self.rows[cache].as_mut())
    }

    fn input(&mut self, input: usize, descriptor: &Descriptor, _allocator: Allocator<'_>) -> Result<InputValue> {
        let Run { program, call, given, sequences, .. } = self.run;
        let Some(Given::Bytes(bytes, _)) = given.get(input) else { return Err(internal("no input")) };
        let is_own = call.key.batch().is_some_and(|batch| batch.inputs.contains(&input));
        let (length, count) = (descriptor.byte_length(), if is_own { sequences.count() } else { 1 });
        if bytes.len() != count * length {
            let name = &program.loaded.inputs()[input].name;
            return Err(Error::argument("inputs", format!("{} bytes for {name:?}", bytes.len()), count * length));
        }
        let first = if is_own { self.number * length } else { 0 };
        Bytes::copy_of(&bytes[first..][..length]).map(InputValue::Bytes)
    }

    fn wants(&self, output: usize) -> bool {
        let outputs = &self.run.plan.outputs;
        let (own, sequence) = (&outputs[output % outputs.len()], output / outputs.len());
        self.run.is_wanted(&own.signature.name) && (sequence == 0 || own.sequences > 1)
    }
}
