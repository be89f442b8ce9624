//! Copies of runs of pairs, one after the other: the rows of a matrix that a convolution is a product of.
#![allow(unsafe_code)]

use crate::isa::{Isa, Loop};

/// Pairs that are copied at a time, a line of the cache.
const PAIRS_OF_LINE: usize = 16;

/// Rows, each made of runs that lie anywhere.
#[derive(Debug)]
pub struct GatherRows<'a> {
    pub rows: usize,
    /// Pairs of a run.
    pub length: usize,
    /// Where runs begin: for each run, for each row.
    pub starts: &'a [*const f32],
    pub pairs: &'a mut [f32],
    /// Pairs from a row to the next. Those after the last run become zero.
    pub stride: usize,
}

impl GatherRows<'_> {
    /// # Safety
    /// There must be `length` pairs at every start.
    ///
    /// # Panics
    /// When there is no room for a row.
    pub unsafe fn compute(self, isa: &Isa) {
        if self.rows == 0 {
            return;
        }
        assert!(self.starts.len().is_multiple_of(self.rows));
        assert!(self.starts.len() / self.rows * self.length <= self.stride && self.rows * self.stride <= self.pairs.len());
        isa.run_loop(Gather(self));
    }
}

/// What [`GatherRows::compute`] was promised and has asserted.
struct Gather<'a>(GatherRows<'a>);

impl Loop for Gather<'_> {
    #[inline(always)]
    fn run(self) {
        let GatherRows { rows, length, starts, pairs, stride } = self.0;
        let runs = starts.len() / rows;
        for (row, to) in pairs.chunks_exact_mut(stride).take(rows).enumerate() {
            for run in 0..runs {
                let to = &mut to[run * length..][..length];
                // SAFETY: so many pairs lie there.
                let from = unsafe { std::slice::from_raw_parts(starts[run * rows + row], length) };
                let (lines, rest) = from.as_chunks::<PAIRS_OF_LINE>();
                let (to_lines, to_rest) = to.as_chunks_mut::<PAIRS_OF_LINE>();
                to_lines.iter_mut().zip(lines).for_each(|(to, from)| *to = *from);
                to_rest.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            }
            to[runs * length..].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn rows_are_their_runs_and_zeros() {
        let from = numbers(500, 1);
        for isa in Isa::available() {
            for (rows, runs, length, stride) in [(1, 1, 1, 1), (3, 4, 5, 20), (2, 9, 16, 160), (5, 3, 37, 128)] {
                let place = |run: usize, row: usize| (run * 31 + row * 57) % (500 - length);
                let starts: Vec<*const f32> = (0..runs)
                    .flat_map(|run| (0..rows).map(move |row| (run, row)))
                    .map(|(run, row)| &raw const from[place(run, row)])
                    .collect();
                let mut pairs = vec![f32::NAN; rows * stride + 3];
                // SAFETY: so many numbers lie there (`place`).
                unsafe { GatherRows { rows, length, starts: &starts, pairs: &mut pairs, stride }.compute(isa) };
                for row in 0..rows {
                    for k in 0..stride {
                        let expected = if k < runs * length { from[place(k / length, row) + k % length] } else { 0.0 };
                        assert_eq!(pairs[row * stride + k], expected, "{}: row {row}, {k}", isa.name);
                    }
                }
                assert!(pairs[rows * stride..].iter().all(|x| x.is_nan()));
            }
        }
    }
}
