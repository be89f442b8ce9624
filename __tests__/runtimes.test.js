'use strict';

// The API in other runtimes with Node-API: its suites, some conformance vectors of each operator, and what their Node-API makes of values
// of other kinds. In processes of theirs (runtimes/program.cjs), since jest runs in Node.js alone.

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { text } = require('node:stream/consumers');
const { environment, programOf } = require('./runtimes/programs.js');

const FILES = [
  ...['buffers', 'builder', 'commands', 'compute', 'context', 'dispatch', 'interfaces', 'messages', 'operators', 'order', 'timeline', 'webidl', 'wrong-inputs'].map((name) => `${name}.test.js`),
  ...['onnx/model.test.js', 'onnx/nodes.test.js', 'runtimes/kinds.js', 'runtimes/vectors.js'],
];

const everywhere = {
  'interfaces.test.js': Object.fromEntries(['where an argument is another object, also one of another copy', 'both copies'].map((name) => [`A3: objects are proved by brands › ${name}`, 'jest makes the copies'])),
};

/** Tests that are left out: the beginnings of their names by their files, each with the reason. */
const EXCEPTIONS = {
  Deno: everywhere,
  Bun: {
    ...everywhere,
    'compute.test.js': { "D2: nothing is detached when anything is wrong › Node's pool": 'its pool of Buffers can be transferred' },
    'commands.test.js': { 'a recording keeps what it needs': 'its garbage collector is called in another way' },
    'onnx/model.test.js': { 'large arrays › memory for the next results': 'its event loop has other rounds' },
  },
};

const LIMIT = 300_000;

/** What each file gave. */
async function outcomes({ program, args }, exceptions) {
  const skipped = Object.fromEntries(Object.entries(exceptions).map(([file, names]) => [file, Object.keys(names)]));
  const script = path.join(__dirname, 'runtimes', 'program.cjs');
  const child = spawn(program, [...args, script, JSON.stringify(skipped), ...FILES], { env: environment, stdio: ['ignore', 'pipe', 'pipe'], timeout: LIMIT });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  const found = stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  return { code, stderr, found: new Map(found.map(({ file, ...rest }) => [file, rest])) };
}

test('Deno without --allow-ffi: the message names the flag', () => {
  const deno = programOf('Deno');
  if (deno === undefined) return;
  const permissions = ['--allow-read', '--allow-env', '--allow-sys', '--no-prompt'];
  const said = (flags) => {
    const args = ['run', ...flags, '--no-lock', '--no-config', path.join(__dirname, 'runtimes', 'load.cjs')];
    return spawnSync(deno.program, args, { encoding: 'utf8', env: environment }).stdout;
  };
  expect(said(permissions)).toMatch(/^webnn-node: the native addon could not be loaded from .*: Deno may not load addons: run it with --allow-ffi/);
  expect(said([...permissions, '--allow-ffi'])).toBe('loaded\n');
});

describe.each(Object.keys(EXCEPTIONS))('%s', (runtime) => {
  const program = programOf(runtime);
  if (program === undefined) {
    test(`is not tested: its package is not installed`, () => console.info(`${runtime} is not tested: its package is not installed`));
    return;
  }
  let result;
  beforeAll(async () => {
    result = await outcomes(program, EXCEPTIONS[runtime]);
  }, LIMIT);

  test.each(FILES)('%s', (file) => {
    const { found, code, stderr } = result;
    if (!found.has(file)) throw new Error(`the process ended with ${code} before: ${stderr.slice(-2000)}`);
    const { passed, skipped, failed } = found.get(file);
    expect(failed).toEqual([]);
    // No exception is left that nothing needs.
    expect(skipped.sort()).toEqual(Object.keys(EXCEPTIONS[runtime][file] ?? {}).sort());
    if (file !== 'runtimes/vectors.js' || process.env.WEBNN_VECTORS) expect(passed).toBeGreaterThan(0);
  });

  test('nothing goes wrong at the end', () => expect(result.code).toBe(0));
});
