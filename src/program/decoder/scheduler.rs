//! The steps of all calls on one model, in a fair order.
//!
//! - A call gives its sequences to the [`Scheduler`], and waits for their logits. One of the waiting threads leads: it runs what is next,
//!   whoever asked for it, until its own sequences are done. A call that is alone so runs its steps on its own thread.
//! - Steps that wait run together ([`super::together`]), or where that cannot be, in the order in which they are asked for, the more urgent first. A less
//!   urgent one is passed over [`PASSED`] times, at most. What script has just got a token of will soon ask for the next one, and so is waited for,
//!   a little.
//! - A prompt is computed in pieces. While other calls are under way, a piece takes as long as [`BESIDE`] of their steps. It joins the
//!   steps that wait, in the same run, if there is a plan for that. Else it follows when each of them has run. Pieces of several prompts
//!   alternate.
//! - Plans that are missing are made on another thread while other calls are under way, whose steps go on meanwhile.

use super::Decoder;
use super::feed::{Fed, Feed, Logits, padded_tokens};
use super::guesses::{SIZES, fitting};
use super::inputs::Extent;
use super::pieces::Beside;
use super::sequence::Sequence;
use super::together::{self, Joint, LEAST_JOINED};
use crate::error::{Kind, Result};
use crate::program::caches::AHEAD;
use crate::program::run::spawn_plan;
use crate::timeline::{PASSED, Priority, Watch, from_panic};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Steps that a piece of a prompt may take as long as, while others wait for theirs: with one of their own they wait for 2.4.
const BESIDE: f64 = 1.4;
/// Tokens of the first piece that joins steps.
const FIRST_JOINED: usize = 4;
/// So many steps with a piece run one after the other. Then one without is to show what steps take.
const JOINED_IN_A_ROW: usize = 16;
/// What a step is taken to last until one was run.
const FIRST_STEP: Duration = Duration::from_millis(20);
/// A call is under way for so long after its last step: script may take that long to ask for the next one.
const UNDER_WAY: Duration = Duration::from_millis(250);
/// Steps wait for others for a quarter of what a step takes, within these.
const LINGER: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(4)];

#[derive(Debug, Default)]
pub(super) struct Scheduler {
    state: Mutex<State>,
    /// Something has ended, may begin, or has no leader any more.
    changed: Condvar,
    calls: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    is_led: bool,
    /// In the order in which they are to run.
    waiting: VecDeque<Job>,
    ended: HashMap<u64, Fed>,
    tickets: u64,
    calls: HashMap<u64, Call>,
    /// Steps that run before the next piece.
    steps_first: usize,
    /// How long a step took lately, and how many have run since then that a piece joined.
    step: Option<Duration>,
    unmeasured: usize,
    /// How long pieces beside the steps of others take, and the runs of steps that a piece joins.
    pieces: Beside,
    joined: Beside,
    figures: Figures,
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Steps of sequences, and runs that they took.
    pub steps: u64,
    pub runs: u64,
    /// Tokens of prompts in these runs.
    pub prompt_tokens: u64,
}

/// A call that has got a token.
#[derive(Debug)]
struct Call {
    ended: Instant,
    /// Its script has the token.
    is_away: bool,
    /// How long it was away the last time.
    away: Duration,
}

/// A feed that is under way.
#[derive(Debug)]
struct Job {
    ticket: u64,
    call: u64,
    feed: Feed,
    watch: Watch,
    planning: Planning,
    /// A step together with others has failed.
    is_alone: bool,
    /// Whether its last piece could join the steps of others.
    joins: bool,
    /// How many more urgent ones have gone before it.
    passed: u32,
}

/// Who makes the next plan of a job, if it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planning {
    Open,
    /// Another thread is at it.
    Elsewhere,
    /// Another thread has tried.
    Tried,
}

enum Next {
    /// In the order in which they came.
    Steps(Vec<Job>),
    /// At most so many tokens.
    Piece(Job, Option<usize>),
    /// Until something changes, or that time comes.
    Wait(Option<Instant>),
}

impl Job {
    /// Those with less go first.
    fn order(&self) -> Option<Priority> {
        (self.passed < PASSED).then(|| self.watch.priority())
    }

    fn is_prompt(&self) -> bool {
        self.feed.pending.len() > 1
    }

