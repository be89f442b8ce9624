//! Operators that combine updates with the elements at places which other operands name, one after the other.

use super::arithmetic::Arithmetic;
use super::index::{Indices, valid};
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::{self, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd, Accumulation};
use crate::graph::shape::strides;
use crate::looks::{self, Looking};
use half::f16;

pub fn accumulate_elements(op: &AccumulateElements, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let lines = Lines::new(op.axis as usize, input.shape, indices.shape);
    let (updates, output) = (arguments.input(op.updates), arguments.output());
    with_element!(input.data_type, T => {
        let (updates, output) = (updates.elements::<T>(), output.elements::<T>());
        <T as Summed>::all(op.reduction, input.elements(), updates, output, &Elements { lines, indices: Indices::new(indices) });
    });
}

pub fn accumulate_nd(op: &AccumulateNd, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let &[.., coordinate_size] = indices.shape else { unreachable!("the indices' rank is at least 1") };
    let (dimensions, slice) = input.shape.split_at(coordinate_size);
    let run = slice.iter().product::<usize>();
    let (updates, output) = (arguments.input(op.updates), arguments.output());
    let slices = Slices::new(Indices::new(indices), updates.element_count() / run, dimensions, run);
    with_element!(input.data_type, T => {
        let (updates, output) = (updates.elements::<T>(), output.elements::<T>());
        <T as Summed>::all(op.reduction, input.elements(), updates, output, &slices);
    });
}

/// Nanoseconds that an update takes.
const COST: usize = 2;
/// Nanoseconds that all take from which on threads share them though each looks at all indices.
const WORTH_RANGES: usize = 50_000;

/// Where updates go. The output is divided into blocks, and each block's updates are combined by one thread in their order, so
/// that the result does not depend on how many threads and blocks there are.
trait Targets: Sync {
    /// Elements of a block (the last one may have less), and what one takes in nanoseconds.
    fn block(&self) -> usize;
    fn cost(&self) -> usize;

    /// Calls `combine` for the updates of a block, in their order, with the place in the block of a run of elements, the
    /// place of the run of updates, and their length.
    fn each(&self, block: usize, combine: impl FnMut(usize, usize, usize));
}

/// Elements along an axis. A block is what one element of the dimensions before the axis has; where there is only one such
/// element, a range of places along the axis, and each block's thread looks at all indices.
struct Elements<'a> {
    lines: Lines,
    indices: Indices<'a>,
}

struct Lines {
    axis: usize,
    shape: Vec<usize>,
    /// Distances of elements of the input.
    strides: Vec<usize>,
    /// Sizes of the indices.
    sizes: Vec<usize>,
    block: usize,
    /// Places along the axis that a block has.
    range: usize,
}

impl Lines {
    fn new(axis: usize, shape: &[usize], sizes: &[usize]) -> Lines {
        let is_one = shape[..axis].iter().all(|&size| size == 1);
        let updates = sizes.iter().product::<usize>() * COST;
        let ranges = if is_one && updates >= WORTH_RANGES { threads::available() } else { 1 };
        let range = shape[axis].div_ceil(ranges);
        let block = range * shape[axis + 1..].iter().product::<usize>();
        Lines { axis, shape: shape.to_vec(), strides: strides(shape), sizes: sizes.to_vec(), block, range }
    }

