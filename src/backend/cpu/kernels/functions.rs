//! Functions of one float32, written so that a loop over them becomes vector instructions: no branches, no calls.
//!
//! The results are within a few units in the last place (`erf` within some twenty), infinities and NaN included. The coefficients of `erf` and `tanh`
//! are those of the Eigen library's rational approximations, the ones of `exp` those of the Cephes library.

use super::isa::Arithmetic;
use crate::graph::ops::elementwise::{ActivationKind, UnaryKind};
use crate::graph::{DataType, Op};

/// The operators that are such functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    Exp,
    Erf,
    Tanh,
    Sigmoid,
    Gelu,
    HardSwish,
    Relu,
    Sqrt,
    Neg,
    Abs,
    Reciprocal,
    /// Rounding to a float16 number.
    Float16,
}

impl Function {
    pub fn of(op: &Op) -> Option<Function> {
        Some(match op {
            Op::Unary(op) => match op.kind {
                UnaryKind::Exp => Function::Exp,
                UnaryKind::Erf => Function::Erf,
                UnaryKind::Sqrt => Function::Sqrt,
                UnaryKind::Neg => Function::Neg,
                UnaryKind::Abs => Function::Abs,
                UnaryKind::Reciprocal => Function::Reciprocal,
                _ => return None,
            },
            Op::Activation(op) => match op.kind {
                ActivationKind::Tanh => Function::Tanh,
                ActivationKind::Sigmoid => Function::Sigmoid,
                ActivationKind::Gelu => Function::Gelu,
                ActivationKind::HardSwish => Function::HardSwish,
                _ => return None,
            },
            // Of a chain, whose numbers stay float32.
            Op::Cast(op) if op.data_type == DataType::Float16 => Function::Float16,
            _ => return None,
        })
    }

    /// Replaces elements by their results. To be called in a [`Loop`](super::isa::Loop).
    #[inline(always)]
    pub fn apply<A: Arithmetic>(self, elements: &mut [f32]) {
        match self {
            Function::Exp => map(elements, exp::<A>),
            Function::Erf => map(elements, erf::<A>),
            Function::Tanh => map(elements, tanh::<A>),
            Function::Sigmoid => map(elements, sigmoid::<A>),
            Function::Gelu => map(elements, gelu::<A>),
            Function::HardSwish => map(elements, hard_swish),
            Function::Relu => map(elements, |x| if x < 0.0 { 0.0 } else { x }),
            Function::Sqrt => map(elements, f32::sqrt),
            Function::Neg => map(elements, |x| -x),
            Function::Abs => map(elements, f32::abs),
            Function::Reciprocal => map(elements, |x| 1.0 / x),
            Function::Float16 => map(elements, float16),
        }
    }
}

/// Elements of two vectors: the results of one are on their way while the next ones begin.
const TOGETHER: usize = 32;

