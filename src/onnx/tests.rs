//! Whole models: what is folded, what is refused, and that nothing in a file can do harm.

use super::element::ElementType;
use super::fixed::{Fixed, FixedValue};
use super::protobuf::*;
use super::refusal::ImportError;
use super::tensor::Tensor;
use super::testing::*;
use super::{Bounds, Model, import};
use prost::Message;

const FLOAT: i32 = 1;

fn f32s(shape: &[usize], numbers: &[f64]) -> Tensor {
    Tensor::from_floats(ElementType::Float, shape.to_vec(), numbers)
}

fn message(error: ImportError) -> String {
    error.to_string()
}

/// A small model of many kinds of nodes: an image through a convolution, a pool, shape arithmetic and a product.
fn small() -> Sketch {
    sketch(17)
        .input("x", FLOAT, &[1, 1, 4, 4])
        .floats("w", &[2, 1, 3, 3], &[0.5; 18])
        .floats("b", &[2], &[1.0, -1.0])
        .floats("m", &[8, 3], &[0.25; 24])
        .int64s("minus", &[-1])
        .int64s("zero", &[0])
        .node("Conv", &["x", "w", "b"], &["c"], vec![ints("pads", &[1, 1, 1, 1]), ints("kernel_shape", &[3, 3])])
        .node("Relu", &["c"], &["r"], vec![])
        .node("MaxPool", &["r"], &["p"], vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])])
        .node("Shape", &["p"], &["s"], vec![])
        .node("Gather", &["s", "zero"], &["n"], vec![])
        .node("Concat", &["n", "minus"], &["flat"], vec![int("axis", 0)])
        .node("Reshape", &["p", "flat"], &["f"], vec![])
        .node("MatMul", &["f", "m"], &["y"], vec![])
        .output("y")
}

