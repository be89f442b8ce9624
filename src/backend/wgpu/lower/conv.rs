//! Convolutions: products of the filter and patches of the input, which are never made; directly where a group has few
//! channels.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands, Tensor};
use super::product::{End, Product};
use super::window::{countable, place};
use crate::backend::wgpu::shader::{coordinates, size};
use crate::backend::window::Axis;
use crate::error::{Error, Kind, Result};
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::ops::layout::InputOperandLayout::{self, Nchw, Nhwc};
use crate::graph::shape::strides;
use crate::graph::{DataType, OperandId};

/// With at most so many output channels in each of several groups, a convolution is done directly.
const FEW_CHANNELS: usize = 8;
/// Products of a transposed convolution that are held in memory.
const MOST_PRODUCTS: u128 = 1 << 25;

/// The parts of both kinds of convolution.
struct Convolution<'a> {
    label: &'static str,
    input: &'a Tensor,
    filter: &'a Tensor,
    bias: Option<OperandId>,
    layout: InputOperandLayout,
    groups: usize,
    /// Channels of the input and of the output in a group.
    input_channels: usize,
    output_channels: usize,
    /// The filter's height and width.
    window: [usize; 2],
    /// The distances in the filter from one output channel of a group to the next, and so on.
    filter_strides: FilterStrides,
    /// `let iy` and `let ix`, the places in the input under `ky` and `kx` for the output at `y` and `x`, as `i32`; those
    /// outside are not there.
    places: String,
}

struct FilterStrides {
    /// The distances from one group to the next, and within a group.
    group: usize,
    output: usize,
    input: usize,
    height: usize,
    width: usize,
}

pub fn conv2d(lowering: &mut Lowering<'_>, op: &Conv2d, operands: &Operands) -> Result<()> {
    let (input, filter, output) = (operands.input(op.input), operands.input(op.filter), operands.output());
    let [_, _, height, width] = op.input_layout.to_nchw(&input.shape);
    let [_, _, output_height, output_width] = op.input_layout.to_nchw(&output.shape);
    let [all_outputs, input_channels, filter_height, filter_width] = op.filter_layout.to_oihw(&filter.shape);
    let axis = |number, sizes| countable(Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding)));
    let rows = axis(0, (height, output_height, filter_height))?;
    let columns = axis(1, (width, output_width, filter_width))?;
    let [o, i, h, w] = op.filter_layout.to_oihw(&strides(&filter.shape));
    let groups = op.groups as usize;
    let output_channels = all_outputs / groups;
    let convolution = Convolution {
        label: "conv2d",
        input,
        filter,
        bias: op.bias,
        layout: op.input_layout,
        groups,
        input_channels,
        output_channels,
        window: [filter_height, filter_width],
        filter_strides: FilterStrides { group: o * output_channels, output: o, input: i, height: h, width: w },
        places: format!("let iy = {};\nlet ix = {};\n", place(&rows, "y", "ky"), place(&columns, "x", "kx")),
    };
    convolution.lower(lowering, operands)
}

