//! What a device was asked to do, in numbers: tests say how much of it a run takes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// So many of each since the device began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub submissions: usize,
    pub buffers: usize,
    pub bind_groups: usize,
}

impl std::ops::Sub for Work {
    type Output = Work;

    fn sub(self, before: Work) -> Work {
        Work {
            submissions: self.submissions - before.submissions,
            buffers: self.buffers - before.buffers,
            bind_groups: self.bind_groups - before.bind_groups,
        }
    }
}

/// Counts it.
#[derive(Debug, Default)]
pub struct Counts {
    submissions: AtomicUsize,
    buffers: AtomicUsize,
    bind_groups: AtomicUsize,
}

impl Counts {
    pub fn submission(&self) {
        self.submissions.fetch_add(1, Ordering::Relaxed);
    }

    pub fn buffer(&self) {
        self.buffers.fetch_add(1, Ordering::Relaxed);
    }

    pub fn bind_group(&self) {
        self.bind_groups.fetch_add(1, Ordering::Relaxed);
    }

    pub fn work(&self) -> Work {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Work { submissions: count(&self.submissions), buffers: count(&self.buffers), bind_groups: count(&self.bind_groups) }
    }
}
