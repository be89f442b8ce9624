//! Graphs of a bucket, against those for the rows that count alone.

use super::padding::{PaddingInput, Slopes};
use super::proof::in_bucket;
use crate::backend::cpu::reference::interpret;
use crate::backend::cpu::testing::run;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::elementwise::{BinaryKind, Cast, Logical, LogicalKind, Unary, UnaryKind, Where};
use crate::graph::ops::gather::{Gather, GatherNd};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::{Concat, Expand, Reshape, Slice, Transpose};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::testing::GraphSketch;
use crate::graph::{DataType, Descriptor, Graph, Number, OperandId};

const HEADS: u32 = 2;
const WIDTH: u32 = 4;
/// The lengths of the bucket, and the shortest.
const BUCKET: usize = 9;
const LEAST: usize = 3;

/// An attention over the rows of a cache and one more, under construction.
type Sketch = GraphSketch<Attention>;

struct Attention {
    rows: u32,
    query: OperandId,
    all: OperandId,
}

impl Sketch {
    fn new(rows: usize) -> Sketch {
        let mut sketch = GraphSketch::default();
        let rows = rows as u32;
        let past = sketch.input("past", &[rows, HEADS, WIDTH]);
        let (new, query) = (sketch.input("new", &[1, HEADS, WIDTH]), sketch.input("query", &[HEADS, 1, WIDTH]));
        let all = sketch.push(Concat { inputs: vec![past, new], axis: 0 });
        sketch.and(Attention { rows, query, all })
    }

    fn keys(&mut self) -> OperandId {
        self.transpose(self.data.all, &[1, 2, 0])
    }

    fn scores(&mut self) -> OperandId {
        let keys = self.keys();
        self.product(self.data.query, keys)
    }

    /// A mask of whole numbers, and what it adds to scores.
    fn mask(&mut self) -> (OperandId, OperandId) {
        let mask = self.input_of("mask", DataType::Int32, &[1, self.data.rows + 1]);
        let zero = self.builder.scalar(DataType::Int32, Number::Double(0.0)).unwrap();
        let shown = self.push(Logical { kind: LogicalKind::NotEqual, a: mask, b: zero });
        let bias = self.bias(shown);
        (mask, bias)
    }

    fn bias(&mut self, shown: OperandId) -> OperandId {
        let none = self.builder.scalar(DataType::Float32, Number::Double(0.0)).unwrap();
        let lowest = self.builder.scalar(DataType::Float32, Number::Double(f32::MIN.into())).unwrap();
        self.push(Where { condition: shown, true_value: none, false_value: lowest })
    }

    /// The attention's result for these scores.
    fn mixed(&mut self, scores: OperandId) -> OperandId {
        let weights = self.push(Softmax { input: scores, axis: 2 });
        let values = self.transpose(self.data.all, &[1, 0, 2]);
        self.product(weights, values)
    }

    fn finish(mut self, results: &[OperandId]) -> Graph {
        let mut outputs = vec![("present".to_owned(), self.data.all)];
        outputs.extend(results.iter().enumerate().map(|(i, &id)| (format!("{i}"), id)));
        self.builder.build(outputs).unwrap()
    }
}

