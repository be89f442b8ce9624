//! What a drawn call should have, so that nothing in the table is left to chance, and the list of all such wishes.

use crate::call::Call;
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::{Kind, Value};
use webnn_node::graph::operator::{Member, Operator, Ranks, TensorLimits, Types};

#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// An operand of that type.
    Type(&'static str, DataType),
    /// An operand of that rank.
    Rank(&'static str, usize),
    /// An option, or an argument that is an enumeration.
    Option(&'static str, Choice),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    Absent,
    Given,
    Boolean(bool),
    Enumeration(u32),
}

/// Everything that the row of an operator offers.
pub fn all(row: &'static Operator) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for limits in row.operands {
        wishes.extend(types(row, limits).into_iter().map(|data_type| Wish::Type(limits.name, data_type)));
        wishes.extend(ranks(row, limits).map(|rank| Wish::Rank(limits.name, rank)));
    }
    for member in row.options {
        wishes.extend([Choice::Absent, Choice::Given].map(|choice| Wish::Option(member.field, choice)));
    }
    for member in row.arguments.iter().chain(row.options) {
        let choices: Vec<Choice> = match member.kind {
            Kind::Boolean => vec![Choice::Boolean(false), Choice::Boolean(true)],
            Kind::Enumeration(_) | Kind::EnumerationList(_) => {
                allowed_values(row, member).into_iter().map(Choice::Enumeration).collect()
            }
            _ => vec![],
        };
        wishes.extend(choices.into_iter().map(|choice| Wish::Option(member.field, choice)));
    }
    wishes
}

pub fn types(row: &'static Operator, limits: &TensorLimits) -> Vec<DataType> {
    match limits.types {
        Types::Of(types) => types.iter().collect(),
        Types::SameAs(other) => types(row, find(row, other)),
    }
}

pub fn ranks(row: &'static Operator, limits: &TensorLimits) -> std::ops::RangeInclusive<usize> {
    match limits.ranks {
        Ranks::Between(low, high) => low..=high,
        Ranks::SameRankAs(other) => ranks(row, find(row, other)),
    }
}

fn find(row: &'static Operator, name: &str) -> &'static TensorLimits {
    row.operands.iter().find(|limits| limits.name == name).expect("limits refer to an operand of the row")
}

/// The positions of the values that an enumeration may have here: of data types, those of the output.
pub fn allowed_values(row: &'static Operator, member: &Member) -> Vec<u32> {
    let (Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration)) = member.kind else {
        panic!("{} is no enumeration", member.field)
    };
    let all = 0..enumeration.values.len() as u32;
    match row.outputs[0].types {
        Types::Of(types) if enumeration.name == "MLOperandDataType" => types.iter().map(|t| t as u32).collect(),
        _ => all.collect(),
    }
}

impl Wish {
    /// Whether a call has it.
    pub fn is_fulfilled_by(&self, call: &Call) -> bool {
        match self {
            Wish::Type(field, data_type) => call.optional(field).is_some_and(|tensor| tensor.data_type == *data_type),
            Wish::Rank(field, rank) => call.optional(field).is_some_and(|tensor| tensor.rank() == *rank),
            Wish::Option(field, choice) => match (choice, call.value(field)) {
                (Choice::Absent, value) => *value == Value::Absent,
                (Choice::Given, value) => *value != Value::Absent,
                (Choice::Boolean(wished), value) => *value == Value::Boolean(*wished),
                (Choice::Enumeration(wished), Value::EnumerationList(list)) => list.contains(wished),
                (Choice::Enumeration(wished), value) => *value == Value::Enumeration(*wished),
            },
        }
    }
}
