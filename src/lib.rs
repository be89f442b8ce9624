//! `webnn-node`: the W3C Web Neural Network API for Node.js.
//!
//! # The modules
//!
//! Each uses only those below it; `lib/`, the JavaScript face, stands above all of them.
//!
//! * `node`: Node-API. Flat functions on integer handles, which `lib/` calls; settling promises; the life and end of an
//!   environment. The only one that knows `napi`.
//! * [`onnx`]: an ONNX model → a graph, through the same builder that script uses.
//! * [`program`]: a model that is cut into parts, because values of a run decide its shapes: which part runs next, and its plans.
//! * [`timeline`]: a context's thread. Orders tasks by the tensors they touch, starts what is ready, keeps tensors' errors.
//! * [`backend`]: the trait that devices implement; [`backend::cpu`] with its kernels, [`backend::wgpu`] for GPUs.
//! * [`compiler`]: a validated graph → a schedule: simplification, constant folding, memory planning.
//! * [`graph`]: what a graph is, the operator table, and every rule of the specification.
//! * [`disk_cache`]: packed weights and saved graphs in files, for later processes and those beside this one.
//! * [`error`], [`memory`], [`host_memory`], [`thread`], [`done`], [`watch`], [`cancel`], [`looks`]: the ground: one error, aligned bytes
//!   and their count, memory of JavaScript's, threads, the duty to report the end of work, how a run is watched, and how long loops end early.
//!
//! # The path of a call
//!
//! `builder.conv2d(x, w, {…})` → `lib/` converts by the row of the table → `node` → [`graph::GraphBuilder::apply`]: types
//! and ranks by the row, the rest by the rule, a node is appended. `builder.build({y})` → [`graph::GraphBuilder::build`] →
//! [`timeline::Task::Build`] → [`compiler::compile`] → [`backend::Backend::compile`]. `context.dispatch(g, in, out)` →
//! [`timeline::Task::Dispatch`] → runs when its tensors are free. `context.readTensor(t)` → [`timeline::Task::Read`] → its
//! report is queued, and one wake-up of the event loop settles all that are ready.
//!
//! # From `dispatch()` to the store instruction
//!
//! What to open, for a depthwise convolution on the CPU:
//!
//! 1. `lib/context.js`: `dispatch` converts its arguments and finds the tensors' handles; `lib/order.js` sends it on, at once unless
//!    WebGPU has a tensor.
//! 2. `src/node/graphs.rs`: `dispatch` makes a [`timeline::Task::Dispatch`] of handles.
//! 3. `src/timeline/run.rs`: `dispatch` makes a job of it, which starts when its tensors are free.
//! 4. `src/backend/cpu/mod.rs`: `execute` runs it on the timeline's thread, or gives it to `run_queue.rs`.
//! 5. `src/backend/cpu/executable.rs`: `run` binds the memory of each step and calls its kernel.
//! 6. `src/backend/cpu/kernels/depthwise.rs`: `run`, and above it `accept`, which says when this kernel is taken.
//! 7. `crates/kernels/src/depthwise/nhwc.rs`: the loop, and `store`.
#![deny(unsafe_code)]

pub mod backend;
pub mod cancel;
pub mod compiler;
pub mod cores;
pub mod disk_cache;
pub mod done;
pub mod error;
#[cfg(feature = "faults")]
pub mod faults;
pub mod graph;
pub mod host_memory;
pub mod looks;
pub mod memory;
mod node;
pub mod onnx;
pub mod program;
pub mod runtime;
pub mod thread;
pub mod timeline;
pub mod watch;
