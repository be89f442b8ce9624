//! The regular expressions of a constraint. They are JavaScript's: script translates them to the library's before anything is compiled.

use crate::compile::Kind;
use crate::limits;
use crate::strict::Schemas;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// What an expression is matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// A text.
    Text,
    /// The strings of a schema.
    Strings,
    /// The keys of objects.
    Keys,
}

impl Use {
    pub fn name(self) -> &'static str {
        match self {
            Use::Text => "text",
            Use::Strings => "strings",
            Use::Keys => "keys",
        }
    }
}

/// An expression in a constraint.
#[derive(Debug, PartialEq)]
pub struct Found {
    /// Where it is, for an error; nothing for a constraint that is one.
    pub place: String,
    pub usage: Use,
    pub source: String,
}

/// Translations. What has none is taken as it is.
#[derive(Default)]
pub struct Patterns {
    of: HashMap<(Use, String), String>,
}

impl Patterns {
    /// # Errors
    /// Where there is not one translation for each.
    pub fn new(found: Vec<Found>, translations: Vec<String>) -> Result<Patterns, String> {
        if found.len() != translations.len() {
            return Err(format!("found {} translations of {} patterns (internal error)", translations.len(), found.len()));
        }
        let keys = found.into_iter().map(|found| (found.usage, found.source));
        Ok(Patterns { of: keys.zip(translations).collect() })
    }

    pub fn get<'a>(&'a self, usage: Use, source: &'a str) -> Cow<'a, str> {
        // A key of two strings cannot be borrowed of them.
        self.of.get(&(usage, source.to_owned())).map_or(Cow::Borrowed(source), |text| Cow::Borrowed(text.as_str()))
    }
}

/// The expressions of a constraint, each once.
///
/// # Errors
/// Where the constraint is not what it has to be, or too much; with the place.
pub fn find(kind: Kind, text: &str) -> Result<Vec<Found>, String> {
    limits::check_length(text)?;
    let mut found = Vec::new();
    match kind {
        Kind::Schema => {
            let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            limits::check(&schema)?;
            of_schema(&schema, "", &mut found)?;
        }
        Kind::Regex => {
            limits::check_regex(text)?;
            found.push(Found { place: String::new(), usage: Use::Text, source: text.to_owned() });
        }
        Kind::Grammar => {
            for schema in limits::check_grammar(text)? {
                of_schema(&schema.value, &format!("line {}: ", schema.line), &mut found)?;
            }
        }
    }
    let mut seen = HashSet::new();
    found.retain(|found| seen.insert((found.usage, found.source.clone())));
    Ok(found)
}

fn of_schema(schema: &Value, before: &str, found: &mut Vec<Found>) -> Result<(), String> {
    let mut schemas = Schemas::of(schema);
    while let Some((number, schema)) = schemas.next() {
        let names = schema["patternProperties"].as_object().into_iter().flatten().map(|(name, _)| (Use::Keys, name.as_str()));
        for (usage, source) in names.chain(schema["pattern"].as_str().map(|source| (Use::Strings, source))) {
            let member = if usage == Use::Keys { "patternProperties" } else { "pattern" };
            let place = format!("{before}at #{}/{member}: ", schemas.pointer(number));
            limits::check_shallow(source).map_err(|error| format!("{place}{error}"))?;
            found.push(Found { place, usage, source: source.to_owned() });
        }
    }
    Ok(())
}
