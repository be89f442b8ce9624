//! Spoils valid calls, each in one way that the specification refuses with a `TypeError`.
//!
//! What the table says is spoilt by walking it: data types, ranks, foreign operands, values of another kind. What the
//! method steps say of values (`values.rs`) and of shapes (`shapes.rs`) is written down here by operator.

mod shapes;
mod values;

pub use shapes::most_elements;

use crate::call::Call;
use crate::tensor::Tensor;
use crate::wish;
use webnn_node::graph::attribute::{Kind, Value};
use webnn_node::graph::operator::{Member, Operator, Ranks, Types};
use webnn_node::graph::{DataType, OperandId};

/// What was done to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// An operand of a data type that the row does not allow.
    Type(&'static str, DataType),
    /// An operand of a rank that the row does not allow.
    Rank(&'static str),
    /// An operand that the builder does not have.
    Foreign(&'static str),
    /// An argument or option that is absent or of another kind, as only a broken `lib/` could send it.
    Kind(&'static str),
    /// A value that the method steps refuse.
    Value(&'static str, &'static str),
    /// A shape that does not fit, or an output that would be too large.
    Shape(&'static str, &'static str),
}

pub struct Spoilt {
    pub call: Call,
    pub how: How,
}

/// Every way to spoil a call that the operator's row and rules give.
pub fn all(call: &Call) -> Vec<Spoilt> {
    let mut spoilt = by_table(call);
    spoilt.extend(values::all(call));
    spoilt.extend(shapes::all(call));
    spoilt
}

/// What the calls of a row must have been spoilt by at least once: all that its table offers, a value of each argument and
/// option that can be wrong, and a shape where there is an operand that could have another.
pub fn required(row: &'static Operator) -> Vec<How> {
    let mut required = Vec::new();
    for limits in row.operands {
        required.push(How::Foreign(limits.name));
        required.extend(refused_types(row, limits.name).into_iter().map(|data_type| How::Type(limits.name, data_type)));
        if refused_rank(row, limits.name, None).is_some() {
            required.push(How::Rank(limits.name));
        }
    }
    required.extend(row.arguments.iter().chain(row.options).map(|member| How::Kind(member.field)));
    required
}

/// The arguments and options of a row of which some value is refused.
pub fn refusable(row: &'static Operator) -> impl Iterator<Item = &'static Member> {
    row.arguments.iter().chain(row.options).filter(|member| match member.kind {
        // Only a data type can be one that is not allowed, since the others are checked before.
        Kind::Enumeration(enumeration) => enumeration.name == "MLOperandDataType",
        // The bounds of clamp.
        Kind::Number => member.field.ends_with("_value"),
        Kind::Operand | Kind::Boolean | Kind::Double | Kind::Signed => false,
        Kind::Unsigned | Kind::UnsignedModulo | Kind::UnsignedList | Kind::UnsignedModuloList | Kind::UnsignedOrList => true,
        Kind::Operands | Kind::FloatList | Kind::EnumerationList(_) => true,
    })
}

/// Data types that an operand may not have, alone or beside another operand whose type it shares.
fn refused_types(row: &'static Operator, field: &str) -> Vec<DataType> {
    let limits = row.operands.iter().find(|limits| limits.name == field).expect("an operand of the row");
    let allowed = wish::types(row, limits);
    // Where the other operand has one of several types, each type is wrong beside some of them.
    let depends = matches!(limits.types, Types::SameAs(_)) && allowed.len() > 1;
    DataType::ALL.into_iter().filter(|data_type| depends || !allowed.contains(data_type)).collect()
}

/// A rank that an operand may not have; beside another operand, not that one's.
fn refused_rank(row: &'static Operator, field: &str, call: Option<&Call>) -> Option<usize> {
    let limits = row.operands.iter().find(|limits| limits.name == field).expect("an operand of the row");
    let allowed = wish::ranks(row, limits);
    match limits.ranks {
        Ranks::Between(..) => (0..=8).rev().find(|rank| !allowed.contains(rank)),
        Ranks::SameRankAs(other) => {
            let other = call.and_then(|call| call.optional(other)).map_or(1, Tensor::rank);
            Some(if other == 1 { 2 } else { other - 1 })
        }
    }
}

fn by_table(call: &Call) -> Vec<Spoilt> {
    let mut spoilt = Vec::new();
    let row = call.row;
    for limits in row.operands {
        let field = limits.name;
        let Some(tensor) = call.optional(field) else { continue };
        for data_type in refused_types(row, field) {
            if data_type != tensor.data_type {
                let call = with_operand(call, field, |tensor| tensor.data_type = data_type);
                spoilt.push(Spoilt { call, how: How::Type(field, data_type) });
            }
        }
        if let Some(rank) = refused_rank(row, field, Some(call)) {
            let call = with_operand(call, field, |tensor| tensor.shape = vec![2; rank]);
            spoilt.push(Spoilt { call, how: How::Rank(field) });
        }
        for id in [call.operands.len() as u32, call.operands.len() as u32 + 1000, u32::MAX] {
            let mut call = call.clone();
            let foreign = match call.value(field) {
                Value::Operands(ids) => Value::Operands([ids.as_slice(), &[OperandId(id)]].concat()),
                _ => Value::Operand(OperandId(id)),
            };
            call.set(field, foreign);
            spoilt.push(Spoilt { call, how: How::Foreign(field) });
        }
    }
    for member in call.members() {
        for value in of_another_kind(member) {
            let mut call = call.clone();
            call.set(member.field, value);
            spoilt.push(Spoilt { call, how: How::Kind(member.field) });
        }
    }
    // Arguments that are not there at all.
    let mut call = call.clone();
    call.values.clear();
    spoilt.push(Spoilt { call, how: How::Kind(row.arguments[0].field) });
    spoilt
}

fn of_another_kind(member: &Member) -> Vec<Value> {
    let other = match member.kind {
        Kind::Boolean => Value::Unsigned(1),
        _ => Value::Boolean(true),
    };
    let outside = match member.kind {
        Kind::Enumeration(enumeration) => Value::Enumeration(enumeration.values.len() as u32),
        Kind::EnumerationList(enumeration) => Value::EnumerationList(vec![enumeration.values.len() as u32; 2]),
        Kind::Operand => Value::Operands(vec![OperandId(0)]),
        Kind::Operands => Value::Operand(OperandId(0)),
        _ => Value::Enumeration(0),
    };
    vec![other, outside]
}

/// A copy of a call with one operand changed. It is an input then, since its contents do not matter any more.
fn with_operand(call: &Call, field: &str, change: impl FnOnce(&mut Tensor)) -> Call {
    let mut call = call.clone();
    let number = call.operand_number(field).expect("the operand is there");
    let mut operand = call.operands[number].clone();
    operand.tensor.elements = Vec::new();
    operand.is_constant = false;
    change(&mut operand.tensor);
    // Another operand may be the same one.
    call.operands.push(operand);
    let id = OperandId(call.operands.len() as u32 - 1);
    let value = match call.value(field) {
        Value::Operands(ids) => Value::Operands([&[id], &ids[1..]].concat()),
        _ => Value::Operand(id),
    };
    call.set(field, value);
    call
}
