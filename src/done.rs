//! The duty to report exactly once.

use crate::error::{Error, Kind, Result};
use std::borrow::Cow;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

thread_local! {
    /// Why work is dropped now.
    static REASON: RefCell<Option<Cow<'static, str>>> = const { RefCell::new(None) };
}

/// Drops work, for a reason that whoever waits for it hears.
pub fn because<R>(reason: impl Into<Cow<'static, str>>, drops: impl FnOnce() -> R) -> R {
    struct Before(Option<Cow<'static, str>>);
    impl Drop for Before {
        fn drop(&mut self) {
            swap(self.0.take());
        }
    }
    let _before = Before(swap(Some(reason.into())));
    drops()
}

/// Another reason for the one before. A thread that ends may have neither any more, while it drops what has work.
fn swap(reason: Option<Cow<'static, str>>) -> Option<Cow<'static, str>> {
    REASON.try_with(|before| before.replace(reason)).ok().flatten()
}

/// The obligation to say how some work ended. Dropping it unused is a report too, so a panic, a forgotten path or a dead
/// thread still settles whatever waits for it.
pub struct Done<T>(Option<Box<dyn FnOnce(Result<T>) + Send>>);

impl<T> Done<T> {
    pub fn new(report: impl FnOnce(Result<T>) + Send + 'static) -> Self {
        Done(Some(Box::new(report)))
    }

    /// For work whose end nobody waits for.
    pub fn ignored() -> Self {
        Done(None)
    }

    pub fn report(mut self, result: Result<T>) {
        if let Some(report) = self.0.take() {
            report(result);
        }
    }

    /// Divides the duty: the whole is reported when all parts are, with the first error if there is one.
    pub fn split(self, parts: usize) -> Vec<Done<()>>
    where
        T: Default + Send + 'static,
    {
        let whole = Arc::new(Mutex::new((parts, Some(self), Ok(T::default()))));
        (0..parts)
            .map(|_| {
                let whole = whole.clone();
                Done::new(move |result: Result<()>| {
                    let mut state = whole.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    let (left, done, all) = &mut *state;
                    *left -= 1;
                    if let (Err(error), true) = (result, all.is_ok()) {
                        *all = Err(error);
                    }
                    if *left == 0 {
                        let all = std::mem::replace(all, Ok(T::default()));
                        let done = done.take();
                        drop(state);
                        done.expect("the last part is reported once").report(all);
                    }
                })
            })
            .collect()
    }

    /// Does the work and reports; a panic in it becomes an `OperationError`.
    pub fn run(self, work: impl FnOnce() -> Result<T>) {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(from_panic(&*panic)));
        self.report(result);
    }
}

impl<T> Drop for Done<T> {
    fn drop(&mut self) {
        if let Some(report) = self.0.take() {
            let why =
                REASON.try_with(|reason| reason.borrow().clone()).ok().flatten().unwrap_or(match std::thread::panicking() {
                    true => "a panic ended the thread that had it".into(),
                    false => "it was dropped before it was done (internal error)".into(),
                });
            report(Err(Error::new(Kind::Operation, format!("the work was lost: {why}"))));
        }
    }
}

impl<T> std::fmt::Debug for Done<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done")
    }
}

/// What a panic said, as an error.
pub fn from_panic(panic: &(dyn std::any::Any + Send)) -> Error {
    // Of a constant that was computed while a graph was compiled.
    if let Some(error) = panic.downcast_ref::<Error>() {
        return error.clone();
    }
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(Kind::Operation, format!("panicked: {}", message.unwrap_or("no message")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn every_path_reports_once() {
        let (sender, receiver) = channel();
        let done = || {
            let sender = sender.clone();
            Done::new(move |result: Result<i32>| sender.send(result.map_err(|error| error.message().to_owned())).unwrap())
        };
        done().report(Ok(1));
        done().run(|| Ok(2));
        done().run(|| panic!("so it goes"));
        drop(done());
        let dropped = done();
        because("nobody wants it", || drop(dropped));
        let lost = done();
        let _ = catch_unwind(AssertUnwindSafe(move || {
            let _lost = lost;
            panic!("again");
        }));
        drop(sender);
        let reports: Vec<_> = receiver.iter().collect();
        let lost = |why: &str| Err(format!("the work was lost: {why}"));
        assert_eq!(
            reports,
            [
                Ok(1),
                Ok(2),
                Err("panicked: so it goes".to_owned()),
                lost("it was dropped before it was done (internal error)"),
                lost("nobody wants it"),
                lost("a panic ended the thread that had it"),
            ]
        );
    }

    #[test]
    fn a_thread_that_ends_drops_work_whatever_it_has_left() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                because("late", || drop(Done::new(|result: Result<()>| assert!(result.is_err()))));
            }
        }
        thread_local!(static LATE: Late = const { Late });
        // What was first used is destroyed first, or last.
        for is_first in [true, false] {
            let work = move || {
                if is_first {
                    LATE.with(|_| ());
                }
                because("early", || ());
                LATE.with(|_| ());
            };
            std::thread::spawn(work).join().unwrap();
        }
    }
}
