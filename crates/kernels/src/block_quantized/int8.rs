//! Rows that have been rounded to bytes, block by block, times panels. The sums of blocks are exact.
#![allow(unsafe_code)]

use super::ahead::Ahead;
use super::float32::{scales, zeros};
use super::registers::{Instructions, Integers, OnIntegers};
use super::{Format, MOST_PANELS, MOST_ROWS, Weights, Zeros};
use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;
use crate::simd::vector::Vector;
use crate::simd::vector_bundle::VectorBundle;
use std::ops::Range;

/// Rows as they are multiplied: each block is a scale times integers from -127 to 127, filled up with zeros to whole words. A row has
/// these, then the scales of its blocks, then the sums of their integers.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// [`row`] numbers of each, which need not be float32.
    pub rows: &'a [f32],
}

/// Numbers that a row takes.
pub fn row(format: &Format) -> usize {
    format.padded_depth().div_ceil(4) + 2 * format.blocks()
}

/// Rounds a row.
pub struct Round<'a> {
    pub format: &'a Format,
    pub from: &'a [f32],
    pub to: &'a mut [f32],
    pub pauses: Pauses,
}

/// Below this the greatest number of a block counts as 0: its reciprocal is no number.
const LEAST: f32 = 1e-36;

impl Round<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for Round<'_> {
    #[inline(always)]
    fn run(self) {
        let Format { block, padded, .. } = *self.format;
        let blocks = self.format.blocks();
        assert_eq!(self.from.len(), self.format.depth);
        let (to, finish) = self.to.split_at_mut(blocks * padded / 4);
        let (scales, sums) = finish.split_at_mut(blocks);
        for some in self.pauses.whole_parts(blocks, 1, padded) {
            for (number, from) in some.clone().zip(self.from[some.start * block..].chunks(block)) {
                // As integers, so that what is not a number is the greatest.
                let greatest = from.iter().fold(0, |greatest, x| (x.to_bits() & 0x7fff_ffff).max(greatest));
                let greatest = f32::from_bits(greatest);
                // Nothing is multiplied with what is not a number, and all of the block becomes that.
                let (factor, scale) = match greatest {
                    _ if !greatest.is_finite() => (0.0, f32::NAN),
                    LEAST.. => (127.0 / greatest, greatest / 127.0),
                    _ => (0.0, 0.0),
                };
                let mut total = 0;
                // Adding this leaves no bits for a fraction, and an integer in the low bits.
                let integer = |x: f32| (x * factor + 12_582_912.0).to_bits() as i8;
                let to = &mut to[number * padded / 4..][..padded / 4];
                let (fours, rest) = from.as_chunks::<4>();
                for (to, four) in to.iter_mut().zip(fours) {
                    let integers = four.map(integer);
                    total += integers.iter().map(|&integer| i32::from(integer)).sum::<i32>();
                    *to = f32::from_bits(u32::from_le_bytes(integers.map(|integer| integer as u8)));
                }
                let mut last = [0i8; 4];
                last.iter_mut().zip(rest).for_each(|(to, &x)| *to = integer(x));
                total += last.iter().map(|&integer| i32::from(integer)).sum::<i32>();
                for (i, to) in to[fours.len()..].iter_mut().enumerate() {
                    *to = if i == 0 { f32::from_bits(u32::from_le_bytes(last.map(|integer| integer as u8))) } else { 0.0 };
                }
                scales[number] = scale;
                sums[number] = f32::from_bits(total as u32);
            }
        }
    }
}

