//! Graphs that script has saved, each in a file of the folder with all that it is made of.
//!
//! ```text
//! 0   magic, with the version of the format
//! 8   a hash of the origin and the key, with the secret of the folder: the name of the file
//! 24  how many bytes the head has
//! 32  a hash of all of that, of what follows until 64, and of the head, with the secret
//! 48  how many bytes the file has
//! 56  zeros
//! 64  the head: version of the package, origin, key, label, description of the graph, and a table of its constants
//! …   the constants, each at a multiple of 64
//! ```
//!
//! The head is read and checked whenever a file is opened. Constants are mapped, and checked when somebody first looks at them, against hashes
//! that the head has: most are never looked at, because what was packed of them is found by these hashes. Nothing is known of the
//! description here but its length: whoever reads it checks it.

use super::content::Content;
use super::entry::{is_safe, mark_used};
use super::{DiskCache, Kind, LEFT_OVER, list, write_beside};
use crate::error::{self, Error, Result};
use crate::memory::{self, Check, Finding, Immutable, Store, filled, identity_with};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: [u8; 8] = *b"WEBNNGR\x01";

/// The head begins here, and constants are at multiples of it.
const HEADER: usize = 64;

/// A row of the table of constants: where it begins, its length, its hash, and its greatest magnitude, if that is known.
const ROW: usize = 40;

/// A head of more bytes is none of ours.
const MOST_HEAD: u64 = 1 << 30;

/// What a graph is saved under.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Name<'a> {
    /// Whose graphs these are.
    pub origin: &'a str,
    pub key: &'a str,
}

/// A constant: its bytes, and its greatest magnitude as float32, if that is known.
pub type Constant<'a> = (&'a [u8], Option<f32>);

/// A graph to be saved.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'a> {
    pub label: &'a str,
    pub description: &'a [u8],
    pub constants: &'a [Constant<'a>],
}

/// What the constants of a saved graph hash to.
#[derive(Debug)]
pub struct Identity(Vec<u128>);

/// A saved graph.
pub struct Saved {
    pub label: String,
    pub description: Vec<u8>,
    constants: Vec<Row>,
    file: Arc<OpenFile>,
}

/// What is known of a file of a saved graph without its constants.
#[derive(Debug, PartialEq)]
pub struct Listed {
    pub origin: String,
    pub key: String,
    pub file: String,
    pub bytes: u64,
}

/// A file, mapped where it may be.
struct OpenFile {
    /// Before the bytes.
    _immutable: Immutable,
    content: Content,
    secret: u64,
    path: PathBuf,
}

/// A constant of a saved graph.
pub struct SavedConstant {
    file: Arc<OpenFile>,
    row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    offset: usize,
    length: usize,
    /// A hash of the bytes, with the secret.
    identity: u128,
    greatest: Option<f32>,
}

/// What a head says.
#[derive(Debug, PartialEq)]
struct Head {
    origin: String,
    key: String,
    label: String,
    description: Vec<u8>,
    constants: Vec<Row>,
}

/// Why there is none.
enum Missing {
    NotThere,
    Damaged,
}

impl DiskCache {
    fn name_of(&self, name: Name<'_>) -> u128 {
        hash(self.secret, &[b"graph 1", &(name.origin.len() as u64).to_le_bytes(), name.origin.as_bytes(), name.key.as_bytes()])
    }

