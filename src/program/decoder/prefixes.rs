//! What several calls begin with: sequences that are kept, so that a prompt is computed only after the longest beginning that is known.
//!
//! - [`Prefixes`] are given to any number of calls at a time. A call begins with the longest prefix of its prompt, and keeps what the model
//!   has seen after each piece and each step. So prompts that begin alike are computed once also while they are under way: before a piece the call
//!   looks whether another one is further.
//! - A kept sequence shares its rows with the call that made it ([`crate::program::caches`]). Where another call goes on differently, the
//!   beginning is frozen, and all that go on from it share its memory.
//! - Beyond the bytes that are allowed, the sequences go that nobody has used for longest, but for those that alone begin with a pinned prefix.

use super::inputs::ConstantInput;
use super::sequence::Sequence;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sequences at most: each lookup compares all of them with the prompt.
const MOST: usize = 1024;

/// Frozen ones at most: each has a file of this process.
const MOST_FROZEN: usize = 32;

/// Kept sequences of one model.
#[derive(Debug)]
pub struct Prefixes {
    /// Bytes at most.
    most: usize,
    /// Shorter prefixes are not worth a copy.
    least: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were used.
    kept: Vec<KeptPrefix>,
    numbers: u64,
    memories: Memories,
    pins: Vec<Vec<u32>>,
    is_closed: bool,
    figures: Figures,
}

#[derive(Debug)]
struct KeptPrefix {
    number: u64,
    sequence: Sequence,
    /// Others go on from it: nothing takes its place.
    is_frozen: bool,
    /// Where its rows and states were when it was kept.
    addresses: Vec<usize>,
}

/// Memory that kept sequences have, several of them the same.
#[derive(Debug, Default)]
struct Memories {
    /// By address: how many have it, and its bytes.
    all: HashMap<usize, (usize, usize)>,
    bytes: usize,
}

impl Memories {
    fn add(&mut self, address: usize, bytes: usize) {
        let (users, known) = self.all.entry(address).or_default();
        *users += 1;
        self.bytes = self.bytes - *known + bytes;
        *known = bytes;
    }

    fn remove(&mut self, address: usize) {
        let Some((users, bytes)) = self.all.get_mut(&address) else { return };
        *users -= 1;
        if *users == 0 {
            self.bytes -= *bytes;
            self.all.remove(&address);
        }
    }
}

/// What calls have found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Now, of all that is kept.
    pub bytes: usize,
    pub sequences: usize,
    /// Prompts of which some tokens were known, when they began or before a later piece, and others.
    pub hits: u64,
    pub misses: u64,
    /// Tokens of prompts that were not computed again.
    pub reused: u64,
}

impl State {
    /// The kept sequence that knows most of a prompt, and how many tokens it knows.
    fn longest(&self, prompt: &[u32], given: &[ConstantInput]) -> Option<(usize, usize)> {
        let known = self.kept.iter().map(|kept| (kept.sequence.shared_prefix(prompt, given), kept.is_frozen));
        known.enumerate().max_by_key(|(_, found)| *found).map(|(position, (known, _))| (position, known))
    }

    /// A copy of the first tokens of a kept sequence, which is used now. Where it goes on differently, others may, too: what they begin with is
    /// frozen.
    fn take(&mut self, position: usize, known: usize) -> Sequence {
        self.kept[position..].rotate_left(1);
        let Some(kept) = self.kept.last() else { return Sequence::default() };
        self.figures.reused += known as u64;
        let has_room = self.kept.iter().filter(|kept| kept.is_frozen).count() < MOST_FROZEN;
        let is_branch = known < kept.sequence.tokens.len() && !kept.is_frozen && has_room;
        if let Some(frozen) = is_branch.then(|| kept.sequence.freeze(known)).flatten() {
            self.numbers += 1;
            self.push(self.numbers, frozen.clone(), true);
            return frozen;
        }
        let mut sequence = kept.sequence.clone();
        sequence.truncate(known);
        sequence
    }

