//! Sums, means, norms and extremes of float32 along axes.
//!
//! The numbers of an output that lie side by side are a *run*, which vectors go along. Where there is no run, outputs lie
//! side by side, as do their first numbers, their second ones, and so on; then a vector has a number of each output, and
//! memory is read row by row. Sums are float64 ones, as those of the reference kernel: they neither overflow nor cancel.
#![allow(unsafe_code)]

use super::accumulators::{Extreme, NUMBERS, SIZES, SQUARES, Sum, Total, greater};
use super::isa::Isa;
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;
use std::ops::Range;

/// Runs and rows shorter than this leave the vectors empty.
const SHORTEST: usize = 4;
/// Outputs that are computed together: their totals stay in the first-level cache.
const TOGETHER: usize = 1024;
/// Fewer numbers are not worth a part of their own.
const LEAST_PART: usize = 1 << 14;
/// Rows that are added before the totals are stored again.
const ROWS: usize = 4;
/// Totals of a run, none of which waits for the one before it.
const CHAINS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sum,
    Sizes,
    Squares,
    Norm,
    LogSum,
    Mean,
    Greatest,
    Smallest,
}

/// Nested loops, innermost first: their sizes, and the distances in the input.
type Loops = Vec<(usize, usize)>;

#[derive(Debug)]
struct Reduction {
    isa: &'static Isa,
    kind: Kind,
    input: OperandId,
    /// Those over the output.
    kept: Loops,
    /// Those over the numbers of an output, without the run.
    reduced: Loops,
    run: usize,
    /// The numbers of an output.
    count: usize,
    /// Into how many parts these are divided, where there are too few outputs for the threads.
    parts: usize,
}

