//! Operators that move elements without looking at them. What is known at import is moved then.

use super::elementwise::one;
use crate::graph::ops::movement::{Pad, PaddingMode, Reverse, Slice, Tile, Triangular};
use crate::graph::{Number, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{self, Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;
use crate::onnx::{fold, shapes};

/// Gives a value another shape.
pub fn reshaped(value: &Value, shape: Vec<usize>, emit: &mut Emit<'_>) -> Mapped<Value> {
    match value.constant() {
        Some(tensor) => Ok(tensor.reshaped(shape).into()),
        None => {
            let input = emit.operand(value)?;
            Ok(emit.reshape(input, &node::sizes(&shape)?)?.into())
        }
    }
}

pub fn reshape(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let wanted = node.constant(1, "the shape")?.integers();
    let shape = node.input(0)?.shape(emit.builder);
    let target = shapes::reshape(&shape, &wanted, node.flag("allowzero", false)?)?;
    Ok(vec![reshaped(node.input(0)?, target, emit)?])
}

pub fn flatten(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let target = shapes::flatten(&node.input(0)?.shape(emit.builder), node.int("axis", 1)?)?;
    Ok(vec![reshaped(node.input(0)?, target, emit)?])
}

pub fn unsqueeze(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let axes = node.ints_at(1, "axes")?.ok_or("the axes are missing")?;
    let target = shapes::unsqueeze(&node.input(0)?.shape(emit.builder), &axes)?;
    Ok(vec![reshaped(node.input(0)?, target, emit)?])
}

pub fn squeeze(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let target = shapes::squeeze(&node.input(0)?.shape(emit.builder), node.ints_at(1, "axes")?.as_deref())?;
    Ok(vec![reshaped(node.input(0)?, target, emit)?])
}

pub fn transpose(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let rank = node.input(0)?.shape(emit.builder).len();
    let permutation = match node.ints("perm")? {
        Some(list) => node::axes(&list, rank)?,
        None => (0..rank).rev().collect(),
    };
    if permutation.len() != rank {
        return Err(format!("a permutation of {} axes for rank {rank}", permutation.len()).into());
    }
    if let Some(tensor) = node.input(0)?.constant().filter(|tensor| emit.folding.affords(&tensor.shape)) {
        return Ok(vec![fold::transpose(tensor, &permutation).into()]);
    }
    let input = emit.input(node, 0)?;
    one(emit.transpose(input, &permutation)?)
}

pub fn concat(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let inputs: Vec<&Value> = (0..node.inputs.len()).map(|i| node.input(i)).collect::<Mapped<_>>()?;
    let rank = inputs.first().ok_or("no inputs")?.shape(emit.builder).len();
    let at = axis(node.int("axis", 0)?, rank)?;
    Ok(vec![joined(inputs, at, emit)?])
}

/// Values one after the other along an axis.
pub fn joined(inputs: Vec<&Value>, at: usize, emit: &mut Emit<'_>) -> Mapped<Value> {
    let first = inputs.first().ok_or("no inputs")?.shape(emit.builder);
    let mut shape = first.clone();
    shape[at] = 0;
    for input in &inputs {
        let other = input.shape(emit.builder);
        if other.len() != first.len() || (0..first.len()).any(|i| i != at && other[i] != first[i]) {
            return Err(format!("the shapes {first:?} and {other:?} do not fit together along axis {at}").into());
        }
        shape[at] = shape[at].checked_add(other[at]).ok_or("too many elements")?;
    }
    let tensors: Option<Vec<&Tensor>> = inputs.iter().map(|input| input.constant()).collect();
    if let Some(mut tensors) = tensors.filter(|_| emit.folding.affords(&shape)) {
        // What is empty adds nothing; as an input of a run it has the type that it is computed in.
        if tensors.iter().any(|tensor| !tensor.is_empty()) {
            tensors.retain(|tensor| !tensor.is_empty());
        }
        if tensors.iter().any(|tensor| tensor.element != tensors[0].element) {
            return Err("inputs of different types".into());
        }
        return Ok(fold::concat(&tensors, at)?.into());
    }
    // What is empty adds nothing, and no operand can hold it: a cache before its first step.
    let full = inputs.into_iter().filter(|input| !input.constant().is_some_and(Tensor::is_empty));
    let operands = full.map(|input| emit.operand(input)).collect::<Mapped<Vec<OperandId>>>()?;
    Ok(emit.concat(operands, at)?.into())
}

/// Attributes before version 10, inputs since.
pub fn slice(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = node.input(0)?.shape(emit.builder);
    let list = |position, name| node.ints_at(position, name);
    let starts = list(1, "starts")?.ok_or("the starts are missing")?;
    let ends = list(2, "ends")?.ok_or("the ends are missing")?;
    let (axes, steps) = (list(3, "axes")?, list(4, "steps")?);
    let ranges = shapes::slice(&shape, &starts, &ends, axes.as_deref(), steps.as_deref())?;
    let target: Vec<usize> = ranges.iter().map(|&(_, _, count)| count).collect();
    if target.contains(&0) {
        let element = emit.stored_element(node.input(0)?);
        return Ok(vec![Tensor::without_elements(element, target).into()]);
    }
    if let Some(tensor) = node.input(0)?.constant().filter(|_| emit.folding.affords(&target)) {
        return Ok(vec![fold::slice(tensor, &ranges).into()]);
    }
    let mut input = emit.input(node, 0)?;
    // Backwards is forwards on the reversed input.
    let backwards: Vec<usize> = (0..ranges.len()).filter(|&i| ranges[i].1 < 0).collect();
    if !backwards.is_empty() {
        input = emit.push(Reverse { input, axes: Some(node::sizes(&backwards)?) })?;
    }
    let (mut starts, mut sizes, mut strides) = (Vec::new(), Vec::new(), Vec::new());
    for (&whole, (start, step, count)) in shape.iter().zip(ranges) {
        let start = if step < 0 { whole as i64 - 1 - start } else { start };
        // A stride longer than the dimension takes one element, as one of its length does.
        let stride = step.unsigned_abs().min(whole as u64);
        starts.push(size(start)?);
        sizes.push(size((count as u64 - 1) * stride + 1)?);
        strides.push(size(stride)?);
    }
    if strides.iter().all(|&stride| stride == 1) {
        return one(emit.slice(input, starts, sizes)?);
    }
    one(emit.push(Slice { input, starts, sizes, strides: Some(strides) })?)
}

/// The parts are an attribute before version 13 and an input since; from version 18 on, their number may be given.
pub fn split(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = node.input(0)?.shape(emit.builder);
    let at = axis(node.int("axis", 0)?, shape.len())?;
    let parts: Vec<usize> = match node.ints_at(1, "split")? {
        Some(list) => list.iter().map(|&part| usize::try_from(part).map_err(|_| "a negative size")).collect::<Result<_, _>>()?,
        None => {
            let count = node.int("num_outputs", node.proto.output.len() as i64)?;
            let count = usize::try_from(count).ok().filter(|&count| (1..=1 << 16).contains(&count));
            let count = count.ok_or("an impossible number of outputs")?;
            // The last part takes what is left.
            let part = shape[at].div_ceil(count);
            (0..count).map(|i| shape[at].saturating_sub(i.saturating_mul(part)).min(part)).collect()
        }
    };
    let sum = parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part));
    if sum != Some(shape[at]) || parts.len() != node.proto.output.len() {
        return Err(format!("parts {parts:?} of a dimension of {}, for {} outputs", shape[at], node.proto.output.len()).into());
    }
    divided(node.input(0)?, &parts, at, emit)
}

