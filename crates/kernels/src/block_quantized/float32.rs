//! Rows of float32 times panels.
#![allow(unsafe_code)]

use super::ahead::Ahead;
use super::{Format, INTEGERS, MOST_PANELS, MOST_ROWS, Scales, Weights, Zeros};
use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use std::ops::Range;

/// Rows as they are multiplied: each block filled up with zeros to whole words, and the sum of each.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// [`Format::padded_depth`] numbers of each row.
    pub numbers: &'a [f32],
    /// A number for each block of each row.
    pub sums: &'a [f32],
}

/// Makes [`Rows`] of numbers that lie one row after the other.
pub struct Pad<'a> {
    pub format: &'a Format,
    pub from: &'a [f32],
    pub numbers: &'a mut [f32],
    pub sums: &'a mut [f32],
    pub pauses: Pauses,
}

impl Pad<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for Pad<'_> {
    #[inline(always)]
    fn run(self) {
        let Format { depth, block, padded, .. } = *self.format;
        let blocks = self.format.blocks();
        let of_block = self.pauses.whole_parts(padded, 16, 1);
        let rows = self.from.chunks_exact(depth).zip(self.numbers.chunks_exact_mut(blocks * padded));
        for ((from, to), sums) in rows.zip(self.sums.chunks_exact_mut(blocks)) {
            for some in self.pauses.whole_parts(blocks, 1, padded) {
                let (from, to) = (&from[some.start * block..], &mut to[some.start * padded..]);
                for ((from, to), sum) in from.chunks(block).zip(to.chunks_exact_mut(padded)).zip(&mut sums[some]) {
                    // Several, so that none waits for the one before it.
                    let mut parts = [0f32; 16];
                    for some in of_block.clone() {
                        let end = from.len().clamp(some.start, some.end);
                        to[some.start..end].copy_from_slice(&from[some.start..end]);
                        to[end..some.end].fill(0.0);
                        for numbers in to[some].chunks(16) {
                            parts.iter_mut().zip(numbers).for_each(|(part, number)| *part += number);
                        }
                    }
                    *sum = parts.iter().sum();
                }
            }
        }
    }
}

/// Multiplies up to [`MOST_ROWS`] rows with some panels: `output` gets the numbers of all of their columns for each row. Pauses count
/// products of vectors.
///
/// # Panics
/// When a row, a panel or room is missing.
pub fn multiply(isa: &Isa, weights: &Weights<'_>, rows: Rows<'_>, panels: Range<usize>, output: &mut [f32], pauses: Pauses) {
    let format = weights.format;
    assert!(!format.is_int8 && format.lanes == isa.lanes() && panels.end <= format.panels());
    let (depth, blocks) = (format.padded_depth(), format.blocks());
    let count = rows.sums.len() / blocks;
    assert!((1..=MOST_ROWS).contains(&count) && rows.numbers.len() >= count * depth);
    assert!(output.len() >= count * panels.len() * format.lanes);
    let stride = panels.len() * format.lanes;
    if (count * panels.len()).saturating_mul(depth) > pauses.every {
        for (row, panel) in (0..count).flat_map(|row| panels.clone().map(move |panel| (row, panel))) {
            let place = row * stride + (panel - panels.start) * format.lanes;
            let rows = Rows { numbers: &rows.numbers[row * depth..][..depth], sums: &rows.sums[row * blocks..][..blocks] };
            Products { weights, rows, count: 1, panel, output: &mut *output, place, stride, pauses }.compute::<1, 1, true>(isa);
        }
        return;
    }
    let mut first = panels.start;
    while first < panels.end {
        let place = (first - panels.start) * format.lanes;
        let left = (panels.end - first).min(MOST_PANELS - first % MOST_PANELS);
        let mut products = Products { weights, rows, count, panel: first, output: &mut *output, place, stride, pauses };
        first += match (count, left) {
            (1, MOST_PANELS) => products.compute::<1, 4, false>(isa),
            (1, _) => products.compute::<1, 1, false>(isa),
            (2, MOST_PANELS) => products.compute::<2, 4, false>(isa),
            (2, _) => products.compute::<2, 1, false>(isa),
            (3 | 4, 2..) => products.compute::<4, 2, false>(isa),
            (3 | 4, _) => products.compute::<4, 1, false>(isa),
            _ => products.compute::<8, 1, false>(isa),
        };
    }
}

struct Products<'a> {
    weights: &'a Weights<'a>,
    rows: Rows<'a>,
    count: usize,
    panel: usize,
    output: &'a mut [f32],
    place: usize,
    stride: usize,
    pauses: Pauses,
}

impl Products<'_> {
    fn compute<const ROWS: usize, const PANELS: usize, const LONG: bool>(&mut self, isa: &Isa) -> usize {
        let Products { weights, rows, count, panel, place, stride, pauses, .. } = *self;
        let products = Products { weights, rows, count, panel, output: &mut *self.output, place, stride, pauses };
        match (weights.format.bits, weights.code_book) {
            (4, Some(_)) => with_vectors(isa, Tile::<ROWS, PANELS, LONG, 4, true>(products)),
            (2, _) => with_vectors(isa, Tile::<ROWS, PANELS, LONG, 2, false>(products)),
            (4, _) => with_vectors(isa, Tile::<ROWS, PANELS, LONG, 4, false>(products)),
            (8, _) => with_vectors(isa, Tile::<ROWS, PANELS, LONG, 8, false>(products)),
            (bits, _) => {
                assert_eq!(bits, 16);
                with_vectors(isa, Tile::<ROWS, PANELS, LONG, 16, false>(products));
            }
        }
        PANELS
    }
}

