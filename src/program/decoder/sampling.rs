//! The choice of a token out of the numbers that the model gives for each: penalties, temperature, and which tokens are left to chance.

use crate::error::{Error, Kind, Result};
use crate::onnx::Stream;
use std::collections::HashMap;
use webnn_kernels::isa::Isa;
use webnn_kernels::logits;

/// How tokens are chosen.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// 0 takes the token with the greatest number.
    pub temperature: f64,
    /// How many tokens are left to chance at most; 0 for all.
    pub top_k: usize,
    /// The most probable tokens that together have at least this probability are left to chance.
    pub top_p: f64,
    /// So is no token whose probability is less than this part of the greatest one's.
    pub min_p: f64,
    /// Numbers of tokens that occur in the prompt or after it are divided by this, or multiplied where they are negative.
    pub repetition: f64,
    /// Subtracted for tokens that were generated, once, and for each time.
    pub presence: f64,
    pub frequency: f64,
    /// Added.
    pub bias: Vec<(u32, f32)>,
}

/// The tokens that may be chosen: a bit for each, in words of 32. Tokens without a bit may not.
#[derive(Clone, Debug)]
pub struct Allowed(Vec<u32>);

impl Allowed {
    pub fn new(words: Vec<u32>) -> Allowed {
        Allowed(words)
    }

