//! A model's bytes: mapped files, or memory that the caller gave.
#![allow(unsafe_code)]

use super::structure::malformed;
use crate::error::{Error, Kind, Result};
use bytes::Bytes;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

/// A model that is ready to be imported: its own bytes, and where its other files are.
#[derive(Debug)]
pub struct Model {
    pub(super) bytes: Bytes,
    directory: Option<PathBuf>,
    /// Files of external data that are already mapped, by their location.
    external: Mutex<HashMap<String, Bytes>>,
}

impl Model {
    /// Maps a file. It must not be changed as long as the model, or a graph made from it, is used: as with every mapped
    /// file, cutting it short would end the process.
    ///
    /// # Errors
    /// `OperationError` when it cannot be read.
    pub fn open(path: &Path) -> Result<Model> {
        let bytes = map(path)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Model { bytes, directory: Some(parent.to_owned()), external: Mutex::default() })
    }

    /// A model in memory. It can have no external data.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + 'static) -> Model {
        Model { bytes: Bytes::from_owner(bytes), directory: None, external: Mutex::default() }
    }

    /// The number of bytes of the model itself, without external data.
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    /// External data by the location that a tensor names: a file in the model's own folder.
    pub(super) fn external(&self, location: &str) -> Result<Bytes> {
        let Some(directory) = &self.directory else {
            return Err(Error::new(
                Kind::Type,
                format!("the model keeps weights in the file {location:?}, so it must be opened by its path"),
            ));
        };
        let mut external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(bytes) = external.get(location) {
            return Ok(bytes.clone());
        }
        let bytes = map(&confine(directory, location)?)?;
        external.insert(location.to_owned(), bytes.clone());
        Ok(bytes)
    }
}

/// The path of a file in a folder, which must really be there: no absolute path, no `..`, no link that leads elsewhere.
fn confine(directory: &Path, location: &str) -> Result<PathBuf> {
    let relative = Path::new(location);
    let plain = relative.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    if location.is_empty() || location.contains('\0') || !plain {
        return Err(malformed(format!("external data at {location:?}, which is not a path within the model's folder")));
    }
    let resolve = |path: &Path| std::fs::canonicalize(path).map_err(|error| unreadable(path, error));
    let directory = resolve(directory)?;
    let path = resolve(&directory.join(relative))?;
    if !path.starts_with(&directory) {
        return Err(malformed(format!("external data at {location:?}, which is outside the model's folder")));
    }
    Ok(path)
}

fn map(path: &Path) -> Result<Bytes> {
    let fail = |error| unreadable(path, error);
    // Opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(fail)?;
    if !metadata.is_file() {
        return Err(Error::new(Kind::Operation, format!("{} is not a regular file", path.display())));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    let file = File::open(path).map_err(fail)?;
    // SAFETY: the mapping is private to us and read only. That nobody cuts the file short meanwhile cannot be enforced;
    // `Model::open` asks for it.
    let mapping = unsafe { Mmap::map(&file) }.map_err(fail)?;
    Ok(Bytes::from_owner(mapping))
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Operation, format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for a test, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("webnn-node-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("model")).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn external_data_stays_in_the_folder() {
        let folder = Folder::new("confine");
        let write = |name: &str| std::fs::write(folder.0.join(name), [1, 2, 3]).unwrap();
        write("secret");
        write("model/m.onnx");
        write("model/weights");
        let model = Model::open(&folder.0.join("model/m.onnx")).unwrap();
        assert_eq!(model.external("weights").unwrap(), &[1, 2, 3][..]);
        assert_eq!(model.external("./weights").unwrap(), &[1, 2, 3][..]);
        let absolute = folder.0.join("model/weights").display().to_string();
        for location in ["../secret", "weights/../../secret", "..", "", "/etc/passwd", &absolute, "missing", "a\0b", "."] {
            assert!(model.external(location).is_err(), "{location}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.0.join("secret"), folder.0.join("model/link")).unwrap();
            std::os::unix::fs::symlink("weights", folder.0.join("model/inside")).unwrap();
            std::os::unix::fs::symlink("..", folder.0.join("model/up")).unwrap();
            assert!(model.external("link").is_err());
            assert!(model.external("up/secret").is_err());
            assert!(model.external("inside").is_ok());
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(Model::open(Path::new("/")).is_err());
        assert!(Model::open(Path::new("")).is_err());
        assert!(Model::open(Path::new("/does/not/exist")).is_err());
        assert!(Model::from_bytes(vec![]).external("weights").is_err());
    }
}
