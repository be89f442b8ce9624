//! What is remembered of a sequence: the rows of its caches, in memory with room to grow, and its states.
#![allow(unsafe_code)]

use super::Decoder;
use super::inputs::{Extent, Extra, Role, Sequence, bytes, numbers};
use super::memory::{Copies, Memory, Rows};
use super::plans::{Feed, Made, Plan};
use crate::error::{Error, Kind, Result};
use crate::graph::{DataType, Descriptor};
use crate::host_memory::{HostBuffer, Placement};
use crate::memory::{Bytes, Charge, Use};
use crate::program::device::{Device, Failures, OwnedTensor};
use crate::timeline::{Compute, GraphId, Operand, Part, Task, Watch};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    /// By state: its shape, and where it is once there is one. It is never written again.
    states: Vec<(Vec<u32>, Option<Arc<Memory>>)>,
    /// What is given for each step.
    pub given: Arc<Vec<Extra>>,
    /// By cache: tensors of the device for steps whose rows do not begin where a graph can have them, for what is read and for what is made.
    spares: HashMap<(usize, bool), Arc<OwnedTensor>>,
    charge: Option<Charge>,
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
            states: self.states.clone(),
            ..Lane::default()
        };
        let device = &decoder.program.device;
        lane.rows = self.room_for(self.room, device)?;
        let mut copies = Copies::default();
        for (rows, old) in lane.rows.iter_mut().zip(&self.rows) {
            rows.take(self.before, old, self.before, self.tokens.len(), &mut copies);
        }
        copies.make(device)?;
        lane.count(decoder);
        Ok(lane)
    }

    /// Memory like that of its rows, with room for so many.
    fn room_for(&self, room: usize, device: &Arc<Device>) -> Result<Vec<Rows>> {
        let failures = Failures::default();
        let all = self.rows.iter().map(|rows| rows.resized(device, room, &failures)).collect::<Result<_>>()?;
        made(device, &failures).map(|()| all)
    }

    fn count(&mut self, decoder: &Decoder) {
        let states = self.states.iter().filter_map(|(_, state)| state.as_deref());
        let bytes = self.rows.iter().map(|rows| &rows.memory).chain(states).map(Memory::host_bytes).sum();
        self.charge = Some(decoder.program.weights.usage().charge(Use::Tensors, bytes));
    }

    /// Makes room for so many rows that are read, and so many behind the sequence's own.
    fn reserve(&mut self, plan: &Plan, read: usize, new: usize, decoder: &Decoder) -> Result<()> {
        let length = self.tokens.len();
        let wanted_before = read.saturating_sub(length);
        let caches = decoder.caches.rows.len();
        if self.rows.len() == caches && self.before >= wanted_before && self.room >= self.before + length + new {
            return Ok(());
        }
        // As many before as any plan wants for as many as there is room for.
        let room = (2 * (length + new)).max(LEAST);
        let before = wanted_before.max(room / 8).max(64);
        let room = before + room;
        let device = &decoder.program.device;
        if self.rows.len() == caches {
            let mut all = self.room_for(room, device)?;
            let mut copies = Copies::default();
            // What was copied goes at once, and what is not touched takes no memory, so that hardly more than what is remembered is there at
            // any time. On a device it is the copy that may fail.
            for (rows, old) in all.iter_mut().zip(&mut self.rows) {
                rows.take(before, old, self.before, length, &mut copies);
                if !device.is_elsewhere() {
                    old.memory = Memory::Host(Bytes::default());
                }
            }
            copies.make(device)?;
            self.rows = all;
        } else {
            let failures = Failures::default();
            let like = |number: usize| plan.outputs.iter().find(|(made, _)| *made == Made::Rows(number)).map(|(_, like)| like);
            let nothing = Descriptor::new(DataType::Uint8, [0]);
            let new = |number: usize| Rows::new(device, like(number).unwrap_or(&nothing), room, &failures);
            let rows = (0..caches).map(new).collect::<Result<_>>()?;
            made(device, &failures)?;
            self.rows = rows;
        }
        (self.before, self.room) = (before, room);
        self.count(decoder);
        Ok(())
    }

    /// A tensor of the device for a cache that a step reads, or makes.
    fn spare(
        &mut self,
        number: usize,
        is_made: bool,
        like: &Descriptor,
        device: &Arc<Device>,
        failures: &Failures,
    ) -> Result<Arc<OwnedTensor>> {
        if let Some(spare) = self.spares.get(&(number, is_made)).filter(|spare| spare.descriptor == *like) {
            return Ok(spare.clone());
        }
        let spare = device.tensor(like, failures)?;
        self.spares.insert((number, is_made), spare.clone());
        Ok(spare)
    }
}

