//! Convolutions of each channel with what came before, whose states are passed on from call to call: CausalConvWithState of the standard
//! and of com.microsoft, VarlenCausalConvWithState.

use super::linear_attention::{ends, last_of_window, window};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{LogicalKind, Swish};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

struct Filter {
    weight: OperandId,
    bias: Option<OperandId>,
    channels: u32,
    width: u32,
    dilation: u32,
}

impl Filter {
    fn new(node: &Node<'_>, bias: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<Filter> {
        let weight = emit.input(node, 1)?;
        let &[channels, _, width] = &emit.shape(weight)[..] else { return Err("a filter whose rank is not 3".into()) };
        let dilation = size(node.int("dilation", 1)?)?;
        if width == 0 || dilation == 0 {
            return Err(format!("a filter of {width} elements with a dilation of {dilation}").into());
        }
        Ok(Filter { weight, bias, channels, width, dilation })
    }

    /// Positions before the first one that are looked at.
    fn before(&self) -> Mapped<u32> {
        (self.width - 1).checked_mul(self.dilation).ok_or_else(|| "too many elements".into())
    }

    /// The results of [batch, channels, positions], which are as many fewer as are looked at before the first.
    fn apply(&self, node: &Node<'_>, all: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let Filter { weight, bias, channels, width, dilation } = *self;
        let &[batches, found, length] = &emit.shape(all)[..] else { return Err("an input whose rank is not 3".into()) };
        if found != channels {
            return Err(format!("{found} channels for a filter of {channels}").into());
        }
        let input = emit.reshape(all, &[batches, channels, 1, length])?;
        let filter = emit.reshape(weight, &[channels, 1, 1, width])?;
        let output = emit.push(Conv2d {
            dilations: [1, dilation],
            groups: channels,
            bias,
            ..Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw)
        })?;
        let output = emit.reshape(output, &[batches, channels, length - self.before()?])?;
        match node.string("activation", "none")?.as_str() {
            "none" => Ok(output),
            "silu" | "swish" => emit.push(Swish { input: output, alpha: 1.0 }),
            other => Err(format!("the activation {other:?}").into()),
        }
    }
}

/// How the input and the states of a node lie.
struct Layout {
    /// [batch, positions, channels …] and not [batch, channels, positions].
    is_last: bool,
    states_are_last: bool,
    /// The shape of the input.
    given: Vec<u32>,
    batches: u32,
    channels: u32,
    length: u32,
    /// Positions of a state.
    remembered: u32,
    /// Of how many positions, counted from the end, there are states; 0 stands for a state without that dimension.
    window: u32,
}

impl Layout {
    /// The shape of a state.
    fn of_state(&self) -> Vec<u32> {
        let &Layout { batches, channels, remembered, .. } = self;
        match self.states_are_last {
            // Each channel's dimensions come last in a state too, if it lies as the input does.
            true if self.is_last => {
                let mut shape = self.given.clone();
                shape[1] = remembered;
                shape
            }
            true => vec![batches, remembered, channels],
            false => vec![batches, channels, remembered],
        }
    }

    /// What comes before the input, [batch, channels, remembered]; nothing if that is empty.
    fn past(&self, node: &Node<'_>, of: DataType, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
        let &Layout { batches, channels, remembered, .. } = self;
        match node.optional(3) {
            // A filter of one element remembers nothing, and such a state is known.
            _ if remembered == 0 => Ok(None),
            Some(past) => {
                let past = emit.operand(past)?;
                let past = last_of_window(past, self.window, emit)?;
                if !self.states_are_last {
                    return Ok(Some(past));
                }
                let flat = emit.reshape(past, &[batches, remembered, channels])?;
                Ok(Some(emit.transpose(flat, &[0, 2, 1])?))
            }
            None => {
                let zero = emit.scalar(of, 0.0)?;
                Ok(Some(emit.expand(zero, &[batches, channels, remembered])?))
            }
        }
    }

    /// The states after the last positions, of past and input [batch, channels, positions].
    fn states(&self, all: OperandId, emit: &mut Emit<'_>) -> Mapped<Value> {
        let (window, remembered, of_state) = (self.window, self.remembered, self.of_state());
        let mut slots = Vec::new();
        for slot in 0..if remembered == 0 { 0 } else { window.max(1) } {
            let state = match (slot + self.length + 1).checked_sub(window.max(1)) {
                Some(end) if end > 0 => {
                    let state = emit.slice_axis(all, 2, end, remembered)?;
                    if self.states_are_last { emit.transpose(state, &[0, 2, 1])? } else { state }
                }
                _ => {
                    let zero = emit.scalar(emit.data_type(all), 0.0)?;
                    emit.expand(zero, &of_state)?
                }
            };
            slots.push(emit.reshape(state, &[&[1], &of_state[..]].concat())?);
        }
        let of_slots = if window == 0 { of_state } else { [&[window], &of_state[..]].concat() };
        if slots.is_empty() {
            let shape = of_slots.iter().map(|&size| size as usize).collect();
            return Ok(Tensor::without_elements(emit.data_type(all).into(), shape).into());
        }
        let all = emit.concat(slots, 0)?;
        Ok(emit.reshape(all, &of_slots)?.into())
    }
}

/// The channels of the input that a node takes.
fn some_channels(node: &Node<'_>, is_last: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let input = emit.input(node, 0)?;
    let (offset, count) = (size(node.int("input_channel_offset", 0)?)?, size(node.int("input_channels", 0)?)?);
    if count == 0 && offset == 0 {
        return Ok(input);
    }
    let shape = emit.shape(input);
    if !is_last || shape.len() != 3 || offset.checked_add(count.max(1)).is_none_or(|end| end > shape[2]) {
        return Err(format!("{count} channels from {offset} on of an input of shape {shape:?}").into());
    }
    emit.slice_axis(input, 2, offset, if count == 0 { shape[2] - offset } else { count })
}

