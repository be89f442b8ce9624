//! Forms of operators that few models have, against their definitions.

use crate::onnx::element::ElementType::{self, *};
use crate::onnx::protobuf::AttributeProto;
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;
use std::slice::from_ref;

/// A model of one node, whose inputs have names: those in `fed` are fed, the others known.
fn outcome(
    opset: i64,
    operator: &str,
    fed: &[Tensor],
    known: &[Tensor],
    attributes: Vec<AttributeProto>,
) -> Result<Vec<Tensor>, String> {
    let names = ["a", "b", "c", "d", "e"];
    let mut model = sketch(opset);
    for (name, input) in names.iter().zip(fed) {
        let shape: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
        model = model.input(name, number_of(input.element), &shape);
    }
    for (name, tensor) in names[fed.len()..].iter().zip(known) {
        model = model.tensor(name, tensor);
    }
    // Integers of 16 and 4 bits are fed as those of 32.
    let short = |input: &Tensor| if input.element.is_narrow() { input.cast(Int32) } else { input.clone() };
    let count = fed.len() + known.len();
    let model = model.node(operator, &names[..count], &["y"], attributes).output("y");
    Ok(run(&model.import().map_err(|error| error.to_string())?, &fed.iter().map(short).collect::<Vec<_>>()))
}

fn wholes(element: ElementType, shape: &[usize], numbers: &[i128]) -> Tensor {
    Tensor::from_wholes(element, shape.to_vec(), numbers)
}

fn floats(shape: &[usize], numbers: &[f64]) -> Tensor {
    Tensor::from_floats(Float, shape.to_vec(), numbers)
}

#[test]
fn the_last_block_of_quantized_values_may_be_short() {
    // Powers of two and small integers, so that every result is exact.
    let (rows, columns, block) = (3usize, 7usize, 3usize);
    let blocks = columns.div_ceil(block);
    let scales: Vec<f64> = (0..rows * blocks).map(|i| 2f64.powi(i as i32 % 5 - 2)).collect();
    for element in [Int8, Uint8, Int4, Uint4, Int16, Uint16] {
        let (low, high) = element.range();
        let number = |i: usize, by: i128| low + (i as i128 * by).rem_euclid(high - low + 1);
        let values: Vec<i128> = (0..rows * columns).map(|i| number(i, 5)).collect();
        let points: Vec<i128> = (0..rows * blocks).map(|i| number(i, 3)).collect();
        let of = |i: usize| i / columns * blocks + i % columns / block;
        let expected: Vec<f64> = (0..rows * columns).map(|i| (values[i] - points[of(i)]) as f64 * scales[of(i)]).collect();
        let attributes = || vec![int("axis", 1), int("block_size", block as i64)];
        let (scale, point) = (floats(&[rows, blocks], &scales), wholes(element, &[rows, blocks], &points));
        let value = wholes(element, &[rows, columns], &values);
        let found = outcome(21, "DequantizeLinear", std::slice::from_ref(&value), &[scale.clone(), point.clone()], attributes());
        assert_eq!(found.unwrap()[0].floats(), expected, "{element}");
        // What was dequantized is quantized to what it was.
        let found = outcome(21, "QuantizeLinear", &[floats(&[rows, columns], &expected)], &[scale.clone(), point], attributes());
        assert_eq!(found.unwrap()[0].wholes(), values, "{element}");
        // Along the other axis, without a zero point.
        let turned = |list: &[i128]| (0..list.len()).map(|i| list[i % rows * columns + i / rows]).collect::<Vec<i128>>();
        let turned_scales: Vec<f64> = (0..rows * blocks).map(|i| scales[i % rows * blocks + i / rows]).collect();
        let value = wholes(element, &[columns, rows], &turned(&values));
        let scale = floats(&[blocks, rows], &turned_scales);
        let attributes = vec![int("axis", 0), int("block_size", block as i64)];
        let found = outcome(21, "DequantizeLinear", &[value], &[scale], attributes).unwrap().remove(0).floats();
        let expected = (0..rows * columns).map(|i| {
            let (column, row) = (i / rows, i % rows);
            values[row * columns + column] as f64 * scales[row * blocks + column / block]
        });
        assert!(found.iter().copied().eq(expected), "{element}: {found:?}");
    }
    let refused = outcome(
        21,
        "DequantizeLinear",
        &[wholes(Int8, &[3, 7], &[0; 21])],
        &[floats(&[3, 2], &[1.0; 6])],
        vec![int("axis", 1), int("block_size", 3)],
    );
    assert!(refused.unwrap_err().contains("blocks of 3"));
}

