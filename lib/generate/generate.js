'use strict';

// generate(): an iterator over the next tokens of sequences. Each step calls the native side once.

const { types } = require('node:util');
const native = require('../native.js');
const { traced } = require('../diagnostics.js');
const { CONTEXT_LOST, invalidState, nativeError, typeError } = require('../errors.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { NORMAL, scheduleOf } = require('../scheduling.js');
const { begin } = require('../settle.js');
const { show } = require('../show.js');
const { mostProbable } = require('./alternatives.js');
const { NAME, decoderOf, openSession, take } = require('./cache.js');
const { begun, compiled } = require('./constraint.js');
const { withEncoder } = require('./encoder.js');
const { readGiven, readOptions, readPrompts } = require('./options.js');

/**
 * @param {import('../onnx.d.ts').OnnxModel} model
 * @param {unknown} ids a list of tokens, or several
 * @param {import('../generate.d.ts').GenerateOptions} [options]
 * @returns {AsyncGenerator<import('../generate.d.ts').GeneratedToken, void, void>}
 */
function generate(model, ids, options = undefined) {
  const loaded = modelOf(model);
  if (loaded === undefined) throw typeError(NAME, '', `model: found ${show(model)}, allowed an OnnxModel, or an InferenceSession of webnn-node/onnxruntime`);
  const prompts = readPrompts(loaded.label, ids);
  return run(loaded, prompts, readOptions(loaded.label, options), performance.now());
}

async function* run(model, prompts, wish, called) {
  const { label } = model;
  wish.signal?.throwIfAborted();
  model.requireUsable(NAME);
  if (!model.hasFile) {
    throw typeError(NAME, label, 'model: found one whose shapes are all known, allowed one with a dimension for the length of the sequence');
  }
  const constraint = await compiled(label, wish.constraint);
  wish.signal?.throwIfAborted();
  model.requireUsable(NAME);
  const cache = wish.cache && take(wish.cache, model);
  let leave;
  let work;
  model.enter();
  try {
    const inputs = wish.encoder || wish.first ? await withEncoder(model, (await decoderOf(model)).others, wish, prompts) : wish.inputs;
    leave = model.contextState.queue?.enter(NAME, label);
    const decoder = await decoderOf(model);
    requireContext(model);
    work = { model, session: openSession(decoder, cache, label), signal: wish.signal, isOver: false };
    const { session } = work;
    const { names, shapes, arrays } = readGiven(model, decoder.others, inputs);
    const known = await ask(work, (request) => {
      native.beginSequences(request, session, prompts, wish.count, wish.numbers, ...wish.bias, wish.seed, names, shapes, arrays);
    });
    if (cache !== undefined) cache.known = known;
    yield* tokens(work, prompts, { ...wish, constraint }, called);
  } finally {
    leave?.();
    if (work !== undefined) {
      work.isOver = true;
      // What is under way ends by itself.
      native.destroySession(work.session);
    }
    model.leave();
  }
}

async function* tokens(work, prompts, wish, called) {
  const { session } = work;
  const { most, count, hook, top, constraint } = wish;
  const isDirect = hook === undefined && top === 0;
  const { priority = NORMAL, timeout } = scheduleOf(work.model.contextState, wish.schedule);
  // Of the first step, with which the work begins.
  let left = timeout === undefined ? -1 : Math.max(0, timeout - (performance.now() - called));
  const matcher = () => (constraint === undefined ? undefined : begun(work.model.label, constraint));
  const sequences = prompts.flatMap((prompt) => Array.from({ length: count }, () => ({ prompt, ids: [], matcher: matcher() })));
  let live = most > 0 ? [...sequences.keys()] : [];
  while (live.length > 0) {
    const masks = constraint === undefined ? [] : live.map((sequence) => sequences[sequence].matcher.mask());
    const next = () => ask(work, (request) => native.continueSequences(request, session, live, isDirect, priority, left, isDirect ? masks : []));
    const chosen = await traced('run', () => stepOf(work.model, sequences, live), next);
    left = -1;
    const step = isDirect ? triples(chosen) : await hooked(work, chosen, sequences, { hook, top, masks });
    const going = [];
    const list = [];
    for (const token of step) {
      const all = [token, ...forced(token, sequences[token.sequence])];
      const end = all.findIndex((one, i) => ends(one, sequences[one.sequence], wish, i === all.length - 1));
      list.push(...all.slice(0, end < 0 ? all.length : end + 1));
      if (end >= 0) continue;
      going.push(token.sequence);
      if (all.length > 1) native.appendTokens(session, token.sequence, Uint32Array.from(all.slice(1), ({ id }) => id));
    }
    live = going;
    yield* list;
  }
}

/** Tells the matcher of a token. @returns the tokens that can only follow it */
function forced({ id, sequence }, { matcher }) {
  if (matcher === undefined) return [];
  matcher.push(id);
  const ids = matcher.isDone ? [] : (matcher.forced?.() ?? []);
  return Array.from(ids, (other) => ({ id: other, logprob: 0, sequence, forced: true }));
}

/** Whether a sequence ends with a token, which then says why. */
function ends(token, { ids, matcher }, { most, stops, until }, isLast) {
  ids.push(token.id);
  // Called for every token, also for the last.
  const isEnd = until?.(token) === true;
  if (isEnd || stops.some((stop) => endsWith(ids, stop)) || (isLast && matcher?.isDone)) token.finish = 'stop';
  else if (ids.length >= most) token.finish = 'length';
  return token.finish !== undefined;
}

/** A step for whoever observes the process: the sequences that it continues, and how many tokens each has by then. */
function stepOf({ label, contextState }, sequences, live) {
  const lengths = live.map((sequence) => sequences[sequence].prompt.length + sequences[sequence].ids.length);
  return { operator: NAME, label, device: contextState.device, sequences: [...live], lengths };
}

function triples(flat) {
  const list = [];
  for (let i = 0; i < flat.length; i += 3) list.push({ id: flat[i + 1], logprob: flat[i + 2], sequence: flat[i] });
  return list;
}

/** Lets script read and change the numbers of each sequence before a token is chosen. */
async function hooked({ session, signal, model }, flat, sequences, { hook, top, masks }) {
  const list = [];
  for (let i = 0; i < flat.length; i += 2) {
    const sequence = flat[i];
    const logits = new Float32Array(flat[i + 1]);
    const { prompt, ids } = sequences[sequence];
    const probable = top === 0 ? undefined : mostProbable(logits, top);
    const others = await hook?.(logits, { sequence, prompt, ids: [...ids] });
    signal?.throwIfAborted();
    if (others !== undefined && (!types.isFloat32Array(others) || others.length !== logits.length)) {
      throw typeError(NAME, model.label, `options: logits: found ${show(others)} as its result, allowed undefined, or a Float32Array of ${logits.length} elements`);
    }
    try {
      const [id, logprob] = native.chooseToken(session, sequence, others ?? logits, masks[i / 2]);
      // Without a hook both are of the same logits.
      const same = hook === undefined ? probable?.find((one) => one.id === id) : undefined;
      list.push({ id, logprob: same?.logprob ?? logprob, sequence, ...(probable && { top: probable }) });
    } catch (error) {
      throw nativeError(error);
    }
  }
  return list;
}

function endsWith(ids, stop) {
  const first = ids.length - stop.length;
  return first >= 0 && stop.every((id, i) => ids[first + i] === id);
}

function requireContext({ label, contextState }) {
  if (contextState.lost) throw invalidState(NAME, label, CONTEXT_LOST);
}

/** Asks the native side for something, which ends at once for the caller when the signal comes, and soon really. */
function ask(work, start) {
  const { model, session, signal } = work;
  const { label, contextState: context } = model;
  requireContext(model);
  signal?.throwIfAborted();
  const done = begin({ operator: NAME, label, context, arrive: (value) => value }, start);
  if (signal === undefined) return done;
  return new Promise((resolve, reject) => {
    const abort = () => {
      if (!work.isOver) native.cancelSequences(session);
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    done.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

module.exports = { generate };
