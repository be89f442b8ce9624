//! MaxPool with the places of its maxima, and MaxUnpool, which puts them back.

use super::elementwise::one;
use super::window::Window;
use crate::graph::ops::elementwise::{LogicalKind, PredicateKind};
use crate::graph::ops::movement::{Pad, PaddingMode, Slice};
use crate::graph::ops::scatter::ScatterElements;
use crate::graph::{DataType, Number, OperandId};
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Windows may have so many places: each takes a few nodes.
const MOST_PLACES: u32 = 256;

/// One spatial dimension of a pool.
struct Side {
    length: u32,
    output: u32,
    kernel: u32,
    stride: u32,
    dilation: u32,
    before: u32,
    after: u32,
}

impl Side {
    fn of(node: &Node<'_>, shape: &[u32]) -> Mapped<Vec<Side>> {
        let up = node.flag("ceil_mode", false)?;
        let mut lengths = shape.iter().skip(2).copied();
        let mut sides = Vec::new();
        for (mut window, own) in Window::all(node, shape.len())? {
            let mut sizes = [1; 2];
            for (size, length) in sizes[own.clone()].iter_mut().zip(&mut lengths) {
                *size = length;
            }
            window.fix_padding(sizes)?;
            let output = [window.output_size(sizes, 0, up)?, window.output_size(sizes, 1, up)?];
            window.reach(sizes, output)?;
            sides.extend(own.map(|i| Side {
                length: sizes[i],
                output: output[i],
                kernel: window.kernel[i],
                stride: window.strides[i],
                dilation: window.dilations[i],
                before: window.pads[i].0,
                after: window.pads[i].1,
            }));
        }
        Ok(sides)
    }

    /// Where in the input a window has its element of that number; padding is before 0, or after the end.
    fn place(&self, window: u32, element: u32) -> i64 {
        i64::from(window) * i64::from(self.stride) + i64::from(element) * i64::from(self.dilation) - i64::from(self.before)
    }

    /// Whether it is the first of its window that is no padding.
    fn begins(&self, window: u32, element: u32) -> bool {
        let at = self.place(window, element);
        at >= 0 && (element == 0 || at < i64::from(self.dilation))
    }
}

/// The place of an element in an array of these sizes, of which there are at most three.
fn place_of(mut number: usize, sizes: &[u32]) -> [u32; 3] {
    let mut place = [0; 3];
    for (at, &size) in place[..sizes.len()].iter_mut().zip(sizes).rev() {
        *at = (number % size as usize) as u32;
        number /= size as usize;
    }
    place
}

