//! What the C library does with memory that it is given back.

/// Has glibc keep what results were in for the next ones.
///
/// It asks the system for each block of 128 KiB and more, and gives it back, until it was given back a larger one: blocks of up
/// to that size come from its heap from then on, of which it keeps twice as much. When script's garbage is collected the results of
/// many runs are given back at once, more than it would keep, and those of the next runs are in new pages, 0.7 us for each.
/// One block of the largest size, which nobody touches, makes it keep up to 64 MiB. Bounds that a process has set itself
/// (`MALLOC_MMAP_THRESHOLD_`, `mallopt`) stay as they are.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_freed() {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::Once;

    /// Blocks of more than 32 MiB, its own bookkeeping included, change nothing.
    const LARGEST: Layout = Layout::new::<[u64; ((32 << 20) - (16 << 10)) / 8]>();
    static ONCE: Once = Once::new();

    ONCE.call_once(|| {
        // SAFETY: the layout's size is not zero.
        let block = std::hint::black_box(unsafe { System.alloc(LARGEST) });
        if !block.is_null() {
            // SAFETY: it was just allocated with this layout, and nobody else has it.
            unsafe { System.dealloc(block, LARGEST) };
        }
    });
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_freed() {}

/// Gives the system all pages back that hold nothing: glibc by itself does so at the ends of its heaps only.
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

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// Set for the process that measures.
    const ALONE: &str = "WEBNN_TEST_FREED";

    /// How often this thread has used a page for the first time.
    fn faults() -> usize {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        // The name, in brackets, may have spaces in it; the number is the tenth field.
        let fields = stat.rsplit(')').next().expect("a name").split_whitespace();
        fields.skip(7).map(|field| field.parse().expect("a number")).next().expect("ten fields")
    }

    /// Fills many blocks, all at once, as results are until garbage is collected.
    fn fill() {
        let blocks: Vec<Vec<u8>> = (1..=24u8).map(|number| std::hint::black_box(vec![number; 1 << 20])).collect();
        assert!(blocks.iter().all(|block| block[block.len() - 1] > 0));
    }

    /// In a process of its own: other tests' threads would take blocks from the heap of the one that measures.
    #[test]
    fn what_is_given_back_is_used_again() {
        if std::env::var_os(ALONE).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().expect("Linux has it"));
            let name = concat!(module_path!(), "::what_is_given_back_is_used_again").split_once("::").expect("a crate").1;
            let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().expect("a process starts");
            let told = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        keep_freed();
        fill();
        let before = faults();
        fill();
        let new = faults() - before;
        assert!(new < 24 * 256 / 4, "{new} of {} pages are new", 24 * 256);
    }
}
