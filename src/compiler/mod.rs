//! A validated graph → a [`Plan`] that a backend compiles.
//!
//! The passes, in order; each is a file, takes a valid graph and leaves a valid graph:
//!
//! 1. [`simplify`]: an operator whose effect its consumers have anyway (an `expand` before operators that broadcast).
//! 2. [`fold`]: a node all of whose operands are constants becomes constants.
//! 3. [`affine`]: what scales and shifts the channels of a convolution becomes part of its filter.
//! 4. [`recognise`]: what stands for a gelu or a layer normalization becomes one.
//! 5. [`prune`]: what no output needs any more goes.
//! 6. [`channels_last`]: images have their channels last, where the backend's convolutions are faster so.
//! 7. [`fuse`]: element-wise operators join the operator that makes their data.
//! 8. [`plan`]: values get places: graph inputs and outputs, constants, offsets in one arena by lifetime. Nodes that only
//!    rename memory (`reshape`, `identity`) vanish here, and attention becomes one step ([`attention`]).
//!
//! Everything here is about graphs in general; what only one backend can know is in that backend.

mod affine;
mod attention;
mod channels_last;
mod fold;
mod fuse;
mod memory;
mod orders;
mod plan;
mod prune;
mod recognise;
mod simplify;

pub use fold::Evaluate;
pub use fuse::Fusing;
pub use memory::ALIGNMENT;
pub use plan::{Place, Plan, RUNNING, Step, Value, ValueId};

use crate::error::Result;
use crate::graph::Graph;

/// Runs all passes. `channels_last` says whether the backend would rather have images so.
///
/// # Errors
/// Those of evaluating constant nodes: memory.
pub fn compile(mut graph: Graph, evaluator: &dyn Evaluate, fusing: Fusing, channels_last: bool) -> Result<Plan> {
    simplify::simplify(&mut graph);
    fold::fold(&mut graph, evaluator)?;
    prune::prune(&mut graph);
    affine::affine(&mut graph);
    recognise::recognise(&mut graph);
    prune::prune(&mut graph);
    if channels_last {
        channels_last::channels_last(&mut graph);
        // Constants have been reordered.
        fold::fold(&mut graph, evaluator)?;
        prune::prune(&mut graph);
    }
    Ok(plan::plan(graph, fusing))
}
