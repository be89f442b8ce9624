//! Arithmetic of the element types, as the specification's operators have it.
//!
//! Floating-point results are rounded once: those of float16 are computed from float32, where one of these operations
//! followed by a second rounding gives the same as a single one. Integers wrap around.

use crate::backend::cpu::element::{Element, Float};
use half::f16;

/// The operations that every data type has.
pub trait Arithmetic: Element {
    const ZERO: Self;
    /// The identities of [`Arithmetic::max`] and [`Arithmetic::min`].
    const LOWEST: Self;
    const HIGHEST: Self;

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// Integers are truncated towards zero; an integer divided by zero gives 0.
    fn div(self, other: Self) -> Self;
    /// What a division rounded towards zero leaves, exactly. An integer divided by zero leaves itself.
    fn rem(self, other: Self) -> Self;
    /// What a division rounded down leaves: 0 with the sign of the divisor, or the sum of the exact remainder and the divisor
    /// where their signs differ, rounded once.
    fn floored_rem(self, other: Self) -> Self;
    /// IEEE 754's maximum: NaN if either is, and 0 is above -0.
    fn max(self, other: Self) -> Self;
    /// IEEE 754's minimum.
    fn min(self, other: Self) -> Self;
    /// Of integers, exact modulo 2ⁿ; with a negative exponent the power truncated towards zero, and 0 for a base of 0.
    fn pow(self, exponent: Self) -> Self;
    fn abs(self) -> Self;
    fn neg(self) -> Self;
    /// 1, -1, or 0; NaN is its own sign.
    fn sign(self) -> Self;
}

macro_rules! float {
    ($($T:ty, $one:expr;)*) => { $(
        impl Arithmetic for $T {
            const ZERO: Self = <$T>::from_bits(0);
            const LOWEST: Self = <$T>::NEG_INFINITY;
            const HIGHEST: Self = <$T>::INFINITY;

            fn add(self, other: Self) -> Self {
                Float::from_f32(Float::to_f32(self) + Float::to_f32(other))
            }

            fn sub(self, other: Self) -> Self {
                Float::from_f32(Float::to_f32(self) - Float::to_f32(other))
            }

            fn mul(self, other: Self) -> Self {
                Float::from_f32(Float::to_f32(self) * Float::to_f32(other))
            }

            fn div(self, other: Self) -> Self {
                Float::from_f32(Float::to_f32(self) / Float::to_f32(other))
            }

            fn rem(self, other: Self) -> Self {
                Float::from_f32(Float::to_f32(self) % Float::to_f32(other))
            }

            fn floored_rem(self, other: Self) -> Self {
                let divisor = Float::to_f32(other);
                let rest = Float::to_f32(self) % divisor;
                Float::from_f32(if rest == 0.0 {
                    0f32.copysign(divisor)
                } else if (rest < 0.0) != (divisor < 0.0) {
                    rest + divisor
                } else {
                    rest
                })
            }

            fn max(self, other: Self) -> Self {
                Float::from_f32(maximum(Float::to_f32(self), Float::to_f32(other)))
            }

            fn min(self, other: Self) -> Self {
                Float::from_f32(-maximum(-Float::to_f32(self), -Float::to_f32(other)))
            }

            fn pow(self, exponent: Self) -> Self {
                Float::from_f64(Float::to_f64(self).powf(Float::to_f64(exponent)))
            }

            fn abs(self) -> Self {
                Float::from_f32(Float::to_f32(self).abs())
            }

            fn neg(self) -> Self {
                Float::from_f32(-Float::to_f32(self))
            }

            fn sign(self) -> Self {
                let x = Float::to_f32(self);
                if x.is_nan() {
                    return self;
                }
                Float::from_f32((x > 0.0) as i32 as f32 - (x < 0.0) as i32 as f32)
            }
        }
    )* };
}

float! {
    f32, 1.0;
    f16, f16::ONE;
}

/// IEEE 754's maximum.
fn maximum(a: f32, b: f32) -> f32 {
    if a > b {
        a
    } else if b > a {
        b
    } else if a == b {
        // Of 0 and -0, the one without the sign bit.
        f32::from_bits(a.to_bits() & b.to_bits())
    } else {
        a + b
    }
}

macro_rules! integer {
    ($($T:ty, $abs:ident, $sign:expr;)*) => { $(
        impl Arithmetic for $T {
            const ZERO: Self = 0;
            const LOWEST: Self = <$T>::MIN;
            const HIGHEST: Self = <$T>::MAX;

            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }

            fn rem(self, other: Self) -> Self {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }

            fn floored_rem(self, other: Self) -> Self {
                let rest = Arithmetic::rem(self, other);
                let zero = <Self as Arithmetic>::ZERO;
                let differ = (rest < zero) != (other < zero);
                if rest != 0 && other != 0 && differ { rest.wrapping_add(other) } else { rest }
            }

            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            fn pow(self, exponent: Self) -> Self {
                let mut exponent = i128::from(exponent);
                if exponent < 0 {
                    let inverse = Arithmetic::div(1, self);
                    return if exponent % 2 == 0 { inverse.wrapping_mul(inverse) } else { inverse };
                }
                let (mut power, mut square): (Self, Self) = (1, self);
                while exponent > 0 {
                    if exponent % 2 == 1 {
                        power = power.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    exponent /= 2;
                }
                power
            }

            fn abs(self) -> Self {
                $abs(self)
            }

            fn neg(self) -> Self {
                self.wrapping_neg()
            }

            fn sign(self) -> Self {
                $sign(self)
            }
        }
    )* };
}

