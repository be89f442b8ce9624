//! The bytes of models and of their external data, once in the process: those of a file by which file it is and when it was written, those
//! of memory by what they are.

use crate::memory::{Kept, MappedFile, identity};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::hash::Hash;
use std::io;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::SystemTime;

/// Bytes that somebody owns. They stay as and where they are.
struct Content {
    // Before the bytes go it is no longer said that they stay.
    _kept: Kept,
    owner: Box<dyn AsRef<[u8]> + Send + Sync>,
}

impl Content {
    fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Content {
        let owner: Box<dyn AsRef<[u8]> + Send + Sync> = Box::new(owner);
        Content { _kept: Kept::new((*owner).as_ref()), owner }
    }
}

/// A part of it.
struct Owner(Arc<Content>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0.owner).as_ref()
    }
}

/// Which file, and which state of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileState {
    /// Device and number of the file, or its path where the system has none.
    file: FileNumber,
    length: u64,
    written: Option<SystemTime>,
    /// When its content or its description was changed: nobody sets that.
    changed: [i64; 2],
}

#[cfg(unix)]
type FileNumber = [u64; 2];
#[cfg(not(unix))]
type FileNumber = std::path::PathBuf;

impl FileState {
    #[cfg(unix)]
    fn of(_: &Path, metadata: &Metadata) -> io::Result<FileState> {
        use std::os::unix::fs::MetadataExt;
        Ok(FileState {
            file: [metadata.dev(), metadata.ino()],
            length: metadata.len(),
            written: metadata.modified().ok(),
            changed: [metadata.ctime(), metadata.ctime_nsec()],
        })
    }

    #[cfg(not(unix))]
    fn of(path: &Path, metadata: &Metadata) -> io::Result<FileState> {
        let written = metadata.modified().ok();
        Ok(FileState { file: std::fs::canonicalize(path)?, length: metadata.len(), written, changed: [0; 2] })
    }
}

/// What is there, for as long as somebody uses it.
struct Table<K>(Mutex<HashMap<K, Weak<Content>>>);

impl<K: Eq + Hash> Table<K> {
    fn find_or_make<E>(&self, key: K, make: impl FnOnce() -> Result<Content, E>) -> Result<Bytes, E> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let content = match all.get(&key).and_then(Weak::upgrade) {
            Some(found) => found,
            None => {
                let made = Arc::new(make()?);
                all.insert(key, Arc::downgrade(&made));
                if all.len().is_power_of_two() {
                    all.retain(|_, content| content.strong_count() > 0);
                }
                made
            }
        };
        Ok(Bytes::from_owner(Owner(content)))
    }
}

static FILES: LazyLock<Table<FileState>> = LazyLock::new(|| Table(Mutex::default()));
/// By length and what they are.
static IN_MEMORY: LazyLock<Table<(usize, u128)>> = LazyLock::new(|| Table(Mutex::default()));

/// Fewer bytes are not worth being looked for.
const WORTH_SHARING: usize = 64 << 10;

/// A file, mapped. As long as it stays the same it is mapped once.
///
/// # Errors
/// Those of the system.
pub fn of_file(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let state = FileState::of(path, &file.metadata()?)?;
    FILES.find_or_make(state, || Ok(Content::new(MappedFile::new(&file)?)))
}

/// Bytes of a caller, or the same bytes of another one.
pub fn of_memory(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
    let content = bytes.as_ref();
    if content.len() < WORTH_SHARING {
        return Bytes::from_owner(bytes);
    }
    let key = (content.len(), identity(content));
    let found: Result<Bytes, std::convert::Infallible> = IN_MEMORY.find_or_make(key, || Ok(Content::new(bytes)));
    match found {
        Ok(bytes) => bytes,
    }
}

/// The same bytes, if a model or a caller has them. They are looked at only where there are as many.
pub fn find(bytes: &[u8]) -> Option<Bytes> {
    let all = || IN_MEMORY.0.lock().unwrap_or_else(PoisonError::into_inner);
    let are_as_many =
        |((length, _), content): (&(usize, u128), &Weak<Content>)| *length == bytes.len() && content.strong_count() > 0;
    if bytes.len() < WORTH_SHARING || !all().iter().any(are_as_many) {
        return None;
    }
    let key = (bytes.len(), identity(bytes));
    let content = all().get(&key).and_then(Weak::upgrade)?;
    Some(Bytes::from_owner(Owner(content)))
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_file_is_mapped_once_until_it_changes() {
        let path = std::env::temp_dir().join(format!("webnn-node-source-{}", std::process::id()));
        let write = |with: u8| File::create(&path).unwrap().write_all(&[with; 5000]).unwrap();
        write(1);
        let (one, same) = (of_file(&path).unwrap(), of_file(&path).unwrap());
        assert_eq!(one.as_ptr(), same.as_ptr());
        // Another file of that name, as programs that replace a file write it.
        std::fs::remove_file(&path).unwrap();
        write(2);
        let other = of_file(&path).unwrap();
        assert_ne!(one.as_ptr(), other.as_ptr());
        assert_eq!((one[0], other[0]), (1, 2));
        std::fs::remove_file(&path).unwrap();
    }
}
