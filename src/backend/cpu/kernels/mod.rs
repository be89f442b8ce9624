//! The fast kernels, for what networks spend their time in. Each is made for one step at build time, when shapes and
//! constants are known: sizes are fixed, weights are packed, nothing is decided at dispatch. What has none here runs on the
//! reference kernels.
//!
//! `WEBNN_CPU=reference` leaves all work to the reference kernels; `portable`, `avx2` and `avx512` choose the instructions.

mod conv;
mod depthwise;
mod elementwise;
mod epilogue;
mod functions;
mod isa;
mod lines;
mod matmul;
#[cfg(test)]
mod order_tests;
mod packing;
mod product;
mod recurrent;
#[cfg(test)]
mod recurrent_tests;
#[cfg(test)]
mod tests;
mod units;

use super::scratch;
use super::view::Arguments;
use crate::graph::{DataType, Op};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::LocalKey;

/// A kernel made for one step.
pub trait Kernel: std::fmt::Debug + Send + Sync {
    fn run(&self, arguments: &mut Arguments<'_, '_>);

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
    pub op: &'a Op,
    /// What is done to the output afterwards; that output stands behind the inputs.
    pub fused: &'a [Op],
    pub inputs: &'a [Known<'a>],
    pub output: Known<'a>,
    pub threads: usize,
}

/// What is known of an operand at build time.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub data_type: DataType,
    pub shape: &'a [usize],
    /// The bytes of a constant, aligned.
    pub constant: Option<&'a [u8]>,
    /// Of an operand: dimension i of the shape is dimension `order[i]` in memory. Of the output: dimension i of the shape is
    /// dimension `order[i]` of what the operator makes. Only products have any.
    pub order: Option<&'a [u32]>,
}

impl<'a> Known<'a> {
    /// The elements of a float32 constant.
    fn elements(&self) -> Option<&'a [f32]> {
        self.constant.map(bytemuck::cast_slice)
    }
}

/// The fast kernel for a step, if there is one.
pub fn select(site: &Site<'_>) -> Option<Selection> {
    if only_reference() || site.output.data_type != DataType::Float32 {
        return None;
    }
    match site.op {
        Op::Matmul(op) => matmul::matmul(op, site),
        Op::Gemm(op) => matmul::gemm(op, site),
        Op::Conv2d(op) => depthwise::select(op, site).or_else(|| conv::select(op, site)),
        Op::Binary(_) | Op::Unary(_) | Op::Activation(_) | Op::Clamp(_) => elementwise::select(site),
        Op::Softmax(_) | Op::LayerNormalization(_) => lines::select(site),
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

/// Calls `body` with memory for packing, which the thread keeps for the next time. The contents are whatever was there.
///
/// # Panics
/// When the memory cannot be had, which becomes an error of the dispatch.
fn with_scratch<R>(length: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local!(static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    with_memory(&SCRATCH, length, body)
}

/// The same beside [`with_scratch`].
fn with_second_scratch<R>(length: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local!(static SCRATCH: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    with_memory(&SCRATCH, length, body)
}

fn with_memory<R>(kept: &'static LocalKey<Cell<Vec<f32>>>, length: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    // Taken and put back, since the body may run another kernel's piece on this thread while it waits.
    let mut memory = kept.take();
    if memory.len() < length {
        drop(memory);
        memory = scratch::zeroed(length);
    }
    let result = body(&mut memory[..length]);
    kept.set(memory);
    result
}
