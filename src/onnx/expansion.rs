//! Operators that are written out in others where data decides how much they give: the size is found first, the rest are nodes
//! like any others.

use super::protobuf::{AttributeProto, FunctionProto, NodeProto, attribute_type};
use super::value::Value;

fn node(operator: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        op_type: operator.into(),
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.into()],
        attribute,
        ..NodeProto::default()
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), r#type: attribute_type::INTS, ints: ints.to_vec(), ..AttributeProto::default() }
}

fn constant(numbers: &[i64], output: &str) -> NodeProto {
    node("Constant", &[], output, vec![ints("value_ints", numbers)])
}

/// The nodes for one, if it is written out.
pub fn of(proto: &NodeProto, domain: &str, inputs: &[Option<Value>]) -> Option<FunctionProto> {
    let is_known = |position: usize| matches!(inputs.get(position), Some(Some(Value::Constant(_))));
    let node = match (domain, proto.op_type.as_str()) {
        ("", "Compress") if !is_known(1) => compress(proto),
        _ => return None,
    };
    let input = ["data", "condition"].map(String::from).to_vec();
    Some(FunctionProto { name: proto.op_type.clone(), input, output: vec!["output".into()], node, ..FunctionProto::default() })
}

/// The slices at the places where the condition is true.
fn compress(proto: &NodeProto) -> Vec<NodeProto> {
    let axis = proto.attribute.iter().find(|attribute| attribute.name == "axis").cloned();
    let mut nodes = vec![
        node("NonZero", &["condition"], "found", Vec::new()),
        constant(&[-1], "line"),
        node("Reshape", &["found", "line"], "places", Vec::new()),
    ];
    match axis {
        Some(axis) => nodes.push(node("Gather", &["data", "places"], "output", vec![axis])),
        None => {
            nodes.push(node("Reshape", &["data", "line"], "flat", Vec::new()));
            nodes.push(node("Gather", &["flat", "places"], "output", Vec::new()));
        }
    }
    nodes
}
