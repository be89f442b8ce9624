//! A model's bytes: files, or memory that the caller gave.

use super::protobuf::{EXTERNAL, GraphProto, ModelProto, NodeProto};
use super::source::{self, Opened, Origin};
use super::stored_structure::StoredStructure;
use super::structure::{self, malformed};
use crate::error::{Error, Kind, Result};
use crate::memory::{Data, Pin, Place, read_of, regular, unreadable};
use bytes::Bytes;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Where bytes are of files, where these come from.
type External = Mutex<HashMap<String, (Bytes, Option<Origin>)>>;

/// What bytes must have one of: the name of an algorithm, and digests.
#[derive(Debug, Default)]
pub struct Digests {
    pub algorithm: String,
    pub values: Vec<crate::memory::Bytes>,
}

/// How much of a model's files was read.
#[derive(Debug)]
pub struct Progress {
    own: Place,
    external: Weak<External>,
}

impl Progress {
    /// The bytes of files that were read so far, and all of those that were opened; memory counts as read. Nothing once there is no model, or if
    /// it is of no file that is read.
    pub fn of_files(&self) -> Option<(usize, usize)> {
        let external = self.external.upgrade()?;
        let external = external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let all = external.values().map(|(bytes, _)| Place::of(bytes)).chain([self.own]);
        let (mut read, mut length, mut has_file) = (0, 0, false);
        for place in all {
            let of_file = read_of(place);
            has_file |= of_file.is_some();
            read += of_file.unwrap_or(place.length);
            length += place.length;
        }
        has_file.then_some((read, length))
    }
}

/// What is in memory at once of a file that is read through.
const PIECE: usize = 4 << 20;

/// A model that is ready to be imported: its own bytes, and where its other files are.
#[derive(Debug)]
pub struct Model {
    /// Data of large tensors may be absent: see [`Data`].
    pub(super) bytes: Bytes,
    /// Where they come from, if they are those of a file.
    origin: Option<Origin>,
    /// Of all else, unless the cache has it.
    structure: OnceLock<Vec<Pin>>,
    stored: Option<StoredStructure>,
    /// Files are mapped.
    maps: bool,
    /// The real folders that files of external data may lie in: the one where the model was named and, where that is a link,
    /// the one that it leads to. A model in memory has none.
    folders: Vec<PathBuf>,
    /// Files of external data that are already open, by their location.
    external: Arc<External>,
    /// What files of external data must be, if that was said, by their location.
    required: Option<HashMap<String, Digests>>,
    /// What was made of nodes ([`Model::computed_once`]), by where they are in memory.
    computed: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
    /// Where the nodes of the model's own graph are.
    own_nodes: Range<usize>,
}

impl Model {
    /// Opens a file. It is read but for the data of large tensors, which is read when it is needed: if the file has changed by then, that
    /// is an error. Where the cache has the structure, nothing is read.
    ///
    /// # Errors
    /// `OperationError` when it cannot be read; `UnknownError` when the system has no thread to read it.
    pub fn open(path: &Path) -> Result<Model> {
        Model::open_as(path, false)
    }

    /// Maps a file and those of its external data. They must not be changed as long as the model, or a graph made from it, is used: as with
    /// every mapped file, cutting one short would end the process.
    ///
    /// # Errors
    /// `OperationError` when it cannot be read.
    pub fn map(path: &Path) -> Result<Model> {
        Model::open_as(path, true)
    }

    fn open_as(path: &Path, maps: bool) -> Result<Model> {
        let Opened { bytes, state, origin } = opened(path, maps)?;
        let mut folders = vec![resolve(folder(path))?];
        let real = folder(&resolve(path)?).to_owned();
        if !folders.contains(&real) {
            folders.push(real);
        }
        let stored = StoredStructure::of(state);
        let model = Model { origin: Some(origin), stored, maps, folders, ..Model::of_shared(bytes) };
        if !model.stored.as_ref().is_some_and(StoredStructure::is_there) {
            model.read_structure()?;
        }
        Ok(model)
    }

    /// A model in memory. It can have no external data but what is provided.
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Model {
        Model::of_shared(source::of_memory(bytes))
    }

    /// The same of bytes that another model has ([`find_bytes`](super::find_bytes)).
    pub fn of_shared(bytes: Bytes) -> Model {
        Model {
            bytes,
            origin: None,
            structure: OnceLock::new(),
            stored: None,
            maps: false,
            folders: Vec::new(),
            external: Arc::default(),
            required: None,
            computed: Mutex::default(),
            own_nodes: 0..0,
        }
    }

