//! What a name in a model stands for while it is imported.

use super::refusal::Mapped;
use super::tensor::Tensor;
use crate::graph::{GraphBuilder, OperandId};
use std::cell::OnceCell;
use std::rc::Rc;

/// A value of a model.
#[derive(Clone, Debug)]
pub enum Value {
    /// Known now.
    Constant(Rc<Constant>),
    /// Known when the graph runs.
    Operand(OperandId),
    /// Several values, whose number is known.
    Sequence(Rc<[Value]>),
    /// An optional value without content.
    Nothing,
}

/// A tensor, and the operand that it became when a node first needed it as one.
#[derive(Debug)]
pub struct Constant {
    pub tensor: Tensor,
    operand: OnceCell<OperandId>,
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Value::Constant(Rc::new(Constant { tensor, operand: OnceCell::new() }))
    }
}

impl From<OperandId> for Value {
    fn from(id: OperandId) -> Self {
        Value::Operand(id)
    }
}

impl Value {
    pub fn constant(&self) -> Option<&Tensor> {
        match self {
            Value::Constant(constant) => Some(&constant.tensor),
            _ => None,
        }
    }

    /// Whether it is a tensor, and no sequence or absent optional value.
    pub fn is_tensor(&self) -> bool {
        matches!(self, Value::Constant(_) | Value::Operand(_))
    }

    /// The sizes of the dimensions, of which only a constant's may be 0. Nodes that take tensors are given nothing else.
    pub fn shape(&self, builder: &GraphBuilder) -> Vec<usize> {
        match self {
            Value::Constant(constant) => constant.tensor.shape.clone(),
            Value::Operand(id) => builder.operands().shape(*id).iter().map(|&size| size as usize).collect(),
            Value::Sequence(_) | Value::Nothing => Vec::new(),
        }
    }

    /// The value as an operand of a graph.
    pub fn operand(&self, builder: &mut GraphBuilder) -> Mapped<OperandId> {
        match self {
            Value::Operand(id) => Ok(*id),
            Value::Constant(constant) => {
                if let Some(id) = constant.operand.get() {
                    return Ok(*id);
                }
                let (descriptor, bytes) = constant.tensor.to_operand()?;
                let id = builder.constant(descriptor, bytes)?;
                Ok(*constant.operand.get_or_init(|| id))
            }
            Value::Sequence(_) => Err("a sequence, allowed a tensor".into()),
            Value::Nothing => Err("an optional value without content, allowed a tensor".into()),
        }
    }
}
