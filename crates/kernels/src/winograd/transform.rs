//! The transforms of Winograd's algorithm for windows of 3 x 3, in one dimension at a time.
//!
//! For points p the polynomials of the input, the filter and the output are evaluated and interpolated: with one point more
//! than pixels and taps together need, less two. The points of [`Transform4`] are 0, ±√2, ±√½ and infinity, whose powers
//! stay closer to 1 than those of the usual 0, ±1, ±2: the error is smaller.
//!
//! Fewer pixels than a block has, at the end of an image, are found from fewer of the same points. Only the factors by which
//! the transformed filter is divided would be others; the input is multiplied with what they differ by.

#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use crate::simd::vector::Vector;
use std::mem::MaybeUninit;

/// Filters that are transformed together.
pub const AT_ONCE: usize = 8;

/// Blocks of WIDTH x WIDTH pixels of the output.
pub trait Transform: std::fmt::Debug + Send + Sync + 'static {
    const WIDTH: usize;
    /// Which of the workspaces that a convolution is offered is its own.
    const WORKSPACE: usize;
    /// Rows and columns of the input under the windows of a block.
    const REACH: usize = Self::WIDTH + 2;
    const FREQUENCIES: usize = Self::REACH * Self::REACH;

    /// Whether so many pixels of a line, if any, need a frequency: they need as many of the first points as there are pixels
    /// and one more, and infinity, the last one.
    #[inline(always)]
    fn needs(pixels: usize, frequency: usize) -> bool {
        pixels > 0 && (frequency <= pixels || frequency + 1 == Self::REACH)
    }

    /// Transforms a line of the input under so many pixels into the frequencies that they need.
    fn input<V: Vector>(line: [V; 6], pixels: usize) -> [V; 6];

    /// Transforms a line of products at these frequencies into so many pixels of the output.
    fn output<V: Vector>(line: [V; 6], pixels: usize) -> [V; 4];

    /// Transforms a line of the filter into REACH numbers.
    fn line(line: [f64; 3]) -> [f64; 6];

    /// Finds a line of the filter from its transformed numbers.
    fn back(line: [f64; 6]) -> [f64; 3];

    /// Transforms filters whose numbers at each tap lie beside each other; `store` is given those at each frequency.
    #[inline(always)]
    fn filters(taps: &[[[f64; AT_ONCE]; 3]; 3], mut store: impl FnMut(usize, &[f32; AT_ONCE])) {
        let mut half = [[[0.0; AT_ONCE]; 3]; 6];
        for y in 0..3 {
            for i in 0..AT_ONCE {
                let line = Self::line([taps[y][0][i], taps[y][1][i], taps[y][2][i]]);
                for x in 0..6 {
                    half[x][y][i] = line[x];
                }
            }
        }
        for x in 0..Self::REACH {
            let mut column = [[0.0; AT_ONCE]; 6];
            for i in 0..AT_ONCE {
                let line = Self::line([half[x][0][i], half[x][1][i], half[x][2][i]]);
                for y in 0..6 {
                    column[y][i] = line[y] as f32;
                }
            }
            for y in 0..Self::REACH {
                store(y * Self::REACH + x, &column[y]);
            }
        }
    }

    /// Finds a filter from its frequencies.
    fn restore(frequency: impl Fn(usize) -> f32) -> [[f32; 3]; 3] {
        let number = |y: usize, x: usize| if x < Self::REACH { f64::from(frequency(y * Self::REACH + x)) } else { 0.0 };
        let mut half = [[0.0; 3]; 6];
        for (y, half) in half.iter_mut().enumerate().take(Self::REACH) {
            *half = Self::back(std::array::from_fn(|x| number(y, x)));
        }
        let columns: [[f64; 3]; 3] = std::array::from_fn(|x| Self::back(half.map(|row| row[x])));
        std::array::from_fn(|y| std::array::from_fn(|x| columns[x][y] as f32))
    }
}

/// The lines of a block that has been transformed in one of its dimensions. They are not filled before they are written, which
/// would take a twentieth of the time of a whole convolution.
pub struct Half<V, const ROWS: usize>([[MaybeUninit<V>; 6]; ROWS]);

impl<V: Vector, const ROWS: usize> Default for Half<V, ROWS> {
    #[inline(always)]
    fn default() -> Self {
        Half([[MaybeUninit::uninit(); 6]; ROWS])
    }
}

