//! Fourier transforms as products with matrices of sines and cosines, and what goes with them.

use super::elementwise::one;
use crate::graph::DataType;
use crate::graph::OperandId;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;
use std::f64::consts::TAU;

/// The real and imaginary parts of a transform's matrix, [inputs, outputs].
struct Matrices {
    cosines: OperandId,
    sines: OperandId,
}

impl Matrices {
    /// `exp(∓2πi j k / length)` for `j` below `inputs` and `k` below `outputs`, times `scale` and the window's j-th element.
    fn of(
        data_type: DataType,
        [length, inputs, outputs]: [u32; 3],
        inverse: bool,
        window: Option<&[f64]>,
        emit: &mut Emit<'_>,
    ) -> Mapped<Matrices> {
        emit.reserve(&[2, inputs.into(), outputs.into()])?;
        let (direction, scale) = if inverse { (1.0, 1.0 / f64::from(length)) } else { (-1.0, 1.0) };
        let mut parts = [Vec::new(), Vec::new()];
        for j in 0..inputs {
            let weight = window.map_or(1.0, |window| window[j as usize]) * scale;
            for k in 0..outputs {
                let fraction = (u64::from(j) * u64::from(k) % u64::from(length)) as f64 / f64::from(length);
                let (sine, cosine) = (TAU * fraction).sin_cos();
                parts[0].push(cosine * weight);
                parts[1].push(direction * sine * weight);
            }
        }
        let shape = vec![inputs as usize, outputs as usize];
        let [cosines, sines] = parts.map(|part| Tensor::from_floats(data_type.into(), shape.clone(), &part));
        Ok(Matrices { cosines: emit.constant(cosines)?, sines: emit.constant(sines)? })
    }

    /// The real and imaginary parts of the transform of the last dimension.
    fn transform(&self, real: OperandId, imaginary: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
        let (mut a, mut b) = (emit.matmul(real, self.cosines)?, emit.matmul(real, self.sines)?);
        if let Some(imaginary) = imaginary {
            let (c, d) = (emit.matmul(imaginary, self.sines)?, emit.matmul(imaginary, self.cosines)?);
            a = emit.sub(a, c)?;
            b = emit.add(b, d)?;
        }
        Ok([a, b])
    }
}

/// A value whose last dimension holds real and imaginary parts (or real ones only), taken apart.
fn apart(input: OperandId, emit: &mut Emit<'_>) -> Mapped<(OperandId, Option<OperandId>)> {
    let mut shape = emit.shape(input);
    let parts = shape.pop().ok_or("an input of rank 0")?;
    match parts {
        1 => Ok((emit.reshape(input, &shape)?, None)),
        2 => {
            let pair = emit.split(input, vec![1, 1], shape.len())?;
            Ok((emit.reshape(pair[0], &shape)?, Some(emit.reshape(pair[1], &shape)?)))
        }
        _ => Err(format!("numbers of {parts} parts").into()),
    }
}

fn together([real, imaginary]: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut shape = emit.shape(real);
    shape.push(1);
    let (real, imaginary) = (emit.reshape(real, &shape)?, emit.reshape(imaginary, &shape)?);
    emit.concat(vec![real, imaginary], shape.len() - 1)
}

fn scalar(node: &Node<'_>, position: usize, meaning: &str) -> Mapped<Option<i64>> {
    match node.optional_constant(position, meaning)? {
        None => Ok(None),
        Some(tensor) => match tensor.integers()[..] {
            [number] => Ok(Some(number)),
            _ => Err(format!("{meaning} is no scalar").into()),
        },
    }
}

