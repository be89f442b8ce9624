//! Dividing by the same number again and again where the quotients are bounded and rounded to whole numbers: quantization.
//!
//! A division takes a vector as long as ten products. Of the reciprocal, as a float32 number and what is left of it, two products
//! make a quotient that is wrong by little more than the rounding of the last of them. A correctly rounded quotient and this
//! one become different integers only if they are at different sides of a half, and only a few numbers have quotients as close
//! to one. They are all tried when a divisor is made: where one of them differs there are divisions as before.

use crate::simd::vector::Vector;

/// A divisor, and the bounds of the quotients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divisor {
    size: f32,
    bounds: [f32; 2],
    products: Option<Products>,
}

/// What quotients are made of without a division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products {
    pub reciprocal: f32,
    /// What is left of the reciprocal.
    pub rest: f32,
    /// The numbers whose quotients are the bounds.
    pub bounds: [f32; 2],
}

/// The greatest magnitude of bounds: those of 8 bits are below it, and are few enough to try what is close to all halves.
const MOST_QUOTIENTS: f32 = 512.0;

/// Numbers on each side of a half of the divisor, of which two at most have quotients that are as close to the half as the
/// error, 2⁻²⁴ of them and little more.
const CLOSE: i32 = 4;

impl Divisor {
    /// Any divisor, and bounds of any kind.
    pub fn new(size: f32, bounds: [f32; 2]) -> Divisor {
        Divisor { size, bounds, products: None }
    }

    /// The same; products make the quotients if they, rounded to whole numbers, are those of divisions. To find out takes some
    /// microseconds.
    pub fn of_many(size: f32, bounds: [f32; 2]) -> Divisor {
        Divisor { products: Products::find(size, bounds), ..Divisor::new(size, bounds) }
    }

    /// Whether vectors' quotients are made by divisions.
    #[inline(always)]
    pub fn divides<V: Vector>(&self) -> bool {
        !V::IS_FUSED || self.products.is_none()
    }

    /// What takes the place of divisions, where that is so.
    #[cfg(target_arch = "x86_64")]
    pub fn products(&self) -> Option<Products> {
        self.products
    }

    /// The same in each lane.
    #[inline(always)]
    pub fn on<V: Vector>(self) -> DivisorOf<V> {
        let Products { reciprocal, rest, bounds } = self.products.unwrap_or_default();
        DivisorOf {
            size: V::splat(self.size),
            bounds: self.bounds.map(V::splat),
            reciprocal: V::splat(reciprocal),
            rest: V::splat(rest),
            bounds_of_numbers: bounds.map(V::splat),
        }
    }
}

impl Default for Products {
    fn default() -> Self {
        Products { reciprocal: 0.0, rest: 0.0, bounds: [0.0; 2] }
    }
}

impl Products {
    /// For numbers that were to be kept between other bounds before.
    #[cfg(target_arch = "x86_64")]
    pub fn within(self, [low, high]: [f32; 2]) -> Products {
        let [least, most] = self.bounds;
        Products { bounds: [low, high].map(|bound| bound.max(least).min(most)), ..self }
    }

    fn find(size: f32, [low, high]: [f32; 2]) -> Option<Products> {
        // Nothing that counts is lost at the ends of the range of float32.
        let is_usual = (2f32.powi(-60)..2f32.powi(60)).contains(&size);
        let is_whole = |bound: f32| bound.abs() <= MOST_QUOTIENTS && bound.fract() == 0.0;
        if !is_usual || !is_whole(low) || !is_whole(high) || low > high {
            return None;
        }
        let reciprocal = 1.0 / size;
        let rest = (1.0 / f64::from(size) - f64::from(reciprocal)) as f32;
        let products = Products { reciprocal, rest, bounds: [low * size, high * size] };
        let agrees = |x: f32| products.quotient(x).round_ties_even() == (x / size).round_ties_even();
        let halves = (low as i32..high as i32).map(|whole| whole as f32 + 0.5);
        let close = |quotient: f32| {
            let bits = (quotient * size).to_bits() as i32;
            (bits - CLOSE..=bits + CLOSE).map(|bits| f32::from_bits(bits as u32))
        };
        let is_bound = |bound: f32| products.quotient(bound * size).round_ties_even() == bound;
        (is_bound(low) && is_bound(high) && halves.flat_map(close).all(agrees)).then_some(products)
    }

    /// The quotient of one number, as [`DivisorOf::quotient`] makes it between the bounds.
    fn quotient(&self, x: f32) -> f32 {
        x.mul_add(self.reciprocal, x * self.rest)
    }
}