impl<V: Vector, const ROWS: usize> Half<V, ROWS> {
    #[inline(always)]
    pub fn write_column(&mut self, x: usize, column: [V; ROWS]) {
        for y in 0..ROWS {
            self.0[y][x].write(column[y]);
        }
    }

    /// A row, with zeros after so many columns.
    ///
    /// # Safety
    /// These columns must have been written.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub unsafe fn row(&self, y: usize, columns: usize) -> [V; 6] {
        let mut row = [V::splat(0.0); 6];
        for x in 0..columns {
            // SAFETY: the caller's promise.
            row[x] = unsafe { self.0[y][x].assume_init() };
        }
        row
    }
}

/// Blocks of 2 x 2 pixels: 16 products instead of 36. The points are 0, 1, -1 and infinity.
#[derive(Debug)]
pub struct Transform2;

impl Transform for Transform2 {
    const WIDTH: usize = 2;
    const WORKSPACE: usize = 0;

    #[inline(always)]
    fn input<V: Vector>([a, b, c, d, ..]: [V; 6], pixels: usize) -> [V; 6] {
        let zero = V::splat(0.0);
        match pixels {
            2 => [a.sub(c), b.add(c), c.sub(b), d.sub(b), zero, zero],
            _ => [a.sub(b), b.add(b), zero, c.sub(b), zero, zero],
        }
    }

    #[inline(always)]
    fn output<V: Vector>([a, b, c, d, ..]: [V; 6], pixels: usize) -> [V; 4] {
        let zero = V::splat(0.0);
        match pixels {
            2 => [a.add(b).add(c), b.sub(c).add(d), zero, zero],
            _ => [a.add(b).add(d), zero, zero, zero],
        }
    }

    #[inline(always)]
    fn line([a, b, c]: [f64; 3]) -> [f64; 6] {
        [a, (a + b + c) / 2.0, (a - b + c) / 2.0, c, 0.0, 0.0]
    }

    fn back([a, plus, minus, c, ..]: [f64; 6]) -> [f64; 3] {
        [a, plus - minus, c]
    }
}

/// Blocks of 4 x 4 pixels: 36 products instead of 144.
#[derive(Debug)]
pub struct Transform4;

/// The points, apart from 0 and infinity, are ±FAR and ±NEAR.
const FAR: f64 = std::f64::consts::SQRT_2;
const NEAR: f64 = std::f64::consts::FRAC_1_SQRT_2;

impl Transform for Transform4 {
    const WIDTH: usize = 4;
    const WORKSPACE: usize = 1;

    #[inline(always)]
    fn input<V: Vector>([a, b, c, d, e, f]: [V; 6], pixels: usize) -> [V; 6] {
        let (zero, far, near) = (V::splat(0.0), FAR as f32, NEAR as f32);
        match pixels {
            4 => {
                let middle = V::splat(-2.5);
                // Even and odd powers, for the points ±FAR (from which the factors x² - NEAR² are left) and ±NEAR.
                let (far_even, far_odd) = (c.mul_add(V::splat(-0.5), e), b.mul_add(V::splat(-0.5), d));
                let (near_even, near_odd) = (c.mul_add(V::splat(-2.0), e), b.mul_add(V::splat(-2.0), d));
                [
                    c.mul_add(middle, a.add(e)),
                    far_odd.mul_add(V::splat(far), far_even),
                    far_odd.mul_add(V::splat(-far), far_even),
                    near_odd.mul_add(V::splat(near), near_even),
                    near_odd.mul_add(V::splat(-near), near_even),
                    d.mul_add(middle, b.add(f)),
                ]
            }
            3 => {
                let outer = b.add(d).mul(V::splat(-0.5 * far));
                [
                    b.mul_add(V::splat(-far), d.mul_add(V::splat(near), c.mul_add(V::splat(-0.5), a))),
                    d.sub(b).mul_add(V::splat(1.5 * far), c.mul(V::splat(1.5))),
                    c.mul_add(V::splat(1.5), outer),
                    b.mul_add(V::splat(-2.0), d).mul(V::splat(far)),
                    zero,
                    b.mul_add(V::splat(far), d.mul_add(V::splat(-near), c.mul_add(V::splat(-2.0), e))),
                ]
            }
            2 => {
                let (even, odd) = (c.mul(V::splat(1.5)), V::splat(1.5 * far));
                [
                    c.mul_add(V::splat(-0.5), a),
                    b.mul_add(odd, even),
                    b.mul_add(V::splat(-1.5 * far), even),
                    zero,
                    zero,
                    b.mul_add(V::splat(-2.0), d),
                ]
            }
            _ => [b.mul_add(V::splat(-near), a), b.mul(V::splat(6.0 * near)), zero, zero, zero, b.mul_add(V::splat(-far), c)],
        }
    }

