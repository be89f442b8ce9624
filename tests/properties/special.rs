//! Special values: every pair of NaN, infinities, zeros, the smallest and greatest numbers and what is beside them, through every
//! operator that computes with single elements, or finds something out about a few of them. Random calls rarely meet two of
//! these at once. And functions on all numbers of float16, and many of float32.

use crate::call::Call;
use crate::tensor::{Scalar, Tensor, range, round};
use crate::{check, rows, wish};
use webnn_node::graph::attribute::Value;
use webnn_node::graph::operator::{Operation, Operator};
use webnn_node::graph::ops::arg::Arg;
use webnn_node::graph::ops::cumulative::{CumulativeProduct, CumulativeSum};
use webnn_node::graph::ops::elementwise_operators;
use webnn_node::graph::ops::reduce::Reduce;
use webnn_node::graph::ops::softmax::Softmax;
use webnn_node::graph::ops::top_k::TopK;
use webnn_node::graph::{DataType, Number};

/// Functions of so many elements: element-wise operators of so many operands.
fn functions(operands: usize) -> impl Iterator<Item = &'static Operator> {
    rows().filter(move |row| row.operands.len() == operands && elementwise_operators().iter().any(|one| one.name == row.name))
}

/// Functions of the elements of a line.
fn is_of_lines(row: &Operator) -> bool {
    let of_lines = [Arg::ROWS, CumulativeProduct::ROWS, CumulativeSum::ROWS, Reduce::ROWS, Softmax::ROWS, TopK::ROWS];
    of_lines.into_iter().flatten().any(|one| one.name == row.name)
}

fn values(data_type: DataType) -> Vec<Scalar> {
    if !data_type.is_float() {
        let (low, high) = range(data_type);
        let mut values = vec![low, low + 1, -2, -1, 0, 1, 2, 3, high - 1, high];
        values.retain(|x| (low..=high).contains(x));
        values.dedup();
        return values.into_iter().map(Scalar::Integer).collect();
    }
    let (smallest, greatest, digits) = match data_type {
        DataType::Float16 => (2f64.powi(-24), 65504.0, 10),
        _ => (2f64.powi(-149), f64::from(f32::MAX), 23),
    };
    let epsilon = 2f64.powi(-digits);
    let least_normal = smallest * 2f64.powi(digits);
    let positive = [
        0.0,
        smallest,
        least_normal - smallest,
        least_normal,
        epsilon,
        0.5,
        1.0 - epsilon / 2.0,
        1.0,
        1.0 + epsilon,
        1.5,
        2.5,
        3.0,
        // An odd integer that is as great as one can be, and an even one.
        1.0 / epsilon * 2.0 - 1.0,
        2.0 / epsilon,
        greatest / 2.0,
        greatest,
        f64::INFINITY,
    ];
    positive.iter().flat_map(|&x| [x, -x]).chain([f64::NAN]).map(Scalar::Float).collect()
}

/// The same with what the operator demands, in all ways that matter here.
fn variants(call: Call) -> Vec<Call> {
    let with = |fields: &[(&str, Value)]| {
        let mut call = call.clone();
        fields.iter().for_each(|(field, value)| call.set(field, value.clone()));
        call
    };
    let number = |x: f64| Value::Number(Number::Double(x));
    match call.row.name {
        "clamp" => vec![
            with(&[("min_value", number(-1.0)), ("max_value", number(1.5))]),
            with(&[("min_value", number(0.0))]),
            with(&[("max_value", number(f64::INFINITY))]),
        ],
        "elu" | "leakyRelu" => vec![with(&[]), with(&[("alpha", Value::Double(-3.0))])],
        "replaceNaN" => [0.0, -1.5, f64::INFINITY].map(|x| with(&[("number", Value::Double(x))])).to_vec(),
        "swish" => [1.0, 1.702, -0.5, 0.0].map(|alpha| with(&[("alpha", Value::Double(alpha))])).to_vec(),
        "linear" | "hardSigmoid" => vec![with(&[]), with(&[("alpha", Value::Double(1.5)), ("beta", Value::Double(-0.25))])],
        "cast" => DataType::ALL
            .into_iter()
            .filter(|to| to.bits() >= 8)
            .map(|to| with(&[("data_type", Value::Enumeration(to as u32))]))
            .collect(),
        _ => vec![call],
    }
}

pub fn fail(failures: &mut Vec<String>, call: &Call) {
    failures.extend(check(call, 0).err().map(|reason| format!("{call:?}: {reason}")));
}

/// The types that the first operand may have and is tried with.
pub fn types(row: &'static Operator) -> Vec<DataType> {
    wish::types(row, &row.operands[0]).into_iter().filter(|data_type| data_type.bits() >= 8).collect()
}

