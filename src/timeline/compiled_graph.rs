//! Graphs as contexts have them: compiled here, or by another context that has the same model.

use super::job::GraphEntry;
use crate::backend::{Backend, CommonPart};
use crate::compiler::{self, Schedule};
use crate::error::Result;
use crate::graph::{Descriptor, Graph, Shared};
use crate::watch::Watch;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What a graph is made of.
#[derive(Debug)]
pub enum Description {
    Graph(Box<Graph>),
    /// What another context has compiled, for a model that shares that.
    Compiled(Arc<CompiledGraph>, Box<Shared>),
}

impl From<Graph> for Description {
    fn from(graph: Graph) -> Description {
        Description::Graph(Box::new(graph))
    }
}

/// What contexts have in common of a graph, as long as one of them has it.
pub struct CompiledGraph {
    pub part: CommonPart,
    pub inputs: Arc<[Descriptor]>,
    pub outputs: Arc<[Descriptor]>,
    /// See [`Built::bytes`].
    pub bytes: usize,
    noted: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl CompiledGraph {
    pub fn new(part: CommonPart, inputs: Arc<[Descriptor]>, outputs: Arc<[Descriptor]>, bytes: usize) -> CompiledGraph {
        CompiledGraph { part, inputs, outputs, bytes, noted: OnceLock::new() }
    }

    /// Keeps what whoever had it compiled knows of it, for others. Only the first time counts.
    pub fn note<T: Any + Send + Sync>(&self, what: Arc<T>) {
        let _ = self.noted.set(what);
    }

    /// What was noted.
    pub fn noted<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.noted.get()?.clone().downcast().ok()
    }
}

impl fmt::Debug for CompiledGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CompiledGraph")
    }
}

impl<B: Backend> GraphEntry<B> {
    /// A graph that takes so many bytes at most. May take long.
    ///
    /// # Errors
    /// Those of compiling, and of a watch that is over.
    pub fn of(backend: &B, description: Description, most: usize, label: String, watch: &Watch) -> Result<GraphEntry<B>> {
        match description {
            Description::Graph(graph) => {
                let schedule = compiler::compile_within(most, *graph, backend.capabilities())?;
                watch.check()?;
                GraphEntry::of_schedule(backend, schedule, label)
            }
            Description::Compiled(compiled, shared) => {
                let executable = Arc::new(backend.with_common_part(&compiled.part, &shared)?);
                let (inputs, outputs, bytes) = (compiled.inputs.clone(), compiled.outputs.clone(), compiled.bytes);
                Ok(GraphEntry { executable, inputs, outputs, compiled: Some(compiled), bytes, label, error: OnceLock::new() })
            }
        }
    }

    fn of_schedule(backend: &B, schedule: Schedule, label: String) -> Result<GraphEntry<B>> {
        let bytes = schedule.demand().of_run();
        let descriptors = |list: &[(String, Descriptor)]| list.iter().map(|(_, descriptor)| descriptor.clone()).collect();
        let (inputs, outputs): (Arc<[_]>, Arc<[_]>) = (descriptors(&schedule.inputs), descriptors(&schedule.outputs));
        let executable = Arc::new(backend.compile(schedule)?);
        let for_others = |part| Arc::new(CompiledGraph::new(part, inputs.clone(), outputs.clone(), bytes));
        let compiled = backend.common_part(&executable).map(for_others);
        Ok(GraphEntry { executable, inputs, outputs, compiled, bytes, label, error: OnceLock::new() })
    }
}
