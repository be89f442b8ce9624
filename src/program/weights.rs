//! The weights of a model, which all of its graphs refer to where the file has them. What needs them aligned copies them.

use crate::graph::{Graph, Shared, Source};
use crate::memory::Usage;
use crate::onnx::Loaded;
use std::sync::Arc;

/// Smaller ones are copied as fast as they are looked up.
const WORTH_IT: usize = 1 << 10;

/// What the graphs of a model have in common.
#[derive(Debug)]
pub struct Weights {
    usage: Arc<Usage>,
}

impl Weights {
    /// Whose memory is counted there.
    pub fn new(usage: Arc<Usage>) -> Weights {
        Weights { usage }
    }

    /// Where it is counted.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    /// Says which constants of a graph stay where they are, and lets it refer to what another graph has for the same computed constant.
    pub fn settle(&self, graph: &mut Graph, loaded: &Loaded, shared: &Shared) {
        shared.expects_several();
        for operand in &mut graph.operands {
            let Source::Constant(constant) = &mut operand.source else { continue };
            if constant.len() < WORTH_IT {
                continue;
            }
            let place = constant.place();
            if !loaded.has(place) {
                // What importing has computed is the same for most shapes.
                let identity = constant.identity();
                match shared.computed(identity) {
                    Some(there) => *constant = there,
                    None => shared.has_computed(identity, constant),
                }
                continue;
            }
            shared.keep(place);
            *constant = constant.clone().with_facts(shared.facts_at(place));
        }
    }
}
