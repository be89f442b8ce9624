//! Resize and Upsample.
//!
//! Every coordinate is known at import. Along each axis the output is a weighted sum of elements of the input, which are
//! gathered; where one element is all of the sum, that is all. Where the coordinates are those of WebNN's own resample2d,
//! that does the work.

use super::elementwise::one;
use super::place::{Place, Scale};
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::resample::{InterpolationMode, Resample2d};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Axes that are sums of more elements in all are refused.
const MOST_ELEMENTS: u64 = 1 << 23;

/// How one axis is resampled.
#[derive(Clone, Debug)]
struct Axis {
    axis: usize,
    input: u32,
    output: u32,
    /// The factor that coordinates are computed with.
    scale: Scale,
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
    let given = node.input(0)?;
    let shape = given.shape(emit.builder).into_iter().map(size).collect::<Mapped<Vec<u32>>>()?;
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
    let mut target = given.shape(emit.builder);
    for axis in &resampled {
        target[axis.axis] = axis.output as usize;
    }
    if target.contains(&0) {
        return Ok(vec![Tensor::without_elements(emit.stored_element(given), target).into()]);
    }
    let mut input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let changed: Vec<Axis> = resampled
        .into_iter()
        .filter(|axis| axis.input != axis.output || !axis.scale.is(1, 1) || axis.crop != (0.0, 1.0))
        .collect();
    if changed.is_empty() {
        return one(input);
    }
    // Bytes are interpolated as float32 and then become bytes again.
    let is_byte = of.bits() == 8 && rules.mode != Mode::Nearest;
    if is_byte {
        input = emit.cast(input, DataType::Float32)?;
    }
    let mut result = input;
    match by_resample2d(input, &changed, &rules, emit)? {
        Some(resampled) => result = resampled,
        None => {
            let extrapolation = node.float("extrapolation_value", 0.0)?;
            for axis in &changed {
                result = along(result, axis, &rules, extrapolation, emit)?;
            }
        }
    }
    one(if is_byte { to_bytes(result, of, &rules, emit)? } else { result })
}

/// Interpolated bytes are truncated, as ONNX's reference and onnxruntime do, which rounds those of a wide filter, and halves up. What is whole
/// may have been computed a little too small: with weights whose sizes add up to 1.375 at most, two axes of four products and
/// their sums round numbers up to 255 * 1.375² ten times, each by 2⁻²⁴ of it, which is 3e-4.
fn to_bytes(input: OperandId, of: DataType, rules: &Rules, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    const SLACK: f64 = 1.0 / 2048.0;
    let whole = if rules.antialias {
        let raised = emit.with(BinaryKind::Add, input, 0.5 + SLACK)?;
        emit.unary(UnaryKind::Floor, raised)?
    } else {
        let sign = emit.unary(UnaryKind::Sign, input)?;
        let more = emit.with(BinaryKind::Mul, sign, SLACK)?;
        emit.add(input, more)?
    };
    let (low, high) = crate::graph::number::integer_range(of);
    let bounded = emit.clamp(whole, Some(low as f64), Some(high as f64))?;
    emit.cast(bounded, of)
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
            let ratios = sizes.iter().zip(&chosen).map(|(&size, &axis)| (size, shape[axis]));
            // Compared as fractions.
            let is_less = |a: (u32, u32), b: (u32, u32)| u64::from(a.0) * u64::from(b.1) < u64::from(b.0) * u64::from(a.1);
            let policy = node.string("keep_aspect_ratio_policy", "stretch")?;
            let common = match policy.as_str() {
                "stretch" => None,
                // A ratio to nothing has no value.
                _ if shape.contains(&0) => return Err("the aspect ratio of an input without elements".into()),
                "not_larger" => ratios.reduce(|a, b| if is_less(b, a) { b } else { a }),
                "not_smaller" => ratios.reduce(|a, b| if is_less(a, b) { b } else { a }),
                other => return Err(format!("the policy {other:?}").into()),
            };
            let axis = |(i, (&axis, &given)): (usize, (&usize, &u32))| {
                let input = shape[axis];
                let (output, to, from) = match common {
                    Some((to, from)) => {
                        // To the nearest, halves up.
                        let output = (2 * u128::from(to) * u128::from(input) + u128::from(from)) / (2 * u128::from(from));
                        (u32::try_from(output).unwrap_or(u32::MAX), to, from)
                    }
                    None => (given, given, input),
                };
                Axis { axis, input, output, scale: Scale::Ratio { to, from }, crop: crop(i) }
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
                Axis { axis, input: shape[axis], output, scale: Scale::Factor(scale as f32), crop: (start, end) }
            };
            checked(chosen.iter().zip(&scales).enumerate().map(axis).collect())
        }
        (None, None) => Err("neither scales nor sizes are given".into()),
    }
}

fn checked(axes: Vec<Axis>) -> Mapped<Vec<Axis>> {
    match axes.iter().find(|axis| axis.output > 1 << 21) {
        Some(axis) => Err(format!("axis {} would get the size {}", axis.axis, axis.output).into()),
        None => Ok(axes),
    }
}

impl Axis {
    /// Where the value of an output position lies in the input.
    fn place(&self, position: u32, rules: &Rules) -> Mapped<Place> {
        let place = self.scale.place(&rules.coordinates, position, [self.input, self.output], self.crop);
        place.ok_or_else(|| format!("the coordinate_transformation_mode {:?}", rules.coordinates).into())
    }

