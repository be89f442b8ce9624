//! Convolutions. The arithmetic is in `f32` for both data types.
//!
//! conv2d is a product of matrices, one of which is made of [`Patches`] of the input. A group with few channels is computed
//! directly. convTranspose2d is a product, the rows of which are then added to the
//! output.

use super::patches::Patches;
use super::product::{Size, Strided, add_product};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::{for_each_piece, is_wanted};
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::ops::layout::InputOperandLayout::{self, Nchw, Nhwc};
use crate::looks::Looking;
use ndarray::{ArrayView4, CowArray, Ix4};

/// With fewer output channels in a group than this, a convolution of planes is done directly.
const FEW_PLANES: usize = 4;
/// The same for a convolution with the channels last, which has one input channel in a group.
const FEW_CHANNELS: usize = 8;
/// Elements of the product that convTranspose2d makes at a time.
const SCATTERED: usize = 1 << 22;

/// The sizes of a convolution, whatever the layouts.
struct Geometry {
    batches: usize,
    groups: usize,
    /// Channels of the input and of the output in a group.
    input_channels: usize,
    output_channels: usize,
    rows: Axis,
    columns: Axis,
}

impl Geometry {
    fn all_output_channels(&self) -> usize {
        self.groups * self.output_channels
    }

    /// Elements of the filter for one input channel.
    fn taps(&self) -> usize {
        self.rows.window * self.columns.window
    }

    /// Positions of the filter.
    fn positions(&self) -> usize {
        self.rows.output * self.columns.output
    }
}

/// The strides of a dense image, along batches, channels, height and width.
fn strides(layout: InputOperandLayout, [_, channels, height, width]: [usize; 4]) -> [usize; 4] {
    match layout {
        Nchw => [channels * height * width, height * width, width, 1],
        Nhwc => [channels * height * width, 1, width * channels, channels],
    }
}

pub fn conv2d(op: &Conv2d, arguments: &mut Arguments<'_, '_>) {
    let (input, filter) = (arguments.input(op.input), arguments.input(op.filter));
    let bias = op.bias.map(|bias| arguments.input(bias).to_f32());
    let output = arguments.output();
    let input_shape = op.input_layout.to_nchw(input.shape);
    let [batches, _, height, width] = input_shape;
    let [_, _, output_height, output_width] = op.input_layout.to_nchw(output.shape);
    let [output_channels, input_channels, filter_height, filter_width] = op.filter_layout.to_oihw(filter.shape);
    let axis = |number, sizes| Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding));
    let geometry = Geometry {
        batches,
        groups: op.groups as usize,
        input_channels,
        output_channels: output_channels / op.groups as usize,
        rows: axis(0, (height, output_height, filter_height)),
        columns: axis(1, (width, output_width, filter_width)),
    };
    let filter_elements = filter.to_f32();
    // An infinite weight times padding is not a number, so padding may not be left out then.
    let is_finite = filter_elements.iter().looking(1).all(|x| x.is_finite());
    let shape = [filter.shape[0], filter.shape[1], filter.shape[2], filter.shape[3]];
    let filter = ArrayView4::from_shape(shape, &filter_elements).expect("a view's elements are those of its shape");
    let [o, i, h, w] = op.filter_layout.to_oihw(&[0, 1, 2, 3]);
    let input = input.to_f32();
    let image = Image { elements: &input, strides: strides(op.input_layout, input_shape) };
    let ordered = |order| filter.permuted_axes::<[usize; 4]>(order);
    output.fill_f32(|output| match op.input_layout {
        Nchw => {
            let filter = ordered([o, i, h, w]);
            let filter = filter.as_standard_layout();
            if is_finite && geometry.output_channels < FEW_PLANES {
                planes(&geometry, image, dense(&filter), bias.as_deref(), output);
            } else {
                patches_last(&geometry, image, dense(&filter), bias.as_deref(), output);
            }
        }
        Nhwc => {
            let filter = ordered([h, w, i, o]);
            let filter = filter.as_standard_layout();
            if is_finite && geometry.input_channels == 1 && geometry.output_channels < FEW_CHANNELS {
                depthwise(&geometry, image, dense(&filter), bias.as_deref(), output);
            } else {
                patches_first(&geometry, image, dense(&filter), bias.as_deref(), output);
            }
        }
    });
}

/// The elements of an array in standard layout.
fn dense<'a>(array: &'a CowArray<'_, f32, Ix4>) -> &'a [f32] {
    array.as_slice().expect("the layout is standard")
}

