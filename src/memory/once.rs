//! What is there once, for as long as somebody has it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What can be referred to without keeping it.
pub trait Reference: Clone {
    type Weak;

    fn downgrade(&self) -> Self::Weak;
    /// What is referred to, if somebody has it.
    fn upgrade(weak: &Self::Weak) -> Option<Self>;
    fn is_there(weak: &Self::Weak) -> bool;
}

impl<T: ?Sized> Reference for Arc<T> {
    type Weak = Weak<T>;

    fn downgrade(&self) -> Weak<T> {
        Arc::downgrade(self)
    }

    fn upgrade(weak: &Weak<T>) -> Option<Arc<T>> {
        weak.upgrade()
    }

    fn is_there(weak: &Weak<T>) -> bool {
        weak.strong_count() > 0
    }
}

/// Values by what they are. The table keeps none of them, and forgets those that nobody has as it grows.
pub struct Once<K, V: Reference>(Mutex<HashMap<K, V::Weak>>);

impl<K, V: Reference> Default for Once<K, V> {
    fn default() -> Self {
        Once(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Reference> Once<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, V::Weak>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, if somebody has it.
    pub fn find(&self, key: &K) -> Option<V> {
        V::upgrade(self.lock().get(key)?)
    }

    /// Whether somebody has a value whose key is such.
    pub fn has(&self, is_such: impl Fn(&K) -> bool) -> bool {
        self.lock().iter().any(|(key, weak)| is_such(key) && V::is_there(weak))
    }

    /// The value that somebody has, if it fits, or else this one, which others find from here on.
    pub fn keep(&self, key: K, new: V, fits: impl FnOnce(&V) -> bool) -> V {
        let mut all = self.lock();
        match all.get(&key).and_then(V::upgrade).filter(fits) {
            Some(found) => found,
            None => insert(&mut all, key, new),
        }
    }

    /// The value that somebody has, or a new one. Nobody finds or makes another one meanwhile.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn find_or_make<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let mut all = self.lock();
        match all.get(&key).and_then(V::upgrade) {
            Some(found) => Ok(found),
            None => make().map(|new| insert(&mut all, key, new)),
        }
    }
}

fn insert<K: Eq + Hash, V: Reference>(all: &mut HashMap<K, V::Weak>, key: K, new: V) -> V {
    all.insert(key, new.downgrade());
    if all.len().is_power_of_two() {
        all.retain(|_, weak| V::is_there(weak));
    }
    new
}

impl<K, V: Reference> std::fmt::Debug for Once<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_while_somebody_has_them() {
        let once = Once::<u32, Arc<u32>>::default();
        let new = |value: u32| once.find_or_make(1, || Ok::<_, ()>(Arc::new(value))).unwrap();
        let (first, second) = (new(5), new(6));
        assert!(Arc::ptr_eq(&first, &second) && *first == 5 && once.has(|key| *key == 1));
        assert!(Arc::ptr_eq(&once.keep(1, Arc::new(7), |_| true), &first));
        assert_eq!(once.find_or_make(2, || Err("no")), Err("no"));
        // One that does not fit is replaced.
        let third = once.keep(1, Arc::new(8), |found| **found == 8);
        assert_eq!((*third, once.find(&1).map(|found| *found)), (8, Some(8)));
        drop((first, second, third));
        assert!(once.find(&1).is_none() && !once.has(|_| true));
        (0..100).for_each(|key| _ = once.keep(key, Arc::new(key), |_| true));
        assert!(once.lock().len() < 64, "what nobody has is forgotten");
    }
}
