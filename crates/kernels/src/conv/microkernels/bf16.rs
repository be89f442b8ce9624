//! The tiles of convolutions for pairs of bfloat16 (see [`crate::bf16`]). There are none whose rows are evenly apart.

use super::*;
use crate::bf16::pairs::Emulated;

type Two = Both<Emulated<Array>, Emulated<Array>>;

/// With what every CPU has.
pub static EMULATED: Tiles = Tiles {
    operands: Operands::Bf16 { native: false },
    rows: 6,
    columns: 8,
    step: 4,
    lanes: Array::LANES,
    tiles: tiles!(6: baseline: Emulated<Array>, Two),
    ahead: [tiles!(6: baseline AHEAD Two), tiles!(6: baseline STREAMS Two)],
    in_line: [tiles!(6: baseline LINE_ALONE Two), tiles!(6: baseline LINE_AHEAD Two), tiles!(6: baseline LINE_STREAMS Two)],
    spaced: &[],
    narrow: None,
    wide: None,
};

#[cfg(target_arch = "aarch64")]
pub mod arm {
    use super::*;
    use crate::bf16::pairs::arm::NeonBf16;

    type Two = Both<NeonBf16, NeonBf16>;

    pub static NEON_BFDOT: Tiles = Tiles {
        operands: Operands::Bf16 { native: true },
        rows: 8,
        columns: 8,
        step: 4,
        lanes: NeonBf16::LANES,
        tiles: tiles!(8: baseline: NeonBf16, Two),
        ahead: [tiles!(8: baseline AHEAD Two), tiles!(8: baseline STREAMS Two)],
        in_line: [tiles!(8: baseline LINE_ALONE Two), tiles!(8: baseline LINE_AHEAD Two), tiles!(8: baseline LINE_STREAMS Two)],
        spaced: &[],
        narrow: None,
        wide: None,
    };
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::*;
    use crate::bf16::pairs::x86::Avx512Bf16;

    type Two = Both<Avx512Bf16, Avx512Bf16>;

    pub static AVX512_BF16: Tiles = Tiles {
        operands: Operands::Bf16 { native: true },
        rows: 14,
        columns: 32,
        step: 16,
        lanes: Avx512Bf16::LANES,
        tiles: tiles!(14: avx512_bf16: Avx512Bf16, Two),
        ahead: [tiles!(14: avx512_bf16 AHEAD Two), tiles!(14: avx512_bf16 STREAMS Two)],
        in_line: [
            tiles!(14: avx512_bf16 LINE_ALONE Two),
            tiles!(14: avx512_bf16 LINE_AHEAD Two),
            tiles!(14: avx512_bf16 LINE_STREAMS Two),
        ],
        spaced: &[],
        narrow: None,
        wide: None,
    };

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")]
    unsafe fn avx512_bf16<S: VectorBundle, const ROWS: usize, const STEP: usize>(task: &Task) {
        // SAFETY: the caller's promise.
        unsafe { any::<S, ROWS, STEP>(task) }
    }
}
