//! Determinants, in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::determinant::Determinant;

pub fn determinant(op: &Determinant, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let &[.., size] = input.shape else { unreachable!("the input's rank is at least 2") };
    let elements = input.elements::<f32>();
    for_each_piece(arguments.output().elements::<f32>(), 1, size * size * size, |first, piece| {
        let mut matrix = scratch::filled(0.0, size * size);
        for (number, output) in (first..).zip(piece) {
            let source = &elements[number * size * size..][..size * size];
            matrix.iter_mut().zip(source).for_each(|(to, &from)| *to = f64::from(from));
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
        for row in rest.chunks_exact_mut(size) {
            let factor = row[step] / head;
            if factor != 0.0 {
                row[step..].iter_mut().zip(&top[step..]).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

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
