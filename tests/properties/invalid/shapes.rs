//! Shapes that do not fit to each other, and outputs that would be too large.

use super::{How, Spoilt, with_operand};
use crate::call::{Call, Operand};
use crate::tensor::Tensor;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::{DataType, OperandId};

pub fn all(call: &Call) -> Vec<Spoilt> {
    let mut spoilt = Vec::new();
    for limits in call.row.operands {
        for axis in fixed(call, limits.name) {
            let call = with_operand(call, limits.name, |tensor| tensor.shape[axis] += 1);
            spoilt.push(Spoilt { call, how: How::Shape(limits.name, "a size that does not fit") });
        }
    }
    for (shapes, why) in of_operands(call) {
        let call = shapes
            .iter()
            .fold(call.clone(), |call, (field, shape)| with_operand(&call, field, |tensor| tensor.shape = shape.clone()));
        spoilt.push(Spoilt { call, how: How::Shape(shapes[0].0, why) });
    }
    spoilt.extend(concat(call));
    spoilt.extend(too_large(call));
    spoilt
}

/// The dimensions of an operand of which none may be larger alone.
fn fixed(call: &Call, field: &str) -> Vec<usize> {
    let Some(tensor) = call.optional(field) else { return vec![] };
    let all = || (0..tensor.rank()).collect();
    let axis = || call.unsigned("axis").unwrap_or(0);
    match (call.row.name, field) {
        (name, "mean" | "variance" | "scale" | "bias") if name.ends_with("Normalization") => all(),
        ("conv2d" | "convTranspose2d", "bias") => all(),
        ("conv2d", "filter") => channels(call, "filter_layout", "oihw", 'i'),
        ("convTranspose2d", "filter") => channels(call, "filter_layout", "iohw", 'i'),
        ("gatherElements" | "scatterElements", "indices") => (0..tensor.rank()).filter(|&i| i != axis()).collect(),
        ("scatterElements" | "scatterND" | "accumulateElements" | "accumulateND", "updates") => all(),
        // The indices may be smaller than the input.
        ("accumulateElements", "indices") => {
            let input = &call.operand("input").shape;
            (0..tensor.rank()).filter(|&i| i != axis() && tensor.shape[i] == input[i]).collect()
        }
        ("gru" | "gruCell" | "lstm" | "lstmCell", "input") => vec![0, tensor.rank() - 1],
        ("gru" | "gruCell" | "lstm" | "lstmCell", _) => all(),
        ("quantizeLinear" | "dequantizeLinear", "scale" | "zero_point") => all(),
        ("blockQuantizedMatmul", "weights" | "zero_points" | "code_book" | "bias") => all(),
        ("quantizedLstm", "gates") => vec![1, 3],
        ("quantizedLstm", _) => all(),
        ("treeEnsemble", "nodes" | "thresholds" | "leaves" | "weights") => all(),
        ("pairwiseCoupling", "input") | ("roiMaxPool", "regions") => vec![1],
        ("matmul" | "integerMatmul" | "quantizedMatmul", "a") => vec![tensor.rank() - 1],
        ("matmul" | "integerMatmul" | "quantizedMatmul", "b") => vec![tensor.rank() - 2],
        ("expertMatmul", "weights" | "experts" | "zero_points") => all(),
        ("linearAttention", "value") => all(),
        ("linearAttention", "state") => vec![0, 1, 3],
        ("linearAttention", _) => vec![0, 1],
        ("determinant" | "inverse", "input") => vec![tensor.rank() - 2, tensor.rank() - 1],
        ("gemm", "a") => vec![if call.boolean("a_transpose", false) { 0 } else { 1 }],
        ("gemm", "b") => vec![if call.boolean("b_transpose", false) { 1 } else { 0 }],
        // One more is neither the size nor 1, unless it is 1 and becomes the other's 2.
        ("gemm", "c") | ("quantizedMatmul", "a_zero_point" | "b_zero_point") => {
            (0..tensor.rank()).filter(|&i| tensor.shape[i] > 1).collect()
        }
        _ => vec![],
    }
}

