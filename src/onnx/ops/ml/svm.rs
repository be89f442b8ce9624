//! Support vector machines.

use super::super::elementwise::one;
use super::scores::{Labels, Place, PostTransform, greatest, post_transform, second_class};
use super::{check_length, floats, int32s, rows, rows_of};
use crate::graph::ops::coupling::PairwiseCoupling;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, LogicalKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// So many differences between samples and support vectors are in memory at a time.
const MOST_DIFFERENCES: u64 = 1 << 22;

/// How similar each row of features is to each of the vectors, which are rows of a list.
fn similarities(node: &Node<'_>, input: OperandId, vectors: &[f32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let [rows, features] = emit.shape(input)[..] else { return Err("an input that is not a matrix".into()) };
    let count = rows_of("support_vectors", vectors.len(), features)?;
    let parameters = node.floats("kernel_params")?.unwrap_or_default();
    let [gamma, offset, degree] = match parameters[..] {
        [] => [0.0; 3],
        [gamma, offset, degree] => [gamma, offset, degree].map(f64::from),
        _ => return Err(format!("attribute kernel_params has {} numbers; 3 are needed", parameters.len()).into()),
    };
    let kind = node.string("kernel_type", "LINEAR")?;
    if kind == "RBF" {
        return distances(input, vectors, [rows, features], gamma, emit);
    }
    let vectors = floats(emit, &[count, features as usize], vectors)?;
    let vectors = emit.transpose_matrices(vectors)?;
    let products = emit.matmul(input, vectors)?;
    if kind == "LINEAR" {
        return Ok(products);
    }
    let scaled = emit.with(BinaryKind::Mul, products, gamma)?;
    let moved = emit.with(BinaryKind::Add, scaled, offset)?;
    match kind.as_str() {
        "POLY" => emit.with(BinaryKind::Pow, moved, degree),
        "SIGMOID" => emit.activation(ActivationKind::Tanh, moved),
        other => Err(format!("the kernel_type {other:?}; allowed are LINEAR, POLY, RBF and SIGMOID").into()),
    }
}

/// `exp(-gamma * distance²)`. The differences are squared themselves: what is left of large products would be too inexact.
fn distances(
    input: OperandId,
    vectors: &[f32],
    [rows, features]: [u32; 2],
    gamma: f64,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    // Vectors are columns, so that rows of the differences are long.
    let aligned = emit.reshape(input, &[rows, features, 1])?;
    let width = features as usize;
    let at_once = (MOST_DIFFERENCES / (u64::from(rows) * u64::from(features)).max(1)).max(1);
    let factor = emit.scalar(DataType::Float32, gamma.abs().sqrt())?;
    let mut parts = Vec::new();
    for part in vectors.chunks(at_once.saturating_mul(features.into()).try_into().unwrap_or(usize::MAX)) {
        let count = part.len() / width;
        let columns: Vec<f32> = (0..width).flat_map(|k| part.iter().skip(k).step_by(width)).copied().collect();
        let part = floats(emit, &[1, width, count], &columns)?;
        let difference = emit.sub(aligned, part)?;
        // Squares of the differences alone may leave float32.
        let difference = emit.mul(difference, factor)?;
        let squares = emit.reduce(ReduceKind::SumSquare, difference, &[1], false)?;
        parts.push(squares);
    }
    let squares = emit.concat(parts, 1)?;
    let scaled = emit.with(BinaryKind::Mul, squares, -gamma.signum())?;
    emit.unary(UnaryKind::Exp, scaled)
}

