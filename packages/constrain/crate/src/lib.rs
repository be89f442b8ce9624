//! Which tokens a JSON schema, a regular expression or a grammar allows next: llguidance, with the bytes of a model's tokens ([`vocabulary`]),
//! the places of errors ([`place`]), and matchers of sequences ([`matcher`]).
//!
//! Nothing here trusts a tokenizer, a schema or a grammar: what is wrong with them is an error, and a panic of the library is one, too.

mod compile;
mod exact;
mod guard;
mod limits;
mod matcher;
mod patterns;
mod place;
mod strict;
#[cfg(test)]
mod tests;
mod vocabulary;

use compile::{Kind, Start};
use guard::guarded;
use napi::bindgen_prelude::{AsyncTask, Uint32ArraySlice};
use napi::{Env, Error, Result, Task};
use napi_derive::napi;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn refuse(text: String) -> Error {
    Error::from_reason(text)
}

/// The version of this addon, for the JavaScript beside it.
#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The tokens of a model.
#[napi]
pub struct Vocabulary {
    vocabulary: Arc<vocabulary::Vocabulary>,
}

pub struct LoadVocabulary {
    json: String,
    ends: Vec<u32>,
}

impl Task for LoadVocabulary {
    type Output = vocabulary::Vocabulary;
    type JsValue = Vocabulary;

    fn compute(&mut self) -> Result<Self::Output> {
        let (json, ends) = (std::mem::take(&mut self.json), std::mem::take(&mut self.ends));
        guarded(move || vocabulary::Vocabulary::read(&json, &ends)).map_err(refuse)
    }

    fn resolve(&mut self, _: Env, vocabulary: Self::Output) -> Result<Self::JsValue> {
        Ok(Vocabulary { vocabulary: Arc::new(vocabulary) })
    }
}

/// Reads `tokenizer.json`. The tokens of `ends` end a text.
#[napi]
pub fn load_vocabulary(json: String, ends: Vec<u32>) -> AsyncTask<LoadVocabulary> {
    AsyncTask::new(LoadVocabulary { json, ends })
}

#[napi]
impl Vocabulary {
    /// How many words a mask has.
    #[napi(getter)]
    pub fn words(&self) -> u32 {
        self.vocabulary.words() as u32
    }

    /// Compiles a schema (in JSON), a regular expression or a grammar, with the translations of the expressions that [`find_patterns`] finds in it,
    /// in that order.
    #[napi]
    pub fn compile(&self, kind: String, text: String, translations: Vec<String>) -> Result<AsyncTask<Compile>> {
        Ok(AsyncTask::new(Compile { vocabulary: self.vocabulary.clone(), kind: kind_of(&kind)?, text, translations }))
    }
}

fn kind_of(name: &str) -> Result<Kind> {
    Kind::from_name(name).ok_or_else(|| refuse(format!("no such kind: {name}")))
}

/// A regular expression in a constraint: where it is, what it is matched with, and the expression.
#[napi(object)]
pub struct Pattern {
    pub place: String,
    pub usage: String,
    pub source: String,
}

pub struct FindPatterns {
    kind: Kind,
    text: String,
}

impl Task for FindPatterns {
    type Output = Vec<patterns::Found>;
    type JsValue = Vec<Pattern>;

    fn compute(&mut self) -> Result<Self::Output> {
        let (kind, text) = (self.kind, std::mem::take(&mut self.text));
        guarded(move || patterns::find(kind, &text)).map_err(refuse)
    }

    fn resolve(&mut self, _: Env, found: Self::Output) -> Result<Self::JsValue> {
        let pattern =
            |found: patterns::Found| Pattern { place: found.place, usage: found.usage.name().to_owned(), source: found.source };
        Ok(found.into_iter().map(pattern).collect())
    }
}

/// The regular expressions in a schema (in JSON), a regular expression or a grammar.
#[napi]
pub fn find_patterns(kind: String, text: String) -> Result<AsyncTask<FindPatterns>> {
    Ok(AsyncTask::new(FindPatterns { kind: kind_of(&kind)?, text }))
}

pub struct Compile {
    vocabulary: Arc<vocabulary::Vocabulary>,
    kind: Kind,
    text: String,
    translations: Vec<String>,
}

impl Task for Compile {
    type Output = Start;
    type JsValue = Grammar;

    fn compute(&mut self) -> Result<Self::Output> {
        let (vocabulary, kind, text) = (self.vocabulary.clone(), self.kind, std::mem::take(&mut self.text));
        let translations = std::mem::take(&mut self.translations);
        let work = move || {
            let patterns = patterns::Patterns::new(patterns::find(kind, &text)?, translations)?;
            compile::compile(&vocabulary, kind, &text, &patterns)
        };
        guarded(work).map_err(refuse)
    }

    fn resolve(&mut self, _: Env, start: Self::Output) -> Result<Self::JsValue> {
        Ok(Grammar { start, vocabulary: self.vocabulary.clone() })
    }
}

/// What a text must be.
#[napi]
pub struct Grammar {
    start: Start,
    vocabulary: Arc<vocabulary::Vocabulary>,
}

#[napi]
impl Grammar {
    /// A matcher of one sequence.
    #[napi]
    pub fn begin(&mut self) -> Matcher {
        Matcher { matcher: Arc::new(Mutex::new(matcher::Matcher::new(self.start.parser(), self.vocabulary.clone()))) }
    }
}

/// How far a sequence has come.
#[napi]
pub struct Matcher {
    matcher: Arc<Mutex<matcher::Matcher>>,
}

fn lock(matcher: &Mutex<matcher::Matcher>) -> MutexGuard<'_, matcher::Matcher> {
    // It fails from then on, if something has failed within it.
    matcher.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Prepare {
    matcher: Arc<Mutex<matcher::Matcher>>,
}

impl Task for Prepare {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<()> {
        lock(&self.matcher).prepare().map_err(refuse)
    }

    fn resolve(&mut self, _: Env, (): ()) -> Result<()> {
        Ok(())
    }
}

#[napi]
impl Matcher {
    /// Has another thread find out which tokens may come next. What else is asked of the matcher waits for it.
    #[napi]
    pub fn prepare(&self) -> AsyncTask<Prepare> {
        AsyncTask::new(Prepare { matcher: self.matcher.clone() })
    }

    /// Writes the bits of the tokens that may come next.
    #[napi]
    #[allow(unsafe_code)] // The one place where memory of script is written.
    pub fn fill(&mut self, mut mask: Uint32ArraySlice) -> Result<()> {
        let mut matcher = lock(&self.matcher);
        let allowed = matcher.allowed().map_err(refuse)?;
        // SAFETY: script, which could change it, too, does not run before this returns. `lib/` shares it with no other thread.
        matcher::write(allowed, unsafe { mask.as_mut() });
        Ok(())
    }

    /// A token was chosen.
    #[napi]
    pub fn push(&mut self, id: u32) -> Result<()> {
        lock(&self.matcher).push(&[id]).map_err(refuse)
    }

    #[napi(getter)]
    pub fn is_done(&self) -> bool {
        lock(&self.matcher).is_done()
    }

    /// The text that can only follow, behind some that has come before it; nothing if there is none.
    #[napi]
    pub fn forced_text(&mut self) -> Option<Vec<String>> {
        lock(&self.matcher).forced_text().map(|(before, forced)| vec![before, forced])
    }

    /// Pushes those of the tokens at the end of a list that are the forced text, as far as nothing else could come in their place.
    #[napi]
    pub fn force(&mut self, ids: Vec<u32>) -> Result<Vec<u32>> {
        lock(&self.matcher).force(&ids).map_err(refuse)
    }
}
