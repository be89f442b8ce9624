//! Sequences that a call continues. What they have seen is kept for other calls ([`super::prefixes`]).

use super::Decoder;
use super::inputs::ConstantInput;
use super::prefixes::{Keeper, Prefixes};
use super::sampling::{Allowed, Choice, Occurrences, Sampling};
use super::scheduler::Feed;
use super::sequence::Sequence;
use crate::error::{Error, Kind, Result};
use crate::onnx::{Random, Stream};
use crate::program::run::spawn;
use crate::timeline::{Done, Watch, Wish};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sequences of one call.
#[derive(Debug)]
pub struct Session {
    decoder: Arc<Decoder>,
    /// Where it looks for what is known, and keeps what it sees; nothing for the decoder's.
    prefixes: Option<Arc<Prefixes>>,
    /// Its number among those of the decoder.
    call: u64,
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
    /// With the tokens that the model has not seen yet.
    feed: Feed,
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
    /// Continues some sequences by a token, which is chosen if that is wanted: one of those that are allowed, where that is given for a
    /// sequence in its place.
    Continue { sequences: Vec<usize>, chooses: bool, allowed: Vec<Option<Allowed>> },
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
pub fn start(session: Arc<Session>, work: Work, wish: Wish, done: Done<Next>) {
    match Watch::of(wish) {
        Ok(watch) => *session.lock_watch() = watch,
        Err(error) => return done.report(Err(error)),
    }
    let run = move |done: Done<Next>| {
        // The session goes before script hears of it: what it remembers may be what the next call needs.
        done.run(move || match work {
            Work::Begin(prompts) => session.begin(prompts),
            Work::Continue { sequences, chooses, allowed } => session.next(&sequences, chooses, &allowed),
        });
    };
    if let Err((error, done)) = spawn(done, run) {
        done.report(Err(error));
    }
}

impl Session {
    /// Without `prefixes` it shares those of the decoder.
    pub fn new(decoder: Arc<Decoder>, prefixes: Option<Arc<Prefixes>>) -> Session {
        let call = decoder.scheduler.enter();
        Session { decoder, prefixes, call, state: Mutex::default(), watch: Mutex::default() }
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

    /// The call has ended, so that others need not wait for it.
    pub fn leave(&self) {
        if self.decoder.scheduler.leave(self.call) {
            self.decoder.together.rest();
        }
    }

    /// What is looked at and kept. Where tokens behind something known are computed one by one, prefixes are worth it only if somebody
    /// says so.
    fn keeper(&self) -> Keeper {
        let by_default = || (!self.decoder.begins_alone()).then(|| self.decoder.prefixes.clone());
        Keeper::new(self.prefixes.clone().or_else(by_default))
    }

    /// Each sequence begins with the longest prefix of its prompt that is known.
    fn begin(&self, begin: Prompts) -> Result<Next> {
        let Prompts { prompts, count, sampling, seed, given } = begin;
        let given = self.decoder.given(given, prompts.len())?;
        let mut state = self.lock();
        let mut random = Random::new(seed);
        let mut known = Vec::new();
        state.sequences.clear();
        for (prompt, given) in prompts.iter().zip(given) {
            let keeper = self.keeper();
            let found = keeper.begin(prompt, &given);
            let sequence = found.unwrap_or_else(|| Sequence::new(given));
            known.push(sequence.tokens.len());
            let pending = prompt[sequence.tokens.len()..].to_vec();
            let occurrences = Occurrences::of(prompt);
            let mut stream = || random.stream(None).map_err(|text| Error::new(Kind::Unknown, text));
            state.sequences.push(Some(Generation {
                feed: Feed { sequence, pending, keeper },
                occurrences: occurrences.clone(),
                random: stream()?,
                copy_of: None,
            }));
            let first = state.sequences.len() - 1;
            for _ in 1..count {
                let (feed, occurrences) = (Feed::default(), occurrences.clone());
                state.sequences.push(Some(Generation { feed, occurrences, random: stream()?, copy_of: Some(first) }));
            }
        }
        state.sampling = Some(sampling);
        Ok(Next::Begun(known))
    }

    fn next(&self, wanted: &[usize], chooses: bool, allowed: &[Option<Allowed>]) -> Result<Next> {
        let mut state = self.lock();
        let State { sequences, sampling } = &mut *state;
        let sampling = sampling.as_ref().ok_or_else(|| Error::new(Kind::Operation, "nothing was begun (internal error)"))?;
        let all = self.feed(sequences, wanted)?;
        if !chooses {
            return Ok(Next::Logits(all));
        }
        let mut chosen = Vec::with_capacity(all.len());
        for (number, mut logits) in all {
            if let Some(Some(generation)) = sequences.get_mut(number) {
                let place = wanted.iter().position(|&other| other == number);
                let allowed = place.and_then(|place| allowed.get(place)?.as_ref());
                chosen.push((number, generation.choose(&mut logits, allowed, sampling)?));
            }
        }
        Ok(Next::Chosen(chosen))
    }

    /// Has the model see the tokens of sequences that are new to it; the logits behind them.
    fn feed(&self, sequences: &mut [Option<Generation>], wanted: &[usize]) -> Result<Vec<(usize, Vec<f32>)>> {
        let copied_from = |sequences: &[Option<Generation>], number: usize| {
            let from = sequences.get(number).and_then(Option::as_ref).and_then(|generation| generation.copy_of);
            from.filter(|from| wanted.contains(from))
        };
        let own: Vec<usize> = wanted.iter().copied().filter(|&number| copied_from(sequences, number).is_none()).collect();
        let mut feeds = Vec::with_capacity(own.len());
        for &number in &own {
            let Some(Some(generation)) = sequences.get_mut(number) else {
                return Err(Error::new(Kind::Operation, "no such sequence (internal error)"));
            };
            generation.copy_of = None;
            feeds.push(std::mem::take(&mut generation.feed));
        }
        let watch = self.lock_watch().clone();
        let fed = self.decoder.feed(self.call, feeds, &watch);
        let mut all: HashMap<usize, Result<Vec<f32>>> = HashMap::new();
        for (&number, (feed, logits)) in own.iter().zip(fed) {
            if let Some(Some(generation)) = sequences.get_mut(number) {
                generation.feed = feed;
            }
            all.insert(number, logits);
        }
        let mut logits = Vec::with_capacity(wanted.len());
        for &number in wanted {
            let Some(from) = copied_from(sequences, number) else {
                logits.push((number, all.remove(&number).unwrap_or_else(|| Ok(Vec::new()))?));
                continue;
            };
            // What the first one of a prompt has just seen.
            let seen = logits.iter().find(|(other, _)| *other == from).map(|(_, logits): &(usize, Vec<f32>)| logits.clone());
            let sequence = sequences[from].as_ref().map(|generation| generation.feed.sequence.clone());
            if let (Some(seen), Some(sequence), Some(generation)) = (seen, sequence, &mut sequences[number]) {
                (generation.feed.sequence, generation.copy_of) = (sequence, None);
                generation.feed.keeper = self.keeper();
                logits.push((number, seen));
            }
        }
        Ok(logits)
    }

    /// Chooses a token by numbers that somebody changed.
    ///
    /// # Errors
    /// `OperationError` where no token is allowed.
    pub fn choose(&self, number: usize, logits: &mut [f32], allowed: Option<&Allowed>) -> Result<Choice> {
        let mut state = self.lock();
        let State { sequences, sampling } = &mut *state;
        match (sequences.get_mut(number), sampling) {
            (Some(Some(generation)), Some(sampling)) => generation.choose(logits, allowed, sampling),
            _ => Err(Error::new(Kind::Operation, "no such sequence (internal error)")),
        }
    }

    /// Adds tokens behind the one that was chosen. The model sees them together with it.
    ///
    /// # Errors
    /// `OperationError` where no token was chosen.
    pub fn append(&self, number: usize, ids: &[u32]) -> Result<()> {
        match self.lock().sequences.get_mut(number) {
            Some(Some(generation)) if !generation.feed.pending.is_empty() => {
                generation.feed.pending.extend_from_slice(ids);
                ids.iter().for_each(|&id| generation.occurrences.add(id));
                Ok(())
            }
            _ => Err(Error::new(Kind::Operation, "no such sequence (internal error)")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Generation {
    fn choose(&mut self, logits: &mut [f32], allowed: Option<&Allowed>, sampling: &Sampling) -> Result<Choice> {
        let choice = sampling.choose(logits, allowed, &self.occurrences, &mut self.random)?;
        self.occurrences.add(choice.id);
        self.feed.pending = vec![choice.id];
        Ok(choice)
    }
}
