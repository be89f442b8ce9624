//! Functions of one operand and means of integers, against float64 and 128-bit arithmetic.

use crate::onnx::element::ElementType;
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;

const FLOAT: i32 = 1;
const FLOAT16: i32 = 10;

/// All numbers of float16, and numbers of float32 with any bits: a million with `WEBNN_SWEEP=all`.
fn numbers() -> Vec<f32> {
    let count = if std::env::var("WEBNN_SWEEP").is_ok_and(|sweep| sweep == "all") { 1 << 20 } else { 1 << 14 };
    let halves = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32());
    // A multiple of the golden ratio spreads evenly, and reaches all exponents.
    let others = (0..count).map(|i: u32| f32::from_bits(i.wrapping_mul(0x9e37_79b9)));
    let ends = [
        f32::MAX,
        f32::MIN,
        f32::from_bits(1),
        1e-8,
        1e-6,
        1.8e19,
        88.73,
        89.41,
        -89.41,
        0.999_999_94,
        1.000_000_1,
        9999.5,
        1e4,
        1e5,
    ];
    halves.chain(others).chain(ends).collect()
}

fn exact(operator: &str, x: f64) -> f64 {
    match operator {
        "Sinh" => x.sinh(),
        "Cosh" => x.cosh(),
        // The standard library's loses digits of small numbers.
        "Asinh" if x.is_infinite() => x,
        "Asinh" => (x.abs() + x * x / (1.0 + x.hypot(1.0))).ln_1p().copysign(x),
        "Acosh" if x < 1.0 => f64::NAN,
        "Acosh" => (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p(),
        "Atanh" => 0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p().copysign(x),
        "Asin" => x.asin(),
        "Acos" => x.acos(),
        _ => x.atan(),
    }
}

/// What a model of one node makes of numbers.
fn apply(operator: &str, element: (i32, ElementType), numbers: &[f64]) -> Vec<f64> {
    let model = sketch(17).input("x", element.0, &[numbers.len() as i64]).node(operator, &["x"], &["y"], vec![]).output("y");
    run(&model.import().unwrap(), &[Tensor::from_floats(element.1, vec![numbers.len()], numbers)])[0].floats()
}

/// How many float32 numbers lie between two.
fn distance(a: f32, b: f32) -> i64 {
    let order = |x: f32| i64::from(x.abs().to_bits()) * if x.is_sign_negative() { -1 } else { 1 };
    if a.is_nan() && b.is_nan() { 0 } else { (order(a) - order(b)).abs() }
}

#[test]
fn functions_put_together_are_within_four_units_of_all_numbers() {
    let given: Vec<f64> = numbers().into_iter().map(f64::from).collect();
    let halves: Vec<f64> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f64()).collect();
    let mut wrong = String::new();
    for operator in ["Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Asin", "Acos", "Atan"] {
        let found = apply(operator, (FLOAT, ElementType::Float), &given);
        let expected: Vec<f32> = given.iter().map(|&x| exact(operator, x) as f32).collect();
        let units = |i: usize| distance(found[i] as f32, expected[i]);
        let worst = (0..given.len()).max_by_key(|&i| units(i)).unwrap();
        if units(worst) > 4 {
            wrong +=
                &format!("{operator} of {:e} is {:e}, not {:e}: {}\n", given[worst], found[worst], expected[worst], units(worst));
        }
        // Of float16 the nearest number to a float32 one that is that close.
        for (x, found) in halves.iter().zip(apply(operator, (FLOAT16, ElementType::Float16), &halves)) {
            let expected = exact(operator, *x) as f32;
            let near = [-4i32, 0, 4].map(|units| f32::from_bits(expected.to_bits().wrapping_add_signed(units)));
            let near = near.map(|near| half::f16::from_f32(near).to_f64());
            if !(found.is_nan() && expected.is_nan() || near.contains(&found)) {
                wrong += &format!("{operator} of float16 {x:e} is {found:e}, not {expected:e}\n");
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_mean_of_integers_is_right_where_their_sum_overflows() {
    for (number, element) in [
        (2, ElementType::Uint8),
        (3, ElementType::Int8),
        (6, ElementType::Int32),
        (7, ElementType::Int64),
        (12, ElementType::Uint32),
        (13, ElementType::Uint64),
    ] {
        let bits = element.bits();
        let is_signed = matches!(element, ElementType::Int8 | ElementType::Int32 | ElementType::Int64);
        let most = (1i128 << (bits - usize::from(is_signed))) - 1;
        let least = if is_signed { -most - 1 } else { 0 };
        let mixed = [-7, 2, 2, 7, -2, -2, -1, -1, 1, 5, -3].map(|x: i128| x.clamp(least, most));
        for list in [
            &[most, most][..],
            &[least, least, least],
            &[most, least],
            &[most, least, least, 0],
            &[most, most - 1, least, 1, 1],
            &[5],
            &mixed[..3],
            &mixed[3..6],
            &mixed[6..],
        ] {
            let bytes_of = |x: i128| x.to_le_bytes()[..bits / 8].to_vec();
            let bytes: Vec<u8> = list.iter().flat_map(|&x| bytes_of(x)).collect();
            let tensor = Tensor { element, shape: vec![list.len()], bytes: bytes.into() };
            let model = sketch(18)
                .input("x", number, &[list.len() as i64])
                .node("ReduceMean", &["x"], &["y"], vec![int("keepdims", 0)])
                .output("y");
            let found = run(&model.import().unwrap(), &[tensor]).remove(0);
            let mean = list.iter().sum::<i128>() / list.len() as i128;
            assert_eq!(found.bytes[..], bytes_of(mean), "{element:?} {list:?}");
        }
    }
}
