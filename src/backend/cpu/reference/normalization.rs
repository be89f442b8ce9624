//! Normalizations. All arithmetic is in `f64`.

use crate::backend::cpu::element::{Float, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View};
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization, RmsNormalization};
use crate::looks::Looking;

/// The elements of a scale or bias, or what stands for one that is not there.
fn factors<T: Float>(view: Option<View<'_>>, count: usize, absent: f64) -> Vec<f64> {
    match view {
        Some(view) => scratch::collected(count, view.elements::<T>().iter().map(|x| x.to_f64())),
        None => scratch::filled(absent, count),
    }
}

/// A normalization of one element: `factor * (x - mean) + bias`.
#[derive(Clone, Copy, Debug)]
struct Normal {
    mean: f64,
    factor: f64,
    bias: f64,
}

impl Normal {
    fn new(statistics: Statistics, scale: f64, bias: f64) -> Self {
        Normal { mean: statistics.mean, factor: scale * statistics.inverse_deviation, bias }
    }

    fn of<T: Float>(self, x: T) -> T {
        T::from_f64(self.factor * (x.to_f64() - self.mean) + self.bias)
    }
}

/// What elements are normalized with.
#[derive(Clone, Copy, Debug)]
struct Statistics {
    mean: f64,
    /// 1 / sqrt(variance + epsilon)
    inverse_deviation: f64,
}

impl Statistics {
    fn new(mean: f64, variance: f64, epsilon: f64) -> Self {
        Statistics { mean, inverse_deviation: 1.0 / (variance + epsilon).sqrt() }
    }

    fn of<T: Float>(elements: impl Iterator<Item = T> + Clone, count: usize, epsilon: f64) -> Self {
        let mean = elements.clone().looking(1).map(T::to_f64).sum::<f64>() / count as f64;
        let variance = elements.looking(1).map(|x| (x.to_f64() - mean) * (x.to_f64() - mean)).sum::<f64>() / count as f64;
        Statistics::new(mean, variance, epsilon)
    }

    /// Those of a normalization by the root of the mean square.
    fn around_zero<T: Float>(elements: impl Iterator<Item = T> + Clone, count: usize, epsilon: f64) -> Self {
        Statistics::new(0.0, elements.looking(1).map(|x| x.to_f64() * x.to_f64()).sum::<f64>() / count as f64, epsilon)
    }
}

pub fn batch_normalization(op: &BatchNormalization, arguments: &mut Arguments<'_, '_>) {
    with_float!(arguments.input(op.input).data_type, T => {
        let input = arguments.input(op.input);
        let axis = op.axis as usize;
        let features = input.shape[axis];
        // Not rounded to float16, where an epsilon under 6e-8 would be 0, and what has no variance NaN.
        let epsilon = f64::from(op.epsilon as f32);
        let [mean, variance] = [op.mean, op.variance].map(|id| factors::<T>(Some(arguments.input(id)), features, 0.0));
        let scale = factors::<T>(op.scale.map(|id| arguments.input(id)), features, 1.0);
        let bias = factors::<T>(op.bias.map(|id| arguments.input(id)), features, 0.0);
        let normal = |i: usize| Normal::new(Statistics::new(mean[i], variance[i], epsilon), scale[i], bias[i]);
        let normals: Vec<Normal> = scratch::collected(features, (0..features).map(normal));
        let elements = input.elements::<T>();
        // Elements of a feature that lie beside each other.
        let inner = input.shape[axis + 1..].iter().product();
        for_each_piece(arguments.output().elements::<T>(), inner, inner, |first, piece| {
            let input = elements[first * inner..].chunks_exact(inner);
            for (i, (output, input)) in piece.chunks_exact_mut(inner).zip(input).enumerate() {
                let normal = normals[(first + i) % features];
                output.iter_mut().zip(input).looking_if_long(1).for_each(|(output, &x)| *output = normal.of(x));
            }
        });
    });
}

pub fn instance_normalization(op: &InstanceNormalization, arguments: &mut Arguments<'_, '_>) {
    with_float!(arguments.input(op.input).data_type, T => {
        let input = arguments.input(op.input);
        let [_, channels, height, width] = op.layout.to_nchw(input.shape);
        let plane = height * width;
        let epsilon = f64::from(op.epsilon as f32);
        let scale = factors::<T>(op.scale.map(|id| arguments.input(id)), channels, 1.0);
        let bias = factors::<T>(op.bias.map(|id| arguments.input(id)), channels, 0.0);
        let normal = |channel: usize, statistics| Normal::new(statistics, scale[channel], bias[channel]);
        let elements = input.elements::<T>();
        let output = arguments.output().elements::<T>();
        match op.layout {
            Nchw => for_each_piece(output, plane, 3 * plane, |first, piece| {
                let input = elements[first * plane..].chunks_exact(plane);
                for (i, (output, input)) in piece.chunks_exact_mut(plane).zip(input).enumerate() {
                    let normal = normal((first + i) % channels, Statistics::of(input.iter().copied(), plane, epsilon));
                    output.iter_mut().zip(input).looking_if_long(1).for_each(|(output, &x)| *output = normal.of(x));
                }
            }),
            Nhwc => for_each_piece(output, plane * channels, 3 * plane * channels, |first, piece| {
                let images = elements[first * plane * channels..].chunks_exact(plane * channels);
                for (output, input) in piece.chunks_exact_mut(plane * channels).zip(images) {
                    let statistics = channel_statistics(input, channels, epsilon).into_iter().enumerate();
                    let normals: Vec<Normal> =
                        scratch::collected(channels, statistics.map(|(channel, statistics)| normal(channel, statistics)));
                    let pixels = output.chunks_exact_mut(channels).zip(input.chunks_exact(channels));
                    pixels.looking_if_long(channels).for_each(|(output, input)| {
                        let elements = input.iter().zip(&normals);
                        output.iter_mut().zip(elements).for_each(|(output, (&x, normal))| *output = normal.of(x));
                    });
                }
            }),
        }
    });
}