    /// See [`Targets::each`].
    fn each<I: Copy + Into<i64>>(&self, indices: &[I], block: usize, mut combine: impl FnMut(usize, usize, usize)) {
        let Lines { axis, shape, strides, sizes, range, .. } = self;
        let size = shape[*axis];
        let ranges = size.div_ceil(*range);
        let (mut rest, begin) = (block / ranges, block % ranges * range);
        // Where the block's updates begin, if there are any.
        let (mut first, mut distance) = (0, sizes[*axis..].iter().product::<usize>());
        for d in (0..*axis).rev() {
            let position = rest % shape[d];
            if position >= sizes[d] {
                return;
            }
            first += position * distance;
            distance *= sizes[d];
            rest /= shape[d];
        }
        let last = sizes.len() - 1;
        let row = sizes[last];
        let rows = sizes[*axis..last].iter().product::<usize>();
        let step = usize::from(*axis != last);
        // The position of a row, and where it is in the block but for the axis.
        let mut position = vec![0; last - *axis];
        let mut beside = 0;
        for number in (0..rows).looking(row * COST) {
            let from = first + number * row;
            indices[from..from + row].iter().enumerate().looking_if_long(COST).for_each(|(i, &index)| {
                // What is below the range becomes more than any.
                let place = valid(index.into(), size).wrapping_sub(begin);
                if place < *range {
                    combine(beside + i * step + place * strides[*axis], from + i, 1);
                }
            });
            for d in (0..position.len()).rev() {
                let step = if d == 0 { 0 } else { strides[axis + d] };
                position[d] += 1;
                beside += step;
                if position[d] < sizes[axis + d] {
                    break;
                }
                beside -= step * sizes[axis + d];
                position[d] = 0;
            }
        }
    }
}

impl Targets for Elements<'_> {
    fn block(&self) -> usize {
        self.lines.block
    }

    fn cost(&self) -> usize {
        self.lines.block + self.lines.sizes[self.lines.axis..].iter().product::<usize>() * COST
    }

    fn each(&self, block: usize, combine: impl FnMut(usize, usize, usize)) {
        match self.indices {
            Indices::Int32(indices) => self.lines.each(indices, block, combine),
            Indices::Uint32(indices) => self.lines.each(indices, block, combine),
            Indices::Int64(indices) => self.lines.each(indices, block, combine),
        }
    }
}

/// Slices at coordinates. A block is a slice.
struct Slices {
    run: usize,
    /// For each slice of the input, where its updates begin in the list of all; and after them the end.
    starts: Vec<u32>,
    /// The numbers of the updates, those of a slice beside each other and in their order.
    numbers: Vec<u32>,
}

impl Slices {
    /// A counting sort by slice, in time linear in both.
    fn new(indices: Indices<'_>, count: usize, dimensions: &[usize], run: usize) -> Slices {
        let slices = dimensions.iter().product::<usize>();
        let targets = scratch::collected(count, (0..count).looking(COST).map(|i| indices.place(i, dimensions) as u32));
        let mut starts = scratch::filled(0u32, slices + 1);
        targets.iter().looking(COST).for_each(|&target| starts[target as usize + 1] += 1);
        (0..slices).looking(1).for_each(|i| {
            starts[i + 1] += starts[i];
        });
        let mut next = scratch::collected(slices, starts[..slices].iter().copied());
        let mut numbers = scratch::filled(0u32, count);
        targets.iter().enumerate().looking(COST).for_each(|(number, &target)| {
            let place = &mut next[target as usize];
            numbers[*place as usize] = number as u32;
            *place += 1;
        });
        Slices { run, starts, numbers }
    }
}

impl Targets for Slices {
    fn block(&self) -> usize {
        self.run
    }

    fn cost(&self) -> usize {
        let updates = self.numbers.len().div_ceil(self.starts.len() - 1);
        self.run * (1 + updates)
    }

    fn each(&self, block: usize, mut combine: impl FnMut(usize, usize, usize)) {
        let updates = self.starts[block] as usize..self.starts[block + 1] as usize;
        self.numbers[updates].iter().looking(self.run).for_each(|&number| combine(0, number as usize * self.run, self.run));
    }
}

/// An element of which many are combined.
trait Summed: Arithmetic {
    /// Combines an input with all updates.
    fn all(reduction: Accumulation, input: &[Self], updates: &[Self], output: &mut [Self], targets: &impl Targets) {
        for_each_piece(output, targets.block(), targets.cost(), |first, piece| {
            let block = targets.block();
            looks::copy(&input[first * block..][..piece.len()], piece);
            for (number, totals) in (first..).zip(piece.chunks_mut(block)) {
                combine_all(reduction, totals, updates, |x| x, targets, number);
            }
        });
    }
}

macro_rules! summed {
    ($( $T:ty )*) => { $( impl Summed for $T {} )* };
}

