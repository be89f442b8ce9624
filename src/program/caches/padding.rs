//! What a graph of a bucket gets with each step: how many rows are padding.

use crate::graph::{DataType, Descriptor};

/// Which rows padding is in front of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padded {
    /// Those of the caches that a step appends to.
    Appended,
    /// Those of what is the same for every step, such as the states of an encoder.
    Given,
}

/// An input that the proof adds to a graph. Its value follows from the rows of padding.
#[derive(Clone, Debug, PartialEq)]
pub enum PaddingInput {
    /// Is added to scores: minus infinity for each row of padding, and zeros.
    Mask { data_type: DataType, length: usize },
    /// Whole numbers, which are less by a multiple of the rows of padding.
    Counts { data_type: DataType, numbers: Vec<i64>, slopes: Slopes },
}

/// Inputs that are new in a graph, by their names.
pub type PaddingInputs = Vec<(String, (Padded, PaddingInput))>;

/// By how much numbers grow with the rows: along an axis that is as long as these all by the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    pub list: Vec<i64>,
    /// Elements from one place of that axis to the next, and those of the whole axis.
    pub inner: usize,
    pub long: usize,
}

impl Slopes {
    pub fn place(&self, element: usize) -> usize {
        element / self.long * self.inner + element % self.inner
    }

    pub fn of(&self, element: usize) -> i64 {
        self.list[self.place(element)]
    }
}

impl PaddingInput {
    pub fn descriptor(&self, shape: &[u32]) -> Descriptor {
        match self {
            PaddingInput::Mask { data_type, .. } | PaddingInput::Counts { data_type, .. } => {
                Descriptor::new(*data_type, shape.iter().copied())
            }
        }
    }

    /// Writes the value for so many rows of padding.
    pub fn write(&self, padding: usize, into: &mut [u8]) {
        match self {
            PaddingInput::Mask { data_type, .. } => {
                into.fill(0);
                match data_type {
                    DataType::Float16 => {
                        let number = half::f16::NEG_INFINITY.to_ne_bytes();
                        into.chunks_exact_mut(2).take(padding).for_each(|slot| slot.copy_from_slice(&number));
                    }
                    _ => {
                        let number = f32::NEG_INFINITY.to_ne_bytes();
                        into.chunks_exact_mut(4).take(padding).for_each(|slot| slot.copy_from_slice(&number));
                    }
                }
            }
            PaddingInput::Counts { data_type, numbers, slopes } => {
                let width = into.len() / numbers.len().max(1);
                for (i, (slot, number)) in into.chunks_exact_mut(width.max(1)).zip(numbers).enumerate() {
                    let number = number - slopes.of(i) * padding as i64;
                    match data_type {
                        DataType::Int64 => slot.copy_from_slice(&number.to_ne_bytes()),
                        // The lowest bytes, as all of these have them.
                        _ => slot.copy_from_slice(&(number as i32).to_ne_bytes()),
                    }
                }
            }
        }
    }
}
