//! What the C library keeps of what others have given back to it.

/// Gives the system all pages back that hold nothing: glibc by itself does so at the ends of its heaps only. No setting is changed, and nothing that
/// anybody has: what is large is ours and mapped, so this is only for what a GPU's driver in software has compiled, in small blocks. Without
/// it 60 graphs, each run once, left 81 MB behind their context for as long as the process lived; with it 22 (`__tests__/processes/compiled.js
/// run`, Mesa's llvmpipe 22.3.6, Zen 5). A driver of hardware keeps its own memory, and is never a reason to call this.
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
