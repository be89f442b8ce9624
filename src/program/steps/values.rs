//! Results of a model that are kept for its next run, as script has them: the rows of caches, and states.
#![allow(unsafe_code)]

use crate::error::{Error, Result};
use crate::graph::{DataType, Descriptor};
use crate::memory::{Bytes, Charge, Usage, Use};
use crate::program::caches::{HostMemory, Memory, Rows};
use std::sync::Arc;

/// A cache or a state of a sequence.
#[derive(Clone, Debug)]
pub struct Value {
    stored: Stored,
    /// What it is for script.
    pub descriptor: Descriptor,
}

#[derive(Clone, Debug)]
enum Stored {
    Cache {
        rows: Rows,
        /// Those of them that the run found which made it.
        had: usize,
        /// The axis that the rows have for script.
        axis: usize,
        /// What its other rows are, if it is a cache of a fixed size; zeros where there is nothing.
        rest: Option<Arc<Rest>>,
    },
    /// A cache of a batch, each sequence of which has rows of its own; what is after these is zeros.
    Sequences {
        rows: Vec<Rows>,
        /// As above, of each.
        had: Vec<usize>,
        axis: usize,
    },
    State(Arc<Memory>),
}

/// Elements of a cache of a fixed size in script's order, of which those of its rows that are not filled count.
#[derive(Debug)]
pub struct Rest {
    bytes: Bytes,
    _charge: Charge,
}

impl Rest {
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold it.
    pub fn new(bytes: Bytes, usage: &Arc<Usage>) -> Result<Arc<Rest>> {
        let charge = usage.reserve(Use::Caches, bytes.len())?;
        Ok(Arc::new(Rest { bytes, _charge: charge }))
    }
}

/// The order of a cache's elements for script: a row is interrupted `outer` times, in parts of `inner` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub outer: usize,
    pub inner: usize,
}

impl Order {
    pub fn of(descriptor: &Descriptor, axis: usize) -> Order {
        let size = |sizes: &[u32]| sizes.iter().map(|&size| size as usize).product::<usize>();
        let inner = size(&descriptor.shape[axis + 1..]) * descriptor.data_type.byte_length(1).unwrap_or(0);
        Order { outer: size(&descriptor.shape[..axis]), inner }
    }

    /// Writes rows from that one on into a cache of so many rows.
    fn write(self, rows: &[u8], from: usize, size: usize, cache: &mut [u8]) {
        let Order { outer, inner } = self;
        for (i, part) in rows.chunks_exact(inner.max(1)).enumerate() {
            let (row, place) = (from + i / outer, i % outer);
            cache[(place * size + row) * inner..][..inner].copy_from_slice(part);
        }
    }

    /// Reads the rows of a cache that has so many.
    pub fn read(self, cache: &[u8], size: usize, rows: &mut [u8]) {
        let Order { outer, inner } = self;
        for (i, part) in rows.chunks_exact_mut(inner.max(1)).enumerate() {
            let (row, place) = (i / outer, i % outer);
            part.copy_from_slice(&cache[(place * size + row) * inner..][..inner]);
        }
    }
}

/// Whether elements of this type have addresses.
pub fn can_hold(data_type: DataType) -> bool {
    data_type.bits() >= 8
}

impl Value {
    /// A cache whose first `had` rows the run found that made it.
    pub fn cache(rows: Rows, had: usize, descriptor: Descriptor, axis: usize, rest: Option<Arc<Rest>>) -> Value {
        Value { stored: Stored::Cache { rows, had, axis, rest }, descriptor }
    }

    /// The same of sequences, each of which has rows of its own.
    pub fn sequences(rows: Vec<Rows>, had: Vec<usize>, descriptor: Descriptor, axis: usize) -> Value {
        Value { stored: Stored::Sequences { rows, had, axis }, descriptor }
    }

    pub fn state(memory: Memory, descriptor: Descriptor) -> Value {
        Value { stored: Stored::State(Arc::new(memory)), descriptor }
    }

    /// What script gives as a state.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory.
    pub fn state_of(bytes: &[u8], descriptor: Descriptor, usage: &Arc<Usage>) -> Result<Value> {
        Ok(Value::state(Memory::Host(HostMemory::new(Bytes::copy_of(bytes)?, usage)?), descriptor))
    }

    /// The memory of a state.
    pub fn memory(&self) -> Option<&Arc<Memory>> {
        match &self.stored {
            Stored::State(memory) => Some(memory),
            Stored::Cache { .. } | Stored::Sequences { .. } => None,
        }
    }

