//! Places values in one arena by lifetime.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Offsets are multiples of this: what every GPU takes as the beginning of a binding, and more than the CPU's vectors need.
pub const ALIGNMENT: usize = 256;

/// From which step to which a value is needed, both included, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    pub bytes: usize,
    pub first: usize,
    pub last: usize,
}

/// Work that [`by_size`] may make, in comparisons: below a tenth of a second.
const BEARABLE: usize = 20_000_000;

/// An offset for each value, so that values which live at the same time do not overlap, and the length of the arena.
pub fn assign(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    if cost_by_size(lifetimes) <= BEARABLE { by_size(lifetimes) } else { by_time(lifetimes) }
}

fn size_of(lifetime: &Lifetime) -> usize {
    lifetime.bytes.next_multiple_of(ALIGNMENT)
}

/// The sum over all steps of the square of how many values live then.
fn cost_by_size(lifetimes: &[Lifetime]) -> usize {
    let steps = lifetimes.iter().map(|lifetime| lifetime.last + 1).max().unwrap_or(0);
    let (mut begin, mut end) = (vec![0; steps], vec![0; steps]);
    for lifetime in lifetimes {
        begin[lifetime.first] += 1;
        end[lifetime.last] += 1;
    }
    let mut alive: usize = 0;
    let mut cost: usize = 0;
    for (begin, end) in begin.into_iter().zip(end) {
        alive += begin;
        cost = cost.saturating_add(alive.saturating_mul(alive));
        alive -= end;
    }
    cost
}

/// Each value, in the order in which they come to life, in the smallest gap that is large enough and free at that moment.
/// Takes more memory than [`by_size`], but little time however many values live together.
fn by_time(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lifetimes.len()).filter(|&i| lifetimes[i].bytes > 0).collect();
    order.sort_by_key(|&i| (lifetimes[i].first, Reverse(lifetimes[i].bytes)));
    let mut offsets = vec![0; lifetimes.len()];
    let mut length = 0;
    let mut alive = BinaryHeap::new();
    let mut gaps = Gaps::default();
    for i in order {
        while let Some(&Reverse((last, j))) = alive.peek()
            && last < lifetimes[i].first
        {
            alive.pop();
            gaps.add(offsets[j], size_of(&lifetimes[j]));
        }
        let size = size_of(&lifetimes[i]);
        offsets[i] = gaps.take(size).unwrap_or_else(|| {
            // What is free at the end of the arena is extended.
            let start = gaps.take_last(length).unwrap_or(length);
            length = start + size;
            start
        });
        alive.push(Reverse((lifetimes[i].last, i)));
    }
    (offsets, length)
}

/// Free ranges that do not touch each other.
#[derive(Default)]
struct Gaps {
    by_start: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
}

impl Gaps {
    fn insert(&mut self, start: usize, size: usize) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: usize, size: usize) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }

    /// Joins a range with those that it touches.
    fn add(&mut self, mut start: usize, mut size: usize) {
        if let Some((&before, &length)) = self.by_start.range(..start).next_back()
            && before + length == start
        {
            self.remove(before, length);
            (start, size) = (before, length + size);
        }
        if let Some(&length) = self.by_start.get(&(start + size)) {
            self.remove(start + size, length);
            size += length;
        }
        self.insert(start, size);
    }

    /// The beginning of the smallest range that is large enough; the rest of it stays.
    fn take(&mut self, size: usize) -> Option<usize> {
        let &(length, start) = self.by_size.range((size, 0)..).next()?;
        self.remove(start, length);
        if length > size {
            self.insert(start + size, length - size);
        }
        Some(start)
    }

    /// The range that ends there.
    fn take_last(&mut self, end: usize) -> Option<usize> {
        let (&start, &size) = self.by_start.last_key_value()?;
        (start + size == end).then(|| {
            self.remove(start, size);
            start
        })
    }
}

/// The largest value first, each in the smallest gap that is large enough: within a few per cent of the best for
/// networks. The set of placed values that overlap in time is small, since only the large ones come early.
fn by_size(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    let size = |i: usize| size_of(&lifetimes[i]);
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&i| (Reverse(size(i)), lifetimes[i].first));
    let mut offsets = vec![0; lifetimes.len()];
    // By step: what is placed there. A chain of n nodes makes n short lists, not one list of n.
    let steps = lifetimes.iter().map(|lifetime| lifetime.last + 1).max().unwrap_or(0);
    let mut placed: Vec<Vec<usize>> = vec![Vec::new(); steps];
    let mut length = 0;
    let mut neighbours: Vec<usize> = Vec::new();
    // By value: whose neighbour it was found to be last. Most are neighbours in many steps.
    let mut found_for = vec![usize::MAX; lifetimes.len()];
    for i in order {
        neighbours.clear();
        for step in &placed[lifetimes[i].first..=lifetimes[i].last] {
            neighbours.extend(step.iter().filter(|&&j| std::mem::replace(&mut found_for[j], i) != i));
        }
        neighbours.sort_unstable_by_key(|&j| (offsets[j], j));
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0;
        for &j in &neighbours {
            if offsets[j] >= end + size(i) {
                let gap = offsets[j] - end;
                if best.is_none_or(|(smallest, _)| gap < smallest) {
                    best = Some((gap, end));
                }
            }
            end = end.max(offsets[j] + size(j));
        }
        offsets[i] = best.map_or(end, |(_, offset)| offset);
        length = length.max(offsets[i] + size(i));
        for step in &mut placed[lifetimes[i].first..=lifetimes[i].last] {
            step.push(i);
        }
    }
    (offsets, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_live_together_do_not_overlap() {
        // A small generator of pseudo-random lifetimes; the seed is fixed.
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let lifetimes: Vec<Lifetime> = (0..300)
            .map(|first| Lifetime { bytes: 1 + random(1000) as usize, first, last: first + random(20) as usize })
            .collect();
        for (offsets, length) in [by_size(&lifetimes), by_time(&lifetimes)] {
            for (i, a) in lifetimes.iter().enumerate() {
                assert!(offsets[i].is_multiple_of(ALIGNMENT) && offsets[i] + a.bytes <= length);
                for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    assert!(!together || apart, "{i} and {j}");
                }
            }
        }
    }

    #[test]
    fn many_values_that_live_together_take_no_time() {
        let all: Vec<Lifetime> = (0..50_000).map(|first| Lifetime { bytes: 64, first, last: 50_000 }).collect();
        assert!(cost_by_size(&all) > BEARABLE);
        assert_eq!(assign(&all).1, 50_000 * ALIGNMENT);
    }

    #[test]
    fn a_chain_needs_two_places() {
        let chain: Vec<Lifetime> = (0..100).map(|first| Lifetime { bytes: 64, first, last: first + 1 }).collect();
        assert_eq!(by_size(&chain).1, 2 * ALIGNMENT);
        assert_eq!(by_time(&chain).1, 2 * ALIGNMENT);
    }
}
