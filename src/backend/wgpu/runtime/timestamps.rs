//! When the steps of a run begin and end on the device, for whoever wants to know. Each step has a pass of its own then, since a device tells the times
//! of passes (`TIMESTAMP_QUERY`).

use super::loss::lock;
use crate::backend::wgpu::gpu_program::ProgramStep;
use crate::watch::{DoneStep, StepNumber, Watch};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wgpu::{BufferDescriptor, BufferUsages, ComputePassTimestampWrites, QuerySet, QuerySetDescriptor, QueryType};

/// Steps whose times are in one set of queries.
const STEPS: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;
/// Bytes of the times of a step, when it begins and when it ends.
const EACH: usize = 2 * wgpu::QUERY_SIZE as usize;

/// The track of a device in traces.
const TRACK: &str = "GPU";

/// Where a device puts the times of a run, while that is recorded.
pub struct Queries {
    sets: Vec<QuerySet>,
    /// The number of each step, in the order of the passes.
    steps: Vec<usize>,
}

impl Queries {
    /// For so many passes.
    pub fn new(device: &wgpu::Device, passes: usize) -> Queries {
        let count = |first: usize| 2 * (passes - first).min(STEPS) as u32;
        let set =
            |first| device.create_query_set(&QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: count(first) });
        Queries { sets: (0..passes).step_by(STEPS).map(set).collect(), steps: Vec::new() }
    }

    /// What the next pass, which is that of a step, has to write.
    pub fn next(&mut self, step: usize) -> ComputePassTimestampWrites<'_> {
        let number = self.steps.len();
        self.steps.push(step);
        let first = 2 * (number % STEPS) as u32;
        ComputePassTimestampWrites {
            query_set: &self.sets[number / STEPS],
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        }
    }

    /// Has the times copied to where the host can read them, behind the last pass.
    pub fn finish(
        self,
        device: &wgpu::Device,
        encoder: &mut wgpu::CommandEncoder,
        of: (Arc<[ProgramStep]>, Watch),
    ) -> Timestamps {
        let Queries { sets, steps } = self;
        let size = (steps.len() * EACH) as u64;
        let buffer = |usage| device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let resolved = buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        for (set, first) in sets.iter().zip((0..steps.len()).step_by(STEPS)) {
            let count = 2 * (steps.len() - first).min(STEPS) as u32;
            encoder.resolve_query_set(set, 0..count, &resolved, (first * EACH) as u64);
        }
        let staging = buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        encoder.copy_buffer_to_buffer(&resolved, 0, &staging, 0, size);
        let (all, watch) = of;
        Timestamps { staging, steps, all, watch }
    }
}

/// The times of a run that is submitted.
pub struct Timestamps {
    staging: wgpu::Buffer,
    /// The numbers of the steps that have been recorded.
    steps: Vec<usize>,
    all: Arc<[ProgramStep]>,
    watch: Watch,
}

impl Timestamps {
    /// Tells the watch when it is known, and then calls back. The run has been submitted.
    pub fn bring(self, clock: &Arc<Clock>, submitted: Instant, then: impl FnOnce() + Send + 'static) {
        let (staging, clock) = (self.staging.clone(), clock.clone());
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            // Of a device that was lost nothing is known.
            if let Some(view) = result.ok().and_then(|()| self.staging.get_mapped_range(..).ok()) {
                self.note(&clock, submitted, &view);
            }
            then();
        });
    }

    fn note(&self, clock: &Clock, submitted: Instant, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        let ticks: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (Some(&first), Some(&last)) = (ticks.first(), ticks.last()) else { return };
        let zero = clock.zero(submitted, first, last, Instant::now());
        let graph = self.watch.graph();
        for (&number, times) in self.steps.iter().zip(ticks.chunks_exact(2)) {
            let ProgramStep { operator, label, description } = &self.all[number];
            let [began, ended] = [times[0], times[1].max(times[0])].map(|ticks| clock.time(ticks, zero));
            let number = StepNumber { graph, step: number };
            let (operator, label, thread) = ((*operator).into(), label.clone(), TRACK.to_owned());
            let step = DoneStep { operator, label, number, began, ended, thread };
            self.watch.note(step, description.clone());
        }
    }
}

/// The time of a device, beside that of the host.
#[derive(Debug)]
pub struct Clock {
    /// Nanoseconds of a tick.
    period: f64,
    origin: Instant,
    /// What [`Clock::zero`] was last.
    known: Mutex<Option<f64>>,
}

impl Clock {
    pub fn new(period: f32) -> Clock {
        Clock { period: f64::from(period), origin: Instant::now(), known: Mutex::default() }
    }

    fn nanoseconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.period
    }

    fn since(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.origin).as_nanos() as f64
    }

    /// What has to be added to the device's nanoseconds to have those since the origin. A run begins on the device after it was submitted, and at
    /// once on one that had nothing to do; it has ended before the host hears of that.
    fn zero(&self, submitted: Instant, first: u64, last: u64, heard: Instant) -> f64 {
        let (least, most) = (self.since(submitted) - self.nanoseconds(first), self.since(heard) - self.nanoseconds(last));
        let mut known = lock(&self.known);
        let zero = known.map_or(least, |known| known.max(least)).min(most);
        *known = Some(zero);
        zero
    }

    fn time(&self, ticks: u64, zero: f64) -> Instant {
        self.origin + Duration::from_nanos((self.nanoseconds(ticks) + zero).max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_device_lie_between_submission_and_end() {
        let clock = Clock::new(2.0);
        let at = |micros| clock.origin + Duration::from_micros(micros);
        // The first run waits on the device for 30 µs until something else has ended; ticks are 2 ns, from 1 s on.
        let tick = |micros: u64| 500_000_000 + micros * 500;
        let zero = clock.zero(at(100), tick(130), tick(150), at(200));
        assert_eq!([130, 150].map(|micros| clock.time(tick(micros), zero)), [at(100), at(120)]);
        // The next one does not, which tells more of the first one's time than that itself.
        let zero = clock.zero(at(300), tick(300), tick(320), at(400));
        assert_eq!([300, 320].map(|micros| clock.time(tick(micros), zero)), [at(300), at(320)]);
        let zero = clock.zero(at(500), tick(530), tick(540), at(600));
        assert_eq!([530, 540].map(|micros| clock.time(tick(micros), zero)), [at(530), at(540)]);
        // A device whose clock runs too fast is not believed that a run ends after that was heard.
        let zero = clock.zero(at(700), tick(790), tick(800), at(790));
        assert_eq!(clock.time(tick(800), zero), at(790));
    }
}
