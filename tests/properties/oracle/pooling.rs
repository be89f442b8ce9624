//! Pooling and resampling.
//!
//! The specification does not say what padding is to a pooling operator. As in browsers, it is not there: an average is
//! that of the input's elements under the window, and so is the greatest. Of a window without any, nothing is known.

use super::convolution::{Window, image_axes, place};
use super::{EPSILON, by_position, with};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor};

pub fn pool2d(call: &Call) -> Expected {
    let input = call.operand("input");
    let window = Window::of(call);
    let axes = image_axes(call.enumeration("layout", "nchw"));
    let [batches, channels, height, width] = axes.map(|axis| input.shape[axis]);
    let size = call.list("window_dimensions").unwrap_or(vec![height, width]);
    let rounds_up = call.enumeration("output_shape_rounding", "floor") == "ceil";
    let output_size = |axis: usize, input: usize| {
        let room = window.room(axis, input, size[axis]);
        1 + if rounds_up { room.div_ceil(window.strides[axis]) } else { room / window.strides[axis] }
    };
    let sizes = call.list("output_sizes").unwrap_or_else(|| vec![output_size(0, height), output_size(1, width)]);
    by_position(input.data_type, place(axes, [batches, channels, sizes[0], sizes[1]]), |position| {
        let [batch, channel, row, column] = axes.map(|axis| position[axis]);
        let mut elements = Vec::new();
        for y in 0..size[0] {
            for x in 0..size[1] {
                let source = window.source(0, height, row, y).zip(window.source(1, width, column, x));
                elements.extend(source.map(|(i, j)| input.at(&place(axes, [batch, channel, i, j]))));
            }
        }
        match call.row.name {
            "normPool2d" => norm(call.unsigned("order").expect("an argument") as i32, &elements),
            name => pooled(name, &elements),
        }
    })
}

/// The norm of an order; powers of quotients by the greatest of the magnitudes stay within `f64`.
fn norm(order: i32, elements: &[Scalar]) -> Element {
    let magnitudes: Vec<f64> = elements.iter().map(|x| x.as_f64().abs()).collect();
    let greatest = magnitudes.iter().fold(0.0, |greatest: f64, x| if x.is_nan() { *x } else { greatest.max(*x) });
    if magnitudes.is_empty() {
        return Element::Anything;
    }
    if !greatest.is_finite() || greatest == 0.0 {
        return Element::float(if magnitudes.iter().any(|x| x.is_nan()) { f64::NAN } else { greatest });
    }
    let sum: f64 = magnitudes.iter().map(|x| (x / greatest).powi(order)).sum();
    let value = greatest * sum.powf(1.0 / f64::from(order));
    // A rounding for each of the powers and summands, of which the root makes less; and that of the root, whose exponent is rounded.
    Element::within(value, value * (magnitudes.len() as f64 + 12.0) * EPSILON)
}

fn pooled(name: &str, elements: &[Scalar]) -> Element {
    let n = elements.len() as f64;
    let floats = || elements.iter().map(|x| x.as_f64());
    let (sum, magnitude): (f64, f64) = (floats().sum(), floats().map(f64::abs).sum());
    let squares: f64 = floats().map(|x| x * x).sum();
    let within = |value: f64, error: f64| Element::within(value, if value.is_finite() { error * EPSILON } else { 0.0 });
    match (name, elements.first()) {
        (_, None) => Element::Anything,
        ("averagePool2d", _) => within(sum / n, (n + 1.0) * magnitude / n),
        ("l2Pool2d", _) => within(squares.sqrt(), (n + 3.0) * squares.sqrt()),
        (_, Some(Scalar::Integer(_))) => {
            let integer = |x: &Scalar| if let Scalar::Integer(x) = x { *x } else { panic!("a mixture") };
            Element::integer(elements.iter().map(integer).max().expect("there are elements"))
        }
        _ if floats().any(f64::is_nan) => Element::float(f64::NAN),
        _ => Element::ulps(floats().fold(f64::NEG_INFINITY, f64::max), 0),
    }
}

/// Coordinates are rational numbers: a numerator over twice the output's size.
pub fn resample2d(call: &Call) -> Expected {
    let input = call.operand("input");
    let axes = call.list("axes").unwrap_or(vec![2, 3]);
    let mut shape = input.shape.clone();
    for (i, &axis) in axes.iter().enumerate() {
        let scaled = |scales: &[f32]| (f64::from(scales[i]) * input.shape[axis] as f64).floor() as usize;
        shape[axis] = match (call.list("sizes"), call.floats("scales")) {
            (Some(sizes), _) => sizes[i],
            (None, Some(scales)) => scaled(scales),
            (None, None) => input.shape[axis],
        };
    }
    let is_linear = call.enumeration("mode", "nearest-neighbor") == "linear";
    // The coordinate of the specification, times twice the output's size.
    let coordinate = |position: &[usize], axis: usize| {
        let (size, output) = (input.shape[axis] as i64, shape[axis] as i64);
        let unclamped = (2 * position[axis] as i64 + 1) * size - output;
        (unclamped.clamp(0, (size - 1) * 2 * output), 2 * output)
    };
    by_position(input.data_type, shape.clone(), |position| match is_linear {
        false => {
            let nearest = |axis: usize| {
                let (numerator, denominator) = coordinate(position, axis);
                // ceil(coordinate − 1/2)
                -(denominator / 2 - numerator).div_euclid(denominator)
            };
            let source = axes.iter().fold(position.to_vec(), |source, &axis| with(&source, axis, nearest(axis) as usize));
            Element::Exactly(input.at(&source))
        }
        true => linear(input, position, [axes[0], axes[1]], [axes[0], axes[1]].map(|axis| coordinate(position, axis))),
    })
}

/// The weights are rounded, and so are the products and sums; integers are rounded to the nearest.
fn linear(input: &Tensor, position: &[usize], axes: [usize; 2], coordinates: [(i64, i64); 2]) -> Element {
    let (mut value, mut greatest) = (0.0, 0f64);
    for corner in 0..4 {
        let mut weight = 1.0;
        let mut source = position.to_vec();
        for axis in 0..2 {
            let (numerator, denominator) = coordinates[axis];
            let fraction = numerator.rem_euclid(denominator) as f64 / denominator as f64;
            let next = corner >> axis & 1 == 1;
            weight *= if next { fraction } else { 1.0 - fraction };
            let rounded_up = i64::from(next && fraction > 0.0);
            source[axes[axis]] = (numerator.div_euclid(denominator) + rounded_up) as usize;
        }
        value += weight * input.float(&source);
        greatest = greatest.max(input.float(&source).abs());
    }
    // Coordinates are rounded too, and are as large as the input.
    let error = (8.0 + 4.0 * input.shape[axes[0]].max(input.shape[axes[1]]) as f64) * EPSILON * greatest;
    match input.data_type.is_float() {
        true => Element::within(value, error),
        false => Element::within(value, 0.5 + error),
    }
}