    fn push(&mut self, number: u64, sequence: Sequence, is_frozen: bool) {
        let memories = sequence.memories();
        memories.iter().for_each(|(address, bytes)| self.memories.add(*address, *bytes));
        let addresses = memories.into_iter().map(|(address, _)| address).collect();
        self.kept.push(KeptPrefix { number, sequence, is_frozen, addresses });
    }

    /// Whether it alone begins with a pinned prefix.
    fn is_pinned(&self, position: usize) -> bool {
        let begins = |kept: &KeptPrefix, pin: &[u32]| kept.sequence.tokens.starts_with(pin);
        let others = |pin: &[u32]| self.kept.iter().enumerate().any(|(other, kept)| other != position && begins(kept, pin));
        self.pins.iter().any(|pin| begins(&self.kept[position], pin) && !others(pin))
    }

    /// Lets the sequence go that nobody has used for longest; whether there was one.
    fn release_one(&mut self) -> bool {
        let position = (0..self.kept.len()).find(|&position| !self.is_pinned(position));
        position.map(|position| self.remove(position)).is_some()
    }

    fn remove(&mut self, position: usize) {
        let kept = self.kept.remove(position);
        kept.addresses.iter().for_each(|address| self.memories.remove(*address));
    }

    fn fit(&mut self, most: usize) {
        while (self.kept.len() > MOST || self.memories.bytes > most) && self.release_one() {}
    }
}