    /// Saves a graph, in the place of one with this name. The result tells it from others ([`Saved::is`]).
    ///
    /// # Errors
    /// `QuotaExceededError` when the cache or the disk has no room for it, `OperationError` when it cannot be written.
    pub fn save_graph(&self, name: Name<'_>, graph: &Graph<'_>) -> Result<Identity> {
        let number = self.name_of(name);
        let (rows, length) = laid_out(name, graph, self.secret);
        if length as u64 > self.most_bytes {
            let message = format!("the graph takes {length} bytes, the cache may have {} (WEBNN_CACHE_BYTES)", self.most_bytes);
            return Err(Error::new(error::Kind::QuotaExceeded, message));
        }
        let write = |file: &mut File| {
            let mut file = BufWriter::with_capacity(1 << 16, file);
            write(&mut file, number, name, graph, &rows, self.secret)?;
            file.flush()
        };
        write_beside(&self.folder, write, |new| fs::rename(new, self.path_of(Kind::Graph, number))).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    error::Kind::QuotaExceeded
                }
                _ => error::Kind::Operation,
            };
            Error::new(kind, format!("the graph cannot be written to {}: {error}", self.folder.display()))
        })?;
        self.make_room();
        Ok(Identity(rows.iter().map(|row| row.identity).collect()))
    }

    /// A graph that was saved; nothing where there is none, or where its file is damaged and goes.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it.
    pub fn saved_graph(&self, name: Name<'_>) -> Result<Option<Saved>> {
        let number = self.name_of(name);
        let path = self.path_of(Kind::Graph, number);
        let found = open(&path, number, self.secret)?.and_then(|(head, file)| {
            let is_named = Name { origin: &head.origin, key: &head.key } == name;
            if is_named { mapped(head, &file, &path, self.secret).map(|saved| (saved, file)) } else { Err(Missing::Damaged) }
        });
        match found {
            Ok((saved, file)) => {
                file.metadata().iter().for_each(|metadata| mark_used(&file, metadata));
                Ok(Some(saved))
            }
            Err(Missing::NotThere) => Ok(None),
            Err(Missing::Damaged) => {
                self.damaged.fetch_add(1, Ordering::Relaxed);
                let _ = fs::remove_file(&path);
                Ok(None)
            }
        }
    }

    /// All graphs that were saved, those used last first.
    pub fn saved_graphs(&self) -> Vec<Listed> {
        let mut files = list(&self.folder, LEFT_OVER);
        files.retain(|file| Kind::of(&file.path) == Some(Kind::Graph));
        files.sort_by_key(|file| std::cmp::Reverse(file.used));
        let described = files.into_iter().filter_map(|super::Listed { path, bytes, .. }| {
            let (head, _) = open(&path, super::key_of(&path)?, self.secret).ok()?.ok()?;
            let file = path.file_name()?.to_str()?.to_owned();
            let Head { origin, key, .. } = head;
            Some(Listed { origin, key, file, bytes })
        });
        described.collect()
    }

    /// Removes a saved graph, if it is there.
    ///
    /// # Errors
    /// `OperationError` when it cannot be removed.
    pub fn delete_graph(&self, name: Name<'_>) -> Result<()> {
        match fs::remove_file(self.path_of(Kind::Graph, self.name_of(name))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::new(error::Kind::Operation, format!("the graph cannot be removed: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a file has a saved graph as it was written, with all constants.
pub(super) fn is_whole(path: &Path, number: u128, secret: u64) -> bool {
    let Ok(Ok((head, file))) = open(path, number, secret) else { return false };
    mapped(head, &file, path, secret).is_ok_and(|saved| saved.constants().all(|(constant, _)| constant.is_as_written()))
}

impl Saved {
    /// Whether it is the graph that was saved, and not another one that was saved under the same name since.
    pub fn is(&self, description: &[u8], identity: &Identity) -> bool {
        self.description == description && self.constants.iter().map(|row| row.identity).eq(identity.0.iter().copied())
    }

    /// Its constants, and the greatest magnitudes that are known.
    pub fn constants(&self) -> impl Iterator<Item = (SavedConstant, Option<f32>)> {
        self.constants.iter().map(|row| (SavedConstant { file: self.file.clone(), row: *row }, row.greatest))
    }
}

impl SavedConstant {
    fn is_as_written(&self) -> bool {
        identity_with(self.file.secret, self.unchecked()) == self.row.identity
    }
}

impl Check for SavedConstant {
    fn unchecked(&self) -> &[u8] {
        &self.file.content.as_ref()[self.row.range()]
    }

    fn check(&self) -> Result<()> {
        if self.is_as_written() {
            return Ok(());
        }
        let path = &self.file.path;
        let _ = fs::remove_file(path);
        Err(Error::new(error::Kind::Operation, format!("the saved graph in {} is damaged, and was removed", path.display())))
    }
}

impl Row {
    fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.length
    }
}

/// What is found out about constants later stays with this process.
struct Nowhere;

impl Store for Nowhere {
    fn keep(&self, _: &[Finding]) {}
}

fn hash(secret: u64, parts: &[&[u8]]) -> u128 {
    let mut hash = Xxh3::with_seed(secret);
    parts.iter().for_each(|part| hash.update(part));
    hash.digest128()
}

/// Where the constants of a graph are in its file, equal ones once, and how long the file is.
fn laid_out(name: Name<'_>, graph: &Graph<'_>, secret: u64) -> (Vec<Row>, usize) {
    let mut end = (HEADER + head(name, graph, &[]).len() + ROW * graph.constants.len()).next_multiple_of(HEADER);
    let mut places = HashMap::new();
    let mut row = |&(bytes, greatest): &Constant<'_>| {
        let (identity, length) = (identity_with(secret, bytes), bytes.len());
        let offset = *places.entry((identity, length)).or_insert_with(|| {
            let offset = end;
            end = (end + length).next_multiple_of(HEADER);
            offset
        });
        Row { offset, length, identity, greatest }
    };
    (graph.constants.iter().map(&mut row).collect(), end)
}

fn head(name: Name<'_>, graph: &Graph<'_>, rows: &[Row]) -> Vec<u8> {
    let mut head = Vec::new();
    let texts = [env!("CARGO_PKG_VERSION"), name.origin, name.key, graph.label].map(str::as_bytes);
    for bytes in texts.into_iter().chain([graph.description]) {
        head.extend((bytes.len() as u64).to_le_bytes());
        head.extend(bytes);
    }
    head.extend((graph.constants.len() as u64).to_le_bytes());
    for Row { offset, length, identity, greatest } in rows {
        head.extend((*offset as u64).to_le_bytes());
        head.extend((*length as u64).to_le_bytes());
        head.extend(identity.to_le_bytes());
        head.extend(u32::from(greatest.is_some()).to_le_bytes());
        head.extend(greatest.unwrap_or_default().to_le_bytes());
    }
    head
}

fn header(number: u128, head: &[u8], length: u64, secret: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&number.to_le_bytes());
    header[24..32].copy_from_slice(&(head.len() as u64).to_le_bytes());
    header[48..56].copy_from_slice(&length.to_le_bytes());
    let hash = hash(secret, &[&header[..32], &header[48..], head]);
    header[32..48].copy_from_slice(&hash.to_le_bytes());
    header
}

fn write(file: &mut impl Write, number: u128, name: Name<'_>, graph: &Graph<'_>, rows: &[Row], secret: u64) -> io::Result<()> {
    let head = head(name, graph, rows);
    let end = |row: &Row| (row.offset + row.length).next_multiple_of(HEADER);
    let length = rows.iter().map(end).max().unwrap_or((HEADER + head.len()).next_multiple_of(HEADER));
    file.write_all(&header(number, &head, length as u64, secret))?;
    file.write_all(&head)?;
    let mut at = HEADER + head.len();
    let pad = |file: &mut _, at: &mut usize| {
        let to = at.next_multiple_of(HEADER);
        let zeros = &[0; HEADER][..to - *at];
        *at = to;
        Write::write_all(file, zeros)
    };
    pad(file, &mut at)?;
    for (row, (bytes, _)) in rows.iter().zip(graph.constants) {
        // Otherwise it is the same as an earlier one.
        if row.offset == at {
            file.write_all(bytes)?;
            at += bytes.len();
            pad(file, &mut at)?;
        }
    }
    Ok(())
}

/// The head of a file, if that is as it was written; the error is about memory.
fn open(path: &Path, number: u128, secret: u64) -> Result<Result<(Head, File), Missing>> {
    let Ok(file) = File::open(path) else { return Ok(Err(Missing::NotThere)) };
    let Ok(metadata) = file.metadata() else { return Ok(Err(Missing::NotThere)) };
    if !metadata.is_file() || !is_safe(&metadata) {
        return Ok(Err(Missing::NotThere));
    }
    let head = read_head(&file, metadata.len(), number, secret)?;
    Ok(head.map(|head| (head, file)).ok_or(Missing::Damaged))
}

/// The head of a file of so many bytes, if it is one of ours.
///
/// # Errors
/// `UnknownError` when there is no memory for it.
fn read_head(mut file: impl Read, length: u64, number: u128, secret: u64) -> Result<Option<Head>> {
    let mut found = [0; HEADER];
    if file.read_exact(&mut found).is_err() {
        return Ok(None);
    }
    let numbers: [u64; 8] = std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|byte| found[8 * i + byte])));
    let head_length = numbers[3];
    if head_length > MOST_HEAD || head_length > length.saturating_sub(HEADER as u64) || numbers[6] != length {
        return Ok(None);
    }
    let mut bytes = filled(0u8, head_length as usize)?;
    if file.read_exact(&mut bytes).is_err() || found != header(number, &bytes, length, secret) {
        return Ok(None);
    }
    Ok(parsed(&bytes, length))
}

