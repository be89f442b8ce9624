//! DeformConv, whose windows read pixels at places that data names; and MaxRoiPool.

use super::elementwise::one;
use super::window::Window;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, UnaryKind};
use crate::graph::ops::roi::RoiMaxPool;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Farther places count as this far: no image is so large, and all that is computed of it stays finite.
const FARTHEST: f64 = (1u64 << 40) as f64;

pub fn deform_conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter, offset) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let (bias, mask) = (emit.optional(node, 3)?, emit.optional(node, 4)?);
    let (of_filter, of_offset) = (emit.shape(filter), emit.shape(offset));
    let &[batches, channels, height, width] = &emit.shape(input)[..] else {
        return Err(format!("an input of rank {}; 4 is supported", emit.rank(input)).into());
    };
    let &[outputs, inputs, ..] = &of_filter[..] else { return Err("a filter without channels".into()) };
    if of_filter.len() != 4 {
        return Err(format!("a filter of rank {}", of_filter.len()).into());
    }
    let window = Window::of(node, 4, Some(&of_filter[2..]))?;
    let (groups, offsets) = (size(node.int("group", 1)?)?, size(node.int("offset_group", 1)?)?);
    let divides = |divisor: u32, number: u32| divisor > 0 && number.is_multiple_of(divisor);
    if !divides(groups, channels) || !divides(groups, outputs) || !divides(offsets, channels) || inputs != channels / groups {
        let found = format!("a filter of {of_filter:?} for {channels} channels");
        return Err(format!("{found} with {groups} groups and {offsets} groups of offsets").into());
    }
    let taps = emit.check_count(&window.kernel)?;
    let mut sizes = [0; 2];
    for (d, length) in [height, width].into_iter().enumerate() {
        let (before, after) = window.pads[d];
        let padded = u64::from(length) + u64::from(before) + u64::from(after);
        let room = padded.checked_sub(window.extent(d)).ok_or("a kernel that is larger than the input")?;
        sizes[d] = size(room / u64::from(window.strides[d]) + 1)?;
    }
    let [rows, columns] = sizes;
    let expect = |name: &str, found: &[u32], per_tap: u64| {
        let count = u64::from(offsets) * u64::from(taps) * per_tap;
        match found {
            [a, b, c, d] if (*a, u64::from(*b), *c, *d) == (batches, count, rows, columns) => Ok(()),
            _ => Err(format!("{name} of shape {found:?}; {:?} is needed", [batches.into(), count, rows.into(), columns.into()])),
        }
    };
    expect("an offset", &of_offset, 2)?;
    if let Some(mask) = mask {
        expect("a mask", &emit.shape(mask), 1)?;
    }
    let places = emit.check_count(&[taps, rows, columns])?;
    let images = emit.check_count(&[batches, offsets])?;
    let pixels = emit.check_count(&[height, width])?;
    emit.check_count(&[batches, channels, places])?;
    // Where each tap of each window reads, for each image and group of offsets: [images, places].
    let offset = emit.cast(offset, DataType::Float32)?;
    let offset = emit.reshape(offset, &[images, taps, 2, rows * columns])?;
    let mut lines = Vec::new();
    for (d, length) in [height, width].into_iter().enumerate() {
        let own = emit.slice_axis(offset, 2, d as u32, 1)?;
        let own = emit.reshape(own, &[images, places])?;
        let base = begins(&window, sizes, d, emit)?;
        let line = emit.add(own, base)?;
        let line = emit.clamp(line, Some(-FARTHEST), Some(FARTHEST))?;
        lines.push(neighbours(line, length, emit)?);
    }
    // [images * pixels, channels of a group], so that a pixel is one index.
    let depth = channels / offsets;
    let flat = emit.reshape(input, &[images, depth, pixels])?;
    let flat = emit.transpose(flat, &[0, 2, 1])?;
    let flat = emit.reshape(flat, &[emit.check_count(&[images, pixels])?, depth])?;
    emit.reserve(&[images.into()])?;
    let starts: Vec<i64> = (0..images).map(|image| i64::from(image) * i64::from(pixels)).collect();
    let starts = emit.constant(Tensor::from_integers(ElementType::Int32, vec![images as usize, 1], &starts))?;
    let of = emit.data_type(input);
    let zero = emit.scalar(of, 0.0)?;
    let mut sum = None;
    for y in &lines[0] {
        for x in &lines[1] {
            let row = emit.with(BinaryKind::Mul, y.position, width.into())?;
            let index = emit.add(row, x.position)?;
            let index = emit.add(index, starts)?;
            let weight = emit.mul(y.weight, x.weight)?;
            let part = emit.gather(flat, index, 0)?;
            // What has no weight has no part in the sum, whatever it is.
            let counts = emit.compare(LogicalKind::NotEqual, weight, 0.0)?;
            let weight = emit.cast(weight, of)?;
            let weight = emit.reshape(weight, &[images, places, 1])?;
            let counts = emit.reshape(counts, &[images, places, 1])?;
            let product = emit.mul(part, weight)?;
            let part = emit.select(counts, product, zero)?;
            sum = Some(match sum {
                Some(sum) => emit.add(sum, part)?,
                None => part,
            });
        }
    }
    let mut read = sum.ok_or("a window without neighbours")?;
    if let Some(mask) = mask {
        let mask = emit.reshape(mask, &[images, places, 1])?;
        read = emit.mul(read, mask)?;
    }
    // A product of the filters and what they read, for each group.
    let read = emit.transpose(read, &[0, 2, 1])?;
    let area = rows * columns;
    let lines = emit.check_count(&[inputs, taps])?;
    let read = emit.reshape(read, &[batches, groups, lines, area])?;
    let filter = emit.reshape(filter, &[1, groups, outputs / groups, lines])?;
    let result = emit.matmul(filter, read)?;
    let mut result = emit.reshape(result, &[batches, outputs, rows, columns])?;
    if let Some(bias) = bias {
        let bias = emit.reshape(bias, &[outputs, 1, 1])?;
        result = emit.add(result, bias)?;
    }
    one(result)
}

