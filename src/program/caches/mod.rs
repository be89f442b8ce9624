//! The engine for models with caches. `run()` ([`super::steps`]) and `generate()` ([`super::decoder`]) use it.
//!
//! - A *sequence* has the rows of each cache, and states ([`memory`]). Rows never change, so sequences share memory until they diverge:
//!   a step appends in place after the last rows, and copies them otherwise ([`rows`]).
//! - A *step* runs one plan on one sequence, or on several ([`run`]). Whoever wants it gives a value for each input ([`Step`]); the engine appends.
//! - A *plan* is the whole model as one graph for a number of new tokens and of rows ([`plan`]). It knows no sequence.
//! - A *bucket* is a range of lengths that share a plan ([`bucket`]): the rows in front are padding. That padding changes nothing is proved
//!   from the graphs of three lengths ([`proof`]), never concluded from names; without a proof each length has a plan.
//! - A *table* keeps the plans that were used last, and makes the next one ahead on another thread ([`table`]).
//! - Sequences come and go between steps, and nothing else knows how many there are. A plan may be for several sequences ([`plan::StepGraph`]): each of
//!   its inputs and outputs belongs to one, with a [`Span`] and an [`Append`](rows::Append) of its own, and so a bucket of its own.
//! - Caches may be kept in bytes with scales ([`int8`]), each of which is two caches of the engine then.
//! - A shared prefix is rows that several sequences have. Where they go on differently, they have copies of frozen rows, which share their
//!   memory as far as they are alike ([`Frozen`]).

mod bucket;
mod int8;
#[cfg(test)]
mod int8_tests;
mod memory;
mod padding;
mod plan;
mod proof;
mod rows;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub use bucket::{Bucket, for_all_given, for_all_lengths, given_bucket};
pub use int8::{in_bytes, with_scales};
pub use memory::{HostMemory, Memory};
pub use padding::PaddingInputs;
pub use plan::{Importing, Output, Plan, StepGraph, aliased_input};
pub use rows::{Allocator, Frozen, Rows, Span};
pub use run::{Caller, InputValue, OutputValue, Step, run, run_all};
pub use table::{AHEAD, Table};

use crate::error::{Error, Kind};

/// Why the engine does not run a model.
pub fn refused(text: impl Into<String>) -> Error {
    Error::new(Kind::NotSupported, text.into())
}