/// What a head says of a file of so many bytes; nothing where it is none.
fn parsed(mut rest: &[u8], length: u64) -> Option<Head> {
    fn number(rest: &mut &[u8]) -> Option<usize> {
        let (bytes, after) = rest.split_first_chunk()?;
        *rest = after;
        u64::from_le_bytes(*bytes).try_into().ok()
    }
    fn bytes(rest: &mut &[u8]) -> Option<Vec<u8>> {
        let length = number(rest)?;
        let (bytes, after) = rest.split_at_checked(length)?;
        *rest = after;
        Some(bytes.to_vec())
    }
    let first = HEADER + rest.len();
    let _version = bytes(&mut rest)?;
    let [origin, key, label] = [(); 3].map(|()| bytes(&mut rest).and_then(|text| String::from_utf8(text).ok()));
    let description = bytes(&mut rest)?;
    let count = number(&mut rest)?;
    let (rows, after) = rest.as_chunks::<ROW>();
    if rows.len() != count || !after.is_empty() {
        return None;
    }
    let row = |row: &[u8; ROW]| {
        let (offset, rest) = row.split_first_chunk()?;
        let (length_of, rest) = rest.split_first_chunk()?;
        let (identity, rest) = rest.split_first_chunk()?;
        let (has_greatest, rest) = rest.split_first_chunk()?;
        let greatest = f32::from_le_bytes(rest.try_into().ok()?);
        let row = Row {
            offset: u64::from_le_bytes(*offset).try_into().ok()?,
            length: u64::from_le_bytes(*length_of).try_into().ok()?,
            identity: u128::from_le_bytes(*identity),
            greatest: (u32::from_le_bytes(*has_greatest) == 1).then_some(greatest),
        };
        let end = row.offset.checked_add(row.length)?;
        let is_inside = row.offset >= first && end as u64 <= length && row.offset.is_multiple_of(HEADER);
        is_inside.then_some(row)
    };
    let constants = rows.iter().map(row).collect::<Option<_>>()?;
    Some(Head { origin: origin?, key: key?, label: label?, description, constants })
}