summed! { f32 i8 u8 i32 u32 i64 u64 }

impl Summed for f16 {
    /// In float32, and rounded once.
    fn all(reduction: Accumulation, input: &[f16], updates: &[f16], output: &mut [f16], targets: &impl Targets) {
        let block = targets.block();
        for_each_piece(output, block, targets.cost(), |first, piece| {
            let mut totals = scratch::filled(0f32, block);
            for (number, output) in (first..).zip(piece.chunks_mut(block)) {
                let totals = &mut totals[..output.len()];
                totals.iter_mut().zip(&input[number * block..]).looking_if_long(1).for_each(|(total, x)| *total = x.to_f32());
                combine_all(reduction, totals, updates, f16::to_f32, targets, number);
                output.iter_mut().zip(&*totals).looking_if_long(1).for_each(|(output, &total)| *output = f16::from_f32(total));
            }
        });
    }
}

/// Combines the totals of a block with its updates.
fn combine_all<T: Arithmetic, U: Copy>(
    reduction: Accumulation,
    totals: &mut [T],
    updates: &[U],
    widen: impl Fn(U) -> T,
    targets: &impl Targets,
    block: usize,
) {
    match reduction {
        Accumulation::Add => combine(totals, updates, |total, x| total.add(widen(x)), targets, block),
        Accumulation::Mul => combine(totals, updates, |total, x| total.mul(widen(x)), targets, block),
        Accumulation::Max => combine(totals, updates, |total, x| Arithmetic::max(total, widen(x)), targets, block),
        Accumulation::Min => combine(totals, updates, |total, x| Arithmetic::min(total, widen(x)), targets, block),
    }
}

