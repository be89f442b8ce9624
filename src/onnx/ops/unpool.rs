//! MaxPool with the places of its maxima, and MaxUnpool, which puts them back.

use super::elementwise::one;
use super::pool::output_size;
use super::window::Window;
use crate::graph::ops::elementwise::{LogicalKind, PredicateKind};
use crate::graph::ops::movement::{Pad, PaddingMode, Slice};
use crate::graph::ops::scatter::ScatterElements;
use crate::graph::{DataType, Number, OperandId};
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Windows may have so many places: each takes a few nodes.
const MOST_PLACES: u32 = 256;

/// The maxima and their places in the whole input, counted over all its elements. The places of a window are compared one
/// after the other; the first of equal ones counts.
pub fn max_with_indices(node: &Node<'_>, input: OperandId, mut window: Window, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let images = window.with_images(input, emit)?;
    let [batches, channels, height, width] = emit.shape(images)[..] else { return Err("an input of another rank".into()) };
    let sizes = [height, width];
    window.fix_padding(sizes)?;
    let up = node.flag("ceil_mode", false)?;
    let output = [output_size(&window, sizes, 0, up)?, output_size(&window, sizes, 1, up)?];
    window.reach(sizes, output)?;
    let places = window.kernel[0].checked_mul(window.kernel[1]).filter(|&places| places <= MOST_PLACES);
    let places = places.ok_or_else(|| format!("a window of {:?} with the output Indices", window.kernel))?;
    emit.check_count(&[batches, channels, height, width])?;
    emit.reserve(&[output[0].into(), output[1].into(), places.into()])?;
    emit.reserve(&[batches.into(), channels.into()])?;
    let of = emit.data_type(images);
    if !of.is_float() {
        return Err(format!("the output Indices for {of} is not supported").into());
    }
    let [(top, bottom), (left, right)] = window.pads;
    let padded = emit.push(Pad {
        input: images,
        beginning_padding: vec![0, 0, top, left],
        ending_padding: vec![0, 0, bottom, right],
        mode: PaddingMode::Constant,
        value: Number::Double(f64::NEG_INFINITY),
    })?;
    let columns_first = node.int("storage_order", 0)? != 0;
    let mut best: Option<(OperandId, OperandId)> = None;
    for row in 0..window.kernel[0] {
        for column in 0..window.kernel[1] {
            let (dy, dx) = (row * window.dilations[0], column * window.dilations[1]);
            let span = |dimension: usize| (output[dimension] - 1) * window.strides[dimension] + 1;
            let own = emit.push(Slice {
                input: padded,
                starts: vec![0, 0, dy, dx],
                sizes: vec![batches, channels, span(0), span(1)],
                strides: Some(vec![1, 1, window.strides[0], window.strides[1]]),
            })?;
            let place = |dimension: usize, at: u32, offset: u32, before: u32| {
                i64::from(at) * i64::from(window.strides[dimension]) + i64::from(offset) - i64::from(before)
            };
            let (mut here, mut is_first) = (Vec::new(), Vec::new());
            for y in 0..output[0] {
                for x in 0..output[1] {
                    let (y, x) = (place(0, y, dy, top), place(1, x, dx, left));
                    // The first place of a window that is no padding counts whatever is there, minus infinity too.
                    let begins = |at: i64, offset: u32, dilation: u32| at >= 0 && (offset == 0 || at < i64::from(dilation));
                    let first = begins(y, dy, window.dilations[0]) && begins(x, dx, window.dilations[1]);
                    is_first.push(i64::from(first));
                    here.push(if columns_first { x * i64::from(height) + y } else { y * i64::from(width) + x });
                }
            }
            let shape = vec![1, 1, output[0] as usize, output[1] as usize];
            let any_first = is_first.contains(&1);
            let here = emit.constant(Tensor::from_integers(ElementType::Int64, shape.clone(), &here))?;
            best = Some(match best {
                None => (own, emit.expand(here, &[batches, channels, output[0], output[1]])?),
                Some((value, index)) => {
                    // A NaN is the greatest, as in pools without indices, and nothing is greater than it.
                    let is_nan = emit.predicate(PredicateKind::IsNan, own)?;
                    let greater = emit.logical(LogicalKind::Greater, own, value)?;
                    let mut better = emit.logical(LogicalKind::LogicalOr, greater, is_nan)?;
                    if any_first {
                        let first = emit.constant(Tensor::from_integers(ElementType::Bool, shape, &is_first))?;
                        better = emit.logical(LogicalKind::LogicalOr, better, first)?;
                    }
                    (emit.select(better, own, value)?, emit.select(better, here, index)?)
                }
            });
        }
    }
    let (value, index) = best.ok_or("an empty window")?;
    // Before the place within an image, the images.
    let image = i64::from(height) * i64::from(width);
    let starts: Vec<i64> = (0..i64::from(batches) * i64::from(channels)).map(|i| i * image).collect();
    let shape = vec![batches as usize, channels as usize, 1, 1];
    let starts = emit.constant(Tensor::from_integers(ElementType::Int64, shape, &starts))?;
    let index = emit.add(index, starts)?;
    Ok(vec![window.without_images(value, emit)?.into(), window.without_images(index, emit)?.into()])
}

/// MaxUnpool: elements at the places that a MaxPool told, and 0 elsewhere.
pub fn max_unpool(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, indices) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let shape = emit.shape(input);
    let window = Window::of(node, shape.len(), None)?;
    // What the pool's input must have been like.
    let spatial = shape.len() - 2;
    let mut own = shape.clone();
    for i in 0..spatial {
        let dimension = i + 2 - spatial;
        let (before, after) = window.pads[dimension];
        let whole = u64::from(shape[2 + i] - 1) * u64::from(window.strides[dimension]) + u64::from(window.kernel[dimension]);
        let whole = whole.checked_sub(u64::from(before) + u64::from(after)).filter(|&whole| whole > 0);
        own[2 + i] = size(whole.ok_or("more padding than output")?)?;
    }
    let target = match node.optional_constant(2, "the output's shape")? {
        Some(tensor) => tensor.integers().iter().map(|&length| size(length)).collect::<Mapped<Vec<u32>>>()?,
        None => own.clone(),
    };
    if target.len() != shape.len() || target[..2] != own[..2] {
        return Err(format!("the output's shape {target:?} for an input of shape {shape:?}").into());
    }
    let (count, of_input) = (emit.check_count(&own)?, emit.check_count(&shape)?);
    let element: ElementType = emit.data_type(input).into();
    let bytes = element.byte_length(count as usize).ok_or("too many elements")?;
    let zeros = emit.constant(Tensor { element, shape: vec![count as usize], bytes: memory::filled(0, bytes)?.into() })?;
    let indices = emit.cast(indices, DataType::Int64)?;
    let (indices, updates) = (emit.reshape(indices, &[of_input])?, emit.reshape(input, &[of_input])?);
    let flat = emit.push(ScatterElements { input: zeros, indices, updates, axis: 0 })?;
    let result = emit.reshape(flat, &own)?;
    if own == target {
        return one(result);
    }
    // A larger output has zeros behind.
    let ending =
        target.iter().zip(&own).map(|(&target, &own)| target.checked_sub(own).ok_or("a smaller output than the pool had"));
    let ending_padding = ending.collect::<Result<Vec<u32>, _>>()?;
    let beginning_padding = vec![0; ending_padding.len()];
    one(emit.push(Pad {
        input: result,
        beginning_padding,
        ending_padding,
        mode: PaddingMode::Constant,
        value: Number::Double(0.0),
    })?)
}
