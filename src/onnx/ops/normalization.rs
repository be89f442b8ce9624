//! Normalizations.

use super::elementwise::one;
use super::magnitude::{hypotenuse, power_of_two};
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization, RmsNormalization};
use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn batch(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    // Before version 9: with statistics of each element, instead of each channel.
    if !node.flag("spatial", true)? && node.input(1)?.shape(emit.builder).len() != 1 {
        return by_element(node, input, emit);
    }
    let given = [emit.input(node, 3)?, emit.input(node, 4)?];
    let is_trained = node.flag("training_mode", false)?;
    if is_trained {
        return trained(node, input, given, emit);
    }
    node.no_outputs_from(1, "of the statistics")?;
    let of = emit.data_type(input);
    // Statistics may be more precise than the input.
    let [mean, variance] = [emit.cast(given[0], of)?, emit.cast(given[1], of)?];
    let mut parameter = |position| {
        let id = emit.input(node, position)?;
        emit.cast(id, of)
    };
    let (scale, bias) = (Some(parameter(1)?), Some(parameter(2)?));
    let epsilon = node.float("epsilon", 1e-5)?;
    one(emit.push(BatchNormalization { input, mean, variance, scale, bias, axis: 1, epsilon })?)
}

/// A normalization of each element of the batches by statistics of its own.
fn by_element(node: &Node<'_>, input: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    node.no_outputs_from(1, "of the statistics")?;
    let shape = emit.shape(input);
    let (batches, each) = shape.split_first().ok_or("an input of rank 0")?;
    for position in 1..5 {
        let found = node.input(position)?.shape(emit.builder);
        if !found.iter().map(|&size| size as u64).eq(each.iter().map(|&size| u64::from(size))) {
            return Err(format!("input {position} of shape {found:?}, allowed {each:?} with spatial = 0").into());
        }
    }
    // The elements as channels.
    let count = size(each.iter().map(|&size| u64::from(size)).product::<u64>())?;
    let of = emit.data_type(input);
    let mut flat = |position| -> Mapped<OperandId> {
        let id = emit.input(node, position)?;
        let id = emit.cast(id, of)?;
        emit.reshape(id, &[count])
    };
    let [scale, bias, mean, variance] = [flat(1)?, flat(2)?, flat(3)?, flat(4)?];
    let input = emit.reshape(input, &[*batches, count])?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let op = BatchNormalization { input, mean, variance, scale: Some(scale), bias: Some(bias), axis: 1, epsilon };
    let result = emit.push(op)?;
    one(emit.reshape(result, &shape)?)
}

/// A normalization by the mean and the variance of each channel of the batch itself; the other outputs are the given statistics, moved
/// towards those. (Exporters write networks that standardize their weights as normalizations in training.)
fn trained(node: &Node<'_>, input: OperandId, given: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = emit.shape(input);
    let &[batches, channels, ..] = shape.as_slice() else { return Err(format!("an input of rank {}", shape.len()).into()) };
    // One plane for each channel, and back.
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.swap(0, 1);
    let rest = size(shape[2..].iter().map(|&size| u64::from(size)).product::<u64>() * u64::from(batches))?;
    let first = emit.transpose(input, &order)?;
    let swapped = emit.shape(first);
    let planes = emit.reshape(first, &[1, channels, 1, rest])?;
    let mut parameter = |position| {
        let id = emit.input(node, position)?;
        emit.cast(id, emit.data_type(input))
    };
    let (scale, bias) = (Some(parameter(1)?), Some(parameter(2)?));
    let epsilon = node.float("epsilon", 1e-5)?;
    let layout = InputOperandLayout::Nchw;
    let normal = emit.push(InstanceNormalization { input: planes, scale, bias, epsilon, layout })?;
    let normal = emit.reshape(normal, &swapped)?;
    let output = emit.transpose(normal, &order)?;
    let mut outputs = vec![output.into()];
    if node.has_output(1) || node.has_output(2) {
        let momentum = node.float("momentum", 0.9)?;
        for (given, found) in given.into_iter().zip(statistics(planes, 1.0 - momentum, emit)?) {
            let found = emit.reshape(found, &[channels])?;
            let found = emit.cast(found, emit.data_type(given))?;
            let kept = emit.with(BinaryKind::Mul, given, momentum)?;
            outputs.push(emit.add(kept, found)?.into());
        }
    }
    Ok(outputs)
}

