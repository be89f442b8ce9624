//! What a reduction makes of float32 numbers that come one vector after the other: sums, in float64, and extremes.
//!
//! The numbers of a total are given out as float64 ones, which can be joined with those of other parts of what is reduced.
#![allow(unsafe_code)]

use crate::simd::doubles::{Doubles, MOST_DOUBLES};
use crate::simd::vector::{MOST_LANES, Vector};

/// A total in each lane.
pub trait Total: Copy {
    const LANES: usize;

    /// The total of nothing.
    fn start() -> Self;

    /// Adds a number to each lane.
    ///
    /// # Safety
    /// There must be [`Total::LANES`] numbers at `from`.
    unsafe fn add(self, from: *const f32) -> Self;

    /// Adds numbers to the first `count` lanes; the others mean nothing any more.
    ///
    /// # Safety
    /// There must be `count` numbers at `from`, at most [`Total::LANES`].
    unsafe fn add_first(self, from: *const f32, count: usize) -> Self;

    /// Adds the numbers of a run from `first` on, fewer than there are lanes, to whichever lanes. Those before have been added.
    fn add_rest(self, run: &[f32], first: usize) -> Self;

    fn join(self, other: Self) -> Self;

    /// # Safety
    /// There must be room for [`Total::LANES`] numbers at `to`.
    unsafe fn store(self, to: *mut f64);

    /// The total of all lanes.
    fn across(self) -> f64;
}

/// What is added up.
pub const NUMBERS: u8 = 0;
pub const SIZES: u8 = 1;
pub const SQUARES: u8 = 2;

#[derive(Clone, Copy)]
pub struct Sum<D, const OF: u8>(D);

impl<D: Doubles, const OF: u8> Sum<D, OF> {
    #[inline(always)]
    fn plus(self, numbers: D) -> Self {
        Sum(match OF {
            SIZES => self.0.add(numbers.abs()),
            SQUARES => numbers.square_add(self.0),
            _ => self.0.add(numbers),
        })
    }
}

impl<D: Doubles, const OF: u8> Total for Sum<D, OF> {
    const LANES: usize = D::LANES;

    #[inline(always)]
    fn start() -> Self {
        Sum(D::zero())
    }

    #[inline(always)]
    unsafe fn add(self, from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        self.plus(unsafe { D::load(from) })
    }

    #[inline(always)]
    unsafe fn add_first(self, from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise.
        self.plus(unsafe { D::load_first(from, count) })
    }

    #[inline(always)]
    fn add_rest(self, run: &[f32], first: usize) -> Self {
        let rest = &run[first..];
        // SAFETY: so many numbers are there. Zeros change nothing.
        self.plus(unsafe { D::load_first(rest.as_ptr(), rest.len().min(D::LANES)) })
    }

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        Sum(self.0.add(other.0))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    fn across(self) -> f64 {
        let mut lanes = [0.0; MOST_DOUBLES];
        // SAFETY: no register is longer.
        unsafe { self.0.store(lanes.as_mut_ptr()) };
        let [a, b, c, d, e, f, g, h] = lanes;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
}

/// The greatest number, or the smallest one: the greatest of the negated ones.
#[derive(Clone, Copy)]
pub struct Extreme<V, const SMALLEST: bool> {
    greatest: V,
    /// The bits that all numbers have. Where the greatest is a zero its sign is theirs: all are negative, or one is not.
    bits: V,
}

impl<V: Vector, const SMALLEST: bool> Extreme<V, SMALLEST> {
    #[inline(always)]
    fn plus(self, numbers: V) -> Self {
        let numbers = if SMALLEST { numbers.negated() } else { numbers };
        Extreme { greatest: self.greatest.greatest(numbers), bits: self.bits.and(numbers) }
    }

    #[inline(always)]
    fn signed(self) -> V {
        let zero = V::splat(0.0).with_sign(self.bits);
        let greatest = self.greatest.abs().if_below(V::splat(f32::from_bits(1)), zero, self.greatest);
        if SMALLEST { greatest.negated() } else { greatest }
    }
}

impl<V: Vector, const SMALLEST: bool> Total for Extreme<V, SMALLEST> {
    const LANES: usize = V::LANES;

    #[inline(always)]
    fn start() -> Self {
        Extreme { greatest: V::splat(f32::NEG_INFINITY), bits: V::splat(f32::from_bits(u32::MAX)) }
    }

    #[inline(always)]
    unsafe fn add(self, from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        self.plus(unsafe { V::load(from) })
    }

    #[inline(always)]
    unsafe fn add_first(self, from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise.
        self.plus(unsafe { V::load_first(from, count) })
    }

    #[inline(always)]
    fn add_rest(self, run: &[f32], first: usize) -> Self {
        // A number may come twice.
        let Some(start) = run.len().checked_sub(V::LANES) else {
            let mut lanes = [run[first]; MOST_LANES];
            lanes.iter_mut().zip(&run[first..]).for_each(|(lane, &x)| *lane = x);
            // SAFETY: no register is longer.
            return self.plus(unsafe { V::load(lanes.as_ptr()) });
        };
        // SAFETY: from there on the run is as long as a register.
        self.plus(unsafe { V::load(run[start..].as_ptr()) })
    }

    #[inline(always)]
    fn join(self, other: Self) -> Self {
        Extreme { greatest: self.greatest.greatest(other.greatest), bits: self.bits.and(other.bits) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        let mut lanes = [0.0; MOST_LANES];
        // SAFETY: no register is longer; the room is the caller's promise.
        unsafe {
            self.signed().store(lanes.as_mut_ptr());
            for (i, &x) in lanes.iter().enumerate().take(V::LANES) {
                *to.add(i) = f64::from(x);
            }
        }
    }

    #[inline(always)]
    fn across(self) -> f64 {
        let mut all = self;
        let mut half = V::LANES / 2;
        while half > 0 {
            let mut places = [0; MOST_LANES];
            for (i, place) in places.iter_mut().enumerate() {
                *place = ((i + half) % V::LANES) as i32;
            }
            all = all.join(Extreme { greatest: all.greatest.permuted(&places), bits: all.bits.permuted(&places) });
            half /= 2;
        }
        let mut lanes = [0.0; MOST_LANES];
        // SAFETY: no register is longer.
        unsafe { all.signed().store(lanes.as_mut_ptr()) };
        f64::from(lanes[0])
    }
}

/// The greater of two numbers; not a number if one of them is not.
pub fn greater(a: f64, b: f64) -> f64 {
    if a > b {
        a
    } else if b > a {
        b
    } else if a == b {
        // Zeros may have different signs.
        f64::from_bits(a.to_bits() & b.to_bits())
    } else {
        f64::NAN
    }
}