fn mapped(head: Head, file: &File, path: &Path, secret: u64) -> Result<Saved, Missing> {
    let Head { label, description, constants, .. } = head;
    let length = file.metadata().map_err(|_| Missing::NotThere)?.len();
    let content = Content::of(file, length).map_err(|_| Missing::NotThere)?;
    // It may have been cut short since its length was looked at.
    if constants.iter().any(|row| row.range().end > content.as_ref().len()) {
        return Err(Missing::Damaged);
    }
    let immutable = Immutable::new(content.as_ref());
    if memory::seed() == secret {
        let finding = |&Row { offset, length, identity, greatest }: &Row| {
            let identity = Some(identity);
            Finding { offset, length, identity, greatest, are_halves: None }
        };
        immutable.remember(|| (Box::new(Nowhere), constants.iter().map(finding).collect()));
    }
    let file = Arc::new(OpenFile { _immutable: immutable, content, secret, path: path.to_owned() });
    Ok(Saved { label, description, constants, file })
}

/// For fuzzing: any bytes as the file of a saved graph, and as a head.
pub fn read_anything(bytes: &[u8], number: u128, secret: u64) -> bool {
    let _ = parsed(bytes, bytes.len() as u64 + HEADER as u64);
    read_head(bytes, bytes.len() as u64, number, secret).is_ok_and(|head| head.is_some())
}

