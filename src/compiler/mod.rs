//! A validated graph → a [`Schedule`] that a backend compiles.
//!
//! [`compile`] runs the [`PASSES`] over the graph, and schedules the result. A pass takes a valid graph and leaves a valid graph. Every 16 nodes
//! it asks the backend whether the graph is still wanted ([`Compilation::each`]). All passes read and change a graph by the same methods ([`edit`]).
//!
//! What is known here is true of graphs in general. What a backend has kernels for, and from which size on, is its answer to one trait
//! ([`Capabilities`]).

mod affine;
mod arena;
mod attention;
mod block_quantized;
mod budget;
mod capabilities;
mod channel_scaling;
mod channels_last;
mod common;
mod compilation;
mod conv1d;
mod demand;
mod depthwise;
mod edit;
mod fold;
mod fuse;
mod half_promotion;
mod hoisting;
mod operators;
mod orders;
mod pattern;
mod places;
mod profiled;
mod prologue;
mod prune;
mod quantized;
mod recognise;
mod schedule;
mod simplify;
mod steps;
#[cfg(test)]
pub mod testing;
mod work;

pub use arena::ALIGNMENT;
pub use capabilities::{Capabilities, Filter, Fusing, Preferences};
#[cfg(test)]
pub use half_promotion::rounds;
pub use operators::{RUNNING, after_inputs};
pub use pattern::{Known, Pattern};
pub use profiled::{Written, describe, sources};
pub use schedule::{Check, Place, Read, Schedule, Step, Value, ValueId};
pub use work::{bytes_moved, element_count, multiplications};

use crate::error::Result;
use crate::graph::Graph;
use budget::Budget;
use compilation::Compilation;
use demand::{Demand, bound};

/// Whether a backend wants a pass.
type When = fn(&Preferences) -> bool;
type Pass = fn(&mut Graph, &Compilation<'_>) -> Result<()>;

const ALWAYS: When = |_| true;
const INTEGERS: When = |preferences| preferences.integers.is_some();
const WIDENS: When = |preferences| preferences.widens;
const CHANNELS_LAST: When = |preferences| preferences.channels_last;

/// All passes, in order.
const PASSES: &[(When, Pass)] = &[
    // Operators whose effect their consumers have anyway go: an `expand` before operators that broadcast, or of indices.
    (ALWAYS, simplify::expands),
    (ALWAYS, simplify::slices),
    // A product with constants that are dequantized, or are float16, reads their bits.
    (ALWAYS, block_quantized::block_quantized),
    // Operands of products are dequantized right before these, and sums of parts of a product become the product.
    (INTEGERS, quantized::movement),
    (INTEGERS, quantized::sums),
    (INTEGERS, prune::prune),
    // Nodes all of whose operands are constants become constants, but for weights that the backend wants as integers.
    (ALWAYS, fold::fold),
    (ALWAYS, prune::prune),
    // Other pairs of quantizeLinear and dequantizeLinear become arithmetic.
    (INTEGERS, quantized::rounding),
    // What is done to signals between convolutions is done to images of one row.
    (ALWAYS, conv1d::signals),
    (ALWAYS, prune::prune),
    // What scales and shifts the channels of a convolution becomes part of its filter.
    (ALWAYS, affine::affine),
    // What stands for a gelu, or a layer or RMS normalization, becomes one.
    (ALWAYS, recognise::recognise),
    (ALWAYS, prune::prune),
    // float16 is computed in float32.
    (WIDENS, half_promotion::promote),
    (WIDENS, prune::prune),
    // Images have their channels last. Constants are reordered for that.
    (CHANNELS_LAST, channels_last::channels_last),
    (CHANNELS_LAST, fold::fold),
    (CHANNELS_LAST, prune::prune),
    // What values are scaled and shifted with is computed as soon as it can be.
    (INTEGERS, hoisting::hoist),
    // What is computed twice alike is computed once.
    (ALWAYS, common::common),
    (ALWAYS, prune::prune),
];

/// The steps of what the passes leave, then their places.
///
/// 1. [`steps`], in this order: operators between quantized values compute in integers ([`quantized`]). Element-wise operators join the operator
///    that makes their data ([`fuse`]). Attention takes in the products around its softmax ([`attention`]). Transpositions become orders of
///    reading and writing ([`orders`]). Depthwise convolutions take in expansions before them ([`depthwise`]), and convolutions the factors of
///    their channels ([`channel_scaling`]).
/// 2. [`places`]: values are graph inputs and outputs, constants, or offsets in one arena.
fn schedule(graph: &Graph, compilation: &Compilation<'_>) -> Result<Schedule> {
    let steps = steps::steps(graph, compilation)?;
    places::place(graph, steps, compilation)
}

/// Compiles a graph for a backend.
///
/// # Errors
/// Those of evaluating constant nodes: memory, and the end of the context, for which each pass asks at its nodes.
pub fn compile(graph: Graph, capabilities: &dyn Capabilities) -> Result<Schedule> {
    compile_within(usize::MAX, graph, capabilities)
}

/// The same for a graph that takes so many bytes at most.
///
/// # Errors
/// Those of [`compile`], and `OperationError` for a graph that takes more.
pub fn compile_within(most: usize, graph: Graph, capabilities: &dyn Capabilities) -> Result<Schedule> {
    let compilation = Compilation::new(capabilities).with(Budget::beside(&graph, most));
    passes(most, graph, &compilation)
}

/// About what the passes and a backend allocate for a node, in small pieces.
const NODE: usize = 4 << 10;

/// Runs the passes and schedules, within so many bytes.
fn passes(most: usize, mut graph: Graph, compilation: &Compilation<'_>) -> Result<Schedule> {
    // What is known already, before constants are folded.
    Demand { bound: bound(&graph), ..Demand::default() }.check(most)?;
    crate::memory::require(graph.nodes.len().saturating_mul(NODE))?;
    compilation.check()?;
    for (when, pass) in PASSES {
        if when(&compilation.preferences) {
            pass(&mut graph, compilation)?;
        }
    }
    let schedule = schedule(&graph, compilation)?;
    schedule.demand().check(most)?;
    Ok(schedule)
}
