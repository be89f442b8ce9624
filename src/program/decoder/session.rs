//! Sequences that a call continues. What they have seen is kept for other calls ([`super::prefixes`]).

use super::Decoder;
use super::draft::{DraftModel, Drafted};
use super::embedding::Given;
use super::features;
use super::feed::Feed;
use super::generation::Generation;
use super::guesses::{Guesser, Origin, SIZES_TOGETHER, fitting};
use super::inputs::ConstantInput;
use super::masks::{Coming, Masks, When};
use super::prefixes::{Keeper, Prefixes};
use super::sampling::{Allowed, Choice, Occurrences, Sampling};
use super::sequence::Sequence;
use crate::error::{Error, Kind, Result};
use crate::onnx::Random;
use crate::program::run::spawn;
use crate::timeline::{Done, StepTime, Watch, WatchOptions};
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
    coming: Coming,
}

#[derive(Debug, Default)]
struct State {
    sequences: Vec<Generation>,
    sampling: Option<Sampling>,
    speculation: Option<Speculation>,
    /// They are there for as long as the prompts are read.
    features: Vec<Given>,
}

/// How the sequences of a call guess.
#[derive(Debug)]
struct Speculation {
    origin: Origin,
    draft: Option<DraftModel>,
    /// Tokens of a sequence at most.
    most: usize,
    /// How many are guessed each time.
    fixed: Option<usize>,
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
    Continue { sequences: Vec<usize>, chooses: bool, masks: When },
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
    /// What stands for tokens in prompts.
    pub features: Vec<Given>,
}

