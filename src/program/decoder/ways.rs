//! In which ways plans are made, and which one a model takes.
//!
//! The best plan is one for all lengths of a bucket ([`crate::program::caches`]), with masks and positions as inputs. A model may not be
//! shown to allow that, or may need to know the masks and positions when it is imported: they say a shape, or what tells how much of its
//! caches is filled. Nothing is concluded from names: the ways are tried one after the other, and the last one is a plan for each length.

use super::Decoder;
use super::inputs::{Extent, Role};
use crate::error::{Kind, Result};
use crate::program::caches::{Bucket, Plan};
use std::sync::Arc;

/// How a plan is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Way {
    /// The lengths that it is for.
    pub bucket: Bucket,
    /// Whether the masks and positions of its sequence are known when the model is imported.
    pub knows_positions: bool,
}

impl Way {
    /// The rows of the plan for so many new tokens after so many rows.
    pub fn rows(self, tokens: usize, rows: usize) -> usize {
        match self.bucket.rows(rows) {
            // Prompts have plans for several numbers of tokens, and fewer of rows.
            found if tokens >= 8 && self.bucket == Bucket::Large => found.next_multiple_of(128),
            found => found,
        }
    }
}

impl Decoder {
    /// The ways that there are for plans of a form, the best first.
    pub(super) fn ways(&self, form: &Extent) -> Vec<Way> {
        let buckets = match (self.caches.rows.is_empty(), form.uses_cache) {
            (true, _) => &[Bucket::Exact][..],
            // Sizes that are 0 change what a model is, so that a proof for others does not hold there. A model that cannot be mapped without
            // rows has that one alone.
            (_, false) if !self.has_branches() => &[Bucket::Exact, Bucket::Large],
            (_, false) => &[Bucket::Exact],
            _ => &[Bucket::Large, Bucket::Small, Bucket::Exact],
        };
        let is_position = |role: Role| matches!(role, Role::Mask { .. } | Role::Positions | Role::Places);
        // The rows of a plan say where its sequence is.
        let can_know = !self.caches.rows.is_empty() && self.roles.inputs.iter().any(|(role, _)| is_position(*role));
        let knows = if can_know { &[false, true][..] } else { &[false] };
        buckets.iter().flat_map(|&bucket| knows.iter().map(move |&knows_positions| Way { bucket, knows_positions })).collect()
    }

    /// The plan for a form after so many rows, in the best way that the model allows, and what it is for.
    ///
    /// # Errors
    /// Those of the first way for a single length.
    pub(super) fn plan_for(&self, form: &Extent, rows: usize) -> Result<(Extent, Arc<Plan>)> {
        let mut first = None;
        loop {
            let extent = self.extent_of(form, rows);
            let error = match self.plan(&extent) {
                Ok(plan) => return Ok((extent, plan)),
                Err(error) => error,
            };
            let is_lost = error.kind() == Kind::InvalidState;
            if extent.way.bucket == Bucket::Exact || is_lost {
                first.get_or_insert_with(|| error.clone());
            }
            if is_lost || !self.leaves(form, extent.way) {
                return Err(first.unwrap_or(error));
            }
        }
    }

    /// What a step of a form works on after so many rows, in the best way that is not known to fail.
    pub(super) fn extent_of(&self, form: &Extent, rows: usize) -> Extent {
        let kind = self.plans.kind(form);
        let way = self.ways(form).get(kind).copied().unwrap_or_default();
        let rows = if self.caches.rows.is_empty() { 0 } else { way.rows(form.tokens, rows) };
        Extent { rows, way, ..form.clone() }
    }

    /// Leaves a way that failed for another one; whether there is one.
    fn leaves(&self, form: &Extent, way: Way) -> bool {
        let ways = self.ways(form);
        let next = ways.iter().position(|other| *other == way).map_or(ways.len(), |position| position + 1);
        if next < ways.len() {
            self.plans.leave(form, next);
        } else {
            self.plans.begin_again(form);
        }
        next < ways.len()
    }
}
