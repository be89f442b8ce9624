//! What the tests of rules share.

use super::attribute::Value;
use super::ops::operator;
use super::{DataType, Descriptor, Graph, GraphBuilder, Limits, Source};
use std::sync::Arc;

/// The descriptors of an operator's outputs, as text (`float32[2, 3]`), or the message of the error. Values name the
/// operands by their positions; they are in the order of the operator's row, and trailing ones may be left out.
pub fn infer(name: &str, operands: &[(DataType, &[u32])], values: &[Value]) -> Result<Vec<String>, String> {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    for (i, (data_type, shape)) in operands.iter().enumerate() {
        builder.input(&format!("{i}"), Descriptor::new(*data_type, shape.iter().copied())).unwrap();
    }
    let row = operator(name).expect("the operator is in the table");
    let outputs = builder.apply(row, values.iter().cloned(), "").map_err(|error| error.message().to_owned())?.to_vec();
    let operands = builder.operands();
    Ok(outputs.iter().map(|&id| operands.descriptor(id).to_string()).collect())
}

/// Checks that an operator's outputs are these, or that it refuses that argument: `Err("axis")`.
pub fn check(name: &str, operands: &[(DataType, &[u32])], values: &[Value], expected: Result<&[&str], &str>) {
    let found = infer(name, operands, values);
    let fits = match (&found, expected) {
        (Ok(found), Ok(expected)) => found == expected,
        (Err(message), Err(argument)) => message.starts_with(&format!("{name}: {argument}: found ")),
        _ => false,
    };
    assert!(fits, "{name} of {operands:?} with {values:?}\n   found {found:?}\nexpected {expected:?}");
}

/// Checks that a graph is valid: nodes stand behind what they use, operands know the nodes that make them, and what is said of
/// these is what the rules say.
pub fn check_graph(graph: &Graph) {
    let mut checked = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut ids = vec![None; graph.operands.len()];
    for (i, operand) in graph.operands.iter().enumerate() {
        ids[i] = match &operand.source {
            Source::Input { name } => Some(checked.input(name, operand.descriptor.clone()).unwrap()),
            Source::Constant(bytes) => Some(checked.constant(operand.descriptor.clone(), bytes.clone()).unwrap()),
            Source::Node { .. } => None,
        };
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let mut op = node.op.clone();
        op.visit_mut(&mut |id| *id = ids[id.0 as usize].expect("nodes stand behind what they use"));
        let outputs = checked.push_op(op, "").unwrap().to_vec();
        for (id, output) in node.outputs.iter().zip(outputs) {
            assert_eq!(checked.operands().descriptor(output), graph.descriptor(*id));
            assert!(matches!(graph.operands[id.0 as usize].source, Source::Node { node, .. } if node as usize == number));
            ids[id.0 as usize] = Some(output);
        }
    }
}
