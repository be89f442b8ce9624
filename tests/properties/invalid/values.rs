//! Values that method steps refuse.

use super::{How, Spoilt};
use crate::call::Call;
use crate::compare::Expected;
use crate::oracle;
use webnn_node::graph::attribute::Value;
use webnn_node::graph::{DataType, Number, OperandId};

pub fn all(call: &Call) -> Vec<Spoilt> {
    let mut spoilt = Vec::new();
    for member in super::refusable(call.row) {
        for (value, why) in of(call, member.field) {
            let mut call = call.clone();
            call.set(member.field, value);
            spoilt.push(Spoilt { call, how: How::Value(member.field, why) });
        }
    }
    spoilt.extend(in_two_places(call));
    spoilt
}

type Refused = Vec<(Value, &'static str)>;

fn list(list: &[usize]) -> Value {
    Value::UnsignedList(list.iter().map(|&value| value as u32).collect())
}

const HUGE: usize = u32::MAX as usize;

/// Lists of a wrong length, made of a number that is right elsewhere.
fn lengths(right: usize, number: usize) -> Refused {
    (0..=right + 2).filter(|&length| length != right).map(|length| (list(&vec![number; length]), "a wrong length")).collect()
}

/// Lists with a number at each place of others.
fn at_each_place(right: usize, other: usize, number: usize, why: &'static str) -> Refused {
    let place = |place: usize| (0..right).map(|i| if i == place { number } else { other }).collect::<Vec<_>>();
    (0..right).map(|i| (list(&place(i)), why)).collect()
}

/// Lists of axes: each at most once, and below the rank.
fn axes(rank: usize) -> Refused {
    let mut refused =
        vec![(list(&[rank]), "an axis that is the rank"), (list(&[HUGE]), "a huge axis"), (list(&[0; 100_000]), "a huge list")];
    if rank > 0 {
        refused.push((list(&[rank - 1, rank - 1]), "an axis twice"));
    }
    if rank > 1 {
        refused.push((list(&[1, 0, 1]), "an axis twice, not beside each other"));
    }
    refused
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
fn of(call: &Call, field: &'static str) -> Refused {
    let name = call.row.name;
    let first = call.row.operands[0].name;
    let shape = call.operand(first).shape.clone();
    let rank = shape.len();
    match (name, field) {
        (_, "axis") => [rank, rank + 1, HUGE].map(|axis| (Value::Unsigned(axis as u32), "no axis of the input")).to_vec(),
        ("resample2d", "axes") => {
            let mut refused = axes(4);
            refused.extend(lengths(2, 1));
            refused.push((list(&[4, 0]), "an axis that is the rank"));
            refused
        }
        (_, "axes") => axes(rank),
        ("topK", "count") => {
            let size = shape[call.unsigned("axis").expect("an argument")];
            [0, size + 1, HUGE].map(|count| (Value::Unsigned(count as u32), "no number of elements of a line")).to_vec()
        }
        ("pairwiseCoupling", "classes") => {
            let classes = call.unsigned(field).expect("an argument");
            [0, 1, classes + 1, 257, HUGE]
                .map(|number| (Value::Unsigned(number as u32), "other classes than of the pairs"))
                .to_vec()
        }
        ("blockQuantizedMatmul" | "expertMatmul", "bits") => {
            [0, 1, 5, 32, HUGE].map(|bits| (Value::Unsigned(bits as u32), "other bits")).to_vec()
        }
        ("blockQuantizedMatmul", "block_size") => {
            [0, HUGE].map(|size| (Value::Unsigned(size as u32), "no size of a block")).to_vec()
        }
        ("normPool2d", "order") => [0, 65, HUGE].map(|order| (Value::Unsigned(order as u32), "no order of a norm")).to_vec(),
        ("linearAttention", "states") => vec![(Value::Unsigned(0), "no states")],
        ("treeEnsemble", "targets") => [0, HUGE].map(|number| (Value::Unsigned(number as u32), "no number of targets")).to_vec(),
        ("treeEnsemble", "depth") => {
            let nodes = call.operand("nodes").shape[0];
            [nodes + 1, HUGE].map(|depth| (Value::Unsigned(depth as u32), "a way through more nodes than there are")).to_vec()
        }
        ("roiMaxPool", "sizes") => {
            let mut refused = lengths(2, 1);
            refused.extend(at_each_place(2, 1, 0, "no parts"));
            refused.extend(at_each_place(2, 1, HUGE, "too many parts"));
            refused
        }
        ("checkIndices", "sizes") => {
            let mut refused = lengths(if rank > 0 { shape[rank - 1] } else { 1 }, 0);
            refused.extend(at_each_place(1, 1, 0, "a size of 0"));
            refused
        }
        ("bitcast", "data_type") => {
            let bits = call.operand("input").data_type.bits();
            let others = DataType::ALL.into_iter().filter(|data_type| data_type.bits() != bits);
            others.map(|data_type| (Value::Enumeration(data_type as u32), "another number of bits")).collect()
        }
        ("transpose", "permutation") => {
            let mut refused = lengths(rank, 0);
            refused.extend((rank > 0).then(|| (list(&vec![rank; rank]), "no axis of the input")));
            refused.extend((rank > 1).then(|| (list(&vec![0; rank]), "an axis twice")));
            refused
        }
        (_, "padding") => {
            let mut refused = lengths(4, 0);
            refused.extend(enormous_padding(call));
            refused
        }
        ("slice", "strides") => {
            let mut refused = lengths(rank, 1);
            refused.extend(at_each_place(rank, 1, 0, "a stride of 0"));
            refused
        }
        (_, "strides" | "dilations" | "window_dimensions") => {
            let mut refused = lengths(2, 1);
            refused.extend(at_each_place(2, 1, 0, "a zero"));
            if field != "strides" && (field == "window_dimensions" || name == "conv2d") && spans(call, field) {
                refused.extend(at_each_place(2, 1, HUGE, "a window that does not fit"));
            }
            refused
        }
        ("convTranspose2d", "output_padding") => lengths(2, 0),
        ("resample2d", "scales") => scales(call),
        ("resample2d", "sizes") => {
            let mut refused = lengths(2, 1);
            refused.extend(at_each_place(2, 1, 0, "a size of 0"));
            refused.extend(at_each_place(2, 1, HUGE, "a size that is no dimension"));
            refused
        }
        (_, "output_sizes") => {
            let mut refused = lengths(2, 1);
            refused.extend(at_each_place(2, 1, 0, "a size of 0"));
            refused.extend(at_each_place(2, 1, HUGE, "a huge size"));
            refused
        }
        ("conv2d", "groups") => {
            let layout = call.enumeration("input_layout", "nchw");
            let channels = shape[if layout == "nchw" { 1 } else { 3 }];
            [0, channels + 1, HUGE].map(|groups| (Value::Unsigned(groups as u32), "no divisor of the channels")).to_vec()
        }
        (_, "groups") => [0, HUGE].map(|groups| (Value::Unsigned(groups as u32), "no number of groups")).to_vec(),
        (_, "steps") => {
            let steps = shape[0];
            [0, steps + 1, HUGE].map(|steps| (Value::Unsigned(steps as u32), "not the input's steps")).to_vec()
        }
        (_, "hidden_size") => {
            let size = call.unsigned(field).expect("an argument");
            // Four gates of the third size are right modulo 2³².
            [0, size + 1, size + (1 << 30), HUGE]
                .map(|size| (Value::Unsigned(size as u32), "not the size of the weights"))
                .to_vec()
        }
        (_, "activations") => {
            let right = if name.to_lowercase().ends_with("lstm") || name == "lstmCell" { 3 } else { 2 };
            let lengths = (0..right + 2).filter(|&length| length != right);
            lengths.map(|length| (Value::EnumerationList(vec![0; length]), "a wrong length")).collect()
        }
        ("concat", "inputs") => {
            let Value::Operands(ids) = call.value("inputs") else { panic!("inputs are a list") };
            vec![
                (Value::Operands(vec![]), "no inputs"),
                (Value::Operands(vec![ids[0]; 8193]), "too many inputs"),
                (Value::Operands(vec![OperandId(u32::MAX); 100_000]), "very many foreign inputs"),
            ]
        }
        ("expand" | "reshape", "new_shape") => new_shapes(call, &shape),
        ("pad", _) if field.ends_with("_padding") => {
            let mut refused = lengths(rank, 0);
            refused.extend(at_each_place(rank, 0, HUGE, "an output that is too large"));
            refused.extend(at_each_place(rank, 0, i32::MAX as usize, "an output that is just too large"));
            refused
        }
        ("slice", "starts") => {
            let mut refused = lengths(rank, 0);
            for (axis, &size) in shape.iter().enumerate() {
                for start in [size, HUGE] {
                    let starts: Vec<usize> = (0..rank).map(|i| if i == axis { start } else { 0 }).collect();
                    refused.push((list(&starts), "a start outside of the input"));
                }
            }
            refused
        }
        ("slice", "sizes") => {
            let mut refused = lengths(rank, 1);
            refused.extend(at_each_place(rank, 1, 0, "a size of 0"));
            refused.extend(at_each_place(rank, 1, HUGE, "a size beyond the input"));
            for (axis, &size) in shape.iter().enumerate() {
                let sizes: Vec<usize> = (0..rank).map(|i| if i == axis { size + 1 } else { 1 }).collect();
                refused.push((list(&sizes), "a size just beyond the input"));
            }
            refused
        }
        ("split", "splits") => {
            let size = shape[call.unsigned("axis").unwrap_or(0)];
            let mut refused = vec![
                (Value::Unsigned(0), "no parts"),
                (Value::Unsigned(size as u32 + 1), "no divisor"),
                (Value::Unsigned(8193), "too many parts"),
                (Value::Unsigned(u32::MAX), "far too many parts"),
                (list(&[]), "no parts"),
                (list(&[size, 0]), "an empty part"),
                (list(&[size + 1]), "parts that are too large"),
                (list(&[HUGE, size, 1]), "parts that have the right sum modulo 2³²"),
                (list(&[1; 8193]), "too many parts"),
            ];
            refused.extend((size > 1).then(|| (list(&[size - 1]), "parts that are too small")));
            refused
        }
        ("tile", "repetitions") => {
            let mut refused = lengths(rank, 1);
            refused.extend(at_each_place(rank, 1, 0, "no repetition"));
            refused.extend(at_each_place(rank, 1, HUGE, "an output that is too large"));
            refused
        }
        ("clamp", _) => vec![],
        (_, "data_type" | "output_data_type") => DataType::ALL
            .iter()
            .filter(|&&data_type| {
                let four_bits = matches!(data_type, DataType::Int4 | DataType::Uint4);
                let position = matches!(data_type, DataType::Int32 | DataType::Int64);
                if name == "cast" { four_bits } else { !position }
            })
            .map(|&data_type| (Value::Enumeration(data_type as u32), "a type that is not allowed"))
            .collect(),
        _ => panic!("nothing is known to be wrong with {field} of {name}"),
    }
}

/// Paddings that leave nothing of an output, or make it too large: two of them, since strides divide by up to 3.
fn enormous_padding(call: &Call) -> Refused {
    match call.row.name {
        "convTranspose2d" => at_each_place(4, 0, HUGE, "nothing of the output is left"),
        _ => [[HUGE, HUGE, 0, 0], [0, 0, HUGE, HUGE]].map(|padding| (list(&padding), "an output that is too large")).to_vec(),
    }
}

/// Whether a window is made larger by an option: dilations only when it has more than one row and column.
fn spans(call: &Call, field: &str) -> bool {
    match field {
        "dilations" => {
            let filter = call.operand("filter").shape.clone();
            let places = match call.enumeration("filter_layout", "oihw") {
                "oihw" => [2, 3],
                "hwio" => [0, 1],
                _ => [1, 2],
            };
            places.iter().all(|&place| filter[place] > 1)
        }
        _ => true,
    }
}

fn scales(call: &Call) -> Refused {
    let floats = |list: &[f32]| Value::FloatList(list.to_vec());
    let mut refused = vec![
        (floats(&[]), "a wrong length"),
        (floats(&[1.0]), "a wrong length"),
        (floats(&[1.0; 3]), "a wrong length"),
        (floats(&[0.0, 1.0]), "a scale of 0"),
        (floats(&[1.0, -0.0]), "a scale of 0"),
        (floats(&[-1.0, 1.0]), "a negative scale"),
        (floats(&[1.0, f32::NEG_INFINITY]), "a negative scale"),
    ];
    if call.value("sizes") == &Value::Absent {
        refused.extend([
            (floats(&[1e-9, 1.0]), "a scale that leaves nothing"),
            (floats(&[1.0, f32::from_bits(1)]), "a scale that leaves nothing"),
            (floats(&[3e9, 1.0]), "a scale that is too large"),
            (floats(&[1.0, f32::INFINITY]), "an infinite scale"),
            (floats(&[1.0, f32::NAN]), "a scale that is no number"),
        ]);
    }
    refused
}

fn new_shapes(call: &Call, shape: &[usize]) -> Refused {
    let count: usize = shape.iter().product();
    let beside = |sizes: &[usize]| [sizes, shape].concat();
    let mut refused = vec![
        (list(&beside(&vec![1; 9 - shape.len()])), "a rank that is too high"),
        (list(&[1; 1000]), "a rank that is far too high"),
        (list(&[0]), "a size of 0"),
        (list(&[HUGE]), "a size that is no dimension"),
        // 2⁶⁴ and 2⁶⁴ + 2³²: products that overflow.
        (list(&[1 << 16; 4]), "an element count that overflows"),
        (list(&[1 << 31, 1 << 31, 4]), "an element count that overflows"),
        (list(&[46341, 46341]), "an element count that is just too large"),
    ];
    if call.row.name == "reshape" {
        refused.push((list(&[count + 1]), "another number of elements"));
        refused.push((list(&[count, 2]), "another number of elements"));
        refused.push((list(&[count, 0]), "a size of 0"));
        // The right number modulo 2³².
        refused.extend((count == 1).then(|| (list(&[641, 6_700_417]), "another number of elements")));
        return refused;
    }
    refused.extend((!shape.is_empty()).then(|| (list(&shape[1..]), "a rank that is too low")));
    for (axis, &size) in shape.iter().enumerate() {
        let mut other = shape.to_vec();
        other[axis] = if size == 1 { 0 } else { 1 };
        refused.push((list(&other), "a size that is not stretched to"));
        other[axis] = size * 2;
        refused.extend((size > 1).then(|| (list(&other), "a size that is not stretched to")));
    }
    refused
}

/// Values that are wrong together.
fn in_two_places(call: &Call) -> Vec<Spoilt> {
    let mut spoilt = Vec::new();
    let mut add = |field: &'static str, why: &'static str, changes: &[(&str, Value)]| {
        let mut call = call.clone();
        changes.iter().for_each(|(field, value)| call.set(field, value.clone()));
        spoilt.push(Spoilt { call, how: How::Value(field, why) });
    };
    match call.row.name {
        "clamp" => {
            for (min, max) in [(2.0, 1.0), (f64::INFINITY, 0.0), (100.0, f64::NEG_INFINITY)] {
                let bounds =
                    [("min_value", Value::Number(Number::Double(min))), ("max_value", Value::Number(Number::Double(max)))];
                add("min_value", "above maxValue", &bounds);
                add("max_value", "below minValue", &bounds);
            }
            if matches!(call.operand("input").data_type, DataType::Int64 | DataType::Uint64) {
                // As doubles they are equal.
                let number = |x: i128| Value::Number(Number::Integer(x));
                let bounds = [("min_value", number((1 << 53) + 1)), ("max_value", number(1 << 53))];
                add("min_value", "just above maxValue", &bounds);
            }
        }
        "convTranspose2d" => {
            for stride in [1, 2] {
                for padding in [[stride, 0], [0, stride], [HUGE, 0]] {
                    let changes = [
                        ("strides", list(&[stride, stride])),
                        ("output_padding", list(&padding)),
                        ("output_sizes", Value::Absent),
                        ("padding", Value::Absent),
                    ];
                    add("output_padding", "not below the strides", &changes);
                }
            }
            let sizes = output_sizes(call, "input_layout");
            let strides = call.list("strides").unwrap_or(vec![1, 1]);
            // The valid sizes are a stride from the least; this far on both sides there is none.
            for axis in [0, 1] {
                for size in [sizes[axis] + strides[axis], sizes[axis].saturating_sub(strides[axis])] {
                    let mut sizes = sizes;
                    sizes[axis] = size;
                    add("output_sizes", "not reached by the strides", &[("output_sizes", list(&sizes))]);
                }
            }
        }
        "averagePool2d" | "l2Pool2d" | "maxPool2d" | "normPool2d" => {
            let sizes = output_sizes(call, "layout");
            for other in [[sizes[0] + 2, sizes[1]], [sizes[0], sizes[1] + 2]] {
                add("output_sizes", "neither rounding", &[("output_sizes", list(&other))]);
            }
            add(
                "dilations",
                "a window that does not fit",
                &[("dilations", list(&[HUGE, HUGE])), ("window_dimensions", list(&[2, 2])), ("output_sizes", Value::Absent)],
            );
        }
        "pad" => {
            let shape = &call.operand("input").shape;
            for (axis, &size) in shape.iter().enumerate() {
                let none = list(&vec![0; shape.len()]);
                let too_much: Vec<usize> = (0..shape.len()).map(|i| if i == axis { size } else { 0 }).collect();
                let reflection = ("mode", Value::Enumeration(2));
                let at = |beginning: Value, ending: Value| {
                    [("beginning_padding", beginning), ("ending_padding", ending), reflection.clone()]
                };
                add("beginning_padding", "more than is there to reflect", &at(list(&too_much), none.clone()));
                add("ending_padding", "more than is there to reflect", &at(none, list(&too_much)));
            }
        }
        "slice" => {
            let shape = &call.operand("input").shape;
            if !shape.is_empty() {
                // Their sum is within the input modulo 2³².
                let sizes = vec![HUGE - 1; shape.len()];
                add("sizes", "a sum that overflows", &[("starts", list(&vec![2; shape.len()])), ("sizes", list(&sizes))]);
            }
        }
        _ => {}
    }
    spoilt
}

/// Height and width of the output.
fn output_sizes(call: &Call, layout: &str) -> [usize; 2] {
    let outputs: Vec<Expected> = oracle::outputs(call);
    let shape = &outputs[0].shape;
    if call.enumeration(layout, "nchw") == "nchw" { [shape[2], shape[3]] } else { [shape[1], shape[2]] }
}
