//! Operators that move elements without looking at them.

use crate::error::{Error, Result};
use crate::graph::attribute::{Modulo, UnsignedOrList, enumeration};
use crate::graph::data_type::ANY;
use crate::graph::descriptor::{Dimensions, MAX_RANK};
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators};
use crate::graph::shape::{
    check_axes, check_axis, check_dimension, check_length, check_positive, check_tensor_count, unidirectionally_broadcastable,
};
use crate::graph::{Descriptor, Number, OperandId, OperandList, Operands, Shape};

operators! {
    /// A concatenation.
    pub struct Concat: "MLOperatorOptions" in "api-mlgraphbuilder-concat" {
        inputs: OperandList,
        axis: u32,
    } options {}
    [("inputs", Of(ANY), at_least(1))] -> One [("output", SameAs("inputs"), SameRankAs("inputs"))] {
        /// Joins the inputs, one after the other, along an axis. They have the same data type, rank and sizes, except
        /// for the size of that axis, which is the sum of theirs in the output.
        "concat"
    }
}

impl Rule for Concat {
    /// `#api-mlgraphbuilder-concat`, from the check of the number of inputs on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_tensor_count("inputs", self.inputs.len())?;
        let first = operands.descriptor(self.inputs[0]);
        check_axis("axis", self.axis, first.rank())?;
        let axis = self.axis as usize;
        let mut output = first.clone();
        for (position, &input) in self.inputs.iter().enumerate().skip(1) {
            let input = operands.descriptor(input);
            let argument = format!("inputs[{position}]");
            if input.data_type != first.data_type {
                return Err(Error::argument(&argument, format!("data type {}", input.data_type), first.data_type));
            }
            if input.rank() != first.rank() {
                let allowed = format!("the rank of the first input ({})", first.rank());
                return Err(Error::argument(&argument, format!("rank {}", input.rank()), allowed));
            }
            let differs = |dimension: usize| dimension != axis && input.shape[dimension] != first.shape[dimension];
            if (0..input.rank()).any(differs) {
                let allowed = format!("the sizes of the first input, {}, except along axis {axis}", Dimensions(&first.shape));
                return Err(Error::argument(&argument, format!("shape {}", Dimensions(&input.shape)), allowed));
            }
            let size = output.shape[axis] as u64 + input.shape[axis] as u64;
            output.shape[axis] = check_dimension(&argument, size)?;
        }
        one(output)
    }
}

operators! {
    /// An expansion of dimensions of size 1.
    pub struct Expand: "MLOperatorOptions" in "api-mlgraphbuilder-expand" {
        input: OperandId,
        new_shape: Vec<u32>,
    } options {}
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), N)] {
        /// Repeats the input along its dimensions of size 1, and along new outermost dimensions, until it has the new
        /// shape. The other dimensions keep their size.
        "expand"
    }
}

impl Rule for Expand {
    /// `#api-mlgraphbuilder-expand`, from the broadcast on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_rank("newShape", &self.new_shape)?;
        if !unidirectionally_broadcastable(&input.shape, &self.new_shape) {
            return Err(Error::argument(
                "newShape",
                Dimensions(&self.new_shape),
                format!("a shape that {} can be broadcast to", Dimensions(&input.shape)),
            ));
        }
        one(Descriptor::new(input.data_type, self.new_shape.iter().copied()))
    }
}

enumeration! {
    /// What pad fills the edges with.
    "MLPaddingMode" PaddingMode {
        /// A value that is given.
        Constant "constant",
        /// The nearest element of the input.
        Edge "edge",
        /// The input mirrored at its first and last element, which are not repeated.
        Reflection "reflection",
    }
}

operators! {
    /// A padding.
    pub struct Pad: "MLPadOptions" in "api-mlgraphbuilder-pad" {
        input: OperandId,
        beginning_padding: Vec<u32>,
        ending_padding: Vec<u32>,
    } options {
        /// The values at the edges: a constant value, copies of the outermost elements (`"edge"`), or the input mirrored
        /// at these elements (`"reflection"`).
        mode: PaddingMode = PaddingMode::Constant,
        /// The constant value; it is cast to the input's data type.
        value: Number = Number::Double(0.0),
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Adds elements before and after the input in each dimension: a constant value, copies of the
        /// outermost elements, or the input mirrored at its edges.
        "pad"
    }
}

