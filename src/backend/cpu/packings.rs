//! Packed weights that the graphs of one model share: graphs for inputs of different shapes have the same constants, and mostly want
//! them packed alike.
//!
//! A packing is known by the step that it is for (the implementation, the operator with its attributes, and which constants these are), by
//! how it lies in memory, and by its number among the packings of the step. It is kept for as long as a kernel uses it.

use crate::graph::Shared;
use crate::memory::{Bytes, Charge, Usage, Use};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use xxhash_rust::xxh3::Xxh3;

/// Of one model.
#[derive(Debug, Default)]
pub struct Packings(Mutex<HashMap<Key, Weak<Packed>>>);

/// Memory of a kernel, counted once however many graphs use it.
#[derive(Debug)]
pub struct Packed {
    bytes: Bytes,
    _charge: Option<Charge>,
}

impl Packed {
    /// What is nobody else's, and counted with its kernel.
    pub fn own(bytes: Bytes) -> Packed {
        Packed { bytes, _charge: None }
    }

    pub fn bytes_mut(&mut self) -> &mut Bytes {
        &mut self.bytes
    }
}

impl Deref for Packed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    step: u128,
    number: usize,
    layout: Vec<usize>,
    length: usize,
}

/// The step that kernels are being built for on this thread.
struct Step {
    packings: Arc<Packings>,
    step: u128,
    /// How many packings it has had, and their bytes.
    number: usize,
    counted: usize,
    usage: Arc<Usage>,
}

thread_local!(static STEP: RefCell<Option<Step>> = const { RefCell::new(None) });

/// What a step is to its packings: the implementation, what it computes, and its constants.
pub fn identity<'a>(
    implementation: &str,
    operators: &str,
    constants: impl Iterator<Item = Option<&'a [u8]>>,
    shared: &Shared,
) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(implementation.as_bytes());
    hash.update(&[0]);
    hash.update(operators.as_bytes());
    for constant in constants {
        hash.update(&constant.map_or(0, |bytes| shared.identity(bytes)).to_le_bytes());
    }
    hash.digest128()
}

/// Builds the kernel of a step, whose packings are shared. Beside the result the bytes of these, which are counted here.
pub fn during<R>(packings: &Arc<Packings>, step: u128, usage: &Arc<Usage>, build: impl FnOnce() -> R) -> (R, usize) {
    struct Restore(Option<Step>);
    impl Drop for Restore {
        fn drop(&mut self) {
            STEP.set(self.0.take());
        }
    }
    let own = Step { packings: packings.clone(), step, number: 0, counted: 0, usage: usage.clone() };
    let _restore = Restore(STEP.replace(Some(own)));
    let result = build();
    (result, STEP.with_borrow(|step| step.as_ref().map_or(0, |step| step.counted)))
}

/// Memory of so many bytes that `fill` packs, or that of another graph which has packed the same. `layout` has all numbers beside the
/// constants and the operator's attributes that what is packed depends on.
///
/// # Panics
/// When the memory cannot be had; that ends the build with an error.
pub fn packed(layout: &[usize], length: usize, fill: impl FnOnce(&mut Bytes)) -> Arc<Packed> {
    let key = STEP.with_borrow_mut(|step| {
        let step = step.as_mut()?;
        step.number += 1;
        step.counted += length;
        let key = Key { step: step.step, number: step.number, layout: layout.to_vec(), length };
        Some((step.packings.clone(), step.usage.clone(), key))
    });
    let lock = |packings: &Packings, key: &Key| {
        packings.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).and_then(Weak::upgrade)
    };
    if let Some((packings, _, key)) = &key
        && let Some(found) = lock(packings, key)
    {
        return found;
    }
    let mut bytes = Bytes::beside_others(length).unwrap_or_else(|error| panic!("{error}"));
    fill(&mut bytes);
    let Some((packings, usage, key)) = key else { return Arc::new(Packed::own(bytes)) };
    let mut made = Arc::new(Packed { bytes, _charge: Some(usage.charge(Use::Graphs, length)) });
    {
        let mut all = packings.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        match all.get(&key).and_then(Weak::upgrade) {
            Some(found) => made = found,
            None => drop(all.insert(key, Arc::downgrade(&made))),
        }
        if all.len().is_power_of_two() {
            all.retain(|_, packed| packed.strong_count() > 0);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_alike_is_packed_once() {
        let packings = Arc::new(Packings::default());
        let usage = Arc::new(Usage::default());
        let pack = |step, layout: &[usize], with: u8| {
            let (both, counted) = during(&packings, step, &usage, || {
                let first = packed(layout, 64, |bytes| bytes.fill(with));
                (first, packed(layout, 64, |bytes| bytes.fill(with + 1)))
            });
            assert_eq!(counted, 128);
            both
        };
        let (a, b) = pack(7, &[1, 2], 3);
        assert!(a.iter().all(|&byte| byte == 3) && b.iter().all(|&byte| byte == 4));
        let (again, _) = pack(7, &[1, 2], 9);
        assert!(Arc::ptr_eq(&a, &again));
        assert_eq!(usage.numbers().graphs, 128);
        // Another layout, another step.
        assert!(pack(7, &[1, 3], 9).0.iter().all(|&byte| byte == 9));
        assert!(pack(8, &[1, 2], 9).0.iter().all(|&byte| byte == 9));
        // Nobody keeps what nobody uses, and outside of a step nothing is shared.
        drop((a, again));
        assert!(pack(7, &[1, 2], 11).0.iter().all(|&byte| byte == 11));
        assert!(!Arc::ptr_eq(&packed(&[1], 8, |_| {}), &packed(&[1], 8, |_| {})));
    }

    #[test]
    fn constants_are_known_by_their_place_or_by_what_they_are() {
        let shared = Shared::default();
        let (one, same, other) = (vec![1u8; 100], vec![1u8; 100], vec![2u8; 100]);
        let of = |bytes: &[u8]| identity("gemm", "op", [Some(bytes), None].into_iter(), &shared);
        assert_eq!(of(&one), of(&same));
        assert_ne!(of(&one), of(&other));
        shared.keep(&one);
        assert_ne!(of(&one), of(&same));
        assert_eq!(of(&one), of(&one));
    }
}
