//! What is remembered of a sequence, and its steps: the values of the model's inputs, and what becomes of its outputs.

use super::Decoder;
use super::features;
use super::inputs::{ConstantInput, Extent, Role, StepTokens, bytes, numbers};
use crate::error::{Error, IndexOutside, Kind, Result};
use crate::graph::{DataType, Descriptor};
use crate::memory::Bytes;
use crate::program::caches::{self, Allocator, Caller, Frozen, InputValue, Memory, Output, OutputValue, Plan, Rows, Span, Step};
use crate::timeline::Watch;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A sequence of tokens that the model has seen, and what it remembers of them. A clone shares the memory until one of the two goes on.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    pub tokens: Vec<u32>,
    /// By cache: as many rows as there are tokens, or more.
    rows: Vec<Option<Rows>>,
    /// By state: its shape, and where it is once there is one. It is never written again.
    states: Vec<State>,
    /// The inputs that are the same for each step.
    pub given: Arc<Vec<ConstantInput>>,
}

type State = (Vec<u32>, Option<Arc<Memory>>);

impl Sequence {
    /// One that has seen nothing.
    pub fn new(given: Arc<Vec<ConstantInput>>) -> Sequence {
        Sequence { given, ..Sequence::default() }
    }

    /// One that has seen tokens, and has rows of them.
    pub fn of_rows(tokens: Vec<u32>, rows: Vec<Option<Rows>>) -> Sequence {
        Sequence { tokens, rows, ..Sequence::default() }
    }

    /// The rows of all its caches, if it has nothing else.
    pub fn all_rows(&self) -> Option<Vec<Rows>> {
        if self.states.is_empty() { self.rows.iter().cloned().collect() } else { None }
    }

    /// Whether it can go back to fewer tokens.
    fn can_rewind(&self) -> bool {
        self.states.is_empty()
    }

    /// How many tokens of a prompt are known, with these inputs: it can go back to so many.
    pub fn shared_prefix(&self, prompt: &[u32], given: &[ConstantInput]) -> usize {
        let same = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // The logits after the last token are wanted, so that has to be seen.
        let same = same.min(prompt.len().saturating_sub(1));
        let can_stop = same == self.tokens.len() || self.can_rewind();
        if same > 0 && can_stop && are_same(&self.given, given) { same } else { 0 }
    }

    /// Whether it knows all that another one knows.
    pub fn covers(&self, other: &Sequence) -> bool {
        let count = other.tokens.len();
        let can_stop = count == self.tokens.len() || count < self.tokens.len() && self.can_rewind();
        // The last tokens differ most often.
        can_stop
            && self.tokens[..count].last() == other.tokens.last()
            && self.tokens[..count] == other.tokens
            && are_same(&self.given, &other.given)
    }

    /// Where its rows, its states and what it was given are: an address of each, and bytes.
    pub fn memories(&self) -> Vec<(usize, usize)> {
        let rows = self.rows.iter().flatten().map(Rows::memory);
        let states = self.states.iter().filter_map(|(_, memory)| memory.as_ref());
        let states = states.map(|memory| (Arc::as_ptr(memory).addr(), memory.byte_length()));
        let own = self.given.iter().filter(|constant| !constant.is_shared);
        let given = own.map(|constant| (constant.bytes.as_ptr().addr(), constant.bytes.len()));
        rows.chain(states).chain(given.filter(|(_, bytes)| *bytes > 0)).collect()
    }

    /// Its first tokens, with memory of which those that go on from there share what is alike; nothing where that cannot be.
    pub fn freeze(&self, count: usize) -> Option<Sequence> {
        let all: Vec<&Rows> = self.rows.iter().flatten().collect();
        // Without the memory, they have copies.
        let mut frozen = Frozen::freeze(&all, count).ok()??.into_iter();
        let rows = self.rows.iter().map(|rows| rows.as_ref().and_then(|_| frozen.next())).collect();
        Some(Sequence { tokens: self.tokens[..count].to_vec(), rows, ..self.clone() })
    }

