//! Indices that must lie within what they count. ONNX calls others an error, where WebNN's operators clamp them.

use crate::error::{Error, IndexOutside, Kind, Result};
use crate::graph::DataType;
use crate::graph::data_type::DataTypes;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Ranks, Rule, one, operators};
use crate::graph::{OperandId, Operands};

/// Of the types that indices may have in ONNX, or be held as.
const INTEGERS: DataTypes =
    DataTypes::of(&[DataType::Int8, DataType::Uint8, DataType::Int32, DataType::Uint32, DataType::Int64, DataType::Uint64]);

operators! {
    /// Indices that are known to lie within sizes.
    pub struct CheckIndices: "MLOperatorOptions" in "" {
        indices: OperandId,
        sizes: Vec<u32>,
    } options {
        /// Whether negative indices count from the end.
        from_end: bool = true,
    }
    [("indices", Of(INTEGERS), N)] -> One [("output", SameAs("indices"), Ranks::SameRankAs("indices"))] {
        /// Gives the indices as they are. A run with one that is outside of its size fails. There is one size for all indices, or
        /// one for each element of the last dimension, which holds coordinates.
        "checkIndices"
    }
}

impl Rule for CheckIndices {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let indices = operands.descriptor(self.indices);
        let is_one = self.sizes.len() == 1;
        let is_of_last = indices.shape.last().is_some_and(|&last| last as usize == self.sizes.len());
        if !is_one && !is_of_last || self.sizes.contains(&0) {
            let allowed = "one size above 0, or one for each element of the last dimension of indices";
            return Err(Error::argument("sizes", format!("{:?}", self.sizes), allowed));
        }
        one(indices.clone())
    }
}

/// An index that is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Its position among all indices, row by row.
    pub position: usize,
    pub index: i128,
    pub size: u32,
}

impl CheckIndices {
    /// The first index that is outside, if any is.
    pub fn outside<I: Copy + Into<i128>>(&self, indices: impl IntoIterator<Item = I>) -> Option<Outside> {
        outside(indices, &self.sizes, self.from_end)
    }

    /// The same of the bytes of a tensor.
    pub fn outside_in(&self, data_type: DataType, bytes: &[u8]) -> Option<Outside> {
        let width = data_type.bits() / 8;
        self.outside(bytes.chunks_exact(width).map(|element| {
            // Sign or zeros in front.
            let is_negative = data_type.is_signed() && element[width - 1] >= 0x80;
            let mut wide = [if is_negative { 0xff } else { 0 }; 16];
            wide[..width].copy_from_slice(element);
            i128::from_le_bytes(wide)
        }))
    }
}

/// The first of some indices that is outside of its size, of which there is one for all or one for each coordinate.
pub fn outside<I: Copy + Into<i128>>(indices: impl IntoIterator<Item = I>, sizes: &[u32], from_end: bool) -> Option<Outside> {
    indices.into_iter().enumerate().find_map(|(position, index)| {
        let (index, size) = (index.into(), sizes[position % sizes.len()]);
        let first = if from_end { -i128::from(size) } else { 0 };
        (!(first..i128::from(size)).contains(&index)).then_some(Outside { position, index, size })
    })
}

impl Outside {
    /// The error of a run, for the node of that name.
    pub fn error(&self, node: &str, shape: &[usize], from_end: bool) -> Error {
        let message = format!("node {}: {}", crate::error::Escaped(node), self.describe(shape, from_end));
        let error = Error::new(Kind::Operation, message);
        match i64::try_from(self.index) {
            Ok(index) => error.at_index(IndexOutside { index, size: self.size }),
            Err(_) => error,
        }
    }

    /// What was found where, and what is allowed.
    pub fn describe(&self, shape: &[usize], from_end: bool) -> String {
        let mut rest = self.position;
        let mut place: Vec<usize> = shape
            .iter()
            .rev()
            .map(|&size| {
                let at = rest % size.max(1);
                rest /= size.max(1);
                at
            })
            .collect();
        place.reverse();
        let place = if place.is_empty() { String::new() } else { format!(" at {place:?}") };
        let first = if from_end { -i64::from(self.size) } else { 0 };
        format!("found the index {}{place}, allowed {first} to {}", self.index, i64::from(self.size) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::attribute::Value::*;
    use crate::graph::testing;

    #[test]
    fn sizes_fit_the_indices() {
        let check = |shape: &[u32], sizes: &[u32], expected| {
            let values = [Operand(OperandId(0)), UnsignedList(sizes.to_vec()), Boolean(true)];
            testing::check("checkIndices", &[(DataType::Int64, shape)], &values, expected);
        };
        check(&[2, 3], &[7], Ok(&["int64[2, 3]"]));
        check(&[2, 3], &[7, 8, 9], Ok(&["int64[2, 3]"]));
        check(&[], &[7], Ok(&["int64[]"]));
        check(&[2, 3], &[7, 8], Err("sizes"));
        check(&[2, 3], &[0], Err("sizes"));
        check(&[2, 3], &[], Err("sizes"));
        check(&[], &[1, 2], Err("sizes"));
    }

    #[test]
    fn the_first_index_outside_is_found() {
        let op = |sizes: &[u32], from_end| CheckIndices { indices: OperandId(0), sizes: sizes.to_vec(), from_end };
        let at = |position, index, size| Some(Outside { position, index, size });
        assert_eq!(op(&[6], true).outside([5i64, -6, 0]), None);
        assert_eq!(op(&[6], true).outside([5i64, 6, 7]), at(1, 6, 6));
        assert_eq!(op(&[6], true).outside([0i64, -7]), at(1, -7, 6));
        assert_eq!(op(&[6], false).outside([0i64, -1]), at(1, -1, 6));
        assert_eq!(op(&[2, 9], true).outside([1i64, 8, 1, 9]), at(3, 9, 9));
        let bytes = |list: &[i64]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let extreme = |index: i64| op(&[6], true).outside_in(DataType::Int64, &bytes(&[0, index]));
        for index in [i64::MIN, i64::MAX, 1 << 40, -(1 << 40), 1 << 32] {
            assert_eq!(extreme(index), at(1, index.into(), 6));
        }
        assert_eq!(op(&[6], true).outside_in(DataType::Uint64, &[255; 8]), at(0, u64::MAX.into(), 6));
        assert_eq!(op(&[6], true).outside_in(DataType::Int8, &[5, 250, 249]), at(2, -7, 6));
        assert_eq!(op(&[6], true).outside_in(DataType::Uint8, &[5, 250]), at(1, 250, 6));
        assert_eq!(op(&[u32::MAX], true).outside_in(DataType::Int64, &bytes(&[-(u32::MAX as i64), u32::MAX as i64 - 1])), None);
    }

    #[test]
    fn an_error_says_where() {
        let found = Outside { position: 4, index: 9000, size: 6 };
        let error = found.error("embed", &[2, 3], true);
        assert_eq!(error.message(), "node embed: found the index 9000 at [1, 1], allowed -6 to 5");
        assert_eq!(found.describe(&[], false), "found the index 9000, allowed 0 to 5");
    }
}
