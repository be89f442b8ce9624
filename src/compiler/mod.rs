//! A validated graph → a [`Plan`] that a backend compiles.
//!
//! The passes, in order; each is a file, takes a valid graph and leaves a valid graph:
//!
//! 1. [`simplify`]: an operator whose effect its consumers have anyway (an `expand` before operators that broadcast, or of indices).
//!    [`block_quantized`]: a product with constants that are dequantized, or are float16, reads their bits.
//! 2. [`fold`]: a node all of whose operands are constants becomes constants; but for weights that a backend wants as integers
//!    ([`quantized`]).
//! 3. [`conv1d`]: what is done to signals between convolutions is done to images of one row.
//! 4. [`affine`]: what scales and shifts the channels of a convolution becomes part of its filter.
//! 5. [`recognise`]: what stands for a gelu, or a layer or RMS normalization, becomes one.
//! 6. [`prune`]: what no output needs any more goes.
//! 7. [`half_promotion`]: float16 is computed in float32, where the backend's kernels are made for that.
//! 8. [`channels_last`]: images have their channels last, where the backend's convolutions are faster so.
//! 9. [`hoisting`]: what values are scaled and shifted with is computed as soon as it can be.
//! 10. [`common`]: what is computed twice alike is computed once.
//! 11. [`fuse`]: element-wise operators join the operator that makes their data.
//! 12. [`plan`]: values get places: graph inputs and outputs, constants, offsets in one arena by lifetime. Nodes that only
//!     rename memory (`reshape`, `identity`) vanish here, and some become part of the step that reads what they make ([`prologue`]):
//!     attention ([`attention`]), expansions before depthwise convolutions ([`depthwise`]), factors of channels ([`channel_scaling`]).
//!
//! The loops of all passes over nodes ask whether anybody still wants the graph ([`progress`]).
//!
//! Everything here is about graphs in general; what only one backend can know is in that backend.

mod affine;
mod arena;
mod attention;
mod block_quantized;
mod channel_scaling;
mod channels_last;
mod common;
mod conv1d;
mod demand;
mod depthwise;
mod fold;
mod fuse;
mod half_promotion;
mod hoisting;
mod orders;
mod pattern;
mod plan;
mod progress;
mod prologue;
mod prune;
mod quantized;
mod recognise;
mod simplify;
mod work;

pub use arena::ALIGNMENT;
pub use fold::Evaluate;
pub use fuse::Fusing;
pub use pattern::{Known, Pattern};
pub use plan::{Check, Place, Plan, RUNNING, Read, Step, Value, ValueId, behind_inputs};
pub use work::{element_count, multiplications};

use crate::error::Result;
use crate::graph::Graph;
use demand::{Demand, bound};
use fold::Budget;
use progress::Progress;

/// What the kernels of a backend are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// Images should have their channels last.
    pub channels_last: bool,
    /// float16 should be computed in float32, and rounded.
    pub widens: bool,
    /// Products of quantized values should be products of integers.
    pub integers: bool,
}

/// Runs all passes.
///
/// # Errors
/// Those of evaluating constant nodes: memory, and the end of the context, for which each pass asks at its nodes.
pub fn compile(graph: Graph, evaluator: &dyn Evaluate, fusing: Fusing, preferences: Preferences) -> Result<Plan> {
    compile_within(usize::MAX, graph, evaluator, fusing, preferences)
}

/// About what the passes and a backend allocate for a node, in small pieces.
const NODE: usize = 4 << 10;

/// The same for a graph that takes so many bytes at most.
///
/// # Errors
/// Those of [`compile`], and `OperationError` for a graph that takes more.
pub fn compile_within(
    most: usize,
    graph: Graph,
    evaluator: &dyn Evaluate,
    fusing: Fusing,
    preferences: Preferences,
) -> Result<Plan> {
    passes(most, graph, &Progress::new(evaluator), fusing, preferences)
}

fn passes(most: usize, mut graph: Graph, progress: &Progress<'_>, fusing: Fusing, preferences: Preferences) -> Result<Plan> {
    // What is known already, before constants are folded.
    Demand { bound: bound(&graph), ..Demand::default() }.check(most)?;
    crate::memory::require(graph.nodes.len().saturating_mul(NODE))?;
    let integers = preferences.integers;
    progress.check()?;
    let mut budget = Budget::beside(&graph).within(most);
    simplify::simplify(&mut graph, progress)?;
    simplify::slices(&mut graph, progress)?;
    block_quantized::block_quantized(&mut graph, integers, preferences.widens, progress)?;
    if integers {
        quantized::movement(&mut graph, progress)?;
        quantized::sums(&mut graph, progress)?;
        prune::prune(&mut graph, progress)?;
    }
    fold::fold(&mut graph, progress, integers, &mut budget)?;
    prune::prune(&mut graph, progress)?;
    let products = quantized::integers(&graph, integers, progress)?;
    if integers {
        quantized::rounding(&mut graph, &products, progress)?;
    }
    conv1d::signals(&mut graph, progress)?;
    prune::prune(&mut graph, progress)?;
    affine::affine(&mut graph, &mut budget, progress)?;
    recognise::recognise(&mut graph, progress)?;
    prune::prune(&mut graph, progress)?;
    if preferences.widens {
        half_promotion::promote(&mut graph, progress)?;
        prune::prune(&mut graph, progress)?;
    }
    if preferences.channels_last {
        channels_last::channels_last(&mut graph, progress)?;
        // Constants have been reordered.
        fold::fold(&mut graph, progress, integers, &mut budget)?;
        prune::prune(&mut graph, progress)?;
    }
    if integers {
        hoisting::hoist(&mut graph, progress)?;
    }
    common::common(&mut graph, progress)?;
    prune::prune(&mut graph, progress)?;
    let plan = plan::plan(graph, progress, fusing, integers)?;
    plan.demand().check(most)?;
    Ok(plan)
}