    fn may_have_piece(&self) -> bool {
        self.is_prompt() && self.planning != Planning::Elsewhere
    }
}

impl State {
    /// What runs next, or how long nothing does. Whether steps can run together.
    fn next(&mut self, may_join: bool) -> Next {
        let ready = |job: &Job| job.planning != Planning::Elsewhere;
        let steps = self.waiting.iter().filter(|job| !job.is_prompt() && ready(job)).count();
        // A piece that can join waits for the steps that will soon be asked for.
        let joins = may_join && self.next_prompt().is_some_and(|prompt| self.waiting[prompt].joins);
        if steps == 0
            && joins
            && let Some(until) = self.expected(4 * self.linger())
        {
            return Next::Wait(Some(until));
        }
        let piece = if steps == 0 || self.steps_first == 0 && !joins { self.take_piece() } else { None };
        if let Some(job) = piece {
            self.steps_first = steps.max(1);
            let most = self.has_steps(job.call).then(|| self.pieces.next_or(1));
            return Next::Piece(job, most);
        }
        if steps == 0 {
            return Next::Wait(None);
        }
        let until = if may_join && steps < together::MOST { self.expected(self.linger()) } else { None };
        if until.is_some() {
            return Next::Wait(until);
        }
        let (mut wanted, mut others) = (Vec::with_capacity(steps), VecDeque::with_capacity(self.waiting.len()));
        for job in self.waiting.drain(..) {
            if !job.is_prompt() && ready(&job) { wanted.push(job) } else { others.push_back(job) }
        }
        self.waiting = others;
        wanted.sort_by_key(Job::order);
        Next::Steps(wanted)
    }

    /// The steps of these numbers begin. The others keep their places.
    fn begin_steps(&mut self, jobs: Vec<Job>, numbers: &[usize]) -> Vec<Job> {
        self.steps_first = self.steps_first.saturating_sub(numbers.len());
        let mut group: Vec<Option<Job>> = numbers.iter().map(|_| None).collect();
        for (number, job) in jobs.into_iter().enumerate().rev() {
            match numbers.iter().position(|&other| other == number) {
                Some(place) => group[place] = Some(job),
                None => self.waiting.push_front(job),
            }
        }
        group.into_iter().flatten().collect()
    }

    /// The place of the most urgent of the prompts, or of one that was passed over often enough.
    fn next_prompt(&self) -> Option<usize> {
        let meant = self.waiting.iter().enumerate().filter(|(_, job)| job.may_have_piece());
        meant.min_by_key(|(position, job)| (job.order(), *position)).map(|(position, _)| position)
    }

    fn take_piece(&mut self) -> Option<Job> {
        let position = self.next_prompt()?;
        let mut job = self.waiting.remove(position)?;
        self.begin_piece(&mut job);
        Some(job)
    }

    /// A prompt has its turn.
    fn begin_piece(&mut self, job: &mut Job) {
        self.pass(job, Job::may_have_piece);
        job.passed = 0;
    }

    /// The place of the prompt of which a piece may join the next steps.
    fn next_joined(&self) -> Option<usize> {
        if self.unmeasured < JOINED_IN_A_ROW { self.next_prompt() } else { None }
    }

    /// Tokens at most of a piece that joins the next steps.
    fn joined_rows(&self) -> usize {
        self.joined.next_or(FIRST_JOINED).max(LEAST_JOINED)
    }

    /// The less urgent of those that wait are passed over by a job.
    fn pass(&mut self, by: &Job, is_meant: impl Fn(&Job) -> bool) {
        let is_passed = |job: &&mut Job| is_meant(job) && job.watch.priority() > by.watch.priority();
        self.waiting.iter_mut().filter(is_passed).for_each(|job| job.passed += 1);
    }

    /// How long steps wait for others.
    fn linger(&self) -> Duration {
        let [least, most] = LINGER;
        (self.step.unwrap_or(FIRST_STEP) / 4).clamp(least, most)
    }

    /// Until when calls are waited for that will soon ask for a step.
    fn expected(&self, linger: Duration) -> Option<Instant> {
        let now = Instant::now();
        let away = self.calls.values().filter(|call| call.is_away && call.away <= linger);
        away.map(|call| call.ended + linger).filter(|until| *until > now).max()
    }

