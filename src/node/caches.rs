//! The flat functions of the cache on disk.

use super::call::Call;
use super::script::Value;
use crate::disk_cache::{self, DiskCache, ModelCache};
use crate::error::{Error, Kind, Result};
use crate::graph::Shared;
use std::path::Path;
use std::sync::Arc;

/// Has the graphs of a model use the cache in this folder, or that of all graphs if it is not named. A folder that cannot be used is as if it were
/// empty.
///
/// # Errors
/// When the process has a cache in another folder.
pub fn attach(shared: &Shared, folder: &str) -> Result<Option<Arc<ModelCache>>> {
    let cache = usable(folder)?.or_else(DiskCache::of_all_graphs).map(ModelCache::new);
    cache.iter().for_each(|cache| shared.attach(cache.clone()));
    Ok(cache)
}

/// The cache in this folder, if it is named and can be used.
///
/// # Errors
/// As [`attach`].
pub fn usable(folder: &str) -> Result<Option<Arc<DiskCache>>> {
    if folder.is_empty() { Ok(None) } else { found(DiskCache::of_process(Path::new(folder))) }
}

fn found<T>(cache: Result<T>) -> Result<Option<T>> {
    match cache {
        Ok(cache) => Ok(Some(cache)),
        Err(error) if error.kind() == Kind::NotSupported => Err(error),
        Err(_) => Ok(None),
    }
}

/// `useCache(folder)`: for all graphs of the process.
pub fn use_for_all<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    found(DiskCache::of_process(Path::new(&call.string(0)?)))?.into_iter().for_each(DiskCache::use_for_all);
    Ok(None)
}

/// `cacheState()`: the folder of the cache and what it has done in this process, if there is one.
pub fn state<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let Some(cache) = DiskCache::opened() else { return Ok(None) };
    let (scope, numbers) = (call.scope, cache.numbers());
    let result = scope.object()?;
    scope.set(result, "folder", scope.string(&cache.folder().to_string_lossy())?)?;
    for (name, number) in
        [("hits", numbers.hits), ("misses", numbers.misses), ("damaged", numbers.damaged), ("written", numbers.written)]
    {
        scope.set(result, name, scope.number(number as f64)?)?;
    }
    Ok(Some(result))
}

/// `finishCache()`: waits until all is written.
pub fn finish<'s>(_: &Call<'s>) -> Result<Option<Value<'s>>> {
    DiskCache::opened().iter().for_each(|cache| cache.finish());
    Ok(None)
}

/// `checkCache(folder)`: the names of files that are not as they were written, of which nothing is changed.
pub fn check<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let folder = call.string(0)?;
    if !Path::new(&folder).is_dir() {
        return Err(Error::new(Kind::Operation, format!("{folder} is no folder")));
    }
    let damaged = disk_cache::check(Path::new(&folder))?.into_iter().filter(|(_, is_whole)| !is_whole);
    let names: Vec<String> =
        damaged.filter_map(|(file, _)| Some(file.path.file_name()?.to_string_lossy().into_owned())).collect();
    call.scope.strings(names.iter().map(String::as_str)).map(Some)
}
