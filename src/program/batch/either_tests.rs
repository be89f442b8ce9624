//! One graph for steps with an adapter and without gives what each gives, bit by bit.

use super::either;
use super::join::{SequenceGraph, join};
use crate::backend::cpu::reference::interpret;
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::testing::{GraphSketch, bytes_of};
use crate::graph::{Graph, OperandId};

const WIDTH: u32 = 16;

/// Where an adapter would be: its sum with a value, the sum with zeros, or nothing.
#[derive(Clone, Copy, PartialEq)]
enum Adapter {
    There,
    Zeros,
    None,
}

/// A step whose values are scaled, adapted and negated, three times.
fn step(adapter: Adapter) -> Graph {
    let mut sketch = GraphSketch::default();
    let x = sketch.input("x", &[1, 1, WIDTH]);
    let factors = sketch.weights(&[WIDTH, WIDTH], 3);
    let projected = sketch.product(x, factors);
    let mut value = x;
    for layer in ["first", "second", "third"] {
        let scale = sketch.floats(&[WIDTH], [1.0, 2.0, -1.0, 0.5].repeat(4));
        let scaled = sketch.binary(BinaryKind::Mul, value, scale);
        let adapted = match adapter {
            Adapter::There => {
                let [a, b] =
                    [("a", [WIDTH, 2]), ("b", [2, WIDTH])].map(|(name, shape)| sketch.input(&format!("{layer} {name}"), &shape));
                let low = sketch.product(scaled, a);
                let high = sketch.product(low, b);
                sketch.add(scaled, high)
            }
            Adapter::Zeros => {
                let zeros = sketch.floats(&[1, 1, WIDTH], [0.0; WIDTH as usize]);
                sketch.add(scaled, zeros)
            }
            Adapter::None => scaled,
        };
        value = sketch.unary(UnaryKind::Neg, adapted);
    }
    let outputs = vec![("value".to_owned(), value), ("projected".to_owned(), projected)];
    sketch.builder.build(outputs).unwrap()
}

/// What is given for an input: numbers whose sums and products with zeros are other numbers, and adapters that hide nothing.
fn given(graph: &Graph, name: &str, id: OperandId, number: usize) -> Vec<u8> {
    let x = [[-0.0, f32::INFINITY, 3.0, f32::NEG_INFINITY], [0.0, -0.0, f32::MAX, -7.0], [f32::NAN, 1.0, -0.0, 5.0]];
    match name {
        "x" => bytes_of(x[number % x.len()].repeat(4)),
        _ => {
            let count = graph.descriptor(id).byte_length() / 4;
            bytes_of((0..count).map(|i| if i == 1 { f32::INFINITY } else { i as f32 - 2.5 }))
        }
    }
}

#[test]
fn a_step_is_that_of_one_graph_or_of_the_other_bit_by_bit() {
    let full = step(Adapter::There);
    for without in [Adapter::Zeros, Adapter::None] {
        let plain = step(without);
        let (graph, choice) = either(&full, &plain).unwrap();
        for number in 0..3 {
            for (says, wanted) in [(1, &full), (0, &plain)] {
                let run = |of: &Graph| {
                    let value = |(name, id): &(String, OperandId)| {
                        if *name == choice { vec![says] } else { given(of, name, *id, number) }
                    };
                    let bytes: Vec<Vec<u8>> = of.inputs.iter().map(value).collect();
                    interpret(of, &bytes.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>())
                };
                assert_eq!(run(&graph), run(wanted), "{says}");
            }
        }
    }
    // Sums with zeros are other numbers, so the graphs are not the same.
    let bytes = given(&full, "x", full.inputs[0].1, 0);
    let [zeros, none] = [Adapter::Zeros, Adapter::None].map(|without| interpret(&step(without), &[&bytes]));
    assert_ne!(zeros, none);
}

#[test]
fn steps_of_both_kinds_are_joined() {
    let (full, plain) = (step(Adapter::There), step(Adapter::Zeros));
    let (graph, choice) = either(&full, &plain).unwrap();
    let joined = join(&[SequenceGraph::new(&graph); 3]).unwrap();
    let says = |number: usize| u8::from(number != 1);
    let value = |((_, id), (number, name)): (&(String, OperandId), &(usize, String))| {
        if *name == choice { vec![says(*number)] } else { given(&joined.graph, name, *id, *number) }
    };
    let bytes: Vec<Vec<u8>> = joined.graph.inputs.iter().zip(&joined.inputs).map(value).collect();
    let found = interpret(&joined.graph, &bytes.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
    for (output, (number, name)) in joined.outputs.iter().enumerate() {
        let of = if says(*number) == 1 { &full } else { &plain };
        let own: Vec<Vec<u8>> = of.inputs.iter().map(|(name, id)| given(of, name, *id, *number)).collect();
        let alone = interpret(of, &own.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
        let position = of.outputs.iter().position(|(other, _)| other == name).unwrap();
        assert_eq!(found[output], alone[position], "{name} of the sequence {number}");
    }
}

#[test]
fn graphs_that_are_not_parts_of_each_other_are_refused() {
    let (full, plain) = (step(Adapter::There), step(Adapter::None));
    assert!(either(&plain, &full).is_err());
    let mut other = GraphSketch::default();
    let x = other.input("x", &[1, 1, WIDTH]);
    let value = other.unary(UnaryKind::Abs, x);
    let other = other.builder.build(vec![("value".to_owned(), value), ("projected".to_owned(), value)]).unwrap();
    assert!(either(&full, &other).is_err());
}
