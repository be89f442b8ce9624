//! A file of the cache: a header of 64 bytes, and the bytes after it, so that they are aligned where the file is mapped.
//!
//! ```text
//! 0   magic, with the version of the format
//! 8   the key
//! 24  how many bytes there are
//! 32  a hash of all of that and of the bytes, with the secret of the folder
//! 48  zeros
//! 64  the bytes, until the end of the file
//! ```
#![allow(unsafe_code)]

use super::content::Content;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, SystemTime};
use xxhash_rust::xxh3::Xxh3;

/// The bytes of a file begin here.
pub const HEADER: usize = 64;

const MAGIC: [u8; 8] = *b"WEBNNPK\x01";

/// A file is marked as used as seldom as that.
const MARKED: Duration = Duration::from_secs(600);

/// The header of bytes with this key.
fn header(key: u128, bytes: &[u8], secret: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&key.to_le_bytes());
    header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    let mut hash = Xxh3::with_seed(secret);
    hash.update(&header[..32]);
    hash.update(bytes);
    header[32..48].copy_from_slice(&hash.digest128().to_le_bytes());
    header
}

/// The bytes of a file, if it is whole and has what is named so.
pub fn checked(file: &[u8], key: u128, secret: u64) -> Option<&[u8]> {
    let (found, bytes) = file.split_at_checked(HEADER)?;
    (found == header(key, bytes, secret)).then_some(bytes)
}

/// Writes a file, which must be there in no other form.
///
/// # Errors
/// Those of the system.
pub fn write(file: &mut impl Write, key: u128, bytes: &[u8], secret: u64) -> io::Result<()> {
    file.write_all(&header(key, bytes, secret))?;
    file.write_all(bytes)
}

/// A file that was checked, and is mapped where it may be.
#[derive(Debug)]
pub struct Stored(Content);

/// Why there is none.
#[derive(Debug, PartialEq)]
pub enum Missing {
    NotThere,
    /// It is another one than the name says, cut short, or changed.
    Damaged,
}

impl Stored {
    /// Opens a file of so many bytes and reads all of it.
    ///
    /// # Errors
    /// When it is not there, or not as it was written.
    pub fn open(path: &Path, key: u128, lengths: RangeInclusive<usize>, secret: u64) -> Result<Stored, Missing> {
        let file = File::open(path).map_err(|_| Missing::NotThere)?;
        let metadata = file.metadata().map_err(|_| Missing::NotThere)?;
        if !metadata.is_file() || !is_safe(&metadata) {
            return Err(Missing::NotThere);
        }
        let length = usize::try_from(metadata.len()).ok().and_then(|length| length.checked_sub(HEADER));
        if !length.is_some_and(|length| length > 0 && lengths.contains(&length)) {
            return Err(Missing::Damaged);
        }
        // The check reads all of it, which brings many pages of a mapped file at a time. To have them brought before that takes a quarter longer.
        // The file is of this user or the administrator, and nobody else may write to it; whoever takes one out of the cache removes its
        // name and leaves the file itself as it is.
        let content = Content::of(&file, metadata.len()).map_err(|_| Missing::NotThere)?;
        checked(content.as_ref(), key, secret).ok_or(Missing::Damaged)?;
        mark_used(&file, &metadata);
        Ok(Stored(content))
    }

    /// Whether other processes have the same memory.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Content::Mapped(_))
    }
}

impl AsRef<[u8]> for Stored {
    fn as_ref(&self) -> &[u8] {
        &self.0.as_ref()[HEADER..]
    }
}

/// The files that were used last stay longest. Where that cannot be noted they count from when they were made.
pub fn mark_used(file: &File, metadata: &Metadata) {
    let now = SystemTime::now();
    let is_recent = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age < MARKED);
    if !metadata.modified().is_ok_and(is_recent) {
        let _ = file.set_modified(now);
    }
}

/// Whether nobody but this user and the administrator can have written it.
#[cfg(unix)]
pub fn is_safe(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    unsafe extern "C" {
        safe fn geteuid() -> u32;
    }
    [0, geteuid()].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0
}

/// The folders of a user are that user's.
#[cfg(not(unix))]
pub fn is_safe(_: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(key: u128, bytes: &[u8]) -> Vec<u8> {
        [&header(key, bytes, 5)[..], bytes].concat()
    }

    #[test]
    fn only_what_was_written_is_read() {
        let bytes: Vec<u8> = (0..100).collect();
        let file = whole(7, &bytes);
        assert_eq!(checked(&file, 7, 5), Some(&bytes[..]));
        assert_eq!(checked(&file, 8, 5), None, "another key");
        assert_eq!(checked(&file, 7, 6), None, "written without the secret");
        for length in 0..file.len() {
            assert_eq!(checked(&file[..length], 7, 5), None, "cut to {length}");
        }
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(checked(&file, 7, 5), None, "bit {bit}");
        }
        assert_eq!(checked(&[&file[..], &[0]].concat(), 7, 5), None, "longer");
    }
}
