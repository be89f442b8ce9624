'use strict';

const { contextOptions, freeDimensions, oneModel, openContext, pairs, readOptions } = require('./options.js');
const { withProgress } = require('./progress.js');
const { makeConstants } = require('./values.js');

const usage = `webnn-node inspect MODEL.onnx [options]

  --dimension NAME=SIZE    the size of an open dimension; may be given again
  --constant NAME=VALUE    a file or number for an input that never changes; may be given again
  --device DEVICE          cpu (default), gpu or npu; \`devices\` lists them
  --threads N              threads on the CPU
  --fp-math MATH           strict (default), or bf16: the CPU may round the operands of products to bfloat16
  --json                   print JSON
  --help                   this text

If all sizes are known, the model is also compiled. This shows the memory that it needs, nodes with unsupported options, and
where the model is split because a shape depends on data. The exit code is 3 if nodes are not supported.
`;

async function run(args) {
  const { values, positionals } = readOptions(args, contextOptions);
  const file = oneModel(positionals);
  const dimensions = freeDimensions(values.dimension);
  const { inspectOnnx, loadOnnx } = require('../onnx.js');
  const constants = await makeConstants(pairs('constant', values.constant), dimensions, () => inspectOnnx(file));
  const summary = await withProgress('reading', file, () => inspectOnnx(file));
  const context = await openContext(values);
  const result = { model: file, ...summary, memory: undefined, notLoaded: undefined };
  try {
    const model = await withProgress('loading', file, (onProgress) => loadOnnx(context, file, { freeDimensions: dimensions, constants, onProgress }));
    result.memory = context.memoryUsage();
    result.openDimensions = [...new Set(model.inputs.flatMap(({ shape }) => (shape ?? []).filter((size) => typeof size === 'string')))];
    result.cuts = model.cuts;
    model.destroy();
  } catch (error) {
    if (error.nodes !== undefined) result.unsupported = error.nodes;
    else result.notLoaded = error.message;
  }
  context.destroy();
  console.log(values.json ? JSON.stringify(result, null, 2) : text(result));
  return result.unsupported.length > 0 ? 3 : 0;
}

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function text(result) {
  return [...content(result), ...needs(result), ...support(result)].join('\n');
}

/** What is in the file. */
function content(result) {
  const opsets = Object.entries(result.opsets).map(([domain, version]) => `${domain} ${version}`);
  const lines = [`${result.producer || 'unknown producer'}, IR version ${result.irVersion}, ${opsets.join(', ')}`];
  for (const side of ['inputs', 'outputs']) {
    lines.push(side);
    for (const { name, dataType, shape, sequence, optional } of result[side]) {
      const form = `${optional ? 'optional ' : ''}${sequence ? 'sequence of ' : ''}`;
      lines.push(`  ${name}  ${form}${dataType}[${shape === null ? '?' : shape.join(', ')}]`);
    }
  }
  const nodes = result.operators.reduce((sum, { count }) => sum + count, 0);
  lines.push(`${nodes} nodes`);
  const sorted = [...result.operators].sort((a, b) => b.count - a.count);
  for (const { domain, operator, count } of sorted) lines.push(`  ${String(count).padStart(6)}  ${domain === 'ai.onnx' ? '' : `${domain}.`}${operator}`);
  lines.push(`${result.parameters} parameters, ${mib(result.parameterBytes)}`);
  return lines;
}

/** What is known after loading: memory, open dimensions, cuts. */
function needs(result) {
  const lines = [];
  if (result.openDimensions?.length > 0) lines.push(`open dimensions: ${result.openDimensions.join(', ')}; a plan is made for each shape that a run has`);
  else if (result.memory !== undefined) lines.push(`memory when loaded: ${mib(result.memory.graphs)}`);
  if (result.cuts?.length > 0) {
    lines.push('split where the next part depends on data:');
    for (const { node, operator, reason } of result.cuts) lines.push(`  ${node}: ${operator}: ${reason}`);
  }
  if (result.notLoaded !== undefined) lines.push(`not loaded: ${result.notLoaded}`);
  return lines;
}

function support({ unsupported, memory, openDimensions }) {
  if (unsupported.length === 0) return [memory === undefined || openDimensions.length > 0 ? 'every operator is supported' : 'every node is supported'];
  const nodes = unsupported.map(({ name, operator, domain, version, reason }) => `  ${name}: ${operator} of ${domain} version ${version}: ${reason}`);
  return [`${unsupported.length} nodes are not supported`, ...nodes];
}

module.exports = { run, usage };