    /// Reads all of a file but the data of large tensors, which [`Model::bytes`] has then.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub(super) fn read_structure(&self) -> Result<()> {
        if self.structure.get().is_none() {
            let _ = self.structure.set(structure::read(&self.bytes)?);
        }
        Ok(())
    }

    /// What tells the state of its file from all others, where the process has a cache and a change would show.
    pub fn file_state(&self) -> Option<&[u8]> {
        self.stored.as_ref().map(StoredStructure::state)
    }

    /// The decoded model, if the cache has it and its structure takes at most so many bytes of memory.
    pub(super) fn stored(&self, most: usize) -> Option<ModelProto> {
        self.stored.as_ref()?.read(&self.bytes, most)
    }

    /// Has the cache keep the decoded model for later processes.
    pub(super) fn store(&self, decoded: &mut ModelProto) {
        if let Some(stored) = &self.stored {
            stored.keep(decoded, &self.bytes);
        }
    }

    /// Tells where the nodes of its own graph are, as long as there is the model.
    pub(super) fn keep_nodes(&mut self, nodes: &[NodeProto]) {
        let range = nodes.as_ptr_range();
        self.own_nodes = range.start.addr()..range.end.addr();
    }

    /// What is made of a node, once for all graphs where it is one of the model's own: others are decoded again and again.
    ///
    /// # Errors
    /// As those of `make`.
    pub(super) fn computed_once<T: Any + Send + Sync, E>(
        &self,
        node: &NodeProto,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let address = std::ptr::from_ref(node).addr();
        if !self.own_nodes.contains(&address) {
            return make().map(Arc::new);
        }
        let computed = || self.computed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = computed().get(&address).cloned();
        if let Some(found) = found.and_then(|found| found.downcast().ok()) {
            return Ok(found);
        }
        let new = Arc::new(make()?);
        computed().insert(address, new.clone());
        Ok(new)
    }

    /// Says what files of external data must be. One that is not among them is refused. Call this before they are provided.
    pub fn require_external(&mut self, required: HashMap<String, Digests>) {
        self.required = Some(required.into_iter().map(|(location, digests)| (plain(&location).to_owned(), digests)).collect());
    }

    /// External data that the caller has in memory, by the location that tensors name: no file of that name is looked for.
    ///
    /// # Errors
    /// Those of [`Model::check_integrity`], where digests are required.
    pub fn provide(&mut self, location: &str, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<()> {
        self.keep(location, source::of_memory(bytes), None)
    }

    /// External data in a file of the caller's choice, which may lie anywhere.
    ///
    /// # Errors
    /// `OperationError` when it cannot be read, and as [`Model::provide`].
    pub fn provide_file(&mut self, location: &str, path: &Path) -> Result<()> {
        let Opened { bytes, origin, .. } = opened(path, self.maps)?;
        self.keep(location, bytes, Some(origin))
    }

    fn keep(&self, location: &str, bytes: Bytes, origin: Option<Origin>) -> Result<()> {
        self.check_external(location, &bytes)?;
        let mut external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        external.insert(plain(location).to_owned(), (bytes, origin));
        Ok(())
    }

    fn check_external(&self, location: &str, bytes: &Bytes) -> Result<()> {
        let Some(required) = &self.required else { return Ok(()) };
        let Some(digests) = required.get(plain(location)) else {
            let message =
                format!("externalIntegrity: found no digest for the external data {location:?}, allowed files that have one");
            return Err(Error::new(Kind::Operation, message));
        };
        check(bytes, digests, &format!("externalIntegrity: {location:?}"))
    }

    /// Makes sure that the model's own bytes, without external data, have one of these digests.
    ///
    /// # Errors
    /// `OperationError` when they have another one, `NotSupportedError` for another algorithm than SHA-256, SHA-384 and SHA-512.
    pub fn check_integrity(&self, digests: &Digests) -> Result<()> {
        check(&self.bytes, digests, "integrity")
    }

    /// How much of its files was read, for whoever waits for it.
    pub fn progress(&self) -> Progress {
        Progress { own: Place::of(&self.bytes), external: Arc::downgrade(&self.external) }
    }

    /// Looks at all bytes of the model and of its external data, piece by piece.
    ///
    /// # Errors
    /// Those of reading its files.
    pub(super) fn each_byte(&self, mut look: impl FnMut(&[u8])) -> Result<()> {
        let mut all = |bytes: &Bytes| {
            let whole = Data::from(bytes.clone());
            for first in (0..whole.len()).step_by(PIECE) {
                look(whole.slice(first..whole.len().min(first + PIECE)).read()?);
            }
            Ok(())
        };
        all(&self.bytes)?;
        let external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let sorted: BTreeMap<String, _> = external.into_iter().collect();
        sorted.values().try_for_each(|(bytes, _)| all(bytes))
    }

    /// Where all bytes come from: the model's, and by their locations those of external data that was asked for so far. Nothing if a change of
    /// a file might not show in that.
    pub(super) fn origins(&self) -> Option<BTreeMap<Option<String>, Origin>> {
        let of = |bytes: &Bytes, origin: &Option<Origin>| origin.clone().unwrap_or_else(|| Origin::of_memory(bytes));
        let external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let external = external.iter().map(|(location, (bytes, origin))| (Some(location.clone()), of(bytes, origin)));
        let all: BTreeMap<_, _> = external.chain([(None, of(&self.bytes, &self.origin))]).collect();
        all.values().all(Origin::shows_changes).then_some(all)
    }

    /// The same with the folders of external data that may still be asked for. Nothing where that must have digests.
    pub(super) fn describe_origins(&self) -> Option<String> {
        let origins = self.origins().filter(|_| self.required.is_none())?;
        Some(format!("{origins:?} {:?}", self.folders))
    }

    /// Whether all external data that was asked for of it is what another model of the same folders has now.
    pub(super) fn has_the_files_of(&self, other: &Model) -> bool {
        let Some(origins) = self.origins() else { return false };
        let opened = origins.keys().flatten().all(|location| other.external(location).is_ok());
        opened && other.origins().is_some_and(|now| origins == now)
    }

    /// The number of bytes of the model itself, without external data.
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether bytes are a part of the model, or of external data that was asked for.
    pub fn has(&self, place: Place) -> bool {
        let external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let within = |whole: &Bytes| place.is_in(Data::from(whole.clone()).place());
        within(&self.bytes) || external.values().any(|(bytes, _)| within(bytes))
    }

    /// The number of bytes of the model and of the external data that was asked for.
    pub fn read_length(&self) -> usize {
        let external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        external.values().map(|(bytes, _)| bytes.len()).fold(self.bytes.len(), usize::saturating_add)
    }

    /// Opens the files of external data that a graph names, so that its weights are those of now. What cannot be opened is an error when it
    /// is needed, or at once where digests are required.
    ///
    /// # Errors
    /// Those of files and of [`Model::check_integrity`], where digests are required.
    pub(super) fn open_external(&self, graph: &GraphProto) -> Result<()> {
        let of_nodes = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.t.as_deref());
        for tensor in graph.initializer.iter().chain(of_nodes).filter(|tensor| tensor.data_location == EXTERNAL) {
            if let Some(entry) = tensor.external_data.iter().find(|entry| entry.key == "location") {
                let opened = self.external(&entry.value);
                if self.required.is_some() {
                    opened?;
                }
            }
        }
        Ok(())
    }

    /// External data by the location that a tensor names: a file in one of the model's folders.
    pub(super) fn external(&self, location: &str) -> Result<Bytes> {
        let mut external = self.external.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((bytes, _)) = external.get(plain(location)) {
            return Ok(bytes.clone());
        }
        if self.folders.is_empty() {
            return Err(Error::new(
                Kind::Type,
                format!(
                    "the model keeps weights in the file {location:?}, so it must be opened by its path, or be given the file"
                ),
            ));
        }
        let Opened { bytes, origin, .. } = opened(&confine(&self.folders, location)?, self.maps)?;
        self.check_external(location, &bytes)?;
        external.insert(plain(location).to_owned(), (bytes.clone(), Some(origin)));
        Ok(bytes)
    }
}