/// The last elements are computed as a whole group too, one at a time would be many times slower.
#[inline(always)]
pub fn map(elements: &mut [f32], function: impl Fn(f32) -> f32) {
    let (groups, rest) = elements.as_chunks_mut::<TOGETHER>();
    for group in groups {
        let mut x = *group;
        for x in &mut x {
            *x = function(*x);
        }
        *group = x;
    }
    if !rest.is_empty() {
        let mut group = [0f32; TOGETHER];
        group[..rest.len()].copy_from_slice(rest);
        for x in &mut group {
            *x = function(*x);
        }
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// `e^x`.
#[inline(always)]
pub fn exp<A: Arithmetic>(x: f32) -> f32 {
    // Beyond these the result is 0 or infinite anyway. What is not a number passes both comparisons.
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    // x = n ln 2 + rest: adding this number rounds to an integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = A::mul_add(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let rest = A::mul_add(n, 2.121_944_4e-4, A::mul_add(n, -0.693_359_4, x));
    let polynomial = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]
        .into_iter()
        .fold(0.0, |sum, factor| A::mul_add(sum, rest, factor));
    let power = A::mul_add(polynomial, rest * rest, rest) + 1.0;
    // 2^n in two factors, since n can be beyond the exponents of normal numbers.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    let scale = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    power * scale(half) * scale(n - half)
}

/// The error function.
#[inline(always)]
pub fn erf<A: Arithmetic>(x: f32) -> f32 {
    let bounded = if x < -4.0 { -4.0 } else { x };
    let bounded = if bounded > 4.0 { 4.0 } else { bounded };
    let square = bounded * bounded;
    let above = [-2.726_142_3e-10, 2.770_681_4e-8, -2.101_024e-6, -5.692_506_4e-5, -7.349_906_3e-4, -2.954_6e-3, -1.609_603_3e-2];
    let below = [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];
    let sum = |factors: &[f32]| factors.iter().fold(0.0, |sum, factor| A::mul_add(sum, square, *factor));
    let value = bounded * sum(&above) / sum(&below);
    if x.abs() > 4.0 { 1f32.copysign(x) } else { value }
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<A: Arithmetic>(x: f32) -> f32 {
    const LIMIT: f32 = 7.905_311;
    let small = x.abs() < 4e-4;
    let bounded = if x < -LIMIT { -LIMIT } else { x };
    let bounded = if bounded > LIMIT { LIMIT } else { bounded };
    let square = bounded * bounded;
    let above = [-2.760_768_5e-16, 2.000_188e-13, -8.604_672e-11, 5.122_297_1e-8, 1.485_722_4e-5, 6.372_619_3e-4, 4.893_524_6e-3];
    let below = [1.198_258_4e-6, 1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3];
    let sum = |factors: &[f32]| factors.iter().fold(0.0, |sum, factor| A::mul_add(sum, square, *factor));
    let value = bounded * sum(&above) / sum(&below);
    let value = if x.abs() > LIMIT { 1f32.copysign(x) } else { value };
    if small { x } else { value }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<A: Arithmetic>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<A>(-x))
}

/// `0.5 x (1 + erf(x / √2))`.
#[inline(always)]
pub fn gelu<A: Arithmetic>(x: f32) -> f32 {
    0.5 * x * (1.0 + erf::<A>(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// `x * max(0, min(6, x + 3)) / 6`.
#[inline(always)]
pub fn hard_swish(x: f32) -> f32 {
    let gate = x + 3.0;
    let gate = if gate < 0.0 { 0.0 } else { gate };
    let gate = if gate > 6.0 { 6.0 } else { gate };
    x * gate / 6.0
}

/// The nearest float16 number, halves to even; infinity where there is none so great.
#[inline(always)]
pub fn float16(x: f32) -> f32 {
    const DROPPED: u32 = 13;
    const LEAST_NORMAL: f32 = 6.103_515_6e-5;
    const OVERFLOW: f32 = 65_536.0;
    let sign = x.to_bits() & 0x8000_0000;
    let size = x.to_bits() ^ sign;
    let number = f32::from_bits(size);
    // Carries of the mantissa raise the exponent, as they should.
    let even = size >> DROPPED & 1;
    let normal = (size + ((1 << (DROPPED - 1)) - 1) + even) >> DROPPED << DROPPED;
    // Those of less than 2^-14 are multiples of 2^-24, which the last place of numbers from 0.5 on is.
    let small = (number + 0.5) - 0.5;
    let result = if number < LEAST_NORMAL { small } else { f32::from_bits(normal) };
    let result = if result >= OVERFLOW { f32::INFINITY } else { result };
    let result = if x.is_nan() { f32::from_bits(size | 0x0040_0000) } else { result };
    f32::from_bits(result.to_bits() | sign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::isa::Apart;

    /// The largest error of a function over a range, relative to the result and to `floor` where that is larger.
    fn error(function: impl Fn(f32) -> f32, exact: fn(f64) -> f64, range: std::ops::Range<f32>, floor: f64) -> f64 {
        (0..=20_000)
            .map(|i| range.start + (range.end - range.start) * i as f32 / 20_000.0)
            .map(|x| (function(x) as f64 - exact(x as f64)).abs() / exact(x as f64).abs().max(floor))
            .fold(0.0, f64::max)
    }

    fn close<A: Arithmetic>() {
        const FEW_ULP: f64 = 4e-7;
        assert!(error(exp::<A>, f64::exp, -87.0..88.7, 0.0) < FEW_ULP);
        assert!(error(erf::<A>, libm::erf, -5.0..5.0, 0.0) < 2e-6);
        assert!(error(tanh::<A>, f64::tanh, -10.0..10.0, 0.0) < FEW_ULP);
        assert!(error(sigmoid::<A>, |x| 1.0 / (1.0 + (-x).exp()), -80.0..80.0, 0.0) < FEW_ULP);
        // 1 + erf cancels where x is negative; what is left is exact to float32 beside 1.
        assert!(error(gelu::<A>, |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2), -6.0..6.0, 1.0) < 2e-6);
    }

    #[test]
    fn float16_numbers_are_the_nearest() {
        // Every float16, what lies between it and the next ones, and what is a little beside that.
        for bits in 0..=u16::MAX {
            let number = half::f16::from_bits(bits).to_f32();
            for x in [number, f32::from_bits(number.to_bits() + 0x1000), f32::from_bits(number.to_bits().wrapping_sub(0x1000))] {
                for x in [x, f32::from_bits(x.to_bits() + 1), f32::from_bits(x.to_bits().wrapping_sub(1))] {
                    let expected = half::f16::from_f32(x).to_f32();
                    assert!(float16(x).to_bits() == expected.to_bits() || x.is_nan() && float16(x).is_nan(), "{x:e}");
                }
            }
        }
        for x in [1e-30f32, 2.98e-8, 2.99e-8, 65_519.0, 65_520.0, 1e30, -0.0, -1e-40, 3e-45] {
            assert_eq!(float16(x).to_bits(), half::f16::from_f32(x).to_f32().to_bits(), "{x:e}");
        }
    }

    #[test]
    fn functions_are_close() {
        close::<Apart>();
        #[cfg(target_arch = "x86_64")]
        close::<crate::backend::cpu::kernels::isa::Fused>();
        assert!(error(hard_swish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, -5.0..5.0, 1e-6) < 4e-7);
    }

    fn special<A: Arithmetic>() {
        let (exp, tanh, sigmoid, erf) = (exp::<A>, tanh::<A>, sigmoid::<A>, erf::<A>);
        for function in [exp, erf, tanh, sigmoid, gelu::<A>, hard_swish] {
            assert!(function(f32::NAN).is_nan());
        }
        assert_eq!([exp(f32::INFINITY), exp(f32::NEG_INFINITY), exp(0.0)], [f32::INFINITY, 0.0, 1.0]);
        assert_eq!([exp(89.0), exp(-104.0)], [f32::INFINITY, 0.0]);
        assert!(exp(-95.0) > 0.0);
        assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(1e-30)], [1.0, -1.0, 1e-30]);
        assert_eq!([sigmoid(f32::INFINITY), sigmoid(f32::NEG_INFINITY)], [1.0, 0.0]);
        assert_eq!([erf(f32::INFINITY), erf(f32::NEG_INFINITY)], [1.0, -1.0]);
    }

    #[test]
    fn special_values_are_kept() {
        special::<Apart>();
        #[cfg(target_arch = "x86_64")]
        special::<crate::backend::cpu::kernels::isa::Fused>();
    }
}
