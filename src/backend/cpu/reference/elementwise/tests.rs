//! Small numeric tests. The formulas of floating-point functions are tested by the conformance cases.

use crate::backend::cpu::element::Element;
use crate::backend::cpu::reference::testing::{Tensor, run};
use crate::graph::attribute::Value;
use crate::graph::{DataType, Descriptor, Number, OperandId};
use half::f16;

/// The elements of the only output of an operator, applied to operands and further values.
fn elements<T: Element>(name: &str, inputs: &[Tensor], further: &[Value]) -> Vec<T> {
    let mut values: Vec<Value> = (0..inputs.len() as u32).map(|id| Value::Operand(OperandId(id))).collect();
    values.extend_from_slice(further);
    run(name, inputs, values)[0].elements()
}

fn list<T: Element>(elements: &[T]) -> Tensor {
    Tensor::of(&[elements.len() as u32], elements.iter().copied())
}

#[test]
fn integers_of_every_size() {
    let binary = |name: &str, a: &[i64], b: &[i64]| elements::<i64>(name, &[list(a), list(b)], &[]);
    assert_eq!(binary("add", &[i64::MAX, 1], &[1, 2]), [i64::MIN, 3]);
    assert_eq!(binary("div", &[7, -7, 1, i64::MIN], &[2, 2, 0, -1]), [3, -3, 0, i64::MIN]);
    assert_eq!(binary("pow", &[2, -1, 2, 3], &[62, 3, -1, 0]), [1 << 62, -1, 0, 1]);
    let unary = |name: &str, a: &[i8]| elements::<i8>(name, &[list(a)], &[]);
    assert_eq!(unary("abs", &[-128, -1, 1]), [-128, 1, 1]);
    assert_eq!(unary("neg", &[-128, -1, 1]), [-128, 1, -1]);
    assert_eq!(unary("sign", &[-128, 0, 1]), [-1, 0, 1]);
    assert_eq!(unary("relu", &[-128, 0, 1]), [0, 0, 1]);
    assert_eq!(elements::<i8>("prelu", &[list(&[-2i8, 3]), list(&[100i8])], &[]), [56, 3]);
    assert_eq!(elements::<u8>("sub", &[list(&[0u8]), list(&[1u8])], &[]), [255]);
}

#[test]
fn not_a_number_is_kept_and_seen() {
    let nan = f32::NAN;
    let kept =
        |name: &str, inputs: &[Tensor], further: &[Value]| elements::<f32>(name, inputs, further).iter().all(|x| x.is_nan());
    assert!(kept("max", &[list(&[nan, 1.0]), list(&[1.0, nan])], &[]));
    assert!(kept("min", &[list(&[nan, 1.0]), list(&[1.0, nan])], &[]));
    for name in ["relu", "elu", "leakyRelu", "hardSigmoid", "hardSwish", "sigmoid", "tanh", "gelu", "softplus", "linear", "sign"]
    {
        assert!(kept(name, &[list(&[nan])], &[]), "{name}");
    }
    let bounds = [0.0, 1.0].map(|x| Value::Number(Number::Double(x)));
    assert!(kept("clamp", &[list(&[nan])], &bounds));
    assert_eq!(elements::<f32>("sign", &[list(&[-0.0, -2.0])], &[]), [0.0, -1.0]);
    let compare = |name: &str| elements::<u8>(name, &[list(&[nan, 1.0]), list(&[nan, 1.0])], &[]);
    assert_eq!(
        ["equal", "notEqual", "lesserOrEqual", "greaterOrEqual", "lesser", "greater"].map(compare),
        [[0, 1], [1, 0], [0, 1], [0, 1], [0, 0], [0, 0]]
    );
    let halves = list(&[f16::NAN, f16::NEG_INFINITY, f16::ONE]);
    assert_eq!(elements::<u8>("isNaN", std::slice::from_ref(&halves), &[]), [1, 0, 0]);
    assert_eq!(elements::<u8>("isInfinite", &[halves], &[]), [0, 1, 0]);
}

#[test]
fn clamping() {
    let bound = |x| Value::Number(Number::Double(x));
    let clamp = |bounds: &[Value]| elements::<u8>("clamp", &[list(&[0u8, 5, 255])], bounds);
    assert_eq!(clamp(&[]), [0, 5, 255]);
    assert_eq!(clamp(&[bound(-3.0), bound(4.5)]), [0, 4, 4]);
    assert_eq!(clamp(&[bound(5.5)]), [6, 6, 255]);
    let wide = Value::Number(Number::Integer(i64::MAX as i128 - 1));
    assert_eq!(elements::<i64>("clamp", &[list(&[i64::MAX])], &[Value::Absent, wide]), [i64::MAX - 1]);
}

