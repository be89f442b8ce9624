//! Calls of such sizes that the GPU's kernels divide their work in other ways than for the small calls of the other suites:
//! tiles, several workgroups for a sum, rows in registers, grids of more than one row. The oracle is the reference.
//!
//! `WEBNN_CASES=softmax` runs only the cases with that in their name.

#[path = "runners/portable.rs"]
mod portable;
#[path = "runners/timeline.rs"]
#[allow(dead_code, reason = "the other suites use the rest")]
mod timeline;

use std::process::Command;
use std::sync::Arc;
use webnn_node::backend::cpu::reference::interpret;
use webnn_node::graph::attribute::Modulo;
use webnn_node::graph::ops::arg::{Arg, ArgKind};
use webnn_node::graph::ops::conv::{Conv2d, ConvTranspose2d};
use webnn_node::graph::ops::cumulative::CumulativeSum;
use webnn_node::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Cast};
use webnn_node::graph::ops::gather::Gather;
use webnn_node::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
use webnn_node::graph::ops::matmul::{Gemm, Matmul};
use webnn_node::graph::ops::movement::{Concat, Transpose};
use webnn_node::graph::ops::normalization::{InstanceNormalization, LayerNormalization};
use webnn_node::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
use webnn_node::graph::ops::recurrent::{Gru, GruWeightLayout, Lstm, LstmWeightLayout, RecurrentNetworkDirection};
use webnn_node::graph::ops::reduce::{Reduce, ReduceKind};
use webnn_node::graph::ops::scatter::ScatterElements;
use webnn_node::graph::ops::softmax::Softmax;
use webnn_node::graph::{DataType, Descriptor, Graph, GraphBuilder, Limits, Op, OperandId};

use DataType::{Float16, Float32, Int8, Int32, Int64};

pub type Runner = fn(&Graph, &[&[u8]]) -> Vec<Vec<u8>>;

/// Pseudo-random numbers between -1 and 1.
fn numbers(count: usize, seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
    .take(count)
}

fn bytes(data_type: DataType, count: usize, seed: u64) -> Vec<u8> {
    let numbers = numbers(count, seed);
    match data_type {
        Float32 => numbers.flat_map(f32::to_le_bytes).collect(),
        Float16 => numbers.flat_map(|x| half::f16::from_f32(x).to_le_bytes()).collect(),
        Int8 => numbers.flat_map(|x| ((x * 127.0) as i8).to_le_bytes()).collect(),
        Int32 => numbers.flat_map(|x| ((x * 400.0) as i32).to_le_bytes()).collect(),
        Int64 => numbers.flat_map(|x| ((x * 1e12) as i64).to_le_bytes()).collect(),
        other => panic!("no numbers of {other}"),
    }
}

fn values(data_type: DataType, bytes: &[u8]) -> Vec<f64> {
    let of = |chunk: &[u8]| match data_type {
        Float32 => f64::from(f32::from_le_bytes(chunk.try_into().unwrap())),
        Float16 => half::f16::from_le_bytes(chunk.try_into().unwrap()).to_f64(),
        Int8 => f64::from(chunk[0] as i8),
        Int32 => f64::from(i32::from_le_bytes(chunk.try_into().unwrap())),
        Int64 => i64::from_le_bytes(chunk.try_into().unwrap()) as f64,
        other => panic!("no numbers of {other}"),
    };
    bytes.chunks(data_type.bits() / 8).map(of).collect()
}

struct Suite {
    only: Option<String>,
    /// Nothing where there is no GPU: then shaders are looked at, and not run.
    runner: Option<Runner>,
    cases: usize,
}