/// The maxima and their places in the whole input, counted over all its elements. The places of a window are compared one
/// after the other; the first of equal ones counts.
pub fn max_with_indices(node: &Node<'_>, input: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = emit.shape(input);
    let sides = Side::of(node, &shape)?;
    let (batches, channels) = (shape[0], shape[1]);
    let kernel: Vec<u32> = sides.iter().map(|side| side.kernel).collect();
    let count = kernel.iter().try_fold(1u32, |count, &length| count.checked_mul(length)).filter(|&count| count <= MOST_PLACES);
    let count = count.ok_or_else(|| format!("a window of {kernel:?} with the output Indices"))?;
    emit.check_count(&shape)?;
    let output: Vec<u32> = sides.iter().map(|side| side.output).collect();
    emit.reserve(&output.iter().chain([&count]).map(|&size| size.into()).collect::<Vec<u64>>())?;
    emit.reserve(&[batches.into(), channels.into()])?;
    let of = emit.data_type(input);
    let lowest = match of {
        DataType::Int8 => Number::Integer(i8::MIN.into()),
        DataType::Uint8 => Number::Integer(0),
        _ if of.is_float() => Number::Double(f64::NEG_INFINITY),
        _ => return Err(format!("the output Indices for {of} is not supported").into()),
    };
    // Before the spatial dimensions are two others.
    let whole = |batches: u32, channels: u32, of_side: &dyn Fn(usize, &Side) -> u32| -> Vec<u32> {
        [batches, channels].into_iter().chain(sides.iter().enumerate().map(|(i, side)| of_side(i, side))).collect()
    };
    let padded = emit.push(Pad {
        input,
        beginning_padding: whole(0, 0, &|_, side| side.before),
        ending_padding: whole(0, 0, &|_, side| side.after),
        mode: PaddingMode::Constant,
        value: lowest,
    })?;
    // How far elements lie apart in what the places count.
    let columns_first = node.int("storage_order", 0)? != 0;
    let mut steps = vec![1i64; sides.len()];
    let mut image = 1;
    for i in 0..sides.len() {
        let i = if columns_first { i } else { sides.len() - 1 - i };
        steps[i] = image;
        image *= i64::from(sides[i].length);
    }
    let windows: usize = output.iter().map(|&size| size as usize).product();
    // Numbers as they are collected, and the bytes of two constants.
    memory::require(4 * size_of::<i64>() * windows)?;
    let all = whole(batches, channels, &|_, side| side.output);
    let of_one: Vec<usize> = whole(1, 1, &|_, side| side.output).iter().map(|&size| size as usize).collect();
    let mut best: Option<(OperandId, OperandId)> = None;
    for element in (0..count as usize).map(|number| place_of(number, &kernel)) {
        let own = emit.push(Slice {
            input: padded,
            starts: whole(0, 0, &|i, side| element[i] * side.dilation),
            sizes: whole(batches, channels, &|_, side| (side.output - 1) * side.stride + 1),
            strides: Some(whole(1, 1, &|_, side| side.stride)),
        })?;
        let of_windows =
            |of: &dyn Fn([u32; 3]) -> i64| -> Vec<i64> { (0..windows).map(|number| of(place_of(number, &output))).collect() };
        let here = of_windows(&|window| (0..sides.len()).map(|i| sides[i].place(window[i], element[i]) * steps[i]).sum());
        // The first place of a window that is no padding counts whatever is there, minus infinity too.
        let is_first = of_windows(&|window| i64::from((0..sides.len()).all(|i| sides[i].begins(window[i], element[i]))));
        let any_first = is_first.contains(&1);
        let here = emit.constant(Tensor::from_integers(ElementType::Int64, of_one.clone(), &here))?;
        best = Some(match best {
            None => (own, emit.expand(here, &all)?),
            Some((value, index)) => {
                let mut better = emit.logical(LogicalKind::Greater, own, value)?;
                if of.is_float() {
                    // A NaN is the greatest, as in pools without indices, and nothing is greater than it.
                    let is_nan = emit.predicate(PredicateKind::IsNan, own)?;
                    better = emit.logical(LogicalKind::LogicalOr, better, is_nan)?;
                }
                if any_first {
                    let first = emit.constant(Tensor::from_integers(ElementType::Bool, of_one.clone(), &is_first))?;
                    better = emit.logical(LogicalKind::LogicalOr, better, first)?;
                }
                (emit.select(better, own, value)?, emit.select(better, here, index)?)
            }
        });
    }
    let (value, index) = best.ok_or("an empty window")?;
    // Before the place within an image, the images.
    let starts: Vec<i64> = (0..i64::from(batches) * i64::from(channels)).map(|i| i * image).collect();
    let shape: Vec<usize> = whole(batches, channels, &|_, _| 1).iter().map(|&size| size as usize).collect();
    let starts = emit.constant(Tensor::from_integers(ElementType::Int64, shape, &starts))?;
    let index = emit.add(index, starts)?;
    Ok(vec![value.into(), index.into()])
}

/// MaxUnpool: elements at the places that a MaxPool told, and 0 elsewhere.
pub fn max_unpool(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    // What the pool's input must have been like.
    let mut own = shape.clone();
    let windows = Window::all(node, shape.len())?;
    let dimensions = windows.iter().flat_map(|(window, own)| own.clone().map(move |i| (window, i)));
    for (length, (window, dimension)) in own[2..].iter_mut().zip(dimensions) {
        let (before, after) = window.pads[dimension];
        let last = u64::from(*length).checked_sub(1).ok_or("a dimension of size 0")?;
        let whole = last * u64::from(window.strides[dimension]) + u64::from(window.kernel[dimension]);
        let whole = whole.checked_sub(u64::from(before) + u64::from(after)).filter(|&whole| whole > 0);
        *length = size(whole.ok_or("more padding than output")?)?;
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
    let indices = emit.indices(node, 1, &[count], Negative::Outside)?;
    let (indices, updates) = (emit.reshape(indices, &[of_input])?, emit.reshape(input, &[of_input])?);
    let flat = emit.push(ScatterElements { input: zeros, indices, updates, axis: 0 })?;
    let result = emit.reshape(flat, &own)?;
    if own == target {
        return one(result);
    }
    // A larger output has zeros after.
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
