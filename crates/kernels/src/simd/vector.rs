//! Vector registers of float32 numbers, so that a kernel is written once for all instruction sets.
#![allow(unsafe_code)]

use crate::isa::{Isa, Level};
use crate::simd::bits::Bits;
use crate::simd::doubles::{self, Doubles};
use crate::simd::fields::Fields;
use crate::simd::vector_bundle::VectorBundle;

/// The most numbers of a register of any instruction set.
pub const MOST_LANES: usize = 16;

/// A vector register. The types that implement it are private: code gets one only through [`with_vectors`], which has made
/// sure that the CPU has the instructions.
///
/// All functions are `#[inline(always)]`, and so must be the generic functions that use them: what stays out of line is
/// compiled without the instruction set.
pub trait Vector: VectorBundle + Bits + Fields {
    /// Half as many numbers, where there are such registers.
    type Half: VectorBundle;
    /// Numbers of twice the width, in one register.
    type Doubles: Doubles;

    /// Whether [`VectorBundle::mul_add`] rounds once.
    const IS_FUSED: bool;

    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn sqrt(self) -> Self;

    /// The greater of the two; not a number where one of them is not.
    fn greatest(self, other: Self) -> Self;

    /// For each lane the number of the one at that place, below [`Vector::LANES`](VectorBundle::LANES).
    fn permuted(self, places: &[i32; MOST_LANES]) -> Self;

    /// Transposes the square of the first [`Vector::LANES`] vectors.
    fn transpose(lines: [Self; MOST_LANES]) -> [Self; MOST_LANES];
}

/// Work on vectors. `run` must be `#[inline(always)]`.
pub(crate) trait OnVectors {
    fn run<V: Vector>(self);
}

impl Isa {
    /// float32 numbers of a vector.
    pub fn lanes(&self) -> usize {
        match self.level {
            Level::Portable => Array::LANES,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => crate::simd::neon::Neon::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => 8,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => 16,
        }
    }
}

/// Runs work with the vectors of an instruction set.
#[inline(always)]
pub(crate) fn with_vectors(isa: &Isa, work: impl OnVectors) {
    match isa.level {
        Level::Portable => work.run::<Array>(),
        #[cfg(target_arch = "aarch64")]
        Level::Neon => work.run::<crate::simd::neon::Neon>(),
        // SAFETY: an `Isa` exists only when the CPU has its instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::run_avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::run_avx512(work) },
    }
}

/// What bundles are multiplied with stays in memory: each number is read where it is needed.
macro_rules! numbers_in_memory {
    () => {
        type Numbers = *const f32;

        #[inline(always)]
        unsafe fn numbers(from: *const f32) -> *const f32 {
            from
        }

        #[inline(always)]
        unsafe fn add_product<const NUMBER: i32>(self, numbers: *const f32, factors: Self) -> Self {
            // SAFETY: one of the four, by the caller's promise.
            Self::splat(unsafe { *numbers.add(NUMBER as usize) }).mul_add(factors, self)
        }
    };
}

/// What the compiler makes of a short array.
#[derive(Clone, Copy)]
pub struct Array(pub(crate) [f32; 4]);

impl Array {
    #[inline(always)]
    fn each(self, other: Self, function: impl Fn(f32, f32) -> f32) -> Self {
        Array(std::array::from_fn(|i| function(self.0[i], other.0[i])))
    }
}

impl VectorBundle for Array {
    const LANES: usize = 4;
    numbers_in_memory!();

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Array(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: below `count`, by the caller's promise.
        Array(std::array::from_fn(|i| if i < count { unsafe { *from.add(i) } } else { 0.0 }))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        for (i, &number) in self.0.iter().enumerate().take(count) {
            // SAFETY: below `count`, by the caller's promise.
            unsafe { *to.add(i) = number }
        }
    }

    #[inline(always)]
    fn splat(number: f32) -> Self {
        Array([number; 4])
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.each(other, |a, b| a + b)
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, sum: Self) -> Self {
        // Not `f32::mul_add`: without the instruction that is a slow call.
        self.mul(factor).add(sum)
    }

    #[inline(always)]
    fn max(self, low: Self) -> Self {
        self.each(low, |x, low| if low > x { low } else { x })
    }

    #[inline(always)]
    fn min(self, high: Self) -> Self {
        self.each(high, |x, high| if high < x { high } else { x })
    }
}

impl Vector for Array {
    type Half = Array;
    type Doubles = doubles::Array;
    const IS_FUSED: bool = false;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.each(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.each(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.each(other, |a, b| a / b)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Array(self.0.map(f32::sqrt))
    }

    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        self.each(other, |a, b| if a > b || a.is_nan() { a } else { b })
    }

    #[inline(always)]
    fn permuted(self, places: &[i32; MOST_LANES]) -> Self {
        Array(std::array::from_fn(|i| self.0[places[i] as usize % Self::LANES]))
    }

