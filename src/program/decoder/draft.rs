//! A smaller model that guesses for another one, with the same tokens.

use super::Decoder;
use super::feed::Feed;
use super::guesses::{MOST, SIZES};
use super::prefixes::Keeper;
use super::sampling::{Allowed, Occurrences, Sampling};
use super::sequence::Sequence;
use crate::error::{Error, Kind, Result};
use crate::onnx::Stream;
use crate::timeline::Watch;
use std::sync::Arc;
use std::time::Instant;

/// The model that guesses in a call.
#[derive(Debug)]
pub(super) struct DraftModel {
    decoder: Arc<Decoder>,
    /// Its number among the calls of that model.
    call: u64,
    pace: Pace,
    /// How many numbers it gives for a token.
    tokens: Option<usize>,
}

/// How long guesses take.
#[derive(Debug, Default)]
struct Pace {
    /// Seconds that one takes lately, of all sequences that guess at once.
    time: Option<f64>,
}

impl Pace {
    /// A step has taken so many seconds. What is done once says nothing about later guesses: a prompt, what was said without guesses, a plan that
    /// was missing. Gives what counts as the time of the guess.
    fn took(&mut self, seconds: f64, is_usual: bool) -> f64 {
        if !is_usual {
            return self.time.unwrap_or(0.0);
        }
        self.time = Some(self.time.map_or(seconds, |known| known + (seconds.min(2.0 * known) - known) / 8.0));
        seconds
    }
}

/// A sequence that guesses.
pub(super) struct Drafted<'a> {
    /// All tokens, also those that were not seen.
    pub ids: &'a [u32],
    /// What the model that guesses has seen.
    pub memory: &'a mut Memory,
    pub allowed: Option<&'a Allowed>,
    /// As tokens will be chosen: a guess is what the same chance would choose.
    pub random: Stream,
    pub occurrences: Occurrences,
    /// Guesses at most.
    pub count: usize,
    pub guesses: Vec<u32>,
}

/// What the model that guesses has seen of a sequence.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sequence: Sequence,
    has_begun: bool,
}

impl DraftModel {
    /// # Errors
    /// `NotSupportedError` for a model that cannot go back, or needs values of further inputs.
    pub fn new(decoder: Arc<Decoder>) -> Result<DraftModel> {
        let refuse = |found: &str, allowed: &str| {
            Err(Error::new(Kind::NotSupported, format!("speculate: found a draft model with {found}, allowed {allowed}")))
        };
        if decoder.has_states() {
            return refuse("states that cannot go back to fewer tokens", "one with caches of keys and values alone");
        }
        if !decoder.others().is_empty() {
            return refuse(&format!("the inputs {:?}", decoder.others()), "one without further inputs");
        }
        let call = decoder.scheduler.enter();
        Ok(DraftModel { decoder, call, pace: Pace::default(), tokens: None })
    }

    /// Whether it has as many tokens as the model that it guesses for, about: tables are filled up to different sizes.
    ///
    /// # Errors
    /// `NotSupportedError` where it has not.
    pub fn require_tokens(&self, tokens: usize) -> Result<()> {
        match self.tokens {
            Some(own) if own.abs_diff(tokens) > tokens / 100 => {
                let text = format!(
                    "speculate: found a draft model with {own} tokens, allowed one with the {tokens} tokens of the model"
                );
                Err(Error::new(Kind::NotSupported, text))
            }
            _ => Ok(()),
        }
    }

    /// How many guesses of a rate are worth what they take, if steps of these sizes can check them.
    pub fn count(&self, checks: &Decoder, sizes: &[usize], rate: f64) -> usize {
        let costs = checks.guessing.costs();
        // Until it is known it is taken to be small.
        let each = self.pace.time.or(costs.time(1).map(|time| time / 8.0)).unwrap_or(0.0);
        costs.best(&[(MOST, rate)], sizes.iter().copied(), each) - 1
    }

    /// The same, of all sizes.
    pub fn wanted(&self, checks: &Decoder, rate: f64) -> usize {
        self.count(checks, SIZES, rate) + 1
    }

    /// Guesses for some sequences at once. Gives the seconds that such guesses take.
    ///
    /// # Errors
    /// Those of the model that guesses.
    pub fn guess(&mut self, all: &mut [Drafted<'_>], sampling: &Sampling, watch: &Watch) -> Result<f64> {
        let mut seconds = 0.0;
        let most = all.iter().map(|one| one.count).max().unwrap_or(0);
        for place in 0..most {
            let mut going: Vec<&mut Drafted<'_>> =
                all.iter_mut().filter(|one| one.count > place && one.guesses.len() == place).collect();
            let after = going.iter().map(|one| one.ids.len() - one.memory.sequence.tokens.len().min(one.ids.len())).max();
            let is_planned = going.iter().all(|one| self.decoder.is_planned(&one.memory.sequence));
            let step = Instant::now();
            let feeds = going.iter_mut().map(|one| self.feed_of(one)).collect();
            let fed = self.decoder.feed(self.call, feeds, watch);
            for (one, (feed, logits)) in going.iter_mut().zip(fed) {
                one.memory.sequence = feed.sequence;
                let mut logits = logits?.pop().unwrap_or_default();
                self.tokens = Some(logits.len());
                let allowed = one.allowed.filter(|_| place == 0);
                let choice = sampling.choose(&mut logits, allowed, &one.occurrences, &mut one.random)?;
                one.occurrences.add(choice.id);
                one.guesses.push(choice.id);
            }
            let is_usual = is_planned && (place > 0 || after.is_some_and(|after| after <= 2));
            seconds += self.pace.took(step.elapsed().as_secs_f64(), is_usual);
        }
        Ok(seconds)
    }

    /// The text of a sequence, and its guesses so far, as far as the model that guesses has not seen them.
    fn feed_of(&self, one: &mut Drafted<'_>) -> Feed {
        let text = || one.ids.iter().chain(&one.guesses).copied();
        let mut sequence = std::mem::take(&mut one.memory.sequence);
        let mut keeper = Keeper::default();
        if !one.memory.has_begun {
            one.memory.has_begun = true;
            // What the calls on that model keep for each other. Later steps go back, and keep nothing.
            keeper = Keeper::new((!self.decoder.begins_alone()).then(|| self.decoder.prefixes.clone()));
            sequence = keeper.begin(one.ids, &[]).unwrap_or_default();
        }
        let same = sequence.tokens.iter().copied().zip(text()).take_while(|(a, b)| a == b).count();
        sequence.take_back(same.min(one.ids.len() + one.guesses.len() - 1));
        let pending = text().skip(sequence.tokens.len()).collect();
        Feed { sequence, pending, keeper, ..Feed::default() }
    }

    /// The call has ended.
    pub fn leave(&self) {
        if self.decoder.scheduler.leave(self.call) {
            self.decoder.together.rest();
        }
    }
}

impl Drop for DraftModel {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_once_does_not_count() {
        let mut pace = Pace::default();
        // A prompt, and the first step, whose plan is missing.
        assert_eq!([pace.took(30.0, false), pace.took(5.0, false)], [0.0, 0.0]);
        assert_eq!(pace.time, None);
        assert_eq!(pace.took(0.5, true), 0.5);
        assert_eq!((pace.took(20.0, false), pace.time), (0.5, Some(0.5)));
        // Another one had the cores.
        assert_eq!((pace.took(4.0, true), pace.time), (4.0, Some(0.5625)));
    }
}