    /// A call asks for something.
    fn came(&mut self, call: u64) {
        if let Some(call) = self.calls.get_mut(&call) {
            (call.is_away, call.away) = (false, call.ended.elapsed());
        }
    }

    /// A call gets what it has asked for.
    fn goes(&mut self, call: u64) {
        let now = Instant::now();
        let call = self.calls.entry(call).or_insert(Call { ended: now, is_away: true, away: Duration::ZERO });
        (call.ended, call.is_away) = (now, true);
    }

    /// Whether other calls are under way.
    fn has_others(&self, call: u64) -> bool {
        self.waiting.iter().any(|job| job.call != call) || self.has_steps(call)
    }

    /// Whether other calls are under way that have seen their prompts.
    fn has_steps(&self, call: u64) -> bool {
        self.waiting.iter().any(|job| job.call != call && !job.is_prompt())
            || self.calls.iter().any(|(&other, of_other)| other != call && of_other.ended.elapsed() < UNDER_WAY)
    }

    /// What became of the jobs of a call, when all have ended.
    fn take(&mut self, tickets: &[u64]) -> Option<Vec<Fed>> {
        if !tickets.iter().all(|ticket| self.ended.contains_key(ticket)) {
            return None;
        }
        tickets.iter().map(|ticket| self.ended.remove(ticket)).collect()
    }

    fn end(&mut self, job: Job, result: Result<Logits>) {
        self.ended.insert(job.ticket, (job.feed, result));
    }

    /// Ends what was given up.
    fn sweep(&mut self) -> bool {
        let is_given_up = |job: &Job| job.planning != Planning::Elsewhere && job.watch.check().is_err();
        let mut any = false;
        while let Some(position) = self.waiting.iter().position(is_given_up) {
            let Some(job) = self.waiting.remove(position) else { break };
            let given_up = job.watch.check().map(|()| Vec::new());
            self.end(job, given_up);
            any = true;
        }
        any
    }

    /// A step of so many sequences has run.
    fn ran(&mut self, sequences: usize) {
        self.figures.steps += sequences as u64;
        self.figures.runs += 1;
    }

    /// A step of so many sequences took so long.
    fn took(&mut self, sequences: usize, time: Duration) {
        self.ran(sequences);
        self.unmeasured = 0;
        self.step = Some(self.step.map_or(time, |before| (3 * before + time) / 4));
    }

    /// After the last prompt, the next one finds out anew how long pieces may be: where others had the cores, all took long.
    fn forget_pieces(&mut self) {
        if !self.waiting.iter().any(Job::is_prompt) {
            (self.pieces, self.joined) = Default::default();
        }
    }

    /// A piece of so many tokens beside steps took so long.
    fn took_piece(&mut self, count: usize, time: Duration) {
        let most = self.step.unwrap_or(FIRST_STEP).mul_f64(BESIDE).as_secs_f64();
        self.pieces.took(count, time.as_secs_f64(), most);
    }

    /// Steps of so many sequences, and a piece of so many tokens that joined them, took so long.
    fn took_joined(&mut self, sequences: usize, count: usize, time: Duration) {
        self.ran(sequences);
        self.figures.prompt_tokens += count as u64;
        self.unmeasured += 1;
        let step = self.step.unwrap_or(FIRST_STEP).as_secs_f64();
        self.joined.knows(0, step);
        self.joined.took(count, time.as_secs_f64(), (1.0 + BESIDE) * step);
    }
}

/// The leader's duty, which ends also when it panics.
struct Lead<'a>(&'a Scheduler);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.lock().is_led = false;
        if std::thread::panicking() {
            self.0.changed.notify_all();
        }
    }
}

