//! Puts WebNN nodes into the graph for a node of a model.

use super::bounds::NODE;
use super::element::ElementType;
use super::fold::Folding;
use super::node::{self, Node};
use super::refusal::Mapped;
use super::tensor::Tensor;
use super::value::Value;
use crate::graph::attribute::UnsignedOrList;
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, Cast, Logical, LogicalKind, Unary, UnaryKind,
};
use crate::graph::ops::elementwise::{Clamp, Predicate, PredicateKind, Where};
use crate::graph::ops::gather::Gather;
use crate::graph::ops::matmul::{IntegerMatmul, Matmul};
use crate::graph::ops::movement::{Concat, Expand, Reshape, Slice, Split, Transpose};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{DataType, GraphBuilder, Number, Op, OperandId};
use std::collections::HashMap;

/// Operands of int32 that stand for integers of 16 bits.
pub type Short = HashMap<OperandId, ElementType>;

/// Operands that are transpositions of others: caches, whose rows lie one after the other in memory, and what is made of them. A
/// transposition of one is a transposition of the other, and what is appended is appended there.
pub type Transposed = HashMap<OperandId, Transposition>;

/// An operand, and the permutation that makes another one of it.
#[derive(Clone, Debug)]
pub struct Transposition {
    pub of: OperandId,
    pub permutation: Vec<usize>,
}

impl Transposition {
    /// The permutation that brings an axis to the front.
    pub fn to_front(axis: usize, rank: usize) -> Vec<usize> {
        std::iter::once(axis).chain((0..rank).filter(|&other| other != axis)).collect()
    }

    /// The permutation that undoes another.
    pub fn inverse(permutation: &[usize]) -> Vec<usize> {
        let mut inverse = vec![0; permutation.len()];
        permutation.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        inverse
    }
}

/// A builder, and the label that the nodes get.
pub struct Emit<'a> {
    pub builder: &'a mut GraphBuilder,
    pub folding: &'a mut Folding,
    pub short: &'a mut Short,
    pub transposed: &'a mut Transposed,
    pub label: String,
}

