//! Determinants and inverses, in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::determinant::{Determinant, Inverse};
use crate::looks::Looking;

pub fn determinant(op: &Determinant, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let &[.., size] = input.shape else { unreachable!("the input's rank is at least 2") };
    let elements = input.elements::<f32>();
    for_each_piece(arguments.output().elements::<f32>(), 1, size * size * size, |first, piece| {
        let mut matrix = scratch::filled(0.0, size * size);
        for (number, output) in (first..).zip(piece) {
            let source = &elements[number * size * size..][..size * size];
            matrix.iter_mut().zip(source).looking_if_long(1).for_each(|(to, &from)| *to = f64::from(from));
            *output = match source {
                [x] => *x,
                // A sum of products of what is not finite has no value.
                _ if source.iter().any(|x| !x.is_finite()) => f32::NAN,
                _ => of(&mut matrix, size) as f32,
            };
        }
    });
}

/// The product of the pivots, with the sign of the exchanges. The matrix is used up.
fn of(matrix: &mut [f64], size: usize) -> f64 {
    let mut product = 1.0;
    for step in 0..size {
        let at = |row: usize| row * size + step;
        let pivot = (step..size).reduce(|best, row| if matrix[at(row)].abs() > matrix[at(best)].abs() { row } else { best });
        let pivot = pivot.unwrap_or(step);
        if pivot != step {
            (0..size).for_each(|column| matrix.swap(step * size + column, pivot * size + column));
            product = -product;
        }
        let head = matrix[at(step)];
        product *= head;
        if head == 0.0 {
            return product;
        }
        let (done, rest) = matrix.split_at_mut((step + 1) * size);
        let top = &done[step * size..];
        for row in rest.chunks_exact_mut(size).looking(size) {
            let factor = row[step] / head;
            if factor != 0.0 {
                row[step..].iter_mut().zip(&top[step..]).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    product
}

pub fn inverse(op: &Inverse, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let &[.., size] = input.shape else { unreachable!("the input's rank is at least 2") };
    let (elements, whole) = (input.elements::<f32>(), size * size);
    for_each_piece(arguments.output().elements::<f32>(), whole, 2 * size * whole, |first, piece| {
        // Of each row the matrix's elements, and after them those of the inverse.
        let mut rows = scratch::filled(0.0, 2 * whole);
        for (output, source) in piece.chunks_exact_mut(whole).zip(elements[first * whole..].chunks_exact(whole)) {
            for (i, (row, source)) in rows.chunks_exact_mut(2 * size).zip(source.chunks_exact(size)).enumerate() {
                row[..size].iter_mut().zip(source).for_each(|(to, &from)| *to = f64::from(from));
                row[size..].fill(0.0);
                row[size + i] = 1.0;
            }
            invert(&mut rows, size);
            for (to, row) in output.chunks_exact_mut(size).zip(rows.chunks_exact(2 * size)) {
                to.iter_mut().zip(&row[size..]).for_each(|(to, &from)| *to = from as f32);
            }
        }
    });
}

/// Eliminates below and above the pivots.
fn invert(rows: &mut [f64], size: usize) {
    let width = 2 * size;
    for step in 0..size {
        let at = |row: usize| row * width + step;
        let pivot = (step..size).reduce(|best, row| if rows[at(row)].abs() > rows[at(best)].abs() { row } else { best });
        let pivot = pivot.unwrap_or(step);
        if pivot != step {
            (0..width).for_each(|column| rows.swap(step * width + column, pivot * width + column));
        }
        let head = rows[at(step)];
        rows[step * width..][..width].iter_mut().for_each(|x| *x /= head);
        let (above, rest) = rows.split_at_mut(step * width);
        let (top, below) = rest.split_at_mut(width);
        for row in above.chunks_exact_mut(width).chain(below.chunks_exact_mut(width)).looking(width) {
            let factor = row[step];
            row.iter_mut().zip(&*top).for_each(|(x, y)| *x -= factor * y);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    #[test]
    fn inverses_have_pivots() {
        let found = |size: u32, matrices: &[f32]| -> Vec<f32> {
            let count = matrices.len() as u32 / (size * size);
            let input = Tensor::of(&[count, size, size], matrices.iter().copied());
            run("inverse", &[input], vec![Value::Operand(OperandId(0))])[0].elements()
        };
        assert_eq!(found(1, &[-4.0, 0.5]), [-0.25, 2.0]);
        assert_eq!(found(2, &[0.0, 2.0, 4.0, 0.0, 1.0, 2.0, 0.0, 1.0]), [0.0, 0.25, 0.5, 0.0, 1.0, -2.0, 0.0, 1.0]);
        let turned = [0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 4.0, 0.0, 0.0];
        assert_eq!(found(3, &turned), [0.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0, 0.5, 0.0]);
        assert!(found(2, &[1.0, 2.0, 2.0, 4.0]).iter().all(|x| !x.is_finite()));
    }

    #[test]
    fn pivots_signs_and_what_is_no_number() {
        let found = |size: u32, matrices: &[f32]| -> Vec<f32> {
            let count = matrices.len() as u32 / (size * size);
            let input = Tensor::of(&[count, size, size], matrices.iter().copied());
            run("determinant", &[input], vec![Value::Operand(OperandId(0))])[0].elements()
        };
        assert_eq!(found(1, &[-3.0, 0.0]), [-3.0, 0.0]);
        assert_eq!(found(2, &[1.0, 2.0, 3.0, 4.0, 0.0, 1.0, 1.0, 0.0, 1.0, 2.0, 2.0, 4.0]), [-2.0, -1.0, 0.0]);
        // Products that leave the type on the way.
        let (large, small) = (2f32.powi(100), 2f32.powi(-100));
        assert_eq!(found(2, &[large, 1.0, 1.0, small, large, 0.0, 0.0, small]), [0.0, 1.0]);
        let all = [large, 0.0, 0.0, 0.0, large, 0.0, 0.0, 0.0, small];
        assert_eq!(found(3, &all), [large]);
        assert_eq!(found(3, &[0.0, 0.0, 2.0, 0.0, 3.0, 1.0, 5.0, 1.0, 1.0]), [-30.0]);
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert!(found(2, &[0.0, 0.0, nan, 1.0, 0.0, inf, 0.0, 1.0, 1.0, nan, 0.0, 1.0]).iter().all(|x| x.is_nan()));
    }
}
