//! Steps with caches in 8 bits, against those with the caches of the model.

use super::int8::in_bytes;
use crate::backend::cpu::Cpu;
use crate::backend::cpu::reference::interpret;
use crate::backend::cpu::testing::{run, scheduled};
use crate::graph::ops::elementwise::{BinaryKind, Cast};
use crate::graph::ops::movement::{Concat, Expand};
use crate::graph::ops::quantized::{magnitude, of_magnitude};
use crate::graph::ops::softmax::Softmax;
use crate::graph::testing::{GraphSketch, bytes_of, numbers};
use crate::graph::{DataType, Graph, OperandId};
use crate::onnx::caches::KvCache;
use std::collections::HashMap;

const HEADS: u32 = 2;
const WIDTH: u32 = 16;

fn caches() -> Vec<KvCache> {
    let cache = |what: &str| KvCache { past: format!("past {what}"), present: format!("present {what}"), axis: 0 };
    ["keys", "values"].map(cache).to_vec()
}

/// What the graphs of steps differ in.
#[derive(Clone, Copy)]
struct Form {
    rows: u32,
    tokens: u32,
    data_type: DataType,
    /// Whether query heads have copies of the keys and values that they share.
    repeats: bool,
}

const PLAIN: Form = Form { rows: 9, tokens: 2, data_type: DataType::Float32, repeats: false };

/// Attention to two caches, with rows [rows, 1, heads, width], as the importer leaves it.
fn attention(form: Form) -> Graph {
    let Form { rows, tokens, data_type, repeats } = form;
    let mut sketch = GraphSketch::default();
    let query = sketch.input("query", &[1, 3 * HEADS, tokens, WIDTH]);
    let mut all = Vec::new();
    let mut outputs = Vec::new();
    for what in ["keys", "values"] {
        let new = sketch.input_of(&format!("new {what}"), data_type, &[1, tokens, HEADS, WIDTH]);
        // What the step makes is made by a node.
        let new = sketch.add(new, new);
        let heads = sketch.transpose(new, &[0, 2, 1, 3]);
        let first = |sketch: &mut GraphSketch| sketch.transpose(heads, &[2, 0, 1, 3]);
        let count = rows + tokens;
        let (present, read) = if rows == 0 {
            let present = first(&mut sketch);
            (present, sketch.reshape(heads, &[1, HEADS, 1, count, WIDTH]))
        } else {
            let past = sketch.input_of(&format!("past {what}"), data_type, &[rows, 1, HEADS, WIDTH]);
            let inputs = vec![past, first(&mut sketch)];
            let present = sketch.push(Concat { inputs, axis: 0 });
            let apart = sketch.reshape(present, &[count, 1, HEADS, 1, WIDTH]);
            (present, sketch.transpose(apart, &[1, 2, 3, 0, 4]))
        };
        let read = sketch.push(Cast { input: read, data_type: DataType::Float32 });
        all.push(if repeats {
            let wide = sketch.push(Expand { input: read, new_shape: vec![1, HEADS, 3, count, WIDTH] });
            sketch.reshape(wide, &[1, 3 * HEADS, count, WIDTH])
        } else {
            read
        });
        outputs.push((format!("present {what}"), present));
    }
    let (query, keys) = match repeats {
        true => (query, sketch.transpose(all[0], &[0, 1, 3, 2])),
        false => (sketch.reshape(query, &[1, HEADS, 3, tokens, WIDTH]), sketch.transpose(all[0], &[0, 1, 2, 4, 3])),
    };
    let scores = sketch.product(query, keys);
    let quarter = sketch.scalar(0.25);
    let scaled = sketch.binary(BinaryKind::Mul, scores, quarter);
    let weights = sketch.push(Softmax { input: scaled, axis: if repeats { 3 } else { 4 } });
    let result = sketch.product(weights, all[1]);
    outputs.push(("result".to_owned(), result));
    sketch.builder.build(outputs).unwrap()
}

