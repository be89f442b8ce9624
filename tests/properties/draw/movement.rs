//! Operators that move elements.

use super::{Contents, Draw};
use crate::wish::{Choice, Wish};
use webnn_node::graph::attribute::Value;

/// The input, with any elements. Returns its shape.
fn input(draw: &mut Draw<'_>) -> Vec<usize> {
    super::elementwise::unary(draw);
    draw.operands[0].tensor.shape.clone()
}

fn axis_of(draw: &mut Draw<'_>, rank: usize) -> usize {
    draw.random.below(rank)
}

/// An axis that is an option: 0 when it is absent.
fn optional_axis(draw: &mut Draw<'_>, rank: usize) -> usize {
    if !draw.is_given("axis") {
        draw.set("axis", Value::Absent);
        return 0;
    }
    let axis = axis_of(draw, rank);
    draw.set("axis", Value::Unsigned(axis as u32));
    axis
}

pub fn concat(draw: &mut Draw<'_>) {
    let rank = draw.rank("inputs");
    let mut shape = draw.shape(rank);
    let axis = axis_of(draw, rank);
    let count = draw.random.between(1, 5);
    let ids = (0..count)
        .map(|_| {
            shape[axis] = draw.random.between(1, 4);
            draw.new_operand("inputs", &shape, Contents::Anything)
        })
        .collect();
    draw.set("inputs", Value::Operands(ids));
    draw.set("axis", Value::Unsigned(axis as u32));
}

pub fn expand(draw: &mut Draw<'_>) {
    let rank = draw.rank("input");
    let new_rank = draw.random.between(rank, 8);
    let new_shape = draw.shape(new_rank);
    let shape = super::elementwise::stretchable(draw, &new_shape[new_rank - rank..]);
    draw.operand("input", &shape, Contents::Anything);
    draw.set_list("new_shape", &new_shape);
}

pub fn pad(draw: &mut Draw<'_>) {
    let shape = input(draw);
    let reflects = draw.enumeration("mode") == 2;
    let is_large = shape.iter().product::<usize>() > 300;
    let mut padding = || -> Vec<usize> {
        let most = |size: usize| if reflects { (size - 1).min(2) } else { 2 };
        shape
            .iter()
            .map(|&size| if is_large || draw.random.once_in(2) { 0 } else { draw.random.between(0, most(size)) })
            .collect()
    };
    let (beginning, ending) = (padding(), padding());
    draw.set_list("beginning_padding", &beginning);
    draw.set_list("ending_padding", &ending);
}

pub fn reshape(draw: &mut Draw<'_>) {
    let shape = input(draw);
    // The prime factors of the number of elements, in any order, on some dimensions.
    let mut rest: usize = shape.iter().product();
    let rank = if rest == 1 { draw.random.between(0, 8) } else { draw.random.between(1, 8) };
    let mut new_shape = vec![1; rank];
    let mut factor = 2;
    while rest > 1 {
        if rest.is_multiple_of(factor) {
            rest /= factor;
            new_shape[draw.random.below(rank)] *= factor;
        } else {
            factor += 1;
        }
    }
    draw.set_list("new_shape", &new_shape);
}

pub fn reverse(draw: &mut Draw<'_>) {
    let rank = input(draw).len();
    optional_axes(draw, rank);
}

/// Some axes, in any order, perhaps none.
pub fn optional_axes(draw: &mut Draw<'_>, rank: usize) {
    if !draw.is_given("axes") {
        return draw.set("axes", Value::Absent);
    }
    let mut axes: Vec<usize> = (0..rank).collect();
    draw.random.shuffle(&mut axes);
    axes.truncate(draw.random.between(0, rank));
    draw.set_list("axes", &axes);
}

pub fn slice(draw: &mut Draw<'_>) {
    let shape = input(draw);
    let starts: Vec<usize> = shape.iter().map(|&size| draw.random.below(size)).collect();
    let sizes: Vec<usize> = shape.iter().zip(&starts).map(|(size, start)| draw.random.between(1, size - start)).collect();
    draw.set_list("starts", &starts);
    draw.set_list("sizes", &sizes);
    if draw.is_given("strides") {
        let strides: Vec<usize> = shape.iter().map(|_| draw.random.pick(&[1, 1, 2, 3, 7, u32::MAX as usize])).collect();
        draw.set_list("strides", &strides);
    } else {
        draw.set("strides", Value::Absent);
    }
}

pub fn split(draw: &mut Draw<'_>) {
    let shape = input(draw);
    let axis = optional_axis(draw, shape.len());
    let size = shape[axis];
    if draw.random.once_in(2) {
        let divisors: Vec<usize> = (1..=size.min(64)).filter(|count| size.is_multiple_of(*count)).collect();
        let count = draw.random.pick(&divisors);
        return draw.set("splits", Value::Unsigned(count as u32));
    }
    let mut rest = size;
    let mut sizes = Vec::new();
    while rest > 0 {
        let part = if sizes.len() < 30 { draw.random.between(1, rest) } else { rest };
        sizes.push(part);
        rest -= part;
    }
    draw.set_list("splits", &sizes);
}

pub fn tile(draw: &mut Draw<'_>) {
    let shape = input(draw);
    let is_large = shape.iter().product::<usize>() > 300;
    let often = if is_large { 8 } else { 3 };
    let repetitions: Vec<usize> =
        shape.iter().map(|_| if draw.random.once_in(often) { draw.random.between(1, 3) } else { 1 }).collect();
    draw.set_list("repetitions", &repetitions);
}

pub fn transpose(draw: &mut Draw<'_>) {
    let rank = input(draw).len();
    if !draw.is_given("permutation") {
        return draw.set("permutation", Value::Absent);
    }
    let mut permutation: Vec<usize> = (0..rank).collect();
    draw.random.shuffle(&mut permutation);
    draw.set_list("permutation", &permutation);
}

pub fn triangular(draw: &mut Draw<'_>) {
    input(draw);
    let is_extreme = draw.random.once_in(6);
    let value = match draw.is_given("diagonal") {
        false => Value::Absent,
        true if is_extreme => Value::Signed(draw.random.pick(&[i32::MIN, i32::MAX, i32::MIN + 1])),
        true => Value::Signed(draw.random.between(0, 8) as i32 - 4),
    };
    draw.set("diagonal", value);
}

#[test]
fn wishes_for_options_are_fulfilled() {
    let row = webnn_node::graph::ops::operator("slice").unwrap();
    for choice in [Choice::Absent, Choice::Given] {
        let wish = Wish::Option("strides", choice);
        for seed in 0..10 {
            let call = super::call(row, &mut crate::random::Random::new(seed), Some(&wish));
            assert!(wish.is_fulfilled_by(&call));
        }
    }
}