impl Scheduler {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A job is in one of the lists, or the leader has it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for the calls of a session, of which one is under way at a time.
    pub fn enter(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    pub fn figures(&self) -> Figures {
        self.lock().figures
    }

    /// The call of a session has ended: nobody waits for it. Whether no other is under way.
    pub fn leave(&self, call: u64) -> bool {
        let mut state = self.lock();
        state.calls.remove(&call);
        state.calls.is_empty()
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, until: Option<Instant>) -> MutexGuard<'a, State> {
        match until {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// A plan was made, or was tried to be made, on another thread.
    fn planned(&self, ticket: u64) {
        if let Some(job) = self.lock().waiting.iter_mut().find(|job| job.ticket == ticket) {
            job.planning = Planning::Tried;
        }
        self.changed.notify_all();
    }
}

impl Decoder {
    /// Has the model see what is pending of sequences of a call; the logits after the last token of each.
    pub(super) fn feed(self: &Arc<Self>, call: u64, feeds: Vec<Feed>, watch: &Watch) -> Vec<Fed> {
        let scheduler = &self.scheduler;
        let mut state = scheduler.lock();
        state.came(call);
        let mut tickets = Vec::with_capacity(feeds.len());
        for feed in feeds {
            let ticket = state.tickets;
            state.tickets += 1;
            tickets.push(ticket);
            state.waiting.push_back(Job {
                ticket,
                call,
                feed,
                watch: watch.clone(),
                planning: Planning::Open,
                is_alone: false,
                joins: false,
                passed: 0,
            });
        }
        loop {
            if state.sweep() {
                scheduler.changed.notify_all();
            }
            if let Some(fed) = state.take(&tickets) {
                state.goes(call);
                if !state.waiting.is_empty() {
                    scheduler.changed.notify_all();
                }
                return fed;
            }
            let next = if state.is_led { Next::Wait(None) } else { state.next(self.together.refusal().is_none()) };
            if let Next::Wait(until) = next {
                state = scheduler.wait(state, until);
                continue;
            }
            state.is_led = true;
            drop(state);
            let lead = Lead(scheduler);
            match next {
                Next::Steps(jobs) => self.run_steps(jobs, call),
                Next::Piece(job, most) => self.run_piece(job, most, call),
                Next::Wait(_) => {}
            }
            drop(lead);
            state = scheduler.lock();
        }
    }

    /// Runs a piece of a prompt. `leader` is the call whose thread does it.
    fn run_piece(self: &Arc<Self>, mut job: Job, most: Option<usize>, leader: u64) {
        let Feed { sequence, pending, keeper, .. } = &mut job.feed;
        keeper.adopt(sequence, pending);
        if !job.is_prompt() {
            return self.scheduler.lock().waiting.push_back(job);
        }
        let (count, _) = self.next_piece(&job.feed, most);
        let Some(mut job) = self.planned_elsewhere(job, count) else { return };
        let watch = job.watch.clone();
        let done = with_room(&mut job.feed, |feed| guarded(|| watch.begin().and_then(|()| self.feed_piece(feed, most, &watch))));
        let mut state = self.scheduler.lock();
        match done {
            Ok((count, time)) => {
                if most.is_some() {
                    state.took_piece(count, time);
                }
                job.planning = Planning::Open;
                state.waiting.push_back(job);
                state.forget_pieces();
            }
            Err(error) => self.end(&mut state, job, Err(error), leader),
        }
    }

    /// Runs the first of some steps, with as many others as can run with it.
    fn run_steps(self: &Arc<Self>, jobs: Vec<Job>, leader: u64) {
        let able: Vec<usize> = (0..jobs.len()).filter(|&job| !jobs[job].is_alone).collect();
        let feeds: Vec<&Feed> = able.iter().map(|&job| &jobs[job].feed).collect();
        // With those whose prompts are under way.
        let coming = feeds.len() + self.scheduler.lock().waiting.iter().filter(|job| job.is_prompt()).count();
        let may_join = able.first() == Some(&0);
        let found = if may_join && feeds.len() > 1 { self.joinable(&feeds, coming) } else { None };
        let may_join_piece = may_join && (found.is_some() || feeds.len() == 1);
        let (found, prompt) = match may_join_piece.then(|| self.join_piece(found.as_ref(), &feeds)).flatten() {
            Some((joint, prompt)) => (Some(joint), Some(prompt)),
            None => (found.map(|joint| self.with_guesses(joint, &feeds)), None),
        };
        let numbers = found.as_ref().map_or(vec![0], |joint| joint.steps.iter().map(|&step| able[step]).collect());
        let group = self.scheduler.lock().begin_steps(jobs, &numbers);
        group.iter().for_each(|job| _ = job.watch.begin());
        if let Some(first) = group.first() {
            self.scheduler.lock().pass(first, |job| !job.is_prompt());
        }
        match found {
            Some(joint) => self.run_together(group, prompt, &joint, leader),
            None => group.into_iter().for_each(|job| self.run_step(job, leader)),
        }
    }

    /// The prompt whose turn it is, and the steps with a piece of it, if it can join them. Else it keeps its place.
    fn join_piece(self: &Arc<Self>, joint: Option<&Joint>, feeds: &[&Feed]) -> Option<(Joint, Job)> {
        let (position, mut job, most, is_free) = {
            let mut state = self.scheduler.lock();
            let position = state.next_joined()?;
            let (most, is_free) = (state.joined_rows(), state.steps_first == 0);
            (position, state.waiting.remove(position)?, most, is_free)
        };
        let Feed { sequence, pending, keeper, .. } = &mut job.feed;
        keeper.adopt(sequence, pending);
        let found = if job.is_alone { None } else { self.with_piece(joint, feeds, &job.feed, most) };
        job.joins = found.is_some();
        let mut state = self.scheduler.lock();
        // After a piece that they have waited for, steps run without another one.
        let Some(found) = found.filter(|_| is_free) else {
            let position = position.min(state.waiting.len());
            state.waiting.insert(position, job);
            return None;
        };
        state.begin_piece(&mut job);
        Some((found, job))
    }

    fn run_step(self: &Arc<Self>, job: Job, leader: u64) {
        let Some(mut job) = self.planned_elsewhere(job, 1) else { return };
        let size = self.size_alone(&job.feed);
        let is_planned = self.is_planned(&job.feed.sequence);
        let began = Instant::now();
        let watch = job.watch.clone();
        let logits = with_room(&mut job.feed, |feed| guarded(|| self.last_step(feed, size, &watch)));
        let time = began.elapsed();
        let mut state = self.scheduler.lock();
        if logits.is_ok() {
            if job.feed.guesses.is_empty() {
                state.took(1, time)
            } else {
                state.ran(1)
            }
            if is_planned || !job.feed.guesses.is_empty() {
                self.took_step(&mut [&mut job.feed], size, time);
            }
        }
        self.end(&mut state, job, logits, leader);
    }

    /// How many tokens the step of a sequence takes that runs alone.
    fn size_alone(self: &Arc<Self>, feed: &Feed) -> usize {
        if feed.guesses.is_empty() {
            return 1;
        }
        let sequences = [(feed.guesses.len(), feed.rate)];
        let best = |sizes: &[usize]| self.guessing.costs().best(&sequences, sizes.iter().copied(), 0.0);
        if feed.is_fixed {
            let wanted = fitting(feed.guesses.len());
            return if self.sizes(&feed.sequence, wanted).contains(&wanted) { wanted } else { 1 };
        }
        let wanted = best(SIZES);
        best(&self.sizes(&feed.sequence, wanted))
    }

    /// Whether the next step of a sequence has a plan.
    pub(super) fn is_planned(&self, sequence: &Sequence) -> bool {
        let length = sequence.tokens.len();
        self.plans.has_plan(&self.extent_of(&self.form(sequence, 1, length == 0), length)) == Some(true)
    }

    /// Steps of so many tokens each took so long together.
    fn took_step(&self, feeds: &mut [&mut Feed], size: usize, time: Duration) {
        let mut costs = self.guessing.costs();
        let plain = costs.time(feeds.len()).unwrap_or(time.as_secs_f64());
        let has_guesses = feeds.iter().any(|feed| !feed.guesses.is_empty());
        costs.took(feeds.len() * if has_guesses { size } else { 1 }, time);
        let longer = if has_guesses { (time.as_secs_f64() / plain - 1.0).max(0.0) } else { 0.0 };
        feeds.iter_mut().for_each(|feed| feed.longer = longer);
    }

    fn run_together(self: &Arc<Self>, mut jobs: Vec<Job>, mut prompt: Option<Job>, joint: &Joint, leader: u64) {
        let began = Instant::now();
        let wanting = jobs.iter().chain(&prompt).map(|job| &job.watch).find(|watch| watch.wants_steps()).cloned();
        let watch = wanting.as_ref().map_or_else(Watch::default, |_| Watch::new(true));
        let mut feeds: Vec<&mut Feed> = jobs.iter_mut().map(|job| &mut job.feed).collect();
        let all = guarded(|| self.step_together(&mut feeds, prompt.as_mut().map(|job| &mut job.feed), joint, &watch));
        let time = began.elapsed();
        if all.is_ok() && feeds.len() == joint.sequences && prompt.is_none() {
            self.took_step(&mut feeds, joint.extent.tokens, time);
        }
        if let (Ok(_), Some(wanting)) = (&all, wanting) {
            wanting.take_from(&watch);
        }
        let mut state = self.scheduler.lock();
        let rows = joint.piece.as_ref().map(|piece| piece.tokens);
        if let Some(mut job) = prompt {
            job.is_alone |= all.is_err();
            state.waiting.push_back(job);
        }
        let Ok(all) = all else {
            // Whose fault it is comes out when each runs alone.
            for mut job in jobs.into_iter().rev() {
                job.is_alone = true;
                state.waiting.push_front(job);
            }
            return;
        };
        match rows {
            Some(rows) => state.took_joined(jobs.len(), rows, time),
            None if joint.extent.tokens == 1 => state.took(jobs.len(), time),
            None => state.ran(jobs.len()),
        }
        state.forget_pieces();
        for (job, logits) in jobs.into_iter().zip(all) {
            self.end(&mut state, job, logits, leader);
        }
    }

    fn end(&self, state: &mut State, job: Job, result: Result<Logits>, leader: u64) {
        let is_others = job.call != leader;
        state.end(job, result);
        if is_others {
            self.scheduler.changed.notify_all();
        }
    }

    /// Gives the job back if it can run now. If its plan is missing and other calls are under way, another thread makes the plan, and the
    /// job waits.
    fn planned_elsewhere(self: &Arc<Self>, mut job: Job, tokens: usize) -> Option<Job> {
        if job.planning == Planning::Tried || !self.scheduler.lock().has_others(job.call) {
            return Some(job);
        }
        let length = job.feed.sequence.tokens.len();
        let form = self.form_after(&job.feed.sequence, tokens, job.feed.pending.first());
        if self.plans.has_plan(&self.extent_of(&form, length)).is_some() {
            return Some(job);
        }
        let ticket = job.ticket;
        job.planning = Planning::Elsewhere;
        self.scheduler.lock().waiting.push_front(job);
        let decoder = self.clone();
        let make = move |()| {
            let _ = guarded(|| decoder.plan_for(&form, length).map(drop));
            decoder.scheduler.planned(ticket);
        };
        if spawn_plan((), make).is_err() {
            self.scheduler.planned(ticket);
        }
        None
    }

    /// Has the model see the last token that is pending, in a step of so many tokens with guesses; the logits after each.
    fn last_step(self: &Arc<Self>, feed: &mut Feed, size: usize, watch: &Watch) -> Result<Logits> {
        watch.begin()?;
        if size > 1 {
            match self.guessed_step(feed, size, watch) {
                Ok(logits) => {
                    self.prepare(&feed.sequence);
                    return Ok(logits);
                }
                // Filled up or not, it may be beyond the model's positions, or a limit of memory.
                Err(_) => watch.check()?,
            }
        }
        feed.guesses.clear();
        let Feed { sequence, pending, keeper, .. } = feed;
        let logits = self.step(sequence, pending, 1, watch)?;
        pending.clear();
        keeper.keep(sequence);
        self.prepare(sequence);
        Ok(logits)
    }

    /// The same with guesses. The sequence is as it was before if that fails.
    fn guessed_step(&self, feed: &mut Feed, size: usize, watch: &Watch) -> Result<Logits> {
        let Feed { sequence, pending, guesses, .. } = feed;
        let before = sequence.tokens.len();
        let tokens = padded_tokens(pending, guesses, size);
        let wanted = (pending.len() + guesses.len()).min(size);
        let logits = self.step(sequence, &tokens, wanted, watch);
        if let Err(error) = &logits
            && sequence.tokens.len() > before
        {
            self.guessing.refuse(error.clone());
        }
        sequence.take_back(if logits.is_ok() { before + wanted } else { before });
        if logits.is_ok() {
            guesses.truncate(wanted - pending.len());
            pending.clear();
        }
        logits
    }

    /// Has the plan made that is needed soon, if it serves several lengths.
    fn prepare(self: &Arc<Self>, sequence: &Sequence) {
        let (form, length): (Extent, usize) = (self.form(sequence, 1, false), sequence.tokens.len() + AHEAD);
        let soon = self.extent_of(&form, length);
        if !soon.way.bucket.is_exact() {
            let decoder = self.clone();
            self.plans.make_ahead(&soon, move || drop(decoder.plan_for(&form, length)));
        }
    }
}

/// Works on a feed. What is only kept for later calls gives way to what a limit of memory refuses.
fn with_room<T>(feed: &mut Feed, work: impl Fn(&mut Feed) -> Result<T>) -> Result<T> {
    loop {
        match work(feed) {
            Err(error) if error.kind() == Kind::QuotaExceeded && feed.keeper.release_one() => {}
            result => return result,
        }
    }
}

fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(from_panic(&*panic)))
}

