//! What the two engines share that keep caches: [`super::steps`] behind `run()`, and [`super::decoder`] behind `generate`.
//!
//! A plan may have more rows than a cache: those in front are zeros and do not count. That such a plan gives what one for exactly the
//! rows that count gives is proved from the graphs of three lengths ([`bucket`]), and never concluded from what an input is called.
//! Without a proof there is a plan for each length.

mod bucket;
#[cfg(test)]
mod tests;
mod told;

pub use told::Told;

use crate::error::{Error, Kind, Result};
use crate::graph::Graph;
use crate::onnx::fixed_caches::FixedCaches;
use crate::onnx::{Part, Tensor};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// So many plans are kept: of a model with some hundred nodes each takes some hundred kilobytes.
const MOST: usize = 96;

/// How many rows a plan for at least so many has: so few plans that they are soon made, and so many that at most an eighth of what a
/// step reads does not count, or 63 rows.
pub fn rounded(rows: usize) -> usize {
    let step = (rows.next_power_of_two() / 16).max(64);
    rows.max(1).next_multiple_of(step)
}

/// The same with more plans, for a model whose table of positions ends before the next of the few.
pub fn rounded_less(rows: usize) -> usize {
    rows.next_multiple_of(16)
}

/// Changes the graph for so many rows so that it serves all lengths that `bucket` gives these rows for, and gives what is told its new
/// inputs for each run, by their names. `graph_of` gives the graph of a length.
///
/// # Errors
/// `NotSupportedError` where it is not shown that the rows in front change nothing.
pub fn for_all_lengths(
    graph: Graph,
    rows: usize,
    bucket: impl Fn(usize) -> usize,
    graph_of: impl Fn(usize) -> Result<Graph>,
    is_cache: impl Fn(&str) -> bool,
) -> Result<(Graph, Vec<(String, Told)>)> {
    let least = (1..=rows).find(|&length| bucket(length) == rows).unwrap_or(rows);
    let lengths = [rows, rows.saturating_sub(1), least];
    let graphs = [graph, graph_of(lengths[1])?, graph_of(lengths[2])?];
    bucket::in_bucket(graphs, lengths, is_cache).map_err(|reason| Error::new(Kind::NotSupported, reason))
}

/// Holds what the model computes of how much of caches is filled against so many rows before so many new ones.
///
/// # Errors
/// `NotSupportedError` where it is something else, or not known.
pub fn require_filled(fixed: &FixedCaches, part: &Part, rows: usize, new: usize) -> Result<()> {
    for ((name, filled), value) in fixed.filled.iter().zip(&part.asked) {
        let expected = filled.number(rows, new);
        let says = |tensor: &Tensor| !tensor.is_empty() && tensor.integers().iter().all(|&number| number == expected);
        if !value.as_ref().is_some_and(says) {
            let text = format!("{name:?} is not known to be {expected}, as the caches are filled");
            return Err(Error::new(Kind::NotSupported, text));
        }
    }
    Ok(())
}

/// The names of values that [`require_filled`] looks at.
pub fn asked(fixed: Option<&FixedCaches>) -> Vec<&str> {
    fixed.iter().flat_map(|fixed| &fixed.filled).map(|(name, _)| name.as_str()).collect()
}

/// What is there, or is being made by whoever has the lock.
pub type Slot<P> = Mutex<Option<P>>;

/// The plans that were used last.
#[derive(Debug)]
pub struct Slots<K, P> {
    slots: HashMap<K, (Arc<Slot<P>>, u64)>,
    clock: u64,
}

impl<K, P> Default for Slots<K, P> {
    fn default() -> Self {
        Slots { slots: HashMap::new(), clock: 0 }
    }
}

impl<K: Clone + Eq + Hash, P> Slots<K, P> {
    /// The slot of a plan, which is used now.
    pub fn slot(&mut self, key: &K) -> Arc<Slot<P>> {
        self.clock += 1;
        if !self.slots.contains_key(key)
            && self.slots.len() >= MOST
            && let Some(oldest) = self.slots.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
        {
            self.slots.remove(&oldest);
        }
        let (slot, used) = self.slots.entry(key.clone()).or_default();
        *used = self.clock;
        slot.clone()
    }

    /// The slot of a plan that somebody has asked for.
    pub fn find(&self, key: &K) -> Option<Arc<Slot<P>>> {
        self.slots.get(key).map(|(slot, _)| slot.clone())
    }
}

#[cfg(test)]
mod rounding_tests {
    use super::*;

    #[test]
    fn plans_have_few_rows_too_many() {
        assert_eq!([0, 1, 64, 65, 512, 1024, 1025, 2048, 2049].map(rounded), [64, 64, 64, 128, 512, 1024, 1152, 2048, 2304]);
        for rows in 1..20_000 {
            let most = rounded(rows);
            assert!(most >= rows && most - rows <= (rows / 8).max(63), "{rows} in {most}");
        }
        let different: std::collections::BTreeSet<_> = (0..32_768).map(rounded).collect();
        assert!(different.len() < 64, "{} plans", different.len());
    }
}
