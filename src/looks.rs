//! How long loops look whether somebody still wants what they compute.
//!
//! The CPU backend looks before each piece of an output. A loop over more than a piece should be, or over what is not divided, says how much
//! work it does ([`worked`], [`Looking`]), and looks after [`LONGEST`] of it. If nobody wants the result any more, the kernel
//! unwinds with the error, from wherever it is: whoever runs the step catches that.

use crate::cancel;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use webnn_kernels::pauses::{Parts, Pauses};

/// Units of work (about a nanosecond each) between two looks.
const LONGEST: usize = 20_000_000;

/// Work that an iterator counts by itself before it is added up.
const COUNTED: usize = 1 << 14;

thread_local! {
    static LOOKS: Looks = const { Looks { longest: Cell::new(LONGEST), since: Cell::new(0), count: Cell::new(0) } };
}

/// Of a thread.
struct Looks {
    longest: Cell<usize>,
    /// Work since the last look.
    since: Cell<usize>,
    count: Cell<usize>,
}

impl Looks {
    fn look(&self) {
        self.since.set(0);
        self.count.set(self.count.get().wrapping_add(1));
    }
}

/// How many threads are within [`count`]: as long as there is none, nobody has to ask for its own number.
static COUNTING: AtomicUsize = AtomicUsize::new(0);

/// Units of work between two looks.
#[inline]
pub fn longest() -> usize {
    match COUNTING.load(Ordering::Relaxed) {
        0 => LONGEST,
        _ => LOOKS.with(|looks| looks.longest.get()),
    }
}

/// Notes that this thread has looked.
pub fn looked() {
    LOOKS.with(Looks::look);
}

/// So much work has been done since this was said last. Looks if that is much.
///
/// # Panics
/// With the error, when nobody wants the result any more.
#[inline]
pub fn worked(units: usize) {
    let is_due = LOOKS.with(|looks| {
        let since = looks.since.get().saturating_add(units);
        looks.since.set(since);
        since >= longest()
    });
    if is_due {
        look();
    }
}

/// Looks now.
///
/// # Panics
/// As [`worked`].
#[cold]
pub fn look() {
    looked();
    if let Some(Err(error)) = cancel::current().map(|cancel| cancel.check()) {
        resume_unwind(Box::new(error));
    }
}

/// How often this thread looks during `work`, if it looks after so many units.
pub fn count<R>(longest: usize, work: impl FnOnce() -> R) -> (usize, R) {
    /// Puts the usual number back, also after a panic.
    struct Usual(usize);
    impl Drop for Usual {
        fn drop(&mut self) {
            LOOKS.with(|looks| looks.longest.set(self.0));
            COUNTING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    COUNTING.fetch_add(1, Ordering::Relaxed);
    let _usual = Usual(LOOKS.with(|looks| looks.longest.replace(longest)));
    let before = LOOKS.with(|looks| looks.count.get());
    let result = work();
    (LOOKS.with(|looks| looks.count.get()) - before, result)
}

/// An iterator whose loop looks: an item of it is so many units of work.
pub trait Looking: Iterator + Sized {
    fn looking(self, cost: usize) -> Counted<Self> {
        let cost = cost.max(1);
        let together = (longest().min(COUNTED) / cost).max(1);
        Counted { items: self, cost, together, left: together }
    }

    /// The same within a piece of an output: only if it is longer than a piece should be.
    fn looking_if_long(self, cost: usize) -> Counted<Self>
    where
        Self: ExactSizeIterator,
    {
        match self.len().saturating_mul(cost) <= longest() {
            true => Counted { items: self, cost: 0, together: usize::MAX, left: usize::MAX },
            false => self.looking(cost),
        }
    }
}

impl<I: Iterator> Looking for I {}

#[derive(Clone, Debug)]
pub struct Counted<I> {
    items: I,
    cost: usize,
    /// Items that are counted here before they are added up.
    together: usize,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        let item = self.items.next();
        if self.cost > 0 && (item.is_none() || self.left == 0) {
            worked((self.together - self.left) * self.cost);
            self.left = self.together;
        }
        self.left -= usize::from(item.is_some());
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }

    /// Counts outside of the loop, which is vectorized then.
    #[inline]
    fn fold<B, F: FnMut(B, I::Item) -> B>(self, init: B, mut combine: F) -> B {
        let Counted { mut items, cost, together, mut left } = self;
        if cost == 0 {
            return items.fold(init, combine);
        }
        let mut total = init;
        loop {
            let mut done = 0;
            total = items.by_ref().take(left).fold(total, |total, item| {
                done += 1;
                combine(total, item)
            });
            worked((together - left + done) * cost);
            if done < left {
                return total;
            }
            left = together;
        }
    }
}

impl<I: ExactSizeIterator> ExactSizeIterator for Counted<I> {}

/// Elements of a long list that are done before that is said.
const TOGETHER: usize = 1 << 20;

/// The parts of a list of so many elements within a piece of an output: all of it, unless it is longer than a piece should be. Between parts
/// it looks.
#[inline]
pub fn parts(length: usize) -> Parts {
    pauses(length).parts(length)
}

/// The same for loops of the crate of kernels over so many elements.
#[inline]
pub fn pauses(length: usize) -> Pauses {
    let longest = longest();
    if length <= longest { Pauses::NONE } else { Pauses { every: longest.clamp(1, TOGETHER), pause: worked } }
}

/// Says how much of some work within a piece of an output has been done, and looks after much of it: only if all of it is more than a piece
/// should be.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Whether it is more.
    pub is_long: bool,
}

