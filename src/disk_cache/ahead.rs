//! The cache as the graphs of one model use it: the packings that they will want are opened while the model is still being imported.
//!
//! Which these are each process notes for later ones, in a file of the cache for the state of the model's file: what the first graph with
//! kernels has wanted. A thread opens and checks them in this order; whoever wants one that is being opened waits for it, and opens
//! himself what the thread has not begun. What nobody wanted goes when that graph has its kernels, at the latest after [`KEPT`]. Later loads
//! in the process find most of it with others. So a list that is old, or that somebody made up, costs time and nothing else: a process that wanted
//! something else replaces it. Where files are read and not mapped nothing is opened ahead, because it would be memory of this process.

use super::{DiskCache, Kind, Offered, Stored};
use crate::{runtime, thread};
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// A model has some hundred packings.
const MOST: usize = 1 << 12;

/// What was opened stays for so long without a graph that has kernels: models with free dimensions wait for their first run, and on a GPU no
/// graph has them.
const KEPT: Duration = Duration::from_secs(60);

/// What the file has.
#[derive(Clone, PartialEq, Message)]
struct Wanted {
    /// Three numbers for each packing: the halves of its key, the low one first, and how many bytes it has.
    #[prost(fixed64, repeated, tag = "1")]
    numbers: Vec<u64>,
}

/// A packing: its key, and how many bytes it has.
type Packing = (u128, usize);

/// The cache of a model.
pub struct ModelCache {
    cache: Arc<DiskCache>,
    ahead: Mutex<Ahead>,
    has_opened: Condvar,
}

#[derive(Default)]
struct Ahead {
    /// By what the list is known; nothing once a graph has its kernels.
    list: Option<u128>,
    /// What an earlier process has noted.
    noted: HashSet<u128>,
    /// In the order in which this process wanted them.
    wanted: Vec<Packing>,
    known: HashSet<u128>,
    files: HashMap<u128, File>,
}

/// One that is expected to be wanted.
enum File {
    Expected,
    BeingOpened,
    Opened(Option<Stored>),
}

impl ModelCache {
    /// Of graphs that are of no file.
    pub fn new(cache: Arc<DiskCache>) -> Arc<ModelCache> {
        Arc::new(ModelCache { cache, ahead: Mutex::default(), has_opened: Condvar::new() })
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.cache.folder()
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model is a file in this state: begins to open what an earlier process wanted of it.
    pub fn read_ahead(self: &Arc<Self>, state: &[u8]) {
        let list = self.cache.key_of_list(state);
        let wanted = self.cache.list(list);
        let mut ahead = self.ahead();
        ahead.list = Some(list);
        ahead.noted = wanted.iter().map(|(key, _)| *key).collect();
        let is_first = || self.cache.read_ahead.lock().unwrap_or_else(PoisonError::into_inner).insert(list);
        if wanted.is_empty() || !self.cache.maps || !is_first() {
            return;
        }
        ahead.files = wanted.iter().map(|(key, _)| (*key, File::Expected)).collect();
        drop(ahead);
        let own = Arc::downgrade(self);
        // Without a thread they are opened when they are wanted.
        let _ = thread::start("webnn-node cache", move || open_all(&own, wanted));
    }

    /// Opens one that nobody has wanted yet.
    fn open(&self, (key, length): Packing) {
        match self.ahead().files.get_mut(&key) {
            Some(file @ File::Expected) => *file = File::BeingOpened,
            _ => return,
        }
        // Somebody may wait for it, whatever happens.
        let found = catch_unwind(AssertUnwindSafe(|| self.cache.open_packing(key, length))).ok().flatten();
        // Meanwhile all may have gone.
        if let Some(file) = self.ahead().files.get_mut(&key) {
            *file = File::Opened(found);
        }
        self.has_opened.notify_all();
    }

    /// So many bytes with this key, if they are there and as they were written.
    pub fn find(&self, key: u128, length: usize) -> Option<Stored> {
        let mut ahead = self.ahead();
        if ahead.list.is_some() && ahead.wanted.len() < MOST && ahead.known.insert(key) {
            ahead.wanted.push((key, length));
        }
        let is_being_opened = |ahead: &mut Ahead| matches!(ahead.files.get(&key), Some(File::BeingOpened));
        let mut ahead = self.has_opened.wait_while(ahead, is_being_opened).unwrap_or_else(PoisonError::into_inner);
        let opened = ahead.files.remove(&key);
        drop(ahead);
        let found = match opened {
            // What was noted of its length may be wrong.
            Some(File::Opened(found)) => found.filter(|found| found.as_ref().len() == length),
            _ => self.cache.open_packing(key, length),
        };
        self.cache.count(found.is_some());
        found
    }

    /// Has a packing written.
    pub fn offer(&self, key: u128, bytes: Offered) {
        self.cache.offer(key, bytes);
    }

    /// A graph has its kernels. One that wanted nothing, as parts of models do, is not the first.
    pub fn end(&self) {
        let mut ahead = self.ahead();
        if ahead.wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut ahead.wanted);
        let list = ahead.list.take().filter(|_| wanted.iter().any(|(key, _)| !ahead.noted.contains(key)));
        drop(ahead);
        self.let_go();
        if let Some(list) = list {
            self.cache.keep_list(list, &wanted);
        }
    }

