//! Normalizations.

use super::layout::InputOperandLayout;
use crate::error::Result;
use crate::graph::data_type::FLOAT;
use crate::graph::operator::Ranks::SameRankAs;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{N, Outputs, Rule, at_least, one, operators, rank};
use crate::graph::shape::{check_axes, check_axis, check_shape};
use crate::graph::{OperandId, Operands, Shape};
use std::borrow::Cow;

operators! {
    /// A normalization by statistics that were computed elsewhere.
    pub struct BatchNormalization: "MLBatchNormalizationOptions" in "api-mlgraphbuilder-batchnorm" {
        input: OperandId,
        mean: OperandId,
        variance: OperandId,
    } options {
        /// The factor of each feature: [features]. Default: 1.
        scale: Option<OperandId> = None,
        /// The offset of each feature: [features]. Default: 0.
        bias: Option<OperandId> = None,
        /// The axis of the features.
        axis: u32 = 1,
        /// A number added to the variance.
        epsilon: f64 = 1e-5,
    }
    [
        ("input", Of(FLOAT), at_least(1)),
        ("mean", SameAs("input"), rank(1)),
        ("variance", SameAs("input"), rank(1)),
        ("scale", SameAs("input"), rank(1)),
        ("bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Normalizes the input with the given mean and variance of each feature along one axis:
        /// scale * (input - mean) / sqrt(variance + epsilon) + bias. The other operands are 1-D, of that axis's size.
        "batchNormalization"
    }
}

operators! {
    /// A normalization of every channel of every batch by its own statistics.
    pub struct InstanceNormalization: "MLInstanceNormalizationOptions" in "api-mlgraphbuilder-instancenorm" {
        input: OperandId,
    } options {
        /// The factor of each channel: [channels]. Default: 1.
        scale: Option<OperandId> = None,
        /// The offset of each channel: [channels]. Default: 0.
        bias: Option<OperandId> = None,
        /// A number added to the variance.
        epsilon: f64 = 1e-5,
        /// The layout of the input and of the output.
        layout: InputOperandLayout = InputOperandLayout::Nchw,
    }
    [
        ("input", Of(FLOAT), rank(4)),
        ("scale", SameAs("input"), rank(1)),
        ("bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), rank(4))] {
        /// Normalizes each channel of each batch of a 4-D input with its own mean and variance over the two spatial
        /// dimensions. scale and bias are 1-D, of the number of channels.
        "instanceNormalization"
    }
}

operators! {
    /// A normalization over some dimensions by their own statistics.
    pub struct LayerNormalization: "MLLayerNormalizationOptions" in "api-mlgraphbuilder-layernorm" {
        input: OperandId,
    } options {
        /// The factor, with the sizes of the axes. Default: 1.
        scale: Option<OperandId> = None,
        /// The offset, with the sizes of the axes. Default: 0.
        bias: Option<OperandId> = None,
        /// The axes over which mean and variance are taken; default: all but the first.
        axes: Option<Vec<u32>> = None,
        /// A number added to the variance.
        epsilon: f64 = 1e-5,
    }
    [
        ("input", Of(FLOAT), N),
        ("scale", SameAs("input"), N),
        ("bias", SameAs("input"), N),
    ] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// Normalizes the input with its own mean and variance over the given axes (all but the first if they are not
        /// given). scale and bias have the sizes of these axes, in their order.
        "layerNormalization"
    }
}

operators! {
    /// A normalization over some dimensions by the root of the mean of their squares.
    pub struct RmsNormalization: "" in "" {
        input: OperandId,
    } options {
        /// The factor, with the sizes of the axes. Default: 1.
        scale: Option<OperandId> = None,
        /// The axes over which the mean is taken; default: all but the first.
        axes: Option<Vec<u32>> = None,
        /// What is added to the mean of the squares.
        epsilon: f64 = 1e-5,
    }
    [
        ("input", Of(FLOAT), N),
        ("scale", SameAs("input"), N),
    ] -> One [("output", SameAs("input"), SameRankAs("input"))] {
        /// scale * input / sqrt(mean(input²) + epsilon), rounded once, whatever the squares are. scale has the sizes of the axes, in
        /// their order.
        "rmsNormalization"
    }
}

/// Checks that each of these operands that is there has exactly that shape.
fn check_shapes(operands: &Operands<'_>, named: &[(&str, Option<OperandId>)], shape: &[u32]) -> Result<()> {
    for (name, id) in named {
        if let Some(id) = *id {
            check_shape(name, operands.shape(id), shape)?;
        }
    }
    Ok(())
}

impl Rule for BatchNormalization {
    /// `#api-mlgraphbuilder-batchnorm`. (epsilon is used as float32: cast to float16, a small one would be 0.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        check_axis("axis", self.axis, input.rank())?;
        let named = [("mean", Some(self.mean)), ("variance", Some(self.variance)), ("scale", self.scale), ("bias", self.bias)];
        check_shapes(operands, &named, &[input.shape[self.axis as usize]])?;
        one(input.clone())
    }
}

