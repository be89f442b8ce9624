//! The fast kernels, for what networks spend their time in. Each is made for one step at build time, when shapes and
//! constants are known: sizes are fixed, weights are packed, nothing is decided at dispatch. What has none here runs on the
//! reference kernels.
//!
//! `WEBNN_CPU=reference` leaves all work to the reference kernels; `portable`, `neon`, `avx2` and `avx512` choose the
//! instructions.

mod attention;
#[cfg(test)]
mod attention_tests;
mod bands;
#[cfg(test)]
mod bands_tests;
mod bits;
mod caches;
mod concat;
mod conv;
mod depthwise;
mod depthwise_planes;
#[cfg(test)]
mod depthwise_planes_tests;
mod division;
mod divisor;
mod doubles;
mod elementwise;
mod epilogue;
mod few_channels;
mod few_queries;
mod finish;
mod forgotten;
mod formulas;
mod functions;
mod grouped;
#[cfg(test)]
mod half_tests;
#[cfg(test)]
mod image_tests;
mod in_line;
mod integer;
mod isa;
mod limits;
mod lines;
mod matmul;
mod memory;
mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod order_tests;
mod packing;
mod panels;
mod plain;
mod planes;
mod pool;
mod position;
mod prefetch;
mod product;
mod quantize;
mod recurrent;
#[cfg(test)]
mod recurrent_tests;
mod reduce;
#[cfg(test)]
mod reduce_tests;
mod reorder;
mod resample;
mod room;
mod row;
mod scaled;
#[cfg(test)]
mod scaled_tests;
mod softmax;
mod softmax_columns;
mod span;
mod steps;
#[cfg(test)]
pub mod tests;
mod tile;
mod totals;
mod transform;
mod transposed;
mod transposed_planes;
mod units;
mod vector;
mod winograd;

use super::view::Arguments;
use crate::graph::shape::strides;
use crate::graph::{DataType, Op, OperandId};
pub use caches::Caches;
pub use room::{Offers, divide, room_beside};

use memory::{Numbers, SharedOutput, with_scratch, with_starts};
use smallvec::SmallVec;
use std::sync::OnceLock;

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

/// A kernel, and the operands (by position) that it has taken into itself and does not look at any more.
pub struct Selection {
    pub kernel: Box<dyn Kernel>,
    pub taken: SmallVec<[usize; 2]>,
    /// Whether it does the step's fused operators too.
    pub fuses: bool,
}

/// What is known of a step at build time.
pub struct Site<'a> {
    /// What makes the left operand of the operator (see [`Step::before`](crate::compiler::Step)).
    pub before: &'a [Op],
    /// What dequantizes its operands, when these are integers (see [`Step::dequantized`](crate::compiler::Step)).
    pub dequantized: &'a [Op],
    pub op: &'a Op,
    /// What is done to the output afterwards; that output stands behind the inputs.
    pub fused: &'a [Op],
    pub inputs: &'a [Known<'a>],
    pub output: Known<'a>,
    pub threads: usize,
    pub caches: Caches,
    /// Which of the step's [`offers`] it may have.
    pub offer: Option<usize>,
}

/// What is known of an operand at build time.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub data_type: DataType,
    pub shape: &'a [usize],
    /// The bytes of a constant, aligned.
    pub constant: Option<&'a [u8]>,
    /// Of an operand: dimension i of the shape is dimension `order[i]` in memory. Of the output: dimension i of the shape is
    /// dimension `order[i]` of what the operator makes. Only products have any, and the input of convolutions with few channels.
    pub order: Option<&'a [u32]>,
}

impl<'a> Known<'a> {
    /// The elements of a constant, if it is one of float32.
    fn elements(&self) -> Option<&'a [f32]> {
        self.constant.filter(|_| self.data_type == DataType::Float32).map(bytemuck::cast_slice)
    }

    /// Of an output: the shape that the operator makes, and the distances of elements along its dimensions in memory.
    fn made(&self) -> (Vec<usize>, Vec<usize>) {
        let distances = strides(self.shape);
        let Some(order) = self.order else { return (self.shape.to_vec(), distances) };
        let (mut shape, mut made) = (vec![0; order.len()], vec![0; order.len()]);
        for (i, &dimension) in order.iter().enumerate() {
            shape[dimension as usize] = self.shape[i];
            made[dimension as usize] = distances[i];
        }
        (shape, made)
    }
}

