//! The flat functions of models that make text.

use super::bytes;
use super::call::{Call, stale};
use super::compute;
use super::handles::Handle;
use super::onnx::{guarded, in_background, program};
use super::script::{Scope, Type, Value};
use super::settle::{Outcome, Request};
use crate::error::Result;
use crate::program::decoder::{
    Allowed, CacheType, Choice, ConstantInput, Decoder, Embedder, Figures, Given, Masks, Next, Prefixes, Prompts, Sampling,
    Session, When, Work, start,
};
use crate::timeline::WatchOptions;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A decoder that exists, or is being looked at.
pub struct Opened {
    pub context: Handle,
    decoder: Arc<OnceLock<Arc<Decoder>>>,
}

/// The sequences of a call.
pub struct Remembered {
    pub context: Handle,
    session: Arc<Session>,
}

/// What calls keep for each other.
pub struct Prefixed {
    pub context: Handle,
    prefixes: Arc<Prefixes>,
}

/// Values of inputs that many calls have in common.
pub struct Adapted {
    pub context: Handle,
    decoder: Handle,
    values: Vec<ConstantInput>,
}

impl Drop for Remembered {
    fn drop(&mut self) {
        // It may still have work under way, which waits for nothing any more.
        self.session.leave();
    }
}

impl Drop for Prefixed {
    fn drop(&mut self) {
        // Calls that are under way keep nothing any more.
        self.prefixes.close();
    }
}

/// `openDecoder(request, model, embedder, isInt8)`: the handle of a decoder whose inputs are being found out; settles with the names of those that
/// need a value. `embedder` is the model that embeds tokens, or 0. `isInt8` is whether caches are kept in 8 bits.
pub fn open<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let environment = call.environment;
    let request = Request::from_number(call.number(0)?);
    let (context, decoder_program) = program(call, 1)?;
    let embedder = if call.number(2)? == 0.0 { None } else { Some(program(call, 2)?.1) };
    let cache_type = if call.scope.as_boolean(call.value(3))? { CacheType::Int8 } else { CacheType::Model };
    let decoder = Arc::new(OnceLock::new());
    let (found, outcome) = (decoder.clone(), decoder.clone());
    let done = environment.settler.promise(call.scope, request, move |()| Outcome::Decoder(outcome))?;
    in_background("generate", String::new(), done, move |done| {
        match guarded(|| Decoder::new(decoder_program, embedder.map(Embedder::new).transpose()?, cache_type)) {
            Ok(decoder) => {
                let _ = found.set(Arc::new(decoder));
                done.report(Ok(()));
                Ok(())
            }
            Err(error) => Err((error, done)),
        }
    });
    let handle = environment.decoders.borrow_mut().insert(Opened { context, decoder });
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `closeDecoder(decoder)`
pub fn close<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let decoder = call.handle(0)?;
    call.environment.adapters.borrow_mut().retain(|adapted| adapted.decoder != decoder);
    drop(call.environment.decoders.borrow_mut().remove(decoder));
    Ok(None)
}

fn opened(call: &Call<'_>, index: usize) -> Result<(Handle, Arc<Decoder>)> {
    let decoders = call.environment.decoders.borrow();
    let opened = decoders.get(call.handle(index)?).ok_or_else(|| stale("decoder"))?;
    Ok((opened.context, opened.decoder.get().ok_or_else(|| stale("decoder"))?.clone()))
}

