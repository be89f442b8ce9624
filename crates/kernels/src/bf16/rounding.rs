//! Rounding float32 to bfloat16.
#![allow(unsafe_code)]

use crate::gemm::microkernels::Microkernels;
use crate::isa::Loop;

/// The bits of the nearest bfloat16 (see [`super`]).
#[inline(always)]
pub fn round(number: f32) -> u16 {
    let bits = number.to_bits();
    let exponent = bits & 0x7f80_0000;
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let bits = if is_nan { bits | 0x0040_0000 } else { nearest };
    (if exponent == 0 { bits & 0x8000_0000 } else { bits } >> 16) as u16
}

/// The number that these bits are.
#[inline(always)]
pub fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Two numbers that follow each other in depth.
#[inline(always)]
pub fn pair(first: f32, second: f32) -> f32 {
    f32::from_bits(u32::from(round(first)) | u32::from(round(second)) << 16)
}

/// How many pairs so many numbers are.
pub fn pairs(numbers: usize) -> usize {
    numbers.div_ceil(2)
}

/// Rounds rows of numbers, `stride` apart, to rows of pairs, `pairs_stride` apart. Where the last number of a row has no partner that is
/// zero.
#[derive(Debug)]
pub struct RoundRows<'a> {
    pub rows: usize,
    pub depth: usize,
    pub numbers: &'a [f32],
    /// Of rows and of the numbers of one.
    pub strides: [usize; 2],
    pub pairs: &'a mut [f32],
    pub pairs_stride: usize,
}

impl RoundRows<'_> {
    /// # Panics
    /// When a row is not there.
    pub fn compute(self, gemm: &Microkernels) {
        let RoundRows { rows, depth, numbers, strides: [row, step], ref pairs, pairs_stride } = self;
        if rows == 0 || depth == 0 {
            return;
        }
        assert!((rows - 1) * row + (depth - 1) * step < numbers.len());
        assert!((rows - 1) * pairs_stride + self::pairs(depth) <= pairs.len());
        #[cfg(target_arch = "x86_64")]
        if step == 1 && gemm.is_native_bf16() {
            // SAFETY: native microkernels exist only where the CPU has the instructions; the lengths were asserted.
            return unsafe { x86::round_rows(self) };
        }
        gemm.isa.run_loop(self);
    }
}

impl Loop for RoundRows<'_> {
    #[inline(always)]
    fn run(self) {
        let RoundRows { rows, depth, numbers, strides: [row, step], pairs, pairs_stride } = self;
        for r in 0..rows {
            let numbers = &numbers[r * row..];
            let pairs = &mut pairs[r * pairs_stride..][..self::pairs(depth)];
            if step == 1 {
                let (twos, rest) = numbers[..depth].as_chunks::<2>();
                for (to, &[first, second]) in pairs.iter_mut().zip(twos) {
                    *to = pair(first, second);
                }
                if let (&[last], Some(to)) = (rest, pairs.last_mut()) {
                    *to = pair(last, 0.0);
                }
            } else {
                for (p, to) in pairs.iter_mut().enumerate() {
                    let second = if 2 * p + 1 < depth { numbers[(2 * p + 1) * step] } else { 0.0 };
                    *to = pair(numbers[2 * p * step], second);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::RoundRows;
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU must have AVX-512 with F, BW and BF16; rows must be there, with numbers beside each other.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub unsafe fn round_rows(work: RoundRows<'_>) {
        let RoundRows { rows, depth, numbers, strides: [row, _], pairs, pairs_stride } = work;
        for r in 0..rows {
            // SAFETY: rows lie inside of both, by the caller's promise.
            unsafe {
                let from = numbers.as_ptr().add(r * row);
                let to = pairs.as_mut_ptr().add(r * pairs_stride);
                let mut k = 0;
                while k + 32 <= depth {
                    let both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(k + 16)), _mm512_loadu_ps(from.add(k)));
                    _mm512_storeu_si512(to.add(k / 2).cast(), std::mem::transmute::<__m512bh, __m512i>(both));
                    k += 32;
                }
                if k < depth {
                    let rest = depth - k;
                    let mask = |count: usize| if count >= 16 { u16::MAX } else { (1u16 << count) - 1 };
                    let first = _mm512_maskz_loadu_ps(mask(rest), from.add(k));
                    let second = _mm512_maskz_loadu_ps(mask(rest.saturating_sub(16)), from.wrapping_add(k + 16));
                    let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(second, first));
                    _mm512_mask_storeu_epi32(to.add(k / 2).cast(), mask(rest.div_ceil(2)), both);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16::available;
    use crate::testing::numbers;

    /// By arithmetic: the nearest multiple of a unit in the last of 8 places.
    fn nearest(x: f32) -> f32 {
        if x.is_nan() || x.is_infinite() || x == 0.0 {
            return x;
        }
        if x.abs() < f32::MIN_POSITIVE {
            return 0f32.copysign(x);
        }
        let exponent = (x.abs().to_bits() >> 23) as i32 - 127;
        let unit = 2f64.powi(exponent - 7);
        let rounded = (f64::from(x) / unit).round_ties_even() * unit;
        // Beyond the greatest number of float32 it is infinite.
        rounded as f32
    }

    fn interesting() -> Vec<f32> {
        let mut all = vec![0.0, f32::MIN_POSITIVE, 1e-40, f32::from_bits(1), f32::INFINITY, f32::MAX, 1.0, 1.0 + 2f32.powi(-8)];
        all.extend([1.0 + 3.0 * 2f32.powi(-8), 1.0 + 2f32.powi(-8) + 2f32.powi(-23), 3.3961775e38, 3.3895314e38, 255.5, 257.0]);
        all.extend((0..2000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9) & 0x7fff_ffff)));
        all.extend(numbers(500, 1));
        let negative: Vec<f32> = all.iter().map(|x| -x).collect();
        all.extend(negative);
        all
    }

    #[test]
    fn numbers_are_rounded_to_nearest_even() {
        for x in interesting() {
            let (found, expected) = (widen(round(x)), nearest(x));
            assert!(
                found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
                "{x:e}: {found:e}, not {expected:e}"
            );
            assert_eq!(found.is_sign_negative(), x.is_sign_negative(), "{x:e}");
        }
    }

    #[test]
    fn every_set_rounds_rows_alike() {
        let all = interesting();
        for gemm in available() {
            for (depth, strides) in [(1, [40, 1]), (31, [31, 1]), (32, [33, 1]), (63, [64, 1]), (97, [100, 1]), (33, [1, 7])] {
                let (rows, stride) = (7, pairs(depth) + 2);
                let mut found = vec![-1.0; rows * stride];
                let work = RoundRows { rows, depth, numbers: &all, strides, pairs: &mut found, pairs_stride: stride };
                work.compute(gemm);
                for r in 0..rows {
                    for p in 0..stride {
                        let number = |k: usize| if k < depth { all[r * strides[0] + k * strides[1]] } else { 0.0 };
                        let expected = if p < pairs(depth) { pair(number(2 * p), number(2 * p + 1)) } else { -1.0 };
                        let found = found[r * stride + p];
                        assert_eq!(found.to_bits(), expected.to_bits(), "{} {depth} {strides:?}: row {r}, pair {p}", gemm.name);
                    }
                }
            }
        }
    }
}
