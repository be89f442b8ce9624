//! Guesses of the next tokens, which the model checks in one step.
//!
//! - A sequence guesses what followed the last time it said the same ([`Lookup`]), or what a smaller model says ([`super::draft`]).
//! - A step that checks guesses gives the logits after each of them. Tokens are chosen from these one by one, as without guesses, up to the first
//!   one that was not guessed. A guess is right exactly if it is chosen, so guesses change neither the tokens of a seed nor how probable any tokens
//!   are. Then the sequence goes back to what was right.
//! - Guesses are checked where that is expected to be faster, by how often they were right ([`Rate`]) and by how long steps take ([`Costs`]).
//!   What wrong ones may cost is bounded ([`Account`]).

use super::Decoder;
use super::inputs::{Extent, Role};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::program::caches::{Plan, refused};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tokens of steps that check guesses, of one sequence and of several. There is a plan for each.
pub(super) const SIZES: &[usize] = &[2, 4, 8, 16];
pub(super) const SIZES_TOGETHER: &[usize] = &[4];
/// Guesses at most.
pub(super) const MOST: usize = 15;
/// What a further token of a step is expected to take, of a step, until it was measured.
const TOKEN: f64 = 0.25;
/// What guesses have to gain.
const WORTH: f64 = 1.02;
/// Tokens before a plan is needed that it is made: a step takes up to 16.
const AHEAD: usize = 48;

/// The tokens of a step that checks so many guesses.
pub(super) fn fitting(guesses: usize) -> usize {
    SIZES.iter().copied().find(|&size| size > guesses).unwrap_or(MOST + 1)
}

/// What a decoder knows of guesses.
#[derive(Debug, Default)]
pub(super) struct Guessing {
    costs: Mutex<Costs>,
    guessed: AtomicU64,
    right: AtomicU64,
    /// Why guesses are not checked, if that was found out, and whether it is so for all lengths.
    refusal: Mutex<Option<(Error, bool)>>,
    /// Whether there has been a plan that checks them.
    is_possible: AtomicBool,
}

impl Guessing {
    pub fn costs(&self) -> MutexGuard<'_, Costs> {
        // Whatever it is, some number of guesses is checked.
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many guesses were checked, and so many of them were right.
    pub fn checked(&self, guessed: usize, right: usize) {
        self.guessed.fetch_add(guessed as u64, Ordering::Relaxed);
        self.right.fetch_add(right as u64, Ordering::Relaxed);
    }

    /// Guesses cannot be checked.
    pub fn refuse(&self, error: Error) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some((error, true));
    }

    /// A plan that checks them was tried to be made.
    fn planned(&self, plan: Result<(Extent, Arc<Plan>)>) {
        match plan {
            Ok(_) => self.is_possible.store(true, Ordering::Relaxed),
            Err(error) => _ = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((error, false)),
        }
    }

    /// Why guesses are not checked: in general, or so far.
    fn refusal(&self, is_final: bool) -> Option<Error> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let counts = |of_all: bool| of_all || !is_final && !self.is_possible.load(Ordering::Relaxed);
        refusal.filter(|(_, of_all)| counts(*of_all)).map(|(error, _)| error)
    }

    /// Guesses that were checked, and those that were right.
    pub fn figures(&self) -> (u64, u64) {
        (self.guessed.load(Ordering::Relaxed), self.right.load(Ordering::Relaxed))
    }
}

/// Where a sequence has said the same before.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookup {
    /// By two tokens: the place after them, the last time that they came and something followed.
    latest: HashMap<[u32; 2], u32>,
    /// By place: the one before it after the same two tokens; 0 for none.
    earlier: Vec<u32>,
}

/// Tokens that are compared, and places that are.
const MOST_ALIKE: usize = 16;
const MOST_PLACES: usize = 32;

impl Lookup {
    /// A token is about to come after these.
    fn push(&mut self, before: &[u32]) {
        let earlier = match *before {
            [.., a, b] => self.latest.insert([a, b], before.len() as u32),
            _ => None,
        };
        self.earlier.push(earlier.unwrap_or(0));
    }