/// An input with any layout.
#[derive(Clone, Copy)]
struct Image<'a> {
    elements: &'a [f32],
    strides: [usize; 4],
}

impl<'a> Image<'a> {
    /// From a channel of a batch on.
    fn from(&self, batch: usize, channel: usize) -> &'a [f32] {
        &self.elements[batch * self.strides[0] + channel * self.strides[1]..]
    }

    fn patches(&self, geometry: &Geometry, batch: usize, group: usize) -> Patches<'a> {
        Patches {
            image: self.from(batch, group * geometry.input_channels),
            strides: self.strides,
            channels: geometry.input_channels,
            rows: geometry.rows,
            columns: geometry.columns,
        }
    }
}

/// Channels first: in each batch and group, the filter (`oihw`) times a matrix of patches.
fn patches_last(geometry: &Geometry, image: Image<'_>, filter: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let positions = geometry.positions();
    let size = Size { rows: geometry.output_channels, depth: geometry.input_channels * geometry.taps(), columns: positions };
    let unit = size.rows * size.columns;
    for_each_piece(output, unit, unit * size.depth / 16, |first, piece| {
        for (i, output) in piece.chunks_exact_mut(unit).enumerate() {
            let (batch, group) = ((first + i) / geometry.groups, (first + i) % geometry.groups);
            for (o, plane) in output.chunks_exact_mut(positions).enumerate() {
                plane.fill(bias.map_or(0.0, |bias| bias[group * size.rows + o]));
            }
            let filter = Strided::dense(&filter[group * size.rows * size.depth..], size.depth);
            add_product(size, &filter, &image.patches(geometry, batch, group), output, positions);
        }
    });
}

/// Channels last: in each group, a matrix of the patches of all batches times the filter (`hwio`).
fn patches_first(geometry: &Geometry, image: Image<'_>, filter: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let channels = geometry.all_output_channels();
    let size = Size {
        rows: geometry.batches * geometry.positions(),
        depth: geometry.taps() * geometry.input_channels,
        columns: geometry.output_channels,
    };
    for_each_piece(output, channels, channels / 8, |_, piece| match bias {
        Some(bias) => piece.chunks_exact_mut(channels).for_each(|output| output.copy_from_slice(bias)),
        None => piece.fill(0.0),
    });
    for group in 0..geometry.groups {
        let first = group * size.columns;
        let filter = Strided::dense(&filter[first..], channels);
        add_product(size, &image.patches(geometry, 0, group), &filter, &mut output[first..], channels);
    }
}

/// Channels first, directly: every output row is a sum of multiples of input rows. The filter is `oihw`.
fn planes(geometry: &Geometry, image: Image<'_>, filter: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let Geometry { rows, columns, input_channels, .. } = *geometry;
    let (plane, taps) = (geometry.positions(), geometry.taps());
    // For every column of the filter, the outputs that it reaches and the input of the first of them.
    let reached: Vec<_> = (0..columns.window)
        .map(|tap| {
            let positions = columns.positions(tap);
            let first = columns.element(positions.start, tap).unwrap_or(0);
            (positions, first)
        })
        .collect();
    for_each_piece(output, plane, plane * input_channels * taps / 4, |first, piece| {
        for (i, output) in piece.chunks_exact_mut(plane).enumerate() {
            let (batch, channel) = ((first + i) / geometry.all_output_channels(), (first + i) % geometry.all_output_channels());
            let group = channel / geometry.output_channels;
            for (y, output) in output.chunks_exact_mut(columns.output).enumerate() {
                output.fill(0.0);
                for c in 0..input_channels {
                    if !is_wanted() {
                        return;
                    }
                    let image = image.from(batch, group * input_channels + c);
                    let filter = &filter[(channel * input_channels + c) * taps..][..taps];
                    for tap_y in rows.taps(y) {
                        let from_y = rows.element(y, tap_y).expect("the tap is inside");
                        let input = &image[from_y * columns.input..][..columns.input];
                        for ((positions, from_x), factor) in reached.iter().zip(&filter[tap_y * columns.window..]) {
                            let output = &mut output[positions.clone()];
                            if columns.stride == 1 {
                                let input = &input[*from_x..][..output.len()];
                                output.iter_mut().zip(input).for_each(|(output, input)| *output += factor * input);
                            } else {
                                let input = input[*from_x..].iter().step_by(columns.stride);
                                output.iter_mut().zip(input).for_each(|(output, input)| *output += factor * input);
                            }
                        }
                    }
                }
                if let Some(bias) = bias {
                    output.iter_mut().for_each(|output| *output += bias[channel]);
                }
            }
        }
    });
}

