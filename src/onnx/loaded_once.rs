//! Models that were read, once in the process: whoever loads the same bytes with the same settings has the decoded model of the first one, and
//! what was found out about it, as long as somebody has that.

use super::bounds::Bounds;
use super::file::Model;
use super::fixed::Fixed;
use super::loaded::Loaded;
use crate::error::Result;
use crate::graph::Limits;
use crate::memory::{Once, identity};
use std::sync::{Arc, LazyLock};

static LOADED: LazyLock<Once<u128, Arc<Loaded>>> = LazyLock::new(Once::default);

/// Reads a model, which is asked about with these limits and bounds only, or has it from somebody who has read it.
///
/// # Errors
/// As [`Loaded::new`].
pub fn load(model: Model, fixed: Fixed, limits: &Limits, bounds: &Bounds) -> Result<Arc<Loaded>> {
    let Some(origins) = model.describe_origins() else { return Loaded::new(model, fixed, bounds).map(Arc::new) };
    let key = identity(format!("{origins} {} {limits:?} {bounds:?}", fixed.describe()).as_bytes());
    // Its external data is opened again, as that of any other model.
    if let Some(found) = LOADED.find(&key).filter(|found| found.has_the_files_of(&model)) {
        return Ok(found);
    }
    let loaded = Arc::new(Loaded::new(model, fixed, bounds)?);
    Ok(LOADED.keep(key, loaded, |_| false))
}

// Elsewhere a change of a file may not show.
#[cfg(all(test, unix))]
mod tests {
    use super::super::testing::sketch;
    use super::*;
    use std::path::Path;

    fn bytes(width: i64) -> Vec<u8> {
        sketch(21).input("x", 1, &[width]).node("Neg", &["x"], &["y"], vec![]).output("y").bytes().to_vec()
    }

    fn load_file(path: &Path, bounds: &Bounds) -> Arc<Loaded> {
        load(Model::open(path).unwrap(), Fixed::default(), &Limits::everything(), bounds).unwrap()
    }

    #[test]
    fn a_model_is_read_once_until_it_changes_or_nobody_has_it() {
        let path = std::env::temp_dir().join(format!("webnn-node-loaded-{}.onnx", std::process::id()));
        std::fs::write(&path, bytes(3)).unwrap();
        let usual = Bounds::default();
        let first = load_file(&path, &usual);
        assert!(Arc::ptr_eq(&first, &load_file(&path, &usual)));
        let less = Bounds { most_bytes: Some(1 << 20), ..Bounds::default() };
        assert!(!Arc::ptr_eq(&first, &load_file(&path, &less)));
        std::fs::write(&path, bytes(4)).unwrap();
        let changed = load_file(&path, &usual);
        assert_eq!((first.fixed_shapes().unwrap(), changed.fixed_shapes().unwrap()), (vec![vec![3]], vec![vec![4]]));
        assert_ne!(first.identity(), changed.identity());
        // The same bytes are the same model, whoever has them.
        let of_memory = || load(Model::from_bytes(bytes(5)), Fixed::default(), &Limits::everything(), &usual).unwrap();
        let (one, same) = (of_memory(), of_memory());
        assert!(Arc::ptr_eq(&one, &same));
        let weak = Arc::downgrade(&one);
        drop((one, same));
        assert!(weak.upgrade().is_none());
        std::fs::remove_file(&path).unwrap();
    }
}