    /// How many tokens at the end of a sequence came before, most of all times, and what followed them then.
    fn guess(&self, ids: &[u32], count: usize) -> (usize, Vec<u32>) {
        let [.., a, b] = *ids else { return (0, Vec::new()) };
        let (mut place, mut best, mut most) = (self.latest.get(&[a, b]).copied().unwrap_or(0) as usize, 0, 0);
        for _ in 0..MOST_PLACES {
            if place == 0 || most == MOST_ALIKE {
                break;
            }
            let ends = ids[..place].iter().rev().zip(ids.iter().rev());
            let alike = ends.take(MOST_ALIKE).take_while(|(x, y)| x == y).count();
            if alike > most {
                (best, most) = (place, alike);
            }
            place = self.earlier[place] as usize;
        }
        if most == 0 {
            return (0, Vec::new());
        }
        // After the last token it goes on with what is guessed.
        let mut guesses: Vec<u32> = Vec::with_capacity(count);
        for place in best..best + count {
            guesses.push(if place < ids.len() { ids[place] } else { guesses[place - ids.len()] });
        }
        (most, guesses)
    }
}

/// How often guesses were right lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    expected: f64,
    right: f64,
    tried: f64,
}

impl Rate {
    fn new(expected: f64) -> Rate {
        Rate { expected, right: 0.0, tried: 0.0 }
    }

    /// The part of guesses that are right, if those before them are.
    pub fn value(&self) -> f64 {
        (self.right + 2.0 * self.expected) / (self.tried + 2.0)
    }

    /// So many of some guesses were right, up to the first wrong one.
    fn checked(&mut self, guessed: usize, right: usize) {
        let tried = right + usize::from(right < guessed);
        (self.right, self.tried) = (0.9 * self.right + right as f64, 0.9 * self.tried + tried as f64);
    }

    /// A step without guesses: what was wrong may be worth another try.
    fn rest(&mut self) {
        (self.right, self.tried) = (0.98 * self.right, 0.98 * self.tried);
    }
}

/// What guesses have cost a sequence, in steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    lost: f64,
    tokens: usize,
}

impl Account {
    /// What may be lost: one and a half steps, since even of good guesses the first one may be wrong, and one of a hundred.
    fn allows(&self) -> bool {
        self.lost < 1.5 + 0.01 * self.tokens as f64
    }

    fn add(&mut self, lost: f64) {
        // What was gained long ago is no reason to lose it.
        self.lost = (self.lost + lost).max(-4.0);
    }
}

/// How long steps take, by the number of tokens of all their sequences together.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// In seconds.
    times: BTreeMap<usize, f64>,
}

impl Costs {
    pub fn took(&mut self, tokens: usize, time: Duration) {
        let time = time.as_secs_f64();
        let known = self.times.entry(tokens).or_insert(time);
        // Others have the cores at times, so long ones tell less.
        *known += if time < *known { (time - *known) / 4.0 } else { (time.min(2.0 * *known) - *known) / 16.0 };
    }

    /// What a step of so many tokens is expected to take; nothing if none was measured.
    pub fn time(&self, tokens: usize) -> Option<f64> {
        let share = |count: usize| 1.0 + TOKEN * (count as f64 - 1.0);
        let less = self.times.range(..=tokens).next_back().map(|(&count, &time)| (count, time));
        let more = self.times.range(tokens..).next().map(|(&count, &time)| (count, time));
        match (less, more) {
            (Some((count, time)), _) if count == tokens => Some(time),
            (Some((count, time)), Some((above, other))) => {
                let part = (tokens - count) as f64 / (above - count) as f64;
                Some(time + part * (other - time).max(0.0))
            }
            (Some((count, time)), None) => {
                let below = self.times.range(..count).next_back();
                let slope = below.map(|(&below, &other)| (time - other) / (count - below) as f64);
                let usual = time * TOKEN / share(count);
                // At least a little, at most as if nothing were the same for all.
                let slope = slope.map_or(usual, |slope| slope.clamp(0.01 * time / count as f64, time / count as f64));
                Some(time + slope * (tokens - count) as f64)
            }
            (None, Some((count, time))) => Some(time * share(tokens) / share(count)),
            (None, None) => None,
        }
    }