/// Products of ROWS rows with PANELS panels of weights of BITS bits, codes of a BOOK or integers, with pauses if they are LONG.
struct Tile<'a, const ROWS: usize, const PANELS: usize, const LONG: bool, const BITS: usize, const BOOK: bool>(Products<'a>);

impl<const ROWS: usize, const PANELS: usize, const LONG: bool, const BITS: usize, const BOOK: bool> OnVectors
    for Tile<'_, ROWS, PANELS, LONG, BITS, BOOK>
{
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn run<V: Vector>(self) {
        let Products { weights, rows, count, panel, output, place, stride, pauses } = self.0;
        // The loops of others are those without parts.
        let pauses = if LONG { pauses } else { Pauses::NONE };
        let format = weights.format;
        let (depth, blocks, words) = (format.padded_depth(), format.blocks(), format.words());
        let table = weights.code_book.unwrap_or(&INTEGERS);
        // Where there are fewer rows, the last one stands for the missing ones.
        let row = |r: usize| r.min(count - 1);
        let starts: [*const f32; ROWS] = std::array::from_fn(|r| rows.numbers[row(r) * depth..][..depth].as_ptr());
        let sums_of_rows: [&[f32]; ROWS] = std::array::from_fn(|r| &rows.sums[row(r) * blocks..][..blocks]);
        let mut at: [*const f32; PANELS] = std::array::from_fn(|p| weights.words_of(panel + p));
        let mut totals = [[V::splat(0.0); PANELS]; ROWS];
        // The panels lie together, and others among them.
        let together = format.together(panel);
        let ahead = Ahead::of(format, together);
        let mut of_scales = format.place(panel, blocks);
        let words_of_block = pauses.whole_parts(words, 1, 32 / BITS * ROWS * PANELS);
        for some in pauses.whole_parts(blocks, 1, format.padded * ROWS * PANELS) {
            for block in some {
                let mut sums = [[V::splat(0.0); PANELS]; ROWS];
                for some in words_of_block.clone() {
                    for word in some {
                        let k = block * format.padded + word * (32 / BITS);
                        for p in 0..PANELS {
                            let here = at[p];
                            at[p] = here.wrapping_add(together * V::LANES);
                            ahead.words(here);
                            for i in 0..32 / BITS {
                                // SAFETY: a panel has `words` words of all lanes for each block (`Weights::new`).
                                let number = unsafe { number::<V, BITS, BOOK>(here, i, table) };
                                for r in 0..ROWS {
                                    // SAFETY: a row has `padded` numbers for each block, of which a word takes so many.
                                    let factor = V::splat(unsafe { *starts[r].add(k + i) });
                                    sums[r][p] = number.mul_add(factor, sums[r][p]);
                                }
                            }
                        }
                    }
                }
                for p in 0..PANELS {
                    ahead.scales(weights.scales_at(of_scales + p));
                    let scale = scales::<V>(weights, of_scales + p);
                    let zero = zeros::<V>(weights, of_scales + p);
                    for r in 0..ROWS {
                        if let Some(zero) = zero {
                            sums[r][p] = zero.mul_add(V::splat(-sums_of_rows[r][block]), sums[r][p]);
                        }
                        totals[r][p] = scale.mul_add(sums[r][p], totals[r][p]);
                    }
                }
                of_scales += together;
            }
        }
        for (r, totals) in totals.into_iter().enumerate().take(count) {
            let output = &mut output[r * stride + place..][..PANELS * V::LANES];
            for (p, total) in totals.into_iter().enumerate() {
                // SAFETY: there is room for a vector of each panel.
                unsafe { total.store(output.as_mut_ptr().add(p * V::LANES)) };
            }
        }
    }
}

/// Number `i` of the words at `from`: integers, float16 numbers, or those of a table.
///
/// # Safety
/// There must be a word for each lane.
#[inline(always)]
pub(super) unsafe fn number<V: Vector, const BITS: usize, const BOOK: bool>(from: *const f32, i: usize, table: &[f32; 16]) -> V {
    // SAFETY: the caller's promise; two rows of float16 numbers are as long as one of words.
    unsafe {
        if BITS == 16 {
            return V::load_float16(from.cast::<u16>().add(i * V::LANES));
        }
        let bit = (8 * (i % 4) + BITS * (i / 4)) as u32;
        if BOOK || BITS == 4 && V::HAS_TABLE {
            V::load(from).looked_up(bit, table)
        } else {
            V::load(from).signed_field(bit, BITS as u32)
        }
    }
}

/// The scales of a block, which are number `place` of all.
#[inline(always)]
pub(super) fn scales<V: Vector>(weights: &Weights<'_>, place: usize) -> V {
    let first = place * V::LANES;
    // SAFETY: there are as many numbers as asked for, at the end of which nothing is read.
    unsafe {
        match weights.format.scales {
            Scales::Float32 => V::load(weights.scales[first * 4..][..V::LANES * 4].as_ptr().cast()),
            Scales::Float16 => V::load_float16(weights.scales[first * 2..][..V::LANES * 2].as_ptr().cast()),
        }
    }
}

/// The zero points of a block, if they are not 0.
#[inline(always)]
pub(super) fn zeros<V: Vector>(weights: &Weights<'_>, place: usize) -> Option<V> {
    let first = place * V::LANES;
    // SAFETY: as above.
    unsafe {
        match weights.format.zeros {
            Zeros::All(0) => None,
            Zeros::All(zero) => Some(V::splat(zero as f32)),
            Zeros::Bytes => Some(V::load_bytes::<true>(weights.zeros[first..][..V::LANES].as_ptr(), V::LANES)),
            Zeros::Numbers => Some(V::load(weights.zeros[first * 4..][..V::LANES * 4].as_ptr().cast())),
        }
    }
}
