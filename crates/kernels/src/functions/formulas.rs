//! Functions of vectors of float32.
//!
//! The results are within four units in the last place, infinities and NaN included. The coefficients of `tanh` and of
//! `log` are those of the Cephes library.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use crate::functions::exact_division::{Divisor, DivisorOf};
use crate::simd::vector::Vector;

/// Declares [`Function`], and the list of all of them.
macro_rules! functions {
    ($($(#[$doc:meta])* $Function:ident),* $(,)?) => {
        /// Functions without parameters.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Function { $($(#[$doc])* $Function),* }

        impl Function {
            pub const ALL: &[Function] = &[$(Function::$Function),*];
        }
    };
}

functions! {
    Exp,
    Log,
    Erf,
    Tanh,
    Sigmoid,
    Gelu,
    HardSwish,
    Mish,
    TanhGelu,
    Relu,
    Sqrt,
    Neg,
    Abs,
    Reciprocal,
    Softplus,
    Sin,
    Cos,
    Floor,
    Ceil,
    RoundEven,
    Sign,
    /// Rounding to a float16 number.
    Float16,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formula {
    Of(Function),
    /// `x`, or `alpha (e^x - 1)` below zero.
    Elu(f32),
    /// `x`, or `alpha x` below zero.
    LeakyRelu(f32),
    /// `alpha x + beta` between 0 and 1.
    HardSigmoid(f32, f32),
    /// `alpha x + beta`
    Linear(f32, f32),
    Clamp(f32, f32),
    /// `x sigmoid(alpha x)`, and its limit, 0, where that is no number.
    Swish(f32),
    /// `x`, or this number where that is NaN.
    ReplaceNan(f32),
    Power(Power),
    Steps(Rounding),
}

/// A quotient between finite bounds, or a number for one that is NaN; made whole by adding `up` and subtracting `down`, and multiplied
/// by `back`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    divisor: Divisor,
    of_nan: f32,
    up: f32,
    down: f32,
    back: f32,
}

/// This, added to a number of a smaller magnitude than half of it and subtracted again, rounds to whole numbers, of two to the even one.
const TO_WHOLE: f32 = 12_582_912.0;

impl Rounding {
    /// `of_nan` is kept between the bounds, too.
    pub fn new(size: f32, bounds: [f32; 2], of_nan: f32, [up, down]: [f32; 2], back: f32) -> Rounding {
        let is_to_whole = [up, down] == [TO_WHOLE; 2];
        let divisor = if is_to_whole { Divisor::of_many(size, bounds) } else { Divisor::new(size, bounds) };
        Rounding { divisor, of_nan: of_nan.max(bounds[0]).min(bounds[1]), up, down, back }
    }

    #[inline(always)]
    pub fn divides<V: Vector>(&self) -> bool {
        self.divisor.divides::<V>()
    }

    /// The same in each lane.
    #[inline(always)]
    pub fn on<V: Vector>(self) -> RoundingOf<V> {
        let Rounding { divisor, of_nan, up, down, back } = self;
        let [of_nan, up, down, back] = [of_nan, up, down, back].map(V::splat);
        RoundingOf { divisor: divisor.on(), of_nan, up, down, back }
    }
}

/// See [`Rounding::on`].
#[derive(Clone, Copy)]
pub struct RoundingOf<V> {
    divisor: DivisorOf<V>,
    of_nan: V,
    up: V,
    down: V,
    back: V,
}

impl<V: Vector> RoundingOf<V> {
    /// `divides` is what [`Rounding::divides`] says.
    #[inline(always)]
    pub fn round(self, x: V, divides: bool) -> V {
        let quotient = self.divisor.quotient(x, divides);
        // Between the bounds only NaN is not below infinity.
        let quotient = quotient.if_below(V::splat(f32::INFINITY), quotient, self.of_nan);
        quotient.add(self.up).sub(self.down).mul(self.back)
    }
}

/// Powers that are made of products, roots and quotients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Power {
    Two,
    Three,
    Half,
    ThreeQuarters,
    MinusHalf,
    MinusOne,
}

impl Power {
    pub fn of(exponent: f32) -> Option<Power> {
        Some(match exponent {
            2.0 => Power::Two,
            3.0 => Power::Three,
            0.5 => Power::Half,
            0.75 => Power::ThreeQuarters,
            -0.5 => Power::MinusHalf,
            -1.0 => Power::MinusOne,
            _ => return None,
        })
    }
}

/// Replaces every number of a slice by what an expression makes of it. (A closure might be left out of line, and would then
/// be compiled without the instruction set.)
macro_rules! each {
    ($V:ident, $numbers:expr, |$x:ident| $value:expr) => {{
        let numbers: &mut [f32] = $numbers;
        let (start, length) = (numbers.as_mut_ptr(), numbers.len());
        let mut i = 0;
        while i + $V::LANES <= length {
            // SAFETY: a whole vector lies at `i`.
            let $x = unsafe { $V::load(start.add(i)) };
            let value = $value;
            // SAFETY: as above.
            unsafe { value.store(start.add(i)) };
            i += $V::LANES;
        }
        if i < length {
            // SAFETY: so many numbers are left.
            let $x = unsafe { $V::load_first(start.add(i), length - i) };
            let value = $value;
            // SAFETY: as above.
            unsafe { value.store_first(start.add(i), length - i) };
        }
    }};
}

/// The same with the numbers of a second slice, which must be at least as long.
macro_rules! both {
    ($V:ident, $numbers:expr, $others:expr, |$x:ident, $y:ident| $value:expr) => {{
        let numbers: &mut [f32] = $numbers;
        let others = &$others[..numbers.len()];
        let (start, other, length) = (numbers.as_mut_ptr(), others.as_ptr(), numbers.len());
        let mut i = 0;
        while i + $V::LANES <= length {
            // SAFETY: whole vectors lie at `i`.
            let ($x, $y) = unsafe { ($V::load(start.add(i)), $V::load(other.add(i))) };
            let value = $value;
            // SAFETY: as above.
            unsafe { value.store(start.add(i)) };
            i += $V::LANES;
        }
        if i < length {
            // SAFETY: so many numbers are left.
            let ($x, $y) = unsafe { ($V::load_first(start.add(i), length - i), $V::load_first(other.add(i), length - i)) };
            let value = $value;
            // SAFETY: as above.
            unsafe { value.store_first(start.add(i), length - i) };
        }
    }};
}

/// The same by an expression for numbers that are all at least `least`, or not numbers, and by one for any: four vectors are looked at
/// together, since to ask each takes a tenth of the time.
macro_rules! each_of_four {
    ($V:ident, $numbers:expr, $least:expr, |$x:ident| $near:expr, $any:expr) => {{
        let numbers: &mut [f32] = $numbers;
        let (fours, rest) = numbers.split_at_mut(numbers.len() - numbers.len() % (4 * $V::LANES));
        for four in fours.chunks_exact_mut(4 * $V::LANES) {
            let least = $V::splat($least);
            let mut lowest = least;
            for i in 0..4 {
                // What is not a number leaves it as it is.
                // SAFETY: four whole vectors lie there.
                lowest = lowest.min(unsafe { $V::load(four.as_ptr().add(i * $V::LANES)) });
            }
            if lowest.any_below(least) {
                each!($V, four, |$x| $any);
            } else {
                each!($V, four, |$x| $near);
            }
        }
        each!($V, rest, |$x| $any);
    }};
}

pub(crate) use {both, each};

impl Formula {
    /// Replaces numbers by their results.
    #[inline(always)]
    #[expect(clippy::cognitive_complexity, reason = "a table: an arm for each function")]
    pub fn apply<V: Vector>(self, numbers: &mut [f32]) {
        match self {
            Formula::Of(function) => match function {
                Function::Exp => each_of_four!(V, numbers, NEAR, |x| exp_from_near(x), exp(x)),
                Function::Log => each!(V, numbers, |x| log(x)),
                Function::Erf => each!(V, numbers, |x| erf(x)),
                Function::Tanh => each!(V, numbers, |x| tanh(x)),
                Function::Sigmoid => each_of_four!(V, numbers, NEAR, |x| sigmoid_from_near(x), sigmoid(x)),
                Function::Gelu => each!(V, numbers, |x| gelu(x)),
                Function::HardSwish => each!(V, numbers, |x| hard_swish(x)),
                Function::Mish => each!(V, numbers, |x| mish(x)),
                Function::TanhGelu => each!(V, numbers, |x| tanh_gelu(x)),
                Function::Relu => each!(V, numbers, |x| x.max(V::splat(0.0))),
                Function::Sqrt => each!(V, numbers, |x| x.sqrt()),
                Function::Neg => each!(V, numbers, |x| x.negated()),
                Function::Abs => each!(V, numbers, |x| x.abs()),
                Function::Reciprocal => each!(V, numbers, |x| V::splat(1.0).div(x)),
                Function::Softplus => each!(V, numbers, |x| softplus(x)),
                Function::Sin if are_reduced(numbers) => each!(V, numbers, |x| sin(x)),
                Function::Sin => numbers.iter_mut().for_each(|x| *x = f64::from(*x).sin() as f32),
                Function::Cos if are_reduced(numbers) => each!(V, numbers, |x| cos(x)),
                Function::Cos => numbers.iter_mut().for_each(|x| *x = f64::from(*x).cos() as f32),
                Function::Floor => each!(V, numbers, |x| x.floor()),
                Function::Ceil => each!(V, numbers, |x| x.ceil()),
                Function::RoundEven => each!(V, numbers, |x| x.round_even()),
                Function::Sign => each!(V, numbers, |x| sign(x)),
                Function::Float16 => each!(V, numbers, |x| x.float16()),
            },
            Formula::Elu(alpha) => {
                let alpha = V::splat(alpha);
                each!(V, numbers, |x| x.if_below(V::splat(0.0), exp_minus_one(x).mul(alpha), x));
            }
            Formula::LeakyRelu(alpha) => {
                let alpha = V::splat(alpha);
                each!(V, numbers, |x| x.if_below(V::splat(0.0), x.mul(alpha), x));
            }
            Formula::HardSigmoid(alpha, beta) => {
                let (alpha, beta) = (V::splat(alpha), V::splat(beta));
                each!(V, numbers, |x| line(x, alpha, beta).max(V::splat(0.0)).min(V::splat(1.0)));
            }
            Formula::Linear(alpha, beta) => {
                let (alpha, beta) = (V::splat(alpha), V::splat(beta));
                each!(V, numbers, |x| line(x, alpha, beta));
            }
            Formula::Clamp(low, high) => {
                let (low, high) = (V::splat(low), V::splat(high));
                each!(V, numbers, |x| x.max(low).min(high));
            }
            Formula::Swish(1.0) => each!(V, numbers, |x| gated(x, x, V::splat(0.0))),
            // Here infinity is itself, since its limit is.
            Formula::Swish(0.0) => each!(V, numbers, |x| x.mul(V::splat(0.5))),
            Formula::Swish(alpha) => {
                let alpha = V::splat(alpha);
                each!(V, numbers, |x| swish(x, alpha));
            }
            Formula::ReplaceNan(number) => {
                let (number, zero, infinity) = (V::splat(number), V::splat(0.0), V::splat(f32::INFINITY));
                // What is neither below infinity nor above 0 is NaN.
                each!(V, numbers, |x| x.if_below(infinity, x, x.negated().if_below(zero, x, number)));
            }
            Formula::Steps(rounding) => {
                let steps = rounding.on::<V>();
                if rounding.divides::<V>() {
                    each!(V, numbers, |x| steps.round(x, true));
                } else {
                    each!(V, numbers, |x| steps.round(x, false));
                }
            }
            Formula::Power(Power::Two) => each!(V, numbers, |x| x.mul(x)),
            Formula::Power(Power::Three) => each!(V, numbers, |x| x.mul(x).mul(x)),
            Formula::Power(Power::Half) => each!(V, numbers, |x| root(x)),
            Formula::Power(Power::MinusHalf) => each!(V, numbers, |x| V::splat(1.0).div(root(x))),
            Formula::Power(Power::MinusOne) => each!(V, numbers, |x| V::splat(1.0).div(x)),
            Formula::Power(Power::ThreeQuarters) => each!(V, numbers, |x| {
                let root = root(x);
                root.mul(root.sqrt())
            }),
        }
    }
}

/// `x` to the power of a half, which is 0 and infinite where the square root has signs and complaints.
#[inline(always)]
fn root<V: Vector>(x: V) -> V {
    let infinity = V::splat(f32::INFINITY);
    x.if_below(V::splat(-f32::MAX), infinity, x).sqrt().add(V::splat(0.0))
}

/// `e^x`.
#[inline(always)]
pub fn exp<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(within_range(x));
    let (power, least) = (power(rest, 1.0), V::splat(LEAST_POWER));
    // Bounded, since a compiler may do before a branch what is after it.
    let normal = power.times_two_to_the(n.max(least));
    if n.any_below(least) { n.if_below(least, subnormal(power, n), normal) } else { normal }
}

