//! Schemas as the library takes them: what its own rules leave wider than validators do is made narrower, and what is between values is said.

use crate::patterns::{Patterns, Use};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::ptr;

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

/// Numbers are at least so far from 0 if it is excluded.
const NEAR_ZERO: f64 = 1e-20;

/// Members with schemas by name, with a list of schemas, and with a schema.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
const LISTS: [&str; 4] = ["prefixItems", "anyOf", "oneOf", "allOf"];
const SINGLE: [&str; 3] = ["items", "additionalItems", "additionalProperties"];

/// Letters behind the backslash of a string. Without `u` each string has one spelling, so a key cannot be written as another one.
const ESCAPES: &str = "nrbtf\\\"";

/// A schema for the library. It says itself what is between values, in `x-guidance`; usually that is what most JSON has on one line.
pub fn for_library(schema: &Value, patterns: &Patterns) -> Value {
    let usual = json!({ "item_separator": ", ", "key_separator": ": ", "whitespace_flexible": false });
    narrowed(schema, patterns, usual)
}

/// A schema within a grammar, which says nothing of what is between values.
pub fn for_grammar(schema: &Value, patterns: &Patterns) -> Value {
    narrowed(schema, patterns, json!({}))
}

fn narrowed(schema: &Value, patterns: &Patterns, usual: Value) -> Value {
    let schemas: HashSet<*const Value> = Schemas::of(schema).map(|(_, schema)| ptr::from_ref(schema)).collect();
    let mut schema = if *schema == Value::Bool(true) { json!({}) } else { rebuilt(schema, &schemas, patterns) };
    if let Some(members) = schema.as_object_mut() {
        let guidance = members.entry("x-guidance").or_insert(usual);
        if let Some(guidance) = guidance.as_object_mut() {
            let own = guidance.get("json_allowed_escapes").and_then(Value::as_str).unwrap_or(ESCAPES);
            let escapes: String = own.chars().filter(|letter| *letter != 'u').collect();
            guidance.insert("json_allowed_escapes".to_owned(), json!(escapes));
        }
    }
    schema
}

/// A copy in which the schemas are narrower. What JSON has no room to nest deeper was refused before.
fn rebuilt(value: &Value, schemas: &HashSet<*const Value>, patterns: &Patterns) -> Value {
    match value {
        Value::Array(values) => values.iter().map(|value| rebuilt(value, schemas, patterns)).collect(),
        Value::Object(members) => {
            let mut copy: Map<String, Value> =
                members.iter().map(|(name, value)| (name.clone(), rebuilt(value, schemas, patterns))).collect();
            if schemas.contains(&ptr::from_ref(value)) {
                narrow(&mut copy, patterns);
            }
            copy.into()
        }
        value => value.clone(),
    }
}

fn narrow(members: &mut Map<String, Value>, patterns: &Patterns) {
    translate(members, patterns);
    narrow_format(members);
    narrow_bounds(members);
    narrow_multiple(members);
}

/// Whether a longer number is a multiple cannot be checked where numbers are float64.
fn narrow_multiple(members: &mut Map<String, Value>) {
    let Some(multiple) = members.get("multipleOf").and_then(Value::as_f64) else { return };
    // Of a fraction the digits behind the point count, too.
    let places = multiple.to_string().split_once('.').map_or(0, |(_, digits)| digits.len());
    let most = if places == 0 { json!(SAFE) } else { json!(SAFE as f64 / 10f64.powi(places as i32)) };
    let least = if places == 0 { json!(-SAFE) } else { json!(SAFE as f64 / -10f64.powi(places as i32)) };
    for (names, bound) in [(["minimum", "exclusiveMinimum"], least), (["maximum", "exclusiveMaximum"], most)] {
        if !names.iter().any(|name| members.contains_key(*name)) {
            members.insert(names[0].to_owned(), bound);
        }
    }
}

/// A number as near to an excluded bound as is written: the next one of float64, which has 300 digits beside 0.
fn beside(bound: f64, is_above: bool) -> f64 {
    match (bound == 0.0, is_above) {
        (true, true) => NEAR_ZERO,
        (true, false) => -NEAR_ZERO,
        (false, true) => bound.next_up(),
        (false, false) => bound.next_down(),
    }
}

