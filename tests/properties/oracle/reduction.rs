//! Reductions and other operators along axes.

use super::{EPSILON, by_position, with};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::{Scalar, Tensor, offset, positions, wrap};
use webnn_node::graph::DataType;

/// The elements along an axis, through a position.
fn line<'a>(input: &'a Tensor, position: &'a [usize], axis: usize) -> impl Iterator<Item = Scalar> + 'a {
    (0..input.shape[axis]).map(move |i| input.at(&with(position, axis, i)))
}

fn integers(elements: &[Scalar]) -> Option<Vec<i128>> {
    let integer = |x: &Scalar| if let Scalar::Integer(x) = x { Some(*x) } else { None };
    elements.iter().map(integer).collect()
}

/// Ties and NaN are left open; the documentation says: the first of several, or the first NaN.
pub fn arg(call: &Call) -> Expected {
    let input = call.operand("input");
    let axis = call.unsigned("axis").expect("an axis");
    let finds_greatest = call.row.name == "argMax";
    let output = call.data_type("output_data_type", DataType::Int32);
    let kept = with(&input.shape, axis, 1);
    let element = |position: &[usize]| {
        let line: Vec<Scalar> = line(input, position, axis).collect();
        if let Some(nan) = line.iter().position(|x| x.as_f64().is_nan()) {
            return Element::integer(nan as i128);
        }
        let better = |a: Scalar, b: Scalar| {
            let (a, b) = if finds_greatest { (a, b) } else { (b, a) };
            match (a, b) {
                (Scalar::Integer(a), Scalar::Integer(b)) => a > b,
                (a, b) => a.as_f64() > b.as_f64(),
            }
        };
        let best = (0..line.len()).find(|&i| line.iter().all(|x| !better(*x, line[i]))).expect("one is the best");
        Element::integer(best as i128)
    };
    let mut expected = by_position(output, kept, element);
    if !call.boolean("keep_dimensions", false) {
        expected.shape.remove(axis);
    }
    expected
}

/// NaN is the greatest, and of equal elements the first comes first.
pub fn top_k(call: &Call) -> Vec<Expected> {
    let input = call.operand("input");
    let axis = call.unsigned("axis").expect("an axis");
    let count = call.unsigned("count").expect("a count");
    let largest = call.boolean("largest", true);
    let is_greater = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::Integer(a), Scalar::Integer(b)) => a > b,
        (a, b) => a.as_f64() > b.as_f64() || a.as_f64().is_nan() && !b.as_f64().is_nan(),
    };
    let shape = with(&input.shape, axis, count);
    let total = shape.iter().product();
    let (mut values, mut indices) = (vec![Element::Anything; total], vec![Element::Anything; total]);
    for position in positions(&with(&shape, axis, 1)) {
        let line: Vec<Scalar> = line(input, &position, axis).collect();
        // The sort is stable, so that of equal ones the first comes first.
        let mut order: Vec<usize> = (0..line.len()).collect();
        order.sort_by(|&i, &k| {
            let (first, second) = if largest { (line[i], line[k]) } else { (line[k], line[i]) };
            is_greater(second, first).cmp(&is_greater(first, second))
        });
        for (rank, &k) in order.iter().take(count).enumerate() {
            let at = offset(&shape, &with(&position, axis, rank));
            (values[at], indices[at]) = (Element::Exactly(line[k]), Element::integer(k as i128));
        }
    }
    vec![
        Expected { data_type: input.data_type, shape: shape.clone(), elements: values },
        Expected { data_type: DataType::Int64, shape, elements: indices },
    ]
}

pub fn reduce(call: &Call) -> Expected {
    let input = call.operand("input");
    let axes = call.list("axes").unwrap_or((0..input.rank()).collect());
    let keeps = call.boolean("keep_dimensions", false);
    let kept: Vec<usize> = (0..input.rank()).map(|axis| if axes.contains(&axis) { 1 } else { input.shape[axis] }).collect();
    let window: Vec<usize> = (0..input.rank()).map(|axis| if axes.contains(&axis) { input.shape[axis] } else { 1 }).collect();
    let within = positions(&window);
    let mut expected = by_position(input.data_type, kept, |position| {
        let element = |within: &Vec<usize>| input.at(&position.iter().zip(within).map(|(a, b)| a + b).collect::<Vec<_>>());
        let elements: Vec<Scalar> = within.iter().map(element).collect();
        match integers(&elements) {
            Some(elements) => Element::integer(wrap(input.data_type, reduce_integers(call.row.name, &elements))),
            None => reduce_floats(call.row.name, &elements.iter().map(|x| x.as_f64()).collect::<Vec<_>>()),
        }
    });
    if !keeps {
        let remains = |(axis, size): (usize, &usize)| if axes.contains(&axis) { None } else { Some(*size) };
        expected.shape = input.shape.iter().enumerate().filter_map(remains).collect();
    }
    expected
}

