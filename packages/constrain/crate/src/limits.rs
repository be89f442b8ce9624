//! What is too much to compile: the library takes exponential time, or a deep stack, for what these limits forbid.

use crate::strict::{Schemas, children, target};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Schemas in a schema. The library may recur for each.
const MOST_SCHEMAS: usize = 10_000;
/// Bytes of what is compiled, at most.
const LONGEST: usize = 4 << 20;
/// Brackets within brackets: the library's parsers recur for each.
const DEEPEST: usize = 250;
/// Bytes of a regular expression: the states of one may take the square of it.
const LONGEST_REGEX: usize = 8192;
/// Patterns of the names of an object's members.
const MOST_NAMES: usize = 64;
/// Patterns that one string has to match all: each doubles the time.
const MOST_PATTERNS: usize = 12;
/// What a number has to be a multiple of: each remainder is a state. Beyond twice as many there are too many for the library when texts come, and
/// compiling takes seconds.
const LARGEST_MULTIPLE: u64 = 5000;

/// Values within `const` and `enum`, and names of `required`, together: the library takes the square of it. What `enum` lists itself is not counted
/// if it has no values within.
const MOST_LISTED: usize = 10_000;
/// Members of an object that may be there or not: each may begin where any of them may.
const MOST_OPTIONAL: usize = 2000;

/// # Errors
/// With the place of what is too much.
pub fn check(root: &Value) -> Result<(), String> {
    let mut schemas = Schemas::of(root);
    let (mut count, mut listed) = (0, 0);
    while let Some((number, schema)) = schemas.next() {
        count += 1;
        listed += listed_in(schema);
        if listed > MOST_LISTED {
            let pointer = schemas.pointer(number);
            return Err(format!("at #{pointer}: found more than {MOST_LISTED} values of const and enum, and names of required"));
        }
        if count > MOST_SCHEMAS {
            return Err(format!("found more than {MOST_SCHEMAS} schemas in it"));
        }
        check_one(schema).map_err(|(step, text)| format!("at #{}{step}: {text}", schemas.pointer(number)))?;
    }
    if root["x-guidance"]["whitespace_pattern"].as_str().is_some_and(|pattern| pattern.len() > LONGEST_REGEX) {
        return Err(format!("at #/x-guidance/whitespace_pattern: found more than {LONGEST_REGEX} bytes"));
    }
    let together = Together { root, known: HashMap::new() }.of(root);
    if together.patterns > MOST_PATTERNS {
        let found = together.patterns;
        return Err(format!("found {found} patterns and formats that one string may have to match all, allowed {MOST_PATTERNS}"));
    }
    if together.multiple > LARGEST_MULTIPLE {
        return Err(format!("found a multipleOf, or some that come together, beyond {LARGEST_MULTIPLE}"));
    }
    Ok(())
}

/// What is too much in a schema itself: the step to it, and what was found.
fn check_one(schema: &Value) -> Result<(), (&'static str, String)> {
    let optional = optional_in(schema);
    if optional > MOST_OPTIONAL {
        return Err(("/properties", format!("found {optional} that are not required, allowed {MOST_OPTIONAL}")));
    }
    let names = schema["patternProperties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if names.clone().count() > MOST_NAMES {
        return Err(("/patternProperties", format!("found more than {MOST_NAMES} patterns")));
    }
    match names.chain(schema["pattern"].as_str()).find(|pattern| pattern.len() > LONGEST_REGEX) {
        Some(long) => Err(("", format!("found a pattern of {} bytes, allowed {LONGEST_REGEX}", long.len()))),
        None => Ok(()),
    }
}

/// How many values and names a schema lists, without those within it.
fn listed_in(schema: &Value) -> usize {
    let within = |value: &Value| values_in(value) - 1;
    let lists = |name: &str| schema[name].as_array().into_iter().flatten();
    within(&schema["const"]) + lists("enum").map(within).sum::<usize>() + lists("required").count()
}

/// How many values there are in one, with itself. JSON has no room to nest deep.
fn values_in(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(values_in).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

fn optional_in(schema: &Value) -> usize {
    let Some(members) = schema["properties"].as_object() else { return 0 };
    let required: HashSet<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    members.keys().filter(|name| !required.contains(name.as_str())).count()
}

/// What one value may have to keep to at once, at most: how many patterns, and multiples of what.
#[derive(Clone, Copy)]
struct Load {
    patterns: usize,
    multiple: u64,
}

impl Load {
    const NONE: Load = Load { patterns: 0, multiple: 1 };

    fn and(self, other: Load) -> Load {
        let multiple = self.multiple.saturating_mul(other.multiple);
        Load { patterns: self.patterns.saturating_add(other.patterns), multiple }
    }

    fn or(self, other: Load) -> Load {
        Load { patterns: self.patterns.max(other.patterns), multiple: self.multiple.max(other.multiple) }
    }
}

struct Together<'a> {
    root: &'a Value,
    /// By reference; nothing for one that is being looked at.
    known: HashMap<&'a str, Load>,
}

