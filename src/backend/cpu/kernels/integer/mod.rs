//! Products and convolutions of 8-bit integers: the sums are exact, and are scaled and finished tile by tile, while they are
//! in the cache.
//!
//! For bytes `a` with the zero point `p` and weights `w` with the zero points `q` of their columns, a sum of
//! `(a - p) (w - q)` over the depth is that of `a w`, less `p` times the column's sum of weights, less `q` times the row's
//! sum of bytes, plus the depth times `p q`. All of this wraps around where it must, and the result does not
//! (the compiler bounds the depth).

pub mod computed;
pub mod depthwise;
#[cfg(test)]
mod graph_tests;
mod in_parts;
pub mod lstm;
#[cfg(test)]
mod lstm_tests;
mod multiply;
mod panels;
mod rows;
#[cfg(test)]
mod tests;

use super::epilogue::Epilogue;
use super::quantize::{Quantized, byte};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, TensorDesc, require, with_scratch};
use crate::backend::cpu::view::{Arguments, View};
use crate::backend::window::Axis;
use crate::graph::DataType::{Int8, Int32, Uint8};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use crate::memory;
use microkernels::Tiles;
use multiply::{Division, Factors, Multiplication};
use panels::Panels;
use rows::Rows;
use smallvec::SmallVec;
use webnn_kernels::int8::microkernels;
use webnn_kernels::isa::Isa;

/// An operand of a product: integers less a zero point, which may be missing where it is 0, times a scale, which may be missing where it
/// is 1.
#[derive(Clone, Copy, Debug)]
struct Factor {
    input: OperandId,
    scale: Option<OperandId>,
    zero_point: Option<OperandId>,
}

impl Factor {
    fn dequantized(op: &DequantizeLinear) -> Factor {
        Factor { input: op.input, scale: Some(op.scale), zero_point: Some(op.zero_point) }
    }

    /// Both operands of a product.
    fn of(problem: &Problem<'_>) -> Result<[Factor; 2], Reject> {
        if let Op::QuantizedMatmul(op) = problem.op {
            let factor = |input, zero_point| Factor { input, scale: None, zero_point };
            return Ok([factor(op.a, op.a_zero_point), factor(op.b, op.b_zero_point)]);
        }
        let [Op::DequantizeLinear(left), Op::DequantizeLinear(right)] = problem.dequantized else { return Err(NOT_DEQUANTIZED) };
        Ok([left, right].map(Factor::dequantized))
    }

    /// The scale, if it is one number.
    fn scale(&self, arguments: &Arguments<'_, '_>) -> f32 {
        self.scale.map_or(1.0, |scale| number(arguments.input(scale)))
    }

    /// The zero point, if it is one number.
    fn zero(&self, arguments: &Arguments<'_, '_>) -> i32 {
        self.zero_point.map_or(0, |zero_point| byte(arguments.input(zero_point)))
    }

    /// The operands, where a kernel packs all of it.
    fn packed(&self) -> impl Iterator<Item = usize> + use<> {
        [Some(self.input), self.scale, self.zero_point].into_iter().flatten().map(|id| id.0 as usize)
    }
}

/// Refuses a left operand whose rows have zero points of their own: kernels take one off all sums of a column.
fn require_one_zero_point(problem: &Problem<'_>, left: &Factor) -> Result<(), Reject> {
    let count = left.zero_point.map_or(1, |zero_point| problem.input(zero_point).element_count());
    require(count == 1, "a zero point for each row")
}

#[derive(Debug)]
struct Product {
    isa: &'static Isa,
    tiles: &'static Tiles,
    left: Factor,
    rows: Rows,
    panels: Panels,
    /// By column, with those that fill up the last vector: its scale, the sum of its weights, and its zero point unless all are
    /// 0.
    scales: Vec<f32>,
    sums: Vec<i32>,
    depth: i32,
    zeros: Vec<i32>,
    /// int32 rows or numbers that are added to the sums.
    added: Vec<OperandId>,
    /// Whether the sums themselves are wanted.
    is_whole: bool,
    epilogue: Epilogue,
    quantize: Option<Quantized>,
    division: Division,
}

/// The only element of an operand.
fn number(view: View<'_>) -> f32 {
    view.elements::<f32>()[0]
}

