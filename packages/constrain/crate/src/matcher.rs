//! How far one sequence has come, which tokens may follow, and which must.

use crate::guard::caught;
use crate::vocabulary::Vocabulary;
use llguidance::TokenParser;
use llguidance::api::StopReason;
use llguidance::toktrie::SimpleVob;
use std::sync::Arc;

/// Tokens before forced text that are made tokens with it, so that it comes out as the model knows it.
const CONTEXT: usize = 8;

pub struct Matcher {
    parser: TokenParser,
    vocabulary: Arc<Vocabulary>,
    /// The last tokens.
    last: Vec<u32>,
    forced: Vec<u8>,
    /// The tokens that may come next, if that was found out.
    allowed: Option<SimpleVob>,
    /// Why it cannot go on.
    failed: Option<String>,
}

impl Matcher {
    pub fn new(parser: TokenParser, vocabulary: Arc<Vocabulary>) -> Matcher {
        Matcher { parser, vocabulary, last: Vec::new(), forced: Vec::new(), allowed: None, failed: None }
    }

    /// What fails once fails from then on.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut Matcher) -> Result<T, String>) -> Result<T, String> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let done = caught(|| work(self));
        self.failed = done.as_ref().err().cloned();
        done
    }

    /// Finds out which tokens may come next.
    ///
    /// # Errors
    /// Where there are none, or finding out takes too much.
    pub fn prepare(&mut self) -> Result<(), String> {
        self.allowed().map(drop)
    }

    /// The tokens that may come next.
    ///
    /// # Errors
    /// As [`Matcher::prepare`].
    pub fn allowed(&mut self) -> Result<&SimpleVob, String> {
        if self.allowed.is_none() || self.failed.is_some() {
            let found = self.attempt(|this| {
                if this.is_done() {
                    return Ok(this.vocabulary.trie().eos_token_set());
                }
                this.parser.compute_mask().map_err(|error| error.to_string())
            });
            self.allowed = Some(found?);
        }
        self.allowed.as_ref().ok_or_else(|| "no mask (internal error)".to_owned())
    }

    /// Tokens have come.
    ///
    /// # Errors
    /// Where they may not.
    pub fn push(&mut self, ids: &[u32]) -> Result<(), String> {
        self.allowed = None;
        self.attempt(|this| {
            for &id in ids {
                if id as usize >= this.vocabulary.trie().vocab_size() {
                    return Err(format!("found token {id}, allowed tokens of the tokenizer"));
                }
                this.parser.consume_token(id).map_err(|error| error.to_string())?;
                this.last.push(id);
            }
            let first = this.last.len().saturating_sub(CONTEXT);
            this.last.drain(..first);
            this.parser.check_stop().map(drop).map_err(|error| error.to_string())
        })
    }

    /// Whether nothing may follow.
    pub fn is_done(&self) -> bool {
        matches!(self.parser.stop_reason(), StopReason::EndOfSentence | StopReason::NoExtension)
    }

    /// The text that can only follow, behind the end of what has come.
    pub fn forced_text(&mut self) -> Option<(String, String)> {
        let bytes = self.attempt(|this| Ok(if this.is_done() { Vec::new() } else { this.parser.force_bytes() })).ok()?;
        // A letter that is not complete is not forced yet.
        let whole = match std::str::from_utf8(&bytes) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        self.forced = bytes[..whole].to_vec();
        if self.forced.is_empty() {
            return None;
        }
        let before = self.vocabulary.trie().decode_raw(&self.last);
        // From where a letter begins.
        let first = (0..before.len().min(4)).find(|&first| std::str::from_utf8(&before[first..]).is_ok());
        let before = first.and_then(|first| String::from_utf8(before[first..].to_vec()).ok()).unwrap_or_default();
        Some((before, String::from_utf8_lossy(&self.forced).into_owned()))
    }

    /// Pushes the tokens at the end of a list that are the forced text, but for those in whose place longer ones may come. Gives none where the
    /// forced text begins within a token.
    ///
    /// # Errors
    /// As [`Matcher::push`].
    pub fn force(&mut self, ids: &[u32]) -> Result<Vec<u32>, String> {
        let trie = self.vocabulary.clone();
        let trie = trie.trie();
        if ids.iter().any(|&id| id as usize >= trie.vocab_size()) {
            return Ok(Vec::new());
        }
        let mut length = 0;
        let count = ids.iter().rev().take_while(|&&id| {
            let fits = length < self.forced.len();
            length += if fits { trie.token_len(id) } else { 0 };
            fits
        });
        let count = count.count();
        let ids = &ids[ids.len() - count..];
        if trie.decode_raw(ids) != self.forced {
            return Ok(Vec::new());
        }
        let ids = self.attempt(|this| {
            let (cut, _) = this.parser.parser.with_recognizer(|recognizer| trie.chop_tokens(recognizer, ids));
            Ok(ids[..ids.len() - cut].to_vec())
        })?;
        self.push(&ids)?;
        Ok(ids)
    }
}

/// Writes the bits of a mask; those that it does not have are 0.
pub fn write(allowed: &SimpleVob, words: &mut [u32]) {
    let bits = allowed.as_slice();
    let count = bits.len().min(words.len());
    words[..count].copy_from_slice(&bits[..count]);
    words[count..].fill(0);
}