/// Waits for tensors that were asked for.
///
/// # Errors
/// Those of the device.
fn made(device: &Device, failures: &Failures) -> Result<()> {
    if device.is_elsewhere() { device.catch_up().and_then(|()| failures.check()) } else { Ok(()) }
}

impl Decoder {
    /// What steps of so many tokens have in common, at the beginning of a lane or behind it.
    pub(super) fn form(&self, lane: &Lane, tokens: usize, begins: bool) -> Extent {
        let states = lane.states.iter().map(|(shape, _)| shape.clone()).collect();
        let given = lane.given.iter().map(|extra| extra.shape.clone()).collect();
        Extent { tokens, uses_cache: !begins, states, given, ..Extent::default() }
    }

    /// The plan of a step of so many tokens, and what it is for.
    ///
    /// # Errors
    /// As [`Decoder::plan_for`].
    pub(super) fn plan_of(&self, lane: &Lane, tokens: usize) -> Result<(Extent, Arc<Plan>)> {
        let length = lane.tokens.len();
        self.plan_for(&self.form(lane, tokens, length == 0), length)
    }

    /// Whether it remembers what cannot go back to fewer tokens. A lane knows that of itself only behind its first step.
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
        self.roles.inputs.iter().any(|(role, _)| *role == Role::UsesCache)
    }

    /// Has the model see more tokens; the logits behind the last one, if they are wanted.
    ///
    /// # Errors
    /// Those of making a plan and of running it. The lane is as it was before, then.
    pub(super) fn step(&self, lane: &mut Lane, tokens: &[u32], wants_logits: bool, watch: &Watch) -> Result<Option<Vec<f32>>> {
        let (extent, plan) = self.plan_of(lane, tokens.len())?;
        lane.reserve(&plan, extent.rows, tokens.len(), self)?;
        let first = (lane.before + lane.tokens.len()).saturating_sub(extent.rows);
        let window = Window { first, old: extent.rows, new: tokens.len() };
        let mut run = Run::new(&self.program.device);
        // Inputs may lie in outputs.
        self.put_outputs(&mut run, lane, &plan, &window, wants_logits)?;
        self.put_inputs(&mut run, lane, &plan, &window, tokens)?;
        let ended = run.end(plan.graph, watch);
        if ended.is_err() {
            // Their memory may not be there.
            lane.spares.clear();
            lane.given.iter().for_each(Extra::forget);
        }
        let logits = self.remember(lane, &plan, ended?)?;
        lane.tokens.extend_from_slice(tokens);
        if wants_logits && logits.is_none() {
            return Err(Error::new(Kind::NotSupported, format!("found no logits in the output {:?}", self.logits)));
        }
        Ok(logits)
    }

    fn put_outputs(&self, run: &mut Run<'_>, lane: &mut Lane, plan: &Plan, window: &Window, wants_logits: bool) -> Result<()> {
        for (number, (what, descriptor)) in plan.outputs.iter().enumerate() {
            match what {
                Made::Rows(cache) => {
                    let count = window.old + window.new;
                    if descriptor.shape.first() != Some(&(count as u32))
                        || descriptor.byte_length() != count * lane.rows[*cache].row
                    {
                        let text = format!(
                            "the cache {:?} is {descriptor}, not the rows before and the new ones",
                            self.caches.rows[*cache].present
                        );
                        return Err(Error::new(Kind::NotSupported, text));
                    }
                    run.appends(lane, *cache, descriptor, window, plan.appends(*cache, number))?;
                }
                Made::State(_) => run.makes(descriptor)?,
                Made::Logits if wants_logits => run.makes_on_host(descriptor)?,
                Made::Logits => {
                    run.outputs.push(None);
                    run.made.push(None);
                }
            }
        }
        Ok(())
    }

    fn put_inputs(&self, run: &mut Run<'_>, lane: &mut Lane, plan: &Plan, window: &Window, tokens: &[u32]) -> Result<()> {
        let hidden = window.old.saturating_sub(lane.tokens.len());
        let before = lane.tokens.len();
        let (rows, new) = (window.old - hidden, window.new);
        let sequence = Sequence { rows, before, tokens, new, hidden, uses_cache: before > 0 };
        for (position, (feed, descriptor)) in plan.inputs.iter().enumerate() {
            let (role, element) = match feed {
                Feed::Role(role, element) => (role, *element),
                Feed::Told(told) => {
                    let mut bytes = Bytes::zeroed(descriptor.byte_length())?;
                    told.write(hidden, &mut bytes);
                    run.gives(bytes);
                    continue;
                }
            };
            match role {
                Role::Rows(cache) => {
                    let placement = plan.placements.get(position).copied().flatten();
                    let placement = placement.filter(|placement| plan.is_beginning(*cache, *placement));
                    run.reads(lane, *cache, descriptor, window, placement)?;
                }
                Role::State(number) => match lane.states.get(*number).and_then(|(_, state)| state.as_deref()) {
                    Some(Memory::Device(tensor)) if tensor.descriptor.byte_length() == descriptor.byte_length() => {
                        run.inputs.push(run.part(tensor));
                    }
                    Some(Memory::Host(bytes)) if bytes.len() == descriptor.byte_length() => run.gives(Bytes::copy_of(bytes)?),
                    _ => run.gives(Bytes::zeroed(descriptor.byte_length())?),
                },
                Role::Extra(number) if run.device.is_elsewhere() => {
                    let tensor = lane.given[*number].tensor(run.device, descriptor, &run.failures)?;
                    run.inputs.push(run.part(&tensor));
                }
                Role::Extra(number) => run.gives(Bytes::copy_of(&lane.given[*number].bytes)?),
                _ => run.gives(bytes(element, &descriptor.shape, &numbers(*role, &descriptor.shape, &sequence)?)?),
            }
        }
        Ok(())
    }

    /// Keeps the states that a step has made; gives its logits.
    fn remember(&self, lane: &mut Lane, plan: &Plan, made: Vec<Option<Memory>>) -> Result<Option<Vec<f32>>> {
        let mut logits = None;
        for ((what, descriptor), memory) in plan.outputs.iter().zip(made) {
            match (what, memory) {
                (Made::Logits, Some(Memory::Host(bytes))) => logits = Some(last_row(descriptor, &bytes)?),
                (Made::State(number), Some(memory)) => {
                    let shape = descriptor.shape.to_vec();
                    if lane.states.len() <= *number {
                        lane.states.resize_with(self.caches.states.len(), Default::default);
                    }
                    // A cache of what never changes is there behind the first step, and later steps give something else in its place.
                    let (old, _) = &lane.states[*number];
                    if old.is_empty() || *old == shape {
                        lane.states[*number] = (shape, Some(Arc::new(memory)));
                    }
                }
                _ => {}
            }
        }
        Ok(logits)
    }
}

