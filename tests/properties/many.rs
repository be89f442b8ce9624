//! Operators that do with many elements what they do otherwise with few: GPUs sort updates and lines that are long.

use crate::call::Call;
use crate::random::Random;
use crate::rows;
use crate::special::{fail, types};
use crate::tensor::{Scalar, Tensor, range, round};
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::Value;

/// Numbers of which many are alike, with the ends of their type among them.
fn numbers(random: &mut Random, data_type: DataType, count: usize) -> Vec<Scalar> {
    let ends = match data_type.is_float() {
        true => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0].map(Scalar::Float),
        false => [range(data_type).0, range(data_type).1, 0, 1].map(Scalar::Integer),
    };
    let number = |random: &mut Random| if random.once_in(50) { random.pick(&ends) } else { small(random, data_type) };
    (0..count).map(|_| number(random)).collect()
}

fn small(random: &mut Random, data_type: DataType) -> Scalar {
    let x = random.below(401) as i128 - 200;
    if data_type.is_float() {
        return round(data_type, Scalar::Float(x as f64 / 8.0));
    }
    let (low, high) = range(data_type);
    Scalar::Integer(x.clamp(low, high))
}

/// Numbers whose sums and products stay within their type, if it is a floating-point one.
fn summands(random: &mut Random, data_type: DataType, count: usize, reduction: u32) -> Vec<Scalar> {
    match (reduction, data_type.is_float()) {
        (0, _) => (0..count).map(|_| small(random, data_type)).collect(),
        (1, true) => (0..count).map(|_| Scalar::Float(random.pick(&[1.0, -1.0, 2.0, 0.5]))).collect(),
        _ => numbers(random, data_type, count),
    }
}

/// Places of which one is named by half of the updates, and many by none.
fn places(random: &mut Random, count: usize, below: usize) -> Vec<Scalar> {
    let place = |random: &mut Random| if random.below(2) == 0 { 17 } else { random.below(below) as i128 };
    (0..count).map(|_| Scalar::Integer(place(random))).collect()
}

#[test]
fn many_updates_of_many_elements() {
    let mut failures = Vec::new();
    let mut random = Random::new(40);
    for row in rows().filter(|row| row.name.starts_with("accumulate")) {
        for data_type in types(row) {
            let (rows, columns, updates) = (3000, 3, 2000);
            let tensor = |shape: &[usize], elements| Tensor { data_type, shape: shape.to_vec(), elements };
            let shape = if row.name == "accumulateND" { vec![updates, 1] } else { vec![updates, columns] };
            let elements = places(&mut random, shape.iter().product(), rows);
            let indices = Tensor { data_type: DataType::Int32, shape, elements };
            for reduction in 0..4 {
                let input = tensor(&[rows, columns], summands(&mut random, data_type, rows * columns, reduction));
                let of_updates = tensor(&[updates, columns], summands(&mut random, data_type, updates * columns, reduction));
                let mut call = Call::of(row, vec![input, indices.clone(), of_updates]);
                call.set("reduction", Value::Enumeration(reduction));
                if row.name == "accumulateElements" {
                    call.set("axis", Value::Unsigned(0));
                }
                fail(&mut failures, &call);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn extremes_of_long_lines() {
    let mut failures = Vec::new();
    let mut random = Random::new(41);
    for row in rows().filter(|row| row.name == "topK") {
        let shapes = [(vec![2, 3000], 1), (vec![2, 1500, 4], 1), (vec![5000], 0)];
        for (data_type, (shape, axis)) in types(row).into_iter().zip(shapes.iter().cycle()) {
            let elements = numbers(&mut random, data_type, shape.iter().product());
            let input = Tensor { data_type, shape: shape.clone(), elements };
            for (largest, count) in [(true, shape[*axis]), (false, 700)] {
                let mut call = Call::of(row, vec![input.clone()]);
                call.set("axis", Value::Unsigned(*axis as u32));
                call.set("count", Value::Unsigned(count as u32));
                call.set("largest", Value::Boolean(largest));
                fail(&mut failures, &call);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