/// The mean and the variance of each plane times a weight, as float32.
fn statistics(planes: OperandId, weight: f64, emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
    let wide = emit.cast(planes, DataType::Float32)?;
    let power = power_of_two(wide, &[3], emit)?;
    let near = emit.div(wide, power)?;
    let mean = emit.reduce(ReduceKind::Mean, near, &[3], true)?;
    let centred = emit.sub(near, mean)?;
    let square = emit.mul(centred, centred)?;
    let variance = emit.reduce(ReduceKind::Mean, square, &[3], true)?;
    let mut back = |statistic, times| -> Mapped<OperandId> {
        let mut value = emit.with(BinaryKind::Mul, statistic, weight)?;
        for _ in 0..times {
            value = emit.mul(value, power)?;
        }
        Ok(value)
    };
    Ok([back(mean, 1)?, back(variance, 2)?])
}

pub fn instance(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, scale, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let epsilon = node.float("epsilon", 1e-5)?;
    let shape = emit.shape(input);
    if shape.len() < 3 {
        return Err(format!("an input of rank {}", shape.len()).into());
    }
    let flat = flattened(input, emit)?;
    let output = emit.push(InstanceNormalization {
        input: flat,
        scale: Some(scale),
        bias: Some(bias),
        epsilon,
        layout: InputOperandLayout::Nchw,
    })?;
    one(emit.reshape(output, &shape)?)
}

/// The spatial dimensions as two.
fn flattened(input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    if shape.len() == 4 {
        return Ok(input);
    }
    let rest = size(shape[3..].iter().map(|&size| u64::from(size)).product::<u64>())?;
    emit.reshape(input, &[shape[0], shape[1], shape[2], rest])
}

/// LayerNormalization. The two other outputs are the mean and the inverse of the deviation.
pub fn layer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, scale, bias) = (emit.input(node, 0)?, emit.optional(node, 1)?, emit.optional(node, 2)?);
    let at = axis(node.int("axis", -1)?, emit.rank(input))?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let mut outputs: Vec<Value> = vec![normalized(input, scale, bias, at, epsilon, emit)?.into()];
    if node.has_output(1) || node.has_output(2) {
        let over: Vec<usize> = (at..emit.rank(input)).collect();
        let wide = emit.cast(input, DataType::Float32)?;
        let mean = emit.reduce(ReduceKind::Mean, wide, &over, true)?;
        let centred = emit.sub(wide, mean)?;
        let count = over.iter().map(|&axis| f64::from(emit.shape(input)[axis])).product::<f64>();
        let norm = emit.reduce(ReduceKind::L2, centred, &over, true)?;
        let deviation = emit.with(BinaryKind::Mul, norm, 1.0 / count.sqrt())?;
        let deviation = hypotenuse(deviation, epsilon.sqrt(), emit)?;
        outputs.extend([mean.into(), emit.unary(UnaryKind::Reciprocal, deviation)?.into()]);
    }
    Ok(outputs)
}

/// Normalizes over all dimensions from an axis on.
pub fn normalized(
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    at: usize,
    epsilon: f64,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let inner = &shape[at..];
    let fits = |id: Option<OperandId>| id.is_none_or(|id| emit.shape(id) == inner);
    let over = (at as u32..shape.len() as u32).collect();
    if fits(scale) && fits(bias) {
        return emit.push(LayerNormalization { input, scale, bias, axes: Some(over), epsilon });
    }
    // Scale and bias of other shapes are broadcast.
    let mut result = emit.push(LayerNormalization { input, scale: None, bias: None, axes: Some(over), epsilon })?;
    if let Some(scale) = scale {
        result = emit.mul(result, scale)?;
    }
    if let Some(bias) = bias {
        result = emit.add(result, bias)?;
    }
    Ok(result)
}

/// RMSNormalization, and SimplifiedLayerNormalization as onnxruntime's models have it.
pub fn root_mean_square(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    node.no_outputs_from(1, "of the statistics")?;
    let (input, scale) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let at = axis(node.int("axis", -1)?, emit.rank(input))?;
    one(simplified(input, scale, at, node.float("epsilon", 1e-5)?, emit)?)
}