    /// How many of some numbers of tokens each sequence of a step takes best: 1 where guesses are not worth it to each of them. A sequence has so
    /// many guesses, which are right at a rate; `each` is what a guess takes besides, in seconds.
    pub fn best(&self, sequences: &[(usize, f64)], sizes: impl Iterator<Item = usize>, each: f64) -> usize {
        let Some(plain) = self.time(sequences.len()) else { return 1 };
        let mut best = (1, WORTH);
        for size in sizes {
            let Some(time) = self.time(sequences.len() * size) else { continue };
            let time = time + each * (size as f64 - 1.0);
            let expected =
                |&(guesses, rate): &(usize, f64)| (0..=guesses.min(size - 1)).map(|right| rate.powi(right as i32)).sum::<f64>();
            let least = sequences.iter().map(expected).fold(f64::INFINITY, f64::min);
            let gain = least * plain / time;
            if gain > best.1 {
                best = (size, gain);
            }
        }
        best.0
    }
}

/// Where guesses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Lookup,
    Draft,
}

/// What a sequence guesses.
#[derive(Clone, Debug)]
pub(super) struct Guesser {
    /// All tokens, also those that the model has not seen.
    pub ids: Vec<u32>,
    origin: Origin,
    lookup: Lookup,
    /// By how much was alike.
    rates: [Rate; 4],
    rate: usize,
    account: Account,
    /// Tokens that may still come.
    left: usize,
    /// How many are guessed each time, whatever it takes.
    fixed: Option<usize>,
}

impl Guesser {
    pub fn new(origin: Origin, prompt: &[u32], most: usize, fixed: Option<usize>) -> Guesser {
        let rates = match origin {
            Origin::Lookup => [0.4, 0.5, 0.7, 0.85],
            Origin::Draft => [0.8; 4],
        };
        let (ids, lookup) = (Vec::with_capacity(prompt.len()), Lookup::default());
        let rates = rates.map(Rate::new);
        let (account, left) = (Account::default(), usize::MAX);
        let mut guesser = Guesser { ids, origin, lookup, rates, rate: 0, account, left, fixed };
        prompt.iter().for_each(|&id| guesser.push(id));
        (guesser.left, guesser.account) = (most, Account::default());
        guesser
    }

    /// A token has come.
    pub fn push(&mut self, id: u32) {
        if self.origin == Origin::Lookup {
            self.lookup.push(&self.ids);
        }
        self.ids.push(id);
        self.left = self.left.saturating_sub(1);
        self.account.tokens += 1;
    }

    /// How many guesses may be made now.
    pub fn room(&self) -> usize {
        let most = if self.account.allows() { MOST } else { 0 };
        // One is chosen after the last guess.
        self.fixed.unwrap_or(most).min(MOST).min(self.left.saturating_sub(1))
    }

    /// What was said before, if the same was.
    pub fn look_up(&mut self) -> Vec<u32> {
        let (alike, guesses) = match self.room() {
            0 => (0, Vec::new()),
            room => self.lookup.guess(&self.ids, room),
        };
        self.rate = match alike {
            ..=2 => 0,
            3 => 1,
            4..8 => 2,
            _ => 3,
        };
        guesses
    }

    pub fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// How often such guesses were right.
    pub fn rate(&self) -> f64 {
        self.rates[self.rate].value()
    }

    /// A step has checked some guesses, and took longer by so many steps.
    pub fn checked(&mut self, guessed: usize, right: usize, longer: f64) {
        self.account.add(longer - right as f64);
        let rate = self.rate;
        self.rates[rate].checked(guessed, right);
    }

    /// A step without guesses.
    pub fn rest(&mut self) {
        self.rates.iter_mut().for_each(Rate::rest);
    }

    /// The draft took so many steps.
    pub fn spent(&mut self, steps: f64) {
        self.account.add(steps);
    }
}

