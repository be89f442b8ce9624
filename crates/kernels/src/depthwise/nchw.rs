//! Depthwise convolutions of float32 with the channels first: a plane at a time, with vectors along its rows.
#![allow(unsafe_code)]

use crate::epilogue::clamp::Bounds;
use crate::gemm::microkernels::Isa;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use crate::simd::vector_bundle::VectorBundle;

/// Rows that are computed together.
pub const ROWS: usize = 4;

/// Copies rows.
pub struct Copy<'a> {
    pub from: &'a [f32],
    pub from_row: usize,
    pub to: &'a mut [f32],
    pub to_row: usize,
    pub height: usize,
    pub width: usize,
}

impl Copy<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Copy<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Copy { from, from_row, to, to_row, height, width } = self;
        let whole = width / V::LANES * V::LANES;
        let left = width - whole;
        for y in 0..height {
            let (from, to) = (from[y * from_row..][..width].as_ptr(), to[y * to_row..][..width].as_mut_ptr());
            // SAFETY: below the width of both.
            unsafe {
                for x in (0..whole).step_by(V::LANES) {
                    V::load(from.add(x)).store(to.add(x));
                }
                if left == V::Half::LANES {
                    V::Half::load(from.add(whole)).store(to.add(whole));
                } else if left > 0 {
                    V::load_first(from.add(whole), left).store_first(to.add(whole), left);
                }
            }
        }
    }
}

/// Rows of the output of a convolution of a plane.
pub struct Rows<'a> {
    /// From the first number under the window of the first position on.
    pub from: &'a [f32],
    pub from_row: usize,
    pub to: &'a mut [f32],
    pub to_row: usize,
    pub height: usize,
    pub width: usize,
    pub window: [usize; 2],
    pub dilations: [usize; 2],
    pub weights: &'a [f32],
    pub bias: f32,
    pub bounds: Bounds,
}

/// The same for a window of SIZE x SIZE, or any, with so many numbers from one in a row of it to the next, or any. Each is compiled
/// alone, since many large loops in a function drive each other's numbers out of the registers.
struct Square<'a, const SIZE: usize, const DISTANCE: usize>(Rows<'a>);

impl Rows<'_> {
    /// Runs it with an instruction set.
    ///
    /// # Panics
    /// When anything is too short.
    pub fn compute(self, isa: &Isa) {
        match (self.window, self.dilations[1]) {
            ([3, 3], 1) => with_vectors(isa, Square::<3, 1>(self)),
            ([3, 3], _) => with_vectors(isa, Square::<3, 0>(self)),
            ([5, 5], 1) => with_vectors(isa, Square::<5, 1>(self)),
            ([5, 5], _) => with_vectors(isa, Square::<5, 0>(self)),
            ([7, 7], 1) => with_vectors(isa, Square::<7, 1>(self)),
            ([7, 7], _) => with_vectors(isa, Square::<7, 0>(self)),
            _ => with_vectors(isa, Square::<0, 0>(self)),
        }
    }
}

impl<const SIZE: usize, const DISTANCE: usize> OnVectors for Square<'_, SIZE, DISTANCE> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        self.0.run::<V, SIZE, DISTANCE>();
    }
}

impl Rows<'_> {
    #[inline(always)]
    fn run<V: Vector, const SIZE: usize, const DISTANCE: usize>(self) {
        let [down, across] = std::array::from_fn(|axis| (self.window[axis] - 1) * self.dilations[axis]);
        assert!(self.width > 0 && self.height > 0 && self.weights.len() == self.window[0] * self.window[1]);
        assert!((self.height - 1 + down) * self.from_row + self.width + across + MOST_LANES <= self.from.len() + 1);
        assert!((self.height - 1) * self.to_row + self.width <= self.to.len());
        // Rows that lie as far from each other as those of a window share rows of the input.
        let step = self.dilations[0];
        for phase in 0..step.min(self.height) {
            let strip = Strip {
                from: self.from[phase * self.from_row..].as_ptr(),
                from_row: step * self.from_row,
                to: self.to[phase * self.to_row..].as_mut_ptr(),
                to_row: step * self.to_row,
                height: (self.height - phase).div_ceil(step),
                width: self.width,
                window: self.window,
                distance: self.dilations[1],
                weights: self.weights.as_ptr(),
                bias: self.bias,
                bounds: self.bounds,
            };
            // SAFETY: all numbers under the windows, and a vector beyond, lie behind `from`, and the rows of the output behind
            // `to` (asserted); there is a weight for each number of the window.
            unsafe { strip.run::<V, SIZE, DISTANCE>() }
        }
    }
}