/// The statistics of every channel of an image with the channels last.
fn channel_statistics<T: Float>(input: &[T], channels: usize, epsilon: f64) -> Vec<Statistics> {
    let count = (input.len() / channels) as f64;
    let mut means = scratch::zeroed::<f64>(channels);
    input.chunks_exact(channels).looking(channels).for_each(|pixel| {
        means.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += x.to_f64());
    });
    means.iter_mut().for_each(|sum| *sum /= count);
    let mut variances = scratch::zeroed::<f64>(channels);
    input.chunks_exact(channels).looking(channels).for_each(|pixel| {
        for ((sum, mean), x) in variances.iter_mut().zip(&means).zip(pixel) {
            *sum += (x.to_f64() - mean) * (x.to_f64() - mean);
        }
    });
    let statistics = means.into_iter().zip(variances).map(|(mean, sum)| Statistics::new(mean, sum / count, epsilon));
    scratch::collected(channels, statistics)
}

pub fn layer_normalization(op: &LayerNormalization, arguments: &mut Arguments<'_, '_>) {
    let axes = op.axes(arguments.input(op.input).shape.len());
    OverAxes { input: op.input, scale: op.scale, bias: op.bias, axes: &axes, epsilon: op.epsilon, centres: true }.run(arguments);
}

pub fn rms_normalization(op: &RmsNormalization, arguments: &mut Arguments<'_, '_>) {
    let axes = op.axes(arguments.input(op.input).shape.len());
    OverAxes { input: op.input, scale: op.scale, bias: None, axes: &axes, epsilon: op.epsilon, centres: false }.run(arguments);
}

/// A normalization over axes, by mean and variance or by the mean square.
struct OverAxes<'a> {
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    axes: &'a [u32],
    epsilon: f64,
    centres: bool,
}

impl OverAxes<'_> {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        with_float!(arguments.input(self.input).data_type, T => self.of::<T>(arguments));
    }

    fn of<T: Float>(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input);
        let axes: Vec<usize> = self.axes.iter().map(|&axis| axis as usize).collect();
        let kept: Vec<usize> = (0..input.shape.len()).filter(|axis| !axes.contains(axis)).collect();
        let count = axes.iter().map(|&axis| input.shape[axis]).product();
        let epsilon = f64::from(self.epsilon as f32);
        let scale = factors::<T>(self.scale.map(|id| arguments.input(id)), count, 1.0);
        let bias = factors::<T>(self.bias.map(|id| arguments.input(id)), count, 0.0);
        let elements = input.elements::<T>();
        let normal = |statistics, i: usize| Normal::new(statistics, scale[i], bias[i]);
        let output = arguments.output().elements::<T>();
        if kept.iter().chain(&axes).is_sorted() {
            // What is normalized together lies beside each other.
            for_each_piece(output, count, 4 * count, |first, piece| {
                let input = elements[first * count..].chunks_exact(count);
                for (output, input) in piece.chunks_exact_mut(count).zip(input) {
                    let statistics = self.statistics(input.iter().copied(), count, epsilon);
                    output.iter_mut().zip(input).enumerate().looking_if_long(1).for_each(|(i, (output, &x))| {
                        *output = normal(statistics, i).of(x);
                    });
                }
            });
            return;
        }
        // In the order of the axes, which is that of scale and bias.
        let places = places(input.shape, &axes);
        for first in self::places(input.shape, &kept) {
            let elements_there = places.iter().map(|place| elements[first + place]);
            let statistics = self.statistics(elements_there, count, epsilon);
            places.iter().enumerate().looking(1).for_each(|(i, place)| {
                output[first + place] = normal(statistics, i).of(elements[first + place]);
            });
        }
    }

    fn statistics<T: Float>(&self, elements: impl Iterator<Item = T> + Clone, count: usize, epsilon: f64) -> Statistics {
        match self.centres {
            true => Statistics::of(elements, count, epsilon),
            false => Statistics::around_zero(elements, count, epsilon),
        }
    }
}

