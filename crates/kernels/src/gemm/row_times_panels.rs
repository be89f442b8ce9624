//! One row times several packed panels at once: with this many sums none waits for the one before it, each element of the row
//! is fetched once, and memory gives more of several streams than of one.
#![allow(unsafe_code)]

use crate::gemm::bundles::{OnBundles, with_bundles};
use crate::gemm::microkernels::{Microkernels, Plus};
use crate::simd::prefetch::{LINE, fetch};
use crate::simd::vector_bundle::VectorBundle;

/// Vectors of the panels that are read so.
pub const VECTORS: usize = 2;

/// Whether the panels of a set are. Those of the usual set of an instruction set always are.
pub fn reads_panels_of(gemm: &Microkernels) -> bool {
    gemm.vectors == VECTORS
}

/// Panels of one group: fewer or more streams are slower.
pub const MOST_PANELS: usize = 4;

/// How far behind the numbers of a panel that are read those are that are fetched, into the second-level cache: the first-level
/// one has few places for what is on its way.
const SOON: usize = 256;

/// Where panels are read from: from memory they are fetched ahead, which only takes time where they are in a cache.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// From the first element of the row to the last, or backwards.
    Cache {
        backwards: bool,
    },
    Memory,
}

/// Multiplies a row with up to [`MOST_PANELS`] panels of [`Microkernels::columns`] columns; their outputs follow each other.
///
/// # Panics
/// When there are more panels, or when a panel, an output, or what it is added to, is too short, or when panels are not
/// [read](reads_panels_of) so.
pub fn multiply(gemm: &Microkernels, row: &[f32], panels: &[&[f32]], output: &mut [f32], plus: Plus<'_>, source: Source) {
    match *panels {
        [] => (),
        [a] => some(gemm, row, [a], output, plus, source),
        [a, b] => some(gemm, row, [a, b], output, plus, source),
        [a, b, c] => some(gemm, row, [a, b, c], output, plus, source),
        [a, b, c, d] => some(gemm, row, [a, b, c, d], output, plus, source),
        _ => panic!("{} panels, and at most {MOST_PANELS} are multiplied together", panels.len()),
    }
}

fn some<const PANELS: usize>(
    gemm: &Microkernels,
    row: &[f32],
    panels: [&[f32]; PANELS],
    output: &mut [f32],
    plus: Plus<'_>,
    source: Source,
) {
    let columns = gemm.columns;
    match source {
        Source::Cache { backwards } => {
            with_bundles(gemm, Products::<PANELS, false> { columns, row, panels, output, plus, backwards })
        }
        Source::Memory => with_bundles(gemm, Products::<PANELS, true> { columns, row, panels, output, plus, backwards: false }),
    }
}

struct Products<'a, const PANELS: usize, const AHEAD: bool> {
    columns: usize,
    row: &'a [f32],
    panels: [&'a [f32]; PANELS],
    output: &'a mut [f32],
    plus: Plus<'a>,
    backwards: bool,
}

impl<const PANELS: usize, const AHEAD: bool> OnBundles for Products<'_, PANELS, AHEAD> {
    #[inline(always)]
    fn run<V: VectorBundle>(self) {
        let Products { columns, row, panels, output, plus, backwards } = self;
        assert_eq!(columns, VECTORS * V::LANES, "a panel is so many vectors wide");
        for panel in panels {
            assert!(panel.len() >= row.len() * columns);
        }
        let starts = panels.map(<[f32]>::as_ptr);
        let mut sums = [[V::splat(0.0); 2]; PANELS];
        let (mut k, step) = if backwards && !AHEAD { (row.len().wrapping_sub(1), usize::MAX) } else { (0, 1) };
        for _ in 0..row.len() {
            // SAFETY: `k` goes through all numbers below the row's length.
            let element = V::splat(unsafe { *row.get_unchecked(k) });
            for p in 0..PANELS {
                // SAFETY: the panel has `columns` elements for each element of the row, as asserted.
                unsafe {
                    let panel = starts[p].add(k * columns);
                    if AHEAD {
                        for line in 0..(2 * V::LANES).div_ceil(LINE) {
                            fetch::<1>(panel.wrapping_add(SOON + line * LINE));
                        }
                    }
                    sums[p][0] = V::load(panel).mul_add(element, sums[p][0]);
                    sums[p][1] = V::load(panel.add(V::LANES)).mul_add(element, sums[p][1]);
                }
            }
            k = k.wrapping_add(step);
        }
        assert!(output.len() >= PANELS * columns);
        let plus = match plus {
            Plus::Nothing => None,
            Plus::Itself => Some(output.as_ptr()),
            Plus::Row(row) => {
                assert!(row.len() >= PANELS * columns);
                Some(row.as_ptr())
            }
        };
        for (p, mut sums) in sums.into_iter().enumerate() {
            // SAFETY: the output has room for two vectors of each panel, and so has what it is added to, as asserted.
            unsafe {
                let output = output.as_mut_ptr().add(p * columns);
                if let Some(plus) = plus {
                    let plus = plus.add(p * columns);
                    sums = [V::load(plus).add(sums[0]), V::load(plus.add(V::LANES)).add(sums[1])];
                }
                sums[0].store(output);
                sums[1].store(output.add(V::LANES));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::testing::numbers;

    #[test]
    fn a_row_is_multiplied_with_each_panel() {
        for gemm in Isa::available().iter().map(|isa| isa.gemm) {
            for depth in [0, 1, 7, 64] {
                let row = numbers(depth, 1);
                let panels = [2, 3, 4].map(|seed| numbers(depth * gemm.columns, seed));
                let (bias, before) = (numbers(3 * gemm.columns, 5), numbers(3 * gemm.columns, 6));
                let multiply = |output: &mut [f32], plus: Plus<'_>, source: Source| {
                    multiply(gemm, &row, &panels.each_ref().map(Vec::as_slice), output, plus, source);
                };
                let nothing = || vec![f32::NAN; 3 * gemm.columns];
                let [mut alone, mut backwards, mut with_bias, mut added] = [nothing(), nothing(), nothing(), before.clone()];
                multiply(&mut alone, Plus::Nothing, Source::Cache { backwards: false });
                multiply(&mut backwards, Plus::Nothing, Source::Cache { backwards: true });
                multiply(&mut with_bias, Plus::Row(&bias), Source::Memory);
                multiply(&mut added, Plus::Itself, Source::Memory);
                for place in 0..3 * gemm.columns {
                    let (panel, j) = (&panels[place / gemm.columns], place % gemm.columns);
                    let sum: f64 = (0..depth).map(|k| row[k] as f64 * panel[k * gemm.columns + j] as f64).sum();
                    let of_cache = [(alone[place], 0.0), (backwards[place], 0.0)];
                    let of_memory = [(with_bias[place], bias[place]), (added[place], before[place])];
                    for (found, plus) in of_cache.into_iter().chain(of_memory) {
                        assert!((found as f64 - sum - plus as f64).abs() < 1e-4, "{} depth {depth} column {place}", gemm.name);
                    }
                }
            }
        }
    }
}