    /// Nobody wants the rest.
    fn let_go(&self) {
        let gone = std::mem::take(&mut self.ahead().files);
        // Whoever waits for one opens it himself.
        self.has_opened.notify_all();
        drop(gone);
    }
}

/// Opens what is wanted, for as long as there is the model.
fn open_all(model: &Weak<ModelCache>, wanted: Vec<Packing>) {
    for packing in wanted {
        let Some(model) = model.upgrade() else { return };
        model.open(packing);
    }
    let model = model.clone();
    let let_go = move || model.upgrade().iter().for_each(|model| model.let_go());
    // Where there is no timer they stay for as long as the model.
    let _ = runtime::spawn(async move {
        tokio::time::sleep(KEPT).await;
        let _ = thread::start("webnn-node cache", let_go);
    });
}

impl DiskCache {
    /// Other versions of the package want other packings.
    fn key_of_list(&self, state: &[u8]) -> u128 {
        let mut hash = Xxh3::with_seed(self.secret);
        hash.update(concat!("wanted 1 ", env!("CARGO_PKG_VERSION"), " ").as_bytes());
        hash.update(state);
        hash.digest128()
    }

    fn list(&self, key: u128) -> Vec<Packing> {
        let found = self.open_file(Kind::Wanted, key, 1..=MOST * 24 + 64);
        found.and_then(|file| decoded(file.as_ref())).unwrap_or_default()
    }

    fn keep_list(self: &Arc<Self>, key: u128, wanted: &[Packing]) {
        self.offer_file(Kind::Wanted, key, Arc::new(encoded(wanted)));
    }
}

fn encoded(wanted: &[Packing]) -> Vec<u8> {
    let numbers = wanted.iter().flat_map(|(key, length)| [*key as u64, (key >> 64) as u64, *length as u64]);
    Wanted { numbers: numbers.collect() }.encode_to_vec()
}

