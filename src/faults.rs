//! Failures on purpose, for tests of what happens then. Only with the feature `faults`, which no release has.

use crate::error::{Error, Kind, Result};
use std::sync::{Mutex, PoisonError};

/// Where something can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A step of a graph.
    Step,
    /// The write of a tensor.
    Write,
    /// The read of a tensor.
    Read,
    /// The making of a tensor.
    Allocate,
    /// The loop of a timeline, at a dispatch.
    Timeline,
}

/// How it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// By an error of this run.
    Error,
    /// By a panic.
    Panic,
    /// Memory that a kernel wants for itself cannot be had.
    Scratch,
    /// Memory without which a graph can never run cannot be had.
    Memory,
}

struct Fault {
    place: Place,
    failure: Failure,
    /// How often it goes well before.
    spared: u32,
}

/// One for the whole process: tests that use it run one after the other.
static PENDING: Mutex<Option<Fault>> = Mutex::new(None);

/// Makes something fail once, after it has gone well so many times.
pub fn inject(place: Place, failure: Failure, spared: u32) {
    *PENDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(Fault { place, failure, spared });
}

/// Fails if that is pending.
pub(crate) fn at(place: Place) -> Result<()> {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *pending {
        Some(fault) if fault.place == place && fault.spared > 0 => {
            fault.spared -= 1;
            Ok(())
        }
        Some(fault) if fault.place == place => {
            let failure = fault.failure;
            *pending = None;
            drop(pending);
            fail(failure)
        }
        _ => Ok(()),
    }
}

fn fail(failure: Failure) -> Result<()> {
    match failure {
        Failure::Error => Err(Error::new(Kind::Operation, "failed on purpose")),
        Failure::Panic => panic!("panicked on purpose"),
        Failure::Scratch => {
            crate::backend::cpu::scratch::zeroed::<u64>(usize::MAX / 16);
            unreachable!("no machine has so much memory")
        }
        Failure::Memory => crate::memory::Bytes::zeroed(usize::MAX / 4).map(drop),
    }
}
