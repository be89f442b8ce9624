//! The sets of microkernels for pairs of bfloat16 (see [`crate::bf16`]): in vector registers tiles of the sizes of those of float32 (with
//! BFMMLA in squares of sums), in matrix registers larger ones.

use super::*;
use crate::bf16::pairs::Emulated;
use crate::isa::Level;

/// Without instructions for pairs.
const EMULATED: Operands = Operands::Bf16 { gain: 1 };

microkernels! {
    PORTABLE = isa::PORTABLE, vectors of Emulated<Array>, EMULATED, compiled by baseline:
    "portable, bf16 emulated" 4 x 2 for Usual
}
microkernels! {
    #[cfg(target_arch = "aarch64")]
    NEON = isa::NEON, vectors of Emulated<Neon>, EMULATED, compiled by baseline:
    "neon, bf16 emulated" 8 x 2 for Usual
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
        NEON_BFDOT = isa::NEON, vectors of NeonBf16, Operands::Bf16 { gain: 2 }, compiled by baseline:
        "neon, bfdot" 8 x 2 for Usual
    }

    /// Tiles of 8 x 8, whose sums lie in registers by squares of 2 x 2.
    pub(crate) static NEON_BFMMLA: Microkernels = Microkernels {
        set: fitting(TileSet::in_vectors(
            "neon, bfmmla",
            &isa::NEON,
            [SIDE, 2, NeonBf16::LANES],
            CacheClass::Usual,
            Operands::Bf16 { gain: 4 },
        )),
        kernels: Kernels::Vectors {
            tiles: by_rows!(ROWS up to SIDE => squares::<ROWS, 2>, else too_high),
            halves: by_rows!(ROWS up to SIDE => squares::<ROWS, 1>, else too_high),
            below: [squares_below::<2>, squares_below::<1>],
        },
        others: &[],
    };

    /// A tile of ROWS rows and so many vectors of columns: for each four numbers of depth, two rows of these times two columns of them.
    ///
    /// # Safety
    /// See [`Tile`]; the CPU must have BFMMLA.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn squares<const ROWS: usize, const VECTORS: usize>(
        Strided { start: a, stride: row }: Strided<*const f32>,
        step: usize,
        b: *const f32,
        depth: usize,
        c: Strided<*mut f32>,
        ahead: Strided<*const f32>,
        plus: Strided<*const f32>,
    ) {
        let (twos, squares) = (ROWS.div_ceil(2), 2 * VECTORS);
        // A row that is not there is the one before it, and is not stored.
        let second = |two: usize| (2 * two + 1).min(ROWS.saturating_sub(1));
        // SAFETY: registers alone.
        let mut sums = unsafe { [[vdupq_n_f32(0.0); 4]; 4] };
        for k in (0..depth).step_by(2) {
            let is_whole = k + 1 < depth;
            fetch::<1>(ahead.start.wrapping_add(k * ahead.stride));
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
                    if !plus.start.is_null() {
                        sums = vaddq_f32(vld1q_f32(plus.start.add(r * plus.stride + 4 * v)), sums);
                    }
                    vst1q_f32(c.start.add(r * c.stride + 4 * v), sums);
                }
            }
        }
    }

    /// All tiles of a [`Column`].
    ///
    /// # Safety
    /// See [`Tile`], for all of them; the CPU must have BFMMLA.
    unsafe fn squares_below<const VECTORS: usize>(column: &Column) {
        let Column { next, mut a, step, b, depth, mut c, mut ahead, mut plus } = *column;
        for _ in 0..next.count {
            // SAFETY: the caller's promise.
            unsafe { squares::<SIDE, VECTORS>(a, step, b, depth, c, ahead, plus) }
            (a.start, ahead.start) = (a.start.wrapping_add(next.left), ahead.start.wrapping_add(next.ahead));
            c.start = c.start.wrapping_add(SIDE * c.stride);
            plus.start = plus.start.wrapping_add(SIDE * plus.stride);
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::super::x86::{avx2, avx512};
    use super::*;
    use crate::bf16::pairs::x86::Avx512Bf16;
    use crate::simd::vector::x86::{Avx2, Avx512};
    use crate::tiles::Kind;

    microkernels! {
        AVX512_BF16 = isa::AVX512, vectors of Avx512Bf16, Operands::Bf16 { gain: 2 }, compiled by avx512_bf16:
        "avx512_bf16" 12 x 2 for Usual,
        "avx512_bf16, wide" 6 x 4 for LargeSecond
    }
    microkernels! {
        AVX512 = isa::AVX512, vectors of Emulated<Avx512>, EMULATED, compiled by avx512:
        "avx512, bf16 emulated" 12 x 2 for Usual
    }
    microkernels! {
        AVX2 = isa::AVX2, vectors of Emulated<Avx2>, EMULATED, compiled by avx2:
        "avx2, bf16 emulated" 6 x 2 for Usual
    }
    /// Tiles of 32 x 32. Their panels are as wide as two vectors of AVX-512, so that loops beside the tiles read them, too.
    pub(crate) static AMX: Microkernels = Microkernels {
        set: TileSet {
            name: "amx_bf16",
            isa: &isa::AVX512,
            rows: amx::TILE,
            vectors: row_times_panels::VECTORS,
            lanes: Avx512Bf16::LANES,
            columns: amx::TILE,
            caches: CacheClass::Usual,
            operands: Operands::Bf16 { gain: 16 },
            kind: Kind::Matrices { rows: amx::SIDE, depth: amx::SIDE },
        },
        kernels: Kernels::Matrices,
        others: &[],
    };
    const _: () = assert!(amx::TILE == row_times_panels::VECTORS * Avx512Bf16::LANES);

    compile_tiles!(avx512_bf16);
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
        let task = Task {
            rows,
            columns: gemm.columns,
            depth: steps,
            left: LeftRows { elements: &left, row: steps, step: 1 },
            panel: &right,
            output: c.as_mut_ptr(),
            stride: gemm.columns,
            plus: Plus::Nothing,
            ahead: Ahead { start: b.as_ptr(), step: 0 },
        };
        // SAFETY: the output has all columns of each row; the registers are configured.
        unsafe { gemm.tile(task) };
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