    /// Whether others of this descriptor can come after the rows.
    fn is_like(&self, descriptor: &Descriptor, axis: usize) -> bool {
        let own = &self.descriptor;
        own.data_type == descriptor.data_type
            && own.shape.len() == descriptor.shape.len()
            && own.shape.iter().zip(&descriptor.shape).enumerate().all(|(i, (a, b))| i == axis || a == b)
    }

    /// The rows of each sequence, if there are as many as are wanted of each, and others of this descriptor can come after them.
    pub fn rows_of_sequences(&self, wanted: &[usize], descriptor: &Descriptor, axis: usize) -> Option<Vec<Rows>> {
        match &self.stored {
            Stored::Sequences { rows, axis: own, .. } if *own == axis && self.is_like(descriptor, axis) => {
                let has_all = rows.len() == wanted.len() && rows.iter().zip(wanted).all(|(rows, &wanted)| rows.count() >= wanted);
                has_all.then(|| rows.clone())
            }
            _ => None,
        }
    }

    /// The rows, if there are so many and others of this descriptor can come after them.
    pub fn rows_before(&mut self, had: usize, descriptor: &Descriptor, axis: usize) -> Option<&mut Rows> {
        let is_like = self.is_like(descriptor, axis);
        match &mut self.stored {
            Stored::Cache { rows, axis: own, .. } if is_like && *own == axis && rows.count() >= had => Some(rows),
            _ => None,
        }
    }

    /// What a cache is after the first rows.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them; those of a device that has them.
    pub fn rest(&self, count: usize) -> Result<Option<Arc<Rest>>> {
        match &self.stored {
            Stored::Cache { rows, rest, .. } if rows.count() == count => Ok(rest.clone()),
            Stored::Cache { rows, .. } => Ok(Some(Rest::new(self.read()?, rows.usage())?)),
            // Zeros.
            Stored::Sequences { .. } | Stored::State(_) => Ok(None),
        }
    }

    /// The elements in script's order. Waits for a device that has them.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them; those of the device.
    pub fn read(&self) -> Result<Bytes> {
        let mut bytes = Bytes::zeroed(self.descriptor.byte_length())?;
        self.write_to(false, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the elements in script's order over others, or, where these are what the run found that made this, those of its new rows.
    ///
    /// # Errors
    /// `TypeError` for another number of bytes; those of a device that has them.
    pub fn write_to(&self, is_past: bool, bytes: &mut [u8]) -> Result<()> {
        let length = self.descriptor.byte_length();
        if bytes.len() != length {
            return Err(Error::argument("outputs", format!("{} bytes", bytes.len()), length));
        }
        match &self.stored {
            Stored::State(memory) => match &**memory {
                // SAFETY: nobody writes a state any more.
                Memory::Host(memory) => bytes.copy_from_slice(unsafe { memory.part(0, length) }),
                Memory::Device(tensor) => bytes.copy_from_slice(&tensor.read()?),
            },
            Stored::Cache { rows, had, axis, rest } => {
                let order = Order::of(&self.descriptor, *axis);
                // Caches of a fixed size have more rows than are filled.
                let size = self.descriptor.shape[*axis] as usize;
                if !is_past {
                    write_rest(rest.as_deref(), rows.count() * order.inner, size * order.inner, bytes);
                }
                let from = if is_past { *had } else { 0 };
                rows.read(from, |rows| order.write(rows, from, size, bytes))?;
            }
            Stored::Sequences { rows, had, axis } => {
                // The parts of one sequence.
                let Order { outer, inner } = Order::of(&self.descriptor, *axis);
                let order = Order { outer: outer / rows.len().max(1), inner };
                let size = self.descriptor.shape[*axis] as usize;
                if !is_past {
                    bytes.fill(0);
                }
                let parts = bytes.chunks_exact_mut((size * order.outer * inner).max(1));
                rows.iter().zip(had).zip(parts).try_for_each(|((rows, &had), part)| {
                    let from = if is_past { had } else { 0 };
                    rows.read(from, |rows| order.write(rows, from, size, part))
                })?;
            }
        }
        Ok(())
    }
}

/// Writes what is after the filled part of each `whole` bytes.
fn write_rest(rest: Option<&Rest>, filled: usize, whole: usize, bytes: &mut [u8]) {
    for (i, part) in bytes.chunks_exact_mut(whole.max(1)).enumerate() {
        match rest {
            Some(rest) => part[filled..].copy_from_slice(&rest.bytes[i * whole..][filled..whole]),
            None => part[filled..].fill(0),
        }
    }
}
