//! Operators that are put together from others, at infinities, NaN and the ends of float32: what is no part of a result must
//! not show in it.

use crate::onnx::element::ElementType;
use crate::onnx::protobuf::{AttributeProto, attribute_type};
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;

const FLOAT: i32 = 1;
const INF: f64 = f64::INFINITY;
const MAX: f64 = f32::MAX as f64;

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRING,
        s: Some(value.as_bytes().to_vec().into()),
        ..Default::default()
    }
}

/// The outputs of a sketch that ends in a node, fed with float32 numbers.
fn results(sketch: Sketch, inputs: &[(&str, &[i64], &[f64])]) -> Vec<Tensor> {
    let with_inputs = inputs.iter().fold(sketch, |sketch, (name, shape, _)| sketch.input(name, FLOAT, shape));
    let tensors: Vec<Tensor> = inputs
        .iter()
        .map(|(_, shape, numbers)| {
            Tensor::from_floats(ElementType::Float, shape.iter().map(|&size| size as usize).collect(), numbers)
        })
        .collect();
    run(&with_inputs.import().unwrap(), &tensors)
}

#[track_caller]
fn same(found: &[f64], expected: &[f64]) {
    let near = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-5 * b.abs();
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}, not {expected:?}");
}

#[test]
fn resize_keeps_infinities_where_they_are() {
    for (mode, reach) in [("linear", 1), ("cubic", 2)] {
        let node = sketch(17).int64s("sizes", &[1, 1, 1, 16]).node(
            "Resize",
            &["x", "", "", "sizes"],
            &["y"],
            vec![text("mode", mode), text("coordinate_transformation_mode", "align_corners")],
        );
        let row = [1.0, 2.0, INF, 4.0, 5.0, 6.0];
        let found = results(node.output("y"), &[("x", &[1, 1, 1, 6], &row)]).remove(0).floats();
        // The position 3 i lies at i; others are sums of the elements around them.
        for (i, value) in found.iter().enumerate() {
            let place = i as f64 / 3.0;
            match (place - 2.0).abs() {
                0.0 => assert_eq!(*value, INF, "{mode}"),
                distance if distance < f64::from(reach) && !i.is_multiple_of(3) => assert!(!value.is_finite(), "{mode} at {i}"),
                _ if i.is_multiple_of(3) => assert_eq!(*value, row[i / 3], "{mode} at {i}"),
                _ => assert!(value.is_finite(), "{mode} at {i}: {value}"),
            }
        }
    }
}

#[test]
fn grid_sample_at_infinity() {
    for mode in ["bilinear", "nearest", "bicubic"] {
        for align_corners in [0, 1] {
            for width in [1, 3] {
                for padding in ["border", "zeros", "reflection"] {
                    let attributes = vec![text("mode", mode), text("padding_mode", padding), int("align_corners", align_corners)];
                    let node = sketch(16).node("GridSample", &["x", "g"], &["y"], attributes).output("y");
                    let image: Vec<f64> = (1..=width).map(|i| i as f64).collect();
                    let places = [INF, 0.0, -INF, 0.0];
                    let inputs: [(&str, &[i64], &[f64]); 2] = [("x", &[1, 1, 1, width], &image), ("g", &[1, 1, 2, 2], &places)];
                    let found = results(node, &inputs).remove(0).floats();
                    let case = format!("{mode} {padding} {align_corners} {width}: {found:?}");
                    match padding {
                        "border" => assert!(found == [width as f64, 1.0], "{case}"),
                        // With one column and the corners aligned every place is that column.
                        "zeros" if width > 1 || align_corners == 0 => assert!(found == [0.0, 0.0], "{case}"),
                        // Anything that is in the image.
                        _ => assert!(found.iter().all(|value| (1.0..=width as f64).contains(value)), "{case}"),
                    }
                }
            }
        }
    }
}

#[test]
fn functions_at_infinity() {
    let numbers = [-INF, -MAX, INF, f64::NAN, MAX];
    let function = |operator: &str, attributes| {
        let node = sketch(24).node(operator, &["x"], &["y"], attributes).output("y");
        results(node, &[("x", &[5], &numbers)]).remove(0).floats()
    };
    same(&function("Mish", vec![]), &[0.0, 0.0, INF, f64::NAN, MAX]);
    same(&function("Swish", vec![]), &[0.0, 0.0, INF, f64::NAN, MAX]);
    same(&function("com.microsoft::QuickGelu", vec![]), &[0.0, 0.0, INF, f64::NAN, MAX]);
    same(&function("Gelu", vec![text("approximate", "tanh")]), &[0.0, 0.0, INF, f64::NAN, MAX]);
    same(&function("com.microsoft::FastGelu", vec![]), &[0.0, 0.0, INF, f64::NAN, MAX]);
    // The quotient of the largest number and 1/4 is infinite.
    same(&function("Celu", vec![float("alpha", 0.25)]), &[-0.25, -0.25, INF, f64::NAN, MAX]);
}

#[test]
fn swiglu_at_infinity() {
    let node = sketch(28).node("SwiGLU", &["a", "b"], &["y"], vec![]).output("y");
    let found = results(node, &[("a", &[3], &[-INF, INF, -200.0]), ("b", &[3], &[2.0, -1.0, 5.0])]).remove(0).floats();
    same(&found, &[0.0, -INF, 0.0]);
}

#[test]
fn no_elements_are_the_top_none() {
    let top = sketch(17).int64s("k", &[0]).node("TopK", &["x", "k"], &["none", "places"], vec![]);
    let node = top.node("Concat", &["x", "none"], &["y"], vec![int("axis", 1)]).output("y");
    let found = results(node, &[("x", &[2, 2], &[1.0, 2.0, 3.0, 4.0])]).remove(0);
    assert_eq!((found.shape.as_slice(), found.floats()), (&[2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
}

#[test]
fn means_of_the_largest_numbers() {
    let node = sketch(17).node("Mean", &["a", "b"], &["y"], vec![]).output("y");
    let (a, b) = ([MAX, MAX, INF, INF, f64::NAN, 3.0], [MAX, -MAX, 1.0, -INF, 1.0, 4.0]);
    let found = results(node, &[("a", &[6], &a), ("b", &[6], &b)]).remove(0).floats();
    same(&found, &[MAX, 0.0, INF, f64::NAN, f64::NAN, 3.5]);
}

/// The padding is minus infinity too, but no place.
#[test]
fn places_of_maxima_are_never_in_the_padding() {
    let attributes = vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2])];
    let node = sketch(17).node("MaxPool", &["x"], &["y", "i"], attributes).output("y").output("i");
    let found = results(node, &[("x", &[1, 1, 3, 3], &[-INF; 9])]);
    assert_eq!(found[0].floats(), [-INF; 4]);
    assert_eq!(found[1].integers(), [0, 1, 3, 4]);
}

/// In every place of the windows, and beside another.
#[test]
fn maxima_with_places_are_nan_where_a_nan_is() {
    let attributes = || vec![ints("kernel_shape", &[2, 2])];
    for nan in 0..4 {
        for other in 0..4 {
            let node = sketch(17).node("MaxPool", &["x"], &["y", "i"], attributes()).output("y").output("i");
            let mut x = [1.0, INF, 3.0, -INF];
            (x[nan], x[other]) = (f64::NAN, f64::NAN);
            let found = results(node, &[("x", &[1, 1, 2, 2], &x)]);
            assert!(found[0].floats()[0].is_nan(), "{x:?}");
            assert!(x[found[1].integers()[0] as usize].is_nan(), "{x:?}");
        }
    }
}
