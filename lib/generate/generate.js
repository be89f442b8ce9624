'use strict';

// generate(): an iterator over the next tokens of sequences. Each step calls the native side once.

const { types } = require('node:util');
const native = require('../native.js');
const { traced } = require('../diagnostics.js');
const { typeError } = require('../errors.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { NORMAL, scheduleOf } = require('../scheduling.js');
const { show } = require('../show.js');
const { adapterHandle } = require('./adapter.js');
const { mostProbable } = require('./alternatives.js');
const { ask, askForStep, promised, requireContext, sync } = require('./asking.js');
const { Call } = require('./call.js');
const { NAME, decoderOf, openSession, take } = require('./cache.js');
const { begun, compiled, forcedBy, masksOf } = require('./constraint.js');
const { featuresOf, requireSameContext } = require('./embedding.js');
const { withEncoder } = require('./encoder.js');
const { readGiven, readOptions, readPrompts } = require('./options.js');
const { noteOf } = require('./steps.js');

/**
 * @param {import('../onnx.d.ts').OnnxModel} model
 * @param {unknown} ids a list of tokens, or several
 * @param {import('../generate.d.ts').GenerateOptions} [options]
 * @returns {import('../generate.d.ts').Generation<import('../generate.d.ts').GeneratedToken>}
 */
function generate(model, ids, options = undefined) {
  const loaded = modelOf(model);
  if (loaded === undefined) throw typeError(NAME, '', `model: found ${show(model)}, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime`);
  const checked = readOptions(loaded.label, options);
  const prompts = readPrompts(loaded.label, ids, checked.features);
  const call = new Call();
  const iterator = run(loaded, prompts, checked, performance.now(), call);
  call.endWith(iterator);
  return withKnown(iterator, call);
}

/**
 * Has a generator tell how many tokens of each prompt were known.
 * @template T
 * @param {AsyncGenerator<T, void, void>} generator
 * @param {{known: number[]}} call
 * @returns {import('../generate.d.ts').Generation<T>}
 */
function withKnown(generator, call) {
  return Object.defineProperty(/** @type {any} */ (generator), 'known', { get: () => [...call.known], enumerable: true, configurable: true });
}

async function* run(model, prompts, options, called, call) {
  const { label } = model;
  options.signal?.throwIfAborted();
  requireDecoder(model, label);
  const draft = options.speculate?.draft;
  if (draft !== undefined) requireDecoder(draft, label);
  // Before anything is waited for: who comes later is refused.
  call.enter([model, draft], model.contextState.queue?.enter(NAME, label));
  let work;
  try {
    const constraint = await compiled(label, options.constraint);
    options.signal?.throwIfAborted();
    model.requireUsable(NAME);
    draft?.requireUsable(NAME);
    const cache = options.cache && take(options.cache, model, options.embed);
    const inputs = options.encoder || options.first ? await withEncoder(model, (await decoderOf(model, options.embed, options.cacheType)).others, options, prompts) : options.inputs;
    requireSameContext(model, options.embed);
    const features = await featuresOf(model, options);
    const decoder = await decoderOf(model, options.embed, options.cacheType);
    const guessing = await draftOf(draft);
    requireContext(model);
    const { names, shapes, arrays } = readGiven(model, decoder.others, inputs, options.adapter);
    work = { model, session: openSession(decoder, cache, model, options.embed), signal: options.signal, isOver: false };
    const { session } = work;
    call.open(session);
    speculate(work, options, guessing);
    const adapter = adapterHandle(options.adapter, decoder.handle);
    const known = await ask(work, (request) => {
      native.beginSequences(request, session, prompts, options.count, options.numbers, ...options.bias, options.seed, names, shapes, arrays, adapter, ...features);
    });
    call.known = known;
    if (cache !== undefined) cache.known = known;
    yield* tokens(work, prompts, { ...options, constraint }, called);
  } finally {
    if (work !== undefined) work.isOver = true;
    call.end();
  }
}

/** Has a call guess, with the decoder of a draft if there is one. */
function speculate({ model, session }, options, draft) {
  if (options.speculate !== undefined) sync(model, () => native.speculate(session, options.most, draft?.handle ?? 0, options.speculate.guesses));
}

/** Waits for the decoder of a draft, if there is one. */
const draftOf = async (draft) => (draft === undefined ? undefined : decoderOf(draft));

function requireDecoder(model, label) {
  model.requireUsable(NAME);
  if (model.hasFile) return;
  throw typeError(NAME, label, 'model: found a model without open dimensions, allowed one with an open dimension for the length of the sequence');
}

async function* tokens(work, prompts, options, called) {
  const { session } = work;
  const { most, count, hook, top, constraint } = options;
  const isDirect = hook === undefined && top === 0;
  const { priority = NORMAL, timeout } = scheduleOf(work.model.contextState, options.schedule);
  // Of the first step, with which the work begins.
  let left = timeout === undefined ? -1 : Math.max(0, timeout - (performance.now() - called));
  const matcher = () => (constraint === undefined ? undefined : begun(work.model.label, constraint));
  const sequences = prompts.flatMap((prompt) => Array.from({ length: count }, () => ({ prompt, ids: [], matcher: matcher() })));
  let live = most > 0 ? [...sequences.keys()] : [];
  const when = neededWhen(options, isDirect);
  while (live.length > 0) {
    const masks = constraint === undefined ? [] : masksOf(work.model.label, live.map((sequence) => sequences[sequence].matcher));
    const note = noteOf(work.model);
    const start = (request, allowed) => native.continueSequences(request, session, live, isDirect, priority, left, allowed, note !== undefined);
    const chosen = await traced('run', () => stepOf(work.model, sequences, live), () => askForStep(work, masks, when, start));
    note?.(session);
    left = -1;
    const step = isDirect ? bySequence(chosen) : await hooked(work, chosen, sequences, options, await promised(work, masks));
    const going = [];
    const list = [];
    for (const [sequence, first] of step) {
      let next = first;
      while (next.length > 0 && !adds(list, work, next, sequences[sequence], options)) next = await guessed(work, sequence, sequences[sequence], options);
      if (next.length === 0) going.push(sequence);
    }
    live = going;
    yield* list;
  }
}

/** When the native side needs the masks of a step: a draft guesses only what is allowed next, too, and a hook chooses behind the step. */
function neededWhen({ speculate }, isDirect) {
  if (speculate?.draft !== undefined) return 'before';
  return isDirect ? 'meanwhile' : 'never';
}

/** Adds tokens of a sequence, with those that can only follow. @returns {boolean} whether the sequence ends with one of them */
function adds(list, { session, model }, tokens, state, options) {
  const { label } = model;
  for (const token of tokens) {
    const all = [token, ...forced(label, token, state)];
    const end = all.findIndex((one, i) => ends(label, one, state, options, i === all.length - 1));
    list.push(...all.slice(0, end < 0 ? all.length : end + 1));
    if (end >= 0) return true;
    if (all.length > 1) sync(model, () => native.appendTokens(session, token.sequence, Uint32Array.from(all.slice(1), ({ id }) => id)));
  }
  return false;
}

/** The next token of a sequence whose last one was guessed: the step has given the logits after it. @returns {Promise<object[]>} none otherwise */
async function guessed(work, sequence, state, { speculate, hook, top, constraint }) {
  const { session } = work;
  const isDirect = hook === undefined && top === 0;
  // Without a constraint they were all chosen natively.
  if (speculate === undefined || (isDirect && constraint === undefined) || !native.isGuessed(session, sequence)) return [];
  const [mask] = constraint === undefined ? [] : await promised(work, masksOf(work.model.label, [state.matcher]));
  if (!isDirect) return [await chosenByHook(work, sequence, native.guessedLogits(session, sequence), state, { hook, top, mask })];
  const [id, logprob] = sync(work.model, () => native.chooseGuessed(session, sequence, mask));
  return [{ id, logprob, sequence }];
}

/** Tells the matcher of a token. @returns the tokens that can only follow it */
function forced(label, { id, sequence }, { matcher }) {
  if (matcher === undefined) return [];
  matcher.push(id);
  const ids = matcher.isDone ? [] : forcedBy(label, matcher);
  return ids.map((other) => ({ id: other, logprob: 0, sequence, forced: true }));
}

/** Whether a sequence ends with a token, which then says why. */
function ends(label, token, { ids, matcher }, { most, stops, until }, isLast) {
  ids.push(token.id);
  // Called for every token, also for the last.
  const said = until?.(token);
  if (types.isPromise(said)) {
    // Nobody else waits for it.
    said.catch(() => {});
    throw typeError(NAME, label, `options: until: found ${show(said)} as its result, allowed true, or something else at once`);
  }
  const isEnd = said === true;
  if (isEnd || stops.some((stop) => endsWith(ids, stop)) || (isLast && matcher?.isDone)) token.finish = 'stop';
  else if (ids.length >= most) token.finish = 'length';
  return token.finish !== undefined;
}

/** A step for whoever observes the process: the sequences that it continues, and how many tokens each has by then. */
function stepOf({ label, contextState }, sequences, live) {
  const lengths = live.map((sequence) => sequences[sequence].prompt.length + sequences[sequence].ids.length);
  return { operator: NAME, label, device: contextState.device, sequences: [...live], lengths };
}

/** Tokens by their sequences, of a list of these with their log-probabilities. */
function bySequence(flat) {
  const all = new Map();
  for (let i = 0; i < flat.length; i += 3) {
    const sequence = flat[i];
    if (!all.has(sequence)) all.set(sequence, []);
    all.get(sequence).push({ id: flat[i + 1], logprob: flat[i + 2], sequence });
  }
  return all;
}

/** Has script read and change the logits of each sequence before a token is chosen. */
async function hooked(work, flat, sequences, { hook, top }, masks) {
  const all = new Map();
  for (let i = 0; i < flat.length; i += 2) {
    const sequence = flat[i];
    all.set(sequence, [await chosenByHook(work, sequence, flat[i + 1], sequences[sequence], { hook, top, mask: masks[i / 2] })]);
  }
  return all;
}

async function chosenByHook({ session, signal, model }, sequence, buffer, { prompt, ids }, { hook, top, mask }) {
  const logits = new Float32Array(buffer);
  const count = logits.length;
  const probable = top === 0 ? undefined : mostProbable(logits, top);
  const others = await hook?.(logits, { sequence, prompt, ids: [...ids] });
  signal?.throwIfAborted();
  const changed = changedLogits(model.label, logits, others, count);
  const [id, logprob] = sync(model, () => native.chooseToken(session, sequence, changed, mask));
  // Without a hook both are of the same logits.
  const same = hook === undefined ? probable?.find((one) => one.id === id) : undefined;
  return { id, logprob: same?.logprob ?? logprob, sequence, ...(probable && { top: probable }) };
}

/** The logits that a hook leaves, or those that it returns instead. */
function changedLogits(label, logits, others, count) {
  const fail = (found, allowed) => {
    throw typeError(NAME, label, `options: logits: found ${found}, allowed ${allowed} of ${count} elements`);
  };
  if (others === undefined) return logits.length === count ? logits : fail('that the function has transferred its logits', 'that it leaves them, or returns a Float32Array');
  if (!types.isFloat32Array(others)) return fail(`${show(others)} as its result`, 'undefined, or a Float32Array');
  return others.length === count ? others : fail(`a Float32Array of ${others.length} elements as its result`, 'undefined, or a Float32Array');
}

function endsWith(ids, stop) {
  const first = ids.length - stop.length;
  return first >= 0 && stop.every((id, i) => ids[first + i] === id);
}

module.exports = { generate, withKnown };