/// See [`Divisor::on`].
#[derive(Clone, Copy)]
pub struct DivisorOf<V> {
    size: V,
    bounds: [V; 2],
    reciprocal: V,
    rest: V,
    bounds_of_numbers: [V; 2],
}

impl<V: Vector> DivisorOf<V> {
    /// Quotients between the bounds, the integers of which are the right ones; not a number where there is none. `divides` is
    /// what [`Divisor::divides`] says.
    #[inline(always)]
    pub fn quotient(self, x: V, divides: bool) -> V {
        if divides || !V::IS_FUSED {
            return x.div(self.size).max(self.bounds[0]).min(self.bounds[1]);
        }
        let x = x.max(self.bounds_of_numbers[0]).min(self.bounds_of_numbers[1]);
        x.mul_add(self.reciprocal, x.mul(self.rest))
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::vector::{OnVectors, with_vectors};
    use crate::testing::numbers;

    /// The integers that a divisor makes of numbers.
    struct Integers<'a> {
        divisor: Divisor,
        numbers: &'a mut [f32],
    }

    impl OnVectors for Integers<'_> {
        #[inline(always)]
        fn run<V: Vector>(self) {
            let (divisor, divides) = (self.divisor.on::<V>(), self.divisor.divides::<V>());
            for numbers in self.numbers.chunks_exact_mut(V::LANES) {
                // SAFETY: as many numbers as a vector has.
                unsafe { divisor.quotient(V::load(numbers.as_ptr()), divides).round_even().store(numbers.as_mut_ptr()) }
            }
        }
    }

    const MANY: usize = 16 * 1024;

    /// Numbers whose quotients are close to halves, and others.
    fn dividends(size: f32, [low, high]: [f32; 2]) -> Vec<f32> {
        let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN, 1e-40, f32::MIN_POSITIVE];
        let halves = (low as i32 - 1..=high as i32 + 1).map(|whole| (whole as f32 + 0.5) * size);
        let close = halves.flat_map(|half| (-20..20).map(move |more| f32::from_bits(half.to_bits().wrapping_add_signed(more))));
        let some = numbers(MANY, 3).into_iter().map(|x| x * size * (high - low + 10.0));
        special.into_iter().chain(close).chain(some).take(MANY).collect()
    }

    #[test]
    fn quotients_become_the_integers_that_divisions_make() {
        let usual = numbers(40, 11).into_iter().map(|x| (x.abs() + 0.001) * 0.3);
        // All bits are 1, all are 0, and what products are not made of.
        let others = [0.99999994, 1.9999999, 0.5, 1.0, 0.003921569, 0.33333334, 1e-30, 1e30, 0.0, -0.3, f32::NAN, f32::INFINITY];
        for size in usual.chain(others) {
            for bounds in [[0.0, 255.0], [-128.0, 127.0], [-255.0, 0.0], [-20.0, 3.0], [-0.5, 7.0], [0.0, 65535.0]] {
                let dividends = dividends(size, bounds);
                let expected: Vec<f32> = dividends
                    .iter()
                    .map(|x| (x / size).max(bounds[0]).min(bounds[1]).round_ties_even())
                    .zip(&dividends)
                    .map(|(whole, x)| if (x / size).is_nan() { f32::NAN } else { whole })
                    .collect();
                for isa in Isa::available() {
                    for divisor in [Divisor::new(size, bounds), Divisor::of_many(size, bounds)] {
                        let mut found = dividends.clone();
                        with_vectors(isa, Integers { divisor, numbers: &mut found });
                        for ((x, found), expected) in dividends.iter().zip(&found).zip(&expected) {
                            let is_same = found == expected || found.is_nan() && expected.is_nan();
                            assert!(is_same, "{}: {x:e} / {size:e} is {found}, expected {expected}: {divisor:?}", isa.name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn usual_divisors_need_no_divisions() {
        let sizes = numbers(1000, 17).into_iter().map(|x| (x.abs() + 0.001) * 0.3);
        let divide = sizes.filter(|&size| Divisor::of_many(size, [-128.0, 127.0]).products.is_none()).count();
        assert_eq!(divide, 0);
        for size in [0.0, -0.3, f32::NAN, f32::INFINITY, 1e-30] {
            assert_eq!(Divisor::of_many(size, [0.0, 255.0]).products, None, "{size}");
        }
        for bounds in [[0.5, 255.0], [0.0, 65535.0], [3.0, 0.0], [f32::NAN, 5.0], [0.0, f32::INFINITY]] {
            assert_eq!(Divisor::of_many(0.3, bounds).products, None, "{bounds:?}");
        }
    }
}
