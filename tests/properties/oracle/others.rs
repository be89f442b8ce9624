//! Operators that only the importer uses: their documentation, in `f64`.

use super::{EPSILON, by_position};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor};
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::Value;

fn integer(tensor: &Tensor, position: &[usize]) -> i128 {
    match tensor.at(position) {
        Scalar::Integer(x) => x,
        Scalar::Float(x) => panic!("{x} in a table of integers"),
    }
}

fn clamped(index: i128, size: usize) -> usize {
    index.clamp(0, size as i128 - 1) as usize
}

/// The entries of the leaf that a row comes to, if it comes to one.
fn entries(call: &Call, row: usize, root: i128) -> Vec<usize> {
    let (input, nodes) = (call.operand("input"), call.operand("nodes"));
    let (thresholds, leaves) = (call.operand("thresholds"), call.operand("leaves"));
    let mut at = root;
    let mut steps = call.unsigned("depth").expect("an argument");
    while at >= 0 {
        if steps == 0 {
            return vec![];
        }
        steps -= 1;
        let node = clamped(at, nodes.shape[0]);
        let [feature, mode, yes, no] = [0, 1, 2, 3].map(|column| integer(nodes, &[node, column]));
        let x = input.float(&[row, clamped(feature, input.shape[1])]);
        let y = thresholds.float(&[node]);
        let holds = match mode.rem_euclid(8) {
            0 => x <= y,
            1 => x < y,
            2 => x >= y,
            3 => x > y,
            4 => x == y,
            5 => x != y,
            _ => false,
        };
        let missing_is_true = mode.rem_euclid(16) >= 8;
        at = if holds || x.is_nan() && missing_is_true { yes } else { no };
    }
    let count = leaves.shape[0];
    let mut list = vec![clamped(-1 - at, count)];
    while let Some(&last) = list.last().filter(|&&last| integer(leaves, &[last, 1]) != 0 && last + 1 < count) {
        list.push(last + 1);
    }
    list
}

/// Sums have a rounding for each weight.
pub fn tree_ensemble(call: &Call) -> Expected {
    let (leaves, weights, roots) = (call.operand("leaves"), call.operand("weights"), call.operand("roots"));
    let (rows, trees) = (call.operand("input").shape[0], roots.shape[0]);
    let targets = call.unsigned("targets").expect("an argument");
    let aggregation = call.enumeration("aggregation", "sum");
    by_position(DataType::Float32, vec![rows, targets], |position| {
        let of_tree = |tree: usize| entries(call, position[0], integer(roots, &[tree]));
        let own: Vec<f64> = (0..trees)
            .flat_map(of_tree)
            .filter(|&entry| integer(leaves, &[entry, 0]) == position[1] as i128)
            .map(|entry| weights.float(&[entry]))
            .collect();
        let sum: f64 = own.iter().sum();
        let error = own.len() as f64 * EPSILON * own.iter().map(|x| x.abs()).sum::<f64>();
        match aggregation {
            "sum" => Element::within(sum, error),
            "average" => Element::within(sum / trees as f64, error / trees as f64),
            _ if own.is_empty() => Element::ulps(0.0, 0),
            "min" => Element::ulps(own.into_iter().fold(f64::INFINITY, f64::min), 0),
            _ => Element::ulps(own.into_iter().fold(f64::NEG_INFINITY, f64::max), 0),
        }
    })
}

/// How likely each class is, and how exact that is; nothing where an error is so near to the bound that ends the steps that
/// one in float32 may be on its other side.
fn coupled(beside: &dyn Fn(usize, usize) -> f64, classes: usize) -> Option<(Vec<f64>, f64)> {
    let all = || 0..classes;
    let q = |a: usize, b: usize| match a == b {
        true => all().filter(|&other| other != a).map(|other| beside(other, a).powi(2)).sum::<f64>(),
        false => -beside(a, b) * beside(b, a),
    };
    let bound = 0.005 / classes as f64;
    let mut p = vec![1.0 / classes as f64; classes];
    for step in 0..100.max(classes) {
        let image: Vec<f64> = all().map(|a| all().map(|b| q(a, b) * p[b]).sum()).collect();
        let form: f64 = all().map(|a| p[a] * image[a]).sum();
        let error = image.iter().map(|x| (x - form).abs()).fold(0.0, f64::max);
        if (error - bound).abs() < 0.02 * bound {
            return None;
        }
        if error < bound {
            // A step adds and multiplies each number so often, and what is wrong with it grows smaller in the next ones.
            return Some((p, (step + 1) as f64 * 16.0 * classes as f64 * EPSILON));
        }
        let (mut image, mut form) = (image, form);
        for t in all() {
            let change = (form - image[t]) / q(t, t);
            p[t] += change;
            form = (form + change * (change * q(t, t) + 2.0 * image[t])) / (1.0 + change).powi(2);
            image = all().map(|a| (image[a] + change * q(t, a)) / (1.0 + change)).collect();
            p.iter_mut().for_each(|p| *p /= 1.0 + change);
        }
    }
    None
}

