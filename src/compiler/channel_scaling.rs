//! Finds images whose channels are scaled by factors between 0 and 1 and then go into a convolution of single pixels, as squeeze
//! and excitation does: the two become one step ([`Prologues`]), which scales the filter instead, where that has fewer rows than the
//! image has pixels. With such factors, and finite weights, the result is the same but for rounding: greater factors could
//! overflow in one of the two orders only, and what is too small for a number becomes none times an infinite weight.

use super::compilation::Compilation;
use super::fuse::Fusion;
use super::pattern::Pattern;
use super::prologue::Prologues;
use super::quantized::Integers;
use crate::error::Result;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{ActivationKind, Binary, BinaryKind};
use crate::graph::{Graph, Number, Op, OperandId};

pub fn find(
    graph: &Graph,
    fusion: &Fusion,
    integers: &Integers,
    before: &mut Prologues,
    compilation: &Compilation<'_>,
) -> Result<()> {
    let uses = graph.uses();
    for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        let Op::Conv2d(op) = &node.op else { continue };
        let Some((product, _)) = graph.maker(op.input) else { continue };
        let is_own = uses[op.input.0 as usize] == 1 && !fusion.is_fused[product] && before.is_alone(product);
        if is_own
            && before.is_alone(position)
            && integers.of[position].is_none()
            && is_scaled(graph, op, product)
            && compilation.capabilities.accepts(&Pattern::of(graph, &[product], position))
        {
            before.put(position, vec![product]);
        }
    }
    Ok(())
}

/// Whether what a convolution reads is an image times one factor between 0 and 1 for each channel.
fn is_scaled(graph: &Graph, op: &Conv2d, product: usize) -> bool {
    let Op::Binary(Binary { kind: BinaryKind::Mul, a, b }) = graph.nodes[product].op else { return false };
    let shape = &graph.descriptor(op.input).shape;
    let &[_, _, _, channels] = shape.as_slice() else { return false };
    let is_image = |id: OperandId| graph.descriptor(id).shape == *shape;
    let is_line = |id: OperandId| {
        let shape = &graph.descriptor(id).shape;
        shape.last() == Some(&channels) && shape.iter().map(|&size| u64::from(size)).product::<u64>() == u64::from(channels)
    };
    let factors =
        [(a, b), (b, a)].into_iter().find_map(|(image, factors)| (is_image(image) && is_line(factors)).then_some(factors));
    factors.is_some_and(|factors| is_from_0_to_1(graph, factors))
}

