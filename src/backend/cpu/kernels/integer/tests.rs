//! Products of integers against the operators that they stand for: all instructions, odd sizes, zero points at both ends, the greatest
//! products. Their tiles are tested where they are, in `crates/kernels`.

use super::{accept_with, computed};
use crate::backend::cpu::kernels::tests::known;
use crate::backend::cpu::kernels::{Caches, Problem, Target, TensorDesc, first};
use crate::backend::cpu::reference;
use crate::backend::cpu::testing::instruction_sets;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::DataType::{Float32, Int8, Int32, Uint8};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Cast, DequantizeLinear, QuantizeLinear};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::ops::quantized::QuantizedMatmul;
use crate::graph::{DataType, Op, OperandId};
use webnn_kernels::int8::microkernels::Tiles;

/// Bytes of all kinds, many of them at the ends of their range; the seed is fixed.
fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let byte = (state >> 40) as u8;
        [0, 127, 128, 255, byte, byte, byte, byte][(state >> 60) as usize % 8]
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A case: the operator (of the operands 0 and 3), its operands, the output's shape, and whether that is quantized.
struct Case {
    op: Op,
    image: (DataType, Vec<usize>, u8),
    weights: (DataType, Vec<usize>),
    /// The shape of the scales, and a zero point for all of them; others are different.
    scales: (Vec<usize>, Option<u8>),
    output: Vec<usize>,
    to: Option<DataType>,
    fused: Fused,
}

/// What is done to the product before it is quantized.
#[derive(Clone, Copy)]
enum Fused {
    Relu,
    /// That, the addition of a row, and that of a tensor.
    All,
}

fn float<'a>(shape: &'a [usize], numbers: &'a [f32]) -> View<'a> {
    View::new(Float32, shape, bytemuck::cast_slice(numbers))
}

