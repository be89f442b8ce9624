//! The functions against those of float64, on every instruction set that this CPU has.

use super::*;
use crate::isa::Isa;
use crate::simd::vector::{OnVectors, with_vectors};

struct Apply<'a>(Formula, &'a mut [f32]);

impl OnVectors for Apply<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        self.0.apply::<V>(self.1);
    }
}

/// Numbers of all sizes, the last of them not a whole vector.
fn numbers() -> Vec<f32> {
    let mut numbers: Vec<f32> = (-2000..=2000).map(|i| i as f32 / 40.0).collect();
    numbers.extend((-44..39).flat_map(|e| [1.7 * 10f32.powi(e), -2.3 * 10f32.powi(e)]));
    numbers.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 88.72, 88.73, -103.5, -104.5]);
    numbers
}

/// `floor` is what errors are relative to where results are smaller.
fn check(formula: Formula, floor: f32, expected: impl Fn(f32) -> f32) {
    for isa in Isa::available() {
        let mut found = numbers();
        with_vectors(isa, Apply(formula, &mut found));
        for (x, found) in numbers().into_iter().zip(found) {
            let expected = expected(x);
            let scale = expected.abs().max(floor);
            let is_near = found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() / scale < 3e-6;
            assert!(is_near, "{}: {formula:?} of {x} is {found}, not {expected}", isa.name);
        }
    }
}

fn exact(function: Function, x: f64) -> f64 {
    match function {
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Erf => libm::erf(x),
        Function::Tanh => x.tanh(),
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Gelu if x == f64::NEG_INFINITY => -0.0,
        Function::Gelu => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Function::HardSwish if x <= -3.0 => -0.0,
        Function::HardSwish => x * (x + 3.0).min(6.0) / 6.0,
        Function::Mish if x == f64::NEG_INFINITY => -0.0,
        // The definition: the logarithm and the power lose no digits beside 1.
        Function::Mish => x * exact(Function::Softplus, x).tanh(),
        Function::TanhGelu => exact_gate(x, (8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))),
        Function::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Function::Sqrt => x.sqrt(),
        Function::Neg => -x,
        Function::Abs => x.abs(),
        Function::Reciprocal => 1.0 / x,
        Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::RoundEven => x.round_ties_even(),
        Function::Sign if x == 0.0 => 0.0,
        Function::Sign => x.signum(),
        Function::Float16 => half::f16::from_f64(x).to_f64(),
    }
}

/// x times the sigmoid of y.
fn exact_gate(x: f64, y: f64) -> f64 {
    if x.is_infinite() && y == f64::NEG_INFINITY { 0f64.copysign(x) } else { x / (1.0 + (-y).exp()) }
}

#[test]
fn functions_are_close() {
    for &function in Function::ALL {
        check(Formula::Of(function), f32::MIN_POSITIVE, |x| exact(function, x as f64) as f32);
    }
}

/// How many numbers lie between two.
fn distance(a: f32, b: f32) -> i64 {
    let order = |x: f32| i64::from(x.abs().to_bits()) * if x.is_sign_negative() { -1 } else { 1 };
    if a.is_nan() && b.is_nan() { 0 } else { (order(a) - order(b)).abs() }
}

/// All numbers of float16, and numbers of float32 with any bits and between -110 and 110, where functions have their values: some
/// millions with `WEBNN_SWEEP=all`.
fn numbers_of_all_bits() -> Vec<f32> {
    let count = if std::env::var("WEBNN_SWEEP").is_ok_and(|sweep| sweep == "all") { 1 << 20 } else { 1 << 14 };
    let halves = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32());
    // A multiple of the golden ratio spreads evenly, and reaches all exponents.
    let spread = |i: u32| i.wrapping_mul(0x9e37_79b9);
    let others = (0..count).map(|i| f32::from_bits(spread(i)));
    let near = [220.0, 30.0]
        .into_iter()
        .flat_map(|width| (0..count).map(move |i| ((f64::from(spread(i)) / f64::from(u32::MAX) - 0.5) * width) as f32));
    halves.chain(others).chain(near).chain(numbers()).collect()
}

/// The most units in the last place that a function may be off, whatever its operand.
const MOST_UNITS: i64 = 4;

