//! Operators on images.

use super::{Contents, Draw};
use webnn_node::graph::attribute::Value;

/// Four lists of an option that is given or not: padding, strides, dilations.
struct Window {
    padding: [usize; 4],
    strides: [usize; 2],
    dilations: [usize; 2],
}

fn list<const N: usize>(draw: &mut Draw<'_>, field: &'static str, default: usize, low: usize, high: usize) -> [usize; N] {
    if !draw.is_given(field) {
        draw.set(field, Value::Absent);
        return [default; N];
    }
    let list = [(); N].map(|()| draw.random.between(low, high));
    draw.set_list(field, &list);
    list
}

fn window(draw: &mut Draw<'_>) -> Window {
    Window {
        padding: list(draw, "padding", 0, 0, 2),
        strides: list(draw, "strides", 1, 1, 3),
        dilations: list(draw, "dilations", 1, 1, 2),
    }
}

/// A size of the input on which at least one window fits: an axis, the window's size and the least that must be there.
fn fitting(draw: &mut Draw<'_>, window: &Window, axis: usize, size: usize) -> usize {
    let effective = (size - 1) * window.dilations[axis] + 1;
    let padding = window.padding[2 * axis] + window.padding[2 * axis + 1];
    effective.saturating_sub(padding).max(1) + draw.random.between(0, 5)
}

/// `[batches, channels, height, width]` in a layout: 0 for "nchw", 1 for "nhwc".
fn image(layout: usize, [batches, channels, height, width]: [usize; 4]) -> [usize; 4] {
    if layout == 0 { [batches, channels, height, width] } else { [batches, height, width, channels] }
}

fn groups(draw: &mut Draw<'_>) -> usize {
    let groups = draw.random.between(1, 3);
    if draw.is_given("groups") {
        draw.set("groups", Value::Unsigned(groups as u32));
        return groups;
    }
    draw.set("groups", Value::Absent);
    1
}

pub fn conv2d(draw: &mut Draw<'_>) {
    let window = window(draw);
    let groups = groups(draw);
    // Now and then more channels and rows than are computed at a time.
    let is_large = draw.random.once_in(12);
    let most = if is_large { 7 } else { 3 };
    let [inputs, outputs, kernel_height, kernel_width, batches] = [most, most, 3, 3, 3].map(|most| draw.random.between(1, most));
    let (mut height, width) = (fitting(draw, &window, 0, kernel_height), fitting(draw, &window, 1, kernel_width));
    height += if is_large { 30 } else { 0 };
    let layout = draw.enumeration("input_layout");
    let (o, i) = (outputs * groups, inputs);
    let filter = match draw.enumeration("filter_layout") {
        0 => [o, i, kernel_height, kernel_width],
        1 => [kernel_height, kernel_width, i, o],
        2 => [o, kernel_height, kernel_width, i],
        _ => [i, kernel_height, kernel_width, o],
    };
    draw.operand("input", &image(layout, [batches, inputs * groups, height, width]), Contents::Summands);
    draw.operand("filter", &filter, Contents::Moderate);
    draw.optional("bias", &[o], Contents::Moderate);
}

pub fn conv_transpose2d(draw: &mut Draw<'_>) {
    let window = window(draw);
    let groups = groups(draw);
    let [inputs, outputs, batches] = [(); 3].map(|()| draw.random.between(1, 3));
    // The groups of input channels need not be equal.
    let inputs = if draw.random.once_in(4) { inputs } else { inputs * groups };
    let (mut sizes, mut kernel, mut calculated) = ([0; 2], [0; 2], [0; 2]);
    for axis in [0, 1] {
        let taken = window.padding[2 * axis] + window.padding[2 * axis + 1];
        kernel[axis] = draw.random.between(1, 3);
        sizes[axis] = draw.random.between(1, 4);
        let full = |size: usize| (size - 1) * window.strides[axis] + (kernel[axis] - 1) * window.dilations[axis] + 1;
        while full(sizes[axis]) <= taken {
            sizes[axis] += 1;
        }
        calculated[axis] = full(sizes[axis]) - taken;
    }
    let extra = [0, 1].map(|axis| draw.random.below(window.strides[axis]));
    if draw.is_given("output_padding") {
        draw.set_list("output_padding", &extra);
    } else {
        draw.set("output_padding", Value::Absent);
    }
    if draw.is_given("output_sizes") {
        let output_sizes = [0, 1].map(|axis| calculated[axis] + draw.random.below(window.strides[axis]));
        draw.set_list("output_sizes", &output_sizes);
    } else {
        draw.set("output_sizes", Value::Absent);
    }
    let layout = draw.enumeration("input_layout");
    let filter = match draw.enumeration("filter_layout") {
        0 => [inputs, outputs, kernel[0], kernel[1]],
        1 => [kernel[0], kernel[1], outputs, inputs],
        _ => [outputs, kernel[0], kernel[1], inputs],
    };
    draw.operand("input", &image(layout, [batches, inputs, sizes[0], sizes[1]]), Contents::Summands);
    draw.operand("filter", &filter, Contents::Moderate);
    draw.optional("bias", &[outputs * groups], Contents::Moderate);
}