/// The parts of a value along an axis, whose sizes add up to that of the axis.
pub fn divided(value: &Value, parts: &[usize], at: usize, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = value.shape(emit.builder);
    if let Some(tensor) = value.constant().filter(|tensor| emit.folding.affords(&tensor.shape)) {
        let mut start = 0;
        let outputs = parts.iter().map(|&part| {
            let mut ranges: Vec<(i64, i64, usize)> = shape.iter().map(|&size| (0, 1, size)).collect();
            ranges[at] = (start, 1, part);
            start += part as i64;
            fold::slice(tensor, &ranges).into()
        });
        return Ok(outputs.collect());
    }
    let input = emit.operand(value)?;
    let full: Vec<usize> = parts.iter().copied().filter(|&part| part > 0).collect();
    let operands = if full.len() == 1 { vec![input] } else { emit.split(input, node::sizes(&full)?, at)? };
    let mut operands = operands.into_iter();
    // No operand can hold an empty part.
    let (element, mut empty) = (emit.data_type(input).into(), shape);
    empty[at] = 0;
    let part = |part: usize| match part {
        0 => Some(Tensor::without_elements(element, empty.clone()).into()),
        _ => operands.next().map(Value::from),
    };
    Ok(parts.iter().copied().filter_map(part).collect())
}