impl Decoder {
    /// What steps have in common that check guesses.
    pub(super) fn form_of_guesses(&self, sequence: &Sequence, tokens: usize) -> Extent {
        let keeps_all = self.roles.inputs.iter().any(|(role, _)| *role == Role::LogitsToKeep);
        Extent { keeps_all, ..self.form(sequence, tokens, false) }
    }

    /// Why guesses cannot be checked, if that is known.
    pub(super) fn refuses_guesses(&self) -> Option<Error> {
        if self.embedder.is_some() {
            return Some(refused("found a decoder that takes embeddings, allowed one that takes tokens"));
        }
        if self.has_states() {
            return Some(refused("found states that cannot go back to fewer tokens, allowed caches of keys and values"));
        }
        if self.begins_alone() || self.roles.takes_one() {
            return Some(refused(
                "found a model that takes several tokens only with an empty cache, allowed one that also takes them after earlier tokens",
            ));
        }
        self.guessing.refusal(true)
    }

    /// Why no guesses were checked so far.
    pub fn lacks_guesses(&self) -> Option<Error> {
        self.refuses_guesses().or_else(|| self.guessing.refusal(false))
    }

    /// Guesses that were checked, and those that were right.
    pub fn guess_figures(&self) -> (u64, u64) {
        self.guessing.figures()
    }

    /// The numbers of tokens for which a sequence can check guesses now. Has the plan made for the one that is wanted.
    pub(super) fn sizes(self: &Arc<Self>, sequence: &Sequence, wanted: usize) -> Vec<usize> {
        let length = sequence.tokens.len();
        if length == 0 || self.refuses_guesses().is_some() {
            return Vec::new();
        }
        let has_plan = |size: usize| {
            let extent = self.extent_of(&self.form_of_guesses(sequence, size), length);
            (!extent.way.bucket.is_exact() && self.plans.has_plan(&extent) == Some(true)).then_some(size)
        };
        let ready: Vec<usize> = SIZES.iter().copied().filter_map(has_plan).collect();
        if wanted > 1 {
            for length in [length, length + AHEAD] {
                self.make_ready(sequence, wanted, length);
            }
        }
        ready
    }