/// Integers wrap around.
fn reduce_integers(name: &str, elements: &[i128]) -> i128 {
    let wrapping_sum = |term: &dyn Fn(i128) -> i128| elements.iter().fold(0i128, |sum, x| sum.wrapping_add(term(*x)));
    match name {
        "reduceL1" => wrapping_sum(&i128::abs),
        "reduceSum" => wrapping_sum(&|x| x),
        "reduceSumSquare" => wrapping_sum(&|x| x.wrapping_mul(x)),
        "reduceProduct" => elements.iter().fold(1, |product, x| product.wrapping_mul(*x)),
        "reduceMax" => *elements.iter().max().expect("there are elements"),
        "reduceMin" => *elements.iter().min().expect("there are elements"),
        name => panic!("the oracle lacks {name} of integers"),
    }
}

/// A sum of `n` terms is rounded `n` times, by no more than the sum of their magnitudes; a function of it passes the error
/// on with its slope.
fn reduce_floats(name: &str, elements: &[f64]) -> Element {
    let n = elements.len() as f64;
    let sum: f64 = elements.iter().sum();
    let magnitude: f64 = elements.iter().map(|x| x.abs()).sum();
    let squares: f64 = elements.iter().map(|x| x * x).sum();
    let has_nan = elements.iter().any(|x| x.is_nan());
    match name {
        "reduceL1" => near(magnitude, n * magnitude),
        "reduceSum" => near(sum, n * magnitude),
        "reduceMean" => near(sum / n, (n + 1.0) * magnitude / n),
        // A square that is subnormal is rounded to the next of these.
        "reduceSumSquare" => near(squares, (n + 1.0) * squares + n * f64::from(f32::MIN_POSITIVE)),
        "reduceL2" => near(squares.sqrt(), (n + 3.0) * squares.sqrt()),
        "reduceLogSum" => {
            let error = n * magnitude * EPSILON;
            if sum.abs() <= 2.0 * error && sum != 0.0 {
                return Element::Anything;
            }
            near(sum.ln(), n * magnitude / sum.abs() + 2.0 * sum.ln().abs())
        }
        "reduceLogSumExp" => {
            // Differences to the greatest element, of which the power is a number.
            let greatest = elements.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let shift = if greatest.is_finite() { greatest } else { 0.0 };
            let value = shift + elements.iter().map(|x| (x - shift).exp()).sum::<f64>().ln();
            near(value, n + 8.0 + 2.0 * value.abs())
        }
        "reduceProduct" => {
            // In such an order that nothing on the way is beyond float64 if the product is not.
            let mut sorted = elements.to_vec();
            sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            let mut rest = std::collections::VecDeque::from(sorted);
            let mut product = 1f64;
            while let Some(x) = if product.abs() > 1.0 { rest.pop_front() } else { rest.pop_back() } {
                product *= x;
            }
            near(product, n * product.abs())
        }
        "reduceMax" | "reduceMin" if has_nan => Element::float(f64::NAN),
        "reduceMax" => Element::ulps(elements.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0),
        "reduceMin" => Element::ulps(elements.iter().copied().fold(f64::INFINITY, f64::min), 0),
        name => panic!("the oracle lacks {name}"),
    }
}

/// A value with so many times float32's rounding error. What is no number has none.
fn near(value: f64, roundings: f64) -> Element {
    Element::within(value, if value.is_finite() { roundings * EPSILON } else { 0.0 })
}

/// What is reduced up to each place; `of_integers` are few enough to be exact in 128 bits.
pub fn cumulative_sum(call: &Call) -> Expected {
    cumulative(call, "reduceSum", |added| added.iter().sum())
}

pub fn cumulative_product(call: &Call) -> Expected {
    cumulative(call, "reduceProduct", |factors| factors.iter().fold(1, |product, x| product.wrapping_mul(*x)))
}

fn cumulative(call: &Call, reduction: &str, of_integers: fn(&[i128]) -> i128) -> Expected {
    let input = call.operand("input");
    let axis = call.unsigned("axis").expect("an axis");
    let (exclusive, reversed) = (call.boolean("exclusive", false), call.boolean("reversed", false));
    by_position(input.data_type, input.shape.clone(), |position| {
        let own = position[axis];
        let is_added = |i: usize| (i == own && !exclusive) || if reversed { i > own } else { i < own };
        let added: Vec<Scalar> =
            (0..input.shape[axis]).filter(|&i| is_added(i)).map(|i| input.at(&with(position, axis, i))).collect();
        match (input.data_type.is_float(), integers(&added)) {
            (false, Some(added)) => Element::integer(wrap(input.data_type, of_integers(&added))),
            _ => reduce_floats(reduction, &added.iter().map(|x| x.as_f64()).collect::<Vec<_>>()),
        }
    })
}

/// The differences to the greatest value are rounded before their exponentials are taken.
pub fn softmax(call: &Call) -> Expected {
    let input = call.operand("input");
    let axis = call.unsigned("axis").expect("an axis");
    by_position(input.data_type, input.shape.clone(), |position| {
        let line: Vec<f64> = line(input, position, axis).map(|x| x.as_f64()).collect();
        let greatest = match line.iter().any(|x| x.is_nan()) {
            true => f64::NAN,
            false => line.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        let sum: f64 = line.iter().map(|x| (x - greatest).exp()).sum();
        let value = (input.float(position) - greatest).exp() / sum;
        let spread = line.iter().filter(|x| x.is_finite()).fold(0f64, |spread, x| spread.max((x - greatest).abs()));
        near(value, (line.len() as f64 + 8.0 + if spread.is_finite() { 2.0 * spread } else { 0.0 }) * value)
    })
}
