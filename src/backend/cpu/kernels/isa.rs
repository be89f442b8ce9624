//! Instruction sets: which this CPU has is found out once, and the innermost loops exist for each.
//!
//! A *tile* is the innermost loop of every product: some rows of a packed left panel times a packed right panel of
//! [`Isa::columns`] columns, with all sums in registers.
#![allow(unsafe_code)]

use std::sync::OnceLock;

/// The tiles of an instruction set, from 0 rows to [`MOST_ROWS`].
macro_rules! tiles {
    ($tile:ident) => {
        [
            $tile::<0>,
            $tile::<1>,
            $tile::<2>,
            $tile::<3>,
            $tile::<4>,
            $tile::<5>,
            $tile::<6>,
            $tile::<7>,
            $tile::<8>,
            $tile::<9>,
            $tile::<10>,
            $tile::<11>,
            $tile::<12>,
        ]
    };
}

/// The highest tile of any instruction set.
pub const MOST_ROWS: usize = 12;
/// The widest tile of any instruction set.
pub const MOST_COLUMNS: usize = 32;

/// `c[r][j] = d[r][j] + Σ a[k][r] · b[k][j]`: `depth`, `a`, `b`, `c`, the distance of rows in `c`, `d` (or null) with the
/// distance of its rows, and what is brought into the cache meanwhile: from where on, and how many elements further with each
/// step in depth.
///
/// # Safety
/// `a` must have `depth` × rows elements, `b` `depth` × columns, and `c` and `d` rows of columns at those distances; the CPU
/// must have the instructions.
pub type Tile = unsafe fn(usize, *const f32, *const f32, *mut f32, usize, (*const f32, usize), (*const f32, usize));

/// What a tile is added to.
#[derive(Clone, Copy, Debug)]
pub enum Plus<'a> {
    Nothing,
    /// What the output holds.
    Itself,
    /// The same row for all rows.
    Row(&'a [f32]),
}

/// Work that [`Isa::run_loop`] compiles with the instruction set. `run` must be `#[inline(always)]`: a closure may be left
/// out of line, and is then compiled without.
pub trait Loop {
    fn run(self);
}

/// An instruction set that this CPU has.
#[derive(Debug)]
pub struct Isa {
    pub name: &'static str,
    /// Rows and columns of a full tile.
    pub rows: usize,
    pub columns: usize,
    /// Whether AVX2, FMA and F16C, or AVX-512, may be used beside the tiles.
    pub(super) level: Level,
    /// By number of rows; the one for 0 rows does nothing.
    tiles: [Tile; MOST_ROWS + 1],
}

/// Which instructions there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Runs a loop, compiled with this instruction set.
    #[inline(always)]
    pub fn run_loop(&self, work: impl Loop) {
        match self.level {
            Level::Portable => work.run(),
            // SAFETY: an `Isa` exists only when the CPU has its instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::loop_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::loop_avx512(work) },
        }
    }

    /// Multiplies two panels into a tile of `rows` × [`Isa::columns`] elements, and brings elements that will be needed
    /// next into the cache meanwhile, so many with each step in depth.
    ///
    /// # Safety
    /// `c` must have that many rows of that many elements, `stride` apart, which nobody else accesses.
    ///
    /// # Panics
    /// When a panel is too short.
    pub unsafe fn tile(
        &self,
        rows: usize,
        depth: usize,
        a: &[f32],
        b: &[f32],
        c: *mut f32,
        stride: usize,
        plus: Plus<'_>,
        next: Option<(*const f32, usize)>,
    ) {
        assert!(rows <= self.rows && a.len() >= depth * rows && b.len() >= depth * self.columns);
        // Any address may be asked for.
        let ahead = next.unwrap_or((b.as_ptr(), 0));
        let plus = match plus {
            Plus::Nothing => (std::ptr::null(), 0),
            Plus::Itself => (c.cast_const(), stride),
            Plus::Row(row) => {
                assert!(row.len() >= self.columns);
                (row.as_ptr(), 0)
            }
        };
        // SAFETY: the lengths of the panels and the row were asserted, `c` is the caller's promise, and an `Isa` exists only
        // when the CPU has its instructions.
        unsafe { self.tiles[rows](depth, a.as_ptr(), b.as_ptr(), c, stride, plus, ahead) }
    }
}

/// The instruction set to use: the best one, or the one that `WEBNN_CPU` names (`portable`, `avx2`, `avx512`).
pub fn isa() -> &'static Isa {
    static ISA: OnceLock<&'static Isa> = OnceLock::new();
    ISA.get_or_init(|| {
        let wanted = std::env::var("WEBNN_CPU").ok();
        let fits = |isa: &&&'static Isa| wanted.as_deref().is_none_or(|name| name == isa.name);
        available().iter().find(fits).copied().unwrap_or(&PORTABLE)
    })
}

/// All that this CPU has, the best first.
pub fn available() -> &'static [&'static Isa] {
    static AVAILABLE: OnceLock<Vec<&'static Isa>> = OnceLock::new();
    AVAILABLE.get_or_init(|| {
        #[allow(unused_mut, reason = "only some architectures add to it")]
        let mut available: Vec<&'static Isa> = vec![&PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                available.insert(0, &x86::AVX2);
            }
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw");
            if has_avx512 {
                available.insert(0, &x86::AVX512);
            }
        }
        available
    })
}

static PORTABLE: Isa = Isa { name: "portable", rows: 4, columns: 8, level: Level::Portable, tiles: tiles!(portable) };