    /// Forgets all tokens but the first ones. Rows of the others are written over before anybody reads them.
    pub fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
    }

    /// The same, of tokens that nobody else knows: the next step has their memory.
    pub fn take_back(&mut self, tokens: usize) {
        self.truncate(tokens);
        self.rows.iter_mut().flatten().for_each(|rows| rows.take_back(tokens));
    }
}

/// Whether inputs that are the same for each step are those of another sequence.
fn are_same(these: &[ConstantInput], others: &[ConstantInput]) -> bool {
    let is_same = |(a, b): (&ConstantInput, &ConstantInput)| {
        a.shape == b.shape && a.padding == b.padding && (Arc::ptr_eq(&a.bytes, &b.bytes) || a.bytes[..] == b.bytes[..])
    };
    these.iter().zip(others).all(is_same)
}

impl Decoder {
    /// What steps of so many tokens have in common, at the beginning of a sequence or after it.
    pub(super) fn form(&self, sequence: &Sequence, tokens: usize, begins: bool) -> Extent {
        let states = sequence.states.iter().map(|(shape, _)| shape.clone()).collect();
        let given = sequence.given.iter().map(|constant| constant.shape.clone()).collect();
        let padded_length =
            self.roles.given_length(&sequence.given).filter(|_| sequence.given.iter().any(|one| one.padding.is_some()));
        Extent { tokens, uses_cache: !begins, states, given, padded_length, ..Extent::default() }
    }

    /// The plan of a step of so many tokens, and what it is for.
    ///
    /// # Errors
    /// As [`Decoder::plan_for`].
    pub(super) fn plan_of(&self, sequence: &Sequence, tokens: usize, first: Option<&u32>) -> Result<(Extent, Arc<Plan>)> {
        self.plan_for(&self.form_after(sequence, tokens, first), sequence.tokens.len())
    }

    /// What a step of so many tokens is after a sequence, of which the first one may be a row of features.
    pub(super) fn form_after(&self, sequence: &Sequence, tokens: usize, first: Option<&u32>) -> Extent {
        let takes_features = first.is_some_and(|id| *id >= features::FIRST);
        Extent { takes_features, ..self.form(sequence, tokens, sequence.tokens.is_empty()) }
    }

    /// Whether it remembers what cannot go back to fewer tokens. A sequence knows that of itself only after its first step.
    pub(super) fn has_states(&self) -> bool {
        !self.caches.states.is_empty()
    }

    /// See [`Decoder::begins_alone`].
    pub(super) fn begins_alone(&self) -> bool {
        self.begins_alone.load(Ordering::Relaxed)
    }

    /// A plan was refused: whether it can be tried with nothing before several tokens, which was not yet.
    pub(super) fn can_begin_alone(&self) -> bool {
        !self.has_states() && !self.caches.rows.is_empty() && !self.begins_alone.swap(true, Ordering::Relaxed)
    }

    pub(super) fn has_branches(&self) -> bool {
        self.roles.has_branches()
    }

    /// Has the model see more tokens; the logits after the first ones, of as many as are wanted.
    ///
    /// # Errors
    /// Those of making a plan and of running it. The sequence is as it was before, then.
    pub(super) fn step(&self, sequence: &mut Sequence, tokens: &[u32], wanted: usize, watch: &Watch) -> Result<Vec<Vec<f32>>> {
        let form = match wanted {
            ..=1 => self.form_after(sequence, tokens.len(), tokens.first()),
            _ => self.form_of_guesses(sequence, tokens.len()),
        };
        let (extent, plan) = self.plan_for(&form, sequence.tokens.len())?;
        let (span, mut step) = self.step_of(sequence, tokens, &extent, &plan, wanted > 0);
        let caller = Caller { method: "generate", label: String::new(), watch: watch.clone() };
        let values = caches::run(&self.program, &plan, span, &mut step, caller);
        if values.is_err() {
            // Their memory may not be there.
            sequence.given.iter().for_each(ConstantInput::forget);
        }
        let values = values.map_err(|error| about_ids(error, tokens, sequence.tokens.len()));
        self.keep(sequence, tokens, &plan, values?.into_iter().enumerate().collect(), wanted)
    }

