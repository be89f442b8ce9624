//! The bytes of constants: there from the beginning, or computed when somebody first looks at them.

use crate::error::{Error, Kind, Result, unwound};
use crate::memory::{self, Check, Data, Place, identity};
use std::fmt;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use xxhash_rust::xxh3::Xxh3;

/// The bytes of a constant, shared with whoever made them: copied buffers, a constant tensor, a file, or a computation that has
/// not been done yet, since what is made of it may be there already.
#[derive(Clone)]
pub struct ConstantBytes {
    content: Arc<dyn Content>,
    /// For as long as the model, whoever has the bytes.
    facts: Arc<Facts>,
}

/// What is known of the elements of a constant without looking at them again.
#[derive(Debug, Default)]
pub struct Facts {
    /// See [`ConstantBytes::greatest`].
    greatest: OnceLock<f32>,
}

/// The same for somebody who does not keep them.
#[derive(Clone)]
pub struct WeakBytes {
    content: Weak<dyn Content>,
    facts: Arc<Facts>,
}

trait Content: Send + Sync {
    fn bytes(&self) -> &[u8];

    fn length(&self) -> usize {
        self.bytes().len()
    }

    fn place(&self) -> Place {
        Place::of(self.bytes())
    }

    /// The bytes, of which only what has a pin may be read.
    fn unread(&self) -> &[u8] {
        self.bytes()
    }

    /// The same bytes, which need not be in memory for it; nothing where they are there anyway.
    fn briefly(&self) -> Option<ConstantBytes> {
        None
    }

    /// What tells it from others, of what is computed.
    fn key(&self) -> Option<u128> {
        None
    }

    /// How many computations have to be done, one within the other, before the bytes are there.
    fn depth(&self) -> usize {
        0
    }
}

struct There<T>(T);

impl<T: AsRef<[u8]> + Send + Sync> Content for There<T> {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// What may be in a file. Once somebody has looked at the bytes they stay in memory.
impl Content for Data {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn length(&self) -> usize {
        self.len()
    }

    fn place(&self) -> Place {
        Data::place(self)
    }

    fn unread(&self) -> &[u8] {
        Data::unread(self)
    }

    fn briefly(&self) -> Option<ConstantBytes> {
        Some(ConstantBytes::of_data(self.clone()))
    }
}

/// What is checked when somebody first looks at it.
struct Checked<T> {
    of: T,
    result: OnceLock<Result<()>>,
}

impl<T: Check + Send + Sync> Content for Checked<T> {
    fn bytes(&self) -> &[u8] {
        match self.result.get_or_init(|| self.of.check()) {
            Ok(()) => self.of.unchecked(),
            // As of what cannot be computed.
            Err(error) => resume_unwind(Box::new(error.clone())),
        }
    }

    fn length(&self) -> usize {
        self.of.unchecked().len()
    }

    fn place(&self) -> Place {
        Place::of(self.of.unchecked())
    }
}

/// A part of another one.
struct Slice(ConstantBytes, Range<usize>);

impl Content for Slice {
    fn bytes(&self) -> &[u8] {
        &self.0.as_slice()[self.1.clone()]
    }

    fn length(&self) -> usize {
        self.1.len()
    }

    fn place(&self) -> Place {
        Place { start: self.0.place().start + self.1.start, length: self.1.len() }
    }

    fn briefly(&self) -> Option<ConstantBytes> {
        let whole = self.0.content.briefly()?;
        Some(ConstantBytes::of(Slice(whole, self.1.clone()), Arc::default()))
    }

