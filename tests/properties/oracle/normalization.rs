//! Normalizations: (x − mean) / √(variance + epsilon) · scale + bias, where that by the root of the mean square has a mean of 0.

use super::convolution::image_axes;
use super::{EPSILON, by_position};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::positions;
use std::cell::RefCell;
use std::collections::HashMap;

pub fn normalize(call: &Call) -> Expected {
    let input = call.operand("input");
    let is_rms = call.row.name == "rmsNormalization";
    // Not rounded to float16.
    let epsilon = f64::from(call.double("epsilon", 1e-5) as f32);
    // The axes along which scale and bias have an element each, and those along which mean and variance are taken.
    let (of_scale, reduced): (Vec<usize>, Vec<usize>) = match call.row.name {
        "batchNormalization" => (vec![call.unsigned("axis").unwrap_or(1)], vec![]),
        "instanceNormalization" => {
            let [_, channels, height, width] = image_axes(call.enumeration("layout", "nchw"));
            (vec![channels], vec![height, width])
        }
        _ => {
            let axes = call.list("axes").unwrap_or_else(|| (1..input.rank()).collect());
            (axes.clone(), axes)
        }
    };
    let window: Vec<usize> = (0..input.rank()).map(|axis| if reduced.contains(&axis) { input.shape[axis] } else { 1 }).collect();
    let window = positions(&window);
    // What was found out about rows, by where they begin.
    let known = RefCell::new(HashMap::new());
    by_position(input.data_type, input.shape.clone(), |position| {
        let mut known = known.borrow_mut();
        let feature: Vec<usize> = of_scale.iter().map(|&axis| position[axis]).collect();
        let (mean, variance, greatest, n);
        if call.row.name == "batchNormalization" {
            (mean, variance) = (call.operand("mean").float(&feature), call.operand("variance").float(&feature));
            (greatest, n) = (input.float(position).abs() + mean.abs(), 1.0);
        } else {
            let start: Vec<usize> =
                (0..input.rank()).map(|axis| if reduced.contains(&axis) { 0 } else { position[axis] }).collect();
            let at = |within: &Vec<usize>| input.float(&start.iter().zip(within).map(|(a, b)| a + b).collect::<Vec<_>>());
            n = window.len() as f64;
            (mean, variance, greatest) = *known.entry(start.clone()).or_insert_with(|| {
                let elements: Vec<f64> = window.iter().map(at).collect();
                let mean = if is_rms { 0.0 } else { elements.iter().sum::<f64>() / n };
                let variance = elements.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
                (mean, variance, elements.iter().fold(0f64, |greatest, x| greatest.max(x.abs())))
            });
        }
        let scale = call.optional("scale").map_or(1.0, |scale| scale.float(&feature));
        let bias = if is_rms { None } else { call.optional("bias") };
        let bias = bias.map_or(0.0, |bias| bias.float(&feature));
        let deviation = (variance + epsilon).sqrt();
        let normalized = (input.float(position) - mean) / deviation;
        let value = normalized * scale + bias;
        // The mean is rounded n times (to the next of the subnormal numbers, where it is one), the variance too, and every step after
        // them once.
        let of_mean = (n + 2.0) * greatest.max(f64::from(f32::MIN_POSITIVE)) / deviation;
        let of_variance = (n + 8.0) * normalized.abs();
        let error = EPSILON * ((of_mean + of_variance) * scale.abs() + bias.abs());
        Element::within(value, if value.is_finite() { error } else { 0.0 })
    })
}
