//! The operator table as TypeScript: enumerations, dictionaries of options, the builder's methods, and the limits.

use super::attribute::{Enumerated, Enumeration, Kind, Value};
use super::data_type::DataType;
use super::number::Number;
use super::operator::{Member, Ranks, Returns, TensorLimits, Types, camel_case};
use super::ops::operators;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The text of `index.d.ts`.
pub fn typings() -> String {
    let mut text = String::from(include_str!("interfaces.d.ts"));
    enumerations(&mut text);
    dictionaries(&mut text);
    methods(&mut text);
    limits(&mut text);
    text
}

fn enumerations(text: &mut String) {
    let mut all: BTreeMap<&str, &Enumeration> = BTreeMap::new();
    all.insert(DataType::ENUMERATION.name, DataType::ENUMERATION);
    for member in operators().iter().flat_map(|row| row.arguments.iter().chain(row.options)) {
        if let Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration) = member.kind {
            all.insert(enumeration.name, enumeration);
        }
    }
    for enumeration in all.into_values() {
        let values: Vec<String> = enumeration.values.iter().map(|value| format!("'{value}'")).collect();
        let note = if enumeration.name == DataType::ENUMERATION.name {
            "The type of a tensor's elements. `'int4'` and `'uint4'`, two elements to a byte, are an extension for constants and (de)quantization."
        } else {
            "An enumeration of options."
        };
        let _ = write!(text, "\n/** {note} */\nexport type {} = {};\n", enumeration.name, values.join(" | "));
    }
}

/// The dictionaries of options, each once, in the order of the table.
fn dictionaries(text: &mut String) {
    let mut seen = vec!["MLOperatorOptions"];
    for row in operators() {
        if seen.contains(&row.dictionary) {
            continue;
        }
        seen.push(row.dictionary);
        let users: Vec<String> =
            operators().iter().filter(|other| other.dictionary == row.dictionary).map(|row| format!("`{}`", row.name)).collect();
        let _ = write!(text, "\n/** Options of {}. */\n", users.join(", "));
        let _ = writeln!(text, "export interface {} extends MLOperatorOptions {{", row.dictionary);
        for option in row.options {
            let mut doc: Vec<String> = option.doc.lines().map(|line| line.trim().to_owned()).collect();
            if let Some(default) = literal(option) {
                doc.push(format!("Default: `{default}`."));
            }
            comment(text, "  ", &doc);
            let _ = writeln!(text, "  {}?: {};", option.name(), type_of(option.kind));
        }
        text.push_str("}\n");
    }
}

fn methods(text: &mut String) {
    text.push_str("\nexport interface MLGraphBuilder {\n");
    for row in operators() {
        let mut doc: Vec<String> = row.doc.lines().map(|line| line.trim().to_owned()).collect();
        doc.push(String::new());
        for operand in row.operands {
            doc.push(format!("- `{}`: {}", camel_case(operand.name), describe(operand)));
        }
        for output in row.outputs {
            doc.push(format!("- result `{}`: {}", camel_case(output.name), describe(output)));
        }
        doc.push(String::new());
        doc.push("Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.".into());
        doc.push(String::new());
        doc.push(format!("See https://www.w3.org/TR/webnn/#{}", row.section));
        comment(text, "  ", &doc);
        let mut arguments: Vec<String> =
            row.arguments.iter().map(|argument| format!("{}: {}", argument.name(), type_of(argument.kind))).collect();
        arguments.push(format!("options?: {}", row.dictionary));
        let returns = match row.returns {
            Returns::One => "MLOperand",
            Returns::Sequence => "MLOperand[]",
        };
        let _ = writeln!(text, "  {}({}): {returns};", row.name, arguments.join(", "));
    }
    text.push_str("}\n");
}

fn limits(text: &mut String) {
    text.push_str("\n/** What a context can do. See https://www.w3.org/TR/webnn/#api-mlcontext-opsupportlimits */\n");
    text.push_str("export interface MLOpSupportLimits {\n  preferredInputLayout: MLInputOperandLayout;\n");
    text.push_str(
        "  maxTensorByteLength: number;\n  input: MLTensorLimits;\n  constant: MLTensorLimits;\n  output: MLTensorLimits;\n",
    );
    for row in operators() {
        let members: Vec<String> =
            row.operands.iter().chain(row.outputs).map(|limits| format!("{}: MLTensorLimits", camel_case(limits.name))).collect();
        let _ = writeln!(text, "  {}: {{ {} }};", row.name, members.join("; "));
    }
    text.push_str("}\n");
}

fn comment(text: &mut String, indent: &str, lines: &[String]) {
    match lines {
        [] => {}
        [line] => {
            let _ = writeln!(text, "{indent}/** {line} */");
        }
        lines => {
            let _ = writeln!(text, "{indent}/**");
            for line in lines {
                let _ = writeln!(text, "{}", format!("{indent} * {line}").trim_end());
            }
            let _ = writeln!(text, "{indent} */");
        }
    }
}

fn type_of(kind: Kind) -> String {
    match kind {
        Kind::Operand => "MLOperand".into(),
        Kind::Operands => "Iterable<MLOperand>".into(),
        Kind::Unsigned | Kind::UnsignedModulo | Kind::Signed | Kind::Double => "number".into(),
        Kind::UnsignedList | Kind::UnsignedModuloList | Kind::FloatList => "Iterable<number>".into(),
        Kind::UnsignedOrList => "number | Iterable<number>".into(),
        Kind::Boolean => "boolean".into(),
        Kind::Number => "MLNumber".into(),
        Kind::Enumeration(enumeration) => enumeration.name.into(),
        Kind::EnumerationList(enumeration) => format!("Iterable<{}>", enumeration.name),
    }
}

/// The default of an option as script would write it.
fn literal(option: &Member) -> Option<String> {
    let value = |index: u32| match option.kind {
        Kind::Enumeration(enumeration) | Kind::EnumerationList(enumeration) => {
            format!("'{}'", enumeration.values[index as usize])
        }
        _ => unreachable!("only enumerations have positions as values"),
    };
    Some(match (option.default)() {
        Value::Absent | Value::Operand(_) | Value::Operands(_) => return None,
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::UnsignedList(list) => format!("{list:?}"),
        Value::Boolean(value) => value.to_string(),
        Value::Double(number) | Value::Number(Number::Double(number)) => number.to_string(),
        Value::Number(Number::Integer(number)) => number.to_string(),
        Value::FloatList(list) => format!("{list:?}"),
        Value::Enumeration(index) => value(index),
        Value::EnumerationList(list) => format!("[{}]", list.into_iter().map(value).collect::<Vec<_>>().join(", ")),
    })
}

/// Data types and ranks in words.
fn describe(limits: &TensorLimits) -> String {
    let types = match limits.types {
        Types::Of(types) => types.to_string(),
        Types::SameAs(name) => format!("the type of `{}`", camel_case(name)),
    };
    let ranks = match limits.ranks {
        Ranks::Between(min, max) if min == max => format!("rank {min}"),
        Ranks::Between(min, max) => format!("ranks {min} to {max}"),
        Ranks::SameRankAs(name) => format!("the rank of `{}`", camel_case(name)),
    };
    format!("{types}; {ranks}")
}
