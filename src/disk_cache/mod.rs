//! Packed weights on disk, for later processes and for those beside this one, which map the same pages where they may (see [`content`]); and
//! what weights of model files hash to, and the structure of these files, so that a later process finds the packings without reading the
//! file.
//!
//! A folder has a file for each packing, named by its key: a hash of what it was packed from and how, which is made with a secret of the
//! folder. It has three files for each model file (see [`findings`], [`structures`] and [`ahead`]), and one for each graph that script has saved
//! (see [`saved`]). Files are written beside and renamed, and never changed after that. What is read is checked against a hash with the same
//! secret; any doubt is a miss, and what is written without success is as if it had not been tried. So no state of the folder makes a load
//! fail.
//!
//! A process has one cache: what its constants are known by depends on the secret.

mod ahead;
mod content;
mod entry;
mod findings;
mod saved;
mod structures;
mod whole;

use crate::error::{self, Error, Result};
use crate::{memory, thread};
use entry::{Missing, is_safe};
use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

pub use ahead::{ModelCache, decoded as wanted_in};
pub use entry::{Stored, checked, write};
pub use findings::decoded as findings_in;
pub use saved::{Constant, Graph, Listed as SavedListed, Name, Saved, read_anything, write_anything};
pub use structures::MOST_OF_STRUCTURE;
pub use whole::{read as read_whole_from, read_whole, write_whole};

/// Less is packed faster than it is found in a folder.
pub const WORTH_STORING: usize = 16 << 10;

/// What the files may take together, if the environment says nothing (`WEBNN_CACHE_BYTES`).
const MOST_BYTES: u64 = 8 << 30;

/// What was left over by a process that ended while it wrote goes after so long.
const LEFT_OVER: Duration = Duration::from_secs(3600);

const SECRET: &str = "secret";

/// What a file has, which its name ends with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Packing,
    Findings,
    Structure,
    Wanted,
    /// That script has saved.
    Graph,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Packing, Kind::Findings, Kind::Structure, Kind::Wanted, Kind::Graph];

    fn ending(self) -> &'static str {
        match self {
            Kind::Packing => "packed",
            Kind::Findings => "hashes",
            Kind::Structure => "structure",
            Kind::Wanted => "wanted",
            Kind::Graph => "graph",
        }
    }

    fn of(path: &Path) -> Option<Kind> {
        let ending = path.extension()?;
        Kind::ALL.into_iter().find(|kind| ending == kind.ending())
    }
}

/// Bytes that are written while others read them, too.
pub type Offered = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A folder of packed weights.
pub struct DiskCache {
    folder: PathBuf,
    secret: u64,
    most_bytes: u64,
    writing: Mutex<Writing>,
    has_written: Condvar,
    /// Whether files are mapped, and not read.
    maps: bool,
    /// The lists of packings that were opened ahead.
    read_ahead: Mutex<HashSet<u128>>,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    written: AtomicU64,
}

#[derive(Default)]
struct Writing {
    waiting: VecDeque<(Kind, u128, Offered)>,
    /// Whether a thread is at it.
    is_under_way: bool,
    /// Where a file could not be written, as on a full disk, others will not be either.
    has_failed: bool,
}

/// What a cache has done in this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub hits: u64,
    pub misses: u64,
    pub damaged: u64,
    pub written: u64,
}

/// A file of a cache.
#[derive(Debug)]
pub struct Listed {
    pub path: PathBuf,
    pub bytes: u64,
    pub used: SystemTime,
}

/// The cache of the process, once it has one.
static OF_PROCESS: OnceLock<Arc<DiskCache>> = OnceLock::new();
static OF_ALL_GRAPHS: OnceLock<Arc<DiskCache>> = OnceLock::new();

impl DiskCache {
    /// The cache of this process, in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// `OperationError` when the folder cannot be used, `NotSupportedError` when the process has a cache in another one.
    pub fn of_process(folder: &Path) -> Result<Arc<DiskCache>> {
        static OPENING: Mutex<()> = Mutex::new(());
        let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        if OF_PROCESS.get().is_none() {
            let cache = Arc::new(DiskCache::open(folder)?);
            memory::set_seed(cache.secret);
            let _ = OF_PROCESS.set(cache);
        }
        let Some(cache) = DiskCache::opened() else { unreachable!("it was set under the lock") };
        // Named otherwise it may be the same.
        if fs::canonicalize(folder).is_ok_and(|folder| folder == cache.folder) {
            return Ok(cache);
        }
        let other = cache.folder.display();
        Err(Error::new(error::Kind::NotSupported, format!("the cache of this process is in {other}, it can have no second one")))
    }

