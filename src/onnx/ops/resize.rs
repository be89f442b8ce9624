//! Resize and Upsample.
//!
//! Every coordinate is known at import. Along each axis the output is a weighted sum of elements of the input, so any mode
//! can be written as products with constant matrices, or as gathers where one element is all of the sum. Where the
//! coordinates are those of WebNN's own resample2d, that does the work.

use super::elementwise::one;
use crate::graph::OperandId;
use crate::graph::ops::resample::{InterpolationMode, Resample2d};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Larger interpolation matrices are refused.
const MOST_ELEMENTS: u64 = 1 << 23;

/// How one axis is resampled.
#[derive(Clone, Debug)]
struct Axis {
    axis: usize,
    input: u32,
    output: u32,
    /// The factor that coordinates are computed with.
    scale: f64,
    /// The part of the input that `tf_crop_and_resize` takes.
    crop: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic { a: f64 },
}

#[derive(Clone, Debug)]
struct Rules {
    mode: Mode,
    coordinates: String,
    nearest: String,
    exclude_outside: bool,
    antialias: bool,
}

pub fn resize(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let upsample = node.operator() == "Upsample";
    let mode = match node.string("mode", "nearest")?.as_str() {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" => Mode::Cubic { a: node.float("cubic_coeff_a", -0.75)? },
        other => return Err(format!("the mode {other:?}").into()),
    };
    // Upsample and the first version of Resize know one rule only.
    let asymmetric = upsample || node.version < 11;
    let rules = Rules {
        mode,
        coordinates: if asymmetric { "asymmetric".into() } else { node.string("coordinate_transformation_mode", "half_pixel")? },
        nearest: if asymmetric { "floor".into() } else { node.string("nearest_mode", "round_prefer_floor")? },
        exclude_outside: node.flag("exclude_outside", false)?,
        antialias: node.flag("antialias", false)?,
    };
    if rules.antialias && rules.coordinates == "tf_crop_and_resize" {
        return Err("antialias of a crop is not supported".into());
    }
    let resampled = resampled(node, &shape, upsample, &rules)?;
    let changed: Vec<Axis> =
        resampled.into_iter().filter(|axis| axis.input != axis.output || axis.scale != 1.0 || axis.crop != (0.0, 1.0)).collect();
    if changed.is_empty() {
        return one(input);
    }
    if let Some(result) = by_resample2d(input, &changed, &rules, emit)? {
        return one(result);
    }
    let extrapolation = node.float("extrapolation_value", 0.0)?;
    let mut result = input;
    for axis in &changed {
        result = along(result, axis, &rules, extrapolation, emit)?;
    }
    one(result)
}

/// Which axes are resampled, and how.
fn resampled(node: &Node<'_>, shape: &[u32], upsample: bool, rules: &Rules) -> Mapped<Vec<Axis>> {
    let rank = shape.len();
    let (at_scales, at_sizes) = if upsample || node.version < 11 { (1, usize::MAX) } else { (2, 3) };
    let chosen = match node.ints("axes")? {
        Some(list) => axes(&list, rank)?,
        None => (0..rank).collect(),
    };
    // Empty inputs count as absent.
    let known = |position: usize, meaning: &str| -> Mapped<Option<&Tensor>> {
        Ok(node.optional_constant(position, meaning)?.filter(|tensor| !tensor.is_empty()))
    };
    let scales = match known(at_scales, "the scales")? {
        Some(tensor) => Some(tensor.floats()),
        None => node.floats("scales")?.map(|list| list.into_iter().map(f64::from).collect()),
    };
    let sizes = known(at_sizes, "the sizes")?.map(Tensor::integers);
    let roi = if rules.coordinates == "tf_crop_and_resize" {
        let roi = known(1, "the region of interest")?.ok_or("the region of interest is missing")?.floats();
        if roi.len() != 2 * chosen.len() {
            return Err(format!("a region of {} numbers for {} axes", roi.len(), chosen.len()).into());
        }
        Some(roi)
    } else {
        None
    };
    let crop = |i: usize| roi.as_ref().map_or((0.0, 1.0), |roi| (roi[i], roi[i + chosen.len()]));
    let fail = |what: &str| format!("{what} for {} axes", chosen.len());
    match (scales, sizes) {
        (_, Some(sizes)) => {
            if sizes.len() != chosen.len() {
                return Err(fail(&format!("{} sizes", sizes.len())).into());
            }
            let sizes = sizes.iter().map(|&size| self::size(size)).collect::<Mapped<Vec<u32>>>()?;
            let ratios = sizes.iter().zip(&chosen).map(|(&size, &axis)| f64::from(size) / f64::from(shape[axis]));
            let policy = node.string("keep_aspect_ratio_policy", "stretch")?;
            let common = match policy.as_str() {
                "stretch" => None,
                "not_larger" => ratios.reduce(f64::min),
                "not_smaller" => ratios.reduce(f64::max),
                other => return Err(format!("the policy {other:?}").into()),
            };
            let axis = |(i, (&axis, &given)): (usize, (&usize, &u32))| {
                let input = shape[axis];
                let (output, scale) = match common {
                    Some(common) => ((common * f64::from(input)).round() as u32, common),
                    None => (given, f64::from(given) / f64::from(input)),
                };
                Axis { axis, input, output, scale, crop: crop(i) }
            };
            checked(chosen.iter().zip(&sizes).enumerate().map(axis).collect())
        }
        (Some(scales), None) => {
            if scales.len() != chosen.len() || scales.iter().any(|scale| scale.is_nan() || *scale <= 0.0) {
                return Err(fail(&format!("the scales {scales:?}")).into());
            }
            let axis = |(i, (&axis, &scale)): (usize, (&usize, &f64))| {
                let (start, end) = crop(i);
                // In single precision, as the scales are given.
                let output = (f64::from(shape[axis] as f32 * scale as f32) * (end - start)).floor() as u32;
                Axis { axis, input: shape[axis], output, scale, crop: (start, end) }
            };
            checked(chosen.iter().zip(&scales).enumerate().map(axis).collect())
        }
        (None, None) => Err("neither scales nor sizes are given".into()),
    }
}

