//! Pauses of loops over lines that may be very long, in which whoever runs the loop looks whether it should go on.
//!
//! Nothing of a result depends on them: sums go on after a pause where they were.

use std::mem::take;
use std::ops::Range;

/// When a loop pauses.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// So many elements are done between two pauses, or somewhat more.
    pub every: usize,
    /// Called in a pause with the number of elements since the last one. It may unwind.
    pub pause: fn(usize),
}

impl Pauses {
    /// Never.
    pub const NONE: Pauses = Pauses { every: usize::MAX, pause: |_| {} };

    /// The parts of a line of so many elements: a pause is made between two of them.
    #[inline]
    pub fn parts(self, length: usize) -> Parts {
        self.whole_parts(length, 1, 1)
    }

    /// The same for a line of so many units with so many elements each. All parts but the last one are a multiple of `whole` units.
    #[inline]
    pub fn whole_parts(self, length: usize, whole: usize, elements: usize) -> Parts {
        // Short lines are one part, without a division.
        let is_one = length.saturating_mul(elements) <= self.every;
        let part = if is_one { length } else { (self.every / elements.max(1)).max(1).next_multiple_of(whole) };
        Parts { first: 0, length, part, elements, pause: self.pause }
    }

    /// For a loop that says how much it has done.
    #[inline]
    pub fn counted(self) -> Counted {
        Counted { pauses: self, since: 0 }
    }
}

/// Counts what loops do that go over no single line. See [`Pauses::counted`].
pub struct Counted {
    pauses: Pauses,
    since: usize,
}

impl Counted {
    /// So many elements have been done since this was said last. Pauses if that is much.
    #[inline(always)]
    pub fn done(&mut self, elements: usize) {
        self.since = self.since.saturating_add(elements);
        if self.since >= self.pauses.every {
            (self.pauses.pause)(take(&mut self.since));
        }
    }
}

/// See [`Pauses::parts`].
#[derive(Clone, Debug)]
pub struct Parts {
    first: usize,
    length: usize,
    part: usize,
    elements: usize,
    pause: fn(usize),
}

impl Iterator for Parts {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        let Parts { first, length, part, elements, pause } = *self;
        if first >= length {
            return None;
        }
        if first > 0 {
            pause(part.saturating_mul(elements));
        }
        self.first = length.min(first + part);
        Some(first..self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn parts_are_whole_and_have_pauses_between() {
        thread_local!(static PAUSED: Cell<usize> = const { Cell::new(0) });
        let pauses = Pauses { every: 10, pause: |elements| PAUSED.set(PAUSED.get() + elements) };
        let parts = |length, whole, elements| {
            PAUSED.set(0);
            let parts: Vec<_> = pauses.whole_parts(length, whole, elements).map(|part| (part.start, part.end)).collect();
            (parts, PAUSED.get())
        };
        assert_eq!(parts(10, 4, 1), (vec![(0, 10)], 0));
        assert_eq!(parts(25, 4, 1), (vec![(0, 12), (12, 24), (24, 25)], 24));
        assert_eq!(parts(5, 1, 5), (vec![(0, 2), (2, 4), (4, 5)], 20));
        assert_eq!(parts(3, 1, 100), (vec![(0, 1), (1, 2), (2, 3)], 200));
        assert_eq!(parts(0, 4, 1), (vec![], 0));
        PAUSED.set(0);
        let mut counted = pauses.counted();
        let seen = [4, 5, 6, 7, 10].map(|elements| {
            counted.done(elements);
            PAUSED.get()
        });
        assert_eq!(seen, [0, 0, 15, 15, 32]);
        assert!(Pauses::NONE.parts(usize::MAX).eq(std::iter::once(0..usize::MAX)));
    }
}
