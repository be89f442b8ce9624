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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::xxh3_64;

/// The smallest pages of systems: a model has hundreds of places of a few bytes between its weights, each of which takes a block or two.
const BLOCK: usize = 4 << 10;

/// Pins of fewer bytes leave their blocks in memory.
pub const WORTH_GIVING_BACK: usize = 64 << 10;

/// The runtime reads as many bytes at once.
const PIECE: usize = 1 << 20;

/// So few bytes are read by the thread that waits for them: a model has hundreds of such places, and to wake another thread for each takes
/// longer than the reads.
const WORTH_ANOTHER_THREAD: usize = 64 << 10;

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
    /// Who owns it, and what they may do with it.
    rights: [u32; 3],
}

#[cfg(unix)]
type FileNumber = [u64; 2];
#[cfg(not(unix))]
type FileNumber = PathBuf;

impl FileState {
    #[cfg(unix)]
    fn new(_: &Path, metadata: &Metadata) -> io::Result<FileState> {
        use std::os::unix::fs::MetadataExt;
        Ok(FileState::with_number([metadata.dev(), metadata.ino()], metadata))
    }

    #[cfg(not(unix))]
    fn new(path: &Path, metadata: &Metadata) -> io::Result<FileState> {
        Ok(FileState::with_number(std::fs::canonicalize(path)?, metadata))
    }

    fn with_number(file: FileNumber, metadata: &Metadata) -> FileState {
        let (length, written) = (metadata.len(), metadata.modified().ok());
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let changed = [metadata.ctime(), metadata.ctime_nsec()];
            let rights = [metadata.mode(), metadata.uid(), metadata.gid()];
            FileState { file, length, written, changed, names: metadata.nlink(), rights }
        }
        #[cfg(not(unix))]
        FileState { file, length, written, changed: [0; 2], names: 1, rights: [0; 3] }
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

    /// Whether every change shows in the state: elsewhere anybody can set the time of a change.
    pub fn shows_changes(&self) -> bool {
        cfg!(unix)
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
        // See `shows_changes`.
        #[cfg(not(unix))]
        None
    }

    /// The present state of the same open file, if its content is still that of this state.
    ///
    /// A new name, the end of a name, and other rights change nothing in the content. They show in the time of the change, and so does somebody who
    /// writes to the file and then sets the time of writing back: such a time must have another reason that can be seen.
    fn after(&self, path: &Path, now: &Metadata) -> Option<FileState> {
        if self.length != now.len() || self.written != now.modified().ok() {
            return None;
        }
        #[cfg(unix)]
        let file = self.file;
        #[cfg(not(unix))]
        let file = self.file.clone();
        let now = FileState::with_number(file, now);
        let is_explained = || self.names != now.names || self.rights != now.rights || !now.is_at(path);
        (self.changed == now.changed || is_explained()).then_some(now)
    }