pub fn pool2d(draw: &mut Draw<'_>) {
    let window = window(draw);
    let [batches, channels] = [(); 2].map(|()| draw.random.between(1, 3));
    let (height, width);
    let size;
    if draw.is_given("window_dimensions") {
        size = [(); 2].map(|()| draw.random.between(1, 3));
        (height, width) = (fitting(draw, &window, 0, size[0]), fitting(draw, &window, 1, size[1]));
        draw.set_list("window_dimensions", &size);
    } else {
        // The window is the whole input; with dilations it fits only if the padding leaves room.
        let fit = |axis: usize| {
            let padding = window.padding[2 * axis] + window.padding[2 * axis + 1];
            if window.dilations[axis] == 1 { 6 } else { (padding + 1).min(6) }
        };
        height = draw.random.between(1, fit(0));
        width = draw.random.between(1, fit(1));
        size = [height, width];
        draw.set("window_dimensions", Value::Absent);
    }
    let layout = draw.enumeration("layout");
    draw.enumeration("output_shape_rounding");
    if draw.is_given("output_sizes") {
        let round_up = draw.random.once_in(2);
        let output_sizes = [(0, height), (1, width)].map(|(axis, input): (usize, usize)| {
            let padded = input + window.padding[2 * axis] + window.padding[2 * axis + 1];
            let room = padded - (size[axis] - 1) * window.dilations[axis] - 1;
            1 + if round_up { room.div_ceil(window.strides[axis]) } else { room / window.strides[axis] }
        });
        draw.set_list("output_sizes", &output_sizes);
    } else {
        draw.set("output_sizes", Value::Absent);
    }
    if draw.row.name == "normPool2d" {
        let order = draw.random.pick(&[1, 2, 3, 4, 7, 64]);
        draw.set("order", Value::Unsigned(order));
    }
    let contents = if draw.row.name == "maxPool2d" { Contents::Anything } else { Contents::Summands };
    draw.operand("input", &image(layout, [batches, channels, height, width]), contents);
}

pub fn resample2d(draw: &mut Draw<'_>) {
    let shape = [(); 4].map(|()| draw.random.between(1, 5));
    draw.operand("input", &shape, Contents::Moderate);
    let mut axes = [0, 1, 2, 3];
    draw.random.shuffle(&mut axes);
    let mut axes = [axes[0], axes[1]];
    if draw.is_given("axes") {
        draw.set_list("axes", &axes);
    } else {
        axes = [2, 3];
        draw.set("axes", Value::Absent);
    }
    if draw.is_given("scales") {
        // No dimension may disappear.
        let scale = |size: usize, wished: f32| if size as f32 * wished < 1.0 { 1.0 } else { wished };
        let scales = axes.map(|axis| scale(shape[axis], draw.random.pick(&[0.5, 1.0, 2.0, 1.5, 0.4, 3.3, 2.999])));
        draw.set("scales", Value::FloatList(scales.to_vec()));
    } else {
        draw.set("scales", Value::Absent);
    }
    if draw.is_given("sizes") {
        let sizes = [(); 2].map(|()| draw.random.between(1, 9));
        draw.set_list("sizes", &sizes);
    } else {
        draw.set("sizes", Value::Absent);
    }
}
