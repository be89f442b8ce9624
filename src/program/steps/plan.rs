//! The plans of steps, by the shapes that the inputs have in a bucket.

use super::{Form, Known, KnownKind, Steps};
use crate::error::Result;
use crate::graph::{Descriptor, Graph};
use crate::onnx::{Export, Part, Signature, Tensor};
use crate::program::Program;
use crate::program::caches::{self, Bucket, Importing, PaddingInputs, StepGraph, aliased_input, for_all_lengths, refused};
use std::sync::Arc;

/// What tells plans apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    shapes: Vec<Vec<u32>>,
    /// Inputs and their axes that are longer where the caches are.
    grown: Vec<(usize, usize)>,
    /// Values of [`Steps::known`]: what says how much of caches is filled, above their rows.
    known: Vec<i64>,
    /// Of the caches.
    rows: usize,
    /// Whether the caches of the model have a fixed size.
    is_fixed: bool,
    bucket: Bucket,
    /// Where the shapes are those of one sequence: of what.
    batch: Option<Batch>,
}

/// Sequences with caches of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    pub count: usize,
    /// Inputs whose first dimension is that of the sequences.
    pub inputs: Vec<usize>,
}

impl Key {
    pub fn new(
        shapes: Vec<Vec<u32>>,
        grown: Vec<(usize, usize)>,
        known: Vec<i64>,
        rows: usize,
        is_fixed: bool,
        batch: Option<Batch>,
    ) -> Key {
        Key { shapes, grown, known, rows, is_fixed, bucket: Bucket::Exact, batch }
    }

    pub fn shapes(&self) -> &[Vec<u32>] {
        &self.shapes
    }

    pub fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    pub fn batch(&self) -> Option<&Batch> {
        self.batch.as_ref()
    }

    /// Inputs that are longer where the caches are, and their axes.
    pub fn grown(&self) -> &[(usize, usize)] {
        &self.grown
    }

    /// The same for all sequences in one graph.
    pub fn of_batch(&self) -> Key {
        let mut key = Key { batch: None, ..self.clone() };
        if let Some(Batch { count, inputs }) = &self.batch {
            inputs.iter().for_each(|&at| key.shapes[at][0] = *count as u32);
        }
        key
    }

    /// The axis of an input along which it has padding.
    pub fn padded_axis(&self, input: usize) -> Option<usize> {
        let axis = self.grown.iter().find(|(at, _)| *at == input).map(|&(_, axis)| axis);
        axis.filter(|_| !self.bucket.is_exact())
    }

    /// The same for other caches.
    pub fn at(&self, rows: usize) -> Key {
        let mut key = self.clone();
        for &(at, axis) in &self.grown {
            key.shapes[at][axis] = (key.shapes[at][axis] as usize + rows - self.rows) as u32;
        }
        key.rows = rows;
        key
    }

    /// What all lengths have in common.
    fn form(&self) -> Key {
        Key { bucket: Bucket::Exact, ..self.at(0) }
    }
}

/// A plan, and what its outputs are for script.
#[derive(Debug)]
pub struct StepPlan {
    pub plan: caches::Plan,
    pub outputs: Vec<Output>,
    /// Outputs that are known, by their positions among all.
    pub known: Vec<KnownOutput>,
    /// Rows that a step appends.
    pub new_rows: usize,
}

/// An output of the graph.
#[derive(Debug)]
pub struct Output {
    /// As script has it, of a full bucket.
    pub signature: Signature,
    /// The axis along which a cache is shorter where there is padding, and the rows of the bucket.
    grown: Option<(usize, usize)>,
    /// How many sequences have one of their own, one after the other for script.
    pub sequences: u32,
    /// The input of the model that a state is, as it is.
    pub alias: Option<usize>,
}

impl Output {
    /// As script has it, for caches of so many rows; of a fixed size, if they have one.
    pub fn for_script(&self, rows: usize, size: Option<u32>) -> Descriptor {
        let mut shape = self.signature.shape.clone();
        if let Some((axis, full)) = self.grown {
            shape[axis] = size.unwrap_or(shape[axis] - (full - rows) as u32);
        }
        if let Some(first) = shape.first_mut() {
            *first *= self.sequences;
        }
        Descriptor::new(self.signature.data_type, shape)
    }
}