/// Works on a thread of its own.
pub fn start(session: Arc<Session>, work: Work, options: WatchOptions, done: Done<Next>) {
    match Watch::of(options) {
        Ok(watch) => *session.lock_watch() = watch,
        Err(error) => return done.report(Err(error)),
    }
    session.coming.forget();
    let run = move |done: Done<Next>| {
        // The session goes before script hears of it: what it remembers may be what the next call needs.
        done.run(move || match work {
            Work::Begin(prompts) => session.begin(prompts),
            Work::Continue { sequences, chooses, masks } => session.next(&sequences, chooses, masks),
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
        Session { decoder, prefixes, call, state: Mutex::default(), watch: Mutex::default(), coming: Coming::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A sequence has a token when its rows are there.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps of what was continued last, if they were wanted.
    pub fn take_steps(&self) -> Vec<StepTime> {
        self.lock_watch().take_steps()
    }

    /// Ends what is under way, soon.
    pub fn cancel(&self) {
        self.lock_watch().give_up();
        self.coming.wake();
    }

    /// The masks of the step that is under way, which began without them.
    pub fn give(&self, masks: Masks) {
        self.coming.give(masks);
    }

    /// Has it guess: what was said before, or what a smaller model says; a number of tokens each time, or as many as are worth it. So many tokens
    /// come of each sequence at most.
    ///
    /// # Errors
    /// `NotSupportedError` for a model that cannot guess.
    pub fn speculate(&self, draft: Option<Arc<Decoder>>, most: usize, fixed: Option<usize>) -> Result<()> {
        let origin = if draft.is_some() { Origin::Draft } else { Origin::Lookup };
        let draft = draft.map(DraftModel::new).transpose()?;
        self.lock().speculation = Some(Speculation { origin, draft, most, fixed });
        Ok(())
    }

    /// The call has ended, so that others need not wait for it.
    pub fn leave(&self) {
        self.coming.close();
        // Whoever works on it now sees that it is not wanted any more, and keeps nothing.
        if let Ok(mut state) = self.state.try_lock() {
            let State { sequences, speculation, .. } = &mut *state;
            sequences.iter_mut().for_each(|generation| generation.settle(&self.decoder, None));
            if let Some(Speculation { draft: Some(draft), .. }) = speculation {
                draft.leave();
            }
        }
        if self.decoder.scheduler.leave(self.call) {
            self.decoder.together.rest();
        }
    }

    /// What is looked at and kept. Where tokens after something known are computed one by one, prefixes are worth it only if somebody
    /// says so.
    fn keeper(&self) -> Keeper {
        let by_default = || (!self.decoder.begins_alone()).then(|| self.decoder.prefixes.clone());
        let prefixes = self.prefixes.clone().or_else(by_default);
        Keeper::new(prefixes.filter(|_| self.decoder.can_keep()))
    }

    /// Each sequence begins with the longest prefix of its prompt that is known.
    fn begin(&self, begin: Prompts) -> Result<Next> {
        let Prompts { mut prompts, count, sampling, seed, given, mut features } = begin;
        let tokens_given = prompts.clone();
        self.decoder.place_features(&mut prompts, &mut features)?;
        let given = self.decoder.given(given, prompts.len())?;
        let mut state = self.lock();
        let mut random = Random::new(seed);
        let mut known = Vec::new();
        let State { sequences, speculation, .. } = &mut *state;
        sequences.clear();
        // Without them the tokens are the same.
        let speculation = speculation.as_ref().filter(|_| self.decoder.refuses_guesses().is_none());
        for ((prompt, tokens), given) in prompts.iter().zip(&tokens_given).zip(given) {
            let mut keeper = self.keeper();
            let found = keeper.begin(prompt, &given);
            let sequence = found.unwrap_or_else(|| Sequence::new(given));
            known.push(sequence.tokens.len());
            let pending = prompt[sequence.tokens.len()..].to_vec();
            let occurrences = Occurrences::of(tokens.iter().copied().filter(|id| *id < features::FIRST));
            let mut stream = || random.stream(None).map_err(|text| Error::new(Kind::Unknown, text));
            let feed = Feed { sequence, pending, keeper, ..Feed::default() };
            let guesser = speculation.as_ref().map(|of| Guesser::new(of.origin, prompt, of.most, of.fixed));
            let first = sequences.len();
            sequences.push(Generation::new(feed, occurrences.clone(), stream()?, guesser.clone()));
            for _ in 1..count {
                let mut copy = Generation::new(Feed::default(), occurrences.clone(), stream()?, guesser.clone());
                copy.copy_of = Some(first);
                sequences.push(copy);
            }
        }
        (state.sampling, state.features) = (Some(sampling), features);
        Ok(Next::Begun(known))
    }

    fn next(&self, wanted: &[usize], chooses: bool, masks: When) -> Result<Next> {
        let mut state = self.lock();
        let State { sequences, sampling, speculation, .. } = &mut *state;
        let sampling = sampling.as_ref().ok_or_else(|| Error::new(Kind::Operation, "nothing was begun (internal error)"))?;
        if let Some(number) = wanted.iter().find(|&&number| number >= sequences.len()) {
            return Err(Error::new(Kind::Operation, format!("no sequence {number} (internal error)")));
        }
        wanted.iter().for_each(|&number| sequences[number].settle(&self.decoder, None));
        if let Some(speculation) = speculation {
            let known = if let When::Now(masks) = &masks { &masks[..] } else { &[] };
            self.guess(sequences, wanted, speculation, sampling, known)?;
        }
        let all = self.feed(sequences, wanted)?;
        if let (Some(Speculation { draft: Some(draft), .. }), Some((_, logits))) = (speculation, all.first()) {
            draft.require_tokens(logits.len())?;
        }
        if !chooses {
            return Ok(Next::Logits(all));
        }
        let allowed = match masks {
            When::Now(masks) => masks,
            When::Later => {
                let watch = self.lock_watch().clone();
                self.coming.take(&watch)?
            }
        };
        let mut chosen = Vec::with_capacity(all.len());
        for (number, logits) in all {
            let mut next = Some(logits);
            while let Some(mut logits) = next {
                let generation = &mut sequences[number];
                let mask = allowed_of(wanted, &allowed, number);
                let choice = self.choose_of(number, generation, &mut logits, mask, sampling);
                chosen.push((number, choice.map_err(|error| error.of("generate", ""))?));
                // Somebody says what is allowed after it, or nobody does.
                next = if allowed.is_empty() { generation.next_logits() } else { None };
            }
        }
        Ok(Next::Chosen(chosen))
    }

    /// Has sequences guess what comes next.
    fn guess(
        &self,
        sequences: &mut [Generation],
        wanted: &[usize],
        speculation: &mut Speculation,
        sampling: &Sampling,
        masks: &[Option<Allowed>],
    ) -> Result<()> {
        // What others are copies of has nothing after its prompt.
        let copied: Vec<usize> = wanted.iter().filter_map(|&number| sequences[number].copy_of).collect();
        let guesses = |number: usize| wanted.contains(&number) && !copied.contains(&number);
        let mut all = Vec::new();
        for (number, generation) in sequences.iter_mut().enumerate().filter(|(number, _)| guesses(*number)) {
            let Generation { feed, occurrences, random, copy_of, guesser: Some(guesser), drafted, .. } = generation else {
                continue;
            };
            feed.guesses.clear();
            match &speculation.draft {
                _ if copy_of.is_some() => {}
                None if speculation.origin == Origin::Draft => {}
                None => feed.guesses = guesser.look_up(),
                Some(draft) if guesser.room() > 0 && feed.pending.len() == 1 => {
                    let room = guesser.room();
                    let size = if guesser.is_fixed() { fitting(room) } else { draft.wanted(&self.decoder, guesser.rate()) };
                    let ready = self.decoder.sizes(&feed.sequence, size);
                    let mut count = match guesser.is_fixed() {
                        true if ready.contains(&size) => room,
                        true => 0,
                        false => draft.count(&self.decoder, &ready, guesser.rate()).min(room),
                    };
                    if wanted.len() > 1 {
                        count = count.min(SIZES_TOGETHER.iter().max().map_or(0, |most| most - 1));
                    }
                    let (random, occurrences) = (random.clone(), occurrences.clone());
                    if count > 0 {
                        let (ids, memory, allowed) = (&guesser.ids[..], drafted, allowed_of(wanted, masks, number));
                        all.push((number, Drafted { ids, memory, allowed, random, occurrences, count, guesses: Vec::new() }));
                    }
                }
                Some(_) => {}
            }
            (feed.rate, feed.is_fixed) = (guesser.rate(), guesser.is_fixed());
        }
        let Some(draft) = speculation.draft.as_mut().filter(|_| !all.is_empty()) else { return Ok(()) };
        let watch = self.lock_watch().clone();
        let (numbers, mut all): (Vec<usize>, Vec<Drafted<'_>>) = all.into_iter().unzip();
        let time = draft.guess(&mut all, sampling, &watch);
        let found: Vec<Vec<u32>> = all.into_iter().map(|one| one.guesses).collect();
        let Ok(time) = time else {
            // Such as a text that is longer than it may be for that model.
            watch.check()?;
            speculation.draft = None;
            return Ok(());
        };
        let steps = self.decoder.guessing.costs().time(1).map_or(0.0, |step| time / step);
        for (number, found) in numbers.into_iter().zip(found) {
            let generation = &mut sequences[number];
            generation.feed.guesses = found;
            generation.guesser.iter_mut().for_each(|guesser| guesser.spent(steps));
        }
        Ok(())
    }

    /// Has the model see the tokens of sequences that are new to it; the logits after them.
    fn feed(&self, sequences: &mut [Generation], wanted: &[usize]) -> Result<Vec<(usize, Vec<f32>)>> {
        let copied_from =
            |sequences: &[Generation], number: usize| sequences[number].copy_of.filter(|from| wanted.contains(from));
        let own: Vec<usize> = wanted.iter().copied().filter(|&number| copied_from(sequences, number).is_none()).collect();
        let mut feeds = Vec::with_capacity(own.len());
        for &number in &own {
            sequences[number].copy_of = None;
            feeds.push(std::mem::take(&mut sequences[number].feed));
        }
        let watch = self.lock_watch().clone();
        let fed = self.decoder.feed(self.call, feeds, &watch);
        let mut all: HashMap<usize, Result<Vec<f32>>> = HashMap::new();
        for (&number, (feed, logits)) in own.iter().zip(fed) {
            all.insert(number, sequences[number].stepped(feed, logits));
        }
        let mut logits = Vec::with_capacity(wanted.len());
        for &number in wanted {
            let Some(from) = copied_from(sequences, number) else {
                logits.push((number, all.remove(&number).unwrap_or_else(|| Ok(Vec::new()))?));
                continue;
            };
            // What the first one of a prompt has just seen.
            let seen = logits.iter().find(|(other, _)| *other == from).map(|(_, logits): &(usize, Vec<f32>)| logits.clone());
            let sequence = sequences[from].feed.sequence.clone();
            if let Some(seen) = seen {
                let generation = &mut sequences[number];
                (generation.feed.sequence, generation.copy_of) = (sequence, None);
                generation.feed.keeper = self.keeper();
                logits.push((number, seen));
            }
        }
        Ok(logits)
    }

    fn with<T>(&self, number: usize, work: impl FnOnce(&mut Generation, &Sampling) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        let State { sequences, sampling, .. } = &mut *state;
        match (sequences.get_mut(number), sampling) {
            (Some(generation), Some(sampling)) => work(generation, sampling),
            _ => Err(Error::new(Kind::Operation, "no such sequence (internal error)")),
        }
    }

    /// Chooses a token by numbers that somebody changed.
    ///
    /// # Errors
    /// `OperationError` where no token is allowed.
    pub fn choose(&self, number: usize, logits: &mut [f32], allowed: Option<&Allowed>) -> Result<Choice> {
        self.with(number, |generation, sampling| self.choose_of(number, generation, logits, allowed, sampling))
    }

    /// Chooses a token of a sequence. An error has the place.
    fn choose_of(
        &self,
        number: usize,
        generation: &mut Generation,
        logits: &mut [f32],
        allowed: Option<&Allowed>,
        sampling: &Sampling,
    ) -> Result<Choice> {
        generation.choose(logits, allowed, sampling, &self.decoder).map_err(|error| {
            let place = generation.occurrences.generated() + 1;
            Error::new(error.kind(), format!("sequence {number}, new token {place}: {}", error.message()))
        })
    }

    /// Whether the last token was guessed, so that the next one needs no step.
    ///
    /// # Errors
    /// `OperationError` where there is no such sequence.
    pub fn is_guessed(&self, number: usize) -> Result<bool> {
        self.with(number, |generation, _| Ok(generation.has_logits()))
    }

    /// Chooses the next token then.
    ///
    /// # Errors
    /// As [`Session::choose`].
    pub fn choose_guessed(&self, number: usize, allowed: Option<&Allowed>) -> Result<Choice> {
        self.with(number, |generation, sampling| {
            let mut logits = generation.next_logits().ok_or_else(not_guessed)?;
            self.choose_of(number, generation, &mut logits, allowed, sampling)
        })
    }

    /// The logits after the last token, if that was guessed, once.
    ///
    /// # Errors
    /// `OperationError` where it was not.
    pub fn guessed_logits(&self, number: usize) -> Result<Vec<f32>> {
        self.with(number, |generation, _| generation.next_logits().ok_or_else(not_guessed))
    }

    /// Adds tokens after the one that was chosen. The model sees them together with it.
    ///
    /// # Errors
    /// `OperationError` where no token was chosen.
    pub fn append(&self, number: usize, ids: &[u32]) -> Result<()> {
        self.with(number, |generation, _| {
            if !generation.has_begun() {
                return Err(Error::new(Kind::Operation, "no token was chosen (internal error)"));
            }
            ids.iter().for_each(|&id| generation.take(id, &self.decoder));
            Ok(())
        })
    }
}

/// The mask of a sequence, out of those of the wanted ones.
fn allowed_of<'a>(wanted: &[usize], masks: &'a [Option<Allowed>], number: usize) -> Option<&'a Allowed> {
    let place = wanted.iter().position(|&other| other == number)?;
    masks.get(place)?.as_ref()
}

fn not_guessed() -> Error {
    Error::new(Kind::Operation, "the last token was not guessed (internal error)")
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}