fn combine<T: Copy, U: Copy>(totals: &mut [T], updates: &[U], combine: impl Fn(T, U) -> T, targets: &impl Targets, block: usize) {
    targets.each(block, |to, from, length| {
        let totals = &mut totals[to..to + length];
        let pairs = totals.iter_mut().zip(&updates[from..from + length]);
        pairs.looking_if_long(1).for_each(|(total, &x)| *total = combine(*total, x));
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::ops::accumulate::Accumulation;
    use half::f16;

    fn found<T: Element>(operator: &str, operands: [Tensor; 3], axis: Option<u32>, reduction: Accumulation) -> Vec<T> {
        let mut values: Vec<_> = (0..3).map(|i| Value::Operand(OperandId(i))).collect();
        values.extend(axis.map(Value::Unsigned));
        values.push(Value::Enumeration(reduction.index()));
        run(operator, &operands, values)[0].elements()
    }

    #[test]
    fn updates_of_one_place_are_combined_in_their_order() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        // 1e8 takes the 1 away where it comes before -1e8.
        let operands =
            |updates: [f32; 3]| [Tensor::of(&[3], [0.0f32, inf, nan]), Tensor::of(&[3], [0i32, 0, 0]), Tensor::of(&[3], updates)];
        let sum = |updates| found::<f32>("accumulateElements", operands(updates), Some(0), Accumulation::Add);
        assert_eq!(sum([1e8, 1.0, -1e8])[..2], [0.0, inf]);
        assert_eq!(sum([1e8, -1e8, 1.0])[..2], [1.0, inf]);
        assert!(sum([0.0; 3])[2].is_nan());
        let extreme = |reduction| found::<f32>("accumulateElements", operands([2.0, nan, 1.0]), Some(0), reduction);
        assert!(extreme(Accumulation::Max)[0].is_nan() && extreme(Accumulation::Min)[0].is_nan());
    }

    #[test]
    fn elements() {
        let operands =
            || [Tensor::of(&[2, 3], 0..6i64), Tensor::of(&[1, 4], [2i64, -1, 9, 0]), Tensor::of(&[1, 4], [10i64, -20, 30, 40])];
        let of = |reduction| found::<i64>("accumulateElements", operands(), Some(1), reduction);
        assert_eq!(of(Accumulation::Add), [40, 1, 22, 3, 4, 5]);
        assert_eq!(of(Accumulation::Mul), [0, 1, -12000, 3, 4, 5]);
        assert_eq!(of(Accumulation::Max), [40, 1, 30, 3, 4, 5]);
        assert_eq!(of(Accumulation::Min), [0, 1, -20, 3, 4, 5]);
        // A corner of the input, along the first axis.
        let corner =
            [Tensor::of(&[3, 3], [0u8; 9]), Tensor::of(&[2, 2], [2i32, 0, 2, 1]), Tensor::of(&[2, 2], [200u8, 1, 100, 2])];
        assert_eq!(found::<u8>("accumulateElements", corner, Some(0), Accumulation::Add), [0, 1, 0, 0, 2, 0, 44, 0, 0]);
    }

    #[test]
    fn slices() {
        let operands = [Tensor::of(&[2, 2], 1..5i32), Tensor::of(&[3, 1], [1i32, 1, -2]), Tensor::of(&[3, 2], 1..7i32)];
        assert_eq!(found::<i32>("accumulateND", operands, None, Accumulation::Add), [6, 8, 7, 10]);
    }

    /// Many updates of many places, by threads, against sums of one after the other.
    #[test]
    fn many_updates() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let (rows, columns, count) = (500usize, 70usize, 3000usize);
        let input: Vec<f32> = (0..rows * columns).map(|i| i as f32 * 0.37).collect();
        let updates: Vec<f32> = (0..count * columns).map(|i| 1e-3 * (i * 7919 % 1013) as f32).collect();
        let target = |i: usize| (i * i * 31 % 997) % rows;
        let mut expected = input.clone();
        for i in 0..count {
            (0..columns).for_each(|c| expected[target(i) * columns + c] += updates[i * columns + c]);
        }
        let places: Vec<i32> = (0..count).map(|i| target(i) as i32).collect();
        let (rows, columns, count) = (rows as u32, columns as u32, count as u32);
        let of = |indices: Tensor| {
            [Tensor::of(&[rows, columns], input.clone()), indices, Tensor::of(&[count, columns], updates.clone())]
        };
        let slices = of(Tensor::of(&[count, 1], places.clone()));
        let found = pool.install(|| found::<f32>("accumulateND", slices, None, Accumulation::Add));
        assert!(found == expected);
        let spread = places.iter().flat_map(|&place| vec![place; columns as usize]);
        let elements = of(Tensor::of(&[count, columns], spread));
        let found = pool.install(|| self::found::<f32>("accumulateElements", elements, Some(0), Accumulation::Add));
        assert!(found == expected);
        // Along the middle axis, of a corner of the batches and columns.
        let (batches, size, inner, some) = (40usize, 30usize, 50usize, 200usize);
        let input: Vec<i64> = (0..batches * size * inner).map(|i| i as i64).collect();
        let shape = [batches - 1, some, inner - 3];
        let total: usize = shape.iter().product();
        let indices: Vec<i64> = (0..total).map(|i| (i * 17 % size) as i64).collect();
        let mut expected = input.clone();
        for i in 0..total {
            let (batch, column) = (i / shape[2] / shape[1], i % shape[2]);
            expected[(batch * size + indices[i] as usize) * inner + column] += i as i64;
        }
        let of = |shape: &[usize]| shape.iter().map(|&size| size as u32).collect::<Vec<_>>();
        let operands = [
            Tensor::of(&of(&[batches, size, inner]), input),
            Tensor::of(&of(&shape), indices),
            Tensor::of(&of(&shape), 0..total as i64),
        ];
        let found = pool.install(|| self::found::<i64>("accumulateElements", operands, Some(1), Accumulation::Add));
        assert!(found == expected);
    }

    #[test]
    fn float16_is_rounded_once() {
        let halves = |shape: &[u32], x: &[f32]| Tensor::of(shape, x.iter().map(|&x| f16::from_f32(x)));
        let operands = [halves(&[1], &[65504.0]), Tensor::of(&[3, 1], [0i32; 3]), halves(&[3], &[65504.0, -65504.0, -1.0])];
        assert_eq!(found::<f16>("accumulateND", operands, None, Accumulation::Add), [f16::from_f32(65504.0)]);
    }
}