/// For fuzzing: the file of a graph with this description and constant.
///
/// # Errors
/// Those of the system.
pub fn write_anything(file: &mut impl Write, number: u128, description: &[u8], constant: &[u8], secret: u64) -> io::Result<()> {
    let name = Name { origin: "", key: "" };
    let graph = Graph { label: "", description, constants: &[(constant, None), (constant, Some(1.0))] };
    let (rows, _) = laid_out(name, &graph, secret);
    write(file, number, name, &graph, &rows, secret)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    const NAME: Name<'static> = Name { origin: "o", key: "k" };

    fn graph<'a>(constants: &'a [Constant<'a>]) -> Graph<'a> {
        Graph { label: "l", description: b"described", constants }
    }

    fn bytes_of(saved: &Saved) -> Vec<Result<Vec<u8>>> {
        saved.constants().map(|(constant, _)| constant.check().map(|()| constant.unchecked().to_vec())).collect()
    }

    #[test]
    fn what_was_saved_is_found_under_its_name_only() {
        let folder = Folder::new("saved");
        let cache = folder.open();
        let (small, large) = (vec![1; 100], vec![2; 100_000]);
        let constants: [Constant<'_>; 4] = [(&small, None), (&large, Some(2.5)), (&small, Some(1.0)), (&[], None)];
        assert!(cache.saved_graph(NAME).unwrap().is_none());
        cache.save_graph(NAME, &graph(&constants)).unwrap();
        let saved = folder.open().saved_graph(NAME).unwrap().unwrap();
        assert_eq!((&*saved.label, &*saved.description), ("l", &b"described"[..]));
        assert_eq!(
            bytes_of(&saved).into_iter().map(Result::unwrap).collect::<Vec<_>>(),
            constants.map(|(bytes, _)| bytes.to_vec())
        );
        assert_eq!(saved.constants().map(|(_, greatest)| greatest).collect::<Vec<_>>(), constants.map(|(_, greatest)| greatest));
        assert!(saved.constants().all(|(constant, _)| constant.unchecked().as_ptr().addr().is_multiple_of(memory::ALIGNMENT)));
        assert_eq!(saved.constants[0].offset, saved.constants[2].offset, "equal constants are there once");
        for other in [
            Name { key: "", ..NAME },
            Name { origin: "", ..NAME },
            Name { origin: "ok", key: "" },
            Name { origin: "", key: "ok" },
        ] {
            assert!(cache.saved_graph(other).unwrap().is_none());
        }
        assert_eq!(cache.saved_graphs().iter().map(|listed| (&*listed.origin, &*listed.key)).collect::<Vec<_>>(), [("o", "k")]);
        // In its place another one. What is mapped stays as it was.
        cache.save_graph(NAME, &graph(&[(&[3; 10], None)])).unwrap();
        assert_eq!(bytes_of(&cache.saved_graph(NAME).unwrap().unwrap())[0].as_ref().unwrap(), &[3; 10]);
        assert_eq!(bytes_of(&saved)[1].as_ref().unwrap(), &large);
        cache.delete_graph(NAME).unwrap();
        cache.delete_graph(NAME).unwrap();
        assert!(cache.saved_graph(NAME).unwrap().is_none() && cache.saved_graphs().is_empty());
    }

    #[test]
    fn keys_are_no_paths() {
        let folder = Folder::new("keys");
        let cache = folder.open();
        let long = "x".repeat(1 << 20);
        let keys = ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "C:", "NUL", "\0", "\u{1F600}", "secret", &long];
        for key in keys {
            cache.save_graph(Name { origin: "../o", key }, &graph(&[])).unwrap();
        }
        let mut listed: Vec<String> = cache.saved_graphs().into_iter().map(|listed| listed.key).collect();
        listed.sort_unstable();
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        assert_eq!(listed, sorted);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), keys.len() + 1);
        assert!(super::super::check(&folder.0).unwrap().iter().all(|(_, is_whole)| *is_whole));
    }

    /// All that is changed in a file shows: in its head when it is opened, in a constant when somebody looks at it.
    #[test]
    fn damage_is_found() {
        let folder = Folder::new("broken");
        let cache = folder.open();
        let constants: [Constant<'_>; 2] = [(&[5; 70], None), (&[6; 10], None)];
        let path = cache.path_of(Kind::Graph, cache.name_of(NAME));
        cache.save_graph(NAME, &graph(&constants)).unwrap();
        let whole = fs::read(&path).unwrap();
        let is_found = |file: &[u8]| {
            fs::write(&path, file).unwrap();
            let saved = cache.saved_graph(NAME).unwrap();
            saved.is_some_and(|saved| bytes_of(&saved).iter().all(Result::is_ok))
        };
        assert!(is_found(&whole));
        for length in 0..whole.len() {
            assert!(!is_found(&whole[..length]), "cut to {length}");
            assert!(!path.exists());
        }
        assert!(!is_found(&[&whole[..], &[0]].concat()), "longer");
        let head = read_head(&whole[..], whole.len() as u64, cache.name_of(NAME), cache.secret).unwrap().unwrap();
        let end = HEADER + u64::from_le_bytes(whole[24..32].try_into().unwrap()) as usize;
        for bit in 0..whole.len() * 8 {
            let mut file = whole.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            // Around constants there are zeros that nobody reads.
            let matters = bit / 8 < end || head.constants.iter().any(|row| row.range().contains(&(bit / 8)));
            assert_ne!(is_found(&file), matters, "bit {bit}");
        }
        // Of another folder, with another secret.
        let other = Folder::new("other-secret");
        let path = other.open().path_of(Kind::Graph, cache.name_of(NAME));
        fs::write(path, &whole).unwrap();
        assert!(other.open().saved_graphs().is_empty());
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room_and_what_is_too_large_is_refused() {
        let folder = Folder::new("room");
        let mut cache = DiskCache::open(&folder.0).unwrap();
        cache.most_bytes = 5000;
        let bytes = [1; 2000];
        for (number, key) in ["a", "b", "c"].into_iter().enumerate() {
            cache.save_graph(Name { key, ..NAME }, &graph(&[(&bytes, None)])).unwrap();
            let path = cache.path_of(Kind::Graph, cache.name_of(Name { key, ..NAME }));
            let ago = std::time::Duration::from_secs(10_000 - 1000 * number as u64);
            File::open(path).unwrap().set_modified(std::time::SystemTime::now() - ago).unwrap();
        }
        assert_eq!(cache.saved_graphs().len(), 2);
        assert!(cache.saved_graph(Name { key: "a", ..NAME }).unwrap().is_none());
        let error = cache.save_graph(NAME, &graph(&[(&[1; 6000], None)])).unwrap_err();
        assert_eq!(error.kind(), error::Kind::QuotaExceeded);
        assert_eq!(cache.saved_graphs().len(), 2);
    }

    /// Whoever reads while others write finds one of them, whole.
    #[test]
    fn writers_and_readers_race() {
        let folder = Folder::new("saved-race");
        let cache = folder.open();
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..20 {
                        cache.save_graph(NAME, &graph(&[(&[writer; 3000], None)])).unwrap();
                        let saved = cache.saved_graph(NAME).unwrap().expect("there is always one");
                        let bytes = bytes_of(&saved).remove(0).unwrap();
                        assert!(bytes.len() == 3000 && bytes.iter().all(|byte| *byte == bytes[0]));
                    }
                });
            }
        });
        assert_eq!(cache.numbers().damaged, 0);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }
}
