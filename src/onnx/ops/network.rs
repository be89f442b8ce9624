//! What the recurrent networks have in common.

use super::functions::{self, Function};
use crate::graph::OperandId;
use crate::graph::ops::recurrent::{RecurrentNetworkActivation, RecurrentNetworkDirection};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// The operands and attributes of one.
pub struct Network {
    pub input: OperandId,
    pub weight: OperandId,
    pub recurrent_weight: OperandId,
    pub bias: Option<OperandId>,
    pub recurrent_bias: Option<OperandId>,
    pub initial_hidden_state: Option<OperandId>,
    pub steps: u32,
    pub hidden_size: u32,
    pub direction: RecurrentNetworkDirection,
    /// The functions of the gates, for each direction.
    pub functions: Vec<Vec<Function>>,
    /// What the arguments of these functions are limited to.
    pub clip: Option<f64>,
    /// How many steps each sequence has, where they are not all.
    pub lengths: Option<OperandId>,
    /// Whether the batch comes first in inputs and outputs.
    pub batch_first: bool,
}

impl Network {
    pub fn of(node: &Node<'_>, defaults: &[Function], emit: &mut Emit<'_>) -> Mapped<Network> {
        Network::with_weights(node, defaults, [emit.input(node, 1)?, emit.input(node, 2)?], emit)
    }

    /// The network with weights [directions, gates * units, inputs] and [directions, gates * units, units].
    pub fn with_weights(node: &Node<'_>, defaults: &[Function], weights: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<Network> {
        let gates = if defaults.len() == 3 { 4 } else { 2 * defaults.len() as u32 - 1 };
        let batch_first = node.flag("layout", false)?;
        let mut input = emit.input(node, 0)?;
        if emit.rank(input) != 3 {
            return Err(format!("an input of rank {}", emit.rank(input)).into());
        }
        if batch_first {
            input = emit.transpose(input, &[1, 0, 2])?;
        }
        let steps = emit.shape(input)[0];
        let whole = |tensor: &Tensor| tensor.integers().iter().all(|&length| length == i64::from(steps));
        let lengths = match node.optional(4) {
            Some(value) if !value.constant().is_some_and(whole) => Some(emit.operand(value)?),
            _ => None,
        };
        let [weight, recurrent_weight] = weights;
        let &[_, columns, hidden_size] = &emit.shape(recurrent_weight)[..] else {
            return Err("recurrent weights whose rank is not 3".into());
        };
        let fits = |shape: &[u32]| shape.len() == 3 && shape[1] == columns;
        if Some(columns) != hidden_size.checked_mul(gates) || !fits(&emit.shape(weight)) {
            let (weight, recurrent) = (emit.shape(weight), emit.shape(recurrent_weight));
            return Err(format!("weights of shapes {weight:?} and {recurrent:?} for {gates} gates").into());
        }
        if node.optional_int("hidden_size")?.is_some_and(|size| size != i64::from(hidden_size)) {
            return Err("the attribute hidden_size is not that of the weights".into());
        }
        let direction = match node.string("direction", "forward")?.as_str() {
            "forward" => RecurrentNetworkDirection::Forward,
            "reverse" => RecurrentNetworkDirection::Backward,
            "bidirectional" => RecurrentNetworkDirection::Both,
            other => return Err(format!("the direction {other:?}").into()),
        };
        let functions = functions::of(node, defaults, direction.count() as usize)?;
        let clip = node.optional_float("clip")?.filter(|&clip| clip > 0.0);
        let (mut bias, mut recurrent_bias) = (None, None);
        if let Some(both) = emit.optional(node, 3)? {
            let half = hidden_size.checked_mul(gates).filter(|half| half.checked_mul(2).is_some()).ok_or("too many units")?;
            let parts = emit.split(both, vec![half, half], 1)?;
            (bias, recurrent_bias) = (Some(parts[0]), Some(parts[1]));
        }
        let initial_hidden_state = state(node, 5, batch_first, emit)?;
        Ok(Network {
            input,
            weight,
            recurrent_weight,
            bias,
            recurrent_bias,
            initial_hidden_state,
            steps,
            hidden_size,
            direction,
            functions,
            clip,
            lengths,
            batch_first,
        })
    }

    /// The functions as WebNN names them, where its own operators can express the network.
    pub fn plain(&self) -> Option<Vec<RecurrentNetworkActivation>> {
        let first = &self.functions[0];
        if self.lengths.is_some() || self.functions.iter().any(|other| other != first) {
            return None;
        }
        self.named(0)
    }

    /// The functions of a direction as WebNN names them, where its own operators can express that direction.
    pub fn named(&self, direction: usize) -> Option<Vec<RecurrentNetworkActivation>> {
        if self.clip.is_some() {
            return None;
        }
        self.functions[direction].iter().map(Function::plain).collect()
    }

    /// The lengths of the sequences, where WebNN's own operators can express each direction.
    pub fn named_lengths(&self) -> Option<OperandId> {
        self.lengths.filter(|_| (0..self.functions.len()).all(|direction| self.named(direction).is_some()))
    }

    /// Y and Y_h (and Y_c) from what WebNN returns.
    pub fn outputs(&self, states: &[OperandId], sequence: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
        let mut outputs: Vec<Value> = Vec::new();
        match sequence {
            Some(sequence) if self.batch_first => outputs.push(emit.transpose(sequence, &[2, 0, 1, 3])?.into()),
            Some(sequence) => outputs.push(sequence.into()),
            // Nobody asked for it.
            None => outputs.push(states[0].into()),
        }
        for &state in states {
            outputs.push(if self.batch_first { emit.transpose(state, &[1, 0, 2])? } else { state }.into());
        }
        Ok(outputs)
    }
}

/// The initial hidden or cell state, which is an input of the node.
pub fn state(node: &Node<'_>, position: usize, batch_first: bool, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    match emit.optional(node, position)? {
        Some(state) if batch_first && emit.rank(state) == 3 => Ok(Some(emit.transpose(state, &[1, 0, 2])?)),
        state => Ok(state),
    }
}
