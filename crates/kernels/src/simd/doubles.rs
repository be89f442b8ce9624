//! Vector registers of float64 numbers that float32 ones have become, for sums that lose nothing on their way.
#![allow(unsafe_code)]

/// The most numbers of a register of any instruction set.
pub const MOST_DOUBLES: usize = 8;

/// A register; as [vectors](super::vector), these exist only where the CPU has the instructions, and all functions are
/// `#[inline(always)]`.
pub trait Doubles: Copy {
    const LANES: usize;

    fn zero() -> Self;

    /// # Safety
    /// There must be [`Doubles::LANES`] numbers at `from`.
    unsafe fn load(from: *const f32) -> Self;

    /// Loads the first `count` numbers, and zeros after them.
    ///
    /// # Safety
    /// There must be `count` numbers at `from`, at most [`Doubles::LANES`].
    unsafe fn load_first(from: *const f32, count: usize) -> Self;

    /// # Safety
    /// There must be room for [`Doubles::LANES`] numbers at `to`.
    unsafe fn store(self, to: *mut f64);

    fn abs(self) -> Self;
    fn add(self, other: Self) -> Self;

    /// `self * self + sum`; the square of what was a float32 number is exact either way.
    fn square_add(self, sum: Self) -> Self;
}

/// What the compiler makes of a short array.
#[derive(Clone, Copy)]
pub struct Array([f64; 4]);

impl Doubles for Array {
    const LANES: usize = 4;

    #[inline(always)]
    fn zero() -> Self {
        Array([0.0; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Array(unsafe { from.cast::<[f32; 4]>().read() }.map(f64::from))
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: below `count`, by the caller's promise.
        Array(std::array::from_fn(|i| if i < count { f64::from(unsafe { *from.add(i) }) } else { 0.0 }))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f64; 4]>().write(self.0) }
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Array(self.0.map(f64::abs))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    fn square_add(self, sum: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i] * self.0[i] + sum.0[i]))
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::Doubles;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub struct Avx2(__m256d);
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512d);

    macro_rules! doubles {
        ($name:ident, $lanes:literal, $zero:ident, $widen:ident, $load:ident, $store:ident, $add:ident, $fmadd:ident,
         |$from:ident, $count:ident| $load_first:expr, |$numbers:ident| $abs:expr) => {
            impl Doubles for $name {
                const LANES: usize = $lanes;

                #[inline(always)]
                fn zero() -> Self {
                    // SAFETY: vectors are made only where their instructions are (`with_vectors`).
                    $name(unsafe { $zero() })
                }

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    $name(unsafe { $widen($load(from)) })
                }

                #[inline(always)]
                unsafe fn load_first($from: *const f32, $count: usize) -> Self {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    $name(unsafe { $widen($load_first) })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f64) {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    unsafe { $store(to, self.0) }
                }

                #[inline(always)]
                fn abs(self) -> Self {
                    let $numbers = self.0;
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $abs })
                }

                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $add(self.0, other.0) })
                }

                #[inline(always)]
                fn square_add(self, sum: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $fmadd(self.0, self.0, sum.0) })
                }
            }
        };
    }

    /// The lanes below a count.
    #[inline(always)]
    fn first(count: usize) -> __m128i {
        const FLAGS: [i32; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
        let from = &FLAGS[4 - count.min(4)..];
        // SAFETY: at least 4 flags are left; every x86-64 has the instruction.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    doubles!(
        Avx2,
        4,
        _mm256_setzero_pd,
        _mm256_cvtps_pd,
        _mm_loadu_ps,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_fmadd_pd,
        |from, count| _mm_maskload_ps(from, first(count)),
        |numbers| _mm256_andnot_pd(_mm256_set1_pd(-0.0), numbers)
    );
    doubles!(
        Avx512,
        8,
        _mm512_setzero_pd,
        _mm512_cvtps_pd,
        _mm256_loadu_ps,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_fmadd_pd,
        |from, count| _mm256_maskz_loadu_ps(((1u32 << count) - 1) as u8, from),
        |numbers| _mm512_abs_pd(numbers)
    );
}