/// Whether all numbers of an operand are between 0 and 1, or not numbers.
fn is_from_0_to_1(graph: &Graph, mut id: OperandId) -> bool {
    while let Some((_, node)) = graph.maker(id) {
        match &node.op {
            Op::Activation(op) => return op.kind == ActivationKind::Sigmoid,
            Op::HardSigmoid(_) => return true,
            Op::Clamp(op) => {
                let bound = |bound: Option<Number>| bound.map(Number::to_f32);
                return bound(op.min_value).is_some_and(|low| low >= 0.0) && bound(op.max_value).is_some_and(|high| high <= 1.0);
            }
            Op::Transpose(op) => id = op.input,
            Op::Reshape(op) => id = op.input,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Cpu;
    use crate::compiler::schedule;
    use crate::compiler::testing::everything_of;
    use crate::graph::ops::elementwise::{Activation, Clamp, HardSigmoid};
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout::Oihw, InputOperandLayout};
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// What is done to the factors before.
    type Made = fn(OperandId) -> Op;

    /// The steps of a product of an image of 10 x 10 pixels and factors, its operands in this order or the other, and of a
    /// convolution with so many outputs, which is not the only one to read the product.
    struct Case {
        factors: Made,
        factors_first: bool,
        outputs: u32,
        window: u32,
        weight: f32,
        batches: u32,
        of_pixels: bool,
        is_read_otherwise: bool,
    }

    const USUAL: Case = Case {
        factors: sigmoid,
        factors_first: false,
        outputs: 24,
        window: 1,
        weight: 0.5,
        batches: 1,
        of_pixels: false,
        is_read_otherwise: false,
    };

    fn sigmoid(input: OperandId) -> Op {
        Activation { kind: ActivationKind::Sigmoid, input }.into()
    }

    fn clamp(input: OperandId, min_value: f64, max_value: f64) -> Op {
        Clamp { input, min_value: Some(Number::Double(min_value)), max_value: Some(Number::Double(max_value)) }.into()
    }

    fn becomes_one(case: Case) -> bool {
        const CHANNELS: u32 = 16;
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let float = |shape: [u32; 4]| Descriptor::new(DataType::Float32, shape);
        let image = builder.input("image", float([case.batches, 10, 10, CHANNELS])).unwrap();
        let line = if case.of_pixels { [1, 10, 10, CHANNELS] } else { [1, 1, 1, CHANNELS] };
        let factors = builder.input("factors", float(line)).unwrap();
        let factors = builder.push_op((case.factors)(factors), "").unwrap()[0];
        let (a, b) = if case.factors_first { (factors, image) } else { (image, factors) };
        let scaled = builder.push_op(Binary { kind: BinaryKind::Mul, a, b }, "").unwrap()[0];
        let filter = float([case.outputs, CHANNELS, case.window, case.window]);
        let mut weights = vec![0.25f32; filter.byte_length() / size_of::<f32>()];
        weights[7] = case.weight;
        let filter = builder.constant(filter, ConstantBytes::new(bytemuck::cast_slice(&weights).to_vec())).unwrap();
        let conv = Conv2d::new(scaled, filter, InputOperandLayout::Nhwc, Oihw);
        let mut outputs = vec![("y".into(), builder.push_op(conv, "").unwrap()[0])];
        if case.is_read_otherwise {
            outputs.push(("scaled".into(), scaled));
        }
        let cpu = Cpu::new(1);
        let steps = schedule(&builder.build(outputs).unwrap(), &Compilation::new(&everything_of(&cpu))).unwrap().steps;
        match steps.iter().map(|step| step.prologue.len()).sum::<usize>() {
            0 => false,
            count => {
                assert_eq!(count, 1);
                true
            }
        }
    }

    #[test]
    fn an_image_whose_channels_are_scaled_is_part_of_the_convolution_that_reads_it() {
        assert!(becomes_one(USUAL) && becomes_one(Case { factors_first: true, ..USUAL }));
        assert!(!becomes_one(Case { is_read_otherwise: true, ..USUAL }));
        // Of single pixels, with fewer outputs than there are pixels, but not with very few; of one image; by channels.
        assert!(!becomes_one(Case { window: 3, ..USUAL }));
        assert!(becomes_one(Case { outputs: 100, ..USUAL }) && !becomes_one(Case { outputs: 101, ..USUAL }));
        assert!(becomes_one(Case { outputs: 8, ..USUAL }) && !becomes_one(Case { outputs: 7, ..USUAL }));
        assert!(!becomes_one(Case { batches: 2, ..USUAL }));
        assert!(!becomes_one(Case { of_pixels: true, ..USUAL }));
    }

    #[test]
    fn factors_are_between_0_and_1_and_weights_finite() {
        let hard_sigmoid: Made = |input| HardSigmoid { input, alpha: 3.0, beta: -1.0 }.into();
        assert!(becomes_one(Case { factors: hard_sigmoid, ..USUAL }));
        assert!(becomes_one(Case { factors: |input| clamp(input, 0.0, 1.0), ..USUAL }));
        assert!(!becomes_one(Case { factors: |input| clamp(input, -0.1, 1.0), ..USUAL }));
        assert!(!becomes_one(Case { factors: |input| clamp(input, 0.0, 1.5), ..USUAL }));
        assert!(!becomes_one(Case { factors: |input| Clamp { input, min_value: None, max_value: None }.into(), ..USUAL }));
        assert!(!becomes_one(Case { factors: |input| Activation { kind: ActivationKind::Tanh, input }.into(), ..USUAL }));
        assert!(!becomes_one(Case { weight: f32::INFINITY, ..USUAL }) && !becomes_one(Case { weight: f32::NAN, ..USUAL }));
    }
}
