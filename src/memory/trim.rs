//! What the C library keeps of what others have given back to it.

/// Gives the system all pages back that hold nothing: glibc by itself does so at the ends of its heaps only. No setting is changed. Only
/// for what a GPU's driver in software has on the heap: memory of ours that is large is mapped.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: glibc's function has this signature, takes any number, and may be called at any time by any thread.
    unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
