//! What tells bytes of constants from others: a hash of what they are, which is remembered for memory that stays as it is.

use super::{Place, let_go};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use xxhash_rust::xxh3::Xxh3;

/// Memory that stays as it is, by where it begins.
static CONSTANT: RwLock<BTreeMap<usize, Arc<Range>>> = RwLock::new(BTreeMap::new());

/// Nobody who does not know it can make two constants that are taken for the same. 0 until there is one.
static SEED: AtomicU64 = AtomicU64::new(0);

/// What all hashes that tell constants from others begin with: of the process, or of several that share a cache.
pub fn seed() -> u64 {
    let chosen = |seed: u64| if seed == 0 { Some(RandomState::new().build_hasher().finish() | 1) } else { None };
    SEED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, chosen).ok();
    SEED.load(Ordering::Relaxed)
}

/// Lets the constants of this process be known as those of others are. What was hashed before is hashed again when it is asked for, and
/// what is known by the earlier hash is not found any more.
pub fn set_seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// Shorter bytes are hashed as fast as they are looked up.
const WORTH_REMEMBERING: usize = 1 << 10;

/// Pages of files that were hashed are given back from here on: they are read again when they are packed, or never.
const WORTH_LETTING_GO: usize = 1 << 20;

struct Range {
    length: usize,
    /// By offset and length.
    known: Mutex<HashMap<(usize, usize), Known>>,
    /// Where what is known is kept for later processes.
    store: OnceLock<Box<dyn Store>>,
    /// Whether the store has all.
    is_stored: AtomicBool,
}

/// What was found out about bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// With the seed.
    identity: Option<(u64, u128)>,
    greatest: Option<f32>,
    are_halves: Option<bool>,
}

/// What was found out about a part of memory that stays as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    pub offset: usize,
    pub length: usize,
    /// With [`seed`].
    pub identity: Option<u128>,
    pub greatest: Option<f32>,
    /// Whether float16 holds the same numbers.
    pub are_halves: Option<bool>,
}

/// Where findings are kept.
pub trait Store: Send + Sync {
    fn keep(&self, findings: &[Finding]);
}

/// Has each store keep what was found out since it was last asked to.
pub fn store_findings() {
    let all: Vec<Arc<Range>> = CONSTANT.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
    let seed = seed();
    for range in all {
        let Some(store) = range.store.get() else { continue };
        if range.is_stored.swap(true, Ordering::Relaxed) {
            continue;
        }
        let known = range.known.lock().unwrap_or_else(PoisonError::into_inner);
        let finding = |(&(offset, length), known): (&(usize, usize), &Known)| {
            let identity = known.identity.filter(|(of, _)| *of == seed).map(|(_, identity)| identity);
            Finding { offset, length, identity, greatest: known.greatest, are_halves: known.are_halves }
        };
        let findings: Vec<Finding> = known.iter().map(finding).collect();
        drop(known);
        store.keep(&findings);
    }
}

/// Says that bytes stay as and where they are until this is dropped.
pub struct Immutable {
    start: usize,
    range: Option<Arc<Range>>,
}

impl Immutable {
    /// The memory must not be freed or written to before the result is dropped: otherwise other bytes would be taken for these.
    pub fn new(bytes: &[u8]) -> Immutable {
        if bytes.is_empty() {
            return Immutable { start: 0, range: None };
        }
        let start = bytes.as_ptr().addr();
        let (store, is_stored) = (OnceLock::new(), AtomicBool::new(true));
        let range = Arc::new(Range { length: bytes.len(), known: Mutex::default(), store, is_stored });
        CONSTANT.write().unwrap_or_else(PoisonError::into_inner).insert(start, range.clone());
        Immutable { start, range: Some(range) }
    }

    /// Lets what is found out about the bytes be kept for later processes, and takes over what earlier ones have found out. Only the first
    /// store counts. What is said of other bytes than there are is passed over.
    pub fn remember(&self, store: impl FnOnce() -> (Box<dyn Store>, Vec<Finding>)) {
        let Some(range) = self.range.as_ref().filter(|range| range.store.get().is_none()) else { return };
        let (store, findings) = store();
        let seed = seed();
        let mut known = range.known.lock().unwrap_or_else(PoisonError::into_inner);
        range.is_stored.store(known.is_empty(), Ordering::Relaxed);
        for Finding { offset, length, identity, greatest, are_halves } in findings {
            if offset.checked_add(length).is_some_and(|end| end <= range.length) {
                let known = known.entry((offset, length)).or_default();
                known.identity = identity.map(|identity| (seed, identity)).or(known.identity);
                known.greatest = greatest.or(known.greatest);
                known.are_halves = are_halves.or(known.are_halves);
            }
        }
        drop(known);
        let _ = range.store.set(store);
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        CONSTANT.write().unwrap_or_else(PoisonError::into_inner).remove(&self.start);
    }
}

/// Whether bytes are a part of what stays as and where it is.
pub fn is_immutable(place: Place) -> bool {
    range_of(place).is_some()
}

/// What [`identity`] has found of what lies there, which is not looked at again.
pub fn known_identity(place: Place) -> Option<u128> {
    known(place)?.identity.filter(|(of, _)| *of == seed()).map(|(_, identity)| identity)
}

/// What [`greatest`] has found.
pub fn known_greatest(place: Place) -> Option<f32> {
    known(place)?.greatest
}

/// What [`are_halves`] has found.
pub fn known_halves(place: Place) -> Option<bool> {
    known(place)?.are_halves
}

