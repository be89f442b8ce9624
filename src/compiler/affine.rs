//! What only scales and shifts the channels of a convolution, by constants, becomes part of its filter and bias; a batch
//! normalization elsewhere becomes a difference, a product and a sum, which can join others.
//!
//! The results are the same but for rounding. Where a changed filter could not be written in normal float32 numbers, it stays.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::ops::normalization::BatchNormalization;
use crate::graph::{DataType, Graph, Node, Op, OperandId};
use crate::memory;

/// # Errors
/// When nobody wants the graph any more.
pub fn affine(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let mut is_gone = vec![false; graph.nodes.len()];
    let readers = readers(graph);
    for position in compilation.each(0..graph.nodes.len()) {
        join(graph, &readers, position?, &mut is_gone, compilation)?;
    }
    let nodes = std::mem::take(&mut graph.nodes);
    for node in compilation.each(nodes.into_iter().zip(is_gone).filter(|(_, is_gone)| !is_gone)) {
        let (node, _) = node?;
        match divide(graph, &node) {
            Some(nodes) => nodes.into_iter().for_each(|node| graph.push(node)),
            None => graph.push(node),
        }
    }
    Ok(())
}

/// By operand: the node that is its only reader.
fn readers(graph: &Graph) -> Vec<Option<usize>> {
    let mut count = vec![0usize; graph.operands.len()];
    let mut last = vec![0usize; graph.operands.len()];
    for (position, node) in graph.nodes.iter().enumerate() {
        node.op.visit(&mut |_, id| {
            count[id.0 as usize] += 1;
            last[id.0 as usize] = position;
        });
    }
    // The caller reads outputs.
    graph.outputs.iter().for_each(|(_, id)| count[id.0 as usize] += 2);
    count.into_iter().zip(last).map(|(count, last)| (count == 1).then_some(last)).collect()
}

/// What is done to every number of a channel: `scale x + shift`.
struct Affine {
    scale: Vec<f64>,
    shift: Vec<f64>,
}

impl Affine {
    fn nothing(channels: usize) -> Affine {
        Affine { scale: vec![1.0; channels], shift: vec![0.0; channels] }
    }

    fn followed_by(mut self, next: &Affine) -> Affine {
        for (i, (scale, shift)) in next.scale.iter().zip(&next.shift).enumerate() {
            (self.scale[i], self.shift[i]) = (self.scale[i] * scale, self.shift[i] * scale + shift);
        }
        self
    }
}

