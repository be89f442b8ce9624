//! The place of what is wrong in a schema: the deepest part that is refused for the same reason, as the pointer of a fragment.

use crate::compile::parser_of_schema;
use crate::patterns::Patterns;
use crate::strict::children;
use crate::vocabulary::Vocabulary;
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

/// How long the place is looked for.
const LONGEST: Duration = Duration::from_millis(500);

/// The error with its place.
pub fn placed(vocabulary: &Vocabulary, schema: &Value, patterns: &Patterns, error: String) -> String {
    let error = reason(&error);
    let until = Instant::now() + LONGEST;
    let (mut pointer, mut part) = (String::new(), schema);
    let definitions = definitions(schema);
    let is_cause = |child: &Value| {
        let child = with_definitions(child, &definitions);
        Instant::now() < until
            && parser_of_schema(vocabulary, &child, patterns).is_err_and(|other| error.ends_with(reason(&other)))
    };
    while let Some((step, child)) = children(part).into_iter().find(|(_, child)| is_cause(child)) {
        pointer += &step;
        part = child;
    }
    format!("at #{pointer}: {}", innermost(error))
}

/// Without the definition that the library was in.
fn reason(error: &str) -> &str {
    error.split("\n  while processing").next().unwrap_or(error).trim()
}

/// Of what cannot be there because of a part of it, that of the part.
fn innermost(error: &str) -> &str {
    const UNSATISFIABLE: &str = "Unsatisfiable schema: ";
    error.rfind(UNSATISFIABLE).map_or(error, |first| &error[first..])
}

fn definitions(schema: &Value) -> Map<String, Value> {
    let members = schema.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| matches!(name.as_str(), "$defs" | "definitions" | "$schema"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn with_definitions(schema: &Value, definitions: &Map<String, Value>) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        for (name, value) in definitions {
            members.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    schema
}