pub fn pairwise_coupling(call: &Call) -> Expected {
    let input = call.operand("input");
    let classes = call.unsigned("classes").expect("an argument");
    let pairs: Vec<(usize, usize)> = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| (a, b))).collect();
    let rows: Vec<_> = (0..input.shape[0])
        .map(|row| {
            let beside = |a: usize, b: usize| {
                let pair = pairs.iter().position(|pair| *pair == (a.min(b), a.max(b))).expect("a pair");
                let first = input.float(&[row, pair]);
                if a < b { first } else { 1.0 - first }
            };
            coupled(&beside, classes)
        })
        .collect();
    by_position(DataType::Float32, vec![rows.len(), classes], |position| match &rows[position[0]] {
        Some((p, error)) => Element::within(p[position[1]], *error),
        None => Element::Anything,
    })
}

/// The sum over all permutations. Elimination with pivots makes elements grow by at most 2 in each step, and rounds each of
/// them as often; no determinant is larger than the product of the lengths of the rows.
pub fn determinant(call: &Call) -> Expected {
    let input = call.operand("input");
    let (batch, matrix) = input.shape.split_at(input.rank() - 2);
    let size = matrix[0];
    by_position(DataType::Float32, batch.to_vec(), |position| {
        let at = |row: usize, column: usize| input.float(&[position, &[row, column]].concat());
        let lengths: f64 = (0..size).map(|row| (0..size).map(|column| at(row, column).powi(2)).sum::<f64>().sqrt()).product();
        let growth = 2f64.powi(size as i32 - 1) * (size * size * size) as f64;
        Element::within(expanded(&at, 0, &mut vec![false; size]), 4.0 * growth * EPSILON * lengths)
    })
}

/// By Cramer's rule. How far elimination may be off follows from the condition of the matrix; of one that has hardly an inverse nothing
/// is known.
pub fn inverse(call: &Call) -> Expected {
    let input = call.operand("input");
    let size = input.shape[input.rank() - 1];
    let norm = |of: &dyn Fn(usize, usize) -> f64| -> f64 {
        (0..size).map(|row| (0..size).map(|column| of(row, column).abs()).sum::<f64>()).fold(0.0, f64::max)
    };
    by_position(DataType::Float32, input.shape.clone(), |position| {
        let (batch, place) = position.split_at(position.len() - 2);
        let at = |row: usize, column: usize| input.float(&[batch, &[row, column]].concat());
        let whole = expanded(&at, 0, &mut vec![false; size]);
        let of = |row: usize, column: usize| {
            let cofactor = |i: usize, j: usize| if i == column { f64::from(u8::from(j == row)) } else { at(i, j) };
            expanded(&cofactor, 0, &mut vec![false; size]) / whole
        };
        let growth = 2f64.powi(size as i32) * (size * size * size) as f64;
        let error = 8.0 * growth * EPSILON * norm(&at) * norm(&of);
        if whole == 0.0 || error.is_nan() || error > 0.05 {
            return Element::Anything;
        }
        Element::within(of(place[0], place[1]), 2.0 * error * norm(&of))
    })
}

/// Token by token, with the sums of what is added as it is and without signs: each number is rounded a few times for each token, and
/// by no more than its part of that.
pub fn linear_attention(call: &Call) -> Vec<Expected> {
    let operand = |name: &str| call.operand(name);
    let (query, key, value, state) = (operand("query"), operand("key"), operand("value"), operand("state"));
    let (decay, rate) = (call.optional("decay"), call.optional("rate"));
    let &[batch, heads, rows, columns] = &state.shape[..] else { panic!("a state of rank 4") };
    let (tokens, query_heads, key_heads) = (query.shape[1], query.shape[2] / rows, key.shape[2] / rows);
    let Value::Double(scale) = *call.value("scale") else { panic!("the scale is a number") };
    let kept = call.unsigned("states").unwrap_or(1);
    let all_heads = query_heads.max(heads);
    let mut results = vec![Element::Anything; batch * tokens * all_heads * columns];
    let mut states = vec![Element::ulps(0.0, 0); kept * batch * heads * rows * columns];
    for (b, h, j) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..columns).map(move |j| (b, h, j)))) {
        // A column, and the same without signs.
        let mut column: Vec<[f64; 2]> = (0..rows).map(|i| state.float(&[b, h, i, j])).map(|x| [x, x.abs()]).collect();
        let mut roundings = 0.0;
        for t in 0..tokens {
            let of_key = |i: usize| key.float(&[b, t, h * key_heads / heads * rows + i]);
            if let Some(decay) = decay {
                for (i, x) in column.iter_mut().enumerate() {
                    let by_row = decay.shape[2] == heads * rows;
                    let logarithm = decay.float(&[b, t, if by_row { h * rows + i } else { h }]);
                    *x = x.map(|x| x * logarithm.exp());
                    roundings += 8.0 + 4.0 * logarithm.abs();
                }
            }
            let new = value.float(&[b, t, h * columns + j]);
            let mut change = [new, new.abs()];
            if let Some(rate) = rate {
                let rate = rate.float(&[b, t, if rate.shape[2] == 1 { 0 } else { h }]);
                let known = [0, 1].map(|sign| (0..rows).map(|i| column[i][sign] * of_key(i)).sum::<f64>());
                change = [(change[0] - known[0]) * rate, (change[1] + known[1]) * rate];
            }
            column.iter_mut().enumerate().for_each(|(i, x)| *x = [0, 1].map(|sign| x[sign] + of_key(i) * change[sign]));
            roundings += 2.0 * rows as f64 + 8.0;
            let error = |size: f64| roundings * EPSILON * size + f64::from(f32::MIN_POSITIVE);
            for o in (0..all_heads).filter(|o| o * heads / all_heads == h) {
                let of_query = |i: usize| scale * query.float(&[b, t, o * query_heads / all_heads * rows + i]);
                let [sum, size] = [0, 1].map(|sign| {
                    let products = (0..rows).map(|i| column[i][sign] * of_query(i));
                    products.map(|x| if sign == 1 { x.abs() } else { x }).sum::<f64>()
                });
                results[((b * tokens + t) * all_heads + o) * columns + j] = Element::within(sum, 2.0 * error(size));
            }
            if let Some(slot) = (t + kept).checked_sub(tokens) {
                for (i, x) in column.iter().enumerate() {
                    states[(((slot * batch + b) * heads + h) * rows + i) * columns + j] = Element::within(x[0], error(x[1]));
                }
            }
        }
    }
    vec![
        Expected { data_type: DataType::Float32, shape: vec![batch, tokens, all_heads * columns], elements: results },
        Expected { data_type: DataType::Float32, shape: vec![kept, batch, heads, rows, columns], elements: states },
    ]
}