/// The packings of a list; nothing for other bytes.
pub fn decoded(bytes: &[u8]) -> Option<Vec<Packing>> {
    let Wanted { numbers } = Wanted::decode(bytes).ok()?;
    let (packings, rest) = numbers.as_chunks::<3>();
    let packing = |&[low, high, length]: &[u64; 3]| Some((u128::from(low) | u128::from(high) << 64, length.try_into().ok()?));
    if rest.is_empty() { packings.iter().take(MOST).map(packing).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::Numbers;
    use super::super::tests::Folder;
    use super::*;

    const LENGTH: usize = 1000;

    fn bytes(key: u128) -> Offered {
        Arc::new(vec![key as u8; LENGTH])
    }

    /// Wants packings as a process that loads a model, and makes what it does not find. Which it has found.
    fn load(folder: &Folder, state: &[u8], wanted: &[u128]) -> (Vec<bool>, Numbers) {
        let cache = folder.open();
        let model = ModelCache::new(cache.clone());
        model.read_ahead(state);
        let want = |key: &u128| {
            let found = model.find(*key, LENGTH);
            found.iter().for_each(|found| assert_eq!(found.as_ref(), (*bytes(*key)).as_ref()));
            if found.is_none() {
                model.offer(*key, bytes(*key));
            }
            found.is_some()
        };
        let found = wanted.iter().map(want).collect();
        model.end();
        cache.finish();
        assert!(model.ahead().files.is_empty());
        (found, cache.numbers())
    }

    fn list(folder: &Folder, state: &[u8]) -> Vec<Packing> {
        let cache = folder.open();
        cache.list(cache.key_of_list(state))
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let wanted = [(1 << 100 | 5, 7), (0, usize::MAX), (u128::MAX, 0)];
        assert_eq!(decoded(&encoded(&wanted)).as_deref(), Some(&wanted[..]));
        assert_eq!(decoded(&[]), Some(Vec::new()));
        assert_eq!(decoded(&encoded(&wanted)[1..]), None);
        assert_eq!(decoded(&Wanted { numbers: vec![1, 2, 3, 4] }.encode_to_vec()), None);
    }

    #[test]
    fn what_was_wanted_is_noted_and_found() {
        let folder = Folder::new("ahead");
        let keys: Vec<u128> = (0..50).map(|key| key << 70 | key).collect();
        let (found, numbers) = load(&folder, b"a", &keys);
        assert!(!found.contains(&true));
        assert_eq!((numbers.hits, numbers.misses, numbers.written), (0, 50, 50));
        assert_eq!(list(&folder, b"a"), keys.iter().map(|key| (*key, LENGTH)).collect::<Vec<_>>());
        for _ in 0..5 {
            let (found, numbers) = load(&folder, b"a", &keys);
            assert!(!found.contains(&false));
            assert_eq!(numbers, Numbers { hits: 50, misses: 0, damaged: 0, written: 0 });
        }
        // In another order, and fewer of them.
        assert_eq!(load(&folder, b"a", &[keys[49], keys[0]]).0, [true, true]);
        assert_eq!(list(&folder, b"a").len(), 50);
        // One more: what is not wanted any longer goes from the list, so that it is not opened, and marked as used, for ever.
        assert_eq!(load(&folder, b"a", &[keys[49], 99, keys[0]]).0, [true, false, true]);
        assert_eq!(list(&folder, b"a"), [keys[49], 99, keys[0]].map(|key| (key, LENGTH)));
        // Another model has its own.
        assert_eq!(load(&folder, b"b", &keys[..2]).0, [true, true]);
        assert_eq!(list(&folder, b"b").len(), 2);
    }

    #[test]
    fn what_is_damaged_or_gone_is_a_miss_once() {
        let folder = Folder::new("ahead-damaged");
        let keys: Vec<u128> = (0..20).collect();
        load(&folder, b"a", &keys);
        let path = |key| folder.open().path_of(Kind::Packing, key);
        std::fs::remove_file(path(3)).unwrap();
        std::fs::write(path(4), [0; 100]).unwrap();
        let (found, numbers) = load(&folder, b"a", &keys);
        assert_eq!(found, keys.iter().map(|key| ![3, 4].contains(key)).collect::<Vec<_>>());
        assert_eq!(numbers, Numbers { hits: 18, misses: 2, damaged: 1, written: 2 });
        // A list that says something else.
        let cache = folder.open();
        cache.keep_list(cache.key_of_list(b"a"), &[(0, LENGTH + 1), (1, 5), (7, LENGTH)]);
        cache.finish();
        let (found, _) = load(&folder, b"a", &keys[7..10]);
        assert_eq!(found, [true; 3]);
    }

    #[test]
    fn the_first_graph_that_wants_something_is_noted() {
        let folder = Folder::new("ahead-graphs");
        let cache = folder.open();
        let model = ModelCache::new(cache.clone());
        model.read_ahead(b"a");
        for graph in [&[][..], &[1, 2, 1], &[3]] {
            graph.iter().for_each(|key| assert!(model.find(*key, LENGTH).is_none()));
            model.end();
        }
        cache.finish();
        assert_eq!(list(&folder, b"a"), [(1, LENGTH), (2, LENGTH)]);
    }

    #[test]
    fn what_was_opened_goes_with_the_model() {
        let folder = Folder::new("ahead-gone");
        load(&folder, b"a", &[1, 2, 3]);
        let cache = folder.open();
        let wanted = vec![(1, LENGTH), (2, LENGTH)];
        let model = ModelCache::new(cache.clone());
        model.ahead().files = wanted.iter().map(|(key, _)| (*key, File::Expected)).collect();
        open_all(&Arc::downgrade(&model), wanted.clone());
        assert!(wanted.iter().all(|(key, _)| matches!(model.ahead().files.get(key), Some(File::Opened(Some(_))))));
        model.let_go();
        assert!(model.ahead().files.is_empty());
        let gone = Arc::downgrade(&model);
        drop(model);
        open_all(&gone, wanted);
        assert!(gone.upgrade().is_none(), "no timer keeps it");
    }

    #[test]
    fn where_files_are_read_none_is_opened_ahead() {
        let folder = Folder::new("ahead-read");
        load(&folder, b"a", &[1, 2, 3]);
        let mut cache = DiskCache::open(&folder.0).unwrap();
        cache.maps = false;
        let model = ModelCache::new(Arc::new(cache));
        model.read_ahead(b"a");
        assert!(model.ahead().files.is_empty());
        assert!(model.find(1, LENGTH).is_some());
    }

    #[test]
    fn graphs_of_no_file_note_nothing() {
        let folder = Folder::new("ahead-nothing");
        let cache = folder.open();
        let model = ModelCache::new(cache.clone());
        assert!(model.find(1, LENGTH).is_none());
        model.offer(1, bytes(1));
        model.end();
        cache.finish();
        assert!(model.find(1, LENGTH).is_some());
        assert_eq!(super::super::files(&folder.0).len(), 1);
    }
}