/// Where the elements along some axes of a dense tensor lie, in row-major order of these axes as they are given.
fn places(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let mut places = vec![0];
    for &axis in axes {
        let stride: usize = shape[axis + 1..].iter().product();
        let inner = |&outer: &usize| (0..shape[axis]).map(move |i| outer + i * stride);
        places = scratch::collected(places.len() * shape[axis], places.iter().flat_map(inner));
    }
    places
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};

    fn close(found: &Tensor, expected: &[f64]) {
        let found = found.elements::<f32>();
        assert_eq!(found.len(), expected.len());
        let fits = |(&found, &expected): (&f32, &f64)| (found as f64 - expected).abs() < 1e-6;
        assert!(found.iter().zip(expected).all(fits), "found {found:?}, expected {expected:?}");
    }

    fn operands(count: u32) -> Vec<Value> {
        (0..count).map(|id| Operand(OperandId(id))).collect()
    }

    #[test]
    fn batch_normalization_by_features() {
        let input = Tensor::of(&[2, 2, 1], [1.0f32, 2.0, 3.0, 4.0]);
        let features = [[1.0f32, 2.0], [3.0, 0.0], [2.0, 1.0], [0.0, 10.0]].map(|list| Tensor::of(&[2], list));
        let inputs = [vec![input], features.to_vec()].concat();
        let options = [Unsigned(1), Double(1.0)];
        close(&run("batchNormalization", &inputs, [operands(5), options.to_vec()].concat())[0], &[0.0, 10.0, 2.0, 12.0]);
        let options = [Absent, Absent, Unsigned(0), Double(1.0)];
        close(&run("batchNormalization", &inputs, [operands(3), options.to_vec()].concat())[0], &[0.0, 0.5, 1.0, 2.0]);
    }

    #[test]
    fn instance_normalization_by_channels() {
        // Two channels: of mean 2 and variance 1, and of mean 0 and variance 4.
        let channels_first = Tensor::of(&[1, 2, 1, 2], [1.0f32, 3.0, -2.0, 2.0]);
        let channels_last = Tensor::of(&[1, 1, 2, 2], [1.0f32, -2.0, 3.0, 2.0]);
        let (scale, bias) = (Tensor::of(&[2], [1.0f32, 3.0]), Tensor::of(&[2], [0.0f32, 1.0]));
        for (layout, input, expected) in [(0, channels_first, [-1.0, 1.0, -2.0, 4.0]), (1, channels_last, [-1.0, -2.0, 1.0, 4.0])]
        {
            let values = [operands(3), vec![Double(0.0), Enumeration(layout)]].concat();
            close(&run("instanceNormalization", &[input, scale.clone(), bias.clone()], values)[0], &expected);
        }
    }

    #[test]
    fn layer_normalization_over_axes() {
        let input = Tensor::of(&[2, 2], [1.0f32, 3.0, 5.0, 9.0]);
        let normalized = |axes: Option<&[u32]>| {
            let axes = axes.map_or(Absent, |axes| UnsignedList(axes.to_vec()));
            let values = vec![Operand(OperandId(0)), Absent, Absent, axes, Double(0.0)];
            run("layerNormalization", std::slice::from_ref(&input), values).remove(0)
        };
        close(&normalized(None), &[-1.0, 1.0, -1.0, 1.0]);
        close(&normalized(Some(&[1])), &[-1.0, 1.0, -1.0, 1.0]);
        close(&normalized(Some(&[0])), &[-1.0, -1.0, 1.0, 1.0]);
        let deviation = 8.75f64.sqrt();
        close(&normalized(Some(&[1, 0])), &[-3.5, -1.5, 0.5, 4.5].map(|x| x / deviation));
    }

    #[test]
    fn scale_and_bias_follow_the_order_of_the_axes() {
        let input = Tensor::of(&[1, 2, 2], [-1.0f32, -1.0, 1.0, 1.0]);
        let scale = [1.0f32, 2.0, 3.0, 4.0];
        for (axes, expected) in [([1, 2], [-1.0, -2.0, 3.0, 4.0]), ([2, 1], [-1.0, -3.0, 2.0, 4.0])] {
            let inputs = [input.clone(), Tensor::of(&[2, 2], scale), Tensor::of(&[2, 2], [0.0f32; 4])];
            let values = [operands(3), vec![UnsignedList(axes.to_vec()), Double(0.0)]].concat();
            close(&run("layerNormalization", &inputs, values)[0], &expected);
        }
    }

    #[test]
    fn nothing_to_normalize_over_leaves_the_bias() {
        let inputs = [Tensor::of(&[2], [3.0f32, 7.0]), Tensor::of(&[], [5.0f32])];
        let values = vec![Operand(OperandId(0)), Absent, Operand(OperandId(1)), UnsignedList(vec![])];
        close(&run("layerNormalization", &inputs, values)[0], &[5.0, 5.0]);
        close(&run("layerNormalization", &inputs[1..], operands(1))[0], &[0.0]);
    }
}
