//! Joined steps give what the steps of each sequence give, whatever cannot be computed for all at once.

use super::join::{Joined, SequenceGraph, join};
use crate::backend::cpu::reference::interpret;
use crate::graph::attribute::Modulo;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::movement::{Concat, Reshape, Slice, Transpose};
use crate::graph::ops::softmax::Softmax;
use crate::graph::testing::{GraphSketch, bytes_of, numbers};
use crate::graph::{DataType, Graph, Op, OperandId};
use crate::onnx::caches::KvCache;
use crate::program::caches::in_bytes;

const WIDTH: u32 = 16;

/// A step of a sequence with so many rows in its cache, under construction.
type Sketch = GraphSketch<Step>;

struct Step {
    rows: u32,
    tokens: u32,
    x: OperandId,
    weights: u32,
}

/// The bytes of small numbers.
fn small(count: usize, seed: u32) -> Vec<u8> {
    bytes_of(numbers(count, seed).into_iter().map(|number| number / 4.0))
}

impl Sketch {
    fn new(rows: u32, tokens: u32) -> Sketch {
        let mut sketch = GraphSketch::default();
        let x = sketch.input("x", &[1, tokens, WIDTH]);
        sketch.and(Step { rows, tokens, x, weights: 0 })
    }

    /// A product with weights.
    fn project(&mut self, a: OperandId, columns: u32) -> OperandId {
        self.data.weights += 1;
        let bytes = small((WIDTH * columns) as usize, self.data.weights);
        let b = self.constant(DataType::Float32, &[WIDTH, columns], bytes);
        self.product(a, b)
    }

    /// The cache with a new row, and what attention to it gives.
    fn attention(&mut self, query: OperandId, key: OperandId) -> (OperandId, OperandId) {
        let past = self.input("past", &[self.data.rows, 1, WIDTH]);
        let new = self.transpose(key, &[1, 0, 2]);
        let all = self.push(Concat { inputs: vec![past, new], axis: 0 });
        let keys = self.transpose(all, &[1, 2, 0]);
        let scores = self.product(query, keys);
        let weights = self.push(Softmax { input: scores, axis: 2 });
        let values = self.transpose(all, &[1, 0, 2]);
        (all, self.product(weights, values))
    }

    /// A decoder of one layer, in which something is done to a projection.
    fn decoder(rows: u32, change: impl FnOnce(&mut Sketch, OperandId) -> OperandId) -> Graph {
        Sketch::piece(rows, 1, change)
    }

    /// The same for several tokens.
    fn piece(rows: u32, tokens: u32, change: impl FnOnce(&mut Sketch, OperandId) -> OperandId) -> Graph {
        let mut sketch = Sketch::new(rows, tokens);
        let (query, key) = (sketch.project(sketch.data.x, WIDTH), sketch.project(sketch.data.x, WIDTH));
        let query = change(&mut sketch, query);
        let (all, mixed) = sketch.attention(query, key);
        let mixed = sketch.project(mixed, WIDTH);
        let sum = sketch.add(sketch.data.x, mixed);
        let logits = sketch.project(sum, 2 * WIDTH);
        sketch.builder.build(vec![("present".to_owned(), all), ("logits".to_owned(), logits)]).unwrap()
    }
}

fn products(graph: &Graph) -> usize {
    graph.nodes.iter().filter(|node| matches!(node.op, Op::Matmul(_))).count()
}

