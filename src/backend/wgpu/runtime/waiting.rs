//! What is under way on a device: how many submissions, and the thread that waits for each.
//!
//! A device that has not finished a submission in time is given up, as a driver does that watches over it: its contexts are
//! lost with a message, and whoever waits for a read hears of it. It may never answer again, so it is not dropped either:
//! that would wait for it.

use super::loss::{Loss, lock};
use crate::done::Done;
use crate::error::Result;
use crate::host_memory::HostBuffer;
use crate::runtime;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use wgpu::{PollError, PollType, SubmissionIndex};

/// Submissions that the device has not finished when the next one waits: enough that it never waits for us, and few when
/// each takes long, since none can be taken back.
const IN_FLIGHT: usize = 16;
const IN_FLIGHT_WHEN_SLOW: usize = 2;
const SLOW: Duration = Duration::from_millis(20);

/// How long a submission may take on hardware. Drivers that watch over their devices have less patience.
const LONG: Duration = Duration::from_secs(60);

/// How long a device that nobody uses any more, or the trial of one, is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of the process waits for what is under way on all devices together.
pub const PATIENCE_AT_EXIT: Duration = Duration::from_secs(1);

/// How often somebody looks whether the device takes too long, while it is busy. The limit may be changed meanwhile.
const LOOK: Duration = Duration::from_millis(200);

/// How many submissions are under way, and since when the device has been busy with the first of them.
pub struct Flight {
    state: Mutex<InFlight>,
    changed: Condvar,
    limit: Arc<Limit>,
    loss: Arc<Loss>,
}

#[derive(Default)]
struct InFlight {
    count: usize,
    /// Whether the last one took long.
    slow: bool,
    since: Option<Instant>,
    given_up: bool,
    is_watched: bool,
}

impl Flight {
    pub fn new(limit: Arc<Limit>, loss: Arc<Loss>) -> Flight {
        Flight { state: Mutex::default(), changed: Condvar::new(), limit, loss }
    }

    /// Waits until another submission may begin. Nothing is waited for on a device that was given up.
    pub fn enter(self: &Arc<Self>) {
        let full =
            |state: &mut InFlight| !state.given_up && state.count >= if state.slow { IN_FLIGHT_WHEN_SLOW } else { IN_FLIGHT };
        let mut state = self.changed.wait_while(lock(&self.state), full).unwrap_or_else(PoisonError::into_inner);
        state.count += 1;
        if state.count == 1 {
            state.since = Some(Instant::now());
        }
        if !state.is_watched && !state.given_up {
            // The device has made sure that there is a runtime.
            state.is_watched = runtime::spawn(watch(self.clone())).is_ok();
        }
    }

    /// One has finished, or was never submitted.
    pub fn leave(&self) {
        let mut state = lock(&self.state);
        let now = Instant::now();
        state.slow = state.since.is_some_and(|since| now - since > SLOW);
        state.count -= 1;
        state.since = (state.count > 0).then_some(now);
        self.changed.notify_all();
    }

    pub fn give_up(&self) {
        lock(&self.state).given_up = true;
        self.changed.notify_all();
    }

    fn is_given_up(&self) -> bool {
        lock(&self.state).given_up
    }

    /// Gives the device up if a submission takes longer than the limit. When to look again, as long as anything is under way.
    fn look(&self) -> Option<Duration> {
        let mut state = lock(&self.state);
        let Some(since) = state.since.filter(|_| !state.given_up) else {
            state.is_watched = false;
            return None;
        };
        let most = self.limit.get();
        let left = most.map(|most| most.saturating_sub(since.elapsed()));
        let (Some(Duration::ZERO), Some(most)) = (left, most) else { return Some(left.unwrap_or(LOOK).min(LOOK)) };
        state.is_watched = false;
        drop(state);
        let seconds = most.as_secs_f64();
        // Contexts hear of it before what waits for the device fails: then that is lost with its context.
        self.loss.set(&format!("the device was lost: a dispatch took longer than {seconds} s (WEBNN_GPU_TIMEOUT)"));
        self.give_up();
        None
    }
}

/// Looks as long as anything is under way: on the runtime, since a driver may keep the threads that submit and wait for as long as it likes.
async fn watch(flight: Arc<Flight>) {
    while let Some(pause) = flight.look() {
        tokio::time::sleep(pause).await;
    }
}

/// How long a submission may take; nothing is for ever.
pub struct Limit(Mutex<Option<Duration>>);

impl Limit {
    /// What the variable `WEBNN_GPU_TIMEOUT` says in seconds, or `none`. Without it, what is computed on the CPU may take as
    /// long as it takes.
    pub fn wanted(is_software: bool) -> Self {
        let usual = if is_software { None } else { Some(LONG) };
        let named = std::env::var("WEBNN_GPU_TIMEOUT").ok().and_then(|text| parse(text.trim()));
        Limit(Mutex::new(named.unwrap_or(usual)))
    }

    pub fn set(&self, limit: Option<Duration>) {
        *lock(&self.0) = limit;
    }

    fn get(&self) -> Option<Duration> {
        *lock(&self.0)
    }
}

/// Nothing for what cannot be understood.
fn parse(text: &str) -> Option<Option<Duration>> {
    if text == "none" {
        return Some(None);
    }
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).map(Some)
}

/// A read that is under way, or a run whose end is waited for: the memory to fill, and the duty to report. Whoever comes first takes it, the
/// device's answer or the thread that has given the device up.
#[derive(Clone)]
pub struct Reading(Arc<Mutex<Option<Wanted>>>);

