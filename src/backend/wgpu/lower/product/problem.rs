//! What is multiplied, and how workgroups divide it.

use crate::backend::wgpu::lower::lowering::{Operands, Tensor};
use crate::graph::DataType;

/// Up to so many rows or columns are a few vectors.
pub const FEW: usize = 4;
/// Workgroups that keep a device busy.
pub const BUSY: usize = 512;
/// The least depth that is worth a workgroup of its own.
const LEAST_SHARE: usize = 256;

/// `batches` times `rows` x `depth` times `depth` x `columns`.
pub struct Product<'a> {
    pub label: &'static str,
    pub batches: usize,
    pub rows: usize,
    pub depth: usize,
    pub columns: usize,
    /// Whether what lies side by side in memory follows along the depth, for the left and the right matrix.
    pub by_depth: [bool; 2],
    /// What `functions` read, by name.
    pub reads: Vec<(&'static str, &'a Tensor)>,
    /// `fn left_at(batch: u32, row: u32, k: u32) -> f32`, `fn right_at(batch: u32, k: u32, column: u32) -> f32` and
    /// `fn place(batch: u32, row: u32, column: u32) -> u32`, the output's element. They are called with numbers in range.
    pub functions: String,
    /// The inverse of `place`: an expression of the output's element `i`, a number in the order of batches, rows and columns.
    pub number: String,
    pub end: End<'a>,
}

/// What is done to each sum.
pub struct End<'a> {
    /// What `text` reads, by name.
    pub reads: Vec<(&'static str, &'a Tensor)>,
    /// Statements that change the sum `x` for element `i` of the output.
    pub text: String,
    /// The data type of the operator, and the step, whose fused operators follow.
    pub then: Option<(DataType, &'a Operands)>,
}

/// How workgroups divide the output and the depth.
pub struct Division {
    /// Workgroups, without those that share a depth.
    pub groups: usize,
    /// The part of the depth of each, and how many there are.
    pub share: usize,
    pub shares: usize,
}

impl Division {
    pub fn new(groups: usize, product: &Product<'_>, unit: usize, most_bytes: usize) -> Self {
        let bytes = product.count() * 4;
        let wanted = (BUSY / groups).min(product.depth / LEAST_SHARE).min(most_bytes / bytes.max(1)).max(1);
        let share = product.depth.div_ceil(wanted).next_multiple_of(unit).min(product.depth);
        Division { groups, share, shares: product.depth.div_ceil(share) }
    }
}

impl Product<'_> {
    pub fn count(&self) -> usize {
        self.batches * self.rows * self.columns
    }
}
