'use strict';

// Selection of devices (docs/extensions.md B1, B2, B6) and what is particular to GPUs. Where there is no adapter at all, not even one in
// software, only the refusals are tested, and that is said.

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { ml, MLGraphBuilder } = require('..');
const { loadOnnx } = require('../lib/onnx.js');
const { writeModel } = require('./onnx/write.js');

const repository = path.join(__dirname, '..');

/** What a process with these environment variables prints of its contexts. */
function contexts(environment, options) {
  const program = `
    const { ml } = require(${JSON.stringify(repository)});
    const describe = (options) => ml.createContext(options).then(
      (context) => ({ accelerated: context.accelerated }),
      (error) => ({ error: error.name, message: error.message }),
    );
    Promise.all(${JSON.stringify(options)}.map(describe)).then((all) => console.log(JSON.stringify(all)));
  `;
  const env = { ...process.env, WEBNN_ADAPTER: '', WEBNN_LOG: '', ...environment };
  const ended = spawnSync(process.execPath, ['-e', program], { env, encoding: 'utf8', timeout: 50_000 });
  return { ...ended, contexts: ended.status === 0 ? JSON.parse(ended.stdout) : undefined };
}

let adapter;

beforeAll(async () => {
  try {
    adapter = await ml.createContext({ deviceType: 'gpu' });
  } catch (error) {
    console.info(`no GPU is tested: ${error.message}`);
  }
});

const onGpu = (name, body) => test(name, async () => {
  if (adapter) await body(adapter);
});

async function increment(context) {
  const builder = new MLGraphBuilder(context);
  const descriptor = { dataType: 'float32', shape: [3] };
  const x = builder.input('x', descriptor);
  const graph = await builder.build({ y: builder.add(x, builder.constant('float32', 1)) });
  const tensors = await Promise.all([1, 2].map(() => context.createTensor({ ...descriptor, readable: true, writable: true })));
  return { graph, tensors };
}

describe('selection', () => {
  test('B2: npu is refused', async () => {
    await expect(ml.createContext({ deviceType: 'npu' })).rejects.toMatchObject({ name: 'NotSupportedError' });
  });

  test('B1: accelerated: false, and deviceType cpu, are the CPU', async () => {
    for (const options of [{ accelerated: false }, { deviceType: 'cpu', accelerated: true }]) {
      expect((await ml.createContext(options)).accelerated).toBe(false);
    }
  });

  onGpu('B2: gpu wins over accelerated: false', async () => {
    const context = await ml.createContext({ deviceType: 'gpu', accelerated: false });
    expect((await increment(context)).graph.devices).toEqual(['gpu']);
  });

  onGpu('a GPU in software accelerates nothing', () => {
    const { contexts: [context], stderr } = contexts({ WEBNN_LOG: '1' }, [{ deviceType: 'gpu' }]);
    expect(context).toEqual({ accelerated: !/webnn: adapter .*, Cpu,/.test(stderr) });
  });

  test('an adapter that WEBNN_ADAPTER does not find is refused by its name, and not asked for is the CPU', () => {
    const [gpu, usual] = contexts({ WEBNN_ADAPTER: 'no such adapter' }, [{ deviceType: 'gpu' }, {}]).contexts;
    expect(gpu.error).toBe('NotSupportedError');
    expect(gpu.message).toMatch(/^createContext: .*"no such adapter"/);
    expect(usual).toEqual({ accelerated: false });
  });

  test('without any driver gpu is refused and the CPU is what one gets', () => {
    const nothing = path.join(__dirname, 'no-such-file.json');
    const [gpu, usual] = contexts({ VK_DRIVER_FILES: nothing, VK_ICD_FILENAMES: nothing }, [{ deviceType: 'gpu' }, {}]).contexts;
    // On systems whose GPUs are not Vulkan's this hides nothing.
    if (process.platform !== 'linux') return;
    expect(gpu).toMatchObject({ error: 'NotSupportedError' });
    expect(usual).toEqual({ accelerated: false });
  });

  onGpu('WEBNN_ADAPTER chooses an adapter by a part of its name, and WEBNN_LOG says which', () => {
    const found = contexts({ WEBNN_LOG: '1' }, [{ deviceType: 'gpu' }]);
    const name = /webnn: adapter "([^"]+)"/.exec(found.stderr)[1];
    const again = contexts({ WEBNN_ADAPTER: name.slice(0, 5).toUpperCase(), WEBNN_LOG: '1' }, [{}]);
    expect(again.contexts).toEqual(found.contexts);
    expect(again.stderr).toContain(name);
  });

  onGpu('WEBNN_GPU_FEATURES=none switches the optional features off', () => {
    const { stderr } = contexts({ WEBNN_GPU_FEATURES: 'none', WEBNN_LOG: '1' }, [{ deviceType: 'gpu' }]);
    expect(stderr).toMatch(/half: false, subgroups: false/);
  });
});

