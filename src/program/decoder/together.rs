//! Steps of several sequences at once, with one pass over the weights.
//!
//! - A plan is for a number of sequences and a number of rows, the same for all of them ([`Group`]). How many of these rows a sequence has is a
//!   value of the run: the others, in front, are padding. So there are few plans, whatever the lengths.
//! - The graph is that of a step alone, proved for all lengths up to its rows, joined with itself ([`crate::program::batch::join`]).
//! - Padding costs nothing: caches have addresses for it that nobody touches ([`crate::program::caches`]), and attention on the CPU begins
//!   after it ([`crate::graph::Graph::hiding`]). Where that cannot be, buckets are narrower ([`Decoder::joined_way`]).
//! - Plans are made on another thread: the one that is wanted, that for more rows before they are needed, and that for one sequence more.
//!   Until one is there, others do: those for more rows, for more sequences (an empty one takes the place of a missing one), or for fewer, several
//!   times ([`divide`]).
//! - A piece of a prompt joins the steps of others ([`Decoder::with_piece`]): its rows are after theirs in each product, and read the
//!   weights with them.
//! - Steps with an adapter and without one run together in a graph that is one or the other, as each says ([`StepGraph::or`]).

use super::Decoder;
use super::features;
use super::feed::{Feed, Logits, padded_tokens};
use super::guesses::SIZES_TOGETHER;
use super::inputs::{ConstantInput, Extent, Role};
use super::sequence::Sequence;
use super::ways::Way;
use crate::error::{Error, Result};
use crate::graph::DataType;
use crate::memory::Usage;
use crate::program::caches::{self, Bucket, Caller, Plan, StepGraph, Table, refused};
use crate::program::run::spawn_plan;
use crate::timeline::Watch;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Sequences of a step at most.
pub(super) const MOST: usize = 16;
/// Up to here there is a plan for each number of sequences, and then for every other one.
const EACH: usize = 8;
/// Plans that are kept: each is as large as those of its sequences together.
const PLANS: usize = 32;
/// Rows before a plan with more of them is needed that it is made: a step of many sequences has much to make.
const AHEAD: usize = 64;
/// Tokens of a piece that joins steps: with fewer a piece of its own is as good, and attention to
/// more packs keys and values, and takes longer than others may wait.
pub(super) const LEAST_JOINED: usize = 2;
const MOST_JOINED: usize = 16;
/// What an empty sequence costs, of a step alone: four weigh as much as the weights.
const EMPTY: f32 = 0.25;

/// What a plan is for: so many sequences, and what each works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    sequences: usize,
    extent: Extent,
    /// What a piece of a prompt works on that joins them.
    piece: Option<Extent>,
    /// What those without an adapter work on, if there may be such, and the others have one.
    plain: Option<Extent>,
}

/// Steps that run together.
pub(super) struct Joint {
    /// The numbers of the steps.
    pub steps: Vec<usize>,
    pub extent: Extent,
    pub plan: Arc<Plan>,
    /// Sequences of the plan, but for the piece that joins.
    pub sequences: usize,
    /// What the piece of a prompt works on that joins them, if one does.
    pub piece: Option<Extent>,
    /// Whether some have an adapter, and some have none.
    pub is_mixed: bool,
}

#[derive(Debug)]
pub(super) struct Together {
    /// The graphs of single sequences.
    step_graphs: Table<Extent, StepGraph>,
    plans: Table<Group, Plan>,
    is_making: AtomicBool,
    /// Whether there has been a plan.
    is_possible: AtomicBool,
    /// Why the last plan could not be made.
    refusal: Mutex<Option<Error>>,
    /// Empty sequences that take the places of missing ones.
    empty: Mutex<Vec<Sequence>>,
}

impl Together {
    /// No plans yet, which go as the context has it.
    pub fn new(usage: &Arc<Usage>) -> Together {
        let (is_making, is_possible, refusal, empty) = Default::default();
        let plans = Table::new(false).with_room(PLANS).idle_as(usage);
        Together { step_graphs: Table::new(false).idle_as(usage), plans, is_making, is_possible, refusal, empty }
    }

