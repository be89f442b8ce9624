//! Memory that a kernel wants for itself while it runs.
//!
//! Where the memory cannot be had the kernel ends by a panic, which becomes an error of the dispatch. The ordinary ways to
//! make a `Vec` would end the process. So everything whose length depends on a tensor's is made here.

use crate::looks::{self, Looking};
use crate::memory::is_at_hand;
use bytemuck::Zeroable;
use bytemuck::allocation::try_zeroed_vec;

/// So many zeros.
///
/// # Panics
/// When the memory cannot be had, as with all functions here.
pub fn zeroed<T: Zeroable>(length: usize) -> Vec<T> {
    require::<T>(length);
    try_zeroed_vec(length).unwrap_or_else(|()| refuse::<T>(length))
}

/// So many copies of a value.
pub fn filled<T: Clone>(value: T, length: usize) -> Vec<T> {
    let mut vector = with_capacity(length);
    for part in looks::parts(length) {
        vector.resize(part.end, value.clone());
    }
    vector
}

/// The elements of an iterator that has so many.
pub fn collected<T>(length: usize, elements: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut vector = with_capacity(length);
    // Without a count a slice is copied as a whole.
    if length <= looks::longest() {
        vector.extend(elements);
    } else {
        vector.extend(elements.into_iter().looking(1));
    }
    vector
}

fn with_capacity<T>(length: usize) -> Vec<T> {
    require::<T>(length);
    let mut vector = Vec::new();
    if vector.try_reserve_exact(length).is_err() {
        refuse::<T>(length);
    }
    vector
}

fn require<T>(length: usize) {
    if !length.checked_mul(size_of::<T>()).is_some_and(is_at_hand) {
        refuse::<T>(length);
    }
}

fn refuse<T>(length: usize) -> ! {
    panic!("cannot allocate {length} times {} bytes", size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn vectors_are_what_was_asked_for() {
        assert_eq!(zeroed::<f32>(3), [0.0; 3]);
        assert_eq!(filled(7, 2), [7, 7]);
        assert_eq!(collected(3, 1..=3), [1, 2, 3]);
        assert!(zeroed::<u8>(0).is_empty());
    }

    #[test]
    fn too_much_is_a_panic_and_not_the_end() {
        for length in [usize::MAX, usize::MAX / 16, 1 << 44] {
            assert!(catch_unwind(|| zeroed::<u64>(length)).is_err());
            assert!(catch_unwind(|| filled(1u64, length)).is_err());
            assert!(catch_unwind(|| collected(length, [1u64])).is_err());
        }
    }
}
