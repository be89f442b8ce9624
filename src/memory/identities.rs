//! What tells bytes of constants from others: a hash of what they are, which is remembered for memory that stays as it is.

use super::{Place, let_go};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
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

#[derive(Debug)]
struct Range {
    length: usize,
    /// By offset and length.
    known: Mutex<HashMap<(usize, usize), Known>>,
}

/// What was found out about bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// With the seed.
    identity: Option<(u64, u128)>,
    greatest: Option<f32>,
}

/// Says that bytes stay as and where they are until this is dropped.
#[derive(Debug)]
pub struct Kept(usize);

impl Kept {
    /// The memory must not be freed or written to before the result is dropped: otherwise other bytes would be taken for these.
    pub fn new(bytes: &[u8]) -> Kept {
        let start = bytes.as_ptr().addr();
        if !bytes.is_empty() {
            let range = Arc::new(Range { length: bytes.len(), known: Mutex::default() });
            CONSTANT.write().unwrap_or_else(PoisonError::into_inner).insert(start, range);
        }
        Kept(if bytes.is_empty() { 0 } else { start })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        CONSTANT.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Whether bytes are a part of what stays as and where it is.
pub fn is_kept(place: Place) -> bool {
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

fn known(place: Place) -> Option<Known> {
    let (range, offset) = range_of(place)?;
    range.known.lock().unwrap_or_else(PoisonError::into_inner).get(&(offset, place.length)).copied()
}

/// A hash of 128 bits of the bytes: the same for the same bytes wherever they are, in this process, and in those with the same seed.
pub fn identity(bytes: &[u8]) -> u128 {
    let seed = seed();
    let hash = || {
        let mut hash = Xxh3::with_seed(seed);
        hash.update(bytes);
        hash.update(&(bytes.len() as u64).to_le_bytes());
        (seed, hash.digest128())
    };
    remembered(bytes, |known| &mut known.identity, |(of, _)| *of == seed, hash).1
}

/// The greatest magnitude of bytes that are numbers of float32, as `find` finds it.
pub fn greatest(bytes: &[u8], find: impl FnOnce() -> f32) -> f32 {
    remembered(bytes, |known| &mut known.greatest, |_| true, find)
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

    #[test]
    fn what_stays_is_hashed_once() {
        let mut bytes = vec![7u8; 10_000];
        let kept = Kept::new(&bytes);
        let (all, part) = (identity(&bytes), identity(&bytes[100..5000]));
        let range = range_of(Place::of(&bytes[1..])).unwrap().0;
        assert_eq!(range.known.lock().unwrap().len(), 2);
        assert_eq!((identity(&bytes), identity(&bytes[100..5000])), (all, part));
        assert_eq!(range.known.lock().unwrap().len(), 2);
        // Nothing is remembered of what is gone.
        drop(kept);
        bytes[0] = 8;
        assert!(range_of(Place::of(&bytes)).is_none());
        assert_ne!(identity(&bytes), all);
    }
}
