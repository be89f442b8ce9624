//! Positions of extreme values.

use crate::error::{Error, Result};
use crate::graph::data_type::{ANY, DataType, DataTypes};
use crate::graph::operator::Types::Of;
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::shape::{check_axis, reduced};
use crate::graph::{Descriptor, OperandId, Operands};

/// The data types that positions may have.
const POSITION: DataTypes = DataTypes::of(&[DataType::Int32, DataType::Int64]);

operators! {
    /// The positions of extreme values along an axis.
    pub struct Arg(ArgKind): "MLArgMinMaxOptions" in "api-mlgraphbuilder-argminmax" {
        input: OperandId,
        axis: u32,
    } options {
        /// Whether to keep the axis, with size 1.
        keep_dimensions: bool = false,
        /// The data type of the positions.
        output_data_type: DataType = DataType::Int32,
    }
    [("input", Of(ANY), at_least(1))] -> One [("output", Of(POSITION), N)] {
        /// Finds the positions of the smallest values along the axis; the first of several, or the first NaN.
        "argMin" Min,
        /// Finds the positions of the greatest values along the axis; the first of several, or the first NaN.
        "argMax" Max,
    }
}

impl Rule for Arg {
    /// `#api-mlgraphbuilder-argminmax`, from the check of the axis on. (Every size fits in the data type: none is above
    /// 2³¹ − 1.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = operands.shape(self.input);
        check_axis("axis", self.axis, shape.len())?;
        if !POSITION.contains(self.output_data_type) {
            return Err(Error::argument("outputDataType", self.output_data_type, POSITION));
        }
        one(Descriptor::new(self.output_data_type, reduced(shape, Some(&[self.axis]), self.keep_dimensions)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::testing;

    #[test]
    fn positions() {
        let check = |shape: &[u32], axis, keep, output: DataType, expected: Result<&str, &str>| {
            let output = Value::Enumeration(output.index());
            let values = [Value::Operand(OperandId(0)), Value::Unsigned(axis), Value::Boolean(keep), output];
            for (name, data_type) in [("argMin", Float16), ("argMax", Uint64)] {
                let expected = expected.as_ref().map(std::slice::from_ref).map_err(|argument| *argument);
                testing::check(name, &[(data_type, shape)], &values, expected);
            }
        };
        check(&[2, 3], 0, false, Int32, Ok("int32[3]"));
        check(&[2, 3], 1, true, Int64, Ok("int64[2, 1]"));
        check(&[2], 0, false, Int32, Ok("int32[]"));
        check(&[2, 3], 2, false, Int32, Err("axis"));
        check(&[2, 3], u32::MAX, false, Int32, Err("axis"));
        check(&[], 0, false, Int32, Err("input"));
        check(&[2, 3], 0, false, Uint32, Err("outputDataType"));
        check(&[2, 3], 0, false, Float32, Err("outputDataType"));
    }
}
