//! Random numbers. They are drawn before the part of a model that uses them, and given to its graph.

use crate::looks::Looking;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::random::Stream;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

fn stream(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Stream> {
    let seed = node.optional_float("seed")?;
    let random = emit.folding.random.as_mut().ok_or("random numbers, which exist only when a model runs")?;
    Ok(random.stream(seed)?)
}

/// Nanoseconds that a number takes.
const COST: usize = 20;

/// The numbers that `draw` gives, as a tensor of that shape.
fn filled(element: ElementType, shape: Vec<usize>, emit: &mut Emit<'_>, draw: impl FnMut(usize) -> f64) -> Mapped<Vec<Value>> {
    if !emit.folding.affords(&shape) {
        return Err(format!("{shape:?} are too many random numbers").into());
    }
    let numbers: Vec<f64> = (0..shape.iter().product()).looking(COST).map(draw).collect();
    let tensor = match element.is_float() {
        true => Tensor::from_floats(element, shape, &numbers),
        false => {
            Tensor::from_integers(element, shape, &numbers.iter().looking(1).map(|&number| number as i64).collect::<Vec<_>>())
        }
    };
    Ok(vec![tensor.into()])
}

/// The shape and the type of RandomNormal and RandomUniform, and of the two that are like their inputs.
fn described(node: &Node<'_>) -> Mapped<(ElementType, Vec<usize>)> {
    let dtype = node.element("dtype")?;
    if !node.operator().ends_with("Like") {
        let shape = node.ints("shape")?.ok_or("no shape")?;
        let size = |&size: &i64| usize::try_from(size).map_err(|_| "a negative size");
        return Ok((dtype.unwrap_or(ElementType::Float), shape.iter().map(size).collect::<Result<_, _>>()?));
    }
    let like = node.constant(0, "what it is to be like")?;
    Ok((dtype.unwrap_or(like.element), like.shape.clone()))
}

pub fn normal(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (element, shape) = described(node)?;
    let (mean, scale) = (node.float("mean", 0.0)?, node.float("scale", 1.0)?);
    let mut stream = stream(node, emit)?;
    filled(element, shape, emit, |_| mean + scale * stream.normal())
}

pub fn uniform(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (element, shape) = described(node)?;
    let (low, high) = (node.float("low", 0.0)?, node.float("high", 1.0)?);
    let mut stream = stream(node, emit)?;
    filled(element, shape, emit, |_| low + (high - low) * stream.uniform())
}

/// 1 with the probability that the input has.
pub fn bernoulli(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = node.constant(0, "the probabilities")?;
    let element = node.element("dtype")?.unwrap_or(input.element);
    let (shape, probabilities) = (input.shape.clone(), input.floats());
    let mut stream = stream(node, emit)?;
    filled(element, shape, emit, |i| f64::from(stream.uniform() < probabilities[i]))
}

/// Samples of classes, for each row by the logarithms of their weights.
pub fn multinomial(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = node.constant(0, "the weights of the classes")?;
    let &[rows, classes] = &input.shape[..] else { return Err("an input whose rank is not 2".into()) };
    let samples = node.int("sample_size", 1)?;
    let samples = usize::try_from(samples).ok().filter(|&count| count > 0).ok_or("a sample_size that is not positive")?;
    if classes == 0 {
        return Err("no classes".into());
    }
    let element = node.element("dtype")?.unwrap_or(ElementType::Int32);
    let logarithms = input.floats();
    let cumulated = |row: usize| {
        let row = &logarithms[row * classes..][..classes];
        let largest = row.iter().copied().looking(1).fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let sums = row.iter().looking(COST).map(|&x| {
            sum += libm::exp(x - largest);
            sum
        });
        sums.collect::<Vec<f64>>()
    };
    let rows_of_sums: Vec<Vec<f64>> = (0..rows).map(cumulated).collect();
    let mut stream = stream(node, emit)?;
    filled(element, vec![rows, samples], emit, |i| {
        let sums = &rows_of_sums[i / samples];
        let drawn = stream.uniform() * sums[classes - 1];
        sums.partition_point(|&sum| sum <= drawn).min(classes - 1) as f64
    })
}