impl Rule for Pad {
    /// `#api-mlgraphbuilder-pad`, from the check of the lengths on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_length("beginningPadding", self.beginning_padding.len(), input.rank())?;
        check_length("endingPadding", self.ending_padding.len(), input.rank())?;
        let mut output = input.clone();
        for (i, size) in output.shape.iter_mut().enumerate() {
            let paddings = [("beginningPadding", self.beginning_padding[i]), ("endingPadding", self.ending_padding[i])];
            if self.mode == PaddingMode::Reflection {
                for (argument, padding) in paddings {
                    if padding >= *size {
                        let allowed = format!("less than the dimension's size ({size}) to mirror it");
                        return Err(Error::argument(argument, format!("{padding} in dimension {i}"), allowed));
                    }
                }
            }
            let padded = paddings.iter().map(|(_, padding)| *padding as u64).sum::<u64>() + *size as u64;
            *size = check_dimension("beginningPadding and endingPadding", padded)?;
        }
        one(output)
    }
}

operators! {
    /// A change of shape alone.
    pub struct Reshape: "MLOperatorOptions" in "api-mlgraphbuilder-reshape-method" {
        input: OperandId,
        new_shape: Vec<u32>,
    } options {}
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), N)] {
        /// Changes the shape of the input, with the same number of elements. The elements and their order stay the same.
        "reshape"
    }
}

impl Rule for Reshape {
    /// `#api-mlgraphbuilder-reshape-method`, from the check of the rank on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_rank("newShape", &self.new_shape)?;
        for &size in &self.new_shape {
            check_dimension("newShape", size as u64)?;
        }
        let count = self.new_shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size as u64));
        let allowed = input.element_count() as u64;
        if count != Some(allowed) {
            return Err(Error::argument(
                "newShape",
                Dimensions(&self.new_shape),
                format!("a shape of the {allowed} elements of {input}"),
            ));
        }
        one(Descriptor::new(input.data_type, self.new_shape.iter().copied()))
    }
}

operators! {
    /// A reversal.
    pub struct Reverse: "MLReverseOptions" in "api-mlgraphbuilder-reverse-method" {
        input: OperandId,
    } options {
        /// The axes to reverse; default: all.
        axes: Option<Vec<u32>> = None,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Reverses the order of the elements along the axes, or along all of them if none are given.
        "reverse"
    }
}

impl Rule for Reverse {
    /// `#api-mlgraphbuilder-reverse-method`, from the check of the axes on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_axes("axes", self.axes.as_deref().unwrap_or_default(), input.rank())?;
        one(input.clone())
    }
}

operators! {
    /// A slice.
    pub struct Slice: "MLSliceOptions" in "api-mlgraphbuilder-slice" {
        input: OperandId,
        starts: Vec<u32>,
        sizes: Vec<u32>,
    } options {
        /// The step between elements in each dimension; default: 1.
        strides: Option<Vec<u32>> = None,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Takes a part of the input: in each dimension a range with a start and a size, and every
        /// stride-th element of it.
        "slice"
    }
}

impl Rule for Slice {
    /// `#api-mlgraphbuilder-slice`, from the checks of the sizes on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_length("starts", self.starts.len(), input.rank())?;
        check_length("sizes", self.sizes.len(), input.rank())?;
        check_positive("sizes", &self.sizes)?;
        if let Some(strides) = &self.strides {
            check_length("strides", strides.len(), input.rank())?;
            check_positive("strides", strides)?;
        }
        let mut shape = Shape::new();
        for (i, &input_size) in input.shape.iter().enumerate() {
            let (start, size) = (self.starts[i], self.sizes[i]);
            if start > input_size {
                let allowed = format!("at most the dimension's size ({input_size})");
                return Err(Error::argument("starts", format!("{start} in dimension {i}"), allowed));
            }
            if start as u64 + size as u64 > input_size as u64 {
                let allowed = format!("at most {} elements from {start} on", input_size - start);
                return Err(Error::argument("sizes", format!("{size} in dimension {i}"), allowed));
            }
            shape.push(size.div_ceil(self.stride(i)));
        }
        one(Descriptor::new(input.data_type, shape))
    }
}

impl Slice {
    pub fn stride(&self, dimension: usize) -> u32 {
        self.strides.as_ref().map_or(1, |strides| strides[dimension])
    }
}

