//! The sets of microkernels for pairs of bfloat16 (see [`crate::bf16`]): tiles of the same sizes as those of float32.

use super::*;
use crate::bf16::pairs::Emulated;
use crate::isa::Level;

microkernels! {
    PORTABLE, OfPortable: "portable, bf16 emulated", isa::PORTABLE, 4 x 8, Both<Emulated<Array>, Emulated<Array>>, Emulated<Array>,
    baseline, baseline_below, large_l2: false, wide: None, operands: Operands::Bf16 { native: false }
}
microkernels! {
    #[cfg(target_arch = "aarch64")]
    NEON, OfNeon: "neon, bf16 emulated", isa::NEON, 8 x 8, Both<Emulated<Neon>, Emulated<Neon>>, Emulated<Neon>, baseline, baseline_below,
    large_l2: false, wide: None, operands: Operands::Bf16 { native: false }
}

/// Those that need no instructions for bfloat16.
pub(crate) fn emulated(level: Level) -> &'static Microkernels {
    match level {
        Level::Portable => &PORTABLE,
        #[cfg(target_arch = "aarch64")]
        Level::Neon => &NEON,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => &x86::AVX2,
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => &x86::AVX512,
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) mod arm {
    use super::*;
    use crate::bf16::pairs::arm::{NeonBf16, multiply};
    use std::arch::aarch64::*;

    const SIDE: usize = 8;

    microkernels! {
        NEON_BFDOT, OfNeonBfdot: "neon, bfdot", isa::NEON, 8 x 8, Both<NeonBf16, NeonBf16>, NeonBf16, baseline, baseline_below,
        large_l2: false, wide: None, operands: Operands::Bf16 { native: true }
    }
    macro_rules! of_vectors {
        ($vectors:literal) => {
            filled_up([
                squares::<0, $vectors>,
                squares::<1, $vectors>,
                squares::<2, $vectors>,
                squares::<3, $vectors>,
                squares::<4, $vectors>,
                squares::<5, $vectors>,
                squares::<6, $vectors>,
                squares::<7, $vectors>,
                squares::<8, $vectors>,
            ])
        };
    }

    /// Tiles of 8 x 8, whose sums lie in registers by squares of 2 x 2.
    pub(crate) static NEON_BFMMLA: Microkernels = Microkernels {
        name: "neon, bfmmla",
        isa: &isa::NEON,
        rows: SIDE,
        columns: SIDE,
        for_large_l2: false,
        operands: Operands::Bf16 { native: true },
        matrices: false,
        tiles: of_vectors!(2),
        halves: of_vectors!(1),
        below: [squares_below::<2>, squares_below::<1>],
        wide: None,
    };

    /// A tile of ROWS rows and so many vectors of columns: for each four numbers of depth, two rows of these times two columns of them.
    ///
    /// # Safety
    /// See [`Tile`]; the CPU must have BFMMLA.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn squares<const ROWS: usize, const VECTORS: usize>(
        a: *const f32,
        row: usize,
        step: usize,
        b: *const f32,
        depth: usize,
        c: *mut f32,
        stride: usize,
        ahead: *const f32,
        ahead_step: usize,
        plus: *const f32,
        plus_stride: usize,
    ) {
        let (twos, squares) = (ROWS.div_ceil(2), 2 * VECTORS);
        // A row that is not there is the one before it, and is not stored.
        let second = |two: usize| (2 * two + 1).min(ROWS.saturating_sub(1));
        // SAFETY: registers alone.
        let mut sums = unsafe { [[vdupq_n_f32(0.0); 4]; 4] };
        for k in (0..depth).step_by(2) {
            let is_whole = k + 1 < depth;
            fetch::<1>(ahead.wrapping_add(k * ahead_step));
            // SAFETY: `a` has ROWS pairs for each of `depth` steps, and `b` a row of columns, by the caller's promise. The second step,
            // if it is not there, is one of zeros.
            unsafe {
                let of_row = |r: usize| {
                    let first = a.add(r * row + k * step).cast::<u32>();
                    match (is_whole, step) {
                        (true, 1) => vld1_u32(first),
                        (true, _) => vcreate_u32(u64::from(*first) | u64::from(*first.add(step)) << 32),
                        (false, _) => vcreate_u32(u64::from(*first)),
                    }
                };
                let mut columns = [vdupq_n_u32(0); 4];
                for v in 0..VECTORS {
                    let of_step = b.add(k * SIDE + v * 4).cast::<u32>();
                    let first = vld1q_u32(of_step);
                    let next = if is_whole { vld1q_u32(of_step.add(SIDE)) } else { vdupq_n_u32(0) };
                    (columns[2 * v], columns[2 * v + 1]) = (vzip1q_u32(first, next), vzip2q_u32(first, next));
                }
                for two in 0..twos {
                    let rows = vcombine_u32(of_row(2 * two), of_row(second(two)));
                    for square in 0..squares {
                        sums[two][square] = multiply(sums[two][square], rows, columns[square]);
                    }
                }
            }
        }
        for r in 0..ROWS {
            for v in 0..VECTORS {
                // SAFETY: `c` has ROWS rows of so many columns at its distance, and so has `plus`, by the caller's promise.
                unsafe {
                    let [left, right] = [2 * v, 2 * v + 1].map(|square| vreinterpretq_u64_f32(sums[r / 2][square]));
                    let both = if r % 2 == 0 { vzip1q_u64(left, right) } else { vzip2q_u64(left, right) };
                    let mut sums = vreinterpretq_f32_u64(both);
                    if !plus.is_null() {
                        sums = vaddq_f32(vld1q_f32(plus.add(r * plus_stride + 4 * v)), sums);
                    }
                    vst1q_f32(c.add(r * stride + 4 * v), sums);
                }
            }
        }
    }

    /// All tiles of a [`Column`].
    ///
    /// # Safety
    /// See [`Tile`], for all of them; the CPU must have BFMMLA.
    unsafe fn squares_below<const VECTORS: usize>(column: &Column) {
        let Column { count, a, a_next, row, step, b, depth, c, stride, ahead, ahead_next, ahead_step, plus, plus_stride } =
            *column;
        for i in 0..count {
            let (a, ahead) = (a.wrapping_add(i * a_next), ahead.wrapping_add(i * ahead_next));
            let c = c.wrapping_add(i * SIDE * stride);
            let plus = if plus.is_null() { plus } else { plus.wrapping_add(i * SIDE * plus_stride) };
            // SAFETY: the caller's promise.
            unsafe { squares::<SIDE, VECTORS>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::super::x86::{avx2, avx2_below, avx512, avx512_below};
    use super::*;
    use crate::bf16::pairs::x86::Avx512Bf16;
    use crate::simd::vector::x86::{Avx2, Avx512};

    type Two = Both<Avx512Bf16, Avx512Bf16>;
    type Four = Both<Two, Two>;

    microkernels! {
        AVX512_BF16, OfAvx512Bf16: "avx512_bf16", isa::AVX512, 12 x 32, Two, Avx512Bf16, avx512_bf16, avx512_bf16_below,
        large_l2: false, wide: Some(&AVX512_BF16_WIDE), operands: Operands::Bf16 { native: true }
    }
    microkernels! {
        AVX512_BF16_WIDE, OfAvx512Bf16Wide: "avx512_bf16, wide", isa::AVX512, 6 x 64, Four, Two, avx512_bf16, avx512_bf16_below,
        large_l2: true, wide: None, operands: Operands::Bf16 { native: true }
    }
    /// Tiles of 32 x 32 in matrix registers; those of the tables are never run.
    pub(crate) static AMX: Microkernels = Microkernels {
        name: "amx_bf16",
        isa: &isa::AVX512,
        rows: amx::TILE,
        columns: amx::TILE,
        for_large_l2: false,
        operands: Operands::Bf16 { native: true },
        matrices: true,
        tiles: [too_high as Tile; MOST_ROWS + 1],
        halves: [too_high as Tile; MOST_ROWS + 1],
        below: [avx512_bf16_below::<OfAvx512Bf16, Two, 12>, avx512_bf16_below::<OfAvx512Bf16, Two, 12>],
        wide: None,
    };
    microkernels! {
        AVX512, OfAvx512: "avx512, bf16 emulated", isa::AVX512, 12 x 32, Both<Emulated<Avx512>, Emulated<Avx512>>, Emulated<Avx512>,
        avx512, avx512_below, large_l2: false, wide: None, operands: Operands::Bf16 { native: false }
    }
    microkernels! {
        AVX2, OfAvx2: "avx2, bf16 emulated", isa::AVX2, 6 x 16, Both<Emulated<Avx2>, Emulated<Avx2>>, Emulated<Avx2>,
        avx2, avx2_below, large_l2: false, wide: None, operands: Operands::Bf16 { native: false }
    }

    compile_tiles!(
        avx512_bf16, avx512_bf16_below,
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")]
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16;
    use crate::bf16::rounding::{RoundRows, pairs, widen};
    use crate::testing::numbers;

    /// A tile of a product, rounded and packed by a set.
    fn multiply(gemm: &Microkernels, [rows, depth, columns]: [usize; 3], a: &[f32], b: &[f32]) -> Vec<f32> {
        let steps = gemm.steps(depth);
        let (mut left, mut right) = (vec![0.0; gemm.rows_in_memory(rows) * steps], vec![0.0; steps * gemm.columns]);
        RoundRows { rows, depth, numbers: a, strides: [depth, 1], pairs: &mut left, pairs_stride: steps }.compute(gemm);
        gemm.pack_panel(0..columns, depth, b, [columns, 1], &mut right);
        left.chunks_exact_mut(steps).for_each(|row| row[pairs(depth)..].fill(0.0));
        let _configured = gemm.configured();
        let mut c = vec![f32::NAN; rows * gemm.columns];
        let next = (b.as_ptr(), 0);
        // SAFETY: the output has all columns of each row.
        unsafe {
            gemm.tile(
                [rows, gemm.columns],
                steps,
                (&left, [steps, 1]),
                &right,
                c.as_mut_ptr(),
                gemm.columns,
                Plus::Nothing,
                next,
            );
        }
        c.chunks_exact(gemm.columns).flat_map(|row| row[..columns].to_vec()).collect()
    }

    #[test]
    fn products_are_those_of_rounded_operands_summed_in_float32() {
        for gemm in bf16::available() {
            for depth in [1, 2, 31, 300] {
                let (rows, columns) = (gemm.rows, gemm.columns - 1);
                let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
                let found = multiply(gemm, [rows, depth, columns], &a, &b);
                let rounded = |x: f32| f64::from(widen(crate::bf16::rounding::round(x)));
                for (i, &found) in found.iter().enumerate() {
                    let (row, column) = (i / columns, i % columns);
                    let terms = (0..depth).map(|k| (a[row * depth + k], b[k * columns + column]));
                    let exact: f64 = terms.clone().map(|(a, b)| rounded(a) * rounded(b)).sum();
                    let size: f64 = terms.map(|(a, b)| (rounded(a) * rounded(b)).abs()).sum();
                    // Each of the sums is rounded: to nearest, or to odd.
                    let unit = 2f64.powi(if cfg!(target_arch = "aarch64") && gemm.is_native_bf16() { -23 } else { -24 });
                    let bound = (depth + 4) as f64 * unit * size;
                    let error = (f64::from(found) - exact).abs();
                    assert!(
                        error <= bound,
                        "{} {depth} at {row}, {column}: {found} is {error:e} off, {bound:e} allowed",
                        gemm.name
                    );
                }
            }
        }
    }

    /// Those of ARM round to odd.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn sets_of_one_size_of_tile_agree_to_the_bit() {
        for isa in isa::Isa::available() {
            let [native, emulated] = [bf16::microkernels(isa), bf16::emulated(isa)];
            let (rows, depth, columns) = (native.rows, 300, native.columns);
            let (a, b) = (numbers(rows * depth, 1), numbers(depth * columns, 2));
            let [first, second] = [native, emulated].map(|gemm| multiply(gemm, [rows, depth, columns], &a, &b));
            assert!(first.iter().zip(&second).all(|(a, b)| a.to_bits() == b.to_bits()), "{} and {}", native.name, emulated.name);
        }
    }

    #[test]
    fn what_is_not_finite_goes_through() {
        for gemm in bf16::available() {
            let depth = 5;
            for (special, factor, expected) in [
                (f32::NAN, 1.0, f32::NAN),
                (f32::INFINITY, 2.0, f32::INFINITY),
                (f32::INFINITY, 0.0, f32::NAN),
                (f32::MAX, 1.0, f32::INFINITY),
                (-0.0, 1.0, 0.0),
                // A subnormal operand is zero.
                (1e-40, 1e30, 0.0),
                (f32::MIN_POSITIVE, 1e30, f32::MIN_POSITIVE * widen(crate::bf16::rounding::round(1e30))),
            ] {
                for place in 0..depth {
                    let (mut a, mut b) = (vec![0.0; depth], vec![0.0; depth]);
                    (a[place], b[place]) = (special, factor);
                    let found = multiply(gemm, [1, depth, 1], &a, &b)[0];
                    assert!(
                        found == expected || found.is_nan() && expected.is_nan(),
                        "{}: {special} x {factor} at {place}: {found}, not {expected}",
                        gemm.name
                    );
                }
            }
        }
    }
}
