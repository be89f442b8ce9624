//! Schemas, regular expressions and grammars become parsers.

use crate::vocabulary::Vocabulary;
use crate::{limits, place, strict};
use llguidance::api::TopLevelGrammar;
use llguidance::{TokenParser, regex_to_lark};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Schema,
    Regex,
    Grammar,
}

/// Bytes of what is compiled, at most.
const LONGEST: usize = 4 << 20;
/// Brackets within brackets: the library's parsers recur for each.
const DEEPEST: usize = 250;

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
pub fn compile(vocabulary: &Vocabulary, kind: Kind, text: &str) -> Result<Start, String> {
    if text.len() > LONGEST {
        return Err(format!("found {} bytes, allowed {LONGEST}", text.len()));
    }
    let mut parser = match kind {
        Kind::Schema => {
            let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            limits::check(&schema)?;
            parser_of_schema(vocabulary, &schema).map_err(|error| place::placed(vocabulary, &schema, error))?
        }
        Kind::Regex => {
            require_shallow(text)?;
            if text.len() > limits::LONGEST_REGEX {
                return Err(format!("found {} bytes, allowed {}", text.len(), limits::LONGEST_REGEX));
            }
            // Classes are those of JavaScript.
            let regex = regex_to_lark(text, "dws");
            let parsed = parser(vocabulary, TopLevelGrammar::from_lark(format!("start: /{regex}/")));
            parsed.map_err(|error| of_regex(&error).to_owned())?
        }
        Kind::Grammar => {
            require_shallow(text)?;
            limits::check_grammar(text)?;
            parser(vocabulary, TopLevelGrammar::from_lark(text.to_owned()))?
        }
    };
    parser.start_without_prompt();
    // What allows no text is found out by the first mask.
    parser.clone().compute_mask().map_err(|error| match error.to_string().as_str() {
        "NoExtensionBias" => "allows no text".to_owned(),
        error => format!("allows no text: {error}"),
    })?;
    Ok(Start::new(parser))
}

pub fn parser_of_schema(vocabulary: &Vocabulary, schema: &Value) -> Result<TokenParser, String> {
    parser(vocabulary, TopLevelGrammar::from_json_schema(strict::for_library(schema)))
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

fn require_shallow(text: &str) -> Result<(), String> {
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