#[test]
fn casts_to_four_bits() {
    // As onnxruntime does it: floats are rounded, halves away from zero, and of all numbers the low bits stay.
    let numbers = [0.0, 0.49999997, 0.5, 1.5, -0.5, -1.7, 2.5, 3.4, 7.2, 7.9, 8.2, -8.3, -9.6, 15.9, 17.0, 100.0, -100.0, 300.0];
    let rounded = [0, 0, 1, 2, -1, -2, 3, 3, 7, 8, 8, -8, -10, 16, 17, 100, -100, 300];
    let count = numbers.len();
    for (element, low) in [(Int4, -8i128), (Uint4, 0)] {
        let bits = |x: i128| (x - low).rem_euclid(16) + low;
        let expected: Vec<i128> = rounded.map(bits).to_vec();
        let to = || vec![int("to", number_of(element).into())];
        let integers = |of: ElementType| {
            let (least, most) = of.range();
            wholes(of, &[count], &rounded.map(|x: i128| x.clamp(least, most)))
        };
        let inputs = [Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64].map(integers).into_iter();
        let float16 = Tensor::from_floats(Float16, vec![count], &numbers.map(|x| if x == 0.49999997 { 0.25 } else { x }));
        for input in inputs.chain([floats(&[count], &numbers), float16]) {
            let of = input.element;
            let expected: Vec<i128> =
                if of.is_float() { expected.clone() } else { input.wholes().into_iter().map(bits).collect() };
            let found = outcome(21, "Cast", std::slice::from_ref(&input), &[], to()).unwrap().remove(0);
            assert_eq!(found.wholes(), expected, "{of} to {element}");
            // A known one is cast at import.
            let known = sketch(21)
                .tensor("x", &input)
                .node("Cast", &["x"], &["q"], to())
                .node("Cast", &["q"], &["y"], vec![int("to", 6)])
                .output("y")
                .import()
                .unwrap();
            assert_eq!(run(&known, &[])[0].wholes(), expected, "{of} to {element}, known");
        }
    }
}

#[test]
fn bits_and_places_of_sixteen_bits() {
    for element in [Int16, Uint16] {
        let (low, _) = element.range();
        let fit = |x: i128| (x - low).rem_euclid(1 << 16) + low;
        let list = |numbers: &[i128]| wholes(element, &[numbers.len()], &numbers.iter().map(|&x| fit(x)).collect::<Vec<_>>());
        let (x, y) = (list(&[1, 2, 200, 40000]), list(&[3, 2, 400, 65535]));
        let computed = |operator: &str, fed: &[Tensor], known: &[Tensor], attributes: Vec<AttributeProto>| {
            let found = outcome(18, operator, fed, known, attributes);
            found.unwrap_or_else(|reason| panic!("{operator} of {element}: {reason}")).remove(0).wholes()
        };
        let pairs = || x.wholes().into_iter().zip(y.wholes());
        type OfPair = fn(i128, i128) -> i128;
        for (operator, function) in
            [("BitwiseAnd", (|a, b| a & b) as OfPair), ("BitwiseOr", |a, b| a | b), ("BitwiseXor", |a, b| a ^ b)]
        {
            let expected: Vec<i128> = pairs().map(|(a, b)| fit(function(a, b))).collect();
            assert_eq!(computed(operator, &[x.clone(), y.clone()], &[], vec![]), expected, "{operator} of {element}");
            // One of them may be known.
            assert_eq!(computed(operator, from_ref(&x), from_ref(&y), vec![]), expected, "{operator} of {element}, known");
        }
        let expected: Vec<i128> = x.wholes().into_iter().map(|a| fit(!a)).collect();
        assert_eq!(computed("BitwiseNot", from_ref(&x), &[], vec![]), expected, "{element}");
        for (direction, function) in [("LEFT", (|a, b| a << b) as OfPair), ("RIGHT", |a, b| a >> b)] {
            let by = [0i128, 1, 15, 16];
            let found = outcome(18, "BitShift", &[x.clone(), list(&by)], &[], vec![text("direction", direction)]);
            if element == Int16 {
                assert!(found.unwrap_err().contains("unsigned"));
                continue;
            }
            let expected: Vec<i128> = x.wholes().into_iter().zip(by).map(|(a, b)| fit(function(a, b))).collect();
            assert_eq!(found.unwrap()[0].wholes(), expected, "{direction}");
        }
        // What is moved, and what is combined.
        let updates = list(&[30000, 65535]);
        let scatter = |reduction: &str| {
            let known = [Tensor::int64s(&[3, 2]), updates.clone()];
            computed("ScatterElements", from_ref(&x), &known, vec![int("axis", 0), text("reduction", reduction)])
        };
        let scattered = |a: i128, b: i128| [1, 2, b, a].map(fit).to_vec();
        assert_eq!(scatter("none"), scattered(30000, 65535), "{element}");
        assert_eq!(scatter("add"), scattered(30000 + 40000, 65535 + 200), "{element}");
        assert_eq!(scatter("mul"), scattered(30000 * 40000, 65535 * 200), "{element}");
        assert_eq!(computed("Tile", from_ref(&x), &[Tensor::int64s(&[2])], vec![]), [x.wholes(), x.wholes()].concat());
        let table = sketch(18)
            .input("i", 7, &[2])
            .tensor("x", &x)
            .node("Gather", &["x", "i"], &["y"], vec![])
            .output("y")
            .import()
            .unwrap();
        assert_eq!(table.outputs[0].element_type, element.name());
        assert_eq!(run(&table, &[Tensor::int64s(&[3, 0])])[0].wholes(), [40000, 1].map(fit));
    }
}

