//! Values of all magnitudes through operators that add up, multiply or square many of them: sums, squares and products on the
//! way leave the type, or vanish, where the result does not.

use crate::call::Call;
use crate::special::{fail, types};
use crate::tensor::{Scalar, Tensor, range, round};
use crate::{FLUSHING, rows};
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::operator::Operator;

/// Powers of two from the smallest number on to the greatest, and around those whose squares are at the ends.
const POWERS: [i32; 21] = [-149, -140, -126, -110, -90, -75, -64, -63, -41, -31, -30, -10, 0, 10, 40, 41, 63, 64, 90, 120, 126];

/// Lines of so many values at a power: of both signs, of one, all the same, and one that is far from ordinary ones.
fn lines(length: usize, power: i32) -> [Vec<f64>; 4] {
    let scale = 2f64.powi(power);
    let between = |i: usize| (i * 7 % 16) as f64 / 16.0;
    let signed = |i: usize| if i.is_multiple_of(2) { 1.0 + between(i) } else { -0.75 - between(i) };
    [
        (0..length).map(|i| signed(i) * scale).collect(),
        (0..length).map(|i| (1.0 + between(i)) * scale).collect(),
        vec![1.625 * scale; length],
        (0..length).map(|i| if i == length / 2 { 1.5 * scale } else { signed(i) }).collect(),
    ]
}

fn tensor(data_type: DataType, shape: &[usize], values: Vec<f64>) -> Tensor {
    let elements = values.into_iter().map(|x| round(data_type, Scalar::Float(x))).collect();
    Tensor { data_type, shape: shape.to_vec(), elements }
}

/// The lines of some powers, in one operand.
fn all_lines(data_type: DataType, length: usize, powers: &[i32]) -> (usize, Vec<f64>) {
    let greatest = if data_type == DataType::Float16 { 14 } else { 126 };
    // A device that takes subnormal numbers for zeros may do so with any value on the way: of lines whose differences, quotients by
    // their length or sums are subnormal, nothing can be said.
    let least = if FLUSHING.contains(&"wgpu") { -100 } else { i32::MIN };
    let mut powers: Vec<i32> = powers.iter().map(|power| (*power).clamp(least, greatest)).collect();
    powers.dedup();
    let lines: Vec<Vec<f64>> = powers.into_iter().flat_map(|power| lines(length, power)).collect();
    (lines.len(), lines.concat())
}

/// Lengths that one invocation of a GPU computes, a workgroup in registers, and a workgroup from memory; the oracle takes long for the
/// long ones.
const LENGTHS: [(usize, &[i32]); 4] = [(3, &POWERS), (20, &POWERS), (600, &[90]), (2100, &[126])];

fn row(name: &str) -> Option<&'static Operator> {
    rows().find(|row| row.name == name)
}

fn none_of(failures: &[String]) {
    let shown: Vec<&str> = failures.iter().take(10).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} failures, at most 10 shown:\n{}", failures.len(), shown.join("\n"));
}

#[test]
fn normalizations_of_rows_of_any_magnitude() {
    let mut failures = Vec::new();
    for data_type in [DataType::Float32, DataType::Float16] {
        for (length, powers) in LENGTHS {
            for epsilon in [1e-5, 0.0, 1e-30] {
                let (count, mut values) = all_lines(data_type, length, powers);
                // Where nothing is added to a variance of zero the quotient is anything.
                let is_constant = |line: &[f64]| line.iter().all(|x| *x == line[0]);
                if epsilon == 0.0 {
                    let lines = values.chunks_exact_mut(length).filter(|line| is_constant(line));
                    lines.for_each(|line| line[0] = -line[0]);
                }
                let factors =
                    |values: [f64; 4], count| tensor(data_type, &[count], values.into_iter().cycle().take(count).collect());
                let (scale, bias) = (factors([1.0, -2.0, 0.0, 0.5], length), factors([0.0, 1.0, -3.0, 0.25], length));
                for row in ["layerNormalization", "rmsNormalization"].into_iter().filter_map(row) {
                    let input = tensor(data_type, &[count, length], values.clone());
                    let mut all = vec![input.clone(), scale.clone(), bias.clone()];
                    all.truncate(row.operands.len());
                    for operands in [vec![input], all] {
                        let mut call = Call::of(row, operands);
                        call.set("axes", Value::UnsignedList(vec![1]));
                        call.set("epsilon", Value::Double(epsilon));
                        fail(&mut failures, &call);
                    }
                }
                if let Some(row) = row("instanceNormalization") {
                    let input = tensor(data_type, &[1, count, 1, length], values);
                    let of_channels = [factors([1.0, -2.0, 0.0, 0.5], count), factors([0.0, 1.0, -3.0, 0.25], count)].to_vec();
                    let mut call = Call::of(row, [vec![input], of_channels].concat());
                    call.set("epsilon", Value::Double(epsilon));
                    fail(&mut failures, &call);
                }
            }
        }
    }
    none_of(&failures);
}

#[test]
fn normalizations_by_given_statistics_of_any_magnitude() {
    let Some(row) = row("batchNormalization") else { return };
    let mut failures = Vec::new();
    let numbers = [0.0, 1e-38, -1e-30, 1e-19, 1.5, -1e19, 1e30, -3.2e38, 3.2e38];
    for epsilon in [1e-5, 0.0] {
        let mut features = Vec::new();
        for mean in numbers {
            for variance in [1.2e-38, 1e-20, 2.0, 1e20, 3.2e38] {
                features.extend(numbers.map(|scale| [mean, variance, scale]));
            }
        }
        let count = features.len();
        let of_features =
            |part: usize| tensor(DataType::Float32, &[count], features.iter().map(|feature| feature[part]).collect());
        let values = numbers.iter().flat_map(|x| vec![*x; count]).collect();
        let input = tensor(DataType::Float32, &[numbers.len(), count], values);
        let mut call = Call::of(row, vec![input, of_features(0), of_features(1), of_features(2)]);
        call.set("epsilon", Value::Double(epsilon));
        fail(&mut failures, &call);
    }
    none_of(&failures);
}

