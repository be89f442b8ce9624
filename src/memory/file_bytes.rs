//! The bytes of a file in memory of ours: read when they are needed, given back to the system when they are not.
//!
//! A file that others change cannot hurt: what is in memory stays as it was read, and what is read later is compared with what the file
//! was. Memory is divided into blocks. A [`Pin`] says that somebody reads some of them; a block without pins may be absent.

use super::{cannot_be_had, filled, is_at_hand};
use crate::error::{Error, Kind, Result};
use crate::runtime;
use memmap2::{MmapMut, MmapOptions};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_64;

/// A multiple of every system's pages but the largest, where nothing is given back.
const BLOCK: usize = 16 << 10;

/// Pins of fewer bytes leave their blocks in memory.
pub const WORTH_GIVING_BACK: usize = 64 << 10;

/// The runtime reads as many bytes at once.
const PIECE: usize = 1 << 20;

/// Systems note the time of a change no more exactly than this. A file that was changed so lately may change again and look the same.
const CLOCK: Duration = Duration::from_millis(20);

/// The coarsest times of file systems are so far apart.
#[cfg(unix)]
const COARSE_CLOCK: Duration = Duration::from_secs(2);

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub start: usize,
    pub length: usize,
}

impl Place {
    /// Nothing is read.
    pub fn of(bytes: &[u8]) -> Place {
        Place { start: bytes.as_ptr().addr(), length: bytes.len() }
    }

    /// Whether it is a part of the other one.
    pub fn is_in(self, other: Place) -> bool {
        self.start >= other.start && self.length <= other.length && self.start - other.start <= other.length - self.length
    }
}

/// Which file, and which state of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    /// Device and number of the file, or its path where the system has none.
    file: FileNumber,
    pub length: u64,
    written: Option<SystemTime>,
    /// When its content or its description was changed: nobody sets that.
    changed: [i64; 2],
    /// How many names it has.
    names: u64,
}

#[cfg(unix)]
type FileNumber = [u64; 2];
#[cfg(not(unix))]
type FileNumber = PathBuf;

impl FileState {
    #[cfg(unix)]
    fn new(_: &Path, metadata: &Metadata) -> io::Result<FileState> {
        use std::os::unix::fs::MetadataExt;
        Ok(FileState {
            file: [metadata.dev(), metadata.ino()],
            length: metadata.len(),
            written: metadata.modified().ok(),
            changed: [metadata.ctime(), metadata.ctime_nsec()],
            names: metadata.nlink(),
        })
    }

    #[cfg(not(unix))]
    fn new(path: &Path, metadata: &Metadata) -> io::Result<FileState> {
        let written = metadata.modified().ok();
        Ok(FileState { file: std::fs::canonicalize(path)?, length: metadata.len(), written, changed: [0; 2], names: 1 })
    }

    /// The state of an open file, as soon as a later change would show in it.
    ///
    /// # Errors
    /// Those of the system, and of a runtime that cannot be had.
    pub fn of(path: &Path, file: &File) -> Result<FileState> {
        let metadata = || file.metadata().map_err(|error| unreadable(path, error));
        if is_recent(&metadata()?) {
            // A timer is made on the runtime.
            runtime::wait_for(async { tokio::time::sleep(CLOCK).await })?;
        }
        FileState::new(path, &metadata()?).map_err(|error| unreadable(path, error))
    }

    /// What tells this state from all others of all files, for later processes, too; nothing where a change might not show in it. That is
    /// asked right after the file was opened.
    pub fn lasting(&self) -> Option<Vec<u8>> {
        #[cfg(unix)]
        {
            let changed = Duration::new(self.changed[0].try_into().ok()?, self.changed[1].try_into().ok()?);
            let age = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH.checked_add(changed)?).ok()?;
            let written = self.written?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let numbers = [self.file[0], self.file[1], self.length, written.as_secs(), self.names, changed.as_secs()];
            let parts = [written.subsec_nanos(), changed.subsec_nanos()].map(u64::from);
            (age >= COARSE_CLOCK).then(|| numbers.into_iter().chain(parts).flat_map(u64::to_le_bytes).collect())
        }
        // Anybody can set the time of a change.
        #[cfg(not(unix))]
        None
    }

    /// Whether the content is still that of this state. Who removes the file, or puts another one in its place, changes only how many
    /// names it has.
    fn is_of(&self, now: &Metadata) -> bool {
        #[cfg(unix)]
        let is_untouched = {
            use std::os::unix::fs::MetadataExt;
            self.changed == [now.ctime(), now.ctime_nsec()] || self.names != now.nlink()
        };
        #[cfg(not(unix))]
        let is_untouched = true;
        self.length == now.len() && self.written == now.modified().ok() && is_untouched
    }
}

