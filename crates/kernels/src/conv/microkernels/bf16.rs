//! The tiles of convolutions for pairs of bfloat16 (see [`crate::bf16`]). There are none whose rows are evenly apart.

use super::*;
use crate::bf16::pairs::Emulated;

// Slower than float32, so that only tests multiply with them: nothing is fetched.
tiles! {
    EMULATED = isa::PORTABLE, vectors of Emulated<Array>, Operands::Bf16 { gain: 1 }, compiled by baseline:
    "portable, bf16 emulated" 6 x 2 for Usual,
    widths by 4 [Emulated<Array>, Both<Emulated<Array>, Emulated<Array>>],
    streams [0, 0], spaced no, narrow None, wide None
}

#[cfg(target_arch = "aarch64")]
pub mod arm {
    use super::*;
    use crate::bf16::pairs::arm::NeonBf16;

    tiles! {
        NEON_BFDOT = isa::NEON, vectors of NeonBf16, Operands::Bf16 { gain: 2 }, compiled by baseline:
        "neon, bfdot" 8 x 2 for Usual,
        widths by 4 [NeonBf16, Both<NeonBf16, NeonBf16>],
        streams [1, SEVERAL], spaced no, narrow None, wide None
    }
}

#[cfg(target_arch = "x86_64")]
pub mod x86 {
    use super::*;
    use crate::bf16::pairs::x86::Avx512Bf16;

    compile_tiles!(avx512_bf16);

    tiles! {
        AVX512_BF16 = isa::AVX512, vectors of Avx512Bf16, Operands::Bf16 { gain: 2 }, compiled by avx512_bf16:
        "avx512_bf16" 14 x 2 for Usual,
        widths by 16 [Avx512Bf16, Both<Avx512Bf16, Avx512Bf16>],
        streams [1, SEVERAL], spaced no, narrow None, wide None
    }
}