    /// Why steps run one after the other, if no plan could be made for several.
    pub fn refusal(&self) -> Option<Error> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.clone().filter(|_| !self.is_possible.load(Ordering::Relaxed))
    }

    fn note_plan(&self, plan: &Result<Arc<Plan>>) {
        match plan {
            Ok(_) => self.is_possible.store(true, Ordering::Relaxed),
            Err(error) => *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone()),
        }
    }

    /// For how many sequences there are plans that serve an extent, and that without an adapter, and the fewest rows of these.
    fn serving(&self, extent: &Extent, plain: Option<&Extent>) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        self.plans.each_plan(|group| {
            let rows = group.extent.rows;
            let of_rows = |extent: &Extent| Extent { rows, ..extent.clone() };
            let is_same = group.extent == of_rows(extent) && group.plain == plain.map(of_rows);
            let is_like = group.piece.is_none() && rows >= extent.rows && is_same;
            match found.iter_mut().find(|(sequences, _)| *sequences == group.sequences) {
                _ if !is_like => {}
                Some((_, fewest)) => *fewest = rows.min(*fewest),
                None => found.push((group.sequences, rows)),
            }
        });
        found
    }

    /// The plan with the most rows of a piece, up to those of this group, that serves it, and of such plans the one with the fewest sequences.
    fn serving_piece(&self, wanted: &Group) -> Option<Group> {
        let piece = wanted.piece.as_ref()?;
        let mut found: Option<Group> = None;
        let rank = |group: &Group| {
            let piece = group.piece.as_ref().map_or((0, 0), |piece| (piece.tokens, piece.rows));
            (piece.0, Reverse((group.sequences, piece.1, group.extent.rows)))
        };
        self.plans.each_plan(|group| {
            let serves = |own: &Extent, other: &Extent| {
                own.rows >= other.rows && *own == Extent { rows: own.rows, tokens: own.tokens, ..other.clone() }
            };
            let has_piece = group.piece.as_ref().is_some_and(|own| own.tokens <= piece.tokens && serves(own, piece));
            let is_like = group.sequences >= wanted.sequences && serves(&group.extent, &wanted.extent);
            let steps = group.extent.tokens == wanted.extent.tokens && group.plain.is_none();
            if has_piece && is_like && steps && found.as_ref().is_none_or(|other| rank(other) < rank(group)) {
                found = Some(group.clone());
            }
        });
        found
    }

    /// Gives back what only steps together need, unless one is under way.
    pub fn rest(&self) {
        if let Ok(mut empty) = self.empty.try_lock() {
            empty.clear();
        }
    }

    /// Whether a plan may still be made.
    fn lacks(&self, group: &Group) -> bool {
        self.plans.has_plan(group).is_none()
    }
}

/// The number of sequences of a plan for so many.
fn rounded(sequences: usize) -> usize {
    if sequences <= EACH { sequences } else { sequences.next_multiple_of(2).min(MOST) }
}

/// For how many sequences the next plan is that takes the least for so many steps, if there are plans for these numbers of sequences; nothing
/// where the first step had better run alone.
fn divide(steps: usize, plans: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let cost = |sequences: usize| 1.0 + EMPTY * (sequences as f32 - 1.0);
    // By the number of steps that are left.
    let mut best = vec![(0.0, None)];
    for left in 1..=steps {
        let alone = (best[left - 1].0 + 1.0, None);
        let together = plans.clone().map(|sequences| (best[left.saturating_sub(sequences)].0 + cost(sequences), Some(sequences)));
        // The largest first, if it is the same.
        let found = together.fold(
            alone,
            |best: (f32, Option<usize>), other| {
                if other.0 < best.0 || other.0 == best.0 && other.1 > best.1 { other } else { best }
            },
        );
        best.push(found);
    }
    best[steps].1
}

impl Decoder {
    /// In which way steps of sequences of a form run together, where those of one that long run in a way alone; nothing where they cannot.
    fn joined_way(&self, form: &Extent, alone: Way, length: usize) -> Option<Way> {
        if self.caches.rows.is_empty() {
            return Some(alone);
        }
        if alone.bucket.is_exact() {
            return None;
        }
        // Elsewhere attention reads padding, and what is not float32 or float16 is converted before.
        let mut caches = self.roles.inputs.iter().filter(|(role, _)| matches!(role, Role::Rows(_)));
        let are_float = caches.all(|(_, input)| matches!(input.data_type, DataType::Float16 | DataType::Float32));
        let reads_padding = self.program.timeline.has_own_memory() || !are_float;
        let widest = if reads_padding { Bucket::Joined } else { Bucket::Doubled };
        let ways = [widest, Bucket::Large, Bucket::Small].map(|bucket| Way { bucket, ..alone });
        // A table of positions may end before the next bucket.
        let may_be = |way: &Way| self.together.step_graphs.has_plan(&of_length(form, *way, length)) != Some(false);
        ways.into_iter().find(may_be)
    }

