//! Conversion between data types.

use super::CHEAP;
use super::rows::map;
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType;
use crate::graph::number::f16_from_f64;
use crate::graph::ops::elementwise::Cast;
use half::f16;
use half::slice::HalfFloatSliceExt;

pub fn cast(op: &Cast, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    match (input.data_type, op.data_type) {
        // The same, many at a time.
        (DataType::Float16, DataType::Float32) => {
            let elements = input.elements::<f16>();
            for_each_piece(output.elements(), 1, CHEAP, |first, piece| {
                elements[first..][..piece.len()].convert_to_f32_slice(piece);
            });
            return;
        }
        (DataType::Float32, DataType::Float16) => {
            let elements = input.elements::<f32>();
            for_each_piece(output.elements::<f16>(), 1, CHEAP, |first, piece| {
                piece.convert_from_f32_slice(&elements[first..][..piece.len()]);
            });
            return;
        }
        _ => {}
    }
    with_element!(input.data_type, From => {
        with_element!(op.data_type, To => map(input, output, CHEAP, <From as CastTo<To>>::cast));
    });
}

/// The table of `#api-mlgraphbuilder-cast`. What it leaves open is done as Rust does it: floating-point values out of an
/// integer's range become its smallest or greatest value, and NaN becomes 0.
trait CastTo<To> {
    fn cast(self) -> To;
}

macro_rules! casts {
    ($( $From:ident: $($To:ident)*; )*) => { $(
        $( impl CastTo<$To> for $From {
            fn cast(self) -> $To {
                self as $To
            }
        } )*

        impl CastTo<f16> for $From {
            fn cast(self) -> f16 {
                // Whatever `f64` cannot hold exactly is infinite as a float16.
                f16_from_f64(self as f64)
            }
        }

        impl CastTo<$From> for f16 {
            fn cast(self) -> $From {
                self.to_f32() as $From
            }
        }
    )* };
}

casts! {
    f32: f32 i32 u32 i64 u64 i8 u8;
    i32: f32 i32 u32 i64 u64 i8 u8;
    u32: f32 i32 u32 i64 u64 i8 u8;
    i64: f32 i32 u32 i64 u64 i8 u8;
    u64: f32 i32 u32 i64 u64 i8 u8;
    i8: f32 i32 u32 i64 u64 i8 u8;
    u8: f32 i32 u32 i64 u64 i8 u8;
}

impl CastTo<f16> for f16 {
    fn cast(self) -> f16 {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_specification() {
        assert_eq!(CastTo::<u8>::cast(-1i8), 255);
        assert_eq!(CastTo::<i8>::cast(0x1_0000_0080u64), -128);
        assert_eq!(CastTo::<i32>::cast(-2.9f32), -2);
        assert_eq!(CastTo::<i32>::cast(f16::from_f32(2.9)), 2);
        assert_eq!([f32::NAN, 1e20, -1e20].map(CastTo::<i32>::cast), [0, i32::MAX, i32::MIN]);
        assert_eq!(CastTo::<f32>::cast(i64::MAX), 9223372036854775807.0);
        assert_eq!(CastTo::<f16>::cast(1e6f32), f16::INFINITY);
        // Rounded once, though halfway at the precision of float32.
        assert_eq!(CastTo::<f16>::cast(2049i32 << 4), f16::from_f32(32768.0));
        assert_eq!(CastTo::<f16>::cast(u64::MAX), f16::INFINITY);
    }
}
