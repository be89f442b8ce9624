'use strict';

// generate(): an iterator over the next tokens of sequences. Each step calls the native side once.

const { types } = require('node:util');
const native = require('../native.js');
const { invalidState, nativeError, typeError } = require('../errors.js');
const { modelOf } = require('../onnx/onnx-model.js');
const { NORMAL, scheduleOf } = require('../scheduling.js');
const { begin } = require('../settle.js');
const { show } = require('../show.js');
const { mostProbable } = require('./alternatives.js');
const { GenerationCache, NAME, decoderOf, release, sessionOf, take } = require('./cache.js');
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
  const cache = take(wish.cache ?? new GenerationCache(), model);
  let leave;
  model.enter();
  try {
    leave = model.contextState.queue?.enter(NAME, label);
    // A step that was under way when the last call ended.
    await cache.running;
    requireContext(model);
    const decoder = await decoderOf(model);
    const work = { model, cache, session: sessionOf(cache, decoder), signal: wish.signal };
    const { names, shapes, arrays } = readGiven(model, decoder.others, wish.inputs);
    cache.known = await ask(work, (request) => {
      native.beginSequences(request, work.session, prompts, wish.count, wish.numbers, ...wish.bias, wish.seed, names, shapes, arrays);
    });
    yield* tokens(work, prompts, wish, called);
  } finally {
    leave?.();
    if (wish.cache === undefined) {
      cache.destroyed = true;
    }
    release(cache);
    model.leave();
  }
}

async function* tokens(work, prompts, { most, count, stops, until, hook, top, schedule }, called) {
  const { session } = work;
  const isDirect = hook === undefined && top === 0;
  const { priority = NORMAL, timeout } = scheduleOf(work.model.contextState, schedule);
  // Of the first step, with which the work begins.
  let left = timeout === undefined ? -1 : Math.max(0, timeout - (performance.now() - called));
  const sequences = prompts.flatMap((prompt) => Array.from({ length: count }, () => ({ prompt, ids: [] })));
  let live = most > 0 ? [...sequences.keys()] : [];
  while (live.length > 0) {
    const chosen = await ask(work, (request) => native.continueSequences(request, session, live, isDirect, priority, left));
    left = -1;
    const step = isDirect ? triples(chosen) : await hooked(work, chosen, sequences, { hook, top });
    const going = [];
    for (const token of step) {
      const { ids } = sequences[token.sequence];
      ids.push(token.id);
      // Called for every token, also for the last.
      const isEnd = until?.(token) === true;
      if (isEnd || stops.some((stop) => endsWith(ids, stop))) token.finish = 'stop';
      else if (ids.length >= most) token.finish = 'length';
      else going.push(token.sequence);
    }
    live = going;
    yield* step;
  }
}

function triples(flat) {
  const list = [];
  for (let i = 0; i < flat.length; i += 3) list.push({ id: flat[i + 1], logprob: flat[i + 2], sequence: flat[i] });
  return list;
}

/** Lets script read and change the numbers of each sequence before a token is chosen. */
async function hooked({ session, signal, model }, flat, sequences, { hook, top }) {
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
      const [id, logprob] = native.chooseToken(session, sequence, others ?? logits);
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
  if (contextState.lost) throw invalidState(NAME, label, 'the MLContext was destroyed or lost');
}

/** Asks the native side for something, which ends at once for the caller when the signal comes, and soon really. */
function ask({ model, cache, session, signal }, start) {
  const { label, contextState: context } = model;
  requireContext(model);
  signal?.throwIfAborted();
  const done = begin({ operator: NAME, label, context, arrive: (value) => value }, start);
  cache.running = done.then(
    () => {},
    () => {},
  );
  if (signal === undefined) return done;
  return new Promise((resolve, reject) => {
    const abort = () => {
      if (cache.session === session) native.cancelSequences(session);
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    done.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

module.exports = { generate };