    /// The first ones of some steps that can run together now. Has a plan made for more of them if there is none; so many sequences may come.
    pub(super) fn joinable(self: &Arc<Self>, feeds: &[&Feed], coming: usize) -> Option<Joint> {
        let first = feeds.first()?;
        let form = self.form(&first.sequence, 1, false);
        let others = feeds.iter().map(|feed| self.form(&feed.sequence, 1, false));
        let mut pairs = others.map(|other| if form.is_plain() { (other, form.clone()) } else { (form.clone(), other) });
        let mixed = pairs.find(|(full, plain)| full.has_plain(plain));
        let mixed = mixed.and_then(|(full, plain)| self.joinable_of(feeds, coming, &full, Some(&plain)));
        mixed.or_else(|| self.joinable_of(feeds, coming, &form, None))
    }

    /// The same of steps of a form, and of those of the same without an adapter, if that is given.
    fn joinable_of(self: &Arc<Self>, feeds: &[&Feed], coming: usize, form: &Extent, plain: Option<&Extent>) -> Option<Joint> {
        let first = &feeds.first()?.sequence;
        let way_of = |sequence: &Sequence| {
            let (form, length) = (self.form(sequence, 1, false), sequence.tokens.len());
            let alone = self.extent_of(&form, length).way;
            if length == 0 { None } else { self.joined_way(&form, alone, length) }
        };
        // The first one has its turn, alone if need be.
        let Some(way) = way_of(first) else {
            if !first.tokens.is_empty() {
                self.together.note_plan(&Err(refused(
                    "found steps with a graph for each length, allowed those whose padding is proved to change nothing",
                )));
            }
            return None;
        };
        let suits = |sequence: &Sequence| {
            let own = self.form(sequence, 1, false);
            let is_one = own == *form || Some(&own) == plain;
            !sequence.tokens.is_empty() && is_one && way_of(sequence) == Some(way)
        };
        let is_token = |feed: &Feed| feed.pending.first().is_some_and(|id| *id < features::FIRST);
        let is_joined = |&number: &usize| suits(&feeds[number].sequence) && is_token(feeds[number]);
        let mut steps: Vec<usize> = (0..feeds.len()).filter(is_joined).collect();
        steps.truncate(MOST);
        if steps.len() < 2 || steps[0] != 0 {
            return None;
        }
        let longest = steps.iter().map(|&number| feeds[number].sequence.tokens.len()).max().unwrap_or_default();
        let group = |sequences: usize, longest: usize| Group {
            sequences: rounded(sequences),
            extent: of_length(form, way, longest),
            piece: None,
            plain: plain.map(|plain| of_length(plain, way, longest)),
        };
        let wanted = group(steps.len(), longest);
        let plans = self.together.serving(&wanted.extent, wanted.plain.as_ref());
        self.make_missing(&plans, steps.len(), coming.min(MOST), &|sequences, ahead| group(sequences, longest + ahead));
        let sequences = divide(steps.len(), plans.iter().map(|(sequences, _)| *sequences))?;
        let (_, rows) = plans.into_iter().find(|(found, _)| *found == sequences)?;
        steps.truncate(sequences);
        let of_rows = |extent: Extent| Extent { rows, ..extent };
        let group = Group { sequences, extent: of_rows(wanted.extent), piece: None, plain: wanted.plain.map(of_rows) };
        let plan = self.plan_together(&group).ok()?;
        Some(Joint { steps, extent: group.extent, plan, sequences, piece: None, is_mixed: group.plain.is_some() })
    }

