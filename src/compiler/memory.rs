//! Places values in one arena by lifetime.

use crate::memory::ALIGNMENT;

/// From which step to which a value is needed, both included, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    pub bytes: usize,
    pub first: usize,
    pub last: usize,
}

/// An offset for each value, so that values which live at the same time do not overlap, and the length of the arena.
///
/// Greedy, the largest first, each into the smallest gap that is large enough: within a few per cent of the best for
/// networks. The set of placed values that overlap in time is small, since only the large ones come early.
pub fn assign(lifetimes: &[Lifetime]) -> (Vec<usize>, usize) {
    let size = |i: usize| lifetimes[i].bytes.next_multiple_of(ALIGNMENT);
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(size(i)), lifetimes[i].first));
    let mut offsets = vec![0; lifetimes.len()];
    // By step: what is placed there. A chain of n nodes makes n short lists, not one list of n.
    let steps = lifetimes.iter().map(|lifetime| lifetime.last + 1).max().unwrap_or(0);
    let mut placed: Vec<Vec<usize>> = vec![Vec::new(); steps];
    let mut length = 0;
    let mut neighbours: Vec<usize> = Vec::new();
    for i in order {
        neighbours.clear();
        for step in &placed[lifetimes[i].first..=lifetimes[i].last] {
            neighbours.extend(step);
        }
        neighbours.sort_unstable_by_key(|&j| (offsets[j], j));
        neighbours.dedup();
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
        let (offsets, length) = assign(&lifetimes);
        for (i, a) in lifetimes.iter().enumerate() {
            assert!(offsets[i] % ALIGNMENT == 0 && offsets[i] + a.bytes <= length);
            for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                assert!(!together || apart, "{i} and {j}");
            }
        }
    }

    #[test]
    fn a_chain_needs_two_places() {
        let chain: Vec<Lifetime> = (0..100).map(|first| Lifetime { bytes: 64, first, last: first + 1 }).collect();
        assert_eq!(assign(&chain).1, 128);
    }
}
