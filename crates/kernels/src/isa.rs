//! Instruction sets: which this CPU has is found out once, and loops are compiled for each.
#![allow(unsafe_code)]

use crate::gemm::microkernels::{self, Microkernels};
use std::sync::OnceLock;

/// Work that [`Isa::run_loop`] compiles with the instruction set. `run` must be `#[inline(always)]`: a closure may be left
/// out of line, and is then compiled without.
pub(crate) trait Loop {
    fn run(self);
}

/// An instruction set that this CPU has.
pub struct Isa {
    pub name: &'static str,
    pub level: Level,
    /// For GEMM; see [`Microkernels::for_product`].
    pub gemm: &'static Microkernels,
}

impl std::fmt::Debug for Isa {
    /// Its name alone: what it has for GEMM leads back to it.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// Which instructions there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// With FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// With the extensions F, VL, DQ and BW.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// How many vector registers there are.
    pub(crate) const fn registers(self) -> usize {
        match self {
            Level::Portable => 16,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => 32,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => 16,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => 32,
        }
    }
}

impl Isa {
    /// The instruction set to use: the best one, or the one that `WEBNN_CPU` names (`portable`, `neon`, `avx2`, `avx512`).
    pub fn of_this_machine() -> &'static Isa {
        static ISA: OnceLock<&'static Isa> = OnceLock::new();
        ISA.get_or_init(|| Isa::named(&std::env::var("WEBNN_CPU").unwrap_or_default()).unwrap_or(&PORTABLE))
    }

    /// The one of this name, or the best one where it is empty, as a variable may be that is set to nothing. None where this CPU has none
    /// of that name.
    pub fn named(name: &str) -> Option<&'static Isa> {
        Isa::available().iter().find(|isa| name.is_empty() || name == isa.name).copied()
    }

    /// All that CPUs of this architecture may have. Whether this one has them is not asked: none of their instructions may run.
    pub fn of_architecture() -> Vec<&'static Isa> {
        #[cfg(target_arch = "x86_64")]
        return vec![&AVX512, &AVX2, &PORTABLE];
        #[cfg(target_arch = "aarch64")]
        return vec![&NEON, &PORTABLE];
    }

    /// All that this CPU has, the best first.
    pub fn available() -> &'static [&'static Isa] {
        static AVAILABLE: OnceLock<Vec<&'static Isa>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            #[allow(unused_mut, reason = "only some architectures add to it")]
            let mut available: Vec<&'static Isa> = vec![&PORTABLE];
            #[cfg(target_arch = "aarch64")]
            available.insert(0, &NEON);
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                    available.insert(0, &AVX2);
                }
                let has_avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw");
                if has_avx512 {
                    available.insert(0, &AVX512);
                }
            }
            available
        })
    }

    /// Runs a loop, compiled with this instruction set.
    #[inline(always)]
    pub(crate) fn run_loop(&self, work: impl Loop) {
        match self.level {
            Level::Portable => work.run(),
            // What every CPU of the architecture has needs no function of its own.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => work.run(),
            // SAFETY: an `Isa` exists only when the CPU has its instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::loop_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::loop_avx512(work) },
        }
    }
}

pub(crate) static PORTABLE: Isa = Isa { name: "portable", level: Level::Portable, gemm: &microkernels::PORTABLE };
#[cfg(target_arch = "aarch64")]
pub(crate) static NEON: Isa = Isa { name: "neon", level: Level::Neon, gemm: &microkernels::NEON };
#[cfg(target_arch = "x86_64")]
pub(crate) static AVX2: Isa = Isa { name: "avx2", level: Level::Avx2, gemm: &microkernels::x86::AVX2 };
#[cfg(target_arch = "x86_64")]
pub(crate) static AVX512: Isa = Isa { name: "avx512", level: Level::Avx512, gemm: &microkernels::x86::AVX512 };

/// Has the matrix registers of AMX count as there from now on, where something else carries out their instructions, as tests do.
///
/// # Safety
/// Whoever calls it carries out these instructions for all threads; and there must be AVX512_BF16 and AVX512_VNNI.
#[cfg(target_arch = "x86_64")]
pub unsafe fn assume_matrix_registers() {
    crate::int8::amx::assume();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
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
}

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    fn an_empty_name_is_that_of_the_best_instruction_set() {
        let available = Isa::available();
        assert_eq!(Isa::named("").map(|isa| isa.name), Some(available[0].name));
        for isa in available {
            assert_eq!(Isa::named(isa.name).map(|found| found.name), Some(isa.name));
        }
        assert!(Isa::named("avx-512").is_none() && Isa::named("reference").is_none());
    }
}
