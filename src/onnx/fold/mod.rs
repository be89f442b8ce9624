//! What is computed at import: shapes, and what models compute from them.
//!
//! Only small values, and only operators that such computations use. Everything else that is constant becomes nodes over
//! constants, which the compiler folds when it builds the graph. What is computed here is what the graph would compute:
//! integers keep the low bits of exact results, floats are double until they are stored, and dimensions of size 0 are allowed.

mod arithmetic;
mod movement;
#[cfg(test)]
mod tests;

pub use arithmetic::reduce;
pub use movement::{concat, expand, gather, reduced_shape, slice, transpose, triangular};

use super::bounds::Work;
use super::node::Node;
use super::random::Random;
use super::refusal::Mapped;
use super::tensor::Tensor;
use super::value::Value;
use crate::error::Result;
use crate::graph::DataType;
use crate::memory;
use std::collections::HashMap;

/// Values with more elements are left to the compiler.
const MOST_ELEMENTS: usize = 1 << 16;

/// What all folded values of a model may take together: a loop of small steps could ask for any amount.
const MOST_BYTES: usize = 512 << 20;

/// How much has been folded.
#[derive(Debug, Default)]
pub struct Folding {
    bytes: usize,
    work: Work,
    /// When a model runs, where random numbers come from; and its values are as large as they are.
    pub random: Option<Random>,
    /// Whether elements of tables stay nodes: in a graph for all lengths of a cache the places are computed from the length.
    pub keeps_tables: bool,
    /// Constants of the graph that several nodes use.
    pub causal_masks: HashMap<CausalMask, Value>,
}

/// Which keys the queries of an attention see: with `past` keys before the queries, and of a window at most so many, if it is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CausalMask {
    pub of: DataType,
    pub queries: u32,
    pub keys: u32,
    pub past: i64,
    pub window: i64,
}

impl Folding {
    /// As part of an import that may do so much.
    pub fn within(work: Work) -> Folding {
        Folding { work, ..Folding::default() }
    }

    /// The same, and whether elements of tables stay nodes.
    pub fn keeping_tables(self, keeps_tables: bool) -> Folding {
        Folding { keeps_tables, ..self }
    }

    /// Between two parts of a run.
    pub fn at_run(work: Work, random: Random) -> Folding {
        Folding { work, random: Some(random), ..Folding::default() }
    }

    /// Asks for work that has to be done. See [`Work::require`].
    ///
    /// # Errors
    /// As there.
    pub fn require(&mut self, bytes: usize) -> Result<()> {
        self.work.require(bytes)
    }

    /// Whether a value of that shape may be computed now. Empty ones always: no operand can hold them.
    pub fn affords(&mut self, shape: &[usize]) -> bool {
        if shape.contains(&0) {
            return true;
        }
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let most = if self.random.is_some() { MOST_BYTES / 8 } else { MOST_ELEMENTS };
        let Some(count) = count.filter(|&count| count <= most && shape.len() <= 64) else { return false };
        self.charge(count * 8 + 64)
    }

    /// Whether so many bytes may be computed besides, and can be had: as numbers, and as their bytes.
    pub fn charge(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= MOST_BYTES && memory::require(bytes.saturating_mul(3)).is_ok()
    }

    /// Computes an arithmetic node whose inputs are all known. Nothing when it is not to be computed here.
    pub fn evaluate(&mut self, node: &Node<'_>) -> Option<Mapped<Tensor>> {
        if !super::importer::normalized(&node.proto.domain).is_empty() || node.inputs.is_empty() {
            return None;
        }
        if node.operator() == "Clip" {
            return arithmetic::clip(node, self);
        }
        let tensors: Vec<&Tensor> = node.inputs.iter().map(|input| input.as_ref()?.constant()).collect::<Option<_>>()?;
        arithmetic::evaluate(node, &tensors, self)
    }
}
