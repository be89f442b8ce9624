//! `MLOperandDataType`, and sets of them.

use std::fmt;

/// The data type of an operand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DataType {
    Float32,
    Float16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Int8,
    Uint8,
    /// Extension: two elements share a byte, the earlier one in the low four bits.
    Int4,
    /// Extension, stored like [`DataType::Int4`].
    Uint4,
}

impl DataType {
    /// All data types; the position is the number that `lib/` uses for it.
    pub const ALL: [DataType; 10] = [
        DataType::Float32,
        DataType::Float16,
        DataType::Int32,
        DataType::Uint32,
        DataType::Int64,
        DataType::Uint64,
        DataType::Int8,
        DataType::Uint8,
        DataType::Int4,
        DataType::Uint4,
    ];

    /// The name in the specification's enumeration.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Float32 => "float32",
            DataType::Float16 => "float16",
            DataType::Int32 => "int32",
            DataType::Uint32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Uint64 => "uint64",
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
            DataType::Int4 => "int4",
            DataType::Uint4 => "uint4",
        }
    }

    pub const fn from_index(index: u32) -> Option<DataType> {
        if (index as usize) < Self::ALL.len() { Some(Self::ALL[index as usize]) } else { None }
    }

    /// Bits of one element.
    pub const fn bits(self) -> usize {
        match self {
            DataType::Int64 | DataType::Uint64 => 64,
            DataType::Float32 | DataType::Int32 | DataType::Uint32 => 32,
            DataType::Float16 => 16,
            DataType::Int8 | DataType::Uint8 => 8,
            DataType::Int4 | DataType::Uint4 => 4,
        }
    }

    /// Bytes that `count` elements take, or nothing when that overflows.
    pub fn byte_length(self, count: usize) -> Option<usize> {
        match self.bits() {
            4 => Some(count.div_ceil(2)),
            bits => count.checked_mul(bits / 8),
        }
    }

    pub const fn is_float(self) -> bool {
        FLOAT.contains(self)
    }

    pub const fn is_integer(self) -> bool {
        !self.is_float()
    }

    pub const fn is_signed(self) -> bool {
        !matches!(self, DataType::Uint32 | DataType::Uint64 | DataType::Uint8 | DataType::Uint4)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of data types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataTypes(u16);

impl DataTypes {
    pub const fn of(types: &[DataType]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < types.len() {
            bits |= 1 << types[i] as u16;
            i += 1;
        }
        DataTypes(bits)
    }

    pub const fn contains(self, data_type: DataType) -> bool {
        self.0 & (1 << data_type as u16) != 0
    }

    pub const fn intersection(self, other: DataTypes) -> Self {
        DataTypes(self.0 & other.0)
    }

    pub const fn union(self, other: DataTypes) -> Self {
        DataTypes(self.0 | other.0)
    }

    pub fn iter(self) -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().filter(move |&t| self.contains(t))
    }
}

impl fmt::Display for DataTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, data_type) in self.iter().enumerate() {
            write!(f, "{}{data_type}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

use DataType::*;

/// The specification's "any": every type of its enumeration, without our extensions.
pub const ANY: DataTypes = DataTypes::of(&[Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8]);
/// The extensions of the enumeration, where Chromium has them: constants and (de)quantization.
pub const FOUR_BITS: DataTypes = DataTypes::of(&[Int4, Uint4]);
pub const FLOAT: DataTypes = DataTypes::of(&[Float32, Float16]);
pub const SIGNED: DataTypes = DataTypes::of(&[Float32, Float16, Int64, Int32, Int8]);
pub const WIDE: DataTypes = DataTypes::of(&[Float32, Float16, Int32, Uint32, Int64, Uint64]);
pub const INDEX: DataTypes = DataTypes::of(&[Int32, Uint32, Int64]);
pub const BOOLEAN: DataTypes = DataTypes::of(&[Uint8]);
/// Integers that are no bytes.
pub const WIDE_INTEGERS: DataTypes = DataTypes::of(&[Int32, Uint32, Int64, Uint64]);
/// The integers of quantizeLinear and dequantizeLinear.
pub const QUANTIZED: DataTypes = DataTypes::of(&[Uint8, Int8, Uint32, Int32, Int4, Uint4]);