/// `decoderFigures(decoder)`: `[steps, runs, promptTokens, reason, guessed, right, reason, …]`, with the reasons why steps do not run together and why guesses
/// are not checked, or empty ones; after them the figures of what calls keep by default ([`prefix_figures`]).
pub fn figures<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (_, decoder) = opened(call, 0)?;
    let (figures, refusal) = decoder.figures();
    let reason = refusal.map_or_else(String::new, |error| error.message().to_owned());
    let figures = [figures.steps, figures.runs, figures.prompt_tokens].into_iter();
    let mut parts = figures.map(|figure| call.scope.number(figure as f64)).collect::<Result<Vec<_>>>()?;
    parts.push(call.scope.string(&reason)?);
    let (guessed, right) = decoder.guess_figures();
    let reason = decoder.lacks_guesses().map_or_else(String::new, |error| error.message().to_owned());
    parts.extend([call.scope.number(guessed as f64)?, call.scope.number(right as f64)?, call.scope.string(&reason)?]);
    parts.extend(figures_of(call.scope, &decoder.default_figures())?);
    Ok(Some(call.scope.array_of(parts.into_iter().map(Ok))?))
}

fn figures_of<'s>(scope: Scope<'s>, figures: &Figures) -> Result<Vec<Value<'s>>> {
    let Figures { bytes, sequences, hits, misses, reused } = *figures;
    [bytes as f64, sequences as f64, hits as f64, misses as f64, reused as f64].into_iter().map(|x| scope.number(x)).collect()
}

/// `createAdapter(decoder, names, shapes, arrays)`: the handle of values of inputs that calls share.
pub fn create_adapter<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (context, _) = opened(call, 0)?;
    let (decoder, values) = (call.handle(0)?, values(call, 1, &[])?);
    let values = values.into_iter().map(|value| ConstantInput { is_shared: true, ..value }).collect();
    let handle = call.environment.adapters.borrow_mut().insert(Adapted { context, decoder, values });
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `destroyAdapter(adapter)`
pub fn destroy_adapter<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.adapters.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

/// The values of inputs, in three lists from an argument on: names, shapes and arrays. What has no array is one of those that are `shared`.
fn values(call: &Call<'_>, index: usize, shared: &[ConstantInput]) -> Result<Vec<ConstantInput>> {
    let array = |scope: Scope<'_>, value: Value<'_>| {
        if scope.type_of(value)? == Type::Undefined { Ok(None) } else { bytes::copy(scope, value).map(Some) }
    };
    let names: Vec<String> = call.scope.elements(call.value(index), Scope::as_string)?;
    let shapes: Vec<Vec<u32>> =
        call.scope.elements(call.value(index + 1), |scope, shape| scope.elements(shape, Scope::as_unsigned))?;
    let arrays: Vec<Option<crate::memory::Bytes>> = call.scope.elements(call.value(index + 2), array)?;
    let value = |((name, shape), bytes): ((String, Vec<u32>), Option<crate::memory::Bytes>)| match bytes {
        Some(bytes) => Ok(ConstantInput { name, shape, bytes: Arc::new(bytes), ..ConstantInput::default() }),
        None => shared.iter().find(|other| other.name == name).cloned().ok_or_else(|| stale("value")),
    };
    names.into_iter().zip(shapes).zip(arrays).map(value).collect()
}

/// `createPrefixes(decoder, bytes, least)`: the handle of what calls keep for each other, of at most so many bytes, where at least so many tokens
/// are known.
pub fn create_prefixes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (context, _) = opened(call, 0)?;
    // `as` saturates.
    let prefixes = Arc::new(Prefixes::new(call.number(1)? as usize, call.number(2)? as usize));
    let handle = call.environment.prefixes.borrow_mut().insert(Prefixed { context, prefixes });
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `destroyPrefixes(prefixes)`
pub fn destroy_prefixes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    drop(call.environment.prefixes.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

fn prefixes(call: &Call<'_>, index: usize) -> Result<Arc<Prefixes>> {
    let all = call.environment.prefixes.borrow();
    Ok(all.get(call.handle(index)?).ok_or_else(|| stale("cache"))?.prefixes.clone())
}

/// `pinPrefix(prefixes, ids, isPinned)`: sequences that begin so stay, or need not stay any more.
pub fn pin<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (prefixes, ids) = (prefixes(call, 0)?, words(call.scope, call.value(1))?);
    if call.scope.as_boolean(call.value(2))? {
        prefixes.pin(ids)
    } else {
        prefixes.unpin(&ids)
    }
    Ok(None)
}