/// Reductions along any axes.
pub static REDUCE: Implementation = Implementation { name: "reduce.axes", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Reduce(op) = problem.op else { return Err(Reject("not a reduction")) };
    let kind = match op.kind {
        ReduceKind::Sum => Kind::Sum,
        ReduceKind::L1 => Kind::Sizes,
        ReduceKind::SumSquare => Kind::Squares,
        ReduceKind::L2 => Kind::Norm,
        ReduceKind::LogSum => Kind::LogSum,
        ReduceKind::Mean => Kind::Mean,
        ReduceKind::Max => Kind::Greatest,
        ReduceKind::Min => Kind::Smallest,
        ReduceKind::Product | ReduceKind::LogSumExp => return Err(Reject("a product or a logarithm of exponentials")),
    };
    let shape = problem.input(op.input).shape;
    let kernel = Reduction::new(target, kind, op.input, shape, |axis| op.reduces(axis)).ok_or(SHORT_ROWS)?;
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

const SHORT_ROWS: Reject = Reject("rows too short for vectors");

/// Pooling of whole images, with the channels first.
pub static GLOBAL_POOL: Implementation = Implementation { name: "pool.global_nchw", accept: accept_pool };

fn accept_pool<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Pool2d(op) = problem.op else { return Err(Reject("not a pooling")) };
    let kind = match op.kind {
        Pool2dKind::Average => Kind::Mean,
        Pool2dKind::L2 => Kind::Norm,
        Pool2dKind::Max => Kind::Greatest,
    };
    let shape = problem.input(op.input).shape;
    require(op.layout == InputOperandLayout::Nchw, "channels not first")?;
    require(op.is_global([shape[2] as u32, shape[3] as u32]), "a window smaller than the image")?;
    let kernel = Reduction::new(target, kind, op.input, shape, |axis| axis >= 2).ok_or(SHORT_ROWS)?;
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

impl Reduction {
    fn new(
        target: &Target,
        kind: Kind,
        input: OperandId,
        shape: &[usize],
        is_reduced: impl Fn(usize) -> bool,
    ) -> Option<Reduction> {
        let Target { isa, threads, .. } = *target;
        let (mut kept, mut reduced) = (Loops::new(), Loops::new());
        let mut distance = 1;
        for (axis, &size) in shape.iter().enumerate().rev().filter(|(_, size)| **size != 1) {
            let loops = if is_reduced(axis) { &mut reduced } else { &mut kept };
            match loops.last_mut() {
                // Dimensions that follow each other are one loop.
                Some((inner, step)) if *step * *inner == distance => *inner *= size,
                _ => loops.push((size, distance)),
            }
            distance *= size;
        }
        let of_loops = |loops: &[(usize, usize)]| loops.iter().map(|(size, _)| size).product::<usize>();
        let (outputs, count) = (of_loops(&kept), of_loops(&reduced));
        let has_run = reduced.first()?.1 == 1;
        let run = if has_run { reduced.remove(0).0 } else { 1 };
        let row = if has_run { run } else { kept.first()?.0 };
        // Neighbours in a row should be as long as a few lines of the cache.
        let least_outputs = threads * 4 * if has_run { 1 } else { 256 };
        let parts = match threads {
            1 => 1,
            _ if outputs >= least_outputs => 1,
            _ => (threads * 4).min(outputs.saturating_mul(count) / LEAST_PART).min(count).max(1),
        };
        (row >= SHORTEST).then_some(Reduction { isa, kind, input, kept, reduced, run, count, parts })
    }

    /// Computes the totals of outputs from `first` on, of those of their numbers that are in a range.
    fn totals(&self, input: &[f32], first: usize, range: Range<usize>, totals: &mut [f64]) {
        with_vectors(self.isa, Part { of: self, input, first, range, totals });
    }

    /// The total of those of two parts.
    fn join(&self, a: f64, b: f64) -> f64 {
        match self.kind {
            Kind::Greatest => greater(a, b),
            Kind::Smallest => -greater(-a, -b),
            _ => a + b,
        }
    }

    fn finish(&self, totals: &[f64], outputs: &mut [f32]) {
        with_vectors(self.isa, Finish { kind: self.kind, count: self.count as f64, totals, outputs });
    }
}

impl Kernel for Reduction {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let outputs = arguments.output().elements::<f32>();
        let count = self.count;
        assert_eq!(input.len(), outputs.len() * count);
        if self.parts == 1 {
            return for_each_piece(outputs, 1, count / 8, |first, piece| {
                let mut totals = [0.0; TOGETHER];
                for (i, outputs) in piece.chunks_mut(TOGETHER).enumerate() {
                    let totals = &mut totals[..outputs.len()];
                    self.totals(input, first + i * TOGETHER, 0..count, totals);
                    self.finish(totals, outputs);
                }
            });
        }
        let mut all = scratch::zeroed::<f64>(self.parts * outputs.len());
        for_each_piece(&mut all, outputs.len(), input.len() / 8 / self.parts, |first, piece| {
            for (part, totals) in (first..).zip(piece.chunks_exact_mut(outputs.len())) {
                let range = part * count / self.parts..(part + 1) * count / self.parts;
                for (i, totals) in totals.chunks_mut(TOGETHER).enumerate() {
                    self.totals(input, i * TOGETHER, range.clone(), totals);
                }
            }
        });
        let (totals, others) = all.split_at_mut(outputs.len());
        for others in others.chunks_exact(outputs.len()) {
            totals.iter_mut().zip(others).for_each(|(total, &other)| *total = self.join(*total, other));
        }
        self.finish(totals, outputs);
    }
}

/// The place in the input of a position in nested loops.
#[inline(always)]
fn place(position: usize, loops: &[(usize, usize)]) -> usize {
    let Some(((_, farthest), inner)) = loops.split_last() else { return 0 };
    let (mut position, mut place) = (position, 0);
    for &(size, distance) in inner {
        place += position % size * distance;
        position /= size;
    }
    place + position * farthest
}

/// Some outputs, and some of their numbers.
struct Part<'a> {
    of: &'a Reduction,
    input: &'a [f32],
    first: usize,
    range: Range<usize>,
    totals: &'a mut [f64],
}

impl OnVectors for Part<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.of.kind {
            Kind::Sum | Kind::Mean | Kind::LogSum => self.fold::<Sum<V::Doubles, NUMBERS>>(),
            Kind::Sizes => self.fold::<Sum<V::Doubles, SIZES>>(),
            Kind::Squares | Kind::Norm => self.fold::<Sum<V::Doubles, SQUARES>>(),
            Kind::Greatest => self.fold::<Extreme<V, false>>(),
            Kind::Smallest => self.fold::<Extreme<V, true>>(),
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn fold<T: Total>(self) {
        if self.of.run > 1 { self.runs::<T>() } else { self.rows::<T>() }
    }