pub fn svm_regressor(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = rows(node, emit)?;
    let coefficients = node.floats("coefficients")?.unwrap_or_default();
    let rho = node.floats("rho")?.unwrap_or_default();
    let &[rho, ..] = &rho[..] else { return Err("attribute rho has no number".into()) };
    let supports = node.int("n_supports", 0)?;
    let similar = if supports > 0 {
        let vectors = node.floats("support_vectors")?.unwrap_or_default();
        check_length("support_vectors", vectors.len(), size(supports)? as usize * emit.shape(input)[1] as usize)?;
        similarities(node, input, &vectors, emit)?
    } else {
        // The coefficients are those of the features.
        input
    };
    check_length("coefficients", coefficients.len(), emit.shape(similar)[1] as usize)?;
    let coefficients = floats(emit, &[coefficients.len(), 1], &coefficients)?;
    let sum = emit.matmul(similar, coefficients)?;
    let score = emit.with(BinaryKind::Add, sum, rho.into())?;
    if !node.flag("one_class", false)? {
        return one(score);
    }
    let is_within = emit.compare(LogicalKind::Greater, score, 0.0)?;
    one(emit.choose(is_within, DataType::Float32, 1.0, -1.0)?)
}

pub fn svm_classifier(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let labels = Labels::of(node, "classlabels_ints")?;
    let input = rows(node, emit)?;
    let transform = post_transform(node)?;
    let classes = labels.count();
    let of_classes = node.ints("vectors_per_class")?.unwrap_or_default();
    if of_classes.iter().all(|&count| count == 0) {
        let scores = by_features(node, input, classes, emit)?;
        let result = transform.apply(scores, emit)?;
        return labels.outputs(node, result, |emit| greatest(scores, emit), emit);
    }
    check_length("vectors_per_class", of_classes.len(), classes)?;
    if classes < 2 {
        return Err("support vectors of a single class".into());
    }
    let of_classes = of_classes.into_iter().map(size).collect::<Mapped<Vec<u32>>>()?;
    let pairs = by_pairs(node, input, &of_classes, emit)?;
    let is_first = emit.compare(LogicalKind::Greater, pairs, 0.0)?;
    let (slopes, offsets) = (node.floats("prob_a")?.unwrap_or_default(), node.floats("prob_b")?.unwrap_or_default());
    let result = if !slopes.is_empty() {
        let probabilities = probabilities(pairs, classes, (&slopes, &offsets), emit)?;
        transform.apply(probabilities, emit)?
    } else if classes == 2 {
        second_class(pairs, transform != PostTransform::None, transform, emit)?
    } else {
        transform.apply(pairs, emit)?
    };
    labels.outputs(node, result, |emit| votes(is_first, classes, emit), emit)
}

/// The scores of linear machines: the coefficients are those of the features.
fn by_features(node: &Node<'_>, input: OperandId, classes: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let features = emit.shape(input)[1];
    let coefficients = node.floats("coefficients")?.unwrap_or_default();
    let count = rows_of("coefficients", coefficients.len(), features)?;
    if count != classes {
        return Err(format!("coefficients of {count} classes with {classes} labels").into());
    }
    let rho = node.floats("rho")?.unwrap_or_default();
    let &[rho, ..] = &rho[..] else { return Err("attribute rho has no number".into()) };
    let coefficients = floats(emit, &[count, features as usize], &coefficients)?;
    let coefficients = emit.transpose_matrices(coefficients)?;
    let products = emit.matmul(input, coefficients)?;
    emit.with(BinaryKind::Add, products, rho.into())
}

/// All pairs of classes, in the order of the first and then of the second.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)))
}

