//! Prompts in pieces: how many tokens the next piece has, and how long pieces take.

use super::Decoder;
use super::embedding::of_a_kind;
use super::feed::Feed;
use crate::error::Result;
use crate::timeline::Watch;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A piece of a prompt takes so long, about, on the CPU: other runs wait for it. Whoever cancels does not, since the run ends between
/// two pieces of a step. Each piece expands all weights once more: with 32 ms a prompt of 512 tokens takes 1.6 times as long in float16
/// and of 8 bits (Zen 5, one thread).
const PIECE: Duration = Duration::from_millis(128);
/// And on a device, where a run that has begun goes on to its end.
const PIECE_OF_DEVICE: Duration = Duration::from_millis(32);
/// Tokens of a piece: to begin with, and at most.
const FIRST_PIECE: usize = 32;
pub(super) const LARGEST_PIECE: usize = 512;

impl Decoder {
    /// How many tokens the next piece has a plan for, and how many of the prompt it takes: at most so many, or as many as its pace allows.
    pub(super) fn next_piece(&self, feed: &Feed, most: Option<usize>) -> (usize, usize) {
        let left = feed.pending.len() - 1;
        let left = if self.embedder.is_some() { of_a_kind(&feed.pending[..left]) } else { left };
        if self.roles.takes_one() {
            return (1, 1);
        }
        match (self.begins_alone(), feed.sequence.tokens.len()) {
            (true, 0) => (filled(left), left),
            (true, _) => (1, 1),
            (false, _) => piece(left, most.unwrap_or_else(|| self.pace().piece), !self.has_states(), most.is_none()),
        }
    }

    /// Has the model see a piece of what is pending, of which one token is left at least. Gives the tokens of its plan, and how long it took.
    ///
    /// # Errors
    /// Those of making a plan and of running it; `OperationError` when the work was given up.
    pub(super) fn feed_piece(&self, feed: &mut Feed, most: Option<usize>, watch: &Watch) -> Result<(usize, Duration)> {
        let (count, taken) = loop {
            watch.check()?;
            let (count, taken) = self.next_piece(feed, most);
            match self.plan_of(&feed.sequence, count, feed.pending.first()) {
                Err(_) if count > 1 && self.can_begin_alone() => {}
                Err(error) => return Err(error),
                Ok(_) => break (count, taken),
            }
        };
        watch.check()?;
        let began = Instant::now();
        let Feed { sequence, pending, keeper, .. } = feed;
        if taken == count {
            self.step(sequence, &pending[..count], 0, watch)?;
        } else {
            // No token sees one after it, so any will do, and what is remembered of them is written over.
            let known = sequence.tokens.len();
            let mut padded = pending[..taken].to_vec();
            padded.resize(count, pending[taken - 1]);
            match self.step(sequence, &padded, 0, watch) {
                Ok(_) => sequence.take_back(known + taken),
                // What was filled up may be beyond the model's positions, where what counts is not.
                Err(_) => drop(self.step(sequence, &pending[..taken], 0, watch)?),
            }
        }
        pending.drain(..taken);
        keeper.keep(sequence);
        let time = began.elapsed();
        if most.is_none() {
            self.pace().took(count, time, if self.program.timeline.has_own_memory() { PIECE_OF_DEVICE } else { PIECE });
        }
        Ok((count, time))
    }
}

/// How long pieces take, of which a part is the same for all sizes: each reads the weights once.
#[derive(Debug)]
pub(super) struct Pace {
    /// Tokens of the next piece, about.
    piece: usize,
    /// Tokens and nanoseconds of the last one that tells something.
    last: Option<(f64, f64)>,
    /// Nanoseconds that one token more takes.
    slope: Option<f64>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { piece: FIRST_PIECE, last: None, slope: None }
    }
}