/// `prefixFigures(prefixes)`: `[bytes, sequences, hits, misses, reused]`, the last in tokens.
pub fn prefix_figures<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let parts = figures_of(call.scope, &prefixes(call, 0)?.figures())?;
    Ok(Some(call.scope.array_of(parts.into_iter().map(Ok))?))
}

/// `savePrefixes(request, decoder, prefixes, path)`: settles when the file is written.
pub fn save_prefixes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    with_file(call, "save", Decoder::save)
}

/// `loadPrefixes(request, decoder, prefixes, path)`: settles when what the file has is kept.
pub fn load_prefixes<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    with_file(call, "load", Decoder::load)
}

fn with_file<'s>(
    call: &Call<'s>,
    operator: &'static str,
    work: fn(&Decoder, &Prefixes, &Path) -> Result<()>,
) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let (_, decoder) = opened(call, 1)?;
    let (prefixes, path) = (prefixes(call, 2)?, call.string(3)?);
    let done = call.environment.settler.promise(call.scope, request, |()| Outcome::Nothing)?;
    in_background(operator, String::new(), done, move |done| match guarded(|| work(&decoder, &prefixes, Path::new(&path))) {
        Ok(()) => {
            done.report(Ok(()));
            Ok(())
        }
        Err(error) => Err((error, done)),
    });
    Ok(None)
}

/// `createSession(decoder, prefixes)`: the handle of a call's sequences. `prefixes` is 0 for those of the decoder.
pub fn create_session<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let (context, decoder) = opened(call, 0)?;
    let prefixes = if call.number(1)? == 0.0 { None } else { Some(prefixes(call, 1)?) };
    let session = Arc::new(Session::new(decoder, prefixes));
    let handle = call.environment.sessions.borrow_mut().insert(Remembered { context, session });
    Ok(Some(call.scope.number(handle.to_number())?))
}

/// `destroySession(session)`: its call has ended.
pub fn destroy_session<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    // It may have gone with its context.
    drop(call.environment.sessions.borrow_mut().remove(call.handle(0)?));
    Ok(None)
}

fn session(call: &Call<'_>, index: usize) -> Result<Arc<Session>> {
    session_there(call, index)?.ok_or_else(|| stale("session"))
}

/// Unless it has gone with its context.
fn session_there(call: &Call<'_>, index: usize) -> Result<Option<Arc<Session>>> {
    let sessions = call.environment.sessions.borrow();
    Ok(sessions.get(call.handle(index)?).map(|remembered| remembered.session.clone()))
}

/// `beginSequences(request, session, prompts, count, numbers, biasIds, biasNumbers, seed, names, shapes, arrays, adapter, featureTokens, features, grids)`: settles with the number of
/// tokens of each prompt that are remembered. The numbers are temperature, topK, topP, minP, and the penalties of repetition, presence
/// and frequency; a negative seed is none. What has no array is a value of the adapter, which is 0 for none. The grids of features are lists of
/// frames, rows and columns, one after the other.
pub fn begin<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let session = session(call, 1)?;
    let prompts: Vec<Vec<u32>> = call.scope.elements(call.value(2), words)?;
    let count = call.unsigned(3)? as usize;
    let numbers: Vec<f64> = call.scope.elements(call.value(4), Scope::as_number)?;
    let biased: Vec<u32> = call.unsigned_list(5)?;
    let biases: Vec<f64> = call.scope.elements(call.value(6), Scope::as_number)?;
    let seed = call.number(7)?;
    let shared = match call.number(11)? {
        0.0 => Vec::new(),
        _ => {
            let adapters = call.environment.adapters.borrow();
            adapters.get(call.handle(11)?).ok_or_else(|| stale("adapter"))?.values.clone()
        }
    };
    let given = values(call, 8, &shared)?;
    let tokens: Vec<u32> = call.unsigned_list(12)?;
    let arrays: Vec<crate::memory::Bytes> = call.scope.elements(call.value(13), bytes::copy)?;
    let grids: Vec<Vec<u32>> = call.scope.elements(call.value(14), |scope, list| scope.elements(list, Scope::as_unsigned))?;
    let features = tokens.into_iter().zip(arrays).zip(grids).map(|((token, bytes), grids)| {
        let grids = grids.as_chunks().0.to_vec();
        Given { token, bytes: Arc::new(bytes), grids }
    });
    let features = features.collect();
    let &[temperature, top_k, top_p, min_p, repetition, presence, frequency] = &numbers[..] else {
        return Err(stale("list of seven numbers"));
    };
    let bias = biased.into_iter().zip(biases).map(|(id, bias)| (id, bias as f32)).collect();
    let sampling = Sampling { temperature, top_k: top_k as usize, top_p, min_p, repetition, presence, frequency, bias };
    let seed = (seed >= 0.0).then_some(seed as u64);
    let done = call.environment.settler.promise(call.scope, request, Outcome::Generated)?;
    start(session, Work::Begin(Prompts { prompts, count, sampling, seed, given, features }), WatchOptions::default(), done);
    Ok(None)
}