    /// A step of a sequence, and the rows that it works on.
    pub(super) fn step_of<'a>(
        &'a self,
        sequence: &'a mut Sequence,
        tokens: &'a [u32],
        extent: &Extent,
        plan: &'a Plan,
        wants_logits: bool,
    ) -> (Span, DecoderStep<'a>) {
        let (before, new) = (sequence.tokens.len(), tokens.len());
        let padding = extent.rows.saturating_sub(before);
        let span = Span { padding, had: extent.rows - padding, new };
        let &Extent { keeps_all, .. } = extent;
        let tokens = StepTokens { rows: span.had, before, tokens, new, padding, uses_cache: before > 0, keeps_all };
        sequence.rows.resize_with(self.kept.rows.len(), || None);
        let Sequence { tokens: seen, rows, states, given } = sequence;
        (span, DecoderStep { decoder: self, plan, seen, rows, states, given, lent: None, tokens, wants_logits })
    }

    /// Keeps what a step has made for a sequence, given with the numbers of the plan's outputs; gives the logits after the first tokens, of
    /// as many as are wanted.
    pub(super) fn keep(
        &self,
        sequence: &mut Sequence,
        tokens: &[u32],
        plan: &Plan,
        values: Vec<(usize, Option<OutputValue>)>,
        wanted: usize,
    ) -> Result<Vec<Vec<f32>>> {
        let logits = self.remember(sequence, plan, values)?;
        sequence.tokens.extend_from_slice(tokens);
        match logits {
            _ if wanted == 0 => Ok(Vec::new()),
            None => Err(Error::new(Kind::NotSupported, format!("found no logits in the output {:?}", self.logits))),
            Some((descriptor, bytes)) => logits_of(descriptor, &bytes, tokens.len(), wanted),
        }
    }

    /// Keeps the rows and states that a step has made; gives its logits.
    fn remember<'p>(
        &self,
        sequence: &mut Sequence,
        plan: &'p Plan,
        values: Vec<(usize, Option<OutputValue>)>,
    ) -> Result<Option<(&'p Descriptor, Bytes)>> {
        let mut logits = None;
        for (number, value) in values {
            let (output, descriptor) = &plan.outputs[number];
            match (*output, value) {
                (Output::Cache(cache), Some(OutputValue::Rows(rows))) => sequence.rows[cache] = Some(rows),
                (Output::State(number), Some(OutputValue::State(memory))) => {
                    let shape = descriptor.shape.to_vec();
                    if sequence.states.len() <= number {
                        sequence.states.resize_with(self.caches.states.len(), Default::default);
                    }
                    // A cache of what never changes is there after the first step, and later steps give something else in its place.
                    let (old, _) = &sequence.states[number];
                    if old.is_empty() || *old == shape {
                        sequence.states[number] = (shape, Some(Arc::new(memory)));
                    }
                }
                (_, Some(OutputValue::Bytes(bytes))) => logits = Some((descriptor, bytes)),
                _ => {}
            }
        }
        Ok(logits)
    }
}

/// A step whose masks and positions are made here.
pub(super) struct DecoderStep<'a> {
    decoder: &'a Decoder,
    plan: &'a Plan,
    /// The tokens before the new ones.
    seen: &'a [u32],
    rows: &'a mut [Option<Rows>],
    states: &'a [State],
    given: &'a [ConstantInput],
    /// Of a step without an adapter beside others: the adapter of one of these, which the graph reads, and does not use.
    pub lent: Option<&'a [ConstantInput]>,
    tokens: StepTokens<'a>,
    wants_logits: bool,
}

