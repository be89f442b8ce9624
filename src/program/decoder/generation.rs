//! A sequence that a call continues: the tokens that it chooses, and the guesses that a step has checked.

use super::Decoder;
use super::draft::Memory;
use super::feed::{Feed, Logits};
use super::guesses::Guesser;
use super::sampling::{Allowed, Choice, Occurrences, Sampling};
use crate::error::Result;
use crate::onnx::Stream;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Generation {
    /// With the tokens that the model has not seen yet.
    pub feed: Feed,
    pub occurrences: Occurrences,
    pub random: Stream,
    /// Of which prompt it is a copy, if it is one.
    pub copy_of: Option<usize>,
    pub guesser: Option<Guesser>,
    /// What the model that guesses has seen of it.
    pub drafted: Memory,
    checking: Option<Checking>,
}

/// Guesses that the model has seen, while tokens are chosen after them.
#[derive(Debug)]
struct Checking {
    /// Those that no token was chosen for yet, and the logits after each.
    left: VecDeque<(u32, Vec<f32>)>,
    /// The logits after the last one that was right.
    logits: Option<Vec<f32>>,
    guessed: usize,
    right: usize,
    /// By how many steps the step took longer.
    longer: f64,
}

impl Generation {
    pub fn new(feed: Feed, occurrences: Occurrences, random: Stream, guesser: Option<Guesser>) -> Generation {
        Generation { feed, occurrences, random, copy_of: None, guesser, drafted: Memory::default(), checking: None }
    }

    /// A step has ended: gives the logits after the last token.
    ///
    /// # Errors
    /// Those of the step.
    pub fn stepped(&mut self, feed: Feed, logits: Result<Logits>) -> Result<Vec<f32>> {
        self.feed = feed;
        let guesses = std::mem::take(&mut self.feed.guesses);
        let mut logits = logits?.into_iter();
        let first = logits.next().unwrap_or_default();
        if !guesses.is_empty() {
            let (guessed, longer) = (guesses.len(), self.feed.longer);
            let left = guesses.into_iter().zip(logits).collect();
            self.checking = Some(Checking { left, logits: None, guessed, right: 0, longer });
        } else if let Some(guesser) = &mut self.guesser {
            guesser.rest();
        }
        Ok(first)
    }

    /// Chooses the next token.
    ///
    /// # Errors
    /// `OperationError` where no token is allowed.
    pub fn choose(
        &mut self,
        logits: &mut [f32],
        allowed: Option<&Allowed>,
        sampling: &Sampling,
        decoder: &Decoder,
    ) -> Result<Choice> {
        let choice = sampling.choose(logits, allowed, &self.occurrences, &mut self.random)?;
        self.feed.pending.clear();
        self.take(choice.id, decoder);
        Ok(choice)
    }

    /// Adds a token after the last one. The model has seen it if it was guessed.
    pub fn take(&mut self, id: u32, decoder: &Decoder) {
        self.occurrences.add(id);
        if let Some(guesser) = &mut self.guesser {
            guesser.push(id);
        }
        let Some(checking) = &mut self.checking else { return self.feed.pending.push(id) };
        let is_right = checking.left.front().is_some_and(|(guess, _)| *guess == id);
        let right = if is_right { checking.left.pop_front() } else { None };
        match right {
            Some((_, logits)) => (checking.right, checking.logits) = (checking.right + 1, Some(logits)),
            None => self.settle(decoder, Some(id)),
        }
    }

    /// Whether it has a last token.
    pub fn has_begun(&self) -> bool {
        self.checking.is_some() || !self.feed.pending.is_empty()
    }

    /// Whether the last token was guessed, and nothing has asked for the logits after it.
    pub fn has_logits(&self) -> bool {
        self.checking.as_ref().is_some_and(|checking| checking.logits.is_some())
    }

    /// The logits after a token that was guessed, once.
    pub fn next_logits(&mut self) -> Option<Vec<f32>> {
        self.checking.as_mut()?.logits.take()
    }

    /// Goes back to the guesses that were right. The model has not seen the token after these: the one that was chosen, or if none was, the last
    /// one that it has seen.
    pub fn settle(&mut self, decoder: &Decoder, chosen: Option<u32>) {
        let Some(Checking { left, guessed, right, longer, .. }) = self.checking.take() else { return };
        let Feed { sequence, pending, keeper, .. } = &mut self.feed;
        let mut seen = sequence.tokens.len() - left.len();
        let last = chosen.unwrap_or_else(|| {
            seen -= 1;
            sequence.tokens[seen]
        });
        *pending = vec![last];
        sequence.take_back(seen);
        keeper.keep(sequence);
        decoder.guessing.checked(guessed, right);
        if let Some(guesser) = &mut self.guesser {
            guesser.checked(guessed, right, longer);
        }
    }
}
