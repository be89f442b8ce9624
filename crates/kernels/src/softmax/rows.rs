//! Softmax and normalization of contiguous rows.
#![allow(unsafe_code)]

use super::row_softmax::{Rows, Scores, load_first};
use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// Sums that are formed side by side, so that they become one vector, and are exact for long rows.
const SUMS: usize = 32;

/// Softmax of rows that lie one after the other.
pub struct SoftmaxRows<'a> {
    pub input: &'a [f32],
    pub output: &'a mut [f32],
    pub length: usize,
    pub pauses: Pauses,
}

impl SoftmaxRows<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for SoftmaxRows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let SoftmaxRows { input, output, length, pauses } = self;
        let count = output.len() / length;
        assert!(count * length <= input.len());
        let rows = Rows { start: output.as_mut_ptr(), count, length, stride: length, instead_of_nan: f32::NAN, pauses };
        // SAFETY: the output has so many rows, and the input as many.
        unsafe { rows.softmax::<V>(Input { start: input.as_ptr(), length }) }
    }
}

/// Rows one after the other.
struct Input {
    start: *const f32,
    length: usize,
}

impl<V: Vector> Scores<V> for Input {
    #[inline(always)]
    unsafe fn at(&self, row: usize, at: usize, count: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { load_first(self.start.add(row * self.length + at), count) }
    }
}

/// A row whose mean becomes 0 and whose variance 1, times a scale, plus a bias.
pub struct NormalizedRow<'a> {
    pub input: &'a [f32],
    pub output: &'a mut [f32],
    pub scale: Option<&'a [f32]>,
    pub bias: Option<&'a [f32]>,
    pub epsilon: f32,
    pub pauses: Pauses,
}

impl NormalizedRow<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for NormalizedRow<'_> {
    #[inline(always)]
    fn run(self) {
        let NormalizedRow { input, output, scale, bias, epsilon, pauses } = self;
        let Some((mean, factor)) = mean_and_factor(input, epsilon, pauses) else {
            return in_f64((input, output), true, epsilon, pauses, |i| (at(scale, i, 1.0), at(bias, i, 0.0)));
        };
        let normal = |x: f32| (x - mean) * factor;
        for part in pauses.parts(output.len()) {
            let [scale, bias] = [scale, bias].map(|factors| factors.map(|factors| &factors[part.clone()]));
            let (output, input) = (&mut output[part.clone()], &input[part]);
            match (scale, bias) {
                (Some(scale), Some(bias)) => {
                    for (((y, &x), scale), bias) in output.iter_mut().zip(input).zip(scale).zip(bias) {
                        *y = normal(x) * scale + bias;
                    }
                }
                (Some(scale), None) => {
                    for ((y, &x), scale) in output.iter_mut().zip(input).zip(scale) {
                        *y = normal(x) * scale;
                    }
                }
                (None, Some(bias)) => {
                    for ((y, &x), bias) in output.iter_mut().zip(input).zip(bias) {
                        *y = normal(x) + bias;
                    }
                }
                (None, None) => {
                    for (y, &x) in output.iter_mut().zip(input) {
                        *y = normal(x);
                    }
                }
            }
        }
    }
}

/// A row divided by the root of the mean of its squares, times a scale.
pub struct RmsRow<'a> {
    pub input: &'a [f32],
    pub output: &'a mut [f32],
    pub scale: Option<&'a [f32]>,
    pub epsilon: f32,
    pub pauses: Pauses,
}

impl RmsRow<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for RmsRow<'_> {
    #[inline(always)]
    fn run(self) {
        let RmsRow { input, output, scale, epsilon, pauses } = self;
        let Some(factor) = inverse_root(sum(input, pauses, |x| x * x) / input.len() as f32 + epsilon) else {
            return in_f64((input, output), false, epsilon, pauses, |i| (at(scale, i, 1.0), 0.0));
        };
        for part in pauses.parts(output.len()) {
            let scale = scale.map(|scale| &scale[part.clone()]);
            let (output, input) = (&mut output[part.clone()], &input[part]);
            match scale {
                Some(scale) => {
                    for ((y, &x), scale) in output.iter_mut().zip(input).zip(scale) {
                        *y = x * factor * scale;
                    }
                }
                None => {
                    for (y, &x) in output.iter_mut().zip(input) {
                        *y = x * factor;
                    }
                }
            }
        }
    }
}

