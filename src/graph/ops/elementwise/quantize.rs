//! Conversion between floating-point and scaled integer values.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, FLOAT, FOUR_BITS, QUANTIZED};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::{blockwise_broadcastable, check_shape};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// Integers to floating-point values.
    pub struct DequantizeLinear: "MLOperatorOptions" in "api-mlgraphbuilder-dequantizelinear" {
        input: OperandId,
        scale: OperandId,
        zero_point: OperandId,
    } options {}
    [
        ("input", Of(QUANTIZED), N),
        ("scale", Of(FLOAT), N),
        ("zero_point", SameAs("input"), N),
    ] -> One [("output", SameAs("scale"), SameRankAs("input"))] {
        /// Computes floating-point values `(input - zeroPoint) * scale` from quantized ones. `scale` and `zeroPoint` have
        /// one shape of the input's rank, whose sizes divide the input's: each of their elements is for a block.
        "dequantizeLinear"
    }
}

operators! {
    /// Floating-point values to integers.
    pub struct QuantizeLinear: "MLOperatorOptions" in "api-mlgraphbuilder-quantizelinear" {
        input: OperandId,
        scale: OperandId,
        zero_point: OperandId,
    } options {}
    [
        ("input", Of(FLOAT), N),
        ("scale", SameAs("input"), N),
        ("zero_point", Of(QUANTIZED), N),
    ] -> One [("output", SameAs("zero_point"), SameRankAs("input"))] {
        /// Computes quantized values `roundEven(input / scale) + zeroPoint`, limited to the range of the data type of
        /// `zeroPoint`, which is the output's. `scale` and `zeroPoint` have one shape of the input's rank, whose sizes
        /// divide the input's: each of their elements is for a block.
        "quantizeLinear"
    }
}

/// The steps of both from the comparison of ranks on: scale and zero point have the input's rank and one shape, which can
/// be *blockwise broadcast* to the input's.
///
/// Of 4-bit values, which are not in the specification, scales of a lower rank are taken as well, as if sizes of 1 came
/// first. (That is why the ranks, although in the tables, are not in the rows.)
fn check_blocks(
    operands: &Operands<'_>,
    input: OperandId,
    scale: OperandId,
    zero_point: OperandId,
    quantized: DataType,
) -> Result<()> {
    let (input, scale, zero_point) = (operands.shape(input), operands.shape(scale), operands.shape(zero_point));
    let extended = FOUR_BITS.contains(quantized);
    for (argument, shape) in [("scale", scale), ("zeroPoint", zero_point)] {
        if shape.len() != input.len() && !(extended && shape.len() < input.len()) {
            let (found, allowed) = (shape.len(), input.len());
            return Err(Error::argument(argument, format!("rank {found}"), format!("the rank of input ({allowed})")));
        }
    }
    check_shape("zeroPoint", zero_point, scale)?;
    let aligned = &input[input.len() - scale.len()..];
    if !blockwise_broadcastable(scale, aligned) {
        return Err(Error::argument(
            "scale",
            format!("shape {}", Dimensions(scale)),
            format!("a shape whose sizes divide those of input, {}", Dimensions(input)),
        ));
    }
    Ok(())
}

impl Rule for DequantizeLinear {
    /// `#api-mlgraphbuilder-dequantizelinear`, from the comparison of ranks on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let quantized = operands.data_type(self.input);
        check_blocks(operands, self.input, self.scale, self.zero_point, quantized)?;
        one(Descriptor::new(operands.data_type(self.scale), operands.shape(self.input).iter().copied()))
    }
}

impl Rule for QuantizeLinear {
    /// `#api-mlgraphbuilder-quantizelinear`, from the comparison of ranks on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let quantized = operands.data_type(self.zero_point);
        check_blocks(operands, self.input, self.scale, self.zero_point, quantized)?;
        one(Descriptor::new(quantized, operands.shape(self.input).iter().copied()))
    }
}
