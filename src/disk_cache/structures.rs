//! The structure of model files, by the state of the file. What is in it is the importer's.

use super::{DiskCache, Kind, Stored};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A larger one is read from the model's file, which takes no longer.
pub const MOST_OF_STRUCTURE: usize = 64 << 20;

impl DiskCache {
    /// Other versions of the package may keep other fields.
    fn key_of_structure(&self, state: &[u8]) -> u128 {
        let mut hash = Xxh3::with_seed(self.secret);
        hash.update(concat!("structure 1 ", env!("CARGO_PKG_VERSION"), " ").as_bytes());
        hash.update(state);
        hash.digest128()
    }

    /// What was kept for the file in this state.
    pub fn structure_of(&self, state: &[u8]) -> Option<Stored> {
        self.open_file(Kind::Structure, self.key_of_structure(state), 1..=MOST_OF_STRUCTURE)
    }

    /// Keeps a structure for later processes.
    pub fn keep_structure(self: &Arc<Self>, state: &[u8], bytes: Vec<u8>) {
        if (1..=MOST_OF_STRUCTURE).contains(&bytes.len()) {
            self.offer_file(Kind::Structure, self.key_of_structure(state), Arc::new(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;

    #[test]
    fn a_structure_is_that_of_the_state_of_a_file() {
        let folder = Folder::new("structures");
        let cache = folder.open();
        assert!(cache.structure_of(b"a state").is_none());
        cache.keep_structure(b"a state", b"structure".to_vec());
        cache.keep_structure(b"another", Vec::new());
        cache.finish();
        let found = |state: &[u8]| folder.open().structure_of(state).map(|found| found.as_ref().to_vec());
        assert_eq!(found(b"a state").as_deref(), Some(&b"structure"[..]));
        assert_eq!((found(b"another"), found(b"a third")), (None, None));
        assert_eq!((cache.numbers().written, super::super::files(&folder.0).len()), (0, 1));
    }
}
