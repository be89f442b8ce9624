//! The keys and values that an attention reads: numbers, or bytes with a scale for each key, or float16, which become numbers some keys at a
//! time, while they are in the cache of a core.

use super::gemv;
use super::matmul::{distances, places};
use super::product::pack_panel;
use super::{Problem, Reject, TensorDesc, require};
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType::{Float16, Float32, Int8};
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::{Op, OperandId};
use crate::looks::{self, Progress};
use half::f16;
use std::ops::Range;
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::halves::Widen;
use webnn_kernels::isa::Isa;
use webnn_kernels::pauses::Pauses;
use webnn_kernels::quantize::Scale;

/// Keys that become numbers at a time. Those that are left out in front are a multiple of them, so the others are summed in the same order.
pub const TOGETHER: usize = 64;

/// The scales of an operand of bytes.
#[derive(Debug)]
pub struct Scales {
    id: OperandId,
    /// From one key to the next.
    stride: usize,
    /// Where those of each stack begin.
    places: Vec<usize>,
}

/// How keys and values are stored.
#[derive(Debug)]
pub enum Form<T> {
    Numbers,
    Halves,
    /// With what dequantizes them, or their scales.
    Bytes([T; 2]),
}

/// How the keys and the values are stored, if attention can read them so.
pub fn form_of<'a>(problem: &Problem<'a>, both: [TensorDesc<'_>; 2]) -> Result<Form<&'a DequantizeLinear>, Reject> {
    let are = |data_type| both.iter().all(|known| known.data_type == data_type);
    match problem.dequantized {
        [] => {
            require(are(Float32), "keys and values of another type than float32")?;
            Ok(Form::Numbers)
        }
        [Op::Cast(_), Op::Cast(_)] => {
            require(are(Float16), "keys and values that are converted from another type than float16")?;
            Ok(Form::Halves)
        }
        [Op::DequantizeLinear(keys), Op::DequantizeLinear(values)] => {
            check(keys, problem, true)?;
            check(values, problem, false)?;
            Ok(Form::Bytes([keys, values]))
        }
        _ => Err(Reject("something else than what dequantizes keys and values")),
    }
}

/// Whether an operand has int8 elements and a scale for each key of a stack. Keys are columns of their matrix, and values rows.
fn check(op: &DequantizeLinear, problem: &Problem<'_>, are_columns: bool) -> Result<(), Reject> {
    let [bytes, scales, zeros] = [op.input, op.scale, op.zero_point].map(|id| problem.input(id));
    require(bytes.data_type == Int8 && scales.data_type == Float32, "other types than int8 and float32")?;
    let rank = bytes.shape.len();
    let elements = rank - if are_columns { 2 } else { 1 };
    let is_of_keys = |(axis, &size): (usize, &usize)| size == if axis == elements { 1 } else { bytes.shape[axis] };
    let is_one = scales.shape.len() == rank && scales.shape.iter().enumerate().all(is_of_keys);
    require(is_one, "other scales than one for each key")?;
    require(zeros.bytes().is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)), "zero points")
}

impl Scales {
    /// Those of the keys and of the values.
    pub fn of([keys, values]: [&DequantizeLinear; 2], problem: &Problem<'_>, stacks: &[usize]) -> [Scales; 2] {
        let scales = |op: &DequantizeLinear, from_end: usize| {
            let scales = problem.input(op.scale);
            let strides = distances(scales);
            let leading = &scales.shape[..scales.shape.len() - 2];
            Scales { id: op.scale, stride: strides[strides.len() - from_end], places: places(leading, &strides, stacks) }
        };
        [scales(keys, 1), scales(values, 2)]
    }
}

