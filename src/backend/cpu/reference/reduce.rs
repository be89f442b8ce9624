//! Reductions along axes.

use super::arithmetic::{Accumulate, Arithmetic, Total};
use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::looks::{self, Looking};

pub fn reduce(op: &Reduce, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let layout = Layout::new(input.shape, |axis| op.reduces(axis));
    let reduction = Reduction { input, output, layout };
    match op.kind {
        ReduceKind::Product if input.data_type.is_float() => with_float!(input.data_type, T => reduction.float::<T>(op.kind)),
        ReduceKind::L1 | ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::Product => {
            with_element!(input.data_type, T => reduction.total::<T>(op.kind));
        }
        ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp | ReduceKind::Mean => {
            with_float!(input.data_type, T => reduction.float::<T>(op.kind));
        }
        ReduceKind::Max => with_element!(input.data_type, T => reduction.extreme::<T>(T::LOWEST, Arithmetic::max)),
        ReduceKind::Min => with_element!(input.data_type, T => reduction.extreme::<T>(T::HIGHEST, Arithmetic::min)),
    }
}

/// What a reduction does to the values: each is lifted, all lifted ones are combined, and the result is finished.
struct Formula<A, Lift, Combine, Finish> {
    /// What changes nothing when it is combined.
    identity: A,
    lift: Lift,
    /// Associative and commutative, so that the order does not matter.
    combine: Combine,
    finish: Finish,
}

struct Reduction<'a, 'b, 'c> {
    input: View<'a>,
    output: &'c mut ViewMut<'b>,
    layout: Layout,
}

impl Reduction<'_, '_, '_> {
    fn total<T: Accumulate>(self, kind: ReduceKind) {
        let (identity, finish) = (T::Total::ZERO, T::narrow);
        let sum = <T::Total as Total>::plus;
        match kind {
            ReduceKind::L1 => self.run(Formula { identity, lift: |x: T| x.abs().widen(), combine: sum, finish }),
            ReduceKind::SumSquare => {
                self.run(Formula { identity, lift: |x: T| x.widen().times(x.widen()), combine: sum, finish });
            }
            ReduceKind::Product => {
                let identity = T::Total::ONE;
                self.run(Formula { identity, lift: T::widen, combine: <T::Total as Total>::times, finish });
            }
            _ => self.run(Formula { identity, lift: T::widen, combine: sum, finish }),
        }
    }

    fn float<T: Float>(self, kind: ReduceKind) {
        let count = self.layout.reduced_count as f64;
        let combine = |a: f64, b: f64| a + b;
        let lift = T::to_f64;
        match kind {
            ReduceKind::L2 => {
                let lift = |x: T| x.to_f64() * x.to_f64();
                self.run(Formula { identity: 0.0, lift, combine, finish: |sum: f64| T::from_f64(sum.sqrt()) });
            }
            ReduceKind::Product => self.run(Formula {
                identity: Product::of(1.0),
                lift: |x: T| Product::of(x.to_f64()),
                combine: Product::times,
                finish: |product: Product| T::from_f64(product.value()),
            }),
            ReduceKind::LogSum => self.run(Formula { identity: 0.0, lift, combine, finish: |sum: f64| T::from_f64(sum.ln()) }),
            ReduceKind::LogSumExp => self.run(Formula {
                identity: Exponentials { greatest: f64::NEG_INFINITY, sum: 0.0 },
                lift: |x: T| Exponentials { greatest: x.to_f64(), sum: 1.0 },
                combine: Exponentials::plus,
                finish: |total: Exponentials| T::from_f64(total.greatest + total.sum.ln()),
            }),
            _ => self.run(Formula { identity: 0.0, lift, combine, finish: move |sum: f64| T::from_f64(sum / count) }),
        }
    }

    fn extreme<T: Arithmetic>(self, identity: T, combine: impl Fn(T, T) -> T + Sync) {
        self.run(Formula { identity, lift: |x: T| x, combine, finish: |x: T| x });
    }

    fn run<T: Element, A: Copy + Send + Sync>(
        self,
        formula: Formula<A, impl Fn(T) -> A + Sync, impl Fn(A, A) -> A + Sync, impl Fn(A) -> T + Sync>,
    ) {
        let input = self.input.elements::<T>();
        let Layout { kept, row, run, offsets, reduced_count } = &self.layout;
        let Formula { identity, lift, combine, finish } = &formula;
        for_each_piece(self.output.elements::<T>(), 1, *reduced_count, |first, piece| {
            if *run > 1 {
                // Outputs whose values lie side by side: one after the other.
                for (i, output) in piece.iter_mut().enumerate() {
                    let base = place(first + i, kept);
                    let folded = offsets.iter().looking(*run).fold(*identity, |total, offset| {
                        combine(total, fold(&input[base + offset..][..*run], *identity, lift, combine))
                    });
                    *output = finish(folded);
                }
                return;
            }
            // Rows of outputs whose first values lie side by side, as do the second ones, and so on: row by row.
            let mut totals = Vec::new();
            let (mut position, mut rest) = (first, piece);
            while !rest.is_empty() {
                let length = (row - position % row).min(rest.len()).min(ROW);
                let base = place(position, kept);
                totals.clear();
                totals.resize(length, *identity);
                offsets.iter().looking(length).for_each(|offset| {
                    for (total, &x) in totals.iter_mut().zip(&input[base + offset..][..length]) {
                        *total = combine(*total, lift(x));
                    }
                });
                let (outputs, others) = rest.split_at_mut(length);
                outputs.iter_mut().zip(&totals).for_each(|(output, &total)| *output = finish(total));
                position += length;
                rest = others;
            }
        });
    }
}