/// What a signed integer's absolute value and sign become for an unsigned one.
fn itself<T>(value: T) -> T {
    value
}

macro_rules! signed_or_not {
    ($($signed:ident $unsigned:ident)*) => {
        integer! { $(
            $signed, wrapping_abs, $signed::signum;
            $unsigned, itself, |x: $unsigned| Ord::min(x, 1);
        )* }
    };
}

fn wrapping_abs<T: Arithmetic>(value: T) -> T {
    if value < T::ZERO { value.neg() } else { value }
}

signed_or_not! { i8 u8 i32 u32 i64 u64 }

/// An element of which many are added up or multiplied.
pub trait Accumulate: Arithmetic {
    /// `f64` for floating-point elements, so that there is one rounding at the end; integers are their own, and wrap.
    type Total: Total;

    fn widen(self) -> Self::Total;
    fn narrow(total: Self::Total) -> Self;
}

/// A sum or product so far.
pub trait Total: Copy + Send + Sync {
    const ZERO: Self;
    const ONE: Self;

    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

impl Total for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }
}

macro_rules! accumulate_floats {
    ($($T:ty)*) => { $(
        impl Accumulate for $T {
            type Total = f64;

            fn widen(self) -> f64 {
                Float::to_f64(self)
            }

            fn narrow(total: f64) -> Self {
                Float::from_f64(total)
            }
        }
    )* };
}

accumulate_floats! { f32 f16 }

macro_rules! accumulate_integers {
    ($($T:ty)*) => { $(
        impl Accumulate for $T {
            type Total = $T;

            fn widen(self) -> $T {
                self
            }

            fn narrow(total: $T) -> Self {
                total
            }
        }

        impl Total for $T {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )* };
}

accumulate_integers! { i8 u8 i32 u32 i64 u64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap() {
        assert_eq!(Arithmetic::add(i8::MAX, 1), i8::MIN);
        assert_eq!(Arithmetic::div(i32::MIN, -1), i32::MIN);
        assert_eq!(Arithmetic::div(7u8, 0), 0);
        assert_eq!(Arithmetic::div(-7i64, 2), -3);
        assert_eq!(Arithmetic::abs(i8::MIN), i8::MIN);
        assert_eq!(Arithmetic::neg(i64::MIN), i64::MIN);
        assert_eq!([-5i8, 0, 5].map(Arithmetic::sign), [-1, 0, 1]);
    }

    #[test]
    fn remainders() {
        let truncated = [(5, 3, 2), (-5, 3, -2), (5, -3, 2), (-5, -3, -2), (i32::MIN, -1, 0), (-7, 0, -7), (6, 3, 0)];
        for (a, b, rest) in truncated {
            assert_eq!(Arithmetic::rem(a, b), rest, "{a} % {b}");
        }
        let floored = [(5, 3, 2), (-5, 3, 1), (5, -3, -1), (-5, -3, -2), (i32::MIN, -1, 0), (-7, 0, -7), (-6, 3, 0)];
        for (a, b, rest) in floored {
            assert_eq!(Arithmetic::floored_rem(a, b), rest, "{a} % {b}");
        }
        assert_eq!(Arithmetic::floored_rem(250u8, 7), 5);
        let bits = |x: f32| x.to_bits();
        assert_eq!(bits(Arithmetic::rem(-6.0, 3.0)), bits(-0.0));
        assert_eq!(bits(Arithmetic::floored_rem(-6.0, 3.0)), bits(0.0));
        assert_eq!(bits(Arithmetic::floored_rem(6.0, -3.0)), bits(-0.0));
        assert_eq!(Arithmetic::rem(1e8f32, 7.0), 2.0);
        assert_eq!(Arithmetic::rem(3e38f32, 1e-45), 0.0);
        assert_eq!(Arithmetic::rem(5.0, f32::INFINITY), 5.0);
        assert_eq!(Arithmetic::floored_rem(-5.0, f32::INFINITY), f32::INFINITY);
        for (a, b) in [(f32::INFINITY, 3.0), (3.0, 0.0), (f32::NAN, 3.0), (3.0, f32::NAN), (0.0, -0.0)] {
            assert!(Arithmetic::rem(a, b).is_nan() && Arithmetic::floored_rem(a, b).is_nan(), "{a} % {b}");
        }
    }

    #[test]
    fn integer_powers_are_exact_modulo_their_size() {
        let cases: [(i32, i32, i32); 9] = [
            (3, 4, 81),
            (-2, 31, i32::MIN),
            (3, 21, 1870418611),
            (0, 0, 1),
            (1, -3, 1),
            (-1, -3, -1),
            (-1, i32::MIN, 1),
            (2, -1, 0),
            (0, -1, 0),
        ];
        for (base, exponent, power) in cases {
            assert_eq!(Arithmetic::pow(base, exponent), power, "{base} to the {exponent}");
        }
        assert_eq!(Arithmetic::pow(3u64, u64::MAX), 12297829382473034411);
    }

    #[test]
    fn maximum_and_minimum_are_those_of_ieee_754() {
        let nan = f32::NAN;
        assert!(Arithmetic::max(nan, 1.0).is_nan() && Arithmetic::max(1.0, nan).is_nan());
        assert!(Arithmetic::min(nan, 1.0).is_nan() && Arithmetic::min(1.0, nan).is_nan());
        assert!(Arithmetic::max(-0.0f32, 0.0).is_sign_positive() && Arithmetic::min(0.0f32, -0.0).is_sign_negative());
        assert_eq!(Arithmetic::max(f32::NEG_INFINITY, -1.0), -1.0);
    }
}