/// All of an operand.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Numbers(&'a [f32]),
    Halves(&'a [f16]),
    Bytes(&'a [i8], &'a [f32], &'a Scales),
}

impl<'a> Operand<'a> {
    /// The keys and the values.
    pub fn both<'d: 'a>(ids: [OperandId; 2], form: &'a Form<Scales>, arguments: &Arguments<'d, '_>) -> [Operand<'a>; 2] {
        match form {
            Form::Numbers => ids.map(|id| Operand::Numbers(arguments.input(id).elements())),
            Form::Halves => ids.map(|id| Operand::Halves(arguments.input(id).elements())),
            Form::Bytes(scales) => [0, 1].map(|i| {
                let numbers = arguments.input(scales[i].id).elements();
                Operand::Bytes(arguments.input(ids[i]).elements(), numbers, &scales[i])
            }),
        }
    }

    /// The lines of a stack, which begin at `first`, but for some in front.
    pub fn lines(self, stack: usize, first: usize, strides: [usize; 2], hidden: usize) -> Lines<'a> {
        let first = first + hidden * strides[0];
        let elements = match self {
            Operand::Numbers(numbers) => Elements::Numbers(&numbers[first..]),
            Operand::Halves(halves) => Elements::Halves(&halves[first..]),
            Operand::Bytes(bytes, numbers, scales) => Elements::Bytes {
                bytes: &bytes[first..],
                scales: &numbers[scales.places[stack] + hidden * scales.stride..],
                stride: scales.stride,
            },
        };
        Lines { elements, strides }
    }
}

/// Keys or values of a stack.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    elements: Elements<'a>,
    /// Elements from one key to the next, and from one of a key to the next of it.
    strides: [usize; 2],
}

