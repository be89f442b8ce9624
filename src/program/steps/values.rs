//! Results of a model that are kept for its next run: the rows of caches, in memory with room to grow, and states. Whoever has a
//! [`Value`] has the first rows of some memory; a run appends to that memory where nobody has appended before, and else to a copy.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::graph::{DataType, Descriptor};
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Charge, Usage, Use};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows that there is room for at least, and rows of zeros before the first one at least.
const LEAST: usize = 64;

/// Memory that runs write into while others read other parts of it. Rows before the first one are never written, and rows that a
/// [`Value`] has never again.
#[derive(Debug)]
struct Memory(Bytes);

/// Memory of one cache or state.
#[derive(Debug)]
struct Storage {
    /// Bytes of a row; of a state all.
    row: usize,
    state: Mutex<State>,
    usage: Arc<Usage>,
}

#[derive(Debug)]
struct State {
    memory: Arc<Memory>,
    /// Rows of zeros before the first one.
    before: usize,
    /// Rows that there is memory for behind these.
    capacity: usize,
    /// Rows that were written or are being written.
    used: usize,
    _charge: Charge,
}

/// The first rows of some memory, or a state.
#[derive(Clone, Debug)]
pub struct Value {
    storage: Arc<Storage>,
    rows: usize,
    /// Those of them that the run found which made it.
    had: usize,
    /// What its other rows are, if it is a cache of a fixed size; zeros where there is nothing.
    rest: Option<Arc<Rest>>,
    /// What it is for script.
    pub descriptor: Descriptor,
    /// Along which its rows are; nothing for a state, which is one row.
    pub axis: Option<usize>,
}

/// Elements of a cache of a fixed size in script's order, of which those of its rows that are not filled count.
#[derive(Debug)]
pub struct Rest {
    bytes: Bytes,
    _charge: Charge,
}

impl Rest {
    pub fn new(bytes: Bytes, usage: &Arc<Usage>) -> Arc<Rest> {
        let charge = usage.charge(Use::Tensors, bytes.len());
        Arc::new(Rest { bytes, _charge: charge })
    }
}

/// Rows of some memory that one run may write.
#[derive(Debug)]
pub struct Claim {
    storage: Arc<Storage>,
    memory: Arc<Memory>,
    before: usize,
    /// Rows that are there already.
    had: usize,
    new: usize,
    is_kept: bool,
}

impl Storage {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment or leaves what a failure finds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for so many rows, and more.
    fn memory(row: usize, hidden: usize, rows: usize, usage: &Arc<Usage>) -> Result<State> {
        let capacity = (2 * rows).max(LEAST);
        // As many before as any bucket wants.
        let before = hidden.max(capacity / 8).max(LEAST);
        let bytes = Bytes::zeroed((before + capacity) * row)?;
        let charge = usage.charge(Use::Tensors, bytes.len());
        Ok(State { memory: Arc::new(Memory(bytes)), before, capacity, used: 0, _charge: charge })
    }
}

impl Memory {
    fn rows(&self, first: usize, count: usize, row: usize) -> &[u8] {
        assert!((first + count) * row <= self.0.len());
        // SAFETY: within the memory, which lives as long as the slice. Callers ask for rows that nobody writes any more: those before
        // the first one, and those of a value.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(first * row), count * row) }
    }

    /// # Safety
    /// Nobody else may read or write these rows while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the memory is shared by rows")]
    unsafe fn rows_mut(&self, first: usize, count: usize, row: usize) -> &mut [u8] {
        assert!((first + count) * row <= self.0.len());
        // SAFETY: within the memory, and alone by promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr().add(first * row), count * row) }
    }
}

/// Bytes of a row of a value, and how often it is interrupted in script's order: the sizes before the axis.
pub fn strides(descriptor: &Descriptor, axis: usize) -> (usize, usize) {
    let size = |sizes: &[u32]| sizes.iter().map(|&size| size as usize).product::<usize>();
    let outer = size(&descriptor.shape[..axis]);
    let inner = size(&descriptor.shape[axis + 1..]);
    (outer, inner * descriptor.data_type.byte_length(1).unwrap_or(0))
}

