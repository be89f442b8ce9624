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

/// How a backend prefers graphs, with the thresholds of its kernels. The default is a backend without fast kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    pub fusing: Fusing,
    /// Images have their channels last.
    pub channels_last: bool,
    /// float16 is computed in float32, and rounded.
    pub widens: bool,
    /// Products of quantized values are products of integers if they have so many multiplications.
    pub integers: Option<usize>,
    /// Transposed convolutions with so many output channels in a group have fast kernels, if their channels are last.
    pub transposed_outputs: u32,
}

/// What a backend prefers that has kernels for everything.
#[cfg(test)]
pub const EVERYTHING: Preferences =
    Preferences { fusing: Fusing::Quick, channels_last: true, widens: true, integers: Some(4096), transposed_outputs: 8 };

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
