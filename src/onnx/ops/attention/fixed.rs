//! Caches of a fixed size: what is new is written into them, and only the rows that count are looked at.

use super::{add_bias, bias_of_mask};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::scatter::ScatterElements;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;

/// The rows of a cache [batch, heads, size, head size] that are looked at: the first ones, where it is known how many the longest sequence
/// has, and zeros in the place of those after the last position [batch, 1, 1, 1] of a sequence. Nobody promises that they are numbers.
pub fn filled(cache: OperandId, last: OperandId, longest: Option<u32>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let rows = match longest {
        Some(longest) => emit.slice_axis(cache, 2, 0, longest)?,
        None => cache,
    };
    // The only sequence is the longest.
    if longest.is_some() && emit.shape(last)[0] == 1 {
        return Ok(rows);
    }
    let positions = emit.positions(DataType::Int32, 4, 2, emit.shape(rows)[2])?;
    let counts = emit.logical(LogicalKind::LesserOrEqual, positions, last)?;
    let zero = emit.scalar(emit.data_type(rows), 0.0)?;
    emit.select(counts, rows, zero)
}

/// Where so many new rows begin in a cache of that size, which must have room for them.
pub fn room(begin: OperandId, size: u32, new: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let Some(last) = size.checked_sub(new) else { return Err(format!("{new} new rows for a cache of {size}").into()) };
    emit.within(begin, &[last + 1], Negative::Outside)
}

/// A cache [batch, heads, size, head size] with what is new from `begin` [batch, 1, 1, 1] on.
pub fn written(input: OperandId, new: OperandId, begin: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(new);
    let positions = emit.positions(DataType::Int32, 4, 2, shape[2])?;
    let places = emit.add(positions, begin)?;
    let indices = emit.expand(places, &shape)?;
    emit.push(ScatterElements { input, indices, updates: new, axis: 2 })
}

/// Caches of a fixed size [batch, heads, size, head size], into which new rows are written after those that count. The model says how many
/// count in all sequences alike.
pub struct SharedBufferCaches {
    /// [batch, 1, 1, 1]: how many rows count before, and the last position that counts.
    begin: OperandId,
    last: OperandId,
    /// The input `cache_indirection` [batch / beams, beams, size]: of which beam of the same sequence each row is.
    beams: Option<OperandId>,
}

impl SharedBufferCaches {
    /// `length` and `beams`: the positions of these inputs; `new` rows are written.
    pub fn of(
        node: &Node<'_>,
        [length, beams]: [usize; 2],
        batch: u32,
        new: u32,
        emit: &mut Emit<'_>,
    ) -> Mapped<SharedBufferCaches> {
        let length = emit.input(node, length)?;
        if emit.shape(length).iter().product::<u32>() != 1 {
            return Err(format!("past_sequence_length of shape {:?}, allowed one element", emit.shape(length)).into());
        }
        let length = emit.cast(length, DataType::Int32)?;
        let length = emit.reshape(length, &[1, 1, 1, 1])?;
        let beams = emit.optional(node, beams)?;
        if let Some(beams) = beams {
            let shape = emit.shape(beams);
            if !matches!(shape[..], [sequences, width, _] if u64::from(sequences) * u64::from(width) == u64::from(batch)) {
                return Err(
                    format!("cache_indirection of shape {shape:?}, allowed [batch, beams, size] for {batch} of both").into()
                );
            }
        }
        let begin = emit.expand(length, &[batch, 1, 1, 1])?;
        Ok(SharedBufferCaches { begin, last: emit.with(BinaryKind::Add, begin, f64::from(new) - 1.0)?, beams })
    }

    pub fn written(&self, past: OperandId, new: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let (shape, of_new) = (emit.shape(past), emit.shape(new));
        if shape.len() != 4 || [shape[0], shape[1], shape[3]] != [of_new[0], of_new[1], of_new[3]] {
            let [batch, heads, _, width] = of_new[..] else { return Err("keys whose rank is not 4".into()) };
            return Err(format!("a cache of shape {shape:?}, allowed [{batch}, {heads}, size, {width}]").into());
        }
        let begin = room(self.begin, shape[2], of_new[2], emit)?;
        written(past, new, begin, emit)
    }

    /// Those that are looked at.
    pub fn rows(&self, present: OperandId, longest: Option<u32>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let mut cache = present;
        if let Some(beams) = self.beams {
            let (shape, of_beams) = (emit.shape(present), emit.shape(beams));
            let [batch, heads, size, width] = shape[..] else { return Err("a cache whose rank is not 4".into()) };
            let [sequences, count, named] = of_beams[..] else { return Err("cache_indirection whose rank is not 3".into()) };
            if named != size {
                return Err(format!("cache_indirection of {named} rows for caches of {size}").into());
            }
            let apart = emit.reshape(present, &[sequences, count, heads, size, width])?;
            // What is new is of the beam itself.
            let own = emit.positions(DataType::Int32, 3, 1, count)?;
            let positions = emit.positions(DataType::Int32, 3, 2, size)?;
            let begin = emit.slice_axis(self.begin, 0, 0, 1)?;
            let begin = emit.reshape(begin, &[1, 1, 1])?;
            let is_old = emit.logical(LogicalKind::Lesser, positions, begin)?;
            let beams = emit.cast(beams, DataType::Int32)?;
            let own = emit.expand(own, &[sequences, count, size])?;
            // Nobody promises what the others are.
            let beams = emit.select(is_old, beams, own)?;
            let beams = emit.within(beams, &[count], Negative::Outside)?;
            let beams = emit.reshape(beams, &[sequences, count, 1, size, 1])?;
            let indices = emit.expand(beams, &[sequences, count, heads, size, width])?;
            let picked = emit.push(GatherElements { input: apart, indices, axis: 1 })?;
            cache = emit.reshape(picked, &[batch, heads, size, width])?;
        }
        filled(cache, self.last, longest, emit)
    }

    /// Adds to a bias of scores what hides the rows after the last one that counts from all queries, or, of so many causal queries, those
    /// after its own from each.
    pub fn hide(
        &self,
        bias: Option<OperandId>,
        (keys, causal): (u32, Option<u32>),
        of: DataType,
        emit: &mut Emit<'_>,
    ) -> Mapped<Option<OperandId>> {
        let positions = emit.positions(DataType::Int32, 4, 3, keys)?;
        let last = match causal {
            Some(queries) => {
                let queries = emit.positions(DataType::Int32, 4, 2, queries)?;
                emit.add(queries, self.begin)?
            }
            None => self.last,
        };
        let sees = emit.logical(LogicalKind::LesserOrEqual, positions, last)?;
        let of_lengths = bias_of_mask(sees, of, emit)?;
        add_bias(bias, of_lengths, emit)
    }
}
