//! What the scheduler gets and gives: sequences, what they are to see, and the logits.

use super::prefixes::Keeper;
use super::sequence::Sequence;
use crate::error::Result;

/// A sequence, and the tokens that the model is to see.
#[derive(Debug, Default)]
pub(super) struct Feed {
    pub sequence: Sequence,
    pub pending: Vec<u32>,
    /// What may follow, and how probable it is that a guess is right. A step leaves those that it has checked.
    pub guesses: Vec<u32>,
    pub rate: f64,
    /// Whether they are checked whatever that takes.
    pub is_fixed: bool,
    /// By how many steps the step took longer for its guesses.
    pub longer: f64,
    /// What is seen is kept there, unless guesses were checked: whose step that is keeps what was right.
    pub keeper: Keeper,
}

/// The logits after a token, and after each guess that was checked.
pub(super) type Logits = Vec<Vec<f32>>;

/// What each of some sequences gives.
pub(super) type Fed = (Feed, Result<Logits>);

/// A step of so many tokens: the one that is pending, guesses, and what fills it up. No token sees one after it, so any will do for that.
pub(super) fn padded_tokens(pending: &[u32], guesses: &[u32], size: usize) -> Vec<u32> {
    let mut tokens = [pending, guesses].concat();
    let last = tokens.last().copied().unwrap_or(0);
    tokens.resize(size, last);
    tokens
}
