//! Indices that a node is given. ONNX calls one outside of its axis an error, where WebNN's operators clamp it: what is known at import is
//! looked at here, the rest when the graph runs ([`CheckIndices`]).

use super::emit::Emit;
use super::node::Node;
use super::refusal::Mapped;
use crate::graph::data_type::INDEX;
use crate::graph::ops::check::{CheckIndices, outside};
use crate::graph::ops::movement::Expand;
use crate::graph::{DataType, Op, OperandId};

/// Whether an index may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// It counts from the end.
    FromEnd,
    Outside,
}

impl Emit<'_> {
    /// An input of indices into dimensions of these sizes: one for all, or one for each coordinate in the last dimension. In a type that
    /// WebNN's operators take.
    pub fn indices(&mut self, node: &Node<'_>, position: usize, sizes: &[u32], negative: Negative) -> Mapped<OperandId> {
        let value = node.input(position)?;
        let Some(tensor) = value.constant() else {
            let indices = self.input(node, position)?;
            let indices = self.within(indices, sizes, negative)?;
            return self.as_indices(indices);
        };
        let from_end = negative == Negative::FromEnd;
        if !sizes.is_empty()
            && let Some(outside) = outside(tensor.integers(), sizes, from_end)
        {
            return Err(format!("input {position}: {}", outside.describe(&tensor.shape, from_end)).into());
        }
        let indices = self.input(node, position)?;
        self.as_indices(indices)
    }

    /// Has a run fail where one of the indices is outside.
    pub fn within(&mut self, indices: OperandId, sizes: &[u32], negative: Negative) -> Mapped<OperandId> {
        // Coordinates of no dimensions.
        if sizes.is_empty() || !self.data_type(indices).is_integer() {
            return Ok(indices);
        }
        // What is repeated is checked once.
        if let (Some(Op::Expand(Expand { input, new_shape })), [_]) = (self.builder.operator_of(indices).cloned(), sizes) {
            let input = self.within(input, sizes, negative)?;
            return self.expand(input, &new_shape);
        }
        self.push(CheckIndices { indices, sizes: sizes.to_vec(), from_end: negative == Negative::FromEnd })
    }

    /// Indices in a type that WebNN's operators take. They are within what an int32 has, once they have been checked.
    pub fn as_indices(&mut self, indices: OperandId) -> Mapped<OperandId> {
        if INDEX.contains(self.data_type(indices)) { Ok(indices) } else { self.cast(indices, DataType::Int32) }
    }
}
