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

/// The sizes of a node, which fit each other.
struct Sizes {
    batches: u32,
    channels: u32,
    /// Of the input and of the output: lines and columns.
    from: [u32; 2],
    to: [u32; 2],
    /// Of the filter: output channels, and input channels of a group.
    outputs: u32,
    inputs: u32,
    groups: u32,
    offsets: u32,
    taps: u32,
    /// `taps` of each output pixel.
    places: u32,
    /// `batches * offsets`.
    images: u32,
    window: Window,
}

impl Sizes {
    fn new(node: &Node<'_>, input: OperandId, filter: OperandId, emit: &mut Emit<'_>) -> Mapped<Sizes> {
        let of_filter = emit.shape(filter);
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
        let from = [height, width];
        let mut to = [0; 2];
        for (d, length) in from.into_iter().enumerate() {
            let (before, after) = window.pads[d];
            let padded = u64::from(length) + u64::from(before) + u64::from(after);
            let room = padded.checked_sub(window.extent(d)).ok_or("a kernel that is larger than the input")?;
            to[d] = size(room / u64::from(window.strides[d]) + 1)?;
        }
        let places = emit.check_count(&[taps, to[0], to[1]])?;
        let images = emit.check_count(&[batches, offsets])?;
        emit.check_count(&[batches, channels, places])?;
        Ok(Sizes { batches, channels, from, to, outputs, inputs, groups, offsets, taps, places, images, window })
    }

    /// Checks the shape of what has so many numbers for each tap.
    fn expect(&self, name: &str, found: &[u32], per_tap: u64) -> Mapped<()> {
        let ([rows, columns], count) = (self.to, u64::from(self.offsets) * u64::from(self.taps) * per_tap);
        match found {
            [a, b, c, d] if (*a, u64::from(*b), *c, *d) == (self.batches, count, rows, columns) => Ok(()),
            _ => {
                let needed = [self.batches.into(), count, rows.into(), columns.into()];
                Err(format!("{name} of shape {found:?}; {needed:?} is needed").into())
            }
        }
    }

    /// Where each tap of each window reads along both axes, for each image and group of offsets: [images, places].
    fn lines(&self, offset: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<Vec<Neighbour>>> {
        let offset = emit.cast(offset, DataType::Float32)?;
        let offset = emit.reshape(offset, &[self.images, self.taps, 2, self.to[0] * self.to[1]])?;
        let mut lines = Vec::new();
        for (d, length) in self.from.into_iter().enumerate() {
            let own = emit.slice_axis(offset, 2, d as u32, 1)?;
            let own = emit.reshape(own, &[self.images, self.places])?;
            let base = begins(&self.window, self.to, d, emit)?;
            let line = emit.add(own, base)?;
            let line = emit.clamp(line, Some(-FARTHEST), Some(FARTHEST))?;
            lines.push(neighbours(line, length, emit)?);
        }
        Ok(lines)
    }

    /// What the taps read: [images, places, channels of a group of offsets].
    fn read(&self, input: OperandId, lines: &[Vec<Neighbour>], emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let &Sizes { images, places, from: [height, width], .. } = self;
        // [images * pixels, channels of a group], so that a pixel is one index.
        let (depth, pixels) = (self.channels / self.offsets, emit.check_count(&[height, width])?);
        let flat = emit.reshape(input, &[images, depth, pixels])?;
        let flat = emit.transpose(flat, &[0, 2, 1])?;
        let flat = emit.reshape(flat, &[emit.check_count(&[images, pixels])?, depth])?;
        emit.reserve(&[images.into()])?;
        let starts: Vec<i64> = (0..images).map(|image| i64::from(image) * i64::from(pixels)).collect();
        let starts = emit.constant(Tensor::from_integers(ElementType::Int32, vec![images as usize, 1], &starts))?;
        let of = emit.data_type(input);
        let zero = emit.scalar(of, 0.0)?;
        let mut sum = None;
        for (y, x) in lines[0].iter().flat_map(|y| lines[1].iter().map(move |x| (y, x))) {
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
        sum.ok_or_else(|| "a window without neighbours".into())
    }
}

pub fn deform_conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter, offset) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let (bias, mask) = (emit.optional(node, 3)?, emit.optional(node, 4)?);
    let sizes = Sizes::new(node, input, filter, emit)?;
    sizes.expect("an offset", &emit.shape(offset), 2)?;
    if let Some(mask) = mask {
        sizes.expect("a mask", &emit.shape(mask), 1)?;
    }
    let lines = sizes.lines(offset, emit)?;
    let mut read = sizes.read(input, &lines, emit)?;
    let Sizes { batches, outputs, inputs, groups, taps, to: [rows, columns], .. } = sizes;
    if let Some(mask) = mask {
        let mask = emit.reshape(mask, &[sizes.images, sizes.places, 1])?;
        read = emit.mul(read, mask)?;
    }
    // A product of the filters and what they read, for each group.
    let read = emit.transpose(read, &[0, 2, 1])?;
    let lines = emit.check_count(&[inputs, taps])?;
    let read = emit.reshape(read, &[batches, groups, lines, rows * columns])?;
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