/// So many totals stay in the first-level cache.
const ROW: usize = 1024;

/// Combines values that lie side by side, in several chains that do not wait for each other.
fn fold<T: Copy, A: Copy>(values: &[T], identity: A, lift: impl Fn(T) -> A, combine: impl Fn(A, A) -> A) -> A {
    let mut chains = [identity; 8];
    // Whole rounds of the chains.
    let together = looks::longest().next_multiple_of(8);
    for (number, values) in values.chunks(together).enumerate() {
        if number > 0 {
            looks::worked(together);
        }
        for values in values.chunks(8) {
            for (total, &x) in chains.iter_mut().zip(values) {
                *total = combine(*total, lift(x));
            }
        }
    }
    chains.into_iter().fold(identity, combine)
}

/// Where the values of a reduction lie in the input.
struct Layout {
    /// The loops over the output, innermost first: their sizes, and the distances in the input.
    kept: Vec<(usize, usize)>,
    /// The size of the innermost loop over the output.
    row: usize,
    /// How many values of one output lie side by side.
    run: usize,
    /// Where these runs begin, from the first value of an output.
    offsets: Vec<usize>,
    /// The number of values of one output.
    reduced_count: usize,
}

impl Layout {
    fn new(shape: &[usize], is_reduced: impl Fn(usize) -> bool) -> Layout {
        let mut layout = Layout { kept: Vec::new(), row: 1, run: 1, offsets: vec![0], reduced_count: 1 };
        let mut reduced: Vec<(usize, usize)> = Vec::new();
        let mut stride = 1;
        for (axis, &size) in shape.iter().enumerate().rev() {
            let loops = if is_reduced(axis) { &mut reduced } else { &mut layout.kept };
            match loops.last_mut() {
                // Dimensions that follow each other are one loop.
                Some((inner_size, inner_stride)) if *inner_stride * *inner_size == stride => *inner_size *= size,
                _ if size == 1 => {}
                _ => loops.push((size, stride)),
            }
            stride *= size;
        }
        layout.reduced_count = reduced.iter().map(|(size, _)| size).product();
        layout.row = layout.kept.first().map_or(1, |&(size, _)| size);
        if reduced.first().is_some_and(|&(_, stride)| stride == 1) {
            layout.run = reduced.remove(0).0;
        }
        for (size, stride) in reduced {
            let inner = std::mem::take(&mut layout.offsets);
            let offsets = (0..size).flat_map(|i| inner.iter().map(move |offset| i * stride + offset));
            layout.offsets = scratch::collected(size * inner.len(), offsets);
        }
        layout
    }
}

/// The place in the input of the first value of an output.
fn place(mut output: usize, kept: &[(usize, usize)]) -> usize {
    let mut place = 0;
    for &(size, stride) in kept {
        place += output % size * stride;
        output /= size;
    }
    place
}

/// A product of floats as `digits * 2^(512 steps)`, with digits from 2^-256 to 2^256 if they are not 0 or infinite, so that no part of
/// it overflows or vanishes.
#[derive(Clone, Copy)]
pub struct Product {
    digits: f64,
    steps: i32,
}

impl Product {
    pub fn of(number: f64) -> Product {
        Product { digits: number, steps: 0 }
    }

    pub fn times(self, other: Self) -> Self {
        let (digits, steps) = (self.digits * other.digits, self.steps + other.steps);
        if digits.abs() > 2f64.powi(256) {
            Product { digits: digits * 2f64.powi(-512), steps: steps + 1 }
        } else if digits.abs() < 2f64.powi(-256) && digits != 0.0 {
            Product { digits: digits * 2f64.powi(512), steps: steps - 1 }
        } else {
            Product { digits, steps }
        }
    }

    pub fn value(self) -> f64 {
        // Beyond one step it is infinite or 0 in all float types.
        self.digits * 2f64.powi(512 * self.steps.clamp(-1, 1)) * 2f64.powi(512 * (self.steps / 2).signum())
    }
}

/// A sum of exponentials, as `exp(greatest) * sum`, which does not overflow.
#[derive(Clone, Copy)]
struct Exponentials {
    greatest: f64,
    sum: f64,
}

