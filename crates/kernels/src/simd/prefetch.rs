//! Memory that is brought into the cache before it is needed.
#![allow(unsafe_code)]

use std::ops::Range;

/// Numbers of a line of the cache.
pub const LINE: usize = 16;

/// Brings the line at an address, whichever it is, into the first-level cache (0) or into the second (1).
#[inline(always)]
pub fn fetch<const LEVEL: i32>(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: any address may be asked for; every CPU of the architecture has the instruction.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match LEVEL {
            0 => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            _ => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        match LEVEL {
            0 => std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags)),
            _ => std::arch::asm!("prfm pldl2keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags)),
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Brings the line at an address, whichever it is, into the first-level cache of this core and out of the others': it is about to be
/// written.
#[inline(always)]
pub fn fetch_to_write(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: any address may be asked for; where the instruction does not exist it does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(readonly, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

/// Brings elements into the first-level cache.
pub fn prefetch<T>(elements: &[T], range: Range<usize>) {
    // The last one stands for the line that it lies in.
    let last = range.end.saturating_sub(1);
    for place in range.step_by(LINE * size_of::<f32>() / size_of::<T>()).chain([last]) {
        fetch::<0>(elements.as_ptr().wrapping_add(place).cast());
    }
}
