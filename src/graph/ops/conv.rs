//! Convolutions.

use crate::error::{Error, Result};
use crate::graph::attribute::enumeration;
use crate::graph::data_type::FLOAT;
use crate::graph::descriptor::is_valid_dimension;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::check_shape;
use crate::graph::{Descriptor, OperandId, Operands};

enumeration! {
    /// How the dimensions of an input or output of an image operator are ordered.
    "MLInputOperandLayout" InputOperandLayout { Nchw "nchw", Nhwc "nhwc" }
}

impl InputOperandLayout {
    /// `[batches, channels, height, width]` of a shape in this layout.
    pub fn to_nchw<T: Copy>(self, shape: &[T]) -> [T; 4] {
        match self {
            InputOperandLayout::Nchw => [shape[0], shape[1], shape[2], shape[3]],
            InputOperandLayout::Nhwc => [shape[0], shape[3], shape[1], shape[2]],
        }
    }

    /// A shape in this layout, of `[batches, channels, height, width]`.
    pub fn of_nchw<T: Copy>(self, [n, c, h, w]: [T; 4]) -> [T; 4] {
        match self {
            InputOperandLayout::Nchw => [n, c, h, w],
            InputOperandLayout::Nhwc => [n, h, w, c],
        }
    }
}

enumeration! {
    /// How the dimensions of a filter of conv2d are ordered.
    "MLConv2dFilterOperandLayout" Conv2dFilterOperandLayout { Oihw "oihw", Hwio "hwio", Ohwi "ohwi", Ihwo "ihwo" }
}

impl Conv2dFilterOperandLayout {
    /// `[output channels, input channels of a group, height, width]` of a shape in this layout.
    pub fn to_oihw<T: Copy>(self, shape: &[T]) -> [T; 4] {
        let at = |o: usize, i: usize, h: usize, w: usize| [shape[o], shape[i], shape[h], shape[w]];
        match self {
            Conv2dFilterOperandLayout::Oihw => at(0, 1, 2, 3),
            Conv2dFilterOperandLayout::Hwio => at(3, 2, 0, 1),
            Conv2dFilterOperandLayout::Ohwi => at(0, 3, 1, 2),
            Conv2dFilterOperandLayout::Ihwo => at(3, 0, 1, 2),
        }
    }
}

operators! {
    /// A 2-D convolution.
    pub struct Conv2d: "MLConv2dOptions" in "api-mlgraphbuilder-conv2d" {
        input: OperandId,
        filter: OperandId,
    } options {
        /// Rows and columns of zeros around the input: [beginning height, ending height, beginning width, ending width].
        padding: [u32; 4] = [0; 4],
        strides: [u32; 2] = [1; 2],
        dilations: [u32; 2] = [1; 2],
        groups: u32 = 1,
        input_layout: InputOperandLayout = InputOperandLayout::Nchw,
        filter_layout: Conv2dFilterOperandLayout = Conv2dFilterOperandLayout::Oihw,
        bias: Option<OperandId> = None,
    }
    [
        ("input", Of(FLOAT), rank(4)),
        ("filter", SameAs("input"), rank(4)),
        ("bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), rank(4))] {
        /// Computes a 2-D convolution of a 4-D input with a 4-D filter.
        "conv2d"
    }
}

/// *Calculate conv output size*, rounded down; nothing when it is not a valid dimension.
fn conv_output_size(input: u32, filter: u32, beginning: u32, ending: u32, stride: u32, dilation: u32) -> Option<u32> {
    let effective_filter = (filter as u64 - 1) * dilation as u64 + 1;
    let padded = input as u64 + beginning as u64 + ending as u64;
    let size = padded.checked_sub(effective_filter)? / stride as u64 + 1;
    is_valid_dimension(size).then_some(size as u32)
}

/// Checks strides or dilations, none of which may be 0.
pub(super) fn check_positive(argument: &str, list: &[u32]) -> Result<()> {
    if list.contains(&0) {
        return Err(Error::argument(argument, format!("{list:?}"), "numbers greater than 0"));
    }
    Ok(())
}

impl Rule for Conv2d {
    /// `#api-mlgraphbuilder-conv2d`, from the check of strides on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_positive("strides", &self.strides)?;
        check_positive("dilations", &self.dilations)?;
        check_positive("groups", &[self.groups])?;
        let [batches, input_channels, height, width] = self.input_layout.to_nchw(operands.shape(self.input));
        let [output_channels, filter_channels, filter_height, filter_width] =
            self.filter_layout.to_oihw(operands.shape(self.filter));
        if input_channels % self.groups != 0 || input_channels / self.groups != filter_channels {
            return Err(Error::argument(
                "filter",
                format!("{filter_channels} input channels in each of {} groups", self.groups),
                format!("the input's {input_channels} channels, divided equally"),
            ));
        }
        if output_channels % self.groups != 0 {
            return Err(Error::argument(
                "groups",
                self.groups,
                format!("a divisor of the filter's {output_channels} output channels"),
            ));
        }
        if let Some(bias) = self.bias {
            check_shape("bias", operands.shape(bias), &[output_channels])?;
        }
        let [top, bottom, left, right] = self.padding;
        let sizes = (
            conv_output_size(height, filter_height, top, bottom, self.strides[0], self.dilations[0]),
            conv_output_size(width, filter_width, left, right, self.strides[1], self.dilations[1]),
        );
        let (Some(output_height), Some(output_width)) = sizes else {
            return Err(Error::argument(
                "filter",
                format!("{filter_height}x{filter_width} with dilations {:?}", self.dilations),
                format!("sizes that fit into the padded input of {height}x{width}"),
            ));
        };
        let shape = self.input_layout.of_nchw([batches, output_channels, output_height, output_width]);
        one(Descriptor::new(operands.data_type(self.input), shape))
    }
}
