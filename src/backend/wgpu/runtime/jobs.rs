//! What contexts ask of a device, until it is submitted.

use super::findings::Doubts;
use super::loss::lock;
use super::storage::DeviceStorage;
use super::timestamps::Timestamps;
use super::waiting::WeakReading;
use crate::done::Done;
use crate::error::{Error, Kind, Result};
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use std::sync::{Arc, Mutex, Weak};

/// Something to do for a context.
pub enum Job {
    Write {
        to: Arc<DeviceStorage>,
        bytes: Bytes,
        done: Done<()>,
    },
    Read {
        from: Arc<DeviceStorage>,
        doubts: Doubts,
        into: HostBuffer,
        done: Done<()>,
    },
    /// What runs found, where nobody reads what they have computed.
    Learn {
        doubts: Doubts,
    },
    Execute {
        commands: Commands,
        done: Done<()>,
    },
}

/// Makes the commands of a run when its turn comes, and lets go of what it has for that.
pub type Commands = Box<dyn FnOnce() -> Result<Recorded> + Send>;

pub struct Recorded {
    pub commands: wgpu::CommandBuffer,
    /// Where somebody wants to know when the steps are done; the end is reported after that.
    pub timestamps: Option<Timestamps>,
}

pub enum Order {
    Job(Arc<QueuedJob>),
    /// To submit nothing but copies that wait for it. Mesa's llvmpipe destroys pipelines when something is submitted after they were let go.
    LetGo,
    Stop,
}

/// A job until its turn comes. Its context may take it away before.
pub struct QueuedJob {
    pub job: Mutex<Option<Job>>,
    pub asked: Arc<Asked>,
}

/// What a context waits for, so that it can be refused at once: the device may be busy for as long as it likes.
#[derive(Default)]
pub struct Asked(Mutex<Waiting>);

#[derive(Default)]
pub struct Waiting {
    /// Why nothing more is done for the context.
    refused: Option<String>,
    pub queued: Vec<Weak<QueuedJob>>,
    pub readings: Vec<WeakReading>,
    /// So many were alive when they were last looked through.
    alive: usize,
}

impl Asked {
    /// Refuses everything that was asked for and is asked for later. Nobody writes to the caller's memory any more
    /// when this returns.
    pub fn refuse(&self, why: &str) {
        let (queued, readings) = {
            let mut waiting = lock(&self.0);
            waiting.refused.get_or_insert_with(|| why.to_owned());
            (std::mem::take(&mut waiting.queued), std::mem::take(&mut waiting.readings))
        };
        for queued_job in queued.iter().filter_map(Weak::upgrade) {
            let job = lock(&queued_job.job).take();
            if let Some(job) = job {
                job.refuse(why);
            }
        }
        for reading in readings.iter().filter_map(WeakReading::upgrade) {
            reading.finish(|_| Err(Error::new(Kind::InvalidState, why.to_owned())));
        }
    }

    pub fn refused(&self) -> Option<String> {
        lock(&self.0).refused.clone()
    }

    pub fn add(&self, add: impl FnOnce(&mut Waiting)) {
        let refused = {
            let mut waiting = lock(&self.0);
            if waiting.queued.len() + waiting.readings.len() > 2 * waiting.alive + 64 {
                waiting.queued.retain(|queued_job| queued_job.strong_count() > 0);
                waiting.readings.retain(|reading| reading.upgrade().is_some());
                waiting.alive = waiting.queued.len() + waiting.readings.len();
            }
            add(&mut waiting);
            waiting.refused.clone()
        };
        if let Some(why) = refused {
            self.refuse(&why);
        }
    }
}

impl Job {
    pub fn refuse(self, why: &str) {
        match self {
            Job::Write { done, .. } | Job::Read { done, .. } | Job::Execute { done, .. } => {
                done.report(Err(Error::new(Kind::InvalidState, why.to_owned())));
            }
            Job::Learn { .. } => {}
        }
    }
}
