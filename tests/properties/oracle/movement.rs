//! Operators that move elements: each output element is one of the input, or a constant. All are exact.

use super::number::cast;
use super::{by_position, stretched, with};
use crate::call::Call;
use crate::compare::{Element, Expected};
use crate::tensor::Tensor;
use webnn_node::graph::Number;

pub fn output(call: &Call) -> Expected {
    match call.row.name {
        "concat" => return concat(call),
        "pad" => return pad(call),
        "triangular" => return triangular(call),
        "reshape" => {
            let input = call.operand("input");
            let elements = input.elements.iter().map(|element| Element::Exactly(*element)).collect();
            return Expected { data_type: input.data_type, shape: list(call, "new_shape"), elements };
        }
        _ => {}
    }
    let input = call.operand("input");
    let shape = &input.shape;
    let rank = input.rank();
    let moved = |shape: Vec<usize>, source: &dyn Fn(usize, &[usize]) -> usize| {
        by_position(input.data_type, shape, |position| {
            let source: Vec<usize> = (0..rank).map(|axis| source(axis, position)).collect();
            Element::Exactly(input.at(&source))
        })
    };
    match call.row.name {
        "expand" => moved(list(call, "new_shape"), &|axis, position| stretched(shape, position)[axis]),
        "reverse" => {
            let axes = call.list("axes").unwrap_or((0..rank).collect());
            let at = |axis: usize, position: &[usize]| match axes.contains(&axis) {
                true => shape[axis] - 1 - position[axis],
                false => position[axis],
            };
            moved(shape.clone(), &at)
        }
        "slice" => {
            let (starts, sizes) = (list(call, "starts"), list(call, "sizes"));
            let strides = call.list("strides").unwrap_or(vec![1; rank]);
            let output = sizes.iter().zip(&strides).map(|(size, stride)| size.div_ceil(*stride)).collect();
            moved(output, &|axis, position| starts[axis] + position[axis] * strides[axis])
        }
        "tile" => {
            let output = shape.iter().zip(list(call, "repetitions")).map(|(size, times)| size * times).collect();
            moved(output, &|axis, position| position[axis] % shape[axis])
        }
        "transpose" => {
            let permutation = call.list("permutation").unwrap_or((0..rank).rev().collect());
            let output = permutation.iter().map(|&axis| shape[axis]).collect();
            let place = |axis: usize| permutation.iter().position(|&from| from == axis).expect("it is a permutation");
            moved(output, &|axis, position| position[place(axis)])
        }
        name => panic!("the oracle lacks {name}"),
    }
}

fn list(call: &Call, field: &str) -> Vec<usize> {
    call.list(field).expect("the list is an argument")
}

fn concat(call: &Call) -> Expected {
    let inputs = call.operand_list("inputs");
    let axis = call.unsigned("axis").expect("an axis");
    let mut shape = inputs[0].shape.clone();
    shape[axis] = inputs.iter().map(|input| input.shape[axis]).sum();
    by_position(inputs[0].data_type, shape, |position| {
        let mut i = position[axis];
        for input in &inputs {
            if i < input.shape[axis] {
                return Element::Exactly(input.at(&with(position, axis, i)));
            }
            i -= input.shape[axis];
        }
        panic!("the inputs end before {position:?}")
    })
}

fn pad(call: &Call) -> Expected {
    let input = call.operand("input");
    let (beginning, ending) = (list(call, "beginning_padding"), list(call, "ending_padding"));
    let mode = call.enumeration("mode", "constant");
    let value = cast(input.data_type, call.number("value").unwrap_or(Number::Integer(0)));
    let shape = (0..input.rank()).map(|axis| beginning[axis] + input.shape[axis] + ending[axis]).collect();
    by_position(input.data_type, shape, |position| {
        let mut source = Vec::new();
        for (axis, &i) in position.iter().enumerate() {
            let (i, last) = (i as i64 - beginning[axis] as i64, input.shape[axis] as i64 - 1);
            source.push(match mode {
                "constant" if i < 0 || i > last => return Element::Exactly(value),
                "constant" => i,
                "edge" => i.clamp(0, last),
                "reflection" => {
                    if i < 0 {
                        -i
                    } else if i > last {
                        2 * last - i
                    } else {
                        i
                    }
                }
                mode => panic!("{mode}"),
            } as usize);
        }
        Element::Exactly(input.at(&source))
    })
}

fn triangular(call: &Call) -> Expected {
    let input = call.operand("input");
    let upper = call.boolean("upper", true);
    let diagonal = call.signed("diagonal").unwrap_or(0);
    by_position(input.data_type, input.shape.clone(), |position| {
        let [.., row, column] = position else { panic!("it has rows and columns") };
        let above = *column as i64 - *row as i64;
        let kept = if upper { above >= diagonal } else { above <= diagonal };
        Element::Exactly(if kept { input.at(position) } else { cast(input.data_type, Number::Integer(0)) })
    })
}

pub fn split(call: &Call) -> Vec<Expected> {
    let input = call.operand("input");
    let axis = call.unsigned("axis").unwrap_or(0);
    let size = input.shape[axis];
    let sizes = match (call.unsigned("splits"), call.list("splits")) {
        (Some(count), _) => vec![size / count; count],
        (None, sizes) => sizes.expect("a number or a list"),
    };
    let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
    starts.zip(&sizes).map(|(start, size)| part(input, axis, start, *size)).collect()
}

fn part(input: &Tensor, axis: usize, start: usize, size: usize) -> Expected {
    by_position(input.data_type, with(&input.shape, axis, size), |position| {
        Element::Exactly(input.at(&with(position, axis, start + position[axis])))
    })
}