impl Suite {
    /// Runs the operators one after the other, each of which may use the outputs of those before, which are numbered after
    /// the inputs.
    fn check(&mut self, name: &str, inputs: &[(DataType, &[u32])], ops: Vec<Op>) {
        let name = format!("{name} of {inputs:?}");
        if self.only.as_ref().is_some_and(|only| !name.contains(only)) {
            return;
        }
        self.cases += 1;
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let mut ids: Vec<OperandId> = Vec::new();
        let mut data = Vec::new();
        for (number, (data_type, shape)) in inputs.iter().enumerate() {
            ids.push(builder.input(&format!("{number}"), Descriptor::new(*data_type, shape.iter().copied())).unwrap());
            data.push(bytes(*data_type, shape.iter().product::<u32>() as usize, number as u64 + 1));
        }
        let mut last = Vec::new();
        for mut op in ops {
            op.visit_mut(&mut |id| *id = ids[id.0 as usize]);
            last = builder.push_op(op, "").unwrap().to_vec();
            ids.extend(&last);
        }
        let outputs = last.iter().enumerate().map(|(number, id)| (format!("{number}"), *id)).collect();
        let graph = builder.build(outputs).unwrap();
        let faults = portable::faults(&graph, portable::Which::All);
        assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
        let Some(runner) = self.runner else { return };
        let data: Vec<&[u8]> = graph.inputs.iter().map(|(name, _)| &data[name.parse::<usize>().unwrap()][..]).collect();
        let (expected, found) = (interpret(&graph, &data), runner(&graph, &data));
        for ((_, id), (expected, found)) in graph.outputs.iter().zip(expected.iter().zip(&found)) {
            let data_type = graph.descriptor(*id).data_type;
            let (expected, found) = (values(data_type, expected), values(data_type, found));
            let tolerance = match data_type {
                Float32 => 1e-4,
                Float16 => 2e-3,
                _ => 0.0,
            };
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let distance = (found - expected).abs();
                assert!(distance <= tolerance * expected.abs().max(1.0), "{name}: element {i} is {found}, not {expected}");
            }
        }
    }
}

fn suite() -> Suite {
    let only = std::env::var("WEBNN_CASES").ok();
    Suite { only, runner: timeline::wgpu(), cases: 0 }
}

const X: OperandId = OperandId(0);
const Y: OperandId = OperandId(1);

/// How much the device binds at once, when it is less than it could.
const BINDING_SIZE: &str = "WEBNN_GPU_BINDING_SIZE";

/// Tensors that are larger than what the device binds at once, in a process whose device binds little.
#[test]
fn tensors_are_bound_in_parts() {
    if std::env::var_os(BINDING_SIZE).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args(["--exact", "tensors_are_bound_in_parts", "--nocapture"])
            .env(BINDING_SIZE, "65536")
            // The parts are more than the buffers of the least device.
            .env_remove("WEBNN_GPU_LIMITS")
            .env("WEBNN_GPU_SIZES", "open");
        assert!(again.status().unwrap().success());
        return;
    }
    let mut suite = suite();
    let z = OperandId(2);
    for data_type in [Float32, Float16, Int8, Int64] {
        let large: (DataType, &[u32]) = (data_type, &[3, 90, 301]);
        suite.check("gather", &[large, (Int32, &[80])], vec![Gather { input: X, indices: Y, axis: 1 }.into()]);
        suite.check("transpose", &[large], vec![Transpose { input: X, permutation: Some(vec![2, 0, 1]) }.into()]);
        suite.check("add", &[large, (data_type, &[301])], vec![Binary { kind: BinaryKind::Add, a: X, b: Y }.into()]);
        let small: (DataType, &[u32]) = (data_type, &[3, 5, 301]);
        suite.check("concat", &[small, large, small], vec![Concat { inputs: vec![X, Y, z], axis: 1 }.into()]);
        let scatter = ScatterElements { input: X, indices: Y, updates: z, axis: 1 };
        let (indices, updates): (&[u32], _) = (&[3, 20, 301], (data_type, &[3, 20, 301][..]));
        suite.check("scatterElements", &[large, (Int32, indices), updates], vec![scatter.into()]);
        let kind = ReduceKind::Max;
        let maximum = Reduce { kind, input: X, axes: Some(vec![0, 2]), keep_dimensions: false };
        suite.check("maximum", &[large], vec![maximum.into()]);
    }
    for data_type in [Float32, Float16] {
        let product = Matmul { a: X, b: Y };
        suite.check("matmul", &[(data_type, &[90, 400]), (data_type, &[400, 700])], vec![product.clone().into()]);
        suite.check("matmul", &[(data_type, &[2, 1500]), (data_type, &[1500, 200])], vec![product.into()]);
        suite.check("softmax", &[(data_type, &[300, 500])], vec![Softmax { input: X, axis: 1 }.into()]);
    }
    println!("{} cases", suite.cases);
}

