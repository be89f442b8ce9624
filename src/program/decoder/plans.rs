//! The plans of a decoder, by what a step works on.

use super::Decoder;
use super::inputs::Extent;
use crate::error::Result;
use crate::graph::Graph;
use crate::program::caches::{Draft, Importing, Plan, for_all_lengths, refused};
use std::sync::Arc;

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
        let importing = Importing { program: &self.program, caches: &self.caches.rows, fixed: self.fixed.as_ref() };
        let mut part = importing.part(&shapes, known, extent.rows, extent.tokens)?;
        let Some(mut graph) = part.graph.take() else {
            return Err(refused("found a model in which there is nothing to compute"));
        };
        // Nobody sees the others, so these need not be shown to be right.
        graph.outputs.retain(|(name, _)| self.is_used(name));
        Ok((graph, part.most_bytes))
    }

    /// Whether the output of that name is looked at: a cache, a state or the logits.
    fn is_used(&self, name: &str) -> bool {
        self.is_cache(name) || self.caches.states.iter().any(|(_, present)| present == name) || name == self.logits
    }

    fn is_cache(&self, name: &str) -> bool {
        self.caches.rows.iter().any(|cache| cache.present == name)
    }

    fn make(&self, extent: &Extent) -> Result<Plan> {
        self.draft(extent, |rows| extent.way.rows(extent.tokens, rows))?.build(&self.program, &self.caches)
    }

    /// The graph for an extent, before it is compiled. `bucket` says for which lengths it is to be: for those that have its rows.
    pub(super) fn draft(&self, extent: &Extent, bucket: impl Fn(usize) -> usize) -> Result<Draft> {
        let (graph, most_bytes) = self.graph(extent)?;
        let (graph, padding) = match extent.way.bucket.is_exact() {
            true => (graph, Vec::new()),
            false => {
                let shorter = |rows| self.graph(&Extent { rows, ..extent.clone() }).map(|(graph, _)| graph);
                for_all_lengths(graph, extent.rows, bucket, shorter, |name| self.is_cache(name))?
            }
        };
        Ok(Draft { graph, padding, most_bytes })
    }
}