/// Expands a determinant by its rows from that one on, without the columns that are taken.
fn expanded(at: &dyn Fn(usize, usize) -> f64, row: usize, taken: &mut [bool]) -> f64 {
    if row == taken.len() {
        return 1.0;
    }
    let (mut sum, mut sign) = (0.0, 1.0);
    for column in 0..taken.len() {
        if taken[column] {
            continue;
        }
        taken[column] = true;
        sum += sign * at(row, column) * expanded(at, row + 1, taken);
        taken[column] = false;
        sign = -sign;
    }
    sum
}

pub fn roi_max_pool(call: &Call) -> Expected {
    let (input, regions) = (call.operand("input"), call.operand("regions"));
    let sizes = call.list("sizes").expect("an argument");
    let Value::Double(scale) = call.value("scale") else { panic!("the scale is a number") };
    let place = |x: f64| {
        let scaled = f64::from(x as f32 * *scale as f32);
        if scaled.is_nan() { 0 } else { scaled.round().clamp(-(2f64.powi(29)), 2f64.powi(29)) as i64 }
    };
    let shape = vec![regions.shape[0], input.shape[1], sizes[0], sizes[1]];
    by_position(DataType::Float32, shape, |position| {
        let of = |column: usize| regions.float(&[position[0], column]);
        let image = of(0).trunc();
        if image.is_nan() || image < 0.0 || image >= input.shape[0] as f64 {
            return Element::ulps(0.0, 0);
        }
        // Whether a line of the image is in the part: between what is rounded down and what is rounded up.
        let is_within = |line: usize, first: i64, last: i64, part: usize, parts: usize| {
            let length = (last - first + 1).max(1) as i128;
            let distance = (line as i64 - first) as i128;
            let (part, parts) = (part as i128, parts as i128);
            (distance + 1) * parts > part * length && distance * parts < (part + 1) * length
        };
        let [left, top, right, bottom] = [1, 2, 3, 4].map(|column| place(of(column)));
        let rows = (0..input.shape[2]).filter(|&row| is_within(row, top, bottom, position[2], sizes[0]));
        let pixels: Vec<f64> = rows
            .flat_map(|row| {
                let columns = (0..input.shape[3]).filter(|&column| is_within(column, left, right, position[3], sizes[1]));
                columns.map(|column| input.float(&[image as usize, position[1], row, column])).collect::<Vec<f64>>()
            })
            .collect();
        if pixels.iter().any(|x| x.is_nan()) {
            return Element::float(f64::NAN);
        }
        Element::ulps(pixels.into_iter().reduce(f64::max).unwrap_or(0.0), 0)
    })
}

pub fn check_indices(call: &Call) -> Expected {
    let Tensor { data_type, shape, elements } = call.operand("indices").clone();
    Expected { data_type, shape, elements: elements.into_iter().map(Element::Exactly).collect() }
}

pub fn bitcast(call: &Call) -> Expected {
    let input = call.operand("input");
    let Value::Enumeration(index) = call.value("data_type") else { panic!("the data type is an argument") };
    let data_type = DataType::from_index(*index).expect("a data type");
    let output = Tensor::from_bytes(data_type, input.shape.clone(), &input.bytes());
    Expected { data_type, shape: output.shape, elements: output.elements.into_iter().map(Element::Exactly).collect() }
}
