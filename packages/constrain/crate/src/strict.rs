//! Schemas as the library takes them: what its own rules leave wider than validators do is made narrower, and what is between values is said.

use serde_json::{Map, Value, json};

/// What validators check of a format beyond the library's own expressions: leap years, domains with a dot, no leap seconds, something behind the
/// scheme of a URI.
const FORMATS: [(&str, &str); 6] = [
    ("uri", r"^[^:]+:.+$"),
    ("date", DATE),
    ("time", TIME),
    ("date-time", ""),
    (
        "email",
        r"^[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+(\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+)*@([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}$",
    ),
    ("hostname", r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?){0,6}$"),
];
const DATE: &str = concat!(
    r"^([0-9]{4}-(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|[0-9]{4}-(0[469]|11)-(0[1-9]|[12][0-9]|30)|",
    r"[0-9]{4}-02-(0[1-9]|1[0-9]|2[0-8])|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)$"
);
const TIME: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

/// The greatest whole number of which JavaScript has all below.
const SAFE: i64 = (1 << 53) - 1;

/// Members with schemas by name, with a list of schemas, and with a schema.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
const LISTS: [&str; 4] = ["prefixItems", "anyOf", "oneOf", "allOf"];
const SINGLE: [&str; 3] = ["items", "additionalItems", "additionalProperties"];

/// A schema for the library. It says itself what is between values, in `x-guidance`; usually that is what most JSON has on one line.
pub fn for_library(schema: &Value) -> Value {
    let mut schema = if *schema == Value::Bool(true) { json!({}) } else { schema.clone() };
    narrow(&mut schema);
    if let Some(members) = schema.as_object_mut() {
        let usual = || json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
        members.entry("x-guidance").or_insert_with(usual);
    }
    schema
}

fn narrow(schema: &mut Value) {
    // What JSON has no room to nest deeper was refused before.
    let Some(members) = schema.as_object_mut() else { return };
    for child in children_mut(members) {
        narrow(child);
    }
    if let Some(pattern) = members.get("format").and_then(Value::as_str).and_then(pattern) {
        if members.get("format").is_some_and(|format| format != "uri") {
            members.remove("format");
        }
        if !members.contains_key("pattern") {
            members.insert("pattern".to_owned(), json!(pattern));
        } else if let Some(all) = members.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
            all.push(json!({ "pattern": pattern }));
        }
    }
    // Whether a longer number is a multiple cannot be checked where numbers are float64.
    if members.contains_key("multipleOf") {
        let has = |names: [&str; 2]| names.iter().any(|name| members.contains_key(*name));
        let (has_least, has_most) = (has(["minimum", "exclusiveMinimum"]), has(["maximum", "exclusiveMaximum"]));
        if !has_least {
            members.insert("minimum".to_owned(), json!(-SAFE));
        }
        if !has_most {
            members.insert("maximum".to_owned(), json!(SAFE));
        }
    }
}

fn pattern(format: &str) -> Option<String> {
    let (_, pattern) = FORMATS.iter().find(|(name, _)| *name == format)?;
    Some(match *pattern {
        "" => format!("{}T{}", DATE.trim_end_matches('$'), TIME.trim_start_matches('^')),
        pattern => pattern.to_owned(),
    })
}

fn children_mut(members: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut found = Vec::new();
    for (name, value) in members {
        let name = name.as_str();
        if SINGLE.contains(&name) && value.is_object() {
            found.push(value);
            continue;
        }
        match value {
            Value::Object(schemas) if BY_NAME.contains(&name) => found.extend(schemas.values_mut()),
            Value::Array(schemas) if LISTS.contains(&name) || name == "items" => found.extend(schemas),
            _ => {}
        }
    }
    found
}

/// The schemas within one, with the pointers to them.
pub fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (name, value) in schema.as_object().into_iter().flatten() {
        match value {
            Value::Object(schemas) if BY_NAME.contains(&name.as_str()) => {
                let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
                found.extend(schemas.iter().map(|(key, child)| (format!("/{name}/{}", escaped(key)), child)));
            }
            Value::Array(schemas) if LISTS.contains(&name.as_str()) || name == "items" => {
                found.extend(schemas.iter().enumerate().map(|(index, child)| (format!("/{name}/{index}"), child)));
            }
            value if SINGLE.contains(&name.as_str()) => found.push((format!("/{name}"), value)),
            _ => {}
        }
    }
    found
}
