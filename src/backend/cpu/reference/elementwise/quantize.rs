//! Conversion between floating-point and scaled integer values.

use super::CHEAP;
use super::rows::zip3;
use crate::backend::cpu::element::{Element, Float, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::DataType;
use crate::graph::number::integer_range;
use crate::graph::ops::elementwise::{DequantizeLinear, QuantizeLinear};

/// An integer that values are quantized to. Those of 4 bits are computed with as bytes.
trait Quantized: Element + Into<i64> {
    /// From a value in the type's range, or NaN, which gives 0.
    fn from_f64(value: f64) -> Self;
}

macro_rules! quantized {
    ($($T:ty)*) => { $(
        impl Quantized for $T {
            fn from_f64(value: f64) -> Self {
                value as $T
            }
        }
    )* };
}

quantized! { i8 u8 i32 u32 }

/// Evaluates an expression with `$Q` as the Rust type of a quantized data type.
macro_rules! with_quantized {
    ($data_type:expr, $Q:ident => $body:expr) => {
        match $data_type {
            DataType::Int8 => {
                type $Q = i8;
                $body
            }
            DataType::Uint8 => {
                type $Q = u8;
                $body
            }
            DataType::Int32 => {
                type $Q = i32;
                $body
            }
            DataType::Uint32 => {
                type $Q = u32;
                $body
            }
            other => unreachable!("{other} is not a quantized type"),
        }
    };
}

/// `(input - zeroPoint) * scale`, with one rounding.
pub fn dequantize_linear(op: &DequantizeLinear, arguments: &mut Arguments<'_, '_>) {
    let (input, zero_point) = (Unpacked::new(arguments.input(op.input)), Unpacked::new(arguments.input(op.zero_point)));
    let (input, scale, zero_point) = (input.view(), arguments.input(op.scale), zero_point.view());
    let output = arguments.output();
    with_quantized!(input.data_type, Q => with_float!(scale.data_type, T => {
        zip3([input, scale, zero_point], output, CHEAP, |input: Q, scale: T, zero_point: Q| -> T {
            <T as Float>::from_f64((i64::from(input) - i64::from(zero_point)) as f64 * Float::to_f64(scale))
        });
    }));
}

/// `clamp(roundEven(input / scale) + zeroPoint, …)` to the range of the output's type.
pub fn quantize_linear(op: &QuantizeLinear, arguments: &mut Arguments<'_, '_>) {
    let zero_point = Unpacked::new(arguments.input(op.zero_point));
    let operands = [arguments.input(op.input), arguments.input(op.scale), zero_point.view()];
    let output = arguments.output();
    let (min, max) = integer_range(output.data_type);
    let range = (min as f64, max as f64);
    if output.data_type.bits() == 4 {
        let mut bytes = scratch::zeroed(output.element_count());
        let data_type = byte_type(output.data_type);
        quantize(operands, range, &mut ViewMut { data_type, shape: output.shape, bytes: &mut bytes });
        for (packed, pair) in output.bytes.iter_mut().zip(bytes.chunks(2)) {
            *packed = pair[0] & 15 | pair.get(1).map_or(0, |&second| second << 4);
        }
    } else {
        quantize(operands, range, output);
    }
}

fn quantize(operands: [View<'_>; 3], (min, max): (f64, f64), output: &mut ViewMut<'_>) {
    with_quantized!(output.data_type, Q => with_float!(operands[0].data_type, T => {
        zip3(operands, output, CHEAP, |input: T, scale: T, zero_point: Q| -> Q {
            let steps = (Float::to_f32(input) / Float::to_f32(scale)).round_ties_even();
            // Every integer of 32 bits is exact in f64.
            <Q as Quantized>::from_f64((steps as f64 + zero_point as f64).clamp(min, max))
        });
    }));
}

/// The type of one byte with the range of a 4-bit type; other types as they are.
fn byte_type(data_type: DataType) -> DataType {
    match data_type {
        DataType::Int4 => DataType::Int8,
        DataType::Uint4 => DataType::Uint8,
        other => other,
    }
}

/// An operand whose elements take whole bytes.
struct Unpacked<'a> {
    operand: View<'a>,
    /// The elements of one that had two to a byte.
    bytes: Option<Vec<u8>>,
}

impl<'a> Unpacked<'a> {
    fn new(operand: View<'a>) -> Self {
        let signed = operand.data_type.is_signed();
        let element = |half: u8| if signed { ((half << 4) as i8 >> 4) as u8 } else { half };
        let bytes = (operand.data_type.bits() == 4).then(|| {
            let pairs = operand.bytes().iter().flat_map(|&pair| [element(pair & 15), element(pair >> 4)]);
            scratch::collected(operand.element_count(), pairs.take(operand.element_count()))
        });
        Unpacked { operand, bytes }
    }

    fn view(&self) -> View<'_> {
        let bytes = self.bytes.as_deref().unwrap_or_else(|| self.operand.bytes());
        View::new(byte_type(self.operand.data_type), self.operand.shape, bytes)
    }
}
