//! Bytes that many have a copy of. Copies share pages until somebody writes to one: the memory of what is alike is there once.
#![allow(unsafe_code)]

use super::Bytes;
use crate::error::Result;

#[cfg(target_os = "linux")]
pub use linux::Template;
#[cfg(not(target_os = "linux"))]
pub use nowhere::Template;

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::memory::huge_pages::Block;
    use memmap2::MmapOptions;
    use std::fs::File;
    use std::os::fd::FromRawFd;
    use std::os::unix::fs::FileExt;

    /// Bytes in a file without a name, which only this process has. Those that nobody has written are zeros, and take no memory.
    #[derive(Debug)]
    pub struct Template {
        file: File,
        length: usize,
    }

    impl Template {
        /// Parts begin at multiples of it.
        pub const PAGE: usize = 1 << 16;

        /// So many zeros; nothing where the system has no such files to give.
        pub fn new(length: usize) -> Option<Template> {
            const MFD_CLOEXEC: std::ffi::c_uint = 1;
            unsafe extern "C" {
                fn memfd_create(name: *const std::ffi::c_char, flags: std::ffi::c_uint) -> std::ffi::c_int;
            }
            // SAFETY: the name is a string with its end; the function keeps nothing of it.
            let descriptor = unsafe { memfd_create(c"webnn-node".as_ptr(), MFD_CLOEXEC) };
            if descriptor < 0 {
                return None;
            }
            // SAFETY: the descriptor is new, and nobody else's.
            let file = unsafe { File::from_raw_fd(descriptor) };
            file.set_len(length as u64).ok()?;
            Some(Template { file, length })
        }

        /// Writes bytes from a place on, before anybody has a copy.
        ///
        /// # Errors
        /// `UnknownError` when there is no memory for them.
        pub fn write(&mut self, first: usize, bytes: &[u8]) -> Result<()> {
            assert!(first + bytes.len() <= self.length);
            self.file.write_all_at(bytes, first as u64).map_err(|_| crate::memory::cannot_be_had(bytes.len()))
        }

        /// A copy of a part, which begins at a multiple of [`Self::PAGE`]. What is written to it, only its owner sees.
        ///
        /// # Errors
        /// `UnknownError` when there are no addresses for it.
        pub fn copy(&self, first: usize, length: usize) -> Result<Bytes> {
            assert!(first.is_multiple_of(Self::PAGE) && first + length <= self.length && length > 0);
            let fail = || crate::memory::cannot_be_had(length);
            let mut options = MmapOptions::new();
            // SAFETY: the mapping is private. Nobody writes to the file when there are copies, since that needs it mutable, and nobody
            // outside of this process has it, so it is never cut short.
            let pages = unsafe { options.offset(first as u64).len(length).map_copy(&self.file) }.map_err(|_| fail())?;
            Block::of(pages, length).ok_or_else(fail)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use super::*;

    /// Other systems copy.
    #[derive(Debug)]
    pub enum Template {}

    impl Template {
        pub const PAGE: usize = 1 << 16;

        pub fn new(_: usize) -> Option<Template> {
            None
        }

        pub fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
            match *self {}
        }

        pub fn copy(&self, _: usize, _: usize) -> Result<Bytes> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn copies_are_alike_until_somebody_writes() {
        let mut template = Template::new(3 * Template::PAGE).unwrap();
        template.write(Template::PAGE + 10, &[1, 2, 3]).unwrap();
        let mut one = template.copy(Template::PAGE, 2 * Template::PAGE).unwrap();
        let two = template.copy(Template::PAGE, 2 * Template::PAGE).unwrap();
        assert_eq!((&one[9..14], one[2 * Template::PAGE - 1]), (&[0, 1, 2, 3, 0][..], 0));
        one[11] = 7;
        one[Template::PAGE + 5] = 8;
        drop(template);
        assert_eq!((&two[10..13], two[Template::PAGE + 5]), (&[1, 2, 3][..], 0));
        assert_eq!((&one[10..13], one[Template::PAGE + 5]), (&[1, 7, 3][..], 8));
    }
}
