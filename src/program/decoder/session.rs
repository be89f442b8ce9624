//! Sequences that a decoder continues, and what it remembers of them from one call to the next.

use super::Decoder;
use super::inputs::ConstantInput;
use super::sampling::{Choice, Occurrences, Sampling};
use super::sequence::Sequence;
use crate::error::{Error, Kind, Result};
use crate::onnx::{Random, Stream};
use crate::program::caches::AHEAD;
use crate::program::run::spawn;
use crate::timeline::{Done, Watch};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A piece of a prompt takes so long, about, on the CPU: other runs wait for it. Whoever cancels does not, since the run ends between
/// two pieces of a step. Each piece expands all weights once more: with 32 ms a prompt of 512 tokens takes 1.6 times as long in float16
/// and of 8 bits (Zen 5, one thread).
const PIECE: Duration = Duration::from_millis(128);
/// And on a device, where a run that has begun goes on to its end.
const PIECE_ELSEWHERE: Duration = Duration::from_millis(32);
/// Tokens of a piece: to begin with, and at most.
pub(super) const FIRST_PIECE: usize = 32;
const LARGEST_PIECE: usize = 512;

/// Sequences of one decoder.
#[derive(Debug)]
pub struct Session {
    decoder: Arc<Decoder>,
    state: Mutex<State>,
    /// Of the work that is under way: given up when somebody wants it to end.
    watch: Mutex<Watch>,
}

#[derive(Debug, Default)]
struct State {
    sequences: Vec<Option<Generation>>,
    sampling: Option<Sampling>,
}

/// A sequence that is being continued.
#[derive(Debug)]
struct Generation {
    sequence: Sequence,
    /// Tokens that the model has not seen yet.
    pending: Vec<u32>,
    occurrences: Occurrences,
    random: Stream,
    /// Of which prompt it is a copy, if it is one.
    copy_of: Option<usize>,
}

/// What a step gives, by sequence.
#[derive(Debug)]
pub enum Next {
    /// How many tokens of each prompt were known.
    Begun(Vec<usize>),
    Chosen(Vec<(usize, Choice)>),
    Logits(Vec<(usize, Vec<f32>)>),
}

/// What to do in the background.
#[derive(Debug)]
pub enum Work {
    /// Begins with prompts, each of which is continued so many times.
    Begin(Prompts),
    /// Continues some sequences by a token, which is chosen if that is wanted.
    Continue { sequences: Vec<usize>, chooses: bool },
}

/// What sequences begin with.
#[derive(Debug)]
pub struct Prompts {
    pub prompts: Vec<Vec<u32>>,
    /// How often each is continued.
    pub count: usize,
    pub sampling: Sampling,
    pub seed: Option<u64>,
    /// Values of inputs that have no meaning here.
    pub given: Vec<ConstantInput>,
}

/// Works on a thread of its own.
pub fn start(session: Arc<Session>, work: Work, done: Done<Next>) {
    *session.lock_watch() = Watch::new(false);
    let run = move |done: Done<Next>| {
        done.run(|| match work {
            Work::Begin(prompts) => session.begin(prompts),
            Work::Continue { sequences, chooses } => session.next(&sequences, chooses),
        });
    };
    if let Err((error, done)) = spawn(done, run) {
        done.report(Err(error));
    }
}