/// Where the taps of all windows are along a dimension without an offset: `[1, taps * rows * columns]`.
fn begins(window: &Window, [rows, columns]: [u32; 2], dimension: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let [tall, wide] = window.kernel;
    emit.reserve(&[tall.into(), wide.into(), rows.into(), columns.into()])?;
    let of = |tap: u32, place: u32| {
        let begin = i64::from(place) * i64::from(window.strides[dimension]) - i64::from(window.pads[dimension].0);
        (begin + i64::from(tap) * i64::from(window.dilations[dimension])) as f64
    };
    let mut numbers = Vec::new();
    for tap in 0..tall * wide {
        for place in 0..rows * columns {
            numbers.push(match dimension {
                0 => of(tap / wide, place / columns),
                _ => of(tap % wide, place % columns),
            });
        }
    }
    emit.constant(Tensor::from_floats(ElementType::Float, vec![1, numbers.len()], &numbers))
}

/// A pixel beside a place along a dimension, and how much it counts.
struct Neighbour {
    position: OperandId,
    weight: OperandId,
}

/// The two pixels beside places. One that is not in the image has no weight.
fn neighbours(line: OperandId, length: u32, emit: &mut Emit<'_>) -> Mapped<Vec<Neighbour>> {
    let last = f64::from(length) - 1.0;
    let floor = emit.unary(UnaryKind::Floor, line)?;
    let fraction = emit.sub(line, floor)?;
    let unit = emit.scalar(DataType::Float32, 1.0)?;
    let rest = emit.sub(unit, fraction)?;
    let zero = emit.scalar(DataType::Float32, 0.0)?;
    let mut list = Vec::new();
    for (step, weight) in [(0.0, rest), (1.0, fraction)] {
        let position = emit.with(BinaryKind::Add, floor, step)?;
        let from = emit.compare(LogicalKind::GreaterOrEqual, position, 0.0)?;
        let to = emit.compare(LogicalKind::LesserOrEqual, position, last)?;
        let within = emit.logical(LogicalKind::LogicalAnd, from, to)?;
        let weight = emit.select(within, weight, zero)?;
        let position = emit.select(within, position, zero)?;
        list.push(Neighbour { position: emit.cast(position, DataType::Int32)?, weight });
    }
    Ok(list)
}

/// MaxRoiPool.
pub fn max_roi_pool(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, regions) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let shape = node.ints("pooled_shape")?.unwrap_or_default();
    let [rows, columns] = shape[..] else { return Err(format!("attribute pooled_shape is {shape:?}").into()) };
    let (input, regions) = (emit.cast(input, DataType::Float32)?, emit.cast(regions, DataType::Float32)?);
    let scale = node.float("spatial_scale", 1.0)?;
    one(emit.push(RoiMaxPool { input, regions, sizes: [size(rows)?, size(columns)?], scale })?)
}
