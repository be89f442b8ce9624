//! What runs found in indices that only the device has. It is known when something is read that was computed of them: whatever a run
//! writes has the run's findings with it until then, and so has what later runs compute of that.

use crate::backend::wgpu::gpu_program::Finding;
use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use wgpu::Buffer;

/// Those of a run.
#[derive(Debug)]
pub struct Findings {
    of: Arc<[Finding]>,
    /// Once the run has been recorded.
    buffer: OnceLock<Buffer>,
    /// Once it is known: the failure, or that there is none.
    known: OnceLock<Option<Error>>,
    /// Somebody has asked for them without reading anything else.
    is_asked_for: AtomicBool,
}

/// Runs whose findings are asked for where nothing is read: what is computed of so many has a list of all.
const MOST_UNKNOWN: usize = 64;

impl Findings {
    pub fn new(of: &Arc<[Finding]>) -> Arc<Findings> {
        let (buffer, known, is_asked_for) = (OnceLock::new(), OnceLock::new(), AtomicBool::new(false));
        Arc::new(Findings { of: of.clone(), buffer, known, is_asked_for })
    }

    /// The run has been recorded, and leaves them there.
    pub fn are_in(&self, buffer: Buffer) {
        let _ = self.buffer.set(buffer);
    }

    /// Where they are, if that is still of interest.
    pub fn place(&self) -> Option<&Buffer> {
        self.buffer.get().filter(|_| self.known.get().is_none())
    }

    /// These are the bytes of the buffer.
    pub fn learn(&self, bytes: &[u8]) {
        let failure = || {
            let found = |(number, finding): (usize, &Finding)| finding.error(&bytes[Finding::memory(number).offset..]);
            self.of.iter().enumerate().find_map(found)
        };
        self.known.get_or_init(failure);
    }

    fn failure(&self) -> Option<&Error> {
        self.known.get().and_then(Option::as_ref)
    }

    /// Whether all was well.
    fn is_nothing(&self) -> bool {
        matches!(self.known.get(), Some(None))
    }
}

/// The findings of all runs that something was computed by: first those of the first.
#[derive(Clone, Debug, Default)]
pub struct Doubts(Vec<Arc<Findings>>);

impl Doubts {
    /// # Errors
    /// That of a run which is known to have failed.
    pub fn check(&self) -> Result<()> {
        self.0.iter().find_map(|findings| findings.failure()).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The same for a read.
    ///
    /// # Errors
    /// One that is caused by that of the run.
    pub fn check_read(&self) -> Result<()> {
        self.check().map_err(|error| Error::new(error.kind(), error.message().to_owned()).caused_by(error))
    }

    pub fn add(&mut self, findings: &Arc<Findings>) {
        if !findings.is_nothing() && !self.0.iter().any(|known| Arc::ptr_eq(known, findings)) {
            self.0.push(findings.clone());
        }
    }

    pub fn add_all(&mut self, others: &Doubts) {
        others.0.iter().for_each(|findings| self.add(findings));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Findings>> {
        self.0.iter()
    }

    /// What is to be asked for now, since nobody reads and the list becomes long.
    pub fn overdue(&self) -> Option<Doubts> {
        let is_unasked = |findings: &&Arc<Findings>| !findings.is_asked_for.load(Ordering::Relaxed);
        if self.0.iter().filter(is_unasked).count() < MOST_UNKNOWN {
            return None;
        }
        let unasked: Vec<_> = self.0.iter().filter(is_unasked).cloned().collect();
        unasked.iter().for_each(|findings| findings.is_asked_for.store(true, Ordering::Relaxed));
        Some(Doubts(unasked))
    }
}