/// Decisions of the scheduler, with times that are made up.
#[cfg(test)]
mod tests {
    use super::super::pieces::piece;
    use super::*;
    use std::collections::BTreeMap;

    /// Calls with a sequence each, which ask for the next step as soon as they have one.
    struct Simulation {
        state: State,
        now: Duration,
        /// What a run reads weights for, what each sequence or token takes, and how many steps can run together.
        weights: Duration,
        each: Duration,
        together: usize,
        /// Whether pieces join steps.
        joins: bool,
        /// By call: when its steps ended.
        ended: BTreeMap<u64, Vec<Duration>>,
    }

    impl Simulation {
        fn new(weights: u64, each: u64, together: usize) -> Simulation {
            let [weights, each] = [weights, each].map(Duration::from_micros);
            let (state, now, ended) = Default::default();
            Simulation { state, now, weights, each, together, joins: false, ended }
        }

        fn ask(&mut self, call: u64, tokens: usize) {
            let feed = Feed { pending: vec![0; tokens], ..Feed::default() };
            let (watch, planning) = (Watch::default(), Planning::Open);
            let (is_alone, joins, passed) = Default::default();
            self.state.waiting.push_back(Job { ticket: call, call, feed, watch, planning, is_alone, joins, passed });
        }

        fn run(&mut self, count: usize) -> Duration {
            let time = self.weights + self.each * count as u32;
            self.now += time;
            time
        }

