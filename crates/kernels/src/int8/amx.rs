//! Tiles for processors with matrix registers (AMX), which multiply 16 rows of 64 bytes with 64 bytes of 16 columns at once.
//!
//! Rows are gathered first, so that each matrix lies in one piece: 64 bytes of each row, then the next 64, across all runs. The
//! weights lie as for VNNI, filled up to 64 bytes of depth with zeros; what is after a gathered row's end does not count.
//!
//! The compiler does not use these registers, and what is in them stays there between the instructions below. They are the
//! thread's, as is their configuration.
#![allow(unsafe_code)]

use super::microkernels::{Epilogue, Task, Tiles, WIDEST};
use crate::caches::CacheClass;
use crate::isa::{self, Loop};
use crate::tiles::{Kind, Operands, TileSet};
use raw_cpuid::CpuId;
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows of a matrix, and bytes of each of its rows.
const ROWS: usize = 16;
const DEPTH: usize = 64;
/// 32-bit numbers of a row.
const LANES: usize = 16;

pub static AMX: Tiles = Tiles {
    set: TileSet {
        name: "amx",
        isa: &isa::AVX512,
        rows: 2 * ROWS,
        vectors: WIDEST,
        lanes: LANES,
        columns: WIDEST * LANES,
        caches: CacheClass::Usual,
        operands: Operands::Int8,
        kind: Kind::Matrices { rows: ROWS, depth: DEPTH },
    },
    parts: 1,
    weight: 1,
    tiles: &[[nothing, nothing], [tile::<1, 1>, tile::<1, 2>], [tile::<2, 1>, tile::<2, 2>]],
};

/// # Safety
/// None.
unsafe fn nothing(_: &Task) {}

/// Whether there are such registers, and the system lets this process use them.
pub fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    are_assumed()
        || *IS_THERE.get_or_init(|| {
            let has = CpuId::new().get_extended_feature_info().is_some_and(|info| info.has_amx_tile() && info.has_amx_int8());
            has && is_x86_feature_detected!("avx512vnni") && is_permitted()
        })
}

static ARE_ASSUMED: AtomicBool = AtomicBool::new(false);

/// See [`assume_matrix_registers`](crate::isa::assume_matrix_registers).
pub fn are_assumed() -> bool {
    ARE_ASSUMED.load(Ordering::Relaxed)
}

pub fn assume() {
    ARE_ASSUMED.store(true, Ordering::Relaxed);
}

/// Other systems are not asked for the registers: it is not known here how.
#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// Asks Linux for the registers, whose contents make the state of a thread much larger.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: std::ffi::c_long = 158;
    const REQUEST_PERMISSION: std::ffi::c_long = 0x1023;
    const MATRICES: std::ffi::c_long = 18;
    unsafe extern "C" {
        fn syscall(number: std::ffi::c_long, ...) -> std::ffi::c_long;
    }
    // SAFETY: the call takes two numbers and touches no memory; an older kernel says no.
    unsafe { syscall(ARCH_PRCTL, REQUEST_PERMISSION, MATRICES) == 0 }
}

/// The registers of this thread, as the tiles want them, until this is dropped.
#[must_use]
pub struct Configured(());

/// What the instruction reads.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    /// Bytes of a row, of each register.
    bytes: [u16; 16],
    rows: [u8; 16],
}

static CONFIGURATION: Configuration = {
    let (mut bytes, mut rows) = ([0; 16], [0; 16]);
    let mut register = 0;
    while register < 8 {
        (bytes[register], rows[register]) = (DEPTH as u16, ROWS as u8);
        register += 1;
    }
    Configuration { palette: 1, start_row: 0, reserved: [0; 14], bytes, rows }
};

impl Configured {
    /// # Panics
    /// When there are no such registers.
    pub fn load() -> Configured {
        assert!(is_there());
        // SAFETY: the registers are there; the configuration is whole.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, preserves_flags, readonly)) };
        Configured(())
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: the registers are there, or there would be none of these. Without contents the system has less to save.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

/// Gathers the rows of a tile.
pub struct Gather<'a> {
    /// For each run, for each row, where `length` bytes lie.
    pub starts: &'a [*const u8],
    pub rows: usize,
    pub length: usize,
    pub to: &'a mut [u8],
}

impl Loop for Gather<'_> {
    #[inline(always)]
    fn run(self) {
        let Gather { starts, rows, length, to } = self;
        let runs = starts.len() / rows.max(1);
        let step = rows.next_multiple_of(ROWS) * DEPTH;
        assert!(to.len() >= step * (runs * length).div_ceil(DEPTH));
        for row in 0..rows {
            for run in 0..runs {
                // SAFETY: so many bytes lie there, in memory that is borrowed as long as the starts are used.
                let bytes = unsafe { std::slice::from_raw_parts(starts[run * rows + row], length) };
                let mut k = 0;
                while k < length {
                    let (matrix, at) = ((run * length + k) / DEPTH, (run * length + k) % DEPTH);
                    let count = (DEPTH - at).min(length - k);
                    let to = &mut to[matrix * step + row * DEPTH + at..][..count];
                    // Of a known length it is one instruction.
                    match (<&mut [u8; DEPTH]>::try_from(&mut *to), bytes[k..].first_chunk()) {
                        (Ok(to), Some(from)) => *to = *from,
                        _ => to.copy_from_slice(&bytes[k..k + count]),
                    }
                    k += count;
                }
            }
        }
    }
}