#[test]
fn quantization_to_sixteen_bits() {
    for (element, zero) in [(Int16, -5i128), (Uint16, 40_000)] {
        let (low, high) = element.range();
        let scale = 0.03125;
        let numbers: Vec<f64> = [0.0, 1.0, -1.0, 0.015625, 0.046875, 790.0, 1023.9, -1250.0, 3e38, -3e38].to_vec();
        let steps = |x: f64| ((x / scale).round_ties_even() as i128).saturating_add(zero).clamp(low, high);
        let expected: Vec<i128> = numbers.iter().map(|&x| steps(x)).collect();
        let input = floats(&[numbers.len()], &numbers);
        let known = [floats(&[], &[scale]), wholes(element, &[], &[zero])];
        let found = outcome(21, "QuantizeLinear", std::slice::from_ref(&input), &known, vec![]).unwrap().remove(0);
        assert_eq!((found.element, found.wholes()), (Int32, expected.clone()), "{element}");
        // Fed as numbers of 32 bits, and known as such of 16.
        let back: Vec<f64> = expected.iter().map(|&x| (x - zero) as f64 * scale).collect();
        let value = wholes(element, &[expected.len()], &expected);
        let fed = wholes(Int32, &[expected.len()], &expected);
        let (scale, point) = (&known[0], &known[1]);
        let model = || sketch(21).tensor("s", scale).tensor("z", point);
        let node = |model: Sketch| model.node("DequantizeLinear", &["x", "s", "z"], &["y"], vec![]).output("y").import().unwrap();
        let imported = node(model().input("x", number_of(element), &[expected.len() as i64]));
        assert_eq!(imported.inputs[0].signature.element_type, element.name());
        assert_eq!(run(&imported, &[fed])[0].floats(), back);
        assert_eq!(run(&node(model().tensor("x", &value)), &[])[0].floats(), back);
        // There and back, moved in between.
        let imported = model()
            .input("x", 1, &[10])
            .int64s("shape", &[2, 5])
            .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
            .node("Reshape", &["q", "shape"], &["r"], vec![])
            .node("Transpose", &["r"], &["t"], vec![])
            .node("DequantizeLinear", &["t", "s", "z"], &["y"], vec![])
            .output("y")
            .output("t")
            .import()
            .unwrap();
        assert_eq!(imported.outputs[1].element_type, element.name());
        let expected: Vec<f64> = (0..10).map(|i| back[i % 2 * 5 + i / 2]).collect();
        assert_eq!(run(&imported, &[input])[0].floats(), expected);
        let refused = model()
            .input("x", 1, &[10])
            .node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
            .node("CumSum", &["q", "axis"], &["y"], vec![])
            .int64s("axis", &[0])
            .output("y")
            .import();
        assert!(refused.unwrap_err().to_string().contains(element.name()));
    }
}