/// The least power of two that gives a normal number, whatever the factor, and the one of the least number there is.
const LEAST_POWER: f32 = -125.0;
const OF_LEAST_NUMBER: f32 = 149.0;

/// A factor times a power of two below [`LEAST_POWER`] and from -150 on: by integers, since a product that is subnormal takes many CPUs a
/// hundred times as long. Other powers give anything.
#[inline(always)]
fn subnormal<V: Vector>(factor: V, n: V) -> V {
    let n = n.min(V::splat(LEAST_POWER - 1.0));
    factor.raised(n.add(V::splat(OF_LEAST_NUMBER))).least_numbers()
}

/// From here on powers are normal numbers.
const NEAR: f32 = -86.0;

/// `e^x` from [`NEAR`] on.
#[inline(always)]
fn exp_from_near<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(x.min(V::splat(89.0)));
    power(rest, 1.0).times_two_to_the(n)
}

/// The same up to 86, where powers are finite.
#[inline(always)]
pub(crate) fn exp_of_near<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(x);
    power(rest, 1.0).raised(n)
}

/// `e^x` for `x` up to 0. What is no normal number is 0, so that powers of what is masked take no longer than others.
#[inline(always)]
pub fn exp_up_to_0<V: Vector>(x: V) -> V {
    /// The power of this is a little above the smallest normal number.
    const LEAST: f32 = -87.0;
    let (rest, n) = rest_of_power(x.max(V::splat(LEAST)));
    x.if_below(V::splat(LEAST), V::splat(0.0), power(rest, 1.0).raised(n))
}

