//! The bind groups of a graph's last runs, for later runs on the same tensors. A bind group keeps the memory that it mentions, so it goes with
//! the first tensor that does.

use super::loss::lock;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use wgpu::{BindGroup, Buffer};

/// Where the tensors that a dispatch mentions begin.
pub type Places = SmallVec<[(Buffer, usize); 4]>;

/// Those of a dispatch: two sets of tensors take turns, as inputs and outputs of each other do.
type OfDispatch = VecDeque<(Places, BindGroup)>;
const MOST: usize = 2;

/// Those of a graph, by the number of the dispatch.
#[derive(Debug, Default)]
pub struct BindGroups(Mutex<HashMap<usize, OfDispatch>>);

impl BindGroups {
    /// The bind group of a dispatch for tensors at these places, if a run before had it.
    pub fn get(&self, dispatch: usize, places: &Places) -> Option<BindGroup> {
        let groups = lock(&self.0);
        groups.get(&dispatch)?.iter().find(|(known, _)| known == places).map(|(_, group)| group.clone())
    }

    /// Keeps one in the place of the oldest. Those who have the tensors call [`Mentions::add`].
    pub fn keep(&self, dispatch: usize, places: Places, group: BindGroup) {
        let mut groups = lock(&self.0);
        let groups = groups.entry(dispatch).or_default();
        groups.truncate(MOST - 1);
        groups.push_front((places, group));
    }

    fn forget(&self, buffer: &Buffer) {
        for groups in lock(&self.0).values_mut() {
            groups.retain(|(places, _)| places.iter().all(|(known, _)| known != buffer));
        }
    }
}

/// The memory of a tensor and its parts, and the graphs whose bind groups mention it. These forget it when it is dropped.
#[derive(Debug)]
pub struct Mentions {
    buffer: Buffer,
    graphs: Mutex<Vec<Weak<BindGroups>>>,
}

impl Mentions {
    pub fn new(buffer: Buffer) -> Arc<Mentions> {
        Arc::new(Mentions { buffer, graphs: Mutex::default() })
    }

    pub fn add(&self, graph: &Arc<BindGroups>) {
        let graph = Arc::downgrade(graph);
        let mut graphs = lock(&self.graphs);
        if !graphs.iter().any(|known| known.ptr_eq(&graph)) {
            graphs.retain(|known| known.strong_count() > 0);
            graphs.push(graph);
        }
    }
}

impl Drop for Mentions {
    fn drop(&mut self) {
        lock(&self.graphs).iter().filter_map(Weak::upgrade).for_each(|graph| graph.forget(&self.buffer));
    }
}
