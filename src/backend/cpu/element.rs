//! The Rust types of elements.

use crate::graph::DataType;
use bytemuck::Pod;
use half::f16;

/// A Rust type that stands for a data type of whole bytes.
pub trait Element: Pod + PartialOrd + Send + Sync + std::fmt::Debug + 'static {
    const DATA_TYPE: DataType;
}

macro_rules! elements {
    ($( $T:ty => $DataType:ident ),*) => { $(
        impl Element for $T {
            const DATA_TYPE: DataType = DataType::$DataType;
        }
    )* };
}

elements! { f32 => Float32, f16 => Float16, i32 => Int32, u32 => Uint32, i64 => Int64, u64 => Uint64, i8 => Int8, u8 => Uint8 }

/// Evaluates an expression with `$T` as the Rust type of a data type. 4-bit types, which no Rust type stands for, must
/// have been dealt with before.
macro_rules! with_element {
    ($data_type:expr, $T:ident => $body:expr) => {
        match $data_type {
            $crate::graph::DataType::Float32 => {
                type $T = f32;
                $body
            }
            $crate::graph::DataType::Float16 => {
                type $T = half::f16;
                $body
            }
            $crate::graph::DataType::Int32 => {
                type $T = i32;
                $body
            }
            $crate::graph::DataType::Uint32 => {
                type $T = u32;
                $body
            }
            $crate::graph::DataType::Int64 => {
                type $T = i64;
                $body
            }
            $crate::graph::DataType::Uint64 => {
                type $T = u64;
                $body
            }
            $crate::graph::DataType::Int8 => {
                type $T = i8;
                $body
            }
            $crate::graph::DataType::Uint8 => {
                type $T = u8;
                $body
            }
            $crate::graph::DataType::Int4 | $crate::graph::DataType::Uint4 => {
                unreachable!("no operator of this kind takes 4-bit types")
            }
        }
    };
}
pub(crate) use with_element;

/// Like [`with_element`], for the two floating-point types, which are all that the row allows.
macro_rules! with_float {
    ($data_type:expr, $T:ident => $body:expr) => {
        match $data_type {
            $crate::graph::DataType::Float32 => {
                type $T = f32;
                $body
            }
            $crate::graph::DataType::Float16 => {
                type $T = half::f16;
                $body
            }
            other => unreachable!("{other} is not a floating-point type"),
        }
    };
}
pub(crate) use with_float;

/// A floating-point element: arithmetic is done in `f32` or `f64` and rounded once.
pub trait Float: Element {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
}

impl Float for f32 {
    fn to_f32(self) -> f32 {
        self
    }

    fn from_f32(value: f32) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self as f64
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Float for f16 {
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }

    fn from_f32(value: f32) -> Self {
        f16::from_f32(value)
    }

    fn to_f64(self) -> f64 {
        f16::to_f64(self)
    }

    fn from_f64(value: f64) -> Self {
        crate::graph::number::f16_from_f64(value)
    }
}
