//! Reading and replacing elements at places that other values name.

use super::elementwise::one;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd, Accumulation};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::gather::{GatherElements, GatherNd};
use crate::graph::ops::scatter::{ScatterElements, ScatterNd};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

pub fn gather(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = node.input(0)?.shape(emit.builder);
    let at = axis(node.int("axis", 0)?, shape.len())?;
    if let (Some(input), Some(indices)) = (node.input(0)?.constant(), node.input(1)?.constant()) {
        let target: Vec<usize> = [&shape[..at], &indices.shape, &shape[at + 1..]].concat();
        let is_table = shape.len() > 1 && input.element.is_float() && !target.contains(&0);
        if !(is_table && emit.folding.keeps_tables) && emit.folding.affords(&target) {
            return Ok(vec![fold::gather(input, indices, at)?.into()]);
        }
    }
    let input = emit.input(node, 0)?;
    let indices = emit.indices(node, 1, &[size(shape[at])?], Negative::FromEnd)?;
    one(emit.gather(input, indices, at)?)
}

/// Coordinates in the last dimension of an input, for the dimensions of a shape from the one of that number on.
fn coordinates(node: &Node<'_>, shape: &[u32], from: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let count = node.input(1)?.shape(emit.builder).last().copied().unwrap_or(0);
    let Some(sizes) = shape.get(from..from.saturating_add(count)) else {
        return Err(format!("coordinates of {count} elements for an input of rank {}", shape.len()).into());
    };
    emit.indices(node, 1, sizes, Negative::FromEnd)
}

/// The indices may be smaller than the input along the other axes; of the input as much is taken then.
pub fn gather_elements(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let at = axis(node.int("axis", 0)?, emit.rank(input))?;
    let shape = emit.shape(input);
    let indices = emit.indices(node, 1, &[shape[at]], Negative::FromEnd)?;
    let mut wanted = emit.shape(indices);
    if wanted.len() != shape.len() {
        return Err(format!("indices of rank {} for an input of rank {}", wanted.len(), shape.len()).into());
    }
    wanted[at] = shape[at];
    let input = emit.slice(input, vec![0; shape.len()], wanted)?;
    one(emit.push(GatherElements { input, indices, axis: size(at)? })?)
}

pub fn gather_nd(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let batches = node.int("batch_dims", 0)?;
    let shape = emit.shape(input);
    let most = shape.len().min(node.input(1)?.shape(emit.builder).len());
    let count = usize::try_from(batches).ok().filter(|&count| count == 0 || count < most);
    let count = count.ok_or_else(|| format!("{batches} batch dimensions"))?;
    let indices = coordinates(node, &shape, count, emit)?;
    if count == 0 {
        return one(emit.push(GatherNd { input, indices })?);
    }
    // The position within the batches becomes a part of the coordinates.
    let of_indices = emit.shape(indices);
    let (data_type, rank) = (emit.data_type(indices), of_indices.len());
    let mut target = of_indices.clone();
    target[rank - 1] = 1;
    let mut parts = Vec::new();
    for (dimension, &length) in of_indices[..count].iter().enumerate() {
        let element: ElementType = data_type.into();
        let positions: Vec<i64> = (0..length.into()).collect();
        let mut aligned = vec![1; rank];
        aligned[dimension] = length as usize;
        let positions = emit.constant(Tensor::from_integers(element, aligned, &positions))?;
        parts.push(emit.expand(positions, &target)?);
    }
    parts.push(indices);
    let indices = emit.concat(parts, rank - 1)?;
    one(emit.push(GatherNd { input, indices })?)
}

pub fn scatter_elements(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, updates) = (emit.input(node, 0)?, emit.input(node, 2)?);
    let at = axis(node.int("axis", 0)?, emit.rank(input))?;
    let shape = emit.shape(input);
    let indices = emit.indices(node, 1, &[shape[at]], Negative::FromEnd)?;
    let mut wanted = emit.shape(indices);
    if wanted.len() != shape.len() {
        return Err(format!("indices of rank {} for an input of rank {}", wanted.len(), shape.len()).into());
    }
    if let Some(reduction) = accumulation(node)? {
        return one(emit.push(AccumulateElements { input, indices, updates, axis: size(at)?, reduction })?);
    }
    wanted[at] = shape[at];
    if wanted == shape {
        return one(emit.push(ScatterElements { input, indices, updates, axis: size(at)? })?);
    }
    // The indices cover a corner of the input: that is replaced, and then put back.
    let corner = emit.slice(input, vec![0; shape.len()], wanted.clone())?;
    let mut result = emit.push(ScatterElements { input: corner, indices, updates, axis: size(at)? })?;
    for dimension in 0..shape.len() {
        let (have, whole) = (wanted[dimension], shape[dimension]);
        if have == whole {
            continue;
        }
        // What is beside the corner along this dimension, within the sizes that earlier ones have already reached.
        let (mut starts, mut rest) = (vec![0; shape.len()], emit.shape(result));
        (starts[dimension], rest[dimension]) = (have, whole.checked_sub(have).ok_or("indices larger than the input")?);
        let beside = emit.slice(input, starts, rest)?;
        result = emit.concat(vec![result, beside], dimension)?;
    }
    one(result)
}

