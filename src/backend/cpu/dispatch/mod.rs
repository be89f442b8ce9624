//! Which implementation computes a step: ordered lists of implementations, the first that accepts a problem wins. This is *dispatch* in the
//! sense of oneDNN, done when a graph is built; `context.dispatch()`, WebNN's word for running a graph, finds all of it decided.
//!
//! [`registry`] has the lists, [`problem`] what is known of a step, [`target`] what it runs on, [`tuning`] the thresholds,
//! [`patterns`] answers the compiler, [`switches`] is `WEBNN_IMPL`, and [`report`] says what was chosen and why the others were not
//! (`WEBNN_VERBOSE=dispatch`). The conditions of an implementation stand in its `accept`, beside its kernel, and nowhere else.

mod patterns;
mod problem;
mod registry;
mod report;
#[cfg(test)]
mod snapshots;
mod switches;
mod target;
mod tuning;

pub use patterns::Patterns;
pub use problem::{
    Accepted, Build, Built, Constant, CopyRoom, Implementation, LazyCopy, Numbers, Problem, Reject, TensorDesc, require,
};
pub use registry::{choose, workspaces};
#[cfg(test)]
pub use registry::{every, first};
pub use report::Choice;
pub use switches::Switches;
pub use target::Target;
pub use tuning::ANY_SIZE;
