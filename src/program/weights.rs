//! The weights of a model, which all of its graphs refer to at one place: those of a file lie anywhere, and kernels want them aligned.

use crate::error::Result;
use crate::graph::{ConstantBytes, Graph, Shared, Source};
use crate::memory::{Bytes, Charge, Usage, Use};
use crate::onnx::Loaded;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// Kernels take elements of all types from addresses that are multiples of this.
const ALIGNED: usize = 8;
/// Smaller ones are copied as fast as they are looked up.
const WORTH_IT: usize = 1 << 10;

/// Aligned copies of weights, by where the file has them.
#[derive(Debug)]
pub struct Weights {
    copies: Mutex<HashMap<(usize, usize), (ConstantBytes, Charge)>>,
    usage: Arc<Usage>,
}

impl Weights {
    /// Whose copies are counted there.
    pub fn new(usage: Arc<Usage>) -> Weights {
        Weights { copies: Mutex::default(), usage }
    }

    /// Where they are counted.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    /// Lets a graph refer to aligned copies of what the file has elsewhere, and to what another graph has for the same computed constant,
    /// and says which of its constants stay where they are.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for a copy.
    pub fn settle(&self, graph: &mut Graph, loaded: &Loaded, shared: &Shared) -> Result<()> {
        shared.expects_several();
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        for operand in &mut graph.operands {
            let Source::Constant(constant) = &mut operand.source else { continue };
            let bytes = constant.as_slice();
            if bytes.len() < WORTH_IT {
                continue;
            }
            if !loaded.has(bytes) {
                // What importing has computed is the same for most shapes.
                let identity = shared.identity(bytes);
                match shared.computed(identity) {
                    Some(there) => *constant = there,
                    None => shared.has_computed(identity, constant),
                }
                continue;
            }
            if bytes.as_ptr().addr().is_multiple_of(ALIGNED) {
                shared.keep(bytes);
                continue;
            }
            let place = (bytes.as_ptr().addr(), bytes.len());
            let (copy, _) = match copies.entry(place) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(vacant) => {
                    let copy = ConstantBytes::new(Bytes::copy_of(bytes)?);
                    shared.keep(copy.as_slice());
                    let charge = self.usage.charge(Use::Graphs, bytes.len());
                    vacant.insert((copy, charge))
                }
            };
            *constant = copy.clone();
        }
        Ok(())
    }
}