fn known(place: Place) -> Option<Known> {
    let (range, offset) = range_of(place)?;
    range.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(offset, place.length)).copied()
}

/// A hash of 128 bits of the bytes: the same for the same bytes wherever they are, in this process, and in those with the same seed.
pub fn identity(bytes: &[u8]) -> u128 {
    let seed = seed();
    let hash = || (seed, identity_with(seed, bytes));
    remembered(bytes, |known| &mut known.identity, |(of, _)| *of == seed, hash).1
}

/// The same with any seed. The bytes are looked at, whatever is known of them.
pub fn identity_with(seed: u64, bytes: &[u8]) -> u128 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(bytes);
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.digest128()
}

/// The greatest magnitude of bytes that are numbers of float32, as `find` finds it.
pub fn greatest(bytes: &[u8], find: impl FnOnce() -> f32) -> f32 {
    remembered(bytes, |known| &mut known.greatest, |_| true, find)
}

/// Whether float16 holds the same numbers as bytes that are numbers of float32, as `find` finds it.
pub fn are_halves(bytes: &[u8], find: impl FnOnce() -> bool) -> bool {
    remembered(bytes, |known| &mut known.are_halves, |_| true, find)
}

/// Finds something out about bytes, once where they stay as they are.
fn remembered<T: Copy>(
    bytes: &[u8],
    of: impl Fn(&mut Known) -> &mut Option<T>,
    is_valid: impl Fn(&T) -> bool,
    find: impl FnOnce() -> T,
) -> T {
    let Some((range, offset)) = range_of(Place::of(bytes)).filter(|_| bytes.len() >= WORTH_REMEMBERING) else { return find() };
    let known = || range.known.lock().unwrap_or_else(PoisonError::into_inner);
    let place = (offset, bytes.len());
    if let Some(found) = of(known().entry(place).or_default()).filter(is_valid) {
        return found;
    }
    let found = find();
    if bytes.len() >= WORTH_LETTING_GO {
        let_go(Place::of(bytes));
    }
    *of(known().entry(place).or_default()) = Some(found);
    range.is_stored.store(false, Ordering::Relaxed);
    found
}

/// The memory that these bytes are a part of, and where they begin in it.
fn range_of(place: Place) -> Option<(Arc<Range>, usize)> {
    let first = place.start;
    let all = CONSTANT.read().unwrap_or_else(PoisonError::into_inner);
    let (start, range) = all.range(..=first).next_back()?;
    let offset = first - start;
    (offset + place.length <= range.length).then(|| (range.clone(), offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_known_by_what_they_are() {
        let (one, same) = (vec![1u8; 5000], vec![1u8; 5000]);
        assert_eq!(identity(&one), identity(&same));
        assert_ne!(identity(&one), identity(&one[1..]));
        assert_ne!(identity(&[]), identity(&[0]));
        let mut other = one.clone();
        other[4321] = 2;
        assert_ne!(identity(&one), identity(&other));
    }

    /// Findings, as they were kept last.
    #[derive(Clone, Default)]
    struct Shelf(Arc<Mutex<Option<Vec<Finding>>>>);

    impl Store for Shelf {
        fn keep(&self, findings: &[Finding]) {
            *self.0.lock().unwrap() = Some(findings.to_vec());
        }
    }

    #[test]
    fn what_was_found_out_is_kept_and_taken_over() {
        let (bytes, shelf) = (vec![1u8; 10_000], Shelf::default());
        let place = Place::of(&bytes[100..5000]);
        let immutable = Immutable::new(&bytes);
        immutable.remember(|| (Box::new(shelf.clone()), Vec::new()));
        let found = identity(&bytes[100..5000]);
        greatest(&bytes[100..5000], || 3.0);
        are_halves(&bytes[100..5000], || false);
        store_findings();
        let findings = shelf.0.lock().unwrap().take().unwrap();
        let are_halves = Some(false);
        assert_eq!(findings, [Finding { offset: 100, length: 4900, identity: Some(found), greatest: Some(3.0), are_halves }]);
        // Nothing new is found.
        identity(&bytes[100..5000]);
        store_findings();
        assert!(shelf.0.lock().unwrap().is_none());
        drop(immutable);
        let immutable = Immutable::new(&bytes);
        let outside = [Finding { offset: 1, length: 10_000, ..findings[0] }, Finding { offset: usize::MAX, ..findings[0] }];
        immutable.remember(|| (Box::new(shelf.clone()), [&findings[..], &outside].concat()));
        assert_eq!((known_identity(place), known_greatest(place), known_halves(place)), (Some(found), Some(3.0), Some(false)));
        assert_eq!(range_of(place).unwrap().0.known.lock().unwrap().len(), 1);
        store_findings();
        assert!(shelf.0.lock().unwrap().is_none(), "what was taken over is no finding");
    }

    #[test]
    fn what_stays_is_hashed_once() {
        let mut bytes = vec![7u8; 10_000];
        let immutable = Immutable::new(&bytes);
        let (all, part) = (identity(&bytes), identity(&bytes[100..5000]));
        let range = range_of(Place::of(&bytes[1..])).unwrap().0;
        assert_eq!(range.known.lock().unwrap().len(), 2);
        assert_eq!((identity(&bytes), identity(&bytes[100..5000])), (all, part));
        assert_eq!(range.known.lock().unwrap().len(), 2);
        // Nothing is remembered of what is gone.
        drop(immutable);
        bytes[0] = 8;
        assert!(range_of(Place::of(&bytes)).is_none());
        assert_ne!(identity(&bytes), all);
    }
}