    #[inline(always)]
    fn transpose(lines: [Self; MOST_LANES]) -> [Self; MOST_LANES] {
        std::array::from_fn(|i| if i < 4 { Array(std::array::from_fn(|j| lines[j].0[i])) } else { lines[i] })
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::{MOST_LANES, OnVectors, Vector, VectorBundle, doubles};
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU must have AVX2, FMA and F16C.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub unsafe fn run_avx2(work: impl OnVectors) {
        work.run::<Avx2>();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ and BW.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub unsafe fn run_avx512(work: impl OnVectors) {
        work.run::<Avx512>();
    }

    #[derive(Clone, Copy)]
    pub struct Avx2(pub(crate) __m256);
    #[derive(Clone, Copy)]
    pub struct Avx512(pub(crate) __m512);

    /// The lanes below a count, as AVX2 wants them.
    #[inline(always)]
    fn first(count: usize) -> __m256i {
        const FLAGS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        let from = &FLAGS[8 - count.min(8)..];
        // SAFETY: at least 8 flags are left; the type exists only where its instructions do.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    /// In pieces of 4, 2 and 1: a store by a mask takes some CPUs as long as twenty others.
    ///
    /// # Safety
    /// The CPU must have AVX, and the memory must be valid for writes of so many numbers.
    #[inline(always)]
    unsafe fn store_first8(mut to: *mut f32, numbers: __m256, count: usize) {
        // SAFETY: each piece is below `count`; the rest is the caller's promise.
        unsafe {
            if count >= 8 {
                return _mm256_storeu_ps(to, numbers);
            }
            let mut left = _mm256_castps256_ps128(numbers);
            if count & 4 != 0 {
                _mm_storeu_ps(to, left);
                (to, left) = (to.add(4), _mm256_extractf128_ps::<1>(numbers));
            }
            if count & 2 != 0 {
                _mm_storel_pd(to.cast(), _mm_castps_pd(left));
                (to, left) = (to.add(2), _mm_movehl_ps(left, left));
            }
            if count & 1 != 0 {
                _mm_store_ss(to, left);
            }
        }
    }

    /// Exchanges numbers inside quarters of 128 bits, then quarters with each other.
    #[inline(always)]
    fn transpose8(lines: [__m256; 8]) -> [__m256; 8] {
        // SAFETY: the type exists only where its instructions do.
        unsafe {
            let mut pairs = lines;
            for i in (0..8).step_by(2) {
                pairs[i] = _mm256_unpacklo_ps(lines[i], lines[i + 1]);
                pairs[i + 1] = _mm256_unpackhi_ps(lines[i], lines[i + 1]);
            }
            let mut fours = pairs;
            for i in (0..8).step_by(4) {
                for half in 0..2 {
                    let (a, b) = (pairs[i + half], pairs[i + 2 + half]);
                    fours[i + 2 * half] = _mm256_shuffle_ps::<0x44>(a, b);
                    fours[i + 2 * half + 1] = _mm256_shuffle_ps::<0xee>(a, b);
                }
            }
            let mut eights = fours;
            for i in 0..4 {
                eights[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
                eights[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
            }
            eights
        }
    }

    /// The same for four quarters.
    #[inline(always)]
    fn transpose16(lines: [__m512; 16]) -> [__m512; 16] {
        // SAFETY: the type exists only where its instructions do.
        unsafe {
            let mut pairs = lines;
            for i in (0..16).step_by(2) {
                pairs[i] = _mm512_unpacklo_ps(lines[i], lines[i + 1]);
                pairs[i + 1] = _mm512_unpackhi_ps(lines[i], lines[i + 1]);
            }
            let mut fours = pairs;
            for i in (0..16).step_by(4) {
                for half in 0..2 {
                    let (a, b) = (pairs[i + half], pairs[i + 2 + half]);
                    fours[i + 2 * half] = _mm512_shuffle_ps::<0x44>(a, b);
                    fours[i + 2 * half + 1] = _mm512_shuffle_ps::<0xee>(a, b);
                }
            }
            // Number 4 q + i has the columns 4 q' + i, for the quarters q', of the lines 4 q to 4 q + 3.
            let mut all = fours;
            for i in 0..4 {
                let even_low = _mm512_shuffle_f32x4::<0x88>(fours[i], fours[4 + i]);
                let odd_low = _mm512_shuffle_f32x4::<0xdd>(fours[i], fours[4 + i]);
                let even_high = _mm512_shuffle_f32x4::<0x88>(fours[8 + i], fours[12 + i]);
                let odd_high = _mm512_shuffle_f32x4::<0xdd>(fours[8 + i], fours[12 + i]);
                all[i] = _mm512_shuffle_f32x4::<0x88>(even_low, even_high);
                all[8 + i] = _mm512_shuffle_f32x4::<0xdd>(even_low, even_high);
                all[4 + i] = _mm512_shuffle_f32x4::<0x88>(odd_low, odd_high);
                all[12 + i] = _mm512_shuffle_f32x4::<0xdd>(odd_low, odd_high);
            }
            all
        }
    }

    macro_rules! vector {
        ($name:ident, $half:ident, $lanes:literal, $load:ident, $store:ident, $set:ident, $add:ident, $sub:ident, $mul:ident, $div:ident,
         $sqrt:ident, $fmadd:ident,
         $max:ident, $min:ident, |$from:ident, $load_count:ident| $load_first:expr, |$to:ident, $vector:ident, $store_count:ident| $store_first:expr,
         |$a:ident, $greater:ident| $or_nan:expr, |$numbers:ident, $places:ident| $permuted:expr, |$lines:ident| $transposed:expr) => {
            // SAFETY (of every block here): the type is private and used only where its instructions are (`with_vectors`);
            // memory is the caller's promise.
            #[allow(clippy::undocumented_unsafe_blocks, reason = "one comment for all of them")]
            impl VectorBundle for $name {
                const LANES: usize = $lanes;
                numbers_in_memory!();

                #[inline(always)]
                unsafe fn load(from: *const f32) -> Self {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    $name(unsafe { $load(from) })
                }

                #[inline(always)]
                unsafe fn load_first($from: *const f32, $load_count: usize) -> Self {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    $name(unsafe { $load_first })
                }

                #[inline(always)]
                unsafe fn store(self, to: *mut f32) {
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    unsafe { $store(to, self.0) }
                }

                #[inline(always)]
                unsafe fn store_first(self, $to: *mut f32, $store_count: usize) {
                    let $vector = self.0;
                    // SAFETY: the memory is the caller's promise; the instructions are there (see above).
                    unsafe { $store_first }
                }

                #[inline(always)]
                fn splat(number: f32) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $set(number) })
                }

                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $add(self.0, other.0) })
                }

                #[inline(always)]
                fn mul_add(self, factor: Self, sum: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $fmadd(self.0, factor.0, sum.0) })
                }