/// The rows of a lane's caches that a step works on.
struct Window {
    /// The first one, in the lane's memory.
    first: usize,
    /// Rows that are read, and rows that are written behind them.
    old: usize,
    new: usize,
}

/// A run of a plan that is put together.
struct Run<'a> {
    device: &'a Arc<Device>,
    failures: Failures,
    inputs: Vec<Operand>,
    outputs: Vec<Option<Operand>>,
    /// By output: memory that is new.
    made: Vec<Option<Memory>>,
    /// What inputs are in: the graph works on the memory of these until the run has ended.
    given: Vec<Bytes>,
    /// Copies on the device that are made before it, and behind it.
    before: Copies,
    behind: Copies,
}

impl<'a> Run<'a> {
    fn new(device: &'a Arc<Device>) -> Run<'a> {
        Run {
            device,
            failures: Failures::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            made: Vec::new(),
            given: Vec::new(),
            before: Copies::default(),
            behind: Copies::default(),
        }
    }

    /// The next output: rows of a cache with new ones behind them. On a device they are where the cache is if the graph
    /// `appends` to what is there and can have it where the window begins; else in a spare, of which the new ones are copied.
    fn appends(&mut self, lane: &mut Lane, cache: usize, descriptor: &Descriptor, window: &Window, appends: bool) -> Result<()> {
        let row = lane.rows[cache].row;
        let here = lane.rows[cache].part(window.first).filter(|_| appends);
        let output = match (&mut lane.rows[cache].memory, here) {
            (Memory::Host(bytes), _) => {
                let bytes = &mut bytes[window.first * row..][..descriptor.byte_length()];
                // SAFETY: a part of the lane's memory, which stays where it is and is borrowed by `step` until the run has ended, which
                // drops the buffer. Each cache is one output.
                Operand::Host(unsafe { HostBuffer::new(bytes.as_mut_ptr(), bytes.len()) })
            }
            (Memory::Device(_), Some(part)) => Operand::Part(part),
            (Memory::Device(tensor), None) => {
                let (old, rows) = (window.old * row, tensor.clone());
                let spare = lane.spare(cache, true, descriptor, self.device, &self.failures)?;
                self.behind.add((&spare, old), (&rows, window.first * row + old), window.new * row);
                self.part(&spare)
            }
        };
        self.outputs.push(Some(output));
        self.made.push(None);
        Ok(())
    }

    /// The next input: rows of a cache. They lie at the beginning of an output if `placement` says so, and are copied else.
    fn reads(
        &mut self,
        lane: &mut Lane,
        cache: usize,
        descriptor: &Descriptor,
        window: &Window,
        placement: Option<Placement>,
    ) -> Result<()> {
        let Rows { memory, row, .. } = &lane.rows[cache];
        let (from, length) = (window.first * row, window.old * row);
        let output = placement.and_then(|placement| Some((self.outputs.get(placement.output)?.as_ref()?, placement)));
        match (memory, output) {
            (Memory::Host(_), Some((Operand::Host(output), placement))) if !self.device.is_elsewhere() => {
                let input = HostBuffer::in_output(output, placement, descriptor.byte_length());
                self.inputs.push(Operand::Host(input));
            }
            // A graph that reads it elsewhere too.
            (Memory::Host(bytes), _) => self.gives(Bytes::copy_of(&bytes[from..][..length])?),
            // Where the rows are, or in the spare that stands in for them.
            (Memory::Device(tensor), Some((&Operand::Part(part), _))) => {
                if let Some(spare) = lane.spares.get(&(cache, true)).filter(|spare| spare.id == part.tensor) {
                    self.before.add((tensor, from), (spare, 0), length);
                }
                self.inputs.push(Operand::Part(part));
            }
            (Memory::Device(tensor), _) => {
                let tensor = tensor.clone();
                let spare = lane.spare(cache, false, descriptor, self.device, &self.failures)?;
                self.before.add((&tensor, from), (&spare, 0), length);
                self.inputs.push(self.part(&spare));
            }
        }
        Ok(())
    }

    fn part(&self, tensor: &OwnedTensor) -> Operand {
        Operand::Part(Part { tensor: tensor.id, first: 0 })
    }

    /// The next input.
    fn gives(&mut self, mut bytes: Bytes) {
        self.inputs.push(Operand::Host(buffer(&mut bytes)));
        self.given.push(bytes);
    }

    /// The next output, in memory that is new.
    fn makes(&mut self, descriptor: &Descriptor) -> Result<()> {
        if !self.device.is_elsewhere() {
            return self.makes_on_host(descriptor);
        }
        let tensor = self.device.tensor(descriptor, &self.failures)?;
        self.outputs.push(Some(self.part(&tensor)));
        self.made.push(Some(Memory::Device(tensor)));
        Ok(())
    }

    /// The next output, which the host is to have.
    fn makes_on_host(&mut self, descriptor: &Descriptor) -> Result<()> {
        let mut bytes = Bytes::zeroed(descriptor.byte_length())?;
        self.outputs.push(Some(Operand::Host(buffer(&mut bytes))));
        self.made.push(Some(Memory::Host(bytes)));
        Ok(())
    }

    /// Waits for its end; gives the memory that is new.
    fn end(self, graph: GraphId, watch: &Watch) -> Result<Vec<Option<Memory>>> {
        let Run { device, failures, inputs, outputs, made, given, before, behind } = self;
        let run = |done| {
            Task::Compute(Compute {
                graph,
                inputs,
                outputs,
                method: "generate",
                label: String::new(),
                watch: watch.clone(),
                done,
            })
        };
        let ended = before.make(device).and_then(|()| device.wait_for(run));
        drop(given);
        // What was asked for before is known by now, and why it failed is worth more.
        failures.check().and(ended)?;
        behind.make(device)?;
        Ok(made)
    }
}

/// Memory of ours for a run.
fn buffer(bytes: &mut Bytes) -> HostBuffer {
    let length = bytes.len();
    // SAFETY: the bytes stay where they are, wherever their owner goes, and `Run` keeps them, untouched, until the run has ended
    // and dropped the buffer.
    unsafe { HostBuffer::new(bytes.as_mut_ptr(), length) }
}

/// The numbers of the last position of the one sequence.
fn last_row(descriptor: &Descriptor, bytes: &[u8]) -> Result<Vec<f32>> {
    let refuse = |found: String| Error::new(Kind::NotSupported, format!("found logits {found}"));
    let is_float = matches!(descriptor.data_type, DataType::Float32 | DataType::Float16);
    let width = descriptor.data_type.byte_length(1).filter(|_| is_float);
    let width = width.ok_or_else(|| refuse(format!("of {}, allowed float32 or float16", descriptor.data_type)))?;
    let sequences: usize = descriptor.shape.iter().rev().skip(2).map(|&size| size as usize).product();
    let length = descriptor.shape.last().map_or(0, |&count| count as usize * width);
    let first = bytes.len().checked_sub(length).filter(|_| length > 0 && sequences == 1);
    let first = first.ok_or_else(|| refuse(format!("of shape {:?}, allowed those of one sequence", descriptor.shape)))?;
    Ok(match descriptor.data_type {
        DataType::Float32 => bytes[first..].chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect(),
        _ => bytes[first..].chunks_exact(2).map(|x| half::f16::from_le_bytes([x[0], x[1]]).to_f32()).collect(),
    })
}

/// For whoever shares it.
pub type Shared = Arc<Decoder>;
