//! Convolutions.

use super::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
use crate::error::{Error, Result};
use crate::graph::data_type::FLOAT;
use crate::graph::descriptor::is_valid_dimension;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, one, operators, rank};
use crate::graph::shape::{check_positive, check_shape, window_count};
use crate::graph::{Descriptor, OperandId, Operands};

operators! {
    /// A 2-D convolution.
    pub struct Conv2d: "MLConv2dOptions" in "api-mlgraphbuilder-conv2d" {
        input: OperandId,
        filter: OperandId,
    } options {
        /// Rows and columns of zeros around the input: [beginning height, ending height, beginning width, ending width].
        padding: [u32; 4] = [0; 4],
        /// The step of the filter: [height, width].
        strides: [u32; 2] = [1; 2],
        /// The distance between the filter's elements on the input: [height, width].
        dilations: [u32; 2] = [1; 2],
        /// The number of groups of channels; each group of output channels sees one of input channels.
        groups: u32 = 1,
        /// The layout of the input and of the output.
        input_layout: InputOperandLayout = InputOperandLayout::Nchw,
        /// The layout of the filter.
        filter_layout: Conv2dFilterOperandLayout = Conv2dFilterOperandLayout::Oihw,
        /// The bias of each output channel: [outputChannels].
        bias: Option<OperandId> = None,
    }
    [
        ("input", Of(FLOAT), rank(4)),
        ("filter", SameAs("input"), rank(4)),
        ("bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), rank(4))] {
        /// Computes a 2-D convolution of a 4-D input with a 4-D filter. In the default layouts an input
        /// [batches, inputChannels, height, width] and a filter [outputChannels, inputChannels / groups, filterHeight,
        /// filterWidth] give an output [batches, outputChannels, outputHeight, outputWidth].
        "conv2d"
    }
}

impl Conv2d {
    /// A convolution with the options that WebNN's defaults are, apart from the layouts.
    pub fn new(
        input: OperandId,
        filter: OperandId,
        input_layout: InputOperandLayout,
        filter_layout: Conv2dFilterOperandLayout,
    ) -> Conv2d {
        let (padding, strides, dilations) = ([0; 4], [1; 2], [1; 2]);
        Conv2d { input, filter, padding, strides, dilations, groups: 1, input_layout, filter_layout, bias: None }
    }
}

operators! {
    /// A transposed 2-D convolution.
    pub struct ConvTranspose2d: "MLConvTranspose2dOptions" in "api-mlgraphbuilder-convtranspose2d" {
        input: OperandId,
        filter: OperandId,
    } options {
        /// Rows and columns to remove from the output: [beginning height, ending height, beginning width, ending width].
        padding: [u32; 4] = [0; 4],
        /// The step of the filter on the output from one input element to the next: [height, width].
        strides: [u32; 2] = [1; 2],
        /// The distance between the filter's elements on the output: [height, width].
        dilations: [u32; 2] = [1; 2],
        /// Rows and columns added to the output's size, where strides leave it open: [height, width].
        output_padding: [u32; 2] = [0; 2],
        /// The output's size, [height, width]; outputPadding is then ignored.
        output_sizes: Option<[u32; 2]> = None,
        /// The number of groups of channels; each group of output channels sees one of input channels. If these
        /// are no multiple of groups, the last groups see fewer, or none.
        groups: u32 = 1,
        /// The layout of the input and of the output.
        input_layout: InputOperandLayout = InputOperandLayout::Nchw,
        /// The layout of the filter.
        filter_layout: ConvTranspose2dFilterOperandLayout = ConvTranspose2dFilterOperandLayout::Iohw,
        /// The bias of each output channel: [outputChannels].
        bias: Option<OperandId> = None,
    }
    [
        ("input", Of(FLOAT), rank(4)),
        ("filter", SameAs("input"), rank(4)),
        ("bias", SameAs("input"), rank(1)),
    ] -> One [("output", SameAs("input"), rank(4))] {
        /// Computes a transposed 2-D convolution of a 4-D input with a 4-D filter: every input value adds a multiple of the
        /// filter to the output. In the default layouts an input [batches, inputChannels, height, width] and a filter
        /// [inputChannels, outputChannels / groups, filterHeight, filterWidth] give an output [batches, outputChannels,
        /// outputHeight, outputWidth].
        "convTranspose2d"
    }
}

impl ConvTranspose2d {
    /// A transposed convolution with the options that WebNN's defaults are, apart from the layouts.
    pub fn new(
        input: OperandId,
        filter: OperandId,
        input_layout: InputOperandLayout,
        filter_layout: ConvTranspose2dFilterOperandLayout,
    ) -> ConvTranspose2d {
        ConvTranspose2d {
            input,
            filter,
            padding: [0; 4],
            strides: [1; 2],
            dilations: [1; 2],
            output_padding: [0; 2],
            output_sizes: None,
            groups: 1,
            input_layout,
            filter_layout,
            bias: None,
        }
    }
}

/// Groups must be there.
fn check_groups(groups: u32) -> Result<()> {
    if groups == 0 {
        return Err(Error::argument("groups", groups, "a number greater than 0"));
    }
    Ok(())
}

impl Rule for Conv2d {
    /// `#api-mlgraphbuilder-conv2d`, from the check of strides on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_positive("strides", &self.strides)?;
        check_positive("dilations", &self.dilations)?;
        check_groups(self.groups)?;
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
        let output_height = window_count(height, filter_height, (top, bottom), self.strides[0], self.dilations[0]).floor;
        let output_width = window_count(width, filter_width, (left, right), self.strides[1], self.dilations[1]).floor;
        let (Some(output_height), Some(output_width)) = (output_height, output_width) else {
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

/// *Calculate convtranspose output size*; it can be negative.
fn conv_transpose_output_size(input: u32, filter: u32, padding: (u32, u32), stride: u32, dilation: u32) -> i128 {
    let effective_filter = (filter as i128 - 1) * dilation as i128 + 1;
    (input as i128 - 1) * stride as i128 + effective_filter - padding.0 as i128 - padding.1 as i128
}

impl Rule for ConvTranspose2d {
    /// `#api-mlgraphbuilder-convtranspose2d`, from the check of strides on.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        check_positive("strides", &self.strides)?;
        check_positive("dilations", &self.dilations)?;
        let too_much_padding = self.output_padding.iter().zip(&self.strides).any(|(padding, stride)| padding >= stride);
        if self.output_sizes.is_none() && too_much_padding {
            return Err(Error::argument(
                "outputPadding",
                format!("{:?}", self.output_padding),
                format!("numbers smaller than the strides {:?}", self.strides),
            ));
        }
        check_groups(self.groups)?;
        let [batches, input_channels, height, width] = self.input_layout.to_nchw(operands.shape(self.input));
        let [filter_channels, group_channels, filter_height, filter_width] =
            self.filter_layout.to_iohw(operands.shape(self.filter));
        if input_channels != filter_channels {
            return Err(Error::argument(
                "filter",
                format!("{filter_channels} input channels"),
                format!("the input's {input_channels} channels"),
            ));
        }
        let output_channels = group_channels as u64 * self.groups as u64;
        if !is_valid_dimension(output_channels) {
            return Err(Error::argument("groups", format!("{output_channels} output channels"), "1 to 2147483647"));
        }
        let output_channels = output_channels as u32;
        if let Some(bias) = self.bias {
            check_shape("bias", operands.shape(bias), &[output_channels])?;
        }
        let [top, bottom, left, right] = self.padding;
        let calculated = [
            conv_transpose_output_size(height, filter_height, (top, bottom), self.strides[0], self.dilations[0]),
            conv_transpose_output_size(width, filter_width, (left, right), self.strides[1], self.dilations[1]),
        ];
        let mut sizes = [0; 2];
        for axis in 0..2 {
            let stride = self.strides[axis] as i128;
            let size = match self.output_sizes {
                Some(output_sizes) => {
                    let allowed = calculated[axis]..calculated[axis] + stride;
                    if !allowed.contains(&(output_sizes[axis] as i128)) {
                        return Err(Error::argument(
                            "outputSizes",
                            format!("{} in {output_sizes:?}", output_sizes[axis]),
                            format!("{} to {}", allowed.start, allowed.end - 1),
                        ));
                    }
                    output_sizes[axis] as i128
                }
                None => calculated[axis] + self.output_padding[axis] as i128,
            };
            match u64::try_from(size) {
                Ok(valid) if is_valid_dimension(valid) => sizes[axis] = valid as u32,
                _ => {
                    let axis = ["height", "width"][axis];
                    return Err(Error::argument("output", format!("a {axis} of {size}"), "1 to 2147483647"));
                }
            }
        }
        let shape = self.input_layout.of_nchw([batches, output_channels, sizes[0], sizes[1]]);
        one(Descriptor::new(operands.data_type(self.input), shape))
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::attribute::Value::{self, *};
    use crate::graph::testing;
    use crate::graph::{DataType, DataType::*, OperandId};

    const HUGE: u32 = u32::MAX;

    fn list(list: &[u32]) -> Value {
        UnsignedList(list.to_vec())
    }

    /// Checks an operator with its operands and its options as `(position among the options, value)`.
    fn check(
        name: &str,
        operands: &[(DataType, &[u32])],
        options: &[(usize, Value)],
        expected: Result<&[&str], &str>,
        bias_at: usize,
    ) {
        let mut values = vec![Absent; 2 + bias_at + 1];
        values[0] = Operand(OperandId(0));
        values[1] = Operand(OperandId(1));
        if operands.len() > 2 {
            values[2 + bias_at] = Operand(OperandId(2));
        }
        for (position, value) in options {
            values[2 + position] = value.clone();
        }
        testing::check(name, operands, &values, expected);
    }

    #[test]
    fn conv2d() {
        let (padding, strides, dilations, groups, input_layout, filter_layout) = (0, 1, 2, 3, 4, 5);
        let f32s = |shapes: &[&'static [u32]]| shapes.iter().map(|&shape| (Float32, shape)).collect::<Vec<_>>();
        let check = |operands: &[(DataType, &[u32])], options: &[(usize, Value)], expected| {
            check("conv2d", operands, options, expected, 6);
        };
        let plain = f32s(&[&[1, 2, 5, 5], &[4, 2, 3, 3]]);
        check(&plain, &[], Ok(&["float32[1, 4, 3, 3]"]));
        check(&[(Float16, &[1, 2, 5, 5]), (Float16, &[4, 2, 3, 3])], &[], Ok(&["float16[1, 4, 3, 3]"]));
        let options = [(padding, list(&[1, 0, 0, 2])), (strides, list(&[2, 3]))];
        check(&plain, &options, Ok(&["float32[1, 4, 2, 2]"]));
        check(&plain, &[(dilations, list(&[2, 1]))], Ok(&["float32[1, 4, 1, 3]"]));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 1, 3, 3], &[4]]), &[(groups, Unsigned(2))], Ok(&["float32[1, 4, 3, 3]"]));
        let nhwc = (input_layout, Enumeration(1));
        for (layout, filter) in [&[4, 2, 3, 1][..], &[3, 1, 2, 4], &[4, 3, 1, 2], &[2, 3, 1, 4]].iter().enumerate() {
            let operands = [(Float32, &[1, 6, 5, 2][..]), (Float32, filter)];
            let options = [nhwc.clone(), (filter_layout, Enumeration(layout as u32))];
            check(&operands, &options, Ok(&["float32[1, 4, 5, 4]"]));
        }
        // The row.
        check(&[(Int32, &[1, 2, 5, 5]), (Int32, &[4, 2, 3, 3])], &[], Err("input"));
        check(&[(Float32, &[1, 2, 5, 5]), (Float16, &[4, 2, 3, 3])], &[], Err("filter"));
        check(&f32s(&[&[2, 5, 5], &[4, 2, 3, 3]]), &[], Err("input"));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 2, 3]]), &[], Err("filter"));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 2, 3, 3], &[1, 4]]), &[], Err("bias"));
        check(&[(Float32, &[1, 2, 5, 5]), (Float32, &[4, 2, 3, 3]), (Int32, &[4])], &[], Err("bias"));
        // The steps.
        check(&plain, &[(padding, list(&[0, 0, 0]))], Err("padding"));
        check(&plain, &[(strides, list(&[1]))], Err("strides"));
        check(&plain, &[(strides, list(&[1, 0]))], Err("strides"));
        check(&plain, &[(dilations, list(&[1, 1, 1]))], Err("dilations"));
        check(&plain, &[(dilations, list(&[0, 1]))], Err("dilations"));
        check(&plain, &[(groups, Unsigned(0))], Err("groups"));
        check(&plain, &[(groups, Unsigned(3))], Err("filter"));
        check(&plain, &[(groups, Unsigned(2))], Err("filter"));
        check(&plain, &[(groups, Unsigned(HUGE))], Err("filter"));
        check(&f32s(&[&[1, 2, 5, 5], &[3, 1, 3, 3]]), &[(groups, Unsigned(2))], Err("groups"));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 2, 3, 3], &[3]]), &[], Err("bias"));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 2, 6, 3]]), &[], Err("filter"));
        check(&f32s(&[&[1, 2, 5, 5], &[4, 2, 3, 7]]), &[], Err("filter"));
        check(&plain, &[(dilations, list(&[HUGE, HUGE]))], Err("filter"));
        check(&plain, &[(padding, list(&[HUGE, HUGE, HUGE, HUGE]))], Err("filter"));
        check(&plain, &[(padding, list(&[1 << 30, 0, 1 << 30, 0]))], Err("output"));
        let options = [(padding, list(&[HUGE, HUGE, HUGE, HUGE])), (strides, list(&[HUGE, HUGE]))];
        check(&plain, &options, Ok(&["float32[1, 4, 3, 3]"]));
    }

    #[test]
    fn conv_transpose2d() {
        let (padding, strides, dilations, output_padding, output_sizes) = (0, 1, 2, 3, 4);
        let (groups, input_layout, filter_layout) = (5, 6, 7);
        let f32s = |shapes: &[&'static [u32]]| shapes.iter().map(|&shape| (Float32, shape)).collect::<Vec<_>>();
        let check = |operands: &[(DataType, &[u32])], options: &[(usize, Value)], expected| {
            check("convTranspose2d", operands, options, expected, 8);
        };
        let plain = f32s(&[&[1, 2, 3, 3], &[2, 4, 3, 3]]);
        check(&plain, &[], Ok(&["float32[1, 4, 5, 5]"]));
        check(&plain, &[(strides, list(&[3, 2])), (output_padding, list(&[2, 1]))], Ok(&["float32[1, 4, 11, 8]"]));
        check(&plain, &[(strides, list(&[3, 2])), (output_sizes, list(&[9, 8]))], Ok(&["float32[1, 4, 9, 8]"]));
        check(&plain, &[(padding, list(&[1, 0, 2, 2])), (dilations, list(&[1, 3]))], Ok(&["float32[1, 4, 4, 5]"]));
        check(&f32s(&[&[1, 2, 3, 3], &[2, 4, 3, 3], &[8]]), &[(groups, Unsigned(2))], Ok(&["float32[1, 8, 5, 5]"]));
        let nhwc = (input_layout, Enumeration(1));
        for (layout, filter) in [&[2, 4, 3, 1][..], &[3, 1, 4, 2], &[4, 3, 1, 2]].iter().enumerate() {
            let operands = [(Float32, &[1, 6, 5, 2][..]), (Float32, filter)];
            let options = [nhwc.clone(), (filter_layout, Enumeration(layout as u32))];
            check(&operands, &options, Ok(&["float32[1, 8, 5, 4]"]));
        }
        // The row.
        check(&[(Int32, &[1, 2, 5, 5]), (Int32, &[2, 4, 3, 3])], &[], Err("input"));
        check(&[(Float32, &[1, 2, 5, 5]), (Float16, &[2, 4, 3, 3])], &[], Err("filter"));
        check(&f32s(&[&[2, 5, 5], &[2, 4, 3, 3]]), &[], Err("input"));
        check(&f32s(&[&[1, 2, 5, 5], &[2, 4, 3]]), &[], Err("filter"));
        check(&f32s(&[&[1, 2, 5, 5], &[2, 4, 3, 3], &[1, 4]]), &[], Err("bias"));
        // The steps.
        check(&plain, &[(padding, list(&[0, 0, 0]))], Err("padding"));
        check(&plain, &[(strides, list(&[1]))], Err("strides"));
        check(&plain, &[(strides, list(&[1, 0]))], Err("strides"));
        check(&plain, &[(dilations, list(&[1, 1, 1]))], Err("dilations"));
        check(&plain, &[(dilations, list(&[0, 1]))], Err("dilations"));
        check(&plain, &[(output_padding, list(&[0]))], Err("outputPadding"));
        check(&plain, &[(output_padding, list(&[0, 1]))], Err("outputPadding"));
        check(&plain, &[(strides, list(&[2, 2])), (output_padding, list(&[2, 0]))], Err("outputPadding"));
        check(&plain, &[(output_sizes, list(&[5]))], Err("outputSizes"));
        check(&plain, &[(groups, Unsigned(0))], Err("groups"));
        check(&f32s(&[&[1, 3, 3, 3], &[2, 4, 3, 3]]), &[], Err("filter"));
        // The input's channels need not be divided equally.
        check(&plain, &[(groups, Unsigned(3))], Ok(&["float32[1, 12, 5, 5]"]));
        check(&f32s(&[&[1, 1, 3, 3], &[1, 1, 2, 2]]), &[(groups, Unsigned(3))], Ok(&["float32[1, 3, 4, 4]"]));
        check(&plain, &[(groups, Unsigned(HUGE))], Err("groups"));
        check(&plain, &[(groups, Unsigned(1 << 29))], Err("groups"));
        check(&f32s(&[&[1, 2, 3, 3], &[2, 4, 3, 3], &[2]]), &[], Err("bias"));
        // Output padding that is ignored may be anything.
        let ignored = (output_padding, list(&[HUGE, HUGE]));
        check(&plain, &[ignored, (output_sizes, list(&[5, 5]))], Ok(&["float32[1, 4, 5, 5]"]));
        check(&plain, &[(output_sizes, list(&[6, 5]))], Err("outputSizes"));
        check(&plain, &[(output_sizes, list(&[5, 4]))], Err("outputSizes"));
        check(&plain, &[(strides, list(&[2, 2])), (output_sizes, list(&[9, 7]))], Err("outputSizes"));
        // A calculated size may be 0 or negative, if the sizes that are asked for are not.
        let nothing = (padding, list(&[3, 2, 0, 0]));
        check(&plain, std::slice::from_ref(&nothing), Err("output"));
        check(&plain, &[nothing, (output_sizes, list(&[0, 5]))], Err("output"));
        let strided = (strides, list(&[4, 1]));
        let negative = (padding, list(&[6, 6, 0, 0]));
        check(&plain, &[negative.clone(), strided.clone(), (output_padding, list(&[1, 0]))], Err("output"));
        check(&plain, &[negative.clone(), strided.clone(), (output_sizes, list(&[2, 5]))], Ok(&["float32[1, 4, 2, 5]"]));
        check(&plain, &[negative, strided, (output_sizes, list(&[3, 5]))], Err("outputSizes"));
        check(&plain, &[(padding, list(&[HUGE; 4]))], Err("output"));
        check(&plain, &[(strides, list(&[HUGE; 2])), (dilations, list(&[HUGE; 2]))], Err("output"));
        check(&plain, &[(strides, list(&[HUGE; 2])), (output_sizes, list(&[HUGE; 2]))], Err("outputSizes"));
    }
}
