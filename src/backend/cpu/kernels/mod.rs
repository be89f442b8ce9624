//! The fast kernels, for what networks spend their time in. Each is made for one step at build time, when shapes and
//! constants are known: sizes are fixed, weights are packed, nothing is decided at dispatch. What has none here runs on the
//! reference kernels. Which of them computes a step is decided by the lists in [`super::dispatch`].

pub mod arg;
pub mod attention;
#[cfg(test)]
mod attention_tests;
mod bits;
mod caches;
mod clamp;
pub mod concat;
pub mod conv;
mod conv_epilogue;
pub mod depthwise;
pub mod depthwise_nchw;
#[cfg(test)]
mod depthwise_nchw_tests;
mod doubles;
pub mod elementwise;
mod epilogue;
mod exact_division;
pub mod expand_depthwise;
#[cfg(test)]
mod expand_depthwise_tests;
pub mod few_outputs;
pub mod first_layer;
mod formulas;
mod functions;
mod gemv;
#[cfg(test)]
mod half_tests;
#[cfg(test)]
mod image_tests;
pub mod integer;
mod isa;
pub mod matmul;
mod memory;
#[cfg(target_arch = "aarch64")]
mod neon;
mod optimization_barrier;
#[cfg(test)]
mod order_tests;
mod packing;
mod panels;
mod plain;
mod pointwise;
pub mod pool;
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
pub mod row_normalization;
pub mod small_groups;
pub mod tall_and_skinny;
mod work_partition;

mod accumulators;
pub mod conv_transpose;
pub mod conv_transpose_nchw;
mod recurrent_cells;
mod row;
pub mod scaled_filter;
#[cfg(test)]
mod scaled_filter_tests;
mod softmax;
pub mod softmax_columns;
#[cfg(test)]
pub mod tests;
mod tile;
mod transform;
mod unrolled_depth;
mod vector;
mod vector_bundle;
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

use memory::{AlignedBuffer, SharedOutput, with_scratch, with_starts};

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