#[test]
fn halves_round_to_even() {
    let x = [0.1, 0.9, 1.1, 1.9, -3.5, -2.5, -1.5, 1.5, 2.5, 3.5];
    let rounded = [0.0, 1.0, 1.0, 2.0, -4.0, -2.0, -2.0, 2.0, 2.0, 4.0];
    assert_eq!(elements::<f32>("roundEven", &[list(&x)], &[]), rounded);
}

#[test]
fn logic_takes_every_value_but_0_as_true() {
    let (a, b) = (list(&[0u8, 0, 2, 3]), list(&[0u8, 4, 0, 5]));
    let logic = |name: &str| elements::<u8>(name, &[a.clone(), b.clone()], &[]);
    assert_eq!(["logicalAnd", "logicalOr", "logicalXor"].map(logic), [[0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 0]]);
    assert_eq!(elements::<u8>("logicalNot", &[a], &[]), [1, 1, 0, 0]);
}

#[test]
fn selection_broadcasts_all_three() {
    let condition = Tensor::of(&[2, 1], [0u8, 7]);
    let (a, b) = (Tensor::of(&[3], [1i32, 2, 3]), Tensor::of(&[1, 1], [9i32]));
    assert_eq!(elements::<i32>("where", &[condition, a, b], &[]), [9, 9, 9, 1, 2, 3]);
    // Each of them whole or one element.
    let condition = |whole: bool| if whole { Tensor::of(&[5], [0u8, 1, 0, 0, 255]) } else { Tensor::of(&[1], [1u8]) };
    let tensor = |whole: bool, first: i32| match whole {
        true => Tensor::of(&[5], (0..5).map(|i| first + i)),
        false => Tensor::of(&[1], [first]),
    };
    for whole in (0..8).map(|bits| [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0]).filter(|whole| whole.contains(&true)) {
        let found = elements::<i32>("where", &[condition(whole[0]), tensor(whole[1], 10), tensor(whole[2], 20)], &[]);
        let of = |whole: bool, first, i| if whole { first + i } else { first };
        let expected = (0..5).map(|i| match !whole[0] || [1, 4].contains(&i) {
            true => of(whole[1], 10, i),
            false => of(whole[2], 20, i),
        });
        assert!(found.iter().copied().eq(expected), "{whole:?}: {found:?}");
    }
}

#[test]
fn quantization_in_blocks() {
    let input = Tensor::of(&[2, 4], [0.0, 1.0, 2.5, -300.0, 1.0, 3.0, f32::NAN, f32::INFINITY]);
    let scale = Tensor::of(&[1, 2], [0.5f32, 1.0]);
    let zero_point = Tensor::of(&[1, 2], [10u8, 20]);
    let quantized = elements::<u8>("quantizeLinear", &[input, scale.clone(), zero_point.clone()], &[]);
    assert_eq!(quantized, [10, 12, 22, 0, 12, 16, 0, 255]);
    let input = Tensor::of(&[2, 4], quantized);
    let dequantized = elements::<f32>("dequantizeLinear", &[input, scale, zero_point], &[]);
    assert_eq!(dequantized, [0.0, 1.0, 2.0, -20.0, 1.0, 3.0, -20.0, 235.0]);
}

#[test]
fn four_bits() {
    let tensor = |data_type, shape: &[u32], bytes: &[u8]| Tensor {
        descriptor: Descriptor::new(data_type, shape.iter().copied()),
        bytes: bytes.to_vec(),
    };
    let input = Tensor::of(&[3], [-100.0f32, 3.0, 100.0]);
    let scale = Tensor::of(&[1], [1.0f32]);
    let operands = (0..3).map(|id| Value::Operand(OperandId(id)));
    // -8, 2 and 7; the zero point is -1.
    let signed = run("quantizeLinear", &[input, scale.clone(), tensor(DataType::Int4, &[1], &[0x0f])], operands.collect());
    assert_eq!(signed[0], tensor(DataType::Int4, &[3], &[0x28, 0x07]));
    let zero_point = tensor(DataType::Int4, &[1], &[0x0f]);
    assert_eq!(elements::<f32>("dequantizeLinear", &[signed[0].clone(), scale.clone(), zero_point], &[]), [-7.0, 3.0, 8.0]);
    let unsigned = [tensor(DataType::Uint4, &[3], &[0x28, 0x07]), scale, tensor(DataType::Uint4, &[1], &[0x0f])];
    assert_eq!(elements::<f32>("dequantizeLinear", &unsigned, &[]), [-7.0, -13.0, -8.0]);
}

#[test]
fn large_outputs_are_divided() {
    let (rows, columns) = (700u32, 901u32);
    let a: Vec<i32> = (0..(rows * columns) as i32).collect();
    let b: Vec<i32> = (0..rows as i32).map(|x| x * 1000).collect();
    let inputs = [Tensor::of(&[rows, columns], a.clone()), Tensor::of(&[rows, 1], b.clone())];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let found = pool.install(|| elements::<i32>("add", &inputs, &[]));
    assert!(found.iter().enumerate().all(|(i, &sum)| sum == a[i] + b[i / columns as usize]));
}
