//! The fast kernels, for what networks spend their time in. Each is made for one step at build time, when shapes and
//! constants are known: sizes are fixed, weights are packed, nothing is decided at dispatch. What has none here runs on the
//! reference kernels. Which of them computes a step is decided by the lists in [`super::dispatch`].

pub mod arg;
pub mod attention;
mod attention_lines;
#[cfg(test)]
mod attention_tests;
pub mod bf16;
pub mod block_quantized;
pub mod concat;
pub mod conv;
mod conv_epilogue;
#[cfg(test)]
mod depth_tests;
pub mod depthwise;
pub mod elementwise;
mod epilogue;
pub mod expand_depthwise;
#[cfg(test)]
mod expand_depthwise_tests;
pub mod expert_matmul;
pub mod few_outputs;
pub mod first_layer;
mod functions;
#[cfg(test)]
mod half_tests;
#[cfg(test)]
mod image_tests;
pub mod integer;
pub mod linear_attention;
pub mod matmul;
mod memory;
#[cfg(test)]
mod order_tests;
mod panels;
#[cfg(test)]
mod pause_tests;
mod plain;
pub mod pool;
mod product;
pub mod quantize;
pub mod quantize_lines;
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
mod stored;
#[cfg(test)]
mod subnormal_tests;
pub mod tall_and_skinny;
mod work_partition;

pub mod conv_transpose;
pub mod conv_transpose_nchw;
pub mod scaled_filter;
#[cfg(test)]
mod scaled_filter_tests;
pub mod softmax_columns;
#[cfg(test)]
pub mod tests;
pub mod winograd;
mod workspace;

use webnn_kernels::conv::pointwise;
use webnn_kernels::epilogue::clamp;
use webnn_kernels::functions::{exact_division, formulas};
use webnn_kernels::gemm::{gemv, packing};
use webnn_kernels::simd::prefetch;
use webnn_kernels::winograd::transform;

use super::dispatch::{Accepted, Build, Built, Constant, Implementation, Numbers, Problem, Reject, Target, TensorDesc, require};
#[cfg(test)]
use super::dispatch::{every, first};
use super::view::Arguments;
use crate::graph::OperandId;
pub use functions::{is_always_fused, is_quick};
use smallvec::SmallVec;
pub use webnn_kernels::caches::Caches;
pub use webnn_kernels::isa::Isa;
use webnn_kernels::subnormals::Subnormals;
pub use workspace::{Workspaces, budget_beside, divide_budget};

use memory::{AlignedBuffer, with_scratch, with_starts};
use webnn_kernels::output::SharedOutput;

/// What a kernel loads from bfloat16, and whether it stores its output so.
#[derive(Clone, Debug, Default)]
pub struct Bf16Support {
    pub loads: SmallVec<[OperandId; 2]>,
    /// Those of them that it would round itself.
    pub rounds: SmallVec<[OperandId; 2]>,
    /// Those of them that it widens to other memory first, and not in registers.
    pub widens: SmallVec<[OperandId; 2]>,
    pub stores: bool,
    /// Whether it rounds its output from other memory, and not in registers.
    pub rounds_output: bool,
}

impl dyn Kernel + '_ {
    /// Does the step.
    pub fn compute(&self, arguments: &mut Arguments<'_, '_>) {
        let _until_it_ends = self.subnormals().begin();
        self.run(arguments);
    }
}

/// A kernel made for one step.
pub trait Kernel: std::fmt::Debug + Send + Sync {
    /// What [`Kernel::run`] is, with the [`Kernel::subnormals`] of its thread and of those that it divides its work among: call
    /// `compute`.
    fn run(&self, arguments: &mut Arguments<'_, '_>);

    /// What becomes of subnormal numbers in it. Flushed where sums of products are most of the work, whose error that bounds
    /// ([`webnn_kernels::subnormals`]); exact where an operator of one element is (`epilogue` sees to those that follow a product), where
    /// a root or a quotient makes much of little, and where numbers are only moved and compared.
    fn subnormals(&self) -> Subnormals {
        Subnormals::Exact
    }

    /// An operand of the output's shape that may lie in the output (see [`Arguments::overwriting`]): each number of it is read
    /// once, before the one at its place is written.
    fn overwrites(&self) -> Option<OperandId> {
        None
    }

    /// What may lie in memory as bfloat16, two numbers in 32 bits ([`View::is_narrow`](super::view::View::is_narrow)): it computes in float32
    /// with what it loads, and rounds what it stores.
    fn bf16_support(&self) -> Bf16Support {
        Bf16Support::default()
    }

    /// How many times as fast as in float32 it multiplies, about: more than once by way of bfloat16 ([`bf16::speed_of`]).
    fn speed(&self) -> usize {
        1
    }

    /// Says which operands are [`hiding`](crate::graph::Graph::hiding), before the first run.
    fn hide(&mut self, _hides: &dyn Fn(OperandId) -> bool) {}

    /// Bytes that it holds: packed constants.
    fn bytes(&self) -> usize {
        0
    }
}