/// Channels last with one input channel in a group, directly: every output pixel is a sum of products of input pixels with
/// pixels of the filter (`hwio`).
fn depthwise(geometry: &Geometry, image: Image<'_>, filter: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let Geometry { rows, columns, .. } = *geometry;
    let channels = geometry.all_output_channels();
    let unit = columns.output * channels;
    for_each_piece(output, unit, unit * geometry.taps() / 4, |first, piece| {
        for (i, output) in piece.chunks_exact_mut(unit).enumerate() {
            let (batch, y) = ((first + i) / rows.output, (first + i) % rows.output);
            let image = image.from(batch, 0);
            for (x, output) in output.chunks_exact_mut(channels).enumerate() {
                output.fill(0.0);
                if !is_wanted() {
                    return;
                }
                for tap_y in rows.taps(y) {
                    let from_y = rows.element(y, tap_y).expect("the tap is inside");
                    for tap_x in columns.taps(x) {
                        let from_x = columns.element(x, tap_x).expect("the tap is inside");
                        let input = image_pixel(image, geometry, from_y, from_x);
                        let filter = &filter[(tap_y * columns.window + tap_x) * channels..][..channels];
                        if geometry.output_channels == 1 {
                            let products = filter.iter().zip(input).map(|(filter, input)| filter * input);
                            output.iter_mut().zip(products).for_each(|(output, product)| *output += product);
                        } else {
                            for (o, (output, filter)) in output.iter_mut().zip(filter).enumerate() {
                                *output += filter * input[o / geometry.output_channels];
                            }
                        }
                    }
                }
                if let Some(bias) = bias {
                    output.iter_mut().zip(bias).for_each(|(output, bias)| *output += bias);
                }
            }
        }
    });
}

/// A pixel of an image with the channels last and one channel in each group.
fn image_pixel<'a>(image: &'a [f32], geometry: &Geometry, y: usize, x: usize) -> &'a [f32] {
    &image[(y * geometry.columns.input + x) * geometry.groups..][..geometry.groups]
}

pub fn conv_transpose2d(op: &ConvTranspose2d, arguments: &mut Arguments<'_, '_>) {
    let (input, filter) = (arguments.input(op.input), arguments.input(op.filter));
    let bias = op.bias.map(|bias| arguments.input(bias).to_f32());
    let output = arguments.output();
    let input_shape = op.input_layout.to_nchw(input.shape);
    let [batches, channels, height, width] = input_shape;
    let [_, _, output_height, output_width] = op.input_layout.to_nchw(output.shape);
    let [_, output_channels, filter_height, filter_width] = op.filter_layout.to_iohw(filter.shape);
    // The filter slides over the output: where conv2d reads elements, this one writes them.
    let axis = |number, sizes| Axis::new(number, sizes, (&op.strides, &op.dilations, &op.padding));
    let geometry = Geometry {
        batches,
        groups: op.groups as usize,
        input_channels: channels / op.groups as usize,
        output_channels,
        rows: axis(0, (output_height, height, filter_height)),
        columns: axis(1, (output_width, width, filter_width)),
    };
    let filter_elements = filter.to_f32();
    let shape = [filter.shape[0], filter.shape[1], filter.shape[2], filter.shape[3]];
    let filter = ArrayView4::from_shape(shape, &filter_elements).expect("a view's elements are those of its shape");
    let filter = filter.permuted_axes(op.filter_layout.to_iohw(&[0, 1, 2, 3]));
    let filter = filter.as_standard_layout();
    let input = input.to_f32();
    let image = Image { elements: &input, strides: strides(op.input_layout, input_shape) };
    output.fill_f32(|output| match op.input_layout {
        Nchw => transposed_planes(&geometry, image, dense(&filter), bias.as_deref(), output),
        Nhwc => {
            let mut planes = scratch::zeroed(output.len());
            transposed_planes(&geometry, image, dense(&filter), bias.as_deref(), &mut planes);
            let (channels, plane) = (geometry.all_output_channels(), output_height * output_width);
            for_each_piece(output, channels, channels, |first, piece| {
                for (i, output) in piece.chunks_exact_mut(channels).enumerate() {
                    let (batch, pixel) = ((first + i) / plane, (first + i) % plane);
                    let planes = planes[batch * channels * plane + pixel..].iter().step_by(plane);
                    output.iter_mut().zip(planes).for_each(|(output, from)| *output = *from);
                }
            });
        }
    });
}