impl Kernel for Product {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.left.input);
        let scale = self.left.scale(arguments);
        // Of bytes without a sign.
        let zero = self.left.zero(arguments) + if image.data_type == Int8 { 128 } else { 0 };
        let steps = self.quantize.as_ref().map(|quantize| quantize.steps(arguments));
        let tensors = self.epilogue.tensors(arguments);
        let added: SmallVec<[&[i32]; 2]> = self.added.iter().map(|id| arguments.input(*id).elements()).collect();
        let output = SharedOutput::new(&mut *arguments.output().bytes);
        let columns = self.sums.len();
        with_scratch(2 * columns + self.rows.copied().div_ceil(4), |scratch| {
            let (start, scratch) = scratch.split_at_mut(columns);
            let (factors, copy) = scratch.split_at_mut(columns);
            let start: &mut [i32] = bytemuck::cast_slice_mut(start);
            for (j, start) in start.iter_mut().enumerate() {
                let both = self.zeros.get(j).map_or(0, |own| self.depth.wrapping_mul(zero).wrapping_mul(*own));
                *start = both.wrapping_sub(zero.wrapping_mul(self.sums[j]));
            }
            for numbers in &added {
                let number = |j: usize| if numbers.len() == 1 { numbers[0] } else { numbers[j] };
                let start = start[..self.panels.columns].iter_mut();
                start.enumerate().for_each(|(j, start)| *start = start.wrapping_add(number(j)));
            }
            factors.iter_mut().zip(&self.scales).for_each(|(factor, own)| *factor = scale * own);
            let is_plain = factors.iter().all(|factor| factor.is_normal());
            let factors = match is_plain {
                _ if self.is_whole => Factors::None,
                true => Factors::Numbers(factors),
                false => Factors::Apart(scale, &self.scales),
            };
            Multiplication {
                isa: self.isa,
                tiles: self.tiles,
                rows: &self.rows,
                bytes: self.rows.copy(image.bytes(), zero as u8, bytemuck::cast_slice_mut(copy)),
                panels: self.panels.view(),
                start,
                factors,
                zeros: &self.zeros,
                epilogue: &self.epilogue,
                tensors: &tensors,
                steps,
                output: &output,
                first_row: 0,
                division: self.division,
            }
            .run();
        });
    }

    fn bytes(&self) -> usize {
        let lists = self.scales.len() + self.sums.len() + self.zeros.len();
        self.panels.bytes() + lists * size_of::<f32>()
    }
}

/// Products and convolutions with constant weights, which are packed.
pub static PACKED: Implementation = Implementation { name: "int8.packed", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let rows = match (problem.op, problem.output.shape) {
        (Op::Conv2d(_), [pixels @ .., _]) => pixels.iter().product(),
        (_, [.., rows, _]) => *rows,
        _ => 1,
    };
    accept_with(problem, target, Tiles::of(target.isa, rows))
}

const NOT_DEQUANTIZED: Reject = Reject("not a product of two dequantized operands");

/// The right operand as columns of weights.
struct Weights<'a> {
    bytes: &'a [u8],
    /// Elements from one column to the next, and from one element of the window to the next line, column, channel.
    column: usize,
    taps: [usize; 3],
}

/// The operands of a product, as rows and columns.
struct Sides<'a> {
    rows: Rows,
    columns: usize,
    weights: Weights<'a>,
    bias: Option<OperandId>,
}