/// Plain loops over arrays of constant size, which the compiler turns into the vector instructions that every CPU of the
/// architecture has.
///
/// # Safety
/// See [`Tile`].
unsafe fn portable<const ROWS: usize>(
    depth: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    stride: usize,
    (plus, plus_stride): (*const f32, usize),
    _ahead: (*const f32, usize),
) {
    const COLUMNS: usize = 8;
    let mut sums = [[0f32; COLUMNS]; ROWS];
    for k in 0..depth {
        // SAFETY: `a` has `depth` × ROWS elements and `b` `depth` × COLUMNS, by the caller's promise.
        let (a, b) = unsafe { (&*a.add(k * ROWS).cast::<[f32; ROWS]>(), &*b.add(k * COLUMNS).cast::<[f32; COLUMNS]>()) };
        for (sums, a) in sums.iter_mut().zip(a) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        // SAFETY: `c` and `plus` have ROWS rows of COLUMNS elements at their distances, by the caller's promise.
        unsafe {
            let plus = if plus.is_null() { [0.0; COLUMNS] } else { *plus.add(r * plus_stride).cast::<[f32; COLUMNS]>() };
            *c.add(r * stride).cast::<[f32; COLUMNS]>() = std::array::from_fn(|j| plus[j] + sums[j]);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Isa, Level};
    use std::arch::x86_64::*;

    pub static AVX512: Isa = Isa { name: "avx512", rows: 12, columns: 32, level: Level::Avx512, tiles: tiles!(avx512) };
    pub static AVX2: Isa = Isa { name: "avx2", rows: 6, columns: 16, level: Level::Avx2, tiles: tiles!(avx2) };

    /// # Safety
    /// The CPU must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn loop_avx2(work: impl super::Loop) {
        work.run();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ and BW.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub unsafe fn loop_avx512(work: impl super::Loop) {
        work.run();
    }

    /// A tile of ROWS × 2 vectors.
    macro_rules! tile {
        ($name:ident, $features:literal, $lanes:literal, $zero:ident, $load:ident, $set:ident, $fmadd:ident, $add:ident, $store:ident) => {
            /// # Safety
            /// See [`super::Tile`].
            #[target_feature(enable = $features)]
            unsafe fn $name<const ROWS: usize>(
                depth: usize,
                a: *const f32,
                b: *const f32,
                c: *mut f32,
                stride: usize,
                (plus, plus_stride): (*const f32, usize),
                (ahead, ahead_step): (*const f32, usize),
            ) {
                for r in 0..ROWS {
                    // What the tile is added to arrives while it is computed. Any address may be asked for.
                    let c = c.wrapping_add(r * stride).cast::<i8>();
                    _mm_prefetch::<_MM_HINT_T0>(c);
                    _mm_prefetch::<_MM_HINT_T0>(c.wrapping_add(8 * $lanes - 1));
                }
                // A few rows alone would wait for their own sums: they get several, for every second or fourth step in depth.
                let most = if $lanes > 8 { 12 } else { 6 };
                let ways = if 4 * ROWS <= most {
                    4
                } else if 2 * ROWS <= most {
                    2
                } else {
                    1
                };
                let mut sums = [[[$zero(); 2]; ROWS]; 4];
                let mut k = 0;
                while k < depth {
                    let ahead = ahead.wrapping_add(k * ahead_step).cast::<i8>();
                    _mm_prefetch::<_MM_HINT_T1>(ahead);
                    if $lanes > 8 {
                        _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add(64));
                    }
                    let together = if depth - k >= ways { ways } else { 1 };
                    for way in 0..4 {
                        if way >= together {
                            break;
                        }
                        // SAFETY: `b` has `depth` × 2 vectors, `a` `depth` × ROWS elements, by the caller's promise.
                        unsafe {
                            let b = b.add((k + way) * 2 * $lanes);
                            let (first, second) = ($load(b), $load(b.add($lanes)));
                            for r in 0..ROWS {
                                let factor = $set(*a.add((k + way) * ROWS + r));
                                sums[way][r][0] = $fmadd(factor, first, sums[way][r][0]);
                                sums[way][r][1] = $fmadd(factor, second, sums[way][r][1]);
                            }
                        }
                    }
                    k += together;
                }
                for way in 1..ways {
                    for r in 0..ROWS {
                        for half in 0..2 {
                            sums[0][r][half] = $add(sums[0][r][half], sums[way][r][half]);
                        }
                    }
                }
                let sums = sums[0];
                let is_plain = plus.is_null();
                for (r, sums) in sums.iter().enumerate() {
                    for (half, sum) in sums.iter().enumerate() {
                        // SAFETY: `c` and `plus` have ROWS rows of 2 vectors at their distances, by the caller's promise.
                        unsafe {
                            let c = c.add(r * stride + half * $lanes);
                            let plus = plus.wrapping_add(r * plus_stride + half * $lanes);
                            $store(c, if is_plain { *sum } else { $add($load(plus), *sum) });
                        }
                    }
                }
            }
        };
    }

    tile!(
        avx512,
        "avx512f",
        16,
        _mm512_setzero_ps,
        _mm512_loadu_ps,
        _mm512_set1_ps,
        _mm512_fmadd_ps,
        _mm512_add_ps,
        _mm512_storeu_ps
    );
    tile!(
        avx2,
        "avx2,fma",
        8,
        _mm256_setzero_ps,
        _mm256_loadu_ps,
        _mm256_set1_ps,
        _mm256_fmadd_ps,
        _mm256_add_ps,
        _mm256_storeu_ps
    );
}
