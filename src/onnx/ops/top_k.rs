//! TopK. WebNN has argMax only; the others are found by comparisons: one after the other, or all of them with all others, or so
//! among those of the best blocks.

use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::movement::{Pad, PaddingMode};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::scatter::ScatterElements;
use crate::graph::{DataType, Number, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;
use half::f16;
use std::collections::HashMap;

/// Elements of the largest comparison of all elements with each other; several of them at most.
const MOST_COMPARISONS: u64 = 1 << 24;
const MOST_PARTS: u64 = 8;
/// The most steps one after the other.
const MOST_STEPS: u64 = 128;

/// TopK: values and int64 indices of the k largest or smallest elements along an axis, of equal ones the earlier first.
pub fn top_k(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let count = match node.version {
        ..10 => node.int("k", 0)?,
        _ => match node.constant(1, "the number K")?.integers()[..] {
            [count] => count,
            _ => return Err("a number K that is no scalar".into()),
        },
    };
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let at = axis(node.int("axis", -1)?, shape.len())?;
    let count = size(count)?;
    if count == 0 || count > shape[at] {
        return Err(format!("{count} elements of {}", shape[at]).into());
    }
    let largest = node.flag("largest", true)?;
    // The axis comes last, and the others are one.
    let mut permutation: Vec<usize> = (0..shape.len()).collect();
    permutation.swap(at, shape.len() - 1);
    let moved = emit.transpose(input, &permutation)?;
    let mut result = emit.shape(moved);
    let width = shape[at];
    let lines = size(shape.iter().map(|&size| u64::from(size)).product::<u64>() / u64::from(width))?;
    let input = emit.reshape(moved, &[lines, width])?;
    let choice = Choice { largest, steps: emit.data_type(input).is_float() };
    let indices = choice.choose(input, count, emit)?;
    let values = emit.push(GatherElements { input, indices, axis: 1 })?;
    let indices = emit.cast(indices, DataType::Int64)?;
    *result.last_mut().expect("the axis") = count;
    let mut finish = |of: OperandId| -> Mapped<Value> {
        let of = emit.reshape(of, &result)?;
        Ok(emit.transpose(of, &permutation)?.into())
    };
    Ok(vec![finish(values)?, finish(indices)?])
}

/// How the best elements of lines are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The best one, then the best of the others, and so on.
    Steps,
    /// By their ranks: the rank of an element is the number of those that come before it.
    Ranks,
    /// The best elements of a line are in those of its blocks, of so many elements, whose best elements are the best.
    Blocks(u32),
}

/// Which elements come first.
#[derive(Clone, Copy)]
struct Choice {
    largest: bool,
    /// Whether an element can be taken out, for [`Way::Steps`].
    steps: bool,
}

/// The quickest way, and its cost, if there is one.
type Quickest = Option<(u64, Way)>;

impl Choice {
    /// The quickest way, and about how many nanoseconds it takes. What is `known` are those for other widths.
    fn best_way(self, lines: u64, width: u64, count: u64, known: &mut HashMap<u64, Quickest>) -> Quickest {
        /// What an operator costs beyond what it does to each element, and what a block costs.
        const OPERATOR: u64 = 1000;
        const BLOCK: u64 = 20;
        const BLOCKS: [u32; 6] = [2, 4, 8, 16, 32, 64];
        if let Some(&way) = known.get(&width) {
            return way;
        }
        let elements = lines.saturating_mul(width);
        let ranks = |width: u64| {
            let of_one = lines.saturating_mul(width);
            let all = of_one.saturating_mul(width);
            let fits = all <= MOST_COMPARISONS * MOST_PARTS && of_one <= MOST_COMPARISONS;
            fits.then_some(8 * OPERATOR + all / 2)
        };
        let steps = (self.steps && count <= MOST_STEPS || count == 1).then(|| count * (3 * OPERATOR + elements));
        let mut by_blocks = |block: u32| {
            let (size, number) = (u64::from(block), width.div_ceil(block.into()));
            // Half of the elements are left out at least, so that this comes to an end.
            let candidates = count.checked_mul(size).filter(|candidates| 2 * candidates <= width)?;
            let [chosen, found] = [number, candidates].map(|width| self.best_way(lines, width, count, known));
            Some(chosen?.0 + ranks(count)? + found?.0 + 8 * OPERATOR + elements / 2 + lines * number * BLOCK)
        };
        let blocks = BLOCKS.map(|block| (by_blocks(block), Way::Blocks(block)));
        let ways = [(steps, Way::Steps), (ranks(width), Way::Ranks)].into_iter().chain(blocks);
        let way = ways.filter_map(|(cost, way)| Some((cost?, way))).min_by_key(|(cost, _)| *cost);
        known.insert(width, way);
        way
    }

    /// The int32 positions of the best elements of each line, [lines, count], the best one first.
    fn choose(self, input: OperandId, count: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let [lines, width] = emit.shape(input)[..] else { return Err("lines of elements".into()) };
        let Some((_, way)) = self.best_way(lines.into(), width.into(), count.into(), &mut HashMap::new()) else {
            return Err(format!("{count} elements of {width} in {lines} lines are too many; WebNN has no such operator").into());
        };
        match way {
            Way::Steps => self.one_by_one(input, count, emit),
            Way::Ranks => {
                let ordered = self.ordered(input, emit)?;
                emit.slice_axis(ordered, 1, 0, count)
            }
            Way::Blocks(block) => self.by_blocks(input, count, block, emit),
        }
    }

