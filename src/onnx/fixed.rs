//! What a caller decides about a model's inputs before it is imported: sizes of open dimensions, and whole values.

use super::dimensions::{FreeDimensions, Signature};
use super::tensor::Tensor;
use crate::error::{Error, Result};
use crate::graph::DataType;
use crate::memory;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is decided.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    pub sizes: FreeDimensions,
    /// Values of inputs, by their names: the model then has no such inputs.
    pub values: BTreeMap<String, FixedValue>,
    /// Inputs with an initializer that runs may pass all the same. (Others with one are constants, which more is known of.)
    pub overridable: BTreeSet<String>,
}

/// The value of an input.
#[derive(Clone, Debug)]
pub struct FixedValue {
    /// The class of the array that held the elements, such as `Float32Array`.
    array: String,
    bytes: Bytes,
}

impl FixedValue {
    pub fn new(array: String, bytes: impl AsRef<[u8]> + Send + 'static) -> Self {
        FixedValue { array, bytes: Bytes::from_owner(bytes) }
    }
}

impl Fixed {
    /// What tells it from others.
    pub fn describe(&self) -> String {
        let value = |value: &FixedValue| (value.array.clone(), value.bytes.len(), memory::identity(&value.bytes));
        let values: Vec<_> = self.values.iter().map(|(name, given)| (name, value(given))).collect();
        format!("{:?} {values:?} {:?}", self.sizes, self.overridable)
    }

    /// # Errors
    /// `TypeError` for values of inputs that the model does not have.
    pub fn check_names(&self, names: &[&str]) -> Result<()> {
        let unknown: Vec<&String> = self.values.keys().filter(|name| !names.contains(&name.as_str())).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Error::argument("constants", format!("{unknown:?}"), format!("inputs of the model: {names:?}")))
    }

    /// The value of an input, if it is decided.
    ///
    /// # Errors
    /// `TypeError` for another array than that of the input's data type, or another number of elements.
    pub fn value(&self, input: &Signature) -> Result<Option<Tensor>> {
        let Some(given) = self.values.get(&input.name) else { return Ok(None) };
        let refuse =
            |found: String, allowed: String| Err(Error::argument("constants", format!("{found} for {:?}", input.name), allowed));
        let wanted = array(input.data_type);
        if !wanted.contains(&given.array.as_str()) {
            return refuse(given.array.clone(), format!("{} for {}", wanted[0], input.data_type));
        }
        let shape: Vec<usize> = input.shape.iter().map(|&size| size as usize).collect();
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let element = input.data_type.into();
        let length = count.and_then(|count| super::element::ElementType::byte_length(element, count));
        if length != Some(given.bytes.len()) {
            return refuse(format!("{} bytes", given.bytes.len()), format!("the elements of {}{shape:?}", input.data_type));
        }
        Ok(Some(Tensor { element, shape, bytes: given.bytes.clone().into() }))
    }
}

/// The classes of arrays that hold such elements.
fn array(data_type: DataType) -> &'static [&'static str] {
    match data_type {
        DataType::Float32 => &["Float32Array"],
        DataType::Float16 => &["Float16Array", "Uint16Array"],
        DataType::Int32 => &["Int32Array"],
        DataType::Uint32 => &["Uint32Array"],
        DataType::Int64 => &["BigInt64Array"],
        DataType::Uint64 => &["BigUint64Array"],
        DataType::Int8 => &["Int8Array"],
        DataType::Uint8 => &["Uint8Array", "Uint8ClampedArray"],
        DataType::Int4 => &["Uint8Array", "Int8Array"],
        DataType::Uint4 => &["Uint8Array"],
    }
}
