//! What happens to the scores of classes and targets, and which class they name.

use super::{check_length, floats};
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, LogicalKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// What becomes of scores at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostTransform {
    None,
    Logistic,
    Softmax,
    SoftmaxZero,
    Probit,
}

/// The attribute `post_transform`.
pub fn post_transform(node: &Node<'_>) -> Mapped<PostTransform> {
    Ok(match node.string("post_transform", "NONE")?.as_str() {
        "NONE" => PostTransform::None,
        "LOGISTIC" => PostTransform::Logistic,
        "SOFTMAX" => PostTransform::Softmax,
        "SOFTMAX_ZERO" => PostTransform::SoftmaxZero,
        "PROBIT" => PostTransform::Probit,
        other => {
            let allowed = "NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO and PROBIT";
            return Err(format!("the post_transform {other:?}; allowed are {allowed}").into());
        }
    })
}

impl PostTransform {
    /// Transforms rows of scores. One score alone is only ever transformed by PROBIT, in onnxruntime too.
    pub fn apply(self, scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let is_alone = emit.shape(scores).last() == Some(&1);
        match self {
            PostTransform::Probit => probit(scores, emit),
            PostTransform::None => Ok(scores),
            _ if is_alone => Ok(scores),
            PostTransform::Logistic => emit.activation(ActivationKind::Sigmoid, scores),
            PostTransform::Softmax => emit.push(Softmax { input: scores, axis: 1 }),
            PostTransform::SoftmaxZero => softmax_zero(scores, emit),
        }
    }
}

/// Softmax of the scores that are not 0. Those that are count for nothing in the sum, and stay (nearly) 0.
fn softmax_zero(scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let most = emit.reduce(ReduceKind::Max, scores, &[1], true)?;
    let size = emit.unary(UnaryKind::Abs, scores)?;
    let counts = emit.compare(LogicalKind::Greater, size, 1e-7)?;
    let shifted = emit.sub(scores, most)?;
    let powers = emit.unary(UnaryKind::Exp, shifted)?;
    let zero = emit.scalar(DataType::Float32, 0.0)?;
    let powers = emit.select(counts, powers, zero)?;
    let sum = emit.reduce(ReduceKind::Sum, powers, &[1], true)?;
    let opposite = emit.unary(UnaryKind::Neg, most)?;
    let scale = emit.unary(UnaryKind::Exp, opposite)?;
    let small = emit.mul(scores, scale)?;
    let values = emit.select(counts, powers, small)?;
    emit.div(values, sum)
}

/// `c[0] + c[1] x + c[2] x² + …`
fn polynomial(x: OperandId, coefficients: &[f64], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut sum = None;
    for &coefficient in coefficients.iter().rev() {
        sum = Some(match sum {
            None => emit.scalar(DataType::Float32, coefficient)?,
            Some(sum) => {
                let product = emit.mul(sum, x)?;
                emit.with(BinaryKind::Add, product, coefficient)?
            }
        });
    }
    sum.ok_or_else(|| "a polynomial without coefficients".into())
}

fn quotient(x: OperandId, above: &[f64], below: &[f64], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (above, below) = (polynomial(x, above, emit)?, polynomial(x, below, emit)?);
    emit.div(above, below)
}

/// Where the normal distribution function has a value, by the rational functions of Wichura's algorithm AS 241 (PPND7), which
/// are within 1e-7 of it. (onnxruntime's are within 2e-3.)
fn probit(p: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let middle = emit.with(BinaryKind::Sub, p, 0.5)?;
    let distance = emit.unary(UnaryKind::Abs, middle)?;
    // Near a half.
    let square = emit.mul(middle, middle)?;
    let limit = emit.scalar(DataType::Float32, 0.180_625)?;
    let r = emit.sub(limit, square)?;
    let above = [3.387_132_717_9, 50.434_271_938, 159.291_132_02, 59.109_374_720];
    let near = quotient(r, &above, &[1.0, 17.895_169_469, 78.757_757_664, 67.187_563_600], emit)?;
    let near = emit.mul(near, middle)?;
    // Near 0 and 1: by the distance from the nearer one.
    let unit = emit.scalar(DataType::Float32, 1.0)?;
    let rest = emit.sub(unit, p)?;
    let is_low = emit.compare(LogicalKind::Lesser, middle, 0.0)?;
    let tail = emit.select(is_low, p, rest)?;
    let log = emit.unary(UnaryKind::Log, tail)?;
    let log = emit.unary(UnaryKind::Neg, log)?;
    let r = emit.unary(UnaryKind::Sqrt, log)?;
    let less = emit.with(BinaryKind::Sub, r, 1.6)?;
    let above = [1.423_437_277_7, 2.756_815_390_0, 1.306_728_481_6, 0.170_238_211_03];
    let far = quotient(less, &above, &[1.0, 0.737_001_642_50, 0.120_211_329_75], emit)?;
    let less = emit.with(BinaryKind::Sub, r, 5.0)?;
    let above = [6.657_905_115_0, 3.081_226_386_0, 0.428_682_943_37, 0.017_337_203_997];
    let farther = quotient(less, &above, &[1.0, 0.241_978_942_25, 0.012_258_202_635], emit)?;
    let is_farther = emit.compare(LogicalKind::Greater, r, 5.0)?;
    let far = emit.select(is_farther, farther, far)?;
    // Of 0 the logarithm is infinite, and the quotient would be no number.
    let is_end = emit.compare(LogicalKind::Equal, tail, 0.0)?;
    let infinity = emit.scalar(DataType::Float32, f64::INFINITY)?;
    let far = emit.select(is_end, infinity, far)?;
    let opposite = emit.unary(UnaryKind::Neg, far)?;
    let far = emit.select(is_low, opposite, far)?;
    let is_near = emit.compare(LogicalKind::LesserOrEqual, distance, 0.425)?;
    emit.select(is_near, near, far)
}