    fn one_by_one(self, input: OperandId, count: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let of = emit.data_type(input);
        let width = emit.shape(input)[1];
        let kind = if self.largest { ArgKind::Max } else { ArgKind::Min };
        let positions = emit.positions(DataType::Int32, 2, 1, width)?;
        let mut indices = Vec::new();
        // What is taken out is worse than what is infinitely bad from the beginning.
        let greatest = if of == DataType::Float16 { f16::MAX.to_f64() } else { f32::MAX.into() };
        let (low, high) = if self.largest { (Some(-greatest), None) } else { (None, Some(greatest)) };
        let mut rest = if count == 1 { input } else { emit.clamp(input, low, high)? };
        for i in 0..count {
            let best = Arg { kind, input: rest, axis: 1, keep_dimensions: true, output_data_type: DataType::Int32 };
            let best = emit.push(best)?;
            indices.push(best);
            if i + 1 < count {
                let out = emit.scalar(of, self.worst())?;
                let taken = emit.logical(LogicalKind::Equal, positions, best)?;
                rest = emit.select(taken, out, rest)?;
            }
        }
        emit.concat(indices, 1)
    }

    /// The positions of all elements of each line, the best one first.
    fn ordered(self, input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let [lines, width] = emit.shape(input)[..] else { return Err("lines of elements".into()) };
        let (own, other) = (emit.reshape(input, &[lines, width, 1])?, emit.reshape(input, &[lines, 1, width])?);
        let (rows, columns) = (emit.positions(DataType::Int32, 2, 0, width)?, emit.positions(DataType::Int32, 2, 1, width)?);
        let (better, as_good) = match self.largest {
            true => (LogicalKind::Greater, LogicalKind::GreaterOrEqual),
            false => (LogicalKind::Lesser, LogicalKind::LesserOrEqual),
        };
        let part = (MOST_COMPARISONS / (u64::from(lines) * u64::from(width))).clamp(1, width.into()) as u32;
        let mut ranks = Vec::new();
        for first in (0..width).step_by(part as usize) {
            let part = part.min(width - first);
            let own = emit.slice_axis(own, 1, first, part)?;
            let rows = emit.slice_axis(rows, 0, first, part)?;
            // Of equal elements the earlier one comes before.
            let earlier = emit.logical(LogicalKind::Lesser, columns, rows)?;
            let (better, as_good) = (emit.logical(better, other, own)?, emit.logical(as_good, other, own)?);
            let before = emit.select(earlier, as_good, better)?;
            // float32 counts exactly so far, and is summed faster than integers.
            let before = emit.cast(before, DataType::Float32)?;
            ranks.push(emit.reduce(ReduceKind::Sum, before, &[2], false)?);
        }
        let ranks = emit.concat(ranks, 1)?;
        let indices = emit.cast(ranks, DataType::Int32)?;
        let nothing = emit.scalar(DataType::Int32, 0.0)?;
        let input = emit.expand(nothing, &[lines, width])?;
        let positions = emit.positions(DataType::Int32, 2, 1, width)?;
        let updates = emit.expand(positions, &[lines, width])?;
        emit.push(ScatterElements { input, indices, updates, axis: 1 })
    }

    fn by_blocks(self, input: OperandId, count: u32, block: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let [lines, width] = emit.shape(input)[..] else { return Err("lines of elements".into()) };
        let number = width.div_ceil(block);
        // What fills the last block comes last, so that nothing of it is chosen.
        let value = Number::Double(self.worst());
        let filling = number * block - width;
        let pad =
            Pad { input, beginning_padding: vec![0; 2], ending_padding: vec![0, filling], mode: PaddingMode::Constant, value };
        let whole = if filling == 0 { input } else { emit.push(pad)? };
        let kind = if self.largest { ReduceKind::Max } else { ReduceKind::Min };
        let blocks = emit.reshape(whole, &[lines, number, block])?;
        let best = emit.reduce(kind, blocks, &[2], false)?;
        let chosen = self.choose(best, count, emit)?;
        // In the order of the line, so that of equal elements the earlier one still comes first.
        let ascending = Choice { largest: false, steps: false };
        let order = ascending.ordered(chosen, emit)?;
        let chosen = emit.push(GatherElements { input: chosen, indices: order, axis: 1 })?;
        let size_of = emit.scalar(DataType::Int32, block.into())?;
        let first = emit.mul(chosen, size_of)?;
        let first = emit.reshape(first, &[lines, count, 1])?;
        let within = emit.positions(DataType::Int32, 3, 2, block)?;
        let places = emit.add(first, within)?;
        let places = emit.reshape(places, &[lines, count * block])?;
        let candidates = emit.push(GatherElements { input: whole, indices: places, axis: 1 })?;
        let indices = self.choose(candidates, count, emit)?;
        emit.push(GatherElements { input: places, indices, axis: 1 })
    }

    /// What no element comes behind.
    fn worst(self) -> f64 {
        if self.largest { f64::NEG_INFINITY } else { f64::INFINITY }
    }
}
