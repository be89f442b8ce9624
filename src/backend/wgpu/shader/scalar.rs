//! What shaders compute with, and expressions of it.

use crate::graph::{DataType, Number};

/// The type of a value in a shader. Every data type is computed with as one of these; memory is another matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    F32,
    I32,
    U32,
    /// A pair of words, the low one first.
    I64,
    U64,
}

use Scalar::*;

impl Scalar {
    /// What elements of a data type are computed with.
    pub fn of(data_type: DataType) -> Scalar {
        match data_type {
            DataType::Float32 | DataType::Float16 => F32,
            DataType::Int32 | DataType::Int8 | DataType::Int4 => I32,
            DataType::Uint32 | DataType::Uint8 | DataType::Uint4 => U32,
            DataType::Int64 => I64,
            DataType::Uint64 => U64,
        }
    }

    /// The type's name in WGSL.
    pub fn name(self) -> &'static str {
        match self {
            F32 => "f32",
            I32 => "i32",
            U32 => "u32",
            I64 | U64 => "vec2<u32>",
        }
    }

    /// What functions of the prelude for this type end in.
    pub fn suffix(self) -> &'static str {
        match self {
            F32 => "f32",
            I32 => "i32",
            U32 => "u32",
            I64 => "i64",
            U64 => "u64",
        }
    }

    pub fn is_wide(self) -> bool {
        matches!(self, I64 | U64)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, F32 | I32 | I64)
    }

    pub fn integer(self, value: i128) -> String {
        match self {
            F32 => float(value as f32),
            I32 => format!("i32({})", value as i32),
            U32 => format!("{}u", value as u32),
            I64 | U64 => format!("vec2<u32>({}u, {}u)", value as u32, (value >> 32) as u32),
        }
    }

    /// A number converted to a data type, as `cast` does.
    pub fn number(value: Number, data_type: DataType) -> String {
        let bytes = value.to_bytes(data_type);
        let mut wide = [0u8; 16];
        let negative = data_type.is_signed() && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        wide.fill(if negative { 0xff } else { 0 });
        wide[..bytes.len()].copy_from_slice(&bytes);
        match data_type {
            DataType::Float32 => float(f32::from_le_bytes([wide[0], wide[1], wide[2], wide[3]])),
            DataType::Float16 => float(half::f16::from_le_bytes([wide[0], wide[1]]).to_f32()),
            _ => Scalar::of(data_type).integer(i128::from_le_bytes(wide)),
        }
    }

    fn infix(self, operator: &str, name: &str, a: &str, b: &str) -> String {
        match self {
            F32 | I32 | U32 => format!("({a} {operator} {b})"),
            I64 | U64 => format!("{name}_64({a}, {b})"),
        }
    }

    pub fn add(self, a: &str, b: &str) -> String {
        self.infix("+", "add", a, b)
    }

    pub fn sub(self, a: &str, b: &str) -> String {
        self.infix("-", "sub", a, b)
    }

    pub fn mul(self, a: &str, b: &str) -> String {
        self.infix("*", "mul", a, b)
    }

    /// A function of the prelude that exists for every type: `div`, `max`, `min`, `pow`, `lt`, `eq`, `abs`, `neg`, `sign`.
    pub fn call(self, function: &str, arguments: &[&str]) -> String {
        format!("{function}_{}({})", self.suffix(), arguments.join(", "))
    }

    /// A comparison, as a `bool`.
    pub fn lt(self, a: &str, b: &str) -> String {
        match self {
            F32 | I32 | U32 => format!("({a} < {b})"),
            I64 | U64 => self.call("lt", &[a, b]),
        }
    }

    pub fn eq(self, a: &str, b: &str) -> String {
        match self {
            F32 | I32 | U32 => format!("({a} == {b})"),
            I64 | U64 => format!("all({a} == {b})"),
        }
    }

    /// A conversion. From floating-point numbers it truncates and limits to the range of the type; between integers the
    /// lowest bits are kept.
    pub fn convert(self, to: Scalar, x: &str) -> String {
        if self == to {
            return x.to_owned();
        }
        match (self, to) {
            (I32, U32) | (U32, I32) => format!("bitcast<{}>({x})", to.name()),
            (I64, U64) | (U64, I64) => x.to_owned(),
            (I32 | U32, F32) => format!("f32({x})"),
            (U32, _) => format!("vec2<u32>({x}, 0u)"),
            (I64 | U64, U32) => format!("({x}).x"),
            (I64 | U64, I32) => format!("bitcast<i32>(({x}).x)"),
            _ => format!("{}_from_{}({x})", to.suffix(), self.suffix()),
        }
    }
}

/// A floating-point number, exactly.
pub fn float(value: f32) -> String {
    if value == 0.0 && value.is_sign_positive() {
        "0.0f".to_owned()
    } else if value.is_normal() && (1e-20..1e20).contains(&value.abs()) {
        format!("f32({value:?})")
    } else {
        // WGSL's constants cannot say this.
        format!("f32_from_bits({}u)", value.to_bits())
    }
}

/// The range of an integer data type is smaller than that of its scalar: brings a result back into it.
pub fn wrap(data_type: DataType, x: &str) -> String {
    match data_type {
        DataType::Float16 => format!("round_half({x})"),
        DataType::Int8 | DataType::Uint8 => format!("extractBits({x}, 0u, 8u)"),
        DataType::Int4 | DataType::Uint4 => format!("extractBits({x}, 0u, 4u)"),
        _ => x.to_owned(),
    }
}