/// The numbers of an input, and their bytes.
fn given(form: Form, name: &str, count: usize) -> (Vec<f32>, Vec<u8>) {
    let numbers = numbers(count, name.len() as u32 + u32::from(name.as_bytes()[0]));
    // Every number is one of float16.
    let numbers: Vec<f32> = numbers.into_iter().map(|x| half::f16::from_f32(x).to_f32()).collect();
    let bytes = match form.data_type {
        DataType::Float16 if name != "query" => numbers.iter().flat_map(|&x| half::f16::from_f32(x).to_ne_bytes()).collect(),
        _ => bytes_of(numbers.iter().copied()),
    };
    (numbers, bytes)
}

/// Rows as they are kept: the bytes, the scales, and the numbers that are read.
fn quantized(rows: &[f32]) -> (Vec<u8>, Vec<f32>, Vec<f32>) {
    let (mut bytes, mut scales, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for line in rows.chunks_exact(WIDTH as usize) {
        let scale = of_magnitude(magnitude(line.iter().copied()));
        scales.push(scale);
        for x in line {
            let steps = (x / scale).round_ties_even();
            bytes.push((steps as i8).cast_unsigned());
            read.push(steps * scale);
            // The bound that the documentation states, with the rounding of float32.
            assert!((x - steps * scale).abs() <= scale / 2.0 * (1.0 + 1e-5), "{x} with the scale {scale}");
        }
    }
    (bytes, scales, read)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|x| f32::from_ne_bytes(x.try_into().unwrap())).collect()
}

fn outputs_of(graph: &Graph, found: Vec<Vec<u8>>) -> HashMap<String, Vec<u8>> {
    graph.outputs.iter().map(|(name, _)| name.clone()).zip(found).collect()
}