/// Compares with the operators one by one. Scales are powers of two and depths small, so that float32 is exact.
#[expect(clippy::too_many_lines, reason = "a graph, and the same in plain loops")]
fn check(case: Case) {
    let Case { op, image, weights, scales, output, to, fused: case_fused } = case;
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let (a, b) = (bytes(count(&image.1), 3), bytes(count(&weights.1), 4));
    let scale_b: Vec<f32> = (0..count(&scales.0)).map(|i| [0.5, 0.25, 2.0][i % 3]).collect();
    let zeros_b: Vec<u8> = (0..scale_b.len()).map(|i| scales.1.unwrap_or((i * 67) as u8)).collect();
    let bias: Vec<f32> = (0..*output.last().unwrap()).map(|i| i as f32 - 7.5).collect();
    let more: Vec<f32> = (0..count(&output)).map(|i| (i % 13) as f32 * 8.0).collect();
    let ones = |rank: usize| vec![1; rank];
    let (one_a, one, bias_shape) = (ones(image.1.len()), ones(output.len()), [bias.len()]);
    let scale_out = [16f32];
    let view = |data_type, shape, bytes| View::new(data_type, shape, bytes);
    let zero_out = [77u8];
    let views = [
        view(image.0, &image.1, &a),
        float(&one_a, &[0.125]),
        view(image.0, &one_a, std::slice::from_ref(&image.2)),
        view(weights.0, &weights.1, &b),
        float(&scales.0, &scale_b),
        view(weights.0, &scales.0, &zeros_b),
        float(&bias_shape, &bias),
        float(&output, &more),
        float(&one, &scale_out),
        view(to.unwrap_or(Uint8), &one, &zero_out),
    ];
    let id = OperandId;
    let dequantized: [Op; 2] = [0, 3].map(|i| DequantizeLinear { input: id(i), scale: id(i + 1), zero_point: id(i + 2) }.into());
    let of_fused = match case_fused {
        Fused::Relu => 1,
        Fused::All => 3,
    };
    let mut fused: Vec<Op> = vec![
        Activation { kind: ActivationKind::Relu, input: id(10) }.into(),
        Binary { kind: BinaryKind::Add, a: id(10), b: id(6) }.into(),
        Binary { kind: BinaryKind::Add, a: id(7), b: id(10) }.into(),
    ];
    fused.truncate(of_fused);
    if to.is_some() {
        fused.push(QuantizeLinear { input: id(10), scale: id(8), zero_point: id(9) }.into());
    }

    // One by one.
    let execute = |op: &Op, views: &[View<'_>], data_type: DataType, shape: &[usize]| {
        let mut made = vec![0u32; count(shape)];
        let bytes = &mut bytemuck::cast_slice_mut(&mut made)[..count(shape) * data_type.bits() / 8];
        reference::execute(op, &mut Arguments::new(views, &mut [ViewMut { data_type, shape, bytes }]));
        made
    };
    let numbers = [0, 3].map(|i| execute(&dequantized[i / 3], &views, Float32, views[i].shape));
    let mut of_numbers = views.to_vec();
    for (i, numbers) in [0, 3].into_iter().zip(&numbers) {
        of_numbers[i] = View::new(Float32, views[i].shape, bytemuck::cast_slice(numbers));
    }
    let mut expected = execute(&op, &of_numbers, Float32, &output);
    for op in &fused {
        let (before, mut views) = (std::mem::take(&mut expected), of_numbers.clone());
        views.push(float(&output, bytemuck::cast_slice(&before)));
        let data_type = if matches!(op, Op::QuantizeLinear(_)) { to.unwrap() } else { Float32 };
        expected = execute(op, &views, data_type, &output);
    }

    let is_depthwise = matches!(&op, Op::Conv2d(op) if op.groups > 1);
    // What quantized the image is known in most networks.
    let is_simple = is_depthwise && matches!(case_fused, Fused::Relu);
    let constant = |i: usize| !matches!(i, 0 | 7) && (is_simple || !matches!(i, 1 | 2));
    let known = known(&views, constant);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let data_type = to.unwrap_or(Float32);
    for (isa, tiles) in instruction_sets().iter().flat_map(|isa| Tiles::all_of(isa).into_iter().map(move |tiles| (isa, tiles))) {
        for threads in [1, 2] {
            let problem = Problem {
                prologue: &[],
                dequantized: &dequantized,
                op: &op,
                fused: &fused,
                inputs: &known,
                output: TensorDesc { data_type, shape: &output, constant: None, order: None },
                workspace: None,
            };
            let target =
                Target { caches: if threads == 1 { Caches::USUAL } else { Caches::LARGE }, ..Target::with(isa, threads) };
            let selection = match is_depthwise {
                true => first(&problem, &target),
                false => accept_with(&problem, &target, tiles)
                    .or_else(|_| computed::accept_with(&problem, &target, tiles))
                    .map(|build| build().expect("memory"))
                    .unwrap_or_else(|reject| panic!("no kernel for {op:?}: {reject:?}")),
            };
            assert!(selection.fuses && [3, 4, 5].iter().all(|position| selection.consumed.contains(position)));
            if is_simple && to.is_some() {
                let Op::Conv2d(conv) = &op else { unreachable!() };
                let [_, _, height, width] = conv.filter_layout.to_oihw(weights.1.first_chunk::<4>().unwrap());
                let is_square = height == width && height < 7 && conv.dilations == [1; 2];
                assert_eq!(format!("{:?}", selection.kernel).starts_with("DepthwiseOfBytes"), is_square, "{op:?}");
            }
            let mut found = vec![0u32; count(&output)];
            let bytes = &mut bytemuck::cast_slice_mut(&mut found)[..count(&output) * data_type.bits() / 8];
            let outputs = &mut [ViewMut { data_type, shape: &output, bytes }];
            let arguments = &mut Arguments::new(&views, outputs);
            if threads == 1 {
                selection.kernel.compute(arguments);
            } else {
                pool.install(|| selection.kernel.compute(arguments));
            }
            let numbers = |list: &[u32]| -> Vec<f64> {
                match to {
                    None => list.iter().map(|bits| f64::from(f32::from_bits(*bits))).collect(),
                    Some(_) => bytemuck::cast_slice::<_, u8>(list).iter().map(|&byte| f64::from(byte)).collect(),
                }
            };
            let name = tiles.name;
            assert_eq!(numbers(&found), numbers(&expected), "{name} with {threads} threads: {op:?} {image:?} {weights:?}");
        }
    }
}

