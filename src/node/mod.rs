//! The only module that knows JavaScript: flat functions on integer handles, for `lib/` and nobody else.
//!
//! `lib/` has done everything that WebIDL says. A function here reads its arguments ([`call`]), looks up handles
//! ([`handles`]), asks `graph/` or sends a task to a timeline, and returns. What finishes later is settled through one
//! queue ([`settle`]). [`environment`] is the life and the end of all this in one environment; it has the native side of
//! A5 and A6 of the API: nothing of ours keeps a process alive, and nothing of ours outlives an environment.
//!
//! Functions fail with the crate's `Error`, which becomes a JavaScript `Error` whose `code` is the exception's name.
//! `lib/` makes the exception from it, in the caller's realm.
// napi-derive registers nothing in test builds, so that there nobody calls the flat functions.
#![cfg_attr(test, allow(dead_code))]

mod bytes;
mod caches;
mod call;
mod commands;
mod compute;
mod contexts;
mod decoder;
mod described;
mod device_tasks;
mod environment;
mod event_loop;
mod external;
mod graphs;
mod handles;
mod onnx;
mod programs;
mod received;
mod registration;
mod saved_graphs;
mod script;
mod settle;
mod steps;
mod table;
mod tensors;
mod values;
