//! Whether mappings read what `options.txt` says that they read: models of one node are imported, and their accesses recorded.
//!
//! Most rows are met by nodes whose inputs all have one shape and type; `tests/onnx/probes.txt` has nodes for the others.

use super::options::{Name, of, recorded};
use super::{Entry, TABLE};
use crate::onnx::OPSETS;
use crate::onnx::element::ElementType;
use crate::onnx::protobuf::{AttributeProto, TensorProto, attribute_type};
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;
use std::collections::BTreeSet;

fn element(name: &str) -> ElementType {
    let all = (0..32).filter_map(|number| ElementType::from_number(number).ok());
    all.into_iter().find(|element| element.name() == name).unwrap_or_else(|| panic!("no type {name}"))
}

/// Ones, or the numbers that are given.
fn tensor(element: ElementType, shape: &[usize], numbers: Option<Vec<f64>>) -> Tensor {
    let numbers = numbers.unwrap_or_else(|| vec![1.0; shape.iter().product()]);
    Tensor::from_floats(ElementType::Double, shape.to_vec(), &numbers).cast(element)
}

fn shape_of(text: &str) -> Vec<usize> {
    text.split(',').filter(|size| !size.is_empty()).map(|size| size.parse().unwrap()).collect()
}

/// `name=2`, `name=0.5`, `name=word`, `name=[1,2]`, `name=[0.5]`, `name=[a,b]`.
fn attribute(written: &str) -> AttributeProto {
    let (name, value) = written.split_once('=').unwrap();
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        let words: Vec<&str> = list.split(',').collect();
        let numbers: Option<Vec<i64>> = words.iter().map(|word| word.parse().ok()).collect();
        if let Some(numbers) = numbers {
            return ints(name, &numbers);
        }
        let floats: Option<Vec<f32>> = words.iter().map(|word| word.parse().ok()).collect();
        let (r#type, floats, strings) = match floats {
            Some(floats) => (attribute_type::FLOATS, floats, vec![]),
            None => (attribute_type::STRINGS, vec![], words.iter().map(|word| word.as_bytes().to_vec().into()).collect()),
        };
        return AttributeProto { name: name.into(), r#type, floats, strings, ..Default::default() };
    }
    match (value.parse::<i64>(), value.parse::<f32>()) {
        (Ok(number), _) => int(name, number),
        (_, Ok(number)) => float(name, number),
        _ if value == "tensor" => {
            let t = Some(Box::new(TensorProto {
                data_type: 1,
                dims: vec![1],
                raw_data: Some(vec![0; 4].into()),
                ..Default::default()
            }));
            AttributeProto { name: name.into(), r#type: attribute_type::TENSOR, t, ..Default::default() }
        }
        _ => text(name, value),
    }
}

/// Imports `Operator@opset: inputs | attributes -> outputs`. An input is `-` where it is absent, `float32[2,3]` where it is fed,
/// and `=float32[2,3]` or `=int64[2]:3,4` where it is known. A node that only a run can compute is refused, and begins with `?`.
fn probe(line: &str) {
    let (is_refused, line) = line.strip_prefix('?').map_or((false, line), |line| (true, line));
    let (head, rest) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
    let (operator, opset) = head.split_once('@').unwrap_or((head, "17"));
    let (rest, outputs) = rest.split_once(" -> ").unwrap_or((rest, "1"));
    let (inputs, attributes) = rest.split_once('|').unwrap_or((rest, ""));
    let mut model = sketch(opset.parse().unwrap());
    let mut names = Vec::new();
    for (i, input) in inputs.split_whitespace().enumerate() {
        names.push(if input == "-" { String::new() } else { format!("i{i}") });
        if input == "-" {
            continue;
        }
        let (known, input) = input.strip_prefix('=').map_or((false, input), |input| (true, input));
        let (of, rest) = input.split_once('[').unwrap_or_else(|| panic!("{line}"));
        let (shape, values) = rest.split_once(']').unwrap_or_else(|| panic!("{line}"));
        let values = values.strip_prefix(':').map(|values| values.split(',').map(|value| value.parse().unwrap()).collect());
        let (of, shape) = (element(of), shape_of(shape));
        model = if known {
            model.tensor(&names[i], &tensor(of, &shape, values))
        } else {
            model.input(&names[i], number_of(of), &shape.iter().map(|&size| size as i64).collect::<Vec<_>>())
        };
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let outputs: Vec<String> = (0..outputs.trim().parse().unwrap()).map(|i| format!("o{i}")).collect();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    let attributes = attributes.split_whitespace().map(attribute).collect();
    let model = outputs.iter().fold(model.node(operator, &names, &outputs, attributes), |model, output| model.output(output));
    match model.import() {
        Err(error) if !is_refused => panic!("{line}\n{error}"),
        _ => {}
    }
}

/// Operators of sequences, which one-node models cannot have.
fn sequences() {
    sketch(17)
        .input("x", number_of(ElementType::Float), &[2, 3])
        .int64s("at", &[0])
        .node("SplitToSequence", &["x"], &["rows"], vec![])
        .node("SequenceConstruct", &["x", "x"], &["list"], vec![])
        .node("SequenceInsert", &["list", "x", "at"], &["longer"], vec![])
        .node("SequenceErase", &["longer", "at"], &["shorter"], vec![])
        .node("SequenceAt", &["shorter", "at"], &["element"], vec![])
        .node("SequenceLength", &["rows"], &["length"], vec![])
        .node("ConcatFromSequence", &["rows"], &["joined"], vec![int("axis", 0)])
        .output("element")
        .output("length")
        .output("joined")
        .import()
        .unwrap();
}

/// Nodes of an operator whose inputs are all alike. Most of them are refused, after something was read.
fn alike(entry: &Entry, inputs: usize) {
    let operator =
        if entry.domain.is_empty() { entry.operator.to_owned() } else { format!("{}::{}", entry.domain, entry.operator) };
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"];
    for opset in [7, 9, 10, 12, 17, 21, *OPSETS.end()] {
        let first = if entry.domain.is_empty() { entry.versions.0 } else { 0 };
        if opset < first || entry.domain.is_empty() && opset > entry.versions.1 {
            continue;
        }
        for shape in [&[2i64, 4][..], &[1, 4, 4, 4], &[2, 3, 4], &[1]] {
            for of in [ElementType::Float, ElementType::Uint8, ElementType::Int64, ElementType::Bool] {
                for known in [false, true] {
                    let mut model = sketch(opset);
                    for (i, name) in names[..inputs].iter().enumerate() {
                        let sizes: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
                        model = match known && i > 0 {
                            true => model.tensor(name, &tensor(of, &sizes, None)),
                            false => model.input(name, number_of(of), shape),
                        };
                    }
                    let _ = model.node(&operator, &names[..inputs], &["y"], vec![]).output("y").import();
                }
            }
        }
    }
}

#[test]
fn what_is_listed_as_read_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx/probes.txt");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).for_each(probe);
    sequences();
    let mut missing = Vec::new();
    // The lists of ai.onnx.ml are read or not by what they are together; `definition_tests.rs` has its models.
    for entry in TABLE.iter().filter(|entry| entry.domain != "ai.onnx.ml") {
        let options = of(entry.domain, entry.operator).unwrap();
        let unread = || -> BTreeSet<Name> {
            let read = recorded(entry.domain, entry.operator);
            options.read_names().filter(|name| !read.contains(name)).collect()
        };
        for inputs in (0..=options.most_inputs()).rev() {
            if !unread().is_empty() {
                alike(entry, inputs);
            }
        }
        missing.extend((!unread().is_empty()).then(|| format!("{}::{}: {:?}", entry.domain, entry.operator, unread())));
    }
    assert!(missing.is_empty(), "listed as read, and not read:\n{}", missing.join("\n"));
}