/// DFT. The axis is an attribute before version 20 and an input since.
pub fn dft(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let rank = shape.len();
    let at = match node.version {
        ..20 => node.int("axis", 1)?,
        _ => scalar(node, 2, "the axis")?.unwrap_or(-2),
    };
    let at = axis(at, rank)?;
    if at + 1 == rank {
        return Err("the axis of the parts of numbers".into());
    }
    let (inverse, onesided) = (node.flag("inverse", false)?, node.flag("onesided", false)?);
    if inverse && onesided {
        return Err("an inverse transform of one side is not supported".into());
    }
    let length = match scalar(node, 1, "the length")? {
        Some(length) => size(length)?,
        None => shape[at],
    };
    if length == 0 {
        return Err("a length of 0".into());
    }
    let (real, imaginary) = apart(input, emit)?;
    let inputs = length.min(shape[at]);
    // The axis last. What is after the length is left out, and what is missing is 0.
    let mut permutation: Vec<usize> = (0..rank - 1).collect();
    permutation.swap(at, rank - 2);
    let prepared = |part: OperandId, emit: &mut Emit<'_>| -> Mapped<OperandId> {
        let part = emit.slice_axis(part, at, 0, inputs)?;
        let part = emit.transpose(part, &permutation)?;
        // A product wants matrices.
        let mut flat = emit.shape(part);
        if flat.len() == 1 {
            flat.insert(0, 1);
        }
        emit.reshape(part, &flat)
    };
    let real = prepared(real, emit)?;
    let imaginary = imaginary.map(|part| prepared(part, emit)).transpose()?;
    let outputs = if onesided { length / 2 + 1 } else { length };
    let matrices = Matrices::of(emit.data_type(input), [length, inputs, outputs], inverse, None, emit)?;
    let parts = matrices.transform(real, imaginary, emit)?;
    let mut target = shape[..rank - 1].to_vec();
    target.swap(at, rank - 2);
    target[rank - 2] = outputs;
    let mut moved = Vec::new();
    for part in parts {
        let part = emit.reshape(part, &target)?;
        moved.push(emit.transpose(part, &permutation)?);
    }
    one(together([moved[0], moved[1]], emit)?)
}

/// STFT: transforms of the windows of a signal, [batch, frames, frequencies, 2].
pub fn stft(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let signal = emit.input(node, 0)?;
    let signal = match emit.shape(signal)[..] {
        [batches, length] => emit.reshape(signal, &[batches, length, 1])?,
        [_, _, _] => signal,
        _ => return Err("a signal whose rank is not 3".into()),
    };
    let whole = emit.shape(signal)[1];
    let step = scalar(node, 1, "frame_step")?.filter(|&step| step > 0).ok_or("the step is missing or not positive")?;
    let step = size(step)?;
    let window = node.optional_constant(2, "the window")?.map(Tensor::floats);
    let length = match (scalar(node, 3, "frame_length")?, &window) {
        (Some(length), _) => size(length)?,
        (None, Some(window)) => size(window.len())?,
        (None, None) => whole,
    };
    if window.as_ref().is_some_and(|window| window.len() != length as usize) {
        return Err("a window of another length than the frames".into());
    }
    if length == 0 || length > whole {
        return Err(format!("frames of {length} of a signal of {whole}").into());
    }
    let frames = (whole - length) / step + 1;
    let (real, imaginary) = apart(signal, emit)?;
    let onesided = node.flag("onesided", true)?;
    let outputs = if onesided { length / 2 + 1 } else { length };
    emit.reserve(&[frames.into(), length.into()])?;
    let places: Vec<i64> =
        (0..frames).flat_map(|frame| (0..length).map(move |i| i64::from(frame) * i64::from(step) + i64::from(i))).collect();
    let shape = vec![frames as usize, length as usize];
    let places = emit.constant(Tensor::from_integers(ElementType::Int32, shape, &places))?;
    let real = emit.gather(real, places, 1)?;
    let imaginary = match imaginary {
        Some(part) => Some(emit.gather(part, places, 1)?),
        None => None,
    };
    let matrices = Matrices::of(emit.data_type(signal), [length, length, outputs], false, window.as_deref(), emit)?;
    let parts = matrices.transform(real, imaginary, emit)?;
    one(together(parts, emit)?)
}

