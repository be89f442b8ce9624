//! What the compiler no longer knows, so that it reads or computes it again.
//!
//! What a loop does not change it computes before, and keeps it in registers or, when there are too few, in memory. In a tile,
//! whose sums take all registers, that is what a short one spends much of its time on.
#![allow(unsafe_code)]

/// The same number, of which it does not know what has been computed from it.
#[inline(always)]
pub fn opaque(number: usize) -> usize {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut number = number;
        // SAFETY: there are no instructions in it.
        unsafe { std::arch::asm!("/* {} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags)) };
        number
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    number
}

/// The same place, of which it does not know what has been read from it.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read or written")]
pub fn reloaded<T>(place: &T) -> &T {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut pointer: *const T = place;
        // SAFETY: there are no instructions in it, so the pointer is that of the reference, and lives as long.
        unsafe {
            std::arch::asm!("/* {} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags));
            &*pointer
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    place
}