operators! {
    /// A division into parts.
    pub struct Split: "MLSplitOptions" in "api-mlgraphbuilder-split" {
        input: OperandId,
        splits: UnsignedOrList,
    } options {
        /// The axis to divide.
        axis: u32 = 0,
    }
    [("input", Of(ANY), at_least(1))] -> Sequence [("outputs", SameAs("input"), SameRankAs("input"))] {
        /// Divides the input along an axis, into a number of equal parts or into parts of the listed sizes.
        "split"
    }
}

impl Rule for Split {
    /// `#api-mlgraphbuilder-split`, from the check of the axis on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_axis("axis", self.axis, input.rank())?;
        let axis = self.axis as usize;
        let whole = input.shape[axis];
        let part = |size| {
            let mut part = input.clone();
            part.shape[axis] = size;
            part
        };
        match &self.splits {
            &UnsignedOrList::One(count) => {
                check_tensor_count("splits", count as usize)?;
                if !whole.is_multiple_of(count) {
                    return Err(Error::argument("splits", count, format!("a divisor of the axis's size ({whole})")));
                }
                Ok((0..count).map(|_| part(whole / count)).collect())
            }
            UnsignedOrList::List(sizes) => {
                check_tensor_count("splits", sizes.len())?;
                check_positive("splits", sizes)?;
                // No more than 8192 sizes: their sum cannot overflow.
                let sum: u64 = sizes.iter().map(|&size| size as u64).sum();
                if sum != whole as u64 {
                    let allowed = format!("the axis's size ({whole}) as the sum");
                    return Err(Error::argument("splits", format!("sizes with the sum {sum}"), allowed));
                }
                Ok(sizes.iter().map(|&size| part(size)).collect())
            }
        }
    }
}

operators! {
    /// A repetition.
    pub struct Tile: "MLOperatorOptions" in "api-mlgraphbuilder-tile" {
        input: OperandId,
        repetitions: Modulo<Vec<u32>>,
    } options {}
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Repeats the input along each dimension.
        "tile"
    }
}

impl Rule for Tile {
    /// `#api-mlgraphbuilder-tile`, from the check of the length on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let repetitions = &self.repetitions.0;
        check_length("repetitions", repetitions.len(), input.rank())?;
        check_positive("repetitions", repetitions)?;
        let mut output = input.clone();
        for (size, &count) in output.shape.iter_mut().zip(repetitions) {
            *size = check_dimension("repetitions", *size as u64 * count as u64)?;
        }
        one(output)
    }
}

operators! {
    /// A permutation of the dimensions.
    pub struct Transpose: "MLTransposeOptions" in "api-mlgraphbuilder-transpose" {
        input: OperandId,
    } options {
        /// For each dimension of the output, the dimension of the input; default: the reverse order.
        permutation: Option<Vec<u32>> = None,
    }
    [("input", Of(ANY), N)] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Permutes the dimensions: dimension i of the output is dimension `permutation[i]` of the input. Without a
        /// permutation their order is reversed.
        "transpose"
    }
}

impl Rule for Transpose {
    /// `#api-mlgraphbuilder-transpose`, from the check of the permutation on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        if let Some(permutation) = &self.permutation {
            check_length("permutation", permutation.len(), input.rank())?;
            check_axes("permutation", permutation, input.rank())?;
        }
        let rank = input.rank();
        one(Descriptor::new(input.data_type, (0..rank).map(|i| input.shape[self.source(i, rank)])))
    }
}

impl Transpose {
    /// The dimension of the input that becomes this dimension of the output.
    pub fn source(&self, dimension: usize, rank: usize) -> usize {
        self.permutation.as_ref().map_or(rank - 1 - dimension, |permutation| permutation[dimension] as usize)
    }
}

operators! {
    /// The triangular part of matrices.
    pub struct Triangular: "MLTriangularOptions" in "api-mlgraphbuilder-triangular" {
        input: OperandId,
    } options {
        /// Whether to keep the upper triangle; otherwise the lower one.
        upper: bool = true,
        /// The diagonal that bounds the triangle: how far above the main diagonal it is, or below it if negative.
        diagonal: i32 = 0,
    }
    [("input", Of(ANY), at_least(2))] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Keeps the upper or the lower triangle of a matrix, or of each matrix of a batch, with the diagonal that bounds
        /// it, and puts zeros elsewhere.
        "triangular"
    }
}

impl Rule for Triangular {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        one(operands.descriptor(self.input).clone())
    }
}

