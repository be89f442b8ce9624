//! GroupQueryAttention beside its definition in float64.

use crate::graph::{DataType, Operand, Source};
use crate::onnx::element::ElementType;
use crate::onnx::protobuf::AttributeProto;
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::{int, run, sketch};

const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const WIDTH: usize = 8;

/// A node and what it gets. `last` has the last valid position of each sequence.
struct Case {
    name: &'static str,
    length: usize,
    past: usize,
    last: &'static [i64],
    total: i64,
    rotary: bool,
    positions: Option<&'static [i64]>,
    smooth: bool,
    sink: bool,
    causal: bool,
}

const PLAIN: Case = Case {
    name: "the next of one sequence",
    length: 1,
    past: 4,
    last: &[4],
    total: 5,
    rotary: false,
    positions: None,
    smooth: false,
    sink: false,
    causal: true,
};

const CASES: [Case; 13] = [
    PLAIN,
    Case { name: "caches of two lengths that grow", last: &[4, 2], ..PLAIN },
    Case { name: "and rotary", last: &[2, 4], rotary: true, ..PLAIN },
    Case { name: "two at once in caches of two lengths", length: 2, last: &[5, 3], total: 6, rotary: true, ..PLAIN },
    Case { name: "a prompt padded behind its end", length: 5, past: 0, last: &[4, 2], total: 5, rotary: true, ..PLAIN },
    Case { name: "and in a cache of a fixed size", length: 4, past: 8, last: &[3, 1], total: 4, rotary: true, ..PLAIN },
    Case { name: "the next in such a cache", past: 8, last: &[4, 2], rotary: true, ..PLAIN },
    Case { name: "positions that are given", length: 2, last: &[5], total: 6, rotary: true, positions: Some(&[0, 7]), ..PLAIN },
    Case { name: "a smooth softmax", smooth: true, ..PLAIN },
    Case { name: "sinks of heads", length: 2, last: &[5, 2], total: 6, sink: true, ..PLAIN },
    Case { name: "keys that come later", length: 2, last: &[5], total: 6, causal: false, ..PLAIN },
    Case { name: "and in two sequences", length: 2, last: &[5, 3], total: 6, causal: false, ..PLAIN },
    Case { name: "and in a prompt", length: 3, past: 0, last: &[2, 1], total: 3, causal: false, ..PLAIN },
];

/// Numbers between -1 and 1 that float32 holds.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + seed * 53) % 129) as f64 / 64.0 - 1.0).collect()
}

fn angle(position: i64, i: usize) -> f64 {
    position as f64 / 100f64.powf(i as f64 * 2.0 / WIDTH as f64)
}

fn turned(vector: &[f64], position: i64) -> Vec<f64> {
    let half = WIDTH / 2;
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for i in 0..half {
        let (sin, cos) = angle(position, i).sin_cos();
        first.push(vector[i] * cos - vector[i + half] * sin);
        second.push(vector[i + half] * cos + vector[i] * sin);
    }
    [first, second].concat()
}

