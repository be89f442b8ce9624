//! The thread that submits work to a device, in the order in which it was ordered.

use super::counts::Counts;
use super::errors::checked;
use super::findings::{Doubts, Findings};
use super::jobs::{Asked, Commands, Job, Order, QueuedJob, Recorded};
use super::loss::{Loss, lock};
use super::storage::DeviceStorage;
use super::timestamps::Clock;
use super::waiting::{Flight, Reading, Submission};
use crate::done::Done;
use crate::error::{Error, Kind, Result};
use crate::host_memory::HostBuffer;
use crossbeam_channel::{Receiver, Sender};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use wgpu::BufferUsages;

/// The thread that submits.
pub struct Submitter {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub counts: Arc<Counts>,
    /// Writes that wait for the next submission.
    pub unsubmitted: Cell<Writes>,
    /// Buffers that were read from, for later reads.
    pub staging: Arc<Mutex<Vec<wgpu::Buffer>>>,
    pub submitted: Sender<Submission>,
    pub flight: Arc<Flight>,
    pub loss: Arc<Loss>,
    pub clock: Arc<Clock>,
    pub stopping: Arc<AtomicBool>,
}

/// How many writes, and of how many bytes.
#[derive(Clone, Copy, Default)]
pub struct Writes {
    count: usize,
    bytes: usize,
}

/// Each write is in memory of the driver until the device has done it, so not more than this wait for a run or a read.
const MOST_WRITES: Writes = Writes { count: 64, bytes: 4 << 20 };

/// Buffers of at most so many bytes are kept for later reads, and so many of them.
const MOST_STAGING: u64 = 1 << 20;
const MOST_KEPT: usize = 4;

/// Copies that are to be submitted, and where what runs found will be in them.
struct Staged {
    staging: wgpu::Buffer,
    end: u64,
    commands: wgpu::CommandBuffer,
    findings: Vec<(Arc<Findings>, Range<usize>)>,
}

impl Submitter {
    /// Runs until it is told to stop, or nobody is left to give orders.
    pub fn run(self, orders: &Receiver<Order>, ending: Sender<()>) {
        loop {
            let queued_job = match orders.recv() {
                Ok(Order::Job(queued_job)) => Some(queued_job),
                Ok(Order::LetGo) => None,
                Ok(Order::Stop) | Err(_) => break,
            };
            // Waits when the device is far behind. Until then the job can be taken away.
            self.flight.enter();
            let submitted = match queued_job {
                Some(queued_job) => self.submit(&queued_job),
                None if self.stopping.load(Ordering::Relaxed) => None,
                None => self.checked(|| Ok(self.pass_on(None))).ok(),
            };
            match submitted {
                Some(index) => drop(self.submitted.send(index)),
                None => self.flight.leave(),
            }
        }
        // What was ordered since is dropped, and so reported.
        while orders.try_recv().is_ok() {}
        drop(self);
        drop(ending);
    }

    /// Submits a job, if there is something left of it to do.
    fn submit(&self, QueuedJob { job, asked }: &QueuedJob) -> Option<Submission> {
        let job = lock(job).take();
        match job {
            None => None,
            Some(job) if self.stopping.load(Ordering::Relaxed) => {
                job.refuse(&asked.refused().unwrap_or_else(|| "the process ends".into()));
                None
            }
            Some(Job::Write { to, bytes, done }) => {
                let written = self.write(&to, &bytes);
                drop((to, bytes));
                match written {
                    Ok(index) => {
                        done.report(Ok(()));
                        index
                    }
                    Err(error) => {
                        done.report(Err(error));
                        None
                    }
                }
            }
            Some(Job::Read { from, doubts, into, done }) => self.read(&from, doubts, into, done, asked),
            Some(Job::Learn { doubts }) => self.learn(&doubts),
            // The storage is let go before the end is reported: it may be the last reference.
            Some(Job::Execute { commands, done }) => self.execute(commands, done, asked),
        }
    }

