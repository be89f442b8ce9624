//! `MLNumber`, and the specification's *casting* of numbers to data types.

use super::data_type::DataType;
use half::f16;

/// A number as script gave it: a `double`, or a `bigint` (beyond 127 bits it is clamped, which no cast can tell).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Double(f64),
    Integer(i128),
}

impl Number {
    /// *ConvertToFloat* with 32 bits: round to nearest, ties to even, overflow to infinity.
    pub fn to_f32(self) -> f32 {
        match self {
            Number::Double(x) => x as f32,
            Number::Integer(x) => x as f32,
        }
    }

    /// *ConvertToFloat* with 16 bits.
    pub fn to_f16(self) -> f16 {
        match self {
            Number::Double(x) => f16_from_f64(x),
            // Beyond 2⁵³ the sum rounds, but there every float16 is infinite.
            Number::Integer(x) => f16_from_f64(x as f64),
        }
    }

    pub fn to_f64(self) -> f64 {
        match self {
            Number::Double(x) => x,
            Number::Integer(x) => x as f64,
        }
    }

    /// *ConvertToInt*: clamp, then round to nearest, ties to even; NaN gives 0.
    ///
    /// The specification's text casts to `uint32` as "signed"; we read that as a slip and use the type's own range.
    pub fn to_integer(self, data_type: DataType) -> i128 {
        let (low, high) = integer_range(data_type);
        match self {
            Number::Integer(x) => x.clamp(low, high),
            Number::Double(x) if x.is_nan() => 0,
            // `as` saturates, so the bounds of i128 do not matter; rounding first cannot leave the range after clamping.
            Number::Double(x) => (x.round_ties_even() as i128).clamp(low, high),
        }
    }

    /// The bytes of one element of the type. A 4-bit element is in the low half of its byte.
    pub fn to_bytes(self, data_type: DataType) -> Vec<u8> {
        match data_type {
            DataType::Float32 => self.to_f32().to_le_bytes().to_vec(),
            DataType::Float16 => self.to_f16().to_le_bytes().to_vec(),
            DataType::Int4 | DataType::Uint4 => vec![self.to_integer(data_type) as u8 & 15],
            _ => self.to_integer(data_type).to_le_bytes()[..data_type.bits() / 8].to_vec(),
        }
    }
}

/// Smallest and largest value of an integer type.
pub fn integer_range(data_type: DataType) -> (i128, i128) {
    let bits = data_type.bits() as u32;
    if data_type.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// Rounds once, to nearest with ties to even. (`f16::from_f64` goes through float32 on some CPUs and rounds twice.)
pub fn f16_from_f64(x: f64) -> f16 {
    // Round to odd at float32 first: then the second rounding sees whatever the first dropped.
    let single = x as f32;
    if single.is_nan() || single.is_infinite() || single as f64 == x {
        return f16::from_f32(single);
    }
    let bits = single.to_bits();
    let truncated = if (single as f64).abs() > x.abs() { bits - 1 } else { bits };
    f16::from_f32(f32::from_bits(truncated | 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_clamp_and_round_to_even() {
        let int8 = |x| Number::Double(x).to_integer(DataType::Int8);
        assert_eq!(
            [int8(2.5), int8(3.5), int8(-0.5), int8(1e9), int8(f64::NEG_INFINITY), int8(f64::NAN)],
            [2, 4, 0, 127, -128, 0]
        );
        assert_eq!(Number::Integer(-1).to_integer(DataType::Uint64), 0);
        assert_eq!(Number::Integer(1 << 100).to_integer(DataType::Uint64), u64::MAX as i128);
        assert_eq!(Number::Double(4e9).to_integer(DataType::Uint32), 4_000_000_000);
    }

    #[test]
    fn float16_is_rounded_once() {
        // Halfway between 1 and the next float16, plus too little for float32 to keep.
        assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11)).to_f64(), 1.0);
        assert_eq!(f16_from_f64(65520.0), f16::INFINITY);
        assert_eq!(f16_from_f64(65519.999999999).to_f64(), 65504.0);
        assert_eq!(f16_from_f64(-1e-300).to_bits(), 0x8000);
        assert_eq!(f16_from_f64(2f64.powi(-25) * 1.0000000001).to_f64(), 2f64.powi(-24));
    }
}
