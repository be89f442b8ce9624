//! Where the time of graphs goes: with `WEBNN_PROFILE=1` in the environment each graph says on stderr, when it is let go of,
//! how long each of its steps took. Without it a step costs nothing more.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The times of the steps of one graph.
#[derive(Debug)]
pub struct Profile {
    /// By step: what it is, the shortest time and the sum of all, in nanoseconds.
    steps: Vec<(String, AtomicU64, AtomicU64)>,
    runs: AtomicU64,
}

impl Profile {
    /// For steps of these descriptions, if times are wanted.
    pub fn new(describe: impl FnOnce() -> Vec<String>) -> Option<Profile> {
        static WANTED: OnceLock<bool> = OnceLock::new();
        let is_set = || std::env::var_os("WEBNN_PROFILE").is_some_and(|value| !value.is_empty());
        WANTED.get_or_init(is_set).then(|| {
            let steps = describe().into_iter().map(|name| (name, AtomicU64::new(u64::MAX), AtomicU64::new(0)));
            Profile { steps: steps.collect(), runs: AtomicU64::new(0) }
        })
    }

    /// Adds a remark to the descriptions of some steps.
    pub fn remark(&mut self, remark: &str, applies: impl Fn(usize) -> bool) {
        for (step, (name, ..)) in self.steps.iter_mut().enumerate() {
            if applies(step) {
                let _ = write!(name, ", {remark}");
            }
        }
    }

    /// Notes a run.
    pub fn begin(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the time since then as that of a step, and says when the next one begins.
    pub fn end(&self, step: usize, began: Instant) -> Instant {
        let now = Instant::now();
        let nanoseconds = (now - began).as_nanos() as u64;
        let (_, shortest, sum) = &self.steps[step];
        shortest.fetch_min(nanoseconds, Ordering::Relaxed);
        sum.fetch_add(nanoseconds, Ordering::Relaxed);
        now
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let runs = *self.runs.get_mut();
        if runs == 0 {
            return;
        }
        let mut text = String::new();
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let (mut least, mut whole) = (0, 0);
        for (name, shortest, sum) in &mut self.steps {
            let (shortest, sum) = (*shortest.get_mut(), *sum.get_mut());
            // A step that no run needed.
            let shortest = if shortest == u64::MAX { 0 } else { shortest };
            (least, whole) = (least + shortest, whole + sum / runs);
            let _ = writeln!(text, "{:10.1} {:10.1}  {name}", micros(shortest), micros(sum / runs));
        }
        let _ = writeln!(text, "{:10.1} {:10.1}  all steps", micros(least), micros(whole));
        // Somebody may have closed it.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("webnn-node: {runs} runs; shortest and mean time of each step in microseconds\n{text}").as_bytes(),
        );
    }
}