pub fn conv_transpose2d(lowering: &mut Lowering<'_>, op: &ConvTranspose2d, operands: &Operands) -> Result<()> {
    let (input, filter, output) = (operands.input(op.input), operands.input(op.filter), operands.output());
    let [_, channels, height, width] = op.input_layout.to_nchw(&input.shape);
    let [_, _, output_height, output_width] = op.input_layout.to_nchw(&output.shape);
    let [_, output_channels, filter_height, filter_width] = op.filter_layout.to_iohw(&filter.shape);
    // The filter slides over the output.
    let axis = |number, sizes| {
        let axis = Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding));
        let Axis { input, padding, .. } = axis;
        if input + padding > i32::MAX as usize {
            let message = format!("an output of {input} elements after a padding of {padding}; shaders count to 2³¹ − 1");
            return Err(Error::new(Kind::Operation, message));
        }
        countable(axis)
    };
    let rows = axis(0, (output_height, height, filter_height))?;
    let columns = axis(1, (output_width, width, filter_width))?;
    let reached = |name: &str, axis: &Axis, position: &str, tap: &str| {
        let Axis { stride, dilation, padding, .. } = axis;
        let reached = format!("let reached_{name} = i32({position} + {}u) - i32({tap} * {dilation}u);\n", size(*padding));
        let place = format!("reached_{name}");
        let place = match stride {
            1 => place,
            // What is between the input's elements is before the first.
            _ => format!("select({place} / {stride}, -1, {place} < 0 || {place} % {stride} != 0)"),
        };
        format!("{reached}let {name} = {place};\n")
    };
    let [i, o, h, w] = op.filter_layout.to_iohw(&strides(&filter.shape));
    let groups = op.groups as usize;
    let input_channels = channels / groups;
    let convolution = Convolution {
        label: "convTranspose2d",
        input,
        filter,
        bias: op.bias,
        layout: op.input_layout,
        groups,
        input_channels,
        output_channels,
        window: [filter_height, filter_width],
        filter_strides: FilterStrides { group: i * input_channels, output: o, input: i, height: h, width: w },
        places: reached("iy", &rows, "y", "ky") + &reached("ix", &columns, "x", "kx"),
    };
    let count = |sizes: [usize; 6]| sizes.into_iter().map(|size| size as u128).product::<u128>();
    let products = count([input.shape[0], groups * output_channels, filter_height, filter_width, height, width]);
    // Most elements of the filter are between the input's elements when it moves by more than one, and some are outside in any case:
    // nothing is multiplied there, unless that would take too much memory. (A product of 0 and an infinite weight would be NaN, of an
    // output that the weight is no part of.)
    let is_spread = products <= MOST_PRODUCTS && !convolution.has_small_groups();
    if is_spread { convolution.spread(lowering, operands) } else { convolution.lower(lowering, operands) }
}