/// The buckets of steps, of which a later one is tried where a model has no graph for an earlier one.
const BUCKETS: [Bucket; 3] = [Bucket::Large, Bucket::Small, Bucket::Exact];

impl Steps {
    /// The key of the bucket that caches of so many rows are in.
    pub fn in_bucket(&self, key: Key, rows: usize) -> Key {
        if rows == 0 {
            return Key { bucket: Bucket::Exact, ..key.at(0) };
        }
        let bucket = BUCKETS[self.plans.kind(&key.form()).min(BUCKETS.len() - 1)];
        Key { bucket, ..key.at(bucket.rows(rows)) }
    }

    /// The plan for a key, which may have to be made.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn plan(&self, program: &Program, key: &Key) -> Result<Arc<StepPlan>> {
        let plan = self.plans.plan(key, || self.make(program, key));
        if plan.is_err() && !key.bucket.is_exact() {
            let kind = BUCKETS.iter().position(|&bucket| bucket == key.bucket).unwrap_or_default();
            self.plans.leave(&key.form(), kind + 1);
        }
        plan
    }

    /// The part that is the whole model, for caches of so many rows.
    pub(super) fn part(&self, program: &Program, key: &Key) -> Result<Part> {
        let inputs = program.loaded.inputs();
        let mut known = Vec::new();
        for (Known { at, kind }, &number) in self.known.iter().zip(&key.known) {
            let input = &inputs[*at];
            let shape: Vec<usize> = key.shapes[*at].iter().map(|&size| size as usize).collect();
            let count = shape.iter().product();
            let numbers = match kind {
                KnownKind::Number => vec![number],
                KnownKind::Mask if number == 1 => crate::memory::filled(1, count)?,
                KnownKind::Filled(_) if key.is_fixed => crate::memory::filled(number + key.rows as i64, count)?,
                KnownKind::Mask | KnownKind::Filled(_) => continue,
            };
            known.push((input.name.clone(), Tensor::from_numbers(input.element(), shape, &numbers)));
        }
        let fixed = self.fixed.as_ref().map(|(_, fixed)| fixed).filter(|_| key.is_fixed);
        let new = fixed.map_or(0, |fixed| key.shapes[fixed.tokens][1] as usize);
        let importing = Importing { program, caches: &self.form(key).caches.rows, fixed, instead: None };
        let part = importing.part(&key.shapes, known, key.rows, new)?;
        let exists = |export: &Export| matches!(export, Export::Result { .. } | Export::Known(_));
        match part.exports.iter().all(|(_, export)| exists(export)) {
            true => Ok(part),
            false => Err(refused("an output that does not exist behind a step")),
        }
    }

    fn make(&self, program: &Program, key: &Key) -> Result<StepPlan> {
        if key.batch.is_some() && (key.bucket.is_exact() || program.timeline.has_own_memory()) {
            return Err(refused("sequences of different lengths with a graph for each length, or on a device of its own memory"));
        }
        let form = self.form(key);
        let mut part = self.part(program, key)?;
        let rows = key.batch.as_ref().map(|_| self.rows_of_sequences(program, key, &part)).transpose()?;
        let known = known_outputs(&part)?;
        let (signatures, most_bytes) = (std::mem::take(&mut part.outputs), part.most_bytes);
        let graph = graph_of(part)?;
        // Sequences may be as short as they like beside the longest.
        let lengths = |length| if key.batch.is_some() { key.rows } else { key.bucket.rows(length) };
        let (graph, padding) = self.for_lengths(program, key, graph, &known, lengths)?;
        let (mut outputs, new_rows) = outputs_of(&graph, &signatures, program, form, key.rows)?;
        let step_graph = StepGraph { graph, padding, most_bytes, choice: None };
        let plan = match (&key.batch, rows) {
            (Some(batch), Some(rows)) => {
                for output in outputs.iter_mut().filter(|output| rows.contains(&output.signature.name)) {
                    output.sequences = batch.count as u32;
                }
                step_graph.build_joined(batch.count, None, program, &form.caches)?
            }
            _ => step_graph.build(program, &form.caches)?,
        };
        // A device copies its own rows where it cannot append to them, which costs less than to give them to script. They have to come after
        // the others, where attention that writes to each sequence at its end need not have them.
        let is_one = || form.pasts.iter().all(|&past| key.shapes[past].first() == Some(&1));
        let is_append = !self.ends_by_sequence || key.is_fixed || is_one();
        match plan.is_in_place() || program.timeline.has_own_memory() && is_append {
            true => Ok(StepPlan { plan, outputs, known, new_rows }),
            false => Err(refused("a cache that is not appended to in place")),
        }
    }

    /// A graph, changed so that it serves all lengths that `bucket` gives its rows for, with its new inputs.
    pub(super) fn for_lengths(
        &self,
        program: &Program,
        key: &Key,
        graph: Graph,
        known: &[KnownOutput],
        bucket: impl Fn(usize) -> usize,
    ) -> Result<(Graph, PaddingInputs)> {
        if key.bucket.is_exact() {
            return Ok((graph, Vec::new()));
        }
        let is_cache = |name: &str| self.form(key).caches.rows.iter().any(|cache| cache.present == name);
        let shorter = |rows| {
            let part = self.part(program, &key.at(rows))?;
            match have_same_values(known, &part) {
                true => graph_of(part),
                false => Err(refused("known outputs that depend on the length")),
            }
        };
        for_all_lengths(graph, key.rows, bucket, shorter, is_cache)
    }
}

