//! Where in rows or columns of float32 the greatest or smallest number is: the first of several, or the first that is not a number.
#![allow(unsafe_code)]

use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// Numbers that are compared side by side, so that they become vectors.
const SIDE_BY_SIDE: usize = 64;
/// Vectors that are done together.
const VECTORS: usize = 4;
/// A row, and where the number is.
pub struct Row<'a> {
    pub row: &'a [f32],
    pub found: &'a mut usize,
    pub smallest: bool,
    pub pauses: Pauses,
}

impl Row<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for Row<'_> {
    #[inline(always)]
    fn run(self) {
        let Row { row, found, smallest, pauses } = self;
        let sign = if smallest { -1.0 } else { 1.0 };
        let mut greatest = [f32::NEG_INFINITY; SIDE_BY_SIDE];
        // Not zero where something was not a number.
        let mut spoilt = [0u32; SIDE_BY_SIDE];
        let (groups, rest) = row.as_chunks::<SIDE_BY_SIDE>();
        let parts = || pauses.whole_parts(groups.len(), 1, SIDE_BY_SIDE);
        for part in parts() {
            for group in &groups[part] {
                for i in 0..SIDE_BY_SIDE {
                    let x = group[i] * sign;
                    greatest[i] = if x > greatest[i] { x } else { greatest[i] };
                    spoilt[i] |= x.is_nan() as u32;
                }
            }
        }
        for (i, x) in rest.iter().enumerate() {
            let x = x * sign;
            greatest[i] = if x > greatest[i] { x } else { greatest[i] };
            spoilt[i] |= x.is_nan() as u32;
        }
        let (mut best, mut any) = (f32::NEG_INFINITY, 0);
        for i in 0..SIDE_BY_SIDE {
            best = if greatest[i] > best { greatest[i] } else { best };
            any |= spoilt[i];
        }
        let is_it = |x: f32| if any != 0 { x.is_nan() } else { x * sign == best };
        for part in parts() {
            for (number, group) in part.clone().zip(&groups[part]) {
                let mut is_here = 0;
                for x in group {
                    is_here |= is_it(*x) as u32;
                }
                if is_here != 0 {
                    *found = number * SIDE_BY_SIDE + group.iter().position(|&x| is_it(x)).unwrap_or(0);
                    return;
                }
            }
        }
        *found = groups.len() * SIDE_BY_SIDE + rest.iter().position(|&x| is_it(x)).unwrap_or(0);
    }
}

/// Some columns of a matrix, and for each of them the row, as a float32 number.
pub struct Columns<'a> {
    pub matrix: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub first: usize,
    pub found: &'a mut [f32],
    pub smallest: bool,
    pub pauses: Pauses,
}

impl Columns<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Columns<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Columns { matrix, rows, columns, first, found, smallest, pauses } = self;
        let mut done = 0;
        while done < found.len() {
            let left = found.len() - done;
            let block = Block { matrix, rows, columns, first: first + done, smallest, pauses };
            if left >= VECTORS * V::LANES {
                block.find::<V, VECTORS>(V::LANES, &mut found[done..done + VECTORS * V::LANES]);
                done += VECTORS * V::LANES;
            } else {
                let count = V::LANES.min(left);
                block.find::<V, 1>(count, &mut found[done..done + count]);
                done += count;
            }
        }
    }
}

struct Block<'a> {
    matrix: &'a [f32],
    rows: usize,
    columns: usize,
    first: usize,
    smallest: bool,
    pauses: Pauses,
}

impl Block<'_> {
    /// Finds the positions in some vectors of columns, of which the only one, if it is that, has `lanes` columns.
    #[inline(always)]
    fn find<V: Vector, const COUNT: usize>(&self, lanes: usize, found: &mut [f32]) {
        let Block { matrix, rows, columns, first, smallest, pauses } = *self;
        let width = (COUNT - 1) * V::LANES + lanes;
        assert!(found.len() == width && (COUNT == 1 || lanes == V::LANES) && lanes <= V::LANES);
        let load = |row: usize| -> [V; COUNT] {
            let numbers = &matrix[row * columns + first..][..width];
            std::array::from_fn(|v| {
                // SAFETY: so many numbers are there; if the last vector is not whole it is the only one, as asserted.
                let x = unsafe {
                    let from = numbers.as_ptr().add(v * V::LANES);
                    if lanes == V::LANES { V::load(from) } else { V::load_first(from, lanes) }
                };
                if smallest { x.negated() } else { x }
            })
        };
        let mut best = load(0);
        let mut at = [V::splat(0.0); COUNT];
        for part in pauses.whole_parts(rows, 1, width) {
            for row in part.start.max(1)..part.end {
                let here = V::splat(row as f32);
                let numbers = load(row);
                for v in 0..COUNT {
                    at[v] = best[v].if_below(numbers[v], here, at[v]);
                    // What is not a number stays, and nothing is better.
                    best[v] = best[v].greatest(numbers[v]);
                }
            }
        }
        for v in 0..COUNT {
            let (mut numbers, mut positions) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
            // SAFETY: no register is longer.
            unsafe {
                best[v].store(numbers.as_mut_ptr());
                at[v].store(positions.as_mut_ptr());
            }
            let found = &mut found[v * V::LANES..][..lanes];
            for (i, found) in found.iter_mut().enumerate() {
                let column = first + v * V::LANES + i;
                let is_spoilt = |row: &usize| matrix[row * columns + column].is_nan();
                *found = match numbers[i].is_nan() {
                    true => (0..rows).find(is_spoilt).unwrap_or(0) as f32,
                    false => positions[i],
                };
            }
        }
    }
}