        /// How many tokens of the next prompt join steps, and whether it has been seen then.
        fn join_piece(&mut self) -> Option<(usize, Option<u64>)> {
            let position = self.state.next_joined().filter(|_| self.joins)?;
            let left = self.state.waiting[position].feed.pending.len() - 1;
            let rows = together::joined_size(left.min(self.state.joined_rows()));
            self.state.waiting[position].joins = rows.is_some();
            let rows = rows.filter(|_| self.state.steps_first == 0)?;
            let mut job = self.state.waiting.remove(position).unwrap();
            self.state.begin_piece(&mut job);
            job.feed.pending.drain(..rows);
            let seen = (!job.is_prompt()).then_some(job.call);
            self.state.waiting.push_back(job);
            Some((rows, seen))
        }

        /// What is next. Gives the call whose prompt has been seen, if one has.
        fn next(&mut self) -> Option<u64> {
            match self.state.next(true) {
                Next::Steps(jobs) => {
                    let numbers: Vec<usize> = (0..jobs.len().min(self.together)).collect();
                    let joined = self.join_piece();
                    let group = self.state.begin_steps(jobs, &numbers);
                    let time = self.run(group.len() + joined.map_or(0, |(rows, _)| rows));
                    match joined {
                        Some((rows, _)) => self.state.took_joined(group.len(), rows, time),
                        None => self.state.took(group.len(), time),
                    }
                    for job in group {
                        self.ended.entry(job.call).or_default().push(self.now);
                        self.ask(job.call, 1);
                    }
                    joined.and_then(|(_, seen)| seen)
                }
                Next::Piece(mut job, most) => {
                    let (count, taken) = piece(job.feed.pending.len() - 1, most.unwrap_or(32), true, most.is_none());
                    let time = self.run(count);
                    if most.is_some() {
                        self.state.took_piece(count, time);
                    }
                    job.feed.pending.drain(..taken);
                    let seen = (!job.is_prompt()).then_some(job.call);
                    self.state.waiting.push_back(job);
                    seen
                }
                Next::Wait(_) => panic!("nothing to do"),
            }
        }
    }