/// The sums of a tile.
#[repr(align(64))]
struct Sums<const TALL: usize, const VECTORS: usize>([[[[i32; LANES]; VECTORS]; ROWS]; TALL]);

/// Gathered rows, in TALL matrices beside each other, times VECTORS vectors of columns.
///
/// # Safety
/// As for every [`Tile`](super::microkernels::Tile), but the first of the starts is that of the gathered rows, all of them; and the
/// thread's registers must be [`Configured`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tile<const TALL: usize, const VECTORS: usize>(task: &Task) {
    // SAFETY: there is a start.
    let mut rows = unsafe { *task.starts };
    let mut weights = task.weights;
    let width = VECTORS * LANES * 4;
    // SAFETY: the registers are configured. For each 64 bytes of depth there are TALL matrices of rows, one after the other, and
    // 16 rows of the panel's columns, which are filled up to that.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, preserves_flags, nomem));
        for _ in 0..(task.runs * task.length).div_ceil(DEPTH) {
            asm!("tileloadd tmm4, [{a} + {row}*1]", "tileloadd tmm6, [{b} + {width}*1]", "tdpbusd tmm0, tmm4, tmm6",
                a = in(reg) rows, row = in(reg) DEPTH, b = in(reg) weights, width = in(reg) width,
                options(nostack, preserves_flags, readonly));
            if VECTORS == 2 {
                asm!("tileloadd tmm7, [{b} + {width}*1]", "tdpbusd tmm1, tmm4, tmm7",
                    b = in(reg) weights.add(DEPTH), width = in(reg) width, options(nostack, preserves_flags, readonly));
            }
            if TALL == 2 {
                asm!("tileloadd tmm5, [{a} + {row}*1]", "tdpbusd tmm2, tmm5, tmm6",
                    a = in(reg) rows.add(ROWS * DEPTH), row = in(reg) DEPTH, options(nostack, preserves_flags, readonly));
            }
            if TALL == 2 && VECTORS == 2 {
                asm!("tdpbusd tmm3, tmm5, tmm7", options(nostack, preserves_flags, nomem));
            }
            rows = rows.add(TALL * ROWS * DEPTH);
            weights = weights.add(ROWS * width);
        }
    }
    let mut sums = Sums([[[[0; LANES]; VECTORS]; ROWS]; TALL]);
    let to = sums.0.as_mut_ptr().cast::<u8>();
    // SAFETY: there is room for TALL times VECTORS matrices, whose rows are as far apart as a row of the tile is long.
    unsafe {
        asm!("tilestored [{to} + {width}*1], tmm0", to = in(reg) to, width = in(reg) width, options(nostack, preserves_flags));
        if VECTORS == 2 {
            asm!("tilestored [{to} + {width}*1], tmm1", to = in(reg) to.add(DEPTH), width = in(reg) width, options(nostack, preserves_flags));
        }
        let to = to.wrapping_add(ROWS * width);
        if TALL == 2 {
            asm!("tilestored [{to} + {width}*1], tmm2", to = in(reg) to, width = in(reg) width, options(nostack, preserves_flags));
        }
        if TALL == 2 && VECTORS == 2 {
            asm!("tilestored [{to} + {width}*1], tmm3", to = in(reg) to.add(DEPTH), width = in(reg) width, options(nostack, preserves_flags));
        }
    }
    let Epilogue { start, zeros, row_sums, factors } = task.epilogue;
    for v in 0..VECTORS {
        // SAFETY: there are VECTORS vectors of what finishes columns, a number for each row, and room for them in each row of the
        // output; the rows are no more than those of the sums.
        unsafe {
            let start = _mm512_loadu_si512(start.add(v * LANES).cast());
            let zeros = (!zeros.is_null()).then(|| _mm512_loadu_si512(zeros.add(v * LANES).cast()));
            let factors = (!factors.is_null()).then(|| _mm512_loadu_ps(factors.add(v * LANES)));
            for (row, sums) in sums.0.as_flattened()[..task.rows].iter().enumerate() {
                let mut sum = _mm512_add_epi32(_mm512_loadu_si512(sums[v].as_ptr().cast()), start);
                if let Some(zeros) = zeros {
                    sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(zeros, _mm512_set1_epi32(*row_sums.add(row))));
                }
                let to = task.output.add(row * task.stride + v * LANES);
                match factors {
                    Some(factors) => _mm512_storeu_ps(to.cast(), _mm512_mul_ps(_mm512_cvtepi32_ps(sum), factors)),
                    None => _mm512_storeu_si512(to.cast(), sum),
                }
            }
        }
    }
}