/// How updates are combined with what is there; nothing when they replace it.
fn accumulation(node: &Node<'_>) -> Mapped<Option<Accumulation>> {
    Ok(Some(match node.string("reduction", "none")?.as_str() {
        "none" => return Ok(None),
        "add" => Accumulation::Add,
        "mul" => Accumulation::Mul,
        "max" => Accumulation::Max,
        "min" => Accumulation::Min,
        other => return Err(format!("the reduction {other:?}; allowed are none, add, mul, max and min").into()),
    }))
}

pub fn scatter_nd(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let reduction = accumulation(node)?;
    if reduction.is_none()
        && let Some(places) = node.input(1)?.constant()
        && are_all_in_order(places, &node.input(0)?.shape(emit.builder))
    {
        let (input, updates) = (emit.input(node, 0)?, emit.input(node, 2)?);
        let shape = emit.shape(input);
        return one(emit.reshape(updates, &shape)?);
    }
    let (input, updates) = (emit.input(node, 0)?, emit.input(node, 2)?);
    let shape = emit.shape(input);
    let indices = coordinates(node, &shape, 0, emit)?;
    if let Some(reduction) = reduction {
        return one(emit.push(AccumulateNd { input, indices, updates, reduction })?);
    }
    one(emit.push(ScatterNd { input, indices, updates })?)
}

/// Whether coordinates are those of all parts of a tensor, one after the other, so that updates there are the result. Exporters write so
/// that a part of a tensor is replaced, such as the columns of a mask, which often are all.
fn are_all_in_order(places: &Tensor, shape: &[usize]) -> bool {
    let Some((&count, of_places)) = places.shape.split_last() else { return false };
    if count == 0 || count > shape.len() || of_places.iter().product::<usize>() != shape[..count].iter().product::<usize>() {
        return false;
    }
    let coordinates = places.integers();
    let shape = &shape[..count];
    let mut expected = vec![0; shape.len()];
    coordinates.chunks_exact(count).all(|found| {
        let fits = found
            .iter()
            .zip(&expected)
            .zip(shape)
            .all(|((&found, &at), &size)| found == at || found.checked_add(size as i64) == Some(at));
        // The next one.
        for (at, &size) in expected.iter_mut().zip(shape).rev() {
            *at += 1;
            if *at < size as i64 {
                break;
            }
            *at = 0;
        }
        fits
    })
}

/// OneHot: where the position along the new axis is the index stands the second value, elsewhere the first.
pub fn one_hot(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let depth = node.constant(1, "the depth")?.integers();
    let &[depth] = &depth[..] else { return Err("a depth that is not a scalar".into()) };
    let depth = u32::try_from(depth).ok().filter(|&depth| (1..=1 << 24).contains(&depth)).ok_or("an impossible depth")?;
    let (indices, values) = (emit.input(node, 0)?, emit.input(node, 2)?);
    let indices = emit.cast(indices, DataType::Int64)?;
    let shape = emit.shape(indices);
    let at = axis(node.int("axis", -1)?, shape.len() + 1)?;
    // Negative indices count from the end.
    let zero = emit.scalar(DataType::Int64, 0.0)?;
    let negative = emit.logical(LogicalKind::Lesser, indices, zero)?;
    let counted = emit.with(BinaryKind::Add, indices, depth.into())?;
    let indices = emit.select(negative, counted, indices)?;
    let mut with_axis = shape;
    with_axis.insert(at, 1);
    let indices = emit.reshape(indices, &with_axis)?;
    let mut aligned = vec![1; with_axis.len()];
    aligned[at] = depth as usize;
    let positions: Vec<i64> = (0..depth.into()).collect();
    let positions = emit.constant(Tensor::from_integers(ElementType::Int64, aligned, &positions))?;
    let hot = emit.logical(LogicalKind::Equal, indices, positions)?;
    let parts = emit.split(values, vec![1, 1], 0)?;
    let (off, on) = (emit.reshape(parts[0], &[])?, emit.reshape(parts[1], &[])?);
    one(emit.select(hot, on, off)?)
}

/// TensorScatter: the update is written into the cache along an axis, from an index on that each batch has of its own.
pub fn tensor_scatter(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, updates) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (shape, of_updates) = (emit.shape(input), emit.shape(updates));
    let rank = shape.len();
    let at = axis(node.int("axis", -2)?, rank)?;
    if at == 0 || of_updates.len() != rank {
        return Err(format!("axis {at}, and an update of rank {} for a cache of rank {rank}", of_updates.len()).into());
    }
    let mut places = emit.positions(DataType::Int64, rank, at, of_updates[at])?;
    if let Some(starts) = emit.optional(node, 2)? {
        let starts = emit.cast(starts, DataType::Int64)?;
        let mut aligned = vec![1; rank];
        aligned[0] = shape[0];
        let starts = emit.reshape(starts, &aligned)?;
        places = emit.add(places, starts)?;
    }
    match node.string("mode", "linear")?.as_str() {
        "linear" => {}
        "circular" => {
            let size = emit.scalar(DataType::Int64, shape[at].into())?;
            let rounds = emit.div(places, size)?;
            let whole = emit.mul(rounds, size)?;
            places = emit.sub(places, whole)?;
        }
        other => return Err(format!("the mode {other:?}").into()),
    }
    let places = emit.within(places, &[shape[at]], Negative::Outside)?;
    let indices = emit.expand(places, &of_updates)?;
    one(emit.push(ScatterElements { input, indices, updates, axis: size(at)? })?)
}
