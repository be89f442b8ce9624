//! Reductions along axes.

use crate::error::Result;
use crate::graph::data_type::{ANY, FLOAT, WIDE};
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, one, operators};
use crate::graph::shape::reduced;
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A reduction of all values along some axes to one.
    pub struct Reduce(ReduceKind): "MLReduceOptions" in "api-mlgraphbuilder-reduce" {
        input: OperandId,
    } options {
        /// The axes to reduce, each once. Default: all. With an empty list no axis is reduced, and
        /// each value is reduced alone.
        axes: Option<Vec<u32>> = None,
        /// Whether to keep reduced axes, with size 1.
        keep_dimensions: bool = false,
    }
    [("input", Of(WIDE), N)] -> One [("output", SameAs("input"), N)] {
        /// Sums the absolute values along the axes. Integers wrap around.
        "reduceL1" L1,
        /// Sums the values along the axes, whatever their order: a sum of floats that is in the range of the type does not overflow
        /// on the way. Integers wrap around.
        "reduceSum" Sum,
        /// Sums the squares of the values along the axes. Integers wrap around.
        "reduceSumSquare" SumSquare,
        /// Multiplies the values along the axes with each other, whatever their order: a product of floats that is in the range of the
        /// type does not overflow on the way. Integers wrap around.
        "reduceProduct" Product,
    }
    [("input", Of(FLOAT), N)] -> One [("output", SameAs("input"), N)] {
        /// Computes the square root of the sum of the squares along the axes.
        "reduceL2" L2,
        /// Computes the natural logarithm of the sum of the values along the axes.
        "reduceLogSum" LogSum,
        /// Computes the natural logarithm of the sum of the exponentials of the values along the axes.
        "reduceLogSumExp" LogSumExp,
        /// Computes the mean of the values along the axes.
        "reduceMean" Mean,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), N)] {
        /// Computes the maximum of the values along the axes; NaN if one of them is NaN.
        "reduceMax" Max,
        /// Computes the minimum of the values along the axes; NaN if one of them is NaN.
        "reduceMin" Min,
    }
}

impl Reduce {
    /// Whether an axis is one of those that are reduced.
    pub fn reduces(&self, axis: usize) -> bool {
        self.axes.as_ref().is_none_or(|axes| axes.contains(&(axis as u32)))
    }
}

impl Rule for Reduce {
    /// `#api-mlgraphbuilder-reduce`, *create reduction operation*, the calculation of the output's sizes.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = reduced(operands.shape(self.input), self.axes.as_deref(), self.keep_dimensions)?;
        one(Descriptor::new(operands.data_type(self.input), shape))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::*;
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;
    use crate::graph::testing;

    #[test]
    fn data_types() {
        let wide = [Float32, Float16, Int32, Uint32, Int64, Uint64].as_slice();
        let float = [Float32, Float16].as_slice();
        let any = [Float32, Float16, Int32, Uint32, Int64, Uint64, Int8, Uint8].as_slice();
        for (names, allowed) in [
            (["reduceL1", "reduceSum", "reduceSumSquare", "reduceProduct"].as_slice(), wide),
            (&["reduceL2", "reduceLogSum", "reduceLogSumExp", "reduceMean"], float),
            (&["reduceMax", "reduceMin"], any),
        ] {
            for (name, data_type) in names.iter().flat_map(|name| any.iter().map(move |&data_type| (name, data_type))) {
                let output = format!("{data_type}[]");
                let output = [output.as_str()];
                let expected = if allowed.contains(&data_type) { Ok(output.as_slice()) } else { Err("input") };
                testing::check(name, &[(data_type, &[2, 3])], &[Value::Operand(OperandId(0))], expected);
            }
        }
    }

    #[test]
    fn sizes() {
        let check = |shape: &[u32], axes: Option<&[u32]>, keep, expected: Result<&str, &str>| {
            let axes = axes.map_or(Value::Absent, |axes| Value::UnsignedList(axes.to_vec()));
            let values = [Value::Operand(OperandId(0)), axes, Value::Boolean(keep)];
            let expected = expected.as_ref().map(std::slice::from_ref).map_err(|argument| *argument);
            testing::check("reduceSum", &[(Float32, shape)], &values, expected);
        };
        check(&[2, 3, 4], None, false, Ok("float32[]"));
        check(&[2, 3, 4], None, true, Ok("float32[1, 1, 1]"));
        check(&[2, 3, 4], Some(&[]), false, Ok("float32[2, 3, 4]"));
        check(&[2, 3, 4], Some(&[2, 0]), false, Ok("float32[3]"));
        check(&[2, 3, 4], Some(&[2, 0]), true, Ok("float32[1, 3, 1]"));
        check(&[], None, true, Ok("float32[]"));
        check(&[], Some(&[]), false, Ok("float32[]"));
        check(&[], Some(&[0]), false, Err("axes"));
        check(&[2, 3], Some(&[2]), false, Err("axes"));
        check(&[2, 3], Some(&[u32::MAX]), true, Err("axes"));
        check(&[2, 3], Some(&[1, 1]), true, Err("axes"));
        check(&[2, 3], Some(&[0; 100_000]), true, Err("axes"));
    }
}
