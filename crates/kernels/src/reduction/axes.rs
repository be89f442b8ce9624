//! Sums, means, norms and extremes of float32 along axes.
//!
//! The numbers of an output that lie side by side are a *run*, which vectors go along. Where there is no run, outputs lie
//! side by side, as do their first numbers, their second ones, and so on; then a vector has a number of each output, and
//! memory is read row by row. Sums are float64 ones: they neither overflow nor cancel.
#![allow(unsafe_code)]

use super::accumulators::{Extreme, NUMBERS, SIZES, SQUARES, Sum, Total, greater};
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use std::ops::Range;

/// Rows that are added before the totals are stored again.
const ROWS: usize = 4;
/// Totals of a run, none of which waits for the one before it.
const CHAINS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Sum,
    Sizes,
    Squares,
    Norm,
    LogSum,
    Mean,
    Greatest,
    Smallest,
}

/// A reduction. Loops are innermost first: their sizes, and the distances in the input.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    pub kind: Kind,
    /// Those over the output.
    pub kept: &'a [(usize, usize)],
    /// Those over the numbers of an output, without the run.
    pub reduced: &'a [(usize, usize)],
    pub run: usize,
    /// The numbers of an output.
    pub count: usize,
    /// Among these.
    pub pauses: Pauses,
}

impl Reduction<'_> {
    /// Computes the totals of outputs from `first` on, of those of their numbers that are in a range.
    pub fn totals(&self, isa: &Isa, input: &[f32], first: usize, range: Range<usize>, totals: &mut [f64]) {
        with_vectors(isa, PartialTotals { of: self, input, first, range, totals });
    }

    /// The total of those of two parts.
    pub fn join(&self, a: f64, b: f64) -> f64 {
        match self.kind {
            Kind::Greatest => greater(a, b),
            Kind::Smallest => -greater(-a, -b),
            _ => a + b,
        }
    }

    /// Makes results of totals.
    pub fn finish(&self, isa: &Isa, totals: &[f64], outputs: &mut [f32]) {
        with_vectors(isa, Results { kind: self.kind, count: self.count as f64, totals, outputs });
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
struct PartialTotals<'a> {
    of: &'a Reduction<'a>,
    input: &'a [f32],
    first: usize,
    range: Range<usize>,
    totals: &'a mut [f64],
}

impl OnVectors for PartialTotals<'_> {
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

impl PartialTotals<'_> {
    #[inline(always)]
    fn fold<T: Total>(self) {
        if self.of.run > 1 { self.runs::<T>() } else { self.rows::<T>() }
    }

    #[inline(always)]
    fn runs<T: Total>(self) {
        let PartialTotals { of: &Reduction { kept, reduced, run, pauses, .. }, input, first, range, totals } = self;
        for (i, total) in totals.iter_mut().enumerate() {
            let base = place(first + i, kept);
            let mut chains = [T::start(); CHAINS];
            let (mut position, mut paused) = (range.start, range.start);
            while position < range.end {
                let (number, from) = (position / run, position % run);
                let length = (run - from).min(range.end - position);
                let start = base + place(number, reduced) + from;
                fold_run(&input[start..start + length], pauses, &mut chains);
                position += length;
                if position - paused >= pauses.every {
                    (pauses.pause)(position - paused);
                    paused = position;
                }
            }
            let [a, b, c, d] = chains;
            *total = a.join(b).join(c.join(d)).across();
        }
    }

    #[inline(always)]
    fn rows<T: Total>(self) {
        let PartialTotals { of: &Reduction { kept, reduced, pauses, .. }, input, first, range, totals } = self;
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
            for part in pauses.whole_parts(range.len(), ROWS, length) {
                let (mut number, end) = (range.start + part.start, range.start + part.end);
                while number + ROWS <= end {
                    add_rows(&mut vectors, std::array::from_fn::<_, ROWS, _>(|i| from(number + i)));
                    number += ROWS;
                }
                for number in number..end {
                    add_rows(&mut vectors, [from(number)]);
                }
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
fn fold_run<T: Total>(run: &[f32], pauses: Pauses, chains: &mut [T; CHAINS]) {
    let start = run.as_ptr();
    let mut i = 0;
    for part in pauses.whole_parts(run.len(), CHAINS * T::LANES, 1) {
        while i + CHAINS * T::LANES <= part.end {
            for (j, chain) in chains.iter_mut().enumerate() {
                // SAFETY: so many whole vectors lie at `i`.
                *chain = unsafe { chain.add(start.add(i + j * T::LANES)) };
            }
            i += CHAINS * T::LANES;
        }
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
struct Results<'a> {
    kind: Kind,
    count: f64,
    totals: &'a [f64],
    outputs: &'a mut [f32],
}

impl OnVectors for Results<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Results { kind, count, totals, outputs } = self;
        let results = outputs.iter_mut().zip(totals);
        match kind {
            Kind::Mean => results.for_each(|(result, total)| *result = (total / count) as f32),
            Kind::Norm => results.for_each(|(result, total)| *result = total.sqrt() as f32),
            Kind::LogSum => results.for_each(|(result, total)| *result = total.ln() as f32),
            _ => results.for_each(|(result, total)| *result = *total as f32),
        }
    }
}
