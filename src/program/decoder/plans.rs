//! The plans of a decoder, by what a step works on.

use super::inputs::{ConstantInput, Extent};
use super::sequence::Sequence;
use super::{CacheType, Decoder};
use crate::error::Result;
use crate::graph::{Graph, OperandId};
use crate::program::caches::{
    Importing, Plan, StepGraph, aliased_input, for_all_given, for_all_lengths, given_bucket, in_bytes, refused,
};
use std::sync::{Arc, PoisonError};

impl Decoder {
    /// The plan for an extent, which may have to be made.
    ///
    /// # Errors
    /// Those of importing the model and of compiling it; `NotSupportedError` where it cannot be one graph, or is not shown to be one for all
    /// lengths.
    pub(super) fn plan(&self, extent: &Extent) -> Result<Arc<Plan>> {
        self.plans.plan(extent, || self.make(extent))
    }

    /// The model as one graph for exactly the rows of an extent, and the bytes that its values may take.
    fn graph(&self, extent: &Extent) -> Result<(Graph, usize)> {
        let shapes = self.roles.shapes(&self.caches, extent)?;
        let known = self.roles.known(extent, &shapes)?;
        let importing =
            Importing { program: &self.program, caches: &self.caches.rows, fixed: self.fixed.as_ref(), instead: None };
        let mut part = importing.part(&shapes, known, extent.rows, extent.tokens)?;
        let Some(mut graph) = part.graph.take() else {
            return Err(refused("found a model without anything to compute"));
        };
        // Nobody sees the others, so these need not be shown to be right. A state that is only passed through stays where it is.
        let passes = |name: &str, id: OperandId| {
            let past = self.caches.states.iter().find(|(_, present)| present == name).map(|(past, _)| past.as_str());
            past.is_some() && past == aliased_input(&graph, id)
        };
        let is_wanted = |(name, id): &(String, OperandId)| self.is_used(name) && !passes(name, *id);
        graph.outputs = graph.outputs.iter().filter(|output| is_wanted(output)).cloned().collect();
        self.embedded((graph, part.most_bytes), extent)
    }

    /// Whether the output of that name is looked at: a cache, a state or the logits.
    fn is_used(&self, name: &str) -> bool {
        self.is_cache(name) || self.caches.states.iter().any(|(_, present)| present == name) || name == self.logits
    }

    fn is_cache(&self, name: &str) -> bool {
        self.caches.rows.iter().any(|cache| cache.present == name)
    }

    fn make(&self, extent: &Extent) -> Result<Plan> {
        self.step_graph(extent, |rows| extent.way.rows(extent.tokens, rows))?.build(&self.program, &self.kept)
    }

    /// The graph for an extent, before it is compiled. `bucket` says for which lengths it is to be: for those that have its rows.
    pub(super) fn step_graph(&self, extent: &Extent, bucket: impl Fn(usize) -> usize) -> Result<StepGraph> {
        let step_graph = self.step_graph_of_model(extent, bucket)?;
        match self.cache_type {
            CacheType::Model => Ok(step_graph),
            CacheType::Int8 => Ok(StepGraph { graph: in_bytes(step_graph.graph, &self.caches.rows)?, ..step_graph }),
        }
    }

    /// The same with caches as the model has them.
    fn step_graph_of_model(&self, extent: &Extent, bucket: impl Fn(usize) -> usize) -> Result<StepGraph> {
        let Some(length) = extent.padded_length else { return self.step_graph_of_length(extent, &bucket) };
        let with_length = |length| {
            let step_graph = self.step_graph_of_length(&self.roles.with_given_length(extent, length), &bucket)?;
            Ok((step_graph.graph, (step_graph.padding, step_graph.most_bytes)))
        };
        let is_state = |wanted: &str| self.caches.states.iter().any(|(past, present)| past == wanted || present == wanted);
        let (graph, (mut padding, most_bytes), more) = for_all_given(length, with_length, is_state, is_state)?;
        padding.extend(more);
        Ok(StepGraph { graph, padding, most_bytes, choice: None })
    }

    /// The same where what is given has just that length.
    fn step_graph_of_length(&self, extent: &Extent, bucket: &impl Fn(usize) -> usize) -> Result<StepGraph> {
        let (graph, most_bytes) = self.graph(extent)?;
        let (graph, padding) = match extent.way.bucket.is_exact() {
            true => (graph, Vec::new()),
            false => {
                let shorter = |rows| self.graph(&Extent { rows, ..extent.clone() }).map(|(graph, _)| graph);
                for_all_lengths(graph, extent.rows, bucket, shorter, |name| self.is_cache(name))?
            }
        };
        Ok(StepGraph { graph, padding, most_bytes, choice: None })
    }

    /// What is given for each of so many prompts. It is filled up to one of few lengths if steps may be shown to be the same for all: then
    /// there are few plans, and calls of different lengths run together.
    ///
    /// # Errors
    /// Those of [`Roles::given`](super::inputs::Roles::given).
    pub(super) fn given(&self, constants: Vec<ConstantInput>, prompts: usize) -> Result<Vec<Arc<Vec<ConstantInput>>>> {
        let exact = self.roles.given(constants, prompts)?;
        let Some(length) = exact.first().and_then(|first| self.roles.given_length(first)) else { return Ok(exact) };
        let bucket = given_bucket(length);
        let mut known = self.fills_up.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&bucket) == Some(&false) {
            return Ok(exact);
        }
        let mut filled: Vec<Arc<Vec<ConstantInput>>> = Vec::with_capacity(exact.len());
        for (prompt, given) in exact.iter().enumerate() {
            // Prompts may share it.
            let same = (0..prompt).find(|&other| Arc::ptr_eq(&exact[other], given)).map(|other| filled[other].clone());
            match same {
                Some(same) => filled.push(same),
                None => filled.push(Arc::new(self.roles.padded(given, length, bucket)?)),
            }
        }
        let can_be = *known.entry(bucket).or_insert_with(|| self.is_same_padded(&filled[0]));
        Ok(if can_be { filled } else { exact })
    }

    /// Whether the first step and a later one are shown to be the same with what is given of any length.
    fn is_same_padded(&self, given: &Arc<Vec<ConstantInput>>) -> bool {
        let sequence = Sequence::new(given.clone());
        let first = self.form(&sequence, 1, true);
        let Some(step_graph) = self.first_step_graph(&first, 0) else { return false };
        let shape_of = |(_, present): &(String, String)| {
            let found = step_graph.graph.outputs.iter().find(|(name, _)| name == present);
            found.map_or_else(Vec::new, |(_, id)| step_graph.graph.descriptor(*id).shape.to_vec())
        };
        let later = Extent { states: self.caches.states.iter().map(shape_of).collect(), ..self.form(&sequence, 1, false) };
        self.first_step_graph(&later, 1).is_some()
    }

    /// The step graph for a form after so many rows in the first way that there is one in; nothing where there would be one if nothing were filled up.
    fn first_step_graph(&self, form: &Extent, rows: usize) -> Option<StepGraph> {
        self.ways(form).into_iter().find_map(|way| {
            let extent = Extent { way, rows: if self.caches.rows.is_empty() { 0 } else { way.rows(1, rows) }, ..form.clone() };
            let bucket = |rows| way.rows(1, rows);
            match self.step_graph(&extent, bucket) {
                Ok(step_graph) => Some(Some(step_graph)),
                Err(_) => self.step_graph(&Extent { padded_length: None, ..extent }, bucket).ok().map(|_| None),
            }
        })?
    }
}