    /// The same steps with a piece of a prompt of at most so many tokens, if there is a plan for it. Has one made that is missing. Without
    /// `joint` it is the first step that it joins.
    pub(super) fn with_piece(
        self: &Arc<Self>,
        joint: Option<&Joint>,
        feeds: &[&Feed],
        prompt: &Feed,
        most: usize,
    ) -> Option<Joint> {
        // Steps of one kind have one graph.
        if joint.is_some_and(|joint| joint.is_mixed) {
            return None;
        }
        let steps = joint.map_or_else(|| vec![0], |joint| joint.steps.clone());
        let first = &feeds.get(*steps.first()?)?.sequence;
        let size = joined_size(most.min(prompt.pending.len().saturating_sub(1)))?;
        let is_token = |id: &u32| *id < features::FIRST;
        let is_plain =
            |&step: &usize| feeds[step].pending.len() == 1 && !feeds[step].is_fixed && is_token(&feeds[step].pending[0]);
        let has_begun = !prompt.sequence.tokens.is_empty() && !first.tokens.is_empty();
        if !has_begun || self.has_states() || self.begins_alone() || self.roles.takes_one() || !steps.iter().all(is_plain) {
            return None;
        }
        if !prompt.pending[..size].iter().all(is_token) {
            return None;
        }
        let longest = steps.iter().map(|&step| feeds[step].sequence.tokens.len()).max()?;
        let extent_of = |sequence: &Sequence, tokens: usize, length: usize| {
            let form = self.form(sequence, tokens, false);
            let way = self.joined_way(&form, self.extent_of(&form, length).way, length)?;
            Some(of_length(&form, way, length))
        };
        let length = prompt.sequence.tokens.len();
        let wanted = |ahead: usize| {
            Some(Group {
                sequences: joint.map_or(1, |joint| joint.sequences),
                extent: extent_of(first, 1, longest + ahead)?,
                piece: Some(extent_of(&prompt.sequence, size, length + ahead)?),
                plain: None,
            })
        };
        let now = wanted(0)?;
        let found = self.together.serving_piece(&now);
        let is_missing = found.as_ref().and_then(|group| group.piece.as_ref()).is_none_or(|piece| piece.tokens < size);
        self.make_first(is_missing.then_some(now).into_iter().chain(wanted(AHEAD)));
        let group = found?;
        let plan = self.plan_together(&group).ok()?;
        Some(Joint { steps, extent: group.extent, plan, sequences: group.sequences, piece: group.piece, is_mixed: false })
    }

    /// Has the first of some plans made that may still be made, unless another one is.
    fn make_first(self: &Arc<Self>, groups: impl Iterator<Item = Group>) {
        if self.together.is_making.load(Ordering::Relaxed) {
            return;
        }
        if let Some(group) = groups.into_iter().find(|group| self.together.lacks(group)) {
            self.make_together(group);
        }
    }

    /// The same steps with guesses, if that is worth it to each of them and there is a plan. Has it made if there is none.
    pub(super) fn with_guesses(self: &Arc<Self>, joint: Joint, feeds: &[&Feed]) -> Joint {
        let group: Vec<&Feed> = joint.steps.iter().map(|&step| feeds[step]).collect();
        let is_full = group.len() == joint.sequences && !joint.is_mixed;
        if !is_full || group.iter().any(|feed| feed.guesses.is_empty()) || self.refuses_guesses().is_some() {
            return joint;
        }
        let sequences: Vec<(usize, f64)> = group.iter().map(|feed| (feed.guesses.len(), feed.rate)).collect();
        let size = match group.iter().all(|feed| feed.is_fixed) {
            true => SIZES_TOGETHER[0],
            false => self.guessing.costs().best(&sequences, SIZES_TOGETHER.iter().copied(), 0.0),
        };
        if size == 1 {
            return joint;
        }
        let form = self.form_of_guesses(&group[0].sequence, size);
        let longest = group.iter().map(|feed| feed.sequence.tokens.len()).max().unwrap_or_default();
        let Some(way) = self.joined_way(&form, self.extent_of(&form, longest).way, longest) else { return joint };
        let extent = of_length(&form, way, longest);
        let ready = self.together.serving(&extent, None).into_iter().find(|(sequences, _)| *sequences == joint.sequences);
        let Some((sequences, rows)) = ready else {
            let group = Group { sequences: joint.sequences, extent, piece: None, plain: None };
            if self.together.lacks(&group) {
                self.make_together(group);
            }
            return joint;
        };
        let group = Group { sequences, extent: Extent { rows, ..extent }, piece: None, plain: None };
        match self.plan_together(&group) {
            Ok(plan) => Joint { plan, extent: group.extent, ..joint },
            Err(_) => joint,
        }
    }

