//! The plans of a decoder, by what a step works on.

use super::Decoder;
use super::inputs::{Extent, Role};
use super::ways::Lengths;
use crate::error::{Error, Kind, Result};
use crate::graph::{Descriptor, Graph};
use crate::host_memory::{Placement, Placements};
use crate::onnx::fixed_caches;
use crate::onnx::{ElementType, Given, Place, Source, import_part};
use crate::program::caches::{Slots, Told, asked, for_all_lengths, require_filled};
use crate::program::device::OwnedGraph;
use crate::timeline::{GraphId, Task, Urgency, from_panic};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard, PoisonError};

/// A compiled graph for steps of one extent.
#[derive(Debug)]
pub struct Plan {
    pub graph: GraphId,
    _owned: OwnedGraph,
    pub inputs: Vec<(Feed, Descriptor)>,
    pub outputs: Vec<(Made, Descriptor)>,
    /// Where the inputs may lie in outputs: in the host's memory, or in tensors where that of the device is elsewhere.
    pub placements: Placements,
}

impl Plan {
    /// Whether an input that has this place is what a cache begins with.
    pub fn is_beginning(&self, cache: usize, placement: Placement) -> bool {
        placement.first == 0 && self.outputs[placement.output].0 == Made::Rows(cache)
    }

    /// Whether an output that a cache is may lie where its rows are: what is read of it, if anything is, may lie there.
    pub fn appends(&self, cache: usize, output: usize) -> bool {
        let is_past = |(feed, _): &(Feed, Descriptor)| matches!(feed, Feed::Role(Role::Rows(number), _) if *number == cache);
        let position = self.inputs.iter().position(is_past);
        position.is_none_or(|position| {
            let placement = self.placements.get(position).copied().flatten();
            placement.is_some_and(|placement| placement.output == output && placement.first == 0)
        })
    }
}

/// What an input of the graph is.
#[derive(Debug)]
pub enum Feed {
    /// One of the model's: what it is for, and its element type.
    Role(Role, ElementType),
    /// What says how many rows do not count.
    Told(Told),
}

/// What an output of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Logits,
    /// The rows of a cache, by its number.
    Rows(usize),
    State(usize),
}

impl Decoder {
    /// The plan for an extent, which may have to be made.
    ///
    /// # Errors
    /// Those of importing the model and of compiling it; `NotSupportedError` where it cannot be one graph, or is not shown to be one for all
    /// lengths.
    pub(super) fn plan(&self, extent: &Extent) -> Result<Arc<Plan>> {
        let slot = self.lock_plans().slot(extent);
        // Others have their plans meanwhile, and whoever wants this one waits for it.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &*slot {
            return Ok(plan.clone());
        }
        let made = catch_unwind(AssertUnwindSafe(|| self.make(extent))).unwrap_or_else(|panic| Err(from_panic(&*panic)));
        let plan = Arc::new(made?);
        *slot = Some(plan.clone());
        Ok(plan)
    }

    fn lock_plans(&self) -> MutexGuard<'_, Slots<Extent, Arc<Plan>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has asked for a plan yet.
    pub(super) fn begins_plan(&self, extent: &Extent) -> bool {
        self.lock_plans().find(extent).is_none()
    }

    /// The model as one graph for exactly the rows of an extent, and the bytes that its values may take.
    fn graph(&self, extent: &Extent) -> Result<(Graph, usize)> {
        let program = &self.program;
        let shapes = self.roles.shapes(&self.caches, extent)?;
        let mut given = fixed_caches::given(&program.loaded, &self.caches.rows, &shapes)?;
        given.extend(self.roles.known(extent, &shapes)?.into_iter().map(|(name, tensor)| (name, Given::Known(tensor))));
        let mut source = Source { caches: &self.caches.rows, ..Source::of(&program.loaded)? };
        let asked = asked(self.fixed.as_ref());
        source.asked = &asked;
        if let Some(fixed) = &self.fixed {
            source.graph = &fixed.graph;
        }
        let mut part = import_part(&source, &program.limits, &program.bounds, &given, Place::First).map_err(Error::from)?;
        if let Some(next) = &part.next {
            let cut = next.cuts.first();
            let text = format!(
                "found a model that is cut at {:?} ({}), allowed one whose steps are one graph",
                cut.map_or("", |cut| &cut.node),
                cut.map_or("", |cut| &cut.reason)
            );
            return Err(Error::new(Kind::NotSupported, text));
        }
        if let Some(fixed) = &self.fixed {
            require_filled(fixed, &part, extent.rows, extent.tokens)?;
        }
        let Some(mut graph) = part.graph.take() else {
            return Err(Error::new(Kind::NotSupported, "found a model in which there is nothing to compute"));
        };
        // Nobody sees the others, so these need not be shown to be right.
        graph.outputs.retain(|(name, _)| self.made(name).is_some());
        Ok((graph, part.most_bytes))
    }

    /// What the output of that name is, if it is one that is looked at.
    fn made(&self, name: &str) -> Option<Made> {
        let of_rows = self.caches.rows.iter().position(|cache| cache.present == name).map(Made::Rows);
        let of_state = || self.caches.states.iter().position(|(_, present)| present == name).map(Made::State);
        of_rows.or_else(of_state).or_else(|| (name == self.logits).then_some(Made::Logits))
    }

    fn make(&self, extent: &Extent) -> Result<Plan> {
        let program = &self.program;
        let (graph, most) = self.graph(extent)?;
        let (mut graph, told) = match extent.way.lengths {
            Lengths::One => (graph, Vec::new()),
            Lengths::Few | Lengths::Many => {
                let bucket = |rows| extent.way.rows(extent.tokens, rows);
                let shorter = |rows| self.graph(&Extent { rows, ..extent.clone() }).map(|(graph, _)| graph);
                let is_cache = |name: &str| matches!(self.made(name), Some(Made::Rows(_)));
                for_all_lengths(graph, extent.rows, bucket, shorter, is_cache)?
            }
        };
        program.adopt(&mut graph, false)?;
        let mut told: HashMap<String, Told> = told.into_iter().collect();
        let mut inputs = Vec::new();
        for (name, id) in &graph.inputs {
            let feed = match told.remove(name) {
                Some(told) => Feed::Told(told),
                None => {
                    let found = self.roles.inputs.iter().find(|(_, input)| input.name == *name);
                    let nobody = || Error::new(Kind::Operation, format!("an input {name:?} of nobody"));
                    let (role, input) = found.ok_or_else(nobody)?;
                    Feed::Role(*role, input.element())
                }
            };
            inputs.push((feed, graph.descriptor(*id).clone()));
        }
        let made =
            |name: &str| self.made(name).ok_or_else(|| Error::new(Kind::Operation, format!("an output {name:?} of nobody")));
        let outputs: Vec<_> =
            graph.outputs.iter().map(|(name, id)| Ok((made(name)?, graph.descriptor(*id).clone()))).collect::<Result<_>>()?;
        let id = program.device.next_graph();
        let built = program.device.wait_for(|done| Task::Build {
            graph: id,
            description: Box::new(graph),
            label: String::new(),
            most,
            urgency: Urgency::Wanted,
            done,
        })?;
        let _owned = OwnedGraph::new(program.device.clone(), id);
        let placements = if program.device.is_elsewhere() { built.in_tensors } else { built.placements };
        Ok(Plan { graph: id, _owned, inputs, outputs, placements })
    }
}