/// Broadcasts both ways: the shape may also be smaller than the input's.
pub fn expand(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let wanted = node.constant(1, "the shape")?.integers();
    let wanted: Vec<usize> =
        wanted.iter().map(|&size| usize::try_from(size).map_err(|_| "a negative size")).collect::<Result<_, _>>()?;
    let shape = node.input(0)?.shape(emit.builder);
    let fail = || format!("{shape:?} cannot be broadcast with {wanted:?}");
    let target = shapes::broadcast(&shape, &wanted).ok_or_else(fail)?;
    expanded(node.input(0)?, &target, emit)
}

/// Expands a value to a shape that it can be broadcast to.
pub fn expanded(value: &Value, target: &[usize], emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if target.contains(&0) {
        return Ok(vec![Tensor::without_elements(emit.stored_element(value), target.to_vec()).into()]);
    }
    if let Some(tensor) = value.constant().filter(|_| emit.folding.affords(target)) {
        return Ok(vec![fold::expand(tensor, target).into()]);
    }
    let input = emit.operand(value)?;
    one(emit.expand(input, &node::sizes(target)?)?)
}

pub fn tile(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let repeats = node.constant(1, "the number of repeats")?.integers();
    let repetitions = repeats.iter().map(|&count| size(count)).collect::<Mapped<Vec<u32>>>()?;
    let shape = node.input(0)?.shape(emit.builder);
    if repetitions.contains(&0) && repetitions.len() == shape.len() {
        let target = shape.iter().zip(&repetitions).map(|(&size, &count)| size * count as usize).collect();
        return Ok(vec![Tensor::without_elements(emit.stored_element(node.input(0)?), target).into()]);
    }
    let input = emit.input(node, 0)?;
    one(emit.push(Tile { input, repetitions: crate::graph::attribute::Modulo(repetitions) })?)
}

