//! Attention with a state of a fixed size: columns of a head's state, token by token.
//!
//! Columns do not depend on each other. Some vectors of them go through all rows twice for each token: what the state has for the key is
//! found first, then it is changed and multiplied with the query.
#![allow(unsafe_code)]

use crate::functions::Function;
use crate::functions::formulas::Formula;
use crate::isa::Isa;
use crate::output::SharedOutput;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// Numbers of tokens: those of each begin so many after those of the one before.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    pub numbers: &'a [f32],
    pub distance: usize,
}

impl<'a> Rows<'a> {
    /// Of a matrix with such rows, from a column on.
    pub fn new(numbers: &'a [f32], distance: usize, column: usize) -> Rows<'a> {
        Rows { numbers: &numbers[column.min(numbers.len())..], distance }
    }

    #[inline(always)]
    fn of(&self, token: usize, count: usize) -> &'a [f32] {
        &self.numbers[token * self.distance..][..count]
    }
}

/// A query of a head, and where its results begin in the output.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub rows: Rows<'a>,
    pub first: usize,
}

/// Some columns of a head's state.
pub struct Columns<'a> {
    /// `keys` rows of `width` numbers, or of more of which the first count.
    pub state: &'a mut [f32],
    pub width: usize,
    pub keys: usize,
    pub tokens: std::ops::Range<usize>,
    pub key: Rows<'a>,
    pub value: Rows<'a>,
    pub queries: &'a [Query<'a>],
    /// What is left of a row of the state: a number for each of them, or one.
    pub factors: Option<(Rows<'a>, usize)>,
    pub rate: Option<Rows<'a>>,
    pub scale: f32,
    /// Written at `first`, and for each token so many numbers later.
    pub output: &'a SharedOutput<'a>,
    pub distance: usize,
}

/// Exponents are replaced by their powers of e.
pub struct Powers<'a>(pub &'a mut [f32]);

impl Powers<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Powers<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        Formula::Of(Function::Exp).apply::<V>(self.0);
    }
}

/// Vectors of columns that are computed together.
const VECTORS: usize = 4;

impl Columns<'_> {
    /// Numbers of a state with so many columns: its rows are whole vectors.
    pub fn length(isa: &Isa, keys: usize, width: usize) -> usize {
        keys * width.next_multiple_of(isa.lanes())
    }

    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Columns<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let row = self.width.next_multiple_of(V::LANES);
        assert!(self.state.len() >= self.keys * row);
        let mut first = 0;
        while first < self.width {
            match (self.width - first).div_ceil(V::LANES) {
                VECTORS.. => {
                    self.columns::<V, VECTORS>(first, row);
                    first += VECTORS * V::LANES;
                }
                2.. => {
                    self.columns::<V, 2>(first, row);
                    first += 2 * V::LANES;
                }
                _ => {
                    self.columns::<V, 1>(first, row);
                    first += V::LANES;
                }
            }
        }
    }
}

impl Columns<'_> {
    /// Goes through the tokens with so many vectors of columns, of which the last one may be filled up.
    #[inline(always)]
    fn columns<V: Vector, const COUNT: usize>(&mut self, first: usize, row: usize) {
        let keys = self.keys;
        let width = (self.width - first).min(COUNT * V::LANES);
        // Of the last vector.
        let left = width - (COUNT - 1) * V::LANES;
        let lanes = |n: usize| if n + 1 < COUNT { V::LANES } else { left };
        assert!(first + COUNT * V::LANES <= row && keys * row <= self.state.len());
        // SAFETY: within the state, as was just asserted for all rows below `keys`.
        let state = unsafe { self.state.as_mut_ptr().add(first) };
        for token in self.tokens.clone() {
            let key = self.key.of(token, keys);
            let value = &self.value.of(token, first + width)[first..];
            // One number, or one for each row.
            let (factors, by_row) = match self.factors {
                Some((rows, count)) => (rows.of(token, count), usize::from(count > 1)),
                None => (&[1.0][..], 0),
            };
            assert!(by_row == 0 || factors.len() >= keys);
            let mut change: [V; COUNT] = std::array::from_fn(|n| {
                // SAFETY: the numbers of a token's value are `width` from there on, of which the last vector has what is left.
                unsafe { V::load_first(value.as_ptr().add(n * V::LANES), lanes(n)) }
            });
            if let Some(rate) = self.rate {
                let mut known = [V::splat(0.0); COUNT];
                for (i, &key) in key.iter().enumerate() {
                    let factor = V::splat(key * factors[i * by_row]);
                    for (n, known) in known.iter_mut().enumerate() {
                        // SAFETY: `COUNT` vectors of each row, as asserted.
                        *known = unsafe { V::load(state.add(i * row + n * V::LANES)) }.mul_add(factor, *known);
                    }
                }
                let rate = V::splat(rate.of(token, 1)[0]);
                for (change, known) in change.iter_mut().zip(known) {
                    *change = change.sub(known).mul(rate);
                }
            }
            for (number, of) in self.queries.iter().enumerate() {
                let query = of.rows.of(token, keys);
                let mut sums = [V::splat(0.0); COUNT];
                for (i, (&key, &query)) in key.iter().zip(query).enumerate() {
                    let (key, query) = (V::splat(key), V::splat(query));
                    let factor = V::splat(factors[i * by_row]);
                    for (n, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: as above.
                        let place = unsafe { state.add(i * row + n * V::LANES) };
                        // SAFETY: as above.
                        let mut x = unsafe { V::load(place) };
                        if number == 0 {
                            x = key.mul_add(change[n], x.mul(factor));
                            // SAFETY: as above.
                            unsafe { x.store(place) };
                        }
                        *sum = x.mul_add(query, *sum);
                    }
                }
                let begin = of.first + token * self.distance + first;
                let to = self.output.from(begin, begin + width);
                for (n, sum) in sums.into_iter().enumerate() {
                    // SAFETY: `width` numbers from there on are these columns', which nobody else writes.
                    unsafe { sum.mul(V::splat(self.scale)).store_first(to.add(n * V::LANES), lanes(n)) };
                }
            }
        }
    }
}