/// The position of each output element in halves of a pixel, as the definition has it, without rounding.
fn linear(row: &[i128], to: usize) -> Vec<f64> {
    let from = row.len() as f64;
    (0..to)
        .map(|i| {
            let place = ((i as f64 + 0.5) * from / to as f64 - 0.5).clamp(0.0, from - 1.0);
            let (first, rest) = (place.floor() as usize, place.fract());
            let second = (first + 1).min(row.len() - 1);
            row[first] as f64 * (1.0 - rest) + row[second] as f64 * rest
        })
        .collect()
}

#[test]
fn bytes_are_resized_and_truncated() {
    for (element, row) in [(Uint8, [0i128, 255, 10, 200, 77]), (Int8, [-128, 127, -3, 0, 77])] {
        for rank in [3, 4] {
            for to in [3usize, 8, 10, 20] {
                let (mut shape, mut sizes) = (vec![1; rank], vec![1i64; rank]);
                (shape[rank - 1], sizes[rank - 1]) = (row.len(), to as i64);
                let mut model =
                    sketch(18).input("a", number_of(element), &shape.iter().map(|&size| size as i64).collect::<Vec<_>>());
                model = model.int64s("sizes", &sizes);
                let model = model.node("Resize", &["a", "", "", "sizes"], &["y"], vec![text("mode", "linear")]).output("y");
                let found = run(&model.import().unwrap(), &[wholes(element, &shape, &row)]).remove(0);
                assert_eq!(found.element, element);
                for (found, exact) in found.wholes().into_iter().zip(linear(&row, to)) {
                    // Whole results stay; others that are just below a whole number may be taken for it.
                    let whole = (exact - exact.round()).abs() < 1e-9;
                    let expected = if whole { exact.round() } else { exact.trunc() };
                    let near = !whole && (exact.round() - exact).abs() < 1e-3;
                    assert!(found as f64 == expected || near, "{element} {to}: {found}, not {exact}");
                }
            }
        }
        // What is the same everywhere stays so, whatever the weights.
        for mode in ["linear", "cubic"] {
            for to in 1..40 {
                let number = row[4];
                let model = sketch(18)
                    .input("a", number_of(element), &[1, 1, 7, 7])
                    .int64s("sizes", &[1, 1, to, to])
                    .node("Resize", &["a", "", "", "sizes"], &["y"], vec![text("mode", mode)])
                    .output("y");
                let found = run(&model.import().unwrap(), &[wholes(element, &[1, 1, 7, 7], &[number; 49])]).remove(0);
                assert!(found.wholes().iter().all(|&x| x == number), "{mode} {to}: {:?}", found.wholes());
            }
        }
    }
}

#[test]
fn parts_of_a_split_may_be_empty() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (parts, expected) in [
        (&[0, 1, 2][..], vec![vec![1.0, 4.0], vec![2.0, 3.0, 5.0, 6.0]]),
        (&[0, 3, 0], vec![vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]),
        (&[2, 0, 1], vec![vec![1.0, 2.0, 4.0, 5.0], vec![3.0, 6.0]]),
    ] {
        let names = ["p", "q", "r"];
        let mut model = sketch(18)
            .input("x", 1, &[2, 3])
            .int64s("split", parts)
            .node("Split", &["x", "split"], &names, vec![int("axis", 1)])
            // What is empty can be joined with something.
            .node("Concat", &names, &["y"], vec![int("axis", 1)])
            .output("y");
        for (name, _) in names.iter().zip(parts).filter(|(_, part)| **part > 0) {
            model = model.output(name);
        }
        let found = run(&model.import().unwrap(), std::slice::from_ref(&x));
        assert_eq!(found[0].floats(), x.floats(), "{parts:?}");
        assert_eq!(found[1..].iter().map(Tensor::floats).collect::<Vec<_>>(), expected, "{parts:?}");
    }
}

