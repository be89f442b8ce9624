//! What is under way on a device: how many submissions, and the thread that waits for each.
//!
//! A device that has not finished a submission in time is given up, as a driver does that watches over it: its contexts are
//! lost with a message, and whoever waits for a read hears of it. It may never answer again, so it is not dropped either:
//! that would wait for it.

use super::device::{Loss, lock};
use crate::error::{Error, Kind, Result};
use crate::host_memory::HostBuffer;
use crate::timeline::Done;
use crossbeam_channel::{Receiver, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wgpu::{PollError, PollType, SubmissionIndex};

/// Submissions that the device has not finished when the next one waits: enough that it never waits for us, and few when
/// each takes long, since none can be taken back.
const IN_FLIGHT: usize = 16;
const IN_FLIGHT_WHEN_SLOW: usize = 2;
const SLOW: Duration = Duration::from_millis(20);

/// How long a submission may take on hardware. Drivers that watch over their devices have less patience.
const LONG: Duration = Duration::from_secs(60);

/// How long the end of a device waits for what is under way.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How many submissions are under way, and whether the last one took long.
#[derive(Default)]
pub struct Flight(Mutex<(usize, bool)>, Condvar);

impl Flight {
    /// Waits until another submission may begin.
    pub fn enter(&self) {
        let full = |state: &mut (usize, bool)| state.0 >= if state.1 { IN_FLIGHT_WHEN_SLOW } else { IN_FLIGHT };
        let mut state = self.1.wait_while(lock(&self.0), full).unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
    }

    fn leave(&self, slow: bool) {
        let mut state = lock(&self.0);
        *state = (state.0 - 1, slow);
        self.1.notify_one();
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

/// A read that is under way: the memory to fill, and the duty to report. Whoever comes first takes it, the device's answer
/// or the thread that has given the device up.
#[derive(Clone)]
pub struct Reading(Arc<Mutex<Option<Wanted>>>);

struct Wanted {
    into: HostBuffer,
    done: Done<()>,
}

impl Reading {
    pub fn new(into: HostBuffer, done: Done<()>) -> Self {
        Reading(Arc::new(Mutex::new(Some(Wanted { into, done }))))
    }

    /// Fills the memory and reports, unless that has been done.
    pub fn finish(&self, fill: impl FnOnce(&mut HostBuffer) -> Result<()>) {
        let taken = lock(&self.0).take();
        if let Some(Wanted { mut into, done }) = taken {
            done.run(|| fill(&mut into));
        }
    }
}

/// Something that was submitted, and the read that it was for.
pub struct Submission {
    pub index: SubmissionIndex,
    pub reading: Option<Reading>,
}

/// The thread that waits: each submission's callbacks are called, and what it used is freed, when it has finished.
pub struct Waiter {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub flight: Arc<Flight>,
    pub limit: Arc<Limit>,
    pub loss: Arc<Loss>,
}

impl Waiter {
    /// Runs until nothing more can be submitted.
    pub fn run(self, submitted: &Receiver<Submission>, ending: Sender<()>) {
        let mut given_up = None;
        for Submission { index, reading } in submitted {
            let start = Instant::now();
            if given_up.is_none() {
                given_up = self.wait(&index, start).err();
                if let Some(message) = &given_up {
                    self.loss.set(message);
                }
            }
            if let (Some(message), Some(reading)) = (&given_up, reading) {
                reading.finish(|_| Err(Error::new(Kind::InvalidState, message.clone())));
            }
            self.flight.leave(start.elapsed() > SLOW);
        }
        let idle = self.poll(PollType::Wait { submission_index: None, timeout: Some(PATIENCE) });
        let handles = (self.device, self.queue);
        if given_up.is_some() && !matches!(idle, Ok(Ok(_))) {
            std::mem::forget(handles);
        } else {
            drop(handles);
        }
        drop(ending);
    }

    /// # Errors
    /// Why the device is given up.
    fn wait(&self, index: &SubmissionIndex, start: Instant) -> Result<(), String> {
        loop {
            let limit = self.limit.get();
            let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            if let (Some(Duration::ZERO), Some(limit)) = (left, limit) {
                let seconds = limit.as_secs_f64();
                return Err(format!("the device was lost: a dispatch took longer than {seconds} s (WEBNN_GPU_TIMEOUT)"));
            }
            match self.poll(PollType::Wait { submission_index: Some(index.clone()), timeout: left }) {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(PollError::Timeout)) => {}
                // It was never submitted, because the device was lost before.
                Ok(Err(PollError::WrongSubmissionIndex(..))) => return Err(self.loss.message()),
                Err(()) => return Err(self.loss.message()),
            }
        }
    }

    /// Polls the device, which panics when the driver has lost it.
    fn poll(&self, poll: PollType) -> Result<Result<wgpu::PollStatus, PollError>, ()> {
        catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