impl Emit<'_> {
    /// Appends a node with one output.
    pub fn push(&mut self, op: impl Into<Op>) -> Mapped<OperandId> {
        self.folding.require(NODE)?;
        Ok(self.builder.push_op(op, &self.label)?[0])
    }

    /// Appends a node with several outputs.
    pub fn push_all(&mut self, op: impl Into<Op>) -> Mapped<Vec<OperandId>> {
        self.folding.require(NODE)?;
        Ok(self.builder.push_op(op, &self.label)?.to_vec())
    }

    pub fn shape(&self, id: OperandId) -> Vec<u32> {
        self.builder.operands().shape(id).to_vec()
    }

    pub fn rank(&self, id: OperandId) -> usize {
        self.builder.operands().rank(id)
    }

    pub fn data_type(&self, id: OperandId) -> DataType {
        self.builder.operands().data_type(id)
    }

    /// The element type of a value.
    pub fn element(&self, value: &Value) -> ElementType {
        match value {
            Value::Operand(id) => self.short.get(id).copied().unwrap_or_else(|| self.data_type(*id).into()),
            other => self.stored_element(other),
        }
    }

    /// The element type of a tensor as it is held: that of an operand is one of WebNN's.
    pub fn stored_element(&self, value: &Value) -> ElementType {
        match value {
            Value::Constant(constant) => constant.tensor.element,
            Value::Operand(id) => self.data_type(*id).into(),
            // No mapping is given these where a tensor is meant.
            Value::Sequence(_) | Value::Nothing => ElementType::Float,
        }
    }

    pub fn operand(&mut self, value: &Value) -> Mapped<OperandId> {
        value.operand(self.builder)
    }

    /// A required input of a node, as an operand.
    pub fn input(&mut self, node: &Node<'_>, position: usize) -> Mapped<OperandId> {
        self.operand(node.input(position)?).map_err(|reason| reason.of(&format!("input {position}")))
    }

    /// An optional input of a node, as an operand.
    pub fn optional(&mut self, node: &Node<'_>, position: usize) -> Mapped<Option<OperandId>> {
        node.optional(position).is_some().then(|| self.input(node, position)).transpose()
    }

    /// A constant that was computed here.
    pub fn constant(&mut self, tensor: Tensor) -> Mapped<OperandId> {
        if !self.folding.charge(tensor.bytes.len()) {
            return Err("too much to compute at import".into());
        }
        self.operand(&tensor.into())
    }

    /// A constant of rank 0.
    pub fn scalar(&mut self, data_type: DataType, value: f64) -> Mapped<OperandId> {
        Ok(self.builder.scalar(data_type, Number::Double(value))?)
    }

    /// 0, 1, 2, … along an axis of a value of that rank whose other dimensions are 1.
    pub fn positions(&mut self, data_type: DataType, rank: usize, axis: usize, count: u32) -> Mapped<OperandId> {
        let mut aligned = vec![1; rank];
        *aligned.get_mut(axis).ok_or("an axis beyond the rank")? = count as usize;
        self.reserve(&[count.into()])?;
        let numbers: Vec<i64> = (0..count.into()).collect();
        let tensor = Tensor::from_integers(ElementType::Int64, aligned, &numbers).cast(data_type.into());
        self.constant(tensor)
    }

    /// Asks whether so many numbers may be computed here, before there is memory for them.
    pub fn reserve(&mut self, sizes: &[u64]) -> Mapped<()> {
        const MOST: u64 = 1 << 23;
        let count = sizes.iter().try_fold(1u64, |count, &size| count.checked_mul(size).filter(|&count| count <= MOST));
        match count.filter(|&count| self.folding.charge(count as usize * 8)) {
            Some(_) => Ok(()),
            None => Err(format!("{sizes:?} are too many numbers to compute at import").into()),
        }
    }

    /// Refuses values of so many elements that they should not be made on the way to a result.
    pub fn check_count(&self, shape: &[u32]) -> Mapped<u32> {
        const MOST: u64 = 1 << 28;
        let count = shape.iter().try_fold(1u64, |count, &size| count.checked_mul(size.into()).filter(|&count| count <= MOST));
        Ok(count.ok_or_else(|| format!("{shape:?} are too many elements"))? as u32)
    }

    /// A choice between two numbers of a data type.
    pub fn choose(&mut self, condition: OperandId, of: DataType, yes: f64, no: f64) -> Mapped<OperandId> {
        let (yes, no) = (self.scalar(of, yes)?, self.scalar(of, no)?);
        self.select(condition, yes, no)
    }

    /// A comparison with a number.
    pub fn compare(&mut self, kind: LogicalKind, a: OperandId, number: f64) -> Mapped<OperandId> {
        let number = self.scalar(self.data_type(a), number)?;
        self.logical(kind, a, number)
    }

    pub fn binary(&mut self, kind: BinaryKind, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.push(Binary { kind, a, b })
    }

    pub fn add(&mut self, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.binary(BinaryKind::Add, a, b)
    }

    pub fn sub(&mut self, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.binary(BinaryKind::Sub, a, b)
    }

    pub fn mul(&mut self, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.binary(BinaryKind::Mul, a, b)
    }

    pub fn div(&mut self, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.binary(BinaryKind::Div, a, b)
    }

    /// An operation with a number of the first operand's data type.
    pub fn with(&mut self, kind: BinaryKind, a: OperandId, number: f64) -> Mapped<OperandId> {
        let number = self.scalar(self.data_type(a), number)?;
        self.binary(kind, a, number)
    }

    pub fn unary(&mut self, kind: UnaryKind, input: OperandId) -> Mapped<OperandId> {
        self.push(Unary { kind, input })
    }

    pub fn activation(&mut self, kind: ActivationKind, input: OperandId) -> Mapped<OperandId> {
        self.push(Activation { kind, input })
    }

    pub fn logical(&mut self, kind: LogicalKind, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        self.push(Logical { kind, a, b })
    }

    pub fn predicate(&mut self, kind: PredicateKind, a: OperandId) -> Mapped<OperandId> {
        self.push(Predicate { kind, a })
    }

    pub fn select(&mut self, condition: OperandId, true_value: OperandId, false_value: OperandId) -> Mapped<OperandId> {
        self.push(Where { condition, true_value, false_value })
    }

    pub fn clamp(&mut self, input: OperandId, min: Option<f64>, max: Option<f64>) -> Mapped<OperandId> {
        self.push(Clamp { input, min_value: min.map(Number::Double), max_value: max.map(Number::Double) })
    }

    pub fn cast(&mut self, input: OperandId, data_type: DataType) -> Mapped<OperandId> {
        if self.data_type(input) == data_type {
            return Ok(input);
        }
        self.push(Cast { input, data_type })
    }

    pub fn reshape(&mut self, input: OperandId, shape: &[u32]) -> Mapped<OperandId> {
        if self.shape(input) == shape {
            return Ok(input);
        }
        self.push(Reshape { input, new_shape: shape.to_vec() })
    }

    pub fn transpose(&mut self, input: OperandId, permutation: &[usize]) -> Mapped<OperandId> {
        if permutation.iter().copied().eq(0..self.rank(input)) {
            return Ok(input);
        }
        if let Some(Transposition { of, permutation: own }) = self.transposed.get(&input).cloned() {
            let both: Option<Vec<usize>> = permutation.iter().map(|&axis| own.get(axis).copied()).collect();
            return self.transposition(of, both.ok_or("a permutation of other axes")?);
        }
        self.push(Transpose { input, permutation: Some(node::sizes(permutation)?) })
    }

    /// A transposition that is known to be one.
    pub fn transposition(&mut self, of: OperandId, permutation: Vec<usize>) -> Mapped<OperandId> {
        if permutation.iter().copied().eq(0..self.rank(of)) {
            return Ok(of);
        }
        let result = self.push(Transpose { input: of, permutation: Some(node::sizes(&permutation)?) })?;
        self.transposed.insert(result, Transposition { of, permutation });
        Ok(result)
    }

    /// One more dimension, of size 1, before an axis.
    pub fn insert_axis(&mut self, input: OperandId, axis: usize) -> Mapped<OperandId> {
        if let Some(Transposition { of, mut permutation }) = self.transposed.get(&input).cloned() {
            // After the others in memory, where it moves none of them.
            let mut shape = self.shape(of);
            permutation.insert(axis, shape.len());
            shape.push(1);
            let of = self.reshape(of, &shape)?;
            return self.transposition(of, permutation);
        }
        let mut shape = self.shape(input);
        shape.insert(axis, 1);
        self.reshape(input, &shape)
    }

    /// Exchanges the last two dimensions.
    pub fn transpose_matrices(&mut self, input: OperandId) -> Mapped<OperandId> {
        let rank = self.rank(input);
        if rank < 2 {
            return Err("a matrix of less than two dimensions".into());
        }
        let mut permutation: Vec<usize> = (0..rank).collect();
        permutation.swap(rank - 1, rank - 2);
        self.transpose(input, &permutation)
    }

    pub fn expand(&mut self, input: OperandId, shape: &[u32]) -> Mapped<OperandId> {
        if self.shape(input) == shape {
            return Ok(input);
        }
        self.push(Expand { input, new_shape: shape.to_vec() })
    }

    pub fn concat(&mut self, inputs: Vec<OperandId>, axis: usize) -> Mapped<OperandId> {
        if let [input] = inputs[..] {
            return Ok(input);
        }
        // What is appended to the rows of a cache.
        if let Some(Transposition { of, permutation }) = inputs.first().and_then(|first| self.transposed.get(first)).cloned()
            && permutation.get(axis) == Some(&0)
        {
            let back = Transposition::inverse(&permutation);
            let mut rows = vec![of];
            for &input in &inputs[1..] {
                rows.push(self.transpose(input, &back)?);
            }
            let all = self.push(Concat { inputs: rows, axis: 0 })?;
            return self.transposition(all, permutation);
        }
        self.push(Concat { inputs, axis: node::size(axis)? })
    }

    pub fn gather(&mut self, input: OperandId, indices: OperandId, axis: usize) -> Mapped<OperandId> {
        self.push(Gather { input, indices, axis: node::size(axis)? })
    }

    /// A product of matrices; that of integers wraps around.
    pub fn matmul(&mut self, a: OperandId, b: OperandId) -> Mapped<OperandId> {
        match self.data_type(a).is_float() {
            true => self.push(Matmul { a, b }),
            false => self.push(IntegerMatmul { a, b }),
        }
    }

    pub fn slice(&mut self, input: OperandId, starts: Vec<u32>, sizes: Vec<u32>) -> Mapped<OperandId> {
        if sizes == self.shape(input) {
            return Ok(input);
        }
        self.push(Slice { input, starts, sizes, strides: None })
    }

    /// A range of one dimension.
    pub fn slice_axis(&mut self, input: OperandId, axis: usize, start: u32, size: u32) -> Mapped<OperandId> {
        let mut sizes = self.shape(input);
        let mut starts = vec![0; sizes.len()];
        let (Some(at), Some(slot)) = (starts.get_mut(axis), sizes.get_mut(axis)) else {
            return Err(format!("axis {axis} of rank {}", self.rank(input)).into());
        };
        (*at, *slot) = (start, size);
        self.slice(input, starts, sizes)
    }

    pub fn split(&mut self, input: OperandId, parts: Vec<u32>, axis: usize) -> Mapped<Vec<OperandId>> {
        self.push_all(Split { input, splits: UnsignedOrList::List(parts), axis: node::size(axis)? })
    }

    pub fn reduce(&mut self, kind: ReduceKind, input: OperandId, axes: &[usize], keep: bool) -> Mapped<OperandId> {
        self.push(Reduce { kind, input, axes: Some(node::sizes(axes)?), keep_dimensions: keep })
    }
}