impl Case {
    #[expect(clippy::too_many_lines, reason = "the operator, written out step by step in plain loops")]
    fn check(&self) {
        let (batch, length) = (self.last.len(), self.length);
        let q = numbers(batch * length * HEADS * WIDTH, 1);
        let [k, v] = [2, 3].map(|seed| numbers(batch * length * KEY_HEADS * WIDTH, seed));
        let [mut past_k, mut past_v] = [4, 5].map(|seed| numbers(batch * KEY_HEADS * self.past * WIDTH, seed));
        for (b, &last) in self.last.iter().enumerate() {
            // Nobody has written the rows after the end of a sequence.
            let begin = (last + 1 - length as i64).max(0) as usize;
            for h in 0..KEY_HEADS {
                let end = (b * KEY_HEADS + h + 1) * self.past * WIDTH;
                let room = end - self.past.saturating_sub(begin) * WIDTH..end;
                [&mut past_k, &mut past_v].into_iter().for_each(|past| past[room.clone()].fill(f64::NAN));
            }
        }
        let sinks = numbers(HEADS, 6);

        let float = |shape: &[usize], numbers: &[f64]| Tensor::from_floats(ElementType::Float, shape.to_vec(), numbers);
        let mut model = sketch(21);
        let mut inputs = Vec::new();
        let mut add = |name: &str, tensor: Tensor| {
            let shape: Vec<i64> = tensor.shape.iter().map(|&size| size as i64).collect();
            let kind = [(ElementType::Float, 1), (ElementType::Int32, 6), (ElementType::Int64, 7)];
            let (_, kind) = kind[kind.iter().position(|(element, _)| *element == tensor.element).unwrap()];
            model = std::mem::take(&mut model).input(name, kind, &shape);
            inputs.push(tensor);
        };
        add("q", float(&[batch, length, HEADS * WIDTH], &q));
        add("k", float(&[batch, length, KEY_HEADS * WIDTH], &k));
        add("v", float(&[batch, length, KEY_HEADS * WIDTH], &v));
        if self.past > 0 {
            add("past_k", float(&[batch, KEY_HEADS, self.past, WIDTH], &past_k));
            add("past_v", float(&[batch, KEY_HEADS, self.past, WIDTH], &past_v));
        }
        add("last", Tensor::from_integers(ElementType::Int32, vec![batch], self.last));
        if let Some(positions) = self.positions {
            add("positions", Tensor::from_integers(ElementType::Int64, vec![batch, length], positions));
        }
        let mut names = vec!["q", "k", "v", "past_k", "past_v", "last", "total", "cos", "sin", "positions", "", "sink"];
        let absent =
            [(3, self.past == 0), (4, self.past == 0), (7, !self.rotary), (8, !self.rotary), (9, self.positions.is_none())];
        for (position, _) in absent.into_iter().chain([(11, !self.sink)]).filter(|(_, is_absent)| *is_absent) {
            names[position] = "";
        }
        let table = |of: fn(f64) -> f64| -> Vec<f32> { (0..64).map(|i| of(angle(i as i64 / 4, i % 4)) as f32).collect() };
        let sinks_32: Vec<f32> = sinks.iter().map(|&x| x as f32).collect();
        let model = model.floats("cos", &[16, 4], &table(f64::cos)).floats("sin", &[16, 4], &table(f64::sin));
        let model = model.floats("sink", &[HEADS as i64], &sinks_32).int64s("total", &[self.total]);
        let attributes: Vec<AttributeProto> = vec![
            int("num_heads", HEADS as i64),
            int("kv_num_heads", KEY_HEADS as i64),
            int("do_rotary", self.rotary.into()),
            int("causal", self.causal.into()),
            int("smooth_softmax", if self.smooth { 1 } else { -1 }),
        ];
        let outputs = ["y", "present_k", "present_v"];
        let mut model = model.node("com.microsoft::GroupQueryAttention", &names, &outputs, attributes);
        for output in outputs {
            model = model.output(output);
        }
        let results = run(&model.import().unwrap(), &inputs);
        let size = results[1].shape[2];
        let found: Vec<Vec<f64>> = results.iter().map(Tensor::floats).collect();
        let near = |found: f64, expected: f64, what: &str| {
            assert!((found - expected).abs() <= 1e-5, "{}: {what} is {found}, not {expected}", self.name);
        };

        for (b, &last) in self.last.iter().enumerate() {
            let begin = if self.past == 0 { 0 } else { (last + 1 - length as i64).max(0) } as usize;
            let position = |i: usize| self.positions.map_or((begin + i) as i64, |given| given[b * length + i]);
            let head = |of: &[f64], count: usize, h: usize, i: usize| -> Vec<f64> {
                of[((b * length + i) * count + h) * WIDTH..][..WIDTH].to_vec()
            };
            let turn = |vector: Vec<f64>, i: usize| if self.rotary { turned(&vector, position(i)) } else { vector };
            // Of a position in the cache.
            let cached = |past: &[f64], new: &[f64], h: usize, j: usize, turns: bool| match j.checked_sub(begin) {
                None => past[((b * KEY_HEADS + h) * self.past + j) * WIDTH..][..WIDTH].to_vec(),
                Some(i) if turns => turn(head(new, KEY_HEADS, h, i), i),
                Some(i) => head(new, KEY_HEADS, h, i),
            };
            let valid = last as usize + 1;
            for h in 0..KEY_HEADS {
                for j in 0..valid {
                    let place = ((b * KEY_HEADS + h) * size + j) * WIDTH;
                    for (i, expected) in cached(&past_k, &k, h, j, true).into_iter().enumerate() {
                        near(found[1][place + i], expected, "a key");
                    }
                    for (i, expected) in cached(&past_v, &v, h, j, false).into_iter().enumerate() {
                        near(found[2][place + i], expected, "a value");
                    }
                }
            }
            for h in 0..HEADS {
                let own = h * KEY_HEADS / HEADS;
                for i in (0..length).filter(|i| begin + i < valid) {
                    let query = turn(head(&q, HEADS, h, i), i);
                    let seen = if self.causal { begin + i + 1 } else { valid };
                    let score = |j: usize| {
                        let key = cached(&past_k, &k, own, j, true);
                        query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (WIDTH as f64).sqrt()
                    };
                    let weights: Vec<f64> = (0..seen).map(|j| score(j).exp()).collect();
                    let besides = if self.sink { sinks[h].exp() } else { f64::from(u8::from(self.smooth)) };
                    let sum = weights.iter().sum::<f64>() + besides;
                    let mut expected = vec![0.0; WIDTH];
                    for (j, weight) in weights.iter().enumerate() {
                        let value = cached(&past_v, &v, own, j, false);
                        expected.iter_mut().zip(value).for_each(|(total, x)| *total += weight / sum * x);
                    }
                    for (d, expected) in expected.into_iter().enumerate() {
                        near(found[0][((b * length + i) * HEADS + h) * WIDTH + d], expected, "a result");
                    }
                }
            }
        }
    }
}

#[test]
fn group_query_attention_is_as_defined() {
    for case in CASES {
        case.check();
    }
}

#[test]
fn layers_share_their_causal_mask() {
    let mut model = sketch(21).input("q0", 1, &[1, 5, 16]).input("k", 1, &[1, 5, 8]).input("v", 1, &[1, 5, 8]);
    model = model.input("last", 6, &[1]).int64s("total", &[5]);
    for layer in 0..3 {
        let [q, y] = [layer, layer + 1].map(|number| format!("q{number}"));
        let presents = ["key", "value"].map(|what| format!("{what}{layer}"));
        let outputs = [&y[..], &presents[0], &presents[1]];
        let attributes = vec![int("num_heads", 4), int("kv_num_heads", 2)];
        let inputs = [&q[..], "k", "v", "", "", "last", "total"];
        model = model.node("com.microsoft::GroupQueryAttention", &inputs, &outputs, attributes);
    }
    let graph = model.output("q3").import().unwrap().graph;
    let is_mask = |operand: &&Operand| {
        matches!(operand.source, Source::Constant(_))
            && operand.descriptor.data_type == DataType::Float32
            && operand.descriptor.shape[..] == [5, 5]
    };
    assert_eq!(graph.operands.iter().filter(is_mask).count(), 1);
}