impl Step for DecoderStep<'_> {
    fn past(&mut self, cache: usize, _like: &Descriptor, _allocator: Allocator<'_>) -> Result<Option<&mut Rows>> {
        Ok(self.rows[cache].as_mut())
    }

    fn input(&mut self, input: usize, descriptor: &Descriptor, allocator: Allocator<'_>) -> Result<InputValue> {
        let (role, input) = &self.decoder.roles.inputs[input];
        match *role {
            Role::State(number) => match self.states.get(number).and_then(|(_, state)| state.as_ref()) {
                Some(memory) if memory.byte_length() == descriptor.byte_length() => Ok(InputValue::Memory(memory.clone())),
                _ => Bytes::zeroed(descriptor.byte_length()).map(InputValue::Bytes),
            },
            Role::Constant(number) => {
                let own = &self.given[number];
                let lent = self.lent.and_then(|lent| lent.get(number)).filter(|_| own.is_empty());
                lent.unwrap_or(own).value(descriptor, allocator)
            }
            Role::Embeddings if descriptor.data_type.is_float() => {
                self.decoder.feature_rows(self.tokens.tokens).map(InputValue::Bytes)
            }
            // The model that embeds them takes the tokens.
            Role::Embeddings | Role::Embedded => {
                let numbers = self.decoder.tokens_of_features(self.tokens.tokens)?;
                bytes(descriptor.data_type.into(), &descriptor.shape, &numbers).map(InputValue::Bytes)
            }
            Role::Positions if self.decoder.roles.has_axes() => {
                let numbers = self.decoder.positions(self.seen, self.tokens.tokens)?;
                bytes(input.element(), &descriptor.shape, &numbers).map(InputValue::Bytes)
            }
            role => {
                let numbers = numbers(role, &descriptor.shape, &self.tokens)?;
                bytes(input.element(), &descriptor.shape, &numbers).map(InputValue::Bytes)
            }
        }
    }

    fn given_padding(&self) -> usize {
        self.given.iter().find_map(|constant| constant.padding).unwrap_or(0)
    }

    fn is_plain(&self) -> bool {
        self.lent.is_some()
    }

    fn wants(&self, output: usize) -> bool {
        matches!(self.plan.outputs[output].0, Output::State(_)) || self.wants_logits
    }
}

/// The numbers after the first of so many tokens of the one sequence, of as many as are wanted; after the last one, if that is one.
fn logits_of(descriptor: &Descriptor, bytes: &[u8], tokens: usize, wanted: usize) -> Result<Vec<Vec<f32>>> {
    let refuse = |found: String| Error::new(Kind::NotSupported, format!("found logits {found}"));
    let is_float = matches!(descriptor.data_type, DataType::Float32 | DataType::Float16);
    let width = descriptor.data_type.byte_length(1).filter(|_| is_float);
    let width = width.ok_or_else(|| refuse(format!("of {}, allowed float32 or float16", descriptor.data_type)))?;
    let sequences: usize = descriptor.shape.iter().rev().skip(2).map(|&size| size as usize).product();
    let length = descriptor.shape.last().map_or(0, |&count| count as usize * width);
    if length == 0 || bytes.len() < length || sequences != 1 {
        return Err(refuse(format!("of shape {:?}, allowed those of one sequence", descriptor.shape)));
    }
    let rows = bytes.len() / length;
    if wanted > 1 && rows != tokens {
        return Err(refuse(format!("of {rows} tokens, allowed those of all {tokens}")));
    }
    let first = if wanted > 1 { 0 } else { rows - 1 };
    let numbers = |row: &[u8]| match descriptor.data_type {
        DataType::Float32 => row.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect(),
        _ => row.chunks_exact(2).map(|x| half::f16::from_le_bytes([x[0], x[1]]).to_f32()).collect(),
    };
    Ok(bytes[first * length..].chunks_exact(length).take(wanted).map(numbers).collect())
}

/// The error of a step whose tokens, or their positions, are beyond what the model has.
fn about_ids(error: Error, tokens: &[u32], before: usize) -> Error {
    let Some(IndexOutside { index, size }) = error.chain().find_map(Error::index) else { return error };
    let most = size.saturating_sub(1);
    let is_token = tokens.iter().any(|&token| i64::from(token) == index);
    let is_position = usize::try_from(index).is_ok_and(|index| (before..before + tokens.len()).contains(&index));
    let message = match (is_token, is_position) {
        (true, false) => format!("ids: found the token {index}, allowed tokens from 0 to {most}"),
        (false, true) => format!("ids: found a token at the position {index}, allowed positions from 0 to {most}"),
        (true, true) => {
            format!("ids: found the token {index} at a position up to {index}, allowed tokens or positions from 0 to {most}")
        }
        (false, false) => return error,
    };
    Error::new(error.kind(), message).of("generate", "").caused_by(error)
}
