//! Builds the graph of a case by walking the rows of its operators, as the methods of `MLGraphBuilder` do.

use crate::case::{Call, Case, list, number, text};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use webnn_node::error::Error;
use webnn_node::graph::attribute::{Enumeration, Kind, Value};
use webnn_node::graph::{ConstantBytes, Graph, GraphBuilder, Limits, Number, OperandId};

/// The graph, or the builder's refusal; an error outside is a case that the row cannot express.
pub fn graph(case: &Case) -> Result<Result<Graph, Error>, String> {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut operands = HashMap::new();
    for (name, input) in &case.inputs {
        let descriptor = input.tensor.descriptor.clone();
        let made = match input.constant {
            true => builder.constant(descriptor, ConstantBytes::new(input.tensor.bytes())),
            false => builder.input(name, descriptor),
        };
        match made {
            Ok(id) => operands.insert(name.as_str(), id),
            Err(error) => return Ok(Err(error)),
        };
    }
    for call in &case.operators {
        let values = values(call, &builder, &operands)?;
        let row = call.row().expect("the table has every operator of the case");
        match builder.apply(row, values, "") {
            Ok(outputs) if outputs.len() != call.outputs.len() => {
                return Err(format!("{} returns {} operands, not {}", call.name, outputs.len(), call.outputs.len()));
            }
            Ok(outputs) => operands.extend(call.outputs.iter().map(String::as_str).zip(outputs.iter().copied())),
            Err(error) => return Ok(Err(error)),
        }
    }
    let output = |name: &String| operands.get(name.as_str()).map(|&id| (name.clone(), id)).ok_or(format!("no operand {name}"));
    let outputs: Vec<_> = case.expected_outputs.keys().map(output).collect::<Result<_, String>>()?;
    Ok(builder.build(outputs))
}

/// The values of a call, in the order of its row.
fn values(call: &Call, builder: &GraphBuilder, operands: &HashMap<&str, OperandId>) -> Result<Vec<Value>, String> {
    let row = call.row().expect("the table has every operator of the case");
    if call.arguments.len() > row.arguments.len() {
        return Err(format!("{} takes {} arguments, not {}", row.name, row.arguments.len(), call.arguments.len()));
    }
    let mut values = Vec::new();
    for (i, member) in row.arguments.iter().enumerate() {
        values.push(match call.arguments.get(i) {
            Some((_, json)) => convert(json, member.kind, operands)?,
            // Some cases are older than the required axis of softmax; they mean the last one.
            None if (row.name, member.field) == ("softmax", "axis") => match values[0] {
                Value::Operand(input) => Value::Unsigned(builder.operands().rank(input) as u32 - 1),
                _ => Value::Absent,
            },
            None => Value::Absent,
        });
    }
    let unknown = |name: &&String| *name != "label" && !row.options.iter().any(|member| member.name() == **name);
    if let Some(name) = call.options.keys().find(unknown) {
        return Err(format!("{} has no option {name}", row.name));
    }
    for member in row.options {
        values.push(match call.options.get(&member.name()) {
            Some(json) => convert(json, member.kind, operands)?,
            None => Value::Absent,
        });
    }
    Ok(values)
}

/// Converts a value as WebIDL does for its kind.
fn convert(json: &Json, kind: Kind, operands: &HashMap<&str, OperandId>) -> Result<Value, String> {
    let operand = |json: &Json| {
        let name = text(json);
        operands.get(name.as_str()).copied().ok_or(format!("there is no operand {name}"))
    };
    let double = |json: &Json| number(json).to_f64();
    let integer = |json: &Json| match number(json) {
        Number::Integer(value) => value,
        Number::Double(value) => value as i128,
    };
    let enforced = |json: &Json| u32::try_from(integer(json)).map_err(|_| format!("{json} is not an unsigned long"));
    Ok(match kind {
        Kind::Operand => Value::Operand(operand(json)?),
        Kind::Operands => Value::Operands(list(json).iter().map(operand).collect::<Result<_, _>>()?),
        Kind::UnsignedOrList if json.is_array() => convert(json, Kind::UnsignedList, operands)?,
        Kind::Unsigned | Kind::UnsignedOrList => Value::Unsigned(enforced(json)?),
        Kind::UnsignedModulo => Value::Unsigned(integer(json) as u32),
        Kind::Signed => Value::Signed(i32::try_from(integer(json)).map_err(|_| format!("{json} is not a long"))?),
        Kind::UnsignedList => Value::UnsignedList(list(json).iter().map(enforced).collect::<Result<_, _>>()?),
        Kind::UnsignedModuloList => Value::UnsignedList(list(json).iter().map(|json| integer(json) as u32).collect()),
        Kind::Boolean => Value::Boolean(json.as_bool().ok_or(format!("{json} is not a boolean"))?),
        Kind::Double => Value::Double(double(json)),
        Kind::FloatList => Value::FloatList(list(json).iter().map(|json| double(json) as f32).collect()),
        Kind::Number => Value::Number(number(json)),
        Kind::Enumeration(enumeration) => Value::Enumeration(position(json, enumeration)?),
        Kind::EnumerationList(enumeration) => {
            Value::EnumerationList(list(json).iter().map(|json| position(json, enumeration)).collect::<Result<_, _>>()?)
        }
    })
}

fn position(json: &Json, enumeration: &Enumeration) -> Result<u32, String> {
    let value = text(json);
    let position = enumeration.values.iter().position(|&name| name == value);
    position.map(|position| position as u32).ok_or(format!("{value} is not a value of {}", enumeration.name))
}