pub(super) fn graph_of(part: Part) -> Result<Graph> {
    part.graph.ok_or_else(|| refused("there is nothing to compute"))
}

fn signature_of(signatures: &[Signature], name: &str) -> Result<Signature> {
    let found = signatures.iter().find(|signature| signature.name == name);
    found.cloned().ok_or_else(|| refused("an output that is not a tensor"))
}

/// An output that is known when the model is imported, by its position.
pub type KnownOutput = (usize, Signature, Vec<u8>);

/// Outputs that are known when the model is imported.
pub(super) fn known_outputs(part: &Part) -> Result<Vec<KnownOutput>> {
    let mut known = Vec::new();
    for (position, (name, export)) in part.exports.iter().enumerate() {
        if let Export::Known(tensor) = export {
            known.push((position, signature_of(&part.outputs, name)?, tensor.held()?.1.to_vec()));
        }
    }
    Ok(known)
}

/// Whether the same outputs are known for another length.
fn have_same_values(known: &[KnownOutput], other: &Part) -> bool {
    known.iter().all(|(position, _, bytes)| match other.exports.get(*position) {
        Some((_, Export::Known(tensor))) => tensor.held().is_ok_and(|held| held.1[..] == bytes[..]),
        _ => false,
    })
}

/// The outputs of a graph for so many rows, and the rows that it appends.
fn outputs_of(
    graph: &Graph,
    signatures: &[Signature],
    program: &Program,
    form: &Form,
    rows: usize,
) -> Result<(Vec<Output>, usize)> {
    let inputs = program.loaded.inputs();
    let states = &form.caches.states;
    let mut outputs = Vec::new();
    let mut new_rows = 0;
    for (name, id) in &graph.outputs {
        let signature = signature_of(signatures, name)?;
        let Some(cache) = form.caches.rows.iter().find(|cache| cache.present == *name) else {
            let input = aliased_input(graph, *id).and_then(|name| inputs.iter().position(|input| input.name == name));
            let alias = input.filter(|&input| states.iter().any(|(past, _)| *past == inputs[input].name));
            outputs.push(Output { signature, grown: None, sequences: 1, alias });
            continue;
        };
        let all = signature.shape.get(cache.axis).copied().unwrap_or(0) as usize;
        new_rows = all
            .checked_sub(rows)
            .filter(|&new| new > 0 && (new_rows == 0 || new == new_rows))
            .ok_or_else(|| refused(format!("{name:?} of {all} rows for {rows}")))?;
        outputs.push(Output { signature, grown: Some((cache.axis, rows)), sequences: 1, alias: None });
    }
    Ok((outputs, new_rows))
}