impl<'a> Together<'a> {
    fn of(&mut self, schema: &'a Value) -> Load {
        let patterns = ["pattern", "format"].iter().filter(|name| schema.get(**name).is_some()).count();
        // Of a decimal fraction the digits count.
        let digits: Option<String> = schema["multipleOf"].is_number().then(|| schema["multipleOf"].to_string());
        let digits = digits.map(|text| text.split(['e', 'E']).next().unwrap_or_default().replace('.', ""));
        let multiple = digits.map_or(1, |digits| digits.parse().unwrap_or(u64::MAX).max(1));
        let (mut all, mut any, mut within) = (self.of_reference(schema), Load::NONE, Load { patterns, multiple });
        for (step, child) in children(schema) {
            let found = self.of(child);
            match step.split('/').nth(1) {
                Some("allOf") => all = all.and(found),
                Some("anyOf" | "oneOf") => any = any.or(found),
                _ => within = within.or(found),
            }
        }
        all.and(any).and(within)
    }

    fn of_reference(&mut self, schema: &'a Value) -> Load {
        let Some(reference) = schema["$ref"].as_str() else { return Load::NONE };
        if let Some(&known) = self.known.get(reference) {
            return known;
        }
        self.known.insert(reference, Load::NONE);
        let found = target(self.root, reference).map_or(Load::NONE, |target| self.of(target));
        self.known.insert(reference, found);
        found
    }
}

/// A schema in a grammar.
pub struct Part {
    pub line: usize,
    /// Where it is in the text.
    pub range: Range<usize>,
    pub value: Value,
}

/// The schemas of a grammar.
///
/// # Errors
/// Where a regular expression of a grammar is too long, where texts have to match too many at once, or where a schema in it is too much; with
/// the line.
pub fn check_grammar(text: &str) -> Result<Vec<Part>, String> {
    check_shallow(text)?;
    let (mut together, mut rest, mut schemas) = (1, text, Vec::new());
    while let Some(place) = rest.find(['"', '/', '&', '%', '#']) {
        let from = &rest[place..];
        let start = text.len() - from.len();
        let line = || 1 + text[..start].matches('\n').count();
        let length = match from.as_bytes() {
            [quote @ (b'"' | b'/'), quoted @ ..] if !from.starts_with("//") => {
                let length = quoted_length(*quote, quoted);
                if *quote == b'/' && length > LONGEST_REGEX {
                    return Err(format!(
                        "line {}: found a regular expression of {length} bytes, allowed {LONGEST_REGEX}",
                        line()
                    ));
                }
                2 + length
            }
            // A comment.
            [b'/' | b'#', ..] => from.find('\n').unwrap_or(from.len()),
            [b'&', ..] => {
                together += 1;
                if together > MOST_PATTERNS {
                    return Err(format!("line {}: found more than {MOST_PATTERNS} patterns joined by &", line()));
                }
                1
            }
            _ => match from.strip_prefix("%json") {
                Some(json) => {
                    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
                    let value = values.next();
                    let (first, last) = (start + "%json".len(), start + "%json".len() + values.byte_offset());
                    if let Some(Ok(value)) = value {
                        check(&value).map_err(|error| format!("line {}: {error}", line()))?;
                        schemas.push(Part { line: line(), range: first..last, value });
                    }
                    last - start
                }
                None => 1,
            },
        };
        // What is not closed ends the text.
        rest = from.get(length..).unwrap_or_default();
    }
    Ok(schemas)
}

/// # Errors
/// Where a constraint is too long.
pub fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST { Err(format!("found {} bytes, allowed {LONGEST}", text.len())) } else { Ok(()) }
}

/// # Errors
/// Where a regular expression is too long, or too deep.
pub fn check_regex(text: &str) -> Result<(), String> {
    if text.len() > LONGEST_REGEX {
        return Err(format!("found {} bytes, allowed {LONGEST_REGEX}", text.len()));
    }
    check_shallow(text)
}

/// # Errors
/// Where there are too many brackets within brackets.
pub fn check_shallow(text: &str) -> Result<(), String> {
    let (mut depth, mut line) = (0usize, 1);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => line += 1,
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("line {line}: found more than {DEEPEST} brackets within each other"));
        }
    }
    Ok(())
}

/// The bytes up to the quote that is not escaped. A string ends with its line.
fn quoted_length(quote: u8, text: &[u8]) -> usize {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let is_end = *byte == b'\n' && quote == b'"' || *byte == quote && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    };
    text.iter().position(ends).unwrap_or(text.len())
}