/// `e^x - 1`, to the last places where it is near 0 too.
#[inline(always)]
fn exp_minus_one<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(within_range(x));
    let two = V::splat(1.0).times_two_to_the(n);
    let [a, b, c, d, e] = POWER;
    let above_one = sum(rest, V::splat(a), [b, c, d, e]).mul(rest).mul_add(rest, rest);
    above_one.mul_add(two, two.sub(V::splat(1.0)))
}

/// Beyond these bounds the power is 0 or infinite anyway.
#[inline(always)]
fn within_range<V: Vector>(x: V) -> V {
    x.max(V::splat(-104.0)).min(V::splat(89.0))
}

/// The power of two that is nearest to `e^x`, by adding a number of which no more than whole ones is left: a product alone would be subnormal
/// where `x` is, which takes longer.
#[inline(always)]
fn nearest_power<V: Vector>(x: V) -> V {
    x.mul_add(V::splat(std::f32::consts::LOG2_E), V::splat(TO_WHOLE)).sub(V::splat(TO_WHOLE))
}

/// `rest` and `n` of `e^x = e^rest 2^n`, the rest at most half of `ln 2`.
#[inline(always)]
fn rest_of_power<V: Vector>(x: V) -> (V, V) {
    let n = nearest_power(x);
    (n.mul_add(V::splat(2.121_944_4e-4), n.mul_add(V::splat(-0.693_359_4), x)), n)
}

