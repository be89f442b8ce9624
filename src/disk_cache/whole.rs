//! A file in a place that script chooses, which is written at once or not at all, and read whole or not at all.
//!
//! ```text
//! 0   magic, with the version of the format
//! 8   a key: what the bytes are for
//! 24  how many bytes there are
//! 32  a hash of the bytes and of all of that
//! 48  zeros
//! 64  the bytes, until the end of the file
//! ```
//!
//! The hash tells damage, not who has written the file.

use super::write_beside;
use crate::error::{Error, Kind, Result};
use crate::memory::{filled, regular, unreadable};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const HEADER: usize = 64;
const MAGIC: [u8; 8] = *b"WEBNNWF\x01";

fn header(key: u128, length: u64, mut hash: Xxh3) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..24].copy_from_slice(&key.to_le_bytes());
    header[24..32].copy_from_slice(&length.to_le_bytes());
    hash.update(&header[..32]);
    header[32..48].copy_from_slice(&hash.digest128().to_le_bytes());
    header
}

/// Hashes what is written.
struct Hashing<W> {
    file: W,
    hash: Xxh3,
    length: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file in the place of a file that is there, or of nothing.
///
/// # Errors
/// `OperationError` when it cannot be written, or would take the place of a folder, a pipe or a device: then what was there is there.
/// `QuotaExceededError` when there is no room.
pub fn write_whole(path: &Path, key: u128, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if path.exists() {
        regular(path)?;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let fill = |file: &mut File| {
        let mut hashing = Hashing { file: BufWriter::with_capacity(1 << 16, file), hash: Xxh3::new(), length: 0 };
        hashing.file.write_all(&[0; HEADER])?;
        write(&mut hashing)?;
        let Hashing { mut file, hash, length } = hashing;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header(key, length, hash))?;
        file.flush()?;
        file.get_ref().sync_all()
    };
    write_beside(folder, fill, |new| fs::rename(new, path)).map_err(|error| {
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge);
        let kind = if is_full { Kind::QuotaExceeded } else { Kind::Operation };
        Error::new(kind, format!("{:?} cannot be written: {error}", path.display()))
    })
}

/// The bytes of a file with this key, which are at most so many.
///
/// # Errors
/// `OperationError` when it cannot be read, is not as it was written, or has another key; `QuotaExceededError` when it is longer; `UnknownError`
/// when there is no memory for it.
pub fn read_whole(path: &Path, key: u128, most: u64) -> Result<Vec<u8>> {
    regular(path)?;
    let cannot = |error| unreadable(path, error);
    let file = File::open(path).map_err(cannot)?;
    let length = file.metadata().map_err(cannot)?.len();
    read(file, length, key, most).map_err(|error| Error::new(error.kind(), format!("{:?}: {}", path.display(), error.message())))
}

/// The same of a file of so many bytes.
///
/// # Errors
/// As [`read_whole`].
pub fn read(mut file: impl Read, length: u64, key: u128, most: u64) -> Result<Vec<u8>> {
    let damaged = || Error::new(Kind::Operation, "found a file that is damaged, allowed one as it was saved");
    let mut found = [0; HEADER];
    file.read_exact(&mut found).map_err(|_| damaged())?;
    let numbers: [u64; 8] = std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|byte| found[8 * i + byte])));
    if found[..8] != MAGIC || length.checked_sub(HEADER as u64) != Some(numbers[3]) {
        return Err(damaged());
    }
    if numbers[3] > most {
        let text = format!("found {} bytes, allowed {most}", numbers[3]);
        return Err(Error::new(Kind::QuotaExceeded, text));
    }
    let mut bytes = filled(0u8, usize::try_from(numbers[3]).map_err(|_| damaged())?)?;
    file.read_exact(&mut bytes).map_err(|_| damaged())?;
    let mut hash = Xxh3::new();
    hash.update(&bytes);
    let own = u128::from(numbers[1]) | u128::from(numbers[2]) << 64;
    if found != header(own, numbers[3], hash) {
        return Err(damaged());
    }
    if own != key {
        let text = "found a file of another model, other options or another version of the package";
        return Err(Error::new(Kind::Operation, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;

    #[test]
    fn only_what_was_written_is_read() {
        let folder = Folder::new("whole");
        let path = folder.0.join("file");
        let bytes: Vec<u8> = (0..100).collect();
        let save = |key| {
            write_whole(&path, key, |file| {
                file.write_all(&bytes[..40])?;
                file.write_all(&bytes[40..])
            })
        };
        fs::create_dir_all(&folder.0).unwrap();
        save(7).unwrap();
        assert_eq!(read_whole(&path, 7, 100).unwrap(), bytes);
        assert_eq!(read_whole(&path, 7, 99).unwrap_err().kind(), Kind::QuotaExceeded);
        assert!(read_whole(&path, 8, 100).unwrap_err().message().contains("another model"));
        assert!(read_whole(&folder.0, 7, 100).unwrap_err().message().contains("not a regular file but a folder"));
        let file = fs::read(&path).unwrap();
        let read = |file: &[u8]| read(file, file.len() as u64, 7, 100);
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "cut to {length}");
        }
        assert!(read(&[&file[..], &[0]].concat()).is_err(), "longer");
        for bit in 0..file.len() * 8 {
            let mut file = file.clone();
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&file).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = Folder::new("whole-failing");
        fs::create_dir_all(&folder.0).unwrap();
        let path = folder.0.join("file");
        write_whole(&path, 1, |file| file.write_all(b"first")).unwrap();
        let failing = write_whole(&path, 1, |file| file.write_all(b"sec").and_then(|()| Err(io::Error::other("so it goes"))));
        assert!(failing.unwrap_err().message().contains("so it goes"));
        assert_eq!(read_whole(&path, 1, 100).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
        assert_eq!(write_whole(&folder.0.join("none/file"), 1, |_| Ok(())).unwrap_err().kind(), Kind::Operation);
        assert!(write_whole(&folder.0, 1, |_| Ok(())).unwrap_err().message().contains("not a regular file but a folder"));
    }
}
