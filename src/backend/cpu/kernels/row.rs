//! One row times several packed panels at once: with this many sums none waits for the one before it, and each element of
//! the row is fetched once.
#![allow(unsafe_code)]

use super::isa::Isa;
use super::vector::{OnVectors, Vector, with_vectors};

/// Multiplies a row with some panels of [`Isa::columns`] columns; their outputs follow each other.
///
/// # Panics
/// When a panel or an output is too short.
pub fn multiply<const PANELS: usize>(isa: &Isa, row: &[f32], panels: [&[f32]; PANELS], output: &mut [f32]) {
    with_vectors(isa, Products { columns: isa.columns, row, panels, output });
}

struct Products<'a, const PANELS: usize> {
    columns: usize,
    row: &'a [f32],
    panels: [&'a [f32]; PANELS],
    output: &'a mut [f32],
}

impl<const PANELS: usize> OnVectors for Products<'_, PANELS> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Products { columns, row, panels, output } = self;
        assert_eq!(columns, 2 * V::LANES, "a panel is two vectors wide");
        for panel in panels {
            assert!(panel.len() >= row.len() * columns);
        }
        let starts = panels.map(<[f32]>::as_ptr);
        let mut sums = [[V::set(0.0); 2]; PANELS];
        for (k, &element) in row.iter().enumerate() {
            let element = V::set(element);
            for p in 0..PANELS {
                // SAFETY: the panel has `columns` elements for each element of the row, as asserted.
                unsafe {
                    let panel = starts[p].add(k * columns);
                    sums[p][0] = V::load(panel).mul_add(element, sums[p][0]);
                    sums[p][1] = V::load(panel.add(V::LANES)).mul_add(element, sums[p][1]);
                }
            }
        }
        assert!(output.len() >= PANELS * columns);
        for (p, sums) in sums.into_iter().enumerate() {
            // SAFETY: the output has room for two vectors of each panel, as asserted.
            unsafe {
                let output = output.as_mut_ptr().add(p * columns);
                sums[0].store(output);
                sums[1].store(output.add(V::LANES));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::isa::available;
    use crate::backend::cpu::kernels::tests::numbers;

    #[test]
    fn a_row_is_multiplied_with_each_panel() {
        for isa in available() {
            for depth in [0, 1, 7, 64] {
                let row = numbers(depth, 1);
                let panels = [2, 3, 4].map(|seed| numbers(depth * isa.columns, seed));
                let mut output = vec![f32::NAN; 3 * isa.columns];
                multiply(isa, &row, panels.each_ref().map(Vec::as_slice), &mut output);
                for (panel, output) in panels.iter().zip(output.chunks_exact(isa.columns)) {
                    for (j, &found) in output.iter().enumerate() {
                        let sum: f64 = (0..depth).map(|k| row[k] as f64 * panel[k * isa.columns + j] as f64).sum();
                        assert!((found as f64 - sum).abs() < 1e-4, "{} depth {depth} column {j}", isa.name);
                    }
                }
            }
        }
    }
}