    fn nearest(&self, rules: &Rules) -> Mapped<Vec<i64>> {
        (0..self.output)
            .map(|position| {
                let place = self.place(position, rules)?;
                let nearest = place.rounded(&rules.nearest).ok_or_else(|| format!("the nearest_mode {:?}", rules.nearest))?;
                Ok(nearest.clamp(0, i64::from(self.input) - 1))
            })
            .collect()
    }

    /// The elements that make up an output position, with their weights.
    fn weights(&self, position: u32, rules: &Rules) -> Mapped<Vec<(i64, f64)>> {
        let place = self.place(position, rules)?;
        // Downwards with antialias, the filter is as wide as what it stands for.
        let stretch = if rules.antialias { self.scale.value().min(1.0) } else { 1.0 };
        let (support, kernel): (f64, Box<dyn Fn(f64) -> f64>) = match rules.mode {
            Mode::Linear | Mode::Nearest => (1.0, Box::new(|t: f64| (1.0 - t.abs()).max(0.0))),
            Mode::Cubic { a } => (2.0, Box::new(move |t: f64| cubic(t.abs(), a))),
        };
        let reach = (support / stretch).ceil();
        if reach.is_nan() || reach >= MOST_ELEMENTS as f64 {
            return Err("coordinates out of any range".into());
        }
        let reach = reach as i64 + 1;
        let outside = |tap: i64| tap < 0 || tap >= i64::from(self.input);
        let excludes = rules.exclude_outside;
        let taps: Vec<(i64, f64)> = (-reach..=reach)
            .map(|offset| (place.whole.saturating_add(offset), kernel((offset as f64 - place.rest) * stretch)))
            .filter(|&(tap, weight)| weight != 0.0 && !(excludes && outside(tap)))
            .collect();
        let total: f64 = taps.iter().map(|(_, weight)| weight).sum();
        let total = if excludes || stretch != 1.0 { total } else { 1.0 };
        Ok(taps.into_iter().map(|(tap, weight)| (tap.clamp(0, i64::from(self.input) - 1), weight / total)).collect())
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
        let exact = Axis { scale: Scale::Ratio { to: axis.output, from: axis.input }, ..axis.clone() };
        let same = match rules.mode {
            Mode::Nearest => axis.nearest(rules)? == exact.nearest(&own)?,
            Mode::Linear => {
                // Integers are rounded where ONNX's runtimes truncate.
                let linear = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"].contains(&rules.coordinates.as_str());
                let single = rules.coordinates == "pytorch_half_pixel" && axis.output == 1;
                types.is_float() && linear && !single && axis.scale.is(axis.output, axis.input) && !rules.exclude_outside
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
    let last = i64::from(axis.input) - 1;
    let outside: Vec<i64> =
        (0..axis.output).map(|position| Ok((!axis.place(position, rules)?.is_within(last)).into())).collect::<Mapped<_>>()?;
    if !outside.contains(&1) {
        return Ok(result);
    }
    let mut aligned = vec![1; emit.rank(result)];
    aligned[axis.axis] = outside.len();
    let mask = emit.constant(Tensor::from_integers(ElementType::Bool, aligned, &outside))?;
    let value = emit.scalar(emit.data_type(result), extrapolation)?;
    emit.select(mask, value, result)
}

/// Sums of elements along the axis, each with its weight. No product with a matrix of weights: that would make NaN of an
/// infinity wherever its weight is 0.
fn weighted(input: OperandId, axis: &Axis, rules: &Rules, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let of = emit.data_type(input);
    if !of.is_float() {
        return Err(format!("interpolation of {of} is not supported").into());
    }
    let mut sums = Vec::new();
    let (mut elements, mut most) = (0, 0);
    for position in 0..axis.output {
        let sum = axis.weights(position, rules)?;
        (elements, most) = (elements + sum.len(), most.max(sum.len()));
        if elements as u64 > MOST_ELEMENTS {
            break;
        }
        sums.push(sum);
    }
    if sums.len() < axis.output as usize || most as u64 * u64::from(axis.output) > MOST_ELEMENTS {
        return Err(format!("an axis of {} resampled to {}", axis.input, axis.output).into());
    }
    sums.iter_mut().for_each(|sum| fill_up(sum, most));
    let places: Vec<i64> = sums.iter().flatten().map(|&(place, _)| place).collect();
    let weights: Vec<f64> = sums.iter().flatten().map(|&(_, weight)| weight).collect();
    let mut aligned = vec![1; emit.rank(input) + 1];
    (aligned[axis.axis], aligned[axis.axis + 1]) = (sums.len(), most);
    let places = emit.constant(Tensor::from_integers(ElementType::Int64, vec![sums.len(), most], &places))?;
    let weights = emit.constant(Tensor::from_floats(of.into(), aligned, &weights))?;
    let elements = emit.gather(input, places, axis.axis)?;
    emit.check_count(&emit.shape(elements))?;
    let parts = emit.mul(elements, weights)?;
    emit.reduce(ReduceKind::Sum, parts, &[axis.axis + 1], false)
}

/// Makes a sum of so many elements of one of fewer. A weight of 0 would make NaN of an infinity, so the largest weight is
/// halved instead, which is exact.
fn fill_up(sum: &mut Vec<(i64, f64)>, count: usize) {
    while sum.len() < count {
        let Some(largest) = sum.iter_mut().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())) else {
            sum.push((0, 0.0));
            continue;
        };
        largest.1 /= 2.0;
        let half = *largest;
        sum.push(half);
    }
}