/// HannWindow, HammingWindow and BlackmanWindow: sums of cosines.
pub fn window(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let length = scalar(node, 0, "the size")?.ok_or("the size is missing")?;
    let length = usize::try_from(length).ok().filter(|&length| emit.folding.affords(&[length])).ok_or("an impossible size")?;
    let element = node.element("output_datatype")?.unwrap_or(ElementType::Float);
    let period = if node.flag("periodic", true)? { length as f64 } else { length as f64 - 1.0 };
    let coefficients: &[f64] = match node.operator() {
        "HannWindow" => &[0.5, -0.5],
        "HammingWindow" => &[25.0 / 46.0, -21.0 / 46.0],
        _ => &[0.42, -0.5, 0.08],
    };
    let at = |i: usize| -> f64 {
        let angle = TAU * i as f64 / period;
        coefficients.iter().enumerate().map(|(k, coefficient)| coefficient * (k as f64 * angle).cos()).sum()
    };
    let numbers: Vec<f64> = (0..length).map(at).collect();
    let numbers = Tensor::from_floats(ElementType::Double, vec![length], &numbers);
    // Integers are cut off, and 0.42 + 0.5 + 0.08 in the middle is 1 in float32, as in onnxruntime, and a little less in float64.
    let numbers = if element.is_float() { numbers } else { numbers.cast(ElementType::Float) };
    Ok(vec![numbers.cast(element).into()])
}

/// MelWeightMatrix: triangles over the frequencies of a spectrum, evenly spaced on the mel scale.
pub fn mel_weights(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let integer = |position, meaning| -> Mapped<i64> { Ok(scalar(node, position, meaning)?.unwrap_or(0)) };
    let (bins, length, rate) = (integer(0, "num_mel_bins")?, integer(1, "dft_length")?, integer(2, "sample_rate")?);
    let edge = |position, meaning| -> Mapped<f64> {
        node.constant(position, meaning)?.floats().first().copied().ok_or_else(|| format!("{meaning} is empty").into())
    };
    let (lower, upper) = (edge(3, "lower_edge_hertz")?, edge(4, "upper_edge_hertz")?);
    if !(1..=1 << 16).contains(&bins) || !(1..=1 << 24).contains(&length) || rate <= 0 {
        return Err(format!("{bins} bins of a transform of {length} at {rate} hertz").into());
    }
    let (rows, columns) = ((length / 2 + 1) as usize, bins as usize);
    if !emit.folding.affords(&[rows, columns]) {
        return Err("too much to compute at import".into());
    }
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let hertz = |mel: f64| 700.0 * (10f64.powf(mel / 2595.0) - 1.0);
    let (low, high) = (mel(lower), mel(upper));
    let step = (high - low) / (columns + 2) as f64;
    let place = |i: usize| (((length + 1) as f64 * hertz(low + i as f64 * step)) / rate as f64).floor() as i64;
    let mut weights = crate::memory::filled(0.0, rows * columns)?;
    for column in 0..columns {
        let (left, middle, right) = (place(column), place(column + 1), place(column + 2));
        let mut set = |row: i64, weight: f64| {
            if let Some(row) = usize::try_from(row).ok().filter(|&row| row < rows) {
                weights[row * columns + column] = weight;
            }
        };
        if middle == left {
            set(middle, 1.0);
        }
        for row in left.max(0)..=middle.min(rows as i64) {
            if middle != left {
                set(row, (row - left) as f64 / (middle - left) as f64);
            }
        }
        for row in middle.max(0)..right.min(rows as i64) {
            set(row, (right - row) as f64 / (right - middle) as f64);
        }
    }
    let element = node.element("output_datatype")?.unwrap_or(ElementType::Float);
    Ok(vec![Tensor::from_floats(ElementType::Double, vec![rows, columns], &weights).cast(element).into()])
}