/// `e^x` is `1 + x + …` with these coefficients of `x^6` to `x^2`, which interpolate it at Chebyshev's nodes: within 1.1e-8 of
/// itself.
const POWER: [f32; 5] = [1.392_621_3e-3, 8.363_203e-3, 4.166_655_6e-2, 1.666_657_6e-1, 0.5];

/// `times e^rest`.
#[inline(always)]
fn power<V: Vector>(rest: V, times: f32) -> V {
    let [a, b, c, d, e] = POWER;
    sum(rest, V::splat(times * a), [times * b, times * c, times * d, times * e, times, times])
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub fn softplus<V: Vector>(x: V) -> V {
    let power = exp(x.abs().negated());
    // What 1 + power is rounded to, and by how much the logarithm of that is to be corrected.
    let whole = power.add(V::splat(1.0));
    let rounded = whole.sub(V::splat(1.0));
    // Where it counts the power is greater than this; division of a subnormal number would take longer.
    let corrected = log(whole).mul(power.max(V::splat(f32::EPSILON / 4.0)).div(rounded));
    let logarithm = rounded.if_below(V::splat(f32::EPSILON), power, corrected);
    x.max(V::splat(0.0)).add(logarithm)
}

/// Angles up to which [`quarter_turns`] is exact enough.
const FARTHEST: f32 = 8192.0;

/// Whether all angles are near enough for vectors. What is not a number is; infinity is not.
#[inline(always)]
fn are_reduced(angles: &[f32]) -> bool {
    let far = angles.iter().fold(0, |far, x| far | (x.abs() > FARTHEST) as u32);
    far == 0
}

/// The quarters of a turn that are nearest to an angle, and what is left of it. A quarter is subtracted in parts, of which all but the
/// last have exact products with their number, also where a product and its sum are rounded apart: 1e-7 is left of an angle that is near to
/// a multiple of a quarter, and must have all its digits. The first two parts, and the coefficients of the polynomials, are those of
/// the Cephes library.
#[inline(always)]
fn quarter_turns<V: Vector>(x: V) -> (V, V) {
    let quarters = x.mul(V::splat(std::f32::consts::FRAC_2_PI)).nearest();
    let rest = quarters.mul_add(V::splat(-1.570_312_5), x);
    let rest = quarters.mul_add(V::splat(-4.837_513e-4), rest);
    let rest = quarters.mul_add(V::splat(-7.549_533_6e-8), rest);
    (quarters, quarters.mul_add(V::splat(-2.563_344e-12), rest))
}

/// The sine of an angle that is so many quarters of a turn and a rest of at most half a quarter.
#[inline(always)]
fn sin_of<V: Vector>(quarters: V, rest: V) -> V {
    let square = rest.mul(rest);
    let sine = sum(square, V::splat(-1.951_529_6e-4), [8.332_161e-3, -1.666_665_5e-1]).mul(square).mul_add(rest, rest);
    let polynomial = sum(square, V::splat(2.443_315_7e-5), [-1.388_731_6e-3, 4.166_664_6e-2]);
    let cosine = polynomial.mul(square).mul_add(square, square.mul_add(V::splat(-0.5), V::splat(1.0)));
    // From 0 to 3; whether it is 2 or 3; whether it is 1 or 3.
    let whole = quarters.mul_add(V::splat(0.25), V::splat(-0.375)).nearest();
    let quarter = whole.mul_add(V::splat(-4.0), quarters);
    let half_turns = quarter.mul_add(V::splat(0.5), V::splat(-0.25)).nearest();
    let odd = half_turns.mul_add(V::splat(-2.0), quarter);
    let value = odd.if_below(V::splat(0.5), sine, cosine);
    value.mul(half_turns.mul_add(V::splat(-2.0), V::splat(1.0)))
}

/// The sine of an angle that is not too far.
#[inline(always)]
fn sin<V: Vector>(x: V) -> V {
    let (quarters, rest) = quarter_turns(x);
    x.abs().if_below(V::splat(1e-4), x, sin_of(quarters, rest))
}

/// The cosine.
#[inline(always)]
fn cos<V: Vector>(x: V) -> V {
    let (quarters, rest) = quarter_turns(x);
    sin_of(quarters.add(V::splat(1.0)), rest)
}

/// The natural logarithm.
#[inline(always)]
pub fn log<V: Vector>(x: V) -> V {
    // Numbers that are not normal become so.
    const MORE: f32 = 8_388_608.0;
    let least = V::splat(f32::MIN_POSITIVE);
    let (factor, power) = x.if_below(least, x.mul(V::splat(MORE)), x).parts();
    let n = x.if_below(least, power.sub(V::splat(23.0)), power);
    // 1 + rest
    let rest = factor.sub(V::splat(1.0));
    let square = rest.mul(rest);
    let polynomial = sum(
        rest,
        V::splat(7.037_684e-2),
        [
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let small = n.mul_add(V::splat(-2.121_944_4e-4), polynomial.mul(rest).mul(square));
    let value = n.mul_add(V::splat(0.693_359_4), square.mul_add(V::splat(-0.5), small).add(rest));
    // Infinity and what is not a number stay.
    let value = x.if_below(V::splat(f32::INFINITY), value, x);
    let of_zero = x.abs().if_below(V::splat(f32::from_bits(1)), V::splat(f32::NEG_INFINITY), value);
    x.if_below(V::splat(0.0), V::splat(f32::NAN), of_zero)
}

/// A polynomial by Horner's scheme, from the highest coefficient on.
#[inline(always)]
pub(crate) fn sum<V: Vector, const N: usize>(x: V, first: V, factors: [f32; N]) -> V {
    let mut sum = first;
    for factor in factors {
        sum = sum.mul_add(x, V::splat(factor));
    }
    sum
}

/// The error function: near 0 by a polynomial, elsewhere by what is left of 1.
#[inline(always)]
pub fn erf<V: Vector>(x: V) -> V {
    // There the result is 1.
    let size = x.abs().min(V::splat(4.1));
    let square = size.mul(size);
    let factors =
        [-8.010_267e-4, 5.188_337e-3, -2.685_381_8e-2, 1.128_358_5e-1, -3.761_262_6e-1, std::f32::consts::FRAC_2_SQRT_PI];
    let near = sum(square, V::splat(7.854_085e-5), factors).mul(x);
    let (power, rest) = tail(size.mul(V::splat(std::f32::consts::SQRT_2)));
    let far = power.mul(rest).mul_add(V::splat(-2.0), V::splat(1.0)).with_sign(x);
    size.if_below(V::splat(1.0), near, far)
}

/// The factors of half of `erfc(x / √2)` for x from 0 to [`FARTHEST_TAIL`]: `e^(-x² / 2)`, and what that is times. The latter is
/// `(1/2 + p) / (x + OFFSET)`, p a polynomial of `(x - OFFSET) / (x + OFFSET)` that was fitted to within 2.6e-8. As p is small
/// beside 1/2 where the result is not, most of its rounding is lost, and that of the quotient is put right.
#[inline(always)]
fn tail<V: Vector>(x: V) -> (V, V) {
    const OFFSET: f32 = 1.75;
    // A square that is exact, and what is missing in it: the power would make much of its rounding.
    let coarse = x.and(V::splat(COARSE));
    let missing = x.sub(coarse).mul(x.add(coarse)).mul(V::splat(-0.5));
    let exponent = coarse.mul(coarse).mul(V::splat(-0.5));
    let n = exponent.add(missing).mul(V::splat(std::f32::consts::LOG2_E)).nearest();
    let rest = n.mul_add(V::splat(2.121_944_4e-4), n.mul_add(V::splat(-0.693_359_4), exponent).add(missing));
    let (offset, one) = (V::splat(OFFSET), V::splat(1.0));
    let divisor = x.add(offset);
    let rounded = x.sub(divisor.sub(offset));
    let inverse = one.div(divisor);
    let (whole, lost) = product(inverse, divisor);
    let more = inverse.mul_add(rounded.negated(), one.sub(whole).sub(lost));
    let polynomial = sum(
        x.sub(offset).mul(inverse),
        V::splat(8.915_400_4e-5),
        [
            4.455_153e-4,
            5.491_469e-4,
            -9.362_646_4e-4,
            -3.879_954_6e-3,
            -3.387_302e-3,
            1.065_139_9e-2,
            3.368_745_7e-2,
            -1.873_969_5e-2,
            -2.678_285e-1,
            1.483_108_3e-1,
        ],
    );
    let half = V::splat(0.5);
    let factor = inverse.mul_add(half, inverse.mul(more.mul_add(half, polynomial)));
    (power(rest, 1.0).times_two_to_the(n), factor)
}

/// The bits of the first half of a number's digits; both halves have exact products.
const COARSE: f32 = f32::from_bits(0xffff_f000);

/// A product, and what is lost when it is rounded, unless it is beyond the normal numbers.
#[inline(always)]
fn product<V: Vector>(a: V, b: V) -> (V, V) {
    let whole = a.mul(b);
    if V::IS_FUSED {
        return (whole, a.mul_add(b, whole.negated()));
    }
    let coarse = V::splat(COARSE);
    let (a_high, b_high) = (a.and(coarse), b.and(coarse));
    let (a_low, b_low) = (a.sub(a_high), b.sub(b_high));
    let middle = a_high.mul(b_high).sub(whole).add(a_high.mul(b_low)).add(a_low.mul(b_high));
    (whole, middle.add(a_low.mul(b_low)))
}

/// A sum, and what is lost when it is rounded.
#[inline(always)]
fn two_sum<V: Vector>(a: V, b: V) -> (V, V) {
    let whole = a.add(b);
    let from_b = whole.sub(a);
    (whole, a.sub(whole.sub(from_b)).add(b.sub(from_b)))
}

/// `alpha x + beta`, rounded about once: where the two are nearly opposite, the rounding of the product would be all that is left.
#[inline(always)]
fn line<V: Vector>(x: V, alpha: V, beta: V) -> V {
    if V::IS_FUSED {
        return x.mul_add(alpha, beta);
    }
    let (scaled, lost) = product(x, alpha);
    let (whole, more) = two_sum(scaled, beta);
    let rest = more.add(lost);
    // It is no number where the product is infinite.
    rest.abs().if_below(V::splat(f32::INFINITY), whole.add(rest), whole)
}

/// From here on the tail is 0.
const FARTHEST_TAIL: f32 = 14.8;

/// The hyperbolic tangent: near 0 by a polynomial, elsewhere `1 - 2 / (e^2x + 1)`.
#[inline(always)]
pub fn tanh<V: Vector>(x: V) -> V {
    let (size, one) = (x.abs(), V::splat(1.0));
    let square = size.mul(size);
    let factors = [2.063_909e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1];
    let near = sum(square, V::splat(-5.704_988_7e-3), factors).mul(square).mul_add(size, size);
    // From the bound on the result is 1.
    let (rest, n) = rest_of_power(size.add(size).min(V::splat(20.0)));
    let far = one.sub(V::splat(2.0).div(power(rest, 1.0).raised(n).add(one)));
    size.if_below(V::splat(0.625), near, far).with_sign(x)
}

/// `x sigmoid(alpha x)`.
#[inline(always)]
fn swish<V: Vector>(x: V, alpha: V) -> V {
    // A power makes much of what the product loses. (Beyond the bound it is 0 or 1 in any case.)
    let (scaled, lost) = product(x, alpha);
    gated(x, scaled, scaled.abs().if_below(V::splat(LARGEST_EXPONENT), lost, V::splat(0.0)))
}

/// From here on powers of minus that, times any number, are 0.
const LARGEST_EXPONENT: f32 = 194.0;
/// From here on a power is as great as its sum with 1.
const FAR: f32 = 60.0;
/// What far powers are scaled by, and the logarithm to base 2 of that: the halves of all exponents are those of normal numbers then.
const SCALE: f32 = 1.0 / 1_099_511_627_776.0;
const SCALED_BY: f32 = 40.0;

/// `x / (1 + e^-y)`, or 0 where that is infinity by infinity. There is more of y than its number: `rest`. Far powers are taken
/// in two parts, since they may be infinite where the result is not 0.
#[inline(always)]
fn gated<V: Vector>(x: V, y: V, rest: V) -> V {
    let (zero, far) = (V::splat(0.0), V::splat(FAR));
    let exponent = y.negated().max(V::splat(-80.0)).min(V::splat(LARGEST_EXPONENT));
    let n = nearest_power(exponent);
    let left = n.mul_add(V::splat(2.121_944_4e-4), n.mul_add(V::splat(-0.693_359_4), exponent).sub(rest));
    let power = power(left, 1.0);
    let near = power.raised(far.if_below(exponent, zero, n)).add(V::splat(1.0));
    let divisor = far.if_below(exponent, power, near);
    let dividend = far.if_below(exponent, finite(x).mul(V::splat(SCALE)), x);
    // The product may be subnormal, which takes divisions much longer.
    dividend.mul(V::splat(1.0).div(divisor)).times_two_to_the(far.if_below(exponent, V::splat(SCALED_BY).sub(n), zero))
}

/// The greatest number instead of infinity.
#[inline(always)]
fn finite<V: Vector>(x: V) -> V {
    x.max(V::splat(-f32::MAX)).min(V::splat(f32::MAX))
}

/// `x tanh(ln(1 + e^x))`, which is `x n / (n + 2)` with `n = e^x (e^x + 2)`, and 0 at minus infinity.
#[inline(always)]
fn mish<V: Vector>(x: V) -> V {
    // From the upper bound on the factor is 1.
    let (zero, two, far) = (V::splat(0.0), V::splat(2.0), V::splat(-FAR));
    let exponent = x.max(V::splat(-LARGEST_EXPONENT)).min(V::splat(20.0));
    let (left, n) = rest_of_power(exponent);
    let power = power(left, 1.0);
    let whole = power.raised(exponent.if_below(far, zero, n));
    let above = whole.mul_add(whole, whole.add(whole));
    // Far below, n is as great as twice the power.
    let factor = exponent.if_below(far, power, above.div(above.add(two)));
    let x = exponent.if_below(far, finite(x).mul(V::splat(SCALE)), x);
    x.mul(factor).times_two_to_the(exponent.if_below(far, n.add(V::splat(SCALED_BY)), zero))
}

/// `0.5 x (1 + tanh(z))` with `z = √(2 / π) (x + 0.044715 x³)`, which is `x sigmoid(2 z)`.
#[inline(always)]
fn tanh_gelu<V: Vector>(x: V) -> V {
    // √(8 / π) and the other factor, and what float32 leaves of each.
    const ROOT: [f32; 2] = [1.595_769_2, -4.534_068e-8];
    const CUBE: [f32; 2] = [0.044_715, 1.546_144_4e-9];
    // Beyond these bounds the factor is 0 or 1. The sum is taken in two parts, as a power makes much of what it loses.
    let bounded = x.max(V::splat(-14.0)).min(V::splat(14.0));
    let (square, square_rest) = product(bounded, bounded);
    let (scaled, scaled_rest) = product(square, V::splat(CUBE[0]));
    let (whole, whole_rest) = two_sum(V::splat(1.0), scaled);
    let rest = square_rest.mul_add(V::splat(CUBE[0]), square.mul_add(V::splat(CUBE[1]), scaled_rest)).add(whole_rest);
    let (inner, inner_rest) = product(bounded, whole);
    let inner_rest = bounded.mul_add(rest, inner_rest);
    let (outer, outer_rest) = product(inner, V::splat(ROOT[0]));
    gated(x, outer, inner_rest.mul_add(V::splat(ROOT[0]), inner.mul_add(V::splat(ROOT[1]), outer_rest)))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(x.max(V::splat(-104.0)).min(V::splat(70.0)).negated());
    // From here on the result is the power of x, and may be subnormal, which no division is to give: it gives the factor.
    let most = V::splat(-LEAST_POWER);
    let value = V::splat(1.0).div(power(rest, 1.0).raised(n.min(most)).add(V::splat(1.0)));
    if !most.any_below(n) {
        return value;
    }
    let steps = V::splat(OF_LEAST_NUMBER - LEAST_POWER).sub(n.max(V::splat(1.0 - LEAST_POWER)));
    most.if_below(n, value.raised(steps).least_numbers(), value)
}

/// The same from [`NEAR`] on.
#[inline(always)]
fn sigmoid_from_near<V: Vector>(x: V) -> V {
    let (rest, n) = rest_of_power(x.min(V::splat(70.0)).negated());
    V::splat(1.0).div(power(rest, 1.0).raised(n).add(V::splat(1.0)))
}

/// `0.5 x (1 + erf(x / √2))`: x times what is left of 1 where x is negative, which the sum would lose.
#[inline(always)]
pub fn gelu<V: Vector>(x: V) -> V {
    // Minus infinity times 0 would be no number.
    let x = x.max(V::splat(-FARTHEST_TAIL));
    let (power, rest) = tail(x.abs().min(V::splat(FARTHEST_TAIL)));
    // The power last: half of erfc is a subnormal number sooner than the result.
    let left = x.mul(rest).mul(power);
    x.if_below(V::splat(0.0), left, x.mul(power.mul_add(rest.negated(), V::splat(1.0))))
}

/// 1, -1, or 0; what is not a number is its own sign.
#[inline(always)]
fn sign<V: Vector>(x: V) -> V {
    let zero = V::splat(0.0);
    // The sum makes 0 of -0.
    x.if_below(zero, V::splat(-1.0), zero.if_below(x, V::splat(1.0), x.add(zero)))
}

/// `x * max(0, min(6, x + 3)) / 6`. The gate is divided, since the product may be greater than all numbers; what is below -3
/// is as -3 is, since minus infinity times 0 is no number.
#[inline(always)]
pub fn hard_swish<V: Vector>(x: V) -> V {
    let x = x.max(V::splat(-3.0));
    let gate = x.add(V::splat(3.0)).min(V::splat(6.0));
    x.mul(gate.mul(V::splat(1.0 / 6.0)))
}
