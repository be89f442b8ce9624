//! The element types of ONNX (`TensorProto.DataType`), and what they become.

use crate::graph::DataType;
use std::fmt;

/// An element type that is read at all. Strings, complex numbers and floats of 8 bits or fewer are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Float,
    Uint8,
    Int8,
    Uint16,
    Int16,
    Int32,
    Int64,
    Bool,
    Float16,
    Double,
    Uint32,
    Uint64,
    BFloat16,
    Uint4,
    Int4,
}

use ElementType::*;

impl ElementType {
    /// # Errors
    /// The name of a type that is not read.
    pub fn from_number(number: i64) -> Result<ElementType, String> {
        Ok(match number {
            1 => Float,
            2 => Uint8,
            3 => Int8,
            4 => Uint16,
            5 => Int16,
            6 => Int32,
            7 => Int64,
            9 => Bool,
            10 => Float16,
            11 => Double,
            12 => Uint32,
            13 => Uint64,
            16 => BFloat16,
            21 => Uint4,
            22 => Int4,
            0 => return Err("no element type".into()),
            8 => return Err("strings".into()),
            14 | 15 => return Err("complex numbers".into()),
            17..=20 | 24 => return Err("8-bit floating-point numbers".into()),
            23 => return Err("4-bit floating-point numbers".into()),
            25 | 26 => return Err("2-bit integers".into()),
            _ => return Err(format!("the unknown element type {number}")),
        })
    }

    pub fn bits(self) -> usize {
        match self {
            Int64 | Uint64 | Double => 64,
            Float | Int32 | Uint32 => 32,
            Float16 | BFloat16 | Int16 | Uint16 => 16,
            Int8 | Uint8 | Bool => 8,
            Int4 | Uint4 => 4,
        }
    }

    /// Bytes that so many elements take; nothing when that overflows.
    pub fn byte_length(self, count: usize) -> Option<usize> {
        match self.bits() {
            4 => Some(count.div_ceil(2)),
            bits => count.checked_mul(bits / 8),
        }
    }

    /// The type of operands that hold such elements. Truth values are `uint8`. Where WebNN has no such float, `float32`
    /// stands for it: more precise than bfloat16, less than double.
    pub fn data_type(self) -> Option<DataType> {
        Some(match self {
            Float | Double | BFloat16 => DataType::Float32,
            Float16 => DataType::Float16,
            Int8 => DataType::Int8,
            Uint8 | Bool => DataType::Uint8,
            Int32 => DataType::Int32,
            Uint32 => DataType::Uint32,
            Int64 => DataType::Int64,
            Uint64 => DataType::Uint64,
            Int4 => DataType::Int4,
            Uint4 => DataType::Uint4,
            Int16 | Uint16 => return None,
        })
    }

    /// The type of operands that a run is given, or gives, with such elements: integers of 16 and of 4 bits are held by 32. (Constants of 4
    /// bits stay what they are.)
    pub fn held_by(self) -> Option<DataType> {
        if self.is_narrow() { Some(DataType::Int32) } else { self.data_type() }
    }

    /// Whether it is an integer that is held by 32 bits: WebNN has none of 16, and hardly an operator for those of 4.
    pub fn is_narrow(self) -> bool {
        self.is_short() || self.bits() == 4
    }

    /// Whether it is an integer of 16 bits, which WebNN has not.
    pub fn is_short(self) -> bool {
        matches!(self, Int16 | Uint16)
    }

    /// As onnxruntime names it.
    pub fn name(self) -> &'static str {
        match self {
            Float => "float32",
            Uint8 => "uint8",
            Int8 => "int8",
            Uint16 => "uint16",
            Int16 => "int16",
            Int32 => "int32",
            Int64 => "int64",
            Bool => "bool",
            Float16 => "float16",
            Double => "float64",
            Uint32 => "uint32",
            Uint64 => "uint64",
            BFloat16 => "bfloat16",
            Uint4 => "uint4",
            Int4 => "int4",
        }
    }

    /// The smallest and the greatest number of an integer type.
    pub fn range(self) -> (i128, i128) {
        match self {
            Int4 | Int8 | Int16 | Int32 | Int64 => (-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1),
            Bool => (0, 1),
            _ => (0, (1 << self.bits()) - 1),
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Float | Float16 | Double | BFloat16)
    }
}

impl From<DataType> for ElementType {
    fn from(data_type: DataType) -> Self {
        match data_type {
            DataType::Float32 => Float,
            DataType::Float16 => Float16,
            DataType::Int32 => Int32,
            DataType::Uint32 => Uint32,
            DataType::Int64 => Int64,
            DataType::Uint64 => Uint64,
            DataType::Int8 => Int8,
            DataType::Uint8 => Uint8,
            DataType::Int4 => Int4,
            DataType::Uint4 => Uint4,
        }
    }
}

/// As ONNX names it, which is how onnxruntime does but for two.
impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Float => "float",
            Double => "double",
            other => other.name(),
        })
    }
}
