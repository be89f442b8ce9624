//! For how long a thread with nothing to do stays awake.

use crate::cores;
use std::time::{Duration, Instant};

/// Who asks after so long often pauses again: to look for more would only burn the processor.
const PAUSE: Duration = Duration::from_millis(2);

/// Watching for more work for a moment before the thread goes to sleep: to wake it takes about as long, and whoever asked
/// for something small often asks for more at once. Longer where that has just been so: results have to reach script, and
/// the next inputs have to be copied. A thread that nothing is asked of sleeps, and so does one that had slept for long before
/// what it was last asked for. While runs keep all cores busy it sleeps too: of the time of 16 clients' runs on two cores looking
/// took 4 % (Zen 4, 64 us of the processor for each run of 1.2 ms).
pub struct SpinWait {
    for_up_to: Duration,
    has_own_core: bool,
    shortly: Duration,
    longer: Duration,
}

impl SpinWait {
    /// With a core that is not busy with runs while these are under way, or without.
    pub fn new(has_own_core: bool) -> Self {
        // With one core whoever could ask for more would be kept from it.
        let alone = cores::count() == 1;
        let [shortly, longer] = if alone { [0, 0] } else { [50, 200] }.map(Duration::from_micros);
        SpinWait { for_up_to: shortly, has_own_core, shortly, longer }
    }

    /// Whether work comes while the thread stays awake; runs may be under way meanwhile.
    pub fn finds(&mut self, are_under_way: bool, there_is_work: impl Fn() -> bool) -> bool {
        if are_under_way && !self.has_own_core {
            return false;
        }
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
    fn beside_runs_that_keep_all_cores_busy_it_does_not_look() {
        for (are_under_way, has_own_core) in [(true, true), (false, true), (false, false)] {
            let looks = cores::count() > 1;
            assert_eq!(SpinWait::new(has_own_core).finds(are_under_way, || true), looks);
        }
        assert!(!SpinWait::new(false).finds(true, || panic!("it looks")));
    }

    #[test]
    fn after_a_pause_it_does_not_look() {
        let minute = Duration::from_secs(60);
        let mut spin_wait = SpinWait { for_up_to: minute, has_own_core: true, shortly: minute, longer: minute };
        assert!(spin_wait.finds(false, || true));
        // While work was under way it is no pause.
        let asleep = spin_wait.sleeps(false);
        assert!(asleep.is_none());
        spin_wait.wakes(asleep);
        assert!(spin_wait.finds(false, || true));
        let asleep = spin_wait.sleeps(true).and_then(|since| since.checked_sub(PAUSE));
        assert!(asleep.is_some());
        spin_wait.wakes(asleep);
        assert!(!spin_wait.finds(false, || panic!("it looks")));
        // What came then may be followed by more at once.
        assert!(spin_wait.finds(false, || true));
    }
}
