//! A loaded model as a program: the parts that importing cuts it into ([`crate::onnx::Part`]), and the plans of each for the shapes
//! and values that were met.
//!
//! A [`CompiledPart`] is one part for one set of shapes: its compiled graph, and what follows it. The next one is found by the shapes and
//! values that only the run could tell ([`plans`]), or compiled. So a run whose shapes are all known goes from part to part, and nothing of
//! it goes through script. [`run`] does that for the model, [`repeat`] for the bodies of loops.
//!
//! A run has a thread of its own while it lasts, out of a few; the timeline hears of graphs and tensors as from anybody else, and values
//! that stay on the device stay there.

mod batch;
mod between;
mod caches;
pub mod decoder;
mod plan_cache;
mod plans;
mod repeat;
mod run;
mod shared_plans;
pub mod steps;
mod timeline_handle;
mod values;
mod weights;

pub use batch::{Lengths, Outputs, Refusal, Rows};
pub use plan_cache::{Leaving, Owner, PlanCache};
pub use run::{Content, Elements, Input, Options, Output, Tensor, start};
pub use timeline_handle::{OwnedTensor, TimelineHandle};
pub use weights::Weights;

use crate::error::{Error, Kind, Result};
use crate::graph::{Descriptor, FpMath, Limits, OperandId, Shared};
use crate::onnx::{
    Body, Bounds, Export, Givens, ImportError, InputShape, Loaded, Next, OpenOutput, Place, Signature, Source, StepKind,
    import_part,
};
use crate::timeline::{Built, Description, Done, GraphId, Task};
use plans::Plans;
use std::sync::Arc;
use timeline_handle::OwnedGraph;

/// A model that was read, and what its parts are compiled and run with.
#[derive(Debug)]
pub struct Program {
    pub loaded: Arc<Loaded>,
    /// What is told of the outputs.
    pub outputs: Vec<OpenOutput>,
    /// Whether all inputs and outputs are tensors that are always there. Others are run part by part, even where there is but one part.
    pub has_only_tensors: bool,
    pub limits: Arc<Limits>,
    pub bounds: Bounds,
    pub timeline: Arc<TimelineHandle>,
    /// How its graphs may compute.
    pub fp_math: FpMath,
    /// By all graphs of the model.
    pub shared: Shared,
    pub weights: Weights,
    /// Of all plans.
    pub cache: Arc<PlanCache>,
    /// Of a model with caches.
    pub steps: Option<steps::Steps>,
}

/// One part for one set of shapes.
#[derive(Debug)]
pub struct CompiledPart {
    graph: Option<Compiled>,
    exports: Vec<(String, Export)>,
    next: Option<Next>,
    /// By step of `next`: the plans of its body.
    bodies: Vec<Option<Plans>>,
    later: Plans,
    /// The model's outputs, of the last part.
    pub outputs: Vec<Signature>,
    /// What a run of the part takes beside the weights.
    pub bytes: usize,
    /// What its graph keeps beside weights.
    pub plan_bytes: usize,
}

#[derive(Debug)]
struct Compiled {
    id: GraphId,
    inputs: Vec<(String, Descriptor)>,
    outputs: Vec<Descriptor>,
    /// Of a graph that is nobody else's.
    _owned: Option<OwnedGraph>,
}

/// A part that was imported: what is left is to compile its graph.
#[derive(Debug)]
pub struct Planned {
    pub part: CompiledPart,
    /// By name, in the order of the graph; empty where there is no graph.
    pub inputs: Vec<(String, Descriptor)>,
    pub outputs: Vec<(String, Descriptor)>,
}

impl Compiled {
    /// A graph whose plan somebody else has.
    fn new(id: GraphId, inputs: &[(String, Descriptor)], outputs: &[(String, Descriptor)]) -> Compiled {
        let outputs = outputs.iter().map(|(_, descriptor)| descriptor.clone()).collect();
        Compiled { id, inputs: inputs.to_vec(), outputs, _owned: None }
    }
}

impl CompiledPart {
    /// One after which nothing follows, and which exports nothing yet.
    fn last(graph: Option<Compiled>, later: Plans) -> CompiledPart {
        let (exports, bodies, outputs) = Default::default();
        CompiledPart { graph, exports, next: None, bodies, later, outputs, bytes: 0, plan_bytes: 0 }
    }

    /// Whether the model's outputs are there when the part's graph has run.
    pub fn is_last(&self) -> bool {
        self.next.is_none()
    }

    /// The nodes at which the model is cut after the part.
    pub fn cuts(&self) -> &[crate::onnx::Cut] {
        self.next.as_ref().map_or(&[], |next| &next.cuts)
    }

    /// Outputs of the model that the graph does not compute, since nothing is in them, or all is known.
    pub fn known_outputs(&self) -> impl Iterator<Item = (&str, &crate::onnx::Tensor)> {
        self.exports.iter().filter_map(|(name, export)| match export {
            Export::Known(tensor) => Some((name.as_str(), tensor)),
            _ => None,
        })
    }
}