impl Progress {
    /// For so many units of work.
    #[inline]
    pub fn of(units: usize) -> Progress {
        Progress { is_long: units > longest() }
    }

    /// # Panics
    /// As [`worked`].
    #[inline]
    pub fn made(self, units: usize) {
        if self.is_long {
            worked(units);
        }
    }
}

/// Copies elements to as many others, in [`parts`].
pub fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len());
    if to.len() <= longest() {
        return to.copy_from_slice(from);
    }
    parts(to.len()).for_each(|part| to[part.clone()].copy_from_slice(&from[part]));
}

/// Fills a list, in [`parts`].
pub fn fill<T: Copy>(to: &mut [T], element: T) {
    if to.len() <= longest() {
        return to.fill(element);
    }
    parts(to.len()).for_each(|part| to[part].fill(element));
}

/// Sorts, as the standard library does.
pub fn sort_unstable<T: Ord>(list: &mut [T]) {
    let mut compared = Compared(0);
    list.sort_unstable_by(|a, b| {
        compared.one_more();
        a.cmp(b)
    });
}

/// Puts the element there that would be there in order, lesser ones before it and greater ones after it.
pub fn select_nth_unstable<T: Ord>(list: &mut [T], position: usize) -> &mut T {
    let mut compared = Compared(0);
    let (_, element, _) = list.select_nth_unstable_by(position, |a, b| {
        compared.one_more();
        a.cmp(b)
    });
    element
}

/// Comparisons that have not been added up.
struct Compared(usize);

impl Compared {
    fn one_more(&mut self) {
        self.0 += 1;
        if self.0 >= longest_counted() {
            worked(std::mem::take(&mut self.0));
        }
    }
}

fn longest_counted() -> usize {
    longest().min(COUNTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::done::from_panic;
    use crate::error::Kind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn loops_look_after_so_much_work() {
        let all = |cost: usize, items: usize| count(10, || (0..items).looking(cost).for_each(drop)).0;
        assert_eq!([all(1, 100), all(5, 100), all(50, 100), all(0, 100)], [10, 50, 100, 10]);
        // Short ones are added up.
        let short = count(10, || (0..20).for_each(|_| (0..3).looking(1).for_each(drop))).0;
        assert!((4..=6).contains(&short), "{short}");
        let mut numbers: Vec<u32> = (0..1000).map(|i| i * 7919 % 1000).collect();
        assert_eq!(count(10, || copy(&numbers.clone(), &mut numbers)).0, 99);
        assert!(count(10, || *select_nth_unstable(&mut numbers, 500)).0 >= 99);
        assert_eq!(numbers[500], 500);
        assert!(count(10, || sort_unstable(&mut numbers)).0 >= 99);
        assert!(numbers.iter().copied().eq(0..1000));
        assert_eq!((count(10, || fill(&mut numbers, 3)).0, count(1000, || fill(&mut numbers, 3)).0), (99, 0));
        assert!(numbers.iter().all(|&x| x == 3));
        let if_long = |items: usize| count(10, || (0..items).looking_if_long(2).for_each(drop)).0;
        assert_eq!([if_long(5), if_long(6), if_long(50)], [0, 1, 10]);
        let made = |units: usize| count(10, || (0..units).for_each(|_| Progress::of(units).made(1))).0;
        assert_eq!([made(10), made(11), made(50)], [0, 1, 5]);
        assert_eq!(longest(), LONGEST);
    }

    #[test]
    fn a_loop_ends_when_nobody_wants_it_any_more() {
        let cancel = Cancel::default();
        let mut done = 0;
        let endless = || {
            for i in (0u64..).looking(1000) {
                if i == 5 {
                    cancel.cancel();
                }
                done = i;
            }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| cancel.during(endless))).unwrap_err();
        assert_eq!(from_panic(&*panic).kind(), Kind::InvalidState);
        assert!(done < 2 * (LONGEST as u64 / 1000), "{done}");
        // What works for nobody goes on.
        (0..100).looking(LONGEST).for_each(drop);
    }
}