#[test]
fn matrices() {
    let matmul = || Op::from(Matmul { a: OperandId(0), b: OperandId(3) });
    let gemm = |b_transpose, c: Option<OperandId>| {
        Op::from(Gemm { a: OperandId(0), b: OperandId(3), c, alpha: 1.0, beta: 1.0, a_transpose: false, b_transpose })
    };
    let mut number = 0;
    for (rows, depth, columns) in [(1, 1, 1), (1, 70, 100), (3, 101, 33), (12, 64, 32), (37, 129, 77), (250, 40, 31)] {
        for (of_image, zero) in [(Uint8, 0), (Uint8, 255), (Uint8, 130), (Int8, 0), (Int8, 128), (Int8, 127)] {
            for (of_weights, zero_b) in [(Int8, Some(0)), (Uint8, Some(128)), (Uint8, None), (Int8, None), (Int8, Some(128))] {
                number += 1;
                let to = [None, Some(Uint8), Some(Int8)][number % 3];
                let along = if number % 2 == 0 { columns } else { 1 };
                check(Case {
                    op: matmul(),
                    image: (of_image, vec![rows, depth], zero),
                    weights: (of_weights, vec![depth, columns]),
                    scales: (vec![1, along], zero_b),
                    output: vec![rows, columns],
                    to,
                    fused: Fused::All,
                });
            }
        }
    }
    check(Case {
        op: matmul(),
        image: (Uint8, vec![2, 3, 5, 16], 7),
        weights: (Int8, vec![1, 16, 9]),
        scales: (vec![1, 1, 9], Some(0)),
        output: vec![2, 3, 5, 9],
        to: None,
        fused: Fused::All,
    });
    for (b_transpose, c) in [(false, None), (true, None), (true, Some(OperandId(6)))] {
        let weights = if b_transpose { vec![40, 23] } else { vec![23, 40] };
        check(Case {
            op: gemm(b_transpose, c),
            image: (Int8, vec![17, 23], 3),
            weights: (Int8, weights),
            scales: (if b_transpose { vec![40, 1] } else { vec![1, 40] }, None),
            output: vec![17, 40],
            to: Some(Uint8),
            fused: Fused::All,
        });
    }
}

/// A product of bytes against sums in 64 bits: the bits of the sums, or what becomes of them as numbers.
struct Bytes<'a> {
    a: (DataType, &'a [usize], Option<u8>),
    /// The shape of its zero points, which may be none.
    b: (DataType, &'a [usize], Option<&'a [usize]>),
    is_known: bool,
    /// All bytes are those at one end of their range, and zero points at the other.
    is_extreme: bool,
}

