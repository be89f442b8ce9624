//! Convolutions and pools with three spatial dimensions, put together from those with two.

use super::elementwise::one;
use super::image_pool::{Kind, windows};
use crate::graph::Number;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::movement::{Pad, PaddingMode, Slice};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::window::Window;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Kernels may be so deep: each layer is a convolution of its own.
const MOST_LAYERS: u32 = 64;

/// A convolution is the sum of convolutions of layers: one for each layer of the filter, over the images that it meets.
pub fn convolution(
    node: &Node<'_>,
    input: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let (shape, of_filter) = (emit.shape(input), emit.shape(filter));
    if of_filter.len() != 5 {
        return Err(format!("a filter of rank {} for an input of rank 5", of_filter.len()).into());
    }
    let (mut depth, mut planes) = Window::of_volume(node, Some(&of_filter[2..]))?;
    depth.fix_padding([1, shape[2]])?;
    planes.fix_padding([shape[3], shape[4]])?;
    let layers = depth.kernel[1];
    if layers > MOST_LAYERS {
        return Err(format!("a kernel of {layers} layers").into());
    }
    let [batches, channels, _, height, width] = shape[..] else { return Err("an input whose rank is not 5".into()) };
    let (before, after) = depth.pads[1];
    let mut volume = input;
    if (before, after) != (0, 0) {
        volume = emit.push(Pad {
            input,
            beginning_padding: vec![0, 0, before, 0, 0],
            ending_padding: vec![0, 0, after, 0, 0],
            mode: PaddingMode::Constant,
            value: Number::Double(0.0),
        })?;
    }
    let deep = emit.shape(volume)[2];
    let room = u64::from(deep).checked_sub(depth.extent(1)).ok_or("a kernel that is larger than the input")?;
    let count = size(room / u64::from(depth.strides[1]) + 1)?;
    // Depth first, so that images of one depth lie together: [depth, batch, channels, height, width].
    let volume = emit.transpose(volume, &[2, 0, 1, 3, 4])?;
    let filters = emit.transpose(filter, &[2, 0, 1, 3, 4])?;
    let groups = size(node.int("group", 1)?)?;
    let mut sum = None;
    for layer in 0..layers {
        let span = (count - 1) * depth.strides[1] + 1;
        let slice = Slice {
            input: volume,
            starts: vec![layer * depth.dilations[1], 0, 0, 0, 0],
            sizes: vec![span, batches, channels, height, width],
            strides: Some(vec![depth.strides[1], 1, 1, 1, 1]),
        };
        let images = emit.push(slice)?;
        let images = emit.reshape(images, &[emit.check_count(&[count, batches])?, channels, height, width])?;
        let own = emit.slice_axis(filters, 0, layer, 1)?;
        let own = emit.reshape(own, &[of_filter[0], of_filter[1], of_filter[3], of_filter[4]])?;
        let part = emit.push(Conv2d {
            input: images,
            filter: own,
            padding: planes.padding(),
            strides: planes.strides,
            dilations: planes.dilations,
            groups,
            input_layout: InputOperandLayout::Nchw,
            filter_layout: Conv2dFilterOperandLayout::Oihw,
            // Once, with the first layer.
            bias: bias.filter(|_| layer == 0),
        })?;
        sum = Some(match sum {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    let sum = sum.ok_or("a kernel without layers")?;
    let [_, filters, height, width] = emit.shape(sum)[..] else { return Err("a convolution of another rank".into()) };
    let apart = emit.reshape(sum, &[count, batches, filters, height, width])?;
    emit.transpose(apart, &[1, 2, 0, 3, 4])
}

/// A pool of a box is a pool of its planes and then one along its depth: maxima, averages and norms all nest so.
pub fn pool(node: &Node<'_>, kind: Kind, input: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let [batches, channels, deep, height, width] = emit.shape(input)[..] else {
        return Err("an input whose rank is not 5".into());
    };
    let (depth, planes) = Window::of_volume(node, None)?;
    let images = emit.reshape(input, &[batches, emit.check_count(&[channels, deep])?, height, width])?;
    let pooled = windows(node, kind, images, planes, emit)?;
    let [_, _, height, width] = emit.shape(pooled)[..] else { return Err("a pool of another rank".into()) };
    let columns =
        emit.reshape(pooled, &[emit.check_count(&[batches, channels])?, deep, 1, emit.check_count(&[height, width])?])?;
    // The window moves along the last dimension.
    let columns = emit.transpose(columns, &[0, 2, 3, 1])?;
    let pooled = windows(node, kind, columns, depth, emit)?;
    let pooled = emit.transpose(pooled, &[0, 3, 1, 2])?;
    let deep = emit.shape(pooled)[1];
    one(emit.reshape(pooled, &[batches, channels, deep, height, width])?)
}
