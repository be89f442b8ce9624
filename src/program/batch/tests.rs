//! Graphs for one row and for several: those whose rows see each other are refused, and of the others joined runs give what single ones give.

use super::{Refusal, Rows, analyse};
use crate::backend::cpu::reference::interpret;
use crate::graph::attribute::{Modulo, UnsignedOrList};
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::ops::gather::{Gather, GatherElements, GatherNd};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::ops::movement::{Concat, Expand, Pad, PaddingMode, Reverse, Slice, Split, Tile, Transpose, Triangular};
use crate::graph::ops::normalization::{BatchNormalization, InstanceNormalization, LayerNormalization};
use crate::graph::ops::quantized::DynamicQuantizeLinear;
use crate::graph::ops::recurrent::{Lstm, LstmWeightLayout, RecurrentNetworkDirection};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::scatter::ScatterNd;
use crate::graph::ops::softmax::Softmax;
use crate::graph::ops::top_k::TopK;
use crate::graph::testing::{GraphSketch, bytes_of, numbers};
use crate::graph::{DataType, Graph, Number, OperandId};

const FACTOR: u32 = 3;

/// A graph under construction for so many rows.
type Sketch = GraphSketch<RowCount>;

struct RowCount {
    rows: u32,
}

impl Sketch {
    /// `[rows, 4]`
    fn x(&mut self) -> OperandId {
        let shape = [self.data.rows, 4];
        self.input("x", &shape)
    }

    /// `[rows, 2, 4, 4]`
    fn image(&mut self) -> OperandId {
        let shape = [self.data.rows, 2, 4, 4];
        self.input("x", &shape)
    }
}

fn graph(rows: u32, build: impl Fn(&mut Sketch)) -> Graph {
    let mut sketch = GraphSketch::default().and(RowCount { rows });
    build(&mut sketch);
    sketch.build()
}

/// The bytes of a row of a value along an axis.
fn row(bytes: &[u8], shape: &[u32], rows: Rows, at: usize) -> Vec<u8> {
    let Some(axis) = rows else { return bytes.to_vec() };
    let outer: usize = shape[..axis].iter().map(|&size| size as usize).product();
    let long = bytes.len() / outer;
    let part = long / FACTOR as usize;
    bytes.chunks(long).flat_map(|all| all[at * part..][..part].to_vec()).collect()
}