    #[inline(always)]
    fn runs<T: Total>(self) {
        let Part { of: Reduction { kept, reduced, run, .. }, input, first, range, totals } = self;
        for (i, total) in totals.iter_mut().enumerate() {
            let base = place(first + i, kept);
            let mut chains = [T::start(); CHAINS];
            let mut position = range.start;
            while position < range.end {
                let (number, from) = (position / run, position % run);
                let length = (run - from).min(range.end - position);
                let start = base + place(number, reduced) + from;
                fold_run(&input[start..start + length], &mut chains);
                position += length;
            }
            let [a, b, c, d] = chains;
            *total = a.join(b).join(c.join(d)).across();
        }
    }

    #[inline(always)]
    fn rows<T: Total>(self) {
        let Part { of: Reduction { kept, reduced, .. }, input, first, range, totals } = self;
        let row = kept[0].0;
        let mut vectors: Vec<T> = Vec::new();
        let mut done = 0;
        while done < totals.len() {
            let position = first + done;
            let length = (row - position % row).min(totals.len() - done);
            let base = place(position, kept);
            vectors.clear();
            vectors.resize(length.div_ceil(T::LANES), T::start());
            let from = |number: usize| &input[base + place(number, reduced)..][..length];
            let mut number = range.start;
            while number + ROWS <= range.end {
                add_rows(&mut vectors, std::array::from_fn::<_, ROWS, _>(|i| from(number + i)));
                number += ROWS;
            }
            for number in number..range.end {
                add_rows(&mut vectors, [from(number)]);
            }
            for (vector, totals) in vectors.iter().zip(totals[done..done + length].chunks_mut(T::LANES)) {
                let mut lanes = [0.0; MOST_LANES];
                // SAFETY: no register is longer.
                unsafe { vector.store(lanes.as_mut_ptr()) };
                totals.copy_from_slice(&lanes[..totals.len()]);
            }
            done += length;
        }
    }
}

#[inline(always)]
fn fold_run<T: Total>(run: &[f32], chains: &mut [T; CHAINS]) {
    let start = run.as_ptr();
    let mut i = 0;
    while i + CHAINS * T::LANES <= run.len() {
        for (j, chain) in chains.iter_mut().enumerate() {
            // SAFETY: so many whole vectors lie at `i`.
            *chain = unsafe { chain.add(start.add(i + j * T::LANES)) };
        }
        i += CHAINS * T::LANES;
    }
    let mut j = 0;
    while i + T::LANES <= run.len() {
        // SAFETY: a whole vector lies at `i`.
        chains[j] = unsafe { chains[j].add(start.add(i)) };
        i += T::LANES;
        j += 1;
    }
    if i < run.len() {
        chains[CHAINS - 1] = chains[CHAINS - 1].add_rest(run, i);
    }
}

/// Adds the numbers of rows to the totals of their columns.
#[inline(always)]
fn add_rows<T: Total, const COUNT: usize>(totals: &mut [T], rows: [&[f32]; COUNT]) {
    let length = rows[0].len();
    assert!(rows.iter().all(|row| row.len() == length) && totals.len() == length.div_ceil(T::LANES));
    for (i, total) in totals.iter_mut().enumerate() {
        let first = i * T::LANES;
        for row in rows {
            // SAFETY: each row has a vector, or what is left of it, from `first` on, by the lengths that were asserted.
            *total = unsafe {
                let from = row.as_ptr().add(first);
                if first + T::LANES <= length { total.add(from) } else { total.add_first(from, length - first) }
            };
        }
    }
}

/// Makes results of totals.
struct Finish<'a> {
    kind: Kind,
    count: f64,
    totals: &'a [f64],
    outputs: &'a mut [f32],
}

impl OnVectors for Finish<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Finish { kind, count, totals, outputs } = self;
        let results = outputs.iter_mut().zip(totals);
        match kind {
            Kind::Mean => results.for_each(|(result, total)| *result = (total / count) as f32),
            Kind::Norm => results.for_each(|(result, total)| *result = total.sqrt() as f32),
            Kind::LogSum => results.for_each(|(result, total)| *result = total.ln() as f32),
            _ => results.for_each(|(result, total)| *result = *total as f32),
        }
    }
}
