//! The fast kernels, for what networks spend their time in. Each is made for one step at build time, when shapes and
//! constants are known: sizes are fixed, weights are packed, nothing is decided at dispatch. What has none here runs on the
//! reference kernels. Which of them computes a step is decided by the lists in [`super::dispatch`].

pub mod attention;
#[cfg(test)]
mod attention_tests;
pub mod bands;
#[cfg(test)]
mod bands_tests;
mod bits;
mod caches;
pub mod concat;
pub mod conv;
pub mod depthwise;
pub mod depthwise_planes;
#[cfg(test)]
mod depthwise_planes_tests;
mod division;
mod divisor;
mod doubles;
pub mod elementwise;
mod epilogue;
pub mod few_channels;
mod few_queries;
mod finish;
mod forgotten;
mod formulas;
mod functions;
pub mod grouped;
#[cfg(test)]
mod half_tests;
#[cfg(test)]
mod image_tests;
mod in_line;
pub mod integer;
mod isa;
mod limits;
pub mod lines;
pub mod matmul;
mod memory;
pub mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod order_tests;
mod packing;
mod panels;
mod plain;
pub mod planes;
pub mod pool;
pub mod position;
mod prefetch;
mod product;
pub mod quantize;
pub mod recurrent;
#[cfg(test)]
mod recurrent_tests;
pub mod reduce;
#[cfg(test)]
mod reduce_tests;
pub mod reorder;
pub mod resample;

mod row;
pub mod scaled;
#[cfg(test)]
mod scaled_tests;
mod softmax;
pub mod softmax_columns;
mod span;
mod steps;
#[cfg(test)]
pub mod tests;
mod tile;
mod totals;
mod transform;
pub mod transposed;
pub mod transposed_planes;
mod units;
mod vector;
pub mod winograd;
mod workspace;

use super::dispatch::{Accepted, Build, Built, Implementation, Problem, Reject, Target, TensorDesc, Tuning, require};
#[cfg(test)]
use super::dispatch::{every, first};
use super::view::Arguments;
use crate::graph::OperandId;
pub use caches::Caches;
pub use isa::Isa;
pub use workspace::{Workspaces, budget_beside, divide_budget};

use memory::{Numbers, SharedOutput, with_scratch, with_starts};

/// A kernel made for one step.
pub trait Kernel: std::fmt::Debug + Send + Sync {
    fn run(&self, arguments: &mut Arguments<'_, '_>);

    /// An operand of the output's shape that may lie in the output (see [`Arguments::overwriting`]): each number of it is read
    /// once, before the one at its place is written.
    fn overwrites(&self) -> Option<OperandId> {
        None
    }

    /// Bytes that it holds: packed constants.
    fn bytes(&self) -> usize {
        0
    }
}