    #[test]
    fn no_sequence_gets_less_than_the_others() {
        for (calls, together) in [(3, 1), (5, 2), (8, 8), (20, together::MOST), (33, together::MOST)] {
            let mut simulation = Simulation::new(5000, 1000, together);
            (0..calls).for_each(|call| simulation.ask(call, 1));
            (0..500).for_each(|_| _ = simulation.next());
            let counts: Vec<f64> = simulation.ended.values().map(|ended| ended.len() as f64).collect();
            let mean = counts.iter().sum::<f64>() / calls as f64;
            assert!(counts.len() == calls as usize && counts.iter().all(|&count| count >= 0.9 * mean), "{counts:?}");
        }
    }

    /// How long others wait at most for a prompt of 2,000 tokens, in their steps, and how long that takes.
    fn beside_a_prompt(weights: u64, each: u64, calls: u64, joins: bool) -> (f64, Duration) {
        let mut simulation = Simulation { joins, ..Simulation::new(weights, each, together::MOST) };
        (0..calls).for_each(|call| simulation.ask(call, 1));
        (0..20).for_each(|_| _ = simulation.next());
        let step = simulation.weights + simulation.each * calls as u32;
        let begun = simulation.now;
        simulation.ask(calls, 2000);
        while simulation.next() != Some(calls) {}
        let waits = |ended: &Vec<Duration>| ended.windows(2).map(|pair| pair[1] - pair[0]).max();
        let longest = (0..calls).filter_map(|call| waits(&simulation.ended[&call])).max().unwrap();
        (longest.as_secs_f64() / step.as_secs_f64(), simulation.now - begun)
    }

