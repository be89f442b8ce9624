//! What is remembered of a sequence: the rows of its caches, in memory with room to grow, and its states.
#![allow(unsafe_code)]

use super::Decoder;
use super::inputs::{Extent, Extra, Role, bytes, numbers};
use super::plans::{Made, Plan, rounded};
use crate::error::{Error, Kind, Result};
use crate::graph::{DataType, Descriptor};
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Charge, Use};
use crate::timeline::{Compute, Task};
use std::sync::Arc;

/// Rows that a cache has room for at least.
const LEAST: usize = 256;

/// A sequence of tokens that the model has seen, and what it remembers of them.
#[derive(Debug, Default)]
pub struct Lane {
    pub tokens: Vec<u32>,
    /// Rows of zeros before the first one.
    before: usize,
    /// Rows that there is memory for, those before the first one included.
    room: usize,
    /// By cache.
    rows: Vec<Rows>,
    /// By state: its shape and bytes.
    states: Vec<(Vec<u32>, Bytes)>,
    /// What is given for each step.
    pub given: Arc<Vec<Extra>>,
    charge: Option<Charge>,
}

#[derive(Debug, Default)]
struct Rows {
    bytes: Bytes,
    /// Bytes of a row.
    row: usize,
}

impl Lane {
    /// One that has seen nothing.
    pub fn new(given: Arc<Vec<Extra>>) -> Lane {
        Lane { given, ..Lane::default() }
    }

    /// Whether it can go back to fewer tokens.
    pub fn can_rewind(&self) -> bool {
        self.states.is_empty()
    }

    /// Forgets all tokens but the first ones. What was remembered of the others is written over before anybody reads it.
    pub fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
    }

    /// Another lane that remembers the same.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for the copy.
    pub fn copy(&self, decoder: &Decoder) -> Result<Lane> {
        let mut lane = Lane {
            tokens: self.tokens.clone(),
            before: self.before,
            room: self.room,
            given: self.given.clone(),
            ..Lane::default()
        };
        let used = self.before + self.tokens.len();
        for Rows { bytes, row } in &self.rows {
            let mut copy = Bytes::roomy(bytes.len())?;
            copy[..used * row].copy_from_slice(&bytes[..used * row]);
            lane.rows.push(Rows { bytes: copy, row: *row });
        }
        for (shape, bytes) in &self.states {
            lane.states.push((shape.clone(), Bytes::copy_of(bytes)?));
        }
        lane.count(decoder);
        Ok(lane)
    }

    fn count(&mut self, decoder: &Decoder) {
        let bytes = self.rows.iter().map(|rows| rows.bytes.len()).chain(self.states.iter().map(|(_, bytes)| bytes.len())).sum();
        self.charge = Some(decoder.program.weights.usage().charge(Use::Tensors, bytes));
    }

    /// Makes room for so many rows that are read, and so many behind the sequence's own.
    fn reserve(&mut self, plan: &Plan, read: usize, new: usize, decoder: &Decoder) -> Result<()> {
        let length = self.tokens.len();
        let wanted_before = read.saturating_sub(length);
        if self.rows.len() == decoder.caches.rows.len() && self.before >= wanted_before && self.room >= self.before + length + new
        {
            return Ok(());
        }
        // As many before as any plan wants for as many as there is room for.
        let room = (2 * (length + new)).max(LEAST);
        let before = wanted_before.max(room / 8).max(64);
        let mut all = Vec::new();
        for number in 0..decoder.caches.rows.len() {
            let made = plan.outputs.iter().find(|(made, _)| *made == Made::Rows(number)).map(|(_, descriptor)| descriptor);
            let row = match (made, self.rows.get(number)) {
                (_, Some(old)) => old.row,
                (Some(made), None) => row_bytes(made),
                (None, None) => 0,
            };
            all.push(Rows { bytes: Bytes::roomy((before + room) * row)?, row });
        }
        // Now that there is room for all: what was copied goes at once, and what is not touched takes no memory, so that hardly more
        // than what is remembered is there at any time.
        for (Rows { bytes, row }, old) in all.iter_mut().zip(std::mem::take(&mut self.rows)) {
            bytes[before * *row..][..length * *row].copy_from_slice(&old.bytes[self.before * *row..][..length * *row]);
        }
        (self.before, self.room, self.rows) = (before, before + room, all);
        self.count(decoder);
        Ok(())
    }
}