impl Pace {
    /// A piece of so many tokens took so long, of at most so much.
    fn took(&mut self, count: usize, time: Duration, most: Duration) {
        let (tokens, time, most) = (count as f64, time.as_nanos().max(1) as f64, most.as_nanos() as f64);
        // Where there are more, each takes less.
        let by_share = tokens * most / time;
        // A short piece tells little of longer ones.
        if count < FIRST_PIECE && time <= most && (count < FIRST_PIECE / 2 || by_share >= self.piece as f64) {
            return;
        }
        let slope = self.last.map(|(others, other)| (time - other) / (tokens - others));
        self.slope = slope.filter(|slope| slope.is_finite() && *slope > 0.0).or(self.slope);
        let fitting = match self.slope {
            Some(slope) => {
                // What reading the weights takes is no more than a third of it, however long that is.
                let most = most.max(3.0 * (time - slope * tokens));
                (tokens + (most - time) / slope).min(4.0 * tokens)
            }
            None => by_share,
        };
        self.last = Some((tokens, time));
        self.piece = (fitting as usize).clamp(1, LARGEST_PIECE);
    }
}

/// How long pieces beside the steps of others take, by their tokens, and how many the next one may have.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Seconds of a piece of so many tokens, lately.
    times: BTreeMap<usize, f64>,
    next: Option<usize>,
}

impl Beside {
    /// Tokens of the next piece at most, of which the first one has so many.
    pub fn next_or(&self, first: usize) -> usize {
        self.next.unwrap_or(first)
    }

    /// A piece of so many tokens takes so long, as others have measured.
    pub fn knows(&mut self, count: usize, time: f64) {
        self.times.insert(count, time);
    }

    /// A piece of so many tokens took so long, of at most so much.
    ///
    /// A single one tells little, since others have the cores at times: times follow slowly, and those of other sizes follow what this one lets
    /// expect. A part of a piece is the same for all sizes, because each reads the weights.
    pub fn took(&mut self, count: usize, time: f64, most: f64) {
        let known = self.times.entry(count).or_insert(time);
        *known += (time.min(2.0 * *known) - *known) / 8.0;
        let known = *known;
        let other = self.times.range(..count).next().or_else(|| self.times.range(count + 1..).next_back());
        let slope = other.map(|(&tokens, &time)| (known - time) / (count as f64 - tokens as f64));
        // At least a little, at most as if nothing were the same for all.
        let slope = slope.map(|slope| slope.clamp(0.01 * known / count as f64, known / count as f64));
        let expected = |tokens: usize, slope: f64| known + slope * (tokens as f64 - count as f64);
        if let Some(slope) = slope {
            for (&tokens, time) in self.times.iter_mut().filter(|(tokens, _)| **tokens != count) {
                *time += (expected(tokens, slope) - *time) / 16.0;
            }
        }
        let fits = |tokens: usize| match (self.times.get(&tokens), slope) {
            (Some(time), _) => *time <= most,
            (None, Some(slope)) => expected(tokens, slope) <= most,
            (None, None) => known <= most,
        };
        let (mut next, mut tokens) = (1, 1);
        while tokens <= larger(count).min(LARGEST_PIECE) && fits(tokens) {
            (next, tokens) = (tokens, larger(tokens));
        }
        self.next = Some(next);
    }
}

/// The next size of pieces beside the steps of others.
fn larger(count: usize) -> usize {
    match count {
        ..4 => 2 * count.max(1),
        _ if count.is_power_of_two() => count + count / 2,
        _ => count.next_power_of_two(),
    }
}

/// How many tokens the next piece of so many has a plan for, and how many of the prompt it takes: few sizes, so that there are few plans,
/// and as large as may be, since each piece reads all weights. What is left in the end is filled up, by an eighth or so; the last piece
/// may be longer than others if it `may_exceed` the most.
pub(super) fn piece(left: usize, most: usize, may_pad: bool, may_exceed: bool) -> (usize, usize) {
    let most = most.clamp(1, LARGEST_PIECE);
    if !may_pad {
        let count = 1 << most.min(left).ilog2();
        return (count, count);
    }
    // A last piece may be longer than others by so much: what a piece of few tokens would take is nearly all to read the weights.
    if filled(left) <= most + if may_exceed { most * 3 / 5 } else { 0 } {
        return (filled(left), left);
    }
    let largest = most.min(left);
    let power = 1 << largest.ilog2();
    let count = match largest {
        // Nearer to what it may be, in few sizes.
        4.. if !may_exceed => {
            if largest >= power + power / 2 {
                power + power / 2
            } else {
                power
            }
        }
        ..=8 => power,
        _ => largest / step(largest) * step(largest),
    };
    (count, count)
}