/// Whether a file was changed so lately that the next change might bear the same time.
fn is_recent(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt;
        let since = Duration::new(metadata.ctime().try_into().unwrap_or(0), metadata.ctime_nsec().try_into().unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(since)
    };
    #[cfg(not(unix))]
    let changed = metadata.modified().ok();
    // A time that is to come tells nothing.
    changed.and_then(|changed| SystemTime::now().duration_since(changed).ok()).is_none_or(|age| age < CLOCK)
}

/// # Errors
/// `OperationError`.
pub fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::new(Kind::Operation, format!("{} cannot be read: {error}", path.display()))
}

fn has_changed(path: &Path) -> Error {
    Error::new(Kind::Operation, format!("{} has changed since it was loaded", path.display()))
}

/// The bytes of a file.
#[derive(Debug)]
pub struct FileBytes {
    /// Unmapped when this is dropped. Its bytes are reached through `start` only.
    _memory: MmapMut,
    start: *mut u8,
    length: usize,
    file: Arc<File>,
    path: PathBuf,
    state: FileState,
    blocks: Mutex<Vec<Block>>,
}

// SAFETY: the memory belongs to this value. Blocks are written and given back under the lock, and only while nobody has a pin.
unsafe impl Send for FileBytes {}
// SAFETY: as above.
unsafe impl Sync for FileBytes {}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    pins: u32,
    is_there: bool,
    /// Of its bytes, once they were read.
    hash: Option<u64>,
}

/// All of the process, by where they begin.
static FILES: RwLock<BTreeMap<usize, Weak<FileBytes>>> = RwLock::new(BTreeMap::new());

impl FileBytes {
    /// Nothing is read yet. The file must not be empty.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(file: File, path: &Path, state: FileState) -> Result<Arc<FileBytes>> {
        let cannot = |error| unreadable(path, error);
        let length = usize::try_from(state.length).map_err(|_| cannot(io::ErrorKind::OutOfMemory.into()))?;
        let mut memory = MmapOptions::new().len(length).no_reserve_swap().map_anon().map_err(cannot)?;
        // A huge page would take memory for absent bytes. A kernel without them refuses it.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::NoHugePage);
        let blocks = Mutex::new(filled(Block::default(), length.div_ceil(BLOCK))?);
        let start = memory.as_mut_ptr();
        let path = path.to_owned();
        let made = Arc::new(FileBytes { _memory: memory, start, length, file: Arc::new(file), path, state, blocks });
        FILES.write().unwrap_or_else(PoisonError::into_inner).insert(start.addr(), Arc::downgrade(&made));
        Ok(made)
    }

    fn place(&self) -> Place {
        Place { start: self.start.addr(), length: self.length }
    }

    /// Reads blocks that nobody reads or writes meanwhile.
    fn read(&self, range: Range<usize>, blocks: &mut [Block]) -> Result<()> {
        let first = range.start * BLOCK;
        let length = (range.end * BLOCK).min(self.length) - first;
        if !is_at_hand(length) {
            return Err(cannot_be_had(length));
        }
        /// Where to, for another thread.
        struct Target(*mut u8);
        // SAFETY: the memory is there until the caller, which waits for the end, goes on.
        unsafe impl Send for Target {}
        // SAFETY: the blocks are within the memory.
        let target = Target(unsafe { self.start.add(first) });
        let file = self.file.clone();
        let read = runtime::wait_for(async move {
            // All of it, not its pointer alone, which cannot be sent.
            let target = target;
            let mut done = 0;
            while done < length {
                let size = PIECE.min(length - done);
                // SAFETY: within the blocks, which are initialised, and which nobody else reads or writes.
                let piece = unsafe { std::slice::from_raw_parts_mut(target.0.add(done), size) };
                match read_at(&file, piece, (first + done) as u64) {
                    Ok(0) => return Ok(false),
                    Ok(count) => done += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
                tokio::task::yield_now().await;
            }
            Ok(true)
        })?;
        let is_whole = read.map_err(|error| unreadable(&self.path, error))?;
        // The time of a change is noted before anybody can read it.
        let metadata = self.file.metadata().map_err(|error| unreadable(&self.path, error))?;
        let is_same = self.state.is_of(&metadata);
        let fits = |(number, block): (usize, &mut Block)| {
            let start = (range.start + number) * BLOCK;
            // SAFETY: the block was just read, and nobody writes to it.
            let bytes = unsafe { std::slice::from_raw_parts(self.start.add(start), BLOCK.min(self.length - start)) };
            let hash = xxh3_64(bytes);
            let fits = block.hash.map_or(is_same, |known| known == hash);
            block.hash = block.hash.or(fits.then_some(hash));
            fits
        };
        if !is_whole || !blocks.iter_mut().enumerate().all(fits) {
            return Err(has_changed(&self.path));
        }
        Ok(())
    }

    /// Lets the system have the memory of blocks that nobody reads.
    fn give_back(&self, range: Range<usize>, blocks: &mut [Block]) {
        #[cfg(unix)]
        {
            let first = range.start * BLOCK;
            let length = (range.end * BLOCK).min(self.length) - first;
            // SAFETY: the blocks belong to us, and nobody has a pin of them: what is read there next is read from the file before.
            let given = unsafe { self._memory.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, first, length) };
            if given.is_ok() {
                blocks.iter_mut().for_each(|block| block.is_there = false);
            }
        }
        #[cfg(not(unix))]
        let _ = (range, blocks);
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// All of it, of which only what is pinned may be read.
impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: memory of ours, which is there and initialised for as long as this value.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        // Before others' memory can be there.
        FILES.write().unwrap_or_else(PoisonError::into_inner).remove(&self.start.addr());
    }
}

