//! The thread that leads the team through long graphs, so that the timeline stays free for what comes meanwhile.
//!
//! Not one of the pool: a thread of rayon's that has nothing left to do yields some tens of times before it sleeps, and where
//! the team computes on all cores each of these turns takes a core away from it.

use super::cancel::Cancel;
use crate::thread;
use crossbeam_channel::Sender;

type Work = Box<dyn FnOnce() + Send>;

/// Does one piece of work after the other, and ends when it is dropped and all of them are done.
#[derive(Debug)]
pub struct Leader(Sender<Work>);

impl Leader {
    /// Nothing when the system gives no thread.
    pub fn new(cancel: Cancel) -> Option<Leader> {
        let (sender, works) = crossbeam_channel::unbounded::<Work>();
        let lead = move || {
            cancel.adopt_thread();
            works.iter().for_each(|work| work());
        };
        // Nobody waits for its end: it may be the one that drops the last reference to its own sender.
        thread::start("webnn leader", lead).ok()?;
        Some(Leader(sender))
    }

    /// # Panics
    /// Work must not panic.
    pub fn send(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(unsent) = self.0.send(Box::new(work)) {
            unsent.into_inner()();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_order_also_after_it_was_dropped() {
        let (sender, done) = crossbeam_channel::unbounded();
        let leader = Leader::new(Cancel::default()).unwrap();
        for number in 0..100 {
            let sender = sender.clone();
            leader.send(move || sender.send((number, std::thread::current().name().map(String::from))).unwrap());
        }
        drop((leader, sender));
        let expected = (0..100).map(|number| (number, Some("webnn leader".into())));
        assert!(done.iter().eq(expected));
    }

    #[test]
    fn work_knows_the_context() {
        let cancel = Cancel::default();
        let leader = Leader::new(cancel.clone()).unwrap();
        cancel.cancel();
        let (sender, seen) = crossbeam_channel::bounded(1);
        leader.send(move || sender.send(super::super::cancel::current().unwrap().check().is_err()).unwrap());
        assert!(seen.recv().unwrap());
    }
}