/// `continueSequences(request, session, sequences, chooses, priority, timeout, masks, withSteps)`: settles with `[sequence, id, logprob, …]`, or with
/// `[sequence, logits, …]` where somebody else changes these before a token is chosen. A mask has a bit for each token of a sequence that may be
/// chosen; `undefined` allows all. Without `masks` the tokens wait for those of [`give_masks`].
pub fn proceed<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let request = Request::from_number(call.number(0)?);
    let session = session(call, 1)?;
    let sequences: Vec<u32> = call.unsigned_list(2)?;
    let sequences = sequences.into_iter().map(|number| number as usize).collect();
    let chooses = call.scope.as_boolean(call.value(3))?;
    let with_steps = call.scope.as_boolean(call.value(7))?;
    let options = WatchOptions { with_steps, ..compute::watch_options(call, 4)? };
    let is_later = call.scope.type_of(call.value(6))? == Type::Undefined;
    let masks = if is_later { When::Later } else { When::Now(masks(call, 6)?) };
    let done = call.environment.settler.promise(call.scope, request, Outcome::Generated)?;
    start(session, Work::Continue { sequences, chooses, masks }, options, done);
    Ok(None)
}

/// `giveMasks(session, masks)`: those of a step that began without them.
pub fn give_masks<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let masks = masks(call, 1)?;
    if let Some(session) = session_there(call, 0)? {
        session.give(masks);
    }
    Ok(None)
}

/// `takeSequenceSteps(session)`: those of `continueSequences`, as `takeSteps` has them. What was done for several sessions together is one's.
pub fn take_steps<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    compute::steps_value(call.scope, &session(call, 0)?.take_steps()).map(Some)
}

fn masks(call: &Call<'_>, index: usize) -> Result<Masks> {
    call.scope.elements(call.value(index), mask)
}

/// The tokens that may be chosen, of a `Uint32Array` of bits, or `undefined` for all.
fn mask(scope: Scope<'_>, value: Value<'_>) -> Result<Option<Allowed>> {
    if scope.type_of(value)? == Type::Undefined { Ok(None) } else { Ok(Some(Allowed::new(words(scope, value)?))) }
}

fn words(scope: Scope<'_>, value: Value<'_>) -> Result<Vec<u32>> {
    let bytes = bytes::copy(scope, value)?;
    Ok(bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// `appendTokens(session, sequence, ids)`: adds tokens after the one that was chosen.
pub fn append<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    session(call, 0)?.append(call.unsigned(1)? as usize, &words(call.scope, call.value(2))?)?;
    Ok(None)
}

/// `speculate(session, most, draft, guesses)`: the sequences of a call guess, and have at most so many tokens. `draft` is the decoder that guesses,
/// or 0 where what was said before does. `guesses` is how many tokens are guessed each time, or 0 for as many as are worth it.
pub fn speculate<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let session = session(call, 0)?;
    // `as` saturates.
    let most = call.number(1)? as usize;
    let draft = if call.number(2)? == 0.0 { None } else { Some(opened(call, 2)?.1) };
    let fixed = Some(call.unsigned(3)? as usize).filter(|&guesses| guesses > 0);
    session.speculate(draft, most, fixed)?;
    Ok(None)
}

