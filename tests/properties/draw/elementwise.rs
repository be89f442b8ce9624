//! Operators that work element by element.

use super::{Contents, Draw};
use crate::wish::Wish;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::{DataType, Number, OperandId};

pub fn unary(draw: &mut Draw<'_>) {
    let field = draw.row.operands[0].name;
    let rank = draw.rank(field);
    let shape = draw.shape(rank);
    draw.operand(field, &shape, Contents::Anything);
}

/// Any number of operands that are broadcast to each other.
pub fn broadcast(draw: &mut Draw<'_>) {
    let ranks: Vec<usize> = draw.row.operands.iter().map(|limits| draw.rank(limits.name)).collect();
    let shape = draw.shape(*ranks.iter().max().expect("there are operands"));
    for (limits, rank) in draw.row.operands.iter().zip(ranks) {
        let shape = stretchable(draw, &shape[shape.len() - rank..]);
        // Infinity times zero is none of prelu's concerns.
        let contents = if limits.name == "slope" { Contents::Finite } else { Contents::Anything };
        draw.operand(limits.name, &shape, contents);
    }
    // Now and then one operand is both.
    if draw.row.name != "where" && draw.row.operands[1].name == "b" && draw.random.once_in(16) {
        draw.set("b", Value::Operand(OperandId(0)));
    }
}

/// A shape with some sizes replaced by 1, or with none.
pub fn stretchable(draw: &mut Draw<'_>, shape: &[usize]) -> Vec<usize> {
    let often = draw.random.pick(&[1, 2, 4, 1000]);
    shape.iter().map(|&size| if draw.random.once_in(often) { 1 } else { size }).collect()
}

/// A lower bound that is not above the upper one.
pub fn clamp(draw: &mut Draw<'_>) {
    unary(draw);
    let bounds = [
        Number::Integer(i128::MIN),
        Number::Integer(-200),
        Number::Double(-2.5),
        Number::Double(-0.1),
        Number::Integer(0),
        Number::Double(0.1),
        Number::Double(2.5),
        Number::Integer(100),
        Number::Integer((1 << 53) + 1),
        Number::Double(f64::INFINITY),
    ];
    let (a, b) = (draw.random.below(bounds.len()), draw.random.below(bounds.len()));
    for (field, bound) in [("min_value", a.min(b)), ("max_value", a.max(b))] {
        let value = if draw.is_given(field) { Value::Number(bounds[bound]) } else { Value::Absent };
        draw.set(field, value);
    }
}

/// Scales and zero points of blocks.
pub fn quantization(draw: &mut Draw<'_>) {
    let rank = ["input", "scale", "zero_point"].iter().find_map(|field| draw.wished_rank(field));
    let rank = rank.unwrap_or_else(|| draw.random.between(0, 8));
    let blocks = draw.shape(rank);
    let most = if blocks.iter().product::<usize>() > 200 { 1 } else { 3 };
    let shape: Vec<usize> = blocks.iter().map(|size| size * draw.random.between(1, most).min(2)).collect();
    let contents = if draw.data_type("input").is_float() { Contents::Anything } else { Contents::Finite };
    draw.operand("input", &shape, contents);
    draw.operand("scale", &blocks, Contents::Positive);
    draw.operand("zero_point", &blocks, Contents::Anything);
}

#[test]
fn wished_types_are_drawn_for_what_shares_them() {
    let row = webnn_node::graph::ops::operator("add").unwrap();
    let wish = Wish::Type("b", DataType::Uint64);
    let call = super::call(row, &mut crate::random::Random::new(1), Some(&wish));
    assert_eq!(call.operand("a").data_type, DataType::Uint64);
}
