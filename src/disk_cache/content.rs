//! The bytes of a file: mapped, so that processes share them, or read.
//!
//! A file is mapped where its pages are there for as long as it is open. On a network they may not be: NFS forgets a file that another machine has
//! removed, and a server can be out of reach, which ends a process that looks at a page. So what is not known to be a file system of
//! this machine is read, and each process has its own copy.

use crate::memory::{Bytes, MappedFile};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

#[derive(Debug)]
pub enum Content {
    Mapped(MappedFile),
    Read(Bytes),
}

impl Content {
    /// All of a file, which has so many bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn of(mut file: &File, length: u64) -> io::Result<Content> {
        if is_local(file) {
            return MappedFile::new(file).map(Content::Mapped);
        }
        file.rewind()?;
        Content::read(file, length)
    }

    fn read(mut file: impl Read, length: u64) -> io::Result<Content> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut bytes = Bytes::zeroed(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        file.read_exact(&mut bytes)?;
        Ok(Content::Read(bytes))
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        match self {
            Content::Mapped(file) => file.as_ref(),
            Content::Read(bytes) => bytes,
        }
    }
}

/// Whether the file system is one of this machine.
#[cfg(target_os = "linux")]
fn is_local(file: &File) -> bool {
    // The type is a number of 32 bits, which some systems extend.
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.iter().any(|(_, kind)| found.f_type as u32 == *kind))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &File) -> bool {
    true
}

/// Whether the files of a folder are mapped.
pub fn maps_files_in(folder: &Path) -> bool {
    // Windows opens no folders.
    cfg!(not(target_os = "linux")) || File::open(folder).is_ok_and(|folder| is_local(&folder))
}

/// Names and types (`statfs(2)`).
#[cfg(target_os = "linux")]
const LOCAL: [(&str, u32); 18] = [
    ("bcachefs", 0xca45_1a4e),
    ("btrfs", 0x9123_683e),
    ("ecryptfs", 0xf15f),
    ("erofs", 0xe0f5_e1e2),
    ("exfat", 0x2011_bab0),
    ("ext2, ext3 and ext4", 0xef53),
    ("f2fs", 0xf2f5_2010),
    ("jfs", 0x3153_464a),
    ("msdos and vfat", 0x4d44),
    ("nilfs", 0x3434),
    ("ntfs3", 0x7366_746e),
    ("overlayfs", 0x794c_7630),
    ("ramfs", 0x8584_58f6),
    ("squashfs", 0x7371_7368),
    ("tmpfs", 0x0102_1994),
    ("ubifs", 0x2405_1905),
    ("xfs", 0x5846_5342),
    ("zfs", 0x2fc1_2fc1),
];

#[cfg(test)]
mod tests {
    use super::super::tests::Folder;
    use super::*;
    use std::fs;

    #[test]
    fn what_is_read_is_what_is_mapped() {
        let folder = Folder::new("content");
        fs::create_dir_all(&folder.0).unwrap();
        let (path, bytes) = (folder.0.join("file"), vec![7; 100_000]);
        fs::write(&path, &bytes).unwrap();
        let file = || File::open(&path).unwrap();
        let read = Content::read(file(), 100_000).unwrap();
        assert!(matches!(read, Content::Read(_)) && read.as_ref() == bytes);
        assert_eq!(Content::of(&file(), 100_000).unwrap().as_ref(), bytes);
        assert!(Content::read(file(), 100_001).is_err(), "it was cut short");
        // What others write later is not seen.
        fs::write(&path, [8; 100_000]).unwrap();
        assert_eq!(read.as_ref(), bytes);
    }

    /// Processes have files: those of Linux itself are on no file system of the list.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_known_file_systems_are_mapped() {
        assert!(!is_local(&File::open("/proc/self/maps").unwrap()));
        assert!(!maps_files_in(Path::new("/proc/self")) && !maps_files_in(Path::new("/no folder")));
        let (names, kinds): (Vec<&str>, Vec<u32>) = LOCAL.into_iter().unzip();
        assert!(names.is_sorted());
        // NFS, SMB (two), FUSE, 9P, Ceph, AFS, Lustre.
        for network in [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x0bd0_0bd0] {
            assert!(!kinds.contains(&network));
        }
    }
}
