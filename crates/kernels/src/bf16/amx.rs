//! Tiles of products for processors with matrix registers (AMX): each multiplies 16 rows of 16 pairs with 16 pairs of 16 columns.
//!
//! Rows of pairs are read where they are, and panels lie as for AVX512_BF16. Both are filled up with zeros to whole matrices of depth
//! ([`Microkernels::steps`](crate::gemm::microkernels::Microkernels::steps)); what is after the last row does not count, but must be
//! memory that may be read.
//!
//! [`Matrices`] is what the registers do, so that tests run the same loops without them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Rows, pairs and columns of a matrix.
pub const SIDE: usize = 16;
/// Rows and columns of a tile: two matrices each.
pub const TILE: usize = 2 * SIDE;

/// Eight matrices, by number, of 16 rows of 64 bytes.
trait Matrices {
    fn clear<const TO: usize>(&mut self);

    /// # Safety
    /// There must be 16 rows of 16 pairs, so many pairs apart.
    unsafe fn load<const TO: usize>(&mut self, from: *const f32, distance: usize);

    /// Adds the products of rows of pairs and of columns of pairs.
    fn multiply<const TO: usize, const LEFT: usize, const RIGHT: usize>(&mut self);

    /// # Safety
    /// There must be room for 16 rows of 16 numbers, so many numbers apart.
    unsafe fn store<const FROM: usize>(&self, to: *mut f32, distance: usize);
}

/// A tile of up to 32 rows and of 16 or 32 columns, as [`Tile`](crate::gemm::microkernels::Microkernels::tile). Sums are written from the
/// registers to where they belong, and begin with what is added to them; only rows of a matrix that is not whole go through memory.
///
/// # Safety
/// `a` must have whole matrices of rows, `row` apart, `b` rows of `width` pairs, each `depth` pairs, a multiple of 16; `c` must have
/// so many rows of so many columns, and so must `plus`, if it is not null.
#[inline(always)]
unsafe fn tile<M: Matrices>(
    matrices: &mut M,
    [rows, columns]: [usize; 2],
    depth: usize,
    (a, row): (*const f32, usize),
    (b, width): (*const f32, usize),
    c: (*mut f32, usize),
    plus: (*const f32, usize),
) {
    let (is_tall, is_wide) = (rows > SIDE, columns > SIDE);
    let quarter = |first_row: usize, first_column: usize| Quarter {
        rows: rows - first_row,
        c: (c.0.wrapping_add(first_row * c.1 + first_column), c.1),
        plus: match plus {
            (null, _) if null.is_null() => plus,
            (plus, stride) => (plus.wrapping_add(first_row * stride + first_column), stride),
        },
    };
    // SAFETY: the caller's promise.
    unsafe {
        quarter(0, 0).begin::<M, 0>(matrices);
        if is_wide {
            quarter(0, SIDE).begin::<M, 1>(matrices);
        }
        if is_tall {
            quarter(SIDE, 0).begin::<M, 2>(matrices);
        }
        if is_tall && is_wide {
            quarter(SIDE, SIDE).begin::<M, 3>(matrices);
        }
    }
    for k in (0..depth).step_by(SIDE) {
        // SAFETY: the caller's promise.
        unsafe {
            matrices.load::<4>(a.add(k), row);
            matrices.load::<6>(b.add(k * width), width);
            matrices.multiply::<0, 4, 6>();
            if is_wide {
                matrices.load::<7>(b.add(k * width + SIDE), width);
                matrices.multiply::<1, 4, 7>();
            }
            if is_tall {
                matrices.load::<5>(a.add(SIDE * row + k), row);
                matrices.multiply::<2, 5, 6>();
            }
            if is_tall && is_wide {
                matrices.multiply::<3, 5, 7>();
            }
        }
    }
    // SAFETY: as above.
    unsafe {
        quarter(0, 0).end::<M, 0>(matrices);
        if is_wide {
            quarter(0, SIDE).end::<M, 1>(matrices);
        }
        if is_tall {
            quarter(SIDE, 0).end::<M, 2>(matrices);
        }
        if is_tall && is_wide {
            quarter(SIDE, SIDE).end::<M, 3>(matrices);
        }
    }
}

/// The part of a tile whose sums a register has.
struct Quarter {
    /// Those that there are from its first one on.
    rows: usize,
    /// Where it begins, and the distance of rows.
    c: (*mut f32, usize),
    /// The same of what is added, or null.
    plus: (*const f32, usize),
}