/// A transposed convolution with the filter in `iohw` and the output's channels first.
fn transposed_planes(geometry: &Geometry, image: Image<'_>, filter: &[f32], bias: Option<&[f32]>, output: &mut [f32]) {
    let (taps, pixels) = (geometry.taps(), geometry.positions());
    let plane = geometry.rows.input * geometry.columns.input;
    // The product has a row for every output channel and tap: what that tap adds for every input pixel.
    let together = (SCATTERED / (taps * pixels)).clamp(1, geometry.output_channels);
    let mut product = scratch::zeroed(together * taps * pixels);
    let group_outputs = geometry.output_channels * plane;
    let filter_row = geometry.output_channels * taps;
    for (i, output) in output.chunks_exact_mut(group_outputs).enumerate() {
        let (batch, group) = (i / geometry.groups, i % geometry.groups);
        let first_input = group * geometry.input_channels;
        let right = Strided {
            elements: image.from(batch, first_input),
            // With either layout, pixels follow each other at the stride of the width.
            strides: [image.strides[1], image.strides[3]],
        };
        for (block, output) in output.chunks_mut(together * plane).enumerate() {
            let channels = output.len() / plane;
            let first_output = block * together;
            let product = &mut product[..channels * taps * pixels];
            product.fill(0.0);
            let filter = &filter[first_input * filter_row + first_output * taps..];
            let left = Strided::dense(filter, filter_row).transposed();
            let size = Size { rows: channels * taps, depth: geometry.input_channels, columns: pixels };
            add_product(size, &left, &right, product, pixels);
            let product = &*product;
            for_each_piece(output, plane, plane + taps * pixels, |first, piece| {
                for (i, output) in piece.chunks_exact_mut(plane).enumerate() {
                    output.fill(0.0);
                    scatter(geometry, &product[(first + i) * taps * pixels..][..taps * pixels], output);
                    if let Some(bias) = bias {
                        let bias = bias[group * geometry.output_channels + first_output + first + i];
                        output.iter_mut().for_each(|output| *output += bias);
                    }
                }
            });
        }
    }
}

