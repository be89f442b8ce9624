//! Tiles of products for processors with matrix registers (AMX): each multiplies 16 rows of 16 pairs with 16 pairs of 16 columns.
//!
//! Rows of pairs are read where they are, and panels lie as for AVX512_BF16. Both are filled up with zeros to whole matrices of depth
//! ([`Microkernels::steps`](crate::gemm::microkernels::Microkernels::steps)); what is behind the last row does not count, but must be
//! memory that may be read.
//!
//! [`Matrices`] is what the registers do, so that tests run the same loops without them.
#![allow(unsafe_code)]

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

/// The sums of a tile of up to 32 rows and of 16 or 32 columns, rows of [`TILE`] numbers.
///
/// # Safety
/// `a` must have whole matrices of rows, `row` apart, `b` rows of `width` pairs, each `depth` pairs, a multiple of 16; `to` has 32 rows.
#[inline(always)]
unsafe fn sums<M: Matrices>(
    matrices: &mut M,
    [rows, columns]: [usize; 2],
    depth: usize,
    (a, row): (*const f32, usize),
    (b, width): (*const f32, usize),
    to: *mut f32,
) {
    let (is_tall, is_wide) = (rows > SIDE, columns > SIDE);
    matrices.clear::<0>();
    matrices.clear::<1>();
    matrices.clear::<2>();
    matrices.clear::<3>();
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
        matrices.store::<0>(to, TILE);
        if is_wide {
            matrices.store::<1>(to.add(SIDE), TILE);
        }
        if is_tall {
            matrices.store::<2>(to.add(SIDE * TILE), TILE);
        }
        if is_tall && is_wide {
            matrices.store::<3>(to.add(SIDE * TILE + SIDE), TILE);
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::{Matrices, TILE, sums};
    pub use crate::int8::amx::Configured;
    use raw_cpuid::CpuId;
    use std::arch::asm;
    use std::sync::OnceLock;

    /// Whether there are such registers that multiply bfloat16, and the system lets this process use them.
    pub fn is_there() -> bool {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        *IS_THERE.get_or_init(|| {
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

    #[repr(align(64))]
    struct Sums([[f32; TILE]; TILE]);

    /// As [`Tile`](crate::gemm::microkernels::Microkernels::tile), of up to 32 rows and of 16 or 32 columns of a panel of 32.
    ///
    /// # Safety
    /// As there; the registers must be [`Configured`]; and see [`sums`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
    pub unsafe fn tile(
        [rows, columns]: [usize; 2],
        depth: usize,
        (a, row): (*const f32, usize),
        b: *const f32,
        (c, stride): (*mut f32, usize),
        (plus, plus_stride): (*const f32, usize),
    ) {
        let mut whole = Sums([[0.0; TILE]; TILE]);
        // SAFETY: the caller's promise; there is room for 32 rows.
        unsafe { sums(&mut Registers, [rows, columns], depth, (a, row), (b, TILE), whole.0.as_mut_ptr().cast()) };
        for (r, sums) in whole.0.iter().enumerate().take(rows) {
            // SAFETY: `c` has so many rows of so many columns at its distance, and so has `plus`, by the caller's promise.
            unsafe {
                let to = std::slice::from_raw_parts_mut(c.add(r * stride), columns);
                if plus.is_null() {
                    to.copy_from_slice(&sums[..columns]);
                } else {
                    let plus = plus.add(r * plus_stride);
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = *plus.add(j) + sums[j];
                    }
                }
            }
        }
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
    fn tiles_of_every_height_and_width_are_products() {
        for (rows, columns, depth) in [(1, 16, 16), (16, 32, 48), (17, 16, 32), (32, 32, 64)] {
            let row = depth + 5;
            let rounded =
                |count: usize, seed| numbers(count, seed).iter().map(|x| crate::bf16::rounding::pair(*x, -*x)).collect();
            let (a, b): (Vec<f32>, Vec<f32>) = (rounded(TILE * row, 1), rounded(depth * TILE, 2));
            let mut found = vec![f32::NAN; TILE * TILE];
            // SAFETY: there are 32 rows of all three.
            unsafe {
                let mut model = Model([[[0; SIDE]; SIDE]; 8]);
                sums(&mut model, [rows, columns], depth, (a.as_ptr(), row), (b.as_ptr(), TILE), found.as_mut_ptr());
            }
            for r in 0..rows {
                for j in 0..columns {
                    let first = |pair: f32| f64::from(widen(pair.to_bits() as u16));
                    // Both halves of a pair have the same magnitude.
                    let exact: f64 = (0..depth).map(|k| 2.0 * first(a[r * row + k]) * first(b[k * TILE + j])).sum();
                    let found = f64::from(found[r * TILE + j]);
                    assert!((found - exact).abs() < 1e-4, "{rows} x {columns} x {depth} at {r}, {j}: {found}, not {exact}");
                }
            }
        }
    }
}
