//! Convolutions. An element is a sum of products, as in a product of matrices.

use super::by_position;
use super::matrices::sum;
use crate::call::Call;
use crate::compare::Expected;

fn list<const N: usize>(call: &Call, field: &str, default: usize) -> [usize; N] {
    call.list(field).map_or([default; N], |list| list.try_into().expect("a list of that length"))
}

/// Where batches, channels, height and width are in a layout.
pub fn image_axes(layout: &str) -> [usize; 4] {
    match layout {
        "nchw" => [0, 1, 2, 3],
        "nhwc" => [0, 3, 1, 2],
        layout => panic!("{layout}"),
    }
}

/// The position of `[batch, channel, row, column]` in a layout.
pub fn place(axes: [usize; 4], values: [usize; 4]) -> Vec<usize> {
    let mut place = vec![0; 4];
    axes.iter().zip(values).for_each(|(&axis, value)| place[axis] = value);
    place
}

pub struct Window {
    pub padding: [usize; 4],
    pub strides: [usize; 2],
    pub dilations: [usize; 2],
}

impl Window {
    pub fn of(call: &Call) -> Window {
        Window { padding: list(call, "padding", 0), strides: list(call, "strides", 1), dilations: list(call, "dilations", 1) }
    }

    /// *Calculate conv output size*, before it is rounded: a number of strides as a fraction, one less.
    pub fn room(&self, axis: usize, input: usize, filter: usize) -> usize {
        input + self.padding[2 * axis] + self.padding[2 * axis + 1] - ((filter - 1) * self.dilations[axis] + 1)
    }

    /// The input's row or column under one of the filter, if it is not padding.
    pub fn source(&self, axis: usize, input: usize, output: usize, filter: usize) -> Option<usize> {
        let place = output * self.strides[axis] + filter * self.dilations[axis];
        place.checked_sub(self.padding[2 * axis]).filter(|&i| i < input)
    }
}

/// Where the dimensions named by the letters of a layout are, in the order of other letters.
fn letters(layout: &str, order: &str) -> [usize; 4] {
    let find = |letter: char| layout.find(letter).expect("a layout has all letters");
    let places: Vec<usize> = order.chars().map(find).collect();
    places.try_into().expect("four letters")
}

pub fn conv2d(call: &Call) -> Expected {
    let (input, filter, bias) = (call.operand("input"), call.operand("filter"), call.optional("bias"));
    let window = Window::of(call);
    let groups = call.unsigned("groups").unwrap_or(1);
    let axes = image_axes(call.enumeration("input_layout", "nchw"));
    let filter_axes = letters(call.enumeration("filter_layout", "oihw"), "oihw");
    let [batches, _, height, width] = axes.map(|axis| input.shape[axis]);
    let [outputs, inputs_of_group, filter_height, filter_width] = filter_axes.map(|axis| filter.shape[axis]);
    let size = |axis: usize, input: usize, filter: usize| window.room(axis, input, filter) / window.strides[axis] + 1;
    let shape = place(axes, [batches, outputs, size(0, height, filter_height), size(1, width, filter_width)]);
    by_position(input.data_type, shape, |position| {
        let [batch, output, row, column] = axes.map(|axis| position[axis]);
        let group = output / (outputs / groups);
        let mut terms = Vec::new();
        for channel in 0..inputs_of_group {
            for y in 0..filter_height {
                for x in 0..filter_width {
                    let source = window.source(0, height, row, y).zip(window.source(1, width, column, x));
                    if let Some((i, j)) = source {
                        let element = input.float(&place(axes, [batch, group * inputs_of_group + channel, i, j]));
                        terms.push(element * filter.float(&place(filter_axes, [output, channel, y, x])));
                    }
                }
            }
        }
        terms.push(bias.map_or(0.0, |bias| bias.float(&[output])));
        sum(&terms)
    })
}

/// Each element of the input adds the filter, multiplied by it, to the output.
pub fn conv_transpose2d(call: &Call) -> Expected {
    let (input, filter, bias) = (call.operand("input"), call.operand("filter"), call.optional("bias"));
    let window = Window::of(call);
    let groups = call.unsigned("groups").unwrap_or(1);
    let axes = image_axes(call.enumeration("input_layout", "nchw"));
    let filter_axes = letters(call.enumeration("filter_layout", "iohw"), "iohw");
    let [batches, inputs, height, width] = axes.map(|axis| input.shape[axis]);
    let [_, outputs_of_group, filter_height, filter_width] = filter_axes.map(|axis| filter.shape[axis]);
    let output_padding: [usize; 2] = list(call, "output_padding", 0);
    let size = |axis: usize, input: usize, filter: usize| {
        let effective = (filter - 1) * window.dilations[axis] + 1;
        let taken = window.padding[2 * axis] + window.padding[2 * axis + 1];
        (input - 1) * window.strides[axis] + effective - taken + output_padding[axis]
    };
    let calculated = || vec![size(0, height, filter_height), size(1, width, filter_width)];
    let sizes = call.list("output_sizes").unwrap_or_else(calculated);
    let shape = place(axes, [batches, outputs_of_group * groups, sizes[0], sizes[1]]);
    by_position(input.data_type, shape, |position| {
        let [batch, output, row, column] = axes.map(|axis| position[axis]);
        let group = output / outputs_of_group;
        let inputs_of_group = inputs.div_ceil(groups);
        let mut terms = Vec::new();
        for channel in group * inputs_of_group..((group + 1) * inputs_of_group).min(inputs) {
            for (i, j, y, x) in quadruples(height, width, filter_height, filter_width) {
                let lands = |axis: usize, i: usize, y: usize, at: usize| {
                    i * window.strides[axis] + y * window.dilations[axis] == at + window.padding[2 * axis]
                };
                if lands(0, i, y, row) && lands(1, j, x, column) {
                    let element = input.float(&place(axes, [batch, channel, i, j]));
                    terms.push(element * filter.float(&place(filter_axes, [channel, output % outputs_of_group, y, x])));
                }
            }
        }
        terms.push(bias.map_or(0.0, |bias| bias.float(&[output])));
        sum(&terms)
    })
}

fn quadruples(a: usize, b: usize, c: usize, d: usize) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..c).flat_map(move |k| (0..d).map(move |l| (i, j, k, l)))))
}