/// The score of each pair of classes, which is above 0 for the first one. Its support vectors are those of both classes; of a
/// vector there is one coefficient for each other class.
fn by_pairs(node: &Node<'_>, input: OperandId, of_classes: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let classes = of_classes.len();
    let vectors = node.floats("support_vectors")?.unwrap_or_default();
    let count = rows_of("support_vectors", vectors.len(), emit.shape(input)[1])?;
    if of_classes.iter().map(|&own| u64::from(own)).sum::<u64>() != count as u64 {
        return Err(format!("{count} support vectors, where classes have {of_classes:?}").into());
    }
    let coefficients = node.floats("coefficients")?.unwrap_or_default();
    check_length("coefficients", coefficients.len(), count.saturating_mul(classes - 1))?;
    let rho = node.floats("rho")?.unwrap_or_default();
    check_length("rho", rho.len(), classes * (classes - 1) / 2)?;
    let rows = emit.shape(input)[0];
    let similar = similarities(node, input, &vectors, emit)?;
    // Of each class its part of its scores against all others.
    let (mut parts, mut start) = (Vec::new(), 0);
    for &own in of_classes {
        if own == 0 {
            let zeros = floats(emit, &[1, classes - 1], &vec![0.0; classes - 1])?;
            parts.push(emit.expand(zeros, &[rows, size(classes - 1)?])?);
            continue;
        }
        let range = start..start + own as usize;
        let lines = coefficients.chunks_exact(count).flat_map(|line| &line[range.clone()]).copied().collect::<Vec<f32>>();
        let lines = floats(emit, &[classes - 1, own as usize], &lines)?;
        let lines = emit.transpose_matrices(lines)?;
        let vectors = emit.slice_axis(similar, 1, size(start)?, own)?;
        parts.push(emit.matmul(vectors, lines)?);
        start = range.end;
    }
    // The line of class i against j is j - 1 where j comes later.
    let parts = emit.concat(parts, 1)?;
    let of_first: Vec<i32> = pairs(classes).map(|(i, j)| (i * (classes - 1) + j - 1) as i32).collect();
    let of_second: Vec<i32> = pairs(classes).map(|(i, j)| (j * (classes - 1) + i) as i32).collect();
    let (of_first, of_second) = (int32s(emit, &[rho.len()], &of_first)?, int32s(emit, &[rho.len()], &of_second)?);
    let (first, second) = (emit.gather(parts, of_first, 1)?, emit.gather(parts, of_second, 1)?);
    let sum = emit.add(first, second)?;
    let rho = floats(emit, &[rho.len()], &rho)?;
    emit.add(sum, rho)
}

/// The class that wins most of its pairs, the first of several.
fn votes(is_first: OperandId, classes: usize, emit: &mut Emit<'_>) -> Mapped<Place> {
    let count = pairs(classes).count();
    emit.reserve(&[count as u64, classes as u64])?;
    // What a class gets for a pair that the first wins, and how much more if it does not.
    let (mut gains, mut base) = (vec![0.0f32; count * classes], vec![0.0f32; classes]);
    for (pair, (i, j)) in pairs(classes).enumerate() {
        base[j] += 1.0;
        gains[pair * classes + i] = 1.0;
        gains[pair * classes + j] = -1.0;
    }
    let won = emit.cast(is_first, DataType::Float32)?;
    let gains = floats(emit, &[count, classes], &gains)?;
    let gained = emit.matmul(won, gains)?;
    let base = floats(emit, &[classes], &base)?;
    let votes = emit.add(gained, base)?;
    greatest(votes, emit)
}

/// Probabilities of classes, from logistic functions of the scores of pairs.
fn probabilities(
    pairs: OperandId,
    classes: usize,
    (slopes, offsets): (&[f32], &[f32]),
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let count = emit.shape(pairs)[1] as usize;
    check_length("prob_a", slopes.len(), count)?;
    check_length("prob_b", offsets.len(), count)?;
    let (slopes, offsets) = (floats(emit, &[count], slopes)?, floats(emit, &[count], offsets)?);
    let scaled = emit.mul(pairs, slopes)?;
    let moved = emit.add(scaled, offsets)?;
    let opposite = emit.unary(UnaryKind::Neg, moved)?;
    let input = emit.activation(ActivationKind::Sigmoid, opposite)?;
    let input = emit.clamp(input, Some(1e-7), Some(1.0 - 1e-7))?;
    emit.push(PairwiseCoupling { input, classes: size(classes)? })
}
