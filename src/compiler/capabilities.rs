//! What the compiler asks the backend that it compiles for.

use super::pattern::Pattern;
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Op, OperandId};
use std::sync::Arc;

/// The backend, as the compiler sees it: how it prefers graphs, what it has kernels for, and how it computes constants. The passes
/// know nothing else of it.
pub trait Capabilities {
    /// How the backend prefers graphs. Constant.
    fn preferences(&self) -> Preferences {
        Preferences::default()
    }

    /// Whether the backend has a kernel for such a step, and would rather have it than its parts. Pure: the same for the same
    /// pattern, whatever else the graph has.
    fn accepts(&self, _pattern: &Pattern<'_>) -> bool {
        false
    }

    /// Whether the backend does an element-wise operator in a few vector instructions to float32 that another operator has just made;
    /// `number` gives an operand that is a constant of one float32. Asked only if it prefers [`Fusing::Quick`].
    fn is_quick(&self, _op: &Op, _number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
        false
    }

    /// Whether all kernels of the backend do an element-wise operator to what they have just computed, also those without fast loops and for
    /// other data types than float32. Asked only if it prefers [`Fusing::Quick`].
    fn is_always_fused(&self, _op: &Op) -> bool {
        false
    }

    /// Whether the backend has a fast kernel, which does quick operators to what it has just computed, for a convolution or a transposed one
    /// with a filter like that. Asked only if it prefers [`Fusing::Quick`].
    fn is_fast_convolution(&self, _op: &Op, _filter: Filter<'_>) -> bool {
        false
    }

    /// Computes a node. The ids in the node are positions in the list of operands.
    /// Gives the bytes of the outputs.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them.
    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>>;

    /// The same for constants that are computed when they are first looked at, which may be after the compilation.
    fn later(&self) -> Option<Arc<dyn Capabilities + Send + Sync>> {
        None
    }

    /// Asked before everything that may take long.
    ///
    /// # Errors
    /// When nobody wants the graph any more.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The filter of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    pub descriptor: &'a Descriptor,
    pub is_constant: bool,
}

/// How a backend prefers graphs, with the thresholds of its kernels. The default is a backend without fast kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferences {
    pub fusing: Fusing,
    /// Several nodes become one step if the backend accepts their pattern: attention, what goes with a depthwise convolution, scaled channels.
    pub patterns: bool,
    /// Products read operands and write outputs whose dimensions lie in another order.
    pub orders: bool,
    /// Images have their channels last.
    pub channels_last: bool,
    /// float16 is computed in float32, and rounded.
    pub widens: bool,
    /// Products of quantized values are products of integers if they have so many multiplications.
    pub integers: Option<usize>,
    /// Transposed convolutions with so many output channels in a group have fast kernels, if their channels are last.
    pub transposed_outputs: u32,
    /// Products with so many weights read quantized ones as they are, and where float16 is widened, those of float16.
    pub packed_weights: usize,
}

impl Default for Preferences {
    fn default() -> Preferences {
        Preferences {
            fusing: Fusing::default(),
            patterns: false,
            orders: false,
            channels_last: false,
            widens: false,
            integers: None,
            transposed_outputs: 0,
            // With fewer it makes no difference.
            packed_weights: 4096,
        }
    }
}

/// What a backend prefers that has kernels for everything.
#[cfg(test)]
pub const EVERYTHING: Preferences = Preferences {
    fusing: Fusing::Quick,
    patterns: true,
    orders: true,
    channels_last: true,
    widens: true,
    integers: Some(4096),
    transposed_outputs: 8,
    packed_weights: 4096,
};

/// What a backend does in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fusing {
    /// Convolutions and products with what is done to their output, of the same data type.
    #[default]
    Products,
    /// The same where a few vector instructions do it to float32 ([`Capabilities::is_quick`]); and element-wise operators with others
    /// like that.
    Quick,
    /// Element-wise operators too, and conversions in the middle of a chain.
    Chains,
}