/// `x / sqrt(mean(x²) + epsilon) * scale`.
pub fn simplified(input: OperandId, scale: OperandId, at: usize, epsilon: f64, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let axes = Some((at as u32..shape.len() as u32).collect());
    // A scale of another shape is broadcast, one of another type decides that of the result.
    if emit.shape(scale) == shape[at..] && emit.data_type(scale) == emit.data_type(input) {
        return emit.push(RmsNormalization { input, scale: Some(scale), axes, epsilon });
    }
    let divided = emit.push(RmsNormalization { input, scale: None, axes, epsilon })?;
    emit.mul(divided, scale)
}

/// SkipLayerNormalization and SkipSimplifiedLayerNormalization of com.microsoft: a sum is normalized, and is the fourth
/// output itself.
pub fn skip_layer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let simple = node.operator() == "SkipSimplifiedLayerNormalization";
    let (input, skip, gamma) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let (beta, bias) = if simple { (None, emit.optional(node, 3)?) } else { (emit.optional(node, 3)?, emit.optional(node, 4)?) };
    if node.has_output(1) || node.has_output(2) {
        return Err("the outputs of the statistics are not supported".into());
    }
    let mut sum = emit.add(input, skip)?;
    if let Some(bias) = bias {
        sum = emit.add(sum, bias)?;
    }
    let at = emit.rank(sum).checked_sub(1).ok_or("an input of rank 0")?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let result = match simple {
        true => simplified(sum, gamma, at, epsilon, emit)?,
        false => normalized(sum, Some(gamma), beta, at, epsilon, emit)?,
    };
    // The outputs in between are for training; nobody uses them, as was checked.
    Ok(vec![result.into(), sum.into(), sum.into(), sum.into()])
}

/// GroupNormalization: scale and bias are per group in version 18, and per channel since 21.
pub fn group(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, scale, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let groups = size(node.int("num_groups", 0)?)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    one(grouped(input, scale, bias, groups, node.version < 21, epsilon, emit)?)
}

/// Normalizes groups of channels. `may_share`: whether scale and bias may be those of groups.
fn grouped(
    input: OperandId,
    scale: OperandId,
    bias: OperandId,
    groups: u32,
    may_share: bool,
    epsilon: f64,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    if shape.len() < 3 || groups == 0 || !shape[1].is_multiple_of(groups) {
        return Err(format!("{groups} groups of an input of shape {shape:?}").into());
    }
    let per_group = shape[1] / groups;
    let rest = size(shape[2..].iter().map(|&size| u64::from(size)).product::<u64>())?;
    let apart = emit.reshape(input, &[shape[0], groups, per_group, rest])?;
    let plain = InstanceNormalization { input: apart, scale: None, bias: None, epsilon, layout: InputOperandLayout::Nchw };
    let mut result = emit.push(plain)?;
    let aligned = if emit.shape(scale) == [groups] && may_share { vec![groups, 1, 1] } else { vec![groups, per_group, 1] };
    let of = emit.data_type(input);
    for (parameter, kind) in [(scale, BinaryKind::Mul), (bias, BinaryKind::Add)] {
        let parameter = emit.cast(parameter, of)?;
        let parameter = emit.reshape(parameter, &aligned)?;
        result = emit.binary(kind, result, parameter)?;
    }
    emit.reshape(result, &shape)
}

/// LpNormalization: divided by the norm along an axis.
pub fn lp(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let at = axis(node.int("axis", -1)?, emit.rank(input))?;
    let kind = match node.int("p", 2)? {
        1 => ReduceKind::L1,
        2 => ReduceKind::L2,
        p => return Err(format!("the norm {p}").into()),
    };
    let power = power_of_two(input, &[at], emit)?;
    let input = emit.div(input, power)?;
    let norm = emit.reduce(kind, input, &[at], true)?;
    // What is all zeros stays so.
    let zero = emit.scalar(emit.data_type(input), 0.0)?;
    let is_zero = emit.logical(crate::graph::ops::elementwise::LogicalKind::Equal, norm, zero)?;
    let unit = emit.scalar(emit.data_type(input), 1.0)?;
    let norm = emit.select(is_zero, unit, norm)?;
    one(emit.div(input, norm)?)
}