/// Bytes of a file that are in memory, as they were when it was loaded, until this is dropped.
#[derive(Debug)]
pub struct Pin {
    file: Arc<FileBytes>,
    blocks: Range<usize>,
    is_large: bool,
}

/// The file that memory is a part of.
fn file_of(place: Place) -> Option<Arc<FileBytes>> {
    let files = FILES.read().unwrap_or_else(PoisonError::into_inner);
    let (_, file) = files.range(..=place.start).next_back()?;
    file.upgrade().filter(|file| place.is_in(file.place()))
}

/// Whether memory is a part of a file's, which may be absent.
pub fn is_of_file(place: Place) -> bool {
    file_of(place).is_some()
}

/// Has memory filled with what the file has there, if it is a file's. Other memory stays as it is.
///
/// # Errors
/// `OperationError` with the name of a file that cannot be read, or has changed; `UnknownError` when the system has no thread to read it.
pub fn pin(place: Place) -> Result<Option<Pin>> {
    let Some(file) = file_of(place).filter(|_| place.length > 0) else { return Ok(None) };
    let first = place.start - file.start.addr();
    let range = first / BLOCK..(first + place.length).div_ceil(BLOCK);
    let mut blocks = file.blocks.lock().unwrap_or_else(PoisonError::into_inner);
    for absent in runs(&blocks, range.clone(), |block| !block.is_there) {
        let of_run = &mut blocks[absent.clone()];
        let read = file.read(absent.clone(), of_run);
        if let Err(error) = read {
            // Nobody has seen what was read.
            file.give_back(absent, of_run);
            return Err(error);
        }
        of_run.iter_mut().for_each(|block| block.is_there = true);
    }
    blocks[range.clone()].iter_mut().for_each(|block| block.pins += 1);
    drop(blocks);
    Ok(Some(Pin { file, blocks: range, is_large: place.length >= WORTH_GIVING_BACK }))
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut blocks = self.file.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks[self.blocks.clone()].iter_mut().for_each(|block| block.pins -= 1);
        if self.is_large {
            for free in runs(&blocks, self.blocks.clone(), |block| block.is_there && block.pins == 0) {
                self.file.give_back(free.clone(), &mut blocks[free]);
            }
        }
    }
}