/// Attributes before version 11, inputs since. Negative padding cuts off.
pub fn pad(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = node.input(0)?.shape(emit.builder);
    let rank = shape.len();
    let pads = node.ints_at(1, "pads")?.ok_or("the pads are missing")?;
    let axes = match node.optional_constant(3, "the axes")? {
        Some(list) => node::axes(&list.integers(), rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(format!("{} pads for {} axes", pads.len(), axes.len()).into());
    }
    let (mut before, mut after) = (vec![0i64; rank], vec![0i64; rank]);
    for (i, &axis) in axes.iter().enumerate() {
        (before[axis], after[axis]) = (pads[i], pads[i + axes.len()]);
    }
    let padded = shape.iter().zip(before.iter().zip(&after));
    let target = padded.map(|(&size, (&before, &after))| (size as i64).checked_add(before)?.checked_add(after));
    let target: Vec<usize> =
        target.map(|size| usize::try_from(size?).ok()).collect::<Option<_>>().ok_or("padding to an impossible size")?;
    if target.contains(&0) {
        return Ok(vec![Tensor::without_elements(emit.stored_element(node.input(0)?), target).into()]);
    }
    let mode = node.string("mode", "constant")?;
    let (mut starts, mut sizes) = (vec![0; rank], vec![0; rank]);
    let (mut beginning_padding, mut ending_padding) = (vec![0; rank], vec![0; rank]);
    for i in 0..rank {
        let cut = |padding: i64| padding.min(0).unsigned_abs();
        let kept = (shape[i] as u64).saturating_sub(cut(before[i])).saturating_sub(cut(after[i]));
        if kept == 0 && mode == "constant" {
            return filled(node, &target, emit);
        }
        starts[i] = size(cut(before[i]))?;
        sizes[i] = size(if kept > 0 { kept } else { return Err("padding with elements of nothing".into()) })?;
        beginning_padding[i] = size(before[i].max(0))?;
        ending_padding[i] = size(after[i].max(0))?;
    }
    let input = emit.input(node, 0)?;
    let input = emit.slice(input, starts, sizes)?;
    if beginning_padding.iter().chain(&ending_padding).all(|&padding| padding == 0) {
        return one(input);
    }
    let mode = match mode.as_str() {
        "constant" => PaddingMode::Constant,
        "reflect" => PaddingMode::Reflection,
        "edge" => PaddingMode::Edge,
        "wrap" => return wrapped(input, &beginning_padding, &ending_padding, emit),
        other => return Err(format!("the mode {other:?}").into()),
    };
    let value = match node.optional_constant(2, "the padding's value")? {
        Some(tensor) => match (tensor.count(), tensor.element.is_float()) {
            (1, true) => Number::Double(tensor.floats()[0]),
            (1, false) => Number::Integer(tensor.wholes()[0]),
            _ => return Err("a padding's value that is not a scalar".into()),
        },
        None => Number::Double(node.float("value", 0.0)?),
    };
    one(emit.push(Pad { input, beginning_padding, ending_padding, mode, value })?)
}

/// Padding around nothing: as many of the padding's values.
fn filled(node: &Node<'_>, target: &[usize], emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let element = emit.stored_element(node.input(0)?);
    let value = match node.optional_constant(2, "the padding's value")? {
        Some(tensor) if tensor.count() == 1 => tensor.cast(element),
        Some(_) => return Err("a padding's value that is not a scalar".into()),
        None => Tensor::from_floats(ElementType::Double, vec![], &[node.float("value", 0.0)?]).cast(element),
    };
    expanded(&value.reshaped(vec![]).into(), target, emit)
}

/// Padding that continues at the other end.
fn wrapped(input: OperandId, before: &[u32], after: &[u32], emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut result = input;
    for (at, (&before, &after)) in before.iter().zip(after).enumerate() {
        let whole = emit.shape(result)[at];
        if before > whole || after > whole {
            // As many copies as that takes, of which the first one begins in the middle.
            let start = (whole - before % whole) % whole;
            let taken = u64::from(before) + u64::from(whole) + u64::from(after);
            let mut repetitions = vec![1; emit.rank(result)];
            repetitions[at] = size((u64::from(start) + taken).div_ceil(u64::from(whole)))?;
            let input = emit.push(Tile { input: result, repetitions: crate::graph::attribute::Modulo(repetitions) })?;
            result = emit.slice_axis(input, at, start, size(taken)?)?;
            continue;
        }
        let mut parts = Vec::new();
        if before > 0 {
            parts.push(emit.slice_axis(result, at, whole - before, before)?);
        }
        parts.push(result);
        if after > 0 {
            parts.push(emit.slice_axis(result, at, 0, after)?);
        }
        result = emit.concat(parts, at)?;
    }
    one(result)
}

pub fn trilu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let diagonal = node.optional_constant(1, "the diagonal")?.and_then(|tensor| tensor.integers().first().copied()).unwrap_or(0);
    let upper = node.flag("upper", true)?;
    // Masks that models compute from sizes.
    if let Some(known) = node.input(0)?.constant()
        && known.shape.len() >= 2
        && known.element.bits() >= 8
        && emit.folding.affords(&known.shape)
    {
        return Ok(vec![fold::triangular(known, upper, diagonal).into()]);
    }
    let input = emit.input(node, 0)?;
    // A diagonal further away than any matrix is wide is as good as one just there.
    let diagonal = diagonal.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    one(emit.push(Triangular { input, upper, diagonal })?)
}

