//! Bytes of constants at addresses that suit kernels.

use crate::error::Result;
use crate::graph::DataType;
use crate::memory::{Bytes, Place};

/// Bytes of a constant as kernels need them: at an address that suits every element type.
pub enum Aligned<'a> {
    AsTheyAre(&'a [u8]),
    Copied(Bytes),
}

impl std::ops::Deref for Aligned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Aligned::AsTheyAre(bytes) => bytes,
            Aligned::Copied(bytes) => bytes,
        }
    }
}

/// For elements of every type.
pub fn is_aligned(place: Place) -> bool {
    place.start.is_multiple_of(8)
}

/// For elements of this type.
pub fn is_aligned_for(data_type: DataType, place: Place) -> bool {
    place.start.is_multiple_of(data_type.bits().div_ceil(8))
}

/// The same bytes, copied if they must be.
pub fn aligned(bytes: &[u8]) -> Result<Aligned<'_>> {
    Ok(if is_aligned(Place::of(bytes)) { Aligned::AsTheyAre(bytes) } else { Aligned::Copied(Bytes::copy_of(bytes)?) })
}
