//! The ids of jobs, and a map from the numbers of tensors and graphs, which every dispatch looks up several times.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A job, by its slot and the number of jobs that had the slot before: the id of a finished job is never another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    pub slot: u32,
    pub generation: u32,
}

pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Numbers that count up are spread by one multiplication. Nobody chooses them, so nobody can make them collide.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio: the upper bits, which choose among neighbours, differ most.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
