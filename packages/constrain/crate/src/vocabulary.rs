//! The bytes of a model's tokens, out of `tokenizer.json`.

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, TokRxInfo, TokTrie};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Tokens have smaller numbers. Models of today have up to 262,144.
const MOST_TOKENS: usize = 1 << 20;
/// Numbers that any tokenizer may have: larger ones are below twice the number of its tokens, so that small files take little memory.
const USUAL: usize = 1 << 16;

/// Bytes of all tokens together: each may be a node of a tree. Models of today have up to 3 MB.
const MOST_BYTES: usize = 16 << 20;

/// What tokens are written with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Letters {
    /// A letter stands for a byte (`Ġ` for a space).
    Bytes,
    /// This one stands for a space, and `<0x0A>` for a byte.
    Text { space: char },
}

pub struct Vocabulary {
    pub factory: ParserFactory,
    /// Whether some token ends a text.
    pub has_end: bool,
}

impl Vocabulary {
    /// # Errors
    /// Where it is no tokenizer, or one whose tokens have no bytes of their own.
    pub fn read(json: &str, ends: &[u32]) -> Result<Vocabulary, String> {
        let json: Value = serde_json::from_str(json).map_err(|error| format!("tokenizer.json: {error}"))?;
        let words = words(&json)?;
        let end = ends.iter().copied().find(|&end| end as usize >= words.len());
        if let Some(end) = end {
            return Err(format!("end: found {end}, allowed a token of the tokenizer, which has {}", words.len()));
        }
        let info = TokRxInfo::new(words.len() as u32, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(ends);
        }
        // Forced text is made tokens by the model's own tokenizer, in script.
        let env: llguidance::toktrie::TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory =
            ParserFactory::new(&env, InferenceCapabilities::default(), &slices).map_err(|error| error.to_string())?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // 1 to 2 KB each.
        limits.max_lexer_states = 50_000;
        Ok(Vocabulary { factory, has_end: !ends.is_empty() })
    }

    pub fn trie(&self) -> &TokTrie {
        self.factory.tok_env().tok_trie()
    }

    /// How many words of 32 bits a mask has.
    pub fn words(&self) -> usize {
        self.trie().vocab_size().div_ceil(32)
    }
}

/// The bytes of each token; none for numbers that no token has, and for tokens that have no text.
fn words(json: &Value) -> Result<Vec<Vec<u8>>, String> {
    let letters = letters(json)?;
    let bytes = bytes_of_letters();
    let (vocabulary, added) = (vocabulary(json)?, json["added_tokens"].as_array().map_or(&[][..], Vec::as_slice));
    let most = (2 * (vocabulary.len() + added.len())).clamp(USUAL, MOST_TOKENS);
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut length = 0;
    let mut set = |id: usize, word: Vec<u8>| {
        length += word.len();
        if length > MOST_BYTES {
            return Err(format!("tokenizer.json: found tokens of more than {MOST_BYTES} bytes together"));
        }
        if id >= most {
            return Err(format!("tokenizer.json: found token {id}, allowed numbers below {most}"));
        }
        if words.len() <= id {
            words.resize(id + 1, Vec::new());
        }
        words[id] = word;
        Ok(())
    };
    for (id, text) in vocabulary {
        set(id, word(text, letters, &bytes))?;
    }
    for token in added {
        let (Some(id), Some(text)) = (token["id"].as_u64(), token["content"].as_str()) else {
            return Err("tokenizer.json: found an added token without id and content".to_owned());
        };
        // Special ones have no text, so none of them is a part of what is constrained.
        let is_special = token["special"].as_bool().unwrap_or(false);
        let marker = is_special.then_some(TokTrie::SPECIAL_TOKEN_MARKER);
        set(id as usize, marker.into_iter().chain(text.bytes()).collect())?;
    }
    if words.is_empty() { Err("tokenizer.json: found no tokens".to_owned()) } else { Ok(words) }
}

fn vocabulary(json: &Value) -> Result<Vec<(usize, &str)>, String> {
    let vocabulary = &json["model"]["vocab"];
    let found = match vocabulary {
        Value::Object(ids) => {
            ids.iter().map(|(text, id)| Some((id.as_u64()? as usize, text.as_str()))).collect::<Option<Vec<_>>>()
        }
        // With scores, in the order of the numbers.
        Value::Array(pieces) => pieces.iter().enumerate().map(|(id, piece)| Some((id, piece[0].as_str()?))).collect(),
        _ => None,
    };
    found.ok_or_else(|| "tokenizer.json: found no model.vocab, allowed the numbers of tokens, or tokens with scores".to_owned())
}

fn letters(json: &Value) -> Result<Letters, String> {
    let kinds = |name: &str, list: &str| -> Vec<Value> {
        let part = &json[name];
        match part[list].as_array() {
            Some(parts) if part["type"] == "Sequence" => parts.clone(),
            _ => vec![part.clone()],
        }
    };
    let decoders = kinds("decoder", "decoders");
    let is = |kind: &str| decoders.iter().find(|decoder| decoder["type"] == kind);
    let is_bytes = is("ByteLevel").is_some()
        || json["decoder"].is_null() && kinds("pre_tokenizer", "pretokenizers").iter().any(|part| part["type"] == "ByteLevel");
    if is_bytes {
        return Ok(Letters::Bytes);
    }
    let first = |value: &Value| value.as_str().and_then(|text| text.chars().next());
    if let Some(decoder) = is("Metaspace") {
        return Ok(Letters::Text { space: first(&decoder["replacement"]).unwrap_or('▁') });
    }
    let spaces = decoders.iter().find(|decoder| decoder["type"] == "Replace" && decoder["content"] == " ");
    match spaces.and_then(|decoder| first(&decoder["pattern"]["String"])) {
        Some(space) => Ok(Letters::Text { space }),
        None if is("ByteFallback").is_some() || is("Fuse").is_some() => Ok(Letters::Text { space: '▁' }),
        None => Err(format!(
            "tokenizer.json: found a decoder {}, allowed ByteLevel, Metaspace, or Replace of a letter by a space: others \
                             have no text of single tokens",
            json["decoder"]["type"]
        )),
    }
}

fn word(text: &str, letters: Letters, bytes: &HashMap<char, u8>) -> Vec<u8> {
    match letters {
        Letters::Bytes => {
            let word: Option<Vec<u8>> = text.chars().map(|letter| bytes.get(&letter).copied()).collect();
            // What is not written so was added.
            word.unwrap_or_else(|| text.as_bytes().to_vec())
        }
        Letters::Text { space } => {
            let byte = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>')).filter(|text| text.len() == 2);
            match byte.and_then(|text| u8::from_str_radix(text, 16).ok()) {
                Some(byte) => vec![byte],
                None => text.chars().map(|letter| if letter == space { ' ' } else { letter }).collect::<String>().into_bytes(),
            }
        }
    }
}

/// GPT-2's letters: what can be printed stands for itself, other bytes for the letters from U+0100 on.
fn bytes_of_letters() -> HashMap<char, u8> {
    let mut others = 0x100..;
    let letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => Some(char::from(byte)),
        _ => others.next().and_then(char::from_u32),
    };
    (0..=u8::MAX).map(letter).zip(0..=u8::MAX).filter_map(|(letter, byte)| Some((letter?, byte))).collect()
}
