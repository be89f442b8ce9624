//! Convolutions. One spatial dimension is computed as two, of which the first has size 1.

use super::elementwise::one;
use super::volume;
use super::window::{AutoPad, Window};
use crate::graph::OperandId;
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    one(convolution(node, input, filter, bias, emit)?)
}

/// A convolution with the attributes of Conv.
pub fn convolution(
    node: &Node<'_>,
    input: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    if emit.rank(input) == 5 {
        return volume::convolution(node, input, filter, bias, emit);
    }
    images(node, input, filter, bias, emit, &mut |op, emit| emit.push(op))
}

/// One of images or of lines, of which `push` makes what takes its place.
pub fn images(
    node: &Node<'_>,
    input: OperandId,
    filter: OperandId,
    bias: Option<OperandId>,
    emit: &mut Emit<'_>,
    push: &mut dyn FnMut(Conv2d, &mut Emit<'_>) -> Mapped<OperandId>,
) -> Mapped<OperandId> {
    let mut window = window(node, input, filter, emit)?;
    let input = window.with_images(input, emit)?;
    let filter = window.with_images(filter, emit)?;
    let shape = emit.shape(input);
    window.fix_padding([shape[2], shape[3]])?;
    let op = Conv2d {
        input,
        filter,
        padding: window.padding(),
        strides: window.strides,
        dilations: window.dilations,
        groups: size(node.int("group", 1)?)?,
        input_layout: InputOperandLayout::Nchw,
        filter_layout: Conv2dFilterOperandLayout::Oihw,
        bias,
    };
    let output = push(op, emit)?;
    window.without_images(output, emit)
}

fn window(node: &Node<'_>, input: OperandId, filter: OperandId, emit: &Emit<'_>) -> Mapped<Window> {
    let (rank, filter) = (emit.rank(input), emit.shape(filter));
    if filter.len() != rank {
        return Err(format!("a filter of rank {} for an input of rank {rank}", filter.len()).into());
    }
    Window::of(node, rank, filter.get(2..))
}

pub fn conv_transpose(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    let mut window = window(node, input, filter, emit)?;
    let input = window.with_images(input, emit)?;
    let filter = window.with_images(filter, emit)?;
    let shape = emit.shape(input);
    let spatial = if window.flat { 1 } else { 2 };
    let pair = |name: &str| -> Mapped<Option<[u32; 2]>> {
        let Some(list) = node.ints(name)?.filter(|list| !list.is_empty()) else { return Ok(None) };
        // A shape with batch and channels in front is taken too.
        let tail =
            list.len().checked_sub(spatial).filter(|&leading| leading == 0 || leading == 2).map(|leading| &list[leading..]);
        match tail {
            Some(&[width]) => Ok(Some([if name == "output_shape" { 1 } else { 0 }, size(width)?])),
            Some(&[height, width]) => Ok(Some([size(height)?, size(width)?])),
            _ => Err(format!("attribute {name} has {} numbers", list.len()).into()),
        }
    };
    let output_padding = pair("output_padding")?.unwrap_or([0, 0]);
    let wanted = pair("output_shape")?;
    let same = matches!(window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
    let mut ending = output_padding;
    if wanted.is_some() || same {
        for dimension in 0..2 {
            let (length, stride) = (u64::from(shape[2 + dimension]), u64::from(window.strides[dimension]));
            let full = (length - 1) * stride + window.extent(dimension) + u64::from(output_padding[dimension]);
            let target = wanted.map_or(length * stride, |wanted| wanted[dimension].into());
            match full.checked_sub(target) {
                // With a shape that is given, the odd one goes before unless SAME_UPPER says otherwise.
                Some(total) => {
                    let (before, after) = window.divide(total)?;
                    let swaps = window.auto_pad == AutoPad::NotSet;
                    window.pads[dimension] = if swaps { (after, before) } else { (before, after) };
                }
                // Larger than what the windows reach: zeros at the end.
                None => {
                    window.pads[dimension] = (0, 0);
                    ending[dimension] = size(target - full + u64::from(output_padding[dimension]))?;
                }
            }
        }
    }
    let output = emit.push(ConvTranspose2d {
        input,
        filter,
        padding: window.padding(),
        strides: window.strides,
        dilations: window.dilations,
        output_padding: ending,
        output_sizes: None,
        groups: size(node.int("group", 1)?)?,
        input_layout: InputOperandLayout::Nchw,
        filter_layout: ConvTranspose2dFilterOperandLayout::Iohw,
        bias,
    })?;
    one(window.without_images(output, emit)?)
}