/// Rows are apart, and each is what it is alone.
#[track_caller]
fn apart(build: impl Fn(&mut Sketch)) {
    let (one, many) = (graph(1, &build), graph(FACTOR, &build));
    let analysis = analyse(&one, &many).unwrap();
    let inputs: Vec<Vec<u8>> =
        many.inputs.iter().map(|(_, id)| bytes_of(numbers(many.descriptor(*id).element_count(), id.0))).collect();
    let all = interpret(&many, &inputs.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
    for at in 0..FACTOR as usize {
        let own: Vec<Vec<u8>> = one
            .inputs
            .iter()
            .map(|(name, _)| {
                let position = many.inputs.iter().position(|(other, _)| other == name).unwrap();
                let id = many.inputs[position].1;
                row(&inputs[position], &many.descriptor(id).shape, analysis.rows(id), at)
            })
            .collect();
        let alone = interpret(&one, &own.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
        for ((_, id), (all, alone)) in many.outputs.iter().zip(all.iter().zip(&alone)) {
            assert_eq!(&row(all, &many.descriptor(*id).shape, analysis.rows(*id), at), alone, "row {at}");
        }
    }
}

/// Rows see each other in the node of this operator.
#[track_caller]
fn mixed(operator: &str, build: impl Fn(&mut Sketch)) {
    match analyse(&graph(1, &build), &graph(FACTOR, &build)) {
        Ok(_) => panic!("accepted"),
        Err(Refusal { node, operator: found, reason }) => {
            assert_eq!((node.as_str(), found.as_str()), ("the node", operator), "{reason}");
        }
    }
}

#[test]
fn elementwise_operators() {
    apart(|g| {
        let (x, c) = (g.x(), g.weights(&[4], 9));
        let sum = g.add(x, c);
        let twice = g.add(sum, x);
        g.end(twice);
    });
    // Rows along one axis, and the same rows along another: all pairs of them.
    mixed("add", |g| {
        let x = g.input("x", &[g.data.rows, 1]);
        let other = g.push(Transpose { input: x, permutation: None });
        let sum = g.add(x, other);
        g.end(sum);
    });
}

#[test]
fn constants_that_count_rows() {
    mixed("add", |g| {
        let x = g.x();
        let counts: Vec<f32> = (0..g.data.rows * 4).map(|at| (at / 4) as f32).collect();
        let counts = g.floats(&[g.data.rows, 4], counts);
        let sum = g.add(x, counts);
        g.end(sum);
    });
    // The same for each row.
    apart(|g| {
        let x = g.x();
        let counts: Vec<f32> = (0..g.data.rows * 4).map(|at| (at % 4) as f32).collect();
        let counts = g.floats(&[g.data.rows, 4], counts);
        let sum = g.add(x, counts);
        g.end(sum);
    });
    // Of the same shape, but divided by the number of rows.
    mixed("mul", |g| {
        let (x, rows) = (g.x(), f64::from(g.data.rows));
        let scale = g.builder.scalar(DataType::Float32, Number::Double(1.0 / rows)).unwrap();
        let product = g.push(Binary { kind: BinaryKind::Mul, a: x, b: scale });
        g.end(product);
    });
}

#[test]
fn products() {
    apart(|g| {
        let (x, weights) = (g.x(), g.weights(&[4, 5], 9));
        let product = g.push(Matmul { a: x, b: weights });
        g.end(product);
    });
    // Attention: a stack of matrices on both sides.
    apart(|g| {
        let x = g.input("x", &[g.data.rows, 3, 4]);
        let other = g.push(Transpose { input: x, permutation: Some(vec![0, 2, 1]) });
        let product = g.push(Matmul { a: x, b: other });
        g.end(product);
    });
    // Each row with each.
    mixed("matmul", |g| {
        let x = g.x();
        let other = g.push(Transpose { input: x, permutation: None });
        let product = g.push(Matmul { a: x, b: other });
        g.end(product);
    });
    mixed("matmul", |g| {
        let x = g.x();
        let other = g.push(Transpose { input: x, permutation: None });
        let product = g.push(Matmul { a: other, b: x });
        g.end(product);
    });
    for (a_transpose, b_transpose) in [(false, false), (true, true), (true, false)] {
        apart(|g| {
            let x = if a_transpose { g.input("x", &[4, g.data.rows]) } else { g.x() };
            let (b, c) = (g.weights(if b_transpose { &[5, 4] } else { &[4, 5] }, 9), g.weights(&[5], 9));
            let product = g.push(Gemm { a: x, b, c: Some(c), alpha: 1.0, beta: 1.0, a_transpose, b_transpose });
            g.end(product);
        });
    }
    mixed("gemm", |g| {
        let x = g.x();
        let product = g.push(Gemm { a: x, b: x, c: None, alpha: 1.0, beta: 1.0, a_transpose: true, b_transpose: false });
        g.end(product);
    });
}

fn conv(input: OperandId, filter: OperandId) -> Conv2d {
    Conv2d { padding: [1; 4], ..Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw) }
}

#[test]
fn convolutions() {
    apart(|g| {
        let (x, filter) = (g.image(), g.weights(&[3, 2, 3, 3], 9));
        let result = g.push(conv(x, filter));
        g.end(result);
    });
    // Rows as pixels.
    mixed("conv2d", |g| {
        let (x, filter) = (g.image(), g.weights(&[3, 2, 3, 3], 9));
        let transposed = g.push(Transpose { input: x, permutation: Some(vec![2, 1, 0, 3]) });
        let result = g.push(conv(transposed, filter));
        g.end(result);
    });
}

#[test]
fn reductions_and_normalizations() {
    let reduce = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(Reduce { kind: ReduceKind::Mean, input, axes: Some(vec![axis]), keep_dimensions: false });
            g.end(result);
        }
    };
    apart(reduce(1));
    mixed("reduceMean", reduce(0));
    let softmax = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(Softmax { input, axis });
            g.end(result);
        }
    };
    apart(softmax(1));
    mixed("softmax", softmax(0));
    let arg = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result =
                g.push(Arg { kind: ArgKind::Max, input, axis, keep_dimensions: false, output_data_type: DataType::Int32 });
            g.end(result);
        }
    };
    apart(arg(1));
    mixed("argMax", arg(0));
    let sums = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(CumulativeSum { input, axis: Modulo(axis), exclusive: false, reversed: false });
            g.end(result);
        }
    };
    apart(sums(1));
    mixed("cumulativeSum", sums(0));
    let normalize = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(LayerNormalization { input, scale: None, bias: None, axes: Some(vec![axis]), epsilon: 1e-5 });
            g.end(result);
        }
    };
    apart(normalize(1));
    mixed("layerNormalization", normalize(0));
    apart(|g| {
        let input = g.image();
        let result =
            g.push(InstanceNormalization { input, scale: None, bias: None, epsilon: 1e-5, layout: InputOperandLayout::Nchw });
        g.end(result);
    });
    apart(|g| {
        let (input, mean) = (g.x(), g.weights(&[4], 9));
        let variance = g.push(Binary { kind: BinaryKind::Mul, a: mean, b: mean });
        let result = g.push(BatchNormalization { input, mean, variance, scale: None, bias: None, axis: 1, epsilon: 1e-5 });
        g.end(result);
    });
    // Their mean is that of the batch.
    mixed("reduceMean", |g| {
        let input = g.x();
        let reduced = |g: &mut Sketch, kind| g.push(Reduce { kind, input, axes: Some(vec![0]), keep_dimensions: false });
        let (mean, variance) = (reduced(g, ReduceKind::Mean), reduced(g, ReduceKind::SumSquare));
        let result = g.push(BatchNormalization { input, mean, variance, scale: None, bias: None, axis: 1, epsilon: 1e-5 });
        g.end(result);
    });
    let best = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(TopK { input, axis, count: 1, largest: true });
            g.end(result);
        }
    };
    apart(best(1));
    mixed("topK", best(0));
    // The scale is that of all rows.
    mixed("dynamicQuantizeLinear", |g| {
        let input = g.x();
        let result = g.push(DynamicQuantizeLinear { input });
        g.end(result);
    });
}