impl Program {
    /// Imports the first part for inputs of these shapes. `build` has its graph, which takes so many bytes at most, compiled under that
    /// number, which is the caller's. With `lengths` it is for texts that may end earlier.
    ///
    /// # Errors
    /// As [`import_part`].
    pub fn first(
        &self,
        shapes: &[InputShape],
        lengths: Option<&Lengths>,
        id: GraphId,
        done: Done<Built>,
        found: impl FnOnce(Planned),
        build: impl FnOnce(Description, usize, Done<Built>) -> Result<()>,
    ) -> Result<(), (ImportError, Done<Built>)> {
        let key = self.key_of_plan(shapes, lengths);
        let failed = |error: Error| (error.into(), Done::new(|_: Result<Built>| {}));
        if let Some((planned, compiled)) = key.and_then(|key| self.shared_plan(key, id)) {
            found(planned);
            return build(Description::Compiled(compiled, Box::new(self.shared.clone())), usize::MAX, done).map_err(failed);
        }
        let planned = self.loaded.given_of(shapes).map_err(ImportError::from).and_then(|given| {
            let (planned, graph) = self.import(&Source::of(&self.loaded)?, &given, Place::First, lengths, id)?;
            Ok((planned, graph))
        });
        match planned {
            Err(error) => Err((error, done)),
            Ok((planned, graph)) => {
                let to_share = key.and_then(|key| self.to_share(&planned, key, self.key_of_plan(shapes, lengths)));
                found(planned);
                let Some((description, most)) = graph else {
                    done.report(Ok(Built::default()));
                    return Ok(());
                };
                let done = match to_share {
                    Some(to_share) => to_share.when(done),
                    None => done,
                };
                build(description.into(), most, done).map_err(failed)
            }
        }
    }

    /// Gives a graph what all graphs of the model have: how floats may be computed, and, if it is not alone, the weights that they share.
    fn share_weights(&self, graph: &mut crate::graph::Graph, is_alone: bool) {
        graph.shared = self.shared.clone();
        graph.fp_math = self.fp_math;
        if !is_alone {
            self.weights.settle(graph, &self.loaded, &self.shared);
        }
    }

    /// A part, and its graph with what that may take.
    fn import(
        &self,
        source: &Source<'_>,
        given: &Givens,
        place: Place,
        lengths: Option<&Lengths>,
        id: GraphId,
    ) -> Result<(Planned, Option<(crate::graph::Graph, usize)>), ImportError> {
        let mut part = import_part(source, &self.limits, &self.bounds, given, place)?;
        if let Some(lengths) = lengths {
            part.graph = part.graph.map(|graph| self.hiding(graph, lengths)).transpose()?;
        }
        if let Some(graph) = &mut part.graph {
            // A single graph has its constants to itself.
            let is_alone = place != Place::Later && self.loaded.is_fixed() && self.steps.is_none();
            self.share_weights(graph, is_alone);
        }
        let described = |graph: &crate::graph::Graph, list: &[(String, OperandId)]| {
            list.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect::<Vec<_>>()
        };
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        if let Some(graph) = &part.graph {
            (inputs, outputs) = (described(graph, &graph.inputs), described(graph, &graph.outputs));
        }
        let compiled = part.graph.is_some().then(|| Compiled::new(id, &inputs, &outputs));
        let steps = part.next.iter().flat_map(|next| &next.steps);
        let bodies = steps.map(|step| matches!(step.kind, StepKind::Repetition { .. }).then(|| Plans::of(&self.cache))).collect();
        let (graph, most) = (part.graph.take(), part.most_bytes);
        let part = CompiledPart {
            exports: part.exports,
            next: part.next,
            bodies,
            outputs: part.outputs,
            ..CompiledPart::last(compiled, Plans::of(&self.cache))
        };
        Ok((Planned { part, inputs, outputs }, graph.map(|graph| (graph, most))))
    }

    /// Imports and compiles a part that belongs to a run's own plans. Waits for it.
    fn part(&self, body: Option<&Body>, given: &Givens) -> Result<CompiledPart> {
        let source = match body {
            None => Source::of(&self.loaded)?,
            Some(body) => Source {
                loaded: &self.loaded,
                graph: &body.graph,
                opsets: &body.opsets,
                is_model: false,
                caches: &[],
                asked: &[],
            },
        };
        let id = self.timeline.next_graph();
        let (Planned { mut part, .. }, graph) = self.import(&source, given, Place::Later, None, id).map_err(Error::from)?;
        if let Some((description, most)) = graph {
            let built = self.timeline.wait_for(|done| Task::build(id, description, most, done))?;
            (part.bytes, part.plan_bytes) = (built.bytes, built.plan_bytes);
            if let Some(compiled) = &mut part.graph {
                compiled._owned = Some(OwnedGraph::new(self.timeline.clone(), id));
            }
        }
        Ok(part)
    }
}

/// The error of a run that takes more than it may.
fn too_large(found: usize, allowed: usize) -> Error {
    Error::new(Kind::Operation, format!("found values of {found} bytes, allowed at most {allowed} (maxBytes)"))
}