#[test]
fn reductions() {
    let mut suite = suite();
    let reduce = |kind, axes: &[u32]| Op::from(Reduce { kind, input: X, axes: Some(axes.to_vec()), keep_dimensions: false });
    // One invocation, a workgroup, and several workgroups for an output.
    let shapes: [(&[u32], &[u32]); 6] = [
        (&[70_000, 2], &[1]),
        (&[33_000, 40], &[1]),
        (&[40, 500, 3], &[0, 2]),
        (&[300, 70], &[1]),
        (&[3, 70_001], &[1]),
        (&[30_000, 2], &[0]),
    ];
    for (shape, axes) in shapes {
        for kind in [ReduceKind::Sum, ReduceKind::L2, ReduceKind::LogSumExp, ReduceKind::Mean, ReduceKind::Min] {
            suite.check(&format!("{kind:?} along {axes:?}"), &[(Float32, shape)], vec![reduce(kind, axes)]);
        }
        suite.check("maximum", &[(Int8, shape)], vec![reduce(ReduceKind::Max, axes)]);
        suite.check("sum", &[(Int64, shape)], vec![reduce(ReduceKind::Sum, axes)]);
        suite.check("mean", &[(Float16, shape)], vec![reduce(ReduceKind::Mean, axes)]);
    }
    for (shape, axis) in [(&[2, 50_000][..], 1), (&[300, 700], 0), (&[2, 40_000, 2], 1)] {
        for data_type in [Float32, Int8, Int64] {
            let arg = Arg { kind: ArgKind::Max, input: X, axis, keep_dimensions: false, output_data_type: Int64 };
            suite.check("argMax", &[(data_type, shape)], vec![arg.into()]);
        }
    }
    for (shape, axis) in [(&[3, 1000][..], 1), (&[1000, 3], 0), (&[5, 60, 7], 1), (&[2, 3001], 1)] {
        for (exclusive, reversed) in [(false, false), (true, true)] {
            for data_type in [Float32, Float16, Int64] {
                let sum = CumulativeSum { input: X, axis: Modulo(axis), exclusive, reversed };
                suite.check("cumulativeSum", &[(data_type, shape)], vec![sum.into()]);
            }
        }
    }
    println!("{} cases", suite.cases);
}

#[test]
fn normalizations() {
    let mut suite = suite();
    let shapes: [(&[u32], u32); 6] =
        [(&[3, 500], 1), (&[5, 1501], 1), (&[3, 3000], 1), (&[2, 30, 4500], 1), (&[70_000, 20], 1), (&[9000, 5], 1)];
    for (shape, axis) in shapes {
        for data_type in [Float32, Float16] {
            suite.check("softmax", &[(data_type, shape)], vec![Softmax { input: X, axis }.into()]);
            let normalization =
                LayerNormalization { input: X, scale: Some(Y), bias: Some(Y), axes: Some(vec![axis]), epsilon: 1e-5 };
            let factors = [shape[axis as usize]];
            suite.check("layerNormalization", &[(data_type, shape), (data_type, &factors)], vec![normalization.into()]);
        }
    }
    for layout in [InputOperandLayout::Nchw, InputOperandLayout::Nhwc] {
        let normalization = InstanceNormalization { input: X, scale: None, bias: None, epsilon: 1e-5, layout };
        suite.check(&format!("instanceNormalization {layout:?}"), &[(Float32, &[2, 40, 60, 36])], vec![normalization.into()]);
        for kind in [Pool2dKind::Average, Pool2dKind::L2, Pool2dKind::Max] {
            let pool = Pool2d {
                kind,
                input: X,
                window_dimensions: None,
                padding: [0; 4],
                strides: [1; 2],
                dilations: [1; 2],
                layout,
                output_shape_rounding: RoundingType::Floor,
                output_sizes: None,
            };
            suite.check(&format!("{kind:?} pool {layout:?}"), &[(Float32, &[2, 40, 60, 36])], vec![pool.into()]);
        }
    }
    println!("{} cases", suite.cases);
}