/// One of the ways in which sums go on is that number.
#[expect(clippy::too_many_lines, reason = "a graph, and the same in plain loops")]
fn check_bytes(case: &Bytes<'_>, round: usize) {
    let ([batches_a @ .., rows, depth], [batches_b @ .., _, columns]) = (case.a.1, case.b.1) else { unreachable!() };
    let (rows, depth, columns) = (*rows, *depth, *columns);
    let batches = if batches_a.len() > batches_b.len() { batches_a } else { batches_b };
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let number = |of: DataType, byte: u8| if of == Int8 { i64::from(byte as i8) } else { i64::from(byte) };
    let made = |of: DataType, count: usize, seed: u64| match case.is_extreme {
        true => vec![if of == Int8 { 128 } else { 255 }; count],
        false => bytes(count, seed),
    };
    let (a, b) = (made(case.a.0, count(case.a.1), 5), made(case.b.0, count(case.b.1), 6));
    let zeros_b: Vec<u8> = match (case.b.2, case.is_extreme) {
        (None, _) => vec![0],
        (Some(shape), true) => vec![if case.b.0 == Int8 { 127 } else { 0 }; count(shape)],
        (Some(shape), false) => (0..count(shape)).map(|i| (i * 67 + 200) as u8).collect(),
    };
    let zero_a = [case.a.2.unwrap_or(0)];
    let output = [batches, &[rows, columns]].concat();
    let expected: Vec<i64> = (0..count(&output))
        .map(|i| {
            let (batch, row, column) = (i / (rows * columns), i / columns % rows, i % columns);
            // One matrix for all, or one for each.
            let of = |own: &[usize]| if count(own) == 1 { 0 } else { batch };
            let left = &a[(of(batches_a) * rows + row) * depth..][..depth];
            let right = |k: usize| number(case.b.0, b[(of(batches_b) * depth + k) * columns + column]);
            let zero_b = number(case.b.0, zeros_b[if zeros_b.len() == 1 { 0 } else { column }]);
            let term = |(k, &byte): (usize, &u8)| (number(case.a.0, byte) - number(case.a.0, zero_a[0])) * (right(k) - zero_b);
            left.iter().enumerate().map(term).sum()
        })
        .collect();
    let row: Vec<i32> = (0..columns as i32).map(|i| i * 1_000_003 - 5).collect();
    let (scale, bias): ([f32; 1], Vec<f32>) = ([0.5], (0..columns).map(|i| i as f32 * 16.0).collect());
    let id = OperandId;
    let op = QuantizedMatmul { a: id(0), b: id(1), a_zero_point: case.a.2.map(|_| id(2)), b_zero_point: case.b.2.map(|_| id(3)) };
    let op = Op::from(op);
    let shapes = [case.a.1, case.b.1, &[], case.b.2.unwrap_or(&[]), &[columns], &[1], &[columns]];
    let views = [
        View::new(case.a.0, shapes[0], &a),
        View::new(case.b.0, shapes[1], &b),
        View::new(case.a.0, shapes[2], &zero_a),
        View::new(case.b.0, shapes[3], &zeros_b),
        View::new(Int32, shapes[4], bytemuck::cast_slice(&row)),
        float(shapes[5], &scale),
        float(shapes[6], &bias),
    ];
    let add = |kind, other| Op::from(Binary { kind, a: id(7), b: id(other) });
    let to_float = Op::from(Cast { input: id(7), data_type: Float32 });
    let chains = [
        (vec![], Int32),
        (vec![add(BinaryKind::Add, 4)], Int32),
        (vec![to_float.clone(), add(BinaryKind::Mul, 5), add(BinaryKind::Add, 6)], Float32),
        (vec![add(BinaryKind::Add, 4), to_float, add(BinaryKind::Mul, 5)], Float32),
    ];
    // Whether operands are known changes from round to round.
    let number_of_chain = (round + round / 2) % chains.len();
    let (fused, data_type) = &chains[number_of_chain];
    let expected: Vec<u32> = (0..expected.len())
        .map(|i| {
            let (sum, column) = (expected[i] as i32, i % columns);
            match number_of_chain {
                0 => sum as u32,
                1 => sum.wrapping_add(row[column]) as u32,
                2 => (sum as f32 * scale[0] + bias[column]).to_bits(),
                _ => (sum.wrapping_add(row[column]) as f32 * scale[0]).to_bits(),
            }
        })
        .collect();
    let known = known(&views, |i| matches!(i, 1 | 3) && case.is_known || i == 6);
    for (isa, tiles) in instruction_sets().iter().flat_map(|isa| Tiles::all_of(isa).into_iter().map(move |tiles| (isa, tiles))) {
        let threads = 1 + 2 * (round / 8 % 2);
        let problem = Problem {
            prologue: &[],
            dequantized: &[],
            op: &op,
            fused,
            inputs: &known,
            output: TensorDesc { data_type: *data_type, shape: &output, constant: None, order: None },
            workspace: None,
        };
        let target = Target::with(isa, threads);
        let packed = accept_with(&problem, &target, tiles);
        assert_eq!(packed.is_ok(), case.is_known && count(batches_b) == 1);
        let kernels = [packed, computed::accept_with(&problem, &target, tiles)];
        for build in kernels.into_iter().flatten() {
            let kernel = build().expect("memory").kernel;
            let mut found = vec![0u32; expected.len()];
            let bytes = bytemuck::cast_slice_mut(&mut found);
            let outputs = &mut [ViewMut { data_type: *data_type, shape: &output, bytes }];
            kernel.compute(&mut Arguments::new(&views, outputs));
            let name = (isa.name, tiles.name, fused, case.is_known, case.is_extreme);
            assert!(found == expected, "{name:?}: {:?} times {:?}", case.a, case.b);
        }
    }
}

#[test]
fn products_of_bytes_are_exact() {
    let shapes: [(&[usize], &[usize]); 9] = [
        (&[1, 1], &[1, 1]),
        (&[1, 70], &[70, 100]),
        (&[3, 101], &[101, 33]),
        (&[12, 64], &[64, 32]),
        (&[37, 29], &[29, 77]),
        (&[2, 5, 7], &[7, 40]),
        (&[3, 5, 21], &[3, 21, 18]),
        (&[9, 13], &[2, 13, 5]),
        (&[40, 32], &[1, 32, 64]),
    ];
    let mut round = 0;
    for (a, b) in shapes {
        let (columns, one) = ([b[b.len() - 1]], [1]);
        for of_a in [Uint8, Int8] {
            for of_b in [Uint8, Int8] {
                for zero_a in [None, Some(0), Some(255), Some(128), Some(127)] {
                    for zeros_b in [None, Some(&columns[..]), Some(&one)] {
                        for is_known in [false, true] {
                            let (a, b) = ((of_a, a, zero_a), (of_b, b, zeros_b));
                            check_bytes(&Bytes { a, b, is_known, is_extreme: false }, round);
                            round += 1;
                        }
                    }
                }
            }
        }
    }
}

