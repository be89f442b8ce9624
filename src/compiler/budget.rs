//! How much may be computed while a graph is compiled.

use crate::graph::{Graph, Source};
use std::cell::Cell;

/// A result that is larger than this, and much larger than what it is made from, is not kept: a few nodes could ask for any
/// amount of memory, and repeating values is cheap.
const LARGE: usize = 1 << 20;
pub const GROWTH: usize = 16;
/// Weights are kept all the same, as long as all such results together are no larger than this: kernels are made for
/// constants, and a run would need the memory too.
const WEIGHTS: usize = 1 << 30;
/// All results together are no larger than this and [`GROWTH`] times the constants: each of a chain of nodes could double what
/// the one before it has made.
pub const MOST: usize = 64 << 20;
/// Computing them takes no more operations than this and [`FOR_EACH_BYTE`] for each byte of the constants: a chain of products
/// needs no growing results. Some seconds with reference kernels.
pub const OPERATIONS: usize = 1 << 31;
pub const FOR_EACH_BYTE: usize = 64;

/// What may still be folded. What is above it stays a node, which runs compute.
#[derive(Debug, Default)]
pub struct Budget {
    bytes: Cell<usize>,
    weights: Cell<usize>,
    operations: Cell<usize>,
}

impl Budget {
    /// For a graph with its constants that takes `most` bytes at most.
    pub fn beside(graph: &Graph, most: usize) -> Budget {
        let lengths = graph.operands.iter().map(|operand| match &operand.source {
            Source::Constant(bytes) => bytes.len(),
            _ => 0,
        });
        let known = lengths.fold(0, usize::saturating_add);
        Budget {
            bytes: known.saturating_mul(GROWTH).saturating_add(MOST).min(most).into(),
            weights: WEIGHTS.min(most).into(),
            operations: known.saturating_mul(FOR_EACH_BYTE).saturating_add(OPERATIONS).into(),
        }
    }

    /// Takes so many operations from the budget, if it has them.
    pub fn take_operations(&self, operations: usize) -> bool {
        take(&self.operations, operations)
    }

    /// Takes a result of so many bytes from the budget, if it has them.
    pub fn take_bytes(&self, bytes: usize, operand_bytes: usize, is_weight: bool) -> bool {
        let is_small = bytes <= LARGE.max(operand_bytes.saturating_mul(GROWTH));
        match is_small && bytes <= self.bytes.get() {
            true => take(&self.bytes, bytes),
            false => is_weight && take(&self.weights, bytes),
        }
    }
}

fn take(left: &Cell<usize>, amount: usize) -> bool {
    let rest = left.get().checked_sub(amount);
    left.set(rest.unwrap_or(left.get()));
    rest.is_some()
}