/// Multiplies up to [`MOST_ROWS`] rows with some panels: `output` gets the numbers of all of their columns for each row. Pauses count
/// products of vectors.
///
/// # Panics
/// When a row, a panel or room is missing.
pub fn multiply(
    isa: &Isa,
    instructions: Instructions,
    weights: &Weights<'_>,
    rows: Rows<'_>,
    panels: Range<usize>,
    output: &mut [f32],
    pauses: Pauses,
) {
    let format = weights.format;
    assert!(format.is_int8 && format.lanes == isa.lanes() && panels.end <= format.panels());
    let count = rows.rows.len() / row(format);
    assert!((1..=MOST_ROWS).contains(&count));
    assert!(output.len() >= count * panels.len() * format.lanes);
    let stride = panels.len() * format.lanes;
    if (count * panels.len()).saturating_mul(format.padded_depth()) > pauses.every {
        for (number, panel) in (0..count).flat_map(|number| panels.clone().map(move |panel| (number, panel))) {
            let place = number * stride + (panel - panels.start) * format.lanes;
            let rows = Rows { rows: &rows.rows[number * row(format)..][..row(format)] };
            let products = Products { weights, rows, count: 1, panel, output: &mut *output, place, stride, pauses };
            products.compute::<1, 1, true>(isa, instructions);
        }
        return;
    }
    let mut first = panels.start;
    while first < panels.end {
        let place = (first - panels.start) * format.lanes;
        let products = Products { weights, rows, count, panel: first, output: &mut *output, place, stride, pauses };
        first += match (count, (panels.end - first).min(MOST_PANELS - first % MOST_PANELS)) {
            (1, MOST_PANELS) => products.compute::<1, 4, false>(isa, instructions),
            (1, _) => products.compute::<1, 1, false>(isa, instructions),
            (2, MOST_PANELS) => products.compute::<2, 4, false>(isa, instructions),
            (2, _) => products.compute::<2, 1, false>(isa, instructions),
            (3 | 4, 2..) => products.compute::<4, 2, false>(isa, instructions),
            (3 | 4, _) => products.compute::<4, 1, false>(isa, instructions),
            _ => products.compute::<8, 1, false>(isa, instructions),
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
    fn compute<const ROWS: usize, const PANELS: usize, const LONG: bool>(self, isa: &Isa, instructions: Instructions) -> usize {
        match self.weights.format.bits {
            2 => instructions.run(isa, Tile::<ROWS, PANELS, LONG, 2>(self)),
            4 => instructions.run(isa, Tile::<ROWS, PANELS, LONG, 4>(self)),
            bits => {
                assert_eq!(bits, 8);
                instructions.run(isa, Tile::<ROWS, PANELS, LONG, 8>(self));
            }
        }
        PANELS
    }
}

/// Products of ROWS rows with PANELS panels of weights of BITS bits, with pauses if they are LONG.
struct Tile<'a, const ROWS: usize, const PANELS: usize, const LONG: bool, const BITS: usize>(Products<'a>);

impl<const ROWS: usize, const PANELS: usize, const LONG: bool, const BITS: usize> OnIntegers
    for Tile<'_, ROWS, PANELS, LONG, BITS>
{
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn run<I: Integers>(self) {
        let Products { weights, rows, count, panel, output, place, stride, pauses } = self.0;
        // The loops of others are those without parts.
        let pauses = if LONG { pauses } else { Pauses::NONE };
        let format = weights.format;
        let lanes = I::Numbers::LANES;
        let (blocks, words) = (format.blocks(), format.words());
        // Where there are fewer rows, the last one stands for the missing ones.
        let (of_row, of_bytes) = (row(format), format.padded_depth() / 4);
        let row = |r: usize| &rows.rows[r.min(count - 1) * of_row..][..of_row];
        let starts: [*const i8; ROWS] = std::array::from_fn(|r| row(r).as_ptr().cast());
        let scales_of_rows: [&[f32]; ROWS] = std::array::from_fn(|r| &row(r)[of_bytes..][..blocks]);
        let sums_of_rows: [&[f32]; ROWS] = std::array::from_fn(|r| &row(r)[of_bytes + blocks..][..blocks]);
        let mut at: [*const f32; PANELS] = std::array::from_fn(|p| weights.words_of(panel + p));
        let mask = I::splat(match BITS {
            2 => 0x0303_0303,
            _ => 0x0f0f_0f0f,
        });
        let all = if let Zeros::All(zero) = format.zeros { zero } else { 0 } + if BITS == 8 { I::RAISED } else { 0 };
        let has_own = !matches!(format.zeros, Zeros::All(_));
        // The panels lie together, and others among them.
        let together = format.together(panel);
        let ahead = Ahead::of(format, together);
        let mut of_scales = format.place(panel, blocks);
        let mut totals = [[I::Numbers::splat(0.0); PANELS]; ROWS];
        for some in pauses.whole_parts(blocks, 1, format.padded * ROWS * PANELS) {
            for block in some {
                // The zero point of all, and what codes were raised by, is taken off here.
                let begin: [I; ROWS] =
                    std::array::from_fn(|r| I::splat((sums_of_rows[r][block].to_bits() as i32).wrapping_mul(-all)));
                let mut sums: [[I; PANELS]; ROWS] = std::array::from_fn(|r| [begin[r]; PANELS]);
                for word in 0..words {
                    let k = block * format.padded + word * (32 / BITS);
                    for p in 0..PANELS {
                        // SAFETY: a panel has `words` words of all lanes for each block (`Weights::new`).
                        let codes = unsafe { I::load(at[p]) };
                        ahead.words(at[p]);
                        at[p] = at[p].wrapping_add(together * lanes);
                        for i in 0..8 / BITS {
                            let four = if BITS == 8 { codes } else { codes.shifted_right((BITS * i) as u32).and(mask) };
                            for r in 0..ROWS {
                                // SAFETY: a row has `padded` bytes for each block, of which a word takes so many.
                                let bytes = I::splat(unsafe { starts[r].add(k + 4 * i).cast::<i32>().read_unaligned() });
                                sums[r][p] = match BITS {
                                    8 => sums[r][p].plus_signed_products(four, bytes),
                                    _ => sums[r][p].plus_products(four, bytes),
                                };
                            }
                        }
                    }
                }
                for p in 0..PANELS {
                    ahead.scales(weights.scales_at(of_scales + p));
                    let scale = scales::<I::Numbers>(weights, of_scales + p);
                    let zero = if has_own { zeros::<I::Numbers>(weights, of_scales + p) } else { None };
                    for r in 0..ROWS {
                        let mut sum = sums[r][p].numbers();
                        if let Some(zero) = zero {
                            sum = zero.mul_add(I::Numbers::splat(-(sums_of_rows[r][block].to_bits() as i32 as f32)), sum);
                        }
                        let factor = scale.mul(I::Numbers::splat(scales_of_rows[r][block]));
                        totals[r][p] = factor.mul_add(sum, totals[r][p]);
                    }
                }
                of_scales += together;
            }
        }
        for (r, totals) in totals.into_iter().enumerate().take(count) {
            let output = &mut output[r * stride + place..][..PANELS * lanes];
            for (p, total) in totals.into_iter().enumerate() {
                // SAFETY: there is room for a vector of each panel.
                unsafe { total.store(output.as_mut_ptr().add(p * lanes)) };
            }
        }
    }
}