    /// Has the plan made that is missed most, if there is one: for so many steps, or those that come; for more rows; for one sequence more.
    /// `group` is for so many sequences, and so many rows more.
    fn make_missing(
        self: &Arc<Self>,
        plans: &[(usize, usize)],
        steps: usize,
        coming: usize,
        group: &dyn Fn(usize, usize) -> Group,
    ) {
        let is_there = |sequences: usize| plans.iter().any(|(found, _)| *found == rounded(sequences));
        let rows = group(steps, 0).extent.rows;
        let wanted = [(steps.max(coming), 0), (steps, 0), (steps, AHEAD), ((steps + 1).min(MOST), 0)];
        let groups = wanted.into_iter().map(|(sequences, ahead)| (sequences, group(sequences, ahead)));
        let missing = groups.filter(|(sequences, group)| group.extent.rows != rows || !is_there(*sequences));
        self.make_first(missing.map(|(_, group)| group));
    }

    fn plan_together(&self, group: &Group) -> Result<Arc<Plan>> {
        let step_graph_of = |extent: &Extent| self.together.step_graphs.plan(extent, || self.step_graph(extent, |_| extent.rows));
        let make = || {
            let piece = group.piece.as_ref().map(|extent| (step_graph_of(extent), extent.tokens));
            let piece = piece.map(|(graph, tokens)| graph.map(|graph| (graph, tokens))).transpose()?;
            let piece = piece.as_ref().map(|(graph, tokens)| (&**graph, *tokens));
            let own = step_graph_of(&group.extent)?;
            let both = group.plain.as_ref().map(|plain| own.or(&*step_graph_of(plain)?)).transpose()?;
            both.as_ref().unwrap_or(&own).build_joined(group.sequences, piece, &self.program, &self.kept)
        };
        self.together.plans.plan(group, make)
    }

    /// Has a plan made on another thread, one at a time.
    fn make_together(self: &Arc<Self>, group: Group) {
        if self.together.is_making.swap(true, Ordering::Relaxed) {
            return;
        }
        let decoder = self.clone();
        let make = move |()| {
            let plan = decoder.plan_together(&group);
            // Steps may join where no piece can join them, and none without an adapter.
            if group.piece.is_none() && group.plain.is_none() {
                decoder.together.note_plan(&plan);
            }
            decoder.together.is_making.store(false, Ordering::Relaxed);
        };
        if spawn_plan((), make).is_err() {
            self.together.is_making.store(false, Ordering::Relaxed);
        }
    }