    #[inline(always)]
    fn output<V: Vector>([a, b, c, d, e, f]: [V; 6], pixels: usize) -> [V; 4] {
        let (zero, far, near) = (V::splat(0.0), V::splat(FAR as f32), V::splat(NEAR as f32));
        let (far_even, far_odd) = (b.add(c), b.sub(c));
        match pixels {
            4 => {
                let (near_even, near_odd) = (d.add(e), d.sub(e));
                let power = |point: f64, exponent: i32| V::splat(point.powi(exponent) as f32);
                [
                    a.add(far_even).add(near_even),
                    far_odd.mul_add(far, near_odd.mul(near)),
                    far_even.mul_add(V::splat(2.0), near_even.mul(V::splat(0.5))),
                    far_odd.mul_add(power(FAR, 3), near_odd.mul_add(power(NEAR, 3), f)),
                ]
            }
            3 => [
                a.add(far_even).add(d),
                far_odd.mul_add(far, d.mul(near)),
                far_even.mul_add(V::splat(2.0), d.mul_add(V::splat(0.5), f)),
                zero,
            ],
            2 => [a.add(far_even), far_odd.mul_add(far, f), zero, zero],
            _ => [a.add(b).add(f), zero, zero, zero],
        }
    }

    #[inline(always)]
    fn line([a, b, c]: [f64; 3]) -> [f64; 6] {
        // Divided by the product of the distances to the other points, 6 and -1.5.
        let (far, near) = (1.0 / 6.0, -1.0 / 1.5);
        let at = |point: f64, factor: f64| (a + b * point + c * (point * point)) * factor;
        [a, at(FAR, far), at(-FAR, far), at(NEAR, near), at(-NEAR, near), c]
    }

    fn back([a, plus, minus, .., c]: [f64; 6]) -> [f64; 3] {
        [a, (plus - minus) * 6.0 / (2.0 * FAR), c]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::simd::vector::{OnVectors, with_vectors};

    /// Convolves a line of the input in all numbers of pixels that a block may have.
    struct AllPixels<T>(std::marker::PhantomData<T>);

    impl<T: Transform> OnVectors for AllPixels<T> {
        fn run<V: Vector>(self) {
            let (input, filter) = ([3.0, -1.0, 4.0, 1.0, -5.0, 9.0f32], [2.0, -7.0, 1.5]);
            let frequencies = T::line(filter);
            for pixels in 1..=T::WIDTH {
                // What is not under the pixels must not matter.
                let line = std::array::from_fn(|i| V::splat(if i < pixels + 2 { input[i] } else { f32::NAN }));
                let mut products = [V::splat(f32::NAN); 6];
                for frequency in (0..T::REACH).filter(|&frequency| T::needs(pixels, frequency)) {
                    products[frequency] = T::input(line, pixels)[frequency].mul(V::splat(frequencies[frequency] as f32));
                }
                let output = T::output(products, pixels);
                for (i, numbers) in output.into_iter().enumerate().take(pixels) {
                    let mut found = [0f32; 16];
                    // SAFETY: no vector is longer.
                    #[allow(unsafe_code)]
                    unsafe {
                        numbers.store(found.as_mut_ptr())
                    }
                    let expected: f64 = (0..3).map(|tap| f64::from(input[i + tap]) * filter[tap]).sum();
                    for &number in &found[..V::LANES] {
                        assert!((f64::from(number) - expected).abs() < 1e-4, "{pixels} pixels, at {i}: {number}, not {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn fewer_pixels_need_fewer_points() {
        for isa in Isa::available() {
            with_vectors(isa, AllPixels::<Transform2>(std::marker::PhantomData));
            with_vectors(isa, AllPixels::<Transform4>(std::marker::PhantomData));
        }
    }
}