/// DepthToSpace: blocks of channels become blocks of pixels.
pub fn depth_to_space(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let (block, [n, c, h, w]) = blocks(node, emit, input)?;
    let depth = c / (block * block);
    if depth == 0 || c % (block * block) != 0 {
        return Err(format!("{c} channels cannot be divided into blocks of {block} times {block}").into());
    }
    let moved = match node.string("mode", "DCR")?.as_str() {
        "DCR" => {
            let apart = emit.reshape(input, &[n, block, block, depth, h, w])?;
            emit.transpose(apart, &[0, 3, 4, 1, 5, 2])?
        }
        "CRD" => {
            let apart = emit.reshape(input, &[n, depth, block, block, h, w])?;
            emit.transpose(apart, &[0, 1, 4, 2, 5, 3])?
        }
        other => return Err(format!("the mode {other:?}").into()),
    };
    let (height, width) = (h.checked_mul(block).ok_or("too large")?, w.checked_mul(block).ok_or("too large")?);
    one(emit.reshape(moved, &[n, depth, height, width])?)
}

/// SpaceToDepth: blocks of pixels become blocks of channels.
pub fn space_to_depth(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let (block, [n, c, h, w]) = blocks(node, emit, input)?;
    if h % block != 0 || w % block != 0 {
        return Err(format!("{h} times {w} cannot be divided into blocks of {block} times {block}").into());
    }
    let apart = emit.reshape(input, &[n, c, h / block, block, w / block, block])?;
    let moved = match node.string("mode", "DCR")?.as_str() {
        "DCR" => emit.transpose(apart, &[0, 3, 5, 1, 2, 4])?,
        "CRD" => emit.transpose(apart, &[0, 1, 3, 5, 2, 4])?,
        other => return Err(format!("the mode {other:?}").into()),
    };
    let channels = c.checked_mul(block * block).ok_or("too large")?;
    one(emit.reshape(moved, &[n, channels, h / block, w / block])?)
}

fn blocks(node: &Node<'_>, emit: &Emit<'_>, input: OperandId) -> Mapped<(u32, [u32; 4])> {
    let block = size(node.int("blocksize", 0)?)?;
    let shape: [u32; 4] = emit.shape(input).try_into().map_err(|_| "an input whose rank is not 4")?;
    if !(1..=1 << 15).contains(&block) {
        return Err(format!("a block of {block}").into());
    }
    Ok((block, shape))
}

/// CenterCropPad: the middle of an input, or zeros around it.
pub fn center_crop_pad(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let wanted = node.constant(1, "the shape")?.integers();
    let shape = node.input(0)?.shape(emit.builder);
    let axes = match node.ints("axes")? {
        Some(list) => node::axes(&list, shape.len())?,
        None => (0..shape.len()).collect(),
    };
    if axes.len() != wanted.len() {
        return Err(format!("{} sizes for {} axes", wanted.len(), axes.len()).into());
    }
    if shape.contains(&0) {
        let mut target = shape;
        for (&axis, &wanted) in axes.iter().zip(&wanted) {
            target[axis] = usize::try_from(wanted).map_err(|_| "a negative size")?;
        }
        let element = emit.stored_element(node.input(0)?);
        let zero = Tensor::from_floats(ElementType::Double, vec![], &[0.0]).cast(element);
        return expanded(&zero.into(), &target, emit);
    }
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let (mut starts, mut sizes) = (vec![0; shape.len()], shape.clone());
    let (mut beginning_padding, mut ending_padding) = (vec![0; shape.len()], vec![0; shape.len()]);
    for (&axis, &wanted) in axes.iter().zip(&wanted) {
        let wanted = size(wanted)?;
        if wanted == 0 {
            return Err("a size of 0".into());
        }
        match shape[axis].checked_sub(wanted) {
            Some(excess) => (starts[axis], sizes[axis]) = (excess / 2, wanted),
            None => {
                let missing = wanted - shape[axis];
                (beginning_padding[axis], ending_padding[axis]) = (missing / 2, missing - missing / 2);
            }
        }
    }
    let cropped = emit.slice(input, starts, sizes)?;
    if beginning_padding.iter().chain(&ending_padding).all(|&padding| padding == 0) {
        return one(cropped);
    }
    let (mode, value) = (PaddingMode::Constant, Number::Double(0.0));
    one(emit.push(Pad { input: cropped, beginning_padding, ending_padding, mode, value })?)
}