impl Prefixes {
    pub fn new(most: usize, least: usize) -> Prefixes {
        Prefixes { most, least: least.max(1), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves what a failure finds.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Keeper::begin`].
    fn begin(&self, prompt: &[u32], given: &[ConstantInput]) -> Option<Sequence> {
        let mut state = self.lock();
        let found = state.longest(prompt, given).filter(|(_, known)| *known >= self.least);
        *(if found.is_some() { &mut state.figures.hits } else { &mut state.figures.misses }) += 1;
        found.map(|(position, known)| state.take(position, known))
    }

    /// A sequence that has seen more of what one is about to see, if there is one. The prompt may have counted as a miss so far.
    fn further(&self, sequence: &Sequence, pending: &[u32], was_missed: bool) -> Option<Sequence> {
        let mut state = self.lock();
        if state.kept.is_empty() {
            return None;
        }
        let prompt = [&sequence.tokens[..], pending].concat();
        let (position, known) = state.longest(&prompt, &sequence.given)?;
        let more = known.checked_sub(sequence.tokens.len()).filter(|more| *more >= self.least)?;
        let further = state.take(position, known);
        let figures = &mut state.figures;
        figures.reused -= (known - more) as u64;
        if was_missed {
            (figures.hits, figures.misses) = (figures.hits + 1, figures.misses - 1);
        }
        Some(further)
    }

    /// Bytes at most.
    pub fn most(&self) -> usize {
        self.most
    }

    /// What is kept, that used last at the end, without what others begin with.
    pub(super) fn all(&self) -> Vec<Sequence> {
        let state = self.lock();
        let is_covered = |position: usize, sequence: &Sequence| {
            let others = state.kept.iter().enumerate().filter(|(other, _)| *other != position);
            // Of equal ones the last stays.
            others
                .into_iter()
                .any(|(other, kept)| kept.sequence.covers(sequence) && (other > position || !sequence.covers(&kept.sequence)))
        };
        let kept = state.kept.iter().enumerate().filter(|(position, kept)| !is_covered(*position, &kept.sequence));
        kept.map(|(_, kept)| kept.sequence.clone()).collect()
    }

    /// Keeps what a sequence has seen, in the place of what was kept of it, or of less.
    pub(super) fn keep(&self, number: &mut Option<NonZeroU64>, sequence: &Sequence) {
        let mut state = self.lock();
        if state.is_closed || sequence.tokens.len() < self.least {
            return;
        }
        let next = || {
            state.numbers += 1;
            NonZeroU64::MIN.saturating_add(state.numbers - 1)
        };
        let number = number.get_or_insert_with(next).get();
        for position in (0..state.kept.len()).rev() {
            let kept = &state.kept[position];
            if kept.number == number || !kept.is_frozen && sequence.covers(&kept.sequence) {
                state.remove(position);
            }
        }
        state.push(number, sequence.clone(), false);
        state.fit(self.most);
    }

    /// Lets the sequence go that nobody has used for longest; whether there was one.
    fn release_one(&self) -> bool {
        self.lock().release_one()
    }

    /// Sequences that begin so stay, whatever they take.
    pub fn pin(&self, prefix: Vec<u32>) {
        self.lock().pins.push(prefix);
    }

    pub fn unpin(&self, prefix: &[u32]) {
        let mut state = self.lock();
        if let Some(position) = state.pins.iter().position(|pin| pin == prefix) {
            state.pins.swap_remove(position);
        }
        state.fit(self.most);
    }

    pub fn figures(&self) -> Figures {
        let state = self.lock();
        Figures { bytes: state.memories.bytes, sequences: state.kept.len(), ..state.figures }
    }

    /// Lets everything go, and keeps nothing any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        (state.kept, state.memories) = Default::default();
    }
}

/// Where a call keeps a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeper {
    prefixes: Option<Arc<Prefixes>>,
    number: Option<NonZeroU64>,
    /// Whether its prompt counts as a miss.
    is_missed: bool,
}

impl Keeper {
    pub fn new(prefixes: Option<Arc<Prefixes>>) -> Keeper {
        Keeper { prefixes, ..Keeper::default() }
    }

    /// The longest known beginning of a prompt, if any is known.
    pub fn begin(&mut self, prompt: &[u32], given: &[ConstantInput]) -> Option<Sequence> {
        let found = self.prefixes.as_ref()?.begin(prompt, given);
        self.is_missed = found.is_none();
        found
    }

    /// Keeps what the sequence has seen.
    pub fn keep(&mut self, sequence: &Sequence) {
        if let Some(prefixes) = &self.prefixes {
            prefixes.keep(&mut self.number, sequence);
        }
    }

    /// Goes on from another call's sequence, if that has seen more of what is pending.
    pub fn adopt(&mut self, sequence: &mut Sequence, pending: &mut Vec<u32>) {
        let further = self.prefixes.as_ref().and_then(|prefixes| prefixes.further(sequence, pending, self.is_missed));
        if let Some(further) = further {
            self.is_missed = false;
            pending.drain(..further.tokens.len() - sequence.tokens.len());
            *sequence = further;
        }
    }

    /// Makes room for what a context refuses; whether there was something to let go.
    pub fn release_one(&self) -> bool {
        self.prefixes.as_ref().is_some_and(|prefixes| prefixes.release_one())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: [u32; 0] = [];

    fn seen(tokens: &[u32]) -> Sequence {
        let mut sequence = Sequence::default();
        sequence.tokens.extend_from_slice(tokens);
        sequence
    }

    fn tokens(found: Option<Sequence>) -> Vec<u32> {
        found.map_or_else(Vec::new, |sequence| sequence.tokens)
    }

    /// Keeps each of some sequences for another call.
    fn kept(least: usize, all: &[&[u32]]) -> Prefixes {
        let prefixes = Prefixes::new(usize::MAX, least);
        all.iter().for_each(|tokens| prefixes.keep(&mut None, &seen(tokens)));
        prefixes
    }

    #[test]
    fn a_prompt_begins_with_the_longest_that_is_known() {
        let prefixes = kept(1, &[&[1, 2, 3, 4], &[1, 2, 9], &[5]]);
        assert_eq!(tokens(prefixes.begin(&[1, 2, 3, 7, 8], &[])), [1, 2, 3]);
        assert_eq!(tokens(prefixes.begin(&[1, 2, 9, 7], &[])), [1, 2, 9]);
        // The last token is wanted.
        assert_eq!(tokens(prefixes.begin(&[1, 2, 9], &[])), [1, 2]);
        assert_eq!(tokens(prefixes.begin(&[2], &[])), NOTHING);
        assert_eq!(tokens(prefixes.begin(&[], &[])), NOTHING);
        let Figures { hits, misses, reused, sequences, bytes } = prefixes.figures();
        assert_eq!((hits, misses, reused, sequences, bytes), (3, 2, 8, 3, 0));
    }

    #[test]
    fn short_ones_are_not_worth_it() {
        let prefixes = kept(3, &[&[1, 2], &[7, 8, 9, 10]]);
        assert_eq!(prefixes.figures().sequences, 1);
        assert_eq!(tokens(prefixes.begin(&[7, 8, 1, 1], &[])), NOTHING);
        assert_eq!(tokens(prefixes.begin(&[7, 8, 9, 1], &[])), [7, 8, 9]);
    }

    #[test]
    fn a_longer_one_takes_the_place_of_what_it_covers() {
        let (prefixes, mut number) = (kept(1, &[&[1, 2], &[4]]), None);
        prefixes.keep(&mut number, &seen(&[1, 2, 3]));
        assert_eq!(prefixes.figures().sequences, 2);
        // The same call goes on, and then on something else.
        prefixes.keep(&mut number, &seen(&[1, 2, 3, 4]));
        prefixes.keep(&mut number, &seen(&[6, 6]));
        assert_eq!(prefixes.figures().sequences, 2);
        assert_eq!(tokens(prefixes.begin(&[1, 2, 3, 4], &[])), NOTHING);
    }

    #[test]
    fn a_call_goes_on_from_where_another_one_is() {
        let prefixes = Arc::new(kept(2, &[&[1, 2, 3, 4, 5]]));
        let mut keeper = Keeper::new(Some(prefixes.clone()));
        assert!(keeper.begin(&[1, 7], &[]).is_none());
        let (mut sequence, mut pending) = (seen(&[1]), vec![2, 3, 4, 9, 9]);
        keeper.adopt(&mut sequence, &mut pending);
        assert_eq!((&sequence.tokens[..], &pending[..]), (&[1, 2, 3, 4][..], &[9, 9][..]));
        // The prompt was a miss until then.
        let Figures { hits, misses, reused, .. } = prefixes.figures();
        assert_eq!((hits, misses, reused), (1, 0, 3));
        // One token more is not worth it.
        prefixes.keep(&mut None, &seen(&[1, 2, 3, 4, 9]));
        keeper.adopt(&mut sequence, &mut pending);
        assert_eq!(pending, [9, 9]);
        // Another token is, and counts no second time.
        prefixes.keep(&mut None, &seen(&[1, 2, 3, 4, 9, 9, 9]));
        pending.push(8);
        keeper.adopt(&mut sequence, &mut pending);
        assert_eq!(pending, [8]);
        let Figures { hits, misses, reused, .. } = prefixes.figures();
        assert_eq!((hits, misses, reused), (1, 0, 5));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_pinned_never() {
        let prefixes = kept(1, &[&[1, 1, 1], &[2, 2], &[1, 1, 2], &[3]]);
        prefixes.pin(vec![1, 1]);
        prefixes.begin(&[2, 2, 2], &[]);
        // Of those that begin with the pin the latest stays.
        assert_eq!([(); 5].map(|()| prefixes.release_one()), [true, true, true, false, false]);
        assert_eq!(tokens(prefixes.begin(&[1, 1, 2, 7], &[])), [1, 1, 2]);
        prefixes.unpin(&[1, 1]);
        assert!(prefixes.release_one() && !prefixes.release_one());
    }

    #[test]
    fn there_are_not_too_many() {
        let prefixes = Prefixes::new(usize::MAX, 1);
        (0..MOST as u32 + 10).for_each(|token| prefixes.keep(&mut None, &seen(&[token, 1])));
        assert_eq!(prefixes.figures().sequences, MOST);
        assert_eq!(tokens(prefixes.begin(&[9, 1, 1], &[])), NOTHING);
        assert_eq!(tokens(prefixes.begin(&[10, 1, 1], &[])), [10, 1]);
        prefixes.close();
        prefixes.keep(&mut None, &seen(&[10, 1]));
        assert_eq!(prefixes.figures().sequences, 0);
    }
}