fn checked(axes: Vec<Axis>) -> Mapped<Vec<Axis>> {
    match axes.iter().find(|axis| axis.output == 0 || axis.output > 1 << 21) {
        Some(axis) => Err(format!("axis {} would get the size {}", axis.axis, axis.output).into()),
        None => Ok(axes),
    }
}

impl Axis {
    /// Where the value of an output position lies in the input.
    fn coordinate(&self, position: u32, rules: &Rules) -> Mapped<f64> {
        let (x, scale) = (f64::from(position), self.scale);
        let (input, output) = (f64::from(self.input), f64::from(self.output));
        Ok(match rules.coordinates.as_str() {
            "half_pixel" => (x + 0.5) / scale - 0.5,
            "pytorch_half_pixel" if self.output > 1 => (x + 0.5) / scale - 0.5,
            "pytorch_half_pixel" => 0.0,
            "half_pixel_symmetric" => {
                // The output's size was rounded: what is lost is shared by both ends.
                let adjustment = output / (scale * input);
                let centre = input / 2.0;
                centre * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
            }
            "align_corners" if self.output > 1 => x * (input - 1.0) / (output - 1.0),
            "align_corners" => 0.0,
            "asymmetric" => x / scale,
            "tf_half_pixel_for_nn" => (x + 0.5) / scale,
            "tf_crop_and_resize" => {
                let (start, end) = self.crop;
                match self.output > 1 {
                    true => start * (input - 1.0) + x * (end - start) * (input - 1.0) / (output - 1.0),
                    false => 0.5 * (start + end) * (input - 1.0),
                }
            }
            other => return Err(format!("the coordinate_transformation_mode {other:?}").into()),
        })
    }

    fn nearest(&self, rules: &Rules) -> Mapped<Vec<i64>> {
        (0..self.output)
            .map(|position| {
                let x = self.coordinate(position, rules)?;
                let place = match rules.nearest.as_str() {
                    "round_prefer_floor" => (x - 0.5).ceil(),
                    "round_prefer_ceil" => (x + 0.5).floor(),
                    "floor" => x.floor(),
                    "ceil" => x.ceil(),
                    other => return Err(format!("the nearest_mode {other:?}").into()),
                };
                Ok((place as i64).clamp(0, i64::from(self.input) - 1))
            })
            .collect()
    }

    /// The elements that make up an output position, with their weights.
    fn weights(&self, position: u32, rules: &Rules) -> Mapped<Vec<(i64, f64)>> {
        let x = self.coordinate(position, rules)?;
        // Downwards with antialias, the filter is as wide as what it stands for.
        let stretch = if rules.antialias && self.scale < 1.0 { self.scale } else { 1.0 };
        let (support, kernel): (f64, Box<dyn Fn(f64) -> f64>) = match rules.mode {
            Mode::Linear | Mode::Nearest => (1.0, Box::new(|t: f64| (1.0 - t.abs()).max(0.0))),
            Mode::Cubic { a } => (2.0, Box::new(move |t: f64| cubic(t.abs(), a))),
        };
        let reach = support / stretch;
        let (first, last) = ((x - reach).floor(), (x + reach).ceil());
        if (last - first).is_nan() || last - first >= MOST_ELEMENTS as f64 {
            return Err("coordinates out of any range".into());
        }
        let outside = |place: i64| place < 0 || place >= i64::from(self.input);
        let excludes = rules.exclude_outside;
        let taps: Vec<(i64, f64)> = (first as i64..=last as i64)
            .map(|place| (place, kernel((place as f64 - x) * stretch)))
            .filter(|&(place, weight)| weight != 0.0 && !(excludes && outside(place)))
            .collect();
        let total: f64 = taps.iter().map(|(_, weight)| weight).sum();
        let total = if excludes || stretch != 1.0 { total } else { 1.0 };
        Ok(taps.into_iter().map(|(place, weight)| (place.clamp(0, i64::from(self.input) - 1), weight / total)).collect())
    }
}

