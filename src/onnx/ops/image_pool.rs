//! Pools of images.

use super::window::Window;
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::movement::{Pad, PaddingMode};
use crate::graph::ops::pool::{GREATEST_ORDER, NormPool2d, Pool2d, Pool2dKind, RoundingType};
use crate::graph::{Number, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;

/// What is computed of each window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Average,
    Max,
    /// The norm of this order.
    Norm(u32),
}

impl Kind {
    pub fn of(node: &Node<'_>) -> Mapped<Kind> {
        Ok(match node.operator() {
            "AveragePool" | "GlobalAveragePool" => Kind::Average,
            "MaxPool" | "GlobalMaxPool" => Kind::Max,
            _ => match node.int("p", 2)? {
                p if (1..=i64::from(GREATEST_ORDER)).contains(&p) => Kind::Norm(p as u32),
                p => return Err(format!("the norm p = {p}, where 1 to {GREATEST_ORDER} are supported").into()),
            },
        })
    }
}

/// A pool of images.
pub fn windows(node: &Node<'_>, kind: Kind, input: OperandId, mut window: Window, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let sizes = [shape[2], shape[3]];
    window.fix_padding(sizes)?;
    let up = node.flag("ceil_mode", false)?;
    let output_sizes = [window.output_size(sizes, 0, up)?, window.output_size(sizes, 1, up)?];
    let padded = window.pads != [(0, 0); 2];
    let plain = match kind {
        Kind::Average if node.flag("count_include_pad", false)? && (padded || up) => {
            return counting_padding(input, &window, output_sizes, emit);
        }
        Kind::Average => Pool2dKind::Average,
        Kind::Max => Pool2dKind::Max,
        Kind::Norm(2) => Pool2dKind::L2,
        Kind::Norm(p) => return norm(p, input, &window, output_sizes, emit),
    };
    // Padding does not count, so it may as well reach to the end of the last windows; then nothing is rounded up.
    window.reach(sizes, output_sizes)?;
    emit.push(pool_of(plain, input, &window, window.padding()))
}

/// A norm of another order than 2. That of order 1 is the average times the size of the window.
fn norm(p: u32, input: OperandId, window: &Window, output_sizes: [u32; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let mut window = window.clone();
    window.reach([shape[2], shape[3]], output_sizes)?;
    if p > 1 {
        return emit.push(norm_of(p, pool_of(Pool2dKind::L2, input, &window, window.padding())));
    }
    let magnitude = emit.unary(UnaryKind::Abs, input)?;
    let average = counting_padding(magnitude, &window, output_sizes, emit)?;
    let area = f64::from(window.kernel[0]) * f64::from(window.kernel[1]);
    emit.with(BinaryKind::Mul, average, area)
}

/// The norm of that order of the same windows.
fn norm_of(order: u32, pool: Pool2d) -> NormPool2d {
    NormPool2d {
        input: pool.input,
        order,
        window_dimensions: pool.window_dimensions,
        padding: pool.padding,
        strides: pool.strides,
        dilations: pool.dilations,
        layout: pool.layout,
        output_shape_rounding: pool.output_shape_rounding,
        output_sizes: pool.output_sizes,
    }
}

fn pool_of(kind: Pool2dKind, input: OperandId, window: &Window, padding: [u32; 4]) -> Pool2d {
    Pool2d {
        kind,
        input,
        window_dimensions: Some(window.kernel),
        padding,
        strides: window.strides,
        dilations: window.dilations,
        layout: InputOperandLayout::Nchw,
        output_shape_rounding: RoundingType::Floor,
        output_sizes: None,
    }
}

/// An average that counts the zeros of the padding (but not what rounding up adds after it).
fn counting_padding(input: OperandId, window: &Window, output_sizes: [u32; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let sizes = [shape[2], shape[3]];
    let excess = [window.excess(sizes, output_sizes, 0)?, window.excess(sizes, output_sizes, 1)?];
    let [(top, bottom), (left, right)] = window.pads;
    let end = |padding: u32, excess: u32| padding.checked_add(excess).ok_or("too much padding");
    let input = emit.push(Pad {
        input,
        beginning_padding: vec![0, 0, top, left],
        ending_padding: vec![0, 0, end(bottom, excess[0])?, end(right, excess[1])?],
        mode: PaddingMode::Constant,
        value: Number::Double(0.0),
    })?;
    let average = emit.push(pool_of(Pool2dKind::Average, input, window, [0; 4]))?;
    if excess == [0, 0] {
        return Ok(average);
    }
    // The last windows divided by too much.
    let factors = |dimension: usize| -> Vec<f64> {
        let (before, after) = window.pads[dimension];
        let have = u64::from(shape[2 + dimension]) + u64::from(before) + u64::from(after);
        let (stride, dilation) = (u64::from(window.strides[dimension]), u64::from(window.dilations[dimension]));
        let kernel = u64::from(window.kernel[dimension]);
        (0..u64::from(output_sizes[dimension]))
            // Of the window's elements those that are before the end.
            .map(|i| have.saturating_sub(i * stride).div_ceil(dilation).min(kernel) as f64)
            .map(|within| kernel as f64 / within.max(1.0))
            .collect()
    };
    if output_sizes.iter().chain(&window.kernel).any(|&size| size > 1 << 16) {
        return Err("a pool that is too large".into());
    }
    let of: ElementType = emit.data_type(average).into();
    let (rows, columns) = (factors(0), factors(1));
    let rows = emit.constant(Tensor::from_floats(of, vec![rows.len(), 1], &rows))?;
    let columns = emit.constant(Tensor::from_floats(of, vec![columns.len()], &columns))?;
    let average = emit.binary(BinaryKind::Mul, average, rows)?;
    emit.binary(BinaryKind::Mul, average, columns)
}