#[test]
fn pairs_of_special_values() {
    let mut failures = Vec::new();
    for row in functions(1).chain(functions(2)) {
        for data_type in types(row) {
            let values = values(data_type);
            let count = values.len();
            let tensor = |shape: &[usize], elements: Vec<Scalar>| Tensor { data_type, shape: shape.to_vec(), elements };
            if row.operands.len() == 1 {
                let input = tensor(&[4, count], values.repeat(4));
                variants(Call::of(row, vec![input])).iter().for_each(|call| fail(&mut failures, call));
                continue;
            }
            let first: Vec<Scalar> = values.iter().flat_map(|x| vec![*x; count]).collect();
            let shape = [count, count];
            // Tensors of one shape, a line and a number beside each, brought by the run and constant.
            let whole = tensor(&shape, first);
            let line = tensor(&[count], values.clone());
            let column = tensor(&[count, 1], values.clone());
            for [a, b] in [[whole.clone(), tensor(&shape, values.repeat(count))], [whole, line.clone()], [line, column]] {
                for is_constant in [false, true] {
                    let mut call = Call::of(row, vec![a.clone(), b.clone()]);
                    call.operands[1].is_constant = is_constant;
                    fail(&mut failures, &call);
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn lines_with_two_special_values() {
    let mut failures = Vec::new();
    for row in rows().filter(|row| is_of_lines(row)) {
        for data_type in types(row) {
            let values = values(data_type);
            let pairs: Vec<[Scalar; 2]> = values.iter().flat_map(|&a| values.iter().map(move |&b| [a, b])).collect();
            let count = pairs.len();
            let one = if data_type.is_float() { Scalar::Float(1.0) } else { Scalar::Integer(1) };
            // Longer ones for vectors, and for the workgroups of GPUs.
            let long = |&[a, b]: &[Scalar; 2]| {
                let mut line = [one; 20];
                (line[3], line[17]) = (a, b);
                line
            };
            let longer = |&[a, b]: &[Scalar; 2]| {
                let mut line = [one; 70];
                (line[3], line[67]) = (a, b);
                line
            };
            let beside: Vec<Scalar> = pairs.iter().map(|pair| pair[0]).chain(pairs.iter().map(|pair| pair[1])).collect();
            for (shape, axis, elements) in [
                ([count, 2], 1, pairs.concat()),
                ([2, count], 0, beside),
                ([count, 20], 1, pairs.iter().flat_map(long).collect()),
                ([count, 70], 1, pairs.iter().flat_map(longer).collect()),
            ] {
                let mut call = Call::of(row, vec![Tensor { data_type, shape: shape.to_vec(), elements }]);
                match row.name {
                    name if name.starts_with("reduce") => call.set("axes", Value::UnsignedList(vec![axis])),
                    _ => call.set("axis", Value::Unsigned(axis)),
                }
                if row.name == "topK" {
                    call.set("count", Value::Unsigned(shape[axis as usize] as u32));
                }
                fail(&mut failures, &call);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// All numbers of float16, and numbers of float32 with any bits and between -110 and 110: a million each with `WEBNN_SWEEP=all`.
#[test]
fn functions_of_many_numbers() {
    let many = if crate::sweeps() { 1u32 << 20 } else { 1 << 13 };
    let halves = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f64());
    // A multiple of the golden ratio spreads evenly, and reaches all exponents.
    let spread = |i: u32| i.wrapping_mul(0x9e37_79b9);
    let any = (0..many).map(|i| f64::from(f32::from_bits(spread(i))));
    let near = (0..many).map(|i| (f64::from(spread(i)) / f64::from(u32::MAX) - 0.5) * 220.0);
    let singles: Vec<f64> = halves.clone().chain(any).chain(near).collect();
    // The numbers beside all multiples of a quarter turn that are so small that their rests are more than rounding.
    let turns = (1..=6000).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32);
    let turns: Vec<f64> =
        turns.flat_map(|x| [x.next_down(), x, x.next_up()]).flat_map(|x| [f64::from(x), f64::from(-x)]).collect();
    let mut failures = Vec::new();
    // What is converted is tried by pairs.
    for row in functions(1).filter(|row| row.name != "cast") {
        for data_type in types(row).into_iter().filter(|data_type| data_type.is_float()) {
            let numbers: Vec<f64> = if data_type == DataType::Float16 { halves.clone().collect() } else { singles.clone() };
            let turns: &[f64] = if ["cos", "sin", "tan"].contains(&row.name) { &turns } else { &[] };
            let elements: Vec<Scalar> =
                numbers.iter().chain(turns).copied().map(|x| round(data_type, Scalar::Float(x))).collect();
            let input = Tensor { data_type, shape: vec![elements.len()], elements };
            variants(Call::of(row, vec![input])).iter().for_each(|call| fail(&mut failures, call));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