/// Holds a step against that of the model for the numbers that are read.
fn check(form: Form) {
    let of_model = attention(form);
    let graph = in_bytes(of_model.clone(), &caches()).unwrap();
    let mut kept: HashMap<String, Vec<u8>> = HashMap::new();
    // What the model would have to be given to compute the same.
    let mut read: HashMap<String, Vec<u8>> = HashMap::new();
    let mut expected: HashMap<String, Vec<u8>> = HashMap::new();
    for what in ["keys", "values"] {
        let row = (HEADS * WIDTH) as usize;
        let (past, _) = given(form, &format!("past {what}"), form.rows as usize * row);
        let (new, _) = given(form, &format!("new {what}"), form.tokens as usize * row);
        let (bytes, scales, numbers) = quantized(&past);
        kept.insert(format!("past {what}"), bytes.clone());
        kept.insert(format!("\0scales of past {what}"), bytes_of(scales.iter().copied()));
        read.insert(format!("past {what}"), bytes_of(numbers));
        // The graph doubles them.
        let (new_bytes, new_scales, new_numbers) = quantized(&new.iter().map(|x| x * 2.0).collect::<Vec<f32>>());
        read.insert(format!("new {what}"), bytes_of(new_numbers.iter().map(|x| x / 2.0)));
        expected.insert(format!("present {what}"), [bytes, new_bytes].concat());
        expected.insert(format!("\0scales of present {what}"), bytes_of(scales.into_iter().chain(new_scales)));
    }
    let (_, query) = given(form, "query", (3 * HEADS * form.tokens * WIDTH) as usize);
    let of_name = |name: &str, id: OperandId, graph: &Graph| {
        let count = graph.descriptor(id).element_count();
        kept.get(name).cloned().unwrap_or_else(|| given(form, name, count).1)
    };
    let inputs: Vec<Vec<u8>> = graph.inputs.iter().map(|(name, id)| of_name(name, *id, &graph)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let plain = attention(Form { data_type: DataType::Float32, ..form });
    let of_plain: Vec<&[u8]> = plain.inputs.iter().map(|(name, _)| read.get(name).unwrap_or(&query).as_slice()).collect();
    let wanted = floats(&outputs_of(&plain, interpret(&plain, &of_plain))["result"]);
    for found in [interpret(&graph, &inputs), run(&graph, &inputs)] {
        let found = outputs_of(&graph, found);
        for (name, expected) in &expected {
            assert_eq!(&found[name], expected, "{name}");
        }
        for (x, y) in floats(&found["result"]).iter().zip(&wanted) {
            assert!((x - y).abs() <= 1e-5 * y.abs().max(1.0), "{x}, not {y}");
        }
    }
}

#[test]
fn steps_read_what_they_keep() {
    for (rows, tokens) in [(0, 5), (9, 1), (9, 2), (130, 1), (130, 20)] {
        for data_type in [DataType::Float32, DataType::Float16] {
            for repeats in [false, true] {
                check(Form { rows, tokens, data_type, repeats });
            }
        }
    }
}

#[test]
fn attention_reads_the_bytes() {
    for form in [PLAIN, Form { rows: 0, ..PLAIN }, Form { data_type: DataType::Float16, ..PLAIN }, Form { tokens: 30, ..PLAIN }] {
        let graph = in_bytes(attention(form), &caches()).unwrap();
        let schedule = scheduled(&graph, &Cpu::new(1));
        let names: Vec<&str> = schedule.steps.iter().map(|step| step.op.row().name).collect();
        assert!(!names.contains(&"dequantizeLinear"), "{names:?}");
        let attention: Vec<_> = schedule.steps.iter().filter(|step| !step.prologue.is_empty()).collect();
        assert_eq!((attention.len(), attention[0].dequantized.len()), (1, 2), "{names:?}");
        // Of a cache that has rows, only the new ones are moved.
        let moved = schedule.steps.iter().filter(|step| step.op.row().name == "transpose" && form.rows > 0);
        for step in moved {
            let shape = &schedule.values[step.outputs[0].0].descriptor.shape;
            assert!(!shape.contains(&(form.rows + form.tokens)), "{shape:?}");
        }
    }
}

#[test]
fn attention_reads_caches_of_float16_where_they_are() {
    for form in [PLAIN, Form { rows: 130, ..PLAIN }, Form { tokens: 30, ..PLAIN }] {
        let graph = attention(Form { data_type: DataType::Float16, ..form });
        let schedule = scheduled(&graph, &Cpu::new(1));
        let names: Vec<&str> = schedule.steps.iter().map(|step| step.op.row().name).collect();
        let attention: Vec<_> = schedule.steps.iter().filter(|step| !step.prologue.is_empty()).collect();
        assert_eq!((attention.len(), attention[0].dequantized.len()), (1, 2), "{names:?}");
        // Nothing but the caches has all rows.
        for step in schedule.steps.iter().filter(|step| matches!(step.op.row().name, "cast" | "transpose")) {
            let shape = &schedule.values[step.outputs[0].0].descriptor.shape;
            assert!(!shape.contains(&(form.rows + form.tokens)), "{shape:?}");
        }
    }
}

#[test]
fn what_cannot_be_kept_in_bytes_is_refused() {
    let mut sketch = GraphSketch::default();
    let past = sketch.input_of("past keys", DataType::Int32, &[3, 1, HEADS, WIDTH]);
    let new = sketch.input_of("new", DataType::Int32, &[1, 1, HEADS, WIDTH]);
    let all = sketch.push(Concat { inputs: vec![past, new], axis: 0 });
    let graph = sketch.builder.build(vec![("present keys".to_owned(), all)]).unwrap();
    let error = in_bytes(graph, &caches()).unwrap_err();
    assert!(error.message().contains("the cache \"past keys\" of int32, allowed float32 and float16"), "{}", error.message());

    let mut sketch = GraphSketch::default();
    let past = sketch.input("past keys", &[3, 1, HEADS, WIDTH]);
    let new = sketch.input("new", &[3, 1, HEADS, WIDTH]);
    let all = sketch.add(past, new);
    let graph = sketch.builder.build(vec![("present keys".to_owned(), all)]).unwrap();
    let error = in_bytes(graph, &caches()).unwrap_err();
    assert!(error.message().contains("to which no concatenation appends rows"), "{}", error.message());
}
