//! Files that are mapped, and pages of them that nobody needs for now.

use super::Place;
use crate::error::Result;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{PoisonError, RwLock};

/// Where files are mapped: beginnings and lengths.
static MAPPED: RwLock<BTreeMap<usize, usize>> = RwLock::new(BTreeMap::new());

/// The bytes of a file, read only.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// Maps a file, which must not be cut short or written for as long as that lasts: nothing can enforce it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(file: &File) -> std::io::Result<MappedFile> {
        // SAFETY: the mapping is private to us and read only. That nobody cuts the file short meanwhile is asked of whoever names it.
        let map = unsafe { Mmap::map(file) }?;
        if !map.is_empty() {
            MAPPED.write().unwrap_or_else(PoisonError::into_inner).insert(map.as_ptr().addr(), map.len());
        }
        Ok(MappedFile(map))
    }
}

/// Whether memory is a part of a file that is mapped.
pub fn is_mapped(place: Place) -> bool {
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let before = mapped.range(..=place.start).next_back();
    before.is_some_and(|(&start, &length)| place.is_in(Place { start, length }))
}

/// Bytes that may not be as they were written.
pub trait Check {
    /// The bytes as they are: for whoever asks where they are and how many.
    fn unchecked(&self) -> &[u8];

    /// Whether they are as they were written.
    ///
    /// # Errors
    /// When they are not.
    fn check(&self) -> Result<()>;
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // Before others' memory can be there.
        MAPPED.write().unwrap_or_else(PoisonError::into_inner).remove(&self.0.as_ptr().addr());
    }
}

/// Lets the system have the pages that these bytes fill, if they are of a mapped file: nobody is about to read them. Who does all the
/// same gets them from the system's cache of files, or from the disk. Other memory stays as it is.
#[cfg(unix)]
pub fn let_go(place: Place) {
    const PAGE: usize = 4096;
    const MADV_DONTNEED: std::ffi::c_int = 4;
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: std::ffi::c_int) -> std::ffi::c_int;
    }
    let first = place.start;
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let file = mapped.range(..=first).next_back().filter(|(start, length)| first + place.length <= **start + **length);
    let skipped = first.next_multiple_of(PAGE) - first;
    if file.is_none() || place.length < skipped + PAGE {
        return;
    }
    let length = (place.length - skipped) / PAGE * PAGE;
    // SAFETY: whole pages of the bytes, which lie in a file's mapping that is there for as long as the lock is held.
    // Nobody writes to it, so its pages are the file's, and whoever reads them next finds the same bytes. It is allowed to fail, as
    // where pages are larger.
    unsafe { madvise(std::ptr::with_exposed_provenance_mut(first + skipped), length, MADV_DONTNEED) };
}

#[cfg(not(unix))]
pub fn let_go(_: Place) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_pages_of_files_are_let_go() {
        let path = std::env::temp_dir().join(format!("webnn-node-mapped-{}", std::process::id()));
        let all: Vec<u8> = (0..40_000u32).map(|i| i as u8).collect();
        File::create(&path).unwrap().write_all(&all).unwrap();
        let file = MappedFile::new(&File::open(&path).unwrap()).unwrap();
        assert_eq!(file.as_ref(), all);
        assert!(is_mapped(Place::of(&file.as_ref()[5..])) && !is_mapped(Place::of(&all)));
        for range in [0..40_000, 1..39_999, 100..200, 5000..5000] {
            let_go(Place::of(&file.as_ref()[range]));
            assert_eq!(file.as_ref(), all);
        }
        // Memory of ours would be zeros.
        let_go(Place::of(&all));
        assert!(all.iter().enumerate().all(|(i, &byte)| byte == i as u8));
        let start = file.as_ref().as_ptr().addr();
        drop(file);
        assert!(!MAPPED.read().unwrap().contains_key(&start));
        std::fs::remove_file(&path).unwrap();
    }
}