#[test]
fn products() {
    let mut suite = suite();
    let pairs: [(&[u32], &[u32]); 14] = [
        // Vectors on one side.
        (&[1, 700], &[700, 300]),
        (&[300, 700], &[700, 1]),
        (&[3, 2000], &[2000, 50]),
        (&[50, 2000], &[2000, 4]),
        (&[4, 1, 64], &[4, 64, 300]),
        // Tiles: all sizes of them, whole and not, and depth that is shared.
        (&[130, 40], &[40, 200]),
        (&[64, 3000], &[3000, 70]),
        (&[256, 64], &[64, 256]),
        (&[200, 300], &[300, 150]),
        (&[1024, 17], &[17, 1200]),
        (&[2048, 16], &[16, 2048]),
        (&[2050, 9], &[9, 2047]),
        // Stacks.
        (&[6, 40, 50], &[6, 50, 60]),
        (&[2, 1, 40, 50], &[3, 50, 60]),
    ];
    for (a, b) in pairs {
        for data_type in [Float32, Float16] {
            suite.check("matmul", &[(data_type, a), (data_type, b)], vec![Matmul { a: X, b: Y }.into()]);
        }
        suite.check(
            "matmul, gelu and cast",
            &[(Float32, a), (Float32, b)],
            vec![
                Matmul { a: X, b: Y }.into(),
                Activation { kind: ActivationKind::Gelu, input: OperandId(2) }.into(),
                Cast { input: OperandId(3), data_type: Float16 }.into(),
            ],
        );
    }
    for transposed in 0..4 {
        let [a_transpose, b_transpose] = [transposed & 1 == 1, transposed & 2 == 2];
        for [rows, depth, columns] in [[70, 110, 90], [2, 700, 90], [90, 700, 3]] {
            let of = |rows, columns, transpose| if transpose { [columns, rows] } else { [rows, columns] };
            let (a, b) = (of(rows, depth, a_transpose), of(depth, columns, b_transpose));
            let gemm = Gemm { a: X, b: Y, c: Some(OperandId(2)), alpha: 0.5, beta: 2.0, a_transpose, b_transpose };
            suite.check("gemm", &[(Float32, &a), (Float32, &b), (Float32, &[columns])], vec![gemm.into()]);
        }
    }
    println!("{} cases", suite.cases);
}

