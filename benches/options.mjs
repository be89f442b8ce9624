// The command line.
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

const names = (folder) =>
  readdirSync(new URL(`${folder}/`, import.meta.url))
    .filter((file) => file.endsWith('.mjs'))
    .map((file) => file.replace('.mjs', ''));

export const workloads = names('workloads');
const engines = names('engines');

const usage = `npm run bench -- [workloads | WORKLOAD | models DIR] [options]

  --only NAME      only this workload, and those whose names begin with it; may be given again. There are: ${workloads.join(', ')}
  --models DIR     the .onnx files of this folder on both engines, instead of the workloads
  --dimension N=S  with --models: size of an open dimension; may be given again
  --rounds N       rounds of four processes each (default 5)
  --threads N      threads of each engine (default 1)
  --busy N         N other processes that keep cores busy (default 0)
  --quick          one short round, to check that everything runs; its numbers mean nothing
  --left ENGINE    engine on the left (default webnn-node). There are: ${engines.join(', ')}
  --right ENGINE   engine on the right (default onnxruntime-node)
  --json FILE      write everything that was measured
  --help           this text
`;

export function readOptions(args) {
  let values;
  try {
    ({ values } = parseArgs({
      args,
      options: {
        only: { type: 'string', multiple: true, default: workloads.filter((name) => !name.startsWith('shapes_')) },
        models: { type: 'string' },
        dimension: { type: 'string', multiple: true, default: [] },
        rounds: { type: 'string' },
        threads: { type: 'string', default: '1' },
        busy: { type: 'string', default: '0' },
        quick: { type: 'boolean', default: false },
        left: { type: 'string', default: 'webnn-node' },
        right: { type: 'string', default: 'onnxruntime-node' },
        json: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (error) {
    refuse(error.message);
  }
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  const only = values.only.flatMap((name) => named(name));
  for (const side of ['left', 'right']) oneOf(`--${side}`, values[side], engines);
  return {
    ...values,
    only,
    dimensions: Object.fromEntries(values.dimension.map(dimension)),
    rounds: count('--rounds', values.rounds ?? (values.quick ? '1' : '5')),
    threads: count('--threads', values.threads),
    busy: values.busy === '0' ? 0 : count('--busy', values.busy),
    warmUpMs: values.quick ? 20 : 300,
    sampleMs: values.quick ? 50 : 1000,
  };
}

function dimension(text) {
  const [, name, size] = /^(.+)=(\d+)$/.exec(text) ?? refuse(`--dimension ${text}: NAME=SIZE is expected`);
  return [name, Number(size)];
}

/** A workload, and those that belong to it: shapes has shapes_images, and so on. */
function named(name) {
  oneOf('--only', name, workloads);
  return workloads.filter((other) => other === name || other.startsWith(`${name}_`));
}

function oneOf(option, name, allowed) {
  if (!allowed.includes(name)) refuse(`${option} ${name}: there is ${allowed.join(', ')}`);
}

function count(option, text) {
  if (!/^[1-9]\d{0,3}$/.test(text)) refuse(`${option} ${text}: a whole number from 1 is expected`);
  return Number(text);
}

function refuse(message) {
  console.error(`${message}\n\n${usage}`);
  process.exit(2);
}
