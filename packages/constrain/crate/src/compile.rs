//! Schemas, regular expressions and grammars become parsers.

use crate::patterns::{Patterns, Use};
use crate::vocabulary::Vocabulary;
use crate::{exact, limits, place, strict};
use llguidance::api::TopLevelGrammar;
use llguidance::{TokenParser, regex_to_lark};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Schema,
    Regex,
    Grammar,
}

impl Kind {
    pub fn from_name(name: &str) -> Option<Kind> {
        match name {
            "schema" => Some(Kind::Schema),
            "regex" => Some(Kind::Regex),
            "grammar" => Some(Kind::Grammar),
            _ => None,
        }
    }
}

/// What each sequence begins with.
pub struct Start {
    /// As it was compiled.
    pristine: TokenParser,
    /// Its copies share what they find out about the texts that come.
    shared: TokenParser,
}

/// States that copies may share before they begin anew, so that a server's memory does not grow for ever.
const MOST_SHARED: usize = 20_000;

impl Start {
    fn new(pristine: TokenParser) -> Start {
        let shared = pristine.deep_clone();
        Start { pristine, shared }
    }

    /// A parser of one sequence.
    pub fn parser(&mut self) -> TokenParser {
        if self.shared.parser.lexer_stats().num_states > MOST_SHARED {
            self.shared = self.pristine.deep_clone();
        }
        self.shared.clone()
    }
}

/// # Errors
/// Where it is wrong, not supported, or allows no text; with the place.
pub fn compile(vocabulary: &Vocabulary, kind: Kind, text: &str, patterns: &Patterns) -> Result<Start, String> {
    limits::check_length(text)?;
    let mut parser = match kind {
        Kind::Schema => {
            let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            limits::check(&schema)?;
            exact::check(&schema)?;
            parser_of_schema(vocabulary, &schema, patterns)
                .map_err(|error| place::placed(vocabulary, &schema, patterns, error))?
        }
        Kind::Regex => {
            limits::check_regex(text)?;
            let regex = regex_to_lark(&patterns.get(Use::Text, text), "");
            let parsed = parser(vocabulary, TopLevelGrammar::from_lark(format!("start: /{regex}/")));
            parsed.map_err(|error| of_regex(&error).to_owned())?
        }
        Kind::Grammar => parser(vocabulary, TopLevelGrammar::from_lark(grammar(text, patterns)?))?,
    };
    parser.start_without_prompt();
    // What allows no text is found out by the first mask.
    parser.clone().compute_mask().map_err(|error| match error.to_string().as_str() {
        "NoExtensionBias" => "allows no text".to_owned(),
        error => format!("allows no text: {error}"),
    })?;
    Ok(Start::new(parser))
}

pub fn parser_of_schema(vocabulary: &Vocabulary, schema: &Value, patterns: &Patterns) -> Result<TokenParser, String> {
    parser(vocabulary, TopLevelGrammar::from_json_schema(strict::for_library(schema, patterns)))
}

/// A grammar whose schemas are those for the library.
fn grammar(text: &str, patterns: &Patterns) -> Result<String, String> {
    let (mut found, mut last) = (String::new(), 0);
    for part in limits::check_grammar(text)? {
        exact::check(&part.value).map_err(|error| format!("line {}: {error}", part.line))?;
        let json = strict::for_grammar(&part.value, patterns).to_string();
        let lines = text[part.range.clone()].matches('\n').count();
        found += &text[last..part.range.start];
        // Lines behind it keep their numbers.
        let (open, rest) = json.split_at(1.min(json.len()));
        found += open;
        found.extend(std::iter::repeat_n('\n', lines));
        found += rest;
        last = part.range.end;
    }
    Ok(found + &text[last..])
}

fn parser(vocabulary: &Vocabulary, grammar: TopLevelGrammar) -> Result<TokenParser, String> {
    let parsed = crate::guard::caught(|| vocabulary.factory.create_parser(grammar).map_err(|error| format!("{error:#}")));
    parsed.map_err(|error| error.trim().to_owned())
}

/// Without the grammar that is made of a regular expression, and places in it.
fn of_regex(error: &str) -> &str {
    let first = error.find("regex parse error:").unwrap_or(0);
    let last = error.find("\n   1 | start:").unwrap_or(error.len());
    error.get(first..last).unwrap_or(error)
}
