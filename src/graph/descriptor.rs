//! `MLOperandDescriptor`: a data type and a shape.

use super::data_type::DataType;
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::fmt;

/// The sizes of the dimensions, outermost first; empty for a scalar.
pub type Shape = SmallVec<[u32; 6]>;

/// Ranks above this are refused everywhere.
pub const MAX_RANK: usize = 8;

/// Tensors of more bytes are refused (`MLOpSupportLimits.maxTensorByteLength`). Script that divides this by the size of a float32
/// gets a *valid dimension*, as the conformance tests expect.
pub const MAX_TENSOR_BYTE_LENGTH: usize = u32::MAX as usize;

/// A *valid dimension*: greater than zero and in the range of `long`.
pub fn is_valid_dimension(size: u64) -> bool {
    (1..=i32::MAX as u64).contains(&size)
}

/// What is known of an operand or a tensor: its data type and its shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    pub data_type: DataType,
    pub shape: Shape,
}

impl Descriptor {
    pub fn new(data_type: DataType, shape: impl IntoIterator<Item = u32>) -> Self {
        Descriptor { data_type, shape: shape.into_iter().collect() }
    }

    pub fn scalar(data_type: DataType) -> Self {
        Descriptor { data_type, shape: Shape::new() }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements. Only for a descriptor that passed [`Descriptor::check`], where it cannot overflow.
    pub fn element_count(&self) -> usize {
        self.shape.iter().map(|&size| size as usize).product()
    }

    /// Number of bytes. Only for a descriptor that passed [`Descriptor::check`], where it cannot overflow.
    pub fn byte_length(&self) -> usize {
        self.data_type.byte_length(self.element_count()).expect("the descriptor was checked")
    }

    /// *Check dimensions* of `#api-mloperanddescriptor`: every size and their product must be valid dimensions, and the
    /// rank must be one that this implementation supports. [`super::Limits::check_tensor`] looks at the bytes, too.
    pub fn check(&self, argument: &str) -> Result<()> {
        if let Some(size) = self.shape.iter().find(|&&size| !is_valid_dimension(size as u64)) {
            return Err(Error::argument(argument, format!("a dimension of {size} in {self}"), "1 to 2147483647"));
        }
        if self.rank() > MAX_RANK {
            return Err(Error::argument(argument, format!("rank {}", self.rank()), format!("ranks up to {MAX_RANK}")));
        }
        let count = self.shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size as u64));
        if !count.is_some_and(is_valid_dimension) {
            return Err(Error::argument(argument, format!("the shape {self}"), "at most 2147483647 elements"));
        }
        Ok(())
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.data_type, Dimensions(&self.shape))
    }
}

/// A list of numbers as messages show it: `[1, 2, 3]`.
pub struct Dimensions<'a>(pub &'a [u32]);

impl fmt::Display for Dimensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Limits;

    #[test]
    fn dimensions_are_checked() {
        let limits = Limits::everything();
        let ok = |shape: &[u32]| limits.check_tensor(&Descriptor::new(DataType::Float32, shape.iter().copied()), "shape").is_ok();
        assert!(ok(&[]));
        assert!(ok(&[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(!ok(&[0]));
        assert!(!ok(&[1 << 31]));
        assert!(!ok(&[1 << 16, 1 << 16]));
        assert!(!ok(&[u32::MAX; 8]));
        assert!(!ok(&[1; 9]));
        // 2³² bytes are one too many.
        assert!(ok(&[(1 << 30) - 1]));
        assert!(!ok(&[1 << 30]));
        let bytes = |data_type, size| limits.check_tensor(&Descriptor::new(data_type, [size]), "shape").is_ok();
        assert!(bytes(DataType::Int64, (1 << 29) - 1) && !bytes(DataType::Int64, 1 << 29));
        assert!(bytes(DataType::Int8, i32::MAX as u32));
    }

    #[test]
    fn four_bit_elements_share_bytes() {
        assert_eq!(Descriptor::new(DataType::Int4, [3, 1]).byte_length(), 2);
    }
}
