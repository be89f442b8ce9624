//! What the library would compile to more than a schema allows, or to nothing: refused, with its place.

use crate::strict::{Schemas, target};
use serde_json::Value;
use std::collections::HashSet;
use std::ptr;

/// Schemas that are looked at for the required members of an object: its own, and those of `allOf` and `$ref`.
const MOST_TOGETHER: usize = 64;

/// # Errors
/// With the place.
pub fn check(root: &Value) -> Result<(), String> {
    let mut schemas = Schemas::of(root);
    while let Some((number, schema)) = schemas.next() {
        let refuse =
            |schemas: &Schemas<'_>, step: &str, text: String| Err(format!("at #{}/{step}: {text}", schemas.pointer(number)));
        for step in ["const", "enum"] {
            if let Some(letter) = unwritable(&schema[step]) {
                let text = format!(
                    "found U+{:04X}, allowed strings without control characters other than \\b, \\f, \\n, \\r and \\t",
                    u32::from(letter)
                );
                return refuse(&schemas, step, text);
            }
        }
        if let (Some(least), Some(most)) = (schema["minProperties"].as_u64(), most_members(root, schema))
            && least > most as u64
        {
            let text = format!(
                "found {least}, allowed {most}: the required members and one more, because the keys of other members may be equal"
            );
            return refuse(&schemas, "minProperties", text);
        }
    }
    Ok(())
}

/// Whether a string can have a character: strings have one spelling, without `\u`.
pub fn is_writable(letter: char) -> bool {
    matches!(letter, '\u{8}' | '\t' | '\n' | '\u{C}' | '\r') || !letter.is_ascii_control()
}

/// A character in the strings of a value that they cannot have. The keys of objects are written as they are.
fn unwritable(value: &Value) -> Option<char> {
    match value {
        Value::String(text) => text.chars().find(|letter| !is_writable(*letter)),
        Value::Array(values) => values.iter().find_map(unwritable),
        Value::Object(members) => members.values().find_map(unwritable),
        _ => None,
    }
}

/// How many members an object has at least that nothing makes equal; `None` if it has only those that are named.
fn most_members(root: &Value, schema: &Value) -> Option<usize> {
    let mut required: HashSet<&str> = HashSet::new();
    let mut seen: HashSet<*const Value> = HashSet::new();
    let mut rest = vec![schema];
    while let Some(part) = rest.pop() {
        if seen.len() == MOST_TOGETHER || !seen.insert(ptr::from_ref(part)) {
            continue;
        }
        if part["additionalProperties"] == Value::Bool(false) && part["patternProperties"].is_null() {
            return None;
        }
        required.extend(part["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        rest.extend(part["allOf"].as_array().into_iter().flatten());
        rest.extend(part["$ref"].as_str().and_then(|reference| target(root, reference)));
    }
    Some(required.len() + 1)
}
