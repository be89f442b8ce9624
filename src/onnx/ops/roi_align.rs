//! RoiAlign: regions of a feature map, whose places are known when the model runs, sampled to one size.

use crate::looks;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;
use bytes::Bytes;
use std::borrow::Cow;

/// Samples of a cell along each axis, at most.
const MOST_SAMPLES: usize = 1 << 12;

/// A bilinear sample: four places in a plane and their weights.
type Sample = [(usize, f32); 4];

/// Nanoseconds that a sample takes.
const COST: usize = 8;

/// Nothing for a place outside of the plane.
fn sample(y: f32, x: f32, height: usize, width: usize) -> Option<Sample> {
    if !(-1.0..=height as f32).contains(&y) || !(-1.0..=width as f32).contains(&x) || height == 0 || width == 0 {
        return None;
    }
    let along = |place: f32, size: usize| {
        let place = place.max(0.0);
        let low = (place as usize).min(size - 1);
        match low + 1 < size {
            true => (low, low + 1, place - low as f32),
            false => (size - 1, size - 1, 0.0),
        }
    };
    let ((top, bottom, down), (left, right, across)) = (along(y, height), along(x, width));
    let (up, back) = (1.0 - down, 1.0 - across);
    Some([
        (top * width + left, up * back),
        (top * width + right, up * across),
        (bottom * width + left, down * back),
        (bottom * width + right, down * across),
    ])
}

/// The attributes of a node.
struct Attributes {
    rows: usize,
    columns: usize,
    /// Samples of a cell along each axis; without one, as many as it has pixels.
    ratio: Option<usize>,
    scale: f32,
    takes_largest: bool,
    half_pixel: bool,
}

impl Attributes {
    fn of(node: &Node<'_>) -> Mapped<Attributes> {
        let size = |name| -> Mapped<usize> {
            let size = node.int(name, 1)?;
            usize::try_from(size).ok().filter(|&size| size > 0).ok_or_else(|| format!("{name} {size}").into())
        };
        let takes_largest = match node.string("mode", "avg")?.as_str() {
            "avg" => false,
            "max" => true,
            other => return Err(format!("mode {other:?}, where \"avg\" or \"max\" are allowed").into()),
        };
        let default = if node.version < 16 { "output_half_pixel" } else { "half_pixel" };
        let half_pixel = match node.string("coordinate_transformation_mode", default)?.as_str() {
            "half_pixel" => true,
            "output_half_pixel" => false,
            other => return Err(format!("coordinate_transformation_mode {other:?}").into()),
        };
        Ok(Attributes {
            rows: size("output_height")?,
            columns: size("output_width")?,
            ratio: usize::try_from(node.int("sampling_ratio", 0)?).ok().filter(|&ratio| ratio > 0),
            scale: node.float("spatial_scale", 1.0)? as f32,
            takes_largest,
            half_pixel,
        })
    }

    /// Where the cells of a region, by its four corners, begin and how large they are, and their samples along each axis.
    fn grid(&self, region: &[f32]) -> Grid {
        let offset = if self.half_pixel { 0.5 } else { 0.0 };
        let [left, top, right, bottom] = [0, 1, 2, 3].map(|i| region[i] * self.scale - offset);
        // Without the half pixel, regions have a size of at least one.
        let extent = |low: f32, high: f32| if self.half_pixel { high - low } else { (high - low).max(1.0) };
        let cell = [extent(top, bottom) / self.rows as f32, extent(left, right) / self.columns as f32];
        let samples = |extent: f32| self.ratio.unwrap_or(extent.ceil().max(0.0) as usize).min(MOST_SAMPLES);
        Grid { begin: [top, left], cell, samples: cell.map(samples) }
    }