/// What is cut, repeated or expanded to nothing, and is then joined with something.
#[test]
fn results_may_be_empty() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (operator, input, name, list) in
        [("Expand", "column", "shape", &[2, 0][..]), ("Tile", "x", "repeats", &[1, 0]), ("Pad", "x", "pads", &[0, -1, 0, -2])]
    {
        let model = sketch(18)
            .input("x", 1, &[2, 3])
            .int64s("axes", &[1])
            .node("ReduceSum", &["x", "axes"], &["column"], vec![])
            .int64s(name, list)
            .node(operator, &[input, name], &["nothing"], vec![])
            .node("Concat", &["nothing", "x"], &["y"], vec![int("axis", 1)])
            .node("Shape", &["nothing"], &["shape of nothing"], vec![])
            .output("y")
            .output("shape of nothing");
        let found = run(&model.import().unwrap(), std::slice::from_ref(&x));
        assert_eq!(found[0].floats(), x.floats(), "{operator}");
        assert_eq!(found[1].integers(), [2, 0], "{operator}");
    }
}

/// onnxruntime leaves what is further away than once around unwritten.
#[test]
fn padding_may_wrap_around_more_than_once() {
    let (shape, x) = ([4usize, 3], (0..12).map(f64::from).collect::<Vec<f64>>());
    let cases: [([i64; 2], [i64; 2]); 5] =
        [([0, 7], [9, 0]), ([9, 3], [4, 6]), ([-1, 7], [9, -1]), ([4, 0], [0, 3]), ([5, -2], [-2, 100])];
    for (before, after) in cases {
        let model = sketch(19)
            .input("x", 1, &[4, 3])
            .int64s("pads", &[before[0], before[1], after[0], after[1]])
            .node("Pad", &["x", "pads"], &["y"], vec![text("mode", "wrap")])
            .output("y");
        let found = run(&model.import().unwrap(), &[floats(&shape, &x)]);
        let cut = |axis: usize| (before[axis].min(0), shape[axis] as i64 + before[axis].min(0) + after[axis].min(0));
        let line = |axis: usize| {
            let (first, kept) = cut(axis);
            let (before, after) = (before[axis].max(0), after[axis].max(0));
            (-before..kept + after).map(move |place| (place.rem_euclid(kept) - first) as usize)
        };
        let expected: Vec<f64> = line(0).flat_map(|row| line(1).map(move |column| (row * 3 + column) as f64)).collect();
        assert_eq!(found[0].floats(), expected, "{before:?}, {after:?}");
    }
}

/// Products of matrices whose inner dimension is 0; onnxruntime takes C without its factor then.
#[test]
fn a_product_of_nothing_is_what_is_added() {
    let c = floats(&[3, 1], &[1.0, -2.0, 4.0]);
    for (beta, expected) in [(None, [1.0, -2.0, 4.0]), (Some(0.5), [0.5, -1.0, 2.0])] {
        let model = sketch(17)
            .tensor("a", &Tensor::without_elements(ElementType::Float, vec![3, 0]))
            .tensor("b", &Tensor::without_elements(ElementType::Float, vec![0, 2]))
            .input("c", 1, &[3, 1])
            .node("Gemm", &["a", "b", "c"], &["y"], beta.map(|beta| float("beta", beta)).into_iter().collect())
            .output("y");
        let found = run(&model.import().unwrap(), std::slice::from_ref(&c));
        assert_eq!(found[0].floats(), expected.map(|x| [x, x]).concat(), "{beta:?}");
    }
    let model = sketch(17)
        .tensor("a", &Tensor::without_elements(ElementType::Float, vec![3, 0]))
        .tensor("b", &Tensor::without_elements(ElementType::Float, vec![0, 2]))
        .input("c", 1, &[3, 2, 1])
        .node("Gemm", &["a", "b", "c"], &["y"], vec![])
        .output("y");
    assert!(model.import().is_err(), "C has more dimensions than the product");
}

