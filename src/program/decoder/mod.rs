//! A model that makes text, step by step: what its inputs mean ([`inputs`]), the plans of its steps ([`plans`], [`ways`]), the steps of
//! a sequence ([`sequence`]), prompts in pieces ([`pieces`]), the order of the steps of all calls ([`scheduler`]), steps of several at once
//! ([`together`]), the choice of a token ([`sampling`]), guesses of what comes next ([`guesses`], [`draft`]), tokens and images as rows of
//! embeddings ([`embedding`]), and sequences that are continued ([`session`]), or kept for others ([`prefixes`], [`saved`]).
//!
//! The engine is that of `run()` ([`super::caches`]). Here masks and positions are made: each plan gets what the model would get for the rows
//! that count, a mask of ones and positions from 0.
//!
//! What is taken for granted of a decoder: no token sees one after it. A prompt runs in pieces, the last one filled up, and a sequence
//! goes back to fewer tokens.

mod draft;
mod embedding;
mod features;
mod feed;
mod generation;
mod guesses;
mod inputs;
mod masks;
mod pieces;
mod plans;
mod prefixes;
mod sampling;
mod saved;
mod scheduler;
mod sequence;
mod session;
mod together;
mod ways;

pub use embedding::{Embedder, Given};
pub use features::Grid;
pub use inputs::ConstantInput;
pub use masks::{Masks, When};
pub use prefixes::{Figures, Prefixes};
pub use sampling::{Allowed, Choice, Sampling};
pub use saved::{Saved, saved_sequences};
pub use session::{Next, Prompts, Session, Work, start};

use super::Program;
use crate::error::{Error, Kind, Result};
use crate::onnx::caches::{self, KvCache, KvCaches};
use crate::onnx::fixed_caches::{self, FixedCaches};
use crate::onnx::{ElementType, Loaded, Place, Size, Source, import_part};
use crate::program::caches::{Plan, Table, with_scales};
use inputs::{Extent, Roles};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// How a decoder keeps what it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheType {
    /// As the model has it.
    #[default]
    Model,
    /// In 8 bits, with scales.
    Int8,
}

/// A model whose inputs are understood.
#[derive(Debug)]
pub struct Decoder {
    program: Arc<Program>,
    /// Those of the model.
    caches: KvCaches,
    /// Those of its plans.
    kept: KvCaches,
    cache_type: CacheType,
    /// The model's graph as one whose caches grow, if they have a fixed size in the file.
    fixed: Option<FixedCaches>,
    roles: Roles,
    /// Makes what the decoder takes in the place of tokens.
    embedder: Option<Embedder>,
    features: Mutex<features::Features>,
    /// The output that has a number for each token there is.
    logits: String,
    plans: Table<Extent, Plan>,
    /// Whether several tokens can be taken only where nothing is remembered before them. Of some models this is known, and of others found out
    /// when a plan is refused: masks that onnxruntime-genai's builder writes beside concatenations have the new tokens alone in both directions.
    begins_alone: AtomicBool,
    /// By the length that what is given is filled up to: whether steps are the same then.
    fills_up: Mutex<HashMap<usize, bool>>,
    /// How long pieces of prompts take.
    pace: Mutex<pieces::Pace>,
    scheduler: scheduler::Scheduler,
    together: together::Together,
    guessing: guesses::Guessing,
    /// Of calls that have no cache of their own.
    prefixes: Arc<Prefixes>,
    /// What tells the model from others, once somebody has asked.
    key: OnceLock<Result<u128>>,
}

/// What the calls on a model keep by default: bytes at most, and tokens at least.
const OWN_PREFIXES: (usize, usize) = (256 << 20, 64);

