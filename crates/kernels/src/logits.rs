//! Of the numbers that a model gives for each token: the greatest one, and the sum of the powers of how far all are above it. The results are
//! the same for all instruction sets.

use crate::isa::{Isa, Loop};

/// Numbers that are worked on side by side.
const LANES: usize = 32;

/// The greatest number; minus infinity where there is none. What is not a number does not count.
pub fn greatest(isa: &Isa, logits: &[f32]) -> f32 {
    let mut most = f32::NEG_INFINITY;
    isa.run_loop(Greatest { logits, most: &mut most });
    most
}

/// The sum of e to the power of each number less the greatest one; infinite ones are equal. What is not a number does not count.
pub fn sum_of_powers(isa: &Isa, logits: &[f32], greatest: f32) -> f64 {
    let mut sum = 0.0;
    isa.run_loop(SumOfPowers { logits, greatest, sum: &mut sum });
    sum
}

struct Greatest<'a> {
    logits: &'a [f32],
    most: &'a mut f32,
}

#[inline(always)]
fn greater(number: f32, most: f32) -> f32 {
    if number > most { number } else { most }
}

impl Loop for Greatest<'_> {
    #[inline(always)]
    fn run(self) {
        let mut lanes = [f32::NEG_INFINITY; LANES];
        let (pieces, rest) = self.logits.as_chunks::<LANES>();
        for piece in pieces {
            for (most, &number) in lanes.iter_mut().zip(piece) {
                *most = greater(number, *most);
            }
        }
        for &number in rest.iter().chain(&lanes) {
            *self.most = greater(number, *self.most);
        }
    }
}

struct SumOfPowers<'a> {
    logits: &'a [f32],
    greatest: f32,
    sum: &'a mut f64,
}

impl Loop for SumOfPowers<'_> {
    #[inline(always)]
    fn run(self) {
        let mut lanes = [0.0f64; LANES];
        let (pieces, rest) = self.logits.as_chunks::<LANES>();
        let mut last = [f32::NAN; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for piece in pieces.iter().chain(std::iter::once(&last)) {
            for (sum, &number) in lanes.iter_mut().zip(piece) {
                let above = if number == self.greatest { 0.0 } else { f64::from(number) - f64::from(self.greatest) };
                let power = power(above);
                *sum += if number.is_nan() { 0.0 } else { power };
            }
        }
        *self.sum = lanes.iter().sum();
    }
}

/// e to the power of a number that is not above 0; 0 from where it would be subnormal.
#[inline(always)]
fn power(x: f64) -> f64 {
    const LEAST: f64 = -708.0;
    /// Adding this leaves an integer in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// The logarithm of 2, as a number with zeros at its end, so that multiples of it are exact, and what is left.
    const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    /// One by the factorials from 13 down to 0.
    const FACTORS: [f64; 14] = [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let bounded = if x > LEAST { x } else { LEAST };
    let shifted = bounded * std::f64::consts::LOG2_E + ROUND;
    let times = shifted - ROUND;
    // At most half of the logarithm of 2 in magnitude: the term after the last one is below half of the last bit.
    let rest = bounded - times * LN_2[0] - times * LN_2[1];
    let mut sum = FACTORS[0];
    for factor in &FACTORS[1..] {
        sum = sum * rest + factor;
    }
    // The exponent's bias, and the integer, which is above -1022.
    let scale = f64::from_bits((1023u64 << 52).wrapping_add(shifted.to_bits() << 52));
    if x > LEAST { sum * scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn powers_are_those_of_the_library() {
        let mut x = -1e-9;
        while x > -720.0 {
            let (found, expected) = (power(x), f64::exp(x));
            // Two roundings of the argument and the sum, and that of the library.
            let is_near = (found - expected).abs() <= 4.0 * f64::EPSILON * expected;
            assert!(if x > -708.0 { is_near } else { found == 0.0 }, "{x}: {found:e}, not {expected:e}");
            x *= 1.000_37;
        }
        assert_eq!([power(0.0), power(f64::NEG_INFINITY)], [1.0, 0.0]);
    }

    #[test]
    fn sums_and_the_greatest() {
        for count in [0, 1, 5, 31, 32, 33, 1000, 32_003] {
            let mut logits: Vec<f32> = numbers(count, 5).into_iter().map(|x| x * 40.0).collect();
            for special in [0.0, f32::NAN, f32::NEG_INFINITY] {
                for number in logits.iter_mut().skip(3).step_by(17) {
                    *number = special;
                }
                let is_number = |x: &&f32| !x.is_nan();
                let top = logits.iter().filter(is_number).copied().fold(f32::NEG_INFINITY, f32::max);
                let expected: f64 = logits.iter().filter(is_number).map(|x| (f64::from(*x) - f64::from(top)).exp()).sum();
                for isa in Isa::available() {
                    assert_eq!(greatest(isa, &logits), top, "{}, {count}", isa.name);
                    let found = sum_of_powers(isa, &logits, top);
                    // Roundings of the sums, ours of 32 and the other one.
                    let bound = (count as f64 + 8.0) * f64::EPSILON * expected;
                    assert!((found - expected).abs() <= bound, "{}, {count}: {found}, not {expected}", isa.name);
                    assert_eq!(found.to_bits(), sum_of_powers(Isa::available()[0], &logits, top).to_bits(), "{}", isa.name);
                }
            }
        }
    }

    #[test]
    fn infinite_ones_are_equal() {
        for isa in Isa::available() {
            let (high, low) = (f32::INFINITY, f32::NEG_INFINITY);
            for (logits, top, sum) in [
                (vec![1.0, high, f32::NAN, high, low], high, 2.0),
                (vec![low; 70], low, 70.0),
                (vec![f32::NAN; 3], low, 0.0),
                (vec![-0.0, 0.0], 0.0, 2.0),
            ] {
                let found = greatest(isa, &logits);
                assert_eq!((found, sum_of_powers(isa, &logits, found)), (top, sum), "{}, {logits:?}", isa.name);
            }
        }
    }
}
