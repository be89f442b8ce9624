//! Products of matrices of bytes, and the bytes of numbers whose range is known only when they are. WebNN says both with
//! float operators, which hold sums of products exactly only up to 2²⁴.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, operators, rank};
use crate::graph::ops::matmul::product;
use crate::graph::shape::{check_axis, unidirectionally_broadcastable};
use crate::graph::{Descriptor, OperandId, Operands};
use smallvec::smallvec;

const BYTES: DataTypes = DataTypes::of(&[DataType::Uint8, DataType::Int8]);

operators! {
    /// A product of matrices of bytes, or of stacks of them.
    pub struct QuantizedMatmul: "MLOperatorOptions" in "" {
        a: OperandId,
        b: OperandId,
    } options {
        /// What is taken off the elements of a: one number, or one for each row.
        a_zero_point: Option<OperandId> = None,
        /// What is taken off the elements of b: one number, or one for each column.
        b_zero_point: Option<OperandId> = None,
    }
    [
        ("a", Of(BYTES), at_least(2)),
        ("b", Of(BYTES), at_least(2)),
        ("a_zero_point", SameAs("a"), N),
        ("b_zero_point", SameAs("b"), N),
    ] -> One [("output", Of(DataTypes::of(&[DataType::Int32])), at_least(2))] {
        /// Multiplies matrices as matmul does, `(a - aZeroPoint) * (b - bZeroPoint)`, exactly; sums wrap around.
        "quantizedMatmul"
    }
}

operators! {
    /// The quantization of numbers with the scale that their range asks for.
    pub struct DynamicQuantizeLinear: "MLOperatorOptions" in "" {
        input: OperandId,
    } options {}
    [("input", Of(DataTypes::of(&[DataType::Float32])), N)] -> Sequence [
        ("output", Of(DataTypes::of(&[DataType::Uint8])), SameRankAs("input")),
        ("scale", Of(DataTypes::of(&[DataType::Float32])), rank(0)),
        ("zero_point", Of(DataTypes::of(&[DataType::Uint8])), rank(0)),
    ] {
        /// Computes `roundEven(input / scale) + zeroPoint`, limited to 0 to 255, and both of these: the scale is a 255th of the
        /// range of the input and 0, or 1 where that is nothing, and NaN where an element is; and the zero point `roundEven(-lowest / scale)`.
        "dynamicQuantizeLinear"
    }
}

operators! {
    /// The quantization of the numbers along an axis with the scale that the greatest of them asks for.
    pub struct QuantizeAlong: "MLOperatorOptions" in "" {
        input: OperandId,
        axis: u32,
    } options {}
    [("input", Of(DataTypes::of(&[DataType::Float32])), at_least(1))] -> Sequence [
        ("output", Of(DataTypes::of(&[DataType::Int8])), SameRankAs("input")),
        ("scale", Of(DataTypes::of(&[DataType::Float32])), SameRankAs("input")),
    ] {
        /// Computes `roundEven(input / scale)`, limited to -127 to 127, and the scales, one for all numbers along the axis: a 127th of the
        /// greatest magnitude, at least 2⁻¹²⁶, and NaN where a number is.
        "quantizeAlong"
    }
}

/// The scale of numbers whose greatest magnitude is known. It is no subnormal number, which kernels may take for 0.
pub fn of_magnitude(most: f32) -> f32 {
    let scale = most / 127.0;
    if scale < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { scale }
}

/// The greatest magnitude of numbers; NaN where one of them is.
pub fn magnitude(numbers: impl Iterator<Item = f32>) -> f32 {
    numbers.fold(0.0, |most: f32, x| if x.abs() > most || x.is_nan() { x.abs() } else { most })
}

/// The least of numbers and 0, and the greatest; both NaN where one of the numbers is.
pub fn extremes(numbers: &[f32]) -> [f32; 2] {
    let further = |is_further: fn(&f32, &f32) -> bool| {
        numbers.iter().copied().fold(0f32, |a, b| if b.is_nan() || is_further(&b, &a) { b } else { a })
    };
    [further(f32::lt), further(f32::gt)]
}

/// The scale and zero point of numbers between these, the least of which is no greater than 0 and the greatest no less. Of NaN the scale
/// is that, and so is what is multiplied with it.
pub fn of_range(least: f32, most: f32) -> (f32, u8) {
    let range = most - least;
    if range.is_nan() {
        return (f32::NAN, 0);
    }
    let scale = range / 255.0;
    let scale = if scale == 0.0 { 1.0 } else { scale };
    (scale, (-least / scale).round_ties_even().clamp(0.0, 255.0) as u8)
}