fn row_bytes(descriptor: &Descriptor) -> usize {
    let rows = descriptor.shape.first().copied().unwrap_or(1).max(1) as usize;
    descriptor.byte_length() / rows
}

impl Decoder {
    /// What a step of so many tokens works on.
    pub(super) fn extent(&self, lane: &Lane, tokens: usize) -> Extent {
        let length = lane.tokens.len();
        let has_rows = !self.caches.rows.is_empty();
        let rows = match has_rows && self.roles.is_masked {
            // A model that has a branch for its first step has no rows there.
            true if length == 0 && self.has_branches() => 0,
            true if tokens >= 8 => rounded(length).next_multiple_of(128),
            true => rounded(length),
            false => length,
        };
        let rows = if has_rows { rows } else { 0 };
        let states = lane.states.iter().map(|(shape, _)| shape.clone()).collect();
        let given = lane.given.iter().map(|extra| extra.shape.clone()).collect();
        Extent { tokens, rows, uses_cache: length > 0, states, given }
    }

    /// What a step of one token works on when there are so many more.
    pub(super) fn extent_after(&self, lane: &Lane, more: usize) -> Extent {
        let extent = self.extent(lane, 1);
        let rows = if extent.rows == 0 { 0 } else { rounded(lane.tokens.len() + more) };
        Extent { rows, uses_cache: true, ..extent }
    }

    pub(super) fn is_masked(&self) -> bool {
        self.roles.is_masked
    }

    /// Whether it remembers what cannot go back to fewer tokens. A lane knows that of itself only behind its first step.
    pub(super) fn has_states(&self) -> bool {
        !self.caches.states.is_empty()
    }

    fn has_branches(&self) -> bool {
        self.roles.inputs.iter().any(|(role, _)| *role == Role::UsesCache)
    }