/// The mean of a row, and what makes its variance 1, unless that must be computed in float64.
#[inline(always)]
fn mean_and_factor(row: &[f32], epsilon: f32, pauses: Pauses) -> Option<(f32, f32)> {
    let count = row.len() as f32;
    let mean = sum(row, pauses, |x| x) / count;
    let variance = sum(row, pauses, |x| (x - mean) * (x - mean)) / count;
    Some((mean, inverse_root(variance + epsilon)?))
}

/// The inverse root of a mean of squares (and an epsilon), unless squares of float32 were infinite, or lost digits that matter.
#[inline(always)]
fn inverse_root(mean_square: f32) -> Option<f32> {
    const LEAST: f32 = 1.0 / (1u128 << 80) as f32;
    (LEAST..=f32::MAX).contains(&mean_square).then(|| 1.0 / mean_square.sqrt())
}

fn at(factors: Option<&[f32]>, i: usize, absent: f32) -> f32 {
    factors.map_or(absent, |factors| factors[i])
}

/// A normalization in float64, where no sum or square of float32 numbers leaves the type. `factors` gives scale and bias.
#[cold]
fn in_f64(
    (input, output): (&[f32], &mut [f32]),
    centres: bool,
    epsilon: f32,
    pauses: Pauses,
    factors: impl Fn(usize) -> (f32, f32),
) {
    let count = input.len() as f64;
    let wide = || pauses.parts(input.len()).flat_map(|part| &input[part]).map(|&x| f64::from(x));
    let mean = if centres { wide().sum::<f64>() / count } else { 0.0 };
    let variance = wide().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
    let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
    for (i, (y, x)) in output.iter_mut().zip(wide()).enumerate() {
        let (scale, bias) = factors(i);
        *y = ((x - mean) * factor * f64::from(scale) + f64::from(bias)) as f32;
    }
}

/// The same with one scale and bias for all numbers of the row.
pub struct NormalizedChannel<'a> {
    pub input: &'a [f32],
    pub output: &'a mut [f32],
    pub scale: f32,
    pub bias: f32,
    pub epsilon: f32,
    pub pauses: Pauses,
}

impl NormalizedChannel<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for NormalizedChannel<'_> {
    #[inline(always)]
    fn run(self) {
        let NormalizedChannel { input, output, scale, bias, epsilon, pauses } = self;
        let Some((mean, factor)) = mean_and_factor(input, epsilon, pauses) else {
            return in_f64((input, output), true, epsilon, pauses, |_| (scale, bias));
        };
        for part in pauses.parts(output.len()) {
            for (y, &x) in output[part.clone()].iter_mut().zip(&input[part]) {
                *y = (x - mean) * factor * scale + bias;
            }
        }
    }
}

/// The sum of a function over a row.
#[inline(always)]
fn sum(row: &[f32], pauses: Pauses, function: impl Fn(f32) -> f32) -> f32 {
    total(side_by_side(row, pauses, 0.0, |sum, x| sum + function(x)))
}

#[inline(always)]
fn total(sums: [f32; SUMS]) -> f32 {
    halved(sums, |a, b| a + b)
}

/// Folds one half of the numbers into the other, and so on: side by side, not one after the other.
#[inline(always)]
fn halved<const N: usize>(mut numbers: [f32; N], function: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            numbers[i] = function(numbers[i], numbers[half + i]);
        }
        half /= 2;
    }
    numbers[0]
}

/// Folds every [`SUMS`]th element of a row, from the first, the second, … on.
#[inline(always)]
fn side_by_side(row: &[f32], pauses: Pauses, start: f32, function: impl Fn(f32, f32) -> f32) -> [f32; SUMS] {
    let mut sums = [start; SUMS];
    for part in pauses.whole_parts(row.len(), SUMS, 1) {
        let (groups, rest) = row[part].as_chunks::<SUMS>();
        for group in groups {
            let group = *group;
            for i in 0..SUMS {
                sums[i] = function(sums[i], group[i]);
            }
        }
        for (sum, x) in sums.iter_mut().zip(rest) {
            *sum = function(*sum, *x);
        }
    }
    sums
}
