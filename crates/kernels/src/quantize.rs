//! Conversions between float32 and integers, to the last bit as the specification has them.
#![allow(unsafe_code)]

use crate::functions::exact_division::Divisor;
use crate::isa::{Isa, Loop};
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// How numbers are quantized.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// What a step is, and how many there are without the zero point.
    pub divisor: Divisor,
    /// Added to the number of steps.
    pub zero: i32,
}

/// Quantizes numbers.
pub struct Quantize<'a> {
    pub numbers: &'a [f32],
    pub bytes: &'a mut [u8],
    pub steps: Steps,
}

impl Quantize<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Quantize<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        if self.steps.divisor.divides::<V>() { self.with::<V, true>() } else { self.with::<V, false>() }
    }
}

impl Quantize<'_> {
    #[inline(always)]
    fn with<V: Vector, const DIVIDES: bool>(self) {
        let Quantize { numbers, bytes, steps: Steps { divisor, zero } } = self;
        let divisor = divisor.on::<V>();
        assert_eq!(numbers.len(), bytes.len());
        for (numbers, bytes) in numbers.chunks(V::LANES).zip(bytes.chunks_mut(V::LANES)) {
            // SAFETY: there are so many numbers, and as many bytes.
            unsafe {
                let x = match numbers.len() {
                    count if count == V::LANES => V::load(numbers.as_ptr()),
                    count => V::load_first(numbers.as_ptr(), count),
                };
                divisor.quotient(x, DIVIDES).store_bytes(zero, bytes.as_mut_ptr(), bytes.len());
            }
        }
    }
}

/// The least number, or 0 if none is less, and the greatest, or 0; both NaN where one of the numbers is.
pub fn range(isa: &Isa, numbers: &[f32]) -> [f32; 2] {
    let mut found = [0.0; 2];
    with_vectors(isa, Range { numbers, found: &mut found });
    found
}

struct Range<'a> {
    numbers: &'a [f32],
    found: &'a mut [f32; 2],
}

impl OnVectors for Range<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // Several of each, so that no comparison waits for the one before it; of the least numbers the greatest of what they are negated.
        const WAYS: usize = 4;
        let zero = V::splat(0.0);
        let mut negated = [zero; WAYS];
        let mut most = [zero; WAYS];
        let mut pieces = self.numbers.chunks_exact(WAYS * V::LANES);
        for piece in &mut pieces {
            for way in 0..WAYS {
                // SAFETY: there are so many numbers.
                let x = unsafe { V::load(piece[way * V::LANES..].as_ptr()) };
                (negated[way], most[way]) = (negated[way].greatest(zero.sub(x)), most[way].greatest(x));
            }
        }
        for piece in pieces.remainder().chunks(V::LANES) {
            // SAFETY: there are so many numbers; the other lanes are 0, which changes nothing.
            let x = unsafe { V::load_first(piece.as_ptr(), piece.len()) };
            (negated[0], most[0]) = (negated[0].greatest(zero.sub(x)), most[0].greatest(x));
        }
        for way in 1..WAYS {
            (negated[0], most[0]) = (negated[0].greatest(negated[way]), most[0].greatest(most[way]));
        }
        let mut lanes = [[0f32; MOST_LANES]; 2];
        // SAFETY: there is room for the lanes of any vector.
        unsafe {
            negated[0].store(lanes[0].as_mut_ptr());
            most[0].store(lanes[1].as_mut_ptr());
        }
        let [negated, most] = lanes.map(|lanes| {
            let greater = |a: f32, b: f32| if b.is_nan() || b > a { b } else { a };
            lanes[..V::LANES].iter().copied().fold(0.0, greater)
        });
        *self.found = [0.0 - negated, most];
    }
}

/// Dequantizes integers: `(integer - zero) * scale`.
pub struct Scale<'a, T> {
    pub integers: &'a [T],
    pub numbers: &'a mut [f32],
    pub scale: f32,
    pub zero: i32,
}

macro_rules! scales {
    ($($integer:ty),*) => { $(
        impl Scale<'_, $integer> {
            /// Runs it with an instruction set.
            pub fn compute(self, isa: &Isa) {
                isa.run_loop(self);
            }
        }
    )* };
}

scales!(i8, u8, i32);

impl<T: Copy + Into<i32>> Loop for Scale<'_, T> {
    #[inline(always)]
    fn run(self) {
        for (number, &integer) in self.numbers.iter_mut().zip(self.integers) {
            let integer: i32 = integer.into();
            *number = integer.wrapping_sub(self.zero) as f32 * self.scale;
        }
    }
}

/// Casts numbers as `as` does, in a form that the compiler makes vectors of.
pub struct ToInt32<'a>(pub &'a [f32], pub &'a mut [i32]);

/// The bounds of 32-bit integers: the least, and the first number that is above all of them.
const LEAST: f32 = i32::MIN as f32;
const ABOVE: f32 = -LEAST;

impl ToInt32<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for ToInt32<'_> {
    #[inline(always)]
    fn run(self) {
        for (integer, &number) in self.1.iter_mut().zip(self.0) {
            // Zero also stands for what is not a number.
            let bounded = if (LEAST..ABOVE).contains(&number) { number } else { 0.0 };
            // SAFETY: it is between the bounds.
            let converted: i32 = unsafe { bounded.to_int_unchecked() };
            let outside = if number >= ABOVE { i32::MAX } else { converted };
            *integer = if number < LEAST { i32::MIN } else { outside };
        }
    }
}

/// The same to integers of 8 bits.
pub struct ToBytes<'a> {
    pub numbers: &'a [f32],
    pub bytes: &'a mut [u8],
    /// The least and the greatest integer of the type.
    pub bounds: [f32; 2],
}

impl ToBytes<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for ToBytes<'_> {
    #[inline(always)]
    fn run(self) {
        let [low, high] = self.bounds;
        for (byte, &number) in self.bytes.iter_mut().zip(self.numbers) {
            let raised = if number > low { number } else { low };
            let bounded = if raised < high { raised } else { high };
            let bounded = if number.is_nan() { 0.0 } else { bounded };
            // SAFETY: it is between bounds that 32-bit integers have.
            let truncated: i32 = unsafe { bounded.to_int_unchecked() };
            *byte = truncated as u8;
        }
    }
}
