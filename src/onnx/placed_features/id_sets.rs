//! Sets of tokens, as ranges of their numbers.

use std::fmt;

/// Numbers of tokens, as ranges in their order that do not touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdSet(Vec<(i64, i64)>);

/// Tokens have 32 bits, so the number before a range and the one behind it can be told.
const LEAST: i64 = i32::MIN as i64;
const MOST: i64 = i32::MAX as i64;

impl IdSet {
    pub fn all() -> IdSet {
        IdSet::between(LEAST, MOST)
    }

    pub fn one(id: i64) -> IdSet {
        IdSet::between(id, id)
    }

    /// From a number to another one, both included.
    pub fn between(first: i64, last: i64) -> IdSet {
        let (first, last) = (first.max(LEAST), last.min(MOST));
        IdSet(if first <= last { vec![(first, last)] } else { Vec::new() })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, id: i64) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&id))
    }

    pub fn not(&self) -> IdSet {
        let mut next = LEAST;
        let mut rest = Vec::new();
        for &(first, last) in &self.0 {
            rest.extend(IdSet::between(next, first - 1).0);
            next = last + 1;
        }
        rest.extend(IdSet::between(next, MOST).0);
        IdSet(rest)
    }

    pub fn and(&self, other: &IdSet) -> IdSet {
        let pairs = self.0.iter().flat_map(|one| other.0.iter().map(move |other| (one, other)));
        IdSet(pairs.flat_map(|(one, other)| IdSet::between(one.0.max(other.0), one.1.min(other.1)).0).collect())
    }

    pub fn or(&self, other: &IdSet) -> IdSet {
        self.not().and(&other.not()).not()
    }

    pub fn is_within(&self, other: &IdSet) -> bool {
        self.and(&other.not()).is_empty()
    }

    /// The number that is closest to 0.
    pub fn smallest(&self) -> Option<i64> {
        self.0.iter().map(|&(first, last)| 0.clamp(first, last)).min_by_key(|id| id.abs())
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |&(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first} to {last}") };
        formatter.write_str(&self.0.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_their_numbers() {
        let sets = [
            IdSet::all(),
            IdSet::all().not(),
            IdSet::one(3),
            IdSet::between(-5, 2),
            IdSet::between(i64::MIN, 0),
            IdSet::between(4, i64::MAX),
            IdSet::one(-2).or(&IdSet::between(3, 4)).or(&IdSet::one(7)),
        ];
        let numbers = [LEAST, -6, -5, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, MOST];
        for one in &sets {
            assert_eq!(one.not().not(), *one);
            assert_eq!(one.is_empty(), one.smallest().is_none());
            assert!(one.smallest().is_none_or(|id| one.contains(id)));
            for id in numbers {
                assert_eq!(one.not().contains(id), !one.contains(id), "{one}: {id}");
                for other in &sets {
                    assert_eq!(one.and(other).contains(id), one.contains(id) && other.contains(id), "{one} and {other}: {id}");
                    assert_eq!(one.or(other).contains(id), one.contains(id) || other.contains(id), "{one} or {other}: {id}");
                    assert!(!one.is_within(other) || !one.contains(id) || other.contains(id));
                }
            }
        }
        assert!(sets[2].is_within(&sets[6]) && !sets[3].is_within(&sets[6]));
        assert_eq!(sets[6].to_string(), "-2, 3 to 4, 7");
        assert_eq!([&sets[3], &sets[4], &sets[5], &sets[6]].map(IdSet::smallest), [Some(0), Some(0), Some(4), Some(-2)]);
    }
}