    /// Whether the path leads to the file.
    #[cfg(unix)]
    fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).is_ok_and(|found| self.file == [found.dev(), found.ino()])
    }

    #[cfg(not(unix))]
    fn is_at(&self, _: &Path) -> bool {
        true
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

/// What is known of a file that somebody names, before it is opened: a device may have no end, and to open a pipe may wait for ever.
///
/// # Errors
/// `OperationError` for what is not there, and for what is not a regular file, nor a link to one.
pub fn regular(path: &Path) -> Result<Metadata> {
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
    if metadata.is_file() {
        return Ok(metadata);
    }
    let found = if metadata.is_dir() { "a folder" } else { special(metadata.file_type()) };
    Err(Error::new(Kind::Operation, format!("{} is not a regular file but {found}", path.display())))
}

#[cfg(unix)]
fn special(found: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match found {
        found if found.is_fifo() => "a pipe",
        found if found.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(not(unix))]
fn special(_: std::fs::FileType) -> &'static str {
    "a device"
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
    /// Where it was, whatever folder the process is in later.
    path: PathBuf,
    /// As it was when its content was last found to be the same.
    state: Mutex<FileState>,
    blocks: Mutex<Vec<Block>>,
    /// Bytes that were read at least once.
    read: AtomicUsize,
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
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let state = Mutex::new(state);
        let read = AtomicUsize::new(0);
        let bytes = Arc::new(FileBytes { _memory: memory, start, length, file: Arc::new(file), path, state, blocks, read });
        FILES.write().unwrap_or_else(PoisonError::into_inner).insert(start.addr(), Arc::downgrade(&bytes));
        Ok(bytes)
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
        let read = match length <= WORTH_ANOTHER_THREAD {
            true => {
                // SAFETY: the blocks are within the memory, initialised, and nobody else reads or writes them.
                let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.add(first), length) };
                read_whole(&self.file, bytes, first as u64)
            }
            false => self.read_in_pieces(first, length)?,
        };
        let is_whole = read.map_err(|error| unreadable(&self.path, error))?;
        // The time of a change is noted before anybody can read it.
        let metadata = self.file.metadata().map_err(|error| unreadable(&self.path, error))?;
        let is_same = self.is_same(&metadata);
        let mut is_new = 0;
        let mut fits = |(number, block): (usize, &mut Block)| {
            let start = (range.start + number) * BLOCK;
            // SAFETY: the block was just read, and nobody writes to it.
            let bytes = unsafe { std::slice::from_raw_parts(self.start.add(start), BLOCK.min(self.length - start)) };
            let hash = xxh3_64(bytes);
            let fits = block.hash.map_or(is_same, |known| known == hash);
            if fits && block.hash.is_none() {
                block.hash = Some(hash);
                is_new += bytes.len();
            }
            fits
        };
        let is_as_before = is_whole && blocks.iter_mut().enumerate().all(&mut fits);
        self.read.fetch_add(is_new, Ordering::Relaxed);
        if is_as_before { Ok(()) } else { Err(has_changed(&self.path)) }
    }

    /// Has the runtime read so many bytes from there on, which nobody else reads or writes. Whether the file has as many.
    fn read_in_pieces(&self, first: usize, length: usize) -> Result<io::Result<bool>> {
        /// Where to, for another thread.
        struct Target(*mut u8);
        // SAFETY: the memory is there until the caller, which waits for the end, goes on.
        unsafe impl Send for Target {}
        // SAFETY: the blocks are within the memory.
        let target = Target(unsafe { self.start.add(first) });
        let file = self.file.clone();
        runtime::wait_for(async move {
            // All of it, not its pointer alone, which cannot be sent.
            let target = target;
            for done in (0..length).step_by(PIECE) {
                let size = PIECE.min(length - done);
                // SAFETY: within the blocks, which are initialised, and which nobody else reads or writes.
                let piece = unsafe { std::slice::from_raw_parts_mut(target.0.add(done), size) };
                if !read_whole(&file, piece, (first + done) as u64)? {
                    return Ok(false);
                }
                tokio::task::yield_now().await;
            }
            Ok(true)
        })
    }

    fn is_same(&self, now: &Metadata) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let after = state.after(&self.path, now);
        let is_same = after.is_some();
        *state = after.unwrap_or_else(|| state.clone());
        is_same
    }

    /// Lets the system have the memory of blocks that nobody reads, as far as they fill pages.
    fn give_back(&self, range: Range<usize>, blocks: &mut [Block]) {
        #[cfg(unix)]
        {
            let whole = whole_pages(range.clone(), page_size().div_ceil(BLOCK), self.length.div_ceil(BLOCK));
            if whole.is_empty() {
                return;
            }
            let first = whole.start * BLOCK;
            let length = (whole.end * BLOCK).min(self.length) - first;
            // SAFETY: the pages belong to us, and nobody has a pin of anything in them: what is read there next is read from the file before.
            let given = unsafe { self._memory.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, first, length) };
            if given.is_ok() {
                blocks[whole.start - range.start..whole.end - range.start].iter_mut().for_each(|block| block.is_there = false);
            }
        }
        #[cfg(not(unix))]
        let _ = (range, blocks);
    }
}

/// The bytes that the system gives, and takes back, at once.
#[cfg(unix)]
fn page_size() -> usize {
    unsafe extern "C" {
        fn getpagesize() -> std::ffi::c_int;
    }
    // SAFETY: the C library's function has this signature, and may be called at any time by any thread.
    unsafe { getpagesize() as usize }
}

/// The blocks of a range that fill pages of so many blocks: somebody may have a pin of what else is in a page. Behind all blocks there is nothing else.
#[cfg(unix)]
fn whole_pages(range: Range<usize>, in_page: usize, all: usize) -> Range<usize> {
    let first = range.start.next_multiple_of(in_page);
    let end = if range.end == all { all } else { range.end / in_page * in_page };
    first..end.max(first)
}