    /// Has the model see more tokens; the logits behind the last one, if they are wanted.
    ///
    /// # Errors
    /// Those of making a plan and of running it. The lane is as it was before, then.
    pub(super) fn step(&self, lane: &mut Lane, tokens: &[u32], wants_logits: bool) -> Result<Option<Vec<f32>>> {
        let extent = self.extent(lane, tokens.len());
        let plan = self.plan(&extent)?;
        lane.reserve(&plan, extent.rows, tokens.len(), self)?;
        let length = lane.tokens.len();
        let hidden = extent.rows.saturating_sub(length);
        let first = (lane.before + length).saturating_sub(extent.rows);

        // What lives as long as the run: the graph works on the memory of these.
        let mut given: Vec<Bytes> = Vec::new();
        let mut made: Vec<Option<Bytes>> = Vec::new();
        let mut outputs: Vec<Option<HostBuffer>> = Vec::new();
        for (what, descriptor) in &plan.outputs {
            let length = descriptor.byte_length();
            let own = || Bytes::zeroed(length);
            match what {
                Made::Rows(number) => {
                    let Rows { bytes, row } = &mut lane.rows[*number];
                    if row_bytes(descriptor) != *row || descriptor.shape.first() != Some(&((extent.rows + tokens.len()) as u32)) {
                        let text = format!(
                            "the cache {:?} is {descriptor}, not the rows before and the new ones",
                            self.caches.rows[*number].present
                        );
                        return Err(Error::new(Kind::NotSupported, text));
                    }
                    let range = first * *row..first * *row + length;
                    let window = &mut bytes[range];
                    // SAFETY: a part of the lane's memory, which stays where it is and is borrowed until this function returns; it waits
                    // for the end of the run, which drops the buffer. Each cache is one output.
                    outputs.push(Some(unsafe { HostBuffer::new(window.as_mut_ptr(), window.len()) }));
                    made.push(None);
                }
                Made::State(_) => {
                    let mut bytes = own()?;
                    outputs.push(Some(buffer(&mut bytes)));
                    made.push(Some(bytes));
                }
                Made::Logits if wants_logits => {
                    let mut bytes = own()?;
                    outputs.push(Some(buffer(&mut bytes)));
                    made.push(Some(bytes));
                }
                Made::Logits | Made::Other => {
                    outputs.push(None);
                    made.push(None);
                }
            }
        }
        let mut inputs = Vec::new();
        for (position, (role, element, descriptor)) in plan.inputs.iter().enumerate() {
            let mut bytes = match role {
                Role::Rows(number) => {
                    let placement = plan.placements.get(position).copied().flatten();
                    let place = placement.and_then(|placement| Some((outputs.get(placement.output)?.as_ref()?, placement)));
                    if let Some((output, placement)) = place
                        && plan.outputs[placement.output].0 == Made::Rows(*number)
                        && placement.first == 0
                    {
                        inputs.push(HostBuffer::in_output(output, placement, descriptor.byte_length()));
                        continue;
                    }
                    // A device that has no part of this memory, or a graph that reads it elsewhere too.
                    let Rows { bytes, row } = &lane.rows[*number];
                    Bytes::copy_of(&bytes[first * row..][..extent.rows * row])?
                }
                Role::State(number) => match lane.states.get(*number) {
                    Some((_, bytes)) if bytes.len() == descriptor.byte_length() => Bytes::copy_of(bytes)?,
                    _ => Bytes::zeroed(descriptor.byte_length())?,
                },
                Role::Extra(number) => Bytes::copy_of(&lane.given[*number].bytes)?,
                _ => bytes(*element, &descriptor.shape, &numbers(*role, &descriptor.shape, tokens, extent.rows, hidden))?,
            };
            inputs.push(buffer(&mut bytes));
            given.push(bytes);
        }
        let run = |done| {
            Task::Compute(Compute {
                graph: plan.graph,
                inputs,
                outputs,
                method: "generate",
                label: String::new(),
                watch: Default::default(),
                done,
            })
        };
        self.program.device.wait_for(run)?;
        drop(given);

        let mut logits = None;
        for ((what, descriptor), bytes) in plan.outputs.iter().zip(made) {
            match (what, bytes) {
                (Made::Logits, Some(bytes)) => logits = Some(last_row(descriptor, &bytes)?),
                (Made::State(number), Some(bytes)) => {
                    let shape = descriptor.shape.to_vec();
                    if lane.states.len() <= *number {
                        lane.states.resize_with(self.caches.states.len(), Default::default);
                    }
                    // A cache of what never changes is there behind the first step, and later steps give something else in its place.
                    let (old, _) = &lane.states[*number];
                    if old.is_empty() || *old == shape {
                        lane.states[*number] = (shape, bytes);
                    }
                }
                _ => {}
            }
        }
        lane.tokens.extend_from_slice(tokens);
        if wants_logits && logits.is_none() {
            return Err(Error::new(Kind::NotSupported, format!("found no logits in the output {:?}", self.logits)));
        }
        Ok(logits)
    }
}

/// Memory of ours for a run.
fn buffer(bytes: &mut Bytes) -> HostBuffer {
    let length = bytes.len();
    // SAFETY: the bytes stay where they are, wherever their owner goes, and `Decoder::step` keeps them, untouched, until the run has
    // ended and dropped the buffer.
    unsafe { HostBuffer::new(bytes.as_mut_ptr(), length) }
}

/// The numbers of the last position.
fn last_row(descriptor: &Descriptor, bytes: &[u8]) -> Result<Vec<f32>> {
    let count = descriptor.shape.last().copied().unwrap_or(0) as usize;
    Ok(match descriptor.data_type {
        DataType::Float32 => {
            let bytes = &bytes[bytes.len() - 4 * count..];
            bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
        }
        DataType::Float16 => {
            let bytes = &bytes[bytes.len() - 2 * count..];
            bytes.chunks_exact(2).map(|x| half::f16::from_le_bytes([x[0], x[1]]).to_f32()).collect()
        }
        other => return Err(Error::new(Kind::NotSupported, format!("found logits of {other:?}, allowed float32 or float16"))),
    })
}

/// For whoever shares it.
pub type Shared = Arc<Decoder>;