/// `isGuessed(session, sequence)`: whether the last token was guessed, so that the next one needs no step.
pub fn is_guessed<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let is_guessed = session(call, 0)?.is_guessed(call.unsigned(1)? as usize)?;
    Ok(Some(call.scope.boolean(is_guessed)?))
}

/// `chooseGuessed(session, sequence, mask)`: `[id, logprob]` of the next token then.
pub fn choose_guessed<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let allowed = mask(call.scope, call.value(2))?;
    let choice = session(call, 0)?.choose_guessed(call.unsigned(1)? as usize, allowed.as_ref())?;
    Ok(Some(choice_value(call.scope, choice)?))
}

/// `guessedLogits(session, sequence)`: the logits that it is chosen by, once.
pub fn guessed_logits<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let logits = session(call, 0)?.guessed_logits(call.unsigned(1)? as usize)?;
    Ok(Some(logits_value(call.scope, &logits)?))
}

fn choice_value<'s>(scope: Scope<'s>, Choice { id, logprob }: Choice) -> Result<Value<'s>> {
    let parts = [scope.unsigned(id)?, scope.number(logprob)?];
    scope.array_of(parts.into_iter().map(Ok))
}

fn logits_value<'s>(scope: Scope<'s>, logits: &[f32]) -> Result<Value<'s>> {
    let bytes: Vec<u8> = logits.iter().flat_map(|number| number.to_ne_bytes()).collect();
    bytes::array_buffer(scope, &bytes)
}

/// `chooseToken(session, sequence, logits, mask)`: `[id, logprob]`.
pub fn choose<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    let session = session(call, 0)?;
    let bytes = bytes::copy(call.scope, call.value(2))?;
    let mut logits: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_ne_bytes([x[0], x[1], x[2], x[3]])).collect();
    let allowed = mask(call.scope, call.value(3))?;
    let choice = session.choose(call.unsigned(1)? as usize, &mut logits, allowed.as_ref())?;
    Ok(Some(choice_value(call.scope, choice)?))
}

/// `cancelSequences(session)`: what is under way ends soon.
pub fn cancel<'s>(call: &Call<'s>) -> Result<Option<Value<'s>>> {
    if let Some(session) = session_there(call, 0)? {
        session.cancel();
    }
    Ok(None)
}

/// The names of inputs that need a value.
pub fn decoder_value<'s>(scope: Scope<'s>, decoder: &OnceLock<Arc<Decoder>>) -> Result<Value<'s>> {
    let decoder = decoder.get().ok_or_else(|| stale("decoder"))?;
    scope.strings(decoder.others().iter().map(String::as_str))
}

/// See [`begin`] and [`proceed`].
pub fn next_value<'s>(scope: Scope<'s>, next: &Next) -> Result<Value<'s>> {
    let mut values = Vec::new();
    match next {
        Next::Begun(known) => {
            for &count in known {
                values.push(scope.number(count as f64)?);
            }
        }
        Next::Chosen(list) => {
            for (sequence, Choice { id, logprob }) in list {
                values.extend([scope.number(*sequence as f64)?, scope.unsigned(*id)?, scope.number(*logprob)?]);
            }
        }
        Next::Logits(list) => {
            for (sequence, logits) in list {
                values.extend([scope.number(*sequence as f64)?, logits_value(scope, logits)?]);
            }
        }
    }
    scope.array_of(values.into_iter().map(Ok))
}