impl Rule for InstanceNormalization {
    /// `#api-mlgraphbuilder-instancenorm`. (epsilon is used as float32: cast to float16, a small one would be 0.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let input = operands.descriptor(self.input);
        let channels = input.shape[self.layout.channel_axis()];
        check_shapes(operands, &[("scale", self.scale), ("bias", self.bias)], &[channels])?;
        one(input.clone())
    }
}

/// The axes to normalize over, for an input of that rank: all but the first when none are given.
fn axes_or_default(axes: Option<&Vec<u32>>, rank: usize) -> Cow<'_, [u32]> {
    match axes {
        Some(axes) => Cow::Borrowed(axes),
        None => Cow::Owned((1..rank as u32).collect()),
    }
}

impl LayerNormalization {
    pub fn axes(&self, rank: usize) -> Cow<'_, [u32]> {
        axes_or_default(self.axes.as_ref(), rank)
    }
}

impl RmsNormalization {
    pub fn axes(&self, rank: usize) -> Cow<'_, [u32]> {
        axes_or_default(self.axes.as_ref(), rank)
    }
}

/// The output of a normalization over axes, after its checks.
fn over_axes(operands: &Operands<'_>, input: OperandId, axes: &[u32], named: &[(&str, Option<OperandId>)]) -> Result<Outputs> {
    let input = operands.descriptor(input);
    check_axes("axes", axes, input.rank())?;
    let sizes: Shape = axes.iter().map(|&axis| input.shape[axis as usize]).collect();
    check_shapes(operands, named, &sizes)?;
    one(input.clone())
}

impl Rule for LayerNormalization {
    /// `#api-mlgraphbuilder-layernorm`. (epsilon is used as float32: cast to float16, a small one would be 0.)
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let axes = self.axes(operands.shape(self.input).len());
        over_axes(operands, self.input, &axes, &[("scale", self.scale), ("bias", self.bias)])
    }
}

impl Rule for RmsNormalization {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let axes = self.axes(operands.shape(self.input).len());
        over_axes(operands, self.input, &axes, &[("scale", self.scale)])
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    /// Checks an operator whose operands are the first ones, in the order of the row, and then these options.
    fn check(name: &str, operands: &[(DataType, &[u32])], options: &[Value], expected: Result<&[&str], &str>) {
        let ids = (0..operands.len() as u32).map(|id| Operand(OperandId(id)));
        let values: Vec<Value> = ids.chain(options.iter().cloned()).collect();
        testing::check(name, operands, &values, expected);
    }

