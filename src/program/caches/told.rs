//! What a graph of a bucket is told for each run: how many rows count.

use crate::graph::{DataType, Descriptor};

/// What the caller writes into an input that the graph was given, for a run whose caches have so many rows too many.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Minus infinity for each row that does not count, and zeros.
    Hides { data_type: DataType, length: usize },
    /// Whole numbers, which are less by a multiple of the rows that do not count.
    Counts { data_type: DataType, numbers: Vec<i64>, slopes: Slopes },
}

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

impl Told {
    pub fn descriptor(&self, shape: &[u32]) -> Descriptor {
        match self {
            Told::Hides { data_type, .. } | Told::Counts { data_type, .. } => Descriptor::new(*data_type, shape.iter().copied()),
        }
    }

    /// What the input is when so many rows do not count.
    pub fn write(&self, hidden: usize, into: &mut [u8]) {
        match self {
            Told::Hides { data_type, .. } => {
                into.fill(0);
                match data_type {
                    DataType::Float16 => {
                        let number = half::f16::NEG_INFINITY.to_ne_bytes();
                        into.chunks_exact_mut(2).take(hidden).for_each(|slot| slot.copy_from_slice(&number));
                    }
                    _ => {
                        let number = f32::NEG_INFINITY.to_ne_bytes();
                        into.chunks_exact_mut(4).take(hidden).for_each(|slot| slot.copy_from_slice(&number));
                    }
                }
            }
            Told::Counts { data_type, numbers, slopes } => {
                let width = into.len() / numbers.len().max(1);
                for (i, (slot, number)) in into.chunks_exact_mut(width.max(1)).zip(numbers).enumerate() {
                    let number = number - slopes.of(i) * hidden as i64;
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
