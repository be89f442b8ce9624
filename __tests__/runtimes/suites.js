'use strict';

// As much of jest as the suites of the API use, for runtimes that jest does not run in.

const { expect } = require('expect');

/** @typedef {{ before: (() => unknown)[], after: (() => unknown)[], beforeEach: (() => unknown)[], afterEach: (() => unknown)[], parts: (Block | Test)[], title: string }} Block */
/** @typedef {{ title: string, work: () => unknown }} Test */

const block = (title) => ({ title, before: [], after: [], beforeEach: [], afterEach: [], parts: [] });

/** One that is being described. @type {Block} */
let open = block('');

function describe(title, work) {
  const outer = open;
  open = block(title);
  outer.parts.push(open);
  work();
  open = outer;
}

const test = (title, work) => open.parts.push({ title, work });
test.skip = () => {};

/** A title for each row: `$name` is a member of it, `%s` its first value. */
const each = (register) => (rows) => (title, work) =>
  rows.forEach((row) => {
    const list = Array.isArray(row) ? row : [row];
    const named = title.replace(/\$(\w+)/g, (_, name) => String(row[name])).replace('%s', () => String(list[0]));
    register(named, () => work(...list));
  });
describe.each = each(describe);
test.each = each(test);

Object.assign(globalThis, {
  describe, test, it: test, expect,
  beforeAll: (work) => open.before.push(work),
  afterAll: (work) => open.after.push(work),
  beforeEach: (work) => open.beforeEach.push(work),
  afterEach: (work) => open.afterEach.push(work),
});

async function all(list) {
  for (const work of list) await work();
}

/** Beginnings of names. @type {string[]} */
let leaveOut = [];

/**
 * @param {Block} outer
 * @param {{ passed: number, skipped: string[], failed: string[] }} tally
 * @param {Block[]} above
 */
async function runBlock(outer, tally, above = []) {
  const blocks = [...above, outer];
  const name = (title) => [...blocks.map((one) => one.title), title].filter(Boolean).join(' › ');
  try {
    await all(outer.before);
    for (const part of outer.parts) {
      if ('parts' in part) await runBlock(part, tally, blocks);
      else await runTest(part, name(part.title), blocks, tally);
    }
    await all(outer.after);
  } catch (error) {
    tally.failed.push(`${name('')}: ${error?.stack ?? error}`);
  }
}

async function runTest({ work }, name, blocks, tally) {
  const beginning = leaveOut.find((one) => name.startsWith(one));
  if (beginning !== undefined) {
    tally.skipped.push(beginning);
    return;
  }
  try {
    await all(blocks.flatMap((one) => one.beforeEach));
    await work();
    await all(blocks.toReversed().flatMap((one) => one.afterEach));
    tally.passed++;
  } catch (error) {
    tally.failed.push(`${name}: ${error?.message ?? error}`);
  }
}

/**
 * Runs what a function registers.
 * @param {string} title
 * @param {() => void} register
 * @param {string[]} skipped beginnings of the names of tests
 * @returns {Promise<{ passed: number, skipped: string[], failed: string[] }>} of what was left out those beginnings
 */
async function suite(title, register, skipped) {
  const tally = { passed: 0, skipped: [], failed: [] };
  leaveOut = skipped;
  open = block('');
  try {
    register();
  } catch (error) {
    tally.failed.push(`${title}: ${error?.stack ?? error}`);
  }
  await runBlock(open, tally);
  return tally;
}

module.exports = { suite };
