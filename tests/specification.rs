//! The operator table against facts extracted from the specification (`tests/specification/extract.py`).

use serde_json::Value as Json;
use std::collections::BTreeSet;
use webnn_node::graph::attribute::{Enumerated, Enumeration, Kind, Value};
use webnn_node::graph::data_type::{ANY, FOUR_BITS};
use webnn_node::graph::descriptor::MAX_RANK;
use webnn_node::graph::number::Number;
use webnn_node::graph::operator::{Member, Operator, Ranks, Returns, TensorLimits, Types, camel_case};
use webnn_node::graph::ops::{internal_operators, operator, operators};
use webnn_node::graph::{DataType, Limits};

fn facts() -> Json {
    serde_json::from_str(include_str!("specification/facts.json")).unwrap()
}

/// Calls `check` with every operator's facts and its row; panics with all complaints at once.
fn for_each_operator(check: impl Fn(&Json, &Json, &'static Operator, &mut dyn FnMut(String))) {
    let facts = facts();
    let mut complaints = Vec::new();
    for (name, fact) in facts["operators"].as_object().unwrap() {
        match operator(name) {
            Some(row) => check(&facts, fact, row, &mut |complaint| complaints.push(format!("{name}: {complaint}"))),
            None => complaints.push(format!("{name}: not in the table")),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_table_has_exactly_the_operators_of_the_idl() {
    let facts = facts();
    let specified: BTreeSet<&str> = facts["operators"].as_object().unwrap().keys().map(String::as_str).collect();
    let table: BTreeSet<&str> = operators().iter().map(|row| row.name).collect();
    assert_eq!(specified.len(), 95);
    assert_eq!(table, specified);
    assert_eq!(operators().len(), table.len(), "no operator is there twice");
}

/// What only the importer and the compiler use is no method and has no entry among the limits.
#[test]
fn internal_operators_are_not_those_of_the_idl() {
    let facts = facts();
    let limits = Limits::everything();
    assert!(!internal_operators().is_empty());
    for row in internal_operators() {
        assert!(facts["operators"].get(row.name).is_none(), "{}", row.name);
        assert!(operators().iter().all(|other| other.name != row.name), "{}", row.name);
        assert!(limits.operators().all(|(name, _)| name != row.name), "{}", row.name);
        assert!(row.section.is_empty() && operator(row.name).is_some_and(|found| std::ptr::eq(found, *row)), "{}", row.name);
    }
}

#[test]
fn arguments_and_options_are_those_of_the_idl() {
    for_each_operator(|facts, fact, row, complain| {
        let returns = if row.returns == Returns::One { "MLOperand" } else { "sequence<MLOperand>" };
        if fact["returns"] != returns {
            complain(format!("returns {returns}"));
        }
        if fact["dictionary"] != row.dictionary {
            complain(format!("takes {}", row.dictionary));
        }
        let arguments = fact["arguments"].as_array().unwrap();
        if arguments.len() != row.arguments.len() {
            complain(format!("{} arguments", row.arguments.len()));
        }
        for (argument, member) in arguments.iter().zip(row.arguments) {
            if argument["name"] != member.name() || argument["type"] != idl_type(member.kind) {
                complain(format!("argument {} of type {}", member.name(), idl_type(member.kind)));
            }
        }
        let mut members = facts["dictionaries"][row.dictionary]["members"].as_object().unwrap().clone();
        members.remove("label");
        for option in row.options {
            match members.remove(&option.name()) {
                None => complain(format!("option {}", option.name())),
                Some(member) => {
                    if member["type"] != idl_type(option.kind) {
                        complain(format!("option {} of type {}", option.name(), idl_type(option.kind)));
                    }
                    let default = member["default"].as_str();
                    if let (Some(specified), found) = (default, default_of(option))
                        && !same_default(specified, &found)
                    {
                        complain(format!("option {} with default {found}, not {specified}", option.name()));
                    }
                }
            }
        }
        members.keys().for_each(|name| complain(format!("no option {name}")));
    });
}

#[test]
fn enumerations_are_those_of_the_idl() {
    let facts = facts();
    let kinds = operators().iter().flat_map(|row| row.arguments.iter().chain(row.options)).map(|member| member.kind);
    for kind in kinds {
        if let Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration) = kind {
            assert_eq!(specified_values(&facts, enumeration), enumeration.values, "{}", enumeration.name);
        }
    }
}

fn specified_values(facts: &Json, enumeration: &Enumeration) -> Vec<String> {
    let mut values: Vec<String> =
        facts["enums"][enumeration.name].as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect();
    if enumeration.name == DataType::ENUMERATION.name {
        // Our extension.
        values.extend(FOUR_BITS.iter().map(|data_type| data_type.name().to_owned()));
    }
    values
}

/// Operands whose row is not what the table says: the operator, the operand, what the row says of its types and ranks, and why.
const DEVIATIONS: [(&str, &str, [&str; 2], &str); 6] = [
    ("isNaN", "a", ["float16, float32", "N"], "the method steps refuse the other types of the table"),
    ("isInfinite", "a", ["float16, float32", "N"], "the method steps refuse the other types of the table"),
    ("dequantizeLinear", "scale", ["float16, float32", "N"], "blocks of 4-bit values may have a lower rank; a rule"),
    ("dequantizeLinear", "zeroPoint", ["same as input", "N"], "blocks of 4-bit values may have a lower rank; a rule"),
    ("quantizeLinear", "scale", ["same as input", "N"], "blocks of 4-bit values may have a lower rank; a rule"),
    ("quantizeLinear", "zeroPoint", ["int32, int8, uint32, uint8", "N"], "blocks of 4-bit values may have a lower rank; a rule"),
];

#[test]
fn tensor_limits_are_those_of_the_tables() {
    for_each_operator(|_, fact, row, complain| {
        let found: Vec<[String; 3]> = row.operands.iter().chain(row.outputs).map(in_words).collect();
        let mut specified: Vec<[String; 3]> = fact["limits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|limit| {
                let cell = |name: &str| normalized(limit[name].as_str().unwrap());
                let deviation = DEVIATIONS.iter().find(|(name, operand, ..)| *name == row.name && *operand == cell("operand"));
                match deviation {
                    Some((_, _, [types, ranks], _)) => [cell("operand"), types.to_string(), ranks.to_string()],
                    None => [cell("operand"), sorted(&cell("types")), cell("ranks")],
                }
            })
            .collect();
        // The order of operands in the tables is that of arguments and options but for a few.
        specified.sort();
        let mut sorted_found = found;
        sorted_found.sort();
        if specified != sorted_found {
            complain(format!("limits\n  found     {sorted_found:?}\n  specified {specified:?}"));
        }
    });
}

#[test]
fn limits_lie_between_required_and_allowed() {
    let limits = Limits::everything();
    for_each_operator(|_, fact, row, complain| {
        for (name, support) in limits.of_operator(row) {
            let limit =
                fact["limits"].as_array().unwrap().iter().find(|limit| normalized(limit["operand"].as_str().unwrap()) == name);
            let limit = limit.unwrap_or_else(|| panic!("{}: {name}", row.name));
            for required in limit["requiredTypes"].as_str().unwrap().split(", ") {
                if !support.data_types.iter().any(|data_type| data_type.name() == required) {
                    complain(format!("{name} does not support {required}"));
                }
            }
            let ranks = limit["requiredRanks"].as_str().unwrap();
            let (min, max) = ranks.split_once(" to ").unwrap_or((ranks, ranks));
            if support.ranks.0 > min.parse().unwrap() || support.ranks.1 < max.parse().unwrap() {
                complain(format!("{name} supports ranks {:?} instead of {ranks}", support.ranks));
            }
        }
    });
}

/// The specification's words for a kind.
fn idl_type(kind: Kind) -> String {
    match kind {
        Kind::Operand => "MLOperand".into(),
        Kind::Operands => "sequence<MLOperand>".into(),
        Kind::Unsigned => "[EnforceRange] unsigned long".into(),
        Kind::UnsignedModulo => "unsigned long".into(),
        Kind::Signed => "[EnforceRange] long".into(),
        Kind::UnsignedList => "sequence<[EnforceRange] unsigned long>".into(),
        Kind::UnsignedModuloList => "sequence<unsigned long>".into(),
        Kind::UnsignedOrList => "([EnforceRange] unsigned long or sequence<[EnforceRange] unsigned long>)".into(),
        Kind::Boolean => "boolean".into(),
        Kind::Double => "double".into(),
        Kind::FloatList => "sequence<float>".into(),
        Kind::Number => "MLNumber".into(),
        Kind::Enumeration(enumeration) => enumeration.name.into(),
        Kind::EnumerationList(enumeration) => format!("sequence<{}>", enumeration.name),
    }
}

fn default_of(option: &Member) -> String {
    match ((option.default)(), option.kind) {
        (Value::Unsigned(number), _) => number.to_string(),
        (Value::Signed(number), _) => number.to_string(),
        (Value::Boolean(value), _) => value.to_string(),
        (Value::Double(number) | Value::Number(Number::Double(number)), _) => number.to_string(),
        (Value::Number(Number::Integer(number)), _) => number.to_string(),
        (Value::Enumeration(index), Kind::Enumeration(enumeration)) => format!("{:?}", enumeration.values[index as usize]),
        (other, _) => format!("{other:?}"),
    }
}

fn same_default(specified: &str, found: &str) -> bool {
    match (specified.parse::<f64>(), found.parse::<f64>()) {
        (Ok(specified), Ok(found)) => specified == found,
        _ => specified == found,
    }
}

/// A row of a table of limits in the specification's words, without our extension.
fn in_words(limits: &TensorLimits) -> [String; 3] {
    let types = match limits.types {
        Types::Of(types) if types == ANY => "any".into(),
        Types::Of(types) => {
            types.iter().filter(|&t| !FOUR_BITS.contains(t)).map(|t| t.name().to_owned()).collect::<Vec<_>>().join(", ")
        }
        Types::SameAs(name) => format!("same as {}", camel_case(name)),
    };
    let ranks = match limits.ranks {
        Ranks::Between(0, MAX_RANK) => "N".into(),
        Ranks::Between(min, MAX_RANK) => format!("{min} to N"),
        Ranks::Between(min, max) if min == max => format!("{min}"),
        Ranks::Between(min, max) => format!("{min} to {max}"),
        Ranks::SameRankAs(name) => format!("same as {}", camel_case(name)),
    };
    [camel_case(limits.name), sorted(&types), ranks]
}

fn sorted(types: &str) -> String {
    let mut types: Vec<&str> = types.split(", ").collect();
    types.sort();
    types.join(", ")
}

/// `outputs[1] if …` is the member `output1` of the support limits, and a list's items stand for the list.
fn normalized(cell: &str) -> String {
    let cell = cell.split(" if ").next().unwrap().replace("inputs's list/items", "inputs");
    match cell.strip_prefix("outputs[") {
        Some(number) => format!("output{}", number.trim_end_matches(']')),
        None => cell,
    }
}