/// Makes sure that bytes have one of these digests.
fn check(bytes: &Bytes, Digests { algorithm, values }: &Digests, what: &str) -> Result<()> {
    let found: Vec<u8> = match algorithm.as_str() {
        "sha256" => digest::<Sha256>(bytes)?,
        "sha384" => digest::<Sha384>(bytes)?,
        "sha512" => digest::<Sha512>(bytes)?,
        other => return Err(Error::new(Kind::NotSupported, format!("{what} by {other}"))),
    };
    if values.iter().any(|digest| digest[..] == found) {
        return Ok(());
    }
    let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    let length = bytes.len();
    let message =
        format!("{what}: found {length} bytes with the {algorithm} digest {hex} (hexadecimal), which is not among those allowed");
    Err(Error::new(Kind::Operation, message))
}

fn digest<D: Digest>(bytes: &Bytes) -> Result<Vec<u8>> {
    let mut digest = D::new();
    let whole = Data::from(bytes.clone());
    for first in (0..whole.len()).step_by(PIECE) {
        digest.update(whole.slice(first..whole.len().min(first + PIECE)).read()?);
    }
    Ok(digest.finalize().to_vec())
}

/// The real path of a file that is named relative to the first of these folders, or to the next one where the first has
/// no such file. It must lie in one of them, which are real: no absolute path, no `..`, no link that leads elsewhere. In the
/// cache of the Hugging Face hub, the model and its data are links in one folder that lead to files in another.
fn confine(folders: &[PathBuf], location: &str) -> Result<PathBuf> {
    let relative = Path::new(location);
    let plain = relative.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    if location.is_empty() || location.contains('\0') || !plain {
        return Err(malformed(format!("external data at {location:?}, which is not a path within the model's folder")));
    }
    let mut found = None;
    for folder in folders {
        match resolve(&folder.join(relative)) {
            Ok(path) if folders.iter().any(|folder| path.starts_with(folder)) => return Ok(path),
            Ok(_) => return Err(malformed(format!("external data at {location:?}, which is outside the model's folder"))),
            Err(error) => found = found.or(Some(error)),
        }
    }
    Err(found.unwrap_or_else(|| malformed(format!("external data at {location:?}, and no folder of the model"))))
}

