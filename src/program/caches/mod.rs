//! The engine for models with caches. `run()` ([`super::steps`]) and `generate()` ([`super::decoder`]) use it.
//!
//! - A *sequence* has the rows of each cache, and states ([`memory`]). Rows never change, so sequences share memory until they diverge:
//!   a step appends in place behind the last rows, and copies them otherwise ([`rows`]).
//! - A *step* runs one plan on one sequence ([`run`]). Whoever wants it gives a value for each input ([`Step`]); the engine appends.
//! - A *plan* is the whole model as one graph for a number of new tokens and of rows ([`plan`]). It knows no sequence.
//! - A *bucket* is a range of lengths that share a plan ([`bucket`]): the rows in front are padding. That padding changes nothing is proved
//!   from the graphs of three lengths ([`proof`]), never concluded from names; without a proof each length has a plan.
//! - A *table* keeps the plans that were used last, and makes the next one ahead on another thread ([`table`]).
//! - Sequences come and go between steps, and nothing else knows how many there are. A step over several sequences becomes a list of
//!   [`Span`]s with an [`Append`](rows::Append) for each; its rows are padded to one bucket, and [`PaddingInput`](padding::PaddingInput)s get one value for each.
//! - A shared prefix is rows that several sequences have. Blocks change `rows` alone: a step only asks where its rows begin.

mod bucket;
mod memory;
mod padding;
mod plan;
mod proof;
mod rows;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub use bucket::{Bucket, for_all_lengths};
pub use memory::{HostMemory, Memory};
pub use plan::{Draft, Importing, Output, Plan, refused};
pub use rows::{Allocator, Rows, Span};
pub use run::{Caller, InputValue, OutputValue, Step, run};
pub use table::{AHEAD, Table};
