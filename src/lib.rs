//! `webnn-node`: the W3C Web Neural Network API for Node.js.
//!
//! # The rooms
//!
//! Each uses only the rooms below it; `lib/`, the JavaScript face, stands above all of them.
//!
//! * `node`: Node-API. Flat functions on integer handles, which `lib/` calls; settling promises; the life and end of an
//!   environment. The only room that knows `napi`.
//! * [`onnx`]: an ONNX model → a graph, through the same builder that script uses.
//! * [`program`]: a model that is cut into parts, because values of a run decide its shapes: which part runs next, and its plans.
//! * [`timeline`]: a context's thread. Orders tasks by the tensors they touch, starts what is ready, keeps tensors' errors.
//! * [`backend`]: the trait that devices implement; [`backend::cpu`] with its kernels, [`backend::wgpu`] for GPUs.
//! * [`compiler`]: a validated graph → a plan: simplification, constant folding, memory planning.
//! * [`graph`]: what a graph is, the operator table, and every rule of the specification.
//! * [`error`], [`memory`], [`host_memory`]: the ground: one error, aligned bytes and their count, memory of JavaScript's.
//!
//! # The path of a call
//!
//! `builder.conv2d(x, w, {…})` → `lib/` converts by the row of the table → `node` → [`graph::GraphBuilder::apply`]: types
//! and ranks by the row, the rest by the rule, a node is appended. `builder.build({y})` → [`graph::GraphBuilder::build`] →
//! [`timeline::Task::Build`] → [`compiler::compile`] → [`backend::Backend::compile`]. `context.dispatch(g, in, out)` →
//! [`timeline::Task::Dispatch`] → runs when its tensors are free. `context.readTensor(t)` → [`timeline::Task::Read`] → its
//! report is queued, and one wake-up of the event loop settles all that are ready.
#![deny(unsafe_code)]

pub mod backend;
pub mod compiler;
pub mod error;
#[cfg(feature = "faults")]
pub mod faults;
pub mod graph;
pub mod host_memory;
pub mod memory;
mod node;
pub mod onnx;
pub mod program;
pub mod thread;
pub mod timeline;