type Case = (&'static str, fn(Sketch) -> Graph);

/// Two attentions, each with a constant of the places of keys.
fn two_layers(mut s: Sketch) -> Graph {
    let results = [2, 3].map(|before| {
        let scores = s.scores();
        let keys = s.integers(&[s.data.rows + 1], 0..=s.data.rows as i32);
        let query = s.integers(&[1, 1], [s.data.rows as i32 - before]);
        let shown = s.push(Logical { kind: LogicalKind::LesserOrEqual, a: keys, b: query });
        let bias = s.bias(shown);
        let masked = s.binary(BinaryKind::Add, scores, bias);
        s.mixed(masked)
    });
    s.finish(&results)
}

/// Those that serve all lengths of a bucket.
const SERVE: &[Case] = &[
    ("attention", |mut s| {
        let scores = s.scores();
        let result = s.mixed(scores);
        s.finish(&[result])
    }),
    ("scaled and masked", |mut s| {
        let scores = s.scores();
        let half = s.builder.scalar(DataType::Float32, Number::Double(0.5)).unwrap();
        let scaled = s.binary(BinaryKind::Mul, scores, half);
        let (_, bias) = s.mask();
        let masked = s.binary(BinaryKind::Add, scaled, bias);
        let result = s.mixed(masked);
        s.finish(&[result])
    }),
    ("where keys come before the query, by their places", |mut s| {
        let scores = s.scores();
        let keys = s.integers(&[s.data.rows + 1], 0..=s.data.rows as i32);
        let query = s.integers(&[1, 1], [s.data.rows as i32 - 2]);
        let shown = s.push(Logical { kind: LogicalKind::LesserOrEqual, a: keys, b: query });
        let bias = s.bias(shown);
        let masked = s.binary(BinaryKind::Add, scores, bias);
        let result = s.mixed(masked);
        s.finish(&[result])
    }),
    ("the same in two layers", two_layers),
    ("addends by the distance from the end, in a table", |mut s| {
        let scores = s.scores();
        let table = s.floats(&[16], (0..16).map(|i| (i * i) as f32 / 40.0));
        let distances = s.integers(&[1, s.data.rows + 1], (0..=s.data.rows as i32).rev());
        let bias = s.push(Gather { input: table, indices: distances, axis: 0 });
        let masked = s.binary(BinaryKind::Add, scores, bias);
        let more = s.floats(&[s.data.rows + 1], (0..=s.data.rows).rev().map(|i| -0.125 * i as f32));
        let masked = s.binary(BinaryKind::Add, masked, more);
        let result = s.mixed(masked);
        s.finish(&[result])
    }),
    ("positions from the length and from the mask", |mut s| {
        let table = s.floats(&[16, WIDTH], (0..64).map(|i| i as f32 / 32.0 - 1.0));
        let place = s.integers(&[1], [s.data.rows as i32]);
        let row = s.push(Gather { input: table, indices: place, axis: 0 });
        let scores = s.scores();
        let (mask, bias) = s.mask();
        let sums =
            s.push(CumulativeSum { input: mask, axis: crate::graph::attribute::Modulo(1), exclusive: false, reversed: false });
        let last = s.push(Slice { input: sums, starts: vec![0, s.data.rows], sizes: vec![1, 1], strides: None });
        let other = s.push(Gather { input: table, indices: last, axis: 0 });
        let count = s.push(Reduce { kind: ReduceKind::Sum, input: mask, axes: Some(vec![1]), keep_dimensions: false });
        let count = s.push(Cast { input: count, data_type: DataType::Float32 });
        let masked = s.binary(BinaryKind::Add, scores, bias);
        let mixed = s.mixed(masked);
        let result = s.binary(BinaryKind::Add, mixed, row);
        s.finish(&[result, other, count])
    }),
    ("a mask by coordinates", |mut s| {
        let scores = s.scores();
        let (mask, _) = s.mask();
        let coordinates = (0..=s.data.rows as i32).flat_map(|i| [0, i]);
        let coordinates = s.integers(&[1, s.data.rows + 1, 2], coordinates);
        let found = s.push(GatherNd { input: mask, indices: coordinates });
        let last = s.integers(&[1, 2], [0, s.data.rows as i32]);
        let last = s.push(GatherNd { input: mask, indices: last });
        // The same numbers as places elsewhere.
        let table = s.floats(&[1, 16], (0..16).map(|i| i as f32));
        let bias = s.push(GatherNd { input: table, indices: coordinates });
        let found = s.push(Cast { input: found, data_type: DataType::Float32 });
        let masked = s.binary(BinaryKind::Mul, scores, found);
        let masked = s.binary(BinaryKind::Add, masked, bias);
        let result = s.mixed(masked);
        s.finish(&[result, last])
    }),
    ("heads that share keys, expanded and joined", |mut s| {
        let rows = s.data.rows + 1;
        let wide = s.push(Transpose { input: s.data.all, permutation: Some(vec![1, 0, 2]) });
        let wide = s.push(Reshape { input: wide, new_shape: vec![HEADS, 1, rows, WIDTH] });
        let wide = s.push(Expand { input: wide, new_shape: vec![HEADS, 3, rows, WIDTH] });
        let keys = s.push(Reshape { input: wide, new_shape: vec![3 * HEADS, rows, WIDTH] });
        let transposed = s.push(Transpose { input: keys, permutation: Some(vec![0, 2, 1]) });
        let query = s.push(Concat { inputs: vec![s.data.query; 3], axis: 0 });
        let scores = s.push(Matmul { a: query, b: transposed });
        let weights = s.push(Softmax { input: scores, axis: 2 });
        let result = s.push(Matmul { a: weights, b: keys });
        s.finish(&[result])
    }),
];

/// What a model is called, what the reason says, and the model.
type Refused = (&'static str, &'static str, fn(Sketch) -> Graph);

/// Those that do not serve a bucket.
const REFUSED: &[Refused] = &[
    ("a mean of all rows", "a reduction over rows", |mut s| {
        let mean = s.push(Reduce { kind: ReduceKind::Mean, input: s.data.all, axes: Some(vec![0]), keep_dimensions: false });
        s.finish(&[mean])
    }),
    ("the greatest of all rows", "a reduction over rows", |mut s| {
        let most = s.push(Reduce { kind: ReduceKind::Max, input: s.data.all, axes: Some(vec![0]), keep_dimensions: false });
        s.finish(&[most])
    }),
    ("the first row", "it selects elements of rows by their positions", |mut s| {
        let first = s.integers(&[], [0]);
        let row = s.push(Gather { input: s.data.all, indices: first, axis: 0 });
        s.finish(&[row])
    }),
    ("rows by coordinates that do not grow", "it selects elements of rows by their positions", |mut s| {
        let first = s.integers(&[1, 1], [1]);
        let row = s.push(GatherNd { input: s.data.all, indices: first });
        s.finish(&[row])
    }),
    ("the first rows", "its rows depend on the length", |mut s| {
        let rows = s.push(Slice { input: s.data.all, starts: vec![0, 0, 0], sizes: vec![2, HEADS, WIDTH], strides: None });
        s.finish(&[rows])
    }),
    ("all rows but the first", "its rows depend on the length", |mut s| {
        let rows =
            s.push(Slice { input: s.data.all, starts: vec![1, 0, 0], sizes: vec![s.data.rows, HEADS, WIDTH], strides: None });
        let sum = s.push(Reduce { kind: ReduceKind::Sum, input: rows, axes: Some(vec![0]), keep_dimensions: false });
        s.finish(&[sum])
    }),
    ("scores as a result", "is not as long as", |mut s| {
        let scores = s.scores();
        s.finish(&[scores])
    }),
    ("a sum of exponentials", "a reduction over rows", |mut s| {
        let scores = s.scores();
        let powers = s.push(Unary { kind: UnaryKind::Exp, input: scores });
        let sum = s.push(Reduce { kind: ReduceKind::Sum, input: powers, axes: Some(vec![2]), keep_dimensions: true });
        s.finish(&[sum])
    }),
    ("a product with weights of rows that are not zero", "a sum over rows", |mut s| {
        let scores = s.scores();
        let one = s.builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let weights = s.binary(BinaryKind::Add, scores, one);
        let (_, bias) = s.mask();
        let bias = s.push(Reshape { input: bias, new_shape: vec![s.data.rows + 1, 1] });
        let result = s.push(Matmul { a: weights, b: bias });
        s.finish(&[result])
    }),
    ("a softmax of what may be infinite", "may be infinite", |mut s| {
        let scores = s.scores();
        let logarithms = s.push(Unary { kind: UnaryKind::Log, input: scores });
        let result = s.mixed(logarithms);
        s.finish(&[result])
    }),
    ("the square of the length", "otherwise than as a multiple", |mut s| {
        let square = s.integers(&[1], [(s.data.rows * s.data.rows) as i32]);
        let table = s.floats(&[128, 1], (0..128).map(|i| i as f32));
        let row = s.push(Gather { input: table, indices: square, axis: 0 });
        s.finish(&[row])
    }),
    ("a fraction of the length", "otherwise than as a multiple", |mut s| {
        let fraction = s.floats(&[1], [1.0 / s.data.rows as f32]);
        let result = s.binary(BinaryKind::Mul, s.data.query, fraction);
        s.finish(&[result])
    }),
    ("half of the length", "otherwise than as a multiple", |mut s| {
        let half = s.integers(&[1], [s.data.rows as i32 / 2]);
        let table = s.floats(&[16, 1], (0..16).map(|i| i as f32));
        let row = s.push(Gather { input: table, indices: half, axis: 0 });
        s.finish(&[row])
    }),
    ("other parts of a table", "its parts depend on the length", |mut s| {
        let table = s.floats(&[16, 1], (0..16).map(|i| i as f32));
        let zero = s.push(Reduce { kind: ReduceKind::Sum, input: s.data.query, axes: None, keep_dimensions: false });
        let table = s.binary(BinaryKind::Add, table, zero);
        let row = s.push(Slice { input: table, starts: vec![s.data.rows, 0], sizes: vec![1, 1], strides: None });
        s.finish(&[row])
    }),
    ("other nodes where it is long", "the form of the graph", |mut s| {
        let mut result = s.data.query;
        if s.data.rows as usize == BUCKET {
            result = s.push(Unary { kind: UnaryKind::Abs, input: result });
        }
        let result = s.push(Unary { kind: UnaryKind::Neg, input: result });
        s.finish(&[result])
    }),
    ("other operators where it is long", "its options depend on the length", |mut s| {
        let kind = if s.data.rows as usize == BUCKET { UnaryKind::Abs } else { UnaryKind::Neg };
        let result = s.push(Unary { kind, input: s.data.query });
        s.finish(&[result])
    }),
];

fn numbers(count: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let number = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state) / f64::from(u32::MAX) * 4.0 - 2.0) as f32
    };
    (0..count).map(number).flat_map(f32::to_ne_bytes).collect()
}

