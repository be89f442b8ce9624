//! Functions of one operand and means of integers, against float64 and 128-bit arithmetic.

use crate::onnx::element::ElementType;
use crate::onnx::protobuf::{AttributeProto, attribute_type};
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

/// All functions of one operand, and the attributes with which they are tried.
fn functions() -> Vec<(&'static str, Vec<AttributeProto>)> {
    let plain = [
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Ceil",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "com.microsoft::FastGelu",
        "com.microsoft::Gelu",
        "com.microsoft::QuickGelu",
    ];
    let tanh = || AttributeProto {
        name: "approximate".into(),
        r#type: attribute_type::STRING,
        s: Some(b"tanh".to_vec().into()),
        ..Default::default()
    };
    let with_attributes = [
        ("Celu", vec![float("alpha", 0.25)]),
        ("Elu", vec![float("alpha", 1.5)]),
        ("Gelu", vec![tanh()]),
        ("Shrink", vec![float("bias", 0.25), float("lambd", 0.75)]),
        ("Swish", vec![float("alpha", 0.3)]),
        ("Swish", vec![float("alpha", 0.0)]),
    ];
    plain.into_iter().map(|operator| (operator, vec![])).chain(with_attributes).collect()
}

/// The definition of a function, with the value of an attribute, or its limit where infinities leave no value.
fn exact(operator: &str, attributes: &[AttributeProto], x: f64) -> f64 {
    let attribute = |name: &str, default: f32| {
        let given = attributes.iter().find(|attribute| attribute.name == name).and_then(|attribute| attribute.f);
        f64::from(given.unwrap_or(default))
    };
    let is_tanh = attributes.iter().any(|attribute| attribute.s.is_some());
    let times_sigmoid =
        |y: f64| if y == f64::NEG_INFINITY && x.is_infinite() { 0f64.copysign(x) } else { x / (1.0 + (-y).exp()) };
    match operator {
        "Abs" => x.abs(),
        "Acos" => x.acos(),
        "Acosh" if x < 1.0 => f64::NAN,
        "Acosh" => (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p(),
        "Asin" => x.asin(),
        // The standard library's loses digits of small numbers.
        "Asinh" if x.is_infinite() => x,
        "Asinh" => (x.abs() + x * x / (1.0 + x.hypot(1.0))).ln_1p().copysign(x),
        "Atan" => x.atan(),
        "Atanh" => 0.5 * (2.0 * x.abs() / (1.0 - x.abs())).ln_1p().copysign(x),
        "Ceil" => x.ceil(),
        "Celu" if x < 0.0 => attribute("alpha", 1.0) * (x / attribute("alpha", 1.0)).exp_m1(),
        "Cos" => x.cos(),
        "Cosh" => x.cosh(),
        "Elu" if x < 0.0 => attribute("alpha", 1.0) * x.exp_m1(),
        "Erf" => libm::erf(x),
        "Exp" => x.exp(),
        "Floor" => x.floor(),
        "Gelu" | "com.microsoft::Gelu" if !is_tanh && x == f64::NEG_INFINITY => -0.0,
        "Gelu" | "com.microsoft::Gelu" if !is_tanh => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        "Gelu" | "com.microsoft::FastGelu" => times_sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))),
        "HardSigmoid" => (f64::from(0.2f32) * x + 0.5).clamp(0.0, 1.0),
        "HardSwish" if x <= -3.0 => -0.0,
        "HardSwish" => x * (x + 3.0).min(6.0) / 6.0,
        "LeakyRelu" if x < 0.0 => f64::from(0.01f32) * x,
        "Log" => x.ln(),
        "Mish" if x == f64::NEG_INFINITY => -0.0,
        "Mish" => x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh(),
        "Neg" => -x,
        "Reciprocal" => 1.0 / x,
        "Relu" if x < 0.0 => 0.0,
        "Round" => x.round_ties_even(),
        "Selu" => f64::from(1.050_701f32) * if x < 0.0 { f64::from(1.673_263_2f32) * x.exp_m1() } else { x },
        "Shrink" if x < -attribute("lambd", 0.5) => x + attribute("bias", 0.0),
        "Shrink" if x > attribute("lambd", 0.5) => x - attribute("bias", 0.0),
        // Neither comparison is true of NaN.
        "Shrink" => 0.0,
        "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
        "Sign" if x == 0.0 => 0.0,
        "Sign" => x.signum(),
        "Sin" => x.sin(),
        "Sinh" => x.sinh(),
        "Softplus" => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        "Softsign" if x.is_infinite() => x.signum(),
        "Softsign" => x / (1.0 + x.abs()),
        "Sqrt" => x.sqrt(),
        "Swish" if attribute("alpha", 1.0) == 0.0 => 0.5 * x,
        "Swish" => times_sigmoid(attribute("alpha", 1.0) * x),
        "Tan" => x.tan(),
        "Tanh" => x.tanh(),
        "ThresholdedRelu" => {
            if x > 1.0 {
                x
            } else {
                0.0
            }
        }
        "com.microsoft::QuickGelu" => times_sigmoid(f64::from(1.702f32) * x),
        "Celu" | "Elu" | "LeakyRelu" | "Relu" => x,
        other => unreachable!("{other}"),
    }
}