#[test]
fn folded_rows() {
    apart(|g| {
        let (rows, weights) = (g.data.rows, g.weights(&[4, 4], 9));
        let x = g.input("x", &[rows, 5, 4]);
        let flat = g.reshape(x, &[rows * 5, 4]);
        let product = g.push(Matmul { a: flat, b: weights });
        let back = g.reshape(product, &[rows, 5, 2, 2]);
        let transposed = g.push(Transpose { input: back, permutation: Some(vec![0, 2, 1, 3]) });
        g.end(transposed);
        g.end(flat);
    });
    mixed("reshape", |g| {
        let rows = g.data.rows;
        let x = g.input("x", &[rows, 5, 4]);
        let transposed = g.push(Transpose { input: x, permutation: Some(vec![1, 0, 2]) });
        let flat = g.reshape(transposed, &[5 * rows, 4]);
        g.end(flat);
    });
    mixed("reshape", |g| {
        let rows = g.data.rows;
        let x = g.input("x", &[rows, 5]);
        let other = g.reshape(x, &[5, rows]);
        g.end(other);
    });
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn parts_and_places() {
    let slice = |start: u32, from_rows: bool| {
        move |g: &mut Sketch| {
            let input = g.x();
            let sizes = if from_rows { vec![g.data.rows, 2] } else { vec![1, 4] };
            let starts = vec![if from_rows { 0 } else { g.data.rows - 1 }, start];
            let result = g.push(Slice { input, starts, sizes, strides: None });
            g.end(result);
        }
    };
    apart(slice(1, true));
    mixed("slice", slice(0, false));
    apart(|g| {
        let (input, c) = (g.x(), g.weights(&[1, 2], 9));
        let c = g.push(Expand { input: c, new_shape: vec![g.data.rows, 2] });
        let result = g.push(Concat { inputs: vec![input, c], axis: 1 });
        let parts = g.builder.push_op(Split { input: result, splits: UnsignedOrList::One(2), axis: 1 }, "").unwrap().to_vec();
        parts.into_iter().for_each(|part| g.end(part));
    });
    mixed("concat", |g| {
        let input = g.x();
        let result = g.push(Concat { inputs: vec![input, input], axis: 0 });
        g.end(result);
    });
    mixed("tile", |g| {
        let input = g.x();
        let result = g.push(Tile { input, repetitions: Modulo(vec![2, 1]) });
        g.end(result);
    });
    let reverse = |axis: u32| {
        move |g: &mut Sketch| {
            let input = g.x();
            let result = g.push(Reverse { input, axes: Some(vec![axis]) });
            g.end(result);
        }
    };
    apart(reverse(1));
    mixed("reverse", reverse(0));
    let pad = |beginning: [u32; 2]| {
        move |g: &mut Sketch| {
            let input = g.x();
            let (mode, value) = (PaddingMode::Constant, Number::Double(0.0));
            let result = g.push(Pad { input, beginning_padding: beginning.to_vec(), ending_padding: vec![0; 2], mode, value });
            g.end(result);
        }
    };
    apart(pad([0, 2]));
    mixed("pad", pad([1, 0]));
    mixed("triangular", |g| {
        let input = g.x();
        let result = g.push(Triangular { input, upper: true, diagonal: 0 });
        g.end(result);
    });
    // A table that all have in common, and the indices of each row.
    apart(|g| {
        let (x, table) = (g.x(), g.weights(&[7, 3], 9));
        let indices =
            g.push(Arg { kind: ArgKind::Max, input: x, axis: 1, keep_dimensions: true, output_data_type: DataType::Int32 });
        let result = g.push(Gather { input: table, indices, axis: 0 });
        g.end(result);
    });
    mixed("gather", |g| {
        let (input, indices) = (g.x(), g.integers(&[1], [0]));
        let result = g.push(Gather { input, indices, axis: 0 });
        g.end(result);
    });
    apart(|g| {
        let x = g.x();
        let indices =
            g.push(Arg { kind: ArgKind::Max, input: x, axis: 1, keep_dimensions: true, output_data_type: DataType::Int32 });
        let result = g.push(GatherElements { input: x, indices, axis: 1 });
        g.end(result);
    });
    mixed("gatherND", |g| {
        let (input, indices) = (g.x(), g.integers(&[2, 1], [0, 0]));
        let result = g.push(GatherNd { input, indices });
        g.end(result);
    });
    mixed("scatterND", |g| {
        let (input, indices, updates) = (g.x(), g.integers(&[1, 1], [0]), g.weights(&[1, 4], 9));
        let result = g.push(ScatterNd { input, indices, updates });
        g.end(result);
    });
}

#[test]
fn recurrent_networks() {
    let lstm = |rows_axis: usize| {
        move |g: &mut Sketch| {
            let shape = if rows_axis == 1 { [2, g.data.rows, 3] } else { [g.data.rows, 2, 3] };
            let input = g.input("x", &shape);
            let (weight, recurrent_weight) = (g.weights(&[1, 8, 3], 9), g.weights(&[1, 8, 2], 9));
            let steps = shape[0];
            let lstm = Lstm {
                input,
                weight,
                recurrent_weight,
                steps,
                hidden_size: 2,
                bias: None,
                recurrent_bias: None,
                peephole_weight: None,
                initial_hidden_state: None,
                initial_cell_state: None,
                return_sequence: true,
                direction: RecurrentNetworkDirection::Forward,
                layout: LstmWeightLayout::Iofg,
                activations: None,
            };
            let outputs = g.builder.push_op(lstm, "the node").unwrap().to_vec();
            outputs.into_iter().for_each(|output| g.end(output));
        }
    };
    apart(lstm(1));
    mixed("lstm", lstm(0));
}

#[test]
fn what_is_there_for_several_rows_only() {
    // For one row there is nothing to expand.
    apart(|g| {
        let (x, c) = (g.x(), g.weights(&[1, 4], 9));
        let c = if g.data.rows == 1 { c } else { g.push(Expand { input: c, new_shape: vec![g.data.rows, 4] }) };
        let sum = g.add(x, c);
        g.end(sum);
    });
    mixed("add", |g| {
        let x = g.x();
        let more = if g.data.rows == 1 { x } else { g.add(x, x) };
        let sum = g.add(more, x);
        g.end(sum);
    });
    mixed("add", |g| {
        let x = g.x();
        let sum = if g.data.rows == 1 { g.push(Binary { kind: BinaryKind::Sub, a: x, b: x }) } else { g.add(x, x) };
        g.end(sum);
    });
}