impl Quarter {
    /// Whether there is memory for all rows of a matrix of what is added; the same row for all is.
    fn is_loaded(&self) -> bool {
        let (plus, stride) = self.plus;
        !plus.is_null() && (self.rows >= SIDE || stride == 0)
    }

    /// # Safety
    /// What is added must be there.
    #[inline(always)]
    unsafe fn begin<M: Matrices, const NUMBER: usize>(&self, matrices: &mut M) {
        match self.is_loaded() {
            // SAFETY: 16 rows are there.
            true => unsafe { matrices.load::<NUMBER>(self.plus.0, self.plus.1) },
            false => matrices.clear::<NUMBER>(),
        }
    }

    /// # Safety
    /// The rows must be there, and of what is added.
    #[inline(always)]
    unsafe fn end<M: Matrices, const NUMBER: usize>(&self, matrices: &mut M) {
        let (c, stride) = self.c;
        if self.rows >= SIDE {
            // SAFETY: 16 rows are there.
            return unsafe { matrices.store::<NUMBER>(c, stride) };
        }
        let mut whole = Sums([const { MaybeUninit::uninit() }; SIDE]);
        // SAFETY: there is room for 16 rows, which are written.
        unsafe { matrices.store::<NUMBER>(whole.0.as_mut_ptr().cast(), SIDE) };
        for (r, sums) in whole.0.iter().enumerate().take(self.rows) {
            // SAFETY: `store` has written it; the row of the output, and of what is added, are the caller's promise.
            unsafe {
                let sums = sums.assume_init_ref();
                let to = &mut *c.add(r * stride).cast::<[f32; SIDE]>();
                *to = match self.plus {
                    (plus, stride) if !plus.is_null() && !self.is_loaded() => {
                        let plus = *plus.add(r * stride).cast::<[f32; SIDE]>();
                        std::array::from_fn(|j| plus[j] + sums[j])
                    }
                    _ => *sums,
                };
            }
        }
    }
}

