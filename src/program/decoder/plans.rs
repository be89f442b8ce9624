//! The plans of a decoder, by what a step works on.

use super::Decoder;
use super::inputs::{Extent, Role};
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::host_memory::{Placement, Placements};
use crate::onnx::fixed_caches;
use crate::onnx::{Given, Place, Source, import_part};
use crate::program::device::OwnedGraph;
use crate::timeline::{GraphId, Task, Urgency};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many are kept: of a model with some hundred nodes each takes some hundred kilobytes.
const MOST: usize = 96;

/// A compiled graph for steps of one extent.
#[derive(Debug)]
pub struct Plan {
    pub graph: GraphId,
    _owned: OwnedGraph,
    /// What each input is: its role, its element type, and what it is in the graph.
    pub inputs: Vec<(Role, crate::onnx::ElementType, Descriptor)>,
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
        let position = self.inputs.iter().position(|(role, ..)| *role == Role::Rows(cache));
        position.is_none_or(|position| {
            let placement = self.placements.get(position).copied().flatten();
            placement.is_some_and(|placement| placement.output == output && placement.first == 0)
        })
    }
}

/// What an output of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    Logits,
    /// The rows of a cache, by its number.
    Rows(usize),
    State(usize),
    Other,
}

/// Those that were used last.
#[derive(Debug, Default)]
pub struct Plans {
    plans: HashMap<Extent, (Arc<Slot>, u64)>,
    clock: u64,
}

/// A plan that is there, or is being made by whoever has the lock.
type Slot = Mutex<Option<Arc<Plan>>>;

/// How many rows a plan for at least so many has: so few plans that they are soon made, and so many that at most an eighth of what a
/// step reads does not count, or 63 rows.
pub fn rounded(rows: usize) -> usize {
    let step = (rows.next_power_of_two() / 16).max(64);
    rows.max(1).next_multiple_of(step)
}

impl Decoder {
    /// The plan for an extent, which may have to be made.
    ///
    /// # Errors
    /// Those of importing the model and of compiling it; `NotSupportedError` where it cannot be one graph.
    pub fn plan(&self, extent: &Extent) -> Result<Arc<Plan>> {
        let slot = {
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            plans.clock += 1;
            let Plans { plans, clock } = &mut *plans;
            if !plans.contains_key(extent)
                && plans.len() >= MOST
                && let Some(oldest) = plans.iter().min_by_key(|(_, (_, used))| *used).map(|(extent, _)| extent.clone())
            {
                plans.remove(&oldest);
            }
            let (slot, used) = plans.entry(extent.clone()).or_default();
            *used = *clock;
            slot.clone()
        };
        // Others have their plans meanwhile, and whoever wants this one waits for it.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = &*slot {
            return Ok(plan.clone());
        }
        let plan = Arc::new(self.make(extent)?);
        *slot = Some(plan.clone());
        Ok(plan)
    }

    /// Whether nobody has asked for a plan yet.
    pub(super) fn begins_plan(&self, extent: &Extent) -> bool {
        !self.plans.lock().unwrap_or_else(PoisonError::into_inner).plans.contains_key(extent)
    }

    fn make(&self, extent: &Extent) -> Result<Plan> {
        let program = &self.program;
        let shapes = self.roles.shapes(&self.caches, extent)?;
        let mut given = fixed_caches::given(&program.loaded, &self.caches.rows, &shapes)?;
        given.extend(self.roles.known(extent).into_iter().map(|(name, tensor)| (name, Given::Known(tensor))));
        let mut source = Source { caches: &self.caches.rows, ..Source::of(&program.loaded)? };
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
        let Some(mut graph) = part.graph.take() else {
            return Err(Error::new(Kind::NotSupported, "found a model in which there is nothing to compute"));
        };
        program.adopt(&mut graph, false)?;
        let mut inputs = Vec::new();
        for (name, id) in &graph.inputs {
            let found = self.roles.inputs.iter().find(|(_, input)| input.name == *name);
            let (role, input) = found.ok_or_else(|| Error::new(Kind::Operation, format!("an input {name:?} of nobody")))?;
            inputs.push((*role, input.element(), graph.descriptor(*id).clone()));
        }
        let made = |name: &str| {
            let of_rows = self.caches.rows.iter().position(|cache| cache.present == name).map(Made::Rows);
            let of_state = || self.caches.states.iter().position(|(_, present)| present == name).map(Made::State);
            of_rows.or_else(of_state).unwrap_or(if name == self.logits { Made::Logits } else { Made::Other })
        };
        let outputs: Vec<_> = graph.outputs.iter().map(|(name, id)| (made(name), graph.descriptor(*id).clone())).collect();
        let id = program.device.next_graph();
        let built = program.device.wait_for(|done| Task::Build {
            graph: id,
            description: Box::new(graph),
            label: String::new(),
            most: part.most_bytes,
            urgency: Urgency::Wanted,
            done,
        })?;
        let _owned = OwnedGraph::new(program.device.clone(), id);
        let placements = if program.device.is_elsewhere() { built.in_tensors } else { built.placements };
        Ok(Plan { graph: id, _owned, inputs, outputs, placements })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_few_rows_too_many() {
        assert_eq!([0, 1, 64, 65, 512, 1024, 1025, 2048, 2049].map(rounded), [64, 64, 64, 128, 512, 1024, 1152, 2048, 2304]);
        for rows in 1..20_000 {
            let most = rounded(rows);
            assert!(most >= rows && most - rows <= (rows / 8).max(63), "{rows} in {most}");
        }
        let different: std::collections::BTreeSet<_> = (0..32_768).map(rounded).collect();
        assert!(different.len() < 64, "{} plans", different.len());
    }
}
