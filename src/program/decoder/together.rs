//! Steps of several sequences at once, with one pass over the weights.
//!
//! The graph of such a step is made of those of its sequences ([`crate::program::batch::join`]), which have more padding than that of a step
//! alone ([`Bucket::Joined`]): then sequences seldom need another graph. It is made on another thread; until it is there, and where there
//! is none, steps run one after the other.

use super::Decoder;
use super::inputs::{ConstantInput, Extent};
use super::scheduler::Feed;
use super::sequence::Sequence;
use super::ways::Way;
use crate::error::{Error, Result};
use crate::program::caches::{self, AHEAD, Bucket, Caller, Draft, Plan, Table, refused};
use crate::program::run::spawn_plan;
use crate::timeline::Watch;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sequences of a step at most.
pub(super) const MOST: usize = 16;
/// Plans that are kept: each is as large as those of its sequences together.
const PLANS: usize = 24;

#[derive(Debug)]
pub(super) struct Together {
    /// The graphs of single sequences.
    drafts: Table<Extent, Draft>,
    /// By what the sequences work on, those with the fewest rows first.
    plans: Table<Vec<Extent>, Plan>,
    is_making: AtomicBool,
    /// Whether there has been a plan.
    is_possible: AtomicBool,
    /// Why the last plan could not be made.
    refusal: Mutex<Option<Error>>,
}

impl Default for Together {
    fn default() -> Self {
        let (is_making, is_possible, refusal) = Default::default();
        Together { drafts: Table::new(false), plans: Table::new(false).with_room(PLANS), is_making, is_possible, refusal }
    }
}

impl Together {
    /// Why steps run one after the other, if no plan could be made for several.
    pub fn refusal(&self) -> Option<Error> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone().filter(|_| !self.is_possible.load(Ordering::Relaxed))
    }

    fn made(&self, plan: &Result<Arc<Plan>>) {
        match plan {
            Ok(_) => self.is_possible.store(true, Ordering::Relaxed),
            Err(error) => *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone()),
        }
    }
}

impl Decoder {
    /// What the step of a sequence with so many tokens works on beside others, if it may run beside others.
    fn lane(&self, sequence: &Sequence, length: usize) -> Option<Extent> {
        if length == 0 {
            return None;
        }
        let form = self.form(sequence, 1, false);
        let alone = self.extent_of(&form, length);
        if self.caches.rows.is_empty() {
            return Some(alone);
        }
        if alone.way.bucket == Bucket::Large {
            let way = Way { bucket: Bucket::Joined, ..alone.way };
            let wide = Extent { way, rows: way.rows(1, length), ..form };
            if self.together.drafts.has_plan(&wide) != Some(false) {
                return Some(wide);
            }
        }
        (!alone.way.bucket.is_exact()).then_some(alone)
    }

    /// The first ones of some steps that can run together now: their numbers, those with the fewest rows first, what they work on, and the
    /// plan. Has a plan made for more of them if there is none.
    pub(super) fn joinable(self: &Arc<Self>, feeds: &[&Feed]) -> Option<(Vec<usize>, Vec<Extent>, Arc<Plan>)> {
        let lanes = |ahead: usize| -> Vec<(usize, Extent)> {
            let lane =
                |(number, feed): (usize, &&Feed)| Some((number, self.lane(&feed.sequence, feed.sequence.tokens.len() + ahead)?));
            feeds.iter().enumerate().filter_map(lane).take(MOST).collect()
        };
        let mut lanes_now = lanes(0);
        // The first one has its turn, alone if need be.
        if lanes_now.first().is_none_or(|(number, _)| *number != 0) {
            if feeds.first().is_some_and(|feed| !feed.sequence.tokens.is_empty()) {
                self.together.made(&Err(refused(
                    "found steps with a graph for each length, allowed those whose padding is proved to change nothing",
                )));
            }
            return None;
        }
        while lanes_now.len() > 1 {
            let key = sorted(&lanes_now);
            let extents: Vec<Extent> = key.iter().map(|(_, extent)| extent.clone()).collect();
            match self.together.plans.has_plan(&extents) {
                Some(true) => {
                    let plan = self.plan_together(&extents).ok()?;
                    let soon: Vec<Extent> = sorted(&lanes(AHEAD)).into_iter().map(|(_, extent)| extent).collect();
                    if self.together.plans.has_plan(&soon).is_none() {
                        self.make_together(soon);
                    }
                    return Some((key.into_iter().map(|(number, _)| number).collect(), extents, plan));
                }
                Some(false) => {}
                None => self.make_together(extents),
            }
            lanes_now.truncate(lanes_now.len() / 2);
        }
        None
    }

    fn plan_together(&self, extents: &[Extent]) -> Result<Arc<Plan>> {
        let make = || {
            let draft = |extent: &Extent| self.together.drafts.plan(extent, || self.draft(extent));
            let drafts = extents.iter().map(draft).collect::<Result<Vec<Arc<Draft>>>>()?;
            Draft::build_joined(&drafts, &self.program, &self.caches)
        };
        self.together.plans.plan(&extents.to_vec(), make)
    }

    /// Has a plan made on another thread, one at a time.
    fn make_together(self: &Arc<Self>, extents: Vec<Extent>) {
        if extents.len() < 2 || self.together.is_making.swap(true, Ordering::Relaxed) {
            return;
        }
        let decoder = self.clone();
        let make = move |()| {
            decoder.together.made(&decoder.plan_together(&extents));
            decoder.together.is_making.store(false, Ordering::Relaxed);
        };
        if spawn_plan((), make).is_err() {
            self.together.is_making.store(false, Ordering::Relaxed);
        }
    }

    /// Has the model see the last token that is pending of each sequence; the logits behind them.
    ///
    /// # Errors
    /// Those of running the plan: then the sequences are as before.
    pub(super) fn step_together(
        &self,
        feeds: &mut [&mut Feed],
        extents: &[Extent],
        plan: &Plan,
    ) -> Result<Vec<Result<Vec<f32>>>> {
        let lanes = feeds.iter_mut().zip(extents);
        let mut steps: Vec<_> =
            lanes.map(|(feed, extent)| self.lane_step(&mut feed.sequence, &feed.pending, extent, plan, true)).collect();
        let mut lanes: Vec<_> = steps.iter_mut().map(|(span, step)| (*span, step)).collect();
        let caller = Caller { method: "generate", label: String::new(), watch: Watch::default() };
        let values = caches::run_all(&self.program, plan, &mut lanes, caller);
        drop(lanes);
        drop(steps);
        if values.is_err() {
            // Their memory may not be there.
            feeds.iter().flat_map(|feed| feed.sequence.given.iter()).for_each(ConstantInput::forget);
        }
        let mut values: Vec<_> = values?.into_iter().enumerate().collect();
        let mut all = Vec::with_capacity(feeds.len());
        for (lane, feed) in feeds.iter_mut().enumerate() {
            let own = values.extract_if(.., |(output, _)| plan.lane_of_output(*output) == lane).collect();
            all.push(self.keep(&mut feed.sequence, &feed.pending, plan, own, true));
            feed.pending.clear();
        }
        Ok(all)
    }
}

fn sorted(lanes: &[(usize, Extent)]) -> Vec<(usize, Extent)> {
    let mut lanes = lanes.to_vec();
    lanes.sort_by_key(|(_, extent)| extent.rows);
    lanes
}