/// The kernel of Keys.
fn cubic(t: f64, a: f64) -> f64 {
    match t {
        t if t <= 1.0 => ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
        t if t < 2.0 => ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a,
        _ => 0.0,
    }
}

/// WebNN's own operator, where it does exactly this.
fn by_resample2d(input: OperandId, changed: &[Axis], rules: &Rules, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    let rank = emit.rank(input);
    let types = emit.data_type(input);
    let resamples = types.is_float() || types.bits() == 8;
    if rank != 4 || changed.len() > 2 || !resamples || rules.antialias || changed.iter().any(|axis| axis.crop != (0.0, 1.0)) {
        return Ok(None);
    }
    let own =
        Rules { coordinates: "half_pixel".into(), nearest: "round_prefer_floor".into(), exclude_outside: false, ..rules.clone() };
    for axis in changed {
        let exact = Axis { scale: f64::from(axis.output) / f64::from(axis.input), ..axis.clone() };
        let same = match rules.mode {
            Mode::Nearest => axis.nearest(rules)? == exact.nearest(&own)?,
            Mode::Linear => {
                // Integers are rounded where ONNX's runtimes truncate.
                let linear = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"].contains(&rules.coordinates.as_str());
                let single = rules.coordinates == "pytorch_half_pixel" && axis.output == 1;
                types.is_float() && linear && !single && axis.scale == exact.scale && !rules.exclude_outside
            }
            Mode::Cubic { .. } => false,
        };
        if !same {
            return Ok(None);
        }
    }
    let first = changed[0].axis;
    let other = changed.get(1).map_or(if first == 3 { 2 } else { 3 }, |axis| axis.axis);
    let mut pair = [first, other];
    pair.sort_unstable();
    let shape = emit.shape(input);
    let length = |axis: usize| changed.iter().find(|changed| changed.axis == axis).map_or(shape[axis], |changed| changed.output);
    let mode = if rules.mode == Mode::Nearest { InterpolationMode::NearestNeighbor } else { InterpolationMode::Linear };
    Ok(Some(emit.push(Resample2d {
        input,
        mode,
        scales: vec![1.0; 2],
        sizes: Some(pair.map(length)),
        axes: pair.map(|axis| axis as u32),
    })?))
}

/// Resamples one axis.
fn along(input: OperandId, axis: &Axis, rules: &Rules, extrapolation: f64, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let elements = u64::from(axis.input) * u64::from(axis.output);
    if rules.mode != Mode::Nearest && elements > MOST_ELEMENTS {
        return Err(format!("an axis of {} resampled to {}", axis.input, axis.output).into());
    }
    let result = if rules.mode == Mode::Nearest {
        let places = axis.nearest(rules)?;
        let indices = emit.constant(Tensor::int64s(&places))?;
        emit.gather(input, indices, axis.axis)?
    } else {
        weighted(input, axis, rules, emit)?
    };
    // What lies outside of the crop gets a value of its own.
    if rules.coordinates != "tf_crop_and_resize" {
        return Ok(result);
    }
    let end = f64::from(axis.input) - 1.0;
    let outside: Vec<i64> = (0..axis.output)
        .map(|position| Ok((!(0.0..=end).contains(&axis.coordinate(position, rules)?)).into()))
        .collect::<Mapped<_>>()?;
    if !outside.contains(&1) {
        return Ok(result);
    }
    let mut aligned = vec![1; emit.rank(result)];
    aligned[axis.axis] = outside.len();
    let mask = emit.constant(Tensor::from_integers(ElementType::Bool, aligned, &outside))?;
    let value = emit.scalar(emit.data_type(result), extrapolation)?;
    emit.select(mask, value, result)
}

/// A product with the matrix of weights along the axis.
fn weighted(input: OperandId, axis: &Axis, rules: &Rules, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let of = emit.data_type(input);
    if !of.is_float() {
        return Err(format!("interpolation of {of} is not supported").into());
    }
    let (rows, columns) = (axis.output as usize, axis.input as usize);
    let mut matrix = vec![0.0; rows * columns];
    for position in 0..axis.output {
        for (place, weight) in axis.weights(position, rules)? {
            matrix[position as usize * columns + place as usize] += weight;
        }
    }
    let rank = emit.rank(input);
    let element: ElementType = of.into();
    // The axis last, or second to last where that saves moving the elements.
    if axis.axis + 2 == rank {
        let matrix = emit.constant(Tensor::from_floats(element, vec![rows, columns], &matrix))?;
        return emit.matmul(matrix, input);
    }
    let transposed: Vec<f64> = (0..rows * columns).map(|i| matrix[i % rows * columns + i / rows]).collect();
    let matrix = emit.constant(Tensor::from_floats(element, vec![columns, rows], &transposed))?;
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(axis.axis, rank - 1);
    let moved = emit.transpose(input, &permutation)?;
    let shape = emit.shape(moved);
    let flat = if rank == 1 { emit.reshape(moved, &[1, shape[0]])? } else { moved };
    let product = emit.matmul(flat, matrix)?;
    let mut target = shape;
    target[rank - 1] = size(rows)?;
    let product = emit.reshape(product, &target)?;
    emit.transpose(product, &permutation)
}
