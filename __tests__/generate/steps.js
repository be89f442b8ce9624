'use strict';

// Sequences of steps of decoders, told as data: the same list is run by onnxruntime-node in a process of its own, and here by run(),
// bindings and sessions. A step is { of, ids, hidden, lengths, write, looks, size, back }: it continues the step with that number, or nothing,
// by a list of tokens for each sequence of a batch; so many positions of the first sequence are masked, or all of each sequence but so many of
// the first; { name, at, value } is written into the elements of a past; the elements are looked at before they are passed; caches that
// continue nothing have that size, of which nothing is filled; so many of the last tokens are taken back before.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { HEAD } = require('./decoders.js');

const presentOf = (past) => past.replace('past_key_values', 'present');

/**
 * The values of a step's inputs.
 * @param {{name: string, heads: number}[]} pasts
 * @param {string[]} names of all inputs
 * @param {object} step
 * @param {{tokens: number, results: Record<string, any>} | undefined} before
 * @param {(type: string, data: any, shape: number[]) => any} make
 */
function feedsOf(pasts, names, { ids, hidden = 0, lengths, size = 0, back = 0 }, before, make) {
  const [batch, count] = [ids.length, ids[0].length];
  const past = (before?.tokens ?? 0) - back;
  const total = past + count;
  const shows = (i) => (lengths === undefined ? i >= hidden : i % total < lengths[Math.floor(i / total)]);
  const mask = BigInt64Array.from({ length: batch * total }, (_, i) => BigInt(shows(i)));
  const positions = BigInt64Array.from({ length: batch * count }, (_, i) => {
    if (lengths !== undefined) return BigInt(Math.max(0, lengths[Math.floor(i / count)] - count) + (i % count));
    const place = past + (i % count);
    return BigInt(i < count ? Math.max(0, place - hidden) : place);
  });
  const all = {
    input_ids: make('int64', BigInt64Array.from(ids.flat(), BigInt), [batch, count]),
    attention_mask: make('int64', mask, [batch, total]),
    position_ids: make('int64', positions, [batch, count]),
    write_indices: make('int64', new BigInt64Array(batch).fill(BigInt(past)), [batch]),
    nonpad_kv_seqlen: make('int64', new BigInt64Array(batch).fill(BigInt(total)), [batch]),
    past_sequence_length: make('int32', Int32Array.of(past), [1]),
  };
  const feeds = Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)));
  for (const { name, heads } of pasts) {
    feeds[name] = before?.results[presentOf(name)] ?? make('float32', new Float32Array(batch * heads * size * HEAD), [batch, heads, size, HEAD]);
  }
  return { feeds, tokens: total };
}

/** @param {{name: string, shape: any[]}[]} inputs */
const pastsOf = (inputs) => inputs.filter(({ name }) => name.startsWith('past_key')).map(({ name, shape }) => ({ name, heads: shape[1] }));

/**
 * Runs steps, one after the other.
 * @param {{name: string, shape: any[]}[]} inputs of the model
 * @param {object[]} steps
 * @param {(feeds: object) => Promise<Record<string, any>>} run
 * @param {(type: string, data: any, shape: number[]) => any} make
 * @returns {Promise<{tokens: number, results: Record<string, any>}[]>}
 */
async function runSteps(inputs, steps, run, make) {
  const done = [];
  const names = inputs.map(({ name }) => name);
  for (const step of steps) {
    const before = step.of === undefined ? undefined : done[step.of];
    if (step.looks) for (const tensor of Object.values(before.results)) if (tensor.data.length === 0) throw new Error('nothing is there');
    if (step.write !== undefined) before.results[step.write.name].data[step.write.at] = step.write.value;
    const { feeds, tokens } = feedsOf(pastsOf(inputs), names, step, before, make);
    done.push({ tokens, results: await run(feeds) });
  }
  return done;
}

/** The numbers of the results, as JSON has them. */
function numbersOf(done) {
  return done.map(({ results }) => Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, Array.from(data)])));
}

/**
 * What onnxruntime-node gives.
 * @param {{kind: string, steps: object[]}[]} list
 */
function expectedSteps(list) {
  const script = path.join(__dirname, 'steps-reference.js');
  return JSON.parse(execFileSync(process.execPath, [script], { input: JSON.stringify(list), maxBuffer: 1 << 28 }));
}

module.exports = { expectedSteps, numbersOf, pastsOf, presentOf, runSteps };
