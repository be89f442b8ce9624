//! What is known of the weights of a model file, by the state of the file: what they hash to, their greatest magnitude, and whether float16 holds
//! the same numbers.
//!
//! A file of the cache has a record of 40 bytes for each part of the model file, all numbers little-endian:
//!
//! ```text
//! 0   where the part begins
//! 8   how many bytes it has
//! 16  its hash, with the secret of the folder
//! 32  the sum of 1 where there is a hash, 2 where there is a magnitude, 4 where it is known of float16, and 8 where float16 holds them
//! 36  the greatest magnitude, of float32
//! ```

use super::{DiskCache, Kind};
use crate::memory::{Finding, Store};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

const RECORD: usize = 40;

/// More parts of a file are not noted.
const MOST: usize = 1 << 16;

const HAS_IDENTITY: u32 = 1;
const HAS_GREATEST: u32 = 2;
const KNOWS_HALVES: u32 = 4;
const ARE_HALVES: u32 = 8;

struct OfFile {
    cache: Arc<DiskCache>,
    key: u128,
}

impl Store for OfFile {
    fn keep(&self, findings: &[Finding]) {
        if (1..=MOST).contains(&findings.len()) {
            self.cache.offer_file(Kind::Findings, self.key, Arc::new(encoded(findings)));
        }
    }
}

impl DiskCache {
    /// What earlier processes have found out about the file in this state, and where more of it is kept.
    pub fn findings_of(self: &Arc<Self>, state: &[u8]) -> (Box<dyn Store>, Vec<Finding>) {
        let mut hash = Xxh3::with_seed(self.secret);
        hash.update(b"findings 2");
        hash.update(state);
        let key = hash.digest128();
        let found = self.open_file(Kind::Findings, key, RECORD..=MOST * RECORD);
        let findings = found.and_then(|file| decoded(file.as_ref())).unwrap_or_default();
        (Box::new(OfFile { cache: self.clone(), key }), findings)
    }
}

fn encoded(findings: &[Finding]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(findings.len() * RECORD);
    for Finding { offset, length, identity, greatest, are_halves } in findings {
        bytes.extend((*offset as u64).to_le_bytes());
        bytes.extend((*length as u64).to_le_bytes());
        bytes.extend(identity.unwrap_or_default().to_le_bytes());
        let has = identity.map_or(0, |_| HAS_IDENTITY) | greatest.map_or(0, |_| HAS_GREATEST);
        let halves = are_halves.map_or(0, |are_halves| KNOWS_HALVES | if are_halves { ARE_HALVES } else { 0 });
        bytes.extend((has | halves).to_le_bytes());
        bytes.extend(greatest.unwrap_or_default().to_le_bytes());
    }
    bytes
}

/// The findings of a file; nothing where it is none of ours.
pub fn decoded(bytes: &[u8]) -> Option<Vec<Finding>> {
    let (records, rest) = bytes.as_chunks::<RECORD>();
    let finding = |record: &[u8; RECORD]| {
        let (offset, rest) = record.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (identity, rest) = rest.split_first_chunk()?;
        let (has, rest) = rest.split_first_chunk()?;
        let has = u32::from_le_bytes(*has);
        let greatest = f32::from_le_bytes(rest.try_into().ok()?);
        Some(Finding {
            offset: u64::from_le_bytes(*offset).try_into().ok()?,
            length: u64::from_le_bytes(*length).try_into().ok()?,
            identity: (has & HAS_IDENTITY != 0).then(|| u128::from_le_bytes(*identity)),
            greatest: (has & HAS_GREATEST != 0).then_some(greatest),
            are_halves: (has & KNOWS_HALVES != 0).then_some(has & ARE_HALVES != 0),
        })
    };
    if rest.is_empty() { records.iter().map(finding).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;
    use std::fs;

    fn findings() -> Vec<Finding> {
        let of = |offset, identity, greatest, are_halves| Finding { offset, length: 7, identity, greatest, are_halves };
        vec![
            of(0, Some(1 << 100), None, None),
            of(1 << 40, None, Some(2.5), Some(true)),
            of(3, Some(4), Some(f32::INFINITY), Some(false)),
            of(9, None, None, None),
        ]
    }

    #[test]
    fn findings_are_read_as_they_were_written() {
        assert_eq!(decoded(&encoded(&findings())), Some(findings()));
        assert_eq!(decoded(&encoded(&findings())[1..]), None);
    }

    #[test]
    fn findings_are_those_of_the_state_of_a_file() {
        let folder = Folder::new("findings");
        let cache = folder.open();
        let (store, before) = cache.findings_of(b"a state");
        assert!(before.is_empty());
        store.keep(&findings());
        cache.finish();
        assert_eq!(folder.open().findings_of(b"a state").1, findings());
        assert!(folder.open().findings_of(b"another").1.is_empty());
        assert_eq!((cache.numbers().written, super::super::files(&folder.0).len()), (0, 1));
        assert!(super::super::check(&folder.0).unwrap().iter().all(|(_, is_whole)| *is_whole));
        // What was changed is not followed, and goes.
        let path = super::super::files(&folder.0).remove(0).path;
        let mut file = fs::read(&path).unwrap();
        file[80] ^= 1;
        fs::write(&path, file).unwrap();
        assert!(folder.open().findings_of(b"a state").1.is_empty());
        assert!(!path.exists());
    }
}