/// Whether elements of this type have addresses.
pub fn can_hold(data_type: DataType) -> bool {
    data_type.bits() >= 8
}

impl Value {
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What a cache is behind the first rows.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them.
    pub fn rest(&self, rows: usize) -> Result<Option<Arc<Rest>>> {
        match self.rows == rows {
            true => Ok(self.rest.clone()),
            false => Ok(Some(Rest::new(self.read()?, &self.storage.usage))),
        }
    }

    /// The elements in script's order.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them.
    pub fn read(&self) -> Result<Bytes> {
        let mut bytes = Bytes::zeroed(self.descriptor.byte_length())?;
        self.write_to(false, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the elements in script's order over others, or, where these are what the run found that made this, those of its new rows.
    ///
    /// # Errors
    /// `TypeError` for another number of bytes.
    pub fn write_to(&self, is_past: bool, bytes: &mut [u8]) -> Result<()> {
        let length = self.descriptor.byte_length();
        if bytes.len() != length {
            return Err(Error::argument("outputs", format!("{} bytes", bytes.len()), length));
        }
        let from = if is_past { self.had } else { 0 };
        if let (Some(axis), false) = (self.axis, is_past) {
            let (_, inner) = strides(&self.descriptor, axis);
            let size = self.descriptor.shape[axis] as usize;
            let filled = self.rows * inner;
            for (i, part) in bytes.chunks_exact_mut((size * inner).max(1)).enumerate() {
                match &self.rest {
                    Some(rest) => part[filled..].copy_from_slice(&rest.bytes[i * size * inner..][filled..size * inner]),
                    None => part[filled..].fill(0),
                }
            }
        }
        self.read_rows(from, bytes);
        Ok(())
    }

    /// Writes the elements of the rows from that one on.
    fn read_rows(&self, from: usize, bytes: &mut [u8]) {
        let (memory, before) = {
            let state = self.storage.lock();
            (state.memory.clone(), state.before)
        };
        match self.axis {
            None => bytes.copy_from_slice(memory.rows(0, 1, self.storage.row)),
            Some(axis) => {
                let (outer, inner) = strides(&self.descriptor, axis);
                let rows = memory.rows(before + from, self.rows - from, self.storage.row);
                // Caches of a fixed size have more rows than are filled.
                let size = self.descriptor.shape[axis] as usize;
                for (i, part) in rows.chunks_exact(inner.max(1)).enumerate() {
                    let (row, place) = (from + i / outer, i % outer);
                    bytes[(place * size + row) * inner..][..inner].copy_from_slice(part);
                }
            }
        }
    }

    /// A state, or what script gives as one.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory.
    pub fn state(descriptor: Descriptor, usage: &Arc<Usage>) -> Result<(Value, HostBuffer)> {
        let bytes = Bytes::zeroed(descriptor.byte_length())?;
        let (row, charge) = (bytes.len(), usage.charge(Use::Tensors, bytes.len()));
        let memory = Arc::new(Memory(bytes));
        // SAFETY: the memory is nobody else's before the run that has the buffer has ended: `super::run` gives the value away then,
        // and keeps it until then.
        let buffer = unsafe { HostBuffer::new(memory.0.as_ptr(), row) };
        let state = Mutex::new(State { memory, before: 0, capacity: 1, used: 1, _charge: charge });
        let storage = Arc::new(Storage { row, state, usage: usage.clone() });
        Ok((Value { storage, rows: 1, had: 0, rest: None, descriptor, axis: None }, buffer))
    }

    /// The bytes of a state, for a run that keeps the value.
    pub fn bytes(&self) -> Option<HostBuffer> {
        if self.axis.is_some() {
            return None;
        }
        let state = self.storage.lock();
        // SAFETY: nobody writes a state any more, and whoever runs keeps the value until the run has ended and dropped the buffer. Inputs
        // are only read.
        Some(unsafe { HostBuffer::new(state.memory.0.as_ptr(), self.storage.row) })
    }

    /// Whether it can be what comes before new rows of this descriptor.
    pub fn precedes(&self, descriptor: &Descriptor, axis: usize) -> bool {
        self.axis == Some(axis)
            && self.descriptor.data_type == descriptor.data_type
            && self.descriptor.shape.len() == descriptor.shape.len()
            && self.descriptor.shape.iter().zip(&descriptor.shape).enumerate().all(|(i, (a, b))| i == axis || a == b)
    }
}

/// What a run finds before its new rows.
#[derive(Debug)]
pub enum Past<'a> {
    Nothing,
    /// Its first rows.
    Value(&'a Value),
    /// In script's order.
    Bytes(&'a [u8]),
}

impl Claim {
    /// Room behind the past, of which there are `had` rows, for `new` rows of a cache of this descriptor, with `hidden` rows of zeros
    /// before it.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory.
    pub fn new(
        past: &Past<'_>,
        descriptor: &Descriptor,
        axis: usize,
        hidden: usize,
        had: usize,
        new: usize,
        usage: &Arc<Usage>,
    ) -> Result<Claim> {
        let (outer, inner) = strides(descriptor, axis);
        let row = outer * inner;
        let fresh;
        match past {
            Past::Value(value) => {
                let mut state = value.storage.lock();
                assert!(had <= value.rows);
                // Nobody has appended to these rows, and nobody is about to.
                if state.used == had {
                    if state.before < hidden || state.capacity < had + new {
                        let larger = Storage::memory(row, hidden, had + new, &value.storage.usage)?;
                        // SAFETY: the new memory is nobody else's yet.
                        unsafe { larger.memory.rows_mut(larger.before, had, row) }.copy_from_slice(state.memory.rows(
                            state.before,
                            had,
                            row,
                        ));
                        *state = larger;
                    }
                    state.used = had + new;
                    let (memory, before) = (state.memory.clone(), state.before);
                    return Ok(Claim { storage: value.storage.clone(), memory, before, had, new, is_kept: false });
                }
                fresh = Storage::memory(row, hidden, had + new, usage)?;
                // SAFETY: as above.
                unsafe { fresh.memory.rows_mut(fresh.before, had, row) }.copy_from_slice(state.memory.rows(
                    state.before,
                    had,
                    row,
                ));
            }
            Past::Bytes(bytes) => {
                fresh = Storage::memory(row, hidden, had + new, usage)?;
                // SAFETY: as above.
                let into = unsafe { fresh.memory.rows_mut(fresh.before, had, row) };
                for (i, part) in into.chunks_exact_mut(inner.max(1)).enumerate() {
                    let (row, place) = (i / outer, i % outer);
                    part.copy_from_slice(&bytes[(place * had + row) * inner..][..inner]);
                }
            }
            Past::Nothing => {
                fresh = Storage::memory(row, hidden, new, usage)?;
            }
        }
        let (memory, before) = (fresh.memory.clone(), fresh.before);
        let state = Mutex::new(State { used: had + new, ..fresh });
        let storage = Arc::new(Storage { row, state, usage: usage.clone() });
        Ok(Claim { storage, memory, before, had, new, is_kept: false })
    }

    /// The memory of `hidden` rows of zeros, the past, and the new rows: of which a run writes the new ones.
    pub fn buffer(&self, hidden: usize) -> HostBuffer {
        let Claim { storage, memory, before, had, new, .. } = self;
        let first = (before - hidden) * storage.row;
        let length = (hidden + had + new) * storage.row;
        assert!(first + length <= memory.0.len());
        // SAFETY: within the memory, which the claim keeps; whoever runs keeps the claim until the run has ended. Only its new rows are
        // written, which no other claim has (`used`), and the others have no writer any more: the graph has its input there
        // (`Plan::is_in_place`), so that what it writes begins behind it.
        unsafe { HostBuffer::new(memory.0.as_ptr().add(first), length) }
    }

    /// The past with the new rows, which were written, and what is behind them.
    pub fn value(mut self, descriptor: Descriptor, axis: usize, rest: Option<Arc<Rest>>) -> Value {
        self.is_kept = true;
        Value { rest, storage: self.storage.clone(), rows: self.had + self.new, had: self.had, descriptor, axis: Some(axis) }
    }
}

/// Rows that nobody has may be written again.
impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut state = self.storage.lock();
        if state.used == self.had + self.new {
            state.used = self.had;
        }
    }
}