impl Exponentials {
    fn plus(self, other: Self) -> Self {
        if self.greatest == other.greatest {
            // Infinities as well, whose difference would not be a number.
            Exponentials { sum: self.sum + other.sum, ..self }
        } else if self.greatest > other.greatest {
            Exponentials { sum: self.sum + other.sum * (other.greatest - self.greatest).exp(), ..self }
        } else if other.greatest > self.greatest {
            Exponentials { sum: other.sum + self.sum * (self.greatest - other.greatest).exp(), ..other }
        } else {
            Exponentials { greatest: f64::NAN, sum: f64::NAN }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;
    use half::f16;

    fn reduce<T: Element>(name: &str, input: Tensor, axes: Option<&[u32]>) -> Vec<T> {
        let axes = axes.map_or(Value::Absent, |axes| Value::UnsignedList(axes.to_vec()));
        run(name, &[input], vec![Value::Operand(OperandId(0)), axes])[0].elements()
    }

    /// Sums by every subset of axes, against sums of single elements.
    #[test]
    fn every_choice_of_axes() {
        let shape = [3u32, 2, 1, 5, 4];
        let count: u32 = shape.iter().product();
        let input: Vec<i64> = (0..count as i64).map(|x| x * x).collect();
        for choice in 0..1 << shape.len() {
            let axes: Vec<u32> = (0..shape.len() as u32).filter(|axis| choice >> axis & 1 == 1).collect();
            let kept_size = |axis: usize| if axes.contains(&(axis as u32)) { 1 } else { shape[axis] as usize };
            let mut expected = vec![0; (0..shape.len()).map(kept_size).product()];
            for (element, x) in input.iter().enumerate() {
                let (mut rest, mut place, mut stride) = (element, 0, 1);
                for axis in (0..shape.len()).rev() {
                    place += rest % shape[axis] as usize % kept_size(axis) * stride;
                    rest /= shape[axis] as usize;
                    stride *= kept_size(axis);
                }
                expected[place] += x;
            }
            let found: Vec<i64> = reduce("reduceSum", Tensor::of(&shape, input.clone()), Some(&axes));
            assert_eq!(found, expected, "{axes:?}");
        }
    }

    #[test]
    fn formulas() {
        let input = || Tensor::of(&[4], [1.0f32, -2.0, 3.0, -4.0]);
        for (name, expected) in [
            ("reduceL1", 10.0),
            ("reduceL2", 30f32.sqrt()),
            ("reduceMax", 3.0),
            ("reduceMean", -0.5),
            ("reduceMin", -4.0),
            ("reduceProduct", 24.0),
            ("reduceSum", -2.0),
            ("reduceSumSquare", 30.0),
        ] {
            assert_eq!(reduce::<f32>(name, input(), None), [expected], "{name}");
            assert!(reduce::<f32>(name, Tensor::of(&[], [4.0f32]), None)[0] > 0.0, "{name}");
        }
        assert_eq!(reduce::<f32>("reduceLogSum", Tensor::of(&[2], [1.0f32, 2.0]), None), [3f32.ln()]);
        assert_eq!(reduce::<f32>("reduceLogSum", input(), Some(&[]))[0], 0.0);
    }

    #[test]
    fn a_sum_of_exponentials_does_not_overflow() {
        let exponentials = |values: [f32; 3]| reduce::<f32>("reduceLogSumExp", Tensor::of(&[3], values), None)[0];
        let (ln_3, infinity) = (3f32.ln(), f32::INFINITY);
        assert_eq!(exponentials([0.0; 3]), ln_3);
        assert_eq!(exponentials([1e30, 1.0, -1e30]), 1e30);
        assert_eq!(exponentials([1.0, infinity, infinity]), infinity);
        assert_eq!(exponentials([-infinity; 3]), -infinity);
        assert!(exponentials([0.0, f32::NAN, infinity]).is_nan());
    }

    #[test]
    fn integers_wrap_and_float16_is_rounded_once() {
        assert_eq!(reduce::<i32>("reduceL1", Tensor::of(&[2], [i32::MIN, 1]), None), [i32::MIN + 1]);
        assert_eq!(reduce::<u32>("reduceSumSquare", Tensor::of(&[2], [1 << 16, 3u32]), None), [9]);
        assert_eq!(reduce::<u64>("reduceProduct", Tensor::of(&[2], [1 << 63, 3u64]), None), [1 << 63]);
        let ones = Tensor::of(&[4096], vec![f16::ONE; 4096]);
        assert_eq!(reduce::<f16>("reduceSum", ones, None), [f16::from_f32(4096.0)]);
    }

    #[test]
    fn extremes_propagate_nan() {
        for name in ["reduceMax", "reduceMin"] {
            assert!(reduce::<f32>(name, Tensor::of(&[3], [1.0, f32::NAN, 2.0]), None)[0].is_nan());
        }
        assert_eq!(reduce::<u8>("reduceMax", Tensor::of(&[2, 2], [1u8, 255, 3, 4]), Some(&[0])), [3, 255]);
    }
}