/// Powers of two, and from 8 on eighths of these.
fn step(count: usize) -> usize {
    if count <= 8 { count.next_power_of_two() } else { (count.next_power_of_two() / 8).max(8) }
}

/// The least number of tokens, of which there are plans, that so many fit in.
fn filled(count: usize) -> usize {
    count.next_multiple_of(step(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that a pace comes to, where a piece takes so many milliseconds and so many microseconds for each token.
    fn pieces(fixed: u64, each: u64, count: usize) -> Vec<usize> {
        let mut pace = Pace::default();
        let next = |_| {
            let (tokens, _) = piece(usize::MAX / 2, pace.piece, true, true);
            pace.took(tokens, Duration::from_millis(fixed) + Duration::from_micros(each) * tokens as u32, PIECE);
            pace.piece
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn pieces_come_to_last_as_long_as_they_may() {
        // As long as they may be at once; where each reads weights for long; where even few tokens take too long.
        assert_eq!(pieces(0, 500, 2), [256, 256]);
        assert_eq!(pieces(0, 1, 2), [LARGEST_PIECE; 2]);
        let slow = pieces(40, 1000, 4);
        assert!(slow[0] > FIRST_PIECE && (85..=88).contains(&slow[1]) && slow[1..] == [slow[1]; 3], "{slow:?}");
        let large = pieces(200, 1000, 6);
        assert!((390..=400).contains(&large[5]), "{large:?}");
        assert_eq!(pieces(0, 64_000, 6).last(), Some(&2));
    }

    #[test]
    fn pieces_beside_steps_are_as_large_as_may_be_also_where_some_take_long() {
        for (fixed, each, most, wanted) in
            [(4.0, 0.7, 8.7, 6), (4.0, 1.0, 4.5, 1), (4.0, 0.1, 8.0, 32), (1.0, 1.0, 8.0, 6), (0.0, 2.0, 10.0, 4)]
        {
            let mut beside = Beside::default();
            let mut sizes = Vec::new();
            for piece in 0..400 {
                let count = beside.next_or(1);
                sizes.push(count);
                let usual = fixed + each * count as f64;
                beside.took(count, if piece % 20 == 7 { 3.0 * usual } else { usual }, most);
            }
            let at_most = sizes.iter().filter(|size| **size > wanted).count();
            let mean = sizes.iter().sum::<usize>() as f64 / 400.0;
            assert!(at_most == 0 && mean >= 0.65 * wanted as f64, "{mean} of {wanted}, {at_most} larger");
        }
    }

    #[test]
    fn short_pieces_tell_little() {
        let mut pace = Pace::default();
        pace.took(3, Duration::from_millis(60), PIECE);
        assert_eq!(pace.piece, FIRST_PIECE);
        // But for one that takes too long.
        pace.took(3, Duration::from_millis(256), PIECE);
        assert_eq!(pace.piece, 1);
    }

    #[test]
    fn pieces_have_few_sizes_and_little_that_is_filled_up() {
        let mut sizes = std::collections::BTreeSet::new();
        for (may_pad, may_exceed) in [(true, true), (true, false), (false, true)] {
            for most in [1, 3, 8, 12, 32, 100, 256, 600, 1000] {
                for prompt in 1..600 {
                    let mut left = prompt;
                    while left > 0 {
                        let (count, taken) = piece(left, most, may_pad, may_exceed);
                        let most = most.min(LARGEST_PIECE);
                        let is_last = may_pad && may_exceed && taken == left;
                        assert!((1..=left).contains(&taken) && count >= taken);
                        assert!(count <= if is_last { most + most * 3 / 5 } else { most });
                        assert!(count - taken <= (taken / 4).max(7), "{taken} in {count}");
                        assert!(count == taken || may_pad && taken == left);
                        // Nothing much smaller than it may be.
                        assert!(!may_pad || taken == left || 2 * count >= most.min(left));
                        sizes.insert(count);
                        left -= taken;
                    }
                }
            }
        }
        assert!(sizes.len() <= 30, "{sizes:?}");
    }
}