/// Blocks of a range for which something holds, as ranges that are as long as can be.
fn runs(blocks: &[Block], range: Range<usize>, holds: impl Fn(&Block) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for number in range.filter(|&number| holds(&blocks[number])) {
        match found.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => found.push(number..number + 1),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// A file of so many bytes, which is removed in the end.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, length: usize) -> Temporary {
            let path = std::env::temp_dir().join(format!("webnn-node-file-{name}-{}", std::process::id()));
            std::fs::write(&path, content(length)).unwrap();
            Temporary(path)
        }

        fn open(&self) -> Arc<FileBytes> {
            let file = File::open(&self.0).unwrap();
            let state = FileState::of(&self.0, &file).unwrap();
            FileBytes::new(file, &self.0, state).unwrap()
        }

        fn overwrite(&self, first: usize, with: &[u8]) {
            let mut file = File::options().write(true).open(&self.0).unwrap();
            file.seek(io::SeekFrom::Start(first as u64)).unwrap();
            file.write_all(with).unwrap();
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
    }

    fn part(file: &FileBytes, range: Range<usize>) -> Result<(Pin, &[u8])> {
        let bytes = &file.as_ref()[range];
        Ok((pin(Place::of(bytes))?.expect("a part of the file"), bytes))
    }

    const LENGTH: usize = 1_000_003;

    #[test]
    fn what_is_pinned_is_there() {
        let temporary = Temporary::new("pinned", LENGTH);
        let (file, all) = (temporary.open(), content(LENGTH));
        for range in [0..1, LENGTH - 1..LENGTH, 100..300_000, 200_000..LENGTH, 0..LENGTH] {
            let (pin, bytes) = part(&file, range.clone()).unwrap();
            assert!(bytes == &all[range.clone()], "{range:?}");
            let (again, _) = part(&file, 0..LENGTH).unwrap();
            drop(again);
            assert!(bytes == &all[range], "nothing is given back that somebody has");
            drop(pin);
        }
        assert!(pin(Place::of(&all)).unwrap().is_none());
        let count = |file: &FileBytes| file.blocks.lock().unwrap().iter().filter(|block| block.is_there).count();
        #[cfg(target_os = "linux")]
        assert_eq!(count(&file), 0);
        let start = file.place().start;
        drop(file);
        assert!(!FILES.read().unwrap().contains_key(&start));
    }

    #[test]
    fn a_file_that_changes_is_an_error_and_nothing_else() {
        let temporary = Temporary::new("changes", LENGTH);
        let (file, all) = (temporary.open(), content(LENGTH));
        drop(part(&file, 0..200_000).unwrap());
        let (_pin, kept) = part(&file, 300_000..400_000).unwrap();
        temporary.overwrite(500_000, &[1, 2, 3]);
        // What was read before is known, and still the same.
        assert!(part(&file, 0..100_000).unwrap().1 == &all[..100_000]);
        for range in [200_000..300_000, 490_000..510_000] {
            let error = part(&file, range).unwrap_err();
            assert!(error.message().contains(&temporary.0.display().to_string()), "{}", error.message());
        }
        temporary.overwrite(100, &[1, 2, 3]);
        assert!(part(&file, 0..100_000).is_err());
        File::options().write(true).open(&temporary.0).unwrap().set_len(10).unwrap();
        assert!(part(&file, 0..200_000).is_err());
        assert!(kept == &all[300_000..400_000]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_its_name_is_the_same() {
        let temporary = Temporary::new("removed", LENGTH);
        let (file, all) = (temporary.open(), content(LENGTH));
        std::fs::remove_file(&temporary.0).unwrap();
        assert!(part(&file, 0..LENGTH).unwrap().1 == all);
    }

    #[cfg(unix)]
    #[test]
    fn a_state_lasts_when_a_change_would_show() {
        let temporary = Temporary::new("lasting", LENGTH);
        let state = || FileState::of(&temporary.0, &File::open(&temporary.0).unwrap()).unwrap();
        assert!(state().lasting().is_none());
        let mut old = state();
        old.changed[0] -= 10;
        let mut to_come = state();
        to_come.changed[0] += 10;
        assert!(to_come.lasting().is_none());
        let lasting = old.lasting().unwrap();
        assert_eq!(old.lasting().as_ref(), Some(&lasting));
        let others: [fn(&mut FileState); 6] = [
            |state| state.file[0] ^= 1,
            |state| state.file[1] ^= 1,
            |state| state.length += 1,
            |state| state.names += 1,
            |state| state.changed[1] ^= 1,
            |state| state.written = Some(SystemTime::UNIX_EPOCH),
        ];
        for change in others {
            let mut other = old.clone();
            change(&mut other);
            assert!(other.lasting().is_some_and(|other| other != lasting));
        }
    }

    /// A change that is made right after the file was opened shows, however exact the system's clock is.
    #[test]
    fn a_change_at_once_is_seen() {
        for _ in 0..10 {
            let temporary = Temporary::new("at-once", LENGTH);
            let file = temporary.open();
            temporary.overwrite(500_000, &[1, 2, 3]);
            assert!(part(&file, 490_000..510_000).is_err());
        }
    }
}