    #[test]
    fn nobody_waits_long_for_a_prompt() {
        // Where weights are most of a step, or little of it.
        for (weights, each) in [(5000, 1000), (5000, 100), (4000, 1600)] {
            for calls in [1, 3, 8] {
                let (longest, in_turn) = beside_a_prompt(weights, each, calls, false);
                assert!(longest <= 2.5, "{longest} steps, {calls} calls");
                // The weights are read once, not twice.
                let (longest, joined) = beside_a_prompt(weights, each, calls, true);
                assert!(longest <= 2.5, "{longest} steps, {calls} calls, joined");
                assert!(joined < in_turn, "{joined:?} of {in_turn:?}, {calls} calls");
            }
        }
        // Where more calls have come than when steps were measured.
        let mut simulation = Simulation { joins: true, ..Simulation::new(5000, 1000, together::MOST) };
        simulation.ask(0, 1);
        (0..20).for_each(|_| _ = simulation.next());
        (1..8).for_each(|call| simulation.ask(call, 1));
        let begun = simulation.now;
        simulation.ask(8, 2000);
        while simulation.next() != Some(8) {}
        let (_, known) = beside_a_prompt(5000, 1000, 8, true);
        assert!(simulation.now - begun < known.mul_f64(1.5), "{:?} of {known:?}", simulation.now - begun);
        // A piece of its own has a token where 6 join.
        let [(_, in_turn), (_, joined)] = [false, true].map(|joins| beside_a_prompt(5000, 1000, 1, joins));
        assert!(3 * joined < in_turn, "{joined:?} of {in_turn:?}");
    }

    /// A prompt whose last piece could join, and a call that has got a token.
    fn joining_beside(away: Duration) -> State {
        let mut simulation = Simulation::new(1, 1, 1);
        simulation.ask(0, 10);
        simulation.state.waiting[0].joins = true;
        // It is expected for a long time, however slow the machine is.
        let ended = Instant::now() + Duration::from_secs(3600);
        simulation.state.calls.insert(1, Call { ended, is_away: true, away });
        simulation.state
    }

    #[test]
    fn pieces_that_can_ride_wait_for_steps_that_will_come() {
        assert!(matches!(joining_beside(Duration::ZERO).next(true), Next::Wait(Some(_))));
        assert!(matches!(joining_beside(Duration::from_secs(1)).next(true), Next::Piece(..)));
        let mut other = joining_beside(Duration::ZERO);
        other.waiting[0].joins = false;
        assert!(matches!(other.next(true), Next::Piece(..)));
        // After a step, the piece joins it or has its turn.
        for (joins, is_step) in [(true, true), (false, false)] {
            let mut state = joining_beside(Duration::from_secs(1));
            state.waiting[0].joins = joins;
            let mut simulation = Simulation { state, ..Simulation::new(1, 1, 1) };
            simulation.ask(2, 1);
            assert_eq!(matches!(simulation.state.next(true), Next::Steps(_)), is_step);
        }
    }
}