impl Decoder {
    /// Finds out what the inputs of a model mean. Those that have no meaning here are given, the same for every step.
    ///
    /// # Errors
    /// `NotSupportedError` for a model that is no decoder.
    pub fn new(program: Arc<Program>, embedder: Option<Embedder>, cache_type: CacheType) -> Result<Decoder> {
        let mut caches = caches::find(&program.loaded, &program.bounds)?;
        let found = fixed_caches::find(&program.loaded)?;
        let counts = found.as_ref().map(|fixed| fixed.counts.clone()).unwrap_or_default();
        let fixed = found.filter(|fixed| needs(fixed, &caches, &program.loaded));
        if let Some(fixed) = &fixed {
            caches.states.retain(|(past, _)| fixed.caches.iter().all(|cache| cache.past != *past));
            caches.rows.clone_from(&fixed.caches);
        }
        let outputs = program.loaded.outputs()?;
        let is_cache = |name: &str| {
            caches.rows.iter().any(|cache| cache.present == name) || caches.states.iter().any(|(_, present)| present == name)
        };
        let others: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).filter(|name| !is_cache(name)).collect();
        let logits = others.iter().find(|name| **name == "logits").or(others.first());
        let Some(logits) = logits.map(|name| (*name).to_owned()) else {
            return Err(Error::new(Kind::NotSupported, "found a model whose outputs are all caches, allowed one with logits"));
        };
        if caches.rows.is_empty() && caches.states.is_empty() {
            let text = "found a model without a cache (an output that appends to an input), allowed a decoder with past and present keys \
                        and values";
            return Err(Error::new(Kind::NotSupported, text));
        }
        let kept = match cache_type {
            CacheType::Model => caches.clone(),
            CacheType::Int8 => {
                require_bytes(&program, &caches)?;
                with_scales(&caches)
            }
        };
        let embedded = embedder.as_ref().map(Embedder::outputs).transpose()?.unwrap_or_default();
        let roles = Roles::of(&program.loaded, &caches, &counts, fixed.is_some(), &embedded)?;
        roles.require_embedder(embedder.is_some())?;
        let roles = roles.with_sizes_of_caches(&caches, |shapes| {
            shapes_of_outputs(&program, &caches, fixed.as_ref(), shapes).unwrap_or_default()
        });
        // Where the encoder is read, exporters may have left the mask out that keeps the tokens of a later step apart: they have tried it with one.
        let reads_encoder = !caches.states.is_empty() || !roles.others.is_empty();
        let begins_alone = AtomicBool::new(roles.has_branches() && reads_encoder);
        let (features, fills_up, pace, scheduler, guessing) = Default::default();
        let usage = program.weights.usage();
        let (plans, together) = (Table::new(true).idle_as(usage), together::Together::new(usage));
        let prefixes = Arc::new(Prefixes::new(OWN_PREFIXES.0, OWN_PREFIXES.1));
        Ok(Decoder {
            program,
            caches,
            kept,
            cache_type,
            fixed,
            roles,
            embedder,
            features,
            logits,
            plans,
            begins_alone,
            fills_up,
            pace,
            scheduler,
            together,
            guessing,
            prefixes,
            key: OnceLock::new(),
        })
    }

    fn pace(&self) -> MutexGuard<'_, pieces::Pace> {
        // Whatever it is, pieces end.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was run, and why steps do not run together, if that was found out.
    pub fn figures(&self) -> (scheduler::Figures, Option<Error>) {
        (self.scheduler.figures(), self.together.refusal())
    }

    /// What calls keep that have no cache of their own.
    pub fn default_figures(&self) -> Figures {
        self.prefixes.figures()
    }

    /// The names of inputs that need a value.
    pub fn others(&self) -> &[String] {
        &self.roles.others
    }
}

/// # Errors
/// `NotSupportedError` where caches cannot be kept in 8 bits.
fn require_bytes(program: &Program, caches: &KvCaches) -> Result<()> {
    let refuse = |found: String, allowed: &str| {
        Err(Error::new(Kind::NotSupported, format!("found {found}, allowed {allowed} for cacheType 'int8'")))
    };
    if program.timeline.has_own_memory() {
        return refuse("a context on a GPU".into(), "one on the CPU");
    }
    if caches.rows.is_empty() {
        return refuse("a model with states alone".into(), "one with caches of keys and values");
    }
    for cache in &caches.rows {
        let element = program.loaded.inputs().iter().find(|input| input.name == cache.past).map(|input| input.element());
        if let Some(element) = element.filter(|element| !matches!(element, ElementType::Float | ElementType::Float16)) {
            return refuse(format!("the cache {:?} of {}", cache.past, element.name()), "float32 and float16");
        }
    }
    Ok(())
}

/// Whether caches grow only in the graph that stands for the model, for which it is known how much of them is filled.
fn needs(fixed: &FixedCaches, caches: &KvCaches, loaded: &Loaded) -> bool {
    let is_appended = |cache: &KvCache| caches.rows.iter().any(|other| other.past == cache.past);
    let is_open = |cache: &KvCache| {
        let input = loaded.inputs().iter().find(|input| input.name == cache.past);
        input.is_some_and(|input| matches!(input.shape.get(cache.axis), Some(Size::Open(_))))
    };
    let are_appended = fixed.caches.iter().all(is_appended);
    (are_appended || fixed.are_inputs) && !(are_appended && fixed.caches.iter().all(is_open))
}

/// By the names of outputs, for caches without rows. Whoever makes a plan hears why there are none.
fn shapes_of_outputs(
    program: &Program,
    caches: &KvCaches,
    fixed: Option<&FixedCaches>,
    shapes: &[Vec<u32>],
) -> Option<HashMap<String, Vec<u32>>> {
    let given = fixed_caches::given(&program.loaded, &caches.rows, shapes).ok()?;
    let source = Source::of(&program.loaded).ok()?;
    let graph = caches::without_pasts(fixed.map_or(source.graph, |fixed| &fixed.graph), caches);
    let source = Source { graph: &graph, ..source };
    let part = import_part(&source, &program.limits, &program.bounds, &given, Place::First).ok()?;
    Some(part.outputs.into_iter().map(|output| (output.name, output.shape)).collect())
}
