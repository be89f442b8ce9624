//! Kernels whose results are the reference kernels' to the bit: what moves, rounds, compares and converts numbers.

use super::super::{Problem, Target, TensorDesc, first};
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::elementwise::{Binary, BinaryKind, Prelu, Unary, UnaryKind};
use crate::graph::{DataType, Op, OperandId};
use webnn_kernels::isa::Isa;

/// An operand of a case: its data type, shape and bytes.
pub struct Given {
    pub data_type: DataType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Given {
    pub fn of<T: bytemuck::NoUninit>(data_type: DataType, shape: &[usize], elements: &[T]) -> Given {
        Given { data_type, shape: shape.to_vec(), bytes: bytemuck::cast_slice(elements).to_vec() }
    }
}

/// Runs an operator with its fast kernel for every instruction set, in a pool and outside, and compares all bytes with what the
/// reference kernel makes. Of float32 numbers that are none all are alike.
pub fn check(op: impl Into<Op>, inputs: &[Given], data_type: DataType, output: &[usize]) {
    let op = op.into();
    // Aligned as tensors are.
    let aligned: Vec<Vec<u64>> = inputs.iter().map(|given| aligned(&given.bytes)).collect();
    let views: Vec<View<'_>> = inputs
        .iter()
        .zip(&aligned)
        .map(|(given, aligned)| View::new(given.data_type, &given.shape, &bytemuck::cast_slice(aligned)[..given.bytes.len()]))
        .collect();
    let length = output.iter().product::<usize>() * data_type.bits() / 8;
    let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
        let mut result = aligned_room(length);
        let bytes = &mut bytemuck::cast_slice_mut(&mut result)[..length];
        body(&mut Arguments::new(&views, &mut [ViewMut { data_type, shape: output, bytes }]));
        bytemuck::cast_slice(&result)[..length].to_vec()
    };
    let expected = run(&|arguments| reference::execute(&op, arguments));
    let known: Vec<TensorDesc<'_>> = views
        .iter()
        .map(|view| TensorDesc { data_type: view.data_type, shape: view.shape, constant: None, order: None })
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for (isa, threads) in Isa::available().iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
        let problem = Problem {
            prologue: &[],
            dequantized: &[],
            op: &op,
            fused: &[],
            inputs: &known,
            output: TensorDesc { data_type, shape: output, constant: None, order: None },
            workspace: None,
        };
        let kernel = first(&problem, &Target::with(isa, threads)).kernel;
        let run_kernel = || run(&|arguments| kernel.compute(arguments));
        let found = if threads == 1 { run_kernel() } else { pool.install(run_kernel) };
        let size = data_type.bits() / 8;
        for (i, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate() {
            let is_nan = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap()).is_nan();
            let both_nan = || data_type == DataType::Float32 && is_nan(found) && is_nan(expected);
            assert!(
                found == expected || both_nan(),
                "{}, {threads} threads: {op:?} at {i}: {found:?}, not {expected:?}",
                isa.name
            );
        }
    }
}

fn aligned_room(bytes: usize) -> Vec<u64> {
    vec![0x7fc0_1234_7fc0_1234; bytes.div_ceil(8)]
}

fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut room = aligned_room(bytes.len());
    bytemuck::cast_slice_mut(&mut room)[..bytes.len()].copy_from_slice(bytes);
    room
}

/// Numbers around integers and halves, of all sizes and signs, and what is not finite.
pub fn special_numbers() -> Vec<f32> {
    let mut numbers: Vec<f32> = (-40..=40).map(|i| i as f32 / 4.0).collect();
    for limit in
        [0.5f32, 1.0, 1.5, 2.5, 127.0, 128.0, 255.0, 256.0, 4194304.0, 8388608.0, 2147483648.0, 4294967296.0, 9.2e18, 1.8e19]
    {
        for bits in [limit.to_bits() - 1, limit.to_bits(), limit.to_bits() + 1] {
            numbers.extend([f32::from_bits(bits), -f32::from_bits(bits)]);
        }
    }
    numbers.extend([8388607.5, 4194303.5, 4194304.5, 1e-45, -1e-45, 1e-30, 3e38, -3e38]);
    numbers.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::MAX, f32::MIN]);
    numbers
}

#[test]
fn rounding() {
    let mut numbers = special_numbers();
    // Not whole vectors.
    while numbers.len() % 16 != 7 {
        numbers.push(numbers.len() as f32 + 0.5);
    }
    let given = || Given::of(DataType::Float32, &[numbers.len()], &numbers);
    for kind in [UnaryKind::Floor, UnaryKind::Ceil, UnaryKind::RoundEven, UnaryKind::Sign] {
        check(Unary { kind, input: OperandId(0) }, &[given()], DataType::Float32, &[numbers.len()]);
    }
}

/// Every pair of zeros, infinities, NaN, subnormal and extreme numbers, and what is beside 1.
#[test]
fn arithmetic_of_special_values() {
    let positive = [0.0, f32::from_bits(1), f32::MIN_POSITIVE - f32::from_bits(1), f32::MIN_POSITIVE, 1e-20, 0.5, 1.0];
    let beyond = [1.0 + f32::EPSILON, 3.0, 16_777_215.0, 1.7e38, f32::MAX, f32::INFINITY];
    let numbers: Vec<f32> = positive.into_iter().chain(beyond).flat_map(|x| [x, -x]).chain([f32::NAN]).collect();
    let count = numbers.len();
    let first: Vec<f32> = numbers.iter().flat_map(|&x| vec![x; count]).collect();
    let shape = [count, count];
    let given = || [Given::of(DataType::Float32, &shape, &first), Given::of(DataType::Float32, &shape, &numbers.repeat(count))];
    let (a, b) = (OperandId(0), OperandId(1));
    for kind in [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Div] {
        check(Binary { kind, a, b }, &given(), DataType::Float32, &shape);
    }
    check(Prelu { input: a, slope: b }, &given(), DataType::Float32, &shape);
}
