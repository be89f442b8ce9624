//! Numbers side by side in one to four registers, and what the innermost loops of products do with them.
#![allow(unsafe_code)]

use crate::bf16::rounding::{round, widen};

/// As many numbers as one to four registers hold. Like [vectors](super::vector), which are such bundles, they exist only where
/// the CPU has the instructions, and all functions are `#[inline(always)]`.
pub trait VectorBundle: Copy {
    /// How many numbers there are.
    const LANES: usize;

    /// Four numbers beside each other that bundles are multiplied with one after the other.
    type Numbers: Copy;

    /// # Safety
    /// There must be [`VectorBundle::LANES`] numbers at `from`.
    unsafe fn load(from: *const f32) -> Self;

    /// Loads the first `count` numbers, and zeros after them.
    ///
    /// # Safety
    /// There must be `count` numbers at `from`, at most [`VectorBundle::LANES`].
    unsafe fn load_first(from: *const f32, count: usize) -> Self;

    /// # Safety
    /// There must be room for [`VectorBundle::LANES`] numbers at `to`.
    unsafe fn store(self, to: *mut f32);

    /// Stores the first `count` numbers.
    ///
    /// # Safety
    /// There must be room for `count` numbers at `to`, at most [`VectorBundle::LANES`].
    unsafe fn store_first(self, to: *mut f32, count: usize);

    /// Whether it multiplies pairs of bfloat16, whose sums may be stored as bfloat16.
    const OF_PAIRS: bool = false;

    /// Loads the first `count` numbers, which lie as bfloat16, and zeros after them.
    ///
    /// # Safety
    /// There must be `count` numbers at `from`, at most [`VectorBundle::LANES`].
    #[inline(always)]
    unsafe fn load_bits(from: *const u16, count: usize) -> Self {
        const { assert!(Self::LANES <= LONGEST) };
        let mut numbers = [0f32; LONGEST];
        for (i, number) in numbers.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's promise.
            *number = widen(unsafe { *from.add(i) });
        }
        // SAFETY: the list is as long.
        unsafe { Self::load(numbers.as_ptr()) }
    }

    /// Rounds the first `count` numbers to bfloat16 and stores them.
    ///
    /// # Safety
    /// There must be room for `count` numbers at `to`, at most [`VectorBundle::LANES`].
    #[inline(always)]
    unsafe fn store_bits(self, to: *mut u16, count: usize) {
        const { assert!(Self::LANES <= LONGEST) };
        let mut numbers = [0f32; LONGEST];
        // SAFETY: the list is as long; else the caller's promise.
        unsafe {
            self.store(numbers.as_mut_ptr());
            (0..count).for_each(|i| *to.add(i) = round(numbers[i]));
        }
    }

    fn splat(number: f32) -> Self;
    fn add(self, other: Self) -> Self;

    /// `self * factor + sum`.
    fn mul_add(self, factor: Self, sum: Self) -> Self;

    /// # Safety
    /// There must be four numbers at `from`, as long as they are multiplied with.
    unsafe fn numbers(from: *const f32) -> Self::Numbers;

    /// The sum of the bundle and of factors times one of four numbers.
    ///
    /// # Safety
    /// See [`VectorBundle::numbers`].
    unsafe fn add_product<const NUMBER: i32>(self, numbers: Self::Numbers, factors: Self) -> Self;

    /// The greater of the two; `self` where it is not a number, and where both are zero.
    fn max(self, low: Self) -> Self;

    /// The smaller of the two; `self` where it is not a number, and where both are zero.
    fn min(self, high: Self) -> Self;
}

/// The longest bundle.
const LONGEST: usize = 64;

/// Two bundles, the second one after the first.
#[derive(Clone, Copy)]
pub struct Both<A, B>(A, B);

impl<A: VectorBundle, B: VectorBundle<Numbers = A::Numbers>> VectorBundle for Both<A, B> {
    type Numbers = A::Numbers;
    const LANES: usize = A::LANES + B::LANES;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Both(A::load(from), B::load(from.add(A::LANES))) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's promise; nothing is loaded from where nothing may be.
        unsafe {
            match count.checked_sub(A::LANES) {
                Some(more) => Both(A::load(from), B::load_first(from.add(A::LANES), more)),
                None => Both(A::load_first(from, count), B::splat(0.0)),
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.0.store(to);
            self.1.store(to.add(A::LANES));
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's promise; nothing is stored where there may be no room.
        unsafe {
            match count.checked_sub(A::LANES) {
                Some(more) => {
                    self.0.store(to);
                    self.1.store_first(to.add(A::LANES), more);
                }
                None => self.0.store_first(to, count),
            }
        }
    }

    const OF_PAIRS: bool = A::OF_PAIRS && B::OF_PAIRS;

    #[inline(always)]
    unsafe fn load_bits(from: *const u16, count: usize) -> Self {
        // SAFETY: the caller's promise; nothing is loaded from where nothing may be.
        unsafe {
            match count.checked_sub(A::LANES) {
                Some(more) => Both(A::load_bits(from, A::LANES), B::load_bits(from.add(A::LANES), more)),
                None => Both(A::load_bits(from, count), B::splat(0.0)),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_bits(self, to: *mut u16, count: usize) {
        // SAFETY: the caller's promise; nothing is stored where there may be no room.
        unsafe {
            match count.checked_sub(A::LANES) {
                Some(more) => {
                    self.0.store_bits(to, A::LANES);
                    self.1.store_bits(to.add(A::LANES), more);
                }
                None => self.0.store_bits(to, count),
            }
        }
    }

    #[inline(always)]
    fn splat(number: f32) -> Self {
        Both(A::splat(number), B::splat(number))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Both(self.0.add(other.0), self.1.add(other.1))
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, sum: Self) -> Self {
        Both(self.0.mul_add(factor.0, sum.0), self.1.mul_add(factor.1, sum.1))
    }

    #[inline(always)]
    unsafe fn numbers(from: *const f32) -> A::Numbers {
        // SAFETY: the caller's promise.
        unsafe { A::numbers(from) }
    }

    #[inline(always)]
    unsafe fn add_product<const NUMBER: i32>(self, numbers: A::Numbers, factors: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Both(self.0.add_product::<NUMBER>(numbers, factors.0), self.1.add_product::<NUMBER>(numbers, factors.1)) }
    }

    #[inline(always)]
    fn max(self, low: Self) -> Self {
        Both(self.0.max(low.0), self.1.max(low.1))
    }

    #[inline(always)]
    fn min(self, high: Self) -> Self {
        Both(self.0.min(high.0), self.1.min(high.1))
    }
}
