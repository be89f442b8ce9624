//! The bytes of models and of their external data, once in the process: those of a file by which file it is and when it was written, those
//! of memory by what they are.

use crate::disk_cache::DiskCache;
use crate::error::Result;
use crate::memory::{FileBytes, FileState, Immutable, MappedFile, Once, identity, unreadable};
use bytes::Bytes;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Bytes that somebody owns. They stay as and where they are.
struct Content {
    // Before the bytes go it is no longer said that they stay.
    immutable: Immutable,
    owner: Box<dyn AsRef<[u8]> + Send + Sync>,
}

impl Content {
    fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Content {
        let owner: Box<dyn AsRef<[u8]> + Send + Sync> = Box::new(owner);
        // Where they are and how many is all that is asked.
        Content { immutable: Immutable::new((*owner).as_ref()), owner }
    }
}

/// A file, for as long as it is somebody's content.
struct OfFile(Arc<FileBytes>);

impl AsRef<[u8]> for OfFile {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// A part of it.
struct Owner(Arc<Content>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0.owner).as_ref()
    }
}

/// By what state of which file they are, and whether it is mapped.
static FILES: LazyLock<Once<(FileState, bool), Arc<Content>>> = LazyLock::new(Once::default);
/// By length and what they are.
static IN_MEMORY: LazyLock<Once<(usize, u128), Arc<Content>>> = LazyLock::new(Once::default);

/// What tells bytes from all others, also from those that a file has had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// And whether it is mapped.
    File(FileState, bool),
    /// How many, and their hash.
    Memory(usize, u128),
}

impl Origin {
    pub fn of_memory(bytes: &[u8]) -> Origin {
        Origin::Memory(bytes.len(), identity(bytes))
    }

    /// Whether bytes of the same origin are the same.
    pub fn shows_changes(&self) -> bool {
        match self {
            Origin::File(state, _) => state.shows_changes(),
            Origin::Memory(..) => true,
        }
    }
}

/// A file that was just opened.
#[derive(Clone, Debug)]
pub struct Opened {
    pub bytes: Bytes,
    pub origin: Origin,
    /// What tells its state from all others, for later processes, too, where a change would show.
    pub state: Option<Vec<u8>>,
}

/// What an earlier process has found out about the bytes is known, if there is a cache.
fn with_findings(content: Arc<Content>, of: FileState, is_mapped: bool) -> Opened {
    let state = of.lasting();
    if let (Some(cache), Some(state)) = (DiskCache::opened(), &state) {
        content.immutable.remember(|| cache.findings_of(state));
    }
    Opened { bytes: Bytes::from_owner(Owner(content)), origin: Origin::File(of, is_mapped), state }
}

/// Fewer bytes are not worth being looked for.
const WORTH_SHARING: usize = 64 << 10;

/// A file, of which nothing is read yet. As long as it stays the same its bytes are there once. Who looks at them has a
/// [pin](crate::memory::pin).
///
/// # Errors
/// `OperationError` when it cannot be opened; `UnknownError` when the system has no thread to wait for its clock.
pub fn of_file(path: &Path) -> Result<Opened> {
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let state = FileState::of(path, &file)?;
    let new = || Ok(Arc::new(Content::new(OfFile(FileBytes::new(file, path, state.clone())?))));
    FILES.find_or_make((state.clone(), false), new).map(|content| with_findings(content, state, false))
}

/// A file, mapped, which nobody may change as long as somebody has the bytes.
///
/// # Errors
/// As [`of_file`].
pub fn of_mapped_file(path: &Path) -> Result<Opened> {
    let cannot = |error| unreadable(path, error);
    let file = File::open(path).map_err(cannot)?;
    let state = FileState::of(path, &file)?;
    let new = || Ok(Arc::new(Content::new(MappedFile::new(&file).map_err(cannot)?)));
    FILES.find_or_make((state.clone(), true), new).map(|content| with_findings(content, state, true))
}

/// Bytes of a caller, or the same bytes of another one.
pub fn of_memory(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
    let content = bytes.as_ref();
    if content.len() < WORTH_SHARING {
        return Bytes::from_owner(bytes);
    }
    let key = (content.len(), identity(content));
    let found: std::result::Result<_, std::convert::Infallible> =
        IN_MEMORY.find_or_make(key, || Ok(Arc::new(Content::new(bytes))));
    match found {
        Ok(content) => Bytes::from_owner(Owner(content)),
    }
}

/// The same bytes, if a model or a caller has them. They are looked at only where there are as many.
pub fn find(bytes: &[u8]) -> Option<Bytes> {
    if bytes.len() < WORTH_SHARING || !IN_MEMORY.has(|(length, _)| *length == bytes.len()) {
        return None;
    }
    let key = (bytes.len(), identity(bytes));
    IN_MEMORY.find(&key).map(|content| Bytes::from_owner(Owner(content)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Data;
    use std::io::Write;

    #[test]
    fn the_same_bytes_are_kept_once() {
        let bytes = |with: u8| vec![with; WORTH_SHARING];
        let (one, same, other) = (of_memory(bytes(91)), of_memory(bytes(91)), of_memory(bytes(92)));
        assert_eq!(one.as_ptr(), same.as_ptr());
        assert_ne!(one.as_ptr(), other.as_ptr());
        assert_eq!((&one[..], &other[..]), (&bytes(91)[..], &bytes(92)[..]));
        assert_eq!(find(&bytes(91)).map(|found| found.as_ptr()), Some(one.as_ptr()));
        assert!(find(&bytes(93)).is_none() && find(&bytes(91)[1..]).is_none());
        let few = [of_memory(vec![1; 10]), of_memory(vec![1; 10])];
        assert_ne!(few[0].as_ptr(), few[1].as_ptr());
    }

    #[test]
    fn a_file_is_there_once_until_it_changes() {
        let path = std::env::temp_dir().join(format!("webnn-node-source-{}", std::process::id()));
        let write = |with: u8| File::create(&path).unwrap().write_all(&[with; 5000]).unwrap();
        let first = |bytes: &Bytes| Data::from(bytes.clone())[0];
        for open in [of_file, of_mapped_file] {
            write(1);
            let open = || open(&path).unwrap().bytes;
            let (one, same) = (open(), open());
            assert_eq!(one.as_ptr(), same.as_ptr());
            // Another file of that name, as programs that replace a file write it.
            std::fs::remove_file(&path).unwrap();
            write(2);
            let other = open();
            assert_ne!(one.as_ptr(), other.as_ptr());
            assert_eq!((first(&one), first(&other)), (1, 2));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_written_at_once_is_another() {
        let path = std::env::temp_dir().join(format!("webnn-node-written-{}", std::process::id()));
        for with in 1..10 {
            std::fs::write(&path, [with; 5000]).unwrap();
            assert_eq!(Data::from(of_file(&path).unwrap().bytes)[..], [with; 5000]);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
