//! Values of a run, between its parts.

use super::timeline_handle::OwnedTensor;
use crate::error::{Error, Kind, Result};
use crate::onnx::{ElementType, Given, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value of a model while it runs.
#[derive(Clone, Debug)]
pub enum Held {
    /// On the device.
    Device {
        tensor: Arc<OwnedTensor>,
        element: ElementType,
    },
    /// In memory. The part that comes next may be made for its elements if they are `known`, and else for its shape.
    Host {
        tensor: Tensor,
        known: bool,
    },
    Sequence(Vec<Held>),
    Nothing,
}

/// By their qualified names.
pub type Values = BTreeMap<String, Held>;

impl Held {
    pub fn on_device(&self) -> Option<&OwnedTensor> {
        match self {
            Held::Device { tensor, .. } => Some(tensor),
            _ => None,
        }
    }

    pub fn given(&self) -> Given {
        match self {
            Held::Device { tensor, element } => Given::Operand { element: *element, shape: tensor.descriptor.shape.to_vec() },
            // No operand can hold what is empty.
            Held::Host { tensor, known } if *known || tensor.is_empty() => Given::Known(tensor.clone()),
            Held::Host { tensor, .. } => Given::Operand {
                element: held_element(tensor.element),
                shape: tensor.shape.iter().map(|&size| size as u32).collect(),
            },
            Held::Sequence(list) => Given::Sequence(list.iter().map(Held::given).collect()),
            Held::Nothing => Given::Nothing,
        }
    }
}

/// The element type of an operand that holds such elements: it remembers integers of 16 bits.
pub fn held_element(element: ElementType) -> ElementType {
    match element.held_by() {
        Some(data_type) if !element.is_narrow() => data_type.into(),
        _ => element,
    }
}

/// A value by its name, which may be that of an element of a sequence.
pub fn find<'v>(values: &'v Values, name: &str) -> Result<&'v Held> {
    if let Some(value) = values.get(name) {
        return Ok(value);
    }
    let element = || {
        let (list, position) = name.strip_suffix(']')?.rsplit_once('[')?;
        match find(values, list).ok()? {
            Held::Sequence(list) => list.get(position.parse::<usize>().ok()?),
            _ => None,
        }
    };
    element().ok_or_else(|| Error::new(Kind::Operation, format!("the value {name:?} is not there (internal error)")))
}

/// What tells which part comes next: shapes, and the bytes of values that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(Vec<u8>);

impl Key {
    #[cfg(test)]
    pub fn of_number(number: usize) -> Key {
        Key(number.to_le_bytes().to_vec())
    }

    fn number(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }

    /// The shape of a value.
    pub fn shape(&mut self, value: &Held) {
        match value.given() {
            Given::Known(tensor) => self.known(&tensor),
            Given::Operand { element, shape } => {
                self.0.push(1);
                self.0.extend_from_slice(element.name().as_bytes());
                self.number(shape.len());
                shape.iter().for_each(|&size| self.number(size as usize));
            }
            Given::Sequence(list) => {
                self.0.push(2);
                self.number(list.len());
                if let Held::Sequence(list) = value {
                    list.iter().for_each(|value| self.shape(value));
                }
            }
            Given::Nothing => self.0.push(3),
        }
    }

    /// A value with its elements.
    pub fn known(&mut self, tensor: &Tensor) {
        self.0.push(0);
        self.0.extend_from_slice(tensor.element.name().as_bytes());
        self.number(tensor.shape.len());
        tensor.shape.iter().for_each(|&size| self.number(size));
        self.0.extend_from_slice(&tensor.bytes);
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}
