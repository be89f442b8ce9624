//! How many bytes contexts and models hold, by use, and how many they may.

use super::trim::{Gone, note_work};
use crate::error::{Error, Kind, Result};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// What memory is used for (`MLContext.memoryUsage()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Tensors,
    /// Weights as kernels want them.
    Packed,
    /// Parts of files that are mapped: weights from the cache, constants of saved graphs and of models that are to be mapped.
    Mapped,
    /// Constants that steps read as they are, and aligned copies of them.
    Constants,
    /// The bytes of models that are no files.
    Sources,
    /// What describes the steps of graphs.
    Plans,
    /// Memory for the values in between of runs.
    Scratch,
    /// Rows of sequences, and states.
    Caches,
    /// Data of `writeTensor()` that the timeline has not written yet.
    PendingWrites,
    /// What others have, who count it: in no sum.
    Shared,
    /// Threads, and what describes script's objects: not among the numbers that are told, only in a [`Total`].
    Overhead,
}

impl Use {
    /// Whether it is a part of what a context or model holds.
    fn is_held(self) -> bool {
        !matches!(self, Use::Shared | Use::Overhead)
    }
}

const USES: usize = Use::Overhead as usize + 1;

/// How many bytes several [`Usage`]s hold together.
#[derive(Clone, Debug, Default)]
pub struct Total(Arc<AtomicUsize>);

impl Total {
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts bytes for as long as the result lives.
    pub fn hold(&self, bytes: usize) -> Held {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Held { total: self.clone(), bytes }
    }
}

/// Bytes that are counted in a [`Total`] until this is dropped.
#[derive(Debug)]
pub struct Held {
    total: Total,
    bytes: usize,
}

impl Held {
    /// It is so many now.
    pub fn set(&mut self, bytes: usize) {
        self.total.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.total.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a thread is taken to cost: the part of its stack that is used, and what the system keeps for it.
pub const THREAD: usize = 1 << 20;

/// Milliseconds: longer than a pause in the work of a server, short for a program that has gone on to other work.
const IDLE: u64 = 60_000;
const NEVER: u64 = u64::MAX;

/// How many bytes a context, or a model of a context, holds, by use; the most it ever held; and the most it may.
#[derive(Debug)]
pub struct Usage {
    by_use: [AtomicUsize; USES],
    /// All that [is held](Use::is_held).
    total: AtomicUsize,
    peak: AtomicUsize,
    /// `memoryLimit`.
    limit: AtomicUsize,
    /// Milliseconds after which a context's memory for runs goes that no run has used; [`NEVER`] for none.
    idle: AtomicU64,
    /// The context of a model.
    of_context: Option<Arc<Usage>>,
    /// What it is a part of.
    all: OnceLock<Total>,
    _gone: Gone,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage {
            by_use: Default::default(),
            total: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            idle: AtomicU64::new(IDLE),
            of_context: None,
            all: OnceLock::new(),
            _gone: Gone,
        }
    }
}

/// The numbers of a [`Usage`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageNumbers {
    pub tensors: usize,
    pub packed: usize,
    pub mapped: usize,
    pub constants: usize,
    pub sources: usize,
    pub plans: usize,
    pub shared: usize,
    pub scratch: usize,
    pub caches: usize,
    pub pending_writes: usize,
    pub peak: usize,
}

impl Usage {
    /// Of a model, whose bytes are those of its context, too.
    pub fn of_model(context: &Arc<Usage>, limit: Option<usize>) -> Usage {
        note_work();
        Usage { limit: AtomicUsize::new(limit.unwrap_or(usize::MAX)), of_context: Some(context.clone()), ..Usage::default() }
    }

    pub fn numbers(&self) -> UsageNumbers {
        let of = |kind: Use| self.counter(kind).load(Ordering::Relaxed);
        UsageNumbers {
            tensors: of(Use::Tensors),
            packed: of(Use::Packed),
            mapped: of(Use::Mapped),
            constants: of(Use::Constants),
            sources: of(Use::Sources),
            plans: of(Use::Plans),
            shared: of(Use::Shared),
            scratch: of(Use::Scratch),
            caches: of(Use::Caches),
            pending_writes: of(Use::PendingWrites),
            peak: self.peak.load(Ordering::Relaxed),
        }
    }

    fn counter(&self, kind: Use) -> &AtomicUsize {
        &self.by_use[kind as usize]
    }

    /// Is counted in a total, too, from now on. Called once, before anything is charged.
    pub fn is_part_of(&self, total: Total) {
        debug_assert_eq!(self.total.load(Ordering::Relaxed), 0);
        let _ = self.all.set(total);
    }