/// The labels of a classifier.
pub enum Labels {
    Integers(Vec<i64>),
    /// So many strings.
    Strings(usize),
}

impl Labels {
    /// The attributes with the labels, of which there is one list.
    pub fn of(node: &Node<'_>, integers: &str) -> Mapped<Labels> {
        let strings = node.strings("classlabels_strings")?.unwrap_or_default();
        let numbers = node.ints(integers)?.unwrap_or_default();
        match (strings.len(), numbers.len()) {
            (0, 0) => Err(format!("neither {integers} nor classlabels_strings").into()),
            (_, 0) => Ok(Labels::Strings(strings.len())),
            (0, _) => Ok(Labels::Integers(numbers)),
            _ => Err(format!("both {integers} and classlabels_strings").into()),
        }
    }

    pub fn count(&self) -> usize {
        match self {
            Labels::Integers(numbers) => numbers.len(),
            Labels::Strings(count) => *count,
        }
    }

    /// The outputs of a classifier: labels, named by their places among the classes, and scores.
    pub fn outputs(
        &self,
        node: &Node<'_>,
        scores: OperandId,
        place: impl FnOnce(&mut Emit<'_>) -> Mapped<Place>,
        emit: &mut Emit<'_>,
    ) -> Mapped<Vec<Value>> {
        // Nobody looks at the labels: anything may stand for them.
        if !node.has_output(0) {
            return Ok(vec![Tensor::int64s(&[]).into(), scores.into()]);
        }
        let Labels::Integers(numbers) = self else {
            return Err(
                "labels that are strings (classlabels_strings) are not supported: train with numbers as labels, or keep \
                        the probabilities only, as select_model_inputs_outputs(model, 'probabilities') of \
                        skl2onnx.helpers.onnx_helper does"
                    .into(),
            );
        };
        let (numbers, at) = match place(emit)? {
            Place::Of(at) => (numbers.clone(), at),
            Place::Sign(at) if numbers.len() == 2 => (numbers.clone(), at),
            Place::Sign(at) => (vec![0, 1], at),
        };
        let numbers = emit.constant(Tensor::int64s(&numbers))?;
        let labels = emit.gather(numbers, at, 0)?;
        Ok(vec![labels.into(), scores.into()])
    }
}

/// Which class a sample belongs to.
pub enum Place {
    /// Its place among the labels.
    Of(OperandId),
    /// 1 or 0, which stand for two labels, or for themselves where there is another number of labels.
    Sign(OperandId),
}

/// The place of the greatest score of each row, the first of equal ones.
pub fn greatest(scores: OperandId, emit: &mut Emit<'_>) -> Mapped<Place> {
    let op = Arg { kind: ArgKind::Max, input: scores, axis: 1, keep_dimensions: false, output_data_type: DataType::Int32 };
    Ok(Place::Of(emit.push(op)?))
}

/// Whether the only score of each row is above a number.
pub fn above(score: OperandId, threshold: f64, emit: &mut Emit<'_>) -> Mapped<Place> {
    let is_above = emit.compare(LogicalKind::Greater, score, threshold)?;
    let rows = emit.shape(score)[0];
    let flat = emit.reshape(is_above, &[rows])?;
    Ok(Place::Sign(emit.cast(flat, DataType::Int32)?))
}

/// The scores of two classes from that of the second one, which is a probability, or else has the sign of the class.
pub fn second_class(score: OperandId, is_probability: bool, transform: PostTransform, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let opposite = emit.unary(UnaryKind::Neg, score)?;
    match transform {
        PostTransform::Probit => Err("the post_transform PROBIT for two classes with one score is not supported".into()),
        PostTransform::Logistic => {
            let both = emit.concat(vec![opposite, score], 1)?;
            emit.activation(ActivationKind::Sigmoid, both)
        }
        // onnxruntime leaves the others away here.
        _ if is_probability => {
            let rest = emit.with(BinaryKind::Add, opposite, 1.0)?;
            emit.concat(vec![rest, score], 1)
        }
        _ => emit.concat(vec![opposite, score], 1),
    }
}

/// Adds a list of one number for each column.
pub fn with_base(scores: OperandId, name: &str, base: &[f32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    if base.is_empty() {
        return Ok(scores);
    }
    let columns = emit.shape(scores).last().copied().unwrap_or(0);
    check_length(name, base.len(), columns as usize)?;
    let base = floats(emit, &[base.len()], base)?;
    emit.add(scores, base)
}