    fn f32s<'a>(shapes: &[&'a [u32]]) -> Vec<(DataType, &'a [u32])> {
        shapes.iter().map(|&shape| (Float32, shape)).collect()
    }

    #[test]
    fn batch_normalization() {
        let check = |operands: &[(DataType, &[u32])], options: &[Value], expected| {
            check("batchNormalization", operands, options, expected);
        };
        check(&f32s(&[&[2, 3], &[3], &[3]]), &[], Ok(&["float32[2, 3]"]));
        check(&f32s(&[&[2, 3], &[3], &[3], &[3], &[3]]), &[], Ok(&["float32[2, 3]"]));
        check(&f32s(&[&[2, 3], &[2], &[2], &[2], &[2]]), &[Unsigned(0)], Ok(&["float32[2, 3]"]));
        check(&[(Int32, &[2, 3]), (Int32, &[3]), (Int32, &[3])], &[], Err("input"));
        check(&[(Float32, &[2, 3]), (Float16, &[3]), (Float32, &[3])], &[], Err("mean"));
        check(&[(Float32, &[2, 3]), (Float32, &[3]), (Float16, &[3])], &[], Err("variance"));
        check(&f32s(&[&[], &[3], &[3]]), &[], Err("input"));
        check(&f32s(&[&[3], &[3], &[3]]), &[], Err("axis"));
        check(&f32s(&[&[2, 3], &[3], &[3], &[3], &[3]]), &[Unsigned(2)], Err("axis"));
        check(&f32s(&[&[2, 3], &[3], &[3], &[3], &[3]]), &[Unsigned(u32::MAX)], Err("axis"));
        check(&f32s(&[&[2, 3], &[2], &[3]]), &[], Err("mean"));
        check(&f32s(&[&[2, 3], &[1, 3], &[3]]), &[], Err("mean"));
        check(&f32s(&[&[2, 3], &[3], &[1]]), &[], Err("variance"));
        check(&f32s(&[&[2, 3], &[3], &[3], &[2]]), &[], Err("scale"));
        check(&f32s(&[&[2, 3], &[3], &[3], &[3], &[1]]), &[], Err("bias"));
        let types = [(Float32, &[2, 3][..]), (Float32, &[3]), (Float32, &[3]), (Float32, &[3]), (Float16, &[3])];
        check(&types, &[], Err("bias"));
    }

    #[test]
    fn instance_normalization() {
        let check = |operands: &[(DataType, &[u32])], options: &[Value], expected| {
            check("instanceNormalization", operands, options, expected);
        };
        check(&f32s(&[&[1, 2, 3, 4]]), &[], Ok(&["float32[1, 2, 3, 4]"]));
        check(&f32s(&[&[1, 2, 3, 4], &[2], &[2]]), &[], Ok(&["float32[1, 2, 3, 4]"]));
        let nhwc = [Double(0.1), Enumeration(1)];
        check(&f32s(&[&[1, 2, 3, 4], &[4], &[4]]), &nhwc, Ok(&["float32[1, 2, 3, 4]"]));
        check(&[(Int32, &[1, 2, 3, 4])], &[], Err("input"));
        check(&f32s(&[&[2, 3, 4]]), &[], Err("input"));
        check(&f32s(&[&[1, 2, 3, 4], &[4]]), &[], Err("scale"));
        check(&f32s(&[&[1, 2, 3, 4], &[2], &[2]]), &nhwc, Err("scale"));
        check(&f32s(&[&[1, 2, 3, 4], &[2], &[3]]), &[], Err("bias"));
        check(&f32s(&[&[1, 2, 3, 4], &[2], &[2, 1]]), &[], Err("bias"));
        check(&[(Float32, &[1, 2, 3, 4]), (Float16, &[2])], &[], Err("scale"));
    }

    #[test]
    fn layer_normalization() {
        let check = |operands: &[(DataType, &[u32])], options: &[Value], expected| {
            check("layerNormalization", operands, options, expected);
        };
        let axes = |axes: &[u32]| UnsignedList(axes.to_vec());
        check(&f32s(&[&[2, 3, 4]]), &[], Ok(&["float32[2, 3, 4]"]));
        check(&f32s(&[&[2, 3, 4], &[3, 4], &[3, 4]]), &[], Ok(&["float32[2, 3, 4]"]));
        check(&f32s(&[&[2, 3, 4], &[4, 2], &[4, 2]]), &[axes(&[2, 0])], Ok(&["float32[2, 3, 4]"]));
        check(&f32s(&[&[2, 3, 4], &[], &[]]), &[axes(&[])], Ok(&["float32[2, 3, 4]"]));
        check(&f32s(&[&[], &[], &[]]), &[], Ok(&["float32[]"]));
        check(&f32s(&[&[3], &[], &[]]), &[], Ok(&["float32[3]"]));
        check(&[(Int32, &[2, 3])], &[], Err("input"));
        check(&f32s(&[&[2, 3, 4], &[4], &[4]]), &[axes(&[3])], Err("axes"));
        check(&f32s(&[&[2, 3, 4], &[4], &[4]]), &[axes(&[2, 2])], Err("axes"));
        check(&f32s(&[&[2, 3, 4], &[4], &[4]]), &[axes(&[u32::MAX; 100])], Err("axes"));
        check(&f32s(&[&[], &[], &[]]), &[axes(&[0])], Err("axes"));
        check(&f32s(&[&[2, 3, 4], &[4]]), &[], Err("scale"));
        check(&f32s(&[&[2, 3, 4], &[4, 3]]), &[], Err("scale"));
        check(&f32s(&[&[2, 3, 4], &[3, 4], &[1, 4]]), &[], Err("bias"));
        check(&f32s(&[&[2, 3, 4], &[2, 4], &[2, 4]]), &[axes(&[2, 0])], Err("scale"));
        check(&[(Float32, &[2, 3]), (Float16, &[3])], &[], Err("scale"));
    }
}
