//! Where the time of graphs goes: with `WEBNN_PROFILE=1` in the environment each graph says on stderr, when it is let go of,
//! what computed each of its steps and how long that took. Without it a step costs nothing more.

use crate::watch::Description;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The times of the steps of one graph.
#[derive(Debug)]
pub struct Profile {
    steps: Vec<Step>,
    runs: AtomicU64,
}

#[derive(Debug)]
struct Step {
    description: Description,
    /// Nanoseconds.
    shortest: AtomicU64,
    sum: AtomicU64,
}

impl Profile {
    /// Whether times are wanted.
    pub fn is_wanted() -> bool {
        static WANTED: OnceLock<bool> = OnceLock::new();
        *WANTED.get_or_init(|| std::env::var_os("WEBNN_PROFILE").is_some_and(|value| !value.is_empty()))
    }

    /// For steps of these descriptions.
    pub fn of(descriptions: Vec<Description>) -> Profile {
        let step = |description| Step { description, shortest: AtomicU64::new(u64::MAX), sum: AtomicU64::new(0) };
        Profile { steps: descriptions.into_iter().map(step).collect(), runs: AtomicU64::new(0) }
    }

    /// Notes a run.
    pub fn begin(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a step took so long.
    pub fn took(&self, step: usize, time: Duration) {
        let nanoseconds = time.as_nanos() as u64;
        let step = &self.steps[step];
        step.shortest.fetch_min(nanoseconds, Ordering::Relaxed);
        step.sum.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// A line for each step: shortest and mean time, the share of the mean, the rate of the shortest, the implementation, the
    /// operators.
    fn table(&self) -> String {
        let runs = self.runs.load(Ordering::Relaxed).max(1);
        let times: Vec<(u64, u64)> = self
            .steps
            .iter()
            .map(|step| {
                // A step that no run needed has none.
                let shortest = Some(step.shortest.load(Ordering::Relaxed)).filter(|&shortest| shortest != u64::MAX);
                (shortest.unwrap_or(0), step.sum.load(Ordering::Relaxed) / runs)
            })
            .collect();
        let (least, whole) = times.iter().fold((0, 0), |(least, whole), (shortest, mean)| (least + shortest, whole + mean));
        let micros = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let mut text = format!("webnn-node: {runs} runs; of each step in microseconds:\n");
        let _ = writeln!(text, "  shortest       mean  share           rate  implementation              step");
        for (step, (shortest, mean)) in self.steps.iter().zip(times) {
            let share = 100.0 * mean as f64 / whole.max(1) as f64;
            let rate = rate(&step.description, shortest);
            let (shortest, mean) = (micros(shortest), micros(mean));
            let Description { text: what, implementation, .. } = &step.description;
            let _ = writeln!(text, "{shortest:10.1} {mean:10.1} {share:5.1}% {rate:>14}  {implementation:26}  {what}");
        }
        let _ = writeln!(text, "{:10.1} {:10.1}  all steps", micros(least), micros(whole));
        text
    }
}

/// What a step does in so many nanoseconds: operations where it multiplies much for each byte, bytes elsewhere.
fn rate(description: &Description, nanoseconds: u64) -> String {
    if nanoseconds == 0 {
        return String::new();
    }
    // In one nanosecond one unit is 10^9 in a second.
    let of_each = |units: usize| units as f64 / nanoseconds as f64;
    if description.multiplications > 2 * description.bytes / size_of::<f32>() {
        format!("{:.1} GFLOP/s", of_each(2 * description.multiplications))
    } else {
        format!("{:.1} GB/s", of_each(description.bytes))
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if *self.runs.get_mut() > 0 {
            // Somebody may have closed it.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), self.table().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_names_shares_and_rates() {
        let description = |text: &str, implementation: &'static str, multiplications, bytes| Description {
            text: text.to_owned(),
            implementation: implementation.into(),
            multiplications,
            bytes,
            ..Description::default()
        };
        let profile = Profile::of(vec![
            description("conv2d [1,2] -> [1,2]", "conv.pointwise", 3_000_000, 1000),
            description("relu [4] -> [4]", "elementwise.chain", 0, 50_000),
            description("identity [4] -> [4]", "reference", 0, 32),
        ]);
        for (conv, relu) in [(100_000, 10_000), (200_000, 90_000)] {
            profile.begin();
            profile.took(0, Duration::from_nanos(conv));
            profile.took(1, Duration::from_nanos(relu));
        }
        let table = profile.table();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["100.0", "150.0", "75.0%", "60.0", "GFLOP/s", "conv.pointwise", "conv2d", "[1,2]", "->", "[1,2]"]);
        assert_eq!(lines[3], ["10.0", "50.0", "25.0%", "5.0", "GB/s", "elementwise.chain", "relu", "[4]", "->", "[4]"]);
        assert_eq!(lines[4], ["0.0", "0.0", "0.0%", "reference", "identity", "[4]", "->", "[4]"]);
        assert_eq!(lines[5], ["110.0", "200.0", "all", "steps"]);
        profile.runs.store(0, Ordering::Relaxed);
    }
}