#[test]
fn a_small_model_runs() {
    let imported = small().import().unwrap();
    assert_eq!(imported.outputs[0].shape, [1, 3]);
    let input: Vec<f64> = (0..16).map(f64::from).collect();
    let output = &run(&imported, &[f32s(&[1, 1, 4, 4], &input)])[0];
    // Of each window the greatest sum, with the padding: 22.5, 27 and 37, 45 before the bias.
    let sums = |x: usize, y: usize| -> f64 {
        let mut sum = 0.0;
        for i in y.saturating_sub(1)..(y + 2).min(4) {
            for j in x.saturating_sub(1)..(x + 2).min(4) {
                sum += 0.5 * input[i * 4 + j];
            }
        }
        sum
    };
    let mut expected = 0.0;
    for bias in [1.0, -1.0] {
        for (x, y) in [(0, 0), (2, 0), (0, 2), (2, 2)] {
            let window = [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
            expected += 0.25 * window.iter().map(|&(x, y)| (sums(x, y) + bias).max(0.0)).fold(0.0, f64::max);
        }
    }
    assert_eq!(output.floats(), [expected; 3]);
}

#[test]
fn all_nodes_that_cannot_be_mapped_are_reported() {
    let model = sketch(17)
        .input("x", FLOAT, &[2, 3])
        .node("RegexFullMatch", &["x"], &["a", "i"], vec![])
        .node("Relu", &["a"], &["b"], vec![])
        .node("my.domain::Thing", &["b"], &["c"], vec![])
        .node("Flatten", &["x"], &["d"], vec![int("axis", 7)])
        .node("TfIdfVectorizer", &["x"], &["unneeded"], vec![])
        .node("Add", &["c", "d"], &["y"], vec![])
        .output("y");
    let Err(ImportError::Nodes(nodes)) = model.import() else { panic!("not refused") };
    let found: Vec<_> = nodes.iter().map(|node| (node.name.as_str(), node.operator.as_str(), node.version)).collect();
    assert_eq!(found, [("a", "RegexFullMatch", 17), ("c", "Thing", 0), ("d", "Flatten", 17)]);
    assert_eq!(nodes[1].domain, "my.domain");
    assert!(message(ImportError::Nodes(nodes)).contains("node d (Flatten of ai.onnx version 17): axis 7 of rank 2"));
}

#[test]
fn free_dimensions_are_fixed() {
    let model = || {
        let mut model = sketch(17).node("Relu", &["x"], &["y"], vec![]).output("y");
        let open = DimensionProto::default();
        model.graph.input.push(info("x", FLOAT, vec![named_dimension("batch"), open, dimension(3)]));
        model
    };
    let text = message(model().import().unwrap_err());
    assert!(text.contains("\"batch\"") && text.contains("\"x:1\""), "{text}");
    let imported = model().import_with(&[("batch", 2), ("x:1", 5)]).unwrap();
    assert_eq!(imported.inputs[0].signature.shape, [2, 5, 3]);
    let text = message(model().import_with(&[("batch", 2), ("x:1", 5), ("sequence", 1)]).unwrap_err());
    assert!(text.contains("\"sequence\""), "{text}");
}

#[test]
fn inputs_can_be_given_at_import() {
    let branch = |name: &str, operator: &str| {
        let inner = sketch(17).node(operator, &["x"], &["r"], vec![]).output("r");
        AttributeProto { name: name.into(), r#type: 5, g: Some(inner.graph.encode_to_vec().into()), ..Default::default() }
    };
    let bytes = sketch(17)
        .input("x", FLOAT, &[2])
        .input("rate", 7, &[])
        .int64s("sixteen", &[16])
        .node("Equal", &["rate", "sixteen"], &["c"], vec![])
        .node("If", &["c"], &["y"], vec![branch("then_branch", "Neg"), branch("else_branch", "Shape")])
        .output("y")
        .bytes();
    let given = |name: &str, array: &str, bytes: Vec<u8>| Fixed {
        values: [(name.to_owned(), FixedValue::new(array.into(), bytes))].into(),
        ..Fixed::default()
    };
    let rate = 16i64.to_le_bytes().to_vec();
    let imported = import_fixed(bytes.clone(), &given("rate", "BigInt64Array", rate.clone())).unwrap();
    assert_eq!(imported.inputs.iter().map(|input| input.signature.name.as_str()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(run(&imported, &[f32s(&[2], &[1.0, 2.0])])[0].floats(), [-1.0, -2.0]);
    for (name, array, value) in [
        ("rat", "BigInt64Array", rate.clone()),
        ("rate", "Float64Array", rate.clone()),
        ("rate", "BigInt64Array", [rate.clone(), rate.clone()].concat()),
        ("rate", "BigInt64Array", vec![]),
    ] {
        assert!(message(import_fixed(bytes.clone(), &given(name, array, value)).unwrap_err()).contains("constants"));
    }
    // The branches differ, so the choice cannot be left open.
    assert!(message(import_bytes(bytes, &[]).unwrap_err()).contains("must be alike"));
}

#[test]
fn an_empty_cache_is_left_out() {
    let mut model =
        sketch(17).input("x", FLOAT, &[1, 2]).node("Concat", &["past", "x"], &["y"], vec![int("axis", 0)]).output("y");
    model.graph.input.push(info("past", FLOAT, vec![named_dimension("past"), dimension(2)]));
    let imported = model.import_with(&[("past", 0)]).unwrap();
    assert_eq!(imported.inputs.iter().map(|input| input.used).collect::<Vec<_>>(), [true, false]);
    assert_eq!(run(&imported, &[f32s(&[1, 2], &[1.0, 2.0])])[0].floats(), [1.0, 2.0]);
}

#[test]
fn inputs_and_constants_can_be_outputs() {
    let model = sketch(17)
        .input("x", FLOAT, &[2])
        .floats("c", &[1], &[3.0])
        .node("Identity", &["x"], &["y"], vec![])
        .node("Identity", &["y"], &["z"], vec![])
        .output("x")
        .output("c")
        .output("y")
        .output("z");
    let outputs = run(&model.import().unwrap(), &[f32s(&[2], &[1.0, 2.0])]);
    assert_eq!(
        outputs.iter().map(Tensor::floats).collect::<Vec<_>>(),
        [vec![1.0, 2.0], vec![3.0], vec![1.0, 2.0], vec![1.0, 2.0]]
    );
}

/// PyTorch's exporter lists a value twice that the module returns twice.
#[test]
fn a_value_may_be_several_outputs() {
    let model = sketch(17).input("x", FLOAT, &[1]).node("Neg", &["x"], &["y"], vec![]).output("y").output("x").output("y");
    let imported = model.import().unwrap();
    let names: Vec<&str> = imported.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["y", "x"]);
    let outputs = run(&imported, &[f32s(&[1], &[2.0])]);
    assert_eq!(outputs.iter().map(Tensor::floats).collect::<Vec<_>>(), [[-2.0], [2.0]]);
}

#[test]
fn functions_are_inlined() {
    let attribute = AttributeProto { name: "alpha".into(), ref_attr_name: "slope".into(), r#type: 1, ..Default::default() };
    let function = FunctionProto {
        name: "Leak".into(),
        domain: "f".into(),
        input: vec!["a".into(), "b".into()],
        output: vec!["c".into()],
        node: vec![node("LeakyRelu", &["a"], &["t"], vec![attribute]), node("Sum", &["t", "t"], &["c"], vec![])],
        opset_import: vec![OperatorSetIdProto { domain: "".into(), version: 17 }],
        attribute_proto: vec![float("slope", 0.5)],
        ..Default::default()
    };
    let model = |attributes| {
        let mut model = sketch(17).input("x", FLOAT, &[2]).node("f::Leak", &["x"], &["y"], attributes).output("y");
        model.functions = vec![function.clone()];
        model
    };
    let outputs = |attributes| run(&model(attributes).import().unwrap(), &[f32s(&[2], &[-1.0, 2.0])])[0].floats();
    assert_eq!(outputs(vec![]), [-1.0, 4.0]);
    assert_eq!(outputs(vec![float("slope", 0.25)]), [-0.5, 4.0]);

    let mut recursive = model(vec![]);
    recursive.functions[0].node[0] = node("f::Leak", &["a"], &["t"], vec![]);
    assert!(message(recursive.import().unwrap_err()).contains("within itself"));
}

#[test]
fn choices_that_are_known_are_made() {
    let branch = |name: &str, operator: &str| {
        let inner = sketch(17).node(operator, &["x"], &["r"], vec![]).output("r");
        AttributeProto { name: name.into(), r#type: 5, g: Some(inner.graph.encode_to_vec().into()), ..Default::default() }
    };
    let model = |size: i64| {
        let mut model = sketch(17)
            .input("a", FLOAT, &[2, size])
            .int64s("one", &[1])
            .node("Neg", &["a"], &["x"], vec![])
            .node("Shape", &["a"], &["shape"], vec![])
            .node("Gather", &["shape", "one"], &["size"], vec![])
            .node("Equal", &["size", "one"], &["flat"], vec![])
            .node("If", &["flat"], &["y"], vec![branch("then_branch", "Abs"), branch("else_branch", "Identity")])
            .output("y");
        // The branch's value from around it comes later in the file.
        model.graph.node.reverse();
        model
    };
    assert_eq!(run(&model(1).import().unwrap(), &[f32s(&[2, 1], &[1.0, 2.0])])[0].floats(), [1.0, 2.0]);
    assert_eq!(run(&model(2).import().unwrap(), &[f32s(&[2, 2], &[1.0; 4])])[0].floats(), [-1.0; 4]);
    let data = |other: &str| {
        sketch(17)
            .input("a", 9, &[1])
            .input("x", FLOAT, &[1])
            .node("If", &["a"], &["y"], vec![branch("then_branch", "Abs"), branch("else_branch", other)])
            .output("y")
    };
    // A choice by data: both are computed.
    let imported = data("Neg").import().unwrap();
    for (truth, expected) in [(1, 3.0), (0, -3.0)] {
        let condition = Tensor::from_integers(ElementType::Bool, vec![1], &[truth]);
        assert_eq!(run(&imported, &[condition, f32s(&[1], &[3.0])])[0].floats(), [expected]);
    }
    assert!(message(data("Shape").import().unwrap_err()).contains("must be alike"));
}

#[test]
fn results_of_a_branch_may_be_one_value() {
    let branch = |name: &str, operator: &str| {
        let inner = sketch(17).node(operator, &["x"], &["r"], vec![]).output("r").output("r");
        AttributeProto { name: name.into(), r#type: 5, g: Some(inner.graph.encode_to_vec().into()), ..Default::default() }
    };
    let model = sketch(17)
        .input("a", 9, &[1])
        .input("x", FLOAT, &[1])
        .node("If", &["a"], &["y", "z"], vec![branch("then_branch", "Abs"), branch("else_branch", "Neg")])
        .output("y")
        .output("z");
    let outputs = run(&model.import().unwrap(), &[Tensor::from_integers(ElementType::Bool, vec![1], &[0]), f32s(&[1], &[3.0])]);
    assert_eq!(outputs.iter().map(Tensor::floats).collect::<Vec<_>>(), [[-3.0], [-3.0]]);
}

#[test]
fn broken_models_are_refused() {
    let refused = |proto: ModelProto, part: &str| {
        let text = message(import_bytes(proto.encode_to_vec(), &[]).unwrap_err());
        assert!(text.contains(part), "{text}");
    };
    refused(ModelProto::default(), "no graph");
    refused(sketch(0).proto(), "1 to");
    refused(sketch(99).proto(), "1 to");
    refused(sketch(17).proto(), "no output");
    refused(sketch(17).output("y").proto(), "nothing produces");
    let relu = || node("Relu", &["x"], &["y"], vec![]);
    let mut twice = sketch(17).input("x", FLOAT, &[1]).output("y");
    twice.graph.node = vec![relu(), relu()];
    refused(twice.proto(), "produced twice");
    refused(sketch(17).input("x", 8, &[1]).output("x").proto(), "strings");
    refused(sketch(17).input("x", FLOAT, &[1]).floats("w", &[3], &[1.0]).output("x").proto(), "4 bytes of data");
    refused(sketch(17).input("x", FLOAT, &[1 << 40]).output("x").proto(), "dimension");
    refused(sketch(17).input("x", FLOAT, &[1]).input("x", FLOAT, &[1]).output("x").proto(), "two inputs");
    let huge = sketch(17).int64s("s", &[i64::MAX, i64::MAX]).node("ConstantOfShape", &["s"], &["y"], vec![]).output("y");
    assert!(huge.import().is_err());
}

/// onnxruntime takes such inputs on GPUs only, so they are compared with the same inputs apart.
#[test]
fn packed_inputs_of_attention_are_taken_apart() {
    let (batch, length, heads, width) = (2, 3, 2, 4);
    let count = batch * length * heads * width;
    let parts: Vec<Vec<f64>> =
        (0..3).map(|part| (0..count).map(|i| f64::from((part * 31 + i * 17) % 23) / 8.0 - 1.0).collect()).collect();
    let packed = |parts: &[Vec<f64>]| -> Vec<f64> {
        let rows = 0..(count / width) as usize;
        let width = width as usize;
        rows.flat_map(|row| parts.iter().flat_map(move |part| part[row * width..][..width].to_vec())).collect()
    };
    let hidden = heads * width;
    let attend = |inputs: &[&[i64]], tensors: &[Tensor]| {
        let mut model = sketch(17);
        let names = ["a", "b", "c"];
        for (name, shape) in names.iter().zip(inputs) {
            model = model.input(name, FLOAT, shape);
        }
        let model = model.node("com.microsoft::MultiHeadAttention", &names[..inputs.len()], &["y"], vec![int("num_heads", 2)]);
        run(&model.output("y").import().unwrap(), tensors)[0].floats()
    };
    let plain = [i64::from(batch), i64::from(length), i64::from(hidden)];
    let of = |parts: &[Vec<f64>]| [i64::from(batch), i64::from(length), i64::from(heads), parts.len() as i64, i64::from(width)];
    let tensor = |shape: &[i64], numbers: &[f64]| f32s(&shape.iter().map(|&size| size as usize).collect::<Vec<_>>(), numbers);
    let apart: Vec<Tensor> = parts.iter().map(|part| tensor(&plain, part)).collect();
    let expected = attend(&[&plain, &plain, &plain], &apart);
    let all = of(&parts);
    assert_eq!(attend(&[&all], &[tensor(&all, &packed(&parts))]), expected);
    let both = of(&parts[1..]);
    assert_eq!(attend(&[&plain, &both], &[apart[0].clone(), tensor(&both, &packed(&parts[1..]))]), expected);
}

#[test]
fn weights_of_the_wrong_shape_are_refused() {
    // Unrolled, the network would be divided into gates that are not there.
    let network = |shape: &[i64]| {
        let numbers = vec![0.0; shape.iter().product::<i64>() as usize];
        sketch(17)
            .input("x", FLOAT, &[2, 1, 5])
            .floats("w", shape, &numbers)
            .floats("r", shape, &numbers)
            .node("LSTM", &["x", "w", "r"], &["y"], vec![float("clip", 1.0)])
            .output("y")
            .import()
    };
    assert!(network(&[1, 20, 5]).is_ok());
    for shape in [&[1, 5, 5][..], &[1, 19, 5], &[20, 5], &[1, 21, 5]] {
        assert!(message(network(shape).unwrap_err()).contains("LSTM"), "{shape:?}");
    }
    let table = |scales: &[i64]| {
        let numbers = vec![1.0; scales.iter().product::<i64>() as usize];
        let mut model = sketch(17)
            .input("i", 7, &[])
            .input("t", 2, &[4, 32])
            .floats("s", scales, &numbers)
            .node("com.microsoft::GatherBlockQuantized", &["t", "i", "s"], &["y"], vec![int("bits", 8), int("block_size", 16)])
            .output("y");
        model.opset = 21;
        model.import()
    };
    assert!(table(&[4, 2]).is_ok());
    assert!(message(table(&[4, 2, 1]).unwrap_err()).contains("rank"));
}

#[test]
fn products_of_what_is_no_matrix_are_refused() {
    let attention = |input: &[i64], weights: &[i64]| {
        sketch(17)
            .input("x", 2, input)
            .input("w", 2, weights)
            .floats("b", &[6], &[0.0; 6])
            .floats("s", &[], &[1.0])
            .node("com.microsoft::QAttention", &["x", "w", "b", "s", "s"], &["y"], vec![int("num_heads", 1)])
            .output("y")
            .import()
    };
    assert!(attention(&[1, 2, 3], &[3, 6]).is_ok());
    for (input, weights) in [(&[][..], &[][..]), (&[], &[3, 6]), (&[3], &[3, 6]), (&[1, 2, 3], &[]), (&[1, 2, 3], &[3])] {
        assert!(message(attention(input, weights).unwrap_err()).contains("QAttention"), "{input:?} {weights:?}");
    }
}

#[test]
fn what_is_computed_at_import_is_limited() {
    let scalar = |model: Sketch, name: &str, number: i64| {
        let mut model = model.int64s(name, &[number]);
        model.graph.initializer.last_mut().unwrap().dims.clear();
        model
    };
    // Each asks for gigabytes with a few bytes.
    let pool = sketch(17)
        .input("x", FLOAT, &[1, 1, 16384, 16384])
        .node("MaxPool", &["x"], &["y", "i"], vec![ints("kernel_shape", &[3, 3])])
        .output("i");
    let transform = scalar(sketch(17), "n", 1 << 20).input("x", FLOAT, &[1, 1 << 20, 1]).node("DFT", &["x", "n"], &["y"], vec![]);
    let frames = scalar(scalar(sketch(17), "step", 1), "n", 1 << 15)
        .input("x", FLOAT, &[1, 1 << 20, 1])
        .node("STFT", &["x", "step", "", "n"], &["y"], vec![])
        .output("y");
    let mut mel = sketch(17);
    for (name, number) in [("bins", 1), ("n", 1 << 24), ("rate", 1)] {
        mel = scalar(mel, name, number);
    }
    let mel = mel
        .floats("low", &[], &[-699.999_94])
        .floats("high", &[], &[1.0])
        .node("MelWeightMatrix", &["bins", "n", "rate", "low", "high"], &["y"], vec![])
        .output("y");
    for model in [pool, transform.output("y"), frames, mel] {
        assert!(message(model.import().unwrap_err()).contains("compute at import"), "not refused");
    }
}

/// A decoder with a cache and one without, merged: what the branches return has the names of what the node returns.
#[test]
fn branches_may_name_their_results_as_the_node_does() {
    let branch = |name: &str, operator: &str, nested: Option<&NodeProto>| {
        let mut inner = sketch(17).node(operator, &["x"], &["hidden"], vec![]).node("Exp", &["hidden"], &["cache"], vec![]);
        match nested {
            Some(node) => inner.graph.node.push(node.clone()),
            None => inner = inner.node("Add", &["cache", "b"], &["y"], vec![]),
        }
        let graph = inner.floats("b", &[1], &[0.5]).output("y").output("cache").graph;
        AttributeProto { name: name.into(), r#type: 5, g: Some(graph.encode_to_vec().into()), ..Default::default() }
    };
    let branches = |nested| vec![branch("then_branch", "Neg", nested), branch("else_branch", "Abs", nested)];
    // A choice within each branch, whose names are those of the branch once more.
    let within = node("If", &["c"], &["y", "inner"], branches(None));
    for nested in [None, Some(&within)] {
        let truth = TensorProto { data_type: 9, raw_data: Some(vec![1].into()), ..Default::default() };
        let value = AttributeProto { name: "value".into(), r#type: 4, t: Some(Box::new(truth)), ..Default::default() };
        let known = sketch(17).node("Constant", &[], &["c"], vec![value]);
        let model = |model: Sketch| {
            model.input("x", FLOAT, &[2]).node("If", &["c"], &["y", "cache"], branches(nested)).output("y").output("cache")
        };
        let x = f32s(&[2], &[-1.0, 2.0]);
        let check = |outputs: &[Tensor], powers: [f64; 2]| {
            for (output, plus) in outputs.iter().zip([0.5, 0.0]) {
                for (found, power) in output.floats().iter().zip(powers) {
                    let expected = power.exp() + plus;
                    assert!((found - expected).abs() <= 1e-6 * expected, "{found}, not {expected}");
                }
            }
        };
        check(&run(&model(known).import().unwrap(), std::slice::from_ref(&x)), [1.0, -2.0]);
        let open = model(sketch(17).input("c", 9, &[])).import().unwrap();
        for (truth, powers) in [(1, [1.0, -2.0]), (0, [1.0, 2.0])] {
            let condition = Tensor { element: ElementType::Bool, shape: vec![], bytes: vec![truth].into() };
            check(&run(&open, &[condition, x.clone()]), powers);
        }
    }
}

#[test]
fn dequantized_values_have_the_type_that_is_asked_for() {
    for (wanted, number) in [(ElementType::Float, 1), (ElementType::Float16, 10)] {
        let model = sketch(23).input("x", 2, &[2]).floats("s", &[], &[0.1]);
        let model = model.node("DequantizeLinear", &["x", "s"], &["y"], vec![int("output_dtype", number)]).output("y");
        let x = Tensor::from_integers(ElementType::Uint8, vec![2], &[3, 255]);
        let y = &run(&model.import().unwrap(), &[x])[0];
        assert_eq!(y.element, wanted);
        for (found, steps) in y.floats().into_iter().zip([3.0, 255.0]) {
            assert!((found - steps * 0.1).abs() <= 5e-4 * steps * 0.1, "{found}");
        }
    }
}

/// Functions that call the next one several times each, which has nodes that nobody needs.
#[test]
fn functions_of_functions_come_to_an_end() {
    let function = |name: String, node: Vec<NodeProto>| FunctionProto {
        name,
        domain: "f".into(),
        input: vec!["a".into()],
        output: vec!["c".into()],
        node,
        opset_import: vec![OperatorSetIdProto { domain: "".into(), version: 17 }],
        ..Default::default()
    };
    let unneeded = |i: usize| node("Relu", &["a"], &[&format!("unneeded {i}")], vec![]);
    let mut last = vec![node("Identity", &["a"], &["c"], vec![])];
    last.extend((0..1000).map(unneeded));
    let mut functions = vec![function("f30".into(), last)];
    for i in 0..30 {
        let next = format!("f::f{}", i + 1);
        let calls = vec![node(&next, &["a"], &["b"], vec![]), node(&next, &["b"], &["c"], vec![])];
        functions.push(function(format!("f{i}"), calls));
    }
    let model = |first: usize| {
        let mut model = sketch(17).input("x", FLOAT, &[2]).node(&format!("f::f{first}"), &["x"], &["y"], vec![]).output("y");
        model.functions = functions.clone();
        model
    };
    // Sixteen calls of the last one are fine; a thousand million are not.
    assert_eq!(run(&model(26).import().unwrap(), &[f32s(&[2], &[1.0, 2.0])])[0].floats(), [1.0, 2.0]);
    let text = message(model(0).import().unwrap_err());
    assert!(text.contains("pass over more than") && text.contains("maxBytes"), "{text}");
}

#[test]
fn branches_of_functions_come_to_an_end() {
    let branch = |name: &str| {
        let mut inner = sketch(17).node("Identity", &["a"], &["r"], vec![]).output("r");
        inner.graph.initializer.push(TensorProto {
            name: "unneeded".into(),
            dims: vec![1 << 20],
            data_type: 2,
            raw_data: Some(vec![0; 1 << 20].into()),
            ..Default::default()
        });
        AttributeProto { name: name.into(), r#type: 5, g: Some(inner.graph.encode_to_vec().into()), ..Default::default() }
    };
    let choose = |input: &str, output: &str| node("If", &[input], &[output], vec![branch("then_branch"), branch("else_branch")]);
    let function = FunctionProto {
        name: "Choose".into(),
        domain: "f".into(),
        input: vec!["c".into(), "a".into()],
        output: vec!["y".into()],
        node: vec![choose("c", "y")],
        opset_import: vec![OperatorSetIdProto { domain: "".into(), version: 17 }],
        ..Default::default()
    };
    let model = |calls: usize| {
        let mut model = sketch(17).input("c", 9, &[]).input("x0", FLOAT, &[2]).output(&format!("x{calls}"));
        for i in 0..calls {
            model = model.node("f::Choose", &["c", &format!("x{i}")], &[&format!("x{}", i + 1)], vec![]);
        }
        model.functions = vec![function.clone()];
        model
    };
    assert!(model(3).import().is_ok());
    // Each call decodes branches of 2 MiB twice.
    let text = message(model(200).import().unwrap_err());
    assert!(text.contains("pass over more than"), "{text}");
}

#[test]
fn an_import_that_nobody_wants_ends() {
    let bounds = Bounds { is_wanted: std::sync::Arc::new(|| false), ..Bounds::default() };
    let limits = std::sync::Arc::new(crate::graph::Limits::everything());
    let error = import(Model::from_bytes(small().bytes()), &limits, &Fixed::default(), &bounds).unwrap_err();
    assert!(message(error).contains("the context was destroyed"));
}

#[test]
fn many_names_take_no_longer_than_few() {
    // Each in time that grows with their number alone; compared with each other, these would take minutes.
    let count = 100_000;
    let names: Vec<String> = (0..count).map(|i| format!("n{i}")).collect();
    let mut model = sketch(17).input("x", FLOAT, &[1]);
    let function = FunctionProto {
        name: "Pass".into(),
        domain: "f".into(),
        input: names.clone(),
        output: vec!["y".into()],
        node: vec![NodeProto { input: names[..1].to_vec(), ..node("Identity", &[], &["y"], vec![]) }],
        opset_import: vec![OperatorSetIdProto { domain: "".into(), version: 17 }],
        ..Default::default()
    };
    for name in &names {
        model.graph.input.push(info(name, FLOAT, vec![dimension(1)]));
        model.graph.output.push(ValueInfoProto { name: name.clone(), r#type: None });
    }
    let call = NodeProto { input: names.clone(), ..node("f::Pass", &[], &["passed"], vec![]) };
    model.graph.node.push(call);
    let mut model = model.output("passed");
    model.functions = vec![function];
    let imported = model.import().unwrap();
    assert_eq!((imported.inputs.len(), imported.outputs.len()), (count + 1, count + 1));
}

#[test]
fn windows_that_are_rounded_up_are_divided_by_what_they_cover() {
    // A window of 3 with steps of 2 over 4 elements and one of padding: the last one covers the last element alone.
    let pool = |dilation: i64, extra: Vec<AttributeProto>| {
        let mut attributes = vec![ints("kernel_shape", &[3]), ints("strides", &[2]), ints("dilations", &[dilation])];
        attributes.extend([int("ceil_mode", 1), int("count_include_pad", 1)]);
        attributes.extend(extra);
        let model = sketch(19).input("x", FLOAT, &[1, 1, 6]).node("AveragePool", &["x"], &["y"], attributes).output("y");
        let x = f32s(&[1, 1, 6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        run(&model.import().unwrap(), &[x])[0].floats()
    };
    assert_eq!(pool(1, vec![]), [2.0, 4.0, 5.5]);
    assert_eq!(pool(2, vec![]), [3.0, 4.0]);
    assert_eq!(pool(1, vec![ints("pads", &[1, 0])]), [1.0, 3.0, 5.0]);
}

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

#[test]
fn no_change_of_a_file_does_harm() {
    let seed = std::env::var("WEBNN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("WEBNN_SEED={seed}");
    let mut random = Random(seed);
    let bytes = small().bytes();
    for end in 0..bytes.len() {
        let _ = import_bytes(bytes[..end].to_vec(), &[]);
    }
    for _ in 0..3000 {
        let mut changed = bytes.clone();
        for _ in 0..=random.next(4) {
            let place = random.next(changed.len());
            match random.next(4) {
                0 => changed[place] ^= 1 << random.next(8),
                1 => changed[place] = [0, 1, 0x7f, 0x80, 0xff][random.next(5)],
                2 => drop(changed.remove(place)),
                _ => changed.insert(place, random.next(256) as u8),
            }
        }
        let _ = import_bytes(changed, &[]);
    }
}

#[test]
fn padding_that_is_computed_with_floats() {
    // As models have it that pad as much as a stride needs, and not less than nothing.
    let model = |wanted: f64, bounds: &[&str]| {
        sketch(17)
            .input("x", FLOAT, &[4])
            .floats("wanted", &[1], &[wanted as f32])
            .floats("there", &[1], &[4.0])
            .floats("none", &[], &[0.0])
            .floats("most", &[], &[2.0])
            .int64s("before", &[0])
            .node("Sub", &["wanted", "there"], &["missing"], vec![])
            .node("Clip", &[&["missing"], bounds].concat(), &["clipped"], vec![])
            .node("Cast", &["clipped"], &["behind"], vec![int("to", 7)])
            .node("Concat", &["before", "behind"], &["pads"], vec![int("axis", 0)])
            .node("Pad", &["x", "pads"], &["y"], vec![])
            .output("y")
    };
    for (wanted, bounds, expected) in [
        (5.0, ["none", ""].as_slice(), 5),
        (3.0, &["none", ""], 4),
        (9.0, &["none"], 9),
        (9.0, &["none", "most"], 6),
        (9.0, &["", "most"], 6),
        (6.0, &[], 6),
    ] {
        assert_eq!(model(wanted, bounds).import().unwrap().outputs[0].shape, [expected], "{wanted} {bounds:?}");
    }
}

/// A tensor of `[2, 3, 4]` of which three elements are not 0.
fn sparse(indices: &[i64], of_indices: &[i64], dims: &[i64]) -> SparseTensorProto {
    let raw = |numbers: &[i64]| Some(numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>().into());
    let values = TensorProto { name: "s".into(), dims: vec![3], data_type: 7, raw_data: raw(&[7, -8, 9]), ..Default::default() };
    let indices = TensorProto { dims: of_indices.to_vec(), data_type: 7, raw_data: raw(indices), ..Default::default() };
    SparseTensorProto { values: Some(values), indices: Some(indices), dims: dims.to_vec() }
}

#[test]
fn sparse_initializers() {
    let dims = [2, 3, 4];
    let mut expected = vec![0; 24];
    (expected[1], expected[11], expected[23]) = (7, -8, 9);
    let coordinates = [0, 0, 1, 0, 2, 3, 1, 2, 3];
    let with = |tensor: SparseTensorProto| {
        let mut model = sketch(17).input("x", 7, &[1]);
        model.graph.sparse_initializer.push(tensor);
        model.node("Add", &["x", "s"], &["y"], vec![]).output("y").import()
    };
    let zero = Tensor::int64s(&[0]);
    for (indices, of_indices) in [(&[1, 11, 23][..], &[3][..]), (&coordinates, &[3, 3])] {
        let imported = with(sparse(indices, of_indices, &dims)).unwrap();
        let found = run(&imported, std::slice::from_ref(&zero)).remove(0);
        assert_eq!((found.shape.as_slice(), found.integers()), (&[2, 3, 4][..], expected.clone()));
        let attribute = AttributeProto {
            name: "sparse_value".into(),
            r#type: attribute_type::SPARSE_TENSOR,
            sparse_tensor: Some(Box::new(sparse(indices, of_indices, &dims))),
            ..Default::default()
        };
        let model = sketch(17).node("Constant", &[], &["y"], vec![attribute]).output("y");
        assert_eq!(run(&model.import().unwrap(), &[])[0].integers(), expected);
    }
    for (indices, of_indices, dims) in [
        (&[1, 11, 24][..], &[3][..], &dims[..]),
        (&[1, 11, -1], &[3], &dims),
        (&[11, 1, 23], &[3], &dims),
        (&[1, 1, 23], &[3], &dims),
        (&[1, 11], &[2], &dims),
        (&[0, 0, 1, 0, 3, 3, 1, 2, 3], &[3, 3], &dims),
        (&coordinates, &[3, 3], &[6, 4]),
        (&[0, 1, 2], &[3, 1], &[2, -1]),
    ] {
        let text = message(with(sparse(indices, of_indices, dims)).unwrap_err());
        assert!(text.contains("sparse tensor") && text.contains("\"s\""), "{text}");
    }
    let text = message(with(sparse(&[1, 11, 23], &[3], &[1 << 20, 1 << 20])).unwrap_err());
    assert!(text.contains("too many to make at import"), "{text}");
}
