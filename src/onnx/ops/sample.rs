//! GridSample: elements between those of an image, at places that data names; and AffineGrid, which makes such places.

use super::elementwise::one;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, UnaryKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// How a place outside of the image is understood.
#[derive(Clone, Copy)]
struct Outside {
    padding: Padding,
    align_corners: bool,
}

/// Farther places count as this far: no image is so large, and all that is computed of it stays finite.
const FARTHEST: f64 = (1u64 << 40) as f64;

/// A neighbour along one dimension: its position, how much it counts, and whether it is within the image.
#[derive(Clone, Copy)]
struct Tap {
    position: OperandId,
    weight: Option<OperandId>,
    within: Option<OperandId>,
}

pub fn grid_sample(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, grid) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (shape, of_grid) = (emit.shape(input), emit.shape(grid));
    let spatial = shape.len().saturating_sub(2);
    if !(1..=3).contains(&spatial) || of_grid.len() != shape.len() || of_grid.last() != Some(&(spatial as u32)) {
        return Err(format!("a grid of shape {of_grid:?} for an input of shape {shape:?}").into());
    }
    let mode = match node.string("mode", "linear")?.as_str() {
        "linear" | "bilinear" => Mode::Linear,
        "nearest" => Mode::Nearest,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return Err(format!("the mode {other:?}").into()),
    };
    let padding = match node.string("padding_mode", "zeros")?.as_str() {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(format!("the padding mode {other:?}").into()),
    };
    let outside = Outside { padding, align_corners: node.flag("align_corners", false)? };
    let of = emit.data_type(input);
    let (batches, channels) = (shape[0], shape[1]);
    let pixels = emit.check_count(&shape[2..])?;
    let places = emit.check_count(&of_grid[1..=spatial])?;
    emit.check_count(&[batches, channels, places])?;
    // The grid's last dimension names the input's last one first.
    let grid = emit.cast(grid, DataType::Float32)?;
    // An infinite place is one far away: of infinities there are no fractions.
    let grid = emit.clamp(grid, Some(-FARTHEST), Some(FARTHEST))?;
    let mut neighbours = Vec::new();
    for dimension in 0..spatial {
        let own = emit.slice_axis(grid, spatial + 1, (spatial - 1 - dimension) as u32, 1)?;
        let own = emit.reshape(own, &[batches, places])?;
        neighbours.push(taps(own, shape[2 + dimension], mode, outside, emit)?);
    }
    // [batch * pixels, channels], so that a place is one index.
    let flat = emit.reshape(input, &[batches, channels, pixels])?;
    let flat = emit.transpose(flat, &[0, 2, 1])?;
    let flat = emit.reshape(flat, &[emit.check_count(&[batches, pixels])?, channels])?;
    emit.reserve(&[batches.into()])?;
    let starts: Vec<i64> = (0..batches).map(|batch| i64::from(batch) * i64::from(pixels)).collect();
    let starts = emit.constant(Tensor::from_integers(ElementType::Int32, vec![batches as usize, 1], &starts))?;
    let counts: Vec<usize> = neighbours.iter().map(Vec::len).collect();
    let mut sum = None;
    for combination in 0..counts.iter().product::<usize>() {
        let mut rest = combination;
        let (mut index, mut weight, mut within) = (starts, None, None);
        for (dimension, list) in neighbours.iter().enumerate() {
            let tap = list[rest % list.len()];
            rest /= list.len();
            let stride: f64 = shape[3 + dimension..].iter().map(|&size| f64::from(size)).product();
            let part = emit.with(BinaryKind::Mul, tap.position, stride)?;
            let part = emit.cast(part, DataType::Int32)?;
            index = emit.add(index, part)?;
            weight = both(weight, tap.weight, |a, b| emit.mul(a, b))?;
            within = both(within, tap.within, |a, b| emit.logical(LogicalKind::LogicalAnd, a, b))?;
        }
        let mut part = emit.gather(flat, index, 0)?;
        let aligned = [batches, places, 1];
        if let Some(weight) = weight {
            let weight = emit.cast(weight, of)?;
            let weight = emit.reshape(weight, &aligned)?;
            part = emit.mul(part, weight)?;
        }
        if let Some(within) = within {
            let within = emit.reshape(within, &aligned)?;
            let zero = emit.scalar(of, 0.0)?;
            part = emit.select(within, part, zero)?;
        }
        sum = Some(match sum {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    let sum = sum.ok_or("a grid without neighbours")?;
    let result = emit.transpose(sum, &[0, 2, 1])?;
    let target: Vec<u32> = [&[batches, channels], &of_grid[1..=spatial]].concat();
    one(emit.reshape(result, &target)?)
}

fn both(
    a: Option<OperandId>,
    b: Option<OperandId>,
    join: impl FnOnce(OperandId, OperandId) -> Mapped<OperandId>,
) -> Mapped<Option<OperandId>> {
    match (a, b) {
        (Some(a), Some(b)) => join(a, b).map(Some),
        (one, other) => Ok(one.or(other)),
    }
}

/// The neighbours of places from -1 to 1 along a dimension of that length.
fn taps(grid: OperandId, length: u32, mode: Mode, outside: Outside, emit: &mut Emit<'_>) -> Mapped<Vec<Tap>> {
    let whole = f64::from(length);
    let raised = emit.with(BinaryKind::Add, grid, 1.0)?;
    let x = if outside.align_corners {
        emit.with(BinaryKind::Mul, raised, (whole - 1.0) / 2.0)?
    } else {
        let scaled = emit.with(BinaryKind::Mul, raised, whole / 2.0)?;
        emit.with(BinaryKind::Sub, scaled, 0.5)?
    };
    if mode == Mode::Nearest {
        let position = emit.unary(UnaryKind::RoundEven, x)?;
        return Ok(vec![tap(position, None, whole, outside, emit)?]);
    }
    let floor = emit.unary(UnaryKind::Floor, x)?;
    let fraction = emit.sub(x, floor)?;
    let unit = emit.scalar(DataType::Float32, 1.0)?;
    let rest = emit.sub(unit, fraction)?;
    let weights = match mode {
        Mode::Cubic => {
            let (before, after) = (emit.with(BinaryKind::Add, fraction, 1.0)?, emit.with(BinaryKind::Add, rest, 1.0)?);
            vec![
                (-1.0, outer(before, emit)?),
                (0.0, inner(fraction, emit)?),
                (1.0, inner(rest, emit)?),
                (2.0, outer(after, emit)?),
            ]
        }
        _ => vec![(0.0, rest), (1.0, fraction)],
    };
    let mut list = Vec::new();
    for (offset, weight) in weights {
        let position = emit.with(BinaryKind::Add, floor, offset)?;
        list.push(tap(position, Some(weight), whole, outside, emit)?);
    }
    Ok(list)
}

/// The factor of the kernel of Keys.
const KEYS: f64 = -0.75;

/// `c[0] t³ + c[1] t² + c[2] t + c[3]`
fn cubic(t: OperandId, coefficients: [f64; 4], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut sum = emit.with(BinaryKind::Mul, t, coefficients[0])?;
    for (i, coefficient) in coefficients[1..].iter().enumerate() {
        sum = emit.with(BinaryKind::Add, sum, *coefficient)?;
        if i < 2 {
            sum = emit.mul(sum, t)?;
        }
    }
    Ok(sum)
}

fn inner(t: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    cubic(t, [KEYS + 2.0, -(KEYS + 3.0), 0.0, 1.0], emit)
}

fn outer(t: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    cubic(t, [KEYS, -5.0 * KEYS, 8.0 * KEYS, -4.0 * KEYS], emit)
}

/// A position brought into the image.
fn tap(x: OperandId, weight: Option<OperandId>, whole: f64, outside: Outside, emit: &mut Emit<'_>) -> Mapped<Tap> {
    let last = whole - 1.0;
    let mut within = None;
    let mut position = x;
    match outside.padding {
        Padding::Zeros => {
            let (from, to) =
                (emit.compare(LogicalKind::GreaterOrEqual, x, 0.0)?, emit.compare(LogicalKind::LesserOrEqual, x, last)?);
            within = Some(emit.logical(LogicalKind::LogicalAnd, from, to)?);
        }
        Padding::Border => {}
        // Reflected at the middles of the last pixels, or at their edges.
        Padding::Reflection => {
            let (period, mirror) =
                if outside.align_corners { (2.0 * last, 2.0 * last) } else { (2.0 * whole, 2.0 * whole - 1.0) };
            if period > 0.0 {
                let periods = emit.with(BinaryKind::Div, x, period)?;
                let periods = emit.unary(UnaryKind::Floor, periods)?;
                let begin = emit.with(BinaryKind::Mul, periods, period)?;
                let rest = emit.sub(x, begin)?;
                let after = emit.compare(LogicalKind::Greater, rest, last)?;
                let mirror = emit.scalar(DataType::Float32, mirror)?;
                let reflected = emit.sub(mirror, rest)?;
                position = emit.select(after, reflected, rest)?;
            }
        }
    }
    // The padding, and what is no number at all.
    let position = emit.clamp(position, Some(0.0), Some(last))?;
    Ok(Tap { position, weight, within })
}

/// AffineGrid: the places of an image of a size that is known, transformed by matrices.
pub fn affine_grid(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let sizes = node.constant(1, "the size")?.integers();
    let sizes = sizes.iter().map(|&length| size(length)).collect::<Mapped<Vec<u32>>>()?;
    let theta = emit.input(node, 0)?;
    let spatial = sizes.len().saturating_sub(2);
    if !(2..=3).contains(&spatial) || sizes.contains(&0) || emit.shape(theta) != [sizes[0], spatial as u32, spatial as u32 + 1] {
        return Err(format!("matrices of shape {:?} for the size {sizes:?}", emit.shape(theta)).into());
    }
    let align_corners = node.flag("align_corners", false)?;
    let count = emit.check_count(&sizes[2..])?;
    emit.reserve(&[count.into(), spatial as u64 + 1])?;
    let along = |length: u32, i: u32| {
        let (length, i) = (f64::from(length), f64::from(i));
        match align_corners {
            true if length > 1.0 => 2.0 * i / (length - 1.0) - 1.0,
            true => 0.0,
            false => (2.0 * i + 1.0) / length - 1.0,
        }
    };
    let mut places = Vec::new();
    for place in 0..count {
        let mut rest = place;
        for &length in sizes[2..].iter().rev() {
            places.push(along(length, rest % length));
            rest /= length;
        }
        places.push(1.0);
    }
    let of: ElementType = emit.data_type(theta).into();
    let places = emit.constant(Tensor::from_floats(of, vec![1, count as usize, spatial + 1], &places))?;
    let matrices = emit.transpose_matrices(theta)?;
    let grid = emit.matmul(places, matrices)?;
    let target: Vec<u32> = [&sizes[..1], &sizes[2..], &[spatial as u32]].concat();
    one(emit.reshape(grid, &target)?)
}
