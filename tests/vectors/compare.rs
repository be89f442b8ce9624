//! Distances between what was computed and what was expected.

use crate::case::{Metric, Tensor, Tolerance};
use webnn_node::graph::DataType;

/// Of an output that one number fills, so many elements are compared.
const COMPARED_WHEN_FILLED: usize = 1000;

/// Compares every element; the error says where the first one that is too far away is. By element, `rounding` is what it may be off by
/// besides; nothing where that is empty.
pub fn outputs(tolerance: &Tolerance, rounding: &[f64], expected: &Tensor, found: &[u8]) -> Result<(), String> {
    let data_type = expected.descriptor.data_type;
    let bytes = expected.bytes();
    if found.len() != bytes.len() {
        return Err(format!(": {} bytes, not {}", found.len(), bytes.len()));
    }
    let mut count = expected.descriptor.element_count();
    if expected.is_filled() {
        count = count.min(COMPARED_WHEN_FILLED);
    }
    let (mut wrong, mut first) = (0, None);
    for i in 0..count {
        let (found, expected) = (Element::at(data_type, found, i), Element::at(data_type, &bytes, i));
        let distance = match tolerance.metric {
            Metric::Ulp => found.ulps_to(expected),
            Metric::Atol => found.difference_to(expected),
        };
        let is_rounding = rounding.get(i).is_some_and(|&most| found.difference_to(expected) <= most);
        // A distance that is not a number is too far away as well.
        if !is_rounding && (distance.is_nan() || distance > tolerance.value) {
            wrong += 1;
            first.get_or_insert_with(|| {
                format!("[{i}] is {found:?}, not {expected:?}: {distance} away, allowed {}", tolerance.value)
            });
        }
    }
    first.map_or(Ok(()), |first| Err(format!("{first} ({wrong} of {count} elements)")))
}

/// An element of any data type.
#[derive(Clone, Copy, Debug)]
enum Element {
    Float32(f32),
    Float16(half::f16),
    Integer(i128),
}

impl Element {
    fn at(data_type: DataType, bytes: &[u8], i: usize) -> Element {
        fn fixed<const N: usize>(bytes: &[u8], i: usize) -> [u8; N] {
            bytes[i * N..(i + 1) * N].try_into().expect("the range has this length")
        }
        let half = || bytes[i / 2] >> (i % 2 * 4) & 15;
        Element::Integer(match data_type {
            DataType::Float32 => return Element::Float32(f32::from_le_bytes(fixed(bytes, i))),
            DataType::Float16 => return Element::Float16(half::f16::from_le_bytes(fixed(bytes, i))),
            DataType::Int32 => i32::from_le_bytes(fixed(bytes, i)).into(),
            DataType::Uint32 => u32::from_le_bytes(fixed(bytes, i)).into(),
            DataType::Int64 => i64::from_le_bytes(fixed(bytes, i)).into(),
            DataType::Uint64 => u64::from_le_bytes(fixed(bytes, i)).into(),
            DataType::Int8 => i8::from_le_bytes(fixed(bytes, i)).into(),
            DataType::Uint8 => bytes[i].into(),
            DataType::Int4 => ((half() << 4) as i8 >> 4).into(),
            DataType::Uint4 => half().into(),
        })
    }

    fn value(self) -> f64 {
        match self {
            Element::Float32(value) => value.into(),
            Element::Float16(value) => value.into(),
            Element::Integer(value) => value as f64,
        }
    }

    /// Numbers equal each other by value; NaN equals NaN.
    fn equals(self, other: Element) -> bool {
        let (a, b) = (self.value(), other.value());
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => a == b,
            _ => a == b || a.is_nan() && b.is_nan(),
        }
    }

    fn ulps_to(self, other: Element) -> f64 {
        if self.equals(other) {
            return 0.0;
        }
        if self.value().is_nan() || other.value().is_nan() {
            return f64::INFINITY;
        }
        // How many numbers lie below, with the zeros at zero.
        let ordered = |x: f32| (x.abs().to_bits() as i64) * if x < 0.0 { -1 } else { 1 };
        let distance = match (self, other) {
            (Element::Float32(a), Element::Float32(b)) => (ordered(a) - ordered(b)).unsigned_abs() as u128,
            (Element::Float16(a), Element::Float16(b)) => {
                let bits = |x: half::f16| if x == half::f16::ZERO { 0 } else { x.to_bits() };
                bits(a).abs_diff(bits(b)).into()
            }
            (Element::Integer(a), Element::Integer(b)) => a.abs_diff(b),
            _ => unreachable!("both are of the expected data type"),
        };
        distance as f64
    }

    fn difference_to(self, other: Element) -> f64 {
        if self.equals(other) { 0.0 } else { (self.value() - other.value()).abs() }
    }
}