/// To a size of 0, of what is empty along the resampled axis or along another one.
#[test]
fn what_is_resized_may_be_empty() {
    let nothing = || {
        sketch(18)
            .input("x", 1, &[2, 3])
            .int64s("axes", &[1])
            .node("ReduceSum", &["x", "axes"], &["column"], vec![])
            .int64s("none", &[2, 0])
            .node("Expand", &["column", "none"], &["nothing"], vec![])
    };
    let cases = [
        ("nothing", nothing().int64s("sizes", &[4, 0]), 3, vec![], [4, 0]),
        ("nothing", nothing().int64s("sizes", &[4]), 3, vec![ints("axes", &[0])], [4, 0]),
        ("nothing", nothing().tensor("scales", &floats(&[2], &[2.0, 3.0])), 2, vec![], [4, 0]),
        ("x", nothing().int64s("sizes", &[4, 0]), 3, vec![], [4, 0]),
        ("x", nothing().tensor("scales", &floats(&[2], &[2.0, 0.25])), 2, vec![], [4, 0]),
    ];
    for (i, (input, model, position, attributes, expected)) in cases.into_iter().enumerate() {
        let mut inputs = [input, "", "", ""];
        inputs[position] = ["scales", "sizes"][position - 2];
        let model = model
            .node("Resize", &inputs[..=position], &["resized"], attributes)
            .node("Shape", &["resized"], &["shape"], vec![])
            .output("shape");
        // Only shapes are asked for, which need no input.
        assert_eq!(run(&model.import().unwrap(), &[])[0].integers(), expected, "{i}");
    }
    // Something of nothing, and a ratio to nothing.
    let refused = |list: &[i64], policy: Option<&str>| {
        let attributes = policy.map(|policy| text("keep_aspect_ratio_policy", policy)).into_iter().collect();
        let model = nothing().int64s("sizes", list).node("Resize", &["nothing", "", "", "sizes"], &["y"], attributes);
        model.output("y").import().err().unwrap().to_string()
    };
    let message = refused(&[2, 4], None);
    assert!(message.contains("found a dimension of 0"), "{message}");
    let message = refused(&[4, 4], Some("not_smaller"));
    assert!(message.contains("aspect ratio"), "{message}");
}

/// What a quantizer puts around a slice of nothing, as of rotary embeddings of whole heads.
#[test]
fn quantized_values_may_be_empty() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for element in [ElementType::Uint8, ElementType::Int8, ElementType::Uint16, ElementType::Int16] {
        let model = sketch(21)
            .input("x", 1, &[2, 3])
            .floats("scale", &[], &[0.5])
            .tensor("zero", &Tensor::from_integers(element, vec![], &[3]))
            .tensor("nothing", &Tensor::without_elements(element, vec![2, 0]))
            .node("DequantizeLinear", &["nothing", "scale", "zero"], &["empty"], vec![])
            .node("Concat", &["empty", "x"], &["y"], vec![int("axis", 1)])
            .output("y");
        assert_eq!(run(&model.import().unwrap(), std::slice::from_ref(&x))[0].floats(), x.floats(), "{element}");
    }
    let bytes = Tensor::from_integers(ElementType::Uint8, vec![1, 3], &[7, 8, 9]);
    let parts = ["scale", "zero", "nothing", "scale", "zero", "bytes", "scale", "zero"];
    let model = sketch(17)
        .input("bytes", 2, &[1, 3])
        .floats("scale", &[], &[0.5])
        .tensor("zero", &Tensor::from_integers(ElementType::Uint8, vec![], &[3]))
        .tensor("nothing", &Tensor::without_elements(ElementType::Uint8, vec![1, 0]))
        .node("com.microsoft::QLinearConcat", &parts, &["y"], vec![int("axis", 1)])
        .output("y");
    assert_eq!(run(&model.import().unwrap(), std::slice::from_ref(&bytes))[0].integers(), [7, 8, 9]);
}

#[test]
fn updates_may_be_empty() {
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for (operator, indices, updates) in [("ScatterND", [0, 2], &[0][..]), ("ScatterElements", [0, 3], &[0, 3])] {
        let nothing = |element, shape: &[usize]| Tensor::without_elements(element, shape.to_vec());
        let model = sketch(18)
            .input("x", 1, &[2, 3])
            .tensor("indices", &nothing(ElementType::Int64, &indices))
            .tensor("updates", &nothing(ElementType::Float, updates))
            .node(operator, &["x", "indices", "updates"], &["y"], vec![])
            .output("y");
        assert_eq!(run(&model.import().unwrap(), std::slice::from_ref(&x))[0].floats(), x.floats(), "{operator}");
    }
}