#[test]
fn convolutions() {
    let mut suite = suite();
    let sizes: [([u32; 4], u32, [u32; 2], u32); 8] = [
        // input, output channels, filter, groups
        ([1, 3, 40, 31], 13, [3, 3], 1),
        ([2, 16, 14, 14], 40, [1, 1], 1),
        ([1, 8, 7, 7], 30, [3, 2], 2),
        ([1, 160, 9, 7], 64, [5, 3], 1),
        ([2, 6, 17, 19], 6, [3, 3], 6),
        ([1, 64, 130, 131], 3, [3, 3], 1),
        ([1, 40, 12, 13], 20, [2, 4], 2),
        ([2, 3, 130, 140], 128, [2, 2], 1),
    ];
    for ([n, c, h, w], outputs, [fh, fw], groups) in sizes {
        for (input_layout, filter_layout, input, filter) in [
            (InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw, [n, c, h, w], [outputs, c / groups, fh, fw]),
            (InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Ohwi, [n, h, w, c], [outputs, fh, fw, c / groups]),
            (InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Hwio, [n, h, w, c], [fh, fw, c / groups, outputs]),
        ] {
            let conv = Conv2d {
                input: X,
                filter: Y,
                padding: [1, 0, 1, 1],
                strides: [2, 1],
                dilations: [1, 2],
                groups,
                input_layout,
                filter_layout,
                bias: Some(OperandId(2)),
            };
            let name = format!("conv2d {input_layout:?} {filter_layout:?} in {groups} groups");
            for data_type in [Float32, Float16] {
                let inputs: [(DataType, &[u32]); 3] = [(data_type, &input), (data_type, &filter), (data_type, &[outputs])];
                suite.check(&name, &inputs, vec![conv.clone().into()]);
            }
            suite.check(
                &format!("{name}, sum and relu"),
                &[(Float32, &input), (Float32, &filter), (Float32, &[outputs]), (Float32, &[1])],
                vec![
                    conv.into(),
                    Binary { kind: BinaryKind::Add, a: OperandId(3), b: OperandId(4) }.into(),
                    Activation { kind: ActivationKind::Relu, input: OperandId(5) }.into(),
                ],
            );
        }
        for (input_layout, filter_layout, input, filter) in [
            (InputOperandLayout::Nchw, ConvTranspose2dFilterOperandLayout::Iohw, [n, c, h, w], [c, outputs / groups, fh, fw]),
            (InputOperandLayout::Nhwc, ConvTranspose2dFilterOperandLayout::Hwoi, [n, h, w, c], [fh, fw, outputs / groups, c]),
        ] {
            if h > 100 {
                continue;
            }
            let conv = ConvTranspose2d {
                padding: [1, 0, 1, 1],
                strides: [2, 3],
                dilations: [1, 2],
                output_padding: [1, 0],
                groups,
                ..ConvTranspose2d::new(X, Y, input_layout, filter_layout)
            };
            let name = format!("convTranspose2d {input_layout:?} in {groups} groups");
            suite.check(&name, &[(Float32, &input), (Float32, &filter)], vec![conv.into()]);
        }
    }
    println!("{} cases", suite.cases);
}

#[test]
fn recurrent_networks() {
    let mut suite = suite();
    let (steps, batches, inputs) = (5, 3, 40);
    for hidden in [7, 70] {
        for direction in [RecurrentNetworkDirection::Backward, RecurrentNetworkDirection::Both] {
            let directions = direction.count();
            let shapes = |gates: u32| {
                [
                    vec![steps, batches, inputs],
                    vec![directions, gates * hidden, inputs],
                    vec![directions, gates * hidden, hidden],
                    vec![directions, gates * hidden],
                    vec![directions, batches, hidden],
                ]
            };
            for return_sequence in [false, true] {
                let lstm = Lstm {
                    input: X,
                    weight: Y,
                    recurrent_weight: OperandId(2),
                    steps,
                    hidden_size: hidden,
                    bias: Some(OperandId(3)),
                    recurrent_bias: Some(OperandId(3)),
                    peephole_weight: None,
                    initial_hidden_state: Some(OperandId(4)),
                    initial_cell_state: None,
                    return_sequence,
                    direction,
                    layout: LstmWeightLayout::Ifgo,
                    activations: None,
                };
                let lstm_shapes = shapes(4);
                let operands: Vec<(DataType, &[u32])> = lstm_shapes.iter().map(|shape| (Float32, &shape[..])).collect();
                suite.check(&format!("lstm {direction:?}"), &operands, vec![lstm.into()]);
                for reset_after in [false, true] {
                    let gru = Gru {
                        input: X,
                        weight: Y,
                        recurrent_weight: OperandId(2),
                        steps,
                        hidden_size: hidden,
                        bias: Some(OperandId(3)),
                        recurrent_bias: Some(OperandId(3)),
                        initial_hidden_state: Some(OperandId(4)),
                        reset_after,
                        return_sequence,
                        direction,
                        layout: GruWeightLayout::Zrn,
                        activations: None,
                    };
                    let gru_shapes = shapes(3);
                    let operands: Vec<(DataType, &[u32])> = gru_shapes.iter().map(|shape| (Float32, &shape[..])).collect();
                    suite.check(&format!("gru {direction:?} {reset_after}"), &operands, vec![gru.into()]);
                }
            }
        }
    }
    println!("{} cases", suite.cases);
}