/// More digits than float64 has may make an excluded bound of a number beside it, so the bound is that number.
fn narrow_bounds(members: &mut Map<String, Value>) {
    let is_integer = members.get("type").is_some_and(|kind| kind == "integer");
    for (exclusive, inclusive, is_above) in [("exclusiveMinimum", "minimum", true), ("exclusiveMaximum", "maximum", false)] {
        let given = members.get(inclusive).and_then(Value::as_f64);
        let bound = match members.get(exclusive) {
            // As in draft 4.
            Some(Value::Bool(true)) => given,
            bound => bound.and_then(Value::as_f64),
        };
        let Some(bound) = bound else { continue };
        // Whole numbers are exact up to here.
        if is_integer && bound.abs() <= SAFE as f64 {
            continue;
        }
        let next = beside(bound, is_above);
        let within = given.map_or(next, |given| if is_above { given.max(next) } else { given.min(next) });
        members.retain(|name, _| name != exclusive);
        members.insert(inclusive.to_owned(), json!(within));
    }
}

fn translate(members: &mut Map<String, Value>, patterns: &Patterns) {
    if let Some(Value::String(pattern)) = members.get_mut("pattern") {
        *pattern = patterns.get(Use::Strings, pattern).into_owned();
    }
    if let Some(Value::Object(names)) = members.get_mut("patternProperties") {
        let mut translated = Map::new();
        for (name, schema) in std::mem::take(names) {
            let mut name = patterns.get(Use::Keys, &name).into_owned();
            // Two that become one are still two, which the library refuses.
            while translated.contains_key(&name) {
                name = format!("(?:{name})");
            }
            translated.insert(name, schema);
        }
        *names = translated;
    }
}

fn narrow_format(members: &mut Map<String, Value>) {
    let Some(format) = members.get("format").and_then(Value::as_str) else { return };
    let Some(pattern) = pattern(format) else { return };
    if format != "uri" {
        members.remove("format");
    }
    if !members.contains_key("pattern") {
        members.insert("pattern".to_owned(), json!(pattern));
    } else if let Some(all) = members.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        all.push(json!({ "pattern": pattern }));
    }
}

fn pattern(format: &str) -> Option<String> {
    let (_, pattern) = FORMATS.iter().find(|(name, _)| *name == format)?;
    Some(match *pattern {
        "" => format!("{}T{}", DATE.trim_end_matches('$'), TIME.trim_start_matches('^')),
        pattern => pattern.to_owned(),
    })
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

/// What a reference names, as the library finds it.
pub fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let path = reference.strip_prefix('#')?;
    if matches!(path, "" | "/") {
        return Some(root);
    }
    let step = |value: &'a Value, name: &str| match value {
        Value::Array(values) => values.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    };
    path.strip_prefix('/')?.split('/').try_fold(root, step)
}

/// Characters of a pointer in an error.
const LONGEST_POINTER: usize = 1000;

/// All schemas of one: itself, those within it, and those that references name elsewhere in it. Each comes once, with its number.
pub struct Schemas<'a> {
    root: &'a Value,
    /// Behind which schema each is, and the step from there: a pointer is made where it is needed.
    steps: Vec<(usize, String)>,
    rest: Vec<(usize, &'a Value)>,
    seen: HashSet<*const Value>,
}

impl<'a> Schemas<'a> {
    pub fn of(root: &'a Value) -> Schemas<'a> {
        Schemas { root, steps: vec![(0, String::new())], rest: vec![(0, root)], seen: HashSet::from([ptr::from_ref(root)]) }
    }

    /// The pointer to a schema, or the beginning of a very long one.
    pub fn pointer(&self, mut number: usize) -> String {
        let mut steps = Vec::new();
        while number > 0 {
            let (before, step) = &self.steps[number];
            steps.push(step.as_str());
            number = *before;
        }
        steps.iter().rev().flat_map(|step| step.chars()).take(LONGEST_POINTER).collect()
    }

    fn add(&mut self, before: usize, step: String, schema: &'a Value) {
        if self.seen.insert(ptr::from_ref(schema)) {
            self.rest.push((self.steps.len(), schema));
            self.steps.push((before, step));
        }
    }
}

impl<'a> Iterator for Schemas<'a> {
    type Item = (usize, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, schema) = self.rest.pop()?;
        for (step, child) in children(schema) {
            self.add(number, step, child);
        }
        if let Some(reference) = schema["$ref"].as_str()
            && let Some(other) = target(self.root, reference)
        {
            self.add(0, reference.trim_start_matches('#').to_owned(), other);
        }
        Some((number, schema))
    }
}