    fn forbid_others(&self, logits: &mut [f32]) {
        let words = self.0.iter().copied().chain(std::iter::repeat(0));
        for (logits, word) in logits.chunks_mut(u32::BITS as usize).zip(words) {
            match word {
                u32::MAX => {}
                0 => logits.fill(f32::NEG_INFINITY),
                _ => {
                    for (bit, number) in logits.iter_mut().enumerate() {
                        if word >> bit & 1 == 0 {
                            *number = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
    }
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub id: u32,
    /// The logarithm of the probability that the model gives to it.
    pub logprob: f64,
}

/// Which tokens a sequence has.
#[derive(Clone, Debug, Default)]
pub struct Occurrences {
    /// How often each was generated; 0 for one of the prompt.
    counts: HashMap<u32, u32>,
}

impl Occurrences {
    pub fn of(prompt: impl IntoIterator<Item = u32>) -> Occurrences {
        Occurrences { counts: prompt.into_iter().map(|id| (id, 0)).collect() }
    }

    pub fn add(&mut self, id: u32) {
        *self.counts.entry(id).or_default() += 1;
    }

    /// How many were generated.
    pub fn generated(&self) -> u32 {
        self.counts.values().sum()
    }
}

impl Sampling {
    /// Chooses a token, of those that are allowed. The numbers are changed.
    ///
    /// # Errors
    /// `OperationError` where no number is above minus infinity.
    pub fn choose(
        &self,
        logits: &mut [f32],
        allowed: Option<&Allowed>,
        occurrences: &Occurrences,
        random: &mut Stream,
    ) -> Result<Choice> {
        // Of the model itself, before anything is changed.
        let (top, total) = log_of_sum(logits);
        let own = |id: usize, logits: &[f32]| above(logits[id], top) - total;
        let is_changed = !self.bias.is_empty() || self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0;
        let unchanged = is_changed.then(|| logits.to_vec());
        for &(id, bias) in &self.bias {
            if let Some(number) = logits.get_mut(id as usize) {
                *number += bias;
            }
        }
        for (&id, &count) in &occurrences.counts {
            let Some(number) = logits.get_mut(id as usize) else { continue };
            // float32 may have 0 for the factor, or infinity.
            let own = f64::from(*number);
            *number = if own < 0.0 { own * self.repetition } else { own / self.repetition } as f32;
            if count > 0 {
                *number -= (self.presence + self.frequency * f64::from(count)) as f32;
            }
        }
        // What is allowed keeps its number, so the probability of the choice is known without a copy.
        if let Some(allowed) = allowed {
            allowed.forbid_others(logits);
        }
        let id = if self.temperature == 0.0 { greatest(logits) } else { self.sample(logits, random) };
        let Some(id) = id else {
            let among = if allowed.is_some() { " among those that the constraint allows" } else { "" };
            return Err(Error::new(Kind::Operation, format!("found no token whose logit is above minus infinity{among}")));
        };
        Ok(Choice { id: id as u32, logprob: own(id, unchanged.as_deref().unwrap_or(logits)) })
    }

    fn sample(&self, logits: &[f32], random: &mut Stream) -> Option<usize> {
        let top = logits[greatest(logits)?];
        let power = |number: f32| match above(number, top) {
            // Also at an infinite temperature.
            f64::NEG_INFINITY => 0.0,
            difference => (difference / self.temperature).exp(),
        };
        let mut left: Vec<(usize, f64)> = logits
            .iter()
            .enumerate()
            .filter(|(_, number)| **number > f32::NEG_INFINITY)
            .map(|(id, &number)| (id, power(number)))
            .collect();
        // The greater first, and of equal ones that with the lower number, so that the result is the same everywhere.
        let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if self.top_k > 0 && self.top_k < left.len() {
            left.select_nth_unstable_by(self.top_k - 1, order);
            left.truncate(self.top_k);
        }
        if self.min_p > 0.0 {
            left.retain(|(_, weight)| *weight >= self.min_p);
        }
        if self.top_p < 1.0 {
            left.sort_unstable_by(order);
            let all: f64 = left.iter().map(|(_, weight)| weight).sum();
            let mut sum = 0.0;
            let enough = left.iter().position(|(_, weight)| {
                sum += weight;
                sum >= self.top_p * all
            });
            left.truncate(enough.map_or(left.len(), |last| last + 1));
        } else {
            left.sort_unstable_by_key(|(id, _)| *id);
        }
        let all: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut rest = random.uniform() * all;
        for &(id, weight) in &left {
            rest -= weight;
            if rest < 0.0 {
                return Some(id);
            }
        }
        left.last().map(|(id, _)| *id)
    }
}

/// The place of the greatest number, the first of equal ones; what is not a number counts as minus infinity.
fn greatest(logits: &[f32]) -> Option<usize> {
    let most = logits::greatest(Isa::of_this_machine(), logits);
    if most == f32::NEG_INFINITY { None } else { logits.iter().position(|number| *number == most) }
}

/// How far a number is above the greatest one, at most 0. Infinite ones are equal.
fn above(number: f32, top: f32) -> f64 {
    if number == top { 0.0 } else { f64::from(number) - f64::from(top) }
}

/// The greatest number, and the logarithm of the sum of the powers of how far all are above it. What is not a number does not count.
fn log_of_sum(logits: &[f32]) -> (f32, f64) {
    let isa = Isa::of_this_machine();
    let top = logits::greatest(isa, logits);
    (top, logits::sum_of_powers(isa, logits, top).ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::Random;

    fn plain() -> Sampling {
        Sampling {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition: 1.0,
            presence: 0.0,
            frequency: 0.0,
            bias: Vec::new(),
        }
    }

    fn frequencies(sampling: &Sampling, logits: &[f32], occurrences: &Occurrences) -> Vec<f64> {
        const COUNT: usize = 40_000;
        let mut random = Random::new(Some(3)).stream(None).unwrap();
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..COUNT {
            let choice = sampling.choose(&mut logits.to_vec(), None, occurrences, &mut random).unwrap();
            counts[choice.id as usize] += 1.0 / COUNT as f64;
        }
        counts
    }

    fn check(sampling: &Sampling, occurrences: &Occurrences, expected: &[f64]) {
        // Probabilities of 0.5, 0.25, 0.15, 0.1.
        let logits = [0.15f32, 0.5, 0.1, 0.25].map(f32::ln);
        let found = frequencies(sampling, &logits, occurrences);
        // Five standard errors.
        assert!(
            found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 5.0 * 0.5 / 200.0 && (*y > 0.0 || *x == 0.0)),
            "{found:?}, not {expected:?}"
        );
    }

    #[test]
    fn tokens_come_as_often_as_they_should() {
        let none = Occurrences::default();
        check(&plain(), &none, &[0.15, 0.5, 0.1, 0.25]);
        check(&Sampling { top_k: 2, ..plain() }, &none, &[0.0, 2.0 / 3.0, 0.0, 1.0 / 3.0]);
        check(&Sampling { top_p: 0.76, ..plain() }, &none, &[0.15 / 0.9, 0.5 / 0.9, 0.0, 0.25 / 0.9]);
        check(&Sampling { top_p: 0.5, ..plain() }, &none, &[0.0, 1.0, 0.0, 0.0]);
        check(&Sampling { min_p: 0.4, ..plain() }, &none, &[0.0, 2.0 / 3.0, 0.0, 1.0 / 3.0]);
        let squares = 0.0225 + 0.25 + 0.01 + 0.0625;
        check(
            &Sampling { temperature: 0.5, ..plain() },
            &none,
            &[0.0225 / squares, 0.25 / squares, 0.01 / squares, 0.0625 / squares],
        );
        let bias = vec![(1, f32::NEG_INFINITY), (9, 1.0), (2, 2f32.ln())];
        check(&Sampling { bias, ..plain() }, &none, &[0.15 / 0.6, 0.0, 0.2 / 0.6, 0.25 / 0.6]);
    }

    #[test]
    fn what_occurs_is_less_probable() {
        let mut occurrences = Occurrences::of([1, 77]);
        // Negative numbers are multiplied: a half becomes a quarter.
        check(&Sampling { repetition: 2.0, ..plain() }, &occurrences, &[0.15 / 0.75, 0.25 / 0.75, 0.1 / 0.75, 0.25 / 0.75]);
        // What was not generated is not penalized so.
        let penalties = Sampling { presence: 2f64.ln(), frequency: 2f64.ln(), ..plain() };
        check(&penalties, &occurrences, &[0.15, 0.5, 0.1, 0.25]);
        occurrences.add(1);
        check(&penalties, &occurrences, &[0.15 / 0.625, 0.125 / 0.625, 0.1 / 0.625, 0.25 / 0.625]);
        occurrences.add(1);
        check(&penalties, &occurrences, &[0.15 / 0.5625, 0.0625 / 0.5625, 0.1 / 0.5625, 0.25 / 0.5625]);
    }

    /// They share all of the probability, at any temperature.
    #[test]
    fn infinite_numbers_leave_nothing_to_others() {
        let logits = [1.0, f32::INFINITY, f32::NAN, 3e38, f32::INFINITY, f32::NEG_INFINITY];
        let none = Occurrences::default();
        for temperature in [1e-300, 0.5, 1.0, f64::INFINITY] {
            let found = frequencies(&Sampling { temperature, ..plain() }, &logits, &none);
            assert!((found[1] - 0.5).abs() < 0.0125 && (found[1] + found[4] - 1.0).abs() < 1e-9, "{temperature}: {found:?}");
            for narrower in [Sampling { top_k: 1, ..plain() }, Sampling { top_p: 0.1, ..plain() }] {
                assert_eq!(frequencies(&Sampling { temperature, ..narrower }, &logits, &none)[1].round(), 1.0);
            }
        }
        let mut random = Random::new(Some(1)).stream(None).unwrap();
        for (bias, logprob) in [(vec![], 0.5f64.ln()), (vec![(3, f32::INFINITY)], f64::NEG_INFINITY)] {
            let mut logits = if bias.is_empty() { logits } else { [1.0, 2.0, f32::NAN, 3e38, f32::INFINITY, 0.0] };
            let sampling = Sampling { temperature: 0.0, bias, ..plain() };
            assert_eq!(sampling.choose(&mut logits, None, &none, &mut random).unwrap().logprob, logprob);
        }
        // A factor that float32 does not have.
        let occurrences = Occurrences::of([0]);
        for repetition in [1e-300, 1e300] {
            let sampling = Sampling { temperature: 0.0, repetition, ..plain() };
            assert_eq!(sampling.choose(&mut [0.0], None, &occurrences, &mut random).unwrap().id, 0);
        }
    }

    #[test]
    fn the_greatest_is_the_first_and_no_nan() {
        let greedy = Sampling { temperature: 0.0, ..plain() };
        let mut random = Random::new(Some(1)).stream(None).unwrap();
        let none = Occurrences::default();
        let mut choose = |mut logits: Vec<f32>, sampling: &Sampling| sampling.choose(&mut logits, None, &none, &mut random);
        let choice = choose(vec![0.0, f32::NAN, 2.0, 2.0], &greedy).unwrap();
        assert_eq!(choice.id, 2);
        let expected = 2.0 - (1.0 + 2.0 * 2f64.exp()).ln();
        assert!((choice.logprob - expected).abs() < 1e-12, "{choice:?}");
        // That of the model, whatever is added.
        let biased = Sampling { bias: vec![(0, 9.0)], ..greedy.clone() };
        let choice = choose(vec![0.0, f32::NAN, 2.0, 2.0], &biased).unwrap();
        assert_eq!(choice.id, 0);
        assert!((choice.logprob - (expected - 2.0)).abs() < 1e-12, "{choice:?}");
        for sampling in [greedy, plain()] {
            let error = choose(vec![f32::NEG_INFINITY, f32::NAN], &sampling).unwrap_err();
            assert_eq!(error.kind(), Kind::Operation);
        }
    }

    #[test]
    fn only_what_is_allowed_is_chosen() {
        let mut random = Random::new(Some(5)).stream(None).unwrap();
        let none = Occurrences::default();
        // Words that are full, empty and mixed, and none at all for the last tokens.
        let logits: Vec<f32> = (0..140).map(|id| id as f32 / 64.0).collect();
        let allowed = Allowed::new(vec![u32::MAX, 0, 0b101, 0]);
        let (top, total) = log_of_sum(&logits);
        for temperature in [0.0, 1.0, f64::INFINITY] {
            for bias in [vec![], vec![(100, f32::INFINITY), (64, 3.0)]] {
                let sampling = Sampling { temperature, bias, ..plain() };
                let mut choose = || sampling.choose(&mut logits.clone(), Some(&allowed), &none, &mut random).unwrap();
                for choice in (0..200).map(|_| choose()) {
                    assert!(choice.id < 32 || choice.id == 64 || choice.id == 66, "{choice:?}");
                    assert_eq!(choice.logprob, above(logits[choice.id as usize], top) - total);
                }
            }
        }
        let greedy = Sampling { temperature: 0.0, ..plain() };
        assert_eq!(greedy.choose(&mut logits.clone(), Some(&allowed), &none, &mut random).unwrap().id, 66);
        let error = greedy.choose(&mut logits.clone(), Some(&Allowed::new(vec![0])), &none, &mut random).unwrap_err();
        assert_eq!(error.kind(), Kind::Operation);
    }
}