/// MeanVarianceNormalization over batch and space, or the axes that are given.
pub fn mean_variance(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let over = axes(&node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]), emit.rank(input))?;
    let power = power_of_two(input, &over, emit)?;
    let input = emit.div(input, power)?;
    let mean = emit.reduce(ReduceKind::Mean, input, &over, true)?;
    let centred = emit.sub(input, mean)?;
    let square = emit.mul(centred, centred)?;
    let variance = emit.reduce(ReduceKind::Mean, square, &over, true)?;
    let deviation = emit.unary(UnaryKind::Sqrt, variance)?;
    // The operator's definition adds this to the deviation, not to the variance. It does not vanish, or values that are all the same
    // would be divided by 0.
    let number = emit.scalar(emit.data_type(input), 1e-9)?;
    let number = emit.div(number, power)?;
    let number = emit.clamp(number, Some(1e-37), None)?;
    let deviation = emit.add(deviation, number)?;
    one(emit.div(centred, deviation)?)
}

/// LRN: divided by a power of the mean square of neighbouring channels, which a pool over channels computes.
pub fn local_response(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let width = size(node.int("size", 0)?)?;
    if shape.len() != 4 || width == 0 {
        return Err(format!("an input of rank {}, a size of {width}", shape.len()).into());
    }
    let (alpha, beta, bias) = (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?, node.float("bias", 1.0)?);
    // A root of the mean square needs no number that leaves float32; of a negative sum there is none.
    let has_root = alpha >= 0.0 && bias >= 0.0;
    let (kind, part) = if has_root {
        (Pool2dKind::L2, emit.with(BinaryKind::Mul, input, (alpha / f64::from(width)).sqrt())?)
    } else {
        (Pool2dKind::Average, emit.mul(input, input)?)
    };
    let last = emit.transpose(part, &[0, 2, 3, 1])?;
    let (before, after) = ((width - 1) / 2, width / 2);
    let padded = emit.push(crate::graph::ops::movement::Pad {
        input: last,
        beginning_padding: vec![0, 0, 0, before],
        ending_padding: vec![0, 0, 0, after],
        mode: crate::graph::ops::movement::PaddingMode::Constant,
        value: crate::graph::Number::Double(0.0),
    })?;
    let pooled = emit.push(Pool2d {
        kind,
        input: padded,
        window_dimensions: Some([1, width]),
        padding: [0; 4],
        strides: [1; 2],
        dilations: [1; 2],
        layout: InputOperandLayout::Nchw,
        output_shape_rounding: RoundingType::Floor,
        output_sizes: None,
    })?;
    let pooled = emit.transpose(pooled, &[0, 3, 1, 2])?;
    if has_root {
        let root = hypotenuse(pooled, bias.sqrt(), emit)?;
        let power = emit.with(BinaryKind::Pow, root, beta)?;
        // Its square may leave float32.
        let part = emit.div(input, power)?;
        return one(emit.div(part, power)?);
    }
    let scaled = emit.with(BinaryKind::Mul, pooled, alpha)?;
    let raised = emit.with(BinaryKind::Add, scaled, bias)?;
    let power = emit.with(BinaryKind::Pow, raised, beta)?;
    one(emit.div(input, power)?)
}

/// GroupNorm and SkipGroupNorm of com.microsoft, as diffusion models have them: channels come last unless an attribute says
/// otherwise, and an activation may follow. SkipGroupNorm normalizes a sum, which is its second output.
pub fn contributed_group(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (mut input, scale, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let channels_last = node.flag("channels_last", true)?;
    if emit.rank(input) != 4 {
        return Err(format!("an input of rank {}", emit.rank(input)).into());
    }
    let skips = node.operator() == "SkipGroupNorm";
    if skips {
        let mut skip = emit.input(node, 3)?;
        // [batch, channels] stands for every pixel.
        if let [batches, channels] = emit.shape(skip)[..] {
            skip = emit.reshape(skip, &[batches, 1, 1, channels])?;
        }
        input = emit.add(input, skip)?;
        if let Some(bias) = emit.optional(node, 4)? {
            input = emit.add(input, bias)?;
        }
    }
    let sum = input;
    if channels_last {
        input = emit.transpose(input, &[0, 3, 1, 2])?;
    }
    let groups = size(node.int("groups", 0)?)?;
    let mut result = grouped(input, scale, bias, groups, false, node.float("epsilon", 1e-5)?, emit)?;
    if node.flag("activation", false)? {
        result = emit.push(crate::graph::ops::elementwise::Swish { input: result, alpha: 1.0 })?;
    }
    if channels_last {
        result = emit.transpose(result, &[0, 2, 3, 1])?;
    }
    Ok(if skips { vec![result.into(), sum.into()] } else { vec![result.into()] })
}