describe('on a GPU', () => {
  onGpu('C1, C5: chained dispatches keep their order, and reads see what came before them', async (context) => {
    const { graph, tensors: [a, b] } = await increment(context);
    context.writeTensor(a, new Float32Array([1, 2, 3]));
    const reads = [];
    for (let i = 0; i < 10; i++) {
      context.dispatch(graph, { x: a }, { y: b });
      context.dispatch(graph, { x: b }, { y: a });
      reads.push(context.readTensor(a));
    }
    const last = (await Promise.all(reads)).map((buffer) => new Float32Array(buffer)[2]);
    expect(last).toEqual([5, 7, 9, 11, 13, 15, 17, 19, 21, 23]);
  });

  onGpu('a model whose output is named as what all objects inherit', async (context) => {
    const shape = [2];
    const bytes = writeModel({
      opset: 17,
      inputs: [{ name: 'constructor', type: 'float', shape }],
      outputs: [{ name: '__proto__', type: 'float', shape }],
      nodes: [{ op: 'Neg', inputs: ['constructor'], outputs: ['__proto__'] }],
    });
    for (const each of [context, await ml.createContext({ deviceType: 'cpu' })]) {
      const model = await loadOnnx(each, bytes);
      const results = await model.run({ ['constructor']: Float32Array.of(1, -2) });
      expect(Object.entries(results).map(([name, { data }]) => [name, data])).toEqual([['__proto__', Float32Array.of(-1, 2)]]);
      const bindings = await model.createBindings();
      expect(Object.keys(bindings.outputs)).toEqual(['__proto__']);
      model.destroy();
    }
  });

  onGpu('D1: compute() gives the buffers back', async (context) => {
    const { graph } = await increment(context);
    const { inputs, outputs } = await context.compute(graph, { x: new Float32Array([1, 2, 3]) }, { y: new Float32Array(3) });
    expect([...inputs.x, ...outputs.y]).toEqual([1, 2, 3, 2, 3, 4]);
  });

  onGpu('B5: a tensor beyond maxTensorByteLength is refused with the limit', async (context) => {
    const { maxTensorByteLength } = context.opSupportLimits();
    expect(Math.log2(maxTensorByteLength + 1) % 1).toBe(0);
    const count = (maxTensorByteLength + 1) / 4;
    if (count > 2 ** 31 - 1) return;
    const descriptor = { dataType: 'float32', shape: [count] };
    const message = expect.stringContaining(`at most ${maxTensorByteLength} bytes on this device`);
    await expect(context.createTensor(descriptor)).rejects.toMatchObject({ name: 'TypeError', message });
    expect(() => new MLGraphBuilder(context).input('x', descriptor)).toThrow(TypeError);
  });

  onGpu('C9, B6: destroying a context rejects what is pending and resolves lost; another context goes on', async (context) => {
    const other = await ml.createContext({ deviceType: 'gpu' });
    const { graph, tensors: [a, b] } = await increment(other);
    other.dispatch(graph, { x: a }, { y: b });
    const read = other.readTensor(b);
    other.destroy();
    await expect(read).rejects.toMatchObject({ name: 'InvalidStateError' });
    expect(await other.lost).toMatchObject({ message: expect.any(String) });
    const { graph: again, tensors: [c, d] } = await increment(context);
    context.dispatch(again, { x: c }, { y: d });
    expect([...new Float32Array(await context.readTensor(d))]).toEqual([1, 1, 1]);
  });
});

