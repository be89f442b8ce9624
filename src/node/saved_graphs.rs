//! The flat functions of graphs that script saves, and of what is kept so that it can.

use super::caches;
use super::call::{Call, stale};
use super::environment::Environment;
use super::graphs::Builder;
use super::handles::Handle;
use super::script::{Scope, Value};
use super::settle::{Outcome, Request};
use crate::disk_cache::{self, Constant, DiskCache, Name};
use crate::error::{Result, unwound};
use crate::graph::description::{decode, encode};
use crate::graph::{ConstantBytes, OperandId, Source};
use crate::memory::{Charge, Held, Use};
use crate::thread;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What a graph was built from, for as long as script may save it.
pub struct SavableGraph {
    pub context: Handle,
    savable: Arc<Savable>,
    _held: Held,
}

struct Savable {
    label: String,
    description: Vec<u8>,
    constants: Mutex<Constants>,
}

/// They are in memory until they are in a file.
struct Constants {
    bytes: Vec<ConstantBytes>,
    _charge: Option<Charge>,
}

impl Savable {
    fn constants(&self) -> std::sync::MutexGuard<'_, Constants> {
        self.constants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Errors
    /// Those of [`DiskCache::save_graph`], and of constants in a file that was changed.
    fn save(&self, cache: &DiskCache, name: Name<'_>) -> Result<()> {
        let bytes = self.constants().bytes.clone();
        let constants: Vec<Constant<'_>> = bytes.iter().map(|bytes| (bytes.as_slice(), bytes.known_greatest())).collect();
        let graph = disk_cache::Graph { label: &self.label, description: &self.description, constants: &constants };
        let identity = cache.save_graph(name, &graph)?;
        // From now on they need no memory. If somebody else was faster under this name they stay where they are.
        if let Ok(Some(saved)) = cache.saved_graph(name)
            && saved.is(&self.description, &identity)
        {
            let bytes = saved.constants().map(|(constant, greatest)| ConstantBytes::checked(constant, greatest)).collect();
            *self.constants() = Constants { bytes, _charge: None };
        }
        Ok(())
    }
}

fn keep(environment: &Environment, context: Handle, label: String, description: Vec<u8>, constants: Constants) -> Handle {
    let held = environment.external.total.hold(description.len());
    let savable = Arc::new(Savable { label, description, constants: Mutex::new(constants) });
    environment.savable_graphs.borrow_mut().insert(SavableGraph { context, savable, _held: held })
}

/// `cacheBuild(builder, folder)`: what is packed for the builder's graph comes from a cache, and goes there.
pub fn cache_build<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let builder = call.handle(0)?;
    let cache = caches::usable(&call.string(1)?)?;
    call.environment.with_builder(builder, |builder| {
        builder.cache = cache;
        Ok(None)
    })
}

/// `keepGraph(builder, names, operands, label, most)`: keeps what the builder is about to build, so that it can be saved, unless its constants
/// have more bytes. A negative number is no limit.
pub fn keep_graph<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let builder = call.handle(0)?;
    let names: Vec<String> = call.scope.elements(call.value(1), Scope::as_string)?;
    let ids: Vec<u32> = call.unsigned_list(2)?;
    let (label, most) = (call.string(3)?, call.number(4)?);
    let outputs = names.into_iter().zip(ids.into_iter().map(OperandId)).collect();
    let (context, graph) = environment.with_builder(builder, |builder| Ok((builder.context, builder.graph.preview(outputs)?)))?;
    let length = |source: &Source| if let Source::Constant(bytes) = source { bytes.len() } else { 0 };
    let total: usize = graph.operands.iter().map(|operand| length(&operand.source)).sum();
    if most >= 0.0 && total as f64 > most {
        return Ok(None);
    }
    let (description, bytes) = encode(&graph);
    // What is kept unasked is little.
    let charge = if most < 0.0 {
        Some(environment.with_context(context, |context| Ok(context.usage()?.charge(Use::Constants, total)))?)
    } else {
        None
    };
    let savable = keep(environment, context, label, description, Constants { bytes, _charge: charge });
    Ok(Some(call.scope.number(savable.to_number())?))
}

/// `dropSavableGraph(savable)`
pub fn drop_savable<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.savable_graphs.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// `saveGraph(request, savable, folder, origin, key)`
pub fn save<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let savable = environment.savable_graphs.borrow().get(call.handle(1)?).ok_or_else(|| stale("graph"))?.savable.clone();
    let (folder, origin, key) = (call.string(2)?, call.string(3)?, call.string(4)?);
    let cache = DiskCache::of_process(Path::new(&folder))?;
    let done = environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
    let work = move |done: crate::timeline::Done<()>| {
        done.report(unwound(|| savable.save(&cache, Name { origin: &origin, key: &key })));
    };
    thread::start_with("webnn-node cache", done, work).unwrap_or_else(|(error, done)| done.report(Err(error)));
    Ok(None)
}

/// `loadGraph(builder, folder, origin, key)`: makes a saved graph with a new builder. `[names, operands, label, savable]`: the arguments for building
/// it, and what can be saved again; nothing where there is no such graph.
pub fn load<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (environment, scope) = (call.environment, call.scope);
    let builder = call.handle(0)?;
    let (folder, origin, key) = (call.string(1)?, call.string(2)?, call.string(3)?);
    let cache = DiskCache::of_process(Path::new(&folder))?;
    let Some(saved) = cache.saved_graph(Name { origin: &origin, key: &key })? else { return Ok(None) };
    let bytes: Vec<_> = saved.constants().map(|(constant, greatest)| ConstantBytes::checked(constant, greatest)).collect();
    let (context, outputs) = environment.with_builder(builder, |builder| {
        let Builder { context, graph, cache: used, .. } = builder;
        *used = Some(cache);
        Ok((*context, decode(&saved.description, &bytes, graph)?))
    })?;
    let label = scope.string(&saved.label)?;
    let savable = keep(environment, context, saved.label, saved.description, Constants { bytes, _charge: None });
    let names = scope.strings(outputs.iter().map(|(name, _)| name.as_str()))?;
    let ids = scope.array_of(outputs.iter().map(|(_, id)| scope.unsigned(id.0)))?;
    scope.array_of([names, ids, label, scope.number(savable.to_number())?].into_iter().map(Ok)).map(Some)
}

/// `listGraphs(folder, origin)`: their keys.
pub fn list<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (folder, origin) = (call.string(0)?, call.string(1)?);
    let graphs = DiskCache::of_process(Path::new(&folder))?.saved_graphs();
    let keys: Vec<&str> = graphs.iter().filter(|graph| graph.origin == origin).map(|graph| &*graph.key).collect();
    call.scope.strings(keys.into_iter()).map(Some)
}

/// `deleteGraph(folder, origin, key)`
pub fn delete<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (folder, origin, key) = (call.string(0)?, call.string(1)?, call.string(2)?);
    DiskCache::of_process(Path::new(&folder))?.delete_graph(Name { origin: &origin, key: &key })?;
    Ok(None)
}

/// `savedGraphs(folder)`: `[file, origin, key]` of each graph in any folder.
pub fn list_all<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let scope = call.scope;
    let graphs = disk_cache::saved_graphs(Path::new(&call.string(0)?))?;
    scope.array_of(graphs.iter().map(|graph| scope.strings([&*graph.file, &graph.origin, &graph.key].into_iter()))).map(Some)
}