#[test]
fn pools_of_windows_of_any_magnitude() {
    let mut failures = Vec::new();
    let orders = [("averagePool2d", None), ("l2Pool2d", None), ("normPool2d", Some(3)), ("normPool2d", Some(64))];
    for (row, order) in orders.into_iter().filter_map(|(name, order)| Some((row(name)?, order))) {
        for data_type in types(row) {
            for (length, powers) in LENGTHS {
                let (count, values) = all_lines(data_type, length, powers);
                let mut call = Call::of(row, vec![tensor(data_type, &[1, count, 1, length], values)]);
                if let Some(order) = order {
                    call.set("order", Value::Unsigned(order));
                }
                fail(&mut failures, &call);
                let mut sliding = call;
                sliding.set("window_dimensions", Value::UnsignedList(vec![1, 3]));
                fail(&mut failures, &sliding);
            }
        }
    }
    none_of(&failures);
}

#[test]
fn reductions_of_lines_of_any_magnitude() {
    let mut failures = Vec::new();
    for row in rows().filter(|row| row.name.starts_with("reduce") || row.name.starts_with("cumulative")) {
        for data_type in types(row).into_iter().filter(|data_type| data_type.is_float()) {
            for (length, powers) in LENGTHS {
                let (count, values) = all_lines(data_type, length, powers);
                fail(&mut failures, &along(Call::of(row, vec![tensor(data_type, &[count, length], values)]), 1));
            }
        }
    }
    none_of(&failures);
}

/// As many large factors as small ones, far more than even float64 takes.
#[test]
fn products_that_leave_the_type_on_the_way() {
    let mut failures = Vec::new();
    let kinds = [(DataType::Float32, 2f64.powi(120)), (DataType::Float16, 2f64.powi(14))];
    let names = ["reduceProduct", "cumulativeProduct"];
    for (row, (data_type, large)) in names.iter().filter_map(|name| row(name)).flat_map(|row| kinds.map(|kind| (row, kind))) {
        for length in [3, 30, 300] {
            let half = |first: f64, second: f64| [vec![first; length], vec![second; length]].concat();
            let turns = (0..2 * length).map(|i| if i % 2 == 0 { -large } else { 1.0 / large });
            let lines = [half(large, 1.0 / large), half(1.0 / large, large), half(large, 0.5 / large), turns.collect()];
            let input = tensor(data_type, &[lines.len(), 2 * length], lines.concat());
            fail(&mut failures, &along(Call::of(row, vec![input]), 1));
        }
    }
    none_of(&failures);
}

fn along(mut call: Call, axis: u32) -> Call {
    match call.row.name {
        name if name.starts_with("reduce") => call.set("axes", Value::UnsignedList(vec![axis])),
        _ => call.set("axis", Value::Unsigned(axis)),
    }
    call
}

/// Three values of which two leave the type together, in each order, and the third brings them back.
#[test]
fn three_values_that_leave_the_type_on_the_way() {
    let mut failures = Vec::new();
    let operators = rows().filter(|row| row.name.starts_with("reduce") || row.name.starts_with("cumulative"));
    for row in operators {
        for data_type in types(row) {
            let triples: Vec<[Scalar; 3]> = if data_type.is_float() {
                let (large, root) = if data_type == DataType::Float16 { (6e4, 4e3) } else { (3e38, 1e25) };
                [[large, large, -large], [-large, -large, large], [root, root, 1.0 / root], [1.0 / root, 1.0 / root, root]]
                    .map(|triple| triple.map(|x| round(data_type, Scalar::Float(x))))
                    .to_vec()
            } else {
                let (low, high) = range(data_type);
                let triples = [[high, high, low], [low, low, high], [high, 2, 3], [low, low, 1], [high, 1, 1]];
                triples.map(|triple| triple.map(Scalar::Integer)).to_vec()
            };
            let orders = [[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0]];
            let lines: Vec<[Scalar; 3]> = triples.iter().flat_map(|x| orders.map(|order| order.map(|i| x[i]))).collect();
            // After each other, beside each other, and far apart in long lines of what changes nothing.
            let neutral = match (row.name, data_type.is_float()) {
                ("reduceProduct" | "cumulativeProduct", true) => Scalar::Float(1.0),
                ("reduceProduct" | "cumulativeProduct", false) => Scalar::Integer(1),
                ("reduceLogSumExp", true) => Scalar::Float(f64::NEG_INFINITY),
                (_, true) => Scalar::Float(0.0),
                (_, false) => Scalar::Integer(0),
            };
            let columns: Vec<Scalar> = (0..3).flat_map(|k| lines.iter().map(move |line| line[k])).collect();
            let long = |line: &[Scalar; 3]| {
                let mut long = vec![neutral; 300];
                (long[5], long[77], long[290]) = (line[0], line[1], line[2]);
                long
            };
            let count = lines.len();
            for (shape, axis, elements) in [
                ([count, 3], 1, lines.concat()),
                ([3, count], 0, columns),
                ([count, 300], 1, lines.iter().flat_map(long).collect()),
            ] {
                fail(&mut failures, &along(Call::of(row, vec![Tensor { data_type, shape: shape.to_vec(), elements }]), axis));
            }
        }
    }
    none_of(&failures);
}