/// A location without the folder itself in front, which some writers name.
fn plain(location: &str) -> &str {
    location.strip_prefix("./").unwrap_or(location)
}

/// The folder that a path names a file in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A path without links.
fn resolve(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).map_err(|error| unreadable(path, error))
}

fn opened(path: &Path, maps: bool) -> Result<Opened> {
    if regular(path)?.len() == 0 {
        return Ok(Opened { bytes: Bytes::new(), origin: Origin::of_memory(&[]), state: None });
    }
    if maps { source::of_mapped_file(path) } else { source::of_file(path) }
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

    fn external(model: &Model, location: &str) -> Vec<u8> {
        Data::from(model.external(location).unwrap()).to_vec()
    }

    #[test]
    fn external_data_stays_in_the_folder() {
        let folder = Folder::new("confine");
        let write = |name: &str| std::fs::write(folder.0.join(name), [1, 2, 3]).unwrap();
        write("secret");
        write("model/m.onnx");
        write("model/weights");
        let model = Model::open(&folder.0.join("model/m.onnx")).unwrap();
        assert_eq!(external(&model, "weights"), [1, 2, 3]);
        assert_eq!(external(&model, "./weights"), [1, 2, 3]);
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

    /// The cache of the Hugging Face hub: what is named are links, and the files lie beside each other elsewhere.
    #[cfg(unix)]
    #[test]
    fn external_data_may_lie_where_the_model_really_is() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new("links");
        let at = |name: &str| folder.0.join(name);
        for name in ["blobs", "snapshots/1/onnx", "others"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for (name, bytes) in [("blobs/a", [1]), ("blobs/b", [2]), ("blobs/beside", [3]), ("others/c", [4]), ("secret", [5])] {
            std::fs::write(at(name), bytes).unwrap();
        }
        let link = |to: &str, name: &str| symlink(to, at("snapshots/1/onnx").join(name)).unwrap();
        link("../../../blobs/a", "model.onnx");
        link("../../../blobs/b", "model.onnx_data");
        link("../../../others/c", "elsewhere");
        link("../../../secret", "secret");
        link("../../../blobs/missing", "nowhere");
        link("../../..", "up");
        let model = Model::open(&at("snapshots/1/onnx/model.onnx")).unwrap();
        assert_eq!(external(&model, "model.onnx_data"), [2]);
        // A link to the model alone: its data lies beside the real file.
        assert_eq!(external(&model, "beside"), [3]);
        for location in ["elsewhere", "secret", "nowhere", "up/secret", "up/others/c", "../../../blobs/b"] {
            assert!(model.external(location).is_err(), "{location}");
        }
        // Named where it really is, it has no other folder.
        let model = Model::open(&at("blobs/a")).unwrap();
        assert_eq!(external(&model, "b"), [2]);
        assert!(model.external("model.onnx_data").is_err());
    }

    #[test]
    fn only_regular_files_are_opened() {
        assert!(Model::open(Path::new("/")).is_err());
        assert!(Model::open(Path::new("")).is_err());
        assert!(Model::open(Path::new("/does/not/exist")).is_err());
        assert!(Model::from_bytes(vec![]).external("weights").is_err());
    }

    #[test]
    fn external_data_can_be_provided() {
        let folder = Folder::new("provided");
        std::fs::write(folder.0.join("elsewhere"), [4]).unwrap();
        let mut model = Model::from_bytes(vec![]);
        model.provide("weights", vec![1, 2]).unwrap();
        model.provide_file("./more", &folder.0.join("elsewhere")).unwrap();
        assert_eq!(external(&model, "./weights"), [1, 2]);
        assert_eq!(external(&model, "more"), [4]);
        assert!(model.external("others").is_err());
        assert!(model.provide_file("x", &folder.0.join("missing")).is_err());
    }

    #[test]
    fn external_data_must_be_what_is_required() {
        let folder = Folder::new("required");
        for (name, bytes) in [("m.onnx", [0]), ("good", [1]), ("bad", [2]), ("unnamed", [3])] {
            std::fs::write(folder.0.join(name), bytes).unwrap();
        }
        let digests = |bytes: &[u8]| Digests {
            algorithm: "sha256".to_owned(),
            values: vec![crate::memory::Bytes::copy_of(&Sha256::digest(bytes)).unwrap()],
        };
        let mut model = Model::open(&folder.0.join("m.onnx")).unwrap();
        let all = [("./good", [1]), ("bad", [1]), ("given", [4])];
        model.require_external(all.into_iter().map(|(location, bytes)| (location.to_owned(), digests(&bytes))).collect());
        assert_eq!(external(&model, "good"), [1]);
        let refused = |result: Result<Bytes>| result.unwrap_err().message().to_owned();
        assert!(refused(model.external("bad")).starts_with("externalIntegrity: \"bad\": found 1 bytes with the sha256 digest"));
        assert!(refused(model.external("unnamed")).contains("no digest for the external data \"unnamed\""));
        assert!(model.provide("given", vec![5]).is_err());
        assert!(model.provide("other", vec![4]).is_err());
        model.provide("./given", vec![4]).unwrap();
        assert_eq!(external(&model, "given"), [4]);
    }

    #[test]
    fn progress_is_what_was_read_of_files() {
        const LENGTH: usize = 3 << 20;
        let folder = Folder::new("progress");
        std::fs::write(folder.0.join("weights"), vec![7; LENGTH]).unwrap();
        let mut model = Model::from_bytes(vec![0; 10]);
        let progress = model.progress();
        assert_eq!(progress.of_files(), None);
        model.provide("memory", vec![1; 100]).unwrap();
        assert_eq!(progress.of_files(), None);
        model.provide_file("file", &folder.0.join("weights")).unwrap();
        assert_eq!(progress.of_files(), Some((110, 110 + LENGTH)));
        drop(external(&model, "file"));
        assert_eq!(progress.of_files(), Some((110 + LENGTH, 110 + LENGTH)));
        drop(model);
        assert_eq!(progress.of_files(), None);
    }

    #[test]
    fn what_is_made_of_a_node_is_made_once() {
        let nodes = [NodeProto::default(), NodeProto::default()];
        let mut model = Model::from_bytes(vec![]);
        model.keep_nodes(&nodes);
        let computed = |node: &NodeProto, number: i32| model.computed_once(node, || Ok::<i32, ()>(number)).unwrap();
        assert!(model.computed_once(&nodes[0], || Err::<i32, ()>(())).is_err());
        assert_eq!(
            [*computed(&nodes[0], 1), *computed(&nodes[0], 2), *computed(&nodes[1], 3), *computed(&nodes[1], 4)],
            [1, 1, 3, 3]
        );
        // Decoded elsewhere, as those of graphs within nodes are, it may be another one at the same place later.
        let other = nodes[0].clone();
        assert_eq!([*computed(&other, 5), *computed(&other, 6)], [5, 6]);
    }
}