/// The same without dilation of the rows, by pointers. It is passed by value, so that the innermost loops need not look at
/// memory for what is in it.
#[derive(Clone, Copy)]
struct Strip {
    from: *const f32,
    from_row: usize,
    to: *mut f32,
    to_row: usize,
    height: usize,
    width: usize,
    window: [usize; 2],
    /// Between the numbers in a row of the window.
    distance: usize,
    weights: *const f32,
    bias: f32,
    bounds: Bounds,
}

impl Strip {
    /// All of it, for a window of SIZE x SIZE, or any, and that distance, or any.
    ///
    /// # Safety
    /// The rows must be there, those of the input with as much behind them as a vector.
    #[inline(always)]
    unsafe fn run<V: Vector, const SIZE: usize, const DISTANCE: usize>(self) {
        let whole = self.width / V::LANES * V::LANES;
        let left = self.width - whole;
        // SAFETY: the caller's promise.
        unsafe {
            for x in (0..whole).step_by(V::LANES) {
                self.columns::<V, SIZE, DISTANCE, true>(x, V::LANES);
            }
            if left > V::Half::LANES {
                self.columns::<V, SIZE, DISTANCE, false>(whole, left);
            } else if left == V::Half::LANES {
                self.columns::<V::Half, SIZE, DISTANCE, true>(whole, left);
            } else if left > 0 {
                self.columns::<V::Half, SIZE, DISTANCE, false>(whole, left);
            }
        }
    }

    /// The first `count` columns of a bundle from column `x` on.
    ///
    /// # Safety
    /// See [`Strip::run`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "as below")]
    unsafe fn columns<S: VectorBundle, const SIZE: usize, const DISTANCE: usize, const WHOLE: bool>(
        self,
        x: usize,
        count: usize,
    ) {
        let mut factors = [[S::splat(0.0); SIZE]; SIZE];
        for i in 0..SIZE {
            for j in 0..SIZE {
                // SAFETY: one for each number of the window.
                factors[i][j] = S::splat(unsafe { *self.weights.add(i * SIZE + j) });
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.height < ROWS {
                for y in 0..self.height {
                    self.block::<S, SIZE, DISTANCE, 1, WHOLE>(x, y, count, &factors);
                }
                return;
            }
            for y in (0..self.height).step_by(ROWS) {
                // What is left over at the end is computed together with some rows before, once more.
                self.block::<S, SIZE, DISTANCE, ROWS, WHOLE>(x, y.min(self.height - ROWS), count, &factors);
            }
        }
    }

    /// HEIGHT rows of that.
    ///
    /// # Safety
    /// See [`Strip::run`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn block<S: VectorBundle, const SIZE: usize, const DISTANCE: usize, const HEIGHT: usize, const WHOLE: bool>(
        self,
        x: usize,
        y: usize,
        count: usize,
        factors: &[[S; SIZE]; SIZE],
    ) {
        let mut sums = [S::splat(self.bias); HEIGHT];
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (self.from.add(y * self.from_row + x), self.to.add(y * self.to_row + x));
            if SIZE == 0 {
                for i in 0..self.window[0] {
                    for j in 0..self.window[1] {
                        let factor = S::splat(*self.weights.add(i * self.window[1] + j));
                        for h in 0..HEIGHT {
                            let number = S::load(from.add((h + i) * self.from_row + j * self.distance));
                            sums[h] = number.mul_add(factor, sums[h]);
                        }
                    }
                }
                for h in 0..HEIGHT {
                    self.store::<S, WHOLE>(sums[h], to.add(h * self.to_row), count);
                }
                return;
            }
            for row in 0..HEIGHT + SIZE - 1 {
                for j in 0..SIZE {
                    let distance = if DISTANCE > 0 { DISTANCE } else { self.distance };
                    let number = S::load(from.add(row * self.from_row + j * distance));
                    for h in 0..HEIGHT {
                        if row >= h && row - h < SIZE {
                            sums[h] = number.mul_add(factors[row - h][j], sums[h]);
                        }
                    }
                }
                // What is complete leaves its register.
                if row + 1 >= SIZE {
                    let h = row + 1 - SIZE;
                    self.store::<S, WHOLE>(sums[h], to.add(h * self.to_row), count);
                }
            }
        }
    }

    /// # Safety
    /// There must be room for so many numbers.
    #[inline(always)]
    unsafe fn store<S: VectorBundle, const WHOLE: bool>(self, sum: S, to: *mut f32, count: usize) {
        let sum = self.bounds.bound(sum);
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { sum.store(to) } else { sum.store_first(to, count) } }
    }
}