/// Fills a buffer. Whether the file has as many bytes there.
fn read_whole(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<bool> {
    while !buffer.is_empty() {
        match read_at(file, buffer, offset) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
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

/// How many bytes of it were read so far, if memory is a part of a file's: of the whole file.
pub fn read_of(place: Place) -> Option<usize> {
    file_of(place).map(|file| file.read.load(Ordering::Relaxed))
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
        fn named(name: &str) -> PathBuf {
            std::env::temp_dir().join(format!("webnn-node-file-{name}-{}", std::process::id()))
        }

        fn new(name: &str, length: usize) -> Temporary {
            let path = Temporary::named(name);
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
    fn memory_is_given_back_in_whole_pages() {
        assert_eq!(whole_pages(3..9, 1, 20), 3..9);
        assert_eq!(whole_pages(3..9, 4, 20), 4..8);
        assert_eq!(whole_pages(4..8, 4, 20), 4..8);
        assert_eq!(whole_pages(3..18, 4, 18), 4..18);
        assert!(whole_pages(5..7, 4, 20).is_empty() && whole_pages(0..15, 16, 20).is_empty());
        assert!(whole_pages(17..18, 16, 18).is_empty());
        assert!(page_size().is_power_of_two() && page_size() >= BLOCK);
        // What lies beside what goes stays.
        let temporary = Temporary::new("beside", LENGTH);
        let (file, all) = (temporary.open(), content(LENGTH));
        let (kept, (large, _)) = (part(&file, 0..100).unwrap(), part(&file, 3000..LENGTH).unwrap());
        drop(large);
        assert!(kept.1 == &all[..100]);
        assert!(part(&file, 0..LENGTH).unwrap().1 == all);
    }

    #[test]
    fn what_was_read_is_counted_once() {
        let temporary = Temporary::new("counted", LENGTH);
        let file = temporary.open();
        assert_eq!(read_of(file.place()), Some(0));
        drop(part(&file, 0..BLOCK).unwrap());
        drop(part(&file, 0..BLOCK).unwrap());
        assert_eq!(read_of(file.place()), Some(BLOCK));
        drop(part(&file, 0..LENGTH).unwrap());
        assert_eq!(read_of(Place { start: file.place().start + 5, length: 1 }), Some(LENGTH));
        assert_eq!(read_of(Place::of(&content(10))), None);
    }

    /// Each change is made to files of which a part was read and nothing was.
    #[cfg(unix)]
    fn after_a_change(name: &str, change: impl Fn(&Path)) -> [bool; 2] {
        [0, 200_000].map(|first| {
            let temporary = Temporary::new(&format!("{name}-{first}"), LENGTH);
            let (file, all) = (temporary.open(), content(LENGTH));
            drop(part(&file, 0..first.max(1)).unwrap());
            change(&temporary.0);
            // What is read is what was there.
            part(&file, 0..LENGTH).map(|(_, bytes)| assert!(bytes == all)).is_ok()
        })
    }

    #[cfg(unix)]
    #[test]
    fn names_and_rights_of_a_file_may_change() {
        use std::os::unix::fs::PermissionsExt;
        let other = |path: &Path| path.with_extension("other");
        let rights = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let replace = |path: &Path, with: &Path| {
            std::fs::write(with, vec![1; LENGTH]).unwrap();
            std::fs::rename(with, path).unwrap();
        };
        let remove = |path: &Path| std::fs::remove_file(path).unwrap();
        assert_eq!(after_a_change("removed", remove), [true; 2]);
        assert_eq!(after_a_change("rights", |path| rights(path, 0o400)), [true; 2]);
        assert_eq!(after_a_change("replaced", |path| replace(path, &other(path))), [true; 2]);
        let moved = |path: &Path| {
            std::fs::rename(path, other(path)).unwrap();
            remove(&other(path));
        };
        assert_eq!(after_a_change("moved-and-removed", moved), [true; 2]);
        assert_eq!(after_a_change("renamed", |path| std::fs::rename(path, other(path)).unwrap()), [true; 2]);
        let linked = |path: &Path| {
            std::fs::hard_link(path, other(path)).unwrap();
            remove(path);
        };
        assert_eq!(after_a_change("linked", linked), [true; 2]);
        for name in ["renamed-0", "renamed-200000", "linked-0", "linked-200000"] {
            remove(&other(&Temporary::named(name)));
        }
    }

    /// Other weights are never taken for the model's: a write shows although its time was set back.
    #[cfg(unix)]
    #[test]
    fn a_write_whose_time_was_set_back_is_seen() {
        use std::os::unix::fs::PermissionsExt;
        let forge = |path: &Path| {
            let mut file = File::options().write(true).open(path).unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            file.seek(io::SeekFrom::Start(500_000)).unwrap();
            file.write_all(&[1, 2, 3]).unwrap();
            file.set_modified(written).unwrap();
        };
        assert_eq!(after_a_change("forged", forge), [false; 2]);
        // Nor after another change that was found harmless.
        let temporary = Temporary::new("forged-later", LENGTH);
        let file = temporary.open();
        std::fs::set_permissions(&temporary.0, std::fs::Permissions::from_mode(0o600)).unwrap();
        drop(part(&file, 0..100).unwrap());
        std::thread::sleep(CLOCK);
        forge(&temporary.0);
        assert!(part(&file, 490_000..510_000).is_err());
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