    /// From now on more bytes are refused. What is there stays.
    pub fn limit_to(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// From now on memory for runs stays for so long where no run uses it; without a time, for as long as its model.
    pub fn keep_idle_for(&self, time: Option<Duration>) {
        let milliseconds = time.map_or(NEVER, |time| time.as_millis().try_into().unwrap_or(NEVER));
        self.idle.store(milliseconds, Ordering::Relaxed);
    }

    /// How long memory for runs of the context stays where no run uses it.
    pub fn idle(&self) -> Option<Duration> {
        let context = self.of_context.as_deref().unwrap_or(self);
        let milliseconds = context.idle.load(Ordering::Relaxed);
        (milliseconds != NEVER).then(|| Duration::from_millis(milliseconds))
    }

    /// Counts bytes that are there already, or that no limit concerns, for as long as the result lives.
    pub fn charge(self: &Arc<Self>, kind: Use, bytes: usize) -> Charge {
        for level in self.levels() {
            level.count(kind, bytes);
        }
        self.charged(kind, bytes)
    }

    /// Counts bytes that are about to be allocated, for as long as the result lives.
    ///
    /// # Errors
    /// `QuotaExceededError` where the context or the model may not hold so many; nothing is counted then.
    pub fn reserve(self: &Arc<Self>, kind: Use, bytes: usize) -> Result<Charge> {
        for (number, level) in self.levels().enumerate() {
            if let Err(error) = level.count_within_limit(kind, bytes) {
                self.levels().take(number).for_each(|counted| counted.uncount(kind, bytes));
                return Err(error);
            }
        }
        self.levels().for_each(Usage::note_peak);
        Ok(self.charged(kind, bytes))
    }

    fn charged(self: &Arc<Self>, kind: Use, bytes: usize) -> Charge {
        let held = self.levels().find_map(|level| level.all.get()).map(|all| all.hold(bytes));
        Charge { usage: self.clone(), kind, bytes, _held: held }
    }

    /// The model, if it is one, and the context.
    fn levels(&self) -> impl Iterator<Item = &Usage> {
        std::iter::successors(Some(self), |usage| usage.of_context.as_deref())
    }

    fn count(&self, kind: Use, bytes: usize) {
        self.counter(kind).fetch_add(bytes, Ordering::Relaxed);
        if kind.is_held() {
            self.total.fetch_add(bytes, Ordering::Relaxed);
            self.note_peak();
        }
    }

    /// Once nothing that was counted is taken back.
    fn note_peak(&self) {
        self.peak.fetch_max(self.total.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn count_within_limit(&self, kind: Use, bytes: usize) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |total: usize| total.checked_add(bytes).filter(|&total| total <= limit);
        match self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => {
                self.counter(kind).fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(total) => {
                let whose = if self.of_context.is_some() { "model" } else { "context" };
                let message = format!(
                    "the memoryLimit of the {whose} is exceeded: {bytes} bytes were asked for, {total} are in use, {limit} are allowed"
                );
                Err(Error::new(Kind::QuotaExceeded, message))
            }
        }
    }

    fn uncount(&self, kind: Use, bytes: usize) {
        self.counter(kind).fetch_sub(bytes, Ordering::Relaxed);
        if kind.is_held() {
            self.total.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes that are counted in a [`Usage`] until this is dropped.
#[derive(Debug)]
pub struct Charge {
    usage: Arc<Usage>,
    kind: Use,
    bytes: usize,
    _held: Option<Held>,
}

/// What counts bytes that others may use, too.
#[derive(Debug)]
pub struct Lending {
    charge: Charge,
    /// Those of others, by whom.
    lent: Mutex<Vec<(Weak<Usage>, Weak<Charge>)>>,
}

impl From<Charge> for Lending {
    fn from(charge: Charge) -> Lending {
        Lending { charge, lent: Mutex::default() }
    }
}

impl Lending {
    /// Counts the bytes as shared for a model that uses them, too, and for its context, as far as these are others: once however many graphs
    /// use them.
    pub fn lend(&self, usage: &Arc<Usage>) -> Vec<Arc<Charge>> {
        let above = |usage: &Arc<Usage>| std::iter::successors(Some(usage.clone()), |usage| usage.of_context.clone());
        let is_own = |level: &Arc<Usage>| above(&self.charge.usage).any(|own| Arc::ptr_eq(&own, level));
        let others = above(usage).filter(|level| !is_own(level));
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.retain(|(_, charge)| charge.strong_count() > 0);
        let charge = |level: Arc<Usage>| {
            let found = lent.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), &raw const *level));
            if let Some(found) = found.and_then(|(_, charge)| charge.upgrade()) {
                return found;
            }
            let bytes = self.charge.bytes;
            level.count(Use::Shared, bytes);
            let of = Arc::downgrade(&level);
            let charge = Arc::new(Charge { usage: level, kind: Use::Shared, bytes, _held: None });
            lent.push((of, Arc::downgrade(&charge)));
            charge
        };
        others.map(charge).collect()
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // Each level has one of its own for what is shared.
        let levels = if self.kind == Use::Shared { 1 } else { usize::MAX };
        self.usage.levels().take(levels).for_each(|level| level.uncount(self.kind, self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_goes_up_and_down() {
        let usage = Arc::new(Usage::default());
        let first = usage.charge(Use::Tensors, 10);
        drop(usage.charge(Use::Packed, 5));
        drop(first);
        assert_eq!(usage.numbers(), UsageNumbers { peak: 15, ..UsageNumbers::default() });
    }

    #[test]
    fn a_total_has_what_all_its_parts_hold() {
        let total = Total::default();
        let parts = [(); 2].map(|()| Arc::new(Usage::default()));
        parts.iter().for_each(|part| part.is_part_of(total.clone()));
        let tensor = parts[0].charge(Use::Tensors, 10);
        let thread = parts[1].charge(Use::Overhead, 300);
        let mut object = total.hold(1000);
        assert_eq!(total.bytes(), 1310);
        assert_eq!(parts[1].numbers(), UsageNumbers::default());
        object.set(2000);
        drop(tensor);
        assert_eq!(total.bytes(), 2300);
        object.set(500);
        assert_eq!(total.bytes(), 800);
        drop((object, thread));
        assert_eq!(total.bytes(), 0);
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_with_numbers_and_less_is_not() {
        let context = Arc::new(Usage::default());
        context.limit_to(100);
        let first = context.reserve(Use::Tensors, 60).unwrap();
        let error = context.reserve(Use::Packed, 41).unwrap_err();
        assert_eq!(error.kind(), Kind::QuotaExceeded);
        let told = "the memoryLimit of the context is exceeded: 41 bytes were asked for, 60 are in use, 100 are allowed";
        assert_eq!(error.message(), told);
        assert!(context.reserve(Use::Packed, usize::MAX).is_err());
        assert_eq!(context.numbers(), UsageNumbers { tensors: 60, peak: 60, ..UsageNumbers::default() });
        let second = context.reserve(Use::Packed, 40).unwrap();
        // What no limit concerns is counted all the same.
        let overhead = context.charge(Use::Overhead, 1000);
        drop((first, overhead));
        assert_eq!(context.numbers(), UsageNumbers { packed: 40, peak: 100, ..UsageNumbers::default() });
        drop(second);
    }

    #[test]
    fn what_others_have_is_counted_as_shared_and_once() {
        let contexts = [(); 2].map(|()| Arc::new(Usage::default()));
        let total = Total::default();
        contexts[1].is_part_of(total.clone());
        let model = |context| Arc::new(Usage::of_model(&contexts[context], None));
        let (owner, beside, other) = (model(0), model(0), model(1));
        let packed = Lending::from(owner.charge(Use::Packed, 100));
        assert!(packed.lend(&owner).is_empty());
        let shared = |usage: &Usage| usage.numbers().shared;
        let lent = [&beside, &other, &other].map(|usage| packed.lend(usage));
        assert_eq!([&owner, &beside, &other].map(|usage| shared(usage)), [0, 100, 100]);
        assert_eq!(contexts.each_ref().map(|usage| shared(usage)), [0, 100]);
        // It is no part of what they hold.
        assert_eq!((other.numbers().peak, total.bytes()), (0, 0));
        drop(packed);
        let [of_beside, first, second] = lent;
        drop(first);
        assert_eq!((shared(&beside), shared(&other)), (100, 100));
        drop((of_beside, second));
        assert_eq!((shared(&beside), shared(&other), shared(&contexts[1])), (0, 0, 0));
    }

    #[test]
    fn a_model_is_counted_with_its_context() {
        let (context, total) = (Arc::new(Usage::default()), Total::default());
        context.is_part_of(total.clone());
        context.limit_to(100);
        let model = Arc::new(Usage::of_model(&context, Some(50)));
        let packed = model.reserve(Use::Packed, 30).unwrap();
        assert!(model.reserve(Use::Scratch, 21).unwrap_err().message().starts_with("the memoryLimit of the model"));
        let tensor = context.reserve(Use::Tensors, 60).unwrap();
        // The model may, the context may not: neither counts it.
        assert!(model.reserve(Use::Scratch, 20).unwrap_err().message().starts_with("the memoryLimit of the context"));
        assert_eq!(model.numbers(), UsageNumbers { packed: 30, peak: 30, ..UsageNumbers::default() });
        assert_eq!(context.numbers(), UsageNumbers { packed: 30, tensors: 60, peak: 90, ..UsageNumbers::default() });
        assert_eq!(total.bytes(), 90);
        drop((packed, tensor));
        assert_eq!((context.numbers().packed, model.numbers().packed, total.bytes()), (0, 0, 0));
        assert_eq!(model.idle(), Some(Duration::from_millis(IDLE)));
        context.keep_idle_for(None);
        assert_eq!(model.idle(), None);
        context.keep_idle_for(Some(Duration::ZERO));
        assert_eq!(model.idle(), Some(Duration::ZERO));
    }
}