impl<'a> Sides<'a> {
    fn of(problem: &Problem<'a>, image: TensorDesc<'a>, weights: TensorDesc<'a>) -> Result<Sides<'a>, Reject> {
        let bytes = weights.bytes().ok_or(Reject("weights that are computed"))?;
        let signed = image.data_type == Int8;
        let matrix = |columns: usize, [column, depth]: [usize; 2], bias: Option<OperandId>| {
            let depth_of_all = image.shape.last().copied().ok_or(Reject("a scalar"))?;
            let rows = Rows::matrix(image.element_count() / depth_of_all.max(1), depth_of_all, signed);
            Ok(Sides { rows, columns, weights: Weights { bytes, column, taps: [0, 0, depth] }, bias })
        };
        match problem.op {
            Op::Matmul(_) | Op::QuantizedMatmul(_) => {
                let (stack, _) = weights.shape.split_last_chunk::<2>().ok_or(Reject("a vector"))?;
                require(stack.iter().all(|&size| size == 1), "a stack of weights")?;
                let columns = weights.shape.last().copied().ok_or(Reject("a scalar"))?;
                matrix(columns, [1, columns], None)
            }
            Op::Gemm(op) => {
                let &[b, c] = weights.shape else { return Err(Reject("weights that are not a matrix")) };
                let (columns, strides) = if op.b_transpose { (b, [c, 1]) } else { (c, [1, c]) };
                matrix(columns, strides, op.c)
            }
            Op::Conv2d(op) => {
                let (rows, columns, weights) = image_of(op, problem, image, weights.shape, bytes, signed)?;
                Ok(Sides { rows, columns, weights, bias: op.bias })
            }
            _ => Err(Reject("not a matmul, gemm or conv2d")),
        }
    }
}

fn accept_with<'a>(problem: &Problem<'a>, target: &Target, tiles: &'static Tiles) -> Accepted<'a> {
    let [left, right] = Factor::of(problem)?;
    require_one_zero_point(problem, &left)?;
    let (image, weights) = (problem.input(left.input), problem.input(right.input));
    let mut consumed: SmallVec<[usize; 2]> = right.packed().collect();
    let Sides { rows, columns, weights: weights_of, bias } = Sides::of(problem, image, weights)?;
    let scales = right.scale.map_or(Ok(&[1.0][..]), |scale| problem.input(scale).constant_elements())?;
    let zeros = right.zero_point.map_or(Some(&[0][..]), |zero_point| problem.input(zero_point).bytes());
    let zeros = zeros.ok_or(Reject("zero points that are computed"))?;
    let mut row = None;
    if let Some(bias) = bias {
        row = Some(problem.input(bias).constant_elements()?);
        consumed.push(bias.0 as usize);
    }
    let (fused, quantize) = Quantized::split(problem);
    let (added, is_whole, fused) = whole_numbers(problem, fused);
    let mut epilogue = Epilogue::new(row);
    require(epilogue.fuse(&Problem { fused, ..*problem }, &mut consumed), UNFUSED)?;
    let Target { isa, threads, .. } = *target;
    // Weights without a sign are moved down by 128, and their zero points with them.
    let is_shifted = weights.data_type == Uint8;
    Ok(Box::new(move || {
        let of_column = |j: usize, count: usize| if count == 1 { 0 } else { j };
        let weight = |place: usize, column: usize| {
            let byte = weights_of.bytes[place + column * weights_of.column];
            if is_shifted { (byte ^ 128) as i8 } else { byte as i8 }
        };
        let zero = |j: usize| {
            let byte = zeros[of_column(j.min(columns - 1), zeros.len())];
            i32::from(if is_shifted { (byte ^ 128) as i8 } else { byte as i8 })
        };
        let runs = rows.offsets.len();
        // Where the weights of one column lie, from its first one on.
        let place = |run: usize, byte: usize| -> usize {
            rows.tap(run, byte).iter().zip(weights_of.taps).map(|(at, stride)| at * stride).sum()
        };
        memory::require(runs * rows.length * size_of::<usize>())?;
        let places: Vec<usize> = (0..runs * rows.length).map(|i| place(i / rows.length, i % rows.length)).collect();
        let padded = columns.next_multiple_of(tiles.lanes);
        let mut sums = vec![0i32; padded];
        let panels = Panels::pack(tiles, &places, rows.length, weight, &mut sums[..columns]);
        let zeros = if (0..columns).any(|j| zero(j) != 0) { (0..padded).map(zero).collect() } else { Vec::new() };
        let division = Division::new(tiles, &rows, panels.view().count(), threads);
        let kernel = Product {
            isa,
            tiles,
            left,
            depth: (runs * rows.length) as i32,
            rows,
            panels,
            scales: (0..padded).map(|j| scales[of_column(j.min(columns - 1), scales.len())]).collect(),
            sums,
            zeros,
            added,
            is_whole,
            epilogue,
            quantize,
            division,
        };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses: true })
    }))
}

const UNFUSED: &str = "something is done to the output that no post-op knows";

/// What is added to the sums as long as they are integers, whether they stay so, and what is done to them otherwise.
fn whole_numbers<'a>(problem: &Problem<'_>, fused: &'a [Op]) -> (Vec<OperandId>, bool, &'a [Op]) {
    let rest = match fused {
        rest if matches!(problem.op, Op::QuantizedMatmul(_)) => rest,
        [Op::Cast(cast), rest @ ..] if cast.data_type == Int32 => rest,
        _ => return (Vec::new(), false, fused),
    };
    let running = OperandId(problem.inputs.len() as u32);
    let sums = rest.iter().map_while(|op| match op {
        Op::Binary(op) => Some(if op.a == running { op.b } else { op.a }),
        _ => None,
    });
    let added: Vec<OperandId> = sums.collect();
    match &rest[added.len()..] {
        [Op::Cast(_), rest @ ..] => (added, false, rest),
        rest => (added, true, rest),
    }
}

/// The windows of a convolution with the channels last, its output channels, and its weights.
fn image_of<'a>(
    op: &Conv2d,
    problem: &Problem<'_>,
    image: TensorDesc<'_>,
    shape: &[usize],
    bytes: &'a [u8],
    signed: bool,
) -> Result<(Rows, usize, Weights<'a>), Reject> {
    let (&[a, b, c, d], &[batches, height, width, channels]) = (shape, image.shape) else { return Err(Reject("not an image")) };
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    require(op.groups == 1, "several groups")?;
    let [outputs, _, window_height, window_width] = op.filter_layout.to_oihw(&[a, b, c, d]);
    let [column, channel, line, across] = op.filter_layout.to_oihw(&[b * c * d, c * d, d, 1]);
    let axis = |number: usize, input: usize, window: usize| {
        Axis::new(number, (input, problem.output.shape[1 + number], window), (&op.strides, &op.dilations, &op.padding))
    };
    let rows = Rows::image(batches, (axis(0, height, window_height), axis(1, width, window_width)), channels, signed);
    Ok((rows, outputs, Weights { bytes, column, taps: [line, across, channel] }))
}