/// Holds the joined step against that of each sequence.
fn expect_same(graphs: &[Graph], joined: &Joined) {
    let seed_of = |number: usize, name: &str| (7 * number + name.len()) as u32;
    let bytes_of = |graph: &Graph, id: OperandId, number: usize, name: &str| {
        small(graph.descriptor(id).byte_length() / 4, seed_of(number, name))
    };
    let given = joined.graph.inputs.iter().zip(&joined.inputs);
    let given: Vec<Vec<u8>> = given.map(|((_, id), (number, name))| bytes_of(&joined.graph, *id, *number, name)).collect();
    let found = interpret(&joined.graph, &given.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
    for (number, graph) in graphs.iter().enumerate() {
        let own: Vec<Vec<u8>> = graph.inputs.iter().map(|(name, id)| bytes_of(graph, *id, number, name)).collect();
        let alone = interpret(graph, &own.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
        for ((name, _), wanted) in graph.outputs.iter().zip(alone) {
            let output = joined.outputs.iter().position(|(of, other)| *of == number && other == name).unwrap();
            assert!(found[output] == wanted, "{name} of the sequence {number}");
        }
    }
}

#[test]
fn weights_are_read_once_and_caches_apart() {
    for rows in [&[3, 5, 3][..], &[4; 4], &[1, 9]] {
        let graphs: Vec<Graph> = rows.iter().map(|&rows| Sketch::decoder(rows, |_, query| query)).collect();
        let joined = join(&graphs.iter().map(SequenceGraph::new).collect::<Vec<_>>()).unwrap();
        // Of six for each sequence.
        assert_eq!(products(&joined.graph), 4 + 2 * rows.len());
        expect_same(&graphs, &joined);
    }
}

type Change = fn(&mut Sketch, OperandId) -> OperandId;

#[test]
fn what_would_mix_sequences_stays_apart() {
    let changes: [Change; 4] = [
        // In the place where sequences are stacked.
        |s, query| s.push(CumulativeSum { input: query, axis: Modulo(0), exclusive: false, reversed: false }),
        // The sequences come to lie along another axis.
        |s, query| {
            let transposed = s.push(Transpose { input: query, permutation: Some(vec![2, 1, 0]) });
            s.push(Transpose { input: transposed, permutation: Some(vec![2, 1, 0]) })
        },
        |s, query| s.push(Reshape { input: query, new_shape: vec![1, 1, WIDTH] }),
        // Each has its own numbers, which are broadcast.
        |s, query| {
            let own = s.input("own", &[WIDTH]);
            s.add(query, own)
        },
    ];
    for change in changes {
        let graphs: Vec<Graph> = [3, 6].iter().map(|&rows| Sketch::decoder(rows, change)).collect();
        let joined = join(&graphs.iter().map(SequenceGraph::new).collect::<Vec<_>>()).unwrap();
        assert_eq!(products(&joined.graph), 8);
        expect_same(&graphs, &joined);
    }
}

/// Steps of some sequences, and a piece of so many tokens after them, of which all outputs are wanted, or only the cache.
fn with_piece(
    rows: &[u32],
    tokens: u32,
    keeps_all: bool,
    change: impl Fn(&mut Sketch, OperandId) -> OperandId,
) -> (Vec<Graph>, Joined) {
    let mut graphs: Vec<Graph> = rows.iter().map(|&rows| Sketch::decoder(rows, &change)).collect();
    let mut piece = Sketch::piece(7, tokens, &change);
    piece.outputs.retain(|(name, _)| keeps_all || name == "present");
    graphs.push(piece);
    let mut sequences: Vec<SequenceGraph<'_>> = graphs.iter().map(SequenceGraph::new).collect();
    sequences[rows.len()].tokens = tokens;
    let joined = join(&sequences).unwrap();
    (graphs, joined)
}

#[test]
fn pieces_of_a_prompt_read_weights_with_the_steps_of_others() {
    for (rows, tokens) in [(&[3][..], 4), (&[3, 5], 3), (&[2, 2, 9], 1)] {
        for keeps_all in [false, true] {
            let (graphs, joined) = with_piece(rows, tokens, keeps_all, |_, query| query);
            // Four with weights; attention of those whose logits are wanted.
            assert_eq!(products(&joined.graph), 4 + 2 * (rows.len() + usize::from(keeps_all)));
            expect_same(&graphs, &joined);
        }
    }
}

#[test]
fn what_depends_on_other_tokens_of_a_piece_stays_apart() {
    let changes: [Change; 2] = [
        |s, query| s.push(CumulativeSum { input: query, axis: Modulo(1), exclusive: false, reversed: false }),
        // Only the last token counts.
        |s, query| {
            let (starts, sizes) = (vec![0, s.data.tokens - 1, 0], vec![1, 1, WIDTH]);
            s.push(Slice { input: query, starts, sizes, strides: None })
        },
    ];
    for change in changes {
        let (graphs, joined) = with_piece(&[3, 5], 4, true, change);
        expect_same(&graphs, &joined);
    }
    // Tokens may be folded with what is theirs.
    let folded = |s: &mut Sketch, query| {
        let tokens = s.data.tokens;
        let flat = s.push(Reshape { input: query, new_shape: vec![tokens * WIDTH] });
        s.push(Reshape { input: flat, new_shape: vec![1, tokens, WIDTH] })
    };
    let (graphs, joined) = with_piece(&[3, 5], 4, true, folded);
    assert_eq!(joined.graph.nodes.iter().filter(|node| matches!(node.op, Op::Reshape(_))).count(), 2);
    expect_same(&graphs, &joined);
}

#[test]
fn what_the_first_sequence_has_no_output_for_is_refused() {
    let mut step = Sketch::decoder(3, |_, query| query);
    let piece = Sketch::piece(3, 2, |_, query| query);
    step.outputs.retain(|(name, _)| name == "present");
    let found = join(&[SequenceGraph::new(&step), SequenceGraph { graph: &piece, tokens: 2 }]);
    assert!(found.unwrap_err().contains("different inputs, outputs"));
}

#[test]
fn graphs_that_cannot_be_joined_are_refused() {
    let plain = Sketch::decoder(3, |_, query| query);
    let other = Sketch::decoder(3, |s, query| s.add(query, query));
    assert!(join(&[SequenceGraph::new(&plain), SequenceGraph::new(&other)]).unwrap_err().contains("different inputs, outputs"));
    let mut sketch = Sketch::new(2, 1);
    let (all, mixed) = sketch.attention(sketch.data.x, sketch.data.x);
    let graph = sketch.builder.build(vec![("present".to_owned(), all), ("logits".to_owned(), mixed)]).unwrap();
    assert!(join(&[SequenceGraph::new(&graph); 2]).unwrap_err().contains("no product with weights can"));
}

#[test]
fn rows_of_caches_in_bytes_are_quantized_together() {
    let cache = KvCache { past: "past".to_owned(), present: "present".to_owned(), axis: 0 };
    let quantized = |graph: &Graph| graph.nodes.iter().filter(|node| matches!(node.op, Op::QuantizeAlong(_))).count();
    for tokens in [1, 4] {
        let mut graphs: Vec<Graph> = [3, 5].iter().map(|&rows| Sketch::decoder(rows, |_, query| query)).collect();
        graphs.push(Sketch::piece(7, tokens, |_, query| query));
        let in_bytes = |graph| in_bytes(graph, std::slice::from_ref(&cache)).unwrap();
        let graphs: Vec<Graph> = graphs.into_iter().map(in_bytes).collect();
        let mut sequences: Vec<SequenceGraph<'_>> = graphs.iter().map(SequenceGraph::new).collect();
        sequences[2].tokens = tokens;
        let joined = join(&sequences).unwrap();
        assert_eq!((quantized(&joined.graph), products(&joined.graph)), (1, 4 + 2 * 3));
        expect_same(&graphs, &joined);
    }
}