/// The faster ways to compute a step on float32 that take memory beyond its constants, by the shapes of its operands.
pub fn offers(op: &Op, inputs: &[&[usize]], output: &[usize]) -> Offers {
    match op {
        Op::Conv2d(op) if !only_reference() => winograd::offers(op, inputs[op.filter.0 as usize], output),
        _ => Offers::new(),
    }
}

/// The fast kernel for a step, if there is one.
pub fn select(site: &Site<'_>) -> Option<Selection> {
    if only_reference() {
        return None;
    }
    select_for(site, isa::isa())
}

/// The same for a certain instruction set, where the kernel has several.
fn select_for(site: &Site<'_>, isa: &'static isa::Isa) -> Option<Selection> {
    if !site.dequantized.is_empty() {
        return integer::select(site, isa);
    }
    if let Some(conversion) = quantize::select(site, isa) {
        return Some(conversion);
    }
    if let Op::Arg(op) = site.op {
        return position::select(op, site, isa);
    }
    if let Op::Concat(op) = site.op {
        return concat::select(op, site);
    }
    if site.output.data_type != DataType::Float32 {
        let Op::Transpose(op) = site.op else { return None };
        return reorder::select_bytes(op, site, isa);
    }
    if !site.before.is_empty() {
        return attention::select(site, isa)
            .or_else(|| bands::select(site, isa))
            .or_else(|| depthwise_planes::select(site, isa))
            .or_else(|| scaled::select(site, isa));
    }
    match site.op {
        Op::Matmul(op) => matmul::matmul(op, site),
        Op::Gemm(op) => matmul::gemm(op, site),
        // Only pictures lie in another order.
        Op::Conv2d(op) if site.inputs[op.input.0 as usize].order.is_some() => few_channels::select(op, site, isa),
        Op::Conv2d(op) => depthwise::select(op, site, isa)
            .or_else(|| bands::select_several(op, site, isa))
            .or_else(|| depthwise_planes::select(site, isa))
            .or_else(|| planes::select(op, site, isa))
            .or_else(|| grouped::select(op, site, isa))
            .or_else(|| few_channels::select(op, site, isa))
            .or_else(|| winograd::select(op, site, isa))
            .or_else(|| conv::select(op, site, isa)),
        Op::ConvTranspose2d(op) => transposed::select(op, site, isa).or_else(|| transposed_planes::select(op, site, isa)),
        Op::Reduce(op) => reduce::select(op, site, isa),
        Op::Pool2d(op) => pool::select(op, site, isa),
        Op::Transpose(op) => reorder::select(op, site, isa),
        Op::Resample2d(op) => resample::select(op, site, isa),
        Op::Binary(_)
        | Op::Cast(_)
        | Op::Unary(_)
        | Op::Activation(_)
        | Op::Clamp(_)
        | Op::Elu(_)
        | Op::Gate(_)
        | Op::LeakyRelu(_)
        | Op::HardSigmoid(_)
        | Op::Linear(_)
        | Op::Prelu(_)
        | Op::Swish(_) => elementwise::select(site, isa),
        Op::Softmax(_) | Op::LayerNormalization(_) | Op::InstanceNormalization(_) => lines::select(site),
        Op::Lstm(_) | Op::Gru(_) => recurrent::select(site),
        _ => None,
    }
}

/// Whether there are fast kernels at all.
pub fn are_used() -> bool {
    !only_reference()
}

fn only_reference() -> bool {
    static ONLY: OnceLock<bool> = OnceLock::new();
    *ONLY.get_or_init(|| std::env::var("WEBNN_CPU").is_ok_and(|name| name == "reference"))
}
