//! Plans of models that are loaded again: whoever loads the same model, for a context that compiles for the same and for the same shapes, has the
//! graph that the first one has had compiled. Nothing is imported, hashed or packed then.
//!
//! A plan is known by a hash of where all bytes of the model come from, of what its callers decided, and of what the graph is compiled for. It is
//! found for as long as a context has the graph, and goes with the last one. Only plans of whole models are shared: what follows a part that
//! is cut off belongs to its model.

use super::{Compiled, CompiledPart, Lengths, Planned, Plans, Program};
use crate::disk_cache::ModelCache;
use crate::graph::Descriptor;
use crate::memory::{Once, identity};
use crate::onnx::{Export, InputShape, Signature};
use crate::timeline::{Built, CompiledGraph, Done, GraphId};
use std::sync::{Arc, LazyLock};

static PLANS: LazyLock<Once<u128, Arc<CompiledGraph>>> = LazyLock::new(Once::default);

/// What is known of a plan beside its graph.
#[derive(Debug)]
struct Known {
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<(String, Descriptor)>,
    exports: Vec<(String, Export)>,
    of_model: Vec<Signature>,
}

/// A plan that others can have, once its graph is compiled.
#[derive(Debug)]
pub struct ToShare {
    key: u128,
    known: Arc<Known>,
}

impl ToShare {
    /// Lets others find it when the graph is there.
    pub fn when(self, done: Done<Built>) -> Done<Built> {
        Done::new(move |result| {
            if let Ok(Built { compiled: Some(compiled), .. }) = &result {
                compiled.note(self.known);
                PLANS.keep(self.key, compiled.clone(), |_| true);
            }
            done.report(result);
        })
    }
}

impl Program {
    /// What tells a plan for these shapes from all others; nothing if no other context can have it.
    pub fn key_of_plan(&self, shapes: &[InputShape], lengths: Option<&Lengths>) -> Option<u128> {
        let (device, model) = (self.timeline.compiles_for()?, self.loaded.identity()?);
        // Whoever wants the packings in a folder packs them once more.
        let folder = self.shared.attached::<ModelCache>().map(|cache| cache.folder().to_owned());
        let (fp_math, most) = (self.fp_math, self.bounds.most_bytes);
        let text = format!("{device} {model} {folder:?} {fp_math:?} {most:?} {shapes:?} {lengths:?}");
        Some(identity(text.as_bytes()))
    }

    /// The plan that another context has, under a number of this one.
    pub fn shared_plan(&self, key: u128, id: GraphId) -> Option<(Planned, Arc<CompiledGraph>)> {
        let compiled = PLANS.find(&key)?;
        let known = compiled.noted::<Known>()?;
        let graph = Compiled::new(id, &known.inputs, &known.outputs);
        let part = CompiledPart {
            exports: known.exports.clone(),
            outputs: known.of_model.clone(),
            ..CompiledPart::last(Some(graph), Plans::of(&self.cache))
        };
        Some((Planned { part, inputs: known.inputs.clone(), outputs: known.outputs.clone() }, compiled))
    }

    /// What is to be shared of a plan, if it is one of the whole model. The key is asked for again: importing may have opened more files.
    pub fn to_share(&self, planned: &Planned, key: u128, again: Option<u128>) -> Option<ToShare> {
        let Planned { part, inputs, outputs } = planned;
        let (exports, of_model) = (part.exports.clone(), part.outputs.clone());
        let known = || Arc::new(Known { inputs: inputs.clone(), outputs: outputs.clone(), exports, of_model });
        (part.is_last() && part.graph.is_some() && again == Some(key)).then(|| ToShare { key, known: known() })
    }
}