impl Convolution<'_> {
    /// `fn is_over_input(y, x, ky, kx) -> bool`, whether the filter's element is over one of the input,
    /// `fn input_under(n, c, y, x, ky, kx) -> f32`, that one or 0, and
    /// `fn weight(g, o, c, ky, kx) -> f32`, the filter's.
    fn functions(&self) -> String {
        let [_, _, height, width] = self.layout.to_nchw(&self.input.shape);
        let [n, c, h, w] = self.layout.to_nchw(&strides(&self.input.shape)).map(size);
        let (height, width) = (size(height), size(width));
        let FilterStrides { group, output, input, height: filter_height, width: filter_width } = self.filter_strides;
        format!(
            "fn is_over_input(y: u32, x: u32, ky: u32, kx: u32) -> bool {{\n\
             {places}\
             return iy >= 0 && iy < {height} && ix >= 0 && ix < {width};\n}}\n\
             fn input_under(n: u32, c: u32, y: u32, x: u32, ky: u32, kx: u32) -> f32 {{\n\
             {places}\
             if iy < 0 || iy >= {height} || ix < 0 || ix >= {width} {{ return 0.0f; }}\n\
             return input(n * {n}u + c * {c}u + u32(iy) * {h}u + u32(ix) * {w}u);\n}}\n\
             fn weight(g: u32, o: u32, c: u32, ky: u32, kx: u32) -> f32 {{\n\
             return filter_of(g * {group}u + o * {output}u + c * {input}u + ky * {filter_height}u + kx * {filter_width}u);\n}}\n",
            places = self.places,
        )
    }

    fn has_small_groups(&self) -> bool {
        self.groups > 1 && self.output_channels <= FEW_CHANNELS
    }

    fn lower(&self, lowering: &mut Lowering<'_>, operands: &Operands) -> Result<()> {
        let output = operands.output();
        let end = self.end(operands);
        if self.has_small_groups() { self.directly(lowering, output, &end) } else { self.as_product(lowering, output, end) }
    }

    /// The bias, and what is fused.
    fn end<'a>(&self, operands: &'a Operands) -> End<'a> {
        let output = operands.output();
        let [_, channels, height, width] = self.layout.to_nchw(&output.shape);
        let mut end = End { reads: Vec::new(), text: String::new(), then: Some((self.input.data_type, operands)) };
        if let Some(bias) = self.bias {
            end.reads.push(("bias", operands.input(bias)));
            end.text = match self.layout {
                Nchw => format!("x += bias((i / {}u) % {channels}u);\n", size(height * width)),
                Nhwc => format!("x += bias(i % {channels}u);\n"),
            };
        }
        end
    }

    /// Every output for itself.
    fn directly(&self, lowering: &mut Lowering<'_>, output: &Tensor, end: &End<'_>) -> Result<()> {
        let [n, c, y, x] = self.layout.to_nchw(&["c0", "c1", "c2", "c3"]);
        let [window_height, window_width] = self.window;
        let (input_channels, output_channels) = (self.input_channels, self.output_channels);
        let body = format!(
            "{coordinates}\
             let g = {c} / {output_channels}u;\n\
             let o = {c} % {output_channels}u;\n\
             var sum = 0.0f;\n\
             for (var c = 0u; c < {input_channels}u; c += 1u) {{\n\
             for (var ky = 0u; ky < {window_height}u; ky += 1u) {{\n\
             for (var kx = 0u; kx < {window_width}u; kx += 1u) {{\n\
             if !is_over_input({y}, {x}, ky, kx) {{ continue; }}\n\
             sum += input_under({n}, g * {input_channels}u + c, {y}, {x}, ky, kx) * weight(g, o, c, ky, kx);\n\
             }}\n}}\n}}\n\
             return end(i, sum);",
            coordinates = coordinates(&output.shape, "i", "c"),
        );
        let kernel = Kernel::new(self.label).reads(lowering, "input", self.input).reads(lowering, "filter_of", self.filter);
        let kernel = end.declare(lowering, kernel.declare(&self.functions()), output);
        kernel.each(lowering, output, &body)
    }

    fn as_product(&self, lowering: &mut Lowering<'_>, output: &Tensor, end: End<'_>) -> Result<()> {
        let Convolution { groups, input_channels, output_channels, .. } = *self;
        let [window_height, window_width] = self.window;
        let taps = window_height * window_width;
        let [batches, channels, height, width] = self.layout.to_nchw(&output.shape);
        let positions = height * width;
        let by_taps = self.filter_strides.output != 1;
        // The depth goes along channels and taps in the order in which the input has them.
        let parts = |k: &str| match self.layout {
            Nchw => format!("let c = {k} / {taps}u;\nlet tap = {k} % {taps}u;\n"),
            Nhwc => format!("let c = {k} % {input_channels}u;\nlet tap = {k} / {input_channels}u;\n"),
        };
        let tap = format!("tap / {window_width}u, tap % {window_width}u");
        let functions = self.functions();
        let (number_of_positions, width) = (size(positions), size(width));
        let at = |position: &str| format!("{position} / {width}u, {position} % {width}u");
        let product = match self.layout {
            Nchw => Product {
                label: self.label,
                batches: batches * groups,
                rows: output_channels,
                depth: input_channels * taps,
                columns: positions,
                by_depth: [by_taps, false],
                reads: vec![("input", self.input), ("filter_of", self.filter)],
                functions: format!(
                    "{functions}\
                     fn left_at(batch: u32, row: u32, k: u32) -> f32 {{\n{parts}\
                     return weight(batch % {groups}u, row, c, {tap});\n}}\n\
                     fn right_at(batch: u32, k: u32, column: u32) -> f32 {{\n{parts}\
                     return input_under(batch / {groups}u, (batch % {groups}u) * {input_channels}u + c, {at}, {tap});\n}}\n\
                     fn place(batch: u32, row: u32, column: u32) -> u32 {{\n\
                     return (batch * {output_channels}u + row) * {number_of_positions}u + column;\n}}\n",
                    parts = parts("k"),
                    at = at("column"),
                ),
                number: "i".to_owned(),
                end,
            },
            Nhwc => Product {
                label: self.label,
                batches: groups,
                rows: batches * positions,
                depth: taps * input_channels,
                columns: output_channels,
                by_depth: [true, by_taps],
                reads: vec![("input", self.input), ("filter_of", self.filter)],
                functions: format!(
                    "{functions}\
                     fn left_at(batch: u32, row: u32, k: u32) -> f32 {{\n{parts}\
                     let position = row % {number_of_positions}u;\n\
                     return input_under(row / {number_of_positions}u, batch * {input_channels}u + c, {at}, {tap});\n}}\n\
                     fn right_at(batch: u32, k: u32, column: u32) -> f32 {{\n{parts}\
                     return weight(batch, column, c, {tap});\n}}\n\
                     fn place(batch: u32, row: u32, column: u32) -> u32 {{\n\
                     return row * {channels}u + batch * {output_channels}u + column;\n}}\n",
                    parts = parts("k"),
                    at = at("position"),
                ),
                number: if groups == 1 {
                    "i".to_owned()
                } else {
                    let group = size(batches * positions * output_channels);
                    format!(
                        "(i / {output_channels}u % {groups}u) * {group}u + i / {channels}u * {output_channels}u + i % {output_channels}u"
                    )
                },
                end,
            },
        };
        product.lower(lowering, output)
    }
    /// A transposed convolution: all products of an element of the input and one of the filter, added up over channels, and
    /// then the sums of those that meet at an output.
    fn spread(&self, lowering: &mut Lowering<'_>, operands: &Operands) -> Result<()> {
        let Convolution { groups, input_channels, output_channels, layout, .. } = *self;
        let [window_height, window_width] = self.window;
        let taps = window_height * window_width;
        let [batches, _, height, width] = layout.to_nchw(&self.input.shape);
        let strides = layout.to_nchw(&strides(&self.input.shape));
        let [n, c, h, w] = strides.map(size);
        let (rows, columns) = (output_channels * taps, height * width);
        let products = lowering.temporary(DataType::Float32, &[batches * groups, rows, columns])?;
        let (number_of_columns, height, width) = (size(columns), size(height), size(width));
        let product = Product {
            label: self.label,
            batches: batches * groups,
            rows,
            depth: input_channels,
            columns,
            by_depth: [self.filter_strides.input == 1, strides[1] == 1],
            reads: vec![("input", self.input), ("filter_of", self.filter)],
            functions: format!(
                "{functions}\
                 fn left_at(batch: u32, row: u32, k: u32) -> f32 {{\n\
                 let tap = row % {taps}u;\n\
                 return weight(batch % {groups}u, row / {taps}u, k, tap / {window_width}u, tap % {window_width}u);\n}}\n\
                 fn right_at(batch: u32, k: u32, column: u32) -> f32 {{\n\
                 return input(batch / {groups}u * {n}u + (batch % {groups}u * {input_channels}u + k) * {c}u \
                 + column / {width}u * {h}u + column % {width}u * {w}u);\n}}\n\
                 fn place(batch: u32, row: u32, column: u32) -> u32 {{ return (batch * {rows}u + row) * {number_of_columns}u + column; }}\n",
                functions = self.functions(),
            ),
            number: "i".to_owned(),
            end: End { reads: Vec::new(), text: String::new(), then: None },
        };
        product.lower(lowering, &products)?;

        let output = operands.output();
        let [n, c, y, x] = layout.to_nchw(&["c0", "c1", "c2", "c3"]);
        let channels = groups * output_channels;
        let function = format!(
            "fn product_at(plane: u32, y: u32, x: u32, ky: u32, kx: u32) -> f32 {{\n\
             {places}\
             if iy < 0 || iy >= {height} || ix < 0 || ix >= {width} {{ return 0.0f; }}\n\
             return products((plane * {taps}u + ky * {window_width}u + kx) * {number_of_columns}u + u32(iy) * {width}u + u32(ix));\n}}\n",
            places = self.places,
        );
        let body = format!(
            "{coordinates}\
             let plane = {n} * {channels}u + {c};\n\
             var sum = 0.0f;\n\
             for (var ky = 0u; ky < {window_height}u; ky += 1u) {{\n\
             for (var kx = 0u; kx < {window_width}u; kx += 1u) {{\n\
             sum += product_at(plane, {y}, {x}, ky, kx);\n\
             }}\n}}\n\
             return end(i, sum);",
            coordinates = coordinates(&output.shape, "i", "c"),
        );
        let kernel = Kernel::new(self.label).reads(lowering, "products", &products).declare(&function);
        self.end(operands).declare(lowering, kernel, output).each(lowering, output, &body)
    }
}