/// A read that does not keep itself alive.
pub struct WeakReading(Weak<Mutex<Option<Wanted>>>);

impl WeakReading {
    /// Nothing when it has been finished.
    pub fn upgrade(&self) -> Option<Reading> {
        self.0.upgrade().map(Reading)
    }
}

struct Wanted {
    /// Nothing for the end of a run.
    into: Option<HostBuffer>,
    done: Done<()>,
}

impl Reading {
    pub fn new(into: HostBuffer, done: Done<()>) -> Self {
        Reading(Arc::new(Mutex::new(Some(Wanted { into: Some(into), done }))))
    }

    /// One that fills nothing.
    pub fn end(done: Done<()>) -> Self {
        Reading(Arc::new(Mutex::new(Some(Wanted { into: None, done }))))
    }

    pub fn downgrade(&self) -> WeakReading {
        WeakReading(Arc::downgrade(&self.0))
    }

    /// Fills the memory and reports, unless that has been done.
    pub fn finish(&self, fill: impl FnOnce(&mut [u8]) -> Result<()>) {
        let taken = lock(&self.0).take();
        if let Some(Wanted { mut into, done }) = taken {
            done.run(|| fill(into.as_mut().map_or(&mut [], HostBuffer::as_mut_slice)));
        }
    }
}

/// What was submitted, for the thread that waits for it.
pub type Submission = SubmissionIndex;

/// After so long without anything submitted a device is taken for idle.
const QUIET: Duration = Duration::from_secs(5);

/// The thread that waits: each submission's callbacks are called, and what it used is freed, when it has finished.
pub struct Waiter {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub flight: Arc<Flight>,
    pub limit: Arc<Limit>,
    pub loss: Arc<Loss>,
    /// In the end: whether nothing is left to do on the device.
    pub idle: Arc<AtomicBool>,
    /// Of `Device`.
    pub is_software: bool,
}

impl Waiter {
    /// Runs until nothing more can be submitted.
    pub fn run(self, submitted: &Receiver<Submission>, ending: Sender<()>) {
        while let Some(index) = self.next(submitted) {
            if !self.flight.is_given_up() && !self.wait(&index) {
                // A wait that fails after the limit is one that took too long, even if nobody has looked yet.
                self.flight.look();
                self.flight.give_up();
                self.loss.set(&self.loss.message());
            }
            self.flight.leave();
        }
        let idle = self.poll(PollType::Wait { submission_index: None, timeout: Some(PATIENCE) });
        let handles = (self.device, self.queue);
        if matches!(idle, Ok(Ok(_))) {
            drop(handles);
            self.idle.store(true, Ordering::Release);
            // Mesa's llvmpipe keeps about 0.6 MB for each pipeline it ever had, in small blocks, until the device is gone.
            if self.is_software {
                crate::memory::give_back();
            }
        } else {
            std::mem::forget(handles);
        }
        drop(ending);
    }

    /// The next submission, unless there is none any more.
    fn next(&self, submitted: &Receiver<Submission>) -> Option<Submission> {
        match submitted.recv_timeout(QUIET) {
            // What is in software has what it compiled on the heap.
            Err(RecvTimeoutError::Timeout) if self.is_software => crate::memory::give_back(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
            Ok(index) => return Some(index),
        }
        submitted.recv().ok()
    }

    /// Whether the device goes on.
    ///
    /// The wait ends early only where the device is given up then anyway. wgpu-core 30 asserts, after a wait that has timed out,
    /// that no other thread's submission has seen the end of this one meanwhile (`Device::maintain`), which can be.
    fn wait(&self, index: &SubmissionIndex) -> bool {
        while !self.flight.is_given_up() {
            match self.poll(PollType::Wait { submission_index: Some(index.clone()), timeout: self.limit.get() }) {
                Ok(Ok(_)) => return true,
                // The limit may have been changed meanwhile.
                Ok(Err(PollError::Timeout)) => {
                    self.flight.look();
                }
                // It was never submitted, because the device was lost before.
                Ok(Err(PollError::WrongSubmissionIndex(..))) | Err(()) => return false,
            }
        }
        true
    }

    /// Polls the device, which panics when the driver has lost it.
    fn poll(&self, poll: PollType) -> Result<Result<wgpu::PollStatus, PollError>, ()> {
        catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Kind};
    use crate::host_memory::leaked;

    #[test]
    fn limits_are_seconds_or_none() {
        assert_eq!(parse("1.5"), Some(Some(Duration::from_millis(1500))));
        assert_eq!(parse("0"), Some(Some(Duration::ZERO)));
        assert_eq!(parse("none"), Some(None));
        for senseless in ["", "-1", "NaN", "inf", "1e300", "soon"] {
            assert_eq!(parse(senseless), None, "{senseless}");
        }
    }

    #[test]
    fn a_read_is_finished_once() {
        let (into, _) = leaked(4);
        let (sender, reports) = crossbeam_channel::unbounded();
        let reading = Reading::new(into, Done::new(move |result| sender.send(result.is_ok()).unwrap()));
        let other = reading.clone();
        other.finish(|_| Err(Error::new(Kind::InvalidState, "given up")));
        reading.finish(|_| panic!("the memory is not ours any more"));
        assert_eq!(reports.iter().collect::<Vec<_>>(), [false]);
    }
}