    fn key(&self) -> Option<u128> {
        let mut hash = Xxh3::with_seed(memory::seed());
        hash.update(&self.0.key()?.to_le_bytes());
        hash.update(&self.1.start.to_le_bytes());
        hash.update(&self.1.end.to_le_bytes());
        Some(hash.digest128())
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }
}

/// Makes the outputs of a node.
type Recipe = Box<dyn FnOnce() -> Result<Vec<ConstantBytes>> + Send>;

struct Computation {
    recipe: Mutex<Option<Recipe>>,
    results: OnceLock<Result<Vec<ConstantBytes>>>,
    depth: usize,
}

/// One of these outputs.
struct Computed {
    of: Arc<Computation>,
    output: usize,
    length: usize,
    key: u128,
}

impl Content for Computed {
    fn bytes(&self) -> &[u8] {
        let results = self.of.results.get_or_init(|| {
            let recipe = self.of.recipe.lock().unwrap_or_else(PoisonError::into_inner).take();
            let lost = || Err(Error::new(Kind::Operation, "a panic ended the computation of a constant"));
            // It may look at bytes that cannot be read.
            recipe.map_or_else(lost, unwound)
        });
        match results {
            Ok(results) => results[self.output].as_slice(),
            // Whoever looks at constants expects no error. What compiles a graph is caught by its `Done`, which makes it one again.
            Err(error) => resume_unwind(Box::new(error.clone())),
        }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn key(&self) -> Option<u128> {
        Some(self.key)
    }

    fn depth(&self) -> usize {
        if self.of.results.get().is_some() { 0 } else { self.of.depth }
    }
}

/// The greatest magnitude; no number where one is none.
pub fn greatest(numbers: impl Iterator<Item = f32>) -> f32 {
    // Magnitudes are in the order of their bits, and after all of them what is no number.
    f32::from_bits(numbers.map(|number| number.abs().to_bits()).fold(0, u32::max))
}

impl ConstantBytes {
    fn of(content: impl Content + 'static, facts: Arc<Facts>) -> Self {
        ConstantBytes { content: Arc::new(content), facts }
    }

    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        ConstantBytes::of(There(bytes), Arc::default())
    }

    /// Bytes that may be in a file: they are read when they are looked at.
    pub fn of_data(data: Data) -> Self {
        ConstantBytes::of(data, Arc::default())
    }

    /// Bytes that are checked when they are first looked at; `greatest` is known of them before, if it is.
    pub fn checked(of: impl Check + Send + Sync + 'static, greatest: Option<f32>) -> Self {
        let facts = Facts::default();
        greatest.into_iter().for_each(|greatest| _ = facts.greatest.set(greatest));
        ConstantBytes::of(Checked { of, result: OnceLock::new() }, Arc::new(facts))
    }

    /// Outputs of a node, of these keys and lengths, which are computed when one of them is first looked at. `depth` is that of what they
    /// are computed from.
    pub fn later(
        outputs: impl IntoIterator<Item = (u128, usize, Arc<Facts>)>,
        depth: usize,
        recipe: impl FnOnce() -> Result<Vec<ConstantBytes>> + Send + 'static,
    ) -> Vec<ConstantBytes> {
        let recipe = Mutex::new(Some(Box::new(recipe) as Recipe));
        let of = Arc::new(Computation { recipe, results: OnceLock::new(), depth: depth + 1 });
        let output = |(output, (key, length, facts))| ConstantBytes::of(Computed { of: of.clone(), output, length, key }, facts);
        outputs.into_iter().enumerate().map(output).collect()
    }

    /// The bytes. Those of a file stay in memory for as long as this constant and its clones: see [`ConstantBytes::briefly`].
    ///
    /// # Panics
    /// With an [`Error`] when they are computed or read only now and that fails.
    pub fn as_slice(&self) -> &[u8] {
        self.content.bytes()
    }

    /// The same constant for somebody who looks at it and drops it: then memory for the bytes of a file is given back, unless others
    /// look at them too.
    pub fn briefly(&self) -> ConstantBytes {
        let facts = self.facts.clone();
        self.content.briefly().map_or_else(|| self.clone(), |brief| brief.with_facts(facts))
    }

    /// Where the bytes are. They are computed if need be, but not read from a file.
    ///
    /// # Panics
    /// With an [`Error`] when they are computed only now and that fails.
    pub fn place(&self) -> Place {
        self.content.place()
    }

    /// The bytes, for somebody who reads only what he has a [pin](crate::memory::pin) of: of a file they are zeros otherwise.
    pub fn unread(&self) -> &[u8] {
        self.content.unread()
    }