    /// The samples of each cell of a region, in a plane of some height and width.
    fn cells(&self, grid: &Grid, [height, width]: [usize; 2]) -> Vec<Vec<Option<Sample>>> {
        let Grid { begin: [top, left], cell: [of_row, of_column], samples: [down, across] } = *grid;
        let mut cells = Vec::with_capacity(self.rows * self.columns);
        for row in 0..self.rows {
            for column in 0..self.columns {
                let mut samples = Vec::with_capacity(down * across);
                for i in 0..down {
                    looks::worked(across * COST);
                    let y = top + row as f32 * of_row + (i as f32 + 0.5) * of_row / down as f32;
                    for k in 0..across {
                        let x = left + column as f32 * of_column + (k as f32 + 0.5) * of_column / across as f32;
                        samples.push(sample(y, x, height, width));
                    }
                }
                cells.push(samples);
            }
        }
        cells
    }

    /// The number of a cell.
    fn pooled(&self, plane: &[f32], samples: &[Option<Sample>]) -> f32 {
        let weighted = |sample: &Sample| sample.map(|(place, weight)| plane[place] * weight);
        if self.takes_largest {
            // As onnxruntime has it: the largest of the weighted neighbours of all samples.
            let all = samples.iter().map(|sample| match sample {
                Some(sample) => weighted(sample).into_iter().fold(f32::NEG_INFINITY, f32::max),
                None => 0.0,
            });
            return all.reduce(f32::max).unwrap_or(0.0);
        }
        let sum: f32 = samples.iter().flatten().map(|sample| weighted(sample).iter().sum::<f32>()).sum();
        sum / samples.len().max(1) as f32
    }
}

/// Down and across.
struct Grid {
    begin: [f32; 2],
    cell: [f32; 2],
    samples: [usize; 2],
}

pub fn roi_align(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, regions) = (node.constant(0, "the feature map")?, node.constant(1, "the regions")?);
    let images = node.constant(2, "the images of the regions")?.integers();
    let (&[batch, channels, height, width], &[count, 4]) = (&input.shape[..], &regions.shape[..]) else {
        return Err(format!("a feature map of {:?} and regions of {:?}", input.shape, regions.shape).into());
    };
    if images.len() != count || images.iter().any(|&image| usize::try_from(image).map_or(true, |image| image >= batch)) {
        return Err(format!("images {images:?} for {count} regions of {batch} images").into());
    }
    let attributes = Attributes::of(node)?;
    let shape = vec![count, channels, attributes.rows, attributes.columns];
    if !emit.folding.affords(&shape) || !emit.folding.affords(&input.shape) {
        return Err(format!("a result of {shape:?} is too large").into());
    }
    let (pixels, regions) = (single(input), single(regions));
    let mut result: Vec<f32> = Vec::with_capacity(shape.iter().product());
    for (region, image) in regions.chunks(4).zip(images) {
        let grid = attributes.grid(region);
        let samples = (attributes.rows * attributes.columns).saturating_mul(grid.samples.iter().product());
        emit.folding.require(samples.saturating_mul(channels.max(4)).saturating_mul(4))?;
        let cells = attributes.cells(&grid, [height, width]);
        for channel in 0..channels {
            let plane = &pixels[(image as usize * channels + channel) * height * width..][..height * width];
            result.extend(cells.iter().map(|samples| {
                looks::worked(samples.len().max(1) * COST);
                attributes.pooled(plane, samples)
            }));
        }
    }
    let result = match input.element {
        element @ ElementType::Float => {
            Tensor { element, shape, bytes: Bytes::copy_from_slice(bytemuck::cast_slice(&result)).into() }
        }
        element => Tensor::from_floats(element, shape, &result.into_iter().map(f64::from).collect::<Vec<f64>>()),
    };
    Ok(vec![result.into()])
}

/// The elements in float32; a feature map of that type is read where it is.
fn single(tensor: &Tensor) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(&tensor.bytes) {
        Ok(numbers) if tensor.element == ElementType::Float => Cow::Borrowed(numbers),
        _ => Cow::Owned(tensor.floats().into_iter().map(|x| x as f32).collect()),
    }
}