/// That of com.microsoft may have taps at a distance, the channels last, and a window of the states after the last positions.
pub fn with_state(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let bias = emit.optional(node, 2)?;
    let filter = Filter::new(node, bias, emit)?;
    let is_last = node.flag("channels_last", false)?;
    let mut input = some_channels(node, is_last, emit)?;
    let given = emit.shape(input);
    if is_last {
        let &[batches, length, ..] = &given[..] else { return Err("an input of rank below 2".into()) };
        let flat = emit.reshape(input, &[batches, length, filter.channels])?;
        input = emit.transpose(flat, &[0, 2, 1])?;
    }
    let &[batches, channels, length] = &emit.shape(input)[..] else { return Err("an input whose rank is not 3".into()) };
    let before = filter.before()?;
    let remembered = match size(node.int("state_length", 0)?)? {
        0 => before,
        long if long >= before => long,
        short => return Err(format!("the attribute state_length is {short}, allowed {before} and more").into()),
    };
    let states_are_last = match node.int("state_channels_last", -1)? {
        -1 => is_last,
        other => other != 0,
    };
    let layout = Layout { is_last, states_are_last, given, batches, channels, length, remembered, window: window(node)? };
    let all = match layout.past(node, emit.data_type(input), emit)? {
        Some(past) => emit.concat(vec![past, input], 2)?,
        None => input,
    };
    let seen = emit.slice_axis(all, 2, remembered - before, before + length)?;
    let mut output = filter.apply(node, seen, emit)?;
    let state = layout.states(all, emit)?;
    let captured = match size(node.int("state_update_capacity", 0)?)? {
        0 => None,
        capacity => {
            let rows = emit.transpose(input, &[0, 2, 1])?;
            Some(padded_rows(rows, capacity, emit)?)
        }
    };
    if is_last {
        let transposed = emit.transpose(output, &[0, 2, 1])?;
        output = emit.reshape(transposed, &layout.given)?;
    }
    Ok([output.into(), state].into_iter().chain(captured.map(Value::from)).collect())
}

/// The first rows of [batch, rows, channels], or all and zeros after them.
fn padded_rows(rows: OperandId, count: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let &[batches, length, channels] = &emit.shape(rows)[..] else { return Err("rows of another rank than 3".into()) };
    let first = emit.slice_axis(rows, 1, 0, length.min(count))?;
    match count.checked_sub(length) {
        None | Some(0) => Ok(first),
        Some(more) => {
            let zero = emit.scalar(emit.data_type(rows), 0.0)?;
            let zeros = emit.expand(zero, &[batches, more, channels])?;
            emit.concat(vec![first, zeros], 1)
        }
    }
}

/// VarlenCausalConvWithState: sequences one after the other, [tokens, channels].
pub fn of_several(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let bias = emit.optional(node, 3)?;
    let filter = Filter::new(node, bias, emit)?;
    let (input, past) = (emit.input(node, 0)?, emit.input(node, 4)?);
    let &[tokens, channels] = &emit.shape(input)[..] else { return Err("an input whose rank is not 2".into()) };
    let ends = ends(node, 2, tokens)?.ok_or("the input cumulative_sequence_length is missing")?;
    let (batch, before) = (ends.len() as u32 - 1, filter.before()?);
    if before == 0 {
        return Err("a filter of one element, whose state has none".into());
    }
    if emit.shape(past) != [batch, channels, before] {
        return Err(format!("a state of shape {:?}, where {:?} is needed", emit.shape(past), [batch, channels, before]).into());
    }
    let capacity = size(node.int("state_update_capacity", 0)?)?;
    let columns = emit.transpose(input, &[1, 0])?;
    let (mut results, mut states, mut captured) = (Vec::new(), Vec::new(), Vec::new());
    for (number, pair) in (0..).zip(ends.windows(2)) {
        let length = pair[1] - pair[0];
        let part = emit.slice_axis(columns, 1, pair[0], length)?;
        let part = emit.insert_axis(part, 0)?;
        let own = emit.slice_axis(past, 0, number, 1)?;
        let all = emit.concat(vec![own, part], 2)?;
        let result = filter.apply(node, all, emit)?;
        results.push(emit.reshape(result, &[channels, length])?);
        states.push(emit.slice_axis(all, 2, length, before)?);
        if capacity > 0 {
            let rows = emit.transpose(part, &[0, 2, 1])?;
            captured.push(padded_rows(rows, capacity, emit)?);
        }
    }
    let result = emit.concat(results, 1)?;
    let mut outputs: Vec<Value> = vec![emit.transpose(result, &[1, 0])?.into(), emit.concat(states, 0)?.into()];
    if capacity > 0 {
        let counts = emit.input(node, 5)?;
        let counts = emit.reshape(counts, &[batch, 1, 1])?;
        let counts = emit.cast(counts, DataType::Int32)?;
        let places = emit.positions(DataType::Int32, 3, 1, capacity)?;
        let is_captured = emit.logical(LogicalKind::Lesser, places, counts)?;
        let rows = emit.concat(captured, 0)?;
        let zero = emit.scalar(emit.data_type(rows), 0.0)?;
        outputs.push(emit.select(is_captured, rows, zero)?.into());
    }
    Ok(outputs)
}
