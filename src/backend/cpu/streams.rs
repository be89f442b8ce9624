//! How a context divides its threads among its runs.

/// What is wanted of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Performance {
    /// What waits decides: a lone run has all threads, of several each has a part.
    #[default]
    Adaptive,
    /// Each run has all threads, one run after the other.
    Latency,
    /// As many runs as there are threads, each on one.
    Throughput,
    /// So many runs at a time, each with its part of the threads.
    Streams(usize),
}

/// A context's threads, and what it wants of them.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub threads: usize,
    pub performance: Performance,
}

/// What else there is when a run is about to start.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Cores that nobody uses.
    pub free: usize,
    /// Threads that runs of the context use, and how many runs.
    pub used: usize,
    pub running: usize,
    /// Runs that could start now, with this one.
    pub waiting: usize,
    /// No run is under way, of any context.
    pub is_alone: bool,
    /// The last few runs have waited for each other: whoever asked for the one that has just ended is likely to ask again.
    pub has_company: bool,
}

impl Streams {
    /// How many runs at a time.
    pub fn most(&self) -> usize {
        match self.performance {
            Performance::Adaptive | Performance::Throughput => self.threads,
            Performance::Latency => 1,
            Performance::Streams(streams) => streams.clamp(1, self.threads),
        }
    }

    /// With how many threads a run starts; nothing while it has to wait for those of others.
    pub fn width(&self, now: Surroundings) -> Option<usize> {
        let free = now.free.min(self.threads.saturating_sub(now.used));
        if free == 0 || now.running >= self.most() {
            return None;
        }
        match self.performance {
            Performance::Latency => (now.free >= self.threads).then_some(self.threads),
            Performance::Throughput => Some(1),
            Performance::Streams(_) => Some((free / (self.most() - now.running)).max(1)),
            Performance::Adaptive if now.waiting <= 1 && now.is_alone && now.has_company => Some(free.div_ceil(2)),
            Performance::Adaptive => Some(free.min(now.free / now.waiting.clamp(1, now.free)).max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The widths of so many runs that wait when nothing is under way, each of which stays.
    fn widths(threads: usize, performance: Performance, runs: usize) -> Vec<usize> {
        let streams = Streams { threads, performance };
        let mut widths = Vec::new();
        for waiting in (1..=runs).rev() {
            let used = widths.iter().sum::<usize>();
            let now = Surroundings {
                free: threads - used,
                used,
                running: widths.len(),
                waiting,
                is_alone: used == 0,
                has_company: false,
            };
            let Some(width) = streams.width(now) else { break };
            widths.push(width);
        }
        widths
    }

    #[test]
    fn by_default_what_waits_decides() {
        let of = |threads, runs| widths(threads, Performance::Adaptive, runs);
        assert_eq!([of(1, 3), of(2, 1), of(2, 2), of(2, 9)], [vec![1], vec![2], vec![1, 1], vec![1, 1]]);
        assert_eq!([of(4, 1), of(4, 2), of(4, 3), of(4, 5)], [vec![4], vec![2, 2], vec![1, 1, 2], vec![1; 4]]);
        assert_eq!([of(16, 3), of(16, 5)], [vec![5, 5, 6], vec![3, 3, 3, 3, 4]]);
    }

    #[test]
    fn runs_in_turn_of_two_clients_are_side_by_side() {
        let streams = Streams { threads: 4, performance: Performance::Adaptive };
        let now = Surroundings { free: 4, used: 0, running: 0, waiting: 1, is_alone: true, has_company: true };
        assert_eq!(streams.width(now), Some(2));
        assert_eq!(streams.width(Surroundings { has_company: false, ..now }), Some(4));
        assert_eq!(streams.width(Surroundings { free: 2, used: 2, running: 1, is_alone: false, ..now }), Some(2));
    }

    #[test]
    fn what_is_wanted_is_kept() {
        assert_eq!(widths(4, Performance::Latency, 5), [4]);
        assert_eq!(widths(4, Performance::Throughput, 9), [1; 4]);
        assert_eq!(widths(4, Performance::Throughput, 1), [1]);
        let of = |threads, streams| widths(threads, Performance::Streams(streams), 9);
        assert_eq!(
            [of(4, 1), of(4, 2), of(4, 3), of(4, 4), of(4, 9)],
            [vec![4], vec![2, 2], vec![1, 1, 2], vec![1; 4], vec![1; 4]]
        );
        assert_eq!(widths(4, Performance::Streams(2), 1), [2]);
    }

    #[test]
    fn a_run_for_all_threads_waits_for_those_of_other_contexts() {
        let now = Surroundings { free: 3, used: 0, running: 0, waiting: 1, is_alone: false, has_company: false };
        let of = |performance| Streams { threads: 4, performance }.width(now);
        assert_eq!([of(Performance::Latency), of(Performance::Adaptive)], [None, Some(3)]);
        assert_eq!([of(Performance::Throughput), of(Performance::Streams(2))], [Some(1), Some(1)]);
    }
}