                #[inline(always)]
                fn max(self, low: Self) -> Self {
                    // The instruction gives its second operand where one is not a number, and where both are zero.
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $max(low.0, self.0) })
                }

                #[inline(always)]
                fn min(self, high: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $min(high.0, self.0) })
                }
            }

            impl Vector for $name {
                type Half = $half;
                type Doubles = doubles::x86::$name;
                const IS_FUSED: bool = true;

                #[inline(always)]
                fn sub(self, other: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $sub(self.0, other.0) })
                }

                #[inline(always)]
                fn mul(self, other: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $mul(self.0, other.0) })
                }

                #[inline(always)]
                fn div(self, other: Self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $div(self.0, other.0) })
                }

                #[inline(always)]
                fn sqrt(self) -> Self {
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $sqrt(self.0) })
                }

                #[inline(always)]
                fn greatest(self, other: Self) -> Self {
                    // As above: `other` where one is not a number. Where that is `self`, it must stay.
                    // SAFETY: the instructions are there (see above).
                    let ($a, $greater) = (self.0, unsafe { $max(self.0, other.0) });
                    // SAFETY: the instructions are there (see above).
                    $name(unsafe { $or_nan })
                }

                #[inline(always)]
                fn permuted(self, places: &[i32; MOST_LANES]) -> Self {
                    let ($numbers, $places) = (self.0, places.as_ptr());
                    // SAFETY: the array is as long as the longest register; the instructions are there (see above).
                    $name(unsafe { $permuted })
                }

                #[inline(always)]
                fn transpose(lines: [Self; MOST_LANES]) -> [Self; MOST_LANES] {
                    let $lines: [_; $lanes] = std::array::from_fn(|i| lines[i].0);
                    let transposed = $transposed;
                    std::array::from_fn(|i| if i < $lanes { $name(transposed[i]) } else { lines[i] })
                }
            }
        };
    }

    vector!(
        Avx2,
        Avx2,
        8,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_div_ps,
        _mm256_sqrt_ps,
        _mm256_fmadd_ps,
        _mm256_max_ps,
        _mm256_min_ps,
        |from, count| _mm256_maskload_ps(from, first(count)),
        |to, vector, count| store_first8(to, vector, count),
        |a, greater| _mm256_blendv_ps(greater, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)),
        |numbers, places| _mm256_permutevar8x32_ps(numbers, _mm256_loadu_si256(places.cast())),
        |lines| transpose8(lines)
    );
    vector!(
        Avx512,
        Avx2,
        16,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_div_ps,
        _mm512_sqrt_ps,
        _mm512_fmadd_ps,
        _mm512_max_ps,
        _mm512_min_ps,
        |from, count| _mm512_maskz_loadu_ps(((1u32 << count) - 1) as u16, from),
        |to, vector, count| _mm512_mask_storeu_ps(to, ((1u32 << count) - 1) as u16, vector),
        |a, greater| _mm512_mask_mov_ps(greater, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a),
        |numbers, places| _mm512_permutexvar_ps(_mm512_loadu_si512(places.cast()), numbers),
        |lines| transpose16(lines)
    );
}