#[test]
fn an_axis_may_be_computed_when_the_graph_runs() {
    let shape = [2usize, 3, 2];
    let x: Vec<i128> = (1..=12).collect();
    for operator in ["CumSum", "CumProd"] {
        for (exclusive, reverse) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            for axis in -3i64..3 {
                let at = axis.rem_euclid(3) as usize;
                let stride: usize = shape[at + 1..].iter().product();
                let expected = (0..x.len()).map(|i| {
                    let own = i / stride % shape[at];
                    let counts = |k: usize| match (exclusive, reverse) {
                        (0, 0) => k <= own,
                        (1, 0) => k < own,
                        (0, _) => k >= own,
                        _ => k > own,
                    };
                    let line = (0..shape[at]).filter(|&k| counts(k)).map(|k| x[i - own * stride + k * stride]);
                    if operator == "CumSum" { line.sum::<i128>() } else { line.product() }
                });
                let expected: Vec<i128> = expected.collect();
                for of_axis in [&[][..], &[1]] {
                    let fed = [wholes(Int32, &shape, &x), wholes(Int64, of_axis, &[axis.into()])];
                    let attributes = || vec![int("exclusive", exclusive), int("reverse", reverse)];
                    let found = outcome(26, operator, &fed, &[], attributes()).unwrap().remove(0);
                    assert_eq!(found.wholes(), expected, "{operator} along {axis}");
                    let found = outcome(26, operator, &fed[..1], &fed[1..], attributes()).unwrap().remove(0);
                    assert_eq!(found.wholes(), expected, "{operator} along {axis}");
                }
            }
        }
    }
}

/// Packed sequences are tokens of one row, each with its position; there may be more of them than positions.
#[test]
fn packed_batches_of_rotary_embedding() {
    let (tokens, most, half) = (5usize, 3usize, 2usize);
    let x: Vec<f64> = (0..tokens * 2 * half).map(|i| (i * 7 % 11) as f64 - 5.0).collect();
    let (cos, sin): (Vec<f64>, Vec<f64>) =
        ((0..most * half).map(|i| i as f64 / 8.0).collect(), (0..most * half).map(|i| 1.0 - i as f64 / 4.0).collect());
    let positions = [0i128, 1, 2, 0, 1];
    let outcome = |packed: i64, positions: Tensor| {
        let fed = [floats(&[1, tokens, 2 * half], &x), positions];
        let known = [floats(&[most, half], &cos), floats(&[most, half], &sin)];
        outcome(17, "com.microsoft::RotaryEmbedding", &fed, &known, vec![int("is_packed_batching", packed)])
    };
    let all = || wholes(Int64, &[1, tokens], &positions);
    let found = outcome(1, all()).unwrap().remove(0).floats();
    for (token, &position) in positions.iter().enumerate() {
        for i in 0..half {
            let row = &x[token * 2 * half..][..2 * half];
            let (cos, sin) = (cos[position as usize * half + i], sin[position as usize * half + i]);
            assert_eq!(found[token * 2 * half + i], row[i] * cos - row[half + i] * sin);
            assert_eq!(found[token * 2 * half + half + i], row[i] * sin + row[half + i] * cos);
        }
    }
    assert!(outcome(0, all()).unwrap_err().contains("a sequence of 5 where the caches have 3 positions"));
    assert!(outcome(1, wholes(Int64, &[1], &[0])).unwrap_err().contains("is_packed_batching"));
}

#[test]
fn regions_with_any_number_of_samples_are_refused() {
    let known = [floats(&[1, 1, 2, 2], &[1.0; 4]), floats(&[1, 4], &[0.0, 0.0, 2.0, 2.0]), wholes(Int64, &[1], &[0])];
    let attributes = |ratio| vec![int("sampling_ratio", ratio), int("output_height", 2), int("output_width", 2)];
    assert_eq!(outcome(16, "RoiAlign", &[], &known, attributes(2)).unwrap()[0].floats(), [1.0; 4]);
    // 2^62 samples, and more than a number of 64 bits counts.
    for ratio in [1 << 30, 1 << 40, i64::MAX] {
        assert!(outcome(16, "RoiAlign", &[], &known, attributes(ratio)).is_err(), "{ratio}");
    }
}