    /// Has a plan made that checks guesses after so many tokens, unless somebody has tried.
    fn make_ready(self: &Arc<Self>, sequence: &Sequence, size: usize, length: usize) {
        let form = self.form_of_guesses(sequence, size);
        let extent = self.extent_of(&form, length);
        if extent.way.bucket.is_exact() {
            let text = "found steps with a graph for each length, allowed those whose padding is proved to change nothing";
            return self.guessing.refuse(refused(text));
        }
        let decoder = self.clone();
        self.plans.make_ahead(&extent, move || decoder.guessing.planned(decoder.plan_for(&form, length)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(ids: &[u32], count: usize) -> (usize, Vec<u32>) {
        let mut guesser = Guesser::new(Origin::Lookup, ids, count + 1, None);
        let guesses = guesser.look_up();
        (guesser.lookup.guess(ids, count).0, guesses)
    }

    #[test]
    fn a_sequence_goes_on_as_it_did_where_most_was_alike() {
        assert_eq!(guess(&[1, 2, 3, 4, 1, 2], 3), (2, vec![3, 4, 1]));
        // The last time, unless more was alike before.
        assert_eq!(guess(&[1, 2, 3, 1, 2, 4, 1, 2], 1), (2, vec![4]));
        assert_eq!(guess(&[9, 1, 2, 3, 1, 2, 4, 9, 1, 2], 2), (3, vec![3, 1]));
        // What repeats goes on to repeat.
        assert_eq!(guess(&[5, 6, 7, 5, 6, 7, 5], 7), (4, vec![6, 7, 5, 6, 7, 5, 6]));
        assert_eq!(guess(&[8, 8, 8], 4), (2, vec![8; 4]));
        // Nothing was the same.
        for ids in [&[][..], &[1], &[1, 1], &[1, 2, 3, 2, 1]] {
            assert_eq!(guess(ids, 4), (0, vec![]));
        }
    }

    #[test]
    fn no_more_is_guessed_than_may_come() {
        let ids = [1, 2, 1, 2, 1, 2];
        for (most, count) in [(0, 0), (1, 0), (2, 1), (5, 4), (1000, MOST)] {
            assert_eq!(Guesser::new(Origin::Lookup, &ids, most, None).look_up().len(), count);
        }
    }

    #[test]
    fn more_is_guessed_where_more_is_right_and_steps_are_cheap() {
        let mut costs = Costs::default();
        let sizes = || SIZES.iter().copied();
        assert_eq!(costs.best(&[(MOST, 1.0)], sizes(), 0.0), 1);
        costs.took(1, Duration::from_millis(10));
        assert_eq!(costs.best(&[(MOST, 1.0)], sizes(), 0.0), 16);
        assert_eq!(costs.best(&[(3, 1.0)], sizes(), 0.0), 4);
        assert_eq!(costs.best(&[(MOST, 0.1)], sizes(), 0.0), 1);
        assert_eq!(costs.best(&[(MOST, 0.5)], sizes(), 0.0), 2);
        // Each token takes as long as a step.
        costs.took(4, Duration::from_millis(40));
        assert_eq!(costs.best(&[(MOST, 0.9)], sizes(), 0.0), 1);
        for _ in 0..20 {
            costs.took(4, Duration::from_millis(12));
        }
        assert_eq!(costs.best(&[(MOST, 0.9)], sizes(), 0.0), 16);
        // A guess takes as long as a step.
        assert_eq!(costs.best(&[(MOST, 0.9)], sizes(), 0.01), 1);
        // One that guesses nothing does not wait for others.
        costs.took(2, Duration::from_millis(11));
        assert_eq!(costs.best(&[(MOST, 1.0), (0, 0.0)], sizes(), 0.0), 1);
        assert_eq!(costs.best(&[(MOST, 1.0), (7, 1.0)], sizes(), 0.0), 8);
    }

    /// What a sequence takes in steps, of a token each without guesses, where a further token takes a part of a step and guesses are right with
    /// a probability.
    fn taken(count: usize, token: f64, probability: f64) -> f64 {
        let mut random = crate::onnx::Random::new(Some(11)).stream(None).unwrap();
        // It guesses each time.
        let mut guesser = Guesser::new(Origin::Lookup, &[1, 1, 1, 1, 1], count, None);
        let (mut costs, mut time, mut said) = (Costs::default(), 0.0, 0);
        costs.took(1, Duration::from_secs(1));
        while said < count {
            let guesses = guesser.look_up().len();
            let sizes = SIZES.iter().copied();
            let size = if guesses == 0 { 1 } else { costs.best(&[(guesses, guesser.rate())], sizes, 0.0) };
            let guesses = guesses.min(size - 1);
            let right = (0..guesses).take_while(|_| random.uniform() < probability).count();
            let step = 1.0 + token * (size as f64 - 1.0);
            costs.took(size, Duration::from_secs_f64(step));
            time += step;
            if guesses > 0 {
                guesser.checked(guesses, right, step - 1.0)
            } else {
                guesser.rest()
            }
            (0..=right).for_each(|_| guesser.push(1));
            said += right + 1;
        }
        time / said as f64
    }

    #[test]
    fn wrong_guesses_cost_little_and_right_ones_gain_much() {
        for token in [0.05, 0.2, 0.35, 0.6, 1.0] {
            for count in [256, 1000] {
                let wrong = taken(count, token, 0.0);
                assert!(wrong <= 1.0 / 0.97, "{wrong} steps for a token, a further one takes {token}");
            }
            let seldom = taken(1000, token, 0.05);
            assert!(seldom <= 1.0 / 0.97, "{seldom} steps for a token, a further one takes {token}");
        }
        for (token, probability, most) in [(0.2, 0.95, 0.5), (0.2, 0.8, 0.66), (0.35, 0.95, 0.66), (0.05, 0.95, 0.25)] {
            let taken = taken(1000, token, probability);
            assert!(
                taken <= most,
                "{taken} steps for a token, at most {most}: a further one takes {token}, {probability} are right"
            );
        }
    }
}
