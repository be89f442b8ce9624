//! Pools. One spatial dimension is computed as two, of which the first has size 1.

use super::elementwise::one;
use super::image_pool::{Kind, windows};
use super::magnitude::power_of_two;
use super::window::Window;
use super::{unpool, volume};
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
use crate::graph::ops::reduce::ReduceKind;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn pool(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = Kind::of(node)?;
    let input = emit.input(node, 0)?;
    if node.has_output(1) {
        return unpool::max_with_indices(node, input, emit);
    }
    if emit.rank(input) == 5 {
        return volume::pool(node, kind, input, emit);
    }
    let window = Window::of(node, emit.rank(input), None)?;
    let images = window.with_images(input, emit)?;
    let output = windows(node, kind, images, window.clone(), emit)?;
    one(window.without_images(output, emit)?)
}

/// Pools whose window is the whole input.
pub fn global(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let rank = emit.rank(input);
    if rank < 3 {
        return Err(format!("an input of rank {rank}").into());
    }
    let axes: Vec<usize> = (2..rank).collect();
    let (of_images, otherwise) = match Kind::of(node)? {
        Kind::Average => (Pool2dKind::Average, ReduceKind::Mean),
        Kind::Max => (Pool2dKind::Max, ReduceKind::Max),
        Kind::Norm(2) => (Pool2dKind::L2, ReduceKind::L2),
        Kind::Norm(1) => return one(emit.reduce(ReduceKind::L1, input, &axes, true)?),
        Kind::Norm(p) => {
            let scale = power_of_two(input, &axes, emit)?;
            let input = emit.div(input, scale)?;
            let magnitude = emit.unary(UnaryKind::Abs, input)?;
            let power = emit.with(BinaryKind::Pow, magnitude, p.into())?;
            let sum = emit.reduce(ReduceKind::Sum, power, &axes, true)?;
            let root = emit.with(BinaryKind::Pow, sum, 1.0 / f64::from(p))?;
            return one(emit.mul(root, scale)?);
        }
    };
    if rank != 4 {
        return one(emit.reduce(otherwise, input, &axes, true)?);
    }
    one(emit.push(Pool2d {
        kind: of_images,
        input,
        window_dimensions: None,
        padding: [0; 4],
        strides: [1; 2],
        dilations: [1; 2],
        layout: InputOperandLayout::Nchw,
        output_shape_rounding: RoundingType::Floor,
        output_sizes: None,
    })?)
}