impl QuantizedMatmul {
    /// Zero points that lie along neither the inner dimension nor, of one matrix for many, several matrices.
    fn check_zero_point(
        &self,
        argument: &str,
        of: OperandId,
        zero_point: Option<OperandId>,
        operands: &Operands<'_>,
    ) -> Result<()> {
        let Some(zero_point) = zero_point else { return Ok(()) };
        let (shape, found) = (operands.shape(of), operands.shape(zero_point));
        // The inner dimension is the last one of a, and the last but one of b.
        let inner = if of == self.a { 1 } else { 2 };
        let mut allowed = shape.to_vec();
        let at = allowed.len() - inner;
        allowed[at] = 1;
        if unidirectionally_broadcastable(found, &allowed) {
            return Ok(());
        }
        let wanted = format!("shapes that can be broadcast to {}", Dimensions(&allowed));
        Err(Error::argument(argument, format!("shape {}", Dimensions(found)), wanted))
    }
}

impl Rule for QuantizedMatmul {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let mut outputs = product(self.a, self.b, operands)?;
        outputs[0].data_type = DataType::Int32;
        self.check_zero_point("aZeroPoint", self.a, self.a_zero_point, operands)?;
        self.check_zero_point("bZeroPoint", self.b, self.b_zero_point, operands)?;
        Ok(outputs)
    }
}

impl Rule for DynamicQuantizeLinear {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = operands.shape(self.input);
        let number = |data_type| Descriptor::new(data_type, []);
        Ok(smallvec![Descriptor::new(DataType::Uint8, shape.iter().copied()), number(DataType::Float32), number(DataType::Uint8)])
    }
}

impl Rule for QuantizeAlong {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = operands.shape(self.input);
        check_axis("axis", self.axis, shape.len())?;
        let mut scales = Descriptor::new(DataType::Float32, shape.iter().copied());
        scales.shape[self.axis as usize] = 1;
        Ok(smallvec![Descriptor::new(DataType::Int8, shape.iter().copied()), scales])
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::*;
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    #[test]
    fn products() {
        let check = |operands: &[(DataType, &[u32])], expected| {
            let id = |i: usize| if i < operands.len() { Operand(OperandId(i as u32)) } else { Absent };
            testing::check("quantizedMatmul", operands, &[id(0), id(1), id(2), id(3)], expected);
        };
        for (a, b) in [(Uint8, Int8), (Int8, Uint8), (Uint8, Uint8), (Int8, Int8)] {
            check(&[(a, &[2, 3]), (b, &[3, 4])], Ok(&["int32[2, 4]"]));
            check(&[(a, &[5, 2, 3]), (b, &[6, 1, 3, 4]), (a, &[]), (b, &[4])], Ok(&["int32[6, 5, 2, 4]"]));
            check(&[(a, &[2, 3]), (b, &[3, 4]), (a, &[2, 1]), (b, &[1, 4])], Ok(&["int32[2, 4]"]));
            check(&[(a, &[5, 2, 3]), (b, &[5, 3, 4]), (a, &[5, 2, 1]), (b, &[5, 1, 4])], Ok(&["int32[5, 2, 4]"]));
            check(&[(a, &[2, 3]), (b, &[4, 3])], Err("b"));
            check(&[(a, &[2, 3]), (b, &[3, 4]), (a, &[2])], Err("aZeroPoint"));
            check(&[(a, &[2, 3]), (b, &[3, 4]), (a, &[3])], Err("aZeroPoint"));
            check(&[(a, &[2, 3]), (b, &[3, 4]), (a, &[]), (b, &[3, 1])], Err("bZeroPoint"));
            check(&[(a, &[2, 3]), (b, &[3, 4]), (a, &[]), (b, &[1, 1, 4])], Err("bZeroPoint"));
        }
        check(&[(Int32, &[2, 3]), (Int8, &[3, 4])], Err("a"));
        check(&[(Uint8, &[2, 3]), (Int8, &[3, 4]), (Int8, &[])], Err("aZeroPoint"));
    }

    #[test]
    fn quantization() {
        let check = |data_type, shape: &[u32], expected| {
            testing::check("dynamicQuantizeLinear", &[(data_type, shape)], &[Operand(OperandId(0))], expected);
        };
        check(Float32, &[2, 3], Ok(&["uint8[2, 3]", "float32[]", "uint8[]"]));
        check(Float32, &[], Ok(&["uint8[]", "float32[]", "uint8[]"]));
        check(Float16, &[2], Err("input"));
    }

    #[test]
    fn quantization_along_an_axis() {
        let check = |data_type, shape: &[u32], axis, expected| {
            testing::check("quantizeAlong", &[(data_type, shape)], &[Operand(OperandId(0)), Unsigned(axis)], expected);
        };
        check(Float32, &[2, 3], 1, Ok(&["int8[2, 3]", "float32[2, 1]"]));
        check(Float32, &[2, 5, 3], 0, Ok(&["int8[2, 5, 3]", "float32[1, 5, 3]"]));
        check(Float32, &[2, 3], 2, Err("axis"));
        check(Float32, &[], 0, Err("input"));
        check(Float16, &[2], 0, Err("input"));
    }
}