#[repr(align(64))]
struct Sums([MaybeUninit<[f32; SIDE]>; SIDE]);

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::{Matrices, TILE};
    pub use crate::int8::amx::Configured;
    use crate::int8::amx::are_assumed;
    use raw_cpuid::CpuId;
    use std::arch::asm;
    use std::sync::OnceLock;

    /// Whether there are such registers that multiply bfloat16, and the system lets this process use them.
    pub fn is_there() -> bool {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        are_assumed()
            || *IS_THERE.get_or_init(|| {
                let has = CpuId::new().get_extended_feature_info().is_some_and(|info| info.has_amx_bf16());
                has && is_x86_feature_detected!("avx512bf16") && crate::int8::amx::is_there()
            })
    }

    /// The registers of the thread, while they are [`Configured`].
    struct Registers;

    impl Matrices for Registers {
        #[inline(always)]
        fn clear<const TO: usize>(&mut self) {
            // SAFETY: the registers are configured, by the promise of `tile`.
            unsafe { asm!("tilezero tmm{to}", to = const TO, options(nostack, preserves_flags, nomem)) }
        }

        #[inline(always)]
        unsafe fn load<const TO: usize>(&mut self, from: *const f32, distance: usize) {
            // SAFETY: as above; the memory is the caller's promise.
            unsafe {
                asm!("tileloadd tmm{to}, [{from} + {distance}*1]", to = const TO, from = in(reg) from, distance = in(reg) distance * 4,
                    options(nostack, preserves_flags, readonly));
            }
        }

        #[inline(always)]
        fn multiply<const TO: usize, const LEFT: usize, const RIGHT: usize>(&mut self) {
            // SAFETY: as above.
            unsafe {
                asm!("tdpbf16ps tmm{to}, tmm{left}, tmm{right}", to = const TO, left = const LEFT, right = const RIGHT,
                    options(nostack, preserves_flags, nomem));
            }
        }

        #[inline(always)]
        unsafe fn store<const FROM: usize>(&self, to: *mut f32, distance: usize) {
            // SAFETY: as above; the memory is the caller's promise.
            unsafe {
                asm!("tilestored [{to} + {distance}*1], tmm{from}", to = in(reg) to, distance = in(reg) distance * 4, from = const FROM,
                    options(nostack, preserves_flags));
            }
        }
    }

    /// As [`Tile`](crate::gemm::microkernels::Microkernels::tile), of up to 32 rows and of 16 or 32 columns of a panel of 32.
    ///
    /// # Safety
    /// As there; the registers must be [`Configured`]; and see [`tile`](super::tile).
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub unsafe fn tile(
        sizes: [usize; 2],
        depth: usize,
        a: (*const f32, usize),
        b: *const f32,
        c: (*mut f32, usize),
        plus: (*const f32, usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { super::tile(&mut Registers, sizes, depth, a, (b, TILE), c, plus) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bf16::rounding::widen;
    use crate::testing::numbers;

    /// What the manual says that the registers do.
    struct Model([[[u32; SIDE]; SIDE]; 8]);

    impl Matrices for Model {
        fn clear<const TO: usize>(&mut self) {
            self.0[TO] = [[0; SIDE]; SIDE];
        }

        unsafe fn load<const TO: usize>(&mut self, from: *const f32, distance: usize) {
            for (r, row) in self.0[TO].iter_mut().enumerate() {
                for (j, bits) in row.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *bits = unsafe { *from.add(r * distance + j) }.to_bits();
                }
            }
        }

        fn multiply<const TO: usize, const LEFT: usize, const RIGHT: usize>(&mut self) {
            let halves = |bits: u32| [widen(bits as u16), widen((bits >> 16) as u16)];
            for r in 0..SIDE {
                for j in 0..SIDE {
                    let mut sum = f32::from_bits(self.0[TO][r][j]);
                    for k in 0..SIDE {
                        let (left, right) = (halves(self.0[LEFT][r][k]), halves(self.0[RIGHT][k][j]));
                        sum += left[0] * right[0];
                        sum += left[1] * right[1];
                    }
                    self.0[TO][r][j] = sum.to_bits();
                }
            }
        }

        unsafe fn store<const FROM: usize>(&self, to: *mut f32, distance: usize) {
            for (r, row) in self.0[FROM].iter().enumerate() {
                for (j, bits) in row.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { *to.add(r * distance + j) = f32::from_bits(*bits) };
                }
            }
        }
    }

    #[test]
    fn tiles_of_every_height_and_width_are_products_and_write_nothing_else() {
        for (rows, columns, depth) in [(1, 16, 16), (16, 32, 48), (17, 16, 32), (31, 32, 16), (32, 32, 64)] {
            let (row, stride) = (depth + 5, columns + 7);
            let rounded =
                |count: usize, seed| numbers(count, seed).iter().map(|x| crate::bf16::rounding::pair(*x, -*x)).collect();
            let (a, b): (Vec<f32>, Vec<f32>) = (rounded(TILE * row, 1), rounded(depth * TILE, 2));
            let added = numbers(rows * stride, 3);
            // Nothing, the same row for all, and what is in the output so far.
            for plus in [None, Some(0), Some(stride)] {
                // No more than the rows that there are, but for the tail of the last one.
                let mut found = match plus {
                    Some(stride) if stride > 0 => added.clone(),
                    _ => vec![f32::NAN; rows * stride],
                };
                let before = found.clone();
                let to = found.as_mut_ptr();
                let from = match plus {
                    None => (std::ptr::null(), 0),
                    Some(0) => (added.as_ptr(), 0),
                    Some(stride) => (to.cast_const(), stride),
                };
                let mut model = Model([[[0x7fc0_0000; SIDE]; SIDE]; 8]);
                // SAFETY: there are 32 rows of the operands, and so many of the output.
                unsafe {
                    tile(&mut model, [rows, columns], depth, (a.as_ptr(), row), (b.as_ptr(), TILE), (to, stride), from);
                }
                for r in 0..rows {
                    for j in 0..columns {
                        let first = |pair: f32| f64::from(widen(pair.to_bits() as u16));
                        // Both halves of a pair have the same magnitude.
                        let product: f64 = (0..depth).map(|k| 2.0 * first(a[r * row + k]) * first(b[k * TILE + j])).sum();
                        let exact = product + plus.map_or(0.0, |stride| f64::from(added[r * stride + j]));
                        let found = f64::from(found[r * stride + j]);
                        let place = format!("{rows} x {columns} x {depth}, {plus:?} at {r}, {j}");
                        assert!((found - exact).abs() < 1e-4, "{place}: {found}, not {exact}");
                    }
                    let after = r * stride + columns..(r + 1) * stride;
                    let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found[after.clone()]), bits(&before[after]), "{rows} x {columns}: row {r}");
                }
            }
        }
    }
}