/// What a model of one node makes of numbers, with the reference kernels and as it is compiled.
fn apply(operator: &str, attributes: &[AttributeProto], element: (i32, ElementType), numbers: &[f64]) -> [Vec<f64>; 2] {
    let shape = [numbers.len() as i64];
    let model = sketch(24).input("x", element.0, &shape).node(operator, &["x"], &["y"], attributes.to_vec()).output("y");
    let (model, input) = (model.import().unwrap(), [Tensor::from_floats(element.1, vec![numbers.len()], numbers)]);
    [run(&model, &input), run_compiled(&model, &input)].map(|outputs| outputs[0].floats())
}

/// How many float32 numbers lie between two.
fn distance(a: f32, b: f32) -> i64 {
    let order = |x: f32| i64::from(x.abs().to_bits()) * if x.is_sign_negative() { -1 } else { 1 };
    if a.is_nan() && b.is_nan() { 0 } else { (order(a) - order(b)).abs() }
}

#[test]
fn functions_are_within_four_units_of_all_numbers() {
    let given: Vec<f64> = numbers().into_iter().map(f64::from).collect();
    let halves: Vec<f64> = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f64()).collect();
    let mut wrong = String::new();
    for (operator, attributes) in functions() {
        let expected: Vec<f32> = given.iter().map(|&x| exact(operator, &attributes, x) as f32).collect();
        let found = apply(operator, &attributes, (FLOAT, ElementType::Float), &given);
        for (kernels, found) in ["reference", "compiled"].into_iter().zip(found) {
            let units = |i: usize| distance(found[i] as f32, expected[i]);
            let worst = (0..given.len()).max_by_key(|&i| units(i)).unwrap();
            if units(worst) > 4 {
                let (x, found, expected) = (given[worst], found[worst], expected[worst]);
                wrong += &format!("{kernels}: {operator} of {x:e} is {found:e}, not {expected:e}: {}\n", units(worst));
            }
        }
        // Of float16 the nearest number to a float32 one that is that close.
        let found = apply(operator, &attributes, (FLOAT16, ElementType::Float16), &halves);
        for (kernels, found) in ["reference", "compiled"].into_iter().zip(found) {
            for (x, found) in halves.iter().zip(found) {
                let expected = exact(operator, &attributes, *x) as f32;
                let near = [-4i32, 0, 4].map(|units| f32::from_bits(expected.to_bits().wrapping_add_signed(units)));
                let near = near.map(|near| half::f16::from_f32(near).to_f64());
                if !(found.is_nan() && expected.is_nan() || near.contains(&found)) {
                    wrong += &format!("{kernels}: {operator} of float16 {x:e} is {found:e}, not {expected:e}\n");
                    break;
                }
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
