//! Models of a few nodes, whose results were computed by their definitions in float64, or by scikit-learn for those that its
//! converter wrote: `tests/onnx/definitions.py` and `decoders.py` write the cases. Models that are no good must be refused.

use crate::onnx::element::ElementType;
use crate::onnx::protobuf::{AttributeProto, TensorProto, attribute_type};
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;
use serde_json::Value;

/// A number, of which JSON has not all.
fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        _ => value.as_f64().unwrap(),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|x| x.as_i64().unwrap()).collect()
}

/// A tensor: `{ type, shape, data }`, with the type's number.
fn tensor(value: &Value) -> (i32, Tensor) {
    let kind = value["type"].as_i64().unwrap();
    let element = ElementType::from_number(kind).unwrap();
    let shape = integers(&value["shape"]).into_iter().map(|size| size as usize).collect();
    let data = &value["data"];
    let tensor = match element.is_float() {
        true => Tensor::from_floats(element, shape, &numbers(data)),
        false => Tensor::from_integers(element, shape, &integers(data)),
    };
    (kind as i32, tensor)
}

fn tensor_proto(name: &str, value: &Value) -> TensorProto {
    let (data_type, tensor) = tensor(value);
    let dims = tensor.shape.iter().map(|&size| size as i64).collect();
    TensorProto { name: name.into(), dims, data_type, raw_data: Some(tensor.bytes.to_vec().into()), ..Default::default() }
}

fn attribute(name: &str, value: &Value) -> AttributeProto {
    let mut attribute = AttributeProto { name: name.into(), ..Default::default() };
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    attribute.r#type = match kind.as_str() {
        "int" => {
            attribute.i = value.as_i64();
            attribute_type::INT
        }
        "float" => {
            attribute.f = Some(number(value) as f32);
            attribute_type::FLOAT
        }
        "string" => {
            attribute.s = Some(value.as_str().unwrap().as_bytes().to_vec().into());
            attribute_type::STRING
        }
        "ints" => {
            attribute.ints = integers(value);
            attribute_type::INTS
        }
        "floats" => {
            attribute.floats = numbers(value).into_iter().map(|x| x as f32).collect();
            attribute_type::FLOATS
        }
        "strings" => {
            let bytes = |text: &Value| text.as_str().unwrap().as_bytes().to_vec().into();
            attribute.strings = value.as_array().unwrap().iter().map(bytes).collect();
            attribute_type::STRINGS
        }
        _ => {
            attribute.t = Some(tensor_proto("", value).into());
            attribute_type::TENSOR
        }
    };
    attribute
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// The cases, or those of a file that `WEBNN_DEFINITIONS` names.
fn cases(kind: &str) -> Vec<Value> {
    let path = std::env::var("WEBNN_DEFINITIONS");
    let paths = match path {
        Ok(path) => vec![path],
        Err(_) => {
            ["definitions", "decoders"].map(|name| format!("{}/tests/onnx/{name}.json", env!("CARGO_MANIFEST_DIR"))).to_vec()
        }
    };
    let of_file = |path| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    paths.into_iter().flat_map(|path| of_file(path)[kind].as_array().unwrap().clone()).collect()
}

fn model(case: &Value) -> (Sketch, Vec<Tensor>) {
    let mut sketch = sketch(case["opset"].as_i64().unwrap());
    let mut inputs = Vec::new();
    for input in case["inputs"].as_array().unwrap() {
        let (kind, tensor) = tensor(input);
        let shape: Vec<i64> = tensor.shape.iter().map(|&size| size as i64).collect();
        sketch = sketch.input(input["name"].as_str().unwrap(), kind, &shape);
        // float32 stands for double.
        inputs.push(if tensor.element == ElementType::Double { tensor.cast(ElementType::Float) } else { tensor });
    }
    for initializer in case["initializers"].as_array().unwrap() {
        sketch.graph.initializer.push(tensor_proto(initializer["name"].as_str().unwrap(), initializer));
    }
    for node in case["nodes"].as_array().unwrap() {
        let attributes = node["attributes"].as_object().unwrap().iter().map(|(name, value)| attribute(name, value)).collect();
        sketch = sketch.node(node["operator"].as_str().unwrap(), &names(&node["inputs"]), &names(&node["outputs"]), attributes);
    }
    for output in case["outputs"].as_array().unwrap() {
        sketch = sketch.output(output["name"].as_str().unwrap());
    }
    (sketch, inputs)
}

#[test]
fn models_compute_what_their_definitions_say() {
    let mut wrong = String::new();
    for case in &cases("cases") {
        let name = case["name"].as_str().unwrap();
        let (sketch, inputs) = model(case);
        let imported = match sketch.import() {
            Ok(imported) => imported,
            Err(error) => {
                wrong += &format!("{name} is refused: {error}\n");
                continue;
            }
        };
        for (found, output) in run(&imported, &inputs).iter().zip(case["outputs"].as_array().unwrap()) {
            // Null is what the definition leaves open.
            let expected: Vec<Option<f64>> =
                output["data"].as_array().unwrap().iter().map(|x| (!x.is_null()).then(|| number(x))).collect();
            let shape: Vec<i64> = found.shape.iter().map(|&size| size as i64).collect();
            if shape != integers(&output["shape"]) {
                wrong += &format!("{name} has the shape {shape:?}\n");
                continue;
            }
            // How far a result may be away, as a part of its own size and besides.
            let (relative, absolute) = (number(&output["relative"]), number(&output["absolute"]));
            let near = |(a, b): (&f64, &Option<f64>)| {
                let Some(b) = b else { return true };
                // A number of float32 has as many digits in the file as it needs.
                let is_same = a == b || a.is_nan() && b.is_nan() || found.element.is_float() && *a as f32 == *b as f32;
                is_same || (a - b).abs() <= relative * b.abs() + absolute
            };
            if let Some(i) = found.floats().iter().zip(&expected).position(|pair| !near(pair)) {
                let (found, expected) = (found.floats()[i], expected[i].unwrap_or_default());
                wrong += &format!("{name}: {} at {i} is {found:e}, not {expected:e}\n", output["name"]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn models_that_are_no_good_are_refused_with_the_reason() {
    for case in &cases("refused") {
        let (sketch, _) = model(case);
        let (name, reason) = (case["name"].as_str().unwrap(), case["reason"].as_str().unwrap());
        let error = sketch.import().expect_err(name).to_string();
        assert!(error.contains(reason), "{name}: {error}, not {reason}");
    }
}