/// The numbers of a float32 constant.
fn numbers(graph: &Graph, id: OperandId) -> Option<Vec<f32>> {
    let bytes = graph.bytes(id).filter(|_| graph.descriptor(id).data_type == DataType::Float32)?;
    let (numbers, _) = bytes.as_slice().as_chunks::<4>();
    Some(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// A constant that has a number for each channel, or one for all, beside a value of that shape.
fn of_channels(graph: &Graph, id: OperandId, shape: &[u32], axis: usize) -> Option<Vec<f64>> {
    let own = &graph.descriptor(id).shape;
    let missing = shape.len().checked_sub(own.len())?;
    let is_along = |(i, &size): (usize, &u32)| size == 1 || i + missing == axis && size == shape[axis];
    if !own.iter().enumerate().all(is_along) {
        return None;
    }
    let numbers = numbers(graph, id)?;
    let channels = shape[axis] as usize;
    Some((0..channels).map(|i| numbers[if numbers.len() == 1 { 0 } else { i }] as f64).collect())
}

/// What an operator does to the channels of its operand `value`, if that is all.
fn affine_of(graph: &Graph, op: &Op, value: OperandId, axis: usize) -> Option<Affine> {
    let shape = &graph.descriptor(value).shape;
    let mut affine = Affine::nothing(shape[axis] as usize);
    match op {
        Op::BatchNormalization(op) if op.input == value && op.axis as usize == axis => return statistics(graph, op),
        Op::Linear(op) => {
            affine.scale.fill(op.alpha as f32 as f64);
            affine.shift.fill(op.beta as f32 as f64);
        }
        Op::Binary(op) if op.a != op.b => {
            let numbers = of_channels(graph, if op.a == value { op.b } else { op.a }, shape, axis)?;
            match (op.kind, op.a == value) {
                (BinaryKind::Add, _) => affine.shift = numbers,
                (BinaryKind::Mul, _) => affine.scale = numbers,
                (BinaryKind::Sub, true) => affine.shift = numbers.iter().map(|x| -x).collect(),
                (BinaryKind::Sub, false) => affine = Affine { scale: vec![-1.0; numbers.len()], shift: numbers },
                (BinaryKind::Div, true) => affine.scale = numbers.iter().map(|x| 1.0 / x).collect(),
                _ => return None,
            }
        }
        _ => return None,
    }
    Some(affine)
}

/// A batch normalization by constants.
fn statistics(graph: &Graph, op: &BatchNormalization) -> Option<Affine> {
    let (mean, variance) = (numbers(graph, op.mean)?, numbers(graph, op.variance)?);
    let optional = |id: Option<OperandId>, absent: f32| match id {
        Some(id) => numbers(graph, id),
        None => Some(vec![absent; mean.len()]),
    };
    let (factor, bias) = (optional(op.scale, 1.0)?, optional(op.bias, 0.0)?);
    let scale: Vec<f64> =
        factor.iter().zip(&variance).map(|(&f, &v)| f as f64 / (v as f64 + op.epsilon as f32 as f64).sqrt()).collect();
    let shift = bias.iter().zip(&mean).zip(&scale).map(|((&bias, &mean), scale)| bias as f64 - mean as f64 * scale).collect();
    Some(Affine { scale, shift })
}

/// Lets what follows a convolution become part of it.
fn join(
    graph: &mut Graph,
    readers: &[Option<usize>],
    position: usize,
    is_gone: &mut [bool],
    compilation: &Compilation<'_>,
) -> Result<()> {
    let Op::Conv2d(conv) = &graph.nodes[position].op else { return Ok(()) };
    let (conv, mut output) = (conv.clone(), graph.nodes[position].outputs[0]);
    let axis = conv.input_layout.channel_axis();
    let shape = graph.descriptor(output).shape.clone();
    let mut affine = Affine::nothing(shape[axis] as usize);
    let mut joined = Vec::new();
    for step in compilation.each(std::iter::repeat(())) {
        step?;
        let Some(next) = readers[output.0 as usize] else { break };
        let node = &graph.nodes[next];
        if graph.descriptor(node.outputs[0]).shape != shape {
            break;
        }
        let Some(following) = affine_of(graph, &node.op, output, axis) else { break };
        affine = affine.followed_by(&following);
        joined.push(next);
        output = node.outputs[0];
    }
    // Sums alone are joined by `fuse`.
    if affine.scale.iter().all(|&scale| scale == 1.0) {
        return Ok(());
    }
    // One filter may be that of many convolutions. Without memory for another it stays as it is.
    let bytes = graph.descriptor(conv.filter).byte_length();
    if !compilation.budget.take_operations(bytes) || memory::require(bytes.saturating_mul(4)).is_err() {
        return Ok(());
    }
    let Some(conv) = changed(graph, conv, &affine) else { return Ok(()) };
    graph.nodes[position].op = conv.into();
    graph.nodes[position].outputs = vec![output];
    joined.into_iter().for_each(|node| is_gone[node] = true);
    Ok(())
}

/// A convolution with other constants.
fn changed(graph: &mut Graph, mut conv: Conv2d, affine: &Affine) -> Option<Conv2d> {
    let filter = numbers(graph, conv.filter)?;
    let bias = match conv.bias {
        Some(bias) => numbers(graph, bias)?,
        None => vec![0.0; affine.scale.len()],
    };
    let shape = graph.descriptor(conv.filter).shape.clone();
    let [a, b, c, d] = [shape[0], shape[1], shape[2], shape[3]].map(|size| size as usize);
    // Output channel of an element: its number divided by this, within so many.
    let [distance, ..] = conv.filter_layout.to_oihw(&[b * c * d, c * d, d, 1]);
    let [outputs, ..] = conv.filter_layout.to_oihw(&[a, b, c, d]);
    let mut is_written = true;
    let mut write = |from: f64, to: f64| {
        let number = to as f32;
        is_written &= number.is_normal() || to == 0.0 || !from.is_finite() || from != 0.0 && (from as f32).is_subnormal();
        number
    };
    let filter: Vec<f32> =
        filter.iter().enumerate().map(|(i, &x)| write(x as f64, x as f64 * affine.scale[i / distance % outputs])).collect();
    let bias: Vec<f32> = (0..bias.len()).map(|i| (bias[i] as f64 * affine.scale[i] + affine.shift[i]) as f32).collect();
    if !is_written || !bias.iter().all(|x| x.is_finite()) {
        return None;
    }
    conv.filter = graph.numbers_constant(&filter, &shape);
    let channels = bias.len() as u32;
    conv.bias = Some(graph.numbers_constant(&bias, &[channels]));
    Some(conv)
}

/// A batch normalization as a difference, a product and a sum, as far as they do anything. (A product and a sum alone would lose
/// the digits of numbers near the mean.)
fn divide(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let Op::BatchNormalization(op) = &node.op else { return None };
    let Affine { scale, .. } = statistics(graph, op)?;
    let mean = numbers(graph, op.mean)?;
    let bias = op.bias.map(|bias| numbers(graph, bias).expect("statistics read it")).unwrap_or_default();
    let scale: Vec<f32> = scale.iter().map(|&x| x as f32).collect();
    if !scale.iter().all(|x| x.is_normal() || *x == 0.0) || !mean.iter().chain(&bias).all(|x| x.is_finite()) {
        return None;
    }
    let descriptor = graph.descriptor(op.input).clone();
    let shape: Vec<u32> =
        descriptor.shape.iter().enumerate().map(|(i, &size)| if i == op.axis as usize { size } else { 1 }).collect();
    let does_something = |numbers: &[f32]| numbers.iter().any(|&x| x != 0.0);
    let mut steps = vec![(BinaryKind::Mul, scale)];
    if does_something(&mean) {
        steps.insert(0, (BinaryKind::Sub, mean));
    }
    if does_something(&bias) {
        steps.push((BinaryKind::Add, bias));
    }
    let (mut value, last) = (op.input, steps.len() - 1);
    let nodes = steps.into_iter().enumerate().map(|(i, (kind, numbers))| {
        let b = graph.numbers_constant(&numbers, &shape);
        let output = if i == last { node.outputs[0] } else { graph.operand(descriptor.clone()) };
        let node = Node { op: Binary { kind, a: value, b }.into(), label: node.label.clone(), outputs: vec![output] };
        value = output;
        node
    });
    Some(nodes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reference::interpret;
    use crate::compiler::budget::Budget;
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
    use crate::graph::testing::check_graph;
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    fn affine_all(graph: &mut Graph) {
        affine(graph, &Compilation::unasked().with(Budget::beside(graph, usize::MAX))).unwrap();
    }

    /// A graph under construction, whose numbers are float32.
    struct Sketch(GraphBuilder);

    impl Sketch {
        fn constant(&mut self, numbers: &[f32], shape: &[u32]) -> OperandId {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            self.0.constant(Descriptor::new(DataType::Float32, shape.iter().copied()), ConstantBytes::new(bytes)).unwrap()
        }

        fn binary(&mut self, kind: BinaryKind, a: OperandId, b: OperandId) -> OperandId {
            self.0.push_op(Binary { kind, a, b }, "").unwrap()[0]
        }

        fn normalized(&mut self, input: OperandId, axis: u32, scale: f32) -> OperandId {
            let [mean, variance] = [[1.0, 2.0], [3.0, 8.0]].map(|numbers| self.constant(&numbers, &[2]));
            let scale = Some(self.constant(&[scale; 2], &[2]));
            let op = BatchNormalization { input, mean, variance, scale, bias: None, axis, epsilon: 1.0 };
            self.0.push_op(op, "").unwrap()[0]
        }
    }

    /// What becomes of a convolution of two channels with filters of 1 and 10 and what follows: the operators, and filter
    /// and bias of the first of them.
    fn after(follow: impl Fn(&mut Sketch, OperandId) -> Vec<OperandId>) -> (Vec<&'static str>, Vec<f32>, Option<Vec<f32>>) {
        let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())));
        let input = sketch.0.input("x", Descriptor::new(DataType::Float32, [1, 1, 4, 5])).unwrap();
        let filter = sketch.constant(&[1.0, 10.0], &[2, 1, 1, 1]);
        let conv = Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw);
        let conv = sketch.0.push_op(conv, "").unwrap()[0];
        let outputs = follow(&mut sketch, conv).into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
        let mut graph = sketch.0.build(outputs).unwrap();
        affine_all(&mut graph);
        check_graph(&graph);
        let Op::Conv2d(conv) = &graph.nodes[0].op else { panic!("a convolution") };
        let bias = conv.bias.map(|bias| numbers(&graph, bias).unwrap());
        (graph.nodes.iter().map(|node| node.op.row().name).collect(), numbers(&graph, conv.filter).unwrap(), bias)
    }

    #[test]
    fn what_scales_channels_joins_the_convolution() {
        let (names, filter, bias) = after(|sketch, conv| {
            let normal = sketch.normalized(conv, 1, 6.0);
            let (two, shift) = (sketch.constant(&[2.0], &[]), sketch.constant(&[1.0, -1.0], &[2, 1, 1]));
            let scaled = sketch.binary(BinaryKind::Mul, two, normal);
            vec![sketch.binary(BinaryKind::Sub, scaled, shift)]
        });
        assert_eq!(names, ["conv2d"]);
        // 6 / √(3 + 1) and 6 / √(8 + 1), twice.
        assert_eq!(filter, [6.0, 40.0]);
        assert_eq!(bias.unwrap(), [-6.0 - 1.0, -8.0 + 1.0]);
    }

    #[test]
    fn what_does_something_else_stays() {
        // Along another axis.
        let (names, filter, _) = after(|sketch, conv| {
            let scale = sketch.constant(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5]);
            vec![sketch.binary(BinaryKind::Mul, conv, scale)]
        });
        assert_eq!((names.as_slice(), filter.as_slice()), (&["conv2d", "mul"][..], &[1.0, 10.0][..]));
        // The sums are needed too.
        assert_eq!(after(|sketch, conv| vec![sketch.normalized(conv, 1, 6.0), conv]).0, ["conv2d", "sub", "mul"]);
        // Beyond the normal numbers.
        assert_eq!(after(|sketch, conv| vec![sketch.normalized(conv, 1, 1e-38)]).0, ["conv2d", "batchNormalization"]);
        // Sums alone are fused.
        let (names, ..) = after(|sketch, conv| {
            let one = sketch.constant(&[1.0], &[]);
            vec![sketch.binary(BinaryKind::Add, conv, one)]
        });
        assert_eq!(names, ["conv2d", "add"]);
    }

    /// Numbers near the mean, where most of a scaled number and of the shift would cancel.
    #[test]
    fn numbers_near_the_mean_keep_their_digits() {
        let (means, variances) = ([1000.1f32, -0.3], [0.01f32, 7e-3]);
        let numbers: Vec<f32> = (0..64).map(|i| means[i % 2] * (1.0 + (i as f32 - 30.0) * 1e-6)).collect();
        for (scale, bias) in [([1.0, 1.0], None), ([2.5, -0.7], Some([0.0, 0.0])), ([2.5, -0.7], Some([3.0, 1e-3]))] {
            let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())));
            let input = sketch.0.input("x", Descriptor::new(DataType::Float32, [32, 2])).unwrap();
            let [mean, variance] = [means, variances].map(|numbers| sketch.constant(&numbers, &[2]));
            let (factor, offset) = (sketch.constant(&scale, &[2]), bias.map(|bias| sketch.constant(&bias, &[2])));
            let op = BatchNormalization { input, mean, variance, scale: Some(factor), bias: offset, axis: 1, epsilon: 1e-5 };
            let output = sketch.0.push_op(op, "").unwrap()[0];
            let mut graph = sketch.0.build(vec![("y".into(), output)]).unwrap();
            affine_all(&mut graph);
            check_graph(&graph);
            let found = interpret(&graph, &[bytemuck::cast_slice(&numbers)]).remove(0);
            for (i, found) in bytemuck::cast_slice::<u8, f32>(&found).iter().enumerate() {
                let [mean, scale] = [means, scale].map(|list| f64::from(list[i % 2]));
                let bias = bias.map_or(0.0, |bias| f64::from(bias[i % 2]));
                let scaled = (f64::from(numbers[i]) - mean) / (f64::from(variances[i % 2]) + f64::from(1e-5f32)).sqrt() * scale;
                let allowed = 3.0 * f64::from(f32::EPSILON) / 2.0 * (scaled.abs() + bias.abs());
                assert!((f64::from(*found) - scaled - bias).abs() <= allowed, "{}: {found}", numbers[i]);
            }
        }
    }
}