#[derive(Clone, Copy)]
enum Elements<'a> {
    Numbers(&'a [f32]),
    Halves(&'a [f16]),
    Bytes {
        bytes: &'a [i8],
        scales: &'a [f32],
        /// From the scale of one key to that of the next.
        stride: usize,
    },
}

impl Lines<'_> {
    /// Room that the products of so many queries with keys or values of so many elements need.
    pub fn room(operand: Operand<'_>, queries: usize, width: usize) -> usize {
        match operand {
            Operand::Numbers(_) => 0,
            Operand::Halves(_) | Operand::Bytes(..) => TOGETHER * width + queries * (TOGETHER + width),
        }
    }

    /// Room for packing: as many numbers as become a panel at a time.
    pub fn room_to_pack(operand: Operand<'_>, gemm: &Microkernels, depth: usize) -> usize {
        match operand {
            Operand::Numbers(_) => 0,
            Operand::Halves(_) | Operand::Bytes(..) => gemm.columns * depth,
        }
    }

    /// Some elements of some lines as numbers, one line after the other.
    fn dequantize(self, isa: &Isa, lines: Range<usize>, elements: Range<usize>, to: &mut [f32]) {
        let [from_line, from_element] = self.strides;
        let width = elements.len();
        let all = lines.len().saturating_mul(width);
        let (progress, pauses) = (Progress::of(all), looks::pauses(all));
        if let (Elements::Halves(halves), 1, false) = (self.elements, from_element, progress.is_long) {
            let halves = bytemuck::cast_slice(&halves[lines.start * from_line + elements.start..]);
            return Widen { halves, stride: from_line, width, numbers: &mut to[..all] }.compute(isa);
        }
        for (line, numbers) in lines.zip(to.chunks_exact_mut(width.max(1))) {
            for part in pauses.parts(width) {
                self.dequantize_part(isa, line, elements.start + part.start, &mut numbers[part]);
            }
            progress.made(width);
        }
    }

    /// Elements of a line from that one on, as so many numbers.
    fn dequantize_part(self, isa: &Isa, line: usize, first: usize, numbers: &mut [f32]) {
        let [from_line, from_element] = self.strides;
        let first = line * from_line + first * from_element;
        match self.elements {
            Elements::Numbers(_) => {}
            Elements::Halves(halves) if from_element == 1 => {
                let (halves, width) = (bytemuck::cast_slice(&halves[first..]), numbers.len());
                Widen { halves, stride: width, width, numbers }.compute(isa);
            }
            Elements::Halves(halves) => {
                let halves = halves[first..].iter().step_by(from_element);
                numbers.iter_mut().zip(halves).for_each(|(number, half)| *number = half.to_f32());
            }
            Elements::Bytes { bytes, scales, stride } if from_element == 1 => {
                let (integers, scale) = (&bytes[first..][..numbers.len()], scales[line * stride]);
                Scale { integers, numbers, scale, zero: 0 }.compute(isa);
            }
            Elements::Bytes { bytes, scales, stride } => {
                let (bytes, scale) = (bytes[first..].iter().step_by(from_element), scales[line * stride]);
                numbers.iter_mut().zip(bytes).for_each(|(number, &byte)| *number = f32::from(byte) * scale);
            }
        }
    }

    /// The products of queries, one after the other, with the first keys, as many as there are scores of each. Those of numbers need no room.
    pub fn dot_products(self, isa: &Isa, queries: &[f32], depth: usize, scores: &mut [f32], room: &mut [f32]) {
        let stride = self.strides[0];
        let (count, keys) = match self.elements {
            Elements::Numbers(numbers) => {
                let pauses = looks::pauses(depth.saturating_mul(scores.len()));
                return gemv::dot_products(isa, queries, depth, (numbers, stride), scores, pauses);
            }
            _ if depth == 0 => return scores.fill(0.0),
            _ => (queries.len() / depth, scores.len() * depth / queries.len().max(1)),
        };
        let progress = Progress::of(keys.saturating_mul(queries.len()));
        let (numbers, part) = room.split_at_mut(TOGETHER * depth);
        for first in (0..keys).step_by(TOGETHER) {
            let here = TOGETHER.min(keys - first);
            self.dequantize(isa, first..first + here, 0..depth, numbers);
            let part = &mut part[..count * here];
            gemv::dot_products(isa, queries, depth, (numbers, depth), part, Pauses::NONE);
            for (scores, part) in scores.chunks_exact_mut(keys).zip(part.chunks_exact(here)) {
                scores[first..][..here].copy_from_slice(part);
            }
            progress.made(here * queries.len());
        }
    }

    /// Sums of the values by weights, of which each sum has so many.
    pub fn weighted_sums(self, isa: &Isa, weights: &[f32], of_sum: usize, result: &mut [f32], room: &mut [f32]) {
        if let Elements::Numbers(numbers) = self.elements {
            let pauses = looks::pauses(of_sum.saturating_mul(result.len()));
            return gemv::weighted_sums(isa, weights, of_sum, (numbers, self.strides[0]), result, pauses);
        }
        result.fill(0.0);
        let Some(count) = weights.len().checked_div(of_sum).filter(|&count| count > 0) else { return };
        let columns = result.len() / count;
        let progress = Progress::of(of_sum.saturating_mul(result.len()));
        let (numbers, room) = room.split_at_mut(TOGETHER * columns);
        for first in (0..of_sum).step_by(TOGETHER) {
            let here = TOGETHER.min(of_sum - first);
            self.dequantize(isa, first..first + here, 0..columns, numbers);
            let (of_these, part) = room.split_at_mut(count * here);
            for (of_these, weights) in of_these.chunks_exact_mut(here).zip(weights.chunks_exact(of_sum)) {
                of_these.copy_from_slice(&weights[first..][..here]);
            }
            let part = &mut part[..result.len()];
            gemv::weighted_sums(isa, of_these, here, (numbers, columns), part, Pauses::NONE);
            result.iter_mut().zip(part).for_each(|(sum, part)| *sum += *part);
            progress.made(here * result.len());
        }
    }

    /// Packs the first keys, which are the columns of a product of so many terms.
    pub fn pack_keys(self, gemm: &Microkernels, depth: usize, keys: usize, panels: &mut [f32], room: &mut [f32]) {
        for (i, panel) in panels.chunks_exact_mut(gemm.steps(depth) * gemm.columns).enumerate() {
            let columns = i * gemm.columns..keys.min((i + 1) * gemm.columns);
            match self.elements {
                Elements::Numbers(numbers) => {
                    pack_panel(gemm, columns, depth, numbers, [self.strides[1], self.strides[0]], panel);
                }
                Elements::Halves(_) | Elements::Bytes { .. } => {
                    let count = columns.len();
                    self.dequantize(gemm.isa, columns, 0..depth, room);
                    pack_panel(gemm, 0..count, depth, room, [1, depth], panel);
                }
            }
        }
    }

    /// Packs values of so many columns, which are summed over the first keys.
    pub fn pack_values(self, gemm: &Microkernels, keys: usize, columns: usize, panels: &mut [f32], room: &mut [f32]) {
        for (i, panel) in panels.chunks_exact_mut(gemm.steps(keys) * gemm.columns).enumerate() {
            let columns = i * gemm.columns..columns.min((i + 1) * gemm.columns);
            match self.elements {
                Elements::Numbers(numbers) => pack_panel(gemm, columns, keys, numbers, self.strides, panel),
                Elements::Halves(_) | Elements::Bytes { .. } => {
                    let count = columns.len();
                    self.dequantize(gemm.isa, 0..keys, columns, room);
                    pack_panel(gemm, 0..count, keys, room, [count, 1], panel);
                }
            }
        }
    }
}