onGpu('C11: equal constants are on a device once, and counted by others as shared; steps are counted as plans', async () => {
  const [first, second] = [await ml.createContext({ deviceType: 'gpu' }), await ml.createContext({ deviceType: 'gpu' })];
  const descriptor = { dataType: 'float32', shape: [40, 50] };
  const weights = Float32Array.from({ length: 2000 }, (_, i) => i % 17);
  const build = (context) => {
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', { dataType: 'float32', shape: [3, 40] });
    return builder.build({ y: builder.matmul(x, builder.constant(descriptor, weights)) });
  };
  const run = (context, graph) => context.compute(graph, { x: new Float32Array(120).fill(1) }, { y: new Float32Array(150) });
  const numbers = (context) => {
    const { packed, shared, plans } = context.memoryUsage();
    return [packed >= weights.byteLength, shared, plans > 0];
  };
  const graphs = [await build(first), await build(second)];
  expect([first, second].map(numbers)).toEqual([[true, 0, true], [false, weights.byteLength, true]]);
  const wanted = await run(first, graphs[0]);
  // Whoever is left has them.
  graphs[0].destroy();
  first.destroy();
  expect(await run(second, graphs[1])).toEqual(wanted);
  graphs[1].destroy();
  while (second.memoryUsage().shared > 0) await new Promise(setImmediate);
  expect(numbers(second)).toEqual([false, 0, false]);
  second.destroy();
});

describe('a dispatch that takes too long', () => {
  // B6, E6, E8: the limit is lowered until nothing keeps it.
  const program = `
    const { ml, MLGraphBuilder } = require(${JSON.stringify(repository)});
    (async () => {
      const context = await ml.createContext({ deviceType: 'gpu' });
      const builder = new MLGraphBuilder(context);
      const descriptor = { dataType: 'float32', shape: [3] };
      const x = builder.input('x', descriptor);
      const graph = await builder.build({ y: builder.sin(x) });
      const [from, to] = await Promise.all([1, 2].map(() => context.createTensor({ ...descriptor, readable: true })));
      const ask = async () => {
        context.dispatch(graph, { x: from }, { y: to });
        return context.readTensor(to);
      };
      // Nothing is finished in no time, though any number may be before anybody has looked.
      let read;
      do read = await ask().catch(({ name, message }) => ({ name, message }));
      while (!read.name);
      // Nothing else keeps the process alive until then.
      const alive = setInterval(() => {}, 60_000);
      const lost = await context.lost;
      clearInterval(alive);
      console.log(JSON.stringify({ read, lost }));
    })();
  `;

  onGpu('loses the context with a message, rejects reads, and lets the process end', () => {
    const env = { ...process.env, WEBNN_GPU_TIMEOUT: '0', WEBNN_LOG: '' };
    const ended = spawnSync(process.execPath, ['-e', program], { env, encoding: 'utf8', timeout: 50_000 });
    expect({ code: ended.status, signal: ended.signal }).toEqual({ code: 0, signal: null });
    const message = expect.stringContaining('a dispatch took longer than 0 s (WEBNN_GPU_TIMEOUT)');
    expect(JSON.parse(ended.stdout)).toEqual({ read: { name: 'InvalidStateError', message }, lost: { message } });
  });
});

describe('the end of a process', () => {
  // Long enough that it is under way when the process exits.
  const program = `
    const { ml, MLGraphBuilder } = require(${JSON.stringify(repository)});
    (async () => {
      const context = await ml.createContext({ deviceType: 'gpu' });
      const builder = new MLGraphBuilder(context);
      const descriptor = { dataType: 'float32', shape: [512, 512] };
      let y = builder.input('x', descriptor);
      for (let i = 0; i < 4; i++) y = builder.transpose(builder.sin(y));
      const graph = await builder.build({ y });
      const [from, to] = await Promise.all([1, 2].map(() => context.createTensor({ ...descriptor, readable: true })));
      for (let i = 0; i < 50; i++) context.dispatch(graph, { x: from }, { y: to });
      context.readTensor(to).catch(() => {});
      END
    })();
  `;

  for (const [name, end, code] of [
    ['process.exit() in the middle of work', 'process.exit(7);', 7],
    ['an uncaught exception', "setImmediate(() => { throw new Error('on purpose'); });", 1],
    ['nothing left to do', '', 0],
  ]) {
    onGpu(name, () => {
      // Without the cache the driver compiles when it is asked to exit.
      const env = { ...process.env, MESA_SHADER_CACHE_DISABLE: 'true', WEBNN_LOG: '' };
      const ended = spawnSync(process.execPath, ['-e', program.replace('END', end)], { env, timeout: 50_000 });
      expect({ code: ended.status, signal: ended.signal }).toEqual({ code, signal: null });
    });
  }
});