    /// How many there are. Nothing is computed.
    pub fn len(&self) -> usize {
        self.content.length()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What tells a computed constant from others of its model: what it is computed from, and how.
    pub fn key(&self) -> Option<u128> {
        self.content.key()
    }

    /// What tells it from others: its key, if it may not be computed yet, or a hash of its bytes, wherever they are in this process.
    pub fn identity(&self) -> u128 {
        let known = self.key().or_else(|| memory::known_identity(self.place()));
        known.unwrap_or_else(|| identity(self.as_slice()))
    }

    /// How many computations have to be done, one within the other, before the bytes are there.
    pub fn depth(&self) -> usize {
        self.content.depth()
    }

    /// Some of the bytes, which stay where they are.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn part(&self, range: Range<usize>) -> ConstantBytes {
        assert!(range.start <= range.end && range.end <= self.len());
        ConstantBytes::of(Slice(self.clone(), range), Arc::default())
    }

    /// The same bytes, with what another graph of the model has found out about them.
    pub fn with_facts(self, facts: Arc<Facts>) -> ConstantBytes {
        ConstantBytes { facts, ..self }
    }

    /// What [`ConstantBytes::greatest`] has found.
    pub fn known_greatest(&self) -> Option<f32> {
        self.facts.greatest.get().copied()
    }

    /// The greatest magnitude of elements of float32; no number where one is none. They are looked at once.
    ///
    /// # Panics
    /// As [`ConstantBytes::as_slice`].
    pub fn greatest(&self) -> f32 {
        *self.facts.greatest.get_or_init(|| {
            if let Some(known) = memory::known_greatest(self.place()) {
                return known;
            }
            let bytes = self.as_slice();
            memory::greatest(bytes, || greatest(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))))
        })
    }

    /// Whether float16 holds the same numbers as elements of float32, as `find` finds it when it is not known.
    ///
    /// # Panics
    /// As [`ConstantBytes::as_slice`].
    pub fn are_halves(&self, find: impl FnOnce(&[u8]) -> bool) -> bool {
        memory::known_halves(self.place()).unwrap_or_else(|| {
            let brief = self.briefly();
            memory::are_halves(brief.as_slice(), || find(brief.as_slice()))
        })
    }
}

impl memory::Reference for ConstantBytes {
    type Weak = WeakBytes;

    fn downgrade(&self) -> WeakBytes {
        WeakBytes { content: Arc::downgrade(&self.content), facts: self.facts.clone() }
    }

    fn upgrade(weak: &WeakBytes) -> Option<ConstantBytes> {
        Some(ConstantBytes { content: weak.content.upgrade()?, facts: weak.facts.clone() })
    }

    fn is_there(weak: &WeakBytes) -> bool {
        weak.content.strong_count() > 0
    }
}

impl fmt::Debug for ConstantBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConstantBytes({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn what_is_computed_later_is_computed_once_when_it_is_looked_at() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let outputs = ConstantBytes::later([(7, 2, Arc::default()), (8, 3, Arc::default())], 0, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(vec![ConstantBytes::new([1, 2]), ConstantBytes::new([3, 4, 5])])
        });
        let part = outputs[1].part(1..3);
        assert_eq!((outputs[0].len(), outputs[1].len(), part.len()), (2, 3, 2));
        assert_eq!((outputs[1].key(), outputs[1].depth(), part.depth()), (Some(8), 1, 1));
        assert!(part.key().is_some_and(|key| key != 8) && part.key() == outputs[1].part(1..3).key());
        assert_ne!(part.key(), outputs[1].part(0..2).key());
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert_eq!((part.as_slice(), outputs[0].as_slice()), (&[4, 5][..], &[1, 2][..]));
        assert_eq!((outputs[1].depth(), count.load(Ordering::Relaxed)), (0, 1));
    }

    #[test]
    fn what_cannot_be_computed_panics_with_the_error() {
        let failing = || Err(Error::new(Kind::Unknown, "no memory"));
        let output = ConstantBytes::later([(1, 4, Arc::default())], 0, failing).remove(0);
        for _ in 0..2 {
            let panic = catch_unwind(AssertUnwindSafe(|| output.as_slice().len())).unwrap_err();
            assert_eq!(panic.downcast_ref::<Error>().unwrap().kind(), Kind::Unknown);
        }
    }
}