    fn checked<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        checked(&self.device, &self.loss, work)
    }

    /// Submits commands, and before them what was written since the last time.
    fn pass_on(&self, commands: impl IntoIterator<Item = wgpu::CommandBuffer>) -> Submission {
        self.unsubmitted.take();
        self.counts.submission();
        self.queue.submit(commands)
    }

    /// Writes with the next submission, and makes one only if much waits for it.
    fn write(&self, to: &DeviceStorage, bytes: &[u8]) -> Result<Option<Submission>> {
        #[cfg(feature = "faults")]
        crate::faults::at(crate::faults::Place::Write)?;
        self.checked(|| {
            let (whole, rest) = bytes.split_at(bytes.len() & !3);
            if !whole.is_empty() {
                self.queue.write_buffer(&to.buffer, 0, whole);
            }
            if !rest.is_empty() {
                let mut word = [0; 4];
                word[..rest.len()].copy_from_slice(rest);
                self.queue.write_buffer(&to.buffer, whole.len() as u64, &word);
            }
            let Writes { count, bytes: waiting } = self.unsubmitted.get();
            let writes = Writes { count: count + 1, bytes: waiting + bytes.len() };
            self.unsubmitted.set(writes);
            let is_much = writes.count >= MOST_WRITES.count || writes.bytes >= MOST_WRITES.bytes;
            Ok(is_much.then(|| self.pass_on(None)))
        })
    }

    fn read(&self, from: &DeviceStorage, doubts: Doubts, into: HostBuffer, done: Done<()>, asked: &Asked) -> Option<Submission> {
        #[cfg(feature = "faults")]
        if let Err(error) = crate::faults::at(crate::faults::Place::Read) {
            done.report(Err(error));
            return None;
        }
        let staged = match self.stage(Some(&from.buffer), &doubts) {
            Ok(staged) => staged,
            Err(error) => {
                done.report(Err(error));
                return None;
            }
        };
        let reading = Reading::new(into, done);
        asked.add(|waiting| waiting.readings.push(reading.downgrade()));
        Some(self.bring(staged, move |brought| {
            reading.finish(|into| {
                let bytes = brought?;
                doubts.check_read()?;
                into.copy_from_slice(&bytes[..into.len()]);
                Ok(())
            });
        }))
    }

    fn learn(&self, doubts: &Doubts) -> Option<Submission> {
        let staged = self.stage(None, doubts).ok()?;
        Some(self.bring(staged, |_| {}))
    }

    /// Commands that copy a buffer, and after it what runs found, to memory that the host can have.
    fn stage(&self, first: Option<&wgpu::Buffer>, doubts: &Doubts) -> Result<Staged> {
        let size = first.map_or(0, |buffer| buffer.size());
        let mut copies: Vec<(wgpu::Buffer, u64)> = first.iter().map(|buffer| ((*buffer).clone(), 0)).collect();
        let (mut findings, mut end) = (Vec::new(), size);
        for one in doubts.iter() {
            let Some(buffer) = one.place() else { continue };
            copies.push((buffer.clone(), end));
            findings.push((one.clone(), end as usize..(end + buffer.size()) as usize));
            end += buffer.size();
        }
        self.checked(|| {
            let staging = self.staging(end);
            let mut encoder = self.device.create_command_encoder(&Default::default());
            for (buffer, at) in &copies {
                encoder.copy_buffer_to_buffer(buffer, 0, &staging, *at, buffer.size());
            }
            Ok(Staged { staging, end, commands: encoder.finish(), findings })
        })
    }

    /// A buffer for so many bytes that the host can have: one that was read before, if it is no more than four times as long.
    fn staging(&self, size: u64) -> wgpu::Buffer {
        let mut kept = lock(&self.staging);
        if let Some(found) = kept.iter().position(|buffer| (size..=4 * size).contains(&buffer.size())) {
            return kept.swap_remove(found);
        }
        drop(kept);
        self.counts.buffer();
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    }

    /// Submits copies, and gives the bytes when they are there; what runs found is known then.
    fn bring(&self, staged: Staged, take: impl FnOnce(Result<&[u8]>) + Send + 'static) -> Submission {
        let Staged { staging, end, commands, findings } = staged;
        // A driver may wait here for the device; a read can be refused meanwhile.
        let index = self.pass_on([commands]);
        let (mapped, kept) = (staging.clone(), self.staging.clone());
        staging.map_async(wgpu::MapMode::Read, ..end, move |result| {
            let fail =
                |error: &dyn std::fmt::Display| Error::new(Kind::Unknown, format!("the device's memory cannot be read: {error}"));
            let view =
                result.map_err(|error| fail(&error)).and_then(|()| mapped.get_mapped_range(..end).map_err(|error| fail(&error)));
            let view = match view {
                Ok(view) => view,
                Err(error) => return take(Err(error)),
            };
            findings.iter().for_each(|(findings, range)| findings.learn(&view[range.clone()]));
            take(Ok(&view));
            drop(view);
            keep(&kept, mapped);
        });
        index
    }

    fn execute(&self, commands: Commands, done: Done<()>, asked: &Asked) -> Option<Submission> {
        let submitted = self.checked(|| {
            let Recorded { commands, timestamps } = commands()?;
            let now = Instant::now();
            Ok((self.pass_on([commands]), timestamps.map(|timestamps| (timestamps, now))))
        });
        match submitted {
            Ok((index, Some((timestamps, now)))) => {
                let reading = Reading::end(done);
                asked.add(|waiting| waiting.readings.push(reading.downgrade()));
                timestamps.bring(&self.clock, now, move || reading.finish(|_| Ok(())));
                Some(index)
            }
            submitted => reported(submitted.map(|(index, _)| index), done),
        }
    }
}

/// Keeps a buffer for later reads, if there are few.
fn keep(kept: &Mutex<Vec<wgpu::Buffer>>, buffer: wgpu::Buffer) {
    let mut kept = lock(kept);
    if kept.len() < MOST_KEPT && buffer.size() <= MOST_STAGING {
        buffer.unmap();
        kept.push(buffer);
    }
}

/// Reports how a submission went, which needs no waiting for its end.
fn reported(result: Result<Submission>, done: Done<()>) -> Option<Submission> {
    match result {
        Ok(index) => {
            done.report(Ok(()));
            Some(index)
        }
        Err(error) => {
            done.report(Err(error));
            None
        }
    }
}
