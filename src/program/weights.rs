//! The weights of a model, which all of its graphs refer to at one place. Those of a file lie anywhere in it, and most kernels want
//! elements aligned.

use crate::error::{Result, unwound};
use crate::graph::{ConstantBytes, Graph, Op, OperandId, Shared, Source};
use crate::memory::{Bytes, Charge, Kept, Place, Usage, Use, identity, let_go};
use crate::onnx::Loaded;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Smaller ones are copied as fast as they are looked up.
const WORTH_IT: usize = 1 << 10;

/// Aligned copies of weights, by where the file has them.
#[derive(Debug)]
pub struct Weights {
    copies: Mutex<HashMap<Place, Arc<Copy>>>,
    usage: Arc<Usage>,
}

/// Weights that models have aligned copies of, by what they are: once in the process.
static COPIES: LazyLock<Mutex<HashMap<u128, Weak<Copy>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Copy {
    // It is no longer said that they stay before they go.
    _kept: Kept,
    bytes: ConstantBytes,
    _charge: Charge,
}

impl Copy {
    /// A copy, or that of another model.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it.
    fn of(bytes: &[u8], usage: &Arc<Usage>) -> Result<Arc<Copy>> {
        let identity = identity(bytes);
        let mut all = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(&identity).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let charge = usage.reserve(Use::Constants, bytes.len())?;
        let copy = Bytes::copy_of(bytes)?;
        let_go(Place::of(bytes));
        let kept = Kept::new(&copy);
        let copy = Arc::new(Copy { _kept: kept, bytes: ConstantBytes::new(copy), _charge: charge });
        all.insert(identity, Arc::downgrade(&copy));
        if all.len().is_power_of_two() {
            all.retain(|_, copy| copy.strong_count() > 0);
        }
        Ok(copy)
    }
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
        let anywhere = read_anywhere(graph);
        for (number, operand) in graph.operands.iter_mut().enumerate() {
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
            let size = operand.descriptor.data_type.bits().div_ceil(8);
            if place.start.is_multiple_of(size) || anywhere.contains(&OperandId(number as u32)) {
                shared.keep(place);
                let facts = shared.facts_at(place);
                *constant = constant.clone().with_facts(facts);
                continue;
            }
            let copy = match copies.entry(place) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(vacant) => {
                    let copy = unwound(|| Copy::of(constant.briefly().as_slice(), &self.usage))?;
                    shared.keep(copy.bytes.place());
                    vacant.insert(copy)
                }
            };
            let copy = &copy.bytes;
            let facts = shared.facts_at(copy.place());
            *constant = copy.clone().with_facts(facts);
        }
        Ok(())
    }
}

/// Constants that no step reads where they lie: the weights, scales and zero points of products with quantized weights, which are packed
/// from anywhere, and what is only cast, as float16 weights are that become such or are cast once.
fn read_anywhere(graph: &Graph) -> HashSet<OperandId> {
    let (mut anywhere, mut others) = (HashSet::new(), HashSet::new());
    for node in &graph.nodes {
        match &node.op {
            Op::BlockQuantizedMatmul(op) => {
                anywhere.extend([op.weights, op.scales].into_iter().chain(op.zero_points));
                others.extend([op.a].into_iter().chain(op.code_book).chain(op.bias));
            }
            Op::Cast(op) => anywhere.extend([op.input]),
            op => op.visit(&mut |_, id| {
                others.insert(id);
            }),
        }
    }
    anywhere.retain(|id| !others.contains(id));
    anywhere
}