    /// Has the model see the last token that is pending of each sequence, and guesses, as many as the steps have tokens for, and a piece of a
    /// prompt, if one joins them; the logits after the steps.
    ///
    /// # Errors
    /// Those of running the plan: then the sequences are as before.
    pub(super) fn step_together(
        &self,
        feeds: &mut [&mut Feed],
        mut prompt: Option<&mut Feed>,
        joint: &Joint,
        watch: &Watch,
    ) -> Result<Vec<Result<Logits>>> {
        let Joint { extent, plan, sequences, piece, is_mixed, .. } = joint;
        let has_adapter = |feed: &&mut Feed| !feed.sequence.given.iter().any(ConstantInput::is_empty);
        let adapted = feeds.iter().find(|feed| has_adapter(feed)).filter(|_| *is_mixed);
        let lent = adapted.map(|feed| feed.sequence.given.clone());
        let mut empty = self.together.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(like) = feeds.first() {
            let missing = sequences.saturating_sub(feeds.len()).max(empty.len());
            empty.resize_with(missing, Sequence::default);
            for sequence in empty.iter_mut() {
                sequence.given = lent.as_ref().unwrap_or(&like.sequence.given).clone();
            }
        }
        let tokens: Vec<Vec<u32>> = feeds.iter().map(|feed| padded_tokens(&feed.pending, &feed.guesses, extent.tokens)).collect();
        let none = vec![0; extent.tokens];
        let fed = feeds.iter_mut().zip(&tokens).map(|(feed, tokens)| (&mut feed.sequence, &tokens[..], true));
        let all = fed.chain(empty.iter_mut().map(|sequence| (sequence, &none[..], false))).take(*sequences);
        let mut steps = Vec::with_capacity(*sequences);
        for (sequence, tokens, wants) in all {
            let is_plain = sequence.given.iter().any(ConstantInput::is_empty);
            let (span, mut step) = self.step_of(sequence, tokens, extent, plan, wants);
            step.lent = lent.as_ref().filter(|_| is_plain).map(|lent| &lent[..]);
            steps.push((span, step));
        }
        if let (Some(Feed { sequence, pending, .. }), Some(piece)) = (prompt.as_deref_mut(), piece) {
            steps.push(self.step_of(sequence, &pending[..piece.tokens], piece, plan, false));
        }
        let mut spans: Vec<_> = steps.iter_mut().map(|(span, step)| (*span, step)).collect();
        let caller = Caller { method: "generate", label: String::new(), watch: watch.clone() };
        let values = caches::run_all(&self.program, plan, &mut spans, caller);
        drop(spans);
        drop(steps);
        if values.is_err() {
            // Their memory may not be there.
            let all = feeds.iter().map(|feed| &**feed).chain(prompt.as_deref());
            all.flat_map(|feed| feed.sequence.given.iter()).for_each(ConstantInput::forget);
        }
        let mut by_sequence: Vec<Vec<_>> = (0..=*sequences).map(|_| Vec::new()).collect();
        for (output, value) in values?.into_iter().enumerate() {
            by_sequence[plan.sequence_of_output(output)].push((output, value));
        }
        let mut by_sequence = by_sequence.into_iter();
        let mut all = Vec::with_capacity(feeds.len());
        for ((feed, tokens), own) in feeds.iter_mut().zip(&tokens).zip(&mut by_sequence) {
            let Feed { sequence, pending, guesses, keeper, .. } = &mut **feed;
            let before = sequence.tokens.len();
            guesses.truncate(extent.tokens - pending.len());
            let logits = self.keep(sequence, tokens, plan, own, pending.len() + guesses.len());
            if extent.tokens > 1
                && let Err(error) = &logits
            {
                // Each goes on without guesses.
                self.guessing.refuse(error.clone());
                sequence.take_back(before);
                return Err(error.clone());
            }
            all.push(logits);
            sequence.take_back(before + pending.len() + guesses.len());
            pending.clear();
            if guesses.is_empty() {
                keeper.keep(sequence);
            }
        }
        for (sequence, own) in empty.iter_mut().take(*sequences - feeds.len()).zip(&mut by_sequence) {
            // Its memory is kept.
            let _ = self.keep(sequence, &[], plan, own, 0);
        }
        if let (Some(Feed { sequence, pending, keeper, .. }), Some(piece), Some(own)) = (prompt, piece, by_sequence.next()) {
            let tokens: Vec<u32> = pending.drain(..piece.tokens).collect();
            self.keep(sequence, &tokens, plan, own, 0)?;
            keeper.keep(sequence);
        }
        Ok(all)
    }
}

/// How many of at most so many tokens of a prompt join the steps of others, if any do: few numbers, since each has plans.
pub(super) fn joined_size(most: usize) -> Option<usize> {
    let power = 1 << most.checked_ilog2()?;
    let half = power + power / 2;
    Some(if half <= most { half } else { power }.min(MOST_JOINED)).filter(|size| *size >= LEAST_JOINED)
}

/// What steps work on in a way, the longest of which has so many tokens before it.
fn of_length(form: &Extent, way: Way, longest: usize) -> Extent {
    // One that remembers states alone has no rows.
    let rows = if way.bucket.is_exact() { 0 } else { way.rows(1, longest) };
    Extent { way, rows, ..form.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_divided_among_the_plans_that_there_are() {
        let divide = |steps, plans: &[usize]| divide(steps, plans.iter().copied());
        assert_eq!(divide(8, &[]), None);
        assert_eq!(divide(8, &[2, 4, 8]), Some(8));
        // Twice, or with what is left alone.
        assert_eq!(divide(8, &[2, 4, 5]), Some(4));
        assert_eq!(divide(5, &[4]), Some(4));
        // An empty sequence costs less than another run, and several cost more.
        assert_eq!(divide(7, &[2, 8]), Some(8));
        assert_eq!(divide(2, &[8]), None);
        assert_eq!(divide(3, &[8]), Some(8));
        assert_eq!([1, 8, 9, 11, 15, 16].map(rounded), [1, 8, 10, 12, 16, 16]);
    }

    #[test]
    fn pieces_ride_in_few_sizes() {
        assert_eq!(
            [0, 1, 2, 3, 5, 6, 11, 12, 31, 64, 1000].map(joined_size),
            [None, None, Some(2), Some(3), Some(4), Some(6), Some(8), Some(12), Some(16), Some(16), Some(16)]
        );
    }
}