/// What a formula with parameters is.
fn exact_formula(formula: Formula, x: f64) -> f64 {
    match formula {
        Formula::Of(function) => exact(function, x),
        Formula::Swish(0.0) => 0.5 * x,
        Formula::Swish(alpha) => exact_gate(x, f64::from(alpha) * x),
        Formula::Elu(alpha) if x < 0.0 => f64::from(alpha) * x.exp_m1(),
        Formula::LeakyRelu(alpha) if x < 0.0 => f64::from(alpha) * x,
        Formula::Elu(_) | Formula::LeakyRelu(_) => x,
        // Products and sums of float32 numbers in float64 are rounded once.
        Formula::Linear(alpha, beta) => f64::from(alpha) * x + f64::from(beta),
        Formula::HardSigmoid(alpha, beta) => exact_formula(Formula::Linear(alpha, beta), x).clamp(0.0, 1.0),
        Formula::Power(power) => match power {
            Power::Two => x.powi(2),
            Power::Three => x.powi(3),
            Power::Half => x.powf(0.5),
            Power::ThreeQuarters => x.powf(0.75),
            Power::MinusHalf => x.powf(-0.5),
            Power::MinusOne => 1.0 / x,
        },
        Formula::ReplaceNan(number) if x.is_nan() => number.into(),
        Formula::ReplaceNan(_) => x,
        Formula::Clamp(..) | Formula::Steps(_) => unreachable!("these are compared to the bit elsewhere"),
    }
}

#[test]
fn functions_are_within_four_units_of_all_numbers() {
    let given = numbers_of_all_bits();
    let mut formulas: Vec<Formula> = Function::ALL.iter().copied().map(Formula::Of).collect();
    formulas.extend([1.0, 1.702, -0.3, 1e-37, 1e30, 0.0].map(Formula::Swish));
    formulas.extend([1.0, 0.3, -1e30].map(Formula::Elu));
    formulas.extend([0.01, -2.5, 3e38].map(Formula::LeakyRelu));
    formulas.extend([0.0, -2.5, f32::INFINITY].map(Formula::ReplaceNan));
    formulas.extend([(0.3, 0.7), (-7.5, 1e-3), (3e38, -1e-40), (1e-20, 3e-39)].map(|(a, b)| Formula::Linear(a, b)));
    formulas.extend([(0.2, 0.5), (-1.7, 0.3)].map(|(a, b)| Formula::HardSigmoid(a, b)));
    formulas.extend(
        [Power::Two, Power::Three, Power::Half, Power::ThreeQuarters, Power::MinusHalf, Power::MinusOne].map(Formula::Power),
    );
    let mut wrong = String::new();
    for formula in formulas {
        let expected: Vec<f32> = given.iter().map(|&x| exact_formula(formula, f64::from(x)) as f32).collect();
        for isa in Isa::available() {
            let mut found = given.clone();
            // In pieces, since one large angle sends all of its slice to float64.
            found.chunks_mut(61).for_each(|found| with_vectors(isa, Apply(formula, found)));
            let units = (0..given.len()).map(|i| (distance(found[i], expected[i]), i)).max();
            let (units, i) = units.expect("there are numbers");
            // The signs of zeros, too, but for that of `sign` itself and of sums.
            let signs_are_free = matches!(
                formula,
                Formula::Of(Function::Sign) | Formula::Linear(..) | Formula::HardSigmoid(..) | Formula::Power(_)
            );
            let of_zero = (0..given.len()).find(|&i| expected[i] == 0.0 && found[i].to_bits() != expected[i].to_bits());
            for i in [(units > MOST_UNITS).then_some(i), of_zero.filter(|_| !signs_are_free)].into_iter().flatten() {
                wrong +=
                    &format!("{}: {formula:?} of {:e} is {:e}, not {:e}: {units}\n", isa.name, given[i], found[i], expected[i]);
            }
        }
    }
    assert!(wrong.is_empty(), "units in the last place:\n{wrong}");
}

struct Powers<'a>(&'a mut [f32]);

impl OnVectors for Powers<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        each!(V, self.0, |x| exp_up_to_0(x));
    }
}