    /// The cache that the process has.
    pub fn opened() -> Option<Arc<DiskCache>> {
        OF_PROCESS.get().cloned()
    }

    /// Has all graphs of the process use its cache, not only those of models that were told to.
    pub fn use_for_all(self: Arc<Self>) {
        let _ = OF_ALL_GRAPHS.set(self);
    }

    /// The cache that graphs use which were told nothing.
    pub fn of_all_graphs() -> Option<Arc<DiskCache>> {
        OF_ALL_GRAPHS.get().cloned()
    }

    fn open(folder: &Path) -> Result<DiskCache> {
        let fail = |error: &dyn std::fmt::Display| {
            Error::new(error::Kind::Operation, format!("the folder {} cannot be a cache: {error}", folder.display()))
        };
        make_folder(folder).map_err(|error| fail(&error))?;
        let folder = fs::canonicalize(folder).map_err(|error| fail(&error))?;
        let metadata = fs::metadata(&folder).map_err(|error| fail(&error))?;
        if !metadata.is_dir() || !is_safe(&metadata) {
            return Err(fail(&"it must be a folder of this user or the administrator that nobody else can write to"));
        }
        let secret = secret_of(&folder).map_err(|error| fail(&error))?;
        let most_bytes = std::env::var("WEBNN_CACHE_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MOST_BYTES);
        let maps = content::maps_files_in(&folder);
        Ok(DiskCache {
            folder,
            maps,
            secret,
            most_bytes,
            writing: Mutex::default(),
            has_written: Condvar::new(),
            read_ahead: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    fn path_of(&self, kind: Kind, key: u128) -> PathBuf {
        self.folder.join(format!("{key:032x}.{}", kind.ending()))
    }

    /// A packing of so many bytes, if it is there and as it was written.
    fn open_packing(&self, key: u128, length: usize) -> Option<Stored> {
        self.open_file(Kind::Packing, key, length..=length)
    }

    /// Counts a packing that was wanted.
    fn count(&self, is_found: bool) {
        let count = if is_found { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A file of so many bytes, if it is as it was written. One that is not goes.
    fn open_file(&self, kind: Kind, key: u128, lengths: RangeInclusive<usize>) -> Option<Stored> {
        let path = self.path_of(kind, key);
        Stored::open(&path, key, lengths, self.secret)
            .inspect_err(|missing| {
                if *missing == Missing::Damaged {
                    self.damaged.fetch_add(1, Ordering::Relaxed);
                    let _ = fs::remove_file(&path);
                }
            })
            .ok()
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a packing written by a thread of the cache's own.
    fn offer(self: &Arc<Self>, key: u128, bytes: Offered) {
        self.offer_file(Kind::Packing, key, bytes);
    }

    fn offer_file(self: &Arc<Self>, kind: Kind, key: u128, bytes: Offered) {
        let mut writing = self.writing();
        if writing.has_failed {
            return;
        }
        writing.waiting.push_back((kind, key, bytes));
        if !writing.is_under_way {
            let cache = self.clone();
            writing.is_under_way = thread::start("webnn-node cache", move || cache.write_all()).is_ok();
            if !writing.is_under_way {
                writing.waiting.clear();
            }
        }
    }

    fn write_all(&self) {
        loop {
            let next = self.writing().waiting.pop_front();
            if let Some((kind, key, bytes)) = next {
                match self.write(kind, key, (*bytes).as_ref()) {
                    Ok(()) if kind == Kind::Packing => _ = self.written.fetch_add(1, Ordering::Relaxed),
                    Ok(()) => {}
                    Err(_) => {
                        let mut writing = self.writing();
                        writing.has_failed = true;
                        writing.waiting.clear();
                    }
                }
                continue;
            }
            self.make_room();
            let mut writing = self.writing();
            if writing.waiting.is_empty() {
                writing.is_under_way = false;
                self.has_written.notify_all();
                return;
            }
        }
    }

    /// Writes a file beside, and renames it when it is complete. Whether the disk has it by then does not matter: it is checked when read.
    fn write(&self, kind: Kind, key: u128, bytes: &[u8]) -> io::Result<()> {
        let write = |file: &mut File| entry::write(file, key, bytes, self.secret);
        write_beside(&self.folder, write, |new| fs::rename(new, self.path_of(kind, key)))
    }

    /// Waits until what was offered is written, or was given up.
    pub fn finish(&self) {
        let writing = self.writing();
        drop(self.has_written.wait_while(writing, |writing| writing.is_under_way));
    }

    /// What it has done in this process.
    pub fn numbers(&self) -> Numbers {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Numbers { hits: load(&self.hits), misses: load(&self.misses), damaged: load(&self.damaged), written: load(&self.written) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes what was not used for longest, until the rest may stay.
    fn make_room(&self) {
        let mut files = list(&self.folder, LEFT_OVER);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total <= self.most_bytes {
            return;
        }
        files.sort_by_key(|file| file.used);
        for file in files {
            if total <= self.most_bytes {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                total -= file.bytes;
            }
        }
    }
}

impl std::fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskCache({})", self.folder.display())
    }
}

/// The files of a cache. What was left over for so long by a process that ended while it wrote is removed.
fn list(folder: &Path, left_over: Duration) -> Vec<Listed> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if Kind::of(&path).is_some() && metadata.is_file() {
            found.push(Listed { path, bytes: metadata.len(), used });
            continue;
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("new") if used.elapsed().is_ok_and(|age| age > left_over) => _ = fs::remove_file(&path),
            _ => {}
        }
    }
    found
}

/// What the name of a file says.
fn key_of(path: &Path) -> Option<u128> {
    u128::from_str_radix(path.file_stem()?.to_str()?, 16).ok()
}

/// Makes a folder that only this user can look into.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a file under a name of its own, and has it published; nothing is left of it where that fails.
fn write_beside(
    folder: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    publish: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let path = folder.join(format!("{:016x}.new", random()?));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
    let done = write(&mut file).and_then(|()| publish(&path));
    drop(file);
    if done.is_err() {
        let _ = fs::remove_file(&path);
    }
    done
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The secret of a folder, which the first process makes.
fn secret_of(folder: &Path) -> io::Result<u64> {
    let path = folder.join(SECRET);
    let read = || -> io::Result<Option<u64>> {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        (&file).take(9).read_to_end(&mut bytes)?;
        let secret = <[u8; 8]>::try_from(&bytes[..]).map(u64::from_le_bytes).ok();
        // None stands for no secret.
        match secret.filter(|&secret| secret != 0 && file.metadata().is_ok_and(|metadata| is_safe(&metadata))) {
            Some(secret) => Ok(Some(secret)),
            None => Err(io::Error::other("its secret is not as it was made")),
        }
    };
    if let Some(secret) = read()? {
        return Ok(secret);
    }
    let secret = random()? | 1;
    // Unlike a rename, a link replaces nothing: of several processes one makes the secret.
    let publish = |new: &Path| fs::hard_link(new, &path).or_else(|_| if path.exists() { Ok(()) } else { fs::rename(new, &path) });
    let keep = |file: &mut File| file.write_all(&secret.to_le_bytes());
    write_beside(folder, keep, |new| publish(new).map(|()| _ = fs::remove_file(new)))?;
    read()?.ok_or_else(|| io::Error::other("its secret is gone"))
}

/// The files of a folder, for whoever looks after it.
pub fn files(folder: &Path) -> Vec<Listed> {
    list(folder, LEFT_OVER)
}

/// The graphs that are saved in a folder.
///
/// # Errors
/// As [`DiskCache::of_process`].
pub fn saved_graphs(folder: &Path) -> Result<Vec<SavedListed>> {
    Ok(DiskCache::open(folder)?.saved_graphs())
}

/// Whether each file of a folder is as it was written.
///
/// # Errors
/// As [`DiskCache::of_process`].
pub fn check(folder: &Path) -> Result<Vec<(Listed, bool)>> {
    let cache = DiskCache::open(folder)?;
    let is_whole = |file: &Listed| {
        key_of(&file.path).is_some_and(|key| match Kind::of(&file.path) {
            Some(Kind::Graph) => saved::is_whole(&file.path, key, cache.secret),
            _ => Stored::open(&file.path, key, 1..=usize::MAX, cache.secret).is_ok(),
        })
    };
    Ok(files(folder).into_iter().map(|file| (is_whole(&file), file)).map(|(is_whole, file)| (file, is_whole)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("webnn-node-cache-{name}-{}", std::process::id())))
        }

        pub fn open(&self) -> Arc<DiskCache> {
            Arc::new(DiskCache::open(&self.0).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl DiskCache {
        /// What a model without a file finds.
        fn find(self: &Arc<Self>, key: u128, length: usize) -> Option<Stored> {
            ModelCache::new(self.clone()).find(key, length)
        }
    }

    fn offer(cache: &Arc<DiskCache>, key: u128, bytes: Vec<u8>) {
        cache.offer(key, Arc::new(bytes));
        cache.finish();
    }

    #[test]
    fn what_was_written_is_found_by_another_process() {
        let folder = Folder::new("found");
        let cache = folder.open();
        assert!(cache.find(3, 1000).is_none());
        offer(&cache, 3, vec![4; 1000]);
        let other = folder.open();
        let found = other.find(3, 1000).unwrap();
        assert_eq!(found.as_ref(), [4; 1000]);
        assert!(found.as_ref().as_ptr().addr().is_multiple_of(memory::ALIGNMENT));
        assert!(other.find(4, 1000).is_none());
        assert_eq!(cache.numbers(), Numbers { hits: 0, misses: 1, damaged: 0, written: 1 });
        assert_eq!(other.numbers(), Numbers { hits: 1, misses: 1, damaged: 0, written: 0 });
        // What is mapped stays where its name is gone.
        fs::remove_file(other.path_of(Kind::Packing, 3)).unwrap();
        assert_eq!(found.as_ref(), [4; 1000]);
        assert!(fs::read_dir(&folder.0).unwrap().count() == 1, "only the secret is left");
    }

    #[test]
    fn damaged_files_are_misses_and_go() {
        let folder = Folder::new("damaged");
        let cache = folder.open();
        for (number, damage) in [
            (|file: &mut Vec<u8>| file.truncate(700)) as fn(&mut Vec<u8>),
            |file| file.clear(),
            |file| file.push(0),
            |file| file[500] ^= 1,
            |file| file[33] ^= 1,
        ]
        .into_iter()
        .enumerate()
        {
            let key = number as u128;
            offer(&cache, key, vec![4; 1000]);
            let mut file = fs::read(cache.path_of(Kind::Packing, key)).unwrap();
            damage(&mut file);
            fs::write(cache.path_of(Kind::Packing, key), file).unwrap();
            assert!(cache.find(key, 1000).is_none(), "{number}");
            assert!(!cache.path_of(Kind::Packing, key).exists());
        }
        // Another file under this name, and another length than is wanted.
        offer(&cache, 20, vec![4; 1000]);
        fs::rename(cache.path_of(Kind::Packing, 20), cache.path_of(Kind::Packing, 21)).unwrap();
        assert!(cache.find(21, 1000).is_none());
        offer(&cache, 22, vec![4; 1000]);
        assert!(cache.find(22, 1001).is_none());
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = Folder::new("bounded");
        let mut cache = DiskCache::open(&folder.0).unwrap();
        cache.most_bytes = 3 * 1064;
        let cache = Arc::new(cache);
        for key in 0..3 {
            offer(&cache, key, vec![1; 1000]);
            let ago = Duration::from_secs(10_000 - 1000 * key as u64);
            File::open(cache.path_of(Kind::Packing, key)).unwrap().set_modified(SystemTime::now() - ago).unwrap();
        }
        // A hit is a use.
        assert!(cache.find(0, 1000).is_some());
        offer(&cache, 3, vec![1; 1000]);
        assert_eq!([0, 1, 2, 3].map(|key| cache.path_of(Kind::Packing, key).exists()), [true, false, true, true]);
    }

    #[cfg(unix)]
    #[test]
    fn folders_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("others");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let cache = folder.open();
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(folder.0.join(SECRET)).unwrap().permissions().mode() & 0o777, 0o600);
        offer(&cache, 1, vec![1; 1000]);
        set(&cache.path_of(Kind::Packing, 1), 0o666);
        assert!(cache.find(1, 1000).is_none(), "a file that all may write");
        set(&folder.0, 0o777);
        assert!(DiskCache::open(&folder.0).is_err());
        set(&folder.0, 0o700);
        fs::write(folder.0.join(SECRET), [0; 8]).unwrap();
        assert!(DiskCache::open(&folder.0).is_err());
    }

    #[test]
    fn processes_that_begin_together_have_one_secret() {
        let folder = Folder::new("race");
        let secrets: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| folder.open().secret)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }
}