fn channels(call: &Call, field: &str, default: &'static str, letter: char) -> Vec<usize> {
    call.enumeration(field, default).find(letter).into_iter().collect()
}

/// As many elements as a tensor can have: 2^31 - 1, in 2^32 - 1 bytes.
pub fn most_elements(data_type: DataType) -> usize {
    ((u32::MAX as usize) * 8 / data_type.bits()).min(i32::MAX as usize)
}

type Shapes = Vec<(&'static str, Vec<usize>)>;

/// Shapes of several operands.
#[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
fn of_operands(call: &Call) -> Vec<(Shapes, &'static str)> {
    let shape = |field: &str| call.operand(field).shape.clone();
    let fields: Vec<&'static str> = call.row.operands.iter().map(|limits| limits.name).collect();
    match call.row.name {
        "add" | "sub" | "mul" | "div" | "max" | "min" | "pow" | "prelu" | "equal" | "notEqual" | "greater" | "greaterOrEqual"
        | "lesser" | "lesserOrEqual" | "logicalAnd" | "logicalOr" | "logicalXor" | "where" | "truncatedRemainder"
        | "flooredRemainder" => {
            let mut refused = Vec::new();
            // Each pair of operands with sizes that are neither equal nor 1, at the end, in front, and in between.
            for (i, &a) in fields.iter().enumerate() {
                for &b in &fields[i + 1..] {
                    for (left, right) in [(vec![2], vec![3]), (vec![2, 5], vec![5, 3, 5]), (vec![4, 1, 2], vec![3, 1, 2])] {
                        let mut shapes: Shapes = fields.iter().map(|field| (*field, vec![1])).collect();
                        shapes.retain(|(field, _)| *field != a && *field != b);
                        shapes.extend([(a, left.clone()), (b, right.clone())]);
                        refused.push((shapes, "sizes that are not broadcast"));
                        let mut shapes: Shapes = fields.iter().map(|field| (*field, vec![1])).collect();
                        shapes.retain(|(field, _)| *field != a && *field != b);
                        shapes.extend([(a, vec![1 << 16, 1]), (b, vec![1, 1 << 16])]);
                        refused.push((shapes, "an output that is too large"));
                    }
                }
            }
            refused
        }
        "matmul" | "integerMatmul" | "quantizedMatmul" => vec![
            (vec![("a", vec![2, 1, 1]), ("b", vec![3, 1, 1])], "sizes that are not broadcast"),
            (vec![("a", vec![1 << 16, 1]), ("b", vec![1, 1 << 16])], "an output that is too large"),
            (vec![("a", vec![1 << 11, 1, 1, 1]), ("b", vec![1 << 11, 1, 1 << 10])], "an output that is too large"),
        ],
        "gemm" if call.boolean("a_transpose", false) || call.boolean("b_transpose", false) => vec![],
        "gemm" => vec![(vec![("a", vec![1 << 20, 1 << 5]), ("b", vec![1 << 5, 1 << 20])], "an output that is too large")],
        "gather" => {
            let rank = call.operand("input").rank();
            let mut refused = vec![(
                vec![("input", vec![1 << 9; rank.min(3)]), ("indices", vec![1 << 9, 1 << 9, 1 << 9])],
                "an output that is too large",
            )];
            // Without an axis it is 0: the other dimensions stay.
            refused.extend((rank < 2).then(|| (vec![("input", vec![2; 2]), ("indices", vec![1; 8])], "an output of rank 9")));
            refused.retain(|(shapes, _)| shapes[0].1.len() > 1);
            refused.retain(|(shapes, _)| call.unsigned("axis").unwrap_or(0) < shapes[0].1.len());
            refused
        }
        "gatherND" => vec![
            (vec![("input", vec![2; 3]), ("indices", vec![1, 4])], "coordinates that are too long"),
            (vec![("input", vec![2; 3]), ("indices", vec![1 << 28])], "coordinates that are far too long"),
            (vec![("input", vec![2; 8]), ("indices", vec![1, 1, 1])], "an output of rank 9"),
            (vec![("input", vec![2, 1 << 20]), ("indices", vec![1 << 20, 1])], "an output that is too large"),
        ],
        "scatterND" | "accumulateND" => vec![
            (vec![("input", vec![2; 3]), ("indices", vec![1, 4]), ("updates", vec![1])], "coordinates that are too long"),
            (vec![("input", vec![2; 3]), ("indices", vec![5, 2]), ("updates", vec![5])], "updates of a wrong rank"),
            (
                vec![("input", vec![2; 8]), ("indices", vec![1, 1, 1]), ("updates", vec![1, 1, 2, 2, 2, 2, 2])],
                "slices of a wrong rank",
            ),
        ],
        "dequantizeLinear" | "quantizeLinear" => vec![
            (vec![("input", vec![4, 6]), ("scale", vec![3, 2]), ("zero_point", vec![3, 2])], "blocks that do not divide"),
            (vec![("input", vec![4, 6]), ("scale", vec![8, 6]), ("zero_point", vec![8, 6])], "scales that are too many"),
            (
                vec![("input", vec![4, 6]), ("scale", vec![2, 2]), ("zero_point", vec![4, 2])],
                "scales and zero points that differ",
            ),
            (vec![("input", vec![4, 6]), ("scale", vec![1, 4, 6]), ("zero_point", vec![1, 4, 6])], "ranks that differ"),
        ],
        "layerNormalization" | "rmsNormalization" => ["scale", "bias"]
            .into_iter()
            .filter(|field| fields.contains(field))
            .filter(|field| call.optional(field).is_some_and(|tensor| tensor.rank() < 8))
            .map(|field| (vec![(field, [shape(field).as_slice(), &[1]].concat())], "a rank that is not the number of axes"))
            .collect(),
        "tile" => {
            let rank = shape("input").len();
            let repeats = call.list("repetitions").expect("an argument");
            let most = most_elements(call.operand("input").data_type);
            let huge = repeats.iter().map(|times| if *times > 1 { most } else { 1 }).collect::<Vec<usize>>();
            let fits = huge.iter().filter(|size| **size > 1).count() == 1 && rank > 0;
            if fits && repeats.iter().max() > Some(&1) {
                vec![(vec![("input", huge)], "an output that is too large")]
            } else {
                vec![]
            }
        }
        _ => vec![],
    }
    .into_iter()
    .filter(|(shapes, _)| shapes.iter().all(|(field, _)| call.optional(field).is_some()))
    .collect()
}

fn concat(call: &Call) -> Vec<Spoilt> {
    if call.row.name != "concat" {
        return vec![];
    }
    let first = call.operand("inputs");
    let axis = call.unsigned("axis").expect("an argument");
    let mut others = Vec::new();
    for other in 0..first.rank() {
        let mut shape = first.shape.clone();
        shape[other] = if other == axis { most_elements(first.data_type) } else { shape[other] + 1 };
        others.push((shape, first.data_type, if other == axis { "a sum that is too large" } else { "a size that differs" }));
    }
    // A size that a tensor just has needs the others to be 1.
    others.retain(|(shape, ..)| shape.iter().product::<usize>() <= most_elements(first.data_type));
    others.push(([first.shape.as_slice(), &[1]].concat(), first.data_type, "a rank that differs"));
    let other_type = crate::wish::types(call.row, &call.row.operands[0]).into_iter().find(|t| *t != first.data_type);
    others.push((first.shape.clone(), other_type.expect("there are several"), "a data type that differs"));
    others.retain(|(shape, ..)| shape.len() <= 8);
    others
        .into_iter()
        .map(|(shape, data_type, why)| {
            let mut call = call.clone();
            call.operands.push(Operand { tensor: Tensor { data_type, shape, elements: vec![] }, is_constant: false });
            let Value::Operands(ids) = call.value("inputs") else { panic!("inputs are a list") };
            let ids = [ids.as_slice(), &[OperandId(call.operands.len() as u32 - 1)]].concat();
            call.set("inputs", Value::Operands(ids));
            Spoilt { call, how: How::Shape("inputs", why) }
        })
        .collect()
}

/// Calls of which only the size of the output is wrong.
fn too_large(call: &Call) -> Vec<Spoilt> {
    let list = |list: &[u32]| Value::UnsignedList(list.to_vec());
    let mut large = call.clone();
    let changes: Vec<(&str, Value)> = match call.row.name {
        // Every dimension is valid, their product is not.
        "resample2d" => {
            large = with_operand(&large, "input", |tensor| tensor.shape = vec![1; 4]);
            vec![("sizes", list(&[1 << 16, 1 << 16]))]
        }
        "averagePool2d" | "l2Pool2d" | "maxPool2d" | "normPool2d" => {
            large = with_operand(&large, "input", |tensor| tensor.shape = vec![1; 4]);
            vec![
                ("padding", list(&[1 << 16, 0, 1 << 16, 0])),
                ("window_dimensions", list(&[1, 1])),
                ("strides", Value::Absent),
                ("output_sizes", Value::Absent),
            ]
        }
        "pad" if call.operand("input").rank() > 1 => {
            let mut padding = vec![0; call.operand("input").rank()];
            padding[0] = 1 << 16;
            padding[1] = 1 << 16;
            vec![("beginning_padding", list(&padding)), ("mode", Value::Absent)]
        }
        "gru" | "lstm" | "gruCell" | "lstmCell" | "conv2d" | "convTranspose2d" => return too_large_by_shape(call),
        _ => return vec![],
    };
    changes.iter().for_each(|(field, value)| large.set(field, value.clone()));
    vec![Spoilt { call: large, how: How::Shape("input", "an output that is too large") }]
}

fn too_large_by_shape(call: &Call) -> Vec<Spoilt> {
    let list = |list: &[u32]| Value::UnsignedList(list.to_vec());
    let mut large = call.clone();
    let changes: Vec<(&str, Value)> = match call.row.name {
        "conv2d" | "convTranspose2d" => {
            large.set("bias", Value::Absent);
            large.set("groups", Value::Absent);
            large = with_operand(&large, "input", |tensor| tensor.shape = vec![1; 4]);
            large = with_operand(&large, "filter", |tensor| tensor.shape = vec![1; 4]);
            if call.row.name == "conv2d" {
                vec![("padding", list(&[1 << 16, 0, 1 << 16, 0])), ("strides", Value::Absent)]
            } else {
                vec![
                    ("strides", list(&[1 << 20, 1 << 20])),
                    ("output_padding", list(&[1 << 16, 1 << 16])),
                    ("output_sizes", Value::Absent),
                    ("padding", Value::Absent),
                ]
            }
        }
        // The states of a large batch of small inputs. Without a state to start from its size is the first problem.
        _ => {
            let hidden = call.unsigned("hidden_size").expect("an argument");
            let directions = if call.row.name.ends_with("Cell") { 1 } else { call.operand("weight").shape[0] };
            let input = call.operand("input");
            let batch = most_elements(input.data_type) / (hidden * directions) + 1;
            if call.row.name.ends_with("Cell") || hidden * directions == 1 || input.shape[2] >= hidden * directions {
                return vec![];
            }
            large.set("initial_hidden_state", Value::Absent);
            if call.row.name == "lstm" {
                large.set("initial_cell_state", Value::Absent);
            }
            if input.shape[0] * batch * input.shape[2] > most_elements(input.data_type) {
                return vec![];
            }
            large = with_operand(&large, "input", |tensor| tensor.shape[1] = batch);
            vec![]
        }
    };
    changes.iter().for_each(|(field, value)| large.set(field, value.clone()));
    vec![Spoilt { call: large, how: How::Shape("input", "an output that is too large") }]
}