impl Session {
    pub fn new(decoder: Arc<Decoder>) -> Session {
        Session { decoder, state: Mutex::default(), watch: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A sequence has a token when its rows are there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is under way, soon.
    pub fn cancel(&self) {
        self.lock_watch().give_up();
    }

    /// What is known of earlier sequences is kept as far as they begin alike.
    fn begin(&self, begin: Prompts) -> Result<Next> {
        let Prompts { prompts, count, sampling, seed, given } = begin;
        let given = self.decoder.roles.given(given, prompts.len())?;
        let mut state = self.lock();
        let mut old: Vec<Option<Sequence>> =
            std::mem::take(&mut state.sequences).into_iter().flatten().map(|generation| Some(generation.sequence)).collect();
        let best = |(prompt, given): (&Vec<u32>, &Arc<Vec<ConstantInput>>)| {
            let same = |sequence: &Option<Sequence>| Some(sequence.as_ref()?.shared_prefix(prompt, given));
            let all = old.iter().enumerate().filter_map(|(number, sequence)| Some((number, same(sequence)?)));
            all.max_by_key(|&(_, same)| same).filter(|&(_, same)| same > 0)
        };
        let found: Vec<Option<(usize, usize)>> = prompts.iter().zip(&given).map(best).collect();
        let mut random = Random::new(seed);
        let mut known = Vec::new();
        for (number, (prompt, sequence)) in prompts.iter().zip(&found).enumerate() {
            let sequence = match *sequence {
                None => Sequence::new(given[number].clone()),
                Some((from, same)) => {
                    let is_last = found[number + 1..].iter().flatten().all(|&(other, _)| other != from);
                    let mut sequence = match (&old[from], is_last) {
                        (Some(sequence), false) => sequence.clone(),
                        _ => old[from].take().unwrap_or_default(),
                    };
                    sequence.truncate(same);
                    sequence
                }
            };
            known.push(sequence.tokens.len());
            let pending = prompt[sequence.tokens.len()..].to_vec();
            let occurrences = Occurrences::of(prompt);
            let mut stream = || random.stream(None).map_err(|text| Error::new(Kind::Unknown, text));
            state.sequences.push(Some(Generation {
                sequence,
                pending,
                occurrences: occurrences.clone(),
                random: stream()?,
                copy_of: None,
            }));
            let first = state.sequences.len() - 1;
            for _ in 1..count {
                let (sequence, pending, occurrences) = (Sequence::default(), Vec::new(), occurrences.clone());
                state.sequences.push(Some(Generation {
                    sequence,
                    pending,
                    occurrences,
                    random: stream()?,
                    copy_of: Some(first),
                }));
            }
        }
        state.sampling = Some(sampling);
        Ok(Next::Begun(known))
    }

    fn next(&self, wanted: &[usize], chooses: bool) -> Result<Next> {
        let mut state = self.lock();
        let State { sequences, sampling } = &mut *state;
        let sampling = sampling.as_ref().ok_or_else(|| Error::new(Kind::Operation, "nothing was begun (internal error)"))?;
        let mut all: Vec<(usize, Vec<f32>)> = Vec::new();
        for &number in wanted {
            let copied = sequences.get(number).and_then(Option::as_ref).and_then(|generation| generation.copy_of);
            if let Some(from) = copied {
                // What the first one of a prompt has just seen.
                let logits = all.iter().find(|(other, _)| *other == from).map(|(_, logits)| logits.clone());
                let sequence = sequences[from].as_ref().map(|generation| generation.sequence.clone());
                if let (Some(logits), Some(sequence), Some(generation)) = (logits, sequence, &mut sequences[number]) {
                    (generation.sequence, generation.copy_of) = (sequence, None);
                    all.push((number, logits));
                    continue;
                }
            }
            let Some(Some(generation)) = sequences.get_mut(number) else {
                return Err(Error::new(Kind::Operation, "no such sequence (internal error)"));
            };
            all.push((number, self.feed(generation)?));
        }
        if !chooses {
            return Ok(Next::Logits(all));
        }
        let mut chosen = Vec::with_capacity(all.len());
        for (number, mut logits) in all {
            if let Some(Some(generation)) = sequences.get_mut(number) {
                chosen.push((number, generation.choose(&mut logits, sampling)?));
            }
        }
        Ok(Next::Chosen(chosen))
    }

    /// Chooses a token by numbers that somebody changed.
    ///
    /// # Errors
    /// `OperationError` where no token is allowed.
    pub fn choose(&self, number: usize, logits: &mut [f32]) -> Result<Choice> {
        let mut state = self.lock();
        let State { sequences, sampling } = &mut *state;
        match (sequences.get_mut(number), sampling) {
            (Some(Some(generation)), Some(sampling)) => generation.choose(logits, sampling),
            _ => Err(Error::new(Kind::Operation, "no such sequence (internal error)")),
        }
    }

    /// Has the model see the tokens of a sequence that are new to it.
    fn feed(&self, generation: &mut Generation) -> Result<Vec<f32>> {
        let watch = self.lock_watch().clone();
        while generation.pending.len() > 1 {
            watch.check()?;
            let left = generation.pending.len() - 1;
            let may_pad = !self.decoder.has_states();
            let known = generation.sequence.tokens.len();
            let (count, taken) = match (self.decoder.begins_alone(), known) {
                (true, 0) => (filled(left), left),
                (true, _) => (1, 1),
                (false, _) => piece(left, self.decoder.pace().piece, may_pad),
            };
            match self.decoder.plan_of(&generation.sequence, count) {
                Err(_) if count > 1 && self.decoder.can_begin_alone() => continue,
                planned => planned.map(drop)?,
            }
            watch.check()?;
            let begin = Instant::now();
            match taken == count {
                true => self.decoder.step(&mut generation.sequence, &generation.pending[..count], false, &watch)?,
                false => {
                    // No token sees one behind it, so any will do, and what is remembered of them is written over.
                    let mut padded = generation.pending[..taken].to_vec();
                    padded.resize(count, generation.pending[taken - 1]);
                    match self.decoder.step(&mut generation.sequence, &padded, false, &watch) {
                        Ok(logits) => {
                            generation.sequence.truncate(known + taken);
                            logits
                        }
                        // What was filled up may be beyond the model's positions, where what counts is not.
                        Err(_) => self.decoder.step(&mut generation.sequence, &generation.pending[..taken], false, &watch)?,
                    }
                }
            };
            generation.pending.drain(..taken);
            let most = if self.decoder.program.device.is_elsewhere() { PIECE_ELSEWHERE } else { PIECE };
            self.decoder.pace().took(count, begin.elapsed(), most);
        }
        watch.check()?;
        let logits = self.decoder.step(&mut generation.sequence, &generation.pending, true, &watch)?;
        generation.pending.clear();
        self.prepare(&generation.sequence);
        logits.ok_or_else(|| Error::new(Kind::Operation, "no logits (internal error)"))
    }

    /// Has the plan made that is needed soon, if it serves several lengths.
    fn prepare(&self, sequence: &Sequence) {
        let (form, length) = (self.decoder.form(sequence, 1, false), sequence.tokens.len() + AHEAD);
        let soon = self.decoder.extent_of(&form, length);
        if !soon.way.bucket.is_exact() {
            let decoder = self.decoder.clone();
            self.decoder.plans.make_ahead(&soon, move || drop(decoder.plan_for(&form, length)));
        }
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

/// How many tokens the next piece of so many has a plan for, and how many of the prompt it takes: few sizes, so that there are few plans,
/// and as large as may be, since each piece reads all weights. What is left in the end is filled up, by an eighth or so.
fn piece(left: usize, most: usize, may_pad: bool) -> (usize, usize) {
    let most = most.clamp(1, LARGEST_PIECE);
    if !may_pad {
        let count = 1 << most.min(left).ilog2();
        return (count, count);
    }
    // A last piece may be longer than others by so much: what a piece of few tokens would take is nearly all to read the weights.
    if filled(left) <= most + most * 3 / 5 {
        return (filled(left), left);
    }
    let largest = most.min(left);
    let count = match largest {
        ..=8 => 1 << largest.ilog2(),
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

impl Generation {
    fn choose(&mut self, logits: &mut [f32], sampling: &Sampling) -> Result<Choice> {
        let choice = sampling.choose(logits, &self.occurrences, &mut self.random)?;
        self.occurrences.add(choice.id);
        self.pending = vec![choice.id];
        Ok(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that a pace comes to, where a piece takes so many milliseconds and so many microseconds for each token.
    fn pieces(fixed: u64, each: u64, count: usize) -> Vec<usize> {
        let mut pace = Pace::default();
        let next = |_| {
            let (tokens, _) = piece(usize::MAX / 2, pace.piece, true);
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
        for may_pad in [true, false] {
            for most in [1, 3, 8, 12, 32, 100, 256, 600, 1000] {
                for prompt in 1..600 {
                    let mut left = prompt;
                    while left > 0 {
                        let (count, taken) = piece(left, most, may_pad);
                        let most = most.min(LARGEST_PIECE);
                        let is_last = may_pad && taken == left;
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
