//! What the tests of rules share.

use super::attribute::Value;
use super::ops::operator;
use super::{DataType, Descriptor, GraphBuilder, Limits};
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