#[test]
fn powers_of_what_is_not_above_0() {
    let special = [-0.0, -86.999, -87.0, -87.001, -88.0, -1e9, f32::MIN, f32::NEG_INFINITY, f32::NAN];
    let numbers: Vec<f32> = (0..8800).map(|i| -i as f32 / 100.0).chain(special).collect();
    for isa in Isa::available() {
        let mut found = numbers.clone();
        with_vectors(isa, Powers(&mut found));
        for (&x, found) in numbers.iter().zip(found) {
            let expected = if x < -87.0 { 0.0 } else { exact(Function::Exp, x.into()) as f32 };
            let is_near = found == expected || found.is_nan() && x.is_nan() || (found - expected).abs() < 3e-7 * expected;
            assert!(is_near, "{}: of {x} is {found:e}, not {expected:e}", isa.name);
        }
    }
}

#[test]
fn angles_that_are_near_enough() {
    for function in [Function::Sin, Function::Cos] {
        // Multiples of about a quarter, where one of the two is near 0, and others.
        let quarters = (-5200..5200).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32);
        let others = (-8192..8192).map(|n| n as f32 + 0.37 / (1 + n * n) as f32);
        let small = (-40..0).flat_map(|e| [10f32.powi(e), -(10f32.powi(e))]);
        let angles: Vec<f32> = quarters.chain(others).chain(small).chain([0.0, -0.0, f32::NAN, FARTHEST]).collect();
        assert!(are_reduced(&angles));
        for isa in Isa::available() {
            let mut found = angles.clone();
            with_vectors(isa, Apply(Formula::Of(function), &mut found));
            for (&x, found) in angles.iter().zip(found) {
                let expected = exact(function, f64::from(x)) as f32;
                let is_near = (found - expected).abs() <= 3e-7 * expected.abs().max(1e-3);
                let same_sign = expected != 0.0 || found.is_sign_positive() == expected.is_sign_positive();
                assert!(
                    is_near && same_sign || found.is_nan() && x.is_nan(),
                    "{}: {function:?} of {x}: {found}, not {expected}",
                    isa.name
                );
            }
        }
    }
}

#[test]
fn logarithms_of_numbers_that_are_not_normal() {
    let numbers = [1.1e-38, 4e-40, 3e-42, f32::from_bits(1), -4e-40, -f32::from_bits(1)];
    for isa in Isa::available() {
        let mut found = numbers;
        with_vectors(isa, Apply(Formula::Of(Function::Log), &mut found));
        for (x, found) in numbers.into_iter().zip(found) {
            let expected = f64::from(x).ln() as f32;
            let is_near = found.is_nan() && expected.is_nan() || (found - expected).abs() < 1e-6 * expected.abs();
            assert!(is_near, "{}: of {x:e} is {found}, not {expected}", isa.name);
        }
    }
}

#[test]
fn functions_with_parameters() {
    for alpha in [1.0, 0.3] {
        let exact = |x: f32| if x < 0.0 { (f64::from(alpha) * f64::from(x).exp_m1()) as f32 } else { x };
        check(Formula::Elu(alpha), f32::MIN_POSITIVE, exact);
    }
    check(Formula::LeakyRelu(0.1), f32::MIN_POSITIVE, |x| if x < 0.0 { 0.1 * x } else { x });
    check(Formula::HardSigmoid(0.2, 0.5), 1.0, |x| (0.2f64 * x as f64 + 0.5).clamp(0.0, 1.0) as f32);
    check(Formula::Linear(0.5, 2.0), 1.0, |x| 0.5 * x + 2.0);
    for (size, bounds, up) in
        [(0.3, [-100.0, 155.0], TO_WHOLE), (1e-30, [0.0, 255.0], TO_WHOLE), (0.3, [-9.0, 7.0], 4.0 * TO_WHOLE)]
    {
        for of_nan in [0.0, 5.0, -300.0] {
            let steps = Formula::Steps(Rounding::new(size, bounds, of_nan, [up; 2], size));
            let quotient = |x: f32| if (x / size).is_nan() { of_nan } else { x / size };
            check(steps, f32::MIN_POSITIVE, |x| (quotient(x).clamp(bounds[0], bounds[1]) + up - up) * size);
        }
    }
    check(Formula::Clamp(-1.0, 6.0), f32::MIN_POSITIVE, |x| x.clamp(-1.0, 6.0));
    for exponent in [2.0, 3.0, 0.5, 0.75, -0.5, -1.0] {
        let power = Power::of(exponent).unwrap();
        check(Formula::Power(power), f32::MIN_POSITIVE, |x| x.powf(exponent));
    }
}
