// Runs programs of the GPU backend on Dawn, as lib/webgpu/ does, for the tests in Rust (dawn.rs), which it talks to by its standard
// streams. A message is a line of JSON that ends with the lengths of parts, and then these parts.
//
// First it says what there is: {half, subgroups, limits}, or {why} there is nothing. Then, for each
// {name, shaders, steps, constants, arenaLength, outputLengths, findings, parts} with the parts dispatches, sizes, texts, constants, inputs: the
// outputs, or {failure}.
import { once } from 'node:events';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { LIMITS, checked, requiredFeatures, requiredLimits, usableFeatures } = require('../../lib/webgpu/device.js');
const { Pipelines, createExecutable } = require('../../lib/webgpu/executable.js');
const { GraphMemory } = require('../../lib/webgpu/graph-memory.js');

/** Messages on standard input. */
async function* messages() {
  let rest = Buffer.alloc(0);
  const chunks = process.stdin[Symbol.asyncIterator]();
  const more = async () => {
    const { value, done } = await chunks.next();
    if (!done) rest = Buffer.concat([rest, value]);
    return !done;
  };
  for (;;) {
    let end;
    while ((end = rest.indexOf('\n')) < 0) if (!(await more())) return;
    const header = JSON.parse(rest.subarray(0, end));
    const length = header.parts.reduce((sum, part) => sum + part, 0);
    rest = rest.subarray(end + 1);
    while (rest.length < length) if (!(await more())) return;
    let at = 0;
    const parts = header.parts.map((part) => rest.subarray(at, (at += part)));
    rest = rest.subarray(length);
    yield { ...header, parts };
  }
}

async function answer(header, parts = []) {
  const line = `${JSON.stringify({ ...header, parts: parts.map(({ length }) => length) })}\n`;
  if (!process.stdout.write(Buffer.concat([Buffer.from(line), ...parts]))) await once(process.stdout, 'drain');
}

async function run(device, pipelines, { name, shaders, steps, constants, arenaLength, outputLengths, findings, parts }) {
  const [dispatches, sizes, ...others] = parts;
  const texts = others.splice(0, shaders.length);
  const bytes = others.splice(0, constants.length);
  const description = {
    // Numbers begin at a multiple of their size.
    dispatches: Uint8Array.from(dispatches).buffer,
    steps, stepLabels: steps.map(() => ''), shaders, constants, arenaLength, outputLengths,
    // Nobody asks what was found.
    checks: [], findings: Array(findings).fill([]),
    sizes: Uint8Array.from(sizes).buffer,
  };
  const source = {
    shaderText: (shader) => texts[shader].toString(),
    copyConstant: (constant, offset, into) => into.set(bytes[constant].subarray(offset, offset + into.length)),
  };
  const executable = await createExecutable(device, pipelines, source, description, others.length, name, new GraphMemory(), () => {});
  const { result, complaint } = checked(device, () => executable.start(others, outputLengths.map(() => true), name, []));
  const outputs = await Promise.all(result.reads.map((read) => read()));
  const refused = await complaint;
  executable.destroy();
  if (refused) throw refused;
  return outputs;
}

/** Dawn ends when nobody has it. */
let gpu;

async function open() {
  const { create } = await import('webgpu');
  gpu = create([]);
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error('Dawn finds no adapter');
  return adapter.requestDevice({ requiredFeatures: requiredFeatures(adapter), requiredLimits: requiredLimits(adapter) });
}

try {
  const device = await open();
  await answer({ ...(await usableFeatures(device)), limits: LIMITS.map((name) => device.limits[name]) });
  const pipelines = new Pipelines();
  for await (const message of messages()) {
    await run(device, pipelines, message).then((outputs) => answer({}, outputs), (error) => answer({ failure: error.message }));
  }
} catch (error) {
  await answer({ why: error.message });
}
// Dawn's own threads would keep the process.
process.exit();