/// What an input is, for so many rows.
fn given(name: &str, descriptor: &Descriptor) -> Vec<u8> {
    match descriptor.data_type {
        // The second row is padding.
        DataType::Int32 => (0..descriptor.element_count()).flat_map(|i| i32::from(i != 1).to_ne_bytes()).collect(),
        _ => numbers(descriptor.element_count(), name.len() as u32),
    }
}

fn close(found: &[u8], wanted: &[u8]) -> bool {
    let numbers = |bytes: &[u8]| bytes.chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect::<Vec<_>>();
    found.len() == wanted.len() && numbers(found).iter().zip(numbers(wanted)).all(|(x, y)| (x - y).abs() < 1e-5)
}

#[test]
fn a_bucket_gives_what_the_rows_alone_would_give() {
    for (name, make) in SERVE {
        let graph = |rows| make(Sketch::new(rows));
        let rows = [BUCKET, BUCKET - 1, LEAST];
        let (bucket, padding_inputs) =
            in_bucket(rows.map(graph), rows, |name| name == "present").unwrap_or_else(|e| panic!("{name}: {e}"));
        for length in LEAST..=BUCKET {
            let padding = BUCKET - length;
            let alone = graph(length);
            let inputs: Vec<(String, Vec<u8>)> =
                alone.inputs.iter().map(|(name, id)| (name.clone(), given(name, alone.descriptor(*id)))).collect();
            let bytes: Vec<&[u8]> = inputs.iter().map(|(_, bytes)| &bytes[..]).collect();
            let wanted = interpret(&alone, &bytes);
            let longer: Vec<Vec<u8>> = bucket
                .inputs
                .iter()
                .map(|(name, id)| {
                    let mut bytes = vec![0; bucket.descriptor(*id).byte_length()];
                    match padding_inputs.iter().find(|(other, _)| other == name) {
                        Some((_, padding_inputs)) => padding_inputs.write(padding, &mut bytes),
                        None => {
                            let (_, short) = inputs.iter().find(|(other, _)| other == name).unwrap();
                            let front = bytes.len() - short.len();
                            bytes[front..].copy_from_slice(short);
                        }
                    }
                    bytes
                })
                .collect();
            let bytes: Vec<&[u8]> = longer.iter().map(Vec::as_slice).collect();
            for found in [interpret(&bucket, &bytes), run(&bucket, &bytes)] {
                for ((output, wanted), (name_of_output, _)) in found.iter().zip(&wanted).zip(&bucket.outputs) {
                    let counts = &output[output.len() - wanted.len()..];
                    assert!(close(counts, wanted), "{name}: {name_of_output} of {length} rows");
                }
                assert!(found[0][..found[0].len() - wanted[0].len()].iter().all(|&byte| byte == 0), "{name}: rows in front");
            }
        }
    }
}

