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
                    // Each of the sums is rounded.
                    let bound = (depth + 4) as f64 * 2f64.powi(-24) * size;
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
