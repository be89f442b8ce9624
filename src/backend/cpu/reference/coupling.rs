//! Probabilities of classes from those of pairs, in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::coupling::PairwiseCoupling;
use crate::looks::Looking;

pub fn pairwise_coupling(op: &PairwiseCoupling, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let (classes, pairs) = (op.classes as usize, input.shape[1]);
    let rows = input.elements::<f32>();
    let cost = classes * classes * 20;
    for_each_piece(arguments.output().elements::<f32>(), classes, cost, |first, piece| {
        let mut q = scratch::filled(0.0, classes * classes);
        let mut p = scratch::filled(0.0, classes);
        let mut qp = scratch::filled(0.0, classes);
        for (row, output) in rows[first * pairs..].chunks_exact(pairs).zip(piece.chunks_exact_mut(classes)) {
            matrix(row, classes, &mut q);
            solve(&q, &mut p, &mut qp);
            output.iter_mut().zip(&p).for_each(|(output, &p)| *output = p as f32);
        }
    });
}

/// The matrix whose quadratic form is least where the probabilities agree best: off its diagonal the products of both
/// probabilities of a pair, negated; on it the squares of those against the class.
fn matrix(row: &[f32], classes: usize, q: &mut [f64]) {
    q.fill(0.0);
    let mut pairs = row.iter();
    for i in (0..classes).looking(classes) {
        for j in i + 1..classes {
            let first = pairs.next().copied().map_or(0.0, f64::from);
            let second = 1.0 - first;
            q[i * classes + j] = -first * second;
            q[j * classes + i] = -first * second;
            q[i * classes + i] += second * second;
            q[j * classes + j] += first * first;
        }
    }
}

fn solve(q: &[f64], p: &mut [f64], qp: &mut [f64]) {
    let classes = p.len();
    p.fill(1.0 / classes as f64);
    for _ in 0..classes.max(100) {
        for (value, line) in qp.iter_mut().zip(q.chunks_exact(classes)).looking(classes) {
            *value = line.iter().zip(&*p).map(|(q, p)| q * p).sum();
        }
        let mut form: f64 = qp.iter().zip(&*p).map(|(qp, p)| qp * p).sum();
        // Errors that are no numbers do not end it, but the steps do.
        if qp.iter().all(|value| (value - form).abs() < 0.005 / classes as f64) {
            break;
        }
        for t in (0..classes).looking(2 * classes) {
            let line = &q[t * classes..][..classes];
            let change = (form - qp[t]) / line[t];
            p[t] += change;
            let scale = 1.0 / (1.0 + change);
            form = (form + change * (change * line[t] + 2.0 * qp[t])) * scale * scale;
            qp.iter_mut().zip(line).for_each(|(value, q)| *value = (*value + change * q) * scale);
            p.iter_mut().for_each(|p| *p *= scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    fn coupled(classes: u32, pairs: &[f32]) -> Vec<f32> {
        let input = Tensor::of(&[1, pairs.len() as u32], pairs.iter().copied());
        run("pairwiseCoupling", &[input], vec![Value::Operand(OperandId(0)), Value::Unsigned(classes)])[0].elements()
    }

    /// Where the pairs agree with each other, they say what the probabilities are.
    #[test]
    fn pairs_that_agree() {
        for given in [&[0.25, 0.75][..], &[0.5, 0.3, 0.2], &[0.05, 0.05, 0.1, 0.8]] {
            let pair = |i: usize, j: usize| given[i] / (given[i] + given[j]);
            let pairs: Vec<f32> = (0..given.len()).flat_map(|i| (i + 1..given.len()).map(move |j| pair(i, j))).collect();
            let found = coupled(given.len() as u32, &pairs);
            // The least eigenvalue but one of these matrices is above 0.1, so an error of 0.005 / n moves none by more.
            assert!(found.iter().zip(given).all(|(a, b)| (a - b).abs() < 0.03), "{found:?}, not {given:?}");
            assert!((found.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
        // It ends at once where the error is small enough.
        assert_eq!(coupled(2, &[0.501]), [0.5, 0.5]);
    }

    #[test]
    fn certain_and_impossible_pairs_end() {
        for pairs in [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [f32::NAN, 0.5, 0.5], [1e-7, 1.0 - 1e-7, 1e-7]] {
            assert_eq!(coupled(3, &pairs).len(), 3);
        }
    }
}