/// Checks that a shape has a rank that operands can have.
fn check_rank(argument: &str, shape: &[u32]) -> Result<()> {
    if shape.len() <= MAX_RANK {
        return Ok(());
    }
    Err(Error::argument(argument, format!("rank {}", shape.len()), format!("ranks up to {MAX_RANK}")))
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::{self, *};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;

    /// Checks a rule that has one operand, a float32.
    fn check(name: &str, shape: &[u32], values: &[Value], expected: Result<&[&str], &str>) {
        let mut all = vec![Operand(OperandId(0))];
        all.extend_from_slice(values);
        testing::check(name, &[(Float32, shape)], &all, expected);
    }

    fn list(list: &[u32]) -> Value {
        UnsignedList(list.to_vec())
    }

    #[test]
    fn concat() {
        let check = |operands: &[(DataType, &[u32])], axis, expected| {
            let ids = (0..operands.len() as u32).map(OperandId).collect();
            testing::check("concat", operands, &[Operands(ids), Unsigned(axis)], expected);
        };
        check(&[(Int8, &[2, 3]), (Int8, &[2, 1]), (Int8, &[2, 2])], 1, Ok(&["int8[2, 6]"]));
        check(&[(Int8, &[2])], 0, Ok(&["int8[2]"]));
        check(&[(Int8, &[1][..]); 8192], 0, Ok(&["int8[8192]"]));
        check(&[(Int8, &[1][..]); 8193], 0, Err("inputs"));
        check(&[], 0, Err("inputs"));
        check(&[(Int8, &[])], 0, Err("inputs"));
        check(&[(Int8, &[2])], 1, Err("axis"));
        check(&[(Int8, &[2])], u32::MAX, Err("axis"));
        check(&[(Int8, &[2]), (Uint8, &[2])], 0, Err("inputs[1]"));
        check(&[(Int8, &[2]), (Int8, &[2]), (Int8, &[2, 1])], 0, Err("inputs[2]"));
        check(&[(Int8, &[2, 3]), (Int8, &[3, 3])], 1, Err("inputs[1]"));
        check(&[(Int8, &[1 << 30]), (Int8, &[1 << 30])], 0, Err("inputs[1]"));
        check(&[(Int8, &[1 << 30, 1]), (Int8, &[1 << 30, 1])], 1, Err("output"));
    }

    #[test]
    fn expand() {
        check("expand", &[3, 1], &[list(&[2, 3, 4])], Ok(&["float32[2, 3, 4]"]));
        check("expand", &[], &[list(&[])], Ok(&["float32[]"]));
        check("expand", &[3, 1], &[list(&[3])], Err("newShape"));
        check("expand", &[3, 1], &[list(&[4, 1])], Err("newShape"));
        check("expand", &[1], &[list(&[1; 9])], Err("newShape"));
        check("expand", &[1], &[list(&[0])], Err("output"));
        check("expand", &[1], &[list(&[u32::MAX, u32::MAX])], Err("output"));
    }

    #[test]
    fn pad() {
        let (constant, reflection) = (Enumeration(0), Enumeration(2));
        check("pad", &[2, 3], &[list(&[1, 0]), list(&[2, 1])], Ok(&["float32[5, 4]"]));
        check("pad", &[2], &[list(&[2]), list(&[0]), constant], Ok(&["float32[4]"]));
        check("pad", &[2], &[list(&[1]), list(&[1]), reflection.clone()], Ok(&["float32[4]"]));
        check("pad", &[2], &[list(&[2]), list(&[1]), reflection.clone()], Err("beginningPadding"));
        check("pad", &[2], &[list(&[1]), list(&[2]), reflection], Err("endingPadding"));
        check("pad", &[2], &[list(&[]), list(&[1])], Err("beginningPadding"));
        check("pad", &[2], &[list(&[1]), list(&[1, 1])], Err("endingPadding"));
        check("pad", &[2], &[list(&[u32::MAX]), list(&[u32::MAX])], Err("beginningPadding and endingPadding"));
    }

    #[test]
    fn reshape() {
        check("reshape", &[2, 3], &[list(&[6, 1])], Ok(&["float32[6, 1]"]));
        check("reshape", &[1, 1], &[list(&[])], Ok(&["float32[]"]));
        check("reshape", &[2, 3], &[list(&[5])], Err("newShape"));
        check("reshape", &[2, 3], &[list(&[0])], Err("newShape"));
        check("reshape", &[1], &[list(&[1; 9])], Err("newShape"));
        check("reshape", &[1], &[list(&[1 << 31])], Err("newShape"));
        check("reshape", &[1], &[list(&[1 << 30; 8])], Err("newShape"));
    }

    #[test]
    fn reverse() {
        check("reverse", &[2, 3], &[], Ok(&["float32[2, 3]"]));
        check("reverse", &[], &[], Ok(&["float32[]"]));
        check("reverse", &[2, 3], &[list(&[1, 0])], Ok(&["float32[2, 3]"]));
        check("reverse", &[2, 3], &[list(&[2])], Err("axes"));
        check("reverse", &[2, 3], &[list(&[0, 0])], Err("axes"));
    }

    #[test]
    fn slice() {
        check("slice", &[5, 3], &[list(&[1, 0]), list(&[4, 3])], Ok(&["float32[4, 3]"]));
        check("slice", &[5], &[list(&[0]), list(&[5]), list(&[2])], Ok(&["float32[3]"]));
        check("slice", &[5], &[list(&[4]), list(&[1]), list(&[u32::MAX])], Ok(&["float32[1]"]));
        check("slice", &[], &[list(&[]), list(&[])], Ok(&["float32[]"]));
        check("slice", &[5], &[list(&[0]), list(&[0])], Err("sizes"));
        check("slice", &[5], &[list(&[0, 0]), list(&[1])], Err("starts"));
        check("slice", &[5], &[list(&[0]), list(&[])], Err("sizes"));
        check("slice", &[5], &[list(&[0]), list(&[1]), list(&[1, 1])], Err("strides"));
        check("slice", &[5], &[list(&[0]), list(&[1]), list(&[0])], Err("strides"));
        check("slice", &[5], &[list(&[6]), list(&[1])], Err("starts"));
        check("slice", &[5], &[list(&[5]), list(&[1])], Err("sizes"));
        check("slice", &[5], &[list(&[1]), list(&[u32::MAX])], Err("sizes"));
    }

    #[test]
    fn split() {
        check("split", &[4, 3], &[Unsigned(2)], Ok(&["float32[2, 3]", "float32[2, 3]"]));
        check("split", &[4, 3], &[list(&[2, 1]), Unsigned(1)], Ok(&["float32[4, 2]", "float32[4, 1]"]));
        check("split", &[4, 3], &[Unsigned(2), Unsigned(2)], Err("axis"));
        check("split", &[4], &[Unsigned(0)], Err("splits"));
        check("split", &[4], &[Unsigned(3)], Err("splits"));
        check("split", &[1 << 14], &[Unsigned(1 << 14)], Err("splits"));
        check("split", &[4], &[list(&[])], Err("splits"));
        check("split", &[4], &[list(&[4, 0])], Err("splits"));
        check("split", &[4], &[list(&[2, 1])], Err("splits"));
        check("split", &[4], &[list(&[5, u32::MAX])], Err("splits"));
        check("split", &[8193], &[list(&[1; 8193])], Err("splits"));
        check("split", &[], &[Unsigned(1)], Err("input"));
    }

    #[test]
    fn tile() {
        check("tile", &[2, 3], &[list(&[1, 2])], Ok(&["float32[2, 6]"]));
        check("tile", &[2, 3], &[list(&[2])], Err("repetitions"));
        check("tile", &[2], &[list(&[0])], Err("repetitions"));
        check("tile", &[2], &[list(&[u32::MAX])], Err("repetitions"));
    }

    #[test]
    fn transpose() {
        check("transpose", &[2, 3, 4], &[], Ok(&["float32[4, 3, 2]"]));
        check("transpose", &[2, 3, 4], &[list(&[1, 2, 0])], Ok(&["float32[3, 4, 2]"]));
        check("transpose", &[], &[list(&[])], Ok(&["float32[]"]));
        check("transpose", &[2, 3], &[list(&[0])], Err("permutation"));
        check("transpose", &[2, 3], &[list(&[0, 2])], Err("permutation"));
        check("transpose", &[2, 3], &[list(&[1, 1])], Err("permutation"));
    }

    #[test]
    fn triangular() {
        check("triangular", &[2, 3, 4], &[Boolean(false), Signed(-1)], Ok(&["float32[2, 3, 4]"]));
        check("triangular", &[3], &[], Err("input"));
    }
}