#[test]
fn what_depends_on_the_length_otherwise_is_refused() {
    for (name, reason, make) in REFUSED {
        let rows = [BUCKET, BUCKET - 1, LEAST];
        match in_bucket(rows.map(|rows| make(Sketch::new(rows))), rows, |name| name == "present") {
            Ok(_) => panic!("{name} is taken"),
            Err(error) => assert!(error.contains(reason), "{name}: {error}"),
        }
    }
}

#[test]
fn layers_share_what_says_how_many_rows_are_padding() {
    let rows = [BUCKET, BUCKET - 1, LEAST];
    let (_, inputs) = in_bucket(rows.map(|rows| two_layers(Sketch::new(rows))), rows, |name| name == "present").unwrap();
    let counts = |count: usize| {
        let is_like = |input: &PaddingInput| matches!(input, PaddingInput::Counts { numbers, .. } if numbers.len() == count);
        inputs.iter().filter(|(_, input)| is_like(input)).count()
    };
    let masks = inputs.iter().filter(|(_, input)| matches!(input, PaddingInput::Mask { .. })).count();
    // Of the keys, and of each query.
    assert_eq!([masks, counts(BUCKET + 1), counts(1)], [1, 1, 2]);
}

#[test]
fn whole_numbers_of_all_types_are_written() {
    let padding_inputs = |data_type, list: Vec<i64>, inner, long| PaddingInput::Counts {
        data_type,
        numbers: vec![7, -2, 9],
        slopes: Slopes { list, inner, long },
    };
    let mut bytes = [0; 24];
    padding_inputs(DataType::Int64, vec![1], 1, 3).write(3, &mut bytes);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, i64>(&bytes), [4, -5, 6]);
    let mut bytes = [0; 12];
    padding_inputs(DataType::Int32, vec![1, 0, 2], 1, 1).write(3, &mut bytes);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, i32>(&bytes), [4, -2, 3]);
    let mut halves = [1; 8];
    PaddingInput::Mask { data_type: DataType::Float16, length: 4 }.write(1, &mut halves);
    assert_eq!(halves, [0, 0xfc, 0, 0, 0, 0, 0, 0]);
}