/// Adds what every tap of the filter gives for every input pixel to where it belongs in an output plane.
fn scatter(geometry: &Geometry, product: &[f32], output: &mut [f32]) {
    let Geometry { rows, columns, .. } = *geometry;
    for (tap, pixels) in product.chunks_exact(geometry.positions()).enumerate() {
        if !is_wanted() {
            return;
        }
        let (tap_y, tap_x) = (tap / columns.window, tap % columns.window);
        let positions = columns.positions(tap_x);
        let Some(to_x) = columns.element(positions.start, tap_x).filter(|_| !positions.is_empty()) else { continue };
        for y in rows.positions(tap_y) {
            let to_y = rows.element(y, tap_y).expect("the position is inside");
            let pixels = &pixels[y * columns.output..][positions.clone()];
            let output = output[to_y * columns.input + to_x..].iter_mut().step_by(columns.stride);
            output.zip(pixels).for_each(|(output, pixel)| *output += pixel);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use half::f16;

    /// Small integers, so that every sum is exact.
    fn numbers(shape: [usize; 4], seed: usize) -> Vec<f32> {
        (0..shape.iter().product()).map(|i| ((i * 7 + seed) * 31 % 11) as f32 - 5.0).collect()
    }

    /// The elements of a 4-D tensor with its dimensions in another order.
    fn permuted(elements: &[f32], shape: [usize; 4], order: [usize; 4]) -> (Vec<u32>, Vec<f32>) {
        let array = ndarray::ArrayView4::from_shape(shape, elements).unwrap().permuted_axes(order);
        (array.shape().iter().map(|&size| size as u32).collect(), array.iter().copied().collect())
    }

    /// Numbers of a case, made from the case's number.
    struct Digits(usize);

    impl Digits {
        fn next(&mut self, count: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % count
        }

        fn pair(&mut self, count: usize) -> [usize; 2] {
            [self.next(count), self.next(count)]
        }
    }

    fn list(list: &[usize]) -> Value {
        UnsignedList(list.iter().map(|&x| x as u32).collect())
    }

    const ORDERS: [[usize; 4]; 2] = [[0, 1, 2, 3], [0, 2, 3, 1]];

    #[test]
    fn conv2d_of_every_geometry() {
        // The orders of oihw that are oihw, hwio, ohwi and ihwo.
        let filter_orders = [[0, 1, 2, 3], [2, 3, 1, 0], [0, 2, 3, 1], [1, 2, 3, 0]];
        let mut computed = 0;
        for case in 0..2000 {
            let mut digits = Digits(case);
            let (batches, groups) = (digits.next(2) + 1, digits.next(3) + 1);
            let (group_inputs, group_outputs) = (digits.next(3) + 1, [1, 2, 3, 5, 9, 13][digits.next(6)]);
            let ([height, width], [filter_height, filter_width]) = (digits.pair(9), digits.pair(4));
            let (input_shape, filter_shape) = (
                [batches, groups * group_inputs, height + 1, width + 1],
                [groups * group_outputs, group_inputs, filter_height + 1, filter_width + 1],
            );
            let (strides, dilations) = (digits.pair(3).map(|x| x + 1), digits.pair(3).map(|x| x + 1));
            let padding = [digits.pair(4), digits.pair(4)].concat();
            let (input_layout, filter_layout) = (digits.next(2), digits.next(4));
            let size = |axis: usize| {
                let padded = input_shape[2 + axis] + padding[2 * axis] + padding[2 * axis + 1];
                Some(padded.checked_sub((filter_shape[2 + axis] - 1) * dilations[axis] + 1)? / strides[axis] + 1)
            };
            let (Some(output_height), Some(output_width)) = (size(0), size(1)) else { continue };
            computed += 1;
            let (input, filter) = (numbers(input_shape, case), numbers(filter_shape, case + 1));
            let bias: Vec<f32> = (0..filter_shape[0]).map(|o| o as f32).collect();
            let output_shape = [batches, filter_shape[0], output_height, output_width];
            let mut expected = Vec::new();
            for i in 0..output_shape.iter().product() {
                let (x, y) = (i % output_width, i / output_width % output_height);
                let (o, n) =
                    (i / output_width / output_height % filter_shape[0], i / output_width / output_height / filter_shape[0]);
                let mut sum = bias[o];
                for tap in 0..group_inputs * filter_shape[2] * filter_shape[3] {
                    let (tap_x, tap_y) = (tap % filter_shape[3], tap / filter_shape[3] % filter_shape[2]);
                    let c = tap / filter_shape[3] / filter_shape[2];
                    let from_y = (y * strides[0] + tap_y * dilations[0]).wrapping_sub(padding[0]);
                    let from_x = (x * strides[1] + tap_x * dilations[1]).wrapping_sub(padding[2]);
                    if from_y < input_shape[2] && from_x < input_shape[3] {
                        let c = o / group_outputs * group_inputs + c;
                        let from = ((n * input_shape[1] + c) * input_shape[2] + from_y) * input_shape[3] + from_x;
                        sum += input[from] * filter[o * group_inputs * filter_shape[2] * filter_shape[3] + tap];
                    }
                }
                expected.push(sum);
            }
            let (input_sizes, input) = permuted(&input, input_shape, ORDERS[input_layout]);
            let (filter_sizes, filter) = permuted(&filter, filter_shape, filter_orders[filter_layout]);
            let expected = permuted(&expected, output_shape, ORDERS[input_layout]).1;
            let values = vec![
                Operand(OperandId(0)),
                Operand(OperandId(1)),
                list(&padding),
                list(&strides),
                list(&dilations),
                Unsigned(groups as u32),
                Enumeration(input_layout as u32),
                Enumeration(filter_layout as u32),
                Operand(OperandId(2)),
            ];
            let operands =
                [Tensor::of(&input_sizes, input), Tensor::of(&filter_sizes, filter), Tensor::of(&[bias.len() as u32], bias)];
            assert_eq!(run("conv2d", &operands, values.clone())[0].elements::<f32>(), expected, "{values:?}");
            let halves = operands.map(|t| Tensor::of(&t.descriptor.shape, t.elements::<f32>().into_iter().map(f16::from_f32)));
            let expected: Vec<f16> = expected.into_iter().map(f16::from_f32).collect();
            assert_eq!(run("conv2d", &halves, values.clone())[0].elements::<f16>(), expected, "{values:?}");
        }
        assert!(computed > 1000);
    }

    #[test]
    fn conv_transpose2d_of_every_geometry() {
        // The orders of iohw that are iohw, hwoi and ohwi.
        let filter_orders = [[0, 1, 2, 3], [2, 3, 1, 0], [1, 2, 3, 0]];
        let mut computed = 0;
        for case in 0..2000 {
            let mut digits = Digits(case);
            let (batches, groups) = (digits.next(2) + 1, digits.next(3) + 1);
            let (group_inputs, group_outputs) = (digits.next(3) + 1, [1, 2, 3, 5][digits.next(4)]);
            let ([height, width], [filter_height, filter_width]) = (digits.pair(6), digits.pair(4));
            let (input_shape, filter_shape) = (
                [batches, groups * group_inputs, height + 1, width + 1],
                [groups * group_inputs, group_outputs, filter_height + 1, filter_width + 1],
            );
            let (strides, dilations) = (digits.pair(3).map(|x| x + 1), digits.pair(3).map(|x| x + 1));
            let padding = [digits.pair(4), digits.pair(4)].concat();
            let (input_layout, filter_layout) = (digits.next(2), digits.next(3));
            let output_padding = [digits.next(strides[0]), digits.next(strides[1])];
            let by_sizes = digits.next(2) == 1;
            let size = |axis: usize| {
                let whole = (input_shape[2 + axis] - 1) * strides[axis] + (filter_shape[2 + axis] - 1) * dilations[axis] + 1;
                let size = (whole + output_padding[axis]).checked_sub(padding[2 * axis] + padding[2 * axis + 1])?;
                (size > 0).then_some(size)
            };
            let (Some(output_height), Some(output_width)) = (size(0), size(1)) else { continue };
            computed += 1;
            let (input, filter) = (numbers(input_shape, case), numbers(filter_shape, case + 1));
            let output_shape = [batches, groups * group_outputs, output_height, output_width];
            let bias: Vec<f32> = (0..output_shape[1]).map(|o| o as f32).collect();
            let plane = output_height * output_width;
            let mut expected: Vec<f32> = (0..output_shape.iter().product()).map(|i| bias[i / plane % output_shape[1]]).collect();
            for (i, element) in input.iter().enumerate() {
                let (x, y) = (i % input_shape[3], i / input_shape[3] % input_shape[2]);
                let (c, n) =
                    (i / input_shape[3] / input_shape[2] % input_shape[1], i / input_shape[3] / input_shape[2] / input_shape[1]);
                for tap in 0..group_outputs * filter_shape[2] * filter_shape[3] {
                    let (tap_x, tap_y) = (tap % filter_shape[3], tap / filter_shape[3] % filter_shape[2]);
                    let o = c / group_inputs * group_outputs + tap / filter_shape[3] / filter_shape[2];
                    let to_y = (y * strides[0] + tap_y * dilations[0]).wrapping_sub(padding[0]);
                    let to_x = (x * strides[1] + tap_x * dilations[1]).wrapping_sub(padding[2]);
                    if to_y < output_height && to_x < output_width {
                        let to = ((n * output_shape[1] + o) * output_height + to_y) * output_width + to_x;
                        expected[to] += element * filter[c * group_outputs * filter_shape[2] * filter_shape[3] + tap];
                    }
                }
            }
            let (input_sizes, input) = permuted(&input, input_shape, ORDERS[input_layout]);
            let (filter_sizes, filter) = permuted(&filter, filter_shape, filter_orders[filter_layout]);
            let expected = permuted(&expected, output_shape, ORDERS[input_layout]).1;
            let values = vec![
                Operand(OperandId(0)),
                Operand(OperandId(1)),
                list(&padding),
                list(&strides),
                list(&dilations),
                if by_sizes { Absent } else { list(&output_padding) },
                if by_sizes { list(&[output_height, output_width]) } else { Absent },
                Unsigned(groups as u32),
                Enumeration(input_layout as u32),
                Enumeration(filter_layout as u32),
                Operand(OperandId(2)),
            ];
            let operands =
                [Tensor::of(&input_sizes, input), Tensor::of(&filter_sizes, filter), Tensor::of(&[bias.len() as u32], bias)];
            assert_eq!(run("convTranspose2d", &operands, values.clone())[0].elements::<f32>(), expected, "{values:?}");
        }
        assert!(computed > 1000);
    }
}
