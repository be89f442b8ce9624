//! Scattering with a reduction: several updates of one place are combined with each other and with what is there.
//!
//! WebNN's scatter operators only replace. Which update goes to which place is written as a matrix of truth values, and the
//! updates are reduced along it; that takes places times updates elements, so large ones are refused.

use super::elementwise::one;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Elements of the largest matrix of places, updates and what is in a slice.
const MOST_ELEMENTS: u64 = 1 << 26;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    Add,
    Mul,
    Max,
    Min,
}

impl Reduction {
    /// The attribute `reduction`; nothing when updates replace.
    pub fn named(name: &str) -> Mapped<Option<Reduction>> {
        Ok(Some(match name {
            "none" => return Ok(None),
            "add" => Reduction::Add,
            "mul" => Reduction::Mul,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            other => return Err(format!("the reduction {other:?}").into()),
        }))
    }

    fn kinds(self) -> (BinaryKind, ReduceKind) {
        match self {
            Reduction::Add => (BinaryKind::Add, ReduceKind::Sum),
            Reduction::Mul => (BinaryKind::Mul, ReduceKind::Product),
            Reduction::Max => (BinaryKind::Max, ReduceKind::Max),
            Reduction::Min => (BinaryKind::Min, ReduceKind::Min),
        }
    }
}

/// ScatterND: slices are combined with those at coordinates.
pub fn slices(
    reduction: Reduction,
    input: OperandId,
    indices: OperandId,
    updates: OperandId,
    emit: &mut Emit<'_>,
) -> Mapped<Vec<Value>> {
    let (shape, of_indices) = (emit.shape(input), emit.shape(indices));
    let depth = of_indices.last().copied().unwrap_or(0) as usize;
    if depth == 0 || depth > shape.len() {
        return Err(format!("coordinates of {depth} numbers for an input of rank {}", shape.len()).into());
    }
    let (places, slice) = (emit.check_count(&shape[..depth])?, emit.check_count(&shape[depth..])?);
    let count = emit.check_count(&of_indices[..of_indices.len() - 1])?;
    // The coordinates as one number for each update.
    let indices = emit.cast(indices, DataType::Int64)?;
    let coordinates = emit.reshape(indices, &[count, depth as u32])?;
    let sizes: Vec<i64> = shape[..depth].iter().map(|&size| size.into()).collect();
    let strides: Vec<i64> = (0..depth).map(|i| sizes[i + 1..].iter().product()).collect();
    let (sizes, strides) = (emit.constant(Tensor::int64s(&sizes))?, emit.constant(Tensor::int64s(&strides))?);
    let counted = from_the_end(coordinates, sizes, emit)?;
    let parts = emit.mul(counted, strides)?;
    let linear = emit.reduce(ReduceKind::Sum, parts, &[1], false)?;
    let (flat, updates) = (emit.reshape(input, &[places, slice])?, emit.reshape(updates, &[count, slice])?);
    let result = combined(reduction, flat, linear, updates, emit)?;
    one(emit.reshape(result, &shape)?)
}

/// ScatterElements: elements are combined with those at the indices along an axis.
pub fn elements(
    reduction: Reduction,
    input: OperandId,
    indices: OperandId,
    updates: OperandId,
    at: usize,
    emit: &mut Emit<'_>,
) -> Mapped<Vec<Value>> {
    let (shape, of_indices) = (emit.shape(input), emit.shape(indices));
    let count = emit.check_count(&of_indices)?;
    let places = emit.check_count(&shape)?;
    let indices = emit.cast(indices, DataType::Int64)?;
    let size = emit.scalar(DataType::Int64, shape[at].into())?;
    let indices = from_the_end(indices, size, emit)?;
    // Each update's place as one number: its own position, but with the index along the axis.
    let mut linear: Option<OperandId> = None;
    for axis in 0..shape.len() {
        let stride: f64 = shape[axis + 1..].iter().map(|&size| f64::from(size)).product();
        let place = match axis == at {
            true => indices,
            false => emit.positions(DataType::Int64, shape.len(), axis, of_indices[axis])?,
        };
        let part = emit.with(BinaryKind::Mul, place, stride)?;
        linear = Some(match linear {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    let linear = emit.expand(linear.ok_or("an input of rank 0")?, &of_indices)?;
    let linear = emit.reshape(linear, &[count])?;
    let (flat, updates) = (emit.reshape(input, &[places, 1])?, emit.reshape(updates, &[count, 1])?);
    let result = combined(reduction, flat, linear, updates, emit)?;
    one(emit.reshape(result, &shape)?)
}

/// Negative indices count from the end.
fn from_the_end(indices: OperandId, sizes: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let negative = emit.compare(LogicalKind::Lesser, indices, 0.0)?;
    let counted = emit.add(indices, sizes)?;
    emit.select(negative, counted, indices)
}

/// `input` [places, slice] combined with `updates` [count, slice] at `linear` [count].
fn combined(
    reduction: Reduction,
    input: OperandId,
    linear: OperandId,
    updates: OperandId,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let (&[places, slice], &[count, _]) = (&emit.shape(input)[..], &emit.shape(updates)[..]) else {
        return Err("slices of another rank than 2".into());
    };
    let of = emit.data_type(input);
    let elements = u64::from(places) * u64::from(count);
    let by_product = reduction == Reduction::Add && of.is_float();
    let elements = if by_product { elements } else { elements.saturating_mul(slice.into()) };
    if elements > MOST_ELEMENTS {
        return Err(format!("a reduction of {count} updates into {places} places, which is too large to compose").into());
    }
    let (combine, reduce) = reduction.kinds();
    let positions = emit.positions(DataType::Int64, 2, 0, places)?;
    let linear = emit.reshape(linear, &[1, count])?;
    let belongs = emit.logical(LogicalKind::Equal, positions, linear)?;
    let reduced = if by_product {
        let belongs = emit.cast(belongs, of)?;
        emit.matmul(belongs, updates)?
    } else {
        let belongs = emit.reshape(belongs, &[places, count, 1])?;
        let updates = emit.reshape(updates, &[1, count, slice])?;
        // What changes nothing: a number, or what is there already.
        let neutral = match reduction {
            Reduction::Add => emit.scalar(of, 0.0)?,
            Reduction::Mul => emit.scalar(of, 1.0)?,
            Reduction::Max | Reduction::Min => emit.reshape(input, &[places, 1, slice])?,
        };
        let chosen = emit.select(belongs, updates, neutral)?;
        reduced_along(chosen, reduce, emit)?
    };
    emit.binary(combine, input, reduced)
}

/// A reduction along the middle of three dimensions. Sums and products of narrow integers are computed in wide ones.
fn reduced_along(input: OperandId, kind: ReduceKind, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let of = emit.data_type(input);
    let narrow = of.bits() == 8 && matches!(kind, ReduceKind::Sum | ReduceKind::Product);
    let wide = if narrow { emit.cast(input, DataType::Int32)? } else { input };
    let result = emit.reduce(kind, wide, &[1], false)?;
    emit.cast(result, of)
}