/// The greatest sums of every sign, of a depth that is odd, and of one beyond which they wrap around.
#[test]
fn products_of_the_greatest_bytes_are_exact() {
    let mut round = 0;
    for depth in [1025, 40_001] {
        for of_a in [Uint8, Int8] {
            for of_b in [Uint8, Int8] {
                let zero_a = if of_a == Int8 { 127 } else { 0 };
                for zeros_b in [None, Some(&[][..])] {
                    for is_known in [false, true] {
                        let (a, b) = ((of_a, &[2, depth][..], Some(zero_a)), (of_b, &[depth, 3][..], zeros_b));
                        check_bytes(&Bytes { a, b, is_known, is_extreme: true }, round);
                        round += 1;
                    }
                }
            }
        }
    }
}

/// An image, and how a window slides over it.
struct Sliding {
    channels: usize,
    window: [u32; 2],
    strides: [u32; 2],
    dilations: [u32; 2],
    padding: [u32; 4],
}

/// Convolutions to so many outputs, each of one channel of its own or of all channels.
fn check_images(sliding: Sliding, outputs: usize, is_depthwise: bool, number: &mut usize) {
    use Conv2dFilterOperandLayout::{Hwio, Ihwo, Ohwi, Oihw};
    let Sliding { channels, window, strides, dilations, padding } = sliding;
    for (of_image, zero) in [(Uint8, 200), (Int8, 128), (Uint8, 0)] {
        for layout in [Oihw, Hwio, Ohwi, Ihwo] {
            *number += 1;
            let number = *number;
            let (height, width) = (7, 9);
            let size = |number: usize, input: u32| {
                let all = input + padding[2 * number] + padding[2 * number + 1];
                ((all - (window[number] - 1) * dilations[number] - 1) / strides[number] + 1) as usize
            };
            let (of_group, groups) = if is_depthwise { (1, channels as u32) } else { (channels, 1) };
            let sizes = [outputs, of_group, window[0] as usize, window[1] as usize];
            let shape = match layout {
                Oihw => [0, 1, 2, 3],
                Hwio => [2, 3, 1, 0],
                Ohwi => [0, 2, 3, 1],
                Ihwo => [1, 2, 3, 0],
            };
            let of_scales =
                if number.is_multiple_of(2) { vec![1; 4] } else { shape.map(|i| if i == 0 { outputs } else { 1 }).to_vec() };
            let conv = Conv2d {
                input: OperandId(0),
                filter: OperandId(3),
                padding,
                strides,
                dilations,
                groups,
                input_layout: InputOperandLayout::Nhwc,
                filter_layout: layout,
                bias: (number.is_multiple_of(3)).then_some(OperandId(6)),
            };
            check(Case {
                op: conv.into(),
                image: (of_image, vec![2, height, width, channels], zero),
                weights: (if number % 5 < 3 { Int8 } else { Uint8 }, shape.map(|i| sizes[i]).to_vec()),
                scales: (of_scales, if number.is_multiple_of(4) { None } else { Some(0) }),
                output: vec![2, size(0, height as u32), size(1, width as u32), outputs],
                to: [None, Some(Uint8), Some(Int8)][number % 3],
                fused: if is_depthwise && number % 7 < 5 { Fused::Relu } else { Fused::All },
            });
        }
    }
}

#[test]
fn images() {
    let mut number = 0;
    for (channels, window, strides, dilations, padding, outputs) in [
        (3, [3, 3], [2, 2], [1, 1], [0, 1, 0, 1], 24),
        (8, [1, 1], [1, 1], [1, 1], [0; 4], 33),
        (5, [1, 1], [2, 3], [1, 1], [0; 4], 16),
        (12, [3, 3], [1, 1], [1, 1], [1; 4], 7),
        (7, [3, 2], [1, 1], [2, 3], [2, 2, 3, 3], 40),
        (2, [1, 5], [1, 2], [1, 1], [0, 0, 4, 0], 5),
    ] {
        check_images(Sliding { channels, window, strides, dilations, padding }, outputs, false, &mut number);
    }
}

#[test]
fn images_of_which_each_channel_has_its_own_filter() {
    let mut number = 0;
    for (channels, window, strides, dilations, padding) in [
        (40, [3, 3], [1, 1], [1, 1], [1; 4]),
        (5, [3, 3], [1, 1], [1, 1], [0; 4]),
        (33, [3, 3], [2, 2], [1, 1], [0, 1, 0, 1]),
        (17, [5, 5], [1, 1], [1, 1], [2; 4]),
        (20, [5, 5], [2, 2], [1, 1], [2, 1, 2, 1]),
        (16, [3, 3], [1, 1], [2, 2], [2; 4]),
        (6, [3, 2], [1, 2], [1, 1], [3, 0, 1, 1]),
        (9, [7, 7], [1, 1], [1, 1], [3; 4]),
    ] {
        check_images(Sliding { channels, window, strides, dilations, padding }, channels, true, &mut number);
    }
}
