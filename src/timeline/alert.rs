//! For how long a thread with nothing to do stays awake.

use std::time::{Duration, Instant};

/// Who asks after so long often pauses again: to look for more would only burn the processor.
const PAUSE: Duration = Duration::from_millis(2);

/// Watching for more work for a moment before the thread goes to sleep: to wake it takes about as long, and whoever asked
/// for something small often asks for more at once. Longer where that has just been so: results have to reach script, and
/// the next inputs have to be copied. A thread that nothing is asked of sleeps, and so does one that had slept for long before
/// what it was last asked for.
pub struct Alert {
    for_up_to: Duration,
    shortly: Duration,
    longer: Duration,
}

impl Alert {
    pub fn new() -> Self {
        // With one core whoever could ask for more would be kept from it.
        let alone = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
        let [shortly, longer] = if alone { [0, 0] } else { [50, 200] }.map(Duration::from_micros);
        Alert { for_up_to: shortly, shortly, longer }
    }

    /// Whether work comes while the thread stays awake.
    pub fn finds(&mut self, there_is_work: impl Fn() -> bool) -> bool {
        let found = self.looks_until(there_is_work);
        self.for_up_to = if found { self.longer } else { self.shortly };
        found
    }

    /// When it went to sleep, if all work was done by then.
    pub fn sleeps(&self, all_is_done: bool) -> Option<Instant> {
        all_is_done.then(Instant::now)
    }

    /// Something is asked of it.
    pub fn wakes(&mut self, asleep: Option<Instant>) {
        if asleep.is_some_and(|since| since.elapsed() >= PAUSE) {
            self.for_up_to = Duration::ZERO;
        }
    }

    fn looks_until(&self, there_is_work: impl Fn() -> bool) -> bool {
        if self.for_up_to.is_zero() {
            return false;
        }
        let start = Instant::now();
        loop {
            // Looking must not take long itself: whoever asked goes to sleep soon, and to wake it takes longest of all.
            for _ in 0..16 {
                if there_is_work() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if start.elapsed() >= self.for_up_to {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_it_does_not_look() {
        let minute = Duration::from_secs(60);
        let mut alert = Alert { for_up_to: minute, shortly: minute, longer: minute };
        assert!(alert.finds(|| true));
        // While work was under way it is no pause.
        let asleep = alert.sleeps(false);
        assert!(asleep.is_none());
        alert.wakes(asleep);
        assert!(alert.finds(|| true));
        let asleep = alert.sleeps(true).and_then(|since| since.checked_sub(PAUSE));
        assert!(asleep.is_some());
        alert.wakes(asleep);
        assert!(!alert.finds(|| panic!("it looks")));
        // What came then may be followed by more at once.
        assert!(alert.finds(|| true));
    }
}
