//! The functions of gates against those of float64, on every instruction set that this CPU has.

use super::*;

/// Activations of numbers, and the first one's results times a second one's of other numbers.
struct Apply<'a> {
    activations: [Activation; 2],
    numbers: &'a [f32],
    others: &'a [f32],
    alone: &'a mut [f32],
    together: &'a mut [f32],
}

impl OnVectors for Apply<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        for i in (0..self.numbers.len()).step_by(V::LANES) {
            let [x, y] = [self.numbers, self.others].map(|list| load::<V>(list, i));
            let [first, second] = self.activations;
            store(self.alone, i, activate(first, x));
            store(self.together, i, gated(first, x, second, y));
        }
    }
}

fn exact(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu if x < 0.0 => 0.0,
        Activation::Relu => x,
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
    }
}

#[test]
fn activations_are_exact_to_the_last_places() {
    let mut numbers: Vec<f32> = (-4000..=4000).map(|i| i as f32 / 250.0).collect();
    numbers.extend((-37..39).flat_map(|e| [1.7 * 10f32.powi(e), -2.3 * 10f32.powi(e)]));
    numbers.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        79.4,
        -79.4,
        -80.0,
        -87.4,
        -104.0,
    ]);
    numbers.resize(numbers.len().next_multiple_of(64), 0.5);
    let others: Vec<f32> = numbers.iter().rev().copied().collect();
    use Activation::{Relu, Sigmoid, Tanh};
    for activations in [[Sigmoid, Tanh], [Sigmoid, Sigmoid], [Tanh, Tanh], [Tanh, Sigmoid], [Sigmoid, Relu], [Relu, Tanh]] {
        for isa in Isa::available() {
            let (mut alone, mut together) = (vec![0.0; numbers.len()], vec![0.0; numbers.len()]);
            let (numbers, others) = (&numbers[..], &others[..]);
            with_vectors(isa, Apply { activations, numbers, others, alone: &mut alone, together: &mut together });
            for i in 0..numbers.len() {
                let [x, y] = [numbers[i], others[i]].map(f64::from);
                let [first, second] = [exact(activations[0], x), exact(activations[1], y)];
                for (found, expected, error) in [(alone[i], first, 0.0), (together[i], first * second, second.abs())] {
                    // What is subnormal or nearly, and a gate that is nearly shut.
                    let allowed = 6e-7 * expected.abs() + 1e-34 * f64::max(error, 1.0) + 1e-37;
                    let found = f64::from(found);
                    let is_near = (found - expected).abs() <= allowed || found == expected as f32 as f64;
                    let is_none = found.is_nan() && expected.is_nan();
                    assert!(is_near || is_none, "{}: {activations:?} of {x} and {y} is {found}, not {expected}", isa.name);
                }
            }
        }
    }
}
