'use strict';

// docs/extensions.md C23: graphs that are saved for later processes, as the cache explainer has them.

const { execFile, execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { ml, MLGraphBuilder } = require('..');
const { buildAdder, float32, useContext } = require('./adder.js');

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-saved-'));
const program = path.join(__dirname, 'processes', 'saved.js');
const bin = path.join(__dirname, '..', 'bin', 'webnn-node.js');
const folderNamed = (name) => path.join(root, name);
const graphs = (folder) => fs.readdirSync(folder).filter((name) => name.endsWith('.graph'));
const refused = (name, message = '') => ({ name, message: expect.stringContaining(message) });

// A process has one folder, so each test has processes of its own.
function run(options, steps, { environment = {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = execFile(process.execPath, [program, JSON.stringify(options)], { env: { ...process.env, WEBNN_CACHE: '', ...environment }, timeout: 60_000 }, (error, stdout) => (error ? reject(error) : resolve(JSON.parse(stdout))));
    child.stdin.end(JSON.stringify(steps));
  });
}

let built;
beforeAll(async () => {
  [built] = await run({}, [['build']]);
  expect(built).toMatch(/^[0-9a-f]{64}$/);
}, 60_000);

afterAll(() => fs.rmSync(root, { recursive: true }));

test('a later process gives the same results to the bit', async () => {
  const cache = folderNamed('later');
  const [first, saved, again, state] = await run({ cache }, [['build'], ['save', 'net'], ['load', 'net'], ['state']]);
  expect([first, saved, again]).toEqual([built, null, built]);
  expect(state.damaged).toBe(0);
  const [list, loaded, described, second, usage] = await run({ cache }, [['list'], ['load', 'net'], ['describe'], ['state'], ['usage']]);
  expect([list, loaded]).toEqual([['net'], built]);
  expect(described).toEqual({
    label: 'net',
    inputs: { ids: { dataType: 'int32', shape: [1, 8] } },
    outputs: { x: float32(1, 8, 384), y: float32(1, 16, 16, 24), z: float32(1, 384) },
  });
  // What the first process packed is found by hashes that the saved graph has.
  expect(second).toMatchObject({ misses: 0, written: 0, damaged: 0 });
  expect(second.hits).toBeGreaterThan(0);
  expect(usage.graphs).toBeGreaterThan(0);
  // Other options and another processor, so to speak: it is built again.
  expect(await run({ cache, numThreads: 2 }, [['load', 'net']])).toEqual([built]);
  const [portable] = await run({}, [['build']], { environment: { WEBNN_CPU: 'portable' } });
  expect(await run({ cache }, [['load', 'net']], { environment: { WEBNN_CPU: 'portable' } })).toEqual([portable]);
}, 120_000);

test('a saved graph is replaced, removed, and saved again under other keys', async () => {
  const cache = folderNamed('replaced');
  const steps = [['build'], ['save', 'a'], ['save', 'b'], ['build', 3], ['save', 'a'], ['list'], ['load', 'b'], ['destroy'], ['delete', 'b'], ['delete', 'b'], ['list'], ['load', 'b']];
  const said = await run({ cache }, steps);
  expect(said[5].sort()).toEqual(['a', 'b']);
  expect([said[6], said[8], said[9], said[10]]).toEqual([built, null, null, ['a']]);
  expect(said[11]).toEqual(refused('NotFoundError', "'b'"));
  const [third, saved, list, fourth] = await run({ cache }, [['load', 'a'], ['save', 'c'], ['list'], ['load', 'c']]);
  expect([third, saved, fourth]).toEqual([said[3], null, said[3]]);
  expect(list.sort()).toEqual(['a', 'c']);
  expect(third).not.toBe(built);
}, 120_000);

test('calls count in their order, whether they are awaited or not', async () => {
  const cache = folderNamed('order');
  const calls = [['save', 'x'], ['load', 'x'], ['list'], ['delete', 'x'], ['load', 'x'], ['list']];
  const [, [saved, loaded, , deleted]] = await run({ cache }, [['build'], ['together', ...calls.slice(0, 3)]]).then(([b, t]) => [b, [...t, null]]);
  expect([saved, loaded, deleted]).toEqual([null, built, null]);
  const [, said, list] = await run({ cache: folderNamed('order-2') }, [['build'], ['together', ['save', 'x'], ['delete', 'x'], ['load', 'x']], ['list']]);
  expect(said).toEqual([null, null, refused('NotFoundError')]);
  expect(list).toEqual([]);
}, 120_000);

test('any string is a key, and none is a path', async () => {
  const cache = folderNamed('keys');
  const keys = ['', '.', '..', '../x', '/etc/passwd', 'a/b', 'a\\b', 'NUL', '\0', '\n', '\u{1f600}', 'é', 'e\u0301', '\ud800', '\udc00', '\ufffd', '__proto__', 'secret', 'x'.repeat(100_000)];
  const [, ...said] = await run({ cache }, [['build'], ...keys.map((key) => ['save', key]), ['list']]);
  expect(said.slice(0, -1)).toEqual(keys.map(() => null));
  expect(said.at(-1).sort()).toEqual([...keys].sort());
  const names = fs.readdirSync(cache);
  expect(names.filter((name) => !/^([0-9a-f]{32}\.(graph|packed)|secret)$/.test(name))).toEqual([]);
  expect(graphs(cache)).toHaveLength(keys.length);
  expect(fs.readdirSync(root).filter((name) => name === 'x')).toEqual([]);
  const again = await run({ cache }, [...keys.map((key) => ['delete', key]), ['list'], ['save', 'x'.repeat(2 ** 20 + 1)]]);
  expect(again.at(-2)).toEqual([]);
}, 120_000);

test('damaged files are as if they were not there, or refused', async () => {
  const cache = folderNamed('damaged');
  await run({ cache }, [['build'], ['save', 'k']]);
  const [name] = graphs(cache);
  const file = path.join(cache, name);
  const whole = fs.readFileSync(file);
  const head = 64 + Number(whole.readBigUInt64LE(24));
  const withBit = (place) => {
    const bytes = Buffer.from(whole);
    bytes[place] ^= 4;
    return bytes;
  };
  const places = [0, 7, 8, 24, 31, 32, 48, 60, 64, Math.floor(head / 2), head - 1];
  const damages = [whole.subarray(0, 0), whole.subarray(0, 63), whole.subarray(0, head), whole.subarray(0, -1), Buffer.concat([whole, Buffer.alloc(1)]), ...places.map(withBit)];
  for (const bytes of damages) {
    fs.writeFileSync(file, bytes, { mode: 0o600 });
    const [list, loaded, state] = await run({ cache }, [['list'], ['load', 'k'], ['state']]);
    expect([list, loaded]).toEqual([[], refused('NotFoundError')]);
    expect(state.damaged).toBe(1);
    expect(fs.existsSync(file)).toBe(false);
  }
  // In each constant: it is found by whoever reads that.
  for (const packed of fs.readdirSync(cache).filter((entry) => entry.endsWith('.packed'))) fs.rmSync(path.join(cache, packed));
  for (let place = Math.ceil(head / 64) * 64; place < whole.length; place += Math.ceil(whole.length / 5)) {
    fs.writeFileSync(file, withBit(place), { mode: 0o600 });
    const [loaded] = await run({ cache }, [['load', 'k']]);
    expect(loaded).toMatchObject({ name: 'OperationError' });
    expect(fs.existsSync(file)).toBe(false);
    for (const packed of fs.readdirSync(cache).filter((entry) => entry.endsWith('.packed'))) fs.rmSync(path.join(cache, packed));
  }
  fs.writeFileSync(file, whole, { mode: 0o600 });
  expect(await run({ cache }, [['load', 'k']])).toEqual([built]);
  // Under another name, and of another folder.
  fs.renameSync(file, path.join(cache, `${'0'.repeat(32)}.graph`));
  expect(await run({ cache }, [['list'], ['load', 'k']])).toEqual([[], refused('NotFoundError')]);
  const other = folderNamed('other');
  await run({ cache: other }, [['list']]);
  fs.writeFileSync(path.join(other, name), whole, { mode: 0o600 });
  expect(await run({ cache: other }, [['list'], ['load', 'k']])).toEqual([[], refused('NotFoundError')]);
}, 300_000);

test('processes race', async () => {
  const cache = folderNamed('race');
  await run({ cache }, [['build'], ['save', 'k']]);
  const steps = [['build'], ['save', 'k'], ['load', 'k'], ['save', 'k'], ['list'], ['load', 'k']];
  const all = await Promise.all(Array.from({ length: 8 }, () => run({ cache }, steps)));
  for (const said of all) expect(said).toEqual([built, null, built, null, ['k'], built]);
  expect(graphs(cache)).toHaveLength(1);
  expect(fs.readdirSync(cache).filter((name) => name.endsWith('.new'))).toEqual([]);
}, 120_000);

test('a process that is killed while it saves leaves nothing that others read', async () => {
  const cache = folderNamed('killed');
  await run({ cache }, [['build'], ['save', 'k']]);
  const saves = Array.from({ length: 500 }, () => ['save', 'k']);
  const child = spawn(process.execPath, [program, JSON.stringify({ cache })], { stdio: ['pipe', 'ignore', 'inherit'] });
  child.stdin.end(JSON.stringify([['build'], ...saves]));
  const watcher = fs.watch(cache);
  await once(watcher, 'change');
  watcher.close();
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(await run({ cache }, [['list'], ['load', 'k']])).toEqual([['k'], built]);
}, 120_000);

test('a graph larger than the cache is refused, and the oldest give way', async () => {
  const cache = folderNamed('small');
  const environment = { WEBNN_CACHE_BYTES: '1000000' };
  const [, said] = await run({ cache }, [['build'], ['save', 'k']], { environment });
  expect(said).toEqual(refused('QuotaExceededError', 'may have 1000000'));
  expect(graphs(cache)).toEqual([]);
}, 60_000);

test('without a cache, graphs with few constants are kept', async () => {
  const environment = { XDG_CACHE_HOME: folderNamed('home'), LOCALAPPDATA: folderNamed('home'), HOME: folderNamed('home') };
  const [, said, , kept, loaded] = await run({}, [['build'], ['save', 'k'], ['build', 2, { cache: true }], ['save', 'k'], ['load', 'k']], { environment });
  expect(said).toEqual(refused('NotSupportedError', '{cache: true}'));
  expect([kept, loaded]).toEqual([null, built]);
  // By origin: programs of another package have graphs of their own.
  const script = `
    const { ml, MLGraphBuilder } = require(${JSON.stringify(path.join(__dirname, '..'))});
    (async () => {
      const context = await ml.createContext({ accelerated: false });
      const before = await context.listGraphs();
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', { dataType: 'float32', shape: [2] });
      await context.saveGraph('own', await builder.build({ y: builder.add(x, builder.constant('float32', 1)) }));
      console.log(JSON.stringify([before, await context.listGraphs()]));
    })();`;
  for (const name of ['one', 'two']) {
    const folder = folderNamed(name);
    fs.mkdirSync(folder);
    fs.writeFileSync(path.join(folder, 'package.json'), '{}');
    fs.writeFileSync(path.join(folder, 'main.js'), script);
    const said = execFileSync(process.execPath, [path.join(folder, 'main.js')], { encoding: 'utf8', env: { ...process.env, WEBNN_CACHE: '', ...environment } });
    expect(JSON.parse(said)).toEqual([[], ['own']]);
  }
  expect(await run({}, [['list']], { environment })).toEqual([['k']]);
}, 120_000);

test('the command line lists, checks and clears saved graphs', async () => {
  const folder = folderNamed('command');
  await run({ cache: folder }, [['build'], ['save', 'a "key"']]);
  const cache = (...args) => execFileSync(process.execPath, [bin, 'cache', ...args, '--folder', folder], { encoding: 'utf8' });
  const saved = JSON.parse(cache('list', '--json')).files.filter(({ graph }) => graph !== undefined);
  expect(saved).toMatchObject([{ name: graphs(folder)[0], graph: { key: 'a "key"', origin: '' } }]);
  expect(cache('list')).toContain('.graph  "a \\"key\\""');
  expect(JSON.parse(cache('check', '--json')).damaged).toEqual([]);
  const file = path.join(folder, graphs(folder)[0]);
  const bytes = fs.readFileSync(file);
  bytes[bytes.length - 1000] ^= 1;
  fs.writeFileSync(file, bytes);
  expect(() => cache('check')).toThrow('Command failed');
  expect(graphs(folder)).toEqual([]);
  await run({ cache: folder }, [['build'], ['save', 'k']]);
  cache('clear');
  expect(fs.readdirSync(folder)).toEqual(['secret']);
}, 120_000);

describe('arguments', () => {
  const held = useContext({ accelerated: false });

  test('are checked before anything is done', async () => {
    const { context } = held;
    const graph = await buildAdder(context);
    const other = await ml.createContext({ accelerated: false });
    const foreign = await buildAdder(other);
    for (const call of [() => context.saveGraph(Symbol('s'), graph), () => context.saveGraph('k', {}), () => context.saveGraph('k', foreign), () => context.saveGraph('x'.repeat(2 ** 20 + 1), graph)]) {
      await expect(call()).rejects.toThrow(TypeError);
    }
    await expect(context.loadGraph(Symbol('s'))).rejects.toThrow(TypeError);
    expect(() => context.deleteGraph(Symbol('s'))).toThrow(TypeError);
    graph.destroy();
    await expect(context.saveGraph('k', graph)).rejects.toMatchObject({ name: 'InvalidStateError' });
    other.destroy();
    for (const call of [() => other.saveGraph('k', foreign), () => other.loadGraph('k'), () => other.listGraphs()]) {
      await expect(call()).rejects.toMatchObject({ name: 'InvalidStateError' });
    }
    expect(() => other.deleteGraph('k')).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
    await expect(ml.createContext({ cache: 5 })).rejects.toThrow(TypeError);
    await expect(ml.createContext({ cache: '' })).rejects.toThrow(TypeError);
  });

  test('inputs and outputs of a graph are frozen, and the same each time', async () => {
    const builder = new MLGraphBuilder(held.context);
    const graph = await builder.build({ __proto__: null, y: builder.relu(builder.input('__proto__', float32(2, 3))) });
    expect(Object.entries(graph.inputs)).toEqual([['__proto__', float32(2, 3)]]);
    expect(graph.outputs).toBe(graph.outputs);
    expect([graph.outputs, graph.outputs.y, graph.outputs.y.shape].every(Object.isFrozen)).toBe(true);
  });
});
